"""Matrix products as functions: matmul and linear, and what is one product plus a little."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..core.tensor import Tensor, TensorLike
from ..core.tensor_methods import method
from ..core.types import Number, bool_, count
from ..dispatch.dispatcher import apply
from ..dispatch.inplace import write
from ..errors import DtypeError, ShapeError
from . import old_forms
from .define import deliver, deliver_converted, inplace_method
from .gemm import Linear, Matmul, no_tensor
from .gemm import aligned as aligned

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


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias: (..., in) and (out, in) give (..., out).

    >>> F.linear(ex.tensor([1.0, 2.0]), ex.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), ex.tensor([0.0, 0.0, 10.0]))
    tensor([ 1.,  2., 13.])
    """
    result = apply(Linear, (input, weight, bias))
    return result if out is None else deliver(result, out)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """result[..., k] = input1[..., :] @ weight[k] @ input2[..., :] + bias[k], for weight (out, in1, in2).

    >>> F.bilinear(ex.tensor([1.0, 2.0]), ex.tensor([10.0, 1.0]), ex.tensor([[[1.0, 0.0], [0.0, 1.0]]]))
    tensor([12.])
    """
    if input1.is_nested or input2.is_nested:
        from ..ragged_tensors import products

        return products.bilinear(input1, input2, weight, bias)
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
    if not (isinstance(input, Tensor) and isinstance(other, Tensor)):
        for odd in (input, other):
            if not isinstance(odd, Tensor | TensorLike):
                raise DtypeError(f"matmul: {no_tensor(type(odd))}")
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
        if not isinstance(x, Tensor) and not isinstance(x, TensorLike):
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
    if not (
        isinstance(input, Tensor) and isinstance(mat2, Tensor) and len(input._type.shape) == len(mat2._type.shape) == 2
    ):
        _check_ndims("mm", (2, 2), input=input, mat2=mat2)
    result: Tensor = apply(Matmul, (input, mat2))
    return result if out is None else deliver(result, out)


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
        return deliver_converted(input * other, out)
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
    return deliver_converted(input.unsqueeze(-1) * vec2, out)


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
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *_old: Any,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2).

    >>> ex.addmm(ex.ones(1, 2), ex.tensor([[1.0, 2.0]]), ex.tensor([[1.0, 0.0], [0.0, 1.0]]), beta=10)
    tensor([[11., 12.]])
    """
    if _old:
        input, mat1, mat2, beta, alpha = old_forms.product("addmm", input, mat1, mat2, *_old)
    return _plus_input_of_one_dtype("addmm", input, mm(mat1, mat2), beta, alpha, out)


@method
def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *_old: Any, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None
) -> Tensor:
    """beta * input + alpha * (mat @ vec).

    >>> ex.addmv(ex.tensor([10.0, 10.0]), ex.tensor([[1.0, 2.0], [3.0, 4.0]]), ex.tensor([1.0, 1.0]))
    tensor([13., 17.])
    """
    if _old:
        input, mat, vec, beta, alpha = old_forms.product("addmv", input, mat, vec, *_old)
    return _plus_input_of_one_dtype("addmv", input, mv(mat, vec), beta, alpha, out)


@method
def addr(
    input: Tensor,
    vec1: Tensor,
    vec2: Tensor,
    *_old: Any,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2).

    >>> ex.addr(ex.ones(2, 2), ex.tensor([1.0, 2.0]), ex.tensor([10.0, 20.0]))
    tensor([[11., 21.],
            [21., 41.]])
    """
    if _old:
        input, vec1, vec2, beta, alpha = old_forms.product("addr", input, vec1, vec2, *_old)
    product = outer(vec1, vec2)
    kind = ops.result_type(input, product)
    if kind is bool_:
        beta, alpha = bool(beta), bool(alpha)
    elif not kind.is_floating_point and (isinstance(beta, float) or isinstance(alpha, float)):
        raise DtypeError(f"addr: {kind} tensors take integer factors, got beta={beta} and alpha={alpha}; use int(...)")
    return deliver_converted(_plus_input("addr", input, product, beta, alpha, None), out)


@method
def baddbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *_old: Any,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """beta * input + alpha * bmm(batch1, batch2).

    >>> a, b = ex.tensor([[[1.0]], [[2.0]]]), ex.tensor([[[3.0]], [[4.0]]])
    >>> ex.baddbmm(ex.ones(2, 1, 1), a, b).flatten()
    tensor([4., 9.])
    """
    if _old:
        input, batch1, batch2, beta, alpha = old_forms.product("baddbmm", input, batch1, batch2, *_old)
    return _plus_input_of_one_dtype("baddbmm", input, bmm(batch1, batch2), beta, alpha, out)


@method
def addbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *_old: Any,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """beta * input + alpha * the sum over the batch of bmm(batch1, batch2).

    >>> ex.addbmm(ex.zeros(1, 1), ex.tensor([[[1.0]], [[2.0]]]), ex.tensor([[[3.0]], [[4.0]]]))
    tensor([[11.]])
    """
    if _old:
        input, batch1, batch2, beta, alpha = old_forms.product("addbmm", input, batch1, batch2, *_old)
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
