"""Matrix products by kernel: stacks, empty operands, half precision, linear."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import ShapeError
from extempo.ops.products import linear
from extempo.testing import assert_close, check_grad

from .helpers import normal


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 2)),
        ((4, 2, 3), (3,)),
        ((3,), (4, 3, 2)),
        ((4, 2, 3), (3, 5)),
        ((2, 3), (4, 3, 5)),
    ],
)
def test_matmul_agrees_with_numpy_for_every_mix_of_vectors_and_stacks(left, right):
    a, b = normal(*left), normal(*right, seed=1)
    np.testing.assert_allclose((a @ b).numpy(), a.numpy() @ b.numpy())
    check_grad(ex.matmul, [a, b])


def test_a_stack_that_is_not_contiguous_gives_the_same_product():
    a, w = normal(4, 3, 2).permute(2, 0, 1), normal(3, 5, seed=1)
    np.testing.assert_allclose((a @ w).numpy(), a.numpy() @ w.numpy())


def test_products_over_nothing_are_zero():
    assert_close(ex.ones(2, 0) @ ex.ones(0, 3), ex.zeros(2, 3))
    assert (ex.ones(0, 3) @ ex.ones(3, 2)).shape == (0, 2)
    assert (ex.ones(0, 2, 3) @ ex.ones(3, 2)).shape == (0, 2, 2)
    assert_close(ex.ones(0) @ ex.ones(0), ex.tensor(0.0))


def test_the_gradient_of_an_empty_product_has_the_shapes_of_its_operands():
    a, b = ex.ones(2, 0, requires_grad=True), ex.ones(0, 3, requires_grad=True)
    (a @ b).sum().backward()
    assert a.grad.shape == (2, 0)
    assert b.grad.shape == (0, 3)


@pytest.mark.parametrize("dtype", [ex.float16, ex.bfloat16])
def test_half_precision_adds_up_in_float32(dtype):
    ones = ex.ones(1, 4096, dtype=dtype)
    # Adding ones in bfloat16 would stop at 256, in float16 at 2048.
    assert (ones @ ones.T).item() == 4096
    assert (ones @ ones.T).dtype is dtype
    assert linear(ones, ones).item() == 4096


def test_integers_multiply_exactly():
    a = ex.tensor([[2**40, 1], [3, -4]])
    assert (a @ a).tolist() == [[2**80 % 2**64 + 3, 2**40 - 4], [3 * 2**40 - 12, 19]]


def test_linear_is_one_node_and_keeps_only_input_and_weight():
    x, w, b = normal(5, 3).requires_grad_(), normal(2, 3, seed=1).requires_grad_(), normal(2, seed=2).requires_grad_()
    y = linear(x, w, b)
    assert y.grad_fn.op.name == "linear"
    with ex.no_grad():
        b.add_(1.0)
        y.mul_(2.0)
    y.sum().backward()  # neither the bias nor the result is read
    np.testing.assert_allclose(b.grad.numpy(), [5.0, 5.0])


def test_linear_on_a_stack_agrees_with_matmul():
    x, w, b = normal(4, 2, 3), normal(5, 3, seed=1), normal(5, seed=2)
    np.testing.assert_allclose(linear(x, w, b).numpy(), x.numpy() @ w.numpy().T + b.numpy())
    check_grad(linear, [x, w, b])


@pytest.mark.parametrize(
    ("x", "weight", "hint"),
    [
        ((8, 10), (5, 3), r"10 features in its last dimension, weight \(5, 3\) expects 3"),
        ((8, 10), (10, 5), r"did you mean weight.T"),
        ((8, 4, 4), (5, 16), r"x.flatten\(1\)"),
        ((16, 4), (5, 16), r"did you mean x.mT"),
    ],
)
def test_linear_says_which_sizes_differ_and_the_likely_fix(x, weight, hint):
    with pytest.raises(ShapeError, match=hint):
        linear(ex.ones(*x), ex.ones(*weight))


def test_linear_refuses_a_bias_of_another_size():
    with pytest.raises(ShapeError, match=r"needs a bias of shape \(5,\), got \(4,\)"):
        linear(ex.ones(2, 3), ex.ones(5, 3), ex.ones(4))
