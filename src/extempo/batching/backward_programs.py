"""The backward programs of a kind, for gradients of some of its results.

Programs name arrays by index: what forward saved, then the gradients of the results that have one, then what backward
makes. Gradients of weights are deferred: `finish` makes them from the rows of many batches at once.
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
from ..scheduling.request import Unplannable
from ..scheduling.row_templates import alike
from .template_cache import FilledTemplate

if TYPE_CHECKING:
    from .kinds import SharedTensor
    from .native_runner import DeferredGradients
    from .partition import Partition
    from .programs import Programs

MOST_ROWS = 1 << 15  # that are taken at once at the end, roughly


class BackwardPrograms:
    """The backward of a kind, and what is deferred of it, when some results have gradients."""

    def __init__(self, programs: Programs, partitions: Sequence[Partition], seeded: tuple[bool, ...]) -> None:
        """`seeded`: which results have gradients."""
        self._programs = programs
        self.seeded = seeded
        self.leader = self  # who runs what is deferred
        split = partitions[0]
        indices = {value: i for i, value in enumerate(programs.saved_values)}
        for value in (*split.seeds, *split.made):
            indices[value] = len(indices)
        weights = {split.leaf(leaf): leaf for leaf in programs.weights}
        rows = [v for v in split.deferred_reads if v not in weights]
        if any(v not in indices for v in (*split.backward_reads, *rows)):
            raise Unplannable("something that backward reads was not saved")
        self.reads = [indices[v] for v in split.backward_reads]
        self.n_made = len(split.made)
        self._place_gradients(split, indices)
        self._place_deferred(split, indices, weights, rows)
        self._backward = self._backward_template(partitions)
        self._deferred: FilledTemplate | None = None
        if split.deferred is not None:
            parts = [one.deferred for one in partitions]
            self._deferred = FilledTemplate(parts, programs.sizes, programs.number_kinds)  # type: ignore[arg-type] # all, or none
        # Whether rows of zeros change nothing about what is deferred: their number can then be rounded.
        self.ignores_zeros = self._deferred is not None and self._deferred.template.ignores_zeros

    def _place_gradients(self, split: Partition, indices: dict[int, int]) -> None:
        """Where the gradients are that backward makes: of inputs, and the parts of those of captured tensors."""
        tensors = self._programs.tensors
        of_leaves = {leaf: indices[split.gradients[leaf]] for leaf in split.backward_of}
        self.of_inputs = [None if leaf is None else of_leaves.get(leaf) for leaf in self._programs.of_inputs]
        self.parts_at = [index for leaf, index in of_leaves.items() if leaf in tensors]
        self._partial = [tensors[leaf] for leaf in of_leaves if leaf in tensors]

    def _place_deferred(
        self, split: Partition, indices: dict[int, int], weights: dict[int, int], rows: list[int]
    ) -> None:
        """What the deferred program reads, in order, and which of what it makes is whose gradient."""
        self.rows_at = [indices[v] for v in rows]
        self.row_types = [t for v in rows if (t := split.row_type(v)) is not None]
        self.deferred_reads = [weights.get(v) for v in split.deferred_reads]  # a weight, or None for rows
        self.deferred_program = split.deferred
        self.deferred_of = [(leaf, split.deferred_made.index(split.gradients[leaf])) for leaf in split.deferred_of]

    def _backward_template(self, partitions: Sequence[Partition]) -> FilledTemplate | None:
        if partitions[0].backward is None:
            return None
        programs = self._programs
        saved = programs.saved
        weights = [
            i for i, index in enumerate(self.reads) if index < len(saved) and not programs.has_rows(saved[index])
        ]
        parts = [one.backward for one in partitions]
        return FilledTemplate(parts, programs.sizes, programs.number_kinds, weights)  # type: ignore[arg-type] # all there

    def prepare(self, n: int, levels: bool = False) -> None:
        """Raises Unplannable if it cannot run on n calls."""
        if self._backward is not None:
            (self._backward.for_levels if levels else self._backward).at(n)

    def run(self, n: int, reads: list[Array], numbers: list[Any]) -> list[Array] | int:
        """What is made of the arrays at `self.reads`."""
        if self._backward is None:
            return []
        made: list[Array] | int = self._backward.at(n)(reads, numbers)
        return made

    def run_level(self, n: int, reads: list[Array], numbers: list[Any], *rows: Any) -> list[Array] | int:
        """The same for one of several levels: `reads` as `packed` gives them, `rows` as the plans' runner says."""
        if self._backward is None:
            return []
        made: list[Array] | int = self._backward.for_levels.at(n)(reads, numbers, *rows)
        return made

    def packed(self, reads: list[Array]) -> list[Array]:
        return reads if self._backward is None else self._backward.for_levels.packed(reads)

    def join(self, others: Iterable[BackwardPrograms]) -> None:
        """Leave what is deferred to another one, where that would do the same: it then runs once for both."""
        for other in others:
            theirs, own = other.deferred_program, self.deferred_program
            if theirs is not None and own is not None and other.deferred_of == self.deferred_of and alike(theirs, own):
                self.leader = other.leader
                return

    def of_parts(self, deferred: Sequence[DeferredGradients]) -> list[tuple[Tensor, Array]]:
        """The gradients of captured tensors that each backward made a part of."""
        found = []
        for k, t in enumerate(self._partial):
            total = deferred[0].parts[k]
            for one in deferred[1:]:
                total = total + one.parts[k]
            found.append((t, total))
        return found

    def finish(self, deferred: Sequence[DeferredGradients]) -> list[tuple[Tensor, Array]]:
        """The gradients of weights that were deferred by batches that share the same ones."""
        found: list[tuple[Tensor, Array]] = []
        first = n = 0
        for end, one in enumerate(deferred, 1):
            n += one.n
            if self._deferred is not None and (n >= MOST_ROWS or end == len(deferred)):
                found += self._of_all(deferred[first:end], n)
                first, n = end, 0
        return found

    def _of_all(self, deferred: Sequence[DeferredGradients], n: int) -> list[tuple[Tensor, Array]]:
        if len(deferred) == 1:
            joined = deferred[0].rows
            size = len(joined[0]) if joined else n
        else:
            size = rounded(n) if self.ignores_zeros else n
            same = zip(*[[array[: one.n] for array in one.rows] for one in deferred], strict=True)
            joined = [_joined(parts, n, size) for parts in same]
        rows, shared = iter(joined), dict(zip(self._programs.shared_leaves, deferred[0].shared, strict=True))
        arrays = [next(rows) if leaf is None else self._weight(leaf, shared) for leaf in self.deferred_reads]
        made = self._deferred.at(size)(arrays, self._programs.any_numbers)  # type: ignore[union-attr] # there is one
        if type(made) is not list:
            raise GraphError("backward: something is not as it was when it was recorded")
        tensors = self._programs.tensors
        return [(shared[leaf].tensor if leaf in shared else tensors[leaf], made[i]) for leaf, i in self.deferred_of]

    def _weight(self, leaf: int, shared: dict[int, SharedTensor]) -> Array | None:
        return shared[leaf].array if leaf in shared else self._programs.captured(leaf).array()


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
