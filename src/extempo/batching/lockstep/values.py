"""Values of all samples: what stands for one node of the graph while it runs.

SHARED values are the same for all samples: a plain tensor. UNIFORM ones have one shape in all samples: a tensor with
the samples along a new first dimension. RAGGED ones have one size of each sample's own: a RaggedTensor, its rows end to
end. What has several sizes of its own is EACH: a list of tensors.
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

SHARED, UNIFORM, RAGGED, EACH = "shared", "uniform", "ragged", "each"


def open_dims(t: TensorType) -> list[int]:
    """The dimensions whose sizes are each sample's own."""
    return [d for d, size in enumerate(t.shape) if isinstance(size, SizeExpr)]


def form_of(t: TensorType) -> str:
    """How values of this type, which differ between samples, are held."""
    return (UNIFORM, RAGGED, EACH)[min(len(open_dims(t)), 2)]


def with_rows(flat: Tensor, t: TensorType, lanes: Lanes) -> RaggedTensor:
    """Values of all samples, end to end, as those of a type with one open dimension."""
    (dim,) = open_dims(t)
    return RaggedTensor(flat, lanes.rows(t.shape[dim]), dim + 1)


def apart(value: Any, form: str, n: int) -> Sequence[Any]:
    """The values of each of n samples."""
    if form == UNIFORM:
        return ops.unbind(value)
    if form == RAGGED:
        rows: Sequence[Any] = value.unbind()
        return rows
    return value if form == EACH else [value] * n


def together(values: Sequence[Tensor], t: TensorType, lanes: Lanes) -> Any:
    """The values of all samples as one, by their type."""
    form = form_of(t)
    if form == EACH:
        return list(values)
    if form == UNIFORM:
        return ops.stack(list(values))
    (dim,) = open_dims(t)
    return with_rows(ops.cat(list(values), dim), t, lanes)
