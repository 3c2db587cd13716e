"""cat and stack of ragged tensors: more rows, longer rows, or more of what each element has."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.op import Op
from ..core.tensor import Tensor, from_array
from ..dispatch.dispatcher import apply
from ..errors import ShapeError
from .rows import Rows
from .rules import common
from .tensor import NEAREST, RaggedTensor, refuse


def cat(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> RaggedTensor:
    """More rows (along 0), longer rows (along the ragged dimension), or more of each element."""
    first: RaggedTensor = next(x for x in inputs if isinstance(x, RaggedTensor))
    dim, ragged_dim = attrs["dim"], first._dim
    if dim not in (0, ragged_dim):
        if not all(isinstance(x, RaggedTensor) for x in inputs):
            refuse(f"cat of ragged and regular tensors along dimension {dim}", "expand_as the ragged one first")
        common("cat", inputs)
    _check_sizes(inputs, first, dim)
    if dim not in (0, ragged_dim):
        return first.like(apply(op, tuple(x._flat for x in inputs), {"dim": dim - 1}))
    parts = [x if isinstance(x, RaggedTensor) else _as_ragged(x, ragged_dim) for x in inputs]
    flat = apply(op, tuple(x._flat for x in parts), {"dim": ragged_dim - 1})
    lengths = np.stack([x._rows.lengths for x in parts], 1) if dim else np.concatenate([x._rows.lengths for x in parts])
    if dim == 0:
        return RaggedTensor(flat, Rows.of_lengths(lengths), ragged_dim)
    # Row by row, and within a row part by part: (row, part) pieces, which lie in `flat` by part first.
    pieces = Rows.of_lengths(lengths.reshape(-1))
    starts = np.stack([x._rows.offsets[:-1] for x in parts], 1)
    starts = starts + np.cumsum([0, *(x._rows.total for x in parts[:-1])])
    index = starts.reshape(-1)[pieces.row_of] + pieces.place_of
    rows = Rows.of_lengths(lengths.sum(1))
    return RaggedTensor(flat.index_select(ragged_dim - 1, from_array(index)), rows, ragged_dim)


def _as_ragged(x: Tensor, dim: int) -> RaggedTensor:
    """A regular tensor as rows of one length along `dim`."""
    flat = x.movedim(0, dim - 1).flatten(dim - 1, dim)
    return RaggedTensor(flat, Rows(np.arange(x.shape[0] + 1) * x.shape[dim]), dim)


def _check_sizes(inputs: tuple[Any, ...], first: RaggedTensor, dim: int) -> None:
    """Whether all have as many dimensions, the same one ragged, and agree in those that are not joined."""
    free = {dim, first._dim} if dim in (0, first._dim) else {dim}
    for i, x in enumerate(inputs):
        fits = x.ndim == first.ndim and (not isinstance(x, RaggedTensor) or x._dim == first._dim)
        if not fits or any(a != b for d, (a, b) in enumerate(zip(x.shape, first.shape, strict=True)) if d not in free):
            raise ShapeError(
                f"cat: along dimension {dim}, shapes {tuple(first.shape)} and {tuple(x.shape)} (input {i}) do not go "
                "together: the other sizes must agree, and the same dimension be ragged"
            )


def stack(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> RaggedTensor:
    """A new regular dimension, of tensors with the same rows."""
    dim = attrs["dim"]
    if dim == 0:
        refuse("stack along a new dimension 0", "there it counts rows: cat joins them, stack(..., 1) keeps them apart")
    if not all(isinstance(x, RaggedTensor) for x in inputs):
        refuse("stack of ragged and regular tensors", "expand_as the ragged one first; " + NEAREST)
    x = common("stack", inputs)
    flat = apply(op, tuple(i._flat for i in inputs), {"dim": dim - 1})
    return RaggedTensor(flat, x._rows, x._dim + (dim <= x._dim))
