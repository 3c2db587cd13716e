"""Finding and counting values: sorted search, membership, distinct elements, bins.

None of these has a gradient. Where the shape of the result depends on the values (unique, bincount), they are read when
the function is called.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from .. import ops
from ..core.op import Decomposed, Op, Refuse, Rng, Sample
from ..core.storage import Array
from ..core.tensor import Tensor, TensorLike, from_array
from ..core.tensor_methods import method
from ..core.types import Number, TensorType, bool_, check_size, count, int32, int64, is_sequence, normalize_dim
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, ShapeError
from .define import Operand, also_named, numpy_method, teaching
from .found_sizes import bin_counts, tracer_of, unique_elements
from .reduce import wide

__all__ = [
    "bincount",
    "bucketize",
    "histc",
    "histogram",
    "histogramdd",
    "isin",
    "searchsorted",
    "unique",
    "unique_consecutive",
]


# For overloads: what is returned depends on these arguments.
No = Literal[False]
Yes = Literal[True]


class Histogram(NamedTuple):
    """Counts, and the edges of the bins."""

    hist: Tensor
    bin_edges: Tensor


class HistogramDD(NamedTuple):
    """Counts, and the edges of the bins of each dimension."""

    hist: Tensor
    bin_edges: list[Tensor]


_DISCRETE = Refuse("the result is piecewise constant")


class Searchsorted(Op):
    """Where each value would go to keep a sorted sequence (the last dimension) sorted."""

    family = "sort"
    vjp = _DISCRETE
    saves = ("", "")
    quiet = True
    ragged = "picking.searchsorted"

    @staticmethod
    def infer(sequence: TensorType, values: TensorType, *, right: bool, out_int32: bool) -> TensorType:
        if len(sequence.shape) != 1 and sequence.shape[:-1] != values.shape[:-1]:
            raise ShapeError(
                f"searchsorted: the sorted sequence must be a vector, or have the leading sizes of the values; got "
                f"{sequence.shape} and {values.shape}"
            )
        if sequence.dtype is not values.dtype:
            raise DtypeError(
                f"searchsorted: the sequence is {sequence.dtype}, the values are {values.dtype}; convert one, "
                "e.g. values.to(sequence.dtype)"
            )
        return TensorType(values.shape, int32 if out_int32 else int64)

    @staticmethod
    def numpy(sequence: Array, values: Array, *, right: bool, out_int32: bool) -> Any:
        sequence, values = np.asarray(sequence, wide(sequence)), np.asarray(values, wide(values))
        # NumPy takes NaN for the largest number; in PyTorch the search goes on after an element that is NaN.
        if sequence.ndim == 1 and not np.isnan(sequence).any():
            return np.searchsorted(sequence, values, side="right" if right else "left")
        low = np.zeros(values.shape, np.int64)
        high = np.full(values.shape, sequence.shape[-1])
        # Bisection of all rows at once: every round halves what is left between low and high.
        for _ in range(sequence.shape[-1].bit_length()):
            middle = np.minimum((low + high) // 2, sequence.shape[-1] - 1)
            found = sequence[middle] if sequence.ndim == 1 else np.take_along_axis(sequence, middle, -1)
            is_after = ~(found > values if right else found >= values) & (low < high)
            low, high = np.where(is_after, middle + 1, low), np.where(is_after, high, np.minimum(middle, high))
        return low

    @staticmethod
    def batch(size: int, sequence: Any, values: Any, *, right: bool, out_int32: bool) -> Any:
        rows = values.reshape(size, -1) if sequence.ndim == 2 else values
        return apply(Searchsorted, (sequence, rows), {"right": right, "out_int32": out_int32}).reshape(values.shape)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        rows = np.sort(rng.integers(0, 6, size=(3, 5)).astype(np.float64), axis=1)
        values = rng.integers(-1, 7, size=(3, 4)).astype(np.float64)
        yield Sample(rows[0], values, right=False, out_int32=False)
        yield Sample(rows, values, right=True, out_int32=True)
        yield Sample(rows, values, right=False, out_int32=False)
        yield Sample(np.empty((2, 0)), np.zeros((2, 3)), right=False, out_int32=False)

    @Decomposed
    def onnx(sequence: Tensor, values: Tensor, *, right: bool, out_int32: bool) -> Tensor:
        rows = sequence if sequence.ndim == 1 else sequence.unsqueeze(-2)
        is_before = (ops.le if right else ops.lt)(rows, values.unsqueeze(-1))
        return is_before.sum(-1)


@method
@teaching
def searchsorted(
    sorted_sequence: Tensor,
    input: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    out: Tensor | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """The index at which each value would keep the sequence sorted; with `right` (side="right"), after equal ones.

    >>> ex.searchsorted(ex.tensor([1, 3, 5]), ex.tensor([0, 3, 4]))
    tensor([0, 1, 2])
    """
    if side not in (None, "left", "right") or (right and side == "left"):
        raise DtypeError(f"searchsorted: side must be 'left' or 'right' and agree with right={right}, got {side!r}")
    if sorter is not None:
        if sorter.shape != sorted_sequence.shape:
            raise ShapeError(
                f"searchsorted: sorter has shape {tuple(sorter.shape)}, the sequence {tuple(sorted_sequence.shape)}"
            )
        sorted_sequence = ops.gather(sorted_sequence, -1, sorter)
    values = input if isinstance(input, Tensor | TensorLike) else ops.tensor(input, dtype=sorted_sequence.dtype)
    attrs = {"right": bool(right or side == "right"), "out_int32": out_int32}
    return ops.deliver(apply(Searchsorted, (sorted_sequence, values), attrs), out)


@teaching
def bucketize(
    input: Operand, boundaries: Tensor, *, out_int32: bool = False, right: bool = False, out: Tensor | None = None
) -> Tensor:
    """The bucket of each value: how many boundaries lie below it (or, with `right`, not above it).

    >>> ex.bucketize(ex.tensor([0.5, 1.0, 9.0]), ex.tensor([1.0, 2.0]))
    tensor([0, 0, 2])
    """
    if boundaries.ndim != 1:
        raise ShapeError(f"bucketize: boundaries must be a vector, got shape {tuple(boundaries.shape)}")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


class Isin(Op):
    """Whether each element is among the test elements."""

    family = "sort"
    vjp = _DISCRETE
    saves = ("", "")
    quiet = True
    batch = Refuse("looped over samples: each has test elements of its own")
    ragged = "picking.isin"
    infer = staticmethod(lambda x, tests: TensorType(x.shape, bool_))
    numpy = staticmethod(lambda x, tests: np.isin(np.asarray(x, wide(x)), np.asarray(tests, wide(tests))))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.integers(0, 6, size=(3, 4)), np.array([1, 4]))
        yield Sample(rng.integers(0, 3, size=()), np.empty(0, np.int64))

    onnx = Decomposed(lambda x, tests: ops.eq(x.unsqueeze(-1), tests.flatten()).any(-1))


@also_named(element="elements", test_element="test_elements")
def isin(
    elements: Operand,
    test_elements: Operand,
    *,
    assume_unique: bool = False,
    invert: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Whether each element is (or with `invert`, is not) one of the test elements.

    >>> ex.isin(ex.tensor([1, 2, 3]), ex.tensor([2, 5]))
    tensor([False,  True, False])
    """
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise DtypeError("isin: expected a tensor as elements or test_elements, got two numbers; use ==")
    found: Tensor = apply(Isin, (ops.as_tensor(elements), ops.as_tensor(test_elements)))
    return ops.deliver(ops.logical_not(found) if invert else found, out)


