"""Other shapes of the same elements: reshape, permute, expand, slices and their like, as far as rows stay rows.

Dimension 0 counts the rows and stays first. Regular dimensions can be split, merged and moved at will, the ragged one
can be merged with its neighbours (each row then has as many elements as before, in the same order), and be moved.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import ops
from ..core.op import Op
from ..core.tensor import Tensor, from_array
from ..core.types import normalize_dim
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, IndexRangeError, ShapeError
from ..symbolic.sym_int import SymInt
from .indexing import picked, select_rows
from .rows import RaggedSize
from .rules import along, regular_dims
from .tensor import NEAREST, RaggedTensor, refuse

_KEEP_FIRST = "dimension 0 counts the rows and must stay first; "


def permute(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> RaggedTensor:
    """Dimensions behind the rows in another order."""
    x: RaggedTensor = inputs[0]
    dims = attrs["dims"]
    if dims[0] != 0:
        refuse(f"permute{dims}", _KEEP_FIRST + NEAREST)
    flat = apply(op, (x._flat,), {"dims": tuple(d - 1 for d in dims[1:])})
    return RaggedTensor(flat, x._rows, dims.index(x._dim))


def slice_(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Rows and regular dimensions, sliced by numbers."""
    x: RaggedTensor = inputs[0]
    first, *rest = attrs["spec"]
    starts = inputs[1:]
    if first is None:
        refuse("a new dimension before the rows", _KEEP_FIRST + NEAREST)
    if first != ":":
        start, *starts_of_rest = starts
        if first == "i":
            row = x.row(start)
            return apply(op, (row, *starts_of_rest), {"spec": tuple(rest)}) if rest else row
        length, step = first
        x, starts = select_rows(x, slice(start, start + length * step, step)), tuple(starts_of_rest)
    if not rest:
        return x
    dim, ragged_at = 1, x._dim  # of x, and of the result
    for entry in rest:
        if dim == x._dim and entry not in (":", None):
            refuse("a slice of the ragged dimension by numbers that hold for all rows", "use x[:, start:stop]")
        if dim <= x._dim:
            ragged_at += (entry is None) - (entry == "i")
        dim += entry is not None
    return RaggedTensor(apply(op, (x._flat, *starts), {"spec": tuple(rest)}), x._rows, ragged_at)


