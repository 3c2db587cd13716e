"""A gradient in the type of the value that it belongs to: broadcast dimensions summed away, dtype converted.

On Tensors (`fit`) and, by the same kernel and so with the same bits, on arrays (`sum_array_to`). No op does it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.cache import Cache
from ..core.op import REGISTRY
from ..core.storage import Array
from ..core.strides import laid_out
from ..core.tensor import Tensor
from ..core.types import TensorType
from ..dispatch.dispatcher import apply
from ..dispatch.kernel_cache import kernel_of


def fit(g: Tensor, type_: TensorType) -> Tensor:
    """The gradient in the type of the value it belongs to: broadcast dimensions summed, dtype converted."""
    if g._type.shape != type_.shape:
        g = _sum_to(g, type_.shape)
    if g._type.dtype is not type_.dtype:
        g = g.to(type_.dtype)
    return g


def broadcast_dims(shape: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...]:
    """Where `shape` has what `target` was expanded by."""
    extra = len(shape) - len(target)
    return tuple(range(extra)) + tuple(i for i, size in enumerate(target, extra) if size == 1 and shape[i] != 1)


def is_smaller(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether it is rather `shape` that would have to be expanded."""
    extra = len(shape) - len(target)
    return extra < 0 or any(a == 1 and b != 1 for a, b in zip(shape[extra:], target, strict=True))


def _sum_to(g: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Undo broadcasting: sum over the dimensions that were expanded. A smaller gradient is expanded instead."""
    if is_smaller(g._type.shape, shape):
        return g.expand(shape)  # a gradient that is the same for every element may come as one number
    dims = broadcast_dims(g._type.shape, shape)
    g = apply(REGISTRY["sum"], (g,), {"dim": dims, "keepdim": False})
    return g if g._type.shape == shape else g.reshape(shape)


def sum_apart(before: Array, more: Array) -> Array:
    """The sum of two gradients in memory of its own, in the layout that the sum of two tensors has."""
    return laid_out(np.add(before, more), (before, more))


_SUMS: Cache[Any, Callable[[Array], Array]] = Cache("sums that undo broadcasting", 4_000)


def sum_array_to(array: Array, type_: TensorType) -> Array:
    """`fit` on arrays of the right dtype, by the same kernel."""
    key = (array.shape, type_)
    found = _SUMS.get(key)
    if found is None:
        found = _SUMS.put(key, _sum_kernel(array.shape, type_))
    return found(array)


def _sum_kernel(shape: tuple[int, ...], type_: TensorType) -> Callable[[Array], Array]:
    if is_smaller(shape, type_.shape):
        return lambda array: np.broadcast_to(array, type_.shape).copy()
    attrs = {"dim": broadcast_dims(shape, type_.shape), "keepdim": False}
    (_, words, _), kernel = kernel_of(REGISTRY["sum"], (TensorType(shape, type_.dtype),), attrs)
    call: Callable[[Array], Array] = kernel.native_call(attrs, words) or kernel.fallback(attrs)
    kept = sum(size != 1 for size in type_.shape) == len(type_.shape)
    return call if kept else lambda array: call(array).reshape(type_.shape)
