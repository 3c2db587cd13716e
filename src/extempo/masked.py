"""Reductions that leave elements out: `ex.masked.sum(x, mask=m)` and its kin, as in `torch.masked`.

A mask is bool and broadcasts to the tensor; True keeps an element. What is left out counts as the element that changes
nothing (0 in a sum, -inf in a maximum), so a slice without any kept element gives that element, or NaN for means,
variances and softmax.
"""

from __future__ import annotations

from typing import Any

from . import ops
from .core.absent_names import explain_absent
from .core.tensor import Tensor
from .core.types import Number, as_dtype, bool_, count, dtype, float64, get_default_dtype, iinfo, normalize_dims
from .errors import DtypeError, ShapeError
from .ops.norms import vector_norm
from .ops.reduce import Dims

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]

_INFINITY = float("inf")


def _check(name: str, input: Tensor, mask: Tensor) -> None:
    if mask.dtype is not bool_:
        raise DtypeError(f"masked.{name}: the mask must be bool, got {mask.dtype}; compare first, e.g. x > 0")
    if not ops.broadcastable(tuple(mask.shape), tuple(input.shape)):
        raise ShapeError(
            f"masked.{name}: a mask of shape {tuple(mask.shape)} does not broadcast to {tuple(input.shape)}"
        )


def _kept(name: str, input: Tensor, mask: Tensor | None, neutral: Any, dtype: dtype | None = None) -> Tensor:
    """The tensor in the dtype asked for, `neutral` where the mask is False."""
    if dtype is not None:
        input = input.to(as_dtype(dtype))
    if mask is None:
        return input
    _check(name, input, mask)
    return ops.where(mask, input, neutral)


def _bounded(name: str, input: Tensor, mask: Tensor | None, dtype: dtype | None, *, above: bool) -> Tensor:
    """The tensor in the dtype asked for, the greatest (or else the least) value of it where the mask is False."""
    x = input if dtype is None else input.to(as_dtype(dtype))
    if mask is None:
        return x
    if x.dtype is bool_:
        raise DtypeError(f"masked.{name}: expected numbers, got a bool tensor; use x.long()")
    if x.is_floating_point():
        return _kept(name, x, mask, _INFINITY if above else -_INFINITY)
    info = iinfo(x.dtype)
    return _kept(name, x, mask, info.max if above else info.min)


def _count(name: str, input: Tensor, dim: Dims, keepdim: bool, mask: Tensor | None) -> Any:
    """How many elements each result is made of."""
    if mask is None:
        return count(input.shape[d] for d in normalize_dims(dim, input.ndim, name))
    _check(name, input, mask)
    return mask.expand(input.shape).sum(dim, keepdim=keepdim)


