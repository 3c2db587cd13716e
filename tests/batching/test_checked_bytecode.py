"""What the interpreter of bytecode computes is what CPython computes, and what it does not know it refuses."""

# Every way to write something is here for the instructions that it becomes.
# ruff: noqa: C405, C408, C416, C417, PIE800, PIE804, RUF021, UP031, UP032

from __future__ import annotations

import dis
import itertools
import math
import sys
from typing import NamedTuple

import pytest

import extempo as ex
from extempo.batching.checked_bytecode import _HANDLERS, CheckedRun
from extempo.batching.pure_calls import Impure
from extempo.batching.read_search import searched

NUMBERS = [3, 1, 2]


def run(fn, *args, **kwargs):
    return CheckedRun(object()).run(fn, args, kwargs)


class Point(NamedTuple):
    x: int
    y: int


class Counter:
    step = 2

    def __init__(self, n):
        self.n = n

    @property
    def double(self):
        return self.plus(self.n)

    @staticmethod
    def half(n):
        return n / 2

    @classmethod
    def of(cls, n):
        return cls.step * n

    def plus(self, k):
        return self.n + k


class Derived(Counter):
    def plus(self, k):
        return super().plus(k) * 10


def arithmetic(a, b):
    a += b
    a *= 2
    return a + b, a - b, a * b, a / b, a // b, a % b, a**2, -a, +a, ~a, a & b, a | b, a ^ b, a << 1, a >> 1, not a


def comparisons(a, b):
    return a < b, a <= b, a == b, a != b, a > b, a >= b, a is None, b is not None, a in (1, 2), b not in [3], 0 < a < b


def branches(a, b):
    result = []
    if a > b:
        result.append("a")
    elif a == b:
        result.append("same")
    else:
        result.append("b")
    result.append(a and b or 5)
    result.append(None if a is None else b)
    if a is not None and (b or a):
        result += ["both"]
    return result if result else None


def loops(a, b):
    total = []
    for i in range(a):
        if i == 2:
            continue
        for j in range(b):
            if j == 3:
                break
            total.append((i, j))
        else:
            total.append("else")
    n = 0
    while n < 5:
        n += 2
    while True:
        n -= 1
        if n < 0:
            break
    return total, n


def containers(a, b):
    x = [a, b, *range(a), *(1, 2)]
    y = {"a": a, "b": b, **{"c": 3}}
    z = {a, b, 7}
    t = (a, *x[1:3], b)
    x[0] = 9
    del x[1]
    y["d"] = y.get("e", 4)
    x.extend([5, 6])
    x.insert(0, 1)
    x.reverse()
    first, *middle, last = x
    (p, q), r = (a, b), 3
    z.add(8)
    x[1:2] = [0, 0]
    return x, y, sorted(z), t, first, middle, last, p, q, r, x[::2], x[-1], "abc"[1:], list(y.items()), 3 in x, len(y)


def comprehensions(a, b):
    squares = [i * i for i in range(a) if i != 1]
    named = {i: j for i, j in enumerate(squares)}
    unique = {i % 2 for i in squares}
    nested = [[i + j + b for j in range(i)] for i in range(a)]
    total = sum(i * b for i in squares)
    return squares, named, unique, nested, total, tuple(i for i in squares), list(map(lambda i: i + a, squares))


def builtins_(a, b):
    pairs = list(zip([a, b], "xy", strict=True))
    return (
        *(len([a, b]), abs(-a), min(a, b), max([a, b]), sum([a, b], 1), round(a / b, 2), divmod(a, b), pow(a, 2)),
        *(pairs, list(reversed([a, b])), list(enumerate([a], start=2)), tuple(range(a)), dict(x=a), set([a]), bool(a)),
        *(int("3"), float(a), str(b), isinstance(a, int), isinstance(a, (str, list)), isinstance(b, int | str)),
        *(math.sqrt(a), math.pi, math.prod([a, b]), any([a, 0]), all([a, 0]), sorted([b, a]), next(iter([a]))),
        *(list(itertools.chain([a], [b])), list(itertools.product([a], [b])), next(iter([]), None), list(), tuple()),
    )


def functions(a, b):
    def inner(x, /, y=2, *rest, z, w=b, **named):
        return x, y, rest, z, w, named

    def adder(n):
        return lambda x: x + n + a

    n = 0

    def count(step=1):
        nonlocal n
        n += step
        return n

    count()
    count(step=a)
    return inner(1, z=3), inner(1, 5, 6, 7, z=3, w=4, v=5), inner(*[1, 2], **{"z": 8}), adder(b)(3), n


def objects(a, b):
    one, point = ONE, Point(a, y=b)
    x, y = point
    return (
        one.n,
        one.double,
        one.half(a),
        one.of(b),
        Counter.of(a),
        Counter.half(b),
        point.x,
        point[1],
        x,
        y,
        one.step,
        TWO.plus(a),
    )


