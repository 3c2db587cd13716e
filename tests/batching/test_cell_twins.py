"""A cell is known by its code and by what that reads: made anew for each sample, it is the cell that it was."""

from __future__ import annotations

import functools
import gc
import weakref

import numpy as np
import pytest

import extempo as ex
import extempo.nn.functional as F
from extempo import nn
from extempo.batching import cell_twins
from extempo.batching.cell_twins import CodeFamily, Pairing, family_of
from extempo.batching.cells import Cell
from extempo.core.tensor import Tensor
from extempo.errors import GraphError

from .agreement import check, draw, rows

W = draw(1, 4, 4).requires_grad_()
SCALE = {"by": 2.0}


@pytest.fixture
def traced(monkeypatch):
    """The names of cells whose bodies were traced."""
    found = []
    trace = Cell._traced

    def noted(self, layout, arguments):
        found.append(self.name)
        return trace(self, layout, arguments)

    monkeypatch.setattr(Cell, "_traced", noted)
    return found


def step(x, w, scale=1.0):
    return ex.tanh(x @ w) * scale


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(W.detach().clone())

    def step(self, x):
        return step(x, self.weight)


MODEL = Model()


def a_function():
    w = W

    @ex.cell
    def inner(x):
        return step(x, w)

    return inner


def one_that_reads_globals():
    @ex.cell
    def inner(x):
        return step(x, W) * SCALE["by"]

    return inner


def one_with_a_helper():
    def helper(x, depth=2):
        return step(x, W) if depth == 0 else helper(x, depth - 1)

    return ex.cell(lambda x: helper(x) + 1)


def one_that_calls_a_cell():
    inner = ex.cell(lambda x: step(x, W))
    return ex.cell(lambda x: inner(x) * 2)


def one_with_containers():
    weights, names, pair = [W, 2.0], {"w": W}, (W, 0.5)
    return ex.cell(lambda x: step(x, weights[0], weights[1]) + step(x, names["w"]) * pair[1])


MAKERS = {
    "def": a_function,
    "lambda": lambda: ex.cell(lambda x: step(x, W)),
    "lambda with defaults": lambda: ex.cell(lambda x, w=W, *, scale=1.5: step(x, w, scale)),
    "partial": lambda: ex.cell(functools.partial(step, w=W, scale=0.5)),
    "partial by position": lambda: ex.cell(functools.partial(lambda w, x: step(x, w), W)),
    "bound method": lambda: ex.cell(MODEL.step),
    "globals": one_that_reads_globals,
    "helper": one_with_a_helper,
    "cell in a cell": one_that_calls_a_cell,
    "containers": one_with_containers,
}


def twice(make):
    def one(x):
        inner = make()
        return inner(inner(x))

    return one


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_cells_made_inside_samples_run_as_one(make, traced):
    batched = check(twice(make), rows(6, 4), parameters=[W, MODEL.weight])
    assert batched.stats()["launches"] == 2
    n_traced = len(traced)
    assert n_traced <= 2  # an argument that is tracked makes another signature
    check(twice(make), rows(6, 4), parameters=[W, MODEL.weight])
    assert len(traced) == n_traced


def test_a_new_signature_is_traced_once_for_all(traced):
    make = MAKERS["lambda"]
    fn = lambda x: make()(x)  # noqa: E731 # each sample makes its own
    for shapes in ([(4,), (2, 4), (4,)], [(3, 4), (2, 4), (3, 4)], [(4,), (3, 4), (2, 4)]):
        check(fn, [draw(i, *shape) for i, shape in enumerate(shapes)], parameters=[W])
    assert len(traced) <= 3


def test_a_cell_that_draws_is_not_traced_for_each_sample(traced):
    check(lambda x: ex.cell(lambda y: F.dropout(y, 0.5) @ W)(x), rows(6, 4), parameters=[W], seed=2)
    assert len(traced) == 1


# ---- what differs


def test_closures_that_hold_other_weights_are_other_cells(traced):
    weights = [draw(i, 4, 4).requires_grad_() for i in range(3)]

    def one(x, i):
        w = weights[i]
        return ex.cell(lambda y: step(y, w))(x)

    check(one, rows(6, 4), [0, 1, 2, 2, 1, 0], parameters=weights)
    assert len(traced) == 3


