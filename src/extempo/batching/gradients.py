"""Gradients of a run: one node of the graph outside, whose backward goes through the batches in reverse.

Every value of the run that is tracked has a row for its gradient, of an array for each result of a kind; the rows of a
batch are next to each other. A batch's backward takes those of its results and adds to those of its inputs, wherever
they are (`RowTable.scatter_add`). Bytes called marks say which results of which batches have got any gradient: a batch
without one is passed over. What tensors from outside get is handed to the graph there. Gradients of weights, which are
tensors that kinds capture and inputs that all calls share, are deferred: they come last, for all batches of a kind at
once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..backends.selection import empty, native
from ..core.context import CONTEXT
from ..core.graph import Node, Pick
from ..core.op import Op, Refuse
from ..core.source_location import user_line
from ..core.storage import Array
from ..core.tensor import Tensor, wrap
from ..core.types import TensorType
from ..errors import GraphFreedError, UnsupportedError
from .kinds import CallKind, Runner
from .parts import ROOT, VALUE
from .rows import RowTable


class Group:
    """A batch that has run, or levels of one kind."""

    __slots__ = ("counts", "ends", "firsts", "kind", "layouts", "refs", "runner", "saved", "shared")

    def __init__(
        self,
        kind: CallKind,
        runner: Runner | None,
        refs: Any,
        shared: tuple[bool, ...],
        firsts: Any,
        saved: Any,
        ends: list[int] | None = None,
    ) -> None:
        self.kind = kind
        self.runner = runner  # None for a stack, which takes no more than moving rows
        self.refs = refs  # of the inputs: a row for each call
        self.shared = shared
        self.firsts = firsts  # the first result of each call
        self.saved = saved  # of levels: `Levels`
        self.ends = [len(firsts)] if ends is None else ends  # of each level
        self.counts: Any = None  # of calls at several sizes: rows that each has in every result, or in each of them
        self.layouts: list[Layout | None] | None = None  # and how the gradients of inputs go to their values


class Layout(NamedTuple):
    """How rows of gradients go to the values that calls at several sizes were given."""

    counts: Any  # rows of each call
    is_repeated: bool = False  # each row of a call has the call's own value, rather than a row of it
    values: Any = None  # those that get them, if they are not one for each call


class LevelGroups(NamedTuple):
    """Levels of kinds that ran interleaved, one group for each kind, as scheduled: (which group, which level)."""

    groups: list[Group]
    schedule: list[tuple[int, int]]


class GradientSource:
    """A tensor from outside, as it was when the run met it."""

    __slots__ = ("array", "is_read", "node", "storage", "version")

    def __init__(self, t: Tensor) -> None:
        self.node = t._own_node()
        self.array, self.storage = t._values(), t._storage
        self.version = self.storage.version
        self.is_read = False  # by backward, so that it must not be written before


class RunHistory:
    """What gradients need of a run. It outlives the run's values."""

    __slots__ = ("captured", "groups", "is_last", "n_flushes", "n_open", "n_values", "outside", "parts")

    def __init__(self) -> None:
        self.groups: list[Group | LevelGroups] | None = []  # in the order in which they ran; None once they were freed
        self.captured: dict[int, GradientSource] = {}  # weights, by id: tracked ones, and what backward reads
        self.outside: dict[int, GradientSource] = {}  # tracked tensors among the values, by value
        self.parts: list[Array] = []  # values that are stretches of others (`parts.py`)
        self.n_values = 0
        self.n_flushes = 0  # that have made them
        self.n_open = 0  # nodes that a backward may still go through
        self.is_last = False  # no backward comes after the one that is under way


class BatchRun(Op, abstract=True):
    """The node of a run; its results are the tensors that left it."""

    name = "batch"
    family = "custom"
    materialize = False
    traceable = False
    gives_away = True
    infer = Refuse("a run knows its results when it has run")
    numpy = Refuse("its batches have run")
    saves = ()
    lower = Refuse("its batches have run")
    batch = Refuse("its batches have run")
    ragged = Refuse("its batches have run")
    onnx = Refuse("what each sample does is exported, not how they are batched")
    samples = Refuse("the ops and cells inside are tested")

    @classmethod
    def vjp(
        cls,
        g: tuple[Any, ...],
        y: Any,
        *inputs: Any,
        history: RunHistory,
        values: list[Any],
        outside: list[int],
        captured: list[int],
    ) -> list[Any]:
        if CONTEXT.get().grad:
            raise UnsupportedError(
                "backward: create_graph=True through ex.batch, whose gradient is not recorded; use "
                "ex.batch(fn, debug=True) for second derivatives"
            )
        seeds = [(value, part._array) for value, part in zip(values, g, strict=True) if part is not None]
        of_outside, of_captured = _backward(history, seeds)
        found = [*[of_outside.get(value) for value in outside], *[of_captured.get(key) for key in captured]]
        types = [x._type if isinstance(x, Tensor) else x for x in inputs]
        return [None if array is None else wrap(array, t) for array, t in zip(_each_its_own(found), types, strict=True)]

    @classmethod
    def freeing(cls, node: Node) -> None:
        """A backward is about to pass; if none comes after it, it need not keep what it has been through."""
        history = node.attrs["history"]
        history.is_last = history.n_open == 1

    @classmethod
    def freed(cls, node: Node) -> None:
        """A backward has passed that does not come back."""
        history = node.attrs["history"]
        history.n_open -= 1
        if history.n_open == 0:
            history.groups = None