# ---- distinct elements


class Unique(Op):
    """The distinct elements that were found among those of the first input."""

    family = "sort"
    vjp = Refuse("which elements are distinct depends on all of them")
    saves = ("", "")
    batch = Refuse("each sample has a number of distinct elements of its own")
    ragged = Refuse("each row has a number of distinct elements of its own")
    infer = staticmethod(lambda x, found: found)
    numpy = staticmethod(lambda x, found: found.copy())

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(np.array([3.0, 1.0, 3.0]), np.array([1.0, 3.0]))

    lower = Refuse("its values are there already")
    onnx = staticmethod(lambda b, x, found: found)


def _results(found: tuple[Array, Array, Array], input: Tensor, return_inverse: bool, return_counts: bool) -> Any:
    values, inverse, counts = found
    distinct = from_array(np.ascontiguousarray(values, input.dtype.numpy))
    results = [apply(Unique, (input, distinct)) if input.requires_grad else distinct]
    if return_inverse:
        results.append(from_array(inverse.astype(np.int64)))
    if return_counts:
        results.append(from_array(counts.astype(np.int64)))
    return results[0] if len(results) == 1 else tuple(results)


def _asked_for(found: tuple[Tensor, Tensor, Tensor], return_inverse: bool, return_counts: bool) -> Any:
    results = [found[0], *found[1:2] * return_inverse, *found[2:] * return_counts]
    return results[0] if len(results) == 1 else tuple(results)


