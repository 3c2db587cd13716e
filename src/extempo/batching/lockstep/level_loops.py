"""Loops whose turns have one shape in all samples: turns are levels of one kind of call, run by native plans.

The calls are those that recording would have made, one for each turn of each sample, and everything from there on is
what `batching.run` does with them; only that nobody records them one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import ops
from ...core.context import CONTEXT
from ...core.graph import Node, Pick
from ...core.storage import Array
from ...core.tensor import Tensor, from_array
from ...core.types import TensorType
from ...dispatch.dispatcher import apply
from ...exporting.sizes import SizeExpr, is_symbolic
from ...ops.view import Detach
from ..agenda import Batches, Calls
from ..gradients import link_values
from ..kinds import CallKind, Input
from ..parts import WORDS
from ..report import Notes
from ..run import BatchExecutor
from .steps import LaneStep
from .values import SHARED, UNIFORM


class TurnKinds:
    """The turn of a loop as kinds of calls, by what is tracked."""

    def __init__(self, turn: Sequence[LaneStep], outputs: list[int], inputs: list[tuple[int, TensorType]]) -> None:
        """inputs: slots of what a call is given, carried values first, with their types."""
        self._turn = turn
        self._outputs = outputs
        self.inputs = inputs
        self._kinds: dict[Any, CallKind] = {}

    def kind(self, captured: dict[int, Tensor], tracked: tuple[bool, ...], n_carried: int) -> CallKind:
        """Calls with these tensors, by slot; `tracked`: of the inputs."""
        key = (*map(id, captured.values()), *tracked, *[t.requires_grad for t in captured.values()])
        found = self._kinds.get(key)
        if found is None:
            if len(self._kinds) > 4:
                self._kinds.clear()
            found = self._kinds[key] = self._made(captured, tracked, n_carried)
        return found

    def _made(self, captured: dict[int, Tensor], tracked: tuple[bool, ...], n_carried: int) -> CallKind:
        def turn(*inputs: Tensor) -> tuple[Tensor, ...]:
            slots: dict[int, Any] = dict(captured)
            slots.update({slot: x for (slot, _), x in zip(self.inputs, inputs, strict=True)})
            for step in self._turn:
                pairs = zip(step.reads, step.inputs, strict=True)
                given = tuple([slots[slot] if isinstance(x, Node) else x for slot, x in pairs])
                if step.op is Pick:
                    slots[step.out] = given[0][step.attrs["index"]]
                else:
                    slots[step.out] = given[0].detach() if step.op is Detach else apply(step.op, given, step.attrs)
            return tuple([slots[slot] for slot in self._outputs])

        types = [t for _, t in self.inputs]
        flags = list(tracked)
        while True:  # what is carried is tracked if a turn makes it so
            given = [ops.zeros(t.shape, dtype=t.dtype) for t in types]
            for x, flag in zip(given, flags, strict=True):
                x.requires_grad = flag
            results = turn(*given)
            made = [r.requires_grad for r in results]
            new = [flag or (i < n_carried and made[i]) for i, flag in enumerate(flags)]
            if new == flags:
                break
            flags = new
        return CallKind(
            "turn of a loop",
            turn,
            tuple([Input(t, flag) for t, flag in zip(types, flags, strict=True)]),
            tuple([r._type for r in results]),
            tuple(made),
            tuple(captured.values()),
            n_ops=len(self._turn),
        )


def turn_kinds(
    turn: list[LaneStep], outputs: list[int], output_forms: list[Any], given: list[tuple[int, Any]]
) -> TurnKinds | None:
    """The kinds of a loop's turns; None if values of other forms than one shape are in them.

    given: slots and types of what turns read, carried values first.
    """
    for one in turn:
        forms = {*one.forms, *one.out_forms}
        if not forms <= {SHARED, UNIFORM} or any(isinstance(x, SizeExpr) for x in one.inputs):
            return None
        if is_symbolic(one.attrs) or one.graphs:
            return None
    if any(form != UNIFORM for form in output_forms) or any(not isinstance(t, TensorType) for _, t in given):
        return None
    return TurnKinds(turn, outputs, given)


class LevelLoop:
    """One run of a loop by levels."""

    def __init__(self, kinds: TurnKinds, n_carried: int, counts: list[int]) -> None:
        self._kinds = kinds
        self._n_carried = n_carried
        self._counts = counts
        self._run = BatchExecutor(Notes(), _nothing)

    def run(
        self,
        captured: dict[int, Tensor],
        carried: list[Tensor],
        packed: list[Tensor],
        own: list[Tensor],
        shared: list[Tensor],
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Final values, and what turns give besides, packed.

        What turns read: packed rows, rows of each sample's own, and what all share.
        """
        run, n_carried = self._run, self._n_carried
        grad = CONTEXT.get().grad
        tracked = tuple([grad and x.requires_grad for x in (*carried, *packed, *own, *shared)])
        kind = self._kinds.kind(captured, tracked, n_carried)
        # The first turn is a call like others, which has a gradient for what is carried.
        wanted = [kind.inputs[i].tracked and not x.requires_grad for i, x in enumerate(carried)]
        carried = [x.detach().requires_grad_() if w else x for x, w in zip(carried, wanted, strict=True)]
        rows = [self._rows(x) for x in (*carried, *packed, *own)]
        wholes = [run._from_outside(x) for x in shared]
        run._take_in()
        for x_rows, x in zip(rows, (*carried, *packed, *own), strict=True):
            self._add_rows(x_rows, x)
        for t in kind.captured:
            if t.requires_grad:
                run._capture(t, True)
        counts = np.array(self._counts)
        ends = np.cumsum(counts)
        starts = ends - counts
        total, n_results = int(ends[-1]), len(kind.results)
        lane = np.arange(total) - np.repeat(starts, counts)
        before = np.repeat(np.concatenate([[0], starts[:-1]]), counts) + lane  # the call of the turn before
        is_first = np.arange(total) < counts[0]
        firsts = run.n_values + np.arange(total) * n_results
        run.n_values += total * n_results
        columns = []
        for i in range(n_carried):
            columns.append(np.where(is_first, rows[i][1] + lane, firsts[before] + i))
        columns += [first + np.arange(total) for _, first in rows[n_carried : n_carried + len(packed)]]
        columns += [first + lane for _, first in rows[n_carried + len(packed) :]]
        columns += [np.full(total, whole) for whole in wholes]
        refs = np.ascontiguousarray(np.stack(columns, 1))
        self._run_turns(kind, refs, firsts, ends.tolist())
        return self._results(kind, firsts, starts)

    def _rows(self, x: Tensor) -> tuple[int, int]:
        """The value of a tensor, and that of its first row."""
        run = self._run
        known = run._known.pop(id(x), None)  # one tensor may be several of what is read
        value = run._from_outside(x) if known is None else known
        run._known[id(x)] = value
        first = run.n_values
        run.n_values += x._type.shape[0]
        return value, first

    def _add_rows(self, rows: tuple[int, int], x: Tensor) -> None:
        value, first = rows
        n = x._type.shape[0]
        size = x._type.numel() // n * x._type.dtype.itemsize if n else 0
        words = np.empty((n, WORDS), np.int64)
        words[:, 0] = first + np.arange(n)
        words[:, 1] = value
        words[:, 2] = np.arange(n) * size
        words[:, 3] = size
        self._run.values.add_parts(words)
        self._run.history.parts.append(words)

    def _run_turns(self, kind: CallKind, refs: Array, firsts: Array, ends: list[int]) -> None:
        run = self._run
        run.history.n_values = run.n_values
        calls = Calls(kind)
        calls.samples = calls.wheres = [None] * len(firsts)
        members = np.arange(len(firsts))
        batches = Batches(calls, members, refs, firsts, ends)
        schedule = [(0, level) for level in range(len(ends))]
        shared = run._shared(kind, refs)
        n_done = run._run_levels([batches], [shared], schedule)
        for level in range(n_done, len(ends)):
            own = slice(ends[level - 1] if level else 0, ends[level])
            run._run(calls, members[own], refs[own], firsts[own], shared)

    def _results(self, kind: CallKind, firsts: Array, starts: Array) -> tuple[list[Tensor], list[Tensor]]:
        counts = np.array(self._counts)
        n = self._counts[0]
        last = np.searchsorted(-counts, -np.arange(1, n + 1), side="right") - 1  # the last turn of each sample
        last_calls = firsts[starts[last] + np.arange(n)]
        tensors, values = [], []
        for i, t in enumerate(kind.results):
            ids = (last_calls if i < self._n_carried else firsts) + i
            rows = self._run.values.gather(ids, t.shape, t.dtype.numpy)
            if type(rows.base) is np.ndarray:  # a view of rows that gradients may read
                rows = rows.copy()
            tensors.append(from_array(rows))
            values.append(ids)
        tracked = [i for i, flag in enumerate(kind.tracked) if flag]
        link_values(self._run.history, [tensors[i] for i in tracked], [values[i] for i in tracked])
        return tensors[: self._n_carried], tensors[self._n_carried :]


def _nothing() -> None:
    pass
