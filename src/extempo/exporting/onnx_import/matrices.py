"""Products of matrices, and what is made of one: MatMul, Gemm, Einsum, Det."""

from __future__ import annotations

from ... import linalg, ops
from ...core.tensor import Tensor
from ...nn import functional as F
from .table import operator


@operator("MatMul")
def mat_mul(x: Tensor, y: Tensor) -> Tensor:
    return ops.matmul(x, y)


@operator("Gemm")
def gemm(
    a: Tensor, b: Tensor, c: Tensor | None = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0,
    transB: int = 0,
) -> Tensor:  # fmt: skip
    if transB and alpha == beta == 1.0 and (c is None or c.ndim == 1) and a.ndim == 2 and not transA:
        return F.linear(a, b, c)  # how layers are exported: one op
    y = ops.matmul(a.t() if transA else a, b.t() if transB else b)
    y = y if alpha == 1.0 else y * alpha
    if c is None:
        return y
    return y + (c if beta == 1.0 else c * beta)


@operator("Einsum")
def einsum(*inputs: Tensor, equation: str) -> Tensor:
    return ops.einsum(equation, *inputs)


@operator("Det")
def det(x: Tensor) -> Tensor:
    return linalg.det(x)
