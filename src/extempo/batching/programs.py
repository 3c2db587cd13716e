"""The programs of a kind: templates for forward, backward and what is left for the end, and where arrays go between.

Arrays have places. Forward: the leaves of the trace (inputs, then captured tensors), then what it makes. Backward: what
was saved, the gradients that are given, then what it makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.selection import empty
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import TensorType, from_numpy_dtype
from ..errors import GraphError
from ..scheduling.layout import row_major
from ..scheduling.request import Unplannable
from ..scheduling.row_templates import N_SIZES, alike
from .kinds import CallKind
from .partition import Split
from .template_cache import ByRows, FilledTemplate
from .tracing import RowTracer

if TYPE_CHECKING:
    from .native_runner import DeferredGradients

# Numbers of calls to trace at: a size that is one of them is the number of calls.
PRIMES = (1_009, 1_013, 1_019, 1_021, 1_031, 1_033, 1_039, 1_049, 1_051, 1_061, 1_063, 1_069, 1_087, 1_091, 1_093)
MOST_ROWS = 1 << 15  # that are taken at once at the end, roughly


class Programs:
    """All that runs calls of a kind. Unplannable: there is no plan."""

    def __init__(self, kind: CallKind, shared: tuple[bool, ...], numbers: Sequence[Any]) -> None:
        """`numbers`: for each number among the inputs the dtype of its rows; float, int or a bool if it is shared."""
        self._kind = kind
        self.sizes = _sizes(kind)
        self._traces = [RowTracer(kind, _given(kind, shared, numbers, n), n, i) for i, n in enumerate(self.sizes)]
        trace = self._traces[0]
        self.of_inputs = trace.of_inputs  # the leaf of each input that is a tensor
        self.tensors: dict[int, Tensor] = trace.tape.tensors  # leaves that are captured
        self._check()
        n_open = trace.n_open
        self._open = [k for k, i in enumerate(kind.inputs) if shared[k] and (i.type is float or i.type is int)]
        self.literals = trace.tape.numbers[n_open:]
        self.any_numbers = trace.tape.numbers  # for what reads none of the open ones
        self.number_kinds = tuple([type(x) for x in trace.tape.numbers])
        self._inputs = [
            (k, None if shared[k] else t.numel() * t.dtype.itemsize)
            for k, (_, t) in enumerate(_given(kind, shared, numbers, 1))
            if isinstance(t, TensorType)
        ]
        tensors = [i.type for i in kind.inputs if isinstance(i.type, TensorType)]
        self.input_rows = [TensorType(t.shape, t.dtype) for t in tensors]  # one of each input
        self.rows = [(t.shape, t.dtype.numpy, t.dtype.itemsize) for t in tensors]
        self._captured = [_Captured(t, trace.tape.leaves[leaf].strides) for leaf, t in sorted(self.tensors.items())]
        self.is_tracked = any(kind.tracked)
        self._backs: dict[tuple[bool, ...], Back] = {}
        self._make_forward()

    def _check(self) -> None:
        """Traces may differ in the number of calls and in the open numbers, in nothing else."""
        first, *others = [trace.tape for trace in self._traces]
        n_open = self._traces[0].n_open
        for other in others:
            if list(other.tensors) != list(first.tensors) or len(other.leaves) != len(first.leaves):
                raise Unplannable("other tensors are read in another call")
            if repr(other.numbers[n_open:]) != repr(first.numbers[n_open:]):
                raise Unplannable("a number that is not an input depends on the inputs")
            if not all(_same(first.tensors[leaf], t) for leaf, t in other.tensors.items()):
                raise Unplannable("a tensor that the function makes may be another one in another call")
            did, does = ([(step.op, step.tracked, step.needs) for step in tape.steps] for tape in (first, other))
            if did != does:
                raise Unplannable("something else is done in another call")

    def _make_forward(self) -> None:
        given = self._kind.tracked
        splits = self._splits(given)
        split = splits[0]
        captured = {split.leaf(leaf) for leaf in self.tensors}
        read = {*split.backward_reads, *[v for v in split.late_reads if v not in captured]}
        read -= {*split.seeds, *split.made}
        self.saved_values = sorted(read)
        computed = [v for v in self.saved_values if split.name(v) is None]
        made = [s.forward(computed) for s in splits]
        part, reads, values = made[0]
        if any(other[1:] != (reads, values) for other in made):
            raise Unplannable("the number of rows decides what is computed")
        places = {split.leaf(leaf): leaf for leaf in range(split.n_leaves)}
        places |= {value: split.n_leaves + i for i, value in enumerate(values)}
        self.reads = [places[v] for v in reads]
        self.results = [places[v] for v in split.results]
        rows = [split.row_type(v) for v in values]
        # One row of each array that forward makes; None: not all have rows, or a result is something that was there.
        self.made_rows = [t for t in rows if t is not None] if min(self.results, default=0) >= split.n_leaves else None
        if None in rows:
            self.made_rows = None
        self.saved = [places[v] for v in self.saved_values]
        self._forward: FilledTemplate | None = None
        if part is not None:
            parts = [m[0] for m in made]
            weights = [i for i, place in enumerate(self.reads) if not self.has_rows(place)]
            self._forward = FilledTemplate(parts, self.sizes, self.number_kinds, weights)  # type: ignore[arg-type] # all there
        if self.is_tracked:
            self._backs[given] = Back(self, splits, given)
        self._ready, self._ready_levels = ByRows(), ByRows()

    def _splits(self, given: tuple[bool, ...]) -> list[Split]:
        splits = [Split(trace, n, given) for trace, n in zip(self._traces, self.sizes, strict=True)]
        if any(s.shape() != splits[0].shape() for s in splits):
            raise Unplannable("the number of rows decides what is computed")
        return splits

    # ---- running

    def at(self, n: int) -> Any:
        """What runs forward on n calls; None if that, or backward, cannot be."""
        found = self._ready.get(n, self)
        if found is not self:
            return found
        try:
            found = _nothing if self._forward is None else self._forward.at(n)
            if self.is_tracked:
                self._backs[self._kind.tracked].prepare(n)
        except Unplannable:
            found = None
        return self._ready.put(n, found)

    def at_level(self, n: int) -> Any:
        """The same for one of several levels, which takes its inputs as `packed` gives them."""
        found = self._ready_levels.get(n, self)
        if found is not self:
            return found
        try:
            found = None if self._forward is None else self._forward.for_levels.at(n)
            if self.is_tracked:
                self._backs[self._kind.tracked].prepare(n, True)
        except Unplannable:
            found = None
        return self._ready_levels.put(n, found)

    def packed(self, reads: list[Array]) -> list[Array]:
        return reads if self._forward is None else self._forward.for_levels.packed(reads)

    def leaves(self, inputs: Sequence[Any], n: int) -> list[Array] | None:
        """The arrays of all leaves, as they are expected to lie; None if one is not what was traced."""
        found = []
        for k, row_bytes in self._inputs:
            x = inputs[k]
            if row_bytes is None:
                x = x._values()
            elif x.nbytes != n * row_bytes:
                return None
            found.append(x if x.flags.carray else np.array(x, order="C"))
        return found if self.add_captured(found) else None

    def add_captured(self, leaves: list[Array]) -> bool:
        """Add the arrays of captured tensors; False: one is not what was traced."""
        for captured in self._captured:
            x = captured.array()
            if x is None:
                return False
            leaves.append(x)
        return True

    def has_rows(self, place: int) -> bool:
        """Whether an array of forward has rows, if all have that it makes."""
        return not len(self.input_rows) <= place < len(self.input_rows) + len(self._captured)

    def captured(self, leaf: int) -> _Captured:
        return self._captured[sorted(self.tensors).index(leaf)]

    def numbers(self, inputs: Sequence[Any]) -> list[Any]:
        return [inputs[k] for k in self._open] + self.literals if self._open else self.literals

    def backward_for(self, given: tuple[bool, ...]) -> Back:
        """For gradients of these results; perhaps of more, if too much would be different without them."""
        found = self._backs.get(given)
        if found is None:
            try:
                found = Back(self, self._splits(given), given)
                found.join(self._backs.values())
            except Unplannable:
                found = self._backs[self._kind.tracked]
            self._backs[given] = found
        return found


class _Captured:
    """A tensor that the kind reads besides its inputs, as it lay when it was traced."""

    __slots__ = ("_shape", "_strides", "tensor")

    def __init__(self, t: Tensor, strides: tuple[int, ...] | None) -> None:
        self.tensor = t
        self._shape, self._strides = t._type.shape, row_major(t._type) if strides is None else strides

    def array(self) -> Array | None:
        """Its values, which lie as they did; None if it has another shape by now."""
        x = self.tensor._data
        if x is None:
            x = self.tensor._values()
        if x.strides == self._strides and x.shape == self._shape:
            return x
        if x.shape != self._shape:
            return None
        order = sorted(range(x.ndim), key=lambda d: -self._strides[d])
        made = np.empty([x.shape[d] for d in order], x.dtype).transpose(np.argsort(order))
        made[...] = x
        return made if made.strides == self._strides else None


class Back:
    """Backward, and what is left of it for the end, when some results have gradients."""

    def __init__(self, programs: Programs, splits: Sequence[Split], given: tuple[bool, ...]) -> None:
        self.given = given
        split, sizes, kinds, tensors = splits[0], programs.sizes, programs.number_kinds, programs.tensors
        places = {value: i for i, value in enumerate(programs.saved_values)}
        for value in (*split.seeds, *split.made):
            places[value] = len(places)
        captured = {split.leaf(leaf): leaf for leaf in tensors}
        rows = [v for v in split.late_reads if v not in captured]
        if any(v not in places for v in (*split.backward_reads, *rows)):
            raise Unplannable("something that backward reads was not saved")
        self.reads = [places[v] for v in split.backward_reads]
        of_leaves = {leaf: places[split.gradients[leaf]] for leaf in split.early_of}
        self.of_inputs = [None if leaf is None else of_leaves.get(leaf) for leaf in programs.of_inputs]
        partial = [leaf for leaf in split.early_of if leaf in tensors]
        self.rows_at = [places[v] for v in rows]  # what the end reads
        self.row_types = [t for v in rows if (t := split.row_type(v)) is not None]
        self.parts_at = [of_leaves[leaf] for leaf in partial]
        self.n_made = len(split.made)
        self._partial = [tensors[leaf] for leaf in partial]
        self._late_reads = [programs.captured(captured[v]) if v in captured else None for v in split.late_reads]
        self.late_of = [(leaf, split.late_made.index(split.gradients[leaf])) for leaf in split.late_of]
        self._late = [(tensors[leaf], i) for leaf, i in self.late_of]
        self._early_part: FilledTemplate | None = None
        self._late_part: FilledTemplate | None = None
        self.late_program = split.late
        self.leader = self  # who does what is left for the end
        self.ignores_zeros = False  # whether rows of zeros change nothing at the end
        if split.backward is not None:
            n_saved = len(programs.saved)
            weights = [i for i, p in enumerate(self.reads) if p < n_saved and not programs.has_rows(programs.saved[p])]
            self._early_part = FilledTemplate([s.backward for s in splits], sizes, kinds, weights)  # type: ignore[misc] # so
        if split.late is not None:
            self._late_part = FilledTemplate([s.late for s in splits], sizes, kinds)  # type: ignore[misc] # all, or none
            self.ignores_zeros = self._late_part.template.ignores_zeros
        self._programs = programs

    def prepare(self, n: int, levels: bool = False) -> None:
        """Raises Unplannable if it cannot run on n calls."""
        if self._early_part is not None:
            (self._early_part.for_levels if levels else self._early_part).at(n)

    def run(self, n: int, reads: list[Array], numbers: list[Any]) -> list[Array] | int:
        """What is made of the arrays at `self.reads`."""
        if self._early_part is None:
            return []
        made: list[Array] | int = self._early_part.at(n)(reads, numbers)
        return made

    def run_level(self, n: int, reads: list[Array], numbers: list[Any], *rows: Any) -> list[Array] | int:
        """The same for one of several levels: `reads` as `packed` gives them, `rows` as the plans' runner says."""
        if self._early_part is None:
            return []
        made: list[Array] | int = self._early_part.for_levels.at(n)(reads, numbers, *rows)
        return made

    def packed(self, reads: list[Array]) -> list[Array]:
        return reads if self._early_part is None else self._early_part.for_levels.packed(reads)

    def join(self, others: Iterable[Back]) -> None:
        """Leave the end to another one, where that would do the same."""
        for other in others:
            late, own = other.late_program, self.late_program
            if late is not None and own is not None and other.late_of == self.late_of and alike(late, own):
                self.leader = other.leader
                return

    def of_parts(self, rests: Sequence[DeferredGradients]) -> list[tuple[Tensor, Array]]:
        """The gradients of captured tensors that each backward made a part of."""
        found = []
        for k, t in enumerate(self._partial):
            total = rests[0].parts[k]
            for rest in rests[1:]:
                total = total + rest.parts[k]
            found.append((t, total))
        return found

    def finish(self, rests: Sequence[DeferredGradients]) -> list[tuple[Tensor, Array]]:
        """The gradients of captured tensors that are left for the end."""
        found: list[tuple[Tensor, Array]] = []
        first = n = 0
        for end, rest in enumerate(rests, 1):
            n += rest.n
            if self._late_part is not None and (n >= MOST_ROWS or end == len(rests)):
                found += self._of_all(rests[first:end], n)
                first, n = end, 0
        return found

    def _of_all(self, rests: Sequence[DeferredGradients], n: int) -> list[tuple[Tensor, Array]]:
        if len(rests) == 1:
            joined = rests[0].rows
            size = len(joined[0]) if joined else n
        else:
            size = rounded(n) if self.ignores_zeros else n
            same = zip(*[[array[: rest.n] for array in rest.rows] for rest in rests], strict=True)
            joined = [_joined(parts, n, size) for parts in same]
        rows = iter(joined)
        arrays = [next(rows) if source is None else source.array() for source in self._late_reads]
        made = self._late_part.at(size)(arrays, self._programs.any_numbers)  # type: ignore[union-attr] # there is one
        if type(made) is not list:
            raise GraphError("backward: something is not as it was when it was recorded")
        return [(t, made[i]) for t, i in self._late]


