"""Sizes that a file asks for: dimensions counted from the end, and a limit on what one value may take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ...errors import IndexRangeError, ShapeError

MAX_BYTES = 2**31  # of one value that is larger than the inputs it is made from
MAX_NDIM = 64  # NumPy has no more


def axis_in(axis: int, ndim: int) -> int:
    """A dimension as a number from 0 on."""
    if not -ndim <= axis < max(ndim, 1):
        raise IndexRangeError(f"there is no axis {axis} in a tensor with {ndim} dimensions")
    return axis + ndim if axis < 0 else axis


def axes_in(axes: Iterable[int], ndim: int) -> list[int]:
    """Dimensions as numbers from 0 on, each once."""
    found = [axis_in(a, ndim) for a in axes]
    if len(set(found)) != len(found):
        raise ShapeError(f"an axis is named twice in {found}")
    return found


def check_size(shape: Sequence[int], itemsize: int = 8) -> tuple[int, ...]:
    """A shape that a file computed, before memory is taken for it; symbols of a program are any size."""
    if not all(type(n) is int for n in shape):
        return tuple(shape)
    if any(n < 0 for n in shape) or len(shape) > MAX_NDIM:
        raise ShapeError(f"a tensor cannot have the shape {list(shape)[:8]}")
    if math.prod(shape) * itemsize > MAX_BYTES or max(shape, default=0) > MAX_BYTES:  # 0 elements need indices, too
        raise ShapeError(
            f"the model asks for a tensor of shape {list(shape)}, which takes more than {MAX_BYTES >> 30} GiB; "
            "check the sizes of its inputs"
        )
    return tuple(shape)


def same_length(what: str, values: Sequence[object], n: int) -> None:
    """A list that must have one entry for each of `n` dimensions."""
    if len(values) != n:
        raise ShapeError(f"{what} must have {n} entries, got {len(values)}")
