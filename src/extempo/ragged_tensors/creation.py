"""Making ragged tensors: `ragged`, and PyTorch's names for it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np

from .. import ops
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import as_dtype, dtype, normalize_dim, promote_types
from ..errors import DtypeError, ExtempoError, ShapeError
from .arrow import from_arrow, from_awkward, is_arrow, is_awkward
from .rows import Rows
from .tensor import TWO_LEVELS, RaggedTensor


def ragged(rows: Iterable[Any], *, dim: int = 1, dtype: Any = None, requires_grad: bool = False) -> RaggedTensor:
    """A batch of rows that differ in one size, without padding: their values one after the other, and offsets.

    rows: tensors, arrays or lists of numbers. Gradients flow into those that require grad. Or an Arrow array of lists
        (of any library with `__arrow_c_array__` or `__arrow_c_stream__`) or an awkward array, whose memory is shared.
    dim: the dimension of the result in which rows may differ; 1 is the first dimension of a row.
    dtype: of the result; the common dtype of the rows if not given.
    requires_grad: make the result a leaf that requires grad (the rows are copied).

    >>> ex.ragged([[1, 2, 3], [4, 5], []])
    ragged([
      [1, 2, 3],  # 3
      [4, 5],     # 2
      [],         # 0
    ], shape=(3, *))
    """
    if isinstance(rows, RaggedTensor):
        made = rows if dtype is None else rows.like(rows._flat.to(dtype))
    else:
        made = _shared(rows, dtype) if is_arrow(rows) or is_awkward(rows) else _joined(list(rows), dim, dtype)
    if requires_grad:
        return made.like(made._flat.detach().clone()).requires_grad_()
    return made


def _shared(lists: Any, dtype: Any) -> RaggedTensor:
    flat, rows = from_arrow(lists) if is_arrow(lists) else from_awkward(lists)
    return RaggedTensor(flat if dtype is None else flat.to(dtype), rows)


def _joined(given: list[Any], dim: int, dtype: Any) -> RaggedTensor:
    if not given:
        return RaggedTensor(ops.empty((0,), dtype=dtype), Rows.of_lengths([]), 1)
    if dim == 1 and all(type(row) is list for row in given):
        made = _of_lists(given, dtype)
        if made is not None:
            return made
    tensors = [row if type(row) is Tensor and row._type.shape else _row(i, row) for i, row in enumerate(given)]
    at = normalize_dim(dim, max(len(t._type.shape) for t in tensors) + 1, "ragged") - 1
    if at < 0:
        raise ShapeError("ragged: dimension 0 counts the rows; the ragged dimension is another")
    # An empty list says nothing of its dtype, nor of sizes other than its length.
    empty = [isinstance(row, list | tuple) and not row for row in given]
    nonempty = [t for t, is_empty in zip(tensors, empty, strict=True) if not is_empty] or tensors
    common = _common_dtype(nonempty) if dtype is None else as_dtype(dtype)
    if 0 < len(nonempty) < len(tensors):
        shape = [*nonempty[0].shape]
        shape[at : at + 1] = [0]
        nothing = ops.empty(shape, dtype=common)
        tensors = [nothing if is_empty else t for t, is_empty in zip(tensors, empty, strict=True)]
    lengths = _lengths([t._type.shape for t in tensors], at)
    flat = ops.cat([t if t._type.dtype is common else t.to(common) for t in tensors], at)
    return RaggedTensor(flat, Rows.of_lengths(lengths), at + 1)


def _of_lists(given: list[list[Any]], dtype: Any) -> RaggedTensor | None:
    """Rows that are lists of numbers, or of lists of them, as one list; None for anything else, and for errors."""
    if any(row and type(row[0]) not in (int, float, bool, list) for row in given):
        return None
    try:
        flat = ops.tensor(list(chain.from_iterable(given)), dtype=dtype)
    except ExtempoError:
        return None
    return RaggedTensor(flat, Rows.of_lengths([len(row) for row in given]), 1)


def _common_dtype(tensors: list[Tensor]) -> dtype:
    common, *others = dict.fromkeys(t._type.dtype for t in tensors)
    for other in others:
        common = promote_types(common, other)
    return common


def _row(i: int, row: Any) -> Tensor:
    if isinstance(row, RaggedTensor):
        raise ShapeError(f"ragged: row {i} is itself a ragged tensor; {TWO_LEVELS}")
    if not isinstance(row, Tensor):
        if isinstance(row, list | tuple) and any(isinstance(part, Tensor) for part in row):
            raise ShapeError(f"ragged: row {i} is a list of tensors; stack it, or: {TWO_LEVELS}")
        try:
            row = ops.as_tensor(row)
        except ShapeError:
            raise ShapeError(f"ragged: the lists in row {i} have different lengths; {TWO_LEVELS}") from None
        except DtypeError as error:
            raise DtypeError(f"ragged: row {i}: {error}") from None
    if not row.ndim:
        raise ShapeError(
            f"ragged: row {i} is a single number; rows have at least one dimension, as in ex.tensor([1.0])"
        )
    return row


def _lengths(shapes: list[tuple[int, ...]], at: int) -> list[int]:
    """The sizes of rows in dimension `at`, after a check that all others are equal."""
    first = shapes[0]
    n_dims, before, after = len(first), first[:at], first[at + 1 :]
    for i, shape in enumerate(shapes):
        if len(shape) != n_dims or shape[:at] != before or shape[at + 1 :] != after:
            raise ShapeError(f"ragged: row {i} has shape {shape}, row 0 has {first}: {_difference(shapes, i, at)}")
    return [shape[at] for shape in shapes]


def _difference(shapes: list[tuple[int, ...]], i: int, at: int) -> str:
    first, other = shapes[0], shapes[i]
    if len(other) != len(first):
        return "rows have one ndim"
    dims = [d for d in range(len(first)) if d != at and other[d] != first[d]]
    if len(dims) == 1 and all(len(s) == len(first) and s[at] == first[at] for s in shapes):
        return f"they differ in another dimension than {at + 1}; pass dim={dims[0] + 1}"
    advice = "pad or reshape the others, or keep a list and use ex.batch"
    return f"rows may differ in one dimension only (dim={at + 1}); {advice}"


def ragged_from_values(values: Tensor, lengths: Any = None, *, offsets: Any = None, dim: int = 1) -> RaggedTensor:
    """The ragged tensor whose rows lie one after the other in `values`, which is not copied.

    lengths: one number for each row. offsets: instead of them, where each row begins, and the end of the last.
    dim: the ragged dimension of the result; it is dimension dim - 1 of `values`.

    >>> ex.ragged_from_values(ex.arange(3), [2, 1]).tolist()
    [[0, 1], [2]]
    """
    if not isinstance(values, Tensor):
        raise DtypeError(f"ragged_from_values: expected a tensor, got {type(values).__name__}")
    if (lengths is None) == (offsets is None):
        raise ShapeError("ragged_from_values: expected either lengths or offsets")
    rows = Rows(numbers_of(offsets)) if lengths is None else Rows.of_lengths(numbers_of(lengths))
    return RaggedTensor(values, rows, normalize_dim(dim, values.ndim + 1, "ragged_from_values"))


def numbers_of(given: Any) -> Array:
    """Lengths or offsets as an array of integers."""
    array = np.array(given.detach().numpy() if isinstance(given, Tensor) else given)
    if array.size and array.dtype.kind not in "iu":
        raise DtypeError(f"ragged: lengths and offsets are integers, got {array.dtype}")
    return array.astype(np.int64)
