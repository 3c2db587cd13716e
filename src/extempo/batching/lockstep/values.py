"""Values of all samples: what stands for one node of the graph while it runs.

SHARED values are the same for all samples: a plain tensor. UNIFORM ones have one shape in all samples: a tensor with
the samples along a new first dimension. RAGGED ones have one size of each sample's own: a RaggedTensor, its rows end to
end. PAIRS have two such sizes, their first ones: a RaggedTensor as well, of the lines of all samples. What else has
several sizes of its own is EACH: a list of tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import ops
from ...core.tensor import Tensor
from ...core.types import TensorType
from ...exporting.sizes import SizeExpr
from ...ragged_tensors.tensor import RaggedTensor
from .lanes import Lanes

SHARED, UNIFORM, RAGGED, PAIRS, EACH = "shared", "uniform", "ragged", "pairs", "each"


def open_dims(t: TensorType) -> list[int]:
    """The dimensions whose sizes are each sample's own."""
    return [d for d, size in enumerate(t.shape) if isinstance(size, SizeExpr)]


def form_of(t: TensorType) -> str:
    """How values of this type, which differ between samples, are held."""
    dims = open_dims(t)
    return PAIRS if dims == [0, 1] else (UNIFORM, RAGGED, EACH)[min(len(dims), 2)]


def with_rows(flat: Tensor, t: TensorType, lanes: Lanes) -> RaggedTensor:
    """Values of all samples, end to end, as those of a type with one open dimension."""
    (dim,) = open_dims(t)
    return RaggedTensor(flat, lanes.rows(t.shape[dim]), dim + 1)


def with_pairs(flat: Tensor, t: TensorType, lanes: Lanes) -> RaggedTensor:
    """Elements of all samples, end to end, as those of a type whose first two dimensions are open."""
    return RaggedTensor(flat, lanes.pairs(*t.shape[:2]).lines, 1)


def apart(value: Any, form: str, t: Any, lanes: Lanes) -> Sequence[Any]:
    """The values of each sample, of this type."""
    if form == UNIFORM:
        return ops.unbind(value)
    if form == RAGGED:
        rows: Sequence[Any] = value.unbind()
        return rows
    if form == PAIRS:
        n, m = t.shape[:2]
        parts = value._flat.split_with_sizes(lanes.pairs(n, m).rows.lengths.tolist())
        sizes = zip(lanes.numbers(n).tolist(), lanes.numbers(m).tolist(), strict=True)
        return [part.reshape(*own, *t.shape[2:]) for part, own in zip(parts, sizes, strict=True)]
    return value if form == EACH else [value] * lanes.n


def together(values: Sequence[Tensor], t: TensorType, lanes: Lanes) -> Any:
    """The values of all samples as one, by their type."""
    form = form_of(t)
    if form == EACH:
        return list(values)
    if form == UNIFORM:
        return ops.stack(list(values))
    if form == PAIRS:
        return with_pairs(ops.cat([x.flatten(0, 1) for x in values]), t, lanes)
    (dim,) = open_dims(t)
    return with_rows(ops.cat(list(values), dim), t, lanes)
