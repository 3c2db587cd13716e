"""Functions of rows that stand end to end in one tensor (segments): what ragged tensors run along their rows.

Values are (elements, ...); row i is the elements from offsets[i] to offsets[i + 1], and `row_of` has for each element
the number of its row. Both are inputs, never attributes: a call with other lengths is the same call. Every row is
computed by itself, so what is not finite in one never reaches another. Rows without elements sum to 0, and their
extremes are what any element would replace; who has no use for that must ask first.

`Offsets` are trusted: they begin with 0, never decrease, and end with the number of elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .. import ops
from ..core.op import GRADIENTS_ONLY, REGISTRY, Decomposed, Op, Refuse, Rng, Routine, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import InputType, TensorType, int64
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, IndexRangeError, UnsupportedError
from .reduce import sum_dtype, wide
from .scan import best_so_far
from .softmaxes import LogSoftmax, LogSoftmaxBackward, Softmax, SoftmaxBackward

if TYPE_CHECKING:
    from ..ragged_tensors.rows import Rows

__all__: list[str] = []


def _result(x: TensorType, offsets: TensorType) -> TensorType:
    """One element for each row."""
    return TensorType((offsets.shape[0] - 1, *x.shape[1:]), x.dtype)


def _pieces(x: Array, offsets: Array) -> Iterator[Array]:
    ends = offsets.tolist()
    return (x[start:stop] for start, stop in pairwise(ends))


def _reduced(x: Array, offsets: Array, dtype: Any, fn: Callable[[Array], Any]) -> Array:
    """fn of each row, which has no dimension 0 any more."""
    out = np.empty((offsets.size - 1, *x.shape[1:]), dtype)
    for i, row in enumerate(_pieces(x, offsets)):
        out[i] = fn(row)
    return out


def _mapped(x: Array, offsets: Array, dtype: Any, fn: Callable[..., Array], *others: Array) -> Array:
    """fn of each row, which keeps its shape."""
    out = np.empty(x.shape, dtype)
    for target, *rows in zip(*(_pieces(a, offsets) for a in (out, x, *others)), strict=True):
        target[...] = fn(*rows)
    return out


def _rows(*lengths: int) -> tuple[Array, Array]:
    """offsets and row_of."""
    return np.cumsum([0, *lengths]), np.repeat(np.arange(len(lengths)), lengths)


def _samples(rng: Rng, n_values: int = 1, empty: bool = True) -> Iterator[Sample]:
    lengths: tuple[int, ...]
    for shape, lengths in (((6,), (2, 1, 3)), ((21, 3), (1, 20)), ((4, 2, 1), (4,)), ((9,), (0, 9, 0))):
        if empty or 0 not in lengths:
            yield Sample(*(rng.normal(size=shape) for _ in range(n_values)), *_rows(*lengths))
    if empty:
        yield Sample(*(np.empty((0, 2)) for _ in range(n_values)), *_rows(0, 0))
        yield Sample(*(np.empty((0,)) for _ in range(n_values)), *_rows())


class _Segments(Op, abstract=True):
    """A function of each row."""

    family = "segments"
    batch: ClassVar[Any] = Refuse("looped over samples: the rows of each have lengths of their own")
    ragged: ClassVar[Any] = Refuse("it gets rows as one tensor and their offsets")


# ---- sums


def row_count(offsets: Tensor) -> int:
    """How many rows there are."""
    return offsets._type.shape[0] - 1


# In other ops, for exports, which know no rows.


def _row_sums(x: Tensor, offsets: Tensor, row_of: Tensor) -> Tensor:
    return ops.zeros((row_count(offsets), *x._type.shape[1:]), dtype=x.dtype).index_add(0, row_of, x)


def _row_extremes(x: Tensor, offsets: Tensor, row_of: Tensor, reduce: str) -> Tensor:
    limit = _limit(x.dtype.numpy, largest=reduce == "amin")
    start = ops.full((row_count(offsets), *x._type.shape[1:]), limit, dtype=x.dtype)
    index = row_of.reshape(-1, *(1,) * (x.ndim - 1)).expand(x._type.shape)
    return ops.scatter_reduce(start, 0, index, x, reduce, include_self=True)


def _below_row_tops(x: Tensor, offsets: Tensor, row_of: Tensor) -> Tensor:
    tops = _row_extremes(x, offsets, row_of, "amax")
    return x - ops.where(ops.isinf(tops), 0.0, tops).index_select(0, row_of)


class SegmentSum(_Segments):
    """The sum of each row; integers and bools give int64."""

    saves = ("offsets row_of", "", "")
    lower = Routine("segment_sum")
    vjp = staticmethod(lambda g, y, x, offsets, row_of: (segment_spread(g, offsets, row_of), None, None))

    @staticmethod
    def infer(x: TensorType, offsets: TensorType, row_of: TensorType) -> TensorType:
        return TensorType(_result(x, offsets).shape, x.dtype if x.dtype.is_floating_point else int64)

    @staticmethod
    def numpy(x: Array, offsets: Array, row_of: Array) -> Array:
        dtype = sum_dtype(x) or x.dtype
        return _reduced(x, offsets, dtype, lambda row: np.add.reduce(row, axis=0, dtype=dtype))

    samples = staticmethod(_samples)

    @Decomposed
    def onnx(x: Tensor, offsets: Tensor, row_of: Tensor) -> Tensor:
        return _row_sums(x if x.is_floating_point() else x.long(), offsets, row_of)


class SegmentSpread(_Segments):
    """For each element what belongs to its row: the transpose of `SegmentSum`."""

    quiet = True
    saves = ("offsets row_of", "", "")
    lower = Routine("segment_spread")
    infer = staticmethod(lambda t, offsets, row_of: TensorType((row_of.shape[0], *t.shape[1:]), t.dtype))
    numpy = staticmethod(lambda t, offsets, row_of: t.take(row_of, axis=0))
    vjp = staticmethod(lambda g, y, t, offsets, row_of: (segment_sum(g, offsets, row_of), None, None))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for sample in _samples(rng):
            x, offsets, row_of = sample.inputs
            yield Sample(rng.normal(size=(offsets.size - 1, *x.shape[1:])), offsets, row_of)

    onnx = staticmethod(lambda b, t, offsets, row_of: b.Gather(t, row_of, axis=0))


def _dots(x: Array, y: Array) -> Array:
    """The products of vectors, one by one; NumPy's sum of products does not know bfloat16."""
    wide = sum_dtype(x) or x.dtype
    dots: Array = np.einsum("ij,ij->i", x.astype(wide, copy=False), y.astype(wide, copy=False))
    return dots.astype(x.dtype, copy=False)


