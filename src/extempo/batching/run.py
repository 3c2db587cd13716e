"""A run of `ex.batch`: calls recorded by all samples, run as batches when values are needed.

Every value of the run has an id. Recording a call notes its kind and the ids of its inputs, and hands out tensors that
have a type and no values. `flush` runs what was recorded, batch by batch as the agenda says; results are rows in the
arrays of their batches, and a table finds the row of each value. A tensor from outside is a value, too.

For gradients the whole run is one node (`gradients`). A tensor that escapes (a result of the function, or one whose
node, hook or memory is asked for) gets its row as memory of its own and becomes one of that node's results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from ..backends import entry_points
from ..core.debuggers import is_looked_at
from ..core.graph import Node, Traced
from ..core.source_location import user_line
from ..core.storage import Array, Storage
from ..core.tensor import LazySource, Tensor, new, wrap
from ..core.types import TensorType, count, get_default_dtype, int64
from .agenda import Batches, Calls, order
from .call_cache import recorder
from .gradients import GradientSource, Group, LevelGroups, RunHistory, link_results
from .kinds import LARGE, CallKind, SharedTensor
from .native_runner import NativeRunner, runner_of
from .needed import WaitingValues
from .op_kinds import OpKind
from .parts import ROOT, Parts, Stretch
from .report import Notes
from .rows import RowTable
from .sharing import SameViews, SharedInputs, members_by, row_major, shared_columns, split_by_weights
from .sizes.by_rows import RowForm
from .sizes.each import run_each
from .sizes.forms import SizedBatch, SizedKind
from .sizes.together import put_together

_UNHELD = 3  # references to a tensor that a table, a variable and who counts have
FEW_LEVELS = 4  # of a kind, up to which what is done once for all of them takes longer than what it saves


@entry_points.READ_LINE.function(lambda: recorder().line)
def _line_of_read(before: Any) -> Any:
    """Where the user's code stands; most often at the line where it stood before, which native code looks for first."""
    return user_line()


