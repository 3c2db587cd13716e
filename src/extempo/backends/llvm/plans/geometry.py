"""The layout of a cluster's operands: from shapes and strides to the instruction that runs its kernel.

The iteration space is brought to as few dimensions as possible, as eager calls do (elementwise/broadcasting.py): the
last one becomes the kernel's columns, the one before its rows. Where that is all and it is small, the kernel itself is
the instruction. Otherwise `plan_rows` is: it counts through the other dimensions, and splits much work over threads.
"""

from __future__ import annotations

from typing import NamedTuple

from ....core.cache import Cache
from ....core.types import count
from ..elementwise.broadcasting import SPLIT_FROM
from .rows import MAX_OPERANDS
from .runtime import runtime

Strides = tuple[tuple[int, ...], ...]


class _Layout(NamedTuple):
    kinds: str
    geometry: tuple[int, ...]  # as kernels read it
    outer: tuple[int, ...] | None  # for plan_rows, what follows the kernel's address; None: the kernel does it all


_LAYOUTS: Cache[tuple[tuple[int, ...], tuple[int, ...], Strides, int], _Layout] = Cache("plan layouts", 8_000)


def row_kinds(shape: tuple[int, ...], itemsizes: tuple[int, ...], strides: Strides, n_inputs: int) -> str:
    """How each input runs along a row: "1" side by side, "0" the same value, "s" any stride.

    ValueError: the elements of an output are not contiguous along a row.
    """
    return _layout(shape, itemsizes, strides, n_inputs).kinds


def elementwise_call(
    kernel_address: int, shape: tuple[int, ...], itemsizes: tuple[int, ...], strides: Strides, n_inputs: int
) -> tuple[int, tuple[int, ...]]:
    """(address, meta) of the instruction that runs a kernel, compiled for `row_kinds`, on operands laid out like this.

    `strides`: for each operand, inputs first, in bytes and for each dimension of `shape`; 0 where it is repeated.
    """
    layout = _layout(shape, itemsizes, strides, n_inputs)
    if layout.outer is None:
        return kernel_address, layout.geometry
    return runtime()["plan_rows"], (kernel_address, *layout.outer)


def _layout(shape: tuple[int, ...], itemsizes: tuple[int, ...], strides: Strides, n_inputs: int) -> _Layout:
    key = (shape, itemsizes, strides, n_inputs)
    found = _LAYOUTS.get(key)
    if found is None:
        found = _LAYOUTS.put(key, _lay_out(shape, itemsizes, strides, n_inputs))
    return found


def _lay_out(shape: tuple[int, ...], itemsizes: tuple[int, ...], strides: Strides, n_inputs: int) -> _Layout:
    n = len(strides)
    if n > MAX_OPERANDS:
        raise ValueError(f"an elementwise instruction with {n} operands, expected at most {MAX_OPERANDS}")
    if count(shape) == 0:
        return _Layout("1" * n_inputs, (0, 0, *[0] * (2 * n)), None)
    sizes, steps = _collapse(shape, strides)
    outputs = range(n_inputs, n)
    if sizes and any(steps[-1][i] != itemsizes[i] for i in outputs):
        if shape[-1] != 1:
            raise ValueError(
                f"the elements of an output of shape {shape} do not lie side by side: {strides[n_inputs:]}"
            )
        sizes.append(1)  # rows of one element each
        steps.append([0] * n)
    n_columns = sizes.pop() if sizes else 1
    column_steps = steps.pop() if steps else [0] * n
    n_rows = sizes.pop() if sizes else 1
    row_steps = steps.pop() if steps else [0] * n
    if n_columns == 1:
        kinds = "1" * n_inputs  # each would do; this one is the likeliest to be there
    else:
        pairs = zip(column_steps[:n_inputs], itemsizes, strict=False)
        kinds = "".join("0" if step == 0 else "1" if step == itemsize else "s" for step, itemsize in pairs)
    geometry = (n_rows, n_columns, *row_steps, *column_steps)
    if not sizes and n_rows * n_columns < SPLIT_FROM:
        return _Layout(kinds, geometry, None)
    outer = (n, len(sizes), *geometry, *sizes, *(step for one in steps for step in one))
    return _Layout(kinds, geometry, outer)


def _collapse(shape: tuple[int, ...], strides: Strides) -> tuple[list[int], list[list[int]]]:
    """Sizes, and all operands' strides, of the dimensions that are left when those in one run are joined."""
    sizes: list[int] = []
    steps: list[list[int]] = []
    for k, size in enumerate(shape):
        if size == 1:
            continue
        own = [s[k] for s in strides]
        if sizes and all(outer == inner * size for outer, inner in zip(steps[-1], own, strict=True)):
            sizes[-1] *= size
            steps[-1] = own
        else:
            sizes.append(size)
            steps.append(own)
    return sizes, steps
