"""Many elements become one: sums, products, means, extremes and where they are, truth.

Attributes of every reduction: `dim`, sorted and distinct, and `keepdim`. Half precision adds up in float32. Sums are
NumPy's pairwise ones, so the order of summation follows from the sizes alone.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, overload

import numpy as np

from .. import ops
from ..core.op import Op, Reduction, Refuse, Rng, Routine, Sample
from ..core.storage import Array
from ..core.tensor import Tensor, TensorLike
from ..core.types import (
    InputType,
    TensorType,
    as_dtype,
    bool_,
    count,
    dtype,
    float32,
    int64,
    is_sequence,
    normalize_dim,
    normalize_dims,
    uint8,
)
from ..dispatch.dispatcher import apply
from ..dispatch.inline_cache import cached_by_types
from ..errors import DtypeError, ShapeError
from .define import numpy_method

if TYPE_CHECKING:
    from ..ragged_tensors.rows import Rows

__all__ = [
    "all",
    "amax",
    "amin",
    "aminmax",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "max",
    "mean",
    "min",
    "prod",
    "sum",
]

Dims = int | Sequence[int] | None


class ValuesIndices(NamedTuple):
    """What was chosen along a dimension, and where it was."""

    values: Tensor
    indices: Tensor


class MinMax(NamedTuple):
    """The smallest and the largest element."""

    min: Tensor
    max: Tensor


def reduced_shape(shape: tuple[int, ...], dim: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    """The shape that is left."""
    if keepdim:
        return tuple(1 if d in dim else s for d, s in enumerate(shape))
    return tuple(s for d, s in enumerate(shape) if d not in dim)


def spread(g: Tensor, x: Any, dim: tuple[int, ...], keepdim: bool) -> Tensor:
    """A reduced gradient (or result) seen in the shape of the input again."""
    if not keepdim:
        g = g.reshape(reduced_shape(x.shape, dim, True))
    return g.expand(x.shape)


def samples_reduction(rng: Rng) -> Iterator[Sample]:
    yield Sample(rng.normal(size=(3, 4)), dim=(0, 1), keepdim=False)
    yield Sample(rng.normal(size=(2, 3, 4)), dim=(1,), keepdim=True)
    yield Sample(rng.normal(size=(2, 3, 4)), dim=(0, 2), keepdim=False)
    yield Sample(rng.normal(size=()), dim=(), keepdim=False)


def wide(x: Array) -> Any:
    """The dtype to compute in: float32 for half precision, None for the array's own."""
    return np.float32 if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else None


def widened(*arrays: Any) -> list[Any]:
    """Arrays, or None, in the dtype to compute in."""
    return [None if a is None else np.asanyarray(a, wide(a)) for a in arrays]


class _Adding(Reduction, abstract=True):
    """A sum or product: integers and bools give int64."""

    @staticmethod
    def infer(x: TensorType, *, dim: tuple[int, ...], keepdim: bool) -> TensorType:
        return TensorType(reduced_shape(x.shape, dim, keepdim), x.dtype if x.dtype.is_floating_point else int64)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield from samples_reduction(rng)
        yield Sample(np.empty((0, 3)), dim=(0,), keepdim=False)
        yield Sample(np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 4.0]]), dim=(1,), keepdim=False)


def sum_dtype(x: Array) -> Any:
    """The dtype to add or multiply up in: int64 for integers and bools, float32 for half precision."""
    return np.int64 if x.dtype.kind in "iub" else wide(x)