def _rows_first(input: Tensor, dim: int, op: str) -> tuple[Array, int]:
    array = input.detach()._values_for_size()
    d = normalize_dim(dim, input.ndim, op)
    return np.moveaxis(np.asarray(array, wide(array)), d, 0), d


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: No = False,
    return_counts: No = False,
    dim: int | None = None,
) -> Tensor: ...
@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: No = False,
    *,
    return_counts: Yes,
    dim: int | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    *,
    return_inverse: Yes,
    return_counts: No = False,
    dim: int | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    *,
    return_inverse: Yes,
    return_counts: Yes,
    dim: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any: ...
@numpy_method
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements in ascending order (with `dim`, the distinct slices), and on request for each element the
    place of its value among them, and how often each occurs. NaNs are all distinct.

    >>> ex.unique(ex.tensor([3, 1, 3, 2]), return_counts=True)
    (tensor([1, 2, 3]), tensor([1, 1, 2]))
    """
    tracer = tracer_of(input)
    if dim is None and tracer is not None:
        return _asked_for(unique_elements(tracer, input, True), return_inverse, return_counts)
    if dim is None:
        array = input.detach()._values_for_size()
        values, inverse, counts = np.unique(
            np.asarray(array, wide(array)), return_inverse=True, return_counts=True, equal_nan=False
        )
        return _results((values, inverse.reshape(array.shape), counts), input, return_inverse, return_counts)
    rows, d = _rows_first(input, dim, "unique")
    if not rows.size:
        if len(rows):
            raise ShapeError(f"unique: slices of shape {tuple(input.shape)} along dim {d} have no elements to compare")
        empty = np.empty(0, np.int64)
        return _results((np.moveaxis(rows, 0, d), empty, empty), input, return_inverse, return_counts)
    order = np.lexsort(rows.reshape(len(rows), -1).T[::-1])
    values, inverse, counts = _runs(rows[order])
    places = np.empty_like(inverse)
    places[order] = inverse
    return _results((np.moveaxis(values, 0, d), places, counts), input, return_inverse, return_counts)


def _runs(rows: Array) -> tuple[Array, Array, Array]:
    """Of neighbouring equal rows the first, for each row the number of its run, and the runs' lengths."""
    is_new = np.ones(len(rows), np.bool_)
    is_new[1:] = (rows[1:] != rows[:-1]).reshape(max(len(rows) - 1, 0), count(rows.shape[1:])).any(axis=1)
    starts = np.flatnonzero(is_new)
    return rows[starts], np.cumsum(is_new) - 1, np.diff(starts, append=len(rows))


