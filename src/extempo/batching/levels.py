"""Batches that read each other's results, level by level: what surrounds their plans is done once for all.

The rows of all levels of a kind lie in common arrays, level after level, where plans leave what they make. So results
get their numbers before the first level runs, inputs that no level makes are gathered at once, and what is left for the
end of backward finds its rows together.
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
from .kinds import CallKind
from .native_runner import DeferredGradients
from .programs import Back, Programs, rounded
from .rows import RowTable


class Levels(NamedTuple):
    """What backward needs of levels of a kind that have run."""

    programs: Programs
    columns: Array  # numbers of the inputs' values: a row for each input
    ends: list[int]  # of each level, among all rows
    saved: list[tuple[Array, bool]]  # by place: the array, and whether it has rows
    n_padded: int  # rows of arrays that have some


class _Running:
    """The batches of one kind."""

    def __init__(self, programs: Programs, batches: Batches, runs: list[Any], captured: list[Array]) -> None:
        self.programs, self.runs = programs, runs
        self.starts = [0, *batches.ends]
        self._firsts, self._ends = batches.firsts, batches.ends
        n_rows = batches.ends[-1]
        self.n_padded = rounded(n_rows) if programs.is_tracked else n_rows
        self.columns = np.ascontiguousarray(batches.refs.T)
        self.inputs = _arrays(self.n_padded, programs.input_rows)
        self.made = _arrays(self.n_padded, programs.made_rows or [])
        self.later: list[tuple[Array, Array]] = []  # inputs that batches make: numbers and rows
        self.arrays = [*self.inputs, *captured, *self.made]
        self.reads = programs.packed([self.arrays[i] for i in programs.reads])
        self.has_rows = _flags([programs.has_rows(i) for i in programs.reads])

    def gather(self, table: RowTable) -> None:
        """Inputs that are there already."""
        for column, array in zip(self.columns, self.inputs, strict=True):
            if table.has(column).all():
                table.fill(column, array, 0, self.starts[-1])
            else:
                self.later.append((column, array))

    def number_results(self, table: RowTable) -> None:
        for i, place in enumerate(self.programs.results):
            table.add_at(self._firsts + i if i else self._firsts, self.arrays[place][: self.starts[-1]])

    def levels(self, n_done: int) -> Levels:
        saved = [(self.arrays[i], self.programs.has_rows(i)) for i in self.programs.saved]
        return Levels(self.programs, self.columns, self._ends[:n_done], saved, self.n_padded)


def run_levels(
    programs: Sequence[Programs], table: RowTable, batches: Sequence[Batches], turns: Sequence[tuple[int, int]]
) -> tuple[int, list[Levels] | None]:
    """Run batches of kinds in turn, as many as can be from the first on.

    How many those are, and what backward needs of each kind; None if there is no backward.
    """
    kinds = []
    for own, b in zip(programs, batches, strict=True):
        captured: list[Array] = []
        runs = [own.at_level(end - start) for start, end in pairwise([0, *b.ends])]
        if own.made_rows is None or None in runs or not own.add_captured(captured):
            return 0, None
        kinds.append(_Running(own, b, runs, captured))
    for kind in kinds:
        kind.gather(table)
    for kind in kinds:
        kind.number_results(table)
    counts = [0] * len(kinds)
    for which, level in turns:
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
    """How levels run whose results have some of the gradients. Arrays have the rows of all levels."""

    back: Back
    reads: list[Array]
    has_rows: bytes
    places: list[Array | None]  # where what is made goes, if the end reads it
    of_inputs: list[tuple[Array | None, int] | None]  # the array that has the gradient, or which one that is made
    parts: list[int]  # which of those that are made
    rows: list[Array]  # for the end

    def ends_like(self, other: _LevelPlan) -> bool:
        """Whether what is left for the end is nothing but rows, in the same arrays."""
        if self is other:
            return not self.parts
        same = all(a is b for a, b in zip(self.rows, other.rows, strict=True))
        return same and self.back.leader is other.back.leader and not self.parts and not other.parts


class BackwardOfLevels:
    """One backward through levels, the last one first. Rows for the end are collected in common arrays, too."""

    def __init__(self, kind: CallKind, levels: Levels, gradients: Sequence[Array | None]) -> None:
        """`gradients`: of each result that is tracked, the rows in which all levels find theirs."""
        self._kind, self._levels, self._gradients = kind, levels, gradients
        self._starts = [0, *levels.ends]
        self._ways: dict[bytes, _LevelPlan] = {}
        self._collected: dict[int, Array] = {}  # by position among the rows for the end: those that backward makes
        self._done: list[tuple[int, _LevelPlan, list[Array]]] = []  # levels, how they ran, parts of gradients

    def run(self, level: int, given: bytes) -> list[Array | None]:
        """The gradients of the inputs of a level. `given`: which of its results have one; those of others are zero."""
        way = self._ways.get(given)
        if way is None:
            way = self._ways[given] = self._way(given)
        start, end = self._starts[level : level + 2]
        literals = self._levels.programs.literals
        made = way.back.run_level(end - start, way.reads, literals, way.places, start, way.has_rows)
        if isinstance(made, int):
            raise GraphError(f"backward: {self._kind.name} has no gradient for some of its values")
        self._done.append((level, way, [made[i] for i in way.parts]))
        found: list[Array | None] = []
        for source in way.of_inputs:
            if source is None:
                found.append(None)
            else:
                array, i = source
                found.append(made[i] if array is None else array[start:end])
        return found

    def _way(self, given: bytes) -> _LevelPlan:
        kind, levels = self._kind, self._levels
        back = levels.programs.backward_for(tuple([t and g == 1 for t, g in zip(kind.tracked, given, strict=True)]))
        there = list(levels.saved)
        there += [
            (g, True) for g, is_read in zip(self._gradients, back.given, strict=True) if is_read and g is not None
        ]
        n_given = len(there)
        places: list[Array | None] = [None] * back.n_made
        rows = []
        for position, place in enumerate(back.rows_at):
            if place < n_given:
                rows.append(there[place][0])
                continue
            if position not in self._collected:
                self._collected[position] = _arrays(levels.n_padded, [back.row_types[position]])[0]
            rows.append(self._collected[position])
            places[place - n_given] = rows[-1]

        def source(place: int) -> tuple[Array | None, int]:
            if place < n_given:
                return there[place][0], -1
            return places[place - n_given], place - n_given

        of_inputs = [None if place is None else source(place) for place in back.of_inputs]
        reads, has_rows = back.packed([there[i][0] for i in back.reads]), _flags([there[i][1] for i in back.reads])
        return _LevelPlan(back, reads, has_rows, places, of_inputs, [place - n_given for place in back.parts_at], rows)

    def rests(self) -> list[DeferredGradients]:
        """What is left for the end: of levels that lie together as one."""
        runs: list[tuple[_LevelPlan, int, int, list[Array]]] = []
        for level, way, parts in self._done:
            start, end = self._starts[level : level + 2]
            if runs and runs[-1][1] == end and way.ends_like(runs[-1][0]):
                runs[-1] = (way, start, runs[-1][2], parts)
            else:
                runs.append((way, start, end, parts))
        return [
            DeferredGradients(way.back, end - start, self._rows(way, start, end), parts)
            for way, start, end, parts in runs
        ]

    def _rows(self, way: _LevelPlan, start: int, end: int) -> list[Array]:
        """Of all levels with zeros behind them, where that makes no difference: their number then comes up again."""
        is_all = (start, end) == (0, self._starts[-1]) and way.back.leader.ignores_zeros
        if not is_all or any(len(array) != self._levels.n_padded for array in way.rows):
            return [array[start:end] for array in way.rows]
        for array in way.rows:
            array[end:] = 0
        return way.rows
