"""Batches that read each other's results, level by level: what surrounds their plans is done once for all.

The rows of all levels of a kind are in common arrays, level after level, where plans leave what they make. So results
get their value ids before the first level runs, inputs that no level makes are gathered at once, and what backward
defers finds its rows together.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..backends.selection import empty
from ..core.storage import Array
from ..core.types import TensorType
from ..errors import GraphError
from .agenda import Batches
from .backward_programs import BackwardPrograms, rounded
from .kinds import CallKind, SharedTensor
from .native_runner import DeferredGradients
from .programs import Programs
from .rows import RowTable


class Levels(NamedTuple):
    """What backward needs of levels of a kind that have run."""

    programs: Programs
    columns: Array  # value ids of the inputs: a row for each input
    ends: list[int]  # of each level, among all rows
    saved: list[tuple[Array, bool]]  # arrays that forward saved, and whether each has rows
    n_padded: int  # rows of arrays that have some
    shared: Sequence[SharedTensor]  # among the inputs


class _Running:
    """The batches of one kind."""

    def __init__(
        self,
        programs: Programs,
        batches: Batches,
        shared: Sequence[SharedTensor],
        runs: list[Any],
        captured: list[Array],
    ) -> None:
        self.programs, self.runs, self._shared = programs, runs, shared
        self.starts = [0, *batches.ends]
        self._firsts, self._ends, self._parts = batches.firsts, batches.ends, batches.parts
        n_rows = batches.ends[-1]
        self.n_padded = rounded(n_rows) if programs.is_tracked else n_rows
        self.columns = np.ascontiguousarray(batches.refs.T)
        self.rows = _arrays(self.n_padded, [t for t in programs.input_rows if t is not None])
        self.made = _arrays(self.n_padded, programs.made_rows or [])
        self.later: list[tuple[Array, Array]] = []  # inputs that levels make: value ids and rows
        self.arrays = [*programs.inputs_of(self.rows, shared), *captured, *self.made]
        self.reads = programs.packed([self.arrays[i] for i in programs.reads])
        self.has_rows = _flags([programs.has_rows(i) for i in programs.reads])

    def gather(self, table: RowTable) -> None:
        """Inputs that are there already."""
        for k, array in zip(self.programs.row_columns, self.rows, strict=True):
            column = self.columns[k]
            if table.has(column).all():
                table.fill(column, array, 0, self.starts[-1])
            else:
                self.later.append((column, array))

    def number_results(self, table: RowTable) -> None:
        for i, index in enumerate(self.programs.results):
            table.add_at(self._firsts + i if i else self._firsts, self.arrays[index][: self.starts[-1]])
        if self._parts is not None:
            table.add_parts(self._parts)

    def levels(self, n_done: int) -> Levels:
        saved = [(self.arrays[i], self.programs.has_rows(i)) for i in self.programs.saved]
        return Levels(self.programs, self.columns, self._ends[:n_done], saved, self.n_padded, self._shared)


def run_levels(
    programs: Sequence[Programs],
    table: RowTable,
    batches: Sequence[Batches],
    shared: Sequence[Sequence[SharedTensor]],
    schedule: Sequence[tuple[int, int]],
) -> tuple[int, list[Levels] | None]:
    """Run levels of kinds as scheduled: (which kind, which level), as many as can be from the first on.

    `shared`: of each kind the inputs that all its calls share. How many levels ran, and what backward needs of each
    kind; None if there is no backward.
    """
    kinds = []
    for own, b, weights in zip(programs, batches, shared, strict=True):
        captured: list[Array] = []
        runs = [own.at_level(end - start) for start, end in pairwise([0, *b.ends])]
        if own.made_rows is None or None in runs or not own.add_captured(captured):
            return 0, None
        kinds.append(_Running(own, b, weights, runs, captured))
    for kind in kinds:
        kind.gather(table)
    for kind in kinds:
        kind.number_results(table)
    counts = [0] * len(kinds)
    for which, level in schedule:
        kind = kinds[which]
        start = kind.starts[level]
        for column, array in kind.later:
            table.fill(column, array, start, kind.starts[level + 1])
        if type(kind.runs[level](kind.reads, kind.programs.literals, kind.made, start, kind.has_rows)) is not list:
            break  # some value is an error, which the ops themselves can tell
        counts[which] += 1
    n_done = sum(counts)
    if not n_done or not any(kind.programs.is_tracked for kind in kinds):
        return n_done, None
    return n_done, [kind.levels(count) for kind, count in zip(kinds, counts, strict=True)]


def _flags(flags: Sequence[bool]) -> bytes:
    """A byte for each, and one more for the constants of a plan, which come last."""
    return bytes([*flags, False])


def _arrays(n: int, rows: Sequence[TensorType]) -> list[Array]:
    return [empty(TensorType((n, *t.shape), t.dtype)) for t in rows]


class _LevelPlan(NamedTuple):
    """How backward runs on levels, for gradients of some of the results. Arrays have the rows of all levels."""

    backward: BackwardPrograms
    reads: list[Array]
    has_rows: bytes
    outputs: list[Array | None]  # where what is made goes, if what is deferred reads it
    of_inputs: list[tuple[Array | None, int] | None]  # the array that has the gradient, or which one that is made
    parts: list[int]  # which of those that are made
    rows: list[Array]  # that the deferred program reads

    def ends_like(self, other: _LevelPlan) -> bool:
        """Whether what both defer is nothing but rows, in the same arrays."""
        if self is other:
            return not self.parts
        if self.backward.leader is not other.backward.leader or self.parts or other.parts:
            return False
        return all(a is b for a, b in zip(self.rows, other.rows, strict=True))


class BackwardOfLevels:
    """One backward through levels, the last one first. Rows for what is deferred are in common arrays, too."""

    def __init__(self, kind: CallKind, levels: Levels, gradients: Sequence[Array | None]) -> None:
        """`gradients`: of each result that is tracked, the rows in which all levels find theirs."""
        self._kind, self._levels, self._gradients = kind, levels, gradients
        self._starts = [0, *levels.ends]
        self._plans: dict[bytes, _LevelPlan] = {}  # by which results have gradients
        # Rows that backward makes, by who does what is deferred and the position among what that reads
        self._collected: dict[tuple[BackwardPrograms, int], Array] = {}
        self._done: list[tuple[int, _LevelPlan, list[Array]]] = []  # levels, how they ran, parts of gradients

    def run(self, level: int, seeded: bytes) -> list[Array | None]:
        """The gradients of the inputs of a level. `seeded`: which of its results have one; those of others are zero."""
        plan = self._plans.get(seeded)
        if plan is None:
            plan = self._plans[seeded] = self._plan(seeded)
        start, end = self._starts[level : level + 2]
        literals = self._levels.programs.literals
        made = plan.backward.run_level(end - start, plan.reads, literals, plan.outputs, start, plan.has_rows)
        if isinstance(made, int):
            raise GraphError(f"backward: {self._kind.name} has no gradient for some of its values")
        self._done.append((level, plan, [made[i] for i in plan.parts]))
        found: list[Array | None] = []
        for source in plan.of_inputs:
            if source is None:
                found.append(None)
            else:
                array, i = source
                found.append(made[i] if array is None else array[start:end])
        return found

    def _plan(self, seeded: bytes) -> _LevelPlan:
        kind, levels = self._kind, self._levels
        backward = levels.programs.backward_for(
            tuple([t and g == 1 for t, g in zip(kind.tracked, seeded, strict=True)])
        )
        seeds = [g for g, is_read in zip(self._gradients, backward.seeded, strict=True) if is_read and g is not None]
        arrays = [*levels.saved, *[(g, True) for g in seeds]]  # with whether they have rows
        n_read = len(arrays)
        outputs: list[Array | None] = [None] * backward.n_made
        rows = []
        for position, index in enumerate(backward.rows_at):
            if index < n_read:
                rows.append(arrays[index][0])
                continue
            key = (backward.leader, position)
            if key not in self._collected:
                self._collected[key] = _arrays(levels.n_padded, [backward.row_types[position]])[0]
            rows.append(self._collected[key])
            outputs[index - n_read] = rows[-1]

        def source(index: int) -> tuple[Array | None, int]:
            if index < n_read:
                return arrays[index][0], -1
            return outputs[index - n_read], index - n_read

        of_inputs = [None if index is None else source(index) for index in backward.of_inputs]
        reads = backward.packed([arrays[i][0] for i in backward.reads])
        has_rows = _flags([arrays[i][1] for i in backward.reads])
        return _LevelPlan(backward, reads, has_rows, outputs, of_inputs, [i - n_read for i in backward.parts_at], rows)

    def deferred(self) -> list[DeferredGradients]:
        """What is deferred: of levels whose rows are next to each other as one."""
        runs: list[tuple[_LevelPlan, int, int, list[Array]]] = []
        for level, plan, parts in self._done:
            start, end = self._starts[level : level + 2]
            if runs and runs[-1][1] == end and plan.ends_like(runs[-1][0]):
                runs[-1] = (plan, start, runs[-1][2], parts)
            else:
                runs.append((plan, start, end, parts))
        return [
            DeferredGradients(plan.backward, end - start, self._rows(plan, start, end), parts, self._levels.shared)
            for plan, start, end, parts in runs
        ]

    def _rows(self, plan: _LevelPlan, start: int, end: int) -> list[Array]:
        """Of all levels with zeros behind them, where that makes no difference: their number then comes up again."""
        is_all = (start, end) == (0, self._starts[-1]) and plan.backward.leader.ignores_zeros
        if not is_all or any(len(array) != self._levels.n_padded for array in plan.rows):
            return [array[start:end] for array in plan.rows]
        for array in plan.rows:
            array[end:] = 0
        return plan.rows
