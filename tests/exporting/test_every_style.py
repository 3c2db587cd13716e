"""Models in the styles that people write: exported, saved, read and run at other sizes, they give what Python gives."""

from __future__ import annotations

import functools
import io
import math

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ExportError
from extempo.func.tree import leaves

r = ex.randn


# ---- loops


def over_a_range_of_rows(x):
    h = ex.zeros(3)
    for i in range(len(x)):
        h = h * 0.5 + x[i] * i
    return h


def backwards(x):
    h = ex.zeros(3)
    for i in range(len(x) - 1, -1, -1):
        h = h * 0.5 + x[i]
    for i in reversed(range(len(x))):
        h = h * 0.5 - x[i]
    return h


def every_second(x):
    h = ex.zeros(3)
    for i in range(0, len(x), 2):
        h = h * 0.5 + x[i]
    return h


def numbered_pairs(x):
    h = ex.zeros(3)
    for i, (a, b) in enumerate(zip(x, x * 2, strict=True)):
        h = h * a + b * i
    return h


def as_far_as_the_shorter(x):
    h = ex.zeros(3)
    for a, b in zip(x, x[2:], strict=False):
        h = h * 0.5 + a * b
    return h


def unbound(x):
    h = ex.zeros(())
    for row in x.unbind(0):
        h = h * 0.5 + row.sum()
    for column in ex.unbind(x, 1):
        h = h + column.sum()
    return h


def of_the_same_two(x):
    h = ex.zeros(3)
    for part in (x, x + 1):  # no zip: two tensors one after the other
        h = h * 2 + part.sum(0)
    return h


def triangle(x):
    h = ex.zeros(3)
    for i in range(len(x)):
        for j in range(i):
            h = h + x[i] * x[j]
    return h


def with_an_else(x):
    h = ex.zeros(3)
    for row in x:
        if row.sum() > 2:
            break
        h = h + row
    else:
        h = -h
    for row in x:
        h = h + row
    else:
        h = h * 2
    return h


def counted_and_broken(x):
    h, n = ex.zeros(3), 0
    for row in x:
        if row[0] > 0.5:
            continue
        n += 1
        if n > 2:
            break
        h = h * 0.5 + row
    return h, n


def while_below_the_length(x):
    i, h = 0, ex.zeros(3)
    while i < len(x):
        h = h * 0.5 + x[i]
        i += 1
    return h


def until_the_end_or_a_value(x):
    i = 0
    while i < len(x) and x[i].sum() < 1:  # x[len(x)] is never read
        i += 1
    return i


def first_is_special(x):
    h = None
    for row in x:
        h = row if h is None else ex.maximum(h, row)
    return h


def in_place(x):
    h = ex.zeros(3)
    for row in x:
        h.mul_(0.5).add_(row)
    return h


def state_in_a_dict(x):
    state = {"h": ex.zeros(3), "n": 0}
    for row in x:
        state["h"] = state["h"] + row
        state["n"] = state["n"] + 1
    return state["h"] * state["n"]


# ---- lists


def two_at_a_step(x):
    found = [x[0]]
    for row in x:
        found.append(row)
        found.append(-row)
    found.append(x[0] * 3)
    return ex.stack(found), found[-1], len(found)


def pairs_in_a_list(x):
    found = []
    for row in x:
        found += [(row, row.sum())]
    return ex.stack([a * b for a, b in found])


def comprehensions(x):
    rows = [row.tanh() for row in x]
    return ex.stack([row * i for i, row in enumerate(rows)]), ex.stack([x[i] for i in range(len(x))])


def gathered(x):
    total = sum(row.tanh() for row in x)
    largest = max(row.sum() for row in x)
    doubled = ex.stack(list(map(ex.tanh, x)))
    return total * largest, doubled if any(row.sum() > 1 for row in x) else -doubled


def last_rows(x):
    found = [row * 2 for row in x]
    return ex.stack(found[-2:]), found[-1]


# ---- decisions


def joined(x):
    s = x.sum()
    if (s > 0 and x[0, 0] > 0) or not x[0, 1] > 0:
        return x * 2
    return -x if 0 < s < 1 else x


def value_of_or(x):
    return x * (ex.relu(x.sum()) or x.max())


def inside_a_with(x):
    with ex.no_grad():
        if x.sum() > 0:
            return x * 2
        x = x + 1
    return -x


