"""Views that are no stretch of their value (a transpose, every second row), of values of any size: rows are copied.

The gradient of a view is put where the view had its elements from. What is copied is a row of numbers for each call,
so that native code does it for all calls at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...backends import selection
from ...core.op import Op
from ...core.storage import Array
from ...core.tensor import Tensor
from ...core.types import TensorType
from ...ops.view import Diagonal, Permute, Slice
from ..gradients import Group, Layout
from ..op_kinds import OpKind
from .forms import SizedBatch

_OPS = (Permute, Slice, Diagonal)  # of which no view has an element twice
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
        words = np.array([(form.start, 0, *form.sizes, *form.steps) for form in forms], np.int64)
        words[:, 0] += np.cumsum(of_inputs) - of_inputs
        words[:, 1] = np.cumsum(of_results) - of_results
        made = np.empty(int(of_results.sum()), dtype.numpy)
        copy_views(whole, made, words, False)
        batch.leave(0, of_results, made)
        return batch.group(_RUNNER, (words, int(of_inputs.sum())), of_results, [Layout(of_inputs)])


def view_form(kind: OpKind) -> ViewForm | None:
    if kind.op not in _OPS or len(kind.inputs) != 1:
        return None
    t = kind.inputs[0].type
    whole = np.empty(t.shape, t.dtype.numpy)  # never written, so it takes no memory
    view = kind.op.numpy(whole, *[slot[0] for slot in kind.slots[1:] if slot is not None], **kind.attrs)
    if view.ndim > _DIMS or any(step % view.itemsize for step in view.strides):
        return None
    first = view.__array_interface__["data"][0] - whole.__array_interface__["data"][0] if view.size else 0
    ones = (1,) * (_DIMS - view.ndim)
    steps = (0,) * (_DIMS - view.ndim) + tuple([step // view.itemsize for step in view.strides])
    tracked = kind.inputs[0].tracked, kind.tracked[0]
    start = first // view.itemsize
    return ViewForm(kind.op, t.dtype, tracked, start, (*ones, *view.shape), steps, t.numel(), view.size)


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


class _ViewRunner:
    """Gradients of views."""

    def backward(self, saved: Any, gradients: list[Array | None]) -> tuple[list[Array | None], Any]:
        words, n_elements = saved
        (g,) = gradients
        assert g is not None  # a batch without gradients is passed over
        made = np.zeros(n_elements, g.dtype)
        copy_views(made, np.ascontiguousarray(g).reshape(-1), words, True)
        return [made], []

    def finish(self, deferred: list[Any]) -> list[tuple[Tensor, Array]]:
        return []


_RUNNER = _ViewRunner()