class Sum(_Adding):
    """The sum over dimensions; integers and bools give int64."""

    saves = ("",)
    lower = Routine("sum")
    vjp = staticmethod(lambda g, y, x, *, dim, keepdim: (spread(g, x, dim, keepdim),))
    ragged = staticmethod(lambda rows, x: ops.segments.segment_sum(x, *rows.segments))

    @staticmethod
    def numpy(x: Array, *, dim: tuple[int, ...], keepdim: bool) -> Any:
        add: Any = np.add  # NumPy's types want keepdims as a literal
        return add.reduce(x, axis=dim, dtype=sum_dtype(x), keepdims=keepdim)

    @staticmethod
    def onnx(b: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
        return b.reduce("ReduceSum", b.cast(x, x.dtype if x.dtype.is_floating_point else int64), dim, keepdim)


class Prod(_Adding):
    """The product over dimensions; integers and bools give int64."""

    saves = ("x",)
    lower = Routine("prod")
    ragged = "rowwise.padded_with_ones"

    @staticmethod
    def numpy(x: Array, *, dim: tuple[int, ...], keepdim: bool) -> Any:
        multiply: Any = np.multiply  # as above
        return multiply.reduce(x, axis=dim, dtype=sum_dtype(x), keepdims=keepdim)

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Tensor, *, dim: tuple[int, ...], keepdim: bool) -> tuple[Any, ...]:
        return (spread(g, x, dim, keepdim) * _product_of_others(x, dim),)

    @staticmethod
    def onnx(b: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
        return b.reduce("ReduceProd", b.cast(x, x.dtype if x.dtype.is_floating_point else int64), dim, keepdim)


def _product_of_others(x: Tensor, dim: tuple[int, ...]) -> Tensor:
    """For each element the product of all others that it is reduced with; no division, so zeros are no exception."""
    kept = tuple(d for d in range(x.ndim) if d not in dim)
    order = (*kept, *dim)
    moved = x.permute(order)
    rows = moved.reshape(*(x.shape[d] for d in kept), count(x.shape[d] for d in dim))
    before, after = (ops.product_before(rows, rows.ndim - 1, reverse=reverse) for reverse in (False, True))
    back = sorted(range(x.ndim), key=order.__getitem__)
    return (before * after).reshape(moved.shape).permute(back)


class Mean(Reduction):
    """The mean over dimensions."""

    saves = ("",)
    lower = Routine("mean")

    @staticmethod
    def infer(x: TensorType, *, dim: tuple[int, ...], keepdim: bool) -> TensorType:
        if not x.dtype.is_floating_point:
            raise DtypeError(f"mean: the mean of {x.dtype} is not an integer; use x.float().mean() or pass dtype=")
        return TensorType(reduced_shape(x.shape, dim, keepdim), x.dtype)

    @staticmethod
    def numpy(x: Array, *, dim: tuple[int, ...], keepdim: bool) -> Any:
        add: Any = np.add  # as above
        total = add.reduce(x, axis=dim, dtype=wide(x), keepdims=keepdim)
        return total / total.dtype.type(count(x.shape[d] for d in dim))

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> tuple[Any, ...]:
        return (spread(g / count(x.shape[d] for d in dim), x, dim, keepdim),)

    @staticmethod
    def ragged(rows: Rows, x: Tensor) -> Tensor:
        Mean.infer(x._type, dim=(0,), keepdim=False)  # raises for integers
        rows.require_elements("mean")
        values = x.to(float32) if x.dtype.itemsize == 2 else x
        lengths = rows.lengths_tensor.to(values.dtype).reshape(-1, *(1,) * (x.ndim - 1))
        return (ops.segments.segment_sum(values, *rows.segments) / lengths).to(x.dtype)

    samples = staticmethod(samples_reduction)
    onnx = staticmethod(lambda b, x, *, dim, keepdim: b.reduce("ReduceMean", x, dim, keepdim))


def check_not_empty(op: str, x: TensorType, dim: tuple[int, ...]) -> None:
    """An extreme needs something to choose from."""
    if builtins.any(x.shape[d] == 0 for d in dim):
        raise ShapeError(
            f"{op}: shape {x.shape} has no elements along dim {dim}, and so none to choose; reduce a dimension "
            "that has some, or test x.numel() first"
        )


class Choice(Reduction, abstract=True):
    """One of the elements is the result; all that equal it share the gradient."""

    saves = ("y x",)
    quiet = True

    @classmethod
    def infer(cls, x: TensorType, *, dim: tuple[int, ...], keepdim: bool) -> TensorType:
        check_not_empty(cls.name, x, dim)
        return TensorType(reduced_shape(x.shape, dim, keepdim), x.dtype)

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor, *, dim: tuple[int, ...], keepdim: bool) -> tuple[Any, ...]:
        best = spread(y, x, dim, keepdim)
        # NaN wins, and is not equal to itself.
        chosen = ops.logical_or(ops.eq(best, x), ops.logical_and(ops.isnan(best), ops.isnan(x)))
        share = g / chosen.to(g.dtype).sum(dim, keepdim=keepdim)
        return (ops.where(chosen, spread(share, x, dim, keepdim), 0.0),)

    samples = staticmethod(samples_reduction)


