"""Ops on all samples at once: by every kind of batching rule the same as a loop over samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import extempo as ex
from extempo.func import grad, hessian, vmap

from .loops import assert_close, draw, loop

FUNCTIONS: dict[str, Callable[[ex.Tensor], ex.Tensor]] = {
    "elementwise": lambda x: (x.sin() * 2 + x) / (1 + x.abs()),
    "broadcast": lambda x: x.unsqueeze(0) * x.unsqueeze(1) + x,
    "reduce": lambda x: x.sum() * x.mean(0) + x.amax(),
    "shared matrix": lambda x: draw(4, 4) @ x + x @ draw(4, 4),
    "own matrix": lambda x: x.outer(x) @ draw(4, 2),
    "views": lambda x: x.reshape(2, 2).T[1:].flip(0).expand(3, 1, 2)[..., 0],
    "index": lambda x: x[ex.tensor([0, 2, 2])] * draw(5)[x.argmax()],
    "join": lambda x: ex.cat([x, draw(2), x[:1]]).cumsum(0),
    "softmax": lambda x: x.softmax(0).log() + x.logsumexp(0),
    "sort": lambda x: x.sort(descending=True).values + x.topk(2).values.sum(),
    "where": lambda x: ex.where(x > 0, x, ex.where(x.sum() > 0, x * 2, x * 3)),
    "without a rule": lambda x: x.as_strided((2, 2), (1, 2)),
    "norm": lambda x: x / x.norm(),
    "compare": lambda x: (x > x.mean()).to(x.dtype) + ex.maximum(x, draw(4)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_a_loop(name: str) -> None:
    fn, xs = FUNCTIONS[name], draw(3, 4)
    assert_close(vmap(fn)(xs), loop(fn, xs))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_per_sample_gradients_are_those_of_a_loop(name: str) -> None:
    fn, xs = FUNCTIONS[name], draw(3, 4)

    def loss(x: ex.Tensor) -> ex.Tensor:
        return (fn(x) ** 2).sum()

    assert_close(vmap(grad(loss))(xs), loop(grad(loss), xs))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_a_vmap_are_those_of_a_loop(name: str) -> None:
    fn, xs = FUNCTIONS[name], draw(3, 4)

    def total(xs: ex.Tensor, run: Any) -> ex.Tensor:
        return (run(xs) ** 2).sum()

    assert_close(grad(lambda x: total(x, vmap(fn)))(xs), grad(lambda x: total(x, lambda xs: loop(fn, xs)))(xs))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_per_sample_second_derivatives_are_those_of_a_loop(name: str) -> None:
    fn, xs = FUNCTIONS[name], draw(3, 4)

    def loss(x: ex.Tensor) -> ex.Tensor:
        return (fn(x) ** 2).sum()

    assert_close(vmap(hessian(loss))(xs), loop(hessian(loss), xs))


def test_promotion_is_that_of_one_sample() -> None:
    doubles, floats = ex.ones(3, dtype=ex.float64), ex.ones(3, 2)
    assert vmap(lambda a, b: a * b)(doubles, floats).dtype is ex.float32
    assert vmap(lambda a: a * ex.tensor(1.0, dtype=ex.float64))(ex.ones(3)).dtype is ex.float64
    assert vmap(lambda a, b: ex.where(a > 0, b, a))(doubles, floats).dtype is ex.float32
    assert vmap(lambda a, b: a > b)(doubles, floats).dtype is ex.bool