class SegmentDot(_Segments):
    """The product of each element, a vector, with the one of its row, which is not spread out for backward."""

    saves = ("x t offsets row_of",) * 2 + ("", "")
    lower = Refuse("NumPy's sum of products is one pass")
    infer = staticmethod(lambda x, t, offsets, row_of: TensorType(x.shape[:1], x.dtype))
    numpy = staticmethod(lambda x, t, offsets, row_of: _dots(x, t.take(row_of, axis=0)))

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Tensor, t: Tensor, offsets: Tensor, row_of: Tensor) -> tuple[Any, ...]:
        g = g.unsqueeze(-1)
        return g * segment_spread(t, offsets, row_of), segment_sum(g * x, offsets, row_of), None, None

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for lengths in ((2, 1, 3), (0, 4), ()):
            offsets, row_of = _rows(*lengths)
            yield Sample(rng.normal(size=(len(row_of), 3)), rng.normal(size=(len(lengths), 3)), offsets, row_of)

    onnx = Decomposed(lambda x, t, offsets, row_of: (x * t.index_select(0, row_of)).sum(-1))


def segment_dot(x: Tensor, t: Tensor, offsets: Tensor, row_of: Tensor) -> Tensor:
    """The product of each element, a vector, with the one of its row."""
    products: Tensor = apply(SegmentDot, (x, t, offsets, row_of))
    return products


def segment_sum(x: Tensor, offsets: Tensor, row_of: Tensor) -> Tensor:
    """The sum of each row."""
    total: Tensor = apply(SegmentSum, (x, offsets, row_of))
    return total


def segment_spread(t: Tensor, offsets: Tensor, row_of: Tensor) -> Tensor:
    """For each element what belongs to its row."""
    spread: Tensor = apply(SegmentSpread, (t, offsets, row_of))
    return spread


# ---- extremes


def _limit(d: np.dtype[Any], largest: bool) -> Any:
    if d.kind == "b":
        return largest
    if d.kind in "iu":
        return np.iinfo(d).max if largest else np.iinfo(d).min
    return np.inf if largest else -np.inf


