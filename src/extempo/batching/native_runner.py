"""Running calls of one kind as one, by native plans that are made once for a kind and fit any number of calls.

What the kind does to rows is traced (`row_tracer`), partitioned into forward, backward and what is deferred
(`partition`), and made into templates (`programs`, `scheduling.row_templates`). A template is filled in for a number of
calls when that first comes up. Results equal those of `VmapRunner` but for rounding. Arrays that are returned may be
arrays that were passed in, or one another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..backends.selection import native
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import TensorType
from ..errors import GraphError
from .kinds import CallKind, Runner, SharedTensor
from .rows import RowTable
from .vmap_runner import LoopRunner, VmapRunner

if TYPE_CHECKING:
    from .backward_programs import BackwardPrograms
    from .programs import Programs


class NativeRunner:
    """A Runner by native plans. Calls that these cannot run (another layout of weights, an error) are left to vmap."""

    def __init__(self, kind: CallKind, shared: tuple[bool, ...]) -> None:
        self._kind = kind
        self.shared = shared
        self._vmap = VmapRunner(kind, shared)
        pairs = list(enumerate(zip(kind.inputs, shared, strict=True)))
        self._numbers = [(k, i.type, s) for k, (i, s) in pairs if not isinstance(i.type, TensorType)]
        # Whether what is to be planned is known only when inputs come: the dtype of rows of numbers, a bool.
        self._waits = any(not s or t is bool for _, t, s in self._numbers)
        self._programs: dict[tuple[Any, ...], Programs | None] = {}

    @classmethod
    def make(cls, kind: CallKind, shared: tuple[bool, ...]) -> NativeRunner | None:
        """The runner; None where no plan can be made, or there is no native code."""
        if native() is None:
            return None
        made = cls(kind, shared)
        return None if not made._waits and made._for([None] * len(shared)) is None else made

    def _for(self, inputs: Sequence[Any]) -> Programs | None:
        """The programs for inputs like these."""
        if not self._numbers and self._programs:
            return self._programs[()]
        key = tuple([(inputs[k] if t is bool else t) if s else inputs[k].dtype for k, t, s in self._numbers])
        if key not in self._programs:
            self._programs[key] = self._made(key)
        return self._programs[key]

    def _made(self, key: tuple[Any, ...]) -> Programs | None:
        from .programs import Programs

        try:
            return Programs(self._kind, self.shared, key)
        except Exception:  # whatever a function may have against symbols: op by op it says so itself
            return None

    def forward(self, inputs: Sequence[Any], n: int) -> tuple[list[Array], Any]:
        programs = self._for(inputs)
        run = None if programs is None else programs.at(n)
        leaves = None if programs is None or run is None else programs.leaves(inputs, n)
        if programs is not None and leaves is not None:
            numbers = programs.numbers(inputs)
            arrays = _ran(run, programs, leaves, numbers)
            if arrays is not None:
                shared = self._shared_among(inputs, programs, leaves)
                return [arrays[i] for i in programs.results], _saved(programs, n, numbers, arrays, shared)
        return self._vmap.forward(inputs, n)

    def _shared_among(self, inputs: Sequence[Any], programs: Programs, leaves: list[Array]) -> list[SharedTensor]:
        pairs = zip(inputs, programs.of_inputs, self.shared, strict=True)
        return [SharedTensor(x, leaves[leaf]) for x, leaf, s in pairs if s and leaf is not None]

    def forward_of_rows(self, table: RowTable, refs: Any, firsts: Any, shared: Sequence[SharedTensor]) -> Any:
        """The same on rows of a table, for inputs that are all tensors: results get their value ids.

        What backward needs; None if there is nothing, False if nothing was done because plans cannot run it.
        """
        programs, n = self.programs_of_rows, len(firsts)
        run = None if programs is None else programs.at(n)
        if programs is None or run is None:
            return False
        rows = table.gather_columns(refs[:, programs.row_columns] if shared else refs, programs.rows)
        leaves = programs.inputs_of(rows, shared)
        if not programs.add_captured(leaves):
            return False
        arrays = _ran(run, programs, leaves, programs.literals)
        if arrays is None:
            return False
        for i, index in enumerate(programs.results):
            table.add_at(firsts + i if i else firsts, arrays[index])
        return _saved(programs, n, programs.literals, arrays, shared)

    def keeps(self, position: int) -> bool:
        """Whether backward reads that input, which is shared."""
        programs = self.programs_of_rows
        return programs is None or programs.of_inputs[position] in programs.kept_weights

    @property
    def programs_of_rows(self) -> Programs | None:
        """What runs if all inputs are tensors; None if that is not so, or nothing can."""
        return None if self._waits else self._programs[()]

    def backward(self, saved: Any, gradients: list[Array | None]) -> tuple[list[Array | None], Any]:
        if type(saved) is not SavedRows:
            return self._vmap.backward(saved, gradients)
        kind, (programs, n, numbers, arrays, shared) = self._kind, saved
        seeded = tuple([t and g is not None for t, g in zip(kind.tracked, gradients, strict=True)])
        if True not in seeded:
            return [None] * len(kind.inputs), []
        backward = programs.backward_for(seeded)
        arrays = [*arrays, *self._seeds(backward.seeded, gradients, n)]
        made = backward.run(n, [arrays[i] for i in backward.reads], numbers)
        if isinstance(made, int):
            raise GraphError(f"backward: {kind.name} has no gradient for some of its values")
        arrays += made
        rows, parts = [arrays[i] for i in backward.rows_at], [arrays[i] for i in backward.parts_at]
        of_inputs = [None if i is None else arrays[i] for i in backward.of_inputs]
        return of_inputs, DeferredGradients(backward, n, rows, parts, shared)

    def _seeds(self, seeded: Sequence[bool], gradients: list[Array | None], n: int) -> Iterator[Array]:
        """The gradients that backward reads, row-major; zeros for results that have none."""
        for g, is_read, t in zip(gradients, seeded, self._kind.results, strict=True):
            if not is_read:
                continue
            if g is None:
                g = np.zeros((n, *t.shape), t.dtype.numpy)
            elif g.shape != (n, *t.shape) or g.dtype != t.dtype.numpy:
                raise GraphError(f"backward: a gradient of {n} rows of {t} is {g.dtype}{list(g.shape)}")
            yield g if g.flags.carray else np.array(g, order="C")

    def finish(self, deferred: list[Any]) -> list[tuple[Tensor, Array]]:
        by_vmap = [one for one in deferred if type(one) is not DeferredGradients]
        found = self._vmap.finish(by_vmap) if by_vmap else []
        of_each: dict[BackwardPrograms, list[DeferredGradients]] = {}
        of_leaders: dict[tuple[Any, ...], list[DeferredGradients]] = {}  # and by the tensors that batches shared
        for one in deferred:
            if type(one) is DeferredGradients:
                of_each.setdefault(one.backward, []).append(one)
                of_leaders.setdefault((one.backward.leader, *[id(s.tensor) for s in one.shared]), []).append(one)
        for backward, own in of_each.items():
            found += backward.of_parts(own)
        for (leader, *_), own in of_leaders.items():
            found += leader.finish(own)
        totals: dict[int, tuple[Tensor, Array]] = {}
        for t, g in found:
            totals[id(t)] = (t, totals[id(t)][1] + g if id(t) in totals else g)
        return list(totals.values())


def _ran(run: Any, programs: Programs, leaves: list[Array], numbers: list[Any]) -> list[Array] | None:
    """All arrays of forward: the leaves, and what it makes; None if some value is an error.

    Which value, and what is wrong with it, the ops themselves can tell.
    """
    made = run([leaves[i] for i in programs.reads], numbers)
    return leaves + made if type(made) is list else None


class SavedRows(NamedTuple):
    """What backward needs of a batch."""

    programs: Programs
    n: int
    numbers: list[Any]
    arrays: list[Array]
    shared: Sequence[SharedTensor]


def _saved(
    programs: Programs, n: int, numbers: list[Any], arrays: list[Array], shared: Sequence[SharedTensor]
) -> SavedRows | None:
    return SavedRows(programs, n, numbers, [arrays[i] for i in programs.saved], shared) if programs.is_tracked else None


class DeferredGradients(NamedTuple):
    """What a backward leaves for the end."""

    backward: BackwardPrograms
    n: int  # calls
    rows: list[Array]  # that the deferred program of the leader reads, in its order; behind n calls may be zeros
    parts: list[Array]  # of gradients of captured tensors
    shared: Sequence[SharedTensor]  # among the inputs


def runner_of(kind: CallKind, shared: tuple[bool, ...]) -> Runner:
    """Who runs calls of a kind, with those inputs shared."""
    runner = kind.runners.get(shared)
    if runner is None:
        made = LoopRunner(kind, shared) if kind.alone else NativeRunner.make(kind, shared) or VmapRunner(kind, shared)
        runner = kind.runners[shared] = made
    return runner