def link_results(history: RunHistory, tensors: Sequence[Tensor]) -> None:
    """Tensors of the run become results of a node."""
    link_values(history, tensors, [t._value_id for t in tensors])


def link_values(history: RunHistory, tensors: Sequence[Tensor], values: list[Any]) -> None:
    """Tensors become results of a node; each has one value of the run, or a row for each of an array of them."""
    if not tensors:
        return
    where = user_line()
    sources = [*history.outside.values(), *history.captured.values()]
    n_outside = len(history.outside)
    # A weight that is written before backward would give wrong gradients; rows of other tensors were copied.
    weights = [(i, s) for i, s in enumerate(sources[n_outside:], start=n_outside) if s.is_read]
    saved = tuple((1 + i, s.array, s.storage, s.version) for i, s in weights)
    attrs = {
        "history": history,
        "values": values,
        "outside": list(history.outside),  # the run may meet more tensors after this
        "captured": list(history.captured),
    }
    node = Node(BatchRun, tuple(s.node for s in sources), attrs, tuple(t._type for t in tensors), saved, where)
    history.n_open += 1
    for i, t in enumerate(tensors):
        t._history = Node(Pick, (node,), {"index": i}, t._type, (), where)


def _calls_of(step: Group | LevelGroups) -> Iterator[tuple[Group, slice]]:
    """The calls of a step, those that ran last first."""
    if isinstance(step, Group):
        yield step, slice(None)
        return
    for which, level in reversed(step.schedule):
        group = step.groups[which]
        yield group, slice(group.ends[level - 1] if level else 0, group.ends[level])


def _each_its_own(arrays: Sequence[Array | None]) -> list[Array | None]:
    """Copies where one array is the gradient of several tensors."""
    made, ids = [], set()
    for array in arrays:
        made.append(array.copy() if array is not None and id(array) in ids else array)
        ids.add(id(array))
    return made


def _backward(history: RunHistory, seeds: list[tuple[Any, Array]]) -> tuple[dict[int, Array], dict[int, Array]]:
    """The gradients of tensors from outside, by value, and of captured ones, by id."""
    groups = history.groups
    if groups is None:
        raise GraphFreedError(
            "backward: the graph of this ex.batch run was freed by an earlier backward; run the samples again, or call "
            "backward(retain_graph=True) the first time"
        )
    if history.is_last:
        history.groups = None
    if history.n_flushes > 1 and native() is not None:
        from .rebatching import rebatched  # which knows the plans that native code runs

        values = np.concatenate([np.array([], np.int64), *[np.atleast_1d(value) for value, _ in seeds]])
        groups = rebatched(groups, history.parts, history.n_values, values)
    return _BackwardPass(history, groups).run(seeds)