def diagonal(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> RaggedTensor:
    """The diagonal of two regular dimensions."""
    x: RaggedTensor = inputs[0]
    dim1, dim2 = regular_dims(x, (attrs["dim1"], attrs["dim2"]), "diagonal")
    flat = apply(op, (x._flat,), {**attrs, "dim1": dim1, "dim2": dim2})
    return RaggedTensor(flat, x._rows, x._dim - sum(d < x._dim - 1 for d in (dim1, dim2)))


def unfold(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> RaggedTensor:
    """Windows along a regular dimension."""
    x: RaggedTensor = inputs[0]
    (dimension,) = regular_dims(x, (attrs["dimension"],), "unfold")
    return x.like(apply(op, (x._flat,), {**attrs, "dimension": dimension}))


# ---- reshape


def reshape(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Another shape; see `reshaped`."""
    return reshaped(inputs[0], (attrs["shape"],), "reshape")


def reshaped(x: Any, sizes: tuple[Any, ...], name: str) -> Any:
    """x.reshape(*sizes). The ragged dimension is named by its size in x.shape, or by -1.

    Where -1 names it and stands between fewer dimensions than there were, it is merged with its neighbours: the rows of
    x.reshape(len(x), -1) are the flattened rows. x.reshape(-1) is all of them, one after the other.
    """
    wanted = _wanted(sizes, name)
    before, after = x._flat.shape[: x._dim - 1], x._flat.shape[x._dim :]
    named = [d for d, size in enumerate(wanted) if isinstance(size, RaggedSize)]
    if named and not all(wanted[d].rows.same(x._rows) for d in named):
        raise ShapeError(f"{name}: the ragged size is that of other rows than those of lengths {x._rows.brief()}")
    if wanted == [-1]:
        return reshaped(x, (x._rows.n, -1), name)._flat
    at = named[0] if named else wanted.index(-1) if -1 in wanted else 0
    if len(named) > 1 or at == 0 or wanted[0] not in (x._rows.n, -1):
        raise ShapeError(
            f"{name}: {_text(wanted)} must begin with the number of rows, {x._rows.n}, and have the ragged dimension "
            f"of {_text(x.shape)} once: as x.shape[{x._dim}], or as -1"
        )
    lead, trail = wanted[1:at], wanted[at + 1 :]
    if named:
        lead, trail = _filled(lead, before), _filled(trail, after)
    n_lead, n_trail, n_before, n_after = (math.prod(part) for part in (lead, trail, before, after))
    fits = (n_lead, n_trail) == (n_before, n_after)
    if not fits and (named or not n_lead * n_trail or n_before % n_lead or n_after % n_trail):
        raise ShapeError(f"{name}: rows of {_text(x.shape)} do not have the elements of rows of {_text(wanted)}")
    flat, rows = x._flat, x._rows
    if not fits:
        inner_before, inner_after = n_before // n_lead, n_after // n_trail
        if inner_before > 1:
            # Elements lie by what was before the ragged dimension first, and are to lie row by row.
            row_of = np.broadcast_to(rows.row_of[:, None], (inner_before, rows.total, inner_after)).reshape(-1)
            flat = flat.reshape(n_lead, row_of.size, n_trail)
            flat = flat.index_select(1, from_array(np.argsort(row_of, kind="stable")))
        rows = rows.times(inner_before * inner_after)
    return RaggedTensor(flat.reshape(*lead, rows.total, *trail), rows, at)


def _wanted(sizes: tuple[Any, ...], name: str) -> list[Any]:
    """Sizes given as f(2, n) or f((2, n)), of which one may be that of a ragged dimension."""
    given = tuple(sizes[0]) if len(sizes) == 1 and hasattr(sizes[0], "__iter__") else sizes
    try:
        wanted = [size if isinstance(size, RaggedSize | SymInt) else size.__index__() for size in given]
    except AttributeError:
        raise DtypeError(f"{name}: sizes must be ints, got {given!r}") from None
    numbers = [size for size in wanted if not isinstance(size, RaggedSize)]
    if numbers.count(-1) > 1 or any(size < -1 for size in numbers):
        raise ShapeError(f"{name}: one size can be -1, and none below, got {_text(wanted)}")
    return wanted


def _filled(sizes: list[int], others: tuple[int, ...]) -> list[int]:
    """-1 replaced by what the elements of the other sizes leave for it."""
    known, n = math.prod(size for size in sizes if size != -1), math.prod(others)
    return [n // known if size == -1 and known else size for size in sizes]


def _text(shape: Any) -> str:
    return f"({', '.join(str(size) for size in shape)})"


def flattened(x: Any, first: int, last: int) -> Any:
    """x.flatten(first, last), dimensions that are there."""
    sizes = list(x.shape)
    if first == last:
        return x
    if first > 0:
        merged = -1 if first <= x._dim <= last else math.prod(sizes[first : last + 1])
        return reshaped(x, (*sizes[:first], merged, *sizes[last + 1 :]), "flatten")
    if last < x._dim:
        refuse("flatten of the rows with dimensions before the ragged one", "transpose the ragged dimension to 1 first")
    return reshaped(x, (x._rows.n, -1, *sizes[last + 1 :]), "flatten")._flat


# ---- expand, repeat


def expand(op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Regular dimensions of size 1 that grow; see `expanded`."""
    return expanded(inputs[0], (attrs["shape"],), "expand")


def expanded(x: Any, sizes: tuple[Any, ...], name: str) -> Any:
    """x.expand(*sizes): regular dimensions of size 1 grow."""
    given = tuple(sizes[0]) if len(sizes) == 1 and hasattr(sizes[0], "__iter__") else sizes
    kept = [given[d] in (-1, x.shape[d]) for d in (0, x._dim)] if len(given) == x.ndim else [False]
    if not all(kept):
        raise ShapeError(
            f"{name}: {_text(x.shape)} does not expand to {_text(given)}; its rows and their lengths stay, regular "
            "dimensions of size 1 can grow"
        )
    return x.like(x._flat.expand([-1 if d == x._dim else size for d, size in enumerate(given) if d]))


def expanded_as(t: Tensor, other: Any) -> Any:
    """A regular tensor in the shape of a ragged one that it broadcasts with."""
    return other.like(along(other, t, "expand_as").expand(other._flat.shape))


def repeated(x: Any, times: tuple[int, ...]) -> Any:
    """Copies side by side: so many along each dimension."""
    if len(times) != x.ndim:
        refuse(f"repeat{times}", f"it has {x.ndim} dimensions, give a number for each; " + NEAREST)
    inner = x.like(x._flat.repeat([1 if d == x._dim else n for d, n in enumerate(times) if d]))
    for dim in (x._dim, 0):
        if times[dim] == 0:
            inner = inner[:0] if dim == 0 else inner[(slice(None),) * x._dim + (slice(0, 0),)]
        elif times[dim] > 1:
            inner = ops.cat([inner] * times[dim], dim)
    return inner


# ---- parts by number


def selected(x: Any, dim: int, index: int) -> Any:
    """x.select(dim, index)."""
    return picked(x, (slice(None),) * normalize_dim(dim, x.ndim, "select") + (index,))


def narrowed(x: Any, start: int, length: int) -> Any:
    """x.narrow along the ragged dimension: the same elements of each row, all of which must have them."""
    lengths = x._rows.lengths
    firsts = np.where(start < 0, lengths + start, start)
    outside = (firsts < 0) | (firsts + length > lengths)
    if length < 0 or outside.any():
        row = int(outside.argmax())
        raise IndexRangeError(
            f"narrow: start {start} and length {length} exceed row {row} of length {lengths[row] if len(x) else 0}; "
            f"x[:, {start}:{start + length}] takes what there is"
        )
    stop = start + length or None if start < 0 else start + length
    return picked(x, (slice(None),) * x._dim + (slice(start, stop),))
