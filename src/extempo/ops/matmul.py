"""Contractions: matrix products and what is made of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from .._methods import method
from .._tensor import Tensor, apply, write
from ..errors import DtypeError, ShapeError
from ..op import Op, Rng, Sample
from ..storage import Array
from ..types import TensorType, bool_, broadcast_shapes
from .define import Operand, deliver

__all__ = [
    "addmm",
    "bmm",
    "matmul",
    "mm",
    "mv",
]


class Matmul(Op):
    """Products of matrices in the last two dimensions; the others broadcast."""

    family = "contraction"
    saves = ("b", "a")
    batch = "align"

    @staticmethod
    def infer(a: TensorType, b: TensorType) -> TensorType:
        if a.dtype is not b.dtype:
            raise DtypeError(f"matmul: expected both of one dtype, got {a.dtype} and {b.dtype}; convert one with .to(...)")
        if a.dtype is bool_:
            raise DtypeError("matmul: expected numbers, got bool tensors; use x.float()")
        if a.shape[-1] != b.shape[-2]:
            hint = "; did you mean x @ w.T?" if a.shape[-1] == b.shape[-1] else ""
            raise ShapeError(f"matmul: inner sizes differ, {a.shape} @ {b.shape}{hint}")
        try:
            lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
        except ShapeError:
            raise ShapeError(f"matmul: the batch dimensions of {a.shape} @ {b.shape} do not broadcast") from None
        return TensorType((*lead, a.shape[-2], b.shape[-1]), a.dtype)

    @staticmethod
    def numpy(a: Array, b: Array) -> Any:
        if a.dtype.itemsize == 2 and a.dtype.kind not in "iu":
            return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
        return np.matmul(a, b)

    @staticmethod
    def vjp(g: Tensor, y: Any, a: Tensor, b: Tensor) -> tuple[Any, ...]:
        return lambda: apply(Matmul, (g, b.mT)), lambda: apply(Matmul, (a.mT, g))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 4)), rng.normal(size=(4, 2)))
        yield Sample(rng.normal(size=(2, 1, 3, 4)), rng.normal(size=(5, 4, 2)))
        yield Sample(rng.normal(size=(3, 0)), rng.normal(size=(0, 2)))


@method
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix product. Vectors are rows on the left and columns on the right; leading dimensions broadcast."""
    for x in (input, other):
        if not isinstance(x, Tensor):
            raise DtypeError(f"matmul: expected tensors, got {type(x).__name__}; use * for numbers")
        if not x.ndim:
            raise ShapeError("matmul: a 0-dim tensor is no matrix; use * for numbers")
    a = input.unsqueeze(0) if input.ndim == 1 else input
    b = other.unsqueeze(1) if other.ndim == 1 else other
    result: Tensor = apply(Matmul, (a, b))
    if input.ndim == 1:
        result = result.squeeze(-2)
    if other.ndim == 1:
        result = result.squeeze(-1)
    return deliver(result, out)


method(matmul, "__matmul__")


def _rmatmul(self: Tensor, other: Any) -> Tensor:
    return matmul(ops.as_tensor(other), self)


method(_rmatmul, "__rmatmul__")
method(lambda self, other: write(self, matmul(self, other), "__imatmul__"), "__imatmul__")


def _matrices(op: str, ndims: tuple[int, ...], **tensors: Tensor) -> None:
    for (name, x), ndim in zip(tensors.items(), ndims, strict=True):
        if x.ndim != ndim:
            raise ShapeError(f"{op}: {name} must have {ndim} dimensions, got shape {tuple(x.shape)}")


@method
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices."""
    _matrices("mm", (2, 2), input=input, mat2=mat2)
    return matmul(input, mat2, out=out)


@method
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The products of two stacks of matrices."""
    _matrices("bmm", (3, 3), input=input, mat2=mat2)
    if input.shape[0] != mat2.shape[0]:
        raise ShapeError(f"bmm: batch sizes differ, {tuple(input.shape)} and {tuple(mat2.shape)}; use matmul to broadcast")
    return matmul(input, mat2, out=out)


@method
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A matrix times a vector."""
    _matrices("mv", (2, 1), input=input, vec=vec)
    return matmul(input, vec, out=out)


@method
def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Operand = 1, alpha: Operand = 1, out: Tensor | None = None
) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2)."""
    product = mm(mat1, mat2)
    product = product if alpha == 1 else product * alpha
    # beta = 0 means that input is not read at all, not even its NaNs.
    result = product if beta == 0 else (input if beta == 1 else input * beta) + product
    return deliver(result, out)
