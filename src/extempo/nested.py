"""Ragged tensors by PyTorch's names, `torch.nested`. `ex.ragged` and what stands beside it are the shorter way.

There is one layout, `ex.jagged`: rows differ in one dimension. Arguments that choose another layout are accepted where
it makes no difference to what can be asked of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import ops
from .core.absent_names import explain_absent
from .core.device import jagged, layout, require_cpu, strided
from .core.tensor import Tensor, from_array
from .core.types import as_dtype, bool_
from .errors import DtypeError, ShapeError, UnsupportedError
from .ragged_tensors.creation import numbers_of, ragged, ragged_from_values
from .ragged_tensors.rows import Rows
from .ragged_tensors.tensor import RaggedTensor, as_ragged

__all__ = [
    "as_nested_tensor",
    "jagged",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]


def nested_tensor(
    tensor_list: Any,
    *,
    dtype: Any = None,
    layout: layout | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> RaggedTensor:
    """A ragged tensor that is a leaf: a copy of the rows, which have no part in its gradients.

    `ex.ragged(rows)` and `as_nested_tensor(rows)` keep the history of rows. `layout` may be `ex.jagged` or
    `ex.strided`; there is one layout.

    >>> ex.nested.nested_tensor([ex.tensor([1.0, 2.0]), ex.tensor([3.0])], requires_grad=True)
    ragged([
      [1., 2.],  # 2
      [3.],      # 1
    ], shape=(2, *), requires_grad=True)
    """
    _check_placement("nested_tensor", layout, device)
    made = ragged(tensor_list, dtype=dtype)
    return made.like(made._flat.detach().clone()).requires_grad_(requires_grad)


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: layout | None = None) -> RaggedTensor:
    """A ragged tensor of these rows, through which gradients flow to them; a ragged tensor itself; or a tensor's rows.

    >>> x = ex.ones(2, requires_grad=True)
    >>> ex.nested.as_nested_tensor([x, 2 * x]).sum().backward()
    >>> x.grad
    tensor([3., 3.])
    """
    _check_placement("as_nested_tensor", layout, device)
    if isinstance(ts, RaggedTensor):
        return ts if dtype is None or ts.dtype is as_dtype(dtype) else as_ragged(ts.to(dtype), "as_nested_tensor")
    return ragged(ts, dtype=dtype)


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Any = None,
    lengths: Any = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> RaggedTensor:
    """Rows that lie one after the other in `values`, which is not copied; `ex.ragged_from_values` in other words.

    With both offsets and lengths, row i begins at offsets[i] and there may be something between rows; that is left out,
    by a copy. `min_seqlen` and `max_seqlen` are hints that are not needed.

    >>> ex.nested.nested_tensor_from_jagged(ex.arange(4), ex.tensor([0, 1, 4])).tolist()
    [[0], [1, 2, 3]]
    """
    dim = 1 if jagged_dim is None else jagged_dim
    if dim < 1:
        raise ShapeError(
            f"nested_tensor_from_jagged: jagged_dim counts with dimension 0, so it is at least 1, got {dim}"
        )
    if offsets is None or lengths is None:
        return ragged_from_values(values, lengths, offsets=offsets, dim=dim)
    starts, counts = numbers_of(offsets).reshape(-1), numbers_of(lengths).reshape(-1)
    if starts.size not in (counts.size, counts.size + 1):
        raise ShapeError(
            f"nested_tensor_from_jagged: expected one offset for each of {counts.size} lengths, or one more, got "
            f"{starts.size}"
        )
    starts = starts[: counts.size]
    _check_inside(starts, counts, values.shape[dim - 1], "nested_tensor_from_jagged")
    return _pieces(values, starts, counts, dim)


def narrow(tensor: Tensor, dim: int, start: Any, length: Any, layout: layout | None = None) -> RaggedTensor:
    """Part of each row of a regular tensor: row i from start[i] on, length[i] long. Numbers count for all rows.

    >>> ex.nested.narrow(ex.tensor([[1, 2, 3], [4, 5, 6]]), 1, ex.tensor([0, 1]), ex.tensor([3, 1])).tolist()
    [[1, 2, 3], [5]]
    """
    _check_placement("narrow", layout, None)
    if dim != 1 or tensor.ndim < 2:
        raise UnsupportedError(
            f"nested.narrow: rows differ in dimension 1 of a tensor of two or more, got dim={dim} and shape "
            f"{tuple(tensor.shape)}; transpose first"
        )
    n_rows, longest = tensor.shape[:2]
    starts, counts = (np.broadcast_to(numbers_of(given).reshape(-1), n_rows) for given in (start, length))
    _check_inside(starts, counts, longest, "nested.narrow")
    return _pieces(tensor.flatten(0, 1), starts + longest * np.arange(n_rows), counts, 1)


def _check_inside(starts: Any, counts: Any, end: int, name: str) -> None:
    inside = (starts >= 0) & (counts >= 0) & (starts + counts <= end)
    if not inside.all():
        bad = int(np.argmin(inside))
        raise ShapeError(f"{name}: row {bad} of length {counts[bad]} from {starts[bad]} on is not inside of 0 to {end}")


def _pieces(values: Tensor, starts: Any, counts: Any, dim: int) -> RaggedTensor:
    """Rows that begin at `starts` in `values`."""
    rows = Rows.of_lengths(counts)
    index = from_array(starts[rows.row_of] + rows.place_of)
    return RaggedTensor(values.index_select(dim - 1, index), rows, dim)


def masked_select(tensor: Tensor, mask: Tensor) -> RaggedTensor:
    """The elements where `mask` is true, kept apart by row; a row is what the last dimension counts.

    >>> ex.nested.masked_select(ex.tensor([[1, 2], [3, 4]]), ex.tensor([[True, True], [False, True]])).tolist()
    [[1, 2], [4]]
    """
    if not isinstance(mask, Tensor) or mask.dtype is not bool_:
        raise DtypeError(
            f"nested.masked_select: the mask must be a tensor of bools, got {getattr(mask, 'dtype', mask)}"
        )
    kept = mask.expand(tensor.shape)
    return RaggedTensor(ops.masked_select(tensor, kept), Rows.of_lengths(kept.numpy().sum(-1).reshape(-1)))


def to_padded_tensor(input: RaggedTensor, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
    """A regular tensor: shorter rows have `padding` after their end.

    >>> ex.nested.to_padded_tensor(ex.ragged([[1, 2], [3]]), 0)
    tensor([[1, 2],
            [3, 0]])
    """
    return as_ragged(input, "to_padded_tensor").to_padded_tensor(padding, output_size)


def _check_placement(name: str, wanted: Any, device: Any) -> None:
    require_cpu(device, name)
    if wanted not in (None, jagged, strided):
        raise UnsupportedError(f"{name}: the layout of ragged tensors is ex.jagged, got {wanted!r}; leave layout out")


explain_absent(__name__)