def sum(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The sum of the kept elements.

    >>> ex.masked.sum(ex.tensor([1, 9, 3]), mask=ex.tensor([True, False, True]))
    tensor(4)
    """
    return ops.sum(_kept("sum", input, mask, False), dim, keepdim, dtype=dtype)


def prod(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The product of the kept elements.

    >>> ex.masked.prod(ex.tensor([2, 9, 3]), mask=ex.tensor([True, False, True]))
    tensor(6)
    """
    return ops.prod(_kept("prod", input, mask, True), dim, bool(keepdim), dtype=dtype)


def cumsum(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The running sum of the kept elements, in the dtype of the input (or `dtype`) as in PyTorch.

    >>> ex.masked.cumsum(ex.tensor([2, 9, 3]), 0, mask=ex.tensor([True, False, True]))
    tensor([2, 2, 5])
    """
    return ops.cumsum(_kept("cumsum", input, mask, False), dim, dtype=input.dtype if dtype is None else dtype)


def cumprod(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The running product of the kept elements, in the dtype of the input (or `dtype`) as in PyTorch.

    >>> ex.masked.cumprod(ex.tensor([2, 9, 3]), 0, mask=ex.tensor([True, False, True]))
    tensor([2, 2, 6])
    """
    return ops.cumprod(_kept("cumprod", input, mask, True), dim, dtype=input.dtype if dtype is None else dtype)


def amax(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The largest kept element.

    >>> ex.masked.amax(ex.tensor([1.0, 9.0, 3.0]), mask=ex.tensor([True, False, True]))
    tensor(3.)
    """
    return ops.amax(_bounded("amax", input, mask, dtype, above=False), dim, keepdim)


def amin(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The smallest kept element.

    >>> ex.masked.amin(ex.tensor([1.0, 9.0, 3.0]), mask=ex.tensor([False, True, True]))
    tensor(3.)
    """
    return ops.amin(_bounded("amin", input, mask, dtype, above=True), dim, keepdim)


def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Where the largest kept element is. As in PyTorch the index comes in the dtype of the input (or `dtype`).

    >>> ex.masked.argmax(ex.tensor([1, 9, 3]), mask=ex.tensor([True, False, True]))
    tensor(2)
    """
    x = _bounded("argmax", input, mask, dtype, above=False)
    return ops.argmax(x, dim, keepdim).to(x.dtype)


def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Where the smallest kept element is. As in PyTorch the index comes in the dtype of the input (or `dtype`).

    >>> ex.masked.argmin(ex.tensor([1, 9, 3]), mask=ex.tensor([False, True, True]))
    tensor(2)
    """
    x = _bounded("argmin", input, mask, dtype, above=True)
    return ops.argmin(x, dim, keepdim).to(x.dtype)


def mean(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The mean of the kept elements; NaN where there are none.

    >>> ex.masked.mean(ex.tensor([1.0, 9.0, 4.0]), mask=ex.tensor([True, False, True]))
    tensor(2.5000)
    """
    x = input if dtype is None else input.to(as_dtype(dtype))
    if not x.is_floating_point():
        raise DtypeError(f"masked.mean: the mean of {x.dtype} is not an integer; use x.float() or pass dtype=")
    return sum(x, dim, keepdim=keepdim, mask=mask) / _count("mean", x, dim, keepdim, mask)


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The lower median of the kept elements along `dim`; NaN where there are none, which integers refuse.

    >>> ex.masked.median(ex.tensor([1.0, 9.0, 4.0]), mask=ex.tensor([True, False, True]))
    tensor(1.)
    """
    x = input if dtype is None else input.to(as_dtype(dtype))
    if x.is_floating_point():
        return ops.nanmedian(_kept("median", x, mask, float("nan")), dim, keepdim).values
    if mask is not None:
        _check("median", x, mask)
        if not bool(mask.expand(x.shape).any(dim).all()):
            raise ShapeError(
                f"masked.median: a slice along dim {dim} has no kept element, and {x.dtype} no NaN; use x.float()"
            )
    return ops.nanmedian(_kept("median", x, mask, float("nan"), float64), dim, keepdim).values.to(x.dtype)


def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """log(sum(exp(x))) of the kept elements.

    >>> ex.masked.logsumexp(ex.tensor([0.0, 9.0, 0.0]), 0, mask=ex.tensor([True, False, True]))
    tensor(0.6931)
    """
    x = _bounded("logsumexp", input, mask, dtype, above=False)
    return ops.logsumexp(x, dim, keepdim).to(x.dtype)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: dtype | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """log(exp(input) + exp(other)) of what each mask keeps.

    >>> keep = ex.tensor([True, False])
    >>> ex.masked.logaddexp(ex.tensor([0.0, 0.0]), ex.tensor([0.0, 9.0]), input_mask=~keep, other_mask=keep)
    tensor([0., 0.])
    """
    return ops.logaddexp(
        _kept("logaddexp", input, input_mask, -_INFINITY, dtype),
        _kept("logaddexp", other, other_mask, -_INFINITY, dtype),
    )


def norm(
    input: Tensor,
    ord: Number = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The vector norm of the kept elements.

    >>> ex.masked.norm(ex.tensor([3.0, 9.0, 4.0]), mask=ex.tensor([True, False, True]))
    tensor(5.)
    """
    neutral = _INFINITY if ord == -_INFINITY else 0.0
    return vector_norm(_kept("norm", input, mask, neutral, dtype), ord, dim, keepdim)


def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: Number | None = None,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance of the kept elements; NaN where there are none.

    >>> ex.masked.var(ex.tensor([1.0, 9.0, 3.0]), mask=ex.tensor([True, False, True]))
    tensor(2.)
    """
    if unbiased is not None and correction is not None:
        raise DtypeError("masked.var: give correction or unbiased, not both; unbiased=True means correction=1")
    if dtype is not None or not input.is_floating_point():
        input = input.to(get_default_dtype() if dtype is None else as_dtype(dtype))
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    rest = _kept("var", input - mean(input, dim, keepdim=True, mask=mask), mask, 0.0)
    degrees = _count("var", input, dim, keepdim, mask) - correction
    degrees = degrees.clamp(min=0) if isinstance(degrees, Tensor) else max(degrees, 0.0)
    return (ops.sum(rest * rest, dim, keepdim) / degrees).to(input.dtype)


def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: Number | None = None,
    keepdim: bool = False,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The standard deviation of the kept elements; NaN where there are none.

    >>> ex.masked.std(ex.tensor([1.0, 9.0, 3.0]), correction=0, mask=ex.tensor([True, False, True]))
    tensor(1.)
    """
    return ops.sqrt(var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask))


def softmax(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """softmax over the kept elements, 0 for the others; NaN where none is kept.

    >>> ex.masked.softmax(ex.tensor([0.0, 9.0, 1.0]), 0, mask=ex.tensor([True, False, True]))
    tensor([0.2689, 0.0000, 0.7311])
    """
    return ops.softmax(_kept("softmax", input, mask, -_INFINITY, dtype), dim)


def log_softmax(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """log_softmax over the kept elements, -inf for the others; NaN where none is kept.

    >>> ex.masked.log_softmax(ex.tensor([0.0, 9.0, 0.0]), 0, mask=ex.tensor([True, False, True]))
    tensor([-0.6931,    -inf, -0.6931])
    """
    return ops.log_softmax(_kept("log_softmax", input, mask, -_INFINITY, dtype), dim)


def softmin(input: Tensor, dim: int, *, dtype: dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """softmin over the kept elements, 0 for the others; NaN where none is kept.

    >>> ex.masked.softmin(ex.tensor([0.0, 9.0, 1.0]), 0, mask=ex.tensor([True, False, True]))
    tensor([0.7311, 0.0000, 0.2689])
    """
    return ops.softmax(-_kept("softmin", input, mask, _INFINITY, dtype), dim)


def normalize(
    input: Tensor,
    ord: Number,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The kept elements divided by their norm (at least `eps`), 0 for the others.

    >>> ex.masked.normalize(ex.tensor([3.0, 9.0, 4.0]), 2, 0, mask=ex.tensor([True, False, True]))
    tensor([0.6000, 0.0000, 0.8000])
    """
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _kept("normalize", input, mask, 0.0, dtype) / length.clamp(min=eps)


explain_absent(
    __name__,
    dict.fromkeys(
        ("MaskedTensor", "masked_tensor", "as_masked_tensor", "is_masked_tensor"),
        "tensors that carry a mask are not part of Extempo; give the functions of ex.masked a mask=, or use ex.ragged",
    ),
)
