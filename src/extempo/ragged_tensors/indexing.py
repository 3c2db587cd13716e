"""x[...] on ragged tensors: rows, places in rows, slices inside rows, masks.

The first index is about rows: an int gives one row as an ordinary tensor, a slice, a list, an integer tensor or a mask
of rows gives a ragged tensor of some of them. The index of the ragged dimension is about each row by itself: `x[:, -1]`
is the last element of every row, `x[:, 1:]` drops the first of every row. A mask with the same rows picks elements, as
a mask does with regular tensors. The other dimensions are regular, and their indices mean what they always do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..core.storage import Array
from ..core.tensor import Tensor, from_array
from ..core.types import bool_
from ..core.wording import counted
from ..errors import IndexRangeError, ShapeError
from .rows import Rows
from .tensor import NEAREST, RaggedTensor, refuse

ALL = slice(None)


def picked(x: RaggedTensor, key: Any) -> Any:
    """x[key]."""
    if isinstance(key, RaggedTensor):
        return _by_mask(x, key)
    keys = _expanded(key, x.ndim)
    rows, rest = keys[0], keys[1:]
    if rows is None:
        refuse("indexing with None in front", "dimension 0 counts the rows and stays first; " + NEAREST)
    if isinstance(rows, int | np.integer) and not isinstance(rows, bool):
        row = x.row(_row_number(int(rows), x))
        return row[rest] if rest else row
    before, at_ragged, after = _around(rest, x._dim)
    if isinstance(at_ragged, Tensor | np.ndarray | list) and not _is_plain(rows):
        return _elements(x, rows, before, at_ragged, after)
    chosen = x if _is_plain(rows) else select_rows(x, rows)
    if isinstance(at_ragged, int | np.integer) and not isinstance(at_ragged, bool):
        return _place_in_rows(chosen, int(at_ragged))[(ALL, *before, *after)]
    if isinstance(at_ragged, Tensor | np.ndarray | list):
        return _places_in_rows(chosen, np.asarray(at_ragged), before, after)
    if not isinstance(at_ragged, slice):
        refuse(f"indexing the ragged dimension with {type(at_ragged).__name__}", NEAREST)
    if at_ragged != ALL:
        chosen = slice_rows(chosen, at_ragged)
    return _regular(chosen, before, after)


def put(x: RaggedTensor, key: Any, value: Any) -> None:
    """x[key] = value."""
    if isinstance(key, RaggedTensor):
        mask = _checked_mask(x, key)
        if x._dim > 1 and isinstance(value, Tensor) and value.numel() > 1:
            refuse("writing several elements by a mask here", "transpose the ragged dimension to 1 first")
        x._flat[mask] = value
        return
    keys = _expanded(key, x.ndim)
    if isinstance(keys[0], int | np.integer) and not isinstance(keys[0], bool):
        x.row(_row_number(int(keys[0]), x))[keys[1:] or ...] = value
        return
    refuse("writing to parts of several rows", "write to one row (x[i] = ...), by a mask with the same rows, or to "
           "x.values()")  # fmt: skip


# ---- rows


def select_rows(x: RaggedTensor, which: Any) -> RaggedTensor:
    """Some of the rows, in the order given: a slice, integers, or one bool for each row."""
    if isinstance(which, slice):
        numbers = np.arange(x._rows.n)[which]
        if which.step in (None, 1):
            first = numbers[0] if numbers.size else 0
            ends = x._rows.offsets[first : first + numbers.size + 1]
            flat = x._flat.narrow(x._dim - 1, int(ends[0]), int(ends[-1] - ends[0]))
            return RaggedTensor(flat, Rows(ends - ends[0]), x._dim)
    else:
        numbers = _row_numbers(which, x)
    return take(x, Rows.of_lengths(x._rows.lengths[numbers]), x._rows.offsets[:-1][numbers])


def take(x: RaggedTensor, rows: Rows, starts: Array, step: int = 1) -> RaggedTensor:
    """Rows of elements of x: row i begins at starts[i] among the values and goes on in steps."""
    index = starts[rows.row_of] + rows.place_of * step
    return RaggedTensor(x._flat.index_select(x._dim - 1, from_array(index)), rows, x._dim)


def slice_rows(x: RaggedTensor, piece: slice) -> RaggedTensor:
    """Every row sliced by itself."""
    parts = [piece.indices(length) for length in x._rows.lengths.tolist()]
    rows = Rows.of_lengths([len(range(*part)) for part in parts])
    starts = x._rows.offsets[:-1] + np.array([part[0] for part in parts], np.int64)
    return take(x, rows, starts, 1 if piece.step is None else int(piece.step))


def _row_number(i: int, x: RaggedTensor) -> int:
    n = x._rows.n
    if not -n <= i < n:
        raise IndexRangeError(f"indexing: row {i} is out of range for a ragged tensor of {counted(n, 'row')}")
    return i % n


def _row_numbers(which: Any, x: RaggedTensor) -> Array:
    numbers = np.asarray(which.detach().numpy() if isinstance(which, Tensor) else which)
    if numbers.dtype == bool:
        if numbers.shape != (x._rows.n,):
            raise ShapeError(f"indexing: a mask of rows must have shape ({x._rows.n},), got {numbers.shape}")
        return np.flatnonzero(numbers)
    if numbers.size == 0:
        numbers = numbers.astype(np.int64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise IndexRangeError(
            f"indexing: rows are picked by an int, a slice, or a vector of integers or bools; got {numbers.dtype} of "
            f"shape {numbers.shape}"
        )
    return np.array([_row_number(i, x) for i in numbers.tolist()], np.int64)


# ---- elements


def _places(x: RaggedTensor, place: Array) -> Array:
    """Where the elements at `place` (one for each row, or (n,) or (n, k)) of each row are among the values."""
    lengths = x._rows.lengths.reshape(-1, *(1,) * (place.ndim - 1))
    if ((place < -lengths) | (place >= lengths)).any():
        bad = np.argwhere((place < -lengths) | (place >= lengths))[0]
        raise IndexRangeError(
            f"indexing: place {place[tuple(bad)]} is out of range for row {bad[0]} of length {x._rows.lengths[bad[0]]} "
            f"(lengths {x._rows.brief()}); select longer rows first, as in x[x.lengths() > 0]"
        )
    return x._rows.offsets[:-1].reshape(lengths.shape) + np.where(place < 0, place + lengths, place)


def _place_in_rows(x: RaggedTensor, place: int) -> Tensor:
    """The element at one place of every row: (B, ...)."""
    index = _places(x, np.full(x._rows.n, place))
    return x._flat.movedim(x._dim - 1, 0).index_select(0, from_array(index))


def _places_in_rows(x: RaggedTensor, places: Array, before: tuple[Any, ...], after: tuple[Any, ...]) -> Tensor:
    """The elements at the same few places of every row."""
    if places.ndim != 1 or places.dtype.kind not in "iu":
        refuse("indexing the ragged dimension with anything but integers", "use a mask with the same rows; " + NEAREST)
    index = _places(x, np.broadcast_to(places, (x._rows.n, places.size)))
    found = x._flat.index_select(x._dim - 1, from_array(index.reshape(-1)))
    found = found.unflatten(x._dim - 1, index.shape).movedim(x._dim - 1, 0)
    return found[(ALL, *before, ALL, *after)]


def _elements(x: RaggedTensor, rows: Any, before: tuple[Any, ...], places: Any, after: tuple[Any, ...]) -> Tensor:
    """One element for each pair of a row and a place: x[rows, places]."""
    if x._dim != 1:
        refuse("indexing rows and places at once in this order of dimensions", "transpose the ragged dimension to 1")
    numbers = _row_numbers(rows, x)
    at = np.broadcast_to(np.asarray(places.detach().numpy() if isinstance(places, Tensor) else places), numbers.shape)
    chosen = x._rows.lengths[numbers]
    if ((at < -chosen) | (at >= chosen)).any():
        raise IndexRangeError(f"indexing: a place is out of range for its row; lengths are {x._rows.brief()}")
    index = x._rows.offsets[:-1][numbers] + np.where(at < 0, at + chosen, at)
    return x._flat.index_select(0, from_array(index))[(ALL, *after)]


def _by_mask(x: RaggedTensor, mask: RaggedTensor) -> Tensor:
    holds = _checked_mask(x, mask)
    if x._dim == 1:
        return x._flat[holds]
    from .picking import masked_elements  # which needs this module

    return masked_elements(x, mask)  # row by row, where values lie by what is before the ragged dimension first


def _checked_mask(x: RaggedTensor, mask: RaggedTensor) -> Tensor:
    if mask.dtype is not bool_ or mask._dim != x._dim or not mask._rows.same(x._rows):
        raise ShapeError(
            f"indexing: a ragged index must be a mask of bools with the same rows; got {mask.dtype} of lengths "
            f"{mask._rows.brief()} for lengths {x._rows.brief()}"
        )
    return mask._flat


# ---- keys


def _is_plain(key: Any) -> bool:
    return isinstance(key, slice) and key == ALL


def _expanded(key: Any, ndim: int) -> tuple[Any, ...]:
    """One entry for each dimension that is spoken of, an Ellipsis written out."""
    keys = key if isinstance(key, tuple) else (key,)
    n_dims = sum(k is not None and k is not Ellipsis for k in keys)
    if n_dims > ndim:
        raise IndexRangeError(
            f"indexing: {counted(n_dims, 'index', 'indices')} for a ragged tensor of {counted(ndim, 'dimension')}"
        )
    if not any(k is Ellipsis for k in keys):
        return keys
    at = next(i for i, k in enumerate(keys) if k is Ellipsis)
    return (*keys[:at], *(ALL,) * (ndim - n_dims), *keys[at + 1 :])


def _around(rest: tuple[Any, ...], dim: int) -> tuple[tuple[Any, ...], Any, tuple[Any, ...]]:
    """The keys before, at and after the ragged dimension, of the keys after the first."""
    seen = 1
    for i, k in enumerate(rest):
        if k is None:
            continue
        if seen == dim:
            return rest[:i], k, rest[i + 1 :]
        seen += 1
    return (*rest, *(ALL,) * (dim - seen)), ALL, ()


def _regular(x: RaggedTensor, before: tuple[Any, ...], after: tuple[Any, ...]) -> RaggedTensor:
    """The indices of regular dimensions, with all of the ragged one."""
    if all(_is_plain(k) for k in (*before, *after)):
        return x
    if any(isinstance(k, Tensor | np.ndarray | list) for k in before):
        refuse("an index tensor before the ragged dimension", "transpose, or use x.values()")
    gone = sum(k is not None and not isinstance(k, slice) for k in before)
    new = sum(k is None for k in before)
    flat = x._flat[(*before, ALL, *after)]
    return RaggedTensor(flat, x._rows, x._dim - gone + new)


def zeros_after(flat: Tensor, dim: int) -> Tensor:
    """The values with one element of zeros at the end, for indices that point to nothing."""
    shape = list(flat.shape)
    shape[dim] = 1
    return ops.cat([flat, ops.zeros(shape, dtype=flat.dtype)], dim)