def inside_a_try(x):
    try:
        for row in x:
            if row.sum() > 1:
                return row
    except ValueError:
        return x[0]
    return x.sum(0)


def by_match(x):
    match x.ndim:
        case 2:
            if x.sum() > 0:
                return x
            return -x
        case _:
            return x * 0


def named_on_the_way(x):
    if (s := x.sum()) > 0:
        return x * s
    return x - s


def of_some_values(x):
    values = [x[0, 0], x[0, 1], 0.5]
    least = min(values)
    return x * least if all(v < 1 for v in values[:2]) else x + max(x[0, 0], x[0, 1])


def among_tensors(x):
    parts = [x.sum(0), x[0], -x[0]]
    return parts[x[0].argmax()]


def required(x):
    assert x.shape[1] == 3
    assert x.isfinite().all(), f"{x} is not finite"
    if x.max() > 100:
        raise ValueError("too large")
    return x * 2


def deeper(x, depth=3):
    if depth == 0 or x.sum() > 5:
        return x
    return deeper(x * 2, depth - 1)


# ---- sizes as numbers


def means(x):
    total = ex.zeros(())
    for rows in x:
        total = total + rows.sum() / len(rows)
    return total / len(x), x.sum() / x.numel(), x.sum(0) / x.shape[0]


def functions_of_sizes(x):
    n = len(x)
    half = int(n / 2)
    return x / math.sqrt(n) * math.log(n + 1), x[:half], x[: math.ceil(n / 2)], x[: min(n, 3)], x[: max(n - 2, 1)]


def of_numbers(x):
    n = x.sum().item()
    return ex.tensor([n, 2.0, float(len(x))]), ex.tensor([[row.sum().item()] for row in x[:1]])


STYLES = [
    over_a_range_of_rows, backwards, every_second, numbered_pairs, as_far_as_the_shorter, unbound, of_the_same_two,
    triangle, with_an_else, counted_and_broken, while_below_the_length, until_the_end_or_a_value, first_is_special,
    in_place, state_in_a_dict, two_at_a_step, pairs_in_a_list, comprehensions, gathered, last_rows, joined,
    value_of_or, inside_a_with, inside_a_try, by_match, named_on_the_way, of_some_values, among_tensors, required,
    deeper, means, functions_of_sizes, of_numbers,
]  # fmt: skip


def read_again(program):
    file = io.BytesIO()
    program.save(file)
    file.seek(0)
    return ex.load_program(file)


def check_same(ours, theirs):
    for a, b in zip(leaves(ours), leaves(theirs), strict=True):
        assert ex.allclose(ex.as_tensor(a).double(), ex.as_tensor(b).double(), atol=1e-5)


@pytest.mark.parametrize("fn", STYLES, ids=lambda fn: fn.__name__)
def test_a_program_gives_what_python_gives_at_every_size(fn):
    ex.manual_seed(0)
    program = read_again(ex.program(fn, r(4, 3), dynamic={"x": {0: "n"}}))
    for n in (1, 2, 5, 9):
        for scale in (0.1, 1.0, -1.0):
            x = (r(n, 3) + 0.3) * scale
            check_same(program(x), fn(x))


# ---- how a model is held


class Halver:
    def __init__(self):
        self.w = r(3, 3)

    def __call__(self, x):
        return x @ self.w if x.sum() > 0 else x / 2


class Tree(nn.Module):
    def __init__(self):
        super().__init__()
        self.leaf, self.node = nn.Linear(3, 4), nn.Linear(8, 4)

    def forward(self, tree):
        if isinstance(tree, list | tuple):
            return ex.tanh(self.node(ex.cat([self(part) for part in tree])))
        return self.leaf(tree) if tree.sum() > 0 else -self.leaf(tree)


@ex.no_grad()
def decorated(x):
    return x * 2 if x.sum() > 0 else -x


@pytest.mark.parametrize(
    "model", [Halver(), functools.partial(lambda k, x: x * k if x.sum() > 0 else -x, 2.0), decorated]
)
def test_objects_partials_and_decorated_functions_keep_their_branches(model):
    program = ex.program(model, r(2, 3))
    for scale in (1.0, -1.0):
        check_same(program(ex.ones(2, 3) * scale), model(ex.ones(2, 3) * scale))


def test_recursion_over_a_nested_input_follows_its_nesting():
    model = Tree().eval()
    program = ex.program(model, ([r(3), [[r(3), r(3)], r(3)][:2]],))
    tree = [r(3), [[r(3), r(3)], r(3)][:2]]
    check_same(program(tree), model(tree))


