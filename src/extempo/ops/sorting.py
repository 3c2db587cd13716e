"""Order: sorting, the largest, the k-th, the middle and the most frequent element.

Each primitive finds indices; values are gathered with them, and that is where their gradient comes from. NaN counts as
the greatest value. Sorting is always stable, so equal elements keep their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from .. import ops
from ..core.op import Decomposed, Op, Refuse, Rng, Routine, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.tensor_methods import method
from ..core.types import TensorType, count, int64, normalize_dim
from ..core.wording import counted
from ..dispatch.dispatcher import apply
from ..errors import IndexRangeError
from .define import numpy_method
from .reduce import Choice, Place, ValuesIndices, along, check_not_empty, chosen, deliver_both, reduced_shape, wide

if TYPE_CHECKING:
    from ..ragged_tensors.rows import Rows

__all__ = ["argsort", "kthvalue", "median", "mode", "msort", "nanmedian", "sort", "topk"]


def _order(x: Array, dim: int, descending: bool) -> Array:
    """The indices that sort x along dim, equal elements in their order."""
    if x.ndim and x.strides[dim] == 0:  # one element, however often it was expanded
        steps = np.arange(x.shape[dim]).reshape(-1, *(1,) * (x.ndim - 1 - dim))
        return np.broadcast_to(steps, x.shape)
    x = np.asarray(x, wide(x))
    if not descending:
        return np.argsort(x, axis=dim, kind="stable")
    # Backwards twice: once so that equal elements come out in their order, once so that the greatest comes first.
    backwards = (*(slice(None),) * dim, slice(None, None, -1))
    return x.shape[dim] - 1 - np.argsort(x[backwards], axis=dim, kind="stable")[backwards]


class _Order(Op, abstract=True):
    """Indices along one dimension, in some order."""

    family = "sort"
    vjp = Refuse("an index is piecewise constant")
    saves = ("",)
    quiet = True
    batch = "shift_dim"


class Argsort(_Order):
    """The indices that sort a dimension, stably."""

    infer = staticmethod(lambda x, *, dim, descending: TensorType(x.shape, int64))
    numpy = staticmethod(lambda x, *, dim, descending: _order(x, dim, descending))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 4)), dim=1, descending=False)
        yield Sample(rng.integers(0, 3, size=(7, 2)), dim=0, descending=True)
        yield Sample(np.array([1.0, np.nan, -np.inf, np.nan, 0.0]), dim=0, descending=True)
        yield Sample(np.empty((0, 3)), dim=0, descending=False)

    @staticmethod
    def ragged(rows: Rows, x: Tensor, *, descending: bool) -> Tensor:
        return ops.segments.segment_places("argsort", rows, x, descending=descending)

    onnx = staticmethod(lambda b, x, *, dim, descending: b.best_places(x, x.shape[dim], dim, descending))


class Topk(_Order):
    """The indices of the k largest (or smallest) elements of a dimension, best first."""

    lower = Routine("topk")
    ragged = "rowwise.topk"

    @staticmethod
    def infer(x: TensorType, *, dim: int, k: int, largest: bool) -> TensorType:
        if not 0 <= k <= x.shape[dim]:
            raise IndexRangeError(
                f"topk: k is {k}, but dimension {dim} of shape {x.shape} has {counted(x.shape[dim], 'element')}"
            )
        return TensorType((*x.shape[:dim], k, *x.shape[dim + 1 :]), int64)

    @staticmethod
    def numpy(x: Array, *, dim: int, k: int, largest: bool) -> Array:
        x = np.asarray(x, wide(x))
        size = x.shape[dim]
        if not x.size or not k:
            return np.zeros((*x.shape[:dim], k, *x.shape[dim + 1 :]), np.int64)
        places = np.argpartition(x, size - k if largest else k - 1, axis=dim)
        places = places[(*(slice(None),) * dim, slice(size - k, None) if largest else slice(k))]
        best_first = _order(np.take_along_axis(x, places, dim), dim, largest)
        return np.take_along_axis(places, best_first, dim)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 6)), dim=1, k=2, largest=True)
        yield Sample(rng.normal(size=(5, 2)), dim=0, k=5, largest=False)
        yield Sample(np.empty((0, 3)), dim=1, k=2, largest=True)

    onnx = staticmethod(lambda b, x, *, dim, k, largest: b.best_places(x, k, dim, largest))


class Kthvalue(Place):
    """Where the k-th smallest element along a dimension is; k counts from 1."""

    @staticmethod
    def search(x: Array, k: int, dim: int) -> Any:
        if not x.size:
            return np.zeros(reduced_shape(x.shape, (dim,), True), np.int64)
        return np.argpartition(x, k - 1, axis=dim).take([k - 1], axis=dim)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 6)), 2, dim=(1,), keepdim=True)
        yield Sample(rng.normal(size=(5, 2)), 5, dim=(0,), keepdim=False)
        yield Sample(rng.normal(size=()), 1, dim=(), keepdim=False)

    @staticmethod
    def onnx(b: Any, x: Any, k: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
        if not dim:
            return b.full((), 0, int64)
        place = b.Slice(b.best_places(x, k, dim[0], False), [-1], [2**62], dim)
        return place if keepdim else b.Squeeze(place, dim)


def _middle(x: Array, ignore_nan: bool) -> Array:
    """Where the lower median of the last dimension is: of what is no NaN, or a NaN if there is one."""
    order = _order(x, x.ndim - 1, descending=False)
    size = x.shape[-1]
    n_valid = np.sum(x == x, axis=-1, keepdims=True)
    rank = np.maximum(n_valid - 1, 0) // 2 if ignore_nan else np.where(n_valid == size, (size - 1) // 2, n_valid)
    return np.take_along_axis(order, rank, -1)


def _median_place(x: Tensor, dim: tuple[int, ...], keepdim: bool, ignore_nan: bool) -> Tensor:
    """Where the lower median is, in other ops; NaN is sorted behind all others."""
    if not dim:
        return ops.zeros((), dtype=int64)
    d, is_nan = dim[0], ops.isnan(x)
    order = ops.argsort(x, d)
    if ignore_nan:
        n_there = ops.logical_not(is_nan).sum(d, keepdim=True)
        place = order.gather(d, ops.maximum(n_there - 1, 0) // 2)
    else:
        place = order.narrow(d, (x._type.shape[d] - 1) // 2, 1)
        place = ops.where(is_nan.any(d, keepdim=True), is_nan.long().argmax(d, keepdim=True), place)
    return place if keepdim else place.squeeze(d)


def _median_of_all(x: Tensor, dim: tuple[int, ...], keepdim: bool, ignore_nan: bool) -> Tensor:
    """The lower median over several dimensions, in other ops."""
    shape = reduced_shape(x._type.shape, dim, keepdim)
    kept = [d for d in range(x.ndim) if d not in dim]
    rows = x.permute(*kept, *dim).reshape(*(x._type.shape[d] for d in kept), count(x._type.shape[d] for d in dim))
    place = _median_place(rows, (len(kept),), True, ignore_nan)
    return rows.gather(len(kept), place).reshape(shape)


class MedianPlace(Place):
    """Where the lower median along a dimension is, or a NaN if there is one."""

    public_name = "median"
    search = staticmethod(lambda x, dim: np.moveaxis(_middle(np.moveaxis(x, dim, -1), ignore_nan=False), -1, dim))
    onnx = Decomposed(lambda x, *, dim, keepdim: _median_place(x, dim, keepdim, ignore_nan=False))


class NanmedianPlace(Place):
    """Where the lower median of the elements that are no NaN is."""

    public_name = "nanmedian"
    search = staticmethod(lambda x, dim: np.moveaxis(_middle(np.moveaxis(x, dim, -1), ignore_nan=True), -1, dim))
    onnx = Decomposed(lambda x, *, dim, keepdim: _median_place(x, dim, keepdim, ignore_nan=True))


def _middle_value(ignore_nan: bool) -> Any:
    def kernel(x: Array, *, dim: tuple[int, ...], keepdim: bool) -> Any:
        kept = tuple(d for d in range(x.ndim) if d not in dim)
        rows = x.transpose(*kept, *dim).reshape(*(x.shape[d] for d in kept), count(x.shape[d] for d in dim))
        found = np.take_along_axis(rows, _middle(rows, ignore_nan), -1)
        return found.reshape(reduced_shape(x.shape, dim, keepdim))

    return staticmethod(kernel)


class Median(Choice):
    """The lower median of all elements; NaN if one of them is."""

    numpy = _middle_value(ignore_nan=False)
    ragged = "rowwise.looped"
    onnx = Decomposed(lambda x, *, dim, keepdim: _median_of_all(x, dim, keepdim, ignore_nan=False))


class Nanmedian(Choice):
    """The lower median of all elements that are no NaN."""

    numpy = _middle_value(ignore_nan=True)
    ragged = "rowwise.looped"
    onnx = Decomposed(lambda x, *, dim, keepdim: _median_of_all(x, dim, keepdim, ignore_nan=True))


class Mode(Place):
    """Where the most frequent element along a dimension last is; the smallest of equally frequent ones."""

    @staticmethod
    def search(x: Array, dim: int) -> Any:
        rows = np.moveaxis(x, dim, -1)
        order = _order(rows, rows.ndim - 1, descending=False)
        ordered = np.take_along_axis(rows, order, -1)
        steps = np.broadcast_to(np.arange(rows.shape[-1]), rows.shape)
        is_new = np.ones(rows.shape, np.bool_)
        is_new[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
        run_start = np.maximum.accumulate(np.where(is_new, steps, 0), axis=-1)
        # The end of the longest run, and of equal ones the first: that is the smallest value.
        longest = np.argmax(steps - run_start, axis=-1, keepdims=True)
        return np.moveaxis(np.take_along_axis(order, longest, -1), -1, dim)

    @Decomposed
    def onnx(x: Tensor, *, dim: tuple[int, ...], keepdim: bool) -> Tensor:
        """By comparing all elements with all others, which ONNX can say without a loop."""
        if not dim:
            return ops.zeros((), dtype=int64)
        rows = (x if x.is_floating_point() else x.double()).movedim(dim[0], -1)
        n_equal = ops.eq(rows.unsqueeze(-1), rows.unsqueeze(-2)).sum(-1)
        is_frequent = ops.eq(n_equal, n_equal.amax(-1, keepdim=True))
        least = ops.where(is_frequent, rows, float("inf")).amin(-1, keepdim=True)
        steps = ops.arange(rows._type.shape[-1]) + 1
        place = ops.where(ops.eq(rows, least), steps, 0).argmax(-1, keepdim=True).movedim(-1, dim[0])
        return place if keepdim else place.squeeze(dim[0])


# ---- functions


@numpy_method
def argsort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False, out: Tensor | None = None
) -> Tensor:
    """The indices that sort `input` along `dim`; equal elements always keep their order.

    >>> ex.argsort(ex.tensor([3.0, 1.0, 2.0]))
    tensor([1, 2, 0])
    """
    return ops.deliver(along(Argsort, input, dim, {"descending": bool(descending)}), out)


@numpy_method
def sort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False, out: Any = None
) -> ValuesIndices:
    """The elements in ascending order along `dim` (`.values`), and where each was (`.indices`).

    >>> ex.sort(ex.tensor([3.0, 1.0, 2.0]))
    ValuesIndices(values=tensor([1., 2., 3.]), indices=tensor([1, 2, 0]))
    """
    indices = argsort(input, dim, descending)
    return deliver_both(ops.gather(input, dim, indices), indices, out)


def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements in ascending order along the first dimension.

    >>> ex.msort(ex.tensor([[3, 1], [2, 4]]))
    tensor([[2, 1],
            [3, 4]])
    """
    return ops.deliver(sort(input, 0).values, out)