class BatchExecutor(LazySource):
    """All samples of one call of a batched function."""

    __slots__ = (
        *("__weakref__", "_captured_by", "_constants", "_copied", "_first_waiting", "_known", "_met", "_met_strided"),
        *("_n_flushed", "_numbers", "_parts", "_pause", "_read", "_tensors", "_views", "_waiting_values", "_wants_all"),
        *("_traced_node", "_waiting", "failed_sample", "history", "n_values", "notes", "own_leaves", "values"),
    )

    def __init__(self, notes: Notes, pause: Callable[[], None]) -> None:
        self.notes = notes
        self.values = RowTable()
        self.n_values = 0
        self.history = RunHistory()
        self.failed_sample = -1  # the one whose call has failed
        self.own_leaves: set[int] = set()  # ids of tracked leaves that one sample was given: they count as values
        self._pause = pause  # returns when everything recorded so far has run
        self._waiting: dict[CallKind, Calls] = {}
        self._first_waiting = 0  # values below have been made
        self._n_flushed = 0  # values at the last flush; of those from the first that waits on, some have been made
        self._waiting_values = WaitingValues()
        self._captured_by: set[CallKind] = set()  # kinds whose weights are noted
        self._copied: set[int] = set()  # values from outside that the table has copies of
        self._wants_all = False  # somebody waits until everything has run
        self._numbers: list[Any] = []
        self._known: dict[int, int] = {}  # the value of a tensor from outside, by its id
        self._tensors: dict[int, Tensor] = {}  # those tensors, by value
        self._met: list[tuple[int, Tensor, Array]] = []  # what is not yet there, and its array
        self._met_strided = False  # whether some of these arrays are not row-major
        self._parts = Parts()
        self._views = SameViews()
        self._constants: dict[CallKind, int] = {}  # of kinds without inputs: the first result of the one call
        self._read: list[Tensor] = []  # tensors whose values samples wait for
        self._traced_node = Node(Traced, (), {}, None, (), None)  # of every result that is tracked, until it escapes

    # ---- recording

    def call(self, kind: CallKind, inputs: Sequence[Any], sample: int) -> list[Tensor]:
        """Record a call; its results. Native code does the same (`call_cache`)."""
        sized = kind.waits_with
        calls = self._waiting.get(sized or kind)
        if calls is None:
            calls = self._new_kind(sized or kind)
        if sized is not None:
            calls.kinds.append(kind)
        refs = []
        for x in inputs:
            if isinstance(x, Tensor):
                refs.append(x._value_id if x._source is self else self._from_outside(x))
            else:
                self._numbers.append(x)
                refs.append(-len(self._numbers))
        calls.refs += refs
        calls.firsts.append(self.n_values)
        calls.samples.append(sample)
        calls.wheres.append(user_line())
        return [self._new_value(type_, tracked) for type_, tracked in zip(kind.results, kind.tracked, strict=True)]

    def constant(self, kind: CallKind, sample: int) -> list[Tensor]:
        """The results of a kind without inputs, which all its calls have in common: it is called once."""
        first = self._constants.get(kind)
        if first is None:
            made = self.call(kind, (), sample)
            self._constants[kind] = made[0]._value_id
            return made
        n_values, self.n_values = self.n_values, first
        made = [self._new_value(type_, tracked) for type_, tracked in zip(kind.results, kind.tracked, strict=True)]
        self.n_values = n_values
        return made

    def _new_value(self, type_: TensorType, tracked: bool) -> Tensor:
        t = new(Tensor)
        t._data = t._memory = t._alias = t._grad_barrier = None
        t._type = type_
        t._history = self._traced_node if tracked else None
        t._source = self
        t._value_id = self.n_values
        self.n_values += 1
        return t

    def part_of(self, x: Tensor, stretch: Stretch, tracked: bool) -> Tensor:
        """A stretch of a value of the run, as a value: nothing has to run for it."""
        t = self._new_value(stretch.type, tracked)
        self._parts.add(t._value_id, x._value_id, stretch)
        return t

    def _new_kind(self, kind: CallKind) -> Calls:
        if kind not in self._captured_by:  # of waves, each has its kinds anew
            self._captured_by.add(kind)
            for t in kind.captured:
                if t.requires_grad:
                    self._capture(t, True)
        calls = self._waiting[kind] = Calls(kind)
        return calls

    def _capture(self, t: Tensor, is_read: bool, source: GradientSource | None = None) -> None:
        """A weight: a gradient of it will come, or backward reads it. `source`: the tensor as the run met it."""
        found = self.history.captured.get(id(t))
        if found is None:
            found = self.history.captured[id(t)] = source or GradientSource(t)
        found.is_read |= is_read

    def _from_outside(self, t: Tensor) -> int:
        """The value of a tensor from outside. Native code does the same for most that are new."""
        found = self._known.get(id(t))
        if found is None:
            array = t._values()
            self._met_strided |= not array.flags.c_contiguous
            source = GradientSource(t) if t.requires_grad else None
            found = self._known[id(t)] = self.n_values
            self.n_values += 1
            self._met.append((found, t, array))
            if source is not None:
                self.history.outside[found] = source
        return found

    def forget(self, t: Tensor) -> None:
        """A tensor from outside gets other values: calls that were recorded before keep the ones it had."""
        found = self._known.pop(id(t), None)
        if found is not None:
            old = wrap(t._data, t._type)
            self._met = [(value, old if x is t else x, array) for value, x, array in self._met]
            if found in self._tensors:
                self._tensors[found] = old

    # ---- running

    def flush(self) -> None:
        """Run what was recorded."""
        self._wants_all = False
        self._run_recorded(only_for_reads=False)

    def flush_for_reads(self) -> None:
        """Run what the values that samples wait for need. Of the rest more runs at once later."""
        wants_all, self._wants_all = self._wants_all, False
        self._run_recorded(only_for_reads=bool(self._read) and not wants_all)

    def _run_recorded(self, only_for_reads: bool) -> None:
        recorded, self._waiting = [calls for calls in self._waiting.values() if calls.firsts], {}
        self._first_waiting = self._n_flushed = self.history.n_values = self.n_values
        parts = self._parts.take_waiting()
        met = self._take_in() if recorded else ()
        self._views.add(met, self._tensors)
        waiting = recorded
        is_replaced = self._views.replace(recorded)
        if only_for_reads and not is_replaced:
            waiting, parts = self._needed(recorded, parts)
        else:
            self._waiting_values.forget()
        first = min([calls.firsts[0] for calls in waiting], default=self.n_values)
        parts = self._place_parts(parts, first)
        wanted, self._read = self._read, []
        if not waiting:
            self._fill_all(wanted)
            return
        self.notes.n_waves += 1
        self.history.n_flushes += 1
        for calls in waiting:
            calls.kind.n_calls += len(calls.firsts)
        waiting = put_together([part for calls in waiting for part in split_by_weights(calls, self._tensors)])
        for batches, schedule in order(waiting, first, self.n_values, parts):
            shared = [self._shared(b.calls.kind, b.refs) for b in batches]
            n_done = self._run_levels(batches, shared, schedule) if len(schedule) > FEW_LEVELS * len(batches) else 0
            for i, (which, level) in enumerate(schedule):
                calls, members, refs, firsts, ends, parts = batches[which]
                if len(ends) > 1:
                    own = slice(ends[level - 1] if level else 0, ends[level])
                    members, refs, firsts = members[own], refs[own], firsts[own]
                if i >= n_done:
                    self._run_batch(calls, members, refs, firsts, shared[which])
                    if parts is not None:
                        self.values.add_parts(parts)
                self.notes.batches.append((calls, members, self.notes.n_waves))
        self._let_go_of_unheld(met)
        self._fill_all(wanted)

    def _needed(self, recorded: list[Calls], parts: Any) -> tuple[list[Calls], Any]:
        """The calls, and parts of values, that are to run for what is read. The others wait on."""
        values = self._waiting_values
        candidates = [calls for calls in recorded if values.may_wait(calls)]
        if not candidates:
            return recorded, parts
        new_refs = values.note(candidates, parts)
        certain = [calls for calls in recorded if calls not in new_refs]
        needed = values.needed([t._value_id for t in self._read], certain)
        large = [calls for calls in candidates if calls not in needed and not self._copy_inputs(new_refs[calls])]
        if large:
            needed |= {*large} | values.needed([], large)
        for calls in candidates:
            if calls in needed:
                calls.kind.n_waited -= 1
            else:
                calls.kind.n_waited = max(calls.kind.n_waited, 0) + 1
                self._waiting[calls.kind] = calls
                self._first_waiting = min(self._first_waiting, calls.firsts[0])
        values.run(needed, parts)
        if parts is not None and self._waiting:
            is_kept = np.array([values.makes(root) for root in parts[:, ROOT].tolist()])
            if is_kept.any():
                self._parts.keep(parts[is_kept])
                parts = None if is_kept.all() else parts[~is_kept]
        return [calls for calls in recorded if calls.kind not in self._waiting], parts

    def _copy_inputs(self, refs: list[int]) -> bool:
        """Whether calls with these inputs may wait on: what they read from outside nobody changes before they run.

        Tracked tensors must not be changed anyway. Of others, whose memory the sample may share with an array that it
        fills anew, small ones are copied.
        """
        outside = [(ref, self._tensors[ref]) for ref in refs if ref in self._tensors and ref not in self._copied]
        free = {ref: t for ref, t in outside if not t.requires_grad}
        if any(count(t._type.shape) >= LARGE for t in free.values()):
            return False
        for ref, t in free.items():
            self.values.add_one(ref, t._values().copy())
            self._copied.add(ref)
        return True

    def _place_parts(self, parts: Any, first: int) -> Any:
        """Parts of values that are there get their places; those of others, from the first on, if any."""
        if parts is None:
            return None
        self.history.parts.append(parts)
        is_made = (parts[:, ROOT] < first) | self.values.has(np.ascontiguousarray(parts[:, ROOT]))
        if is_made.any():
            self.values.add_parts(np.ascontiguousarray(parts[is_made]))
        return None if is_made.all() else parts[~is_made]

    def _shared(self, kind: CallKind, refs: Any) -> SharedInputs:
        """The inputs that all these calls share."""
        if kind.stacks or isinstance(kind, SizedKind):
            return SharedInputs((), [])
        return self._shared_tensors(kind, refs, shared_columns(refs, self._tensors))

    def _shared_by_rows(self, kind: SizedKind, refs: Any) -> SharedInputs:
        """The same of calls at several sizes: tensors that each of their rows has, as they are."""
        if kind.form is not RowForm:
            return SharedInputs((), [])
        which = list(shared_columns(refs, self._tensors))
        for j, has_rows in enumerate(kind.family[1]):
            is_whole = which[j] and self._tensors[int(refs[0, j])]._type == kind.inputs[j].type
            which[j] = not has_rows and is_whole
        return self._shared_tensors(kind, refs, tuple(which))

    def _shared_tensors(self, kind: CallKind, refs: Any, which: tuple[bool, ...]) -> SharedInputs:
        if True not in which:
            return SharedInputs(which, [])
        runner, is_tracked, tensors = _runner_of_rows(kind, which), any(kind.tracked), []
        for j in [j for j, is_shared in enumerate(which) if is_shared]:
            value, t = int(refs[0, j]), kind.inputs[j].type
            one = SharedTensor(self._tensors[value], self.values.gather([value], t.shape, t.dtype.numpy)[0])
            tensors.append(one)
            is_read = is_tracked and runner is not None and runner.keeps(j)  # of others the engine knows it itself
            if is_read or (is_tracked and kind.inputs[j].tracked):
                self._capture(one.tensor, is_read, self.history.outside.get(value))
        return SharedInputs(which, tensors)

    def _run_levels(self, batches: list[Batches], shared: list[SharedInputs], schedule: list[tuple[int, int]]) -> int:
        """Run levels in common arrays; how many of them could be."""
        runners, programs = [], []
        for b, own in zip(batches, shared, strict=True):
            runner = _runner_of_rows(b.calls.kind, own.which)
            planned = None if runner is None else runner.programs_of_rows
            if runner is None or planned is None:
                return 0
            runners.append(runner)
            programs.append(planned)
        from .levels import run_levels  # where there are programs, there is native code

        n_done, saved = run_levels(programs, self.values, batches, [own.tensors for own in shared], schedule)
        if saved is not None and self.history.groups is not None:
            groups = []
            for levels, b, runner in zip(saved, batches, runners, strict=True):
                kind, end = b.calls.kind, levels.ends[-1] if levels.ends else 0
                groups.append(Group(kind, runner, b.refs[:end], runner.shared, b.firsts[:end], levels, levels.ends))
            self.history.groups.append(LevelGroups(groups, schedule[:n_done]))
        return n_done

    def _take_in(self) -> Sequence[int]:
        """Tensors from outside that have been met get their rows; their values."""
        met, self._met = self._met, []
        if not met:
            return ()
        values, tensors, arrays = zip(*met, strict=True)
        self._tensors.update(zip(values, tensors, strict=True))
        self.values.add_each(values, row_major(arrays) if self._met_strided else arrays)
        self._met_strided = False
        return values

    def _let_go_of_unheld(self, values: Sequence[int]) -> None:
        """Tensors that nobody else refers to are not met again: the collector need not look at them from now on."""
        tensors, known, captured = self._tensors, self._known, self.history.captured
        for value in values:
            t = tensors[value]
            if getrefcount(t) == _UNHELD and t._alias is None and id(t) not in captured:
                if known.get(id(t)) == value:
                    del known[id(t)]
                del tensors[value]

    def _run_batch(self, calls: Calls, members: Any, refs: Any, firsts: Any, shared: SharedInputs) -> None:
        """Run calls as one; an error says whose it is."""
        try:
            self._run(calls, members, refs, firsts, shared)
        except Exception as error:
            own = self._blame(error, calls, members, refs, firsts, shared)
            if own is error:
                raise
            raise own from None

    def _run(self, calls: Calls, members: Any, refs: Any, firsts: Any, shared_inputs: SharedInputs) -> None:
        kind, n = calls.kind, len(firsts)
        if isinstance(kind, SizedKind):
            for some in members_by(refs, kind.weights):
                kinds = [calls.kinds[i] for i in members[some].tolist()]
                shared_inputs = self._shared_by_rows(kind, refs[some])
                group = kind.form.run(SizedBatch(self, kind, kinds, refs[some], firsts[some], shared_inputs))
                if any(kind.tracked) and self.history.groups is not None:
                    self.history.groups.append(group)
            return
        if kind.stacks:
            self._run_stack(kind, refs, firsts)
            return
        planned = _runner_of_rows(kind, shared_inputs.which)
        if planned is not None:
            saved = planned.forward_of_rows(self.values, refs, firsts, shared_inputs.tensors)
            if saved is not False:
                if saved is not None and self.history.groups is not None:
                    self.history.groups.append(Group(kind, planned, refs, planned.shared, firsts, saved))
                return
        shared, inputs = [], []
        tensors = iter(shared_inputs.tensors)
        for j, is_shared_tensor in enumerate(shared_inputs.which):
            is_shared, x = (True, next(tensors).tensor) if is_shared_tensor else self.input_of(kind, j, refs[:, j])
            shared.append(is_shared)
            inputs.append(x)
        which = tuple(shared)
        runner = runner_of(kind, which)
        arrays, saved = runner.forward(inputs, n)
        for i, array in enumerate(arrays):
            self.values.add_at(firsts + i if i else firsts, array)
        if saved is not None and self.history.groups is not None:
            self.history.groups.append(Group(kind, runner, refs, which, firsts, saved))

    def _run_stack(self, kind: CallKind, refs: Any, firsts: Any) -> None:
        """A result that is nothing but its inputs one after the other."""
        (result,), part = kind.results, kind.inputs[0].type
        rows = self.values.gather(refs.reshape(-1), part.shape, part.dtype.numpy)
        self.values.add_at(firsts, rows.reshape(len(firsts), *result.shape))
        if kind.tracked[0] and self.history.groups is not None:
            self.history.groups.append(Group(kind, None, refs, (), firsts, None))

    def input_of(self, kind: CallKind, position: int, refs: Any, counts: Any = None) -> tuple[bool, Any]:
        """An input that is no shared tensor: whether it is a number that all calls share, and that, or rows.

        `counts`: how often each comes, if not once.
        """
        type_ = kind.inputs[position].type
        if not isinstance(type_, TensorType):
            own = self._numbers
            numbers = [own[-1 - ref] for ref in refs.tolist()]
            if position not in kind.varying and numbers.count(numbers[0]) == len(numbers):
                return True, numbers[0]
            kind.varying.add(position)
            if kind.alone:
                return False, numbers
            made = np.array(numbers, _number_dtype(kind, type_))
            return False, made if counts is None else np.repeat(made, counts)
        refs = refs if counts is None else np.repeat(refs, counts)
        return False, self.values.gather(refs, type_.shape, type_.dtype.numpy)

    def number(self, ref: int) -> Any:
        """A Python number among the inputs of a call."""
        return self._numbers[-1 - ref]

    def _blame(
        self, error: Exception, calls: Calls, members: Any, refs: Any, firsts: Any, shared: SharedInputs
    ) -> Exception:
        """The error of a batch, with which call it belongs to: the first that fails on its own, too.

        Of ops it is what the op says of that call alone, as in a plain loop.
        """
        numbers = members.tolist()
        is_op = isinstance(calls.kinds[0] if calls.kinds else calls.kind, OpKind) and not calls.kind.alone
        for row, call in enumerate(numbers):
            if len(numbers) > 1 or is_op:
                own = slice(row, row + 1)
                try:
                    if is_op:
                        self._run_alone(calls, call, refs[own], firsts[own])
                    else:
                        self._run(calls, members[own], refs[own], firsts[own], shared)
                    continue
                except Exception as own_error:  # this is the one
                    error = own_error if is_op else error
            calls.blame(error, call)
            self.failed_sample = calls.samples[call]
            return error
        return error

    def _run_alone(self, calls: Calls, call: int, refs: Any, firsts: Any) -> None:
        """Run one of many calls of an op as the op that it is."""
        kind: Any = calls.kind
        own = calls.kinds[call] if calls.kinds else kind
        run_each(SizedBatch(self, kind, [own], refs[:, : len(own.inputs)], firsts, SharedInputs((), [])))

    # ---- tensors that need their values, or escape

    def settle(self, t: Tensor) -> None:
        if t._value_id >= self._first_waiting and not self._is_made(t._value_id):
            reads = self.notes.reads
            before = reads[-1] if reads else None
            reads.append(user_line() if before is None else _line_of_read(before))
            self._read.append(t)
            self._run_waiting()
        if t._data is None:
            self._fill([t])

    def _is_made(self, value: int) -> bool:
        """Whether a value is there. Since the last flush none was made."""
        if not (self._waiting or self._parts.is_waiting()):
            return True
        return value < self._n_flushed and bool(self.values.has([value])[0])

    def read(self, t: Tensor) -> Array:
        self.settle(t)
        return t._data

    def _fill_all(self, tensors: Sequence[Tensor]) -> None:
        by_identity: dict[int, list[Tensor]] = {}  # results of one kind have the very same type
        for t in tensors:
            if t._data is None:
                by_identity.setdefault(id(t._type), []).append(t)
        by_type: dict[TensorType, list[Tensor]] = {}
        for same in by_identity.values():
            by_type.setdefault(same[0]._type, []).extend(same)
        for same in by_type.values():
            self._fill(same)

    def _fill(self, tensors: Sequence[Tensor]) -> None:
        """Memory of their own for tensors of one type, whose values have been made."""
        type_ = tensors[0]._type
        rows = self.values.gather([t._value_id for t in tensors], type_.shape, type_.dtype.numpy)
        if type(rows.base) is np.ndarray:  # a view of rows that gradients may read
            rows = rows.copy()
        for i, t in enumerate(tensors):
            t._data = rows[i, ...]
            t._memory = Storage(t._data)

    def link(self, t: Tensor) -> None:
        """Give a tensor a node of its own: it escapes from the run, and comes back, if at all, from outside."""
        self.settle(t)
        self.let_go([t])

    def let_go(self, tensors: Sequence[Tensor]) -> None:
        """Tensors escape, with values that have been made."""
        self._fill_all(tensors)
        link_results(self.history, [t for t in tensors if t._history is self._traced_node])
        for t in tensors:
            t._source = None

    def release(self, t: Tensor, why: str) -> None:
        self.link(t)

    def close(self, why: str) -> None:
        """Run everything."""
        if self._waiting or self._parts.is_waiting():
            self._wants_all = True
            self._run_waiting()

    def _run_waiting(self) -> None:
        """Together with what other samples will record; at once where somebody looks at the value."""
        if is_looked_at():
            self.flush()
        else:
            self._pause()

    def backward(
        self, root: Tensor, gradient: Array, asked: Sequence[Tensor] | None = None, keep: bool = False
    ) -> None:
        return None

    def strides_of(self, t: Tensor) -> None:
        return None

    def is_view(self, t: Tensor) -> bool:
        return True  # rows have no layout of their own that could forbid it

    def apply(self, op: Any, inputs: tuple[Any, ...], attrs: dict[str, Any], mode: Any) -> Any:
        """An op outside the batched function meets a tensor that stayed here: it escapes."""
        from ..dispatch.dispatcher import run_eager

        mine = [x for x in inputs if isinstance(x, Tensor) and x._source is self]
        for t in mine:
            self.settle(t)
        self.let_go(list({id(t): t for t in mine}.values()))
        return run_eager(op, inputs, attrs, mode)


def _runner_of_rows(kind: CallKind, shared: tuple[bool, ...]) -> NativeRunner | None:
    """Who runs rows of a table, with those inputs shared; None where inputs may be numbers, or nobody can.

    It is there from the first batch on: results would else depend on what has run before.
    """
    if not kind.takes_rows:
        return None
    runner = runner_of(kind, shared)
    return runner if type(runner) is NativeRunner else None


def _number_dtype(kind: CallKind, number: type) -> Any:
    """The dtype for rows of a Python number that gives way to tensors as the number would."""
    if number is bool:
        return np.bool_
    dtypes = [i.type.dtype for i in kind.inputs if isinstance(i.type, TensorType)]
    floating = [d for d in dtypes if d.is_floating_point]
    if number is int:
        others = [d for d in dtypes if not d.is_floating_point and d.category == int64.category]
        return max(others, key=lambda d: d.itemsize).numpy if others and not floating else np.int64
    wide = max(floating, key=lambda d: d.itemsize) if floating else get_default_dtype()
    # Beside tensors that have a shape, single elements of float32 leave half precision as it is.
    has_shapes = any(i.type.shape for i in kind.inputs if isinstance(i.type, TensorType))
    return np.float32 if wide.itemsize < 4 and has_shapes else wide.numpy
