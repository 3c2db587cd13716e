"""Elements by number: gather, scatter, index_select, flip, roll, pad, and functions that look elements up.

An index along the ragged dimension counts from the beginning of each row, and must lie in it: `SegmentIndex` makes it
a place among the values, and raises for one that does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ops
from ..core.op import Op
from ..core.tensor import Tensor, from_array
from ..core.types import bool_
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, ShapeError
from ..ops.join import Cat
from ..ops.segments import SegmentIndex
from .indexing import select_rows
from .per_row import mapped
from .reshaping import reshaped
from .rows import Rows
from .rules import along, common, from_front, to_front
from .tensor import NEAREST, RaggedTensor, refuse


class _Source:
    """What is indexed along one dimension of each row: its elements, that dimension first, and where rows begin."""

    def __init__(self, x: Tensor | RaggedTensor, dim: int, n_rows: int) -> None:
        if isinstance(x, RaggedTensor):
            self.values = to_front(x._flat, x._dim - 1)
            self.starts, self.lengths = x._rows.offsets[:-1], x._rows.lengths
        else:
            self.values = x.movedim(dim, 1).flatten(0, 1)
            self.starts = np.arange(n_rows) * x.shape[dim]
            self.lengths = np.full(n_rows, x.shape[dim])


class _Index:
    """An index along the ragged dimension of something, ragged itself or with equally many places for each row."""

    def __init__(self, index: Tensor | RaggedTensor, source: _Source, dim: int, name: str) -> None:
        self.given = index
        self.dim = dim
        if isinstance(index, RaggedTensor):
            self._row_of = index._rows.row_of
            places = to_front(index._flat, dim - 1)
        else:
            self._row_of = np.repeat(np.arange(index.shape[0]), index.shape[dim])
            places = index.movedim(dim, 1).flatten(0, 1)
        starts, lengths = (from_array(a[self._row_of]) for a in (source.starts, source.lengths))
        self.places: Tensor = apply(SegmentIndex, (places, starts, lengths), {"op": name})

    def values(self, of: Any) -> Tensor:
        """A tensor in the shape of the index, as values that lie as the places do."""
        return (
            to_front(of._flat, self.dim - 1) if isinstance(of, RaggedTensor) else of.movedim(self.dim, 1).flatten(0, 1)
        )

    def shaped(self, values: Tensor) -> Tensor | RaggedTensor:
        """Values that lie as the places do, in the shape of the index."""
        if isinstance(self.given, RaggedTensor):
            return self.given.like(from_front(values, self.dim - 1))
        n, k = self.given.shape[0], self.given.shape[self.dim]
        return values.unflatten(0, (n, k)).movedim(1, self.dim)


def _check_index(name: str, x: Any, index: Any, dim: int) -> None:
    """Whether both have as many rows and dimensions, and what is ragged is dimension `dim`."""
    if dim == 0:
        refuse(f"{name} along dimension 0, across rows of different length", NEAREST)
    fits = x.ndim == index.ndim and x.shape[0] == index.shape[0]
    if not fits or any(isinstance(t, RaggedTensor) and t._dim != dim for t in (x, index)):
        raise ShapeError(
            f"{name}: an index of shape {tuple(index.shape)} does not fit {tuple(x.shape)} along dimension {dim}: both "
            "have as many rows and dimensions, and another dimension is regular, or ragged with the same lengths"
        )


def gather(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Elements of each row, by an index that counts from the row's beginning."""
    x, index = inputs
    dim = attrs["dim"]
    if dim and all(isinstance(t, RaggedTensor) and t._dim != dim for t in inputs):
        together = common("gather", inputs)
        return together.like(apply(op, (x._flat, index._flat), {"dim": dim - 1}))
    _check_index("gather", x, index, dim)
    source = _Source(x, dim, x.shape[0])
    at = _Index(index, source, dim, "gather")
    return at.shaped(apply(op, (source.values, at.places), {"dim": 0}))


