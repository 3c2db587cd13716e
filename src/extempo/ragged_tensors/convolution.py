"""Convolution and pooling along rows: each row by itself, with the padding that the op asks for and no other.

conv1d gathers the windows of all rows, an element of zeros standing for padding, and multiplies them with the kernels
in one product: as many multiplications as the rows need. All else runs row by row. A row of no elements gives one of
none, but for windows of nothing but padding, where these fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import ops
from ..core.tensor import Tensor, from_array
from ..errors import ShapeError
from .indexing import zeros_after
from .per_row import mapped, stacked
from .rows import Rows
from .tensor import RaggedTensor

Ints = tuple[int, ...]

_LONG_ENOUGH = 1024  # for any window, where a tensor of no rows needs a result's shape


def check_layout(name: str, x: RaggedTensor, n: int) -> None:
    """(B, channels, n dimensions of space), of which one is ragged."""
    if x.ndim != n + 2 or x._dim == 1:
        hint = "; did you mean x.transpose(1, 2)?" if x.ndim == n + 2 else ""
        raise ShapeError(
            f"{name}: expected (B, channels, {'*' if n == 1 else f'{n} sizes, one of them ragged'}), got ragged shape "
            f"{tuple(x.shape)}{hint}"
        )


def conv1d(
    x: RaggedTensor, weight: Tensor, bias: Tensor | None, stride: int, padding: Ints, dilation: int, groups: int
) -> RaggedTensor:
    """F.conv1d of (B, channels, *); padding: before and after each row."""
    n_out, n_in, width = weight.shape
    rows, starts = _windows(x._rows, width, stride, padding, dilation)
    values = x._flat.movedim(1, 0)  # (elements, channels)
    if width > 1 or stride > 1 or any(padding):
        values = zeros_after(values, 0) if any(padding) else values
        values = values.index_select(0, from_array(_elements(x._rows, rows, starts, width, dilation).reshape(-1)))
    windows = values.reshape(rows.total, width * groups * n_in)
    if groups == 1:
        y = ops.linear(windows, weight.permute(0, 2, 1).reshape(n_out, width * n_in), bias)
    else:
        by_group = windows.reshape(rows.total, width, groups, n_in).permute(2, 0, 1, 3)
        kernels = weight.reshape(groups, n_out // groups, n_in, width).permute(0, 3, 2, 1)
        y = ops.matmul(
            by_group.reshape(groups, rows.total, width * n_in),
            kernels.reshape(groups, width * n_in, n_out // groups),
        )
        y = y.permute(1, 0, 2).reshape(rows.total, n_out)
        y = y if bias is None else y + bias
    return RaggedTensor(y.movedim(0, 1), rows, 2)


def _windows(rows: Rows, width: int, stride: int, padding: Ints, dilation: int) -> tuple[Rows, Any]:
    """The rows of windows, and where each window begins in its row; before 0 is padding."""
    span = dilation * (width - 1) + 1
    room = rows.lengths + sum(padding) - span
    too_short = (room < 0) & (rows.lengths > 0)
    if too_short.any():
        short = int(np.argmax(too_short))
        raise ShapeError(
            f"conv1d: the kernel spans {span}, more than row {short} of length {rows.lengths[short]} with padding "
            f"{padding}; add padding, or select longer rows: x[x.lengths() >= {span - sum(padding)}]"
        )
    made = Rows.of_lengths(np.maximum(room // stride + 1, 0))
    return made, made.place_of * stride - padding[0]


def _elements(rows: Rows, windows: Rows, starts: Any, width: int, dilation: int) -> Any:
    """For each window the elements that it sees among the values; one after the last stands for padding."""
    places = starts[:, None] + np.arange(width) * dilation
    inside = (places >= 0) & (places < rows.lengths[windows.row_of][:, None])
    return np.where(inside, places + rows.offsets[:-1][windows.row_of][:, None], rows.total)


def by_row(name: str, fn: Callable[[Tensor], Any], x: Any, n: int, least: int = 1, fixed: bool = False) -> Any:
    """A function of (1, channels, space...) for each row; `fixed`: its results have one size for all rows."""
    check_layout(name, x, n)

    def of_row(row: Tensor) -> Any:
        found = fn(row.unsqueeze(0))
        return tuple(y.squeeze(0) for y in found) if isinstance(found, tuple) else found.squeeze(0)

    return stacked(name, of_row, x, least) if fixed else mapped(name, of_row, x, least, keep_empty=True)


def pooled_by_row(name: str, pool: Callable[[Tensor], Any], x: RaggedTensor, n: int, output_size: Any) -> Any:
    """A pooling of each row. output_size: that of an adaptive one, where None keeps a size."""
    wanted = tuple(output_size) if hasattr(output_size, "__iter__") else (output_size,)
    of_ragged = wanted[x._dim - x.ndim + n] if len(wanted) == n else wanted[0]
    return by_row(name, pool, x, n, least=_LONG_ENOUGH, fixed=of_ragged is not None)
