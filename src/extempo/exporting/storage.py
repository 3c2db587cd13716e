"""Weights in files in fewer bytes: as float16, or as int8 with a scale for each row.

A stored weight is a function of the weight's values alone, and a weight that was stored once is stored and restored
without another change: float16 by rounding, int8 by a symmetric scale for each slice of the first dimension, with a
mantissa so short that 127 times the scale is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.tensor import Tensor, from_array
from ..core.types import TensorType, float16, float32, float64, int8

KINDS = ("int8", "float16")
LEAST = 256  # elements: less than that is not worth a scale
SCALE = "@scale"  # after the name of a weight in a file
_SHORT = 2.0**16  # mantissas of scales are multiples of its inverse


def is_storable(tensor: Tensor, kind: str) -> bool:
    """Whether it takes fewer bytes in that kind: large enough and of floats; int8 needs rows, as biases have none."""
    if tensor.dtype not in (float32, float64) or tensor.numel() < LEAST:
        return False
    return kind == "float16" or tensor.ndim >= 2


def stored(name: str, tensor: Tensor, kind: str) -> dict[str, Tensor]:
    """What a file holds for a weight."""
    array = tensor.detach().numpy()
    if kind == "float16":
        limit = np.finfo(np.float16).max
        return {name: from_array(np.clip(array, -limit, limit).astype(np.float16))}
    numbers, scale = _int8(array)
    return {name: from_array(numbers), name + SCALE: from_array(scale)}


def stored_weights(weights: Mapping[str, Tensor], storage: Mapping[str, str]) -> dict[str, Tensor]:
    """All weights of a program as its file holds them. storage: the kinds of those that are stored."""
    held: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        held.update(stored(name, tensor, storage[name]) if name in storage else {name: tensor.detach()})
    return held


def _int8(array: Any) -> tuple[Any, Any]:
    rows = array.astype(np.float64)
    largest = np.abs(rows).max(axis=tuple(range(1, array.ndim)), keepdims=True, initial=0.0)
    mantissa, exponent = np.frexp(np.where(np.isfinite(largest) & (largest > 0), largest, 1.0) / 127)
    scale = np.ldexp(np.ceil(mantissa * _SHORT) / _SHORT, exponent)
    numbers = np.clip(np.rint(np.nan_to_num(rows / scale)), -127, 127).astype(np.int8)
    return numbers, scale.astype(np.float32)


def restored(name: str, type_: TensorType, kind: str, weights: Mapping[str, Tensor]) -> Tensor | None:
    """The weight of that type from what a file holds; None if it does not hold it."""
    found: Any = weights.get(name)
    if not isinstance(found, Tensor) or tuple(found.shape) != tuple(type_.shape):
        return None
    if found.dtype is type_.dtype:  # it was never stored
        return found
    if not kind:
        return None
    if kind == "float16":
        return found.to(type_.dtype) if found.dtype is float16 else None
    scale: Any = weights.get(name + SCALE)
    shape = (*found.shape[:1], *(1 for _ in found.shape[1:]))
    if found.dtype is not int8 or not isinstance(scale, Tensor) or scale._type != TensorType(shape, float32):
        return None
    return from_array(found.numpy().astype(type_.dtype.numpy) * scale.numpy().astype(type_.dtype.numpy))


def n_bytes(tensors: Mapping[str, Tensor]) -> int:
    return sum(t.numel() * t.dtype.itemsize for t in tensors.values())
