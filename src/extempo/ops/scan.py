"""Running totals along one dimension: sums, products, extremes, log-sums.

A scan keeps its shape and has the attribute `dim`; with `reverse` it runs from the last element to the first. Gradients
of products and log-sums are linear recurrences, which need no division and so are exact at zeros, to any order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import ops
from ..core.op import Decomposed, Op, Refuse, Rng, Routine, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import TensorType, as_dtype, bool_, dtype, int64
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, ShapeError
from .define import inplace_method, numpy_method
from .reduce import ValuesIndices, along, deliver_both, sum_dtype, wide

if TYPE_CHECKING:
    from ..ragged_tensors.rows import Rows

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "logcumsumexp"]


def _stepped(flow: Any, combine: Any, x: Tensor, dim: int, start: Any, reverse: bool) -> Tensor:
    """What comes of combining all elements up to each one, by a loop."""

    def step(before: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
        y = combine(before, given)
        return y, y

    shape = (*x._type.shape[:dim], *x._type.shape[dim + 1 :])
    _, stacked = flow.scan(step, ops.full(shape, start, dtype=x.dtype), x, dim=dim, reverse=reverse)
    return stacked.movedim(0, dim)


def best_so_far(flow: Any, wins: str, x: Tensor, dim: int, is_first: Tensor | None = None) -> Tensor:
    """Where the best element up to each one is, by a loop: the last of equal ones, and a NaN before all others.

    wins: the comparison, "ge" or "le". is_first: at which steps a search begins, beside the first.
    """

    def step(state: tuple[Tensor, ...], given: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
        n, best, place = state
        is_better = ops.logical_or(getattr(ops, wins)(given[0], best), ops.isnan(given[0]))
        is_better = ops.logical_or(ops.logical_or(ops.eq(n, 0), given[1]), is_better)
        place = ops.where(is_better, n, place)
        return (n + 1, ops.where(is_better, given[0], best), place), place

    moved = x.movedim(dim, 0)
    none = ops.zeros((moved._type.shape[0],), dtype=bool_) if is_first is None else is_first
    start = (
        ops.tensor(0),
        ops.zeros(moved._type.shape[1:], dtype=x.dtype),
        ops.zeros(moved._type.shape[1:], dtype=int64),
    )
    _, places = flow.scan(step, start, (moved, none))
    return places.movedim(0, dim)


class _Scan(Op, abstract=True):
    """Each element becomes a function of itself and those before it."""

    family = "scan"
    batch = "shift_dim"


def _direction(dim: int, reverse: bool) -> tuple[slice, ...]:
    """The index that turns an array round along `dim`, if so wanted."""
    return (*(slice(None),) * dim, slice(None, None, -1 if reverse else 1))


def _accumulate(ufunc: np.ufunc, x: Array, dim: int, reverse: bool) -> Array:
    turned = _direction(dim, reverse)
    out = np.empty(x.shape, sum_dtype(x) or x.dtype)
    ufunc.accumulate(x[turned], axis=dim, dtype=out.dtype, out=out[turned])
    return out


class _Total(_Scan, abstract=True):
    """A running sum or product: integers and bools give int64."""

    @staticmethod
    def infer(x: TensorType, *, dim: int, reverse: bool) -> TensorType:
        return TensorType(x.shape, x.dtype if x.dtype.is_floating_point else int64)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 4)), dim=1, reverse=False)
        yield Sample(rng.normal(size=(2, 3, 4)), dim=1, reverse=True)
        yield Sample(np.array([2.0, 0.0, 3.0, 0.0, 4.0]), dim=0, reverse=False)
        yield Sample(np.empty((2, 0)), dim=1, reverse=False)


class Cumsum(_Total):
    """The running sum; integers and bools give int64."""

    lower = Routine("cumsum")
    saves = ("",)
    numpy = staticmethod(lambda x, *, dim, reverse: _accumulate(np.add, x, dim, reverse))

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, *, dim: int, reverse: bool) -> tuple[Any, ...]:
        return (apply(Cumsum, (g,), {"dim": dim, "reverse": not reverse}),)

    @staticmethod
    def ragged(rows: Rows, x: Tensor, *, reverse: bool) -> Tensor:
        return apply(ops.segments.SegmentCumsum, (x, *rows.segments), {"reverse": reverse})

    @staticmethod
    def onnx(b: Any, x: Any, *, dim: int, reverse: bool) -> Any:
        return b.CumSum(b.cast(x, x.dtype if x.dtype.is_floating_point else int64), b.size(dim), reverse=int(reverse))


class Cumprod(_Total):
    """The running product; integers and bools give int64."""

    lower = Routine("cumprod")
    saves = ("y x",)
    ragged = "rowwise.padded_with_ones"
    numpy = staticmethod(lambda x, *, dim, reverse: _accumulate(np.multiply, x, dim, reverse))

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor, *, dim: int, reverse: bool) -> tuple[Any, ...]:
        # y[i] = (product before k) * x[k] * (product from k to i), so what is behind k adds up as a recurrence.
        behind = recurrence(_shifted(x, dim, 1.0, not reverse), g, dim, not reverse)
        return (_shifted(y, dim, 1.0, reverse) * behind,)

    @Decomposed
    def onnx(flow: Any, x: Tensor, *, dim: int, reverse: bool) -> Tensor:
        return _stepped(flow, ops.mul, x if x.is_floating_point() else x.long(), dim, 1, reverse)


class Recurrence(_Scan):
    """y[t] = a[t] * y[t-1] + b[t], from y[-1] = 0."""

    lower = Routine("recurrence")
    saves = ("y a", "a")
    ragged = "rowwise.padded_with_zeros"

    @staticmethod
    def infer(a: TensorType, b: TensorType, *, dim: int, reverse: bool) -> TensorType:
        if a != b:
            raise ShapeError(f"recurrence: factors {a} and terms {b} must be of one shape and dtype; expand them first")
        return b

    @staticmethod
    def numpy(a: Array, b: Array, *, dim: int, reverse: bool) -> Array:
        turned = _direction(dim, reverse)
        y = np.array(b, wide(b))
        terms = np.moveaxis(y[turned], dim, 0)
        factors = np.moveaxis(np.array(a, wide(a))[turned], dim, 0)
        # After a round, terms[t] covers twice as many steps back, and factors[t] is the product over them.
        reach = 1
        while reach < len(terms):
            terms[reach:] += factors[reach:] * terms[:-reach]
            factors[reach:] = factors[reach:] * factors[:-reach]
            reach *= 2
        return y

    @staticmethod
    def vjp(g: Tensor, y: Tensor, a: Tensor, b: Any, *, dim: int, reverse: bool) -> tuple[Any, ...]:
        into_b = recurrence(_shifted(a, dim, 0.0, not reverse), g, dim, not reverse)
        return lambda: into_b * _shifted(y, dim, 0.0, reverse), into_b

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), dim=1, reverse=False)
        yield Sample(rng.normal(size=(5, 2)), rng.normal(size=(5, 2)), dim=0, reverse=True)
        yield Sample(np.empty((2, 0)), np.empty((2, 0)), dim=1, reverse=False)

    @Decomposed
    def onnx(flow: Any, a: Tensor, b: Tensor, *, dim: int, reverse: bool) -> Tensor:
        def step(before: Tensor, given: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            y = given[0] * before + given[1]
            return y, y

        shape = (*b._type.shape[:dim], *b._type.shape[dim + 1 :])
        _, stacked = flow.scan(step, ops.zeros(shape, dtype=b.dtype), (a, b), dim=dim, reverse=reverse)
        return stacked.movedim(0, dim)


def recurrence(a: Tensor, b: Tensor, dim: int, reverse: bool) -> Tensor:
    """y[t] = a[t] * y[t-1] + b[t] along `dim`."""
    return apply(Recurrence, (a, b), {"dim": dim, "reverse": reverse})


def _shifted(x: Tensor, dim: int, fill: float, reverse: bool) -> Tensor:
    """Element t is x[t-1] (x[t+1] in reverse), and `fill` where there is none."""
    size = x.shape[dim]
    if size == 0:
        return x
    kept = x.narrow(dim, 1 if reverse else 0, size - 1)
    edge = ops.full((*x.shape[:dim], 1, *x.shape[dim + 1 :]), fill, dtype=x.dtype)
    return ops.cat([kept, edge] if reverse else [edge, kept], dim)


def product_before(x: Tensor, dim: int, *, reverse: bool) -> Tensor:
    """For each element the product of those before it along `dim`, or after it in reverse; 1 where there are none."""
    return _shifted(apply(Cumprod, (x,), {"dim": dim, "reverse": reverse}), dim, 1.0, reverse)


class Logcumsumexp(_Scan):
    """The logarithm of the running sum of exponentials."""

    lower = Routine("logcumsumexp")
    saves = ("y x",)
    ragged = "rowwise.padded_with_zeros"
    numpy = staticmethod(lambda x, *, dim: np.logaddexp.accumulate(x, axis=dim, dtype=wide(x)))

    @staticmethod
    def infer(x: TensorType, *, dim: int) -> TensorType:
        if not x.dtype.is_floating_point:
            raise DtypeError(f"logcumsumexp: expected a floating tensor, got {x.dtype}; use x.float()")
        return x

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor, *, dim: int) -> tuple[Any, ...]:
        # dx[k] = exp(x[k] - y[k]) * sum of g[i] * exp(y[k] - y[i]) over i >= k; y never falls, so no factor exceeds 1.
        decay = ops.exp(_difference(y, _shifted(y, dim, float("inf"), True)))
        return (ops.exp(_difference(x, y)) * recurrence(decay, g, dim, True),)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 4)), dim=1)
        yield Sample(rng.normal(size=(4, 2)) * 3.0 + 1000.0, dim=0)  # exp() of these overflows
        yield Sample(np.empty((2, 0)), dim=1)

    onnx = Decomposed(lambda flow, x, *, dim: _stepped(flow, ops.logaddexp, x, dim, -math.inf, False))


def _difference(a: Tensor, b: Tensor) -> Tensor:
    """a - b, and 0 rather than NaN where b is -inf."""
    return ops.where(ops.eq(b, -float("inf")), 0.0, a - b)


class _RunningPlace(_Scan, abstract=True):
    """Where the running extreme was last met; from a NaN on, where a NaN was last met."""

    vjp = Refuse("an index is piecewise constant")
    saves = ("",)
    quiet = True
    infer = staticmethod(lambda x, *, dim: TensorType(x.shape, int64))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 4)), dim=1)
        yield Sample(np.array([1.0, 3.0, 3.0, 2.0, np.nan, 5.0]), dim=0)
        yield Sample(np.empty((0, 3)), dim=0)

    @classmethod
    def ragged(cls, rows: Rows, x: Tensor) -> Tensor:
        return ops.segments.segment_places(cls.name, rows, x)


def _running_place(ufunc: np.ufunc) -> Any:
    def kernel(x: Array, *, dim: int) -> Array:
        x = np.asarray(x, wide(x))
        met = x == ufunc.accumulate(x, axis=dim)
        met |= x != x
        steps = np.arange(x.shape[dim]).reshape(-1, *(1,) * (x.ndim - 1 - dim))
        return np.maximum.accumulate(np.where(met, steps, 0), axis=dim)

    return staticmethod(kernel)


class Cummax(_RunningPlace):
    """Where the running maximum was last met."""

    lower = Routine("cummax")
    numpy = _running_place(np.maximum)
    onnx = Decomposed(lambda flow, x, *, dim: best_so_far(flow, "ge", x, dim))


class Cummin(_RunningPlace):
    """Where the running minimum was last met."""

    lower = Routine("cummin")
    numpy = _running_place(np.minimum)
    onnx = Decomposed(lambda flow, x, *, dim: best_so_far(flow, "le", x, dim))


# ---- functions


def _running(op: type[Op], input: Tensor, dim: int, dtype: dtype | None) -> Tensor:
    if dtype is None:
        return along(op, input, dim, {"reverse": False})
    wanted = as_dtype(dtype)
    return along(op, input.to(wanted), dim, {"reverse": False}).to(wanted)


@numpy_method
def cumsum(input: Tensor, dim: int, *, dtype: dtype | None = None, out: Tensor | None = None) -> Tensor:
    """The sum of all elements up to each one along `dim`.

    >>> ex.cumsum(ex.tensor([1, 2, 3]), dim=0)
    tensor([1, 3, 6])
    """
    return ops.deliver_converted(_running(Cumsum, input, dim, dtype), out, input)


@numpy_method
def cumprod(input: Tensor, dim: int, *, dtype: dtype | None = None, out: Tensor | None = None) -> Tensor:
    """The product of all elements up to each one along `dim`.

    >>> ex.cumprod(ex.tensor([1, 2, 3]), dim=0)
    tensor([1, 2, 6])
    """
    return ops.deliver_converted(_running(Cumprod, input, dim, dtype), out, input)


inplace_method("cumsum_", cumsum)
inplace_method("cumprod_", cumprod)


@numpy_method
def logcumsumexp(input: Tensor, dim: int, *, out: Tensor | None = None) -> Tensor:
    """log of the sum of exp of all elements up to each one along `dim`, without overflow.

    >>> ex.logcumsumexp(ex.tensor([0.0, 0.0, 100.0]), dim=0)
    tensor([  0.0000,   0.6931, 100.0000])
    """
    return ops.deliver(along(Logcumsumexp, input, dim, {}), out)


def _running_extreme(op: type[Op], input: Tensor, dim: int, out: Any) -> ValuesIndices:
    indices = along(op, input, dim, {})
    return deliver_both(ops.gather(input, dim, indices), indices, out)


@numpy_method
def cummax(input: Tensor, dim: int, *, out: Any = None) -> ValuesIndices:
    """The largest element so far along `dim` (`.values`) and where it was last met (`.indices`).

    >>> ex.cummax(ex.tensor([1.0, 3.0, 2.0]), dim=0)
    ValuesIndices(values=tensor([1., 3., 3.]), indices=tensor([0, 1, 1]))
    """
    return _running_extreme(Cummax, input, dim, out)


@numpy_method
def cummin(input: Tensor, dim: int, *, out: Any = None) -> ValuesIndices:
    """The smallest element so far along `dim` (`.values`) and where it was last met (`.indices`).

    >>> ex.cummin(ex.tensor([3.0, 1.0, 2.0]), dim=0)
    ValuesIndices(values=tensor([3., 1., 1.]), indices=tensor([0, 1, 1]))
    """
    return _running_extreme(Cummin, input, dim, out)
