"""Layouts of traced values, which have no memory yet: strides and offsets of views, and what strides say.

NumPy itself is asked, by an array header of that shape and those strides on hardly any memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .op import Op
from .storage import Array
from .strides import Order, kept_order, row_major_strides
from .trace_tree import ViewLayout
from .types import TensorType


def view_of(
    op: type[Op],
    attrs: dict[str, Any],
    source: TensorType,
    strides: tuple[int, ...] | None,
    numbers: list[Any],
    first_number: int | None,
) -> ViewLayout | None:
    """The view; None if it takes a copy (a reshape across strides).

    `strides` are those of the source, None if it is contiguous. With `first_number` the starts of a slice may be other
    numbers later: they are the numbers of the trace from that index on.
    """
    header = _header(source, strides)
    starts: tuple[tuple[int, int, int], ...] = ()
    if first_number is not None and op.name == "slice":
        starts = _starts(header, attrs["spec"], first_number)
    first_elements = [0] * len(numbers) if starts else numbers
    if op.name == "reshape":
        try:
            out = header.reshape(attrs["shape"], copy=False)
        except ValueError:
            return None
    else:
        out = op.numpy(header, *first_elements, **attrs)
    offset = out.__array_interface__["data"][0] - header.__array_interface__["data"][0] if out.size else 0
    return ViewLayout(out.strides, offset, starts)


def exact_strides(array: Array) -> tuple[int, ...] | None:
    """In bytes; None if they are those of a new array. Kernels look at strides, also at those of single elements."""
    if not array.flags.c_contiguous:
        return array.strides
    if 1 in array.shape or 0 in array.shape:
        return None if array.strides == row_major_strides(array.shape, array.itemsize) else array.strides
    return None


def is_contiguous(type_: TensorType, strides: tuple[int, ...]) -> bool:
    """Whether elements with these strides are in row-major order without gaps. Dimensions of size 1 may have any."""
    step = type_.dtype.itemsize
    if 0 in type_.shape:
        return True
    for size, stride in zip(reversed(type_.shape), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def order_of(type_: TensorType, operands: Sequence[tuple[TensorType, tuple[int, ...] | None]]) -> Order | None:
    """The order of dimensions of a result that keeps that of these operands; strides are None for contiguous ones."""
    if all(strides is None for _, strides in operands):
        return None
    known = [(t.shape, s or row_major_strides(t.shape, t.dtype.itemsize)) for t, s in operands]
    return kept_order(type_.shape, known)


def _header(type_: TensorType, strides: tuple[int, ...] | None) -> Array:
    """An array of that shape and those strides on hardly any memory: nobody looks at its elements."""
    one = np.zeros(1, type_.dtype.numpy)
    if strides is None:
        strides = row_major_strides(type_.shape, type_.dtype.itemsize)
    return np.lib.stride_tricks.as_strided(one, type_.shape, strides)


def _starts(source: Array, spec: tuple[Any, ...], first_number: int) -> tuple[tuple[int, int, int], ...]:
    """How each start moves the view, and how large it may be; () where there is a slice of no elements."""
    found: list[tuple[int, int, int]] = []
    dim = 0
    for entry in spec:
        if entry is None:
            continue
        if entry != ":":
            reach = 0 if entry == "i" else (entry[0] - 1) * entry[1]
            largest = source.shape[dim] - 1 - reach
            if reach < 0 or largest < 0:
                return ()
            found.append((first_number + len(found), source.strides[dim], largest))
        dim += 1
    return tuple(found)
