"""Checks of view ops before they run: their kernels trust the functions that made them, and a program may be edited.

A view of a program read from a file, or run at sizes that nobody tried, could lie outside the memory of its tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.op import REGISTRY, Op
from ..core.types import TensorType, count, float32
from ..errors import ShapeError


def check_view(op: type[Op], type_: TensorType, numbers: Sequence[Any], attrs: dict[str, Any]) -> None:
    """Raise ShapeError unless the view lies inside a tensor of that type."""
    check = _CHECKS.get(op.name)
    if check is None:
        return
    try:
        fits = check(type_.shape, numbers, **attrs)
    except (TypeError, ValueError, IndexError, KeyError, StopIteration):
        fits = False
    if not fits:
        raise ShapeError(f"{op.name}: no such view of a tensor of shape {type_.shape}: {attrs}, {list(numbers)}")


def _sizes(*sizes: Any) -> bool:
    return all(type(n) is int and n >= 0 for n in sizes)


def _reshape(old: Any, numbers: Any, shape: Any) -> bool:
    return _sizes(*shape) and count(shape) == count(old)


def _permute(old: Any, numbers: Any, dims: Any) -> bool:
    return sorted(dims) == list(range(len(old)))


def _expand(old: Any, numbers: Any, shape: Any) -> bool:
    n_new = len(shape) - len(old)
    return n_new >= 0 and _sizes(*shape) and all(a in (1, b) for a, b in zip(old, shape[n_new:], strict=True))


def _slice(old: Any, numbers: Any, spec: Any) -> bool:
    starts, dim = iter(numbers), 0
    for entry in spec:
        if entry is None:
            continue
        size = old[dim]
        dim += 1
        if entry == "i":
            start = next(starts)
            if not (_sizes(start) and start < size):
                return False
        elif entry != ":":
            start, (length, step) = next(starts), entry
            if not (_sizes(start, length, step) and step > 0):
                return False
            if length and start + (length - 1) * step >= size:
                return False
    return True


def _diagonal(old: Any, numbers: Any, offset: Any, dim1: Any, dim2: Any) -> bool:
    return _sizes(dim1, dim2) and dim1 != dim2 and max(dim1, dim2) < len(old) and type(offset) is int


def _unfold(old: Any, numbers: Any, dimension: Any, size: Any, step: Any) -> bool:
    return _sizes(dimension, size, step) and step > 0 and dimension < len(old) and size <= old[dimension]


def _as_strided(old: Any, numbers: Any, size: Any, stride: Any, source_stride: Any) -> bool:
    (offset,) = numbers
    if not _sizes(offset, *size, *stride, *source_stride) or len(size) != len(stride):
        return False
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    end = sum((n - 1) * s for n, s in zip(old, source_stride, strict=True))
    return 0 in size or (0 not in old and last <= end)


def _write_through(old: Any, numbers: Any, steps: Any) -> bool:
    type_, left = TensorType(tuple(old), float32), list(numbers[1:])
    for name, n_numbers, items in steps:
        op, attrs, taken = REGISTRY[name], dict(items), left[:n_numbers]
        if not op.aliases_input:
            return False
        check_view(op, type_, taken, attrs)
        type_ = op.signature((type_, *map(type, taken)), attrs).type
        left = left[n_numbers:]
    return not left and type_.shape == numbers[0].shape


_CHECKS: dict[str, Any] = {
    "reshape": _reshape,
    "permute": _permute,
    "expand": _expand,
    "slice": _slice,
    "diagonal": _diagonal,
    "unfold": _unfold,
    "as_strided": _as_strided,
    "write_through": _write_through,
}
CHECKED = frozenset(_CHECKS)
