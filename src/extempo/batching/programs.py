"""The programs of a kind: templates for forward, backward and what is deferred, each for any number of calls.

The kind is traced at a few numbers of calls; where the traces differ in those numbers only, the plan follows from the
number of calls (`scheduling.row_templates`). Programs name arrays by index. Forward: the leaves of the trace (inputs,
then captured tensors), then what it makes. Weights are the leaves without rows: captured tensors, and inputs that all
calls share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import TensorType, from_numpy_dtype
from ..scheduling.layout import row_major
from ..scheduling.request import Unplannable
from ..scheduling.row_templates import N_SIZES
from .backward_programs import BackwardPrograms
from .kinds import CallKind, SharedTensor
from .partition import Partition
from .row_tracer import KindTrace
from .template_cache import ByRows, FilledTemplate

# Numbers of calls to trace at: a size that is one of them is the number of calls.
PRIMES = (1_009, 1_013, 1_019, 1_021, 1_031, 1_033, 1_039, 1_049, 1_051, 1_061, 1_063, 1_069, 1_087, 1_091, 1_093)


class Programs:
    """All that runs calls of a kind. Unplannable: there is no plan."""

    def __init__(self, kind: CallKind, shared: tuple[bool, ...], numbers: Sequence[Any]) -> None:
        """`numbers`: for each number among the inputs the dtype of its rows; float, int or a bool if it is shared."""
        self._kind = kind
        self.is_tracked = any(kind.tracked)
        self.sizes = _sizes(kind)
        self._traces = [KindTrace(kind, _row_inputs(kind, shared, numbers, n), n, i) for i, n in enumerate(self.sizes)]
        _check_alike(self._traces)
        trace = self._traces[0]
        self.of_inputs = trace.of_inputs  # the leaf of each input that is a tensor
        self.tensors: dict[int, Tensor] = trace.tensors  # leaves that are captured
        self._captured = [CapturedArray(t, trace.leaves[leaf].strides) for leaf, t in sorted(self.tensors.items())]
        self._open = [k for k, i in enumerate(kind.inputs) if shared[k] and (i.type is float or i.type is int)]
        self.literals = trace.numbers[trace.n_open :]
        self.any_numbers = trace.numbers  # for what reads none of the open ones
        self.number_kinds = tuple([type(x) for x in trace.numbers])
        self._inputs = [
            (k, None if shared[k] else t.numel() * t.dtype.itemsize)
            for k, (_, t) in enumerate(_row_inputs(kind, shared, numbers, 1))
            if isinstance(t, TensorType)
        ]
        self.shared_leaves = [leaf for leaf, s in zip(self.of_inputs, shared, strict=True) if s and leaf is not None]
        self.weights = {*self.tensors, *self.shared_leaves}
        # One row of each input, None for one that is shared; of rows of a number, too.
        self.input_rows = [
            None if s else TensorType(t.shape[1:], t.dtype)
            for s, t in _row_inputs(kind, shared, numbers, 1)
            if isinstance(t, TensorType)
        ]
        self.row_columns = [k for k, s in enumerate(shared) if not s]
        self.rows = [(t.shape, t.dtype.numpy, t.dtype.itemsize) for t in self.input_rows if t is not None]
        self._backwards: dict[tuple[bool, ...], BackwardPrograms] = {}  # by which results have gradients
        self._ready, self._ready_levels = ByRows(), ByRows()
        partitions = self._partitions(kind.tracked)
        self._make_forward(partitions)
        if self.is_tracked:
            self._backwards[kind.tracked] = BackwardPrograms(self, partitions, kind.tracked)

    @property
    def kept_weights(self) -> set[int | None]:
        """Leaves without rows that backward, or what is deferred, reads."""
        return {*self.saved, *self._backwards[self._kind.tracked].deferred_reads} & self.weights

    def _make_forward(self, partitions: list[Partition]) -> None:
        split = partitions[0]
        self.saved_values = self._saved_values(split)
        computed = [v for v in self.saved_values if split.name(v) is None]
        forwards = [partition.forward(computed) for partition in partitions]
        part, reads, made = forwards[0]
        if any(other[1:] != (reads, made) for other in forwards):
            raise Unplannable("the number of rows decides what is computed")
        indices = {split.leaf(leaf): leaf for leaf in range(split.n_leaves)}
        indices |= {value: split.n_leaves + i for i, value in enumerate(made)}
        self.reads = [indices[v] for v in reads]
        self.results = [indices[v] for v in split.results]
        self.saved = [indices[v] for v in self.saved_values]
        self.saved_weights = [i for i, index in enumerate(self.saved) if not self.has_rows(index)]  # positions there
        self.made_rows = self._made_rows(split, made)
        self._forward: FilledTemplate | None = None
        if part is not None:
            weights = [i for i, index in enumerate(self.reads) if not self.has_rows(index)]
            parts = [forward[0] for forward in forwards]
            self._forward = FilledTemplate(parts, self.sizes, self.number_kinds, weights)  # type: ignore[arg-type] # all there

    def _saved_values(self, split: Partition) -> list[int]:
        """What backward and what is deferred read of forward; what is deferred finds weights elsewhere."""
        weights = {split.leaf(leaf) for leaf in self.weights}
        read = {*split.backward_reads, *[v for v in split.deferred_reads if v not in weights]}
        return sorted(read - {*split.seeds, *split.made})

    def _made_rows(self, split: Partition, made: list[int]) -> list[TensorType] | None:
        """One row of each array that forward makes; None: not all have rows, or a result is one of the leaves."""
        rows = [t for v in made if (t := split.row_type(v)) is not None]
        return rows if len(rows) == len(made) and min(self.results, default=0) >= split.n_leaves else None

    def _partitions(self, seeded: tuple[bool, ...]) -> list[Partition]:
        found = [Partition(trace, n, seeded) for trace, n in zip(self._traces, self.sizes, strict=True)]
        if any(one.shape() != found[0].shape() for one in found):
            raise Unplannable("the number of rows decides what is computed")
        return found

    # ---- running

    def at(self, n: int) -> Any:
        """What runs forward on n calls; None if that, or backward, cannot be."""
        found = self._ready.get(n, self)
        if found is not self:
            return found
        try:
            found = _nothing if self._forward is None else self._forward.at(n)
            if self.is_tracked:
                self._backwards[self._kind.tracked].prepare(n)
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
                self._backwards[self._kind.tracked].prepare(n, True)
        except Unplannable:
            found = None
        return self._ready_levels.put(n, found)

    def goes_back_at_level(self, n: int) -> bool:
        """Whether backward can run on n calls as one of several levels."""
        try:
            self._backwards[self._kind.tracked].prepare(n, True)
        except Unplannable:
            return False
        return True

    def packed(self, reads: list[Array]) -> list[Array]:
        return reads if self._forward is None else self._forward.for_levels.packed(reads)

    def leaves(self, inputs: Sequence[Any], n: int) -> list[Array] | None:
        """The arrays of all leaves, in the layouts that were traced; None if one is of another shape."""
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

    def has_rows(self, index: int) -> bool:
        """Whether an array of forward has rows, if all have that it makes."""
        return index not in self.weights

    def captured(self, leaf: int) -> CapturedArray:
        return self._captured[sorted(self.tensors).index(leaf)]

    def inputs_of(self, rows: Sequence[Array], shared: Sequence[SharedTensor]) -> list[Array]:
        """The arrays of all inputs that are tensors, of rows and of shared ones."""
        if not shared:
            return list(rows)
        left, weights = iter(rows), iter(shared)
        return [next(weights).array if t is None else next(left) for t in self.input_rows]

    def numbers(self, inputs: Sequence[Any]) -> list[Any]:
        return [inputs[k] for k in self._open] + self.literals if self._open else self.literals

    def backward_for(self, seeded: tuple[bool, ...]) -> BackwardPrograms:
        """For gradients of these results; perhaps of more, if too much would be different without them."""
        found = self._backwards.get(seeded)
        if found is None:
            try:
                found = BackwardPrograms(self, self._partitions(seeded), seeded)
                found.join(self._backwards.values())
            except Unplannable:
                found = self._backwards[self._kind.tracked]
            self._backwards[seeded] = found
        return found


class CapturedArray:
    """The values of a tensor that the kind reads besides its inputs, in the layout that it had when it was traced."""

    __slots__ = ("_shape", "_strides", "tensor")

    def __init__(self, t: Tensor, strides: tuple[int, ...] | None) -> None:
        self.tensor = t
        self._shape, self._strides = t._type.shape, row_major(t._type) if strides is None else strides

    def array(self) -> Array | None:
        """The values as they are now; None if the tensor has another shape by now."""
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


def _nothing(arrays: list[Array], numbers: list[Any]) -> list[Array]:
    return []


def _check_alike(traces: list[KindTrace]) -> None:
    """Traces may differ in the number of calls and in the open numbers, in nothing else."""
    first, *others = traces
    n_open = first.n_open
    for other in others:
        if list(other.tensors) != list(first.tensors) or len(other.leaves) != len(first.leaves):
            raise Unplannable("other tensors are read in another call")
        if repr(other.numbers[n_open:]) != repr(first.numbers[n_open:]):
            raise Unplannable("a number that is not an input depends on the inputs")
        if not all(_same(first.tensors[leaf], t) for leaf, t in other.tensors.items()):
            raise Unplannable("a tensor that the function makes may be another one in another call")
        did, does = ([(step.op, step.tracked, step.needs) for step in trace.steps] for trace in (first, other))
        if did != does:
            raise Unplannable("something else is done in another call")


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


def _row_inputs(kind: CallKind, shared: tuple[bool, ...], numbers: Sequence[Any], n: int) -> list[tuple[bool, Any]]:
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
