"""Broadcasting within a call: elementwise ops on (n, 1, d) and (m, d), and `expand`, at any sizes.

Each input is copied to the shape of its call's result, as a view that repeats elements; then elements are rows of the
op on single elements, as everything elementwise is (`by_rows`). Gradients of an input are the sums over where its
elements went: copied so that these come last, and added up by the rule that ragged tensors have for sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.op import Elementwise, Op
from ...core.storage import Array
from ...core.strides import row_major_strides
from ...core.tensor import Tensor, from_array
from ...core.types import TensorType
from ...ops.segments import segment_sum
from ...ragged_tensors.rows import Rows
from ..gradients import Group, Layout
from ..kinds import Input
from ..native_runner import runner_of
from ..op_kinds import OpKind, kind_of_types
from .by_rows import NothingToRun
from .forms import SizedBatch, numels
from .tape import recorded
from .views import Words, beginnings, copy_views, ordered, table_of, words_of


class ElementSpread(NamedTuple):
    """How one input is repeated to the shape of the result."""

    there: Words  # the result's elements among the input's
    back: Words  # the result's own, those last that are one element of the input
    n_kept: int
    n_each: int  # elements of the result that are one of the input


def spread_of(shape: Sequence[int], wanted: Sequence[int]) -> ElementSpread | None:
    """A tensor of this shape, repeated to the wanted one; None if that has too many dimensions."""
    full = (*(1,) * (len(wanted) - len(shape)), *shape)
    steps = [0 if size == 1 else step for size, step in zip(full, row_major_strides(full), strict=True)]
    repeated = [d for d, size in enumerate(full) if size == 1 and wanted[d] != 1]
    kept = [d for d in range(len(full)) if d not in repeated]
    there, back = words_of(wanted, steps), ordered(wanted, [*kept, *repeated])
    if there is None or back is None:
        return None
    return ElementSpread(there, back, math.prod(shape), math.prod([wanted[d] for d in repeated]))


class SpreadInputs:
    """One input of all calls of a batch."""

    def __init__(self, spreads: Sequence[ElementSpread], of_results: Array) -> None:
        self.counts = np.array([one.n_kept for one in spreads], np.int64)
        self._is_whole = all(one.n_each == 1 for one in spreads)
        self._spreads = spreads
        self._of_results = of_results

    def elements(self, batch: SizedBatch, position: int, dtype: Any) -> Array:
        """For each element of the results that of the input."""
        given = batch.pieces(position, self.counts, TensorType((), dtype))
        if self._is_whole:
            return given
        made = np.empty(int(self._of_results.sum()), given.dtype)
        words = [one.there for one in self._spreads]
        copy_views(given, made, table_of(words, beginnings(self.counts), self._of_results), False)
        return made

    def summed(self, g: Array) -> Array:
        """The gradient of the input, from those for each element of the results."""
        flat = np.ascontiguousarray(g).reshape(-1)
        if self._is_whole:
            return flat
        moved = np.empty(flat.size, flat.dtype)
        words = [one.back for one in self._spreads]
        copy_views(flat, moved, table_of(words, beginnings(self._of_results), self._of_results), False)
        rows = Rows.of_lengths(np.repeat([one.n_each for one in self._spreads], self.counts))
        total: Array = recorded(False, lambda: segment_sum(from_array(moved), *rows.segments))._values()
        return total


class ExpandForm(NamedTuple):
    """A tensor repeated."""

    op: type[Op]
    dtype: Any
    tracked: bool
    spread: ElementSpread

    @property
    def family(self) -> Any:
        return self[:3]

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        of_results = numels([one.results[0].shape for one in batch.kinds])
        given = SpreadInputs([one.form.spread for one in batch.kinds], of_results)
        batch.leave(0, of_results, given.elements(batch, 0, batch.kind.results[0].dtype))
        return batch.group(_EXPAND_RUNNER, given, of_results, [Layout(given.counts)])


def expand_form(kind: OpKind) -> ExpandForm | None:
    if len(kind.inputs) != 1:
        return None
    i, wanted = kind.inputs[0], kind.results[0]
    spread = spread_of(i.type.shape, wanted.shape)
    return None if spread is None else ExpandForm(kind.op, wanted.dtype, i.tracked, spread)


class _ExpandRunner:
    """Gradients of `expand`."""

    def backward(self, saved: Any, gradients: list[Array | None]) -> tuple[list[Array | None], Any]:
        (g,) = gradients
        assert g is not None  # a batch without gradients is passed over
        return [saved.summed(g)], []

    def finish(self, deferred: list[Any]) -> list[tuple[Tensor, Array]]:
        return []


_EXPAND_RUNNER = _ExpandRunner()


class BroadcastForm(NamedTuple):
    """An elementwise op on inputs that broadcast."""

    kind: OpKind  # of one element
    spreads: tuple[ElementSpread | None, ...]  # None for a number

    @property
    def family(self) -> Any:
        return self.kind

    @classmethod
    def run(cls, batch: SizedBatch) -> Group:
        kind: OpKind = batch.kind.family
        of_results = numels([one.results[0].shape for one in batch.kinds])
        total = int(of_results.sum())
        which: list[bool] = []
        inputs: list[Any] = []
        layouts: list[Layout | None] = []
        spreads: list[SpreadInputs | None] = []
        for j, i in enumerate(kind.inputs):
            if isinstance(i.type, TensorType):
                one = SpreadInputs([own.form.spreads[j] for own in batch.kinds], of_results)
                spreads.append(one)
                layouts.append(Layout(one.counts))
                which.append(False)
                inputs.append(one.elements(batch, j, i.type.dtype))
            else:
                spreads.append(None)
                layouts.append(None)
                is_shared, x = batch.run.input_of(kind, j, batch.refs[:, j], of_results) if total else (False, 0)
                which.append(is_shared)
                inputs.append(x)
        if not total:
            batch.leave(0, of_results, np.empty(0, batch.kind.results[0].dtype.numpy))
            return batch.group(NothingToRun(()), None, of_results, layouts)
        runner = runner_of(kind, tuple(which))
        (array,), saved = runner.forward(inputs, total)
        batch.leave(0, of_results, array)
        return batch.group(_BroadcastRunner(runner, spreads), saved, of_results, layouts, tuple(which))


def broadcast_form(kind: OpKind) -> BroadcastForm | None:
    """An elementwise op as one on single elements; None if a weight is among its inputs."""
    if not issubclass(kind.op, Elementwise) or kind.captured or not kind.single or not kind.results[0].shape:
        return None
    wanted, spreads, types = kind.results[0].shape, [], []
    for t, slot in zip(kind.types, kind.slots, strict=True):
        is_tensor = isinstance(t.type, TensorType)
        if slot is None:
            spread = spread_of(t.type.shape, wanted) if is_tensor else None
            if is_tensor and spread is None:
                return None
            spreads.append(spread)
        types.append(Input(TensorType((), t.type.dtype), t.tracked) if is_tensor else t)
    return BroadcastForm(kind_of_types(kind.op, tuple(types), kind.attrs, kind.slots), tuple(spreads))


class _BroadcastRunner:
    """Gradients of elements, summed for inputs that were repeated."""

    def __init__(self, runner: Any, spreads: list[SpreadInputs | None]) -> None:
        self._runner = runner
        self._spreads = spreads

    def backward(self, saved: Any, gradients: list[Array | None]) -> tuple[list[Array | None], Any]:
        of_elements, left = self._runner.backward(saved, gradients)
        pairs = zip(of_elements, self._spreads, strict=True)
        return [g if g is None or one is None else one.summed(g) for g, one in pairs], left

    def finish(self, deferred: list[Any]) -> list[tuple[Tensor, Array]]:
        found: list[tuple[Tensor, Array]] = self._runner.finish(deferred)
        return found