def test_closures_that_hold_equal_numbers_are_one_cell(traced):
    def one(x, scale):
        factor = scale * 1.5
        return ex.cell(lambda y: step(y, W, factor))(x)

    check(one, rows(6, 4), [1.0, 2.0, 1.0, 2.0, 1.0, 2.0], parameters=[W])
    assert len(traced) == 2


def test_an_equal_number_of_another_type_is_another_one():
    def one(x, number):
        return ex.cell(lambda y: y * number)(x)

    check(one, [ex.tensor([1, 2])] * 3, [1, 1.0, True])


def test_a_variable_that_changes_after_a_cell_was_made():
    def one(x, i):
        factor = 1.0
        scaled = ex.cell(lambda y: y * factor)
        y = scaled(x)
        factor = 2.0 + i % 2
        return y, scaled(y)

    check(one, rows(6, 4), range(6))


def test_cells_of_a_loop_read_its_variable_when_they_are_called():
    def one(x):
        cells = []
        for k in range(3):
            cells.append(ex.cell(lambda y: y * (k + 1)))  # noqa: B023 # the last value is meant
        return [each(x) for each in cells]

    check(one, rows(4, 3))


def test_a_list_that_changes_is_seen():
    def one(x):
        factors = [1.0]
        scaled = ex.cell(lambda y: y * factors[0])
        y = scaled(x)
        factors[0] = 3.0
        z = scaled(y)
        factors.append(1.0)
        return y, z, scaled(z)

    check(one, rows(4, 3))
    check(one, rows(4, 3))


def test_a_weight_that_is_replaced_between_calls():
    for seed in range(3):
        w = draw(seed, 4, 4).requires_grad_()

        def one(x, w=w):
            return ex.cell(lambda y: step(y, w))(x)

        check(one, rows(5, 4), parameters=[w])


def test_an_attribute_that_changes_between_calls():
    model = Model()

    def one(x):
        return ex.cell(model.step)(x)

    check(one, rows(5, 4), parameters=[model.weight])
    model.weight = nn.Parameter(draw(7, 4, 4))
    check(one, rows(5, 4), parameters=[model.weight])


def test_a_global_that_changes_between_calls(monkeypatch):
    check(twice(one_that_reads_globals), rows(5, 4), parameters=[W])
    monkeypatch.setitem(SCALE, "by", -3.0)
    check(twice(one_that_reads_globals), rows(5, 4), parameters=[W])


# ---- what cannot be compared


def reads_its_sample(x):
    return ex.cell(lambda y: y + x)(x @ W)


def reads_a_value_of_its_sample(x):
    h = x @ W
    return ex.cell(lambda y: y + h)(x)


@pytest.mark.parametrize("fn", [reads_its_sample, reads_a_value_of_its_sample])
def test_a_cell_that_reads_something_of_its_own_becomes_an_ordinary_function(fn, traced):
    for _ in range(3):
        batched = check(fn, rows(20, 4), parameters=[W])
        gc.collect()  # cells that read each other's values go when the collector runs, not before
    assert len(traced) <= 20 + cell_twins.MOST_WASTED
    (said,) = batched.explain().ordinary
    assert "test_cell_twins.py:" in said
    assert "<lambda> ran as an ordinary function: it" in said
    assert said in str(batched.explain())


def test_what_differs_is_named():
    for _ in range(3):
        batched = check(reads_its_sample, rows(20, 4), parameters=[W])
        gc.collect()
    assert "reads x, which is another one each time; pass it as an argument" in str(batched.explain())


def test_cells_made_outside_are_traced_however_many_there_were(traced):
    def train(seed):
        w = draw(seed, 4, 4).requires_grad_()
        inner = ex.cell(lambda y: step(y, w))
        check(lambda x: inner(x), rows(3, 4), parameters=[w])

    for seed in range(cell_twins.MOST_WASTED + 4):
        train(seed)
    assert len(traced) == cell_twins.MOST_WASTED + 4