def text(a, b):
    return f"{a} and {b!r:>4} {a:03d}", "x".join(["a", "b"]), "%d" % a, "{}".format(b), "abc".upper()


def attempts(a, b):
    try:
        result = a + b
    except ValueError:
        result = 0
    else:
        result += 1
    finally:
        result = result * 2
    assert result, "never"
    return result


ONE, TWO = Counter(4), Derived(5)
FUNCTIONS = [arithmetic, comparisons, branches, loops, containers, comprehensions, builtins_, functions, objects, text]


@pytest.mark.parametrize("args", [(3, 4), (5, 2), (1, 1), (4, 7)])
@pytest.mark.parametrize("fn", [*FUNCTIONS, attempts], ids=lambda fn: fn.__name__)
def test_a_function_gives_what_it_gives(fn, args):
    expected = fn(*args)
    assert run(fn, *args) == expected
    assert repr(run(fn, *args)) == repr(expected)


def test_ops_give_what_they_give():
    def without_reading(a, b):
        x = ex.arange(6.0).view(2, 3)
        n, m = x.shape
        y = (x.T @ x + a)[..., 0:2].sum(-1) / math.sqrt(m)
        z = ex.zeros(2)
        z[0] = a
        z += 1
        return ex.cat([y, *[row * b for row in x], z, x.flatten()]), n, m, x.dim(), x.size(0), len(x)

    got, expected = run(without_reading, 3, 4), without_reading(3, 4)
    assert got[0].tolist() == expected[0].tolist()
    assert got[1:] == expected[1:]


def test_every_way_to_call_a_function_binds_its_arguments():
    def fn(a, b=2, /, c=3, *d, e=5, f, **g):
        return a, b, c, d, e, f, g

    for args, kwargs in (((1,), {"f": 6}), ((1, 2, 3, 4, 5), {"f": 6, "x": 7}), ((1,), {"c": 9, "f": 0, "a": 3})):
        assert run(fn, *args, **kwargs) == fn(*args, **kwargs)
    for args, kwargs in (((), {"f": 6}), ((1,), {}), ((1, 2, 3), {"c": 4, "f": 5})):
        with pytest.raises(TypeError):
            run(fn, *args, **kwargs)
    with pytest.raises(TypeError):
        run(lambda a: a, 1, 2)
    with pytest.raises(TypeError):
        run(lambda a: a, 1, b=2)


def sets_attribute(x):
    x.n = 1


def sets_global(x):
    global NUMBERS
    NUMBERS = x


def has_with(x):
    with x:
        return 1


def raises(x):
    raise ValueError


def imports(x):
    import math

    return math


def generates(x):
    yield x


def matches(x):
    match x:
        case {"a": 1}:
            return 1
    return 2


def runs_on(x):
    while True:
        x += 1


def recurses(x):
    return recurses(x + 1)


def calls_generator(x):
    return list(generates(x))


REFUSED = [
    sets_attribute,
    sets_global,
    has_with,
    raises,
    imports,
    generates,
    matches,
    runs_on,
    recurses,
    calls_generator,
]


@pytest.mark.parametrize("fn", REFUSED, ids=lambda fn: fn.__name__)
def test_what_may_have_an_effect_is_refused_before_it_has_one(fn):
    with pytest.raises(Impure):
        run(fn, ONE if fn is sets_attribute else 1)
    assert ONE.n == 4
    assert NUMBERS == [3, 1, 2]


def test_a_refusal_names_the_innermost_line_of_the_user():
    def outer(x):
        return sets_attribute(x)

    with pytest.raises(Impure, match=r"it sets the attribute n, at .*test_checked_bytecode.py:\d+$") as error:
        run(outer, ONE)
    assert str(error.value).endswith(str(sets_attribute.__code__.co_firstlineno + 1))


def test_what_is_read_is_to_be_watched():
    def reads(x):
        return NUMBERS[0] + ONE.n + x

    checked = CheckedRun(object())
    checked.run(reads, (1,), {})
    assert checked.unwatched(searched(reads)) == ""
    assert "NUMBERS" in checked.unwatched(searched(lambda: 0))


def test_instructions_of_this_python_that_have_no_effect_are_known():
    """Those of the functions above, whose number is not to shrink unnoticed with a new Python."""
    used = {step.opname for fn in (*FUNCTIONS, attempts) for step in dis.get_instructions(fn)}
    handlers = {"PUSH_EXC_INFO", "CHECK_EXC_MATCH", "POP_EXCEPT", "RERAISE", "RAISE_VARARGS"}  # of errors
    assert used - handlers <= set(_HANDLERS), sys.version