method(msort)


@numpy_method
def topk(
    input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *, out: Any = None
) -> ValuesIndices:
    """The k largest (or smallest) elements along `dim`, best first (`.values`), and where they were (`.indices`).

    >>> ex.topk(ex.tensor([3.0, 1.0, 2.0]), 2)
    ValuesIndices(values=tensor([3., 2.]), indices=tensor([0, 2]))
    """
    indices = along(Topk, input, dim, {"k": k.__index__(), "largest": largest})
    return deliver_both(ops.gather(input, dim, indices), indices, out)


@numpy_method
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> ValuesIndices:
    """The k-th smallest element along `dim` (`.values`, k counts from 1), and where it was (`.indices`).

    >>> ex.kthvalue(ex.tensor([3.0, 1.0, 2.0]), 2)
    ValuesIndices(values=tensor(2.), indices=tensor(2))
    """
    d = normalize_dim(dim, input.ndim, "kthvalue")
    size = input.shape[d] if input.ndim else 1
    if input.is_nested:
        from ..ragged_tensors.rowwise import check_kth

        check_kth(input, k, d)
    elif not 1 <= k <= size:
        raise IndexRangeError(
            f"kthvalue: k is {k}, but dim {dim} of shape {tuple(input.shape)} has {counted(size, 'element')}; "
            "k counts from 1"
        )
    for target in out or ():
        ops.refuse_shared("kthvalue", target, input)
    return chosen(Kthvalue, input, dim, keepdim, out, k)


