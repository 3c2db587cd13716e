"""Compares a batched function with the plain loop: results and gradients, to rounding. Samples to do it on."""

from __future__ import annotations

from typing import Any

import numpy as np

import extempo as ex
from extempo.core.tensor import Tensor


def draw(seed: int, *shape: int) -> Tensor:
    return ex.tensor(np.random.default_rng([seed, *shape]).normal(size=shape), dtype=ex.float32)


def rows(n: int, *shape: int) -> list[Tensor]:
    return [draw(i, *shape) for i in range(n)]


def leaves(tree: Any) -> list[Tensor]:
    if isinstance(tree, dict):
        return [t for value in tree.values() for t in leaves(value)]
    if isinstance(tree, list | tuple):
        return [t for value in tree for t in leaves(value)]
    return [tree] if isinstance(tree, Tensor) else []


def close(got: np.ndarray, expected: np.ndarray, what: str) -> None:
    assert got.shape == expected.shape, what
    assert got.dtype == expected.dtype, what
    tolerance = 1e-4 if expected.dtype == np.float32 else 1e-9
    scale = max(1.0, float(np.abs(expected).max(initial=0.0))) if expected.dtype.kind == "f" else 1.0
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * scale, err_msg=what)


def gradients_of(outputs: Any, parameters: list[Tensor], columns: Any = ()) -> list[Any]:
    """Of a sum in which every element counts differently, for weights and for samples that are tracked."""
    parameters = [*parameters, *[t for t in leaves(list(columns)) if t.is_leaf and t.requires_grad]]
    for p in parameters:
        p.grad = None
    tracked = [t for t in leaves(outputs) if t.requires_grad]
    if tracked:
        total = ex.tensor(0.0)
        for i, t in enumerate(tracked):
            total = total + (t * (1.0 + 0.1 * (i % 7))).sum()
        total.backward()
    return [None if p.grad is None else p.grad.numpy().copy() for p in parameters]


def check(fn: Any, *samples: Any, parameters: Any = (), seed: int = 0, **shared: Any) -> Any:
    """Runs both ways; returns the batched function, for its statistics."""
    parameters = list(parameters)
    ex.manual_seed(seed)
    expected = ex.batch(fn, debug=True)(*samples, **shared)
    expected_gradients = gradients_of(expected, parameters)
    ex.manual_seed(seed)
    batched = ex.batch(fn)
    got = batched(*samples, **shared)
    assert len(got) == len(expected)
    for i, (a, b) in enumerate(zip(leaves(got), leaves(expected), strict=True)):
        assert a.requires_grad == b.requires_grad, f"output {i}"
        close(a.detach().numpy(), b.detach().numpy(), f"output {i}")
    for i, (a, b) in enumerate(zip(gradients_of(got, parameters), expected_gradients, strict=True)):
        assert (a is None) == (b is None), f"gradient {i}"
        if a is not None:
            close(a, b, f"gradient {i}")
    return batched
