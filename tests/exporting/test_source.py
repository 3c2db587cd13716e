"""Rewriting source: closures, defaults, methods, lambdas and lines stay; what has no source stays as it is."""

from __future__ import annotations

import linecache
import math
from types import SimpleNamespace

import extempo as ex
from extempo.exporting.source import converted, is_users


class Plain:
    """A control that does what Python does, and notes what it was asked."""

    def __init__(self):
        self.calls = []

    def maybe(self, value):
        try:
            return value()
        except NameError:
            return None

    def call(self, fn, *args, **kwargs):
        self.calls.append(getattr(fn, "__name__", "?"))
        return fn(*args, **kwargs)

    def if_(self, test, yes, no, names, values, sets):
        return (yes if test else no)(*values)

    def if_return(self, test, yes, no, values):
        return (yes if test else no)(*values)

    def if_expression(self, test, yes, no):
        return yes() if test else no()

    def and_(self, *thunks):
        return all(t() for t in thunks)

    def or_(self, *thunks):
        return any(t() for t in thunks)

    def and_value(self, *thunks):
        for thunk in thunks:
            value = thunk()
            if not value:
                break
        return value

    def or_value(self, *thunks):
        for thunk in thunks:
            value = thunk()
            if value:
                break
        return value

    def assert_(self, test, message, source):
        assert test, message()

    def raise_if(self, test, error, source):
        if test:
            error()

    def augment(self, owner, name, sign, value):
        setattr(owner, name, getattr(owner, name) + value)

    def subscript(self, value, index):
        return value[index]

    def not_(self, value):
        return not value

    def while_(self, test, step, names, values, sets):
        while test(*values):
            values = step(*values)
        return values

    def for_(self, items, step, names, values, lists, sets):
        for item in items:
            values = step(item, *values)
        return values

    def list_of(self, fn, items):
        return [fn(x) for x in items]


def collatz(n, limit=100, *, factor=3):
    steps = 0
    while n != 1 and steps < limit:
        if n % 2 == 0:
            n //= 2
        else:
            n = factor * n + 1
        steps += 1
    return steps


def first_square_above(bound, numbers):
    for x in numbers:
        if x < 0:
            continue
        if x * x > bound:
            return x
        if x > 50:
            break
    return None


def classify(x):
    if x < 0:
        return "negative"
    if 0 < x < 10:
        kind = "small"
    else:
        if x == 0:
            return "zero"
        kind = "large"
    return kind + "!"


def test_rewritten_functions_do_what_they_did():
    for n in range(1, 30):
        assert converted(collatz, Plain())(n) == collatz(n)
        assert converted(collatz, Plain())(n, limit=5, factor=5) == collatz(n, limit=5, factor=5)
    for numbers in ([1, -7, 3, 8], [51, 60], [], [-1]):
        assert converted(first_square_above, Plain())(20, numbers) == first_square_above(20, numbers)
        assert converted(first_square_above, Plain())(9000, numbers) == first_square_above(9000, numbers)
    for x in (-1, 0, 5, 50):
        assert converted(classify, Plain())(x) == classify(x)


def test_closures_methods_and_super_stay():
    offset = 3

    class Base:
        def value(self, x):
            return x + 1

    class Derived(Base):
        def value(self, x):
            if x > 0:
                x = super().value(x)
            return x + offset

    plain = Plain()
    made = converted(Derived.value, plain)
    assert made(Derived(), 1) == 5
    assert plain.calls == ["value"]
    assert made.__qualname__ == Derived.value.__qualname__


def test_lambdas_are_found_in_their_line():
    double = lambda x: x * 2 if x > 0 else -x  # noqa: E731 - it is about lambdas
    holder = SimpleNamespace(fn=lambda a, b: a and b)
    assert converted(double, Plain())(-4) == 4
    assert converted(holder.fn, Plain())(1, 2)


def test_lambdas_of_one_line_are_told_apart():
    named = {"lambda": (lambda x: x or 1, lambda x: x or 2, lambda x: (lambda x: x or 3)(x or 0))}
    made = [converted(fn, Plain()) for fn in named["lambda"]]
    assert all(new is not fn for new, fn in zip(made, named["lambda"], strict=True))
    assert [fn(0) for fn in made] == [1, 2, 3]


def test_lines_of_rewritten_code_are_those_of_the_source():
    def fails(x):
        if x:
            x = x + 1
        return 1 / (x - x)

    try:
        converted(fails, Plain())(1)
    except ZeroDivisionError as error:
        line = error.__traceback__.tb_next.tb_lineno
    assert line == fails.__code__.co_firstlineno + 3


def test_what_has_no_source_or_yields_stays_as_it_is():
    def numbers():
        yield 1

    made: dict = {}
    exec("def fn(x):\n    return x if x else 0", made)
    assert converted(numbers, Plain()) is numbers
    assert converted(made["fn"], Plain()) is made["fn"]


def test_only_the_users_own_functions_are_rewritten():
    assert is_users(collatz)
    assert not is_users(ex.nn.functional.relu)
    assert not is_users(math.sqrt)
    assert not is_users(SimpleNamespace)


def test_many_branches_that_may_return_do_not_double_what_follows():
    lines = [
        f"    if x > {k}:\n        x = x + 1\n        if x % {k + 2} == 0:\n            return x * {k}\n"
        for k in range(30)
    ]
    made: dict = {}
    text = "def fn(x):\n" + "".join(lines) + "    return x\n"
    filename = "<many branches>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    exec(compile(text, filename, "exec"), made)
    rewritten = converted(made["fn"], Plain())
    assert rewritten is not made["fn"]
    assert [rewritten(x) for x in range(60)] == [made["fn"](x) for x in range(60)]


def _decorated(fn):
    return fn


@_decorated
@_decorated
def _with_decorators(x):
    # a line that is not further in, inside of a string, and one after it
    text = """
not further in
"""
    return len(text) if x else 0


def _with_a_long_signature(
    x,
    y=2,
):
    return x + y if x else y


def test_a_definition_is_found_whole_whatever_its_lines_look_like():
    for fn, args in ((_with_decorators, (1,)), (_with_a_long_signature, (3,))):
        made = converted(fn, Plain())
        assert made is not fn
        assert made(*args) == fn(*args)
        assert made.__code__.co_firstlineno >= fn.__code__.co_firstlineno


def test_finding_a_definition_resolves_no_path_of_other_modules(monkeypatch):
    def plainly(x):
        return x + 1 if x else 0

    monkeypatch.setattr("inspect.getsourcelines", None)
    assert converted(plainly, Plain()) is not plainly