def scatter(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> RaggedTensor:
    """Elements put into each row, or combined with what is there."""
    x, index, src = inputs
    dim = attrs["dim"]
    if not isinstance(x, RaggedTensor):
        refuse(f"{op.name} into a regular tensor", NEAREST)
    tensors = [t for t in inputs if isinstance(t, Tensor | RaggedTensor)]
    if dim and all(isinstance(t, RaggedTensor) and t._dim != dim for t in tensors):
        common(op.name, inputs)
        flats = tuple(t._flat if isinstance(t, RaggedTensor) else t for t in inputs)
        return x.like(apply(op, flats, {**attrs, "dim": dim - 1}))
    _check_index(op.name, x, index, dim)
    source = _Source(x, dim, x._rows.n)
    at = _Index(index, source, dim, op.name)
    if isinstance(src, Tensor | RaggedTensor):
        if tuple(src.shape) != tuple(index.shape):
            raise ShapeError(f"{op.name}: src of shape {tuple(src.shape)} for an index of shape {tuple(index.shape)}")
        src = at.values(src)
    made = apply(op, (source.values, at.places, src), {**attrs, "dim": 0})
    return x.like(from_front(made, dim - 1))


def index_get(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Rows, elements or features by a vector of numbers, or elements of a regular tensor by a ragged index."""
    x, *indices = inputs
    if not isinstance(x, RaggedTensor) or len(indices) > 1:
        return _looked_up(op, inputs, attrs)
    (index,), (dim,) = indices, attrs["dims"]
    if isinstance(index, RaggedTensor) or index.ndim != 1:
        refuse("indexing with a tensor that is no vector", "use gather, a mask with the same rows, or x.values()")
    if dim == 0:
        return select_rows(x, index)
    if dim != x._dim:
        return x.like(apply(op, (x._flat, index), {"dims": (dim - 1,)}))
    source = _Source(x, dim, x._rows.n)
    wanted = index.reshape(1, -1).expand(x._rows.n, -1)
    places = apply(SegmentIndex, (wanted, *map(from_array, (source.starts, source.lengths))), {"op": "index_select"})
    found = source.values.index_select(0, places.reshape(-1))
    return found.unflatten(0, (x._rows.n, index.shape[0])).movedim(1, dim)


def _looked_up(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> RaggedTensor:
    """Elements of a regular tensor by one ragged index: t[x]."""
    t, *indices = inputs
    if isinstance(t, RaggedTensor) or len(indices) > 1 or attrs["dims"] != (0,):
        refuse("indexing with several tensors", "use gather, a mask with the same rows, or x.values()")
    index: RaggedTensor = indices[0]
    if index.dtype.category != 1:
        refuse(f"indexing a regular tensor with {index.dtype}", "an index is made of integers; use x.long()")
    return index.like(apply(op, (t, index._flat), attrs))


# ---- order


def flip(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> RaggedTensor:
    """Rows in reverse order, elements of each row in reverse, or regular dimensions."""
    x: RaggedTensor = inputs[0]
    dims = attrs["dims"]
    others = tuple(d - 1 for d in dims if d not in (0, x._dim))
    flat = apply(op, (x._flat,), {"dims": others}) if others else x._flat
    if x._dim in dims:
        flat = flat.index_select(x._dim - 1, from_array(x._rows.backwards))
    flipped = x.like(flat)
    return select_rows(flipped, np.arange(len(x))[::-1]) if 0 in dims else flipped


def roll(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> RaggedTensor:
    """Elements pushed along each row, rows among each other, or regular dimensions."""
    x, *shifts = inputs
    back = attrs["back"]
    for shift, dim in zip(shifts, attrs["dims"], strict=True):
        rows, step = x._rows, -shift if back else shift
        if dim == 0:
            x = select_rows(x, np.roll(np.arange(len(x)), step))
        elif dim == x._dim:
            place = (rows.place_of - step) % np.maximum(rows.lengths[rows.row_of], 1)
            index = from_array(rows.offsets[rows.row_of] + place)
            x = x.like(x._flat.index_select(dim - 1, index))
        else:
            x = x.like(apply(op, (x._flat, shift), {"dims": (dim - 1,), "back": back}))
    return x


def triangle(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> RaggedTensor:
    """Triangles of the matrices of each element, or of each row."""
    x, diagonal = inputs
    if x.ndim == 2:
        refuse(f"{op.name} of rows of different length", "its matrices would lie across rows; " + NEAREST)
    if x._dim < x.ndim - 2:
        return x.like(apply(op, (x._flat, diagonal), attrs))
    made: RaggedTensor = mapped(op.name, lambda row: apply(op, (row, diagonal), attrs), x)
    return x.like(made._flat)


def constant_pad(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> RaggedTensor:
    """Elements before and after those of each row, or of regular dimensions."""
    x, value = inputs
    rows_before, *widths = attrs["widths"]
    if rows_before != (0, 0):
        refuse("padding along dimension 0", "there are no rows that it could be filled with; cat some")
    before, after = widths[x._dim - 1]
    widths[x._dim - 1] = (0, 0)
    flat = x._flat if all(w == (0, 0) for w in widths) else apply(op, (x._flat, value), {"widths": tuple(widths)})
    if (before, after) == (0, 0):
        return x.like(flat)
    # One more element stands for the padding; what is before and after each row points to it.
    padding = ops.full([1 if d == x._dim - 1 else n for d, n in enumerate(flat.shape)], value, dtype=x.dtype)
    rows = Rows.of_lengths(x._rows.lengths + (before + after))
    place, length = rows.place_of - before, x._rows.lengths[rows.row_of]
    inside = (place >= 0) & (place < length)
    index = np.where(inside, x._rows.offsets[rows.row_of] + place, x._rows.total)
    joined = apply(Cat, (flat, padding), {"dim": x._dim - 1})
    return RaggedTensor(joined.index_select(x._dim - 1, from_array(index)), rows, x._dim)


# ---- elements that are looked for


def searchsorted(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> RaggedTensor:
    """Places of all values in one sorted sequence."""
    sequence, values = inputs
    if isinstance(sequence, RaggedTensor) or sequence.ndim != 1:
        refuse("searchsorted in a sequence of each row's own", NEAREST)
    found: RaggedTensor = values.like(apply(op, (sequence, values._flat), attrs))
    return found


def isin(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Membership of all values."""
    x, tests = (t._flat if isinstance(t, RaggedTensor) else t for t in inputs)
    found = apply(op, (x, tests), attrs)
    return inputs[0].like(found) if isinstance(inputs[0], RaggedTensor) else found


def histc(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Tensor:
    """A histogram of all values."""
    counts: Tensor = apply(op, (inputs[0]._flat, *inputs[1:]), attrs)
    return counts


def masked_elements(x: Any, mask: Any) -> Tensor:
    """The elements of all rows where the mask holds, row by row; both broadcast."""
    if mask.dtype is not bool_:
        raise DtypeError(f"masked_select: expected a bool mask, got {mask.dtype}; compare first, e.g. x > 0")
    shape = common("masked_select", (x, mask))
    flats = [t._flat if isinstance(t, RaggedTensor) else along(shape, t, "masked_select") for t in (x, mask)]
    values, holds = ops.broadcast_tensors(*flats)
    x, mask = (reshaped(RaggedTensor(t, shape._rows, shape._dim), (-1,), "masked_select") for t in (values, holds))
    found: Tensor = x[mask]
    return found
