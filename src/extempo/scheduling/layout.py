"""Where elements lie: strides and offsets of views, in bytes, exactly as NumPy (and the native view code) has them.

Strides decide which of several ways a matrix product is computed, and so its bits. Those of a size-1 dimension do not:
they say nothing about where elements lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.cache import Cache
from ..core.layout import is_contiguous
from ..core.strides import row_major_strides
from ..core.types import TensorType

Starts = tuple[tuple[int, int, int], ...]

_ROW_MAJOR: Cache[TensorType, tuple[int, ...]] = Cache("row-major strides", 8_000)
_BROADCAST: Cache[Any, tuple[int, ...]] = Cache("strides of broadcast operands", 8_000)


def row_major(t: TensorType) -> tuple[int, ...]:
    """The strides of a new array of that type, kept: plans ask for those of the same few types again and again."""
    found = _ROW_MAJOR.get(t)
    return _ROW_MAJOR.put(t, row_major_strides(t.shape, t.dtype.itemsize)) if found is None else found


def is_matrix(t: TensorType, strides: tuple[int, ...]) -> bool:
    """Whether routines that read "m" can read it: see `prepare` in the native calls."""
    if len(t.shape) < 2:
        return True
    n_rows, n_columns = t.shape[-2:]
    before, last = strides[-2:]
    one = t.dtype.itemsize
    by_row = (last == one or n_columns <= 1) and (before >= n_columns * one or n_rows <= 1)
    by_column = (before == one or n_rows <= 1) and (last >= n_rows * one or n_columns <= 1)
    return by_row or by_column


def broadcast(shape: tuple[int, ...], own: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of an operand of shape `own` when it is repeated to `shape`."""
    key = (shape, own, strides)
    found = _BROADCAST.get(key)
    if found is None:
        moves = [0 if size == 1 else stride for size, stride in zip(own, strides, strict=True)]
        found = _BROADCAST.put(key, (*[0] * (len(shape) - len(own)), *moves))
    return found


class StridedLayout(NamedTuple):
    """How a view lies in its source: strides, and the distance of the first elements."""

    strides: tuple[int, ...]
    offset: int = 0


def view_layout(
    op: str,
    t: TensorType,
    strides: tuple[int, ...],
    attrs: dict[str, Any],
    result: TensorType,
    starts: Sequence[int] = (),
) -> StridedLayout | None:
    """The layout of a view, of a slice with known `starts`; None where it takes a copy."""
    if op == "permute":
        return StridedLayout(tuple(strides[d] for d in attrs["dims"]))
    if op == "expand":
        moves = (0 if size == 1 else stride for size, stride in zip(t.shape, strides, strict=True))
        return StridedLayout((*[0] * (len(result.shape) - len(t.shape)), *moves))
    if op == "reshape":
        reshaped = reshaped_strides(t, strides, result)
        return None if reshaped is None else StridedLayout(reshaped)
    if op == "slice":
        return _slice_layout(strides, attrs["spec"], starts)
    return StridedLayout(strides)


def _slice_layout(strides: tuple[int, ...], spec: tuple[Any, ...], starts: Sequence[int]) -> StridedLayout:
    out: list[int] = []
    offset = dim = n_starts = 0
    for entry in spec:
        if entry is None:
            out.append(0)
            continue
        if entry == ":":
            out.append(strides[dim])
        else:
            offset += starts[n_starts] * strides[dim]
            n_starts += 1
            if entry != "i":
                out.append(strides[dim] * entry[1])
        dim += 1
    return StridedLayout((*out, *strides[dim:]), offset)


def reshaped_strides(t: TensorType, strides: tuple[int, ...], result: TensorType) -> tuple[int, ...] | None:
    """The strides of another shape on the same memory; None if it takes a copy.

    From the first dimension on, as few old and new dimensions as have the same number of elements are taken together;
    the old ones must lie in one run.
    """
    if t.shape == result.shape:
        return strides
    if is_contiguous(t, strides):
        return row_major(result)
    old = [(size, stride) for size, stride in zip(t.shape, strides, strict=True) if size != 1]
    new = result.shape
    out = [0] * len(new)
    old_from = new_from = 0
    while new_from < len(new) and old_from < len(old):
        old_to, new_to = old_from + 1, new_from + 1
        of_new, of_old = new[new_from], old[old_from][0]
        while of_new != of_old:
            if of_new < of_old:
                of_new *= new[new_to]
                new_to += 1
            else:
                of_old *= old[old_to][0]
                old_to += 1
        for d in range(old_from, old_to - 1):
            if old[d][1] != old[d + 1][0] * old[d + 1][1]:
                return None
        step = old[old_to - 1][1]
        for d in range(new_to - 1, new_from - 1, -1):
            out[d] = step
            step *= new[d]
        old_from, new_from = old_to, new_to
    return (*out[:new_from], *[out[new_from - 1]] * (len(new) - new_from))  # what is left has size 1


class Region(NamedTuple):
    """A slice of a tensor whose elements lie in order: what it looks at, and which part of which dimension that is."""

    type: TensorType
    strides: tuple[int, ...]
    offset: int
    starts: Starts
    dim: int  # the only dimension of which it takes a part; -1 if that is not known
    first: int
    end: int


def slice_region(
    t: TensorType, spec: tuple[Any, ...], result: TensorType, fixed: tuple[int, ...] | None, numbers: tuple[int, ...]
) -> Region:
    """A slice's part of a gradient of type `t`. Its starts are `fixed`, or come as these `numbers` with each run."""
    whole = row_major(t)
    strides: list[int] = []
    starts: list[tuple[int, int, int]] = []
    parts: list[tuple[int, int, int, int]] = []  # dimension, first, end, step
    offset = dim = n_starts = 0
    for entry in spec:
        if entry is None:
            strides.append(0)
            continue
        if entry == ":":
            strides.append(whole[dim])
            dim += 1
            continue
        length, step = (1, 1) if entry == "i" else entry
        if entry != "i":
            strides.append(whole[dim] * step)
        if fixed is None:
            starts.append((numbers[n_starts], whole[dim], t.shape[dim] - 1 - (length - 1) * step))
            parts.append((dim, 0, 0, 0))
        else:
            first = fixed[n_starts]
            offset += first * whole[dim]
            parts.append((dim, first, first + length, step))
        n_starts += 1
        dim += 1
    strides += whole[dim:]
    parts = [p for p in parts if p[3] == 0 or p[2] - p[1] != t.shape[p[0]]]
    dim, first, end = -1, 0, 0
    if len(parts) == 1 and parts[0][3] == 1:
        dim, first, end = parts[0][:3]
    elif not parts and t.shape:
        dim, first, end = 0, 0, t.shape[0]
    return Region(result, tuple(strides), offset, tuple(starts), dim, first, end)