class _SegmentExtreme(_Segments, abstract=True):
    """The extreme of each row; elements that equal it share the gradient."""

    saves = ("y x offsets row_of", "", "")
    quiet = True
    infer = staticmethod(lambda x, offsets, row_of: _result(x, offsets))
    samples = staticmethod(lambda rng: _samples(rng, empty=False))

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor, offsets: Tensor, row_of: Tensor) -> tuple[Any, ...]:
        best = segment_spread(y, offsets, row_of)
        # NaN wins, and is not equal to itself.
        share = ops.logical_or(ops.eq(best, x), ops.logical_and(ops.isnan(best), ops.isnan(x))).to(g.dtype)
        each = g / segment_sum(share, offsets, row_of)
        return segment_spread(each, offsets, row_of) * share, None, None


class SegmentAmax(_SegmentExtreme):
    """The largest element of each row."""

    lower = Routine("segment_amax")

    @staticmethod
    def numpy(x: Array, offsets: Array, row_of: Array) -> Array:
        x = np.asarray(x, wide(x))
        return _reduced(x, offsets, x.dtype, lambda row: np.max(row, axis=0, initial=_limit(x.dtype, largest=False)))

    onnx = Decomposed(lambda x, offsets, row_of: _row_extremes(x, offsets, row_of, "amax"))


class SegmentAmin(_SegmentExtreme):
    """The smallest element of each row."""

    lower = Routine("segment_amin")

    @staticmethod
    def numpy(x: Array, offsets: Array, row_of: Array) -> Array:
        x = np.asarray(x, wide(x))
        return _reduced(x, offsets, x.dtype, lambda row: np.min(row, axis=0, initial=_limit(x.dtype, largest=True)))

    onnx = Decomposed(lambda x, offsets, row_of: _row_extremes(x, offsets, row_of, "amin"))


# ---- places


_KEEPING = ("argsort", "cummax", "cummin")  # ops that find a place for each element


class SegmentPlaces(_Segments):
    """What an op that finds places (argmax, argsort, topk, ...) finds in each row, counted from the row's beginning.

    `op` is its name, `attrs` are its attributes without `dim` and `keepdim`. No row may be too short for it.
    """

    vjp = Refuse("an index is piecewise constant")
    saves = ("",)
    quiet = True
    lower = Routine("segment_places")

    @staticmethod
    def infer(x: TensorType, offsets: TensorType, *numbers: InputType, op: str, attrs: Any) -> TensorType:
        if op in _KEEPING:
            return TensorType(x.shape, int64)
        n_found = (dict(attrs)["k"],) if op == "topk" else ()
        return TensorType((offsets.shape[0] - 1, *n_found, *x.shape[1:]), int64)

    @staticmethod
    def numpy(x: Array, offsets: Array, *numbers: Any, op: str, attrs: Any) -> Array:
        kernel, found = REGISTRY[op].numpy, dict(attrs)
        if op in _KEEPING:
            return _mapped(x, offsets, np.int64, lambda row: kernel(row, *numbers, dim=0, **found))
        dim = {"dim": 0} if op == "topk" else {"dim": (0,), "keepdim": False}
        rows = [kernel(row, *numbers, **dim, **found) for row in _pieces(x, offsets)]
        shape = (len(rows), *((found["k"],) if op == "topk" else ()), *x.shape[1:])
        return np.stack(rows) if rows else np.empty(shape, np.int64)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for op in ("argmax", "argmin"):
            for sample in _samples(rng, empty=False):
                yield Sample(*sample.inputs[:2], op=op, attrs=())
        x, offsets = rng.normal(size=(6, 2)), np.array([0, 2, 6])
        yield Sample(np.array([1.0, 3.0, np.nan, 5.0, 3.0, 3.0]), offsets, op="argmax", attrs=())
        yield Sample(x, offsets, op="argsort", attrs=(("descending", True),))
        yield Sample(x, offsets, op="cummax", attrs=())
        yield Sample(x, offsets, op="topk", attrs=(("k", 2), ("largest", True)))
        yield Sample(x, offsets, 2, op="kthvalue", attrs=())

    @Decomposed
    def onnx(flow: Any, x: Tensor, offsets: Tensor, *numbers: Any, op: str, attrs: Any) -> Tensor:
        """By a sort of all elements, then a stable one of their rows."""
        found = dict(attrs)
        descending = bool(found.get("descending", op == "argmax" or found.get("largest", False)))
        n_rows = row_count(offsets)
        row_of = ops.le(offsets.narrow(0, 1, n_rows), ops.arange(x._type.shape[0]).unsqueeze(1)).sum(1)
        starts = offsets.narrow(0, 0, n_rows)
        beside = (-1, *(1,) * (x.ndim - 1))
        before = starts.index_select(0, row_of).reshape(beside)
        if op in ("cummax", "cummin"):
            is_first = ops.eq(before.flatten(), ops.arange(x._type.shape[0]))
            return best_so_far(flow, "ge" if op == "cummax" else "le", x, 0, is_first) - before
        if op not in ("argmax", "argmin", "argsort", "topk", "kthvalue"):
            raise UnsupportedError(f"{op} of each row is not among what is exported")
        order = ops.argsort(x, 0, descending=descending)
        order = order.gather(0, ops.argsort(row_of.index_select(0, order.flatten()).reshape(order._type.shape), 0))
        if op == "argsort":
            return order - before
        if op == "topk":
            places = starts.unsqueeze(1) + ops.arange(found["k"])
            picked = order.index_select(0, places.flatten()).unflatten(0, (n_rows, found["k"]))
            return picked - starts.reshape(-1, *(1,) * x.ndim)
        return order.index_select(0, starts + (numbers[0] - 1 if op == "kthvalue" else 0)) - starts.reshape(beside)


