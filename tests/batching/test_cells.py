"""Cells: one kind for calls that are alike, another one as soon as anything is not, and clear words for impure ones."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import weakref
from typing import NamedTuple

import numpy as np
import pytest

import extempo as ex
import extempo.nn.functional as F
from extempo import nn
from extempo.batching.cells import Cell, find
from extempo.batching.vmap_runner import VmapRunner
from extempo.errors import GraphError

from .cell_calls import assert_agrees, call, kind

FACTOR = 2.0
CALLS: list[int] = []


class Pair(NamedTuple):
    h: ex.Tensor
    c: ex.Tensor


def draw(*shape, dtype=ex.float64, grad=False):
    values = np.random.default_rng(len(shape) + sum(shape)).normal(size=shape)
    return ex.tensor(values, dtype=dtype, requires_grad=grad)


# ---- what a cell computes


LAYERS = [
    (nn.Linear(3, 4), (ex.ones(3),)),
    (nn.Linear(3, 4, bias=False), (ex.ones(2, 3),)),
    (nn.Bilinear(3, 4, 2), (ex.ones(3), ex.ones(4))),
    (nn.Embedding(5, 3), (2,)),
    (nn.Embedding(5, 3, padding_idx=1), (ex.tensor([1, 2]),)),
    (nn.RNNCell(3, 4, nonlinearity="relu"), (ex.ones(3), ex.ones(4))),
    (nn.RNNCell(3, 4), (ex.ones(3),)),
    (nn.LSTMCell(3, 4), (ex.ones(3), (ex.ones(4), ex.ones(4)))),
    (nn.LSTMCell(3, 4), (ex.ones(3),)),
    (nn.LSTMCell(3, 4), (ex.ones(3), None)),
    (nn.GRUCell(3, 4), (ex.ones(3), ex.ones(4))),
    (nn.NaryTreeLSTMCell(3, 4, 2), (nn.TreeState(ex.ones(4), ex.ones(4)), nn.TreeState(ex.zeros(4), ex.ones(4)))),
    (nn.ChildSumTreeLSTMCell(3, 4), (nn.TreeState(ex.ones(4), ex.ones(4)),) * 3),
    (nn.LayerNorm(4), (ex.arange(4.0),)),
    (nn.RMSNorm(4), (ex.arange(4.0),)),
    (nn.GroupNorm(2, 4), (ex.arange(12.0).reshape(1, 4, 3),)),
    (nn.MultiheadAttention(4, 2), (ex.ones(3, 4), ex.ones(5, 4), ex.ones(5, 4))),
    (nn.MultiheadAttention(4, 2), (ex.ones(3, 4),) * 3),
    (nn.Conv1d(2, 3, 2), (ex.ones(2, 5),)),
    (nn.ReLU(), (ex.arange(-2.0, 2.0),)),
    (nn.GELU(), (ex.arange(-2.0, 2.0),)),
    (nn.Softmax(-1), (ex.arange(-2.0, 2.0),)),
    (nn.LeakyReLU(), (ex.arange(-2.0, 2.0),)),
    (nn.PReLU(), (ex.arange(-2.0, 2.0),)),
    (nn.CrossEntropyLoss(), (ex.arange(3.0), ex.tensor(1))),
    (nn.MSELoss(), (ex.arange(3.0), ex.ones(3))),
    (nn.MSELoss(), (ex.tensor(2.0), 1.0)),
]


@pytest.mark.parametrize(("layer", "args"), LAYERS, ids=[type(layer).__name__ for layer, _ in LAYERS])
def test_layers_are_cells(layer, args):
    assert_agrees(layer, *args)


def test_a_leaf_of_a_tree_is_a_call_by_name():
    cell = nn.NaryTreeLSTMCell(3, 4, 2)
    assert_agrees(cell, x=ex.ones(3))
    assert_agrees(cell, cell.leaf(ex.ones(3)), x=ex.ones(3))


def test_structures_come_back_as_they_were():
    @ex.cell
    def function(x, pair, *, options):
        return {"sum": x + pair.h, "rest": [Pair(pair.c, x), None, 3, (options["y"],)]}

    made = assert_agrees(function, draw(2), Pair(draw(2), draw(2)), options={"y": draw(3)})
    assert len(made.inputs) == 4


def test_gradients_stop_where_the_body_stops_them():
    weight = nn.Parameter(ex.ones(2, dtype=ex.float64))

    @ex.cell
    def function(x, y):
        with ex.no_grad():
            z = x * weight
        return x.detach() * 2, z + y, x * weight.detach(), y * 2, z

    made = assert_agrees(function, draw(2, grad=True), draw(2))
    assert made.kind.tracked == (False, False, True, False, False)
    assert not any(kind(function, draw(2, grad=True), draw(2), grad=False).tracked)


def test_detached_parameters_stay_the_parameters():
    weight = nn.Parameter(ex.ones(2))

    @ex.cell
    def function(x):
        return x * weight.detach()

    made = kind(function, ex.ones(2))
    assert made.captured[0] is weight
    weight.data = ex.full((2,), 5.0)
    assert made.fn(ex.ones(2))[0].tolist() == [5.0, 5.0]


def test_only_what_the_results_need_is_kept():
    unused = nn.Parameter(ex.ones(2))

    @ex.cell
    def function(x):
        _ = x * unused
        return x + 1

    made = kind(function, ex.ones(2))
    assert made.captured == ()
    assert len(made.fn._steps) == 1


def test_the_body_may_write_to_what_it_makes():
    @ex.cell
    def function(x):
        y = x * 2
        y += 1
        y.mul_(x)
        return y, y + x

    assert_agrees(function, draw(3, grad=True))


def test_a_body_that_writes_into_views_runs_op_by_op():
    @ex.cell
    def function(x):
        y = x * 2
        y[0] = 0.0
        z = ex.zeros(3)
        z[1] = 2.0
        return y + z

    assert call(function, ex.ones(3)) is None


# ---- numbers


def test_numbers_are_inputs():
    @ex.cell
    def function(x, factor, shift):
        return x * factor + shift, ex.where(x > shift, x, factor)

    made = assert_agrees(function, draw(3), 2.0, 3)
    assert [i.type for i in made.kind.inputs[1:]] == [float, int]
    assert kind(function, draw(3), 5.0, 7) is made.kind
    assert kind(function, draw(3), 5, 7) is not made.kind
    rows, _ = VmapRunner(made.kind, (False,) * 3).forward(
        [np.ones((2, 3)), np.array([2.0, 3.0]), np.array([1, 2])], 2
    )  # float64 rows, whatever x is
    assert rows[0].tolist() == [[3.0] * 3, [5.0] * 3]


@pytest.mark.parametrize("dtype", [ex.float16, ex.float32, ex.float64, ex.int64, ex.int32])
def test_a_number_does_not_change_types_when_it_comes_as_rows(dtype):
    @ex.cell
    def function(x, y, factor):
        return x * factor, y * factor, x > factor

    for number in (2.0, 3):
        assert_agrees(function, ex.ones(3, dtype=dtype), ex.ones((), dtype=dtype), number)


def test_numbers_that_are_looked_at_are_part_of_the_signature():
    @ex.cell
    def function(x, n, factor):
        for _ in range(n):
            x = x * factor
        return x

    made = assert_agrees(function, draw(3), 2, 1.5)
    assert [i.type for i in made.kind.inputs[1:]] == [float]
    assert kind(function, draw(3), 2, 2.5) is made.kind
    assert kind(function, draw(3), 3, 1.5) is not made.kind
    assert kind(function, draw(3), 2, 1.5) is made.kind
    assert_agrees(function, draw(3), 3, 1.5)


def test_floats_that_are_looked_at_are_given_up_sooner():
    @ex.cell
    def function(x, factor):
        return x * (1.0 - factor)

    found = [call(function, ex.ones(2), n / 7) for n in range(20)]
    assert found[0] is not None
    assert found[-1] is None
    assert "0.5" not in function.declined
    assert "look" in function.declined


def test_a_number_that_is_always_another_one_ends_tracing():
    @ex.cell
    def function(x, n):
        return x * (n + 1)

    found = [call(function, ex.ones(2), n) for n in range(200)]
    assert found[0] is not None
    assert found[-1] is None
    assert call(function, ex.ones(2), 3) is not None


def test_flags_strings_and_none_are_part_of_the_signature():
    @ex.cell
    def function(x, flag, mode=None):
        return x + 1 if flag else x - 1

    made = kind(function, ex.ones(2), True)
    assert kind(function, ex.ones(2), True) is made
    assert kind(function, ex.ones(2), False) is not made
    assert kind(function, ex.ones(2), True, "other") is not made
    assert kind(function, ex.ones(2), 1) is not made
    assert kind(function, ex.ones(2), True, mode="other") is not kind(function, ex.ones(2), True, "other")


def test_python_ints_are_rows_of_an_embedding_and_classes_of_a_loss():
    table = nn.Embedding(5, 3)
    assert table(2).tolist() == table(ex.tensor(2)).tolist()
    assert kind(table, 2) is kind(table, 4)
    rows, _ = VmapRunner(kind(table, 2), (False,)).forward([np.array([1, 4, 1])], 3)
    np.testing.assert_array_equal(rows[0], table.weight.detach().numpy()[[1, 4, 1]])
    scores = ex.tensor([0.0, 1.0, 2.0])
    assert F.cross_entropy(scores, 2).item() == F.cross_entropy(scores, ex.tensor(2)).item()

    @ex.cell
    def loss(scores, target):
        return F.cross_entropy(scores, target)

    assert_agrees(loss, scores, 2)
    assert_agrees(nn.CrossEntropyLoss(), scores, 2)
    assert kind(loss, scores, 1) is kind(loss, scores, 2)


# ---- one kind for calls that are alike


def test_calls_that_are_alike_have_one_kind():
    cell = nn.LSTMCell(3, 4)
    state = (ex.ones(4), ex.zeros(4))
    made = kind(cell, ex.ones(3), state)
    assert kind(cell, ex.zeros(3), (ex.zeros(4), ex.zeros(4))) is made
    assert kind(cell, ex.zeros(3)) is not made
    assert kind(cell, ex.zeros(2, 3)) is not made
    assert kind(cell, ex.ones(3), state, grad=False) is not made
    assert kind(cell, ex.ones(3, requires_grad=True), state) is not made
    assert kind(cell, ex.ones(3), hx=state) is not made
    assert kind(cell, ex.ones(3), state) is made
    assert kind(nn.LSTMCell(3, 4), ex.ones(3), state) is not made


def test_structures_of_arguments_are_told_apart():
    @ex.cell
    def function(*args):
        x = args
        while not isinstance(x, ex.Tensor):
            x = next(iter(x.values())) if isinstance(x, dict) else x[0]
        return x + 1

    x = ex.ones(2)
    forms = [
        ((x, x),),
        ([x, x],),
        (Pair(x, x),),
        (x, x),
        ({"a": x, "b": x},),
        ({"a": x, "c": x},),
        ((x, (x,)),),
        ((x, None),),
        ((x,), x),
    ]
    kinds = [kind(function, *form) for form in forms]
    assert len(set(kinds)) == len(forms)
    assert [kind(function, *form) for form in forms] == kinds


def test_an_array_is_a_tensor_among_the_arguments():
    @ex.cell
    def function(x, y):
        return x * y

    made = call(function, ex.ones(2), np.array([2.0, 3.0], np.float32))
    assert made.kind is kind(function, ex.ones(2), ex.ones(2))
    assert made.kind.fn(*made.inputs)[0].tolist() == [2.0, 3.0]
    assert kind(function, ex.ones(2), np.float64(2.0)) is kind(function, ex.ones(2), 3.0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.drop = nn.Dropout(0.5)
        self.factor = 1.0
        self.steps = [1]

    def forward(self, x):
        return self.mix(self.second(self.first(x))) * self.factor * len(self.steps) * FACTOR

    def mix(self, x):
        return x if self.training else -x


CHANGES = [
    lambda net: net.eval(),
    lambda net: setattr(net, "factor", 2.0),
    lambda net: net.steps.append(1),
    lambda net: setattr(net, "first", nn.Linear(3, 3)),
    lambda net: setattr(net.first, "weight", nn.Parameter(ex.zeros(3, 3))),
    lambda net: net.first.register_parameter("bias", None),
    lambda net: net.first.requires_grad_(False),
    lambda net: net.double().float().double(),
    lambda net: setattr(net, "mix", lambda x: x + 1),
    lambda net: setattr(net, "forward", lambda x: x + 1),
    lambda net: nn.utils.parametrize.register_parametrization(net.first, "weight", nn.Tanh()),
    lambda net: setattr(sys.modules[__name__], "FACTOR", 3.0),
    lambda net: setattr(Net, "mix", lambda self, x: x + 2),
    lambda net: setattr(Net, "forward", lambda self, x: x + 2),
]


def undo_afterwards(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 2.0)
    for name in ("mix", "forward"):
        monkeypatch.setattr(Net, name, vars(Net)[name])


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_between_calls_makes_another_kind(monkeypatch, change):
    undo_afterwards(monkeypatch)
    net = ex.cell(Net())
    x = ex.ones(3)
    before = kind(net, x)
    change(net)
    x = x.to(net.first.weight.dtype)
    assert kind(net, x) is not before
    assert_agrees(net, x)
    assert kind(net, x) is kind(net, x)


@pytest.mark.parametrize("change", CHANGES)
def test_batches_follow_every_change_between_runs(monkeypatch, change):
    undo_afterwards(monkeypatch)
    net = ex.cell(Net())
    run_and_compare(net)
    change(net)
    run_and_compare(net)


def run_and_compare(net):
    """The results of a batch are those of a plain loop, and so are the gradients."""
    dtype = net.second.weight.dtype
    samples = [ex.full((3,), float(i), dtype=dtype) for i in range(4)]
    found = []
    for debug in (False, True):
        net.zero_grad()
        outputs = ex.batch(lambda x: net(net(x)), debug=debug)(samples)
        total = ex.stack(outputs).sum()
        if total.requires_grad:
            total.backward()
        found.append((ex.stack(outputs).detach().numpy(), [p.grad for p in net.parameters()]))
    (values, gradients), (expected, expected_gradients) = found
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)
    for g, e in zip(gradients, expected_gradients, strict=True):
        assert (g is None) == (e is None)
        if g is not None:
            np.testing.assert_allclose(g.numpy(), e.numpy(), rtol=1e-4, atol=1e-6)


def test_the_old_kind_is_found_again():
    net = ex.cell(Net())
    training = kind(net, ex.ones(3))
    for _ in range(3):
        net.eval()
        evaluating = kind(net, ex.ones(3))
        assert evaluating is not training
        net.train()
        assert kind(net, ex.ones(3)) is training


def test_a_function_defined_anew_is_another_cell():
    def define(sign):
        @ex.cell
        def function(x):
            return sign * x

        return function

    plus, minus = define(1.0), define(-1.0)
    assert plus(ex.ones(1)).item() == 1.0
    assert kind(plus, ex.ones(1)) is not kind(minus, ex.ones(1))
    assert_agrees(plus, ex.ones(1))
    assert_agrees(minus, ex.ones(1))


def test_the_default_dtype_is_noticed():
    @ex.cell
    def function(x):
        return x + ex.ones(2)

    before = kind(function, ex.tensor([1, 2]))
    ex.set_default_dtype(ex.float64)
    try:
        assert kind(function, ex.tensor([1, 2])) is not before
        assert_agrees(function, ex.tensor([1, 2]))
    finally:
        ex.set_default_dtype(ex.float32)


def test_methods_are_cells_of_their_object():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)
            self.sign = 1.0

        @ex.cell
        def step(self, x):
            return self.sign * self.linear(x)

        def forward(self, x):
            return self.step(x)

    one, other = Model(), Model()
    x = ex.ones(2)
    assert one(x).tolist() == one.linear(x).tolist()
    made = kind(Model.step, one, x)
    assert kind(Model.step, one, x) is made
    assert kind(Model.step, other, x) is not made
    one.sign = -1.0
    assert kind(Model.step, one, x) is not made
    gone = weakref.ref(one)
    del one, made
    gc.collect()
    assert gone() is None
    assert kind(Model.step, Model(), x) is not None
    assert len(Model.step._layouts) == 2  # that of the one that is gone went when there was a new one


def test_an_object_at_the_address_of_one_that_is_gone_is_another_object():
    class Scale:
        def __init__(self, factor):
            self.factor = factor

    @ex.cell
    def scaled(x, by):
        return x * by.factor

    x = ex.ones(2)
    run = ex.batch(scaled)
    for factor in range(50):  # CPython uses the memory again at once
        assert [y.tolist() for y in run([x, x], [Scale(factor)] * 2)] == [[factor] * 2] * 2


# ---- which callables are cells


def test_a_cell_is_the_function_that_it_was():
    @ex.cell
    def function(x, factor=2.0):
        """Its text."""
        return x * factor

    assert function(ex.ones(1), factor=3.0).item() == 3.0
    assert function.__name__ == "function"
    assert function.__doc__ == "Its text."
    assert ex.cell(function) is function
    assert "function" in repr(function)
    x = ex.ones(1, requires_grad=True)
    function(x).backward()
    assert x.grad.item() == 2.0


def test_a_subclass_with_a_forward_of_its_own_has_to_be_proven():
    class Other(nn.Linear):
        def forward(self, x):
            return super().forward(x) + 1

    class Same(nn.Linear):
        pass

    @ex.cell
    class Marked(nn.Linear):
        def forward(self, x):
            return super().forward(x) + 1

    class Inherited(Marked):
        def forward(self, x):
            return x

    assert find(Other(2, 2)).candidate is not None
    assert find(nn.BatchNorm1d(2)) is None
    assert find(nn.Dropout()) is None
    assert find(nn.LazyLinear(2)) is None
    assert find(len) is None
    assert find(Inherited(2, 2)).candidate is not None
    assert find(Same(2, 2)).candidate is None
    assert find(Marked(2, 2)).candidate is None
    assert_agrees(Same(2, 2), ex.ones(2))
    assert_agrees(Marked(2, 2), ex.ones(2))
    assert find(ex.cell(Other(2, 2))) is not None


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="expected a function, a Module or a Module class"):
        ex.cell(3)
    with pytest.raises(TypeError, match="expected a function"):
        ex.cell(dict)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)),
        lambda: nn.Sequential(nn.LazyLinear(2)),
        lambda: nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)),
    ],
)
def test_modules_that_do_more_than_compute_run_op_by_op(make):
    module = ex.cell(make())
    before = ex.get_rng_state()
    for _ in range(2):
        assert call(module, ex.ones(3, 2)) is None
    assert ex.equal(before, ex.get_rng_state())
    module(ex.ones(3, 2))
    module.eval()
    assert_agrees(module, ex.ones(3, 2))


def test_a_module_with_hooks_is_no_cell_as_long_as_it_has_them():
    module = ex.cell(nn.Sequential(nn.Linear(2, 2)))
    x = ex.ones(2)
    made = kind(module, x)
    handle = module[0].register_forward_hook(lambda *args: None)
    assert call(module, x) is None
    handle.remove()
    assert kind(module, x) is not None
    assert kind(module, x).captured == made.captured


def test_modules_that_a_function_reads_count_as_its_own():
    norm, linear = nn.BatchNorm1d(2), nn.Linear(2, 2)

    @ex.cell
    def function(x):
        return norm(linear(x))

    assert call(function, ex.ones(3, 2)) is None
    assert "BatchNorm1d keeps statistics" in function.declined
    norm.eval()
    assert_agrees(function, ex.ones(3, 2))
    handle = linear.register_forward_hook(lambda *args: None)
    assert call(function, ex.ones(3, 2)) is None
    assert function.declined == "Linear has hooks"
    handle.remove()
    assert_agrees(function, ex.ones(3, 2))


def test_a_cell_is_pickled_and_copied_as_a_function_is():
    cell = sys.modules[__name__].module_level
    assert pickle.loads(pickle.dumps(cell)) is cell
    assert copy.deepcopy(cell) is cell
    net = ex.cell(Net())
    kind(net, ex.ones(3))
    assert_agrees(copy.deepcopy(net), ex.ones(3))
    assert_agrees(pickle.loads(pickle.dumps(net)), ex.ones(3))


@ex.cell
def module_level(x):
    return x + 1


def test_in_place_layers_are_no_cells():
    assert call(nn.ReLU(inplace=True), ex.ones(2)) is None
    assert call(nn.Embedding(3, 2, max_norm=1.0), 1) is None


def test_an_autograd_function_and_gradients_inside_run_op_by_op():
    class Double(ex.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    assert call(ex.cell(lambda x: Double.apply(x)), ex.ones(2)) is None

    @ex.cell
    def hooked(x):
        y = x * 2
        y.register_hook(lambda g: g)
        return y

    assert call(hooked, ex.ones(2, requires_grad=True)) is None

    @ex.cell
    def penalty(x):
        (g,) = ex.autograd.grad((x * x).sum(), [x])
        return g

    assert call(penalty, ex.ones(2, requires_grad=True)) is None


def test_a_body_that_returns_no_tensor_runs_op_by_op():
    assert call(ex.cell(lambda x: None), ex.ones(2)) is None


def test_always_new_signatures_end_tracing():
    @ex.cell
    def function(x, key):
        return x + 1

    found = [call(function, ex.ones(2), str(i)) for i in range(200)]
    assert found[0] is not None
    assert found[-1] is None
    assert len(function._layouts) < 100


def test_cells_of_modules_go_with_them():
    before = len([c for c in gc.get_objects() if type(c) is Cell])
    for _ in range(5):
        cell = nn.LSTMCell(3, 4)
        assert kind(cell, ex.ones(3)) is not None
    gone = weakref.ref(cell)
    del cell
    assert gone() is None
    gc.collect()
    assert len([c for c in gc.get_objects() if type(c) is Cell]) <= before


# ---- impure cells


def test_a_cell_that_changes_what_it_reads_is_refused():
    @ex.cell
    def function(x):
        CALLS.append(1)
        return x * len(CALLS)

    with pytest.raises(GraphError, match="it changes CALLS that it reads"):
        call(function, ex.ones(2))


def test_a_cache_that_fills_up_is_no_change():
    cache: dict[int, ex.Tensor] = {}

    @ex.cell
    def function(x):
        n = x.shape[0]
        if n not in cache:
            cache[n] = ex.arange(float(n))
        return (x + cache[n]).exp()  # more than one op: those run at any size

    assert_agrees(function, ex.ones(3))
    made = kind(function, ex.ones(3))
    assert kind(function, ex.ones(3)) is made
    assert kind(function, ex.ones(4)) is not made
