"""Triangles and diagonals of matrices: taken out, filled in, or made into matrices. All make copies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from ..core.device import require_cpu, require_strided
from ..core.op import Op, Rng, Routine, Sample
from ..core.tensor import Tensor, from_array
from ..core.tensor_methods import method
from ..core.types import InputType, Number, TensorType, as_dtype, check_size
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, ShapeError
from .define import deliver, inplace_method
from .shaping import diagonal, diagonal_attributes
from .view import Embed

__all__ = ["diag", "diag_embed", "diagflat", "trace", "tril", "tril_indices", "triu", "triu_indices"]


class _Triangle(Op, abstract=True):
    """A triangle of the last two dimensions, zeros elsewhere; the diagonal's place is a value."""

    family = "arrange"
    quiet = True
    saves = ("",)
    ragged = "picking.triangle"

    @classmethod
    def infer(cls, x: TensorType, diagonal: InputType) -> TensorType:
        if x.ndim < 2:
            raise ShapeError(f"{cls.name}: expected a matrix or a batch of them, got shape {x.shape}")
        return x

    @classmethod
    def vjp(cls, g: Tensor, y: Any, x: Any, diagonal: int) -> tuple[Any, ...]:
        return apply(cls, (g, diagonal)), None

    @classmethod
    def batch(cls, size: int, x: Tensor, diagonal: int) -> Tensor:
        return apply(cls, (x, diagonal))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 4)), 0)
        yield Sample(rng.normal(size=(2, 3, 3)), -1)
        yield Sample(rng.normal(size=(3, 2)), 1)


class Tril(_Triangle):
    """The lower triangle."""

    numpy = staticmethod(lambda x, diagonal: np.tril(x, diagonal))
    lower = Routine("tril")
    onnx = staticmethod(lambda b, x, diagonal: b.Trilu(b.plain(x), b.size(diagonal), upper=0))


class Triu(_Triangle):
    """The upper triangle."""

    numpy = staticmethod(lambda x, diagonal: np.triu(x, diagonal))
    lower = Routine("triu")
    onnx = staticmethod(lambda b, x, diagonal: b.Trilu(b.plain(x), b.size(diagonal), upper=1))


@method
def tril(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The lower triangle of a matrix or a batch of them, zeros above the diagonal.

    >>> ex.tril(ex.tensor([[1, 2], [3, 4]]))
    tensor([[1, 0],
            [3, 4]])
    """
    return deliver(apply(Tril, (input, diagonal)), out)


@method
def triu(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The upper triangle of a matrix or a batch of them, zeros below the diagonal.

    >>> ex.triu(ex.tensor([[1, 2], [3, 4]]))
    tensor([[1, 2],
            [0, 4]])
    """
    return deliver(apply(Triu, (input, diagonal)), out)


inplace_method("tril_", tril)
inplace_method("triu_", triu)


def _triangle_indices(find: Any, row: int, col: int, offset: int, dtype: Any) -> Tensor:
    op = find.__name__
    if row < 0 or col < 0:
        raise ShapeError(f"{op}: sizes must not be negative, got {row} and {col}")
    d = as_dtype("int64" if dtype is None else dtype)
    if d.category != 1:
        raise DtypeError(f"{op}: expected an integer dtype, got {d}")
    check_size(op, (row, col), 8)
    return from_array(np.stack(find(row, offset, col)).astype(d.numpy))


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None
) -> Tensor:
    """Row and column numbers of the lower triangle, as two rows.

    >>> ex.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    require_cpu(device, "tril_indices")
    require_strided(layout, "tril_indices")
    return _triangle_indices(np.tril_indices, row, col, offset, dtype)


def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None
) -> Tensor:
    """Row and column numbers of the upper triangle, as two rows.

    >>> ex.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    require_cpu(device, "triu_indices")
    require_strided(layout, "triu_indices")
    return _triangle_indices(np.triu_indices, row, col, offset, dtype)


@method
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The last dimension as the diagonal of two new ones, zeros elsewhere.

    >>> ex.diag_embed(ex.tensor([1, 2]), offset=1)
    tensor([[0, 1, 0],
            [0, 0, 2],
            [0, 0, 0]])
    """
    if not input.ndim:
        raise ShapeError("diag_embed: a 0-dim tensor has no dimension to put on a diagonal")
    attrs = diagonal_attributes(input.ndim + 1, offset, dim1, dim2, "diag_embed")
    size = input._type.shape[-1] + abs(attrs["offset"])
    shape = list(input._type.shape[:-1])
    for d in sorted((attrs["dim1"], attrs["dim2"])):
        shape.insert(d, size)
    return apply(Embed, (input,), {"op": "diagonal", "shape": tuple(shape), "attrs": tuple(attrs.items())})


@method
def diag(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """A vector as the diagonal of a matrix, or a copy of the diagonal of a matrix.

    >>> ex.diag(ex.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    >>> ex.diag(ex.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    if input.ndim not in (1, 2):
        raise ShapeError(
            f"diag: expected a vector or a matrix, got shape {tuple(input.shape)}; diag_embed takes batches"
        )
    made = diag_embed(input, diagonal) if input.ndim == 1 else ops.diagonal(input, diagonal).clone()
    return deliver(made, out)


@method
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """All elements as the diagonal of a matrix.

    >>> ex.diagflat(ex.tensor([[1], [2]]))
    tensor([[1, 0],
            [0, 2]])
    """
    return diag_embed(input.reshape(-1), offset)


@method
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix.

    >>> ex.trace(ex.tensor([[1, 2], [3, 4]]))
    tensor(5)
    """
    if input.ndim != 2:
        raise ShapeError(
            f"trace: expected a matrix, got shape {tuple(input.shape)}; use diagonal(dim1=-2, dim2=-1).sum(-1)"
        )
    return diagonal(input).sum()


def _fill_diagonal_(self: Tensor, fill_value: Number, wrap: bool = False) -> Tensor:
    """Set the main diagonal to one value; with `wrap`, again below it in tall matrices."""
    if self.ndim < 2:
        raise ShapeError(f"fill_diagonal_: expected at least 2 dimensions, got shape {tuple(self.shape)}")
    if self.ndim > 2 and len(set(self._type.shape)) > 1:
        raise ShapeError(f"fill_diagonal_: more than 2 dimensions must be of equal size, got shape {tuple(self.shape)}")
    place = np.arange(min(self._type.shape))
    rows, columns = self._type.shape[0], self._type.shape[1]
    if wrap and self.ndim == 2 and rows > columns:
        flat = np.arange(0, rows * columns, columns + 1)
        self[from_array(flat // columns), from_array(flat % columns)] = fill_value
        return self
    self[(from_array(place),) * self.ndim] = fill_value
    return self


method(_fill_diagonal_, "fill_diagonal_")
