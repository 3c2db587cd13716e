"""Matrix products: matmul and linear as primitives, and what is one product plus a little.

float16 and bfloat16 are multiplied and added up in float32, then rounded once. A stack of matrices times one matrix is
one BLAS call, forward and backward. Integers work (without BLAS), bool tensors are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from .._methods import method
from .._tensor import Tensor
from ..errors import DtypeError, ShapeError
from ..op import Op, Rng, Sample
from ..running import apply
from ..storage import Array
from ..types import Number, TensorType, bool_, broadcast_shapes, count
from ..writing import write
from .define import deliver, inplace_method

__all__ = [
    "addbmm",
    "addmm",
    "addmv",
    "addr",
    "baddbmm",
    "bmm",
    "dot",
    "ger",
    "inner",
    "matmul",
    "mm",
    "mv",
    "outer",
    "vdot",
]


def aligned(*tensors: Tensor) -> list[Tensor]:
    """Tensors that each gained a leading dimension, given ones behind it until all have as many dimensions."""
    ndim = max(x.ndim for x in tensors)
    return [x.reshape(x.shape[0], *(1,) * (ndim - x.ndim), *x.shape[1:]) for x in tensors]


def _check_dtypes(op: str, a: TensorType, b: TensorType) -> None:
    if a.dtype is not b.dtype:
        raise DtypeError(f"{op}: expected both of one dtype, got {a.dtype} and {b.dtype}; convert one with .to(...)")
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
    saves = ("b", "a")

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


def _rows(x: Tensor, n_kept: int = 1) -> Tensor:
    """All dimensions but the last `n_kept` flattened into one: a sum over them is then one product."""
    n_lead = x.ndim - n_kept
    return x if n_lead == 1 else x.reshape(count(x.shape[:n_lead]), *x.shape[n_lead:])


class Linear(Op):
    """x @ weight.T + bias, for x (..., in), weight (out, in) or (in,), bias (out,) or None."""

    family = "contraction"
    saves = ("weight", "x", "")

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
                raise DtypeError(f"linear: input is {x.dtype}, bias {bias.dtype}; convert one with .to(...)")
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

        def into_weight() -> Tensor:
            if x.ndim == 1:
                return g.unsqueeze(-1) * x
            rows = _rows(g, weight.ndim - 1)
            return apply(Matmul, (rows.mT if weight.ndim == 2 else rows, _rows(x)))

        return into_x, into_weight, None if bias is None else g

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


def _linear_message(x: tuple[int, ...], weight: tuple[int, ...]) -> str:
    text = f"linear: input {x} has {x[-1]} features in its last dimension, weight {weight} expects {weight[-1]}"
    if len(weight) == 2 and x[-1] == weight[0]:
        return f"{text}; the weight is (out, in): did you mean weight.T?"
    if len(x) > 1 and weight[-1] == x[-2]:
        return f"{text}; did you mean x.mT?"
    if count(x[1:]) == weight[-1]:
        return f"{text}; flatten the sample first: x.flatten(1)"
    return f"{text}; make the layer with nn.Linear({x[-1]}, ...), or change what comes before it"


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias: (..., in) and (out, in) give (..., out).

    >>> F.linear(ex.tensor([1.0, 2.0]), ex.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), ex.tensor([0.0, 0.0, 10.0]))
    tensor([ 1.,  2., 13.])
    """
    return apply(Linear, (input, weight, bias))


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """result[..., k] = input1[..., :] @ weight[k] @ input2[..., :] + bias[k], for weight (out, in1, in2).

    >>> F.bilinear(ex.tensor([1.0, 2.0]), ex.tensor([10.0, 1.0]), ex.tensor([[[1.0, 0.0], [0.0, 1.0]]]))
    tensor([12.])
    """
    if weight.ndim != 3 or input1.shape[:-1] != input2.shape[:-1]:
        raise ShapeError(
            "bilinear: expected input1 (..., in1), input2 (..., in2) and weight (out, in1, in2), got "
            f"{tuple(input1.shape)}, {tuple(input2.shape)} and {tuple(weight.shape)}"
        )
    out, in1, in2 = weight.shape
    if (input1.shape[-1], input2.shape[-1]) != (in1, in2):
        raise ShapeError(
            f"bilinear: weight {tuple(weight.shape)} expects {in1} and {in2} features, the inputs have "
            f"{input1.shape[-1]} and {input2.shape[-1]}"
        )
    lead = input1.shape[:-1]
    n_rows = count(lead)
    # (rows, in1) @ (in1, out * in2), then each row's (out, in2) matrix times its vector.
    halfway = matmul(input1.reshape(n_rows, in1), weight.permute(1, 0, 2).reshape(in1, out * in2))
    result = matmul(halfway.reshape(n_rows, out, in2), input2.reshape(n_rows, in2, 1)).reshape(*lead, out)
    return result if bias is None else result + bias


