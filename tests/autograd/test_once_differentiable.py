"""A Function whose backward is marked: its gradients are right, and differentiating them again is an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import extempo as ex
from extempo import autograd
from extempo.autograd.function import once_differentiable
from extempo.errors import AutogradError


def draw(*shape: int, requires_grad: bool = True) -> ex.Tensor:
    values = np.random.default_rng(sum(shape) + len(shape)).normal(size=shape)
    return ex.tensor(values, dtype=ex.float64, requires_grad=requires_grad)


def test_once_differentiable_refuses_a_second_derivative() -> None:
    class Numpy(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: ex.Tensor) -> ex.Tensor:
            ctx.save_for_backward(x)
            return ex.from_numpy(np.sin(x.detach().numpy()))

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, g: ex.Tensor) -> Any:
            (x,) = ctx.saved_tensors
            return ex.from_numpy(g.numpy() * np.cos(x.numpy(force=True)))

    x = draw(3)
    assert autograd.gradcheck(Numpy.apply, (x,))
    (g,) = autograd.grad(Numpy.apply(x).sum(), x, create_graph=True)
    np.testing.assert_allclose(g.detach().numpy(), np.cos(x.detach().numpy()))
    with pytest.raises(AutogradError, match="once_differentiable"):
        g.sum().backward()


def test_only_floating_gradients_of_a_recorded_backward_are_marked() -> None:
    class Doubled(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: ex.Tensor, n: ex.Tensor) -> ex.Tensor:
            return x * 2

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, g: ex.Tensor) -> Any:
            return g * 2, None

    x, n = draw(3), ex.ones(3, dtype=ex.int64)
    (plain,) = autograd.grad(Doubled.apply(x, n).sum(), x)
    assert not plain.requires_grad
    incoming = draw(3)
    (g,) = autograd.grad(Doubled.apply(x, n), x, incoming, create_graph=True)
    np.testing.assert_array_equal(g.detach().numpy(), 2 * incoming.detach().numpy())
    assert g.grad_fn.name() == "OnceDifferentiableBackward"