def segment_places(op: str, rows: Rows, x: Tensor, *numbers: Any, **attrs: Any) -> Tensor:
    """What the op of that name finds in each row."""
    inputs = (x, rows.offsets_tensor, *numbers)
    found: Tensor = apply(SegmentPlaces, inputs, {"op": op, "attrs": tuple(attrs.items())})
    return found


class SegmentIndex(_Segments):
    """Places in rows as places among the values: start + index, which must lie below the length of its row."""

    vjp = Refuse("an index is piecewise constant")
    saves = ("",)
    quiet = True

    @staticmethod
    def infer(index: TensorType, starts: TensorType, lengths: TensorType, *, op: str) -> TensorType:
        if index.dtype.category != 1:
            raise DtypeError(f"{op}: expected integers as index, got {index.dtype}; use x.long()")
        return TensorType(index.shape, int64)

    @staticmethod
    def numpy(index: Array, starts: Array, lengths: Array, *, op: str) -> Array:
        beside = (-1, *(1,) * (index.ndim - 1))
        outside = (index < 0) | (index >= lengths.reshape(beside))
        if outside.any():
            at = tuple(np.argwhere(outside)[0])
            raise IndexRangeError(f"{op}: index {index[at]} is out of range for a row of length {lengths[at[0]]}")
        return index + starts.reshape(beside)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(np.array([[0, 1], [2, 0]]), np.array([0, 2]), np.array([2, 3]), op="gather")
        yield Sample(np.empty((0, 2), np.int64), np.empty(0, np.int64), np.empty(0, np.int64), op="gather")

    @Decomposed
    def onnx(index: Tensor, starts: Tensor, lengths: Tensor, *, op: str) -> Tensor:
        return index + starts.reshape(starts._type.shape[0], *(1,) * (index.ndim - 1))


# ---- softmax


class _SegmentNormalised(_Segments, abstract=True):
    """A function of each row that keeps its shape; only the result is saved."""

    saves = ("y offsets row_of", "", "")
    regular: ClassVar[type[Op]]

    @classmethod
    def infer(cls, x: TensorType, offsets: TensorType, row_of: TensorType) -> TensorType:
        found: TensorType = cls.regular.infer(x, dim=0)
        return found

    @classmethod
    def numpy(cls, x: Array, offsets: Array, row_of: Array) -> Array:
        return _mapped(x, offsets, wide(x) or x.dtype, lambda row: cls.regular.numpy(row, dim=0))

    samples = staticmethod(_samples)


class SegmentSoftmax(_SegmentNormalised):
    """exp(x) / sum(exp(x)) over each row."""

    regular = Softmax
    lower = Routine("segment_softmax")

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Any, offsets: Tensor, row_of: Tensor) -> tuple[Any, ...]:
        return apply(SegmentSoftmaxBackward, (g, y, offsets, row_of)), None, None

    @Decomposed
    def onnx(x: Tensor, offsets: Tensor, row_of: Tensor) -> Tensor:
        grown = ops.exp(_below_row_tops(x, offsets, row_of))
        return grown / _row_sums(grown, offsets, row_of).index_select(0, row_of)