# ---- functions


@method
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix product. Vectors are rows on the left and columns on the right; leading dimensions broadcast.

    >>> ex.matmul(ex.tensor([[1, 2], [3, 4]]), ex.tensor([10, 1]))
    tensor([12, 34])
    """
    for x in (input, other):
        if not isinstance(x, Tensor):
            raise DtypeError(f"matmul: expected tensors, got {type(x).__name__}; use * for numbers")
    result: Tensor = apply(Matmul, (input, other))
    return result if out is None else deliver(result, out)


method(matmul, "__matmul__")


def _rmatmul(self: Tensor, other: Any) -> Tensor:
    """other @ self."""
    return matmul(ops.as_tensor(other), self)


def _imatmul(self: Tensor, other: Tensor) -> Tensor:
    """self[...] = self @ other."""
    return write(self, matmul(self, other), "__imatmul__")


method(_rmatmul, "__rmatmul__")
method(_imatmul, "__imatmul__")


def _check_ndims(op: str, ndims: tuple[int, ...], **tensors: Tensor) -> None:
    for (name, x), ndim in zip(tensors.items(), ndims, strict=True):
        if not isinstance(x, Tensor):
            raise DtypeError(f"{op}: {name} must be a tensor, got {type(x).__name__}")
        if x.ndim != ndim:
            raise ShapeError(f"{op}: {name} must have {ndim} dimension{'s' * (ndim > 1)}, got shape {tuple(x.shape)}")


@method
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices.

    >>> ex.mm(ex.tensor([[1, 2], [3, 4]]), ex.tensor([[0, 1], [1, 0]]))
    tensor([[2, 1],
            [4, 3]])
    """
    _check_ndims("mm", (2, 2), input=input, mat2=mat2)
    return matmul(input, mat2, out=out)


@method
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The products of two stacks of matrices.

    >>> a, b = ex.tensor([[[1, 2]], [[3, 4]]]), ex.tensor([[[1], [1]], [[2], [2]]])
    >>> ex.bmm(a, b).flatten()
    tensor([ 3, 14])
    """
    _check_ndims("bmm", (3, 3), input=input, mat2=mat2)
    if input.shape[0] != mat2.shape[0]:
        raise ShapeError(
            f"bmm: batch sizes differ, {tuple(input.shape)} and {tuple(mat2.shape)}; use matmul to broadcast"
        )
    return matmul(input, mat2, out=out)


@method
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A matrix times a vector.

    >>> ex.mv(ex.tensor([[1, 2], [3, 4]]), ex.tensor([10, 1]))
    tensor([12, 34])
    """
    _check_ndims("mv", (2, 1), input=input, vec=vec)
    return matmul(input, vec, out=out)


@method
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sum of the products of two vectors' elements.

    >>> ex.dot(ex.tensor([1.0, 2.0]), ex.tensor([3.0, 4.0]))
    tensor(11.)
    """
    _check_ndims("dot", (1, 1), input=input, tensor=tensor)
    return matmul(input, tensor, out=out)


@method
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The dot product of two vectors; without complex numbers the same as `dot`.

    >>> ex.vdot(ex.tensor([1.0, 2.0]), ex.tensor([3.0, 4.0]))
    tensor(11.)
    """
    _check_ndims("vdot", (1, 1), input=input, other=other)
    return matmul(input, other, out=out)


