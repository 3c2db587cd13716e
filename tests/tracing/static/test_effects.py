"""What a body does besides ops: refused in words where it would not be done again."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.core.context import CONTEXT
from extempo.errors import GraphError

from ..agreement import draw, needs_native_code
from .static_agreement import WAYS, going, static

pytestmark = needs_native_code


@pytest.fixture(autouse=True, params=WAYS)
def way(request):
    with going(request.param):
        yield


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
        with pytest.raises(GraphError, match=r"a value is read, at .*test_effects\.py:\d+; .*static=True"):
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


def test_watching_leaves_nothing_behind():
    before = {k: v for k, v in vars(ex.Tensor).items() if callable(v) or isinstance(v, property)}
    static(lambda x: x * 2)(ex.ones(2))
    assert {k: v for k, v in vars(ex.Tensor).items() if callable(v) or isinstance(v, property)} == before


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
