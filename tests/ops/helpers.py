"""What the tests of ops share: small tensors, values and gradients as lists, and a convolution by its definition."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

import extempo as ex


def values(tensor: ex.Tensor) -> list:
    return tensor.detach().numpy().tolist()


def gradient(fn: Any, x: ex.Tensor) -> list:
    return values(ex.autograd.grad(fn(x).sum(), x)[0])


def gradient_at(fn: Any, numbers: Any) -> list:
    """`gradient` at these numbers, in float64."""
    return gradient(fn, ex.tensor(numbers, dtype=ex.float64, requires_grad=True))


def grid(*shape: int) -> ex.Tensor:
    """0, 1, 2, ... in a shape."""
    return ex.arange(float(np.prod(shape))).reshape(shape)


def normal(*shape: int, requires_grad: bool = False, seed: int = 0) -> ex.Tensor:
    return ex.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=requires_grad)


def leaf(*shape: int, seed: int = 0) -> ex.Tensor:
    """Normal numbers that require a gradient."""
    return normal(*shape, requires_grad=True, seed=seed)


def positive_definite(*shape: int) -> ex.Tensor:
    x = normal(*shape)
    return x @ x.mT + ex.eye(shape[-1], dtype=x.dtype)


# On this one LAPACK's SVD never ends.
INFINITE = np.random.default_rng(0).normal(size=(4, 3)) * 1e38
INFINITE[2, 0] = -math.inf


def same_bits(actual: ex.Tensor, expected: list) -> None:
    """Equal numbers with equal signs, also those of zeros."""
    array, wanted = actual.detach().double().numpy(), np.array(expected)
    np.testing.assert_array_equal(array, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(array)[numbers], np.signbit(wanted)[numbers])


def shapes(parts: Any) -> list:
    return [tuple(p.shape) for p in parts]


def by_definition(x: Any, w: Any, stride: int, padding: int, dilation: int, groups: int) -> Any:
    """conv2d of arrays in loops over the output."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    outputs, channels, kh, kw = w.shape
    height = (x.shape[2] - dilation * (kh - 1) - 1) // stride + 1
    width = (x.shape[3] - dilation * (kw - 1) - 1) // stride + 1
    y = np.zeros((x.shape[0], outputs, height, width))
    for o, i, j in itertools.product(range(outputs), range(height), range(width)):
        first = o // (outputs // groups) * channels
        rows = slice(i * stride, i * stride + dilation * (kh - 1) + 1, dilation)
        columns = slice(j * stride, j * stride + dilation * (kw - 1) + 1, dilation)
        y[:, o, i, j] = (x[:, first : first + channels, rows, columns] * w[o]).sum((1, 2, 3))
    return y
