"""Views that are no stretch of their value (a transpose, every second row, a flip), and pads, of values of any size.

Rows are copied, and the gradient of a view is put where the view had its elements from. A pad is the reverse: its input
is a view of its result. What is copied is a row of numbers for each call, so that native code does it for all calls at
once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...backends import selection
from ...core.op import Op
from ...core.storage import Array
from ...core.strides import row_major_strides
from ...core.tensor import Tensor
from ...core.types import TensorType
from ...ops.arrange import Flip
from ...ops.view import Diagonal, Permute, Slice
from ..gradients import Group, Layout
from ..op_kinds import OpKind
from .forms import SizedBatch

_OPS = (Permute, Slice, Diagonal, Flip)  # of which no view has an element twice
_DIMS = 4  # that views have at most; native code knows it as well


class ViewForm(NamedTuple):
    """A view of the one input. Everything counts elements."""

    op: type[Op]
    dtype: Any
    tracked: tuple[bool, bool]  # whether the input and the result want a gradient
    start: int  # of the view, in its value
    sizes: tuple[int, ...]  # `_DIMS` of them
    steps: tuple[int, ...]  # from one element to the next, for each
    n_whole: int
    n_seen: int

    @property
    def family(self) -> Any:
        return self[:3]

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        forms = [one.form for one in batch.kinds]
        of_inputs = np.array([form.n_whole for form in forms], np.int64)
        of_results = np.array([form.n_seen for form in forms], np.int64)
        dtype = batch.kind.results[0].dtype
        whole = batch.pieces(0, of_inputs, TensorType((), dtype))
        starts = beginnings(of_inputs) + np.array([form.start for form in forms], np.int64)
        words = table_of([(form.sizes, form.steps) for form in forms], starts, of_results)
        made = np.empty(int(of_results.sum()), dtype.numpy)
        copy_views(whole, made, words, False)
        batch.leave(0, of_results, made)
        return batch.group(_RUNNER, (words, int(of_inputs.sum())), of_results, [Layout(of_inputs)])


def view_form(kind: OpKind) -> ViewForm | None:
    if kind.op not in _OPS or len(kind.inputs) != 1:
        return None
    t = kind.inputs[0].type
    whole = np.empty(t.shape, t.dtype.numpy)  # never written, so it takes no memory
    if kind.op is Flip:
        view = np.flip(whole, kind.attrs["dims"])
    else:
        view = kind.op.numpy(whole, *[slot[0] for slot in kind.slots[1:] if slot is not None], **kind.attrs)
    if any(step % view.itemsize for step in view.strides):
        return None
    first = view.__array_interface__["data"][0] - whole.__array_interface__["data"][0] if view.size else 0
    form = words_of(view.shape, [step // view.itemsize for step in view.strides])
    if form is None:
        return None
    tracked = kind.inputs[0].tracked, kind.tracked[0]
    return ViewForm(kind.op, t.dtype, tracked, first // view.itemsize, *form, t.numel(), view.size)


Words = tuple[tuple[int, ...], tuple[int, ...]]  # sizes and steps, `_DIMS` of each


def words_of(shape: Sequence[int], steps: Sequence[int]) -> Words | None:
    """Sizes and steps of a view as native code takes them; None if they are too many."""
    sizes: list[int] = []
    strides: list[int] = []
    for size, step in zip(shape, steps, strict=True):
        if size == 1:
            continue
        if sizes and strides[-1] == step * size:  # the one before goes on where this one ends
            sizes[-1], strides[-1] = sizes[-1] * size, step
        else:
            sizes.append(size)
            strides.append(step)
    n_left = _DIMS - len(sizes)
    return None if n_left < 0 else ((1,) * n_left + tuple(sizes), (0,) * n_left + tuple(strides))


def ordered(shape: Sequence[int], order: Sequence[int]) -> Words | None:
    """A row-major array with its dimensions in another order, as a view."""
    steps = row_major_strides(tuple(shape))
    return words_of([shape[d] for d in order], [steps[d] for d in order])


def table_of(words: Sequence[Words], starts: Array, counts: Array) -> Array:
    """What `copy_views` takes: views that begin at these places, and pieces of so many elements end to end."""
    table = np.array([(0, 0, *sizes, *steps) for sizes, steps in words], np.int64)
    table[:, 0] = starts
    table[:, 1] = beginnings(counts)
    return table


def beginnings(counts: Array) -> Array:
    """Where pieces of so many elements begin, end to end."""
    starts: Array = np.cumsum(counts) - counts
    return starts


def copy_views(strided: Array, dense: Array, words: Array, back: bool) -> None:
    """Copy views of one array to pieces of another, or, `back`, those pieces into the views.

    A row of `words` for each: first element of the view, first element of the piece, sizes, steps of the view.
    """
    native = selection.native()
    if native is not None and native.rows().copy_views(strided, dense, words, strided.itemsize, int(back)):
        return
    for start, place, *rest in words.tolist():
        sizes, steps = rest[:_DIMS], [step * strided.itemsize for step in rest[_DIMS:]]
        view = np.lib.stride_tricks.as_strided(strided[start:], sizes, steps)
        piece = dense[place : place + view.size].reshape(sizes)
        if back:
            view[...] = piece
        else:
            piece[...] = view


def pieces_of(array: Array, counts: Array) -> list[Array]:
    """An array in pieces of so many elements."""
    ends = np.cumsum(counts).tolist()
    return [array[end - n : end] for n, end in zip(counts.tolist(), ends, strict=True)]


class PadForm(NamedTuple):
    """An input with more around it. Everything counts elements."""

    dtype: Any
    tracked: bool
    value: Any  # of what is around it
    start: int  # of the input, in the result
    words: Words
    n_whole: int  # of the result

    @property
    def family(self) -> Any:
        return self[:2]

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        forms = [one.form for one in batch.kinds]
        of_inputs = np.array([one.inputs[0].type.numel() for one in batch.kinds], np.int64)
        of_results = np.array([form.n_whole for form in forms], np.int64)
        dtype = batch.kind.results[0].dtype
        starts = beginnings(of_results) + np.array([form.start for form in forms], np.int64)
        words = table_of([form.words for form in forms], starts, of_inputs)
        made = np.repeat(np.array([form.value for form in forms], dtype.numpy), of_results)
        copy_views(made, batch.pieces(0, of_inputs, TensorType((), dtype)), words, True)
        batch.leave(0, of_results, made)
        return batch.group(_PAD_RUNNER, (words, int(of_inputs.sum())), of_results, [Layout(of_inputs)])


def pad_form(kind: OpKind) -> PadForm | None:
    widths, (_, value) = kind.attrs["widths"], kind.slots
    if value is None or len(kind.inputs) != 1 or any(w < 0 for pair in widths for w in pair):
        return None
    i, whole = kind.inputs[0], kind.results[0]
    steps = row_major_strides(whole.shape)
    words = words_of(i.type.shape, steps)
    start = sum([before * step for (before, _), step in zip(widths, steps, strict=True)])
    return None if words is None else PadForm(whole.dtype, i.tracked, value[0], start, words, whole.numel())


class _CopyRunner:
    """Gradients of copies between values and views of them."""

    def __init__(self, is_view: bool) -> None:
        self._is_view = is_view  # of the input; a pad has its input as a view of the result

    def backward(self, saved: Any, gradients: list[Array | None]) -> tuple[list[Array | None], Any]:
        words, n_elements = saved
        (g,) = gradients
        assert g is not None  # a batch without gradients is passed over
        flat = np.ascontiguousarray(g).reshape(-1)
        made = np.zeros(n_elements, g.dtype) if self._is_view else np.empty(n_elements, g.dtype)
        whole, view = (made, flat) if self._is_view else (flat, made)
        copy_views(whole, view, words, self._is_view)
        return [made], []

    def finish(self, deferred: list[Any]) -> list[tuple[Tensor, Array]]:
        return []


_RUNNER, _PAD_RUNNER = _CopyRunner(is_view=True), _CopyRunner(is_view=False)