class Amax(Choice):
    """The largest element over dimensions."""

    lower = Routine("amax")
    numpy = staticmethod(lambda x, *, dim, keepdim: np.max(np.asarray(x, wide(x)), axis=dim, keepdims=keepdim))

    @staticmethod
    def ragged(rows: Rows, x: Tensor) -> Tensor:
        rows.require_elements("amax")
        return apply(ops.segments.SegmentAmax, (x, *rows.segments))

    onnx = staticmethod(lambda b, x, *, dim, keepdim: b.reduce("ReduceMax", b.ordered(x), dim, keepdim))


class Amin(Choice):
    """The smallest element over dimensions."""

    lower = Routine("amin")
    numpy = staticmethod(lambda x, *, dim, keepdim: np.min(np.asarray(x, wide(x)), axis=dim, keepdims=keepdim))

    @staticmethod
    def ragged(rows: Rows, x: Tensor) -> Tensor:
        rows.require_elements("amin")
        return apply(ops.segments.SegmentAmin, (x, *rows.segments))

    onnx = staticmethod(lambda b, x, *, dim, keepdim: b.reduce("ReduceMin", b.ordered(x), dim, keepdim))


class Place(Reduction, abstract=True):
    """Where along one dimension the chosen element is; `dim` is empty for a 0-dim tensor.

    A member says how to `search`: (array, *numbers, dimension) -> indices, with that dimension kept as 1.
    """

    search: ClassVar[Any]
    vjp = Refuse("an index is piecewise constant")
    saves = ("",)
    quiet = True

    @classmethod
    def infer(cls, x: TensorType, *numbers: InputType, dim: tuple[int, ...], keepdim: bool) -> TensorType:
        check_not_empty(cls.name, x, dim)
        return TensorType(reduced_shape(x.shape, dim, keepdim), int64)

    @classmethod
    def numpy(cls, x: Array, *numbers: Any, dim: tuple[int, ...], keepdim: bool) -> Any:
        if not dim:
            return np.zeros(x.shape, np.int64)
        found = cls.search(np.asarray(x, wide(x)), *numbers, dim[0])
        return found if keepdim else found.squeeze(dim[0])

    @classmethod
    def ragged(cls, rows: Rows, x: Tensor, *numbers: Any) -> Tensor:
        rows.require_elements(cls.public_name, *numbers)  # the one number there is, of kthvalue, is a rank
        return ops.segments.segment_places(cls.name, rows, x, *numbers)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3, 4)), dim=(1,), keepdim=True)
        yield Sample(rng.normal(size=(4, 3)).T, dim=(0,), keepdim=False)
        yield Sample(rng.integers(0, 3, size=(6,)), dim=(0,), keepdim=False)
        yield Sample(rng.normal(size=()), dim=(), keepdim=False)
        yield Sample(np.empty((0, 3)), dim=(1,), keepdim=False)


class Argmax(Place):
    """Where the largest element is: the first of equal ones, or the first NaN."""

    lower = Routine("argmax")
    search = staticmethod(lambda x, dim: np.argmax(x, axis=dim, keepdims=True))
    onnx = staticmethod(lambda b, x, *, dim, keepdim: b.place("ArgMax", x, dim, keepdim))


class Argmin(Place):
    """Where the smallest element is: the first of equal ones, or the first NaN."""

    lower = Routine("argmin")
    search = staticmethod(lambda x, dim: np.argmin(x, axis=dim, keepdims=True))
    onnx = staticmethod(lambda b, x, *, dim, keepdim: b.place("ArgMin", x, dim, keepdim))


