"""A function mapped over samples, compared with a loop over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import extempo as ex


def draw(*shape: int, requires_grad: bool = False) -> ex.Tensor:
    values = np.random.default_rng(sum(shape)).normal(size=shape)
    return ex.tensor(values, requires_grad=requires_grad)


def loop(fn: Callable[..., Any], *mapped: ex.Tensor) -> ex.Tensor:
    return ex.stack([fn(*sample) for sample in zip(*mapped, strict=True)])


def assert_close(a: Any, b: Any) -> None:
    assert a.dtype is b.dtype
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12)
