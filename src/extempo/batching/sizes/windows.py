"""Convolution and pooling of sequences and images of a call's own size: all of them on one canvas.

Each lies there in a block of its own, with the padding that its op asks for, one block below the other. The op runs
once on the canvas, without padding; what windows across two blocks give is left out, and gets no gradient. Images are
put on a few canvases, by their width; large ones on one of their own. Blocks begin at multiples of the stride, so that
windows begin with them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...autograd.api import grad
from ...core.op import Op
from ...core.storage import Array
from ...core.tensor import Tensor, wrap
from ...core.types import TensorType
from ...dispatch.dispatcher import apply
from ...ops.averages import divisors_of
from ..gradients import Group, Layout
from ..op_kinds import OpKind
from ..vmap_runner import totals_of
from .forms import SizedBatch, numels
from .tape import on_tape, recorded
from .views import beginnings, copy_views

_DIMS = 2  # of space, at most
_LARGE = 1 << 20  # products of a call, from which on it has a canvas of its own: more would be wasted than saved
_BITS = 4  # that a size of a canvas has, before zeros
_NARROWEST = 0.6  # of the width of a canvas, from which on an image is put there


class WindowForm(NamedTuple):
    """A convolution or pooling over the last dimensions of the first input; the others are the same for all calls."""

    op: type[Op]
    attrs: tuple[tuple[str, Any], ...]  # but for how many windows there are
    inputs: tuple[Any, ...]  # dtype and whether it wants a gradient; of the others their types
    slots: tuple[Any, ...]  # of weights and numbers that are part of the kind; of operands None
    kernel: tuple[int, ...]
    n_channels: tuple[int, int]  # of the input and the result
    n_blocks: int
    sizes: tuple[int, ...]
    counts: tuple[int, ...]  # of windows; of a transposed convolution, of the elements that they give

    @property
    def family(self) -> Any:
        return self[:6]

    def large_columns(self) -> list[int]:
        """Inputs that must be the same tensors in all calls."""
        return list(range(1, len(self.inputs)))

    def n_products(self) -> int:
        n_in, n_out = self.n_channels
        n_each = n_in // dict(self.attrs)["groups"] if self.op.name in (_CONV, _TRANSPOSED) else 1
        return self.n_blocks * n_out * n_each * math.prod(self.kernel) * math.prod(self.counts)

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        forms = [one.form for one in batch.kinds]
        op, others, inputs, *_ = batch.kind.family
        (dtype, tracked), wants_grad = inputs[0], any(batch.kind.tracked)
        of_inputs = numels([one.inputs[0].type.shape for one in batch.kinds])
        of_results = numels([one.results[0].shape for one in batch.kinds])
        given = batch.pieces(0, of_inputs, TensorType((), dtype)).reshape(-1)
        shared = [
            on_tape(batch.whole(0, j), t and wants_grad) for j, (_, t) in enumerate(inputs) if j
        ]  # fmt: skip
        divisors = _divisors(batch) if op.name == _MEAN else None
        made = [np.empty(int(of_results.sum()), t.dtype.numpy) for t in batch.kind.results]
        runs = []
        for canvas in _canvases(op, dict(others), forms, beginnings(of_inputs), beginnings(of_results)):
            x = on_tape(canvas.filled(given), tracked and wants_grad)
            inside = recorded(wants_grad, functools.partial(canvas.run, op, batch.kinds[0], x, shared, divisors))
            results = inside if isinstance(inside, tuple) else (inside,)
            runs.append((canvas, x, results[0]))
            for array, y in zip(made, results, strict=True):
                copy_views(np.ascontiguousarray(y._values()).reshape(-1), array, canvas.there, False)
        if divisors is not None:
            made[0] /= divisors
        if len(made) > 1:
            made[1] = _own_places(made[1], runs, of_results)
        for i, array in enumerate(made):
            batch.leave(i, of_results, array)
        layouts: list[Layout | None] = [Layout(of_inputs)]
        layouts += [Layout(np.array([x.numel()]), values=batch.refs[:1, j + 1]) for j, x in enumerate(shared)]
        saved = (runs, shared, divisors, given.size)
        return batch.group(_WindowRunner(batch.kind.captured), saved, of_results, layouts)


_CONV, _TRANSPOSED, _MEAN, _MAX = "conv", "conv_transpose", "avg_pool", "max_pool"


class _Canvas:
    """Blocks of some calls, one below the other."""

    def __init__(self, op: type[Op], attrs: dict[str, Any], forms: list[WindowForm], starts: Any) -> None:
        self.op, self.attrs, self.calls = op, attrs, starts[2]
        one = forms[0]
        self._channels = one.n_channels
        self._blocks = blocks = np.array([form.n_blocks for form in forms], np.int64)
        sizes, counts = (np.array([_two(part) for part in parts], np.int64) for parts in _columns(forms))
        padding, stride = (np.array(_two(attrs[name], fill)) for name, fill in (("padding", 0), ("stride", 1)))
        span = _spans(attrs, one.kernel)
        self._is_flat = len(one.sizes) == 1
        if op.name == _TRANSPOSED:
            ends = np.maximum((sizes - 1) * stride + span, padding + counts)
            height = -(-ends // stride)  # of blocks, in elements of the input
            before, after = np.zeros(2, np.int64), padding
            wide, shrinks = stride, np.ones(2, np.int64)
        else:
            ends = np.maximum(padding + sizes, (counts - 1) * stride + span)
            height = -(-ends // stride) * stride
            before, after = padding, np.zeros(2, np.int64)
            wide, shrinks = np.ones(2, np.int64), stride
        tall = height[:, 0]
        top = beginnings(tall * blocks)
        shape = int((tall * blocks).sum()), int(height[:, 1].max())
        self.shape = shape if len(forms) == 1 else (_rounded(shape[0]), _rounded(shape[1]))
        if op.name == _TRANSPOSED:
            self.counts = tuple([int(n * s) for n, s in zip(self.shape, stride, strict=True)])
        else:
            ends = [(n - int(w)) // int(s) + 1 for n, w, s in zip(self.shape, span, stride, strict=True)]
            self.counts = tuple([max(n, 0) for n in ends])
        self.first = top + before[0], int(before[1])  # row and column of what each call has there
        self.sizes = sizes
        self.here = self._table(starts[0], blocks, self._channels[0], sizes, tall, self.shape, self.first)
        corner = top * wide[0] // shrinks[0] + after[0], int(after[1])
        tall = tall * wide[0] // shrinks[0]
        self.there = self._table(starts[1], blocks, self._channels[1], counts, tall, self.counts, corner)

    def _table(
        self, places: Any, blocks: Any, n_channels: int, sizes: Any, tall: Any, shape: Any, corner: Any
    ) -> Array:
        """What `copy_views` takes, for views of a canvas of this shape."""
        height, width = shape
        words = np.zeros((len(sizes), 10), np.int64)
        words[:, 0], words[:, 1] = corner[0] * width + corner[1], places
        if self._is_flat:
            words[:, 2:6] = np.stack([np.ones_like(blocks), blocks, np.full_like(blocks, n_channels), sizes[:, 0]], 1)
            words[:, 7:] = np.stack([tall, np.full_like(tall, height), np.ones_like(tall)], 1)
        else:
            words[:, 2:6] = np.stack([blocks, np.full_like(blocks, n_channels), sizes[:, 0], sizes[:, 1]], 1)
            steps = [tall * width, *[np.full_like(tall, step) for step in (height * width, width, 1)]]
            words[:, 6:] = np.stack(steps, 1)
        return words

    def filled(self, given: Array) -> Array:
        """The canvas, with what all calls were given."""
        shape = self.shape[:1] if self._is_flat else self.shape
        fill = -np.inf if self.op.name == _MAX else 0.0
        made = np.full((1, self._channels[0], *shape), fill, given.dtype)
        copy_views(made.reshape(-1), given, self.here, True)
        return made

    def run(self, op: type[Op], kind: OpKind, x: Tensor, shared: list[Tensor], divisors: Array | None) -> Any:
        """The op on the canvas; of a mean, where it is divided later, the sum."""
        operands = iter((x, *shared))
        inputs = [next(operands) if slot is None else slot[0] for slot in kind.slots]
        if divisors is not None:
            inputs[1] = 1
        n_dims = 1 if self._is_flat else 2
        attrs = {**self.attrs, "padding": (0,) * n_dims, "counts": self.counts[:n_dims]}
        return apply(op, tuple(inputs), attrs)

    def own_places(self, places: Array, of_results: Array) -> Array:
        """Places on the canvas, of the elements of each call end to end, as places in the call's own input."""
        counts = of_results[self.calls]
        width = self.shape[1]
        row, column = places // width, places % width
        own = (row - np.repeat(self.first[0], counts)) * np.repeat(self.sizes[:, 1], counts)
        found: Array = own + column - self.first[1]
        return found