@overload
def unique_consecutive(
    input: Tensor, return_inverse: No = False, return_counts: No = False, dim: int | None = None
) -> Tensor: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: No = False, *, return_counts: Yes, dim: int | None = None
) -> tuple[Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, *, return_inverse: Yes, return_counts: No = False, dim: int | None = None
) -> tuple[Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, *, return_inverse: Yes, return_counts: Yes, dim: int | None = None
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any: ...
@numpy_method
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements (with `dim`, the slices) without those that equal their predecessor; see `unique`.

    >>> ex.unique_consecutive(ex.tensor([1, 1, 2, 2, 1]))
    tensor([1, 2, 1])
    """
    tracer = tracer_of(input)
    if dim is None and tracer is not None:
        return _asked_for(unique_elements(tracer, input, False), return_inverse, return_counts)
    if dim is None:
        values, inverse, counts = _runs(_rows_first(input.reshape(-1), 0, "unique_consecutive")[0])
        inverse = inverse.reshape(tuple(input.shape))
    else:
        rows, d = _rows_first(input, dim, "unique_consecutive")
        values, inverse, counts = _runs(rows)
        values = np.moveaxis(values, 0, d)
    return _results((values, inverse, counts), input, return_inverse, return_counts)


# ---- bins


@method
@teaching
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each whole number from 0 on occurs, or the sum of the weights where it does.

    >>> ex.bincount(ex.tensor([0, 2, 2, 3]))
    tensor([1, 0, 2, 1])
    """
    if input.ndim != 1 or input.dtype.category != 1:
        raise DtypeError(f"bincount: expected a vector of integers, got {input.dtype} of shape {tuple(input.shape)}")
    if weights is not None and weights.shape != input.shape:
        raise ShapeError(
            f"bincount: weights have shape {tuple(weights.shape)}, the input {tuple(input.shape)}; they must agree"
        )
    if minlength < 0:
        raise ShapeError(f"bincount: minlength must not be negative, got {minlength}")
    tracer = tracer_of(input)
    if tracer is not None:
        return bin_counts(tracer, input, weights, minlength)
    values = input._values_for_size().astype(np.int64)
    if values.size and values.min() < 0:
        raise ShapeError(f"bincount: the numbers must not be negative, got {values.min()}")
    check_size("bincount", (max(int(values.max(initial=-1)) + 1, minlength),), 8)
    if weights is None:
        return from_array(np.bincount(values, minlength=minlength).astype(np.int64))
    counts = np.bincount(values, weights.detach()._values().astype(np.float64), minlength)
    return from_array(counts.astype(np.float32 if weights.dtype is ops.types.float32 else np.float64))


class Histc(Op):
    """How many elements lie in each of `bins` equal parts of [low, high]; of the data's own range if low = high."""

    family = "sort"
    vjp = _DISCRETE
    saves = ("", "", "")
    batch = Refuse("looped over samples: each may have a range of its own")
    ragged = "picking.histc"
    infer = staticmethod(lambda x, low, high, *, bins: TensorType((bins,), x.dtype))

    @staticmethod
    def numpy(x: Array, low: Any, high: Any, *, bins: int) -> Array:
        x = np.asarray(x, np.float64).reshape(-1)
        if low == high and x.size:
            low, high = x.min(), x.max()
        if low == high:
            low, high = low - 1, high + 1
        if not np.isfinite([low, high]).all():
            raise ShapeError(f"histc: the range [{low}, {high}] is not finite; give finite min and max")
        inside = x[(x >= low) & (x <= high)]
        places = np.minimum(((inside - low) / (high - low) * bins).astype(np.int64), bins - 1)
        return np.bincount(places, minlength=bins)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 4)), -1.0, 1.0, bins=4)
        yield Sample(rng.normal(size=(5,)), 0, 0, bins=3)
        yield Sample(np.empty((0,)), 0, 0, bins=2)

    @Decomposed
    def onnx(x: Tensor, low: Any, high: Any, *, bins: int) -> Tensor:
        values = x.double().flatten()
        low, high = (ops.tensor(float(n)).double() for n in (low, high))
        if x._type.numel() != 0:
            is_open = ops.eq(low, high)
            low, high = ops.where(is_open, values.amin(), low), ops.where(is_open, values.amax(), high)
        is_point = ops.eq(low, high)
        low, high = ops.where(is_point, low - 1.0, low), ops.where(is_point, high + 1.0, high)
        inside = ops.logical_and(ops.ge(values, low), ops.le(values, high))
        places = ops.minimum(ops.floor((values - low) / (high - low) * bins), float(bins - 1))
        hits = ops.eq(places.unsqueeze(-1), ops.arange(bins).double())
        return ops.logical_and(hits, inside.unsqueeze(-1)).sum(0).to(x.dtype)


