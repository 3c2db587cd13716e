"""Strides of new results: the one rule for memory layouts that eager mode, traces and plans follow.

An elementwise result keeps the order of dimensions of its inputs, as PyTorch's does: what is computed from a transposed
tensor is transposed in memory, without gaps. The order follows from shapes and strides alone, so a trace that knows
those of its leaves knows those of all that is computed from them. Native code has a twin (`_Run.order_dims` in
`backends/llvm/elementwise/broadcasting.py`) for arrays that it makes itself; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .storage import Array

Order = tuple[int, ...]  # dimensions, from the slowest to the fastest in memory


def row_major_strides(shape: Sequence[int], itemsize: int = 1) -> tuple[int, ...]:
    """The strides of a contiguous array in bytes; in elements where no itemsize is passed.

    A dimension of no elements counts as one, as in PyTorch and in the native backend. Sizes may be symbolic.
    """
    found: list[int] = []
    for size in reversed(shape):
        found.append(itemsize)
        itemsize *= size or 1
    return tuple(reversed(found))


def kept_order(shape: Sequence[int], operands: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Order | None:
    """The order of dimensions in memory of a result of `shape`, computed from operands of these (shape, strides).

    None: row-major, as it is when its operands are. The rule is that of PyTorch's TensorIterator: dimensions are
    sorted by their strides; the first operand that moves along both of two dimensions decides, and where none does
    (both are repeated) they stay as they are.
    """
    n = len(shape)
    if n < 2 or 0 in shape:
        return None
    rows = [
        (*[0] * (n - len(own)), *[0 if size == 1 else abs(s) for size, s in zip(own, strides, strict=True)])
        for own, strides in operands
    ]
    fastest_first = list(range(n - 1, -1, -1))
    for i in range(1, n):
        at = i
        for before in range(i - 1, -1, -1):
            verdict = _compare(shape, rows, fastest_first[before], fastest_first[at])
            if verdict < 0:
                break
            if verdict > 0:
                fastest_first[before], fastest_first[at] = fastest_first[at], fastest_first[before]
                at = before
    order = tuple(reversed(fastest_first))
    moving = [d for d in order if shape[d] != 1]
    return None if moving == sorted(moving) else order


def _compare(shape: Sequence[int], rows: list[tuple[int, ...]], one: int, other: int) -> int:
    """Above 0: dimension `one` is slower than `other`, below 0: faster; 0: nobody knows."""
    for strides in rows:
        first, second = strides[one], strides[other]
        if first and second:
            if first != second:
                return first - second
            if shape[one] > shape[other]:
                return 1
    return 0


def ordered_strides(shape: Sequence[int], itemsize: int, order: Order) -> tuple[int, ...]:
    """The strides of an array without gaps whose dimensions are in that order."""
    found = [0] * len(shape)
    for d in reversed(order):
        found[d] = itemsize
        itemsize *= shape[d]
    return tuple(found)


def inverse(order: Order) -> Order:
    """What brings dimensions back that `order` has brought into another order."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def order_of_array(array: Array) -> Order | None:
    """The order of its dimensions in memory; None: row-major, or with gaps between the elements."""
    if array.flags.c_contiguous:
        return None
    order = kept_order(array.shape, [(array.shape, array.strides)])
    return order if order is not None and array.transpose(order).flags.c_contiguous else None


def copied(array: Array, order: Order | None) -> Array:
    """A copy without gaps whose dimensions are in that order."""
    return array.copy(order="C") if order is None else array.transpose(order).copy(order="C").transpose(inverse(order))


def is_k_ordered(array: Array, order: Order | None) -> bool:
    """Whether its elements have no gaps and its dimensions are in that order, from the slowest to the fastest."""
    return bool((array if order is None else array.transpose(order)).flags.c_contiguous)


def laid_out(result: Any, operands: Iterable[Any]) -> Array:
    """What NumPy has computed, copied only where its layout is not that of the rule. No operands: row-major."""
    out, arrays = np.asarray(result), [x for x in operands if isinstance(x, np.ndarray)]
    if out.flags.c_contiguous and all(x.flags.c_contiguous for x in arrays):
        return out
    order = kept_order(out.shape, [(x.shape, x.strides) for x in arrays])
    return out if is_k_ordered(out, order) else copied(out, order)
