"""Larger batches for backward. Forward had to stop where samples asked for values; backward need not.

What forward ran in many small batches, because samples decided by values how to go on, is put in order once more, as if
nobody had asked (`agenda`): calls of one kind that do not depend on each other become one level, and what backward
needs of them is copied together (`levels`). A policy that was asked for an action at every step has one batch then, and
a tree that was grown child by child as many levels as it is deep. Calls that the results in question were not computed
from are left out: beside others, an infinite value of theirs would spoil the gradients of weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..backends.selection import empty
from ..core.storage import Array
from ..core.types import TensorType, from_numpy_dtype
from .agenda import Makers, components_of, interleaved_batches, levels_of
from .backward_programs import rounded
from .gradients import Group, LevelGroups
from .levels import Levels
from .native_runner import SavedRows
from .parts import ROOT, VALUE
from .programs import Programs

Step = Group | LevelGroups
_MOST_UNITS = 63  # beyond, putting them in order takes too long
_LONGEST_ASIDE = 256
_FEWEST, _SHARE = 8, 0.7  # batches from which on it may pay, and how many of them may be left


class _Unit(NamedTuple):
    """What is put in order: batches of one kind that can be put together, or a single step that stays as it is."""

    steps: list[tuple[int, Step]]  # with their numbers
    refs: list[Array]  # of each group among them
    firsts: list[Array]
    n_results: list[int]
    is_free: bool


def rebatched(steps: list[Step], parts: Sequence[Array], n_values: int, seeds: Array) -> list[Step]:
    """The steps of a run in larger batches, for gradients of some values; the same list where that would not pay.

    Where it did not, runs like it are left alone for a while: for twice as many each time.
    """
    if len(steps) < _FEWEST:
        return steps
    one = steps[len(steps) // 2]
    kind = one.kind if isinstance(one, Group) else one.groups[0].kind
    if kind.backward_aside > 0:
        kind.backward_aside -= 1
        return steps
    made = _rebatched(steps, parts, n_values, seeds)
    kind.next_aside = min(2 * kind.next_aside, _LONGEST_ASIDE) if made is steps else 1
    kind.backward_aside = kind.next_aside if made is steps else 0
    return made


class _Reordered(NamedTuple):
    """Units that depend on each other: their steps as they were, and perhaps as levels that are fewer."""

    steps: list[Step]
    kinds: list[int]  # which units
    levels: dict[int, tuple[Any, list[int]]]  # of each the calls, level after level, and where each ends
    schedule: list[tuple[int, int]]  # empty: they stay as they are


def _rebatched(steps: list[Step], parts: Sequence[Array], n_values: int, seeds: Array) -> list[Step]:
    units = _units(steps)
    if len(units) > _MOST_UNITS or len(units) > _SHARE * len(steps):
        return steps
    orders = _orders(units, parts, n_values)
    if sum(len(order.schedule) or len(order.steps) for order in orders) > _SHARE * len(steps):
        return steps
    live = _LiveValues(n_values, parts, seeds)
    made: list[Step] = []
    for order in reversed(orders):
        new = _levels(order, units, live) if order.schedule else None
        if new is None:
            for step in reversed(order.steps):
                live.go_through(step)
            made += reversed(order.steps)
        elif new.schedule:
            made.append(new)
    return made[::-1]


def _orders(units: list[_Unit], parts: Sequence[Array], n_values: int) -> list[_Reordered]:
    makers = Makers(0, n_values)
    all_refs: list[Any] = []
    for k, unit in enumerate(units):
        if unit.is_free:  # its calls are counted through
            makers.note(k, _together(unit.firsts), unit.n_results[0])
            all_refs.append(_together(unit.refs))
        else:
            for firsts, n_results in zip(unit.firsts, unit.n_results, strict=True):
                makers.note(k, firsts, n_results)
            all_refs.append(np.concatenate([refs.reshape(-1) for refs in unit.refs])[:, None])
    for some in parts:
        makers.note_parts(some)
    sources = makers.sources(all_refs)
    orders = []
    for kinds in components_of(sources):
        own = sorted((step for k in kinds for step in units[k].steps), key=lambda numbered: numbered[0])
        order = _Reordered([step for _, step in own], kinds, {}, [])
        if len(own) > 1 and all(units[k].is_free for k in kinds):
            k = kinds[0]
            if len(kinds) > 1:
                levels, schedule = interleaved_batches(kinds, all_refs, makers)
            elif sources[k] >> k & 1:
                levels = {k: levels_of(k, all_refs[k], makers)}
                schedule = [(0, level) for level in range(len(levels[k][1]))]
            else:
                levels, schedule = {k: (np.arange(len(all_refs[k])), [len(all_refs[k])])}, [(0, 0)]
            if len(schedule) < len(own):
                order = _Reordered(order.steps, kinds, levels, schedule)
        orders.append(order)
    return orders


class _LiveValues:
    """Which values the results in question were computed from."""

    def __init__(self, n_values: int, parts: Sequence[Array], seeds: Array) -> None:
        self._roots = np.arange(n_values)
        for some in parts:
            self._roots[some[:, VALUE]] = some[:, ROOT]
        self._is_live = np.zeros(n_values, np.bool_)
        self._mark(seeds)

    def _mark(self, values: Array) -> None:
        self._is_live[values] = True
        self._is_live[self._roots[values]] = True

    def live_rows(self, firsts: Array, n_results: int) -> Array:
        """Which calls, by their first results, have one that is live: bools."""
        found = self._is_live[firsts]
        for i in range(1, n_results):
            found = found | self._is_live[firsts + i]
        return found

    def read(self, refs: Array) -> None:
        """Calls that are live read these values; below 0 are numbers."""
        values = refs.reshape(-1)
        self._mark(values[values >= 0])

    def go_through(self, step: Step) -> None:
        """A step that stays as it is: all its calls count as live, since backward goes through it as a whole."""
        if isinstance(step, LevelGroups):
            for group in step.groups:
                self.read(group.refs)
        elif self.live_rows(step.firsts, len(step.kind.results)).any():
            self.read(step.refs)


def _units(steps: list[Step]) -> list[_Unit]:
    free: dict[Any, _Unit] = {}
    units = []
    for numbered in enumerate(steps):
        step = numbered[1]
        groups = step.groups if isinstance(step, LevelGroups) else [step]
        key = _key(step) if isinstance(step, Group) else None
        unit = None if key is None else free.get(key)
        if unit is None:
            unit = _Unit([], [], [], [], key is not None)
            units.append(unit)
            if key is not None:
                free[key] = unit
        unit.steps.append(numbered)
        for group in groups:
            unit.refs.append(group.refs)
            unit.firsts.append(group.firsts)
            unit.n_results.append(len(group.kind.results))
    return units


def _key(group: Group) -> Any:
    """What batches share that can be put together: who runs them, and what they read besides rows; None for others."""
    saved = group.saved
    if type(saved) is not SavedRows or group.counts is not None:
        return None
    programs, _, numbers, arrays, shared = saved
    if programs.made_rows is None or numbers is not programs.literals:
        return None
    return group.runner, *[id(arrays[i]) for i in programs.saved_weights], *[id(one.array) for one in shared]


def _levels(order: _Reordered, units: list[_Unit], live: _LiveValues) -> LevelGroups | None:
    """Batches as levels of what is live; None if nobody runs such levels."""
    refs = [_together(units[k].refs) for k in order.kinds]
    firsts = [_together(units[k].firsts) for k in order.kinds]
    columns = [np.flatnonzero([i.tracked for i in _first_of(units[k]).kind.inputs]) for k in order.kinds]
    left: list[list[Array]] = [[] for _ in order.kinds]  # of each kind the calls of its levels, the last one first
    schedule = []
    for which, level in reversed(order.schedule):
        k = order.kinds[which]
        members, ends = order.levels[k]
        rows = members[ends[level - 1] if level else 0 : ends[level]]
        rows = rows[live.live_rows(firsts[which][rows], units[k].n_results[0])]
        if len(rows):
            live.read(refs[which][rows][:, columns[which]])
            schedule.append((which, len(left[which])))
            left[which].append(rows)
    schedule = [(which, len(left[which]) - 1 - level) for which, level in reversed(schedule)]
    groups = []
    for which, k in enumerate(order.kinds):
        group = _merged(units[k], refs[which], firsts[which], left[which][::-1])
        if group is None:
            return None
        groups.append(group)
    return LevelGroups(groups, schedule)


def _first_of(unit: _Unit) -> Group:
    step = unit.steps[0][1]
    assert isinstance(step, Group)
    return step


def _merged(unit: _Unit, refs: Array, firsts: Array, levels: list[Array]) -> Group | None:
    """The calls of some levels as one group; None if backward cannot run so."""
    first = _first_of(unit)
    programs: Programs = first.saved.programs
    if not all(programs.goes_back_at_level(len(level)) for level in levels):
        return None
    members = np.concatenate(levels) if levels else np.empty(0, np.int64)
    refs, firsts, ends = refs[members], firsts[members], np.cumsum([len(level) for level in levels]).tolist()
    n_padded, saved = rounded(len(firsts)), []
    for position, i in enumerate(programs.saved):
        arrays = [step.saved.arrays[position] for _, step in unit.steps if isinstance(step, Group)]
        has_rows = programs.has_rows(i)
        saved.append((_rows(arrays, members, n_padded) if has_rows else arrays[0], has_rows))
    merged = Levels(programs, np.ascontiguousarray(refs.T), ends, saved, n_padded, first.saved.shared)
    return Group(first.kind, first.runner, refs, first.shared, firsts, merged, ends)


def _rows(arrays: list[Array], members: Array, n_padded: int) -> Array:
    """Rows of several arrays, those in question, with room behind them."""
    made = empty(TensorType((n_padded, *arrays[0].shape[1:]), from_numpy_dtype(arrays[0].dtype)))
    np.take(_together(arrays), members, axis=0, out=made[: len(members)])
    return made


def _together(arrays: list[Array]) -> Array:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
