"""`backward` and `grad`: what they return, what they accumulate into, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import (
    AutogradError,
)


def test_grad_returns_without_accumulating():
    x, w = ex.ones(2, requires_grad=True), ex.ones(2, requires_grad=True)
    (gx,) = ex.autograd.grad((x * w).sum(), [x])
    np.testing.assert_array_equal(gx.numpy(), [1, 1])
    assert x.grad is None
    assert w.grad is None


def test_unused_inputs_are_an_error_unless_allowed():
    x, w = ex.ones(2, requires_grad=True), ex.ones(2, requires_grad=True)
    with pytest.raises(AutogradError, match="does not depend on input 1"):
        ex.autograd.grad(x.sum(), [x, w])
    assert ex.autograd.grad(x.sum(), [x, w], allow_unused=True)[1] is None
    zeros = ex.autograd.grad(x.sum(), [x, w], materialize_grads=True)[1]
    np.testing.assert_array_equal(zeros.numpy(), [0, 0])


def test_third_derivative():
    x = ex.tensor(2.0, requires_grad=True)
    y = x**4
    for factor in (32.0, 48.0, 48.0):
        (y,) = ex.autograd.grad(y, x, create_graph=True)
        assert y.item() == pytest.approx(factor)


def test_backward_into_chosen_inputs_only():
    x, w = ex.ones(2, requires_grad=True), ex.ones(2, requires_grad=True)
    (x * w).sum().backward(inputs=[w])
    assert x.grad is None
    np.testing.assert_array_equal(w.grad.numpy(), [1, 1])


def test_grad_of_an_intermediate_value():
    x = ex.ones(2, requires_grad=True)
    h = x * 3
    (g,) = ex.autograd.grad((h * h).sum(), h)
    np.testing.assert_array_equal(g.numpy(), [6, 6])
