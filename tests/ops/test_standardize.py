"""Statistics of half precision, constant rows and gradients to second order."""

import pytest

import extempo as ex
from extempo.autograd.numerical import gradcheck, gradgradcheck
from extempo.ops import normalization as norm

from .helpers import normal


def test_statistics_of_half_precision_are_float32():
    x = ex.full((2, 64), 300.0, dtype=ex.float16) + ex.tensor([[1.0], [2.0]], dtype=ex.float16)
    y, mean, scale = norm.native_layer_norm(x, (64,), None, None, 1e-5)
    assert (y.dtype, mean.dtype, scale.dtype) == (ex.float16, ex.float32, ex.float32)
    assert mean.tolist() == [[301], [302]]
    assert not y.numpy().any()
    assert norm.rms_norm(x, (64,)).dtype is ex.float16


def test_half_precision_inputs_get_half_precision_gradients():
    x = normal(3, 8).bfloat16().requires_grad_()
    w = ex.ones(8, dtype=ex.bfloat16, requires_grad=True)
    norm.layer_norm(x, (8,), w).float().square().sum().backward()
    assert x.grad.dtype is w.grad.dtype is ex.bfloat16


def test_a_constant_row_gives_zeros_not_nan():
    assert norm.layer_norm(ex.full((2, 4), 7.0), (4,)).tolist() == [[0] * 4] * 2


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, b: norm.layer_norm(x.mT, (3,), w, b, 0.1),
        lambda x, w, b: norm.batch_norm(x, None, None, w, b, True, 0.1, 0.1),
        lambda x, w, b: norm.batch_norm(x, normal(3, seed=3), normal(3, seed=4) ** 2, w, b),
        lambda x, w, b: norm.group_norm(x, 1, w, b, 0.1),
        lambda x, w, b: norm.instance_norm(x, None, None, w, b, eps=0.1),
        lambda x, w, b: norm.rms_norm(x.mT, (3,), w) + b,
        lambda x, w, b: norm.native_group_norm(x, w, b, 2, 3, 2, 3, 0.1)[2],
        lambda x, w, b: norm.local_response_norm(x, 2, 0.5, 0.75, 1.0) + w.sum() * b.sum(),
    ],
)
def test_gradients_of_first_and_second_order_are_right(function):
    inputs = (
        normal(2, 3, 2, requires_grad=True),
        normal(3, requires_grad=True, seed=1),
        normal(3, requires_grad=True, seed=2),
    )
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)