def test_values_of_a_run_do_not_stay_alive():
    seen = []

    def one(x):
        h = x @ W
        seen.append(weakref.ref(h))
        return ex.cell(lambda y: y + h)(x)

    ex.batch(one)(rows(4, 4))
    gc.collect()
    assert [known() for known in seen] == [None] * 4


def test_weights_of_cells_made_outside_are_not_kept():
    def run():
        w = draw(3, 4, 4)
        inner = ex.cell(lambda y: step(y, w))
        ex.batch(lambda x: inner(x))(rows(3, 4))
        return weakref.ref(w)

    gone = run()
    gc.collect()
    assert gone() is None


# ---- as in a plain loop


def test_side_effects_happen_once_for_each_sample():
    seen = []

    def one(x, i):
        seen.append(i)
        return MAKERS["lambda"]()(x)

    check(one, rows(4, 4), range(4), parameters=[W])
    assert seen == [0, 1, 2, 3] * 2


def test_an_error_in_one_sample_names_it():
    table = draw(0, 4, 3)
    with pytest.raises(IndexError) as error:
        ex.batch(lambda i: ex.cell(lambda k: F.embedding(k, table))(i))([ex.tensor(k) for k in (0, 1, 7, 2)])
    assert "sample 2" in "".join(error.value.__notes__)


def test_what_a_cell_refuses_is_refused_at_every_call():
    def one(x):
        return ex.cell(lambda y: y * y.sum().item() if y.ndim == 2 else y * 2)(x)

    check(one, rows(3, 4))
    for _ in range(3):
        with pytest.raises(GraphError, match="the value of a tensor is read"):
            ex.batch(one)([draw(0, 2, 4)] * 3)
    check(one, rows(3, 4))


# ---- pairs


def pairs(a, b):
    return Pairing().pair(a, b)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_what_is_made_twice_by_the_same_code_is_a_pair(make):
    a, b = make(), make()
    assert a is not b
    assert pairs(a, b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, 2),
        (1, 1.0),
        (0.0, -0.0),
        ([W], [W.detach()]),
        ([W], [W, W]),
        ({"a": 1}, {"b": 1}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ((W,), [W]),
        (np.ones(2), np.ones(2)),
        ({1, 2}, {1, 2}),
        (lambda: 1, lambda: 2),
        (functools.partial(step, W), functools.partial(step, x=W)),
        (Model().step, Model().step),
    ],
)
def test_what_is_no_pair(a, b):
    assert not pairs(a, b)


def test_a_variable_that_is_not_there_yet_is_no_pair():
    def make(ready=False):
        if ready:
            later = 2

        def inner(x):
            return x * later

        return inner

    assert pairs(make(True), make(True))
    assert not pairs(make(), make())
    assert not pairs(make(True), make())


def test_parts_correspond_both_ways():
    def make():
        weights = [W]
        return lambda: weights

    a, b, pairing = make(), make(), Pairing()
    assert pairing.pair(a, b)
    assert pairing.forth[id(a)] is b
    assert pairing.back[id(b)] is a
    assert pairing.forth[id(a())] is b()
    assert pairing.forth[id(a.__closure__[0])] is b.__closure__[0]


def test_functions_that_call_each_other_are_pairs():
    def make():
        def even(n):
            return n == 0 or odd(n - 1)

        def odd(n):
            return n != 0 and even(n - 1)

        return even

    assert pairs(make(), make())


def test_only_code_has_a_family():
    assert family_of(step) is family_of(functools.partial(step, W)) is family_of(ex.cell(step))
    assert family_of(MODEL.step) is family_of(Model.step)
    assert family_of(len) is None
    assert family_of(Tensor) is None


def test_few_representatives_are_kept():
    family = CodeFamily()
    cells = []
    for k in range(cell_twins.MOST_REPRESENTATIVES + 3):
        cells.append(ex.cell(lambda x, k=k: x * k))
        family.add(cells[-1], True)
        family.add(cells[-1], True)
    assert [id(c) in cell_twins._KEPT for c in cells] == [False] * 3 + [True] * cell_twins.MOST_REPRESENTATIVES