def rounded(n: int) -> int:
    """A few more, so that not every number of rows is one of its own."""
    step = max(16, 1 << max(n.bit_length() - 5, 0))
    return -(-n // step) * step


def _joined(parts: Sequence[Array], n: int, size: int) -> Array:
    """Rows one after another, then rows of zeros."""
    made = empty(TensorType((size, *parts[0].shape[1:]), from_numpy_dtype(parts[0].dtype)))
    np.concatenate(parts, out=made[:n])
    made[n:] = 0
    return made


def _nothing(arrays: list[Array], numbers: list[Any]) -> list[Array]:
    return []


def _same(a: Tensor, b: Tensor) -> bool:
    """Whether it is one tensor, or two that a function makes in the same way, in memory of their own."""
    if a is b:
        return True
    x, y = a._values(), b._values()
    alike = a._type == b._type and x.strides == y.strides and not (a.requires_grad or b.requires_grad)
    return alike and not np.may_share_memory(x, y) and x.tobytes() == y.tobytes()


def _sizes(kind: CallKind) -> list[int]:
    types = [i.type for i in kind.inputs if isinstance(i.type, TensorType)]
    types += [*kind.results, *[t._type for t in kind.captured]]
    taken = {size for t in types for size in t.shape}
    return [n for n in PRIMES if n not in taken][:N_SIZES]


def _given(kind: CallKind, shared: tuple[bool, ...], numbers: Sequence[Any], n: int) -> list[tuple[bool, Any]]:
    """For each input whether it is shared, and what a trace at n calls takes for it."""
    left = iter(numbers)
    found: list[tuple[bool, Any]] = []
    for i, is_shared in zip(kind.inputs, shared, strict=True):
        if isinstance(i.type, TensorType):
            found.append((is_shared, i.type if is_shared else TensorType((n, *i.type.shape), i.type.dtype)))
        else:
            number = next(left)
            found.append((is_shared, number if is_shared else TensorType((n,), from_numpy_dtype(number))))
    return found