def _rounded(size: int) -> int:
    """A size for this and some more: canvases are of few sizes, as what is known of a convolution is kept by size."""
    step = 1 << max(size.bit_length() - _BITS, 0)
    return -(-size // step) * step


def _two(sizes: tuple[int, ...], fill: int = 1) -> tuple[int, ...]:
    """Sizes of two dimensions, of which the second may be missing."""
    return sizes if len(sizes) == _DIMS else (*sizes, fill)


def _columns(forms: list[WindowForm]) -> Iterator[list[tuple[int, ...]]]:
    yield [form.sizes for form in forms]
    yield [form.counts for form in forms]


def _spans(attrs: dict[str, Any], kernel: tuple[int, ...]) -> Array:
    dilation = np.array(_two(attrs.get("dilation", (1,) * len(kernel))))
    made: Array = dilation * (np.array(_two(kernel)) - 1) + 1
    return made


def _canvases(
    op: type[Op], attrs: dict[str, Any], forms: list[WindowForm], of_inputs: Array, of_results: Array
) -> Iterator[_Canvas]:
    """Large ones by themselves, others that are about as wide together, the widest first."""
    widths = np.array([_two(form.sizes)[1] for form in forms])
    is_large = np.array([form.n_products() >= _LARGE for form in forms])
    groups = [np.array([i]) for i in np.flatnonzero(is_large).tolist()]
    left = np.flatnonzero(~is_large)
    left = left[np.argsort(-widths[left], kind="stable")]
    while left.size:
        fits = widths[left] >= _NARROWEST * widths[left[0]]
        groups.append(np.sort(left[fits]))
        left = left[~fits]
    for own in groups:
        yield _Canvas(op, attrs, [forms[i] for i in own.tolist()], (of_inputs[own], of_results[own], own))


def _own_places(places: Array, runs: list[Any], of_results: Array) -> Array:
    """The second result of max-pooling: where the largest elements are, in each call's own input."""
    starts = beginnings(of_results)
    made = np.empty_like(places)
    for canvas, _, _ in runs:
        counts = of_results[canvas.calls]
        which = np.repeat(starts[canvas.calls] - beginnings(counts), counts) + np.arange(int(counts.sum()))
        made[which] = canvas.own_places(places[which], of_results)
    return made


def _divisors(batch: SizedBatch) -> Array | None:
    """What the windows of means are divided by; None if it is the same for all of them."""
    _, *rest = batch.kinds[0].slots
    divisor, attrs = rest[0], dict(batch.kind.family[1])
    kernel, stride, padding = (np.array(attrs[name]) for name in ("kernel", "stride", "padding"))
    sizes, counts = (np.array(part) for part in _columns([one.form for one in batch.kinds]))
    fits = (counts - 1) * stride - padding + kernel <= sizes + (padding if attrs["include_pad"] else 0)
    if divisor != (None,) or (fits.all() and (attrs["include_pad"] or not padding.any())):
        return None
    dtype = batch.kind.results[0].dtype.numpy
    parts = []
    for one in batch.kinds:
        form = one.form
        each = divisors_of(None, form.sizes, **attrs, counts=form.counts, dtype=dtype)
        parts.append(np.broadcast_to(each, (form.n_channels[1], *form.counts)).reshape(-1))
    return np.concatenate(parts)


def window_form(kind: OpKind) -> WindowForm | None:
    operands = kind.inputs
    if not operands or kind.slots[0] is not None or not isinstance(operands[0].type, TensorType):
        return None
    x, op, counts = operands[0].type, kind.op, kind.attrs["counts"]
    n_dims = len(counts)
    is_pool = op.name in (_MEAN, _MAX)
    kernel = kind.attrs["kernel"] if is_pool else kind.types[1].type.shape[2:]
    sizes = x.shape[len(x.shape) - n_dims :]
    plain = x.dtype.is_floating_point and x.dtype.itemsize >= 4 and min(kind.attrs["padding"]) >= 0
    if n_dims > _DIMS or not plain or not x.numel() or not kind.results[0].numel():
        return None
    if is_pool:
        n_blocks, n_channels = 1, (math.prod(x.shape[:-n_dims]),) * 2
    else:
        n_blocks, n_channels = x.shape[0], (x.shape[1], kind.results[0].shape[1])
    others = tuple([(name, value) for name, value in kind.attrs.items() if name != "counts"])
    inputs = tuple([(x.dtype if j == 0 else i.type, i.tracked) for j, i in enumerate(operands)])
    slots = tuple([None if s is None else (id(s[0]) if isinstance(s[0], Tensor) else (s[0],)) for s in kind.slots])
    return WindowForm(op, others, inputs, slots, kernel, n_channels, n_blocks, sizes, counts)


def _sums_of(totals: list[Tensor | None], more: list[Tensor | None]) -> list[Tensor | None]:
    pairs = zip(totals, more, strict=True)
    return [b if a is None else a if b is None else a + b for a, b in pairs]


class _WindowRunner:
    """Gradients, by way of the canvases."""

    def __init__(self, captured: Any) -> None:
        self._captured = [t for t in captured if t.requires_grad]

    def backward(self, saved: Any, gradients: list[Array | None]) -> tuple[list[Array | None], Any]:
        runs, shared, divisors, n_elements = saved
        g = gradients[0]
        assert g is not None  # a batch without gradients is passed over
        g = np.ascontiguousarray(g).reshape(-1) if divisors is None else g.reshape(-1) / divisors
        of_x = np.empty(n_elements, g.dtype) if runs[0][1].requires_grad else None
        others = [x for x in shared if x.requires_grad] + self._captured
        totals: list[Tensor | None] = [None] * len(others)
        for canvas, x, y in runs:
            on_canvas = np.zeros(y._type.shape, g.dtype)
            copy_views(on_canvas.reshape(-1), g, canvas.there, True)
            wanted = ([] if of_x is None else [x]) + others
            found = list(grad([y], wanted, [wrap(on_canvas, y._type)], retain_graph=True, allow_unused=True))
            if of_x is not None:
                of_canvas: Any = found.pop(0)
                copy_views(np.ascontiguousarray(of_canvas._values()).reshape(-1), of_x, canvas.here, False)
            totals = recorded(False, functools.partial(_sums_of, totals, found))
        left = iter(totals)
        of_shared = [next(left) if x.requires_grad else None for x in shared]
        arrays = [None if one is None else one._values().reshape(-1) for one in of_shared]
        return [of_x, *arrays], list(left)

    def finish(self, deferred: list[Any]) -> list[tuple[Tensor, Array]]:
        return totals_of(self._captured, deferred)