class _WithIndex(Reduction, abstract=True):
    """The extreme along one dimension and where it is; the element there gets the gradient."""

    place: ClassVar[type[Place]]
    saves = ("y.1",)
    quiet = True

    @classmethod
    def infer(cls, x: TensorType, *, dim: tuple[int, ...], keepdim: bool) -> tuple[TensorType, TensorType]:
        indices = cls.place.infer(x, dim=dim, keepdim=keepdim)
        return TensorType(indices.shape, x.dtype), indices

    @classmethod
    def numpy(cls, x: Array, *, dim: tuple[int, ...], keepdim: bool) -> tuple[Any, Any]:
        if not dim:
            return x.copy(), np.zeros(x.shape, np.int64)
        indices = cls.place.numpy(x, dim=dim, keepdim=True)
        values = np.take_along_axis(x, indices, dim[0])
        return (values, indices) if keepdim else (values.squeeze(dim[0]), indices.squeeze(dim[0]))

    @staticmethod
    def vjp(g: Any, y: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> tuple[Any, ...]:
        values, indices = g[0], y[1]
        if not dim:
            return (values,)
        if not keepdim:
            values, indices = values.unsqueeze(dim[0]), indices.unsqueeze(dim[0])
        return (ops.scatter_add(ops.zeros(x.shape, dtype=values.dtype), dim[0], indices, values),)

    @classmethod
    def ragged(cls, rows: Rows, x: Tensor) -> tuple[Tensor, Tensor]:
        rows.require_elements(cls.public_name)
        indices = ops.segments.segment_places(cls.place.name, rows, x)
        starts = rows.offsets_tensor[:-1].reshape(-1, *(1,) * (x.ndim - 1))
        return ops.gather(x, 0, indices + starts), indices

    samples = Place.samples


class MaxWithIndex(_WithIndex):
    """The largest element along a dimension and where it is: the first of equal ones, or the first NaN."""

    public_name = "max"
    place = Argmax
    lower = Routine("max_with_index")

    @staticmethod
    def onnx(b: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
        return b.taken(x, b.place("ArgMax", x, dim, True), dim, keepdim)


class MinWithIndex(_WithIndex):
    """The smallest element along a dimension and where it is: the first of equal ones, or the first NaN."""

    public_name = "min"
    place = Argmin
    lower = Routine("min_with_index")

    @staticmethod
    def onnx(b: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
        return b.taken(x, b.place("ArgMin", x, dim, True), dim, keepdim)


def _truth_dtype(x: Tensor | TensorType) -> dtype:
    return uint8 if x.dtype is uint8 else bool_


class _Truth(Reduction, abstract=True):
    """A question asked of many elements: bool, or uint8 for uint8."""

    vjp = Refuse("the result is piecewise constant")
    saves = ("",)
    quiet = True

    @staticmethod
    def infer(x: TensorType, *, dim: tuple[int, ...], keepdim: bool) -> TensorType:
        return TensorType(reduced_shape(x.shape, dim, keepdim), _truth_dtype(x))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.random((3, 4)) > 0.5, dim=(1,), keepdim=False)
        yield Sample(rng.integers(0, 2, size=(2, 3, 4)), dim=(0, 2), keepdim=True)
        yield Sample(rng.normal(size=()), dim=(), keepdim=False)
        yield Sample(np.empty((0, 3)), dim=(0,), keepdim=False)


class All(_Truth):
    """Every element is nonzero."""

    lower = Routine("all")
    numpy = staticmethod(lambda x, *, dim, keepdim: np.all(x, axis=dim, keepdims=keepdim))

    @staticmethod
    def ragged(rows: Rows, x: Tensor) -> Tensor:
        n_zeros = ops.segments.segment_sum(ops.eq(x, 0), *rows.segments)
        return ops.eq(n_zeros, 0).to(_truth_dtype(x))

    @staticmethod
    def onnx(b: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
        return b.Equal(b.reduce("ReduceSum", b.cast(b.Not(b.cast(x, bool_)), int64), dim, keepdim), 0)


class Any_(_Truth):
    """Some element is nonzero."""

    name = "any"
    lower = Routine("any")
    numpy = staticmethod(lambda x, *, dim, keepdim: np.any(x, axis=dim, keepdims=keepdim))

    @staticmethod
    def ragged(rows: Rows, x: Tensor) -> Tensor:
        n_found = ops.segments.segment_sum(ops.ne(x, 0), *rows.segments)
        return ops.gt(n_found, 0).to(_truth_dtype(x))

    @staticmethod
    def onnx(b: Any, x: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
        return b.Greater(b.reduce("ReduceSum", b.cast(b.cast(x, bool_), int64), dim, keepdim), 0)


# ---- functions


@cached_by_types
def _reduce(
    op: type[Reduction], input: Tensor, dim: Dims, keepdim: bool, out: Tensor | None, dtype: dtype | None = None
) -> Tensor:
    attrs = {"dim": normalize_dims(dim, input.ndim, op.name), "keepdim": keepdim}
    deliver = ops.deliver if issubclass(op, Choice) else ops.deliver_converted
    if dtype is None:
        return deliver(apply(op, (input,), attrs), out)
    wanted = as_dtype(dtype)
    return deliver(apply(op, (input.to(wanted),), attrs).to(wanted), out)


@numpy_method
def sum(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None, out: Tensor | None = None
) -> Tensor:
    """The sum of all elements, or over the dimensions in `dim`.

    >>> ex.sum(ex.tensor([[1, 2], [3, 4]])), ex.sum(ex.tensor([[1, 2], [3, 4]]), dim=0)
    (tensor(10), tensor([4, 6]))
    """
    return _reduce(Sum, input, dim, keepdim, out, dtype)


@numpy_method
def prod(
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The product of all elements, or along one dimension.

    >>> ex.prod(ex.tensor([2, 3, 4]))
    tensor(24)
    """
    return _reduce(Prod, input, dim, keepdim, out, dtype)


@numpy_method
def mean(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None, out: Tensor | None = None
) -> Tensor:
    """The mean of all elements, or over the dimensions in `dim`.

    >>> ex.mean(ex.tensor([[1.0, 2.0], [3.0, 6.0]]), dim=1)
    tensor([1.5000, 4.5000])
    """
    return _reduce(Mean, input, dim, keepdim, out, dtype)


@numpy_method
def amax(input: Tensor, dim: Dims = (), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The largest element over dimensions; equal ones share the gradient.

    >>> ex.amax(ex.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1)
    tensor([5., 3.])
    """
    return _reduce(Amax, input, dim, keepdim, out)


@numpy_method
def amin(input: Tensor, dim: Dims = (), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The smallest element over dimensions; equal ones share the gradient.

    >>> ex.amin(ex.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1)
    tensor([1., 2.])
    """
    return _reduce(Amin, input, dim, keepdim, out)


@numpy_method
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False, out: Any = None) -> MinMax:
    """The smallest and the largest element, of all or along one dimension: a result with `.min` and `.max`.

    >>> ex.aminmax(ex.tensor([3.0, 1.0, 2.0]))
    MinMax(min=tensor(1.), max=tensor(3.))
    """
    both = MinMax(_reduce(Amin, input, dim, keepdim, None), _reduce(Amax, input, dim, keepdim, None))
    return both if out is None else ops.deliver_each(both, out)


def along(op: type[Op], input: Tensor, dim: int, attrs: dict[str, Any]) -> Tensor:
    """Run an op that works along one dimension of at least one; a 0-dim tensor counts as one element."""
    d = normalize_dim(dim, input.ndim, op.name)
    if not input.ndim:
        return apply(op, (input.reshape(1),), {"dim": 0, **attrs}).reshape(())
    return apply(op, (input,), {"dim": d, **attrs})


def find(op: type[Place], input: Tensor, dim: int, keepdim: bool, *numbers: Any) -> Tensor:
    """The indices that a Place finds."""
    d = normalize_dim(dim, input.ndim, op.name)
    return apply(op, (input, *numbers), {"dim": (d,) if input.ndim else (), "keepdim": keepdim})


def deliver_both(values: Tensor, indices: Tensor, out: Any) -> ValuesIndices:
    """Values and indices as the named result, or written into the pair of tensors `out`."""
    both = ValuesIndices(values, indices)
    return both if out is None else ops.deliver_each(both, out)


def chosen(op: type[Place], input: Tensor, dim: int, keepdim: bool, out: Any, *numbers: Any) -> ValuesIndices:
    """The elements at the indices that a Place finds, which alone get the gradient, and the indices."""
    indices = find(op, input, dim, True, *numbers)
    values = ops.gather(input, dim, indices)
    if not keepdim and input.ndim:
        values, indices = values.squeeze(dim), indices.squeeze(dim)
    return deliver_both(values, indices, out)


def _extreme(
    name: str,
    whole: Any,
    along_dim: type[_WithIndex],
    pairwise: Any,
    input: Tensor,
    dim: Any,
    keepdim: bool,
    other: Any,
    out: Any,
) -> Any:
    if not isinstance(input, Tensor | TensorLike) and not isinstance(dim, Tensor | TensorLike):
        raise DtypeError(f"{name}: expected a tensor, got {type(input).__name__}; use Python's {name} for numbers")
    if isinstance(dim, Tensor | TensorLike) or other is not None:
        return pairwise(input, dim if other is None else other, out=out)
    if dim is not None:
        d = normalize_dim(dim, input.ndim, name)
        attrs = {"dim": (d,) if input.ndim else (), "keepdim": keepdim}
        values, indices = apply(along_dim, (input,), attrs)
        return deliver_both(values, indices, out)
    if not input.numel():
        raise ShapeError(
            f"{name}: a tensor of shape {tuple(input.shape)} has no {name}; test x.numel() first, or give dim="
        )
    return ops.deliver_converted(whole(input), out)


@overload
def max(input: Tensor, dim: None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: Tensor, dim: int, keepdim: bool = False, *, out: Any = None) -> ValuesIndices: ...
@overload
def max(input: Tensor, dim: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: Tensor, *, other: Tensor, out: Tensor | None = None) -> Tensor: ...
@numpy_method
def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None, out: Any = None) -> Any:
    """The largest element; along `dim` with its index (`.values`, `.indices`); of two tensors, the larger of each.

    Of equal elements along `dim` the first gets index and gradient; without `dim` all share the gradient.

    >>> ex.max(ex.tensor([[1.0, 5.0], [3.0, 2.0]]))
    tensor(5.)
    >>> ex.max(ex.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1).indices
    tensor([1, 0])
    """
    return _extreme("max", amax, MaxWithIndex, ops.maximum, input, dim, keepdim, other, out)


@overload
def min(input: Tensor, dim: None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def min(input: Tensor, dim: int, keepdim: bool = False, *, out: Any = None) -> ValuesIndices: ...
@overload
def min(input: Tensor, dim: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def min(input: Tensor, *, other: Tensor, out: Tensor | None = None) -> Tensor: ...
@numpy_method
def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None, out: Any = None) -> Any:
    """The smallest element; along `dim` with its index (`.values`, `.indices`); of two tensors, the smaller of each.

    Of equal elements along `dim` the first gets index and gradient; without `dim` all share the gradient.

    >>> ex.min(ex.tensor([[1.0, 5.0], [3.0, 2.0]]))
    tensor(1.)
    >>> ex.min(ex.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=1).indices
    tensor([0, 1])
    """
    return _extreme("min", amin, MinWithIndex, ops.minimum, input, dim, keepdim, other, out)


_ALL_ELEMENTS: dict[str, Any] = {"dim": (0,), "keepdim": False}  # of a vector


@cached_by_types
def _place(op: type[Place], input: Tensor, dim: int | None, keepdim: bool, out: Tensor | None) -> Any:
    if input.dtype is bool_:
        raise DtypeError(f"{op.name}: a bool tensor is all ties; use x.long().{op.name}(...) for the first of them")
    if dim is not None:
        return ops.deliver(find(op, input, dim, keepdim), out)
    place = apply(op, (input if input.ndim == 1 else input.reshape(-1),), _ALL_ELEMENTS)
    return ops.deliver(place.reshape((1,) * input.ndim) if keepdim else place, out)


@numpy_method
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The index of the largest element along `dim`, or in the flattened tensor; the first of equal ones.

    >>> ex.argmax(ex.tensor([1.0, 5.0, 3.0]))
    tensor(1)
    """
    return _place(Argmax, input, dim, keepdim, out)


@numpy_method
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The index of the smallest element along `dim`, or in the flattened tensor; the first of equal ones.

    >>> ex.argmin(ex.tensor([4.0, 1.0, 3.0]))
    tensor(1)
    """
    return _place(Argmin, input, dim, keepdim, out)


def _truth(op: type[_Truth], input: Tensor, dim: Dims, keepdim: bool, out: Tensor | None) -> Tensor:
    if is_sequence(dim) and not len(dim):  # PyTorch reduces nothing here, where sum(dim=()) reduces everything
        result = ops.ne(input, 0).to(uint8 if input.dtype is uint8 else bool_)
    else:
        result = _reduce(op, input, dim, keepdim, None)
    if isinstance(out, Tensor) and out.dtype is uint8:
        return ops.deliver_converted(result, out)
    return ops.deliver(result, out)


@numpy_method
def all(input: Tensor, dim: Dims = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Whether every element is nonzero, or every one along `dim`.

    >>> ex.all(ex.tensor([[True, True], [True, False]]), dim=1)
    tensor([ True, False])
    """
    return _truth(All, input, dim, keepdim, out)


@numpy_method
def any(input: Tensor, dim: Dims = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Whether some element is nonzero, or some along `dim`.

    >>> ex.any(ex.tensor([[False, True], [False, False]]), dim=1)
    tensor([ True, False])
    """
    return _truth(Any_, input, dim, keepdim, out)


@numpy_method
def count_nonzero(input: Tensor, dim: Dims = None) -> Tensor:
    """How many elements are nonzero, of all or along `dim`.

    >>> ex.count_nonzero(ex.tensor([[0, 1], [2, 3]]), dim=0)
    tensor([1, 2])
    """
    return sum(ops.ne(input, 0), dim)
