"""What a static function refuses, and in which words."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import nn, optim
from extempo.core.context import CONTEXT
from extempo.errors import DtypeError, GraphError, ShapeError

from .agreement import draw, needs_native_code
from .static_agreement import WAYS, going, static

pytestmark = needs_native_code


@pytest.fixture(autouse=True, params=WAYS)
def way(request):
    with going(request.param):
        yield


@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        ((ex.ones(4), 1.0), ShapeError, r"argument x is of shape \(4,\).*\(3,\)"),
        ((ex.ones(3, dtype=ex.float64), 1.0), DtypeError, r"argument x is a tensor of .*float64"),
        ((ex.ones(3, requires_grad=True), 1.0), GraphError, "requires grad"),
        ((ex.ones(6)[::2], 1.0), GraphError, r"strides \(2,\), .*it was in order; pass x\.contiguous\(\)$"),
        ((2.0, 1.0), DtypeError, "argument x is a value of type float"),
        (
            (np.ones(3), 1.0),
            DtypeError,
            r"argument x is a NumPy array of float64 \(3,\), .*; pass ex\.from_numpy\(x\)$",
        ),
        ((ex.ones(3), 1), DtypeError, "argument a is a value of type int"),
        ((ex.ones(3), ex.ones(())), DtypeError, "argument a is a tensor"),
        ((ex.ones(3),), GraphError, "called with 1 argument, .* 2 arguments"),
        ((ex.ones(3), 1.0, 2.0), GraphError, "called with 3 arguments"),
    ],
)
def test_calls_that_do_not_fit(args, error, words):
    run = static(lambda x, a=1.0, b=None: x * a)
    run(ex.ones(3), 2.0)
    with pytest.raises(error, match=words):
        run(*args)
    assert run(ex.ones(3), 3.0).tolist() == [3, 3, 3]


def test_structures_that_do_not_fit():
    run = static(lambda parts, mode="sum", table=None: parts["a"][0] * 2)
    x = ex.ones(2)
    run({"a": [x]}, "sum")
    for args, words in [
        (({"a": [x, x]}, "sum"), r"argument parts\['a'\] is a list of 2.*a list of 1"),
        (({"b": [x]}, "sum"), r"is a dict with the keys \['b'\], .* a dict with the keys \['a'\]"),
        (({"a": (x,)}, "sum"), r"a tuple of 1.*a list of 1"),
        (({"a": [x]}, "mean"), "argument mode is 'mean', .*'sum'"),
        (({"a": [x]}, np.ones(3)), r"argument mode is a NumPy array of float64 \(3,\), .*'sum'"),
    ]:
        with pytest.raises(GraphError, match=words):
            run(*args)
    with pytest.raises(GraphError, match="table by name"):
        run({"a": [x]}, "sum", table=x)


def test_tensors_that_share_memory_in_another_way():
    run = static(lambda x, y: x + y)
    a = ex.ones(4)
    run(a, ex.ones(4))
    with pytest.raises(GraphError, match="share memory"):
        run(a, a)
    twice = static(lambda x, y: x + y)
    twice(a, a)
    b = a * 2
    assert twice(b, b).tolist() == [4] * 4
    with pytest.raises(GraphError, match=r"argument y is another tensor, .* it was the same as argument x;"):
        twice(a, b)


def test_an_argument_lies_in_memory_as_it_did():
    run = static(lambda x: x.sum(1))
    x = ex.ones(3, 4)
    run(x.T)
    with pytest.raises(
        GraphError, match=r"strides \(3, 1\), .* strides \(1, 4\); pass x\.contiguous\(\) at every call"
    ):
        run(ex.ones(4, 3))


@pytest.mark.parametrize(
    "read",
    [
        lambda x: (x * 2).sum().item(),
        lambda x: 1 if (x * 2).sum() > 0 else 2,
        lambda x: x[0].item(),
        lambda x: f"{x}",
        lambda x: x.tolist(),
        lambda x: x.numpy(),
        lambda x: float(x.sum()),
        lambda x: ex.tensor(x),
    ],
)
def test_reading_a_value_is_an_error_that_names_the_line(read):
    run = static(lambda x: read(x))
    for _ in range(2):
        with pytest.raises(GraphError, match=r"a value is read, at .*test_static_errors\.py:\d+; .*static=True"):
            run(ex.ones(3))


def test_values_that_depend_on_no_argument_may_be_read():
    run = static(lambda x: x * int(ex.tensor(2)) + ex.tensor([1.0, 2.0]).tolist()[1] + 1)
    assert run(ex.ones(2)).tolist() == [5, 5]
    assert run(ex.ones(2) * 2).tolist() == [7, 7]


def test_what_cannot_be_static_says_so():
    class Double(ex.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    w = draw(0, 3, grad=True)
    lbfgs = optim.LBFGS([w])
    for fn, words in [
        (lambda x: Double.apply(x * w), r"autograd\.Function"),
        (lambda x: ex.utils.checkpoint.checkpoint(lambda t: (t * w).sin(), x), "checkpoint"),
        (lambda x: lbfgs.step(lambda: (x * w).sum()), "closure"),
        (lambda x: iter([x * 2]), "list_iterator"),
        (lambda x: ex.set_grad_enabled(False) and None, "grad mode"),
    ]:
        with pytest.raises(GraphError, match=words):
            static(fn)(ex.ones(3))
        assert ex.is_grad_enabled()
        assert CONTEXT.get().interceptor is None


def test_a_tensor_that_is_kept_outside_is_refused():
    kept = []

    @static
    def f(x):
        y = x * 2
        kept.append(y)
        return y + 1

    with pytest.raises(GraphError, match=r"kept after the call.*copy_"):
        f(ex.ones(2))


def test_a_parameter_that_changed_its_kind_is_refused():
    model = nn.Linear(3, 2)
    run = static(lambda x: model(x))
    run(ex.ones(1, 3))
    model.weight.requires_grad_(False)
    with pytest.raises(
        GraphError, match=r"\(static\): parameter weight of Linear that is used at .* does not require grad"
    ):
        run(ex.ones(1, 3))
    model.weight.requires_grad_()
    run(ex.ones(1, 3))
    model.weight.data = ex.ones(4, 3)
    with pytest.raises(ShapeError, match=r"\(static\): parameter weight of Linear .*when the function was recorded"):
        run(ex.ones(1, 3))
    model.weight.data = ex.ones(2, 3, dtype=ex.float64)
    with pytest.raises(DtypeError, match=r"\(static\): parameter weight of Linear .*when the function was recorded"):
        run(ex.ones(1, 3))
    model.weight.data = ex.ones(3, 2).T
    with pytest.raises(GraphError, match=r"parameter weight of Linear .* strides \(1, 2\), .*contiguous"):
        run(ex.ones(1, 3))


def test_a_parameter_is_named_as_the_outermost_module_names_it():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    w = draw(0, 3)
    run = static(lambda x: model(x) * w)
    run(ex.ones(2, 3))
    model[0].bias.data = ex.ones(1)
    with pytest.raises(ShapeError, match=r"\(static\): parameter 0\.bias of Sequential"):
        run(ex.ones(2, 3))
    model[0].bias.data = ex.ones(3)
    w.data = ex.ones(1)
    with pytest.raises(ShapeError, match=r"\(static\): a tensor that is used at"):
        run(ex.ones(2, 3))


def test_gradients_that_are_there_where_there_were_none():
    w = draw(0, 3, grad=True)

    @static
    def f(x):
        before = w.grad is None
        (x * w).sum().backward()
        return before

    assert f(ex.ones(3)) is True
    with pytest.raises(ShapeError, match=r"f \(static\): the result of grad at .*is not None"):
        f(ex.ones(3))
    w.grad = None
    assert f(ex.ones(3)) is True


def test_watching_leaves_nothing_behind():
    before = {k: v for k, v in vars(ex.Tensor).items() if callable(v) or isinstance(v, property)}
    static(lambda x: x * 2)(ex.ones(2))
    assert {k: v for k, v in vars(ex.Tensor).items() if callable(v) or isinstance(v, property)} == before


def test_modules_that_changed_are_refused():
    x = ex.ones(2, 3)
    model = nn.Sequential(nn.Linear(3, 3))
    run = static(model)
    run(x)
    model[0].register_forward_hook(lambda *args: None)
    with pytest.raises(GraphError, match="got a hook"):
        run(x)
    model = nn.Sequential(nn.Linear(3, 3))
    run = static(model)
    run(x)
    model[0] = nn.Linear(3, 3)
    with pytest.raises(GraphError, match="a module was replaced"):
        run(x)


def test_a_loss_scaler_reads_values():
    model = nn.Linear(3, 1)
    scaler, optimizer = ex.amp.GradScaler("cpu"), optim.SGD(model.parameters())

    @static
    def step(x):
        scaler.scale(model(x).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    with pytest.raises(GraphError, match="a value is read"):
        step(ex.ones(2, 3))