@method
@teaching
def histc(input: Tensor, bins: int = 100, min: Number = 0, max: Number = 0, *, out: Tensor | None = None) -> Tensor:
    """Counts of the elements in `bins` equal parts of [min, max], or of their own range when both are equal.

    >>> ex.histc(ex.tensor([0.1, 0.2, 0.9]), bins=2, min=0, max=1)
    tensor([2., 1.])
    """
    bins = bins.__index__()
    if bins <= 0 or min > max:
        raise ShapeError(f"histc: expected bins > 0 and min <= max, got bins={bins}, min={min}, max={max}")
    return ops.deliver(apply(Histc, (input, min, max), {"bins": bins}), out)


def _edges(values: Array, bins: Any, limits: Any) -> Any:
    """Edges of the bins: the given ones, or equal parts of the limits or of the data's range."""
    if isinstance(bins, Tensor) and bins.ndim:
        return bins.detach()._values()
    low, high = limits if limits is not None else (values.min(), values.max()) if values.size else (0.0, 1.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, bins.__index__() + 1, dtype=values.dtype)


@method
@teaching
def histogram(
    input: Tensor,
    bins: int | Tensor,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: Any = None,
) -> Histogram:
    """Counts (or summed weights, or a density) of the elements in bins, and the edges of the bins.

    >>> ex.histogram(ex.tensor([0.1, 0.2, 0.9]), bins=2, range=(0.0, 1.0))
    Histogram(hist=tensor([2., 1.]), bin_edges=tensor([0.0000, 0.5000, 1.0000]))
    """
    flat_weight = None if weight is None else weight.reshape(-1)
    counts, edges = histogramdd(input.reshape(-1, 1), [bins], range=range, weight=flat_weight, density=density)
    return ops.deliver_each(Histogram(counts, edges[0]), out)


@teaching
def histogramdd(
    input: Tensor,
    bins: int | Sequence[Any],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> HistogramDD:
    """Counts of points (coordinates in the last dimension of `input`) in a grid of bins, and the edges of the bins.

    >>> points = ex.tensor([[0.1, 0.1], [0.9, 0.1], [0.9, 0.1]])
    >>> ex.histogramdd(points, bins=[2, 2], range=[0.0, 1.0, 0.0, 1.0]).hist
    tensor([[1., 0.],
            [2., 0.]])
    """
    if not input.is_floating_point() or input.ndim < 2:
        raise DtypeError(
            f"histogramdd: expected floating points (n, dims), got {input.dtype} of shape {tuple(input.shape)}"
        )
    n_dims = input.shape[-1]
    per_dim = list(bins) if is_sequence(bins) else [bins] * n_dims
    if len(per_dim) != n_dims:
        raise ShapeError(f"histogramdd: {len(per_dim)} bins for points of {n_dims} coordinates; give one each")
    points = input.detach()._values().reshape(-1, n_dims)
    limits = [None] * n_dims if range is None else [range[2 * d : 2 * d + 2] for d in builtins.range(n_dims)]
    edges = [_edges(points[:, d], per_dim[d], limits[d]) for d in builtins.range(n_dims)]
    weights = None if weight is None else weight.detach()._values().reshape(-1)
    inside = np.all([(points[:, d] >= e[0]) & (points[:, d] <= e[-1]) for d, e in enumerate(edges)], axis=0)
    places = [
        np.minimum(np.searchsorted(e, points[inside, d], side="right") - 1, len(e) - 2) for d, e in enumerate(edges)
    ]
    sizes = tuple(len(e) - 1 for e in edges)
    flat = np.ravel_multi_index(tuple(places), sizes)
    counts = (
        np.bincount(flat, None if weights is None else weights[inside], count(sizes)).reshape(sizes).astype(np.float64)
    )
    if density:
        counts = counts / counts.sum()
        for d, e in enumerate(edges):
            counts = counts / np.diff(e).reshape(-1, *(1,) * (n_dims - 1 - d))
    return HistogramDD(from_array(counts.astype(points.dtype)), [from_array(np.array(e)) for e in edges])