def _median(op: type[Choice], place: type[Place], input: Tensor, dim: int | None, keepdim: bool, out: Any) -> Any:
    if dim is not None:
        return chosen(place, input, dim, keepdim, out)
    if not input.numel() and input.is_floating_point():
        return ops.deliver(input.sum() + float("nan"), out)  # a sum of nothing, for its history
    everything = tuple(range(input.ndim))
    check_not_empty(op.name, input._type, everything)
    return ops.deliver(apply(op, (input,), {"dim": everything, "keepdim": False}), out)


@overload
def median(input: Tensor, dim: None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def median(input: Tensor, dim: int, keepdim: bool = False, *, out: Any = None) -> ValuesIndices: ...
@numpy_method
def median(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The median of all elements, or along `dim` with its index; the lower one of an even number, NaN if any is.

    >>> ex.median(ex.tensor([3.0, 1.0, 2.0, 9.0]))
    tensor(2.)
    """
    return _median(Median, MedianPlace, input, dim, keepdim, out)


@overload
def nanmedian(input: Tensor, dim: None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def nanmedian(input: Tensor, dim: int, keepdim: bool = False, *, out: Any = None) -> ValuesIndices: ...
@numpy_method
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The median of the elements that are no NaN, of all or along `dim` with its index.

    >>> ex.nanmedian(ex.tensor([3.0, ex.nan, 1.0, 2.0]))
    tensor(2.)
    """
    return _median(Nanmedian, NanmedianPlace, input, dim, keepdim, out)


@numpy_method
def mode(input: Tensor, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> ValuesIndices:
    """The most frequent element along `dim` (`.values`), the smallest of equally frequent ones, and its last index.

    >>> ex.mode(ex.tensor([1, 2, 2, 3]))
    ValuesIndices(values=tensor(2), indices=tensor(2))
    """
    return chosen(Mode, input, dim, keepdim, out)