# ---- states


class Averages(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", ex.zeros(3))
        self.register_buffer("calls", ex.tensor(0))

    def forward(self, x):
        self.calls += 1
        for row in x:
            self.mean.mul_(0.9).add_(row)
        if x.sum() > 0:
            self.mean.sub_(1)
        return self.mean * self.calls


class Cache(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", ex.zeros(8, 3))
        self.register_buffer("length", ex.tensor(0))

    def forward(self, x):
        self.keys[self.length] = x  # a number that the next call has another of
        self.length += 1
        weights = (self.keys @ x).masked_fill(ex.arange(8) >= self.length, -1e9).softmax(0)
        return weights @ self.keys if self.length > 1 else x


@pytest.mark.parametrize(("model", "shape"), [(Averages(), (4, 3)), (Cache(), (3,))])
def test_buffers_written_in_loops_and_branches_are_inputs_and_outputs(model, shape):
    model.eval()
    program = read_again(ex.program(model, r(*shape)))
    state: dict = {}
    for _ in range(4):
        x = r(*shape)
        y, state = program(x, **state)
        check_same(y, model(x))
        check_same(list(state.values()), [model.get_buffer(name) for name in state])


def test_dropout_of_a_model_in_training_mode_draws_anew_in_every_call():
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    with pytest.raises(ExportError, match="training=True"):
        ex.program(model, r(2, 3))
    program = read_again(ex.program(model, r(2, 3), training=True, dynamic={"input": {0: "n"}}))
    x = ex.ones(20, 3)
    ex.manual_seed(3)
    first, second = program(x), program(x)
    assert not ex.equal(first, second)
    ex.manual_seed(3)
    check_same(first, model(x))


# ---- what cannot be kept


def masked(x):
    return x[x > 0].sum()


def unique(x):
    return ex.unique(x)


def by_key(x):
    return {0: x, 1: -x, 2: x * 2}[x[0].argmax()]


def sometimes(x):
    return ex.stack([row for row in x if row.sum() > 0])


def without_end(x):
    if x.sum() > 5:
        return x
    return without_end(x * 2)


def fixed(x):
    if x.shape[0] == 4:
        return x * 2
    return x


def with_nonlocal(x):
    n = 0

    def counted(row):
        nonlocal n
        n += 1
        return row

    return sum(counted(row) for row in x) * n


class Notes(nn.Module):
    def __init__(self):
        super().__init__()
        self.notes = []

    def forward(self, x):
        for row in x:
            self.notes.append(row)
        return x


def raising_inside(x):
    for row in x:
        assert row.sum() < 100
    return x


def of_two_types(x):
    return x * (x.sum() > 0 and x.max())


@pytest.mark.parametrize(
    ("model", "offset", "message"),
    [
        (by_key, 1, "an entry of a dict is chosen by a value"),
        (sometimes, 1, "the size n is needed as a number|this comprehension keeps as many entries as values decide"),
        (without_end, 3, "without_end calls itself in a branch that a value decides"),
        (fixed, 1, "the size n was to stay open, and the code holds for n = 4 only, since it decided that n == 4"),
        (with_nonlocal, 8, "not kept: it has `nonlocal`"),
        (Notes().eval(), 1, "self.notes is set inside a loop of unknown length"),
        (raising_inside, 2, "`assert` or `raise` by a value, inside a branch or loop"),
        (of_two_types, 1, "the value is .* in one branch and .* in the other"),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_what_cannot_be_kept_is_refused_in_words_with_its_line(model, offset, message):
    function = type(model).forward if isinstance(model, nn.Module) else model
    line = function.__code__.co_firstlineno + offset
    with pytest.raises(ExportError, match=rf"(?s)test_every_style.py:{line}: .*({message})"):
        ex.program(model, r(4, 3), dynamic={"x": {0: "n"}})


def test_a_condition_that_does_not_hold_is_an_error_of_the_program():
    program = read_again(ex.program(required, r(4, 3), dynamic={"x": {0: "n"}}))
    with pytest.raises(ex.errors.ArgumentError, match=r"ValueError: too large \(test_every_style.py:\d+\)"):
        program(ex.ones(2, 3) * 101)
    with pytest.raises(ex.errors.ArgumentError, match="is not finite"):
        program(ex.ones(2, 3) * math.nan)
