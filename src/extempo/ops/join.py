"""Many tensors into one: cat, stack and their relatives, which copy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..core.op import Op, Rng, Routine, Sample
from ..core.tensor import Tensor, TensorLike, from_array
from ..core.tensor_methods import method
from ..core.types import TensorType, count, dtype, normalize_dim, promote_types
from ..core.wording import in_place_of
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, ShapeError
from .define import deliver_converted, numpy_names, refuse_shared
from .shaping import existing_dim
from .splitting import cut, unbind

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "cartesian_prod",
    "cat",
    "column_stack",
    "combinations",
    "concat",
    "concatenate",
    "dstack",
    "hstack",
    "meshgrid",
    "row_stack",
    "stack",
    "vstack",
]

Tensors = Sequence[Tensor]


class Cat(Op):
    """Tensors one after the other along a dimension."""

    family = "join"
    quiet = True
    saves = ("",)
    lower = Routine("cat")
    batch = "shift_dim"
    ragged = "joining.cat"
    numpy = staticmethod(lambda *xs, dim: np.concatenate(xs, axis=dim))
    vjp = staticmethod(lambda g, y, *xs, dim: cut(g, dim, [x.shape[dim] for x in xs]))

    @staticmethod
    def infer(*xs: TensorType, dim: int) -> TensorType:
        first = xs[0].shape
        for position, x in enumerate(xs):
            fits = x.ndim == len(first) and all(
                a == b for d, (a, b) in enumerate(zip(first, x.shape, strict=True)) if d != dim
            )
            if not fits:
                raise ShapeError(
                    f"cat: tensors must have equal sizes except along dim {dim}; tensor 0 has shape {first}, "
                    f"tensor {position} {x.shape}"
                )
        return TensorType((*first[:dim], sum(x.shape[dim] for x in xs), *first[dim + 1 :]), xs[0].dtype)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3)), rng.normal(size=(4, 3)), dim=0)
        yield Sample(rng.normal(size=(2, 1)), rng.normal(size=(2, 0)), rng.normal(size=(2, 3)), dim=1)

    onnx = staticmethod(lambda b, *xs, dim: b.Concat(*xs, axis=dim))


def _other_than_stack(first: tuple[int, ...], other: tuple[int, ...]) -> str:
    """What to use for two shapes that differ: rows of different lengths are a ragged tensor."""
    if first and other and first[1:] == other[1:]:
        return "use ex.ragged([...]) for rows of different lengths, or cat to put them end to end"
    return "reshape them first, or keep them in a list"


class Stack(Op):
    """Tensors of one shape along a new dimension."""

    family = "join"
    quiet = True
    saves = ("",)
    lower = Routine("stack")
    batch = "shift_dim"
    ragged = "joining.stack"
    numpy = staticmethod(lambda *xs, dim: np.stack(xs, axis=dim))
    vjp = staticmethod(lambda g, y, *xs, dim: unbind(g, dim))

    @staticmethod
    def infer(*xs: TensorType, dim: int) -> TensorType:
        first = xs[0].shape
        for position, x in enumerate(xs):
            if x.shape != first:
                raise ShapeError(
                    f"stack: shapes must be equal, 0 has {first}, {position} has {x.shape}; "
                    f"{_other_than_stack(first, x.shape)}"
                )
        return TensorType((*first[:dim], len(xs), *first[dim:]), xs[0].dtype)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3)), rng.normal(size=(2, 3)), dim=1)
        yield Sample(rng.normal(size=()), rng.normal(size=()), rng.normal(size=()), dim=0)

    onnx = staticmethod(lambda b, *xs, dim: b.Concat(*[b.Unsqueeze(x, [dim]) for x in xs], axis=dim))


def _common_dtype(tensors: Any, op: str) -> list[Tensor]:
    """The tensors in one dtype."""
    if isinstance(tensors, Tensor):
        raise DtypeError(f"{op}: expected a list of tensors, got one tensor; x.unbind() makes a list of its rows")
    given = list(tensors)
    if not given:
        raise ShapeError(f"{op}: expected at least one tensor, got none")
    if {*map(type, given)} <= {Tensor}:
        if len({x._type.dtype for x in given}) == 1:
            return given
    else:
        for x in given:
            if not isinstance(x, (Tensor, TensorLike)):
                raise DtypeError(f"{op}: expected tensors, got {type(x).__name__}; {in_place_of(x)}")
        if len({x.dtype for x in given}) == 1:
            return given
    common: dtype = given[0].dtype
    for x in given:
        common = promote_types(common, x.dtype)
    return [x if x.dtype is common else x.to(common) for x in given]


def _without_empty(given: list[Tensor], dim: int) -> list[Tensor]:
    """Those that are no empty vectors. One that requires grad stays, in a shape that fits: so does the result then."""
    full = next((x for x in given if x._type.shape != (0,)), None)
    if full is None:
        return given
    d = normalize_dim(dim, full.ndim, "cat")
    empty = (*full.shape[:d], 0, *full.shape[d + 1 :])
    kept = [x for x in given if x._type.shape != (0,) or x.requires_grad]
    return [x.reshape(empty) if x._type.shape == (0,) else x for x in kept]


@numpy_names
def cat(tensors: Tensors, dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The tensors one after the other along a dimension; empty vectors are left out, as in PyTorch.

    >>> ex.cat([ex.tensor([1, 2]), ex.tensor([3])])
    tensor([1, 2, 3])
    """
    if out is not None:
        refuse_shared("cat", out, *tensors)
    given = _common_dtype(tensors, "cat")
    shapes = [x._type.shape for x in given]
    if () in shapes:
        raise ShapeError("cat: 0-dim tensors have no dimension to join along; use stack")
    parts = given if (0,) not in shapes else _without_empty(given, dim)
    made = apply(Cat, tuple(parts), {"dim": normalize_dim(dim, len(parts[0]._type.shape), "cat")})
    return made if out is None else deliver_converted(made, out)


