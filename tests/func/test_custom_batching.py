"""autograd.Function inside vmap."""

from __future__ import annotations

from typing import Any

import numpy as np

import extempo as ex
from extempo import autograd
from extempo.func import grad, vmap

from .loops import assert_close, draw


class Cube(autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: ex.Tensor, w: ex.Tensor) -> ex.Tensor:
        y = x**3 * w
        ctx.save_for_backward(x, w, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: ex.Tensor) -> Any:
        x, w, y = ctx.saved_tensors
        return 3 * x**2 * w * g, g * x**3 + y * 0


def test_autograd_functions_work_in_every_order_of_transforms() -> None:
    xs, w = draw(3, 4), draw(4)

    def custom(x: ex.Tensor, w: ex.Tensor) -> ex.Tensor:
        return Cube.apply(x, w).sum()

    def plain(x: ex.Tensor, w: ex.Tensor) -> ex.Tensor:
        return (x**3 * w).sum()

    def over(fn: Any, inner: Any) -> Any:
        return grad(lambda x, w: vmap(inner(fn), in_dims=(0, None))(x, w).pow(2).sum(), argnums=(0, 1))(xs, w)

    for transform in (
        lambda fn: vmap(grad(fn, argnums=(0, 1)), in_dims=(0, None))(xs, w),
        lambda fn: over(fn, lambda f: f),
        lambda fn: over(fn, grad),
    ):
        for a, b in zip(transform(custom), transform(plain), strict=True):
            assert_close(a, b)


def test_an_autograd_function_may_have_a_rule_of_its_own() -> None:
    class Sin(autograd.Function):
        @staticmethod
        def forward(x: ex.Tensor) -> ex.Tensor:
            return ex.from_numpy(np.sin(x.detach().numpy()))

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: ex.Tensor) -> Any:
            assert info.batch_size == 3
            return Sin.apply(x), in_dims[0]

        @staticmethod
        def backward(ctx: Any, g: ex.Tensor) -> Any:
            (x,) = ctx.saved_tensors
            return g * x.cos()

    xs = draw(3, 4)
    assert_close(vmap(Sin.apply)(xs), xs.sin())
    assert_close(vmap(grad(lambda x: Sin.apply(x).sum()))(xs), xs.cos())
    assert_close(grad(lambda xs: vmap(Sin.apply)(xs).sum())(xs), xs.cos())