class _BackwardPass:
    """One backward through the batches of a run."""

    def __init__(self, history: RunHistory, steps: list[Group | LevelGroups]) -> None:
        self._history = history
        self._steps = steps
        self._groups = groups = [
            g for step in steps for g in (step.groups if isinstance(step, LevelGroups) else [step])
        ]
        self._table = RowTable(history.n_values)
        # Rows of gradients have slots: one for each result of each level of each batch.
        self._slots = np.full(history.n_values, -1, np.int64)  # by value
        self._rows: list[Array | None] = []  # by slot: at that of the first level, those of all levels
        self._first_slots: list[int] = []  # by batch
        self._of_outside: dict[int, Array] = {}
        kinds: dict[CallKind, list[int]] = {}
        for k, group in enumerate(groups):
            if group.counts is None:
                kinds.setdefault(group.kind, []).append(k)
            self._first_slots.append(len(self._rows))
            self._rows += [None] * (len(group.kind.results) * len(group.ends))
        for kind, members in kinds.items():
            self._make_room(kind, members)
        for first, group in zip(self._first_slots, groups, strict=True):
            if group.counts is not None:
                self._make_room_for_pieces(first, group, group.counts)
        for parts in history.parts:
            self._make_room_for_wholes(parts)
        for parts in history.parts:  # of values that are not tracked, nothing is there that they could be parts of
            self._table.add_parts(parts)
            self._slots[parts[:, VALUE]] = self._slots[parts[:, ROOT]]
        self._marks = bytearray(len(self._rows))  # slots that have got a gradient
        self._as_marks = np.frombuffer(self._marks, np.uint8)

    def _make_room(self, kind: CallKind, members: list[int]) -> None:
        """One array for each result that is tracked, with rows for these batches one after another."""
        all_firsts = [self._groups[k].firsts for k in members]
        firsts = all_firsts[0] if len(members) == 1 else np.concatenate(all_firsts)
        counts, first_slots = [], []
        for k in members:
            slot, start = self._first_slots[k], 0
            for end in self._groups[k].ends:
                counts.append(end - start)
                first_slots.append(slot)
                slot, start = slot + len(kind.results), end
        for i, (t, tracked) in enumerate(zip(kind.results, kind.tracked, strict=True)):
            if not tracked:
                continue
            rows, values = empty(TensorType((len(firsts), *t.shape), t.dtype)), firsts + i if i else firsts
            rows.fill(0)
            slots = [slot + i for slot in first_slots]
            self._slots[values] = slots[0] if len(slots) == 1 else np.repeat(slots, counts)
            self._table.add_at(values, rows)
            start = 0
            for k in members:
                n = len(self._groups[k].firsts)
                self._rows[self._first_slots[k] + i] = rows[start : start + n]
                start += n

    def _make_room_for_pieces(self, first: int, group: Group, counts: Any) -> None:
        """The same for a batch whose calls have so many rows each in their results."""
        kind = group.kind
        for i, (t, tracked) in enumerate(zip(kind.results, kind.tracked, strict=True)):
            if tracked:
                own = counts if counts.ndim == 1 else counts[i]
                rows, values = empty(TensorType((int(own.sum()), *t.shape), t.dtype)), group.firsts + i
                rows.fill(0)
                self._slots[values] = first + i
                self._table.add_pieces(values, own, rows)
                self._rows[first + i] = rows

    def _make_room_for_wholes(self, parts: Array) -> None:
        """For tensors from outside that values are parts of."""
        for value in np.unique(parts[:, ROOT]).tolist():
            source = self._history.outside.get(value)
            if source is not None and value not in self._of_outside:
                self._of_outside[value] = np.zeros(source.array.shape, source.array.dtype)
                self._table.add_one(value, self._of_outside[value])
                self._slots[value] = len(self._rows)
                self._rows.append(None)

    def run(self, seeds: list[tuple[Any, Array]]) -> tuple[dict[int, Array], dict[int, Array]]:
        self._seed(seeds)
        deferred: dict[Runner, list[Any]] = {}
        k = len(self._groups)
        for step in reversed(self._steps):
            if isinstance(step, LevelGroups):
                k -= len(step.groups)
                self._through_levels(step, self._first_slots[k : k + len(step.groups)], deferred)
            else:
                k -= 1
                self._through_batch(step, self._first_slots[k], deferred)
            if self._history.is_last:
                for group in step.groups if isinstance(step, LevelGroups) else [step]:
                    group.saved = None
        of_captured: dict[int, Array] = {}
        for runner, of_batches in deferred.items():
            for t, total in runner.finish(of_batches):
                before = of_captured.get(id(t))
                of_captured[id(t)] = total if before is None else before + total
        self._drop_unreached([value for value, _ in seeds])
        return self._of_outside, of_captured

    def _drop_unreached(self, seeds: list[Any]) -> None:
        """What shares a batch with others, and has no part in the results, has got zeros, or what is not a number."""
        if not self._of_outside or any(isinstance(value, np.ndarray) for value in seeds):
            return  # the latter are of a loop in lockstep, which reads all that it gets
        with np.errstate(all="ignore"):
            sums = [(value, float(np.sum(g, dtype=np.float64))) for value, g in self._of_outside.items()]
        if any(total == 0.0 or not np.isfinite(total) for _, total in sums):
            reached = self._reached(seeds)
            self._of_outside = {value: g for value, g in self._of_outside.items() if reached[value]}

    def _reached(self, seeds: list[int]) -> Array:
        """Which values the results in question were computed from, call by call: bools by value."""
        roots = np.arange(self._history.n_values)
        for parts in self._history.parts:
            roots[parts[:, VALUE]] = parts[:, ROOT]
        reached = np.zeros(len(roots), np.bool_)
        reached[roots[seeds]] = True
        reached[seeds] = True
        for step in reversed(self._steps):
            for group, own in _calls_of(step):
                firsts, refs = group.firsts[own], group.refs[own]
                results = firsts[:, None] + np.arange(len(group.kind.results))
                n_inputs = len(group.kind.inputs)
                if n_inputs == refs.shape[1] and (group.layouts is None or n_inputs == len(group.layouts)):
                    refs = refs[:, [i.tracked for i in group.kind.inputs]]
                values = refs[reached[results].any(1)].reshape(-1)
                values = values[values >= 0]  # others are numbers
                reached[values] = True
                reached[roots[values]] = True
        return reached

    def _through_batch(self, group: Group, first: int, deferred: dict[Runner, list[Any]]) -> None:
        """Through one batch, whose results have slots from `first` on."""
        marks, end = self._marks, first + len(group.kind.results)
        if 1 not in marks[first:end]:
            return
        of_results = [self._rows[slot] if marks[slot] else None for slot in range(first, end)]
        if group.runner is None:
            self._add_parts(group, of_results[0])
            return
        of_inputs, left = group.runner.backward(group.saved, of_results)
        deferred.setdefault(group.runner, []).append(left)
        for j, g in enumerate(of_inputs):
            if g is None:
                continue
            layout = None if group.layouts is None else group.layouts[j]
            if group.shared[j]:
                self._add(group.refs[:1, j], g[None])
            elif layout is not None and layout.is_repeated:
                self._add(np.repeat(group.refs[:, j], layout.counts), g)
            elif layout is not None:
                self._add_pieces(group.refs[:, j] if layout.values is None else layout.values, layout.counts, g)
            else:
                self._add(group.refs[:, j], g)

    def _through_levels(self, step: LevelGroups, first_slots: list[int], deferred: dict[Runner, list[Any]]) -> None:
        """Through levels, adding the gradients of their inputs."""
        from .levels import BackwardOfLevels

        marks, as_marks, slots, table = self._marks, self._as_marks, self._slots, self._table
        kinds = []
        for group, first in zip(step.groups, first_slots, strict=True):
            n = len(group.kind.results)
            backward = BackwardOfLevels(group.kind, group.saved, self._rows[first : first + n])
            kinds.append((backward, list(group.saved.columns), [0, *group.ends], first, n))
        for which, level in reversed(step.schedule):
            backward, columns, starts, first, n = kinds[which]
            shared = step.groups[which].shared
            slot = first + level * n
            seeded = bytes(marks[slot : slot + n])
            if 1 not in seeded:
                continue
            start = starts[level]
            for column, g, is_shared in zip(columns, backward.run(level, seeded), shared, strict=True):
                if g is not None and is_shared:
                    self._add(column[:1], g[None])
                elif g is not None:
                    if self._history.outside:
                        self._make_room_outside(column[start : start + len(g)], g.dtype)
                    table.add_from(start, column, g, slots, as_marks)
        for group, (backward, *_) in zip(step.groups, kinds, strict=True):
            if group.runner is not None:
                deferred.setdefault(group.runner, []).extend(backward.deferred())

    def _add_parts(self, group: Group, g: Any) -> None:
        """The gradient of a stack: parts of it are those of its inputs."""
        which = np.array([i.tracked for i in group.kind.inputs])
        parts = g.reshape(*group.refs.shape, *group.kind.inputs[0].type.shape)
        refs = group.refs
        if not which.all():
            refs, parts = refs[:, which], np.ascontiguousarray(parts[:, which])
        self._add(refs.reshape(-1), parts.reshape(-1, *parts.shape[2:]))

    def _seed(self, seeds: list[tuple[Any, Array]]) -> None:
        """The gradients that come in, those of one shape together; rows for many values as they are."""
        same: dict[Any, list[tuple[int, Array]]] = {}
        for value, g in seeds:
            if isinstance(value, np.ndarray):
                self._add(value, np.ascontiguousarray(g))
            else:
                same.setdefault((g.shape, g.dtype), []).append((value, g))
        for (shape, dtype), pairs in same.items():
            rows = np.empty((len(pairs), *shape), dtype)
            for i, (_, g) in enumerate(pairs):
                rows[i] = g
            self._add(np.array([value for value, _ in pairs]), rows)

    def _add(self, values: Any, g: Array) -> None:
        """Rows of gradients for these values."""
        if self._history.outside:
            self._make_room_outside(values, g.dtype)
        self._table.scatter_add(values, g, self._slots, self._as_marks)

    def _add_pieces(self, values: Any, counts: Any, g: Array) -> None:
        """The same, so many rows for each value, end to end."""
        if self._history.outside:
            self._make_room_outside(values, g.dtype)
        self._table.scatter_add_pieces(values, counts, g, self._slots, self._as_marks)

    def _make_room_outside(self, values: Any, dtype: Any) -> None:
        """For tensors from outside among these values."""
        for value in values[self._slots[values] < 0].tolist():
            if value not in self._of_outside:
                array = self._of_outside[value] = np.zeros(self._history.outside[value].array.shape, dtype)
                self._table.add_one(value, array)