@method
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sums of products over the last dimension of both; with a 0-dim tensor, their product.

    >>> ex.inner(ex.tensor([[1, 2], [3, 4]]), ex.tensor([10, 1]))
    tensor([12, 34])
    """
    if not input.ndim or not other.ndim:
        return deliver(input * other, out)
    if input.shape[-1] != other.shape[-1]:
        raise ShapeError(f"inner: the last sizes differ, {tuple(input.shape)} and {tuple(other.shape)}")
    flat = other.reshape(count(other.shape[:-1]), other.shape[-1])
    return deliver(matmul(input, flat.T).reshape(*input.shape[:-1], *other.shape[:-1]), out)


@method
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """All products of an element of `input` (a row each) with one of `vec2`.

    >>> ex.outer(ex.tensor([1, 2]), ex.tensor([10, 20, 30]))
    tensor([[10, 20, 30],
            [20, 40, 60]])
    """
    _check_ndims("outer", (1, 1), input=input, vec2=vec2)
    return deliver(input.unsqueeze(-1) * vec2, out)


ger = method(outer, "ger")


# ---- beta * input + alpha * product


def _plus_input(op: str, input: Tensor, product: Tensor, beta: Number, alpha: Number, out: Tensor | None) -> Tensor:
    """beta * input + alpha * product, where beta = 0 means that input is not read at all, not even its NaNs."""
    if not ops.broadcastable(input._type.shape, product._type.shape):
        raise ShapeError(
            f"{op}: input of shape {tuple(input.shape)} does not broadcast to the product's {tuple(product.shape)}"
        )
    product = product if alpha == 1 else product * alpha
    return deliver(product if beta == 0 else (input if beta == 1 else input * beta) + product, out)


def _plus_input_of_one_dtype(
    op: str, input: Tensor, product: Tensor, beta: Number, alpha: Number, out: Tensor | None
) -> Tensor:
    """The same for products of matrices, which take one dtype and, for integers, cut the factors to integers."""
    if input.dtype is not product.dtype:
        raise DtypeError(f"{op}: expected tensors of one dtype, got {input.dtype} and {product.dtype}; use .to(...)")
    if not product.dtype.is_floating_point:
        beta, alpha = int(beta), int(alpha)
    return _plus_input(op, input, product, beta, alpha, out)


@method
def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None
) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2).

    >>> ex.addmm(ex.ones(1, 2), ex.tensor([[1.0, 2.0]]), ex.tensor([[1.0, 0.0], [0.0, 1.0]]), beta=10)
    tensor([[11., 12.]])
    """
    return _plus_input_of_one_dtype("addmm", input, mm(mat1, mat2), beta, alpha, out)


@method
def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None
) -> Tensor:
    """beta * input + alpha * (mat @ vec).

    >>> ex.addmv(ex.tensor([10.0, 10.0]), ex.tensor([[1.0, 2.0], [3.0, 4.0]]), ex.tensor([1.0, 1.0]))
    tensor([13., 17.])
    """
    return _plus_input_of_one_dtype("addmv", input, mv(mat, vec), beta, alpha, out)


@method
def addr(
    input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None
) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2).

    >>> ex.addr(ex.ones(2, 2), ex.tensor([1.0, 2.0]), ex.tensor([10.0, 20.0]))
    tensor([[11., 21.],
            [21., 41.]])
    """
    product = outer(vec1, vec2)
    kind = ops.result_type(input, product)
    if kind is bool_:
        beta, alpha = bool(beta), bool(alpha)
    elif not kind.is_floating_point and (isinstance(beta, float) or isinstance(alpha, float)):
        raise DtypeError(f"addr: {kind} tensors take integer factors, got beta={beta} and alpha={alpha}; use int(...)")
    return _plus_input("addr", input, product, beta, alpha, out)


@method
def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None
) -> Tensor:
    """beta * input + alpha * bmm(batch1, batch2).

    >>> a, b = ex.tensor([[[1.0]], [[2.0]]]), ex.tensor([[[3.0]], [[4.0]]])
    >>> ex.baddbmm(ex.ones(2, 1, 1), a, b).flatten()
    tensor([4., 9.])
    """
    return _plus_input_of_one_dtype("baddbmm", input, bmm(batch1, batch2), beta, alpha, out)


@method
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None
) -> Tensor:
    """beta * input + alpha * the sum over the batch of bmm(batch1, batch2).

    >>> ex.addbmm(ex.zeros(1, 1), ex.tensor([[[1.0]], [[2.0]]]), ex.tensor([[[3.0]], [[4.0]]]))
    tensor([[11.]])
    """
    _check_ndims("addbmm", (3, 3), batch1=batch1, batch2=batch2)
    n_batch, rows, shared = batch1.shape
    if batch2.shape[:2] != (n_batch, shared):
        raise ShapeError(
            f"addbmm: batch1 {tuple(batch1.shape)} needs a batch2 of shape {(n_batch, shared, 'any')}, "
            f"got {tuple(batch2.shape)}"
        )
    # The sum over the batch is one more contracted dimension: a single product.
    left = batch1.permute(1, 0, 2).reshape(rows, n_batch * shared)
    product = matmul(left, batch2.reshape(n_batch * shared, batch2.shape[2]))
    return _plus_input_of_one_dtype("addbmm", input, product, beta, alpha, out)


for _fn in (addmm, addmv, addr, baddbmm, addbmm):
    inplace_method(f"{_fn.__name__}_", _fn)