class SegmentLogSoftmax(_SegmentNormalised):
    """log(softmax(x)) over each row."""

    regular = LogSoftmax
    lower = Routine("segment_log_softmax")

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Any, offsets: Tensor, row_of: Tensor) -> tuple[Any, ...]:
        return apply(SegmentLogSoftmaxBackward, (g, y, offsets, row_of)), None, None

    @Decomposed
    def onnx(x: Tensor, offsets: Tensor, row_of: Tensor) -> Tensor:
        below = _below_row_tops(x, offsets, row_of)
        return below - ops.log(_row_sums(ops.exp(below), offsets, row_of)).index_select(0, row_of)


def _total(x: Tensor, offsets: Tensor, row_of: Tensor) -> Tensor:
    """The sum of its row, for each element."""
    return segment_spread(segment_sum(x, offsets, row_of), offsets, row_of)


class _SegmentNormalisedBackward(_Segments, abstract=True):
    """The gradient of a function of each row, from the cotangent g of its result y and that result."""

    saves = ("y offsets row_of", "g y offsets row_of", "", "")
    regular: ClassVar[type[Op]]
    infer = staticmethod(lambda g, y, offsets, row_of: y)
    samples = staticmethod(lambda rng: _samples(rng, 2))

    @classmethod
    def numpy(cls, g: Array, y: Array, offsets: Array, row_of: Array) -> Array:
        dtype = wide(y) or y.dtype
        return _mapped(g, offsets, dtype, lambda of_g, of_y: cls.regular.numpy(of_g, of_y, dim=0), y)

    onnx = GRADIENTS_ONLY


class SegmentSoftmaxBackward(_SegmentNormalisedBackward):
    """(g - sum(g * y)) * y over each row: the gradient of softmax from its result y."""

    regular = SoftmaxBackward
    lower = Routine("segment_softmax_backward")

    @staticmethod
    def vjp(h: Tensor, _: Any, g: Any, y: Tensor, offsets: Tensor, row_of: Tensor) -> tuple[Any, ...]:
        def into_y() -> Tensor:
            return h * (g - _total(g * y, offsets, row_of)) - g * _total(h * y, offsets, row_of)

        return apply(SegmentSoftmaxBackward, (h, y, offsets, row_of)), into_y, None, None


class SegmentLogSoftmaxBackward(_SegmentNormalisedBackward):
    """g - exp(y) * sum(g) over each row: the gradient of log_softmax from its result y."""

    regular = LogSoftmaxBackward
    lower = Routine("segment_log_softmax_backward")

    @staticmethod
    def vjp(h: Tensor, _: Any, g: Any, y: Tensor, offsets: Tensor, row_of: Tensor) -> tuple[Any, ...]:
        return (
            h - _total(h * ops.exp(y), offsets, row_of),
            lambda: -h * ops.exp(y) * _total(g, offsets, row_of),
            None,
            None,
        )


# ---- running sums


class SegmentCumsum(_Segments):
    """The running sum over each row; integers and bools give int64. With `reverse`, from the last element on."""

    saves = ("offsets row_of", "", "")
    lower = Routine("segment_cumsum")

    @staticmethod
    def infer(x: TensorType, offsets: TensorType, row_of: TensorType, *, reverse: bool) -> TensorType:
        return TensorType(x.shape, x.dtype if x.dtype.is_floating_point else int64)

    @staticmethod
    def numpy(x: Array, offsets: Array, row_of: Array, *, reverse: bool) -> Array:
        kernel, dtype = REGISTRY["cumsum"].numpy, sum_dtype(x) or x.dtype
        return _mapped(x, offsets, dtype, lambda row: kernel(row, dim=0, reverse=reverse))

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, offsets: Tensor, row_of: Tensor, *, reverse: bool) -> tuple[Any, ...]:
        return apply(SegmentCumsum, (g, offsets, row_of), {"reverse": not reverse}), None, None

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for reverse in (False, True):
            for sample in _samples(rng):
                yield Sample(*sample.inputs, reverse=reverse)

    @Decomposed
    def onnx(x: Tensor, offsets: Tensor, row_of: Tensor, *, reverse: bool) -> Tensor:
        x = x if x.is_floating_point() else x.long()
        running = ops.cumsum(x, 0)
        before = ops.cat([ops.zeros((1, *x._type.shape[1:]), dtype=x.dtype), running]).index_select(0, offsets)
        running = running - before.index_select(0, row_of)
        if not reverse:
            return running
        totals = before.narrow(0, 1, row_count(offsets)) - before.narrow(0, 0, row_count(offsets))
        return totals.index_select(0, row_of) - running + x