concat = concatenate = cat


@numpy_names
def stack(tensors: Tensors, dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The tensors, of one shape, along a new dimension.

    >>> ex.stack([ex.tensor([1, 2]), ex.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    if out is not None:
        refuse_shared("stack", out, *tensors)
    given = _common_dtype(tensors, "stack")
    made = apply(Stack, tuple(given), {"dim": normalize_dim(dim, len(given[0]._type.shape) + 1, "stack")})
    return made if out is None else deliver_converted(made, out)


def _each(fn: Any, tensors: tuple[Any, ...]) -> Any:
    """fn of one tensor, or a tuple of fn of several given as arguments or in a list."""
    if len(tensors) == 1 and isinstance(tensors[0], Tensor | TensorLike):
        return fn(tensors[0])
    return tuple(fn(x) for x in (tensors[0] if len(tensors) == 1 else tensors))


def atleast_1d(*tensors: Any) -> Any:
    """0-dim tensors as vectors.

    >>> ex.atleast_1d(ex.tensor(5))
    tensor([5])
    """
    return _each(lambda x: x if x.ndim else x.reshape(1), tensors)


def atleast_2d(*tensors: Any) -> Any:
    """Vectors as one row, 0-dim tensors as 1 x 1.

    >>> ex.atleast_2d(ex.tensor([1, 2]))
    tensor([[1, 2]])
    """
    return _each(lambda x: x if x.ndim > 1 else x.reshape(1, x.numel()), tensors)


def atleast_3d(*tensors: Any) -> Any:
    """Matrices as (rows, columns, 1), vectors as (1, size, 1), 0-dim tensors as 1 x 1 x 1.

    >>> ex.atleast_3d(ex.tensor([1, 2])).shape
    extempo.Size([1, 2, 1])
    """
    return _each(lambda x: x if x.ndim > 2 else x.unsqueeze(-1) if x.ndim == 2 else x.reshape(1, x.numel(), 1), tensors)


def hstack(tensors: Tensors, *, out: Tensor | None = None) -> Tensor:
    """Joined along the second dimension; vectors along their only one.

    >>> ex.hstack([ex.tensor([1, 2]), ex.tensor([3, 4])])
    tensor([1, 2, 3, 4])
    """
    given = atleast_1d(list(tensors))
    return cat(given, 0 if given and given[0].ndim == 1 else 1, out=out)


def vstack(tensors: Tensors, *, out: Tensor | None = None) -> Tensor:
    """Joined along the first dimension; vectors are rows.

    >>> ex.vstack([ex.tensor([1, 2]), ex.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    return cat(atleast_2d(list(tensors)), 0, out=out)


row_stack = vstack


def dstack(tensors: Tensors, *, out: Tensor | None = None) -> Tensor:
    """Joined along the third dimension.

    >>> ex.dstack([ex.tensor([1, 2]), ex.tensor([3, 4])])[0]
    tensor([[1, 3],
            [2, 4]])
    """
    return cat(atleast_3d(list(tensors)), 2, out=out)


def column_stack(tensors: Tensors, *, out: Tensor | None = None) -> Tensor:
    """Joined along the second dimension; vectors are columns.

    >>> ex.column_stack([ex.tensor([1, 2]), ex.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    return hstack([x if x.ndim > 1 else x.reshape(x.numel(), 1) for x in tensors], out=out)


def block_diag(*tensors: Tensor) -> Tensor:
    """Matrices along the diagonal of one that is zero elsewhere; vectors are rows.

    >>> ex.block_diag(ex.tensor([[1, 2]]), ex.tensor([[3], [4]]))
    tensor([[1, 2, 0],
            [0, 0, 3],
            [0, 0, 4]])
    """
    for x in tensors:
        if x.ndim > 2:
            raise ShapeError(f"block_diag: expected matrices or fewer dimensions, got shape {tuple(x.shape)}")
    blocks = atleast_2d(_common_dtype(tensors, "block_diag"))
    width = sum(b._type.shape[1] for b in blocks)
    ends = itertools.accumulate(b._type.shape[1] for b in blocks)
    rows = [ops.constant_pad_nd(b, (end - b._type.shape[1], width - end)) for b, end in zip(blocks, ends, strict=True)]
    return cat(rows)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinates of a grid: each vector expanded over the dimensions of all; indexing is "ij" or "xy".

    >>> row, column = ex.meshgrid(ex.tensor([0, 1]), ex.tensor([5, 6, 7]))
    >>> row
    tensor([[0, 0, 0],
            [1, 1, 1]])
    >>> column
    tensor([[5, 6, 7],
            [5, 6, 7]])
    """
    given = list(tensors[0]) if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else list(tensors)
    if indexing not in ("ij", "xy"):
        raise ShapeError(f"meshgrid: indexing must be 'ij' or 'xy', got {indexing!r}")
    if not given or any(x.ndim > 1 for x in given):
        raise ShapeError("meshgrid: expected one or more vectors")
    swap = indexing == "xy" and len(given) > 1
    if swap:
        given[:2] = given[1::-1]
    shape = tuple(x.numel() for x in given)
    grids = [x.reshape(-1, *(1,) * (len(given) - i - 1)).expand(shape) for i, x in enumerate(given)]
    if swap:
        grids[:2] = grids[1::-1]
    return tuple(grids)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of one element from each vector, one row each.

    >>> ex.cartesian_prod(ex.tensor([1, 2]), ex.tensor([8, 9]))
    tensor([[1, 8],
            [1, 9],
            [2, 8],
            [2, 9]])
    """
    if any(x.ndim != 1 for x in tensors):
        raise ShapeError(f"cartesian_prod: expected vectors, got shapes {[tuple(x.shape) for x in tensors]}")
    if len(tensors) == 1:
        return tensors[0]
    return stack([g.reshape(-1) for g in meshgrid(*tensors)], 1)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All ways to choose r elements of a vector in their order, one row each.

    >>> ex.combinations(ex.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    if input.ndim != 1 or r < 0:
        raise ShapeError(f"combinations: expected a vector and r >= 0, got shape {tuple(input.shape)} and r={r}")
    if r == 0:
        return ops.empty(0, dtype=input.dtype)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    none = r > input.numel() and not with_replacement
    chosen = [] if none else list(choose(range(input.numel()), r))  # itertools wants memory for r, none or not
    rows = from_array(np.array(chosen, np.int64).reshape(len(chosen), r))
    return input[rows]


def _chunk_cat(tensors: Tensors, dim: int, num_chunks: int, *, out: Tensor | None = None) -> Tensor:
    """Each tensor cut into that many chunks (padded with zeros to divide), flattened, and all joined chunk by chunk."""
    given = _common_dtype(tensors, "_chunk_cat")
    d = existing_dim(given[0], dim, "_chunk_cat")
    for x in given:
        if not x.numel() or x.ndim <= d or x._type.shape[:d] != given[0]._type.shape[:d]:
            raise ShapeError(
                f"_chunk_cat: expected tensors with elements and the same sizes before dimension {dim}, got shapes "
                f"{[tuple(x.shape) for x in given]}"
            )
    if dim < 0 and len({x.ndim for x in given}) > 1:
        raise ShapeError("_chunk_cat: tensors of different numbers of dimensions need dim >= 0")
    if num_chunks < 1:
        raise ShapeError(f"_chunk_cat: expected a positive number of chunks, got {num_chunks}")
    rows = []
    for x in given:
        shape = x._type.shape
        missing = -shape[d] % num_chunks
        padded = ops.constant_pad_nd(x, (0, 0) * (x.ndim - d - 1) + (0, missing)) if missing else x
        rows.append(padded.reshape(*shape[:d], num_chunks, (shape[d] + missing) // num_chunks * count(shape[d + 1 :])))
    return cat(rows, d + 1, out=out)


method(_chunk_cat, "_chunk_cat")
