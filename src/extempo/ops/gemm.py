"""Matmul and Linear, the primitives behind every matrix product, and the gradient of Linear's parameters.

float16 and bfloat16 are multiplied and added up in float32, then rounded once. A stack of matrices times one matrix is
one product, forward and backward. Integers work, slowly; bool tensors are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from ..core.op import GRADIENTS_ONLY, IN_GRADIENTS_ONLY, Op, Rng, Routine, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import TensorType, bool_, broadcast_shapes, count
from ..core.wording import FORGOTTEN_RETURN, counted, input_misfit, pair_misfit
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, ShapeError


def aligned(*tensors: Tensor) -> list[Tensor]:
    """Tensors that each gained a leading dimension, given ones behind it until all have as many dimensions."""
    ndim = max(x.ndim for x in tensors)
    return [x.reshape(x.shape[0], *(1,) * (ndim - x.ndim), *x.shape[1:]) for x in tensors]


def no_tensor(kind: type) -> str:
    """Why something of this type is no factor of a matrix product."""
    return FORGOTTEN_RETURN if kind is type(None) else f"expected tensors, got {kind.__name__}; use * for numbers"


def _check_dtypes(op: str, a: TensorType, b: TensorType) -> None:
    """Both are tensors of one numeric dtype; of `linear` the second is the weight."""
    for x in (a, b):
        if not isinstance(x, TensorType):
            raise DtypeError(f"{op}: {no_tensor(x)}")
    if a.dtype is not b.dtype:
        words = input_misfit(op, a.dtype, "weight", b.dtype) if op == "linear" else pair_misfit(op, a.dtype, b.dtype)
        raise DtypeError(words)
    if a.dtype is bool_:
        raise DtypeError(f"{op}: expected numbers, got bool tensors; use x.float()")


def _product(a: Array, b: Array) -> Any:
    """np.matmul, but a stack of matrices (or vectors) times one matrix is folded into one BLAS call."""
    if b.ndim <= 2:
        if a.ndim <= 2:
            return a.dot(b)
        if a.flags.c_contiguous:
            return a.reshape(count(a.shape[:-1]), a.shape[-1]).dot(b).reshape(a.shape[:-1] + b.shape[1:])
    return np.matmul(a, b)


def _is_half(a: Array) -> bool:
    return a.dtype.itemsize == 2 and a.dtype.kind not in "iu"


class Matmul(Op):
    """Products of matrices in the last two dimensions; the others broadcast. A vector is a row left, a column right."""

    family = "contraction"
    lower = Routine("matmul")
    saves = ("b", "a")
    ragged = "products.matmul"

    @staticmethod
    def infer(a: TensorType, b: TensorType) -> TensorType:
        _check_dtypes("matmul", a, b)
        if not a.shape or not b.shape:
            raise ShapeError("matmul: a 0-dim tensor is no matrix; use * for numbers")
        if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
            fits = b.ndim > 1 and a.shape[-1] == b.shape[-1]
            hint = (
                "; did you mean x @ w.T?"
                if fits
                else "; the last size of the first must be the second last of the second"
            )
            raise ShapeError(f"matmul: inner sizes differ, {a.shape} @ {b.shape}{hint}")
        try:
            lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
        except ShapeError:
            raise ShapeError(f"matmul: the batch dimensions of {a.shape} @ {b.shape} do not broadcast") from None
        return TensorType((*lead, *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ())), a.dtype)

    @staticmethod
    def numpy(a: Array, b: Array) -> Any:
        if _is_half(a):
            return np.asarray(_product(a.astype(np.float32), b.astype(np.float32))).astype(a.dtype)
        return _product(a, b)

    @staticmethod
    def vjp(g: Tensor, y: Any, a: Tensor, b: Tensor) -> tuple[Any, ...]:
        def into_a() -> Tensor:
            if b.ndim == 1:
                return g.unsqueeze(-1) * b
            if a.ndim == 1:
                return apply(Matmul, (b, g)) if b.ndim == 2 else apply(Matmul, (b, g.unsqueeze(-1))).squeeze(-1)
            return apply(Matmul, (g, b.mT))

        def into_b() -> Tensor:
            if a.ndim == 1:
                return g.unsqueeze(-1) * a if b.ndim == 1 else a.unsqueeze(-1) * g.unsqueeze(-2)
            if b.ndim > 2:
                return apply(Matmul, (a.mT, g))
            return apply(Matmul, (_rows(a).mT, _rows(g, g.ndim - a.ndim + 1)))

        return into_a, into_b

    @staticmethod
    def batch(size: int, a: Tensor, b: Tensor) -> Tensor:
        row, column = a.ndim == 2, b.ndim == 2
        left, right = aligned(a.unsqueeze(-2) if row else a, b.unsqueeze(-1) if column else b)
        result: Tensor = apply(Matmul, (left, right))
        result = result.squeeze(-1) if column else result
        return result.squeeze(-1 if column else -2) if row else result

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for a, b in (
            ((3, 4), (4, 2)),
            ((2, 1, 3, 4), (5, 4, 2)),
            ((2, 3, 4), (4, 2)),
            ((3, 4), (2, 4, 5)),
            ((4,), (4,)),
            ((3, 4), (4,)),
            ((4,), (4, 2)),
            ((2, 3, 4), (4,)),
            ((4,), (2, 4, 3)),
            ((3, 0), (0, 2)),
            ((0, 3, 2), (2, 4)),
        ):
            yield Sample(rng.normal(size=a), rng.normal(size=b))

    onnx = staticmethod(lambda b, x, y: b.matmul(x, y))


def _rows(x: Tensor, n_kept: int = 1) -> Tensor:
    """All dimensions but the last `n_kept` flattened into one: a sum over them is then one product."""
    n_lead = x.ndim - n_kept
    return x if n_lead == 1 else x.reshape(count(x.shape[:n_lead]), *x.shape[n_lead:])


class Linear(Op):
    """x @ weight.T + bias, for x (..., in), weight (out, in) or (in,), bias (out,) or None."""

    family = "contraction"
    lower = Routine("linear")
    saves = ("weight", "x", "")
    ragged = "products.linear"

    @staticmethod
    def infer(x: TensorType, weight: TensorType, bias: Any) -> TensorType:
        _check_dtypes("linear", x, weight)
        if weight.ndim not in (1, 2) or not x.shape:
            raise ShapeError(
                f"linear: expected input (..., in) and weight (out, in) or (in,), got {x.shape} and {weight.shape}"
            )
        if x.shape[-1] != weight.shape[-1]:
            raise ShapeError(_linear_message(x.shape, weight.shape))
        result = TensorType((*x.shape[:-1], *weight.shape[:-1]), x.dtype)
        if isinstance(bias, TensorType):
            if bias.dtype is not x.dtype:
                raise DtypeError(input_misfit("linear", x.dtype, "bias", bias.dtype))
            if not ops.broadcastable(bias.shape, result.shape):
                raise ShapeError(
                    f"linear: weight {weight.shape} needs a bias of shape {weight.shape[:-1]}, got {bias.shape}"
                )
        return result

    @staticmethod
    def numpy(x: Array, weight: Array, bias: Any) -> Any:
        half = _is_half(x)
        y = _product(x.astype(np.float32), weight.T.astype(np.float32)) if half else _product(x, weight.T)
        if bias is not None:
            y = np.add(y, bias, out=y) if isinstance(y, np.ndarray) and y.ndim else y + bias
        return np.asarray(y, x.dtype) if half else y

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Tensor, weight: Tensor, bias: Any) -> tuple[Any, ...]:
        def into_x() -> Tensor:
            return g.reshape(*x.shape[:-1], 1) * weight if weight.ndim == 1 else apply(Matmul, (g, weight))

        if weight.ndim == 1:
            return into_x, lambda: apply(Matmul, (_rows(g, 0), _rows(x))), None if bias is None else g

        made: list[Tensor] = []

        def of_parameters() -> list[Tensor]:
            if not made:
                made.extend(apply(LinearGradient, (g, x)))
            return made

        # x was saved only if the weight needs a gradient; then that of the bias comes with it.
        together = bias is not None and isinstance(x, Tensor) and bias.shape == weight.shape[:1]
        into_bias = (lambda: of_parameters()[1]) if together else None if bias is None else g
        return into_x, lambda: of_parameters()[0], into_bias

    @staticmethod
    def batch(size: int, x: Tensor, weight: Tensor, bias: Any) -> Tensor:
        column = weight.ndim == 2
        transposed = weight.unsqueeze(-1) if column else weight.mT
        y: Tensor = Matmul.batch(size, x, transposed)
        y = y.squeeze(-1) if column else y
        return y if bias is None else ops.add(*aligned(y, bias))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for x, weight, bias in (
            ((3, 4), (2, 4), (2,)),
            ((2, 3, 4), (5, 4), None),
            ((4,), (2, 4), (2,)),
            ((3, 4), (4,), ()),
            ((4,), (4,), None),
            ((0, 4), (2, 4), (2,)),
            ((3, 0), (2, 0), (2,)),
        ):
            yield Sample(rng.normal(size=x), rng.normal(size=weight), None if bias is None else rng.normal(size=bias))

    @staticmethod
    def onnx(b: Any, x: Any, weight: Any, bias: Any) -> Any:
        if x.ndim == 2 and weight.ndim == 2 and (bias is None or bias.ndim == 1):
            return b.Gemm(x, weight, bias, transB=1)
        y = b.MatMul(x, b.Transpose(weight, perm=(1, 0)) if weight.ndim == 2 else weight)
        return y if bias is None else b.Add(y, bias)


class LinearGradient(Op):
    """From the gradient of Linear's result (..., out) and its x (..., in): that of weight (out, in), of bias (out,)."""

    family = "contraction"
    lower = Routine("linear_gradient")
    saves = ("x", "g")
    ragged = IN_GRADIENTS_ONLY

    @staticmethod
    def infer(g: TensorType, x: TensorType) -> tuple[TensorType, TensorType]:
        return TensorType((g.shape[-1], x.shape[-1]), g.dtype), TensorType(g.shape[-1:], g.dtype)

    @staticmethod
    def numpy(g: Array, x: Array) -> tuple[Array, Array]:
        rows, x_rows = (t.reshape(count(t.shape[:-1]), t.shape[-1]) for t in (g, x))
        if _is_half(g):
            rows, x_rows = rows.astype(np.float32), x_rows.astype(np.float32)
        return rows.T.dot(x_rows).astype(g.dtype, copy=False), rows.sum(0).astype(g.dtype, copy=False)

    @staticmethod
    def vjp(cotangents: Any, y: Any, g: Tensor, x: Tensor) -> tuple[Any, ...]:
        of_weight, of_bias = cotangents
        return lambda: apply(Linear, (x, of_weight, of_bias)), lambda: apply(Matmul, (g, of_weight))

    @staticmethod
    def batch(size: int, g: Tensor, x: Tensor) -> Any:
        rows, x_rows = (t.reshape(size, count(t.shape[1:-1]), t.shape[-1]) for t in (g, x))
        return apply(Matmul, (rows.mT, x_rows)), rows.sum(1)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for lead in ((3,), (2, 3), (), (0,)):
            yield Sample(rng.normal(size=(*lead, 2)), rng.normal(size=(*lead, 4)))

    onnx = GRADIENTS_ONLY


def _linear_message(x: tuple[int, ...], weight: tuple[int, ...]) -> str:
    text = (
        f"linear: input {x} has {counted(x[-1], 'feature')} in its last dimension, weight {weight} expects {weight[-1]}"
    )
    if len(weight) == 2 and x[-1] == weight[0]:
        return f"{text}; the weight is (out, in): did you mean weight.T?"
    if len(x) > 1 and weight[-1] == x[-2]:
        return f"{text}; did you mean x.mT?"
    if count(x[1:]) == weight[-1]:
        return f"{text}; flatten the sample first: x.flatten(1)"
    return f"{text}; make the layer with nn.Linear({x[-1]}, ...), or change what comes before it"
