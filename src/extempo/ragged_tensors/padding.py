"""Between ragged and padded: rows into a regular tensor with something after the end of each, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import ops
from ..core.tensor import Tensor, from_array
from ..core.types import normalize_dim
from ..errors import DtypeError, ShapeError
from .rows import Rows
from .tensor import RaggedTensor


def padded(x: RaggedTensor, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
    """The rows in one regular tensor, `padding` after the end of each."""
    rows, dim = x._rows, x._dim
    longest = rows.longest
    if output_size is not None:
        wanted = tuple(output_size)
        least = (rows.n, *x._flat.shape[: dim - 1], longest, *x._flat.shape[dim:])
        if len(wanted) != x.ndim or any(a < b for a, b in zip(wanted, least, strict=True)):
            raise ShapeError(f"to_padded_tensor: output_size {wanted} is too small for rows that need {least}")
        if any(a != b for d, (a, b) in enumerate(zip(wanted, least, strict=True)) if d not in (0, dim)):
            raise ShapeError(
                f"to_padded_tensor: output_size {wanted} pads regular dimensions of {least}; pad them first"
            )
        longest, n = wanted[dim], wanted[0]
    else:
        n = rows.n
    # One more element stands for the padding; rows of the result point to their own elements, then to it.
    index = np.full((n, longest), rows.total, np.int64)
    index[rows.row_of, rows.place_of] = np.arange(rows.total)
    shape = list(x._flat.shape)
    shape[dim - 1] = 1
    flat = ops.cat([x._flat, ops.full(shape, padding, dtype=x.dtype)], dim - 1)
    found = flat.index_select(dim - 1, from_array(index.reshape(-1)))
    return found.unflatten(dim - 1, (n, longest)).movedim(dim - 1, 0)


def ragged_from_padded(padded: Tensor, lengths: Any = None, *, mask: Any = None, dim: int = 1) -> RaggedTensor:
    """A ragged tensor of the first `lengths[i]` elements of each row, or of those where `mask` is true.

    lengths: one number for each row. mask: bools of shape (rows, longest); row i keeps its true elements.
    dim: the dimension that becomes ragged.

    >>> ex.ragged_from_padded(ex.tensor([[1, 2], [3, 0]]), [2, 1])
    ragged([
      [1, 2],  # 2
      [3],     # 1
    ], shape=(2, *))
    """
    if not isinstance(padded, Tensor):
        raise DtypeError(f"ragged_from_padded: expected a tensor, got {type(padded).__name__}")
    dim = normalize_dim(dim, padded.ndim, "ragged_from_padded")
    if dim == 0:
        raise ShapeError("ragged_from_padded: dimension 0 counts the rows; the ragged dimension is another")
    if (lengths is None) == (mask is None):
        raise ShapeError("ragged_from_padded: expected either lengths or a mask")
    n, longest = padded.shape[0], padded.shape[dim]
    if mask is not None:
        kept = np.asarray(mask.numpy() if isinstance(mask, Tensor) else mask)
        if kept.shape != (n, longest) or kept.dtype != bool:
            raise ShapeError(
                f"ragged_from_padded: the mask must be bools of shape {(n, longest)}, got {kept.dtype} of {kept.shape}"
            )
    else:
        counted = np.asarray(lengths.numpy() if isinstance(lengths, Tensor) else lengths, np.int64)
        if counted.shape != (n,) or (counted < 0).any() or (counted > longest).any():
            raise ShapeError(
                f"ragged_from_padded: expected {n} lengths between 0 and {longest}, got {counted.reshape(-1).tolist()}"
            )
        kept = np.arange(longest) < counted[:, None]
    flat = padded.movedim(0, dim - 1).flatten(dim - 1, dim)
    index = from_array(np.flatnonzero(kept))
    return RaggedTensor(flat.index_select(dim - 1, index), Rows.of_lengths(kept.sum(1)), dim)
