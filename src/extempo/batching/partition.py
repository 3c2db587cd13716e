"""What rows of calls go through, cut into three programs: forward, backward, and what is left for the end.

`forward` makes the results and what backward reads. `backward` makes rows of gradients of the inputs from rows of
gradients of the results. What adds up over all rows, the gradients of captured tensors, is left to `late`, which runs
once for all calls: it reads rows, of forward or backward, and captured tensors. A gradient of a captured tensor that
cannot wait, because something that only some calls share has a part in it, is one of the things backward makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.trace_tree import NONE, NUMBER
from ..core.types import TensorType
from ..scheduling.backward import BackwardBuilder
from ..scheduling.lowering import additions, of_step
from ..scheduling.program import CONSTANT, Program
from ..scheduling.request import Unplannable
from ..scheduling.row_templates import Part, part_of
from .tracing import RowTracer


class Split:
    """A trace as programs, for some of the results' gradients. Values are those of the program of all nodes.

    Arrays are named by place: leaves in order, gradients of the results that have one, then what was saved, and what
    backward made.
    """

    def __init__(self, trace: RowTracer, n: int, given: Sequence[bool]) -> None:
        self._trace, self._n = trace, n
        tape = trace.tape
        self._program = program = Program()
        self._values = values = _PartitionValues()
        for index, kind in enumerate(tape.leaves):
            values[-1 - index] = program.input(-1 - index, kind.type, kind.strides)
        self.n_leaves = len(tape.leaves)
        self._forward()
        self._n_forward = len(program.nodes)
        self.results = [values[ref] for ref in trace.results]
        self._of_leaves = [values[-1 - index] for index in range(self.n_leaves)]
        self.seeds: list[int] = []
        self.gradients: dict[int, int] = {}  # by leaf
        if any(given):
            self._backward(given)
        self._makers: dict[int, list[int]] = {}  # by root
        for position, node in enumerate(program.nodes):
            for result in node[3]:
                self._makers.setdefault(program.roots[result], []).append(position)
        self._cut()

    def _forward(self) -> None:
        program, values = self._program, self._values
        for index, step in enumerate(self._trace.tape.steps):
            if step.view is not None:
                strides, offset, starts = step.view
                values[step.place] = value = program.view(values[step.refs[0]], step.type, strides, offset, starts)
                if starts:
                    program.start_steps.setdefault(program.places[value][2], index)
                continue
            made = program.apply(of_step(step), tuple([values[ref] for ref in step.refs]), index)
            values.update(enumerate(made, step.place))

    def _backward(self, given: Sequence[bool]) -> None:
        program, tape = self._program, self._trace.tape
        backward = BackwardBuilder(program, tape.steps, self._values)
        for position, ref in enumerate(self._trace.results):
            if given[position]:
                t = program.types[self._values[ref]]
                seed = program.input(-1 - self.n_leaves - position, t, None)
                self.seeds.append(seed)
                if tape.is_tracked(ref):
                    before: Any = backward.gradients.get(ref)
                    if before is not None:
                        seed = program.elementwise(additions(t.dtype)[0], (before, seed), t)
                    backward.gradients[ref] = seed
        backward.visit(0, len(tape.steps))
        found = backward.finish().items()
        self.gradients = {-1 - ref: value for ref, value in found if tape.leaves[-1 - ref].tracked}

    # ---- what runs when

    def _cut(self) -> None:
        program = self._program
        self.late_of: list[int] = []  # leaves whose gradients are made at the end
        self.early_of: list[int] = []  # leaves whose gradients backward makes
        late: set[int] = set()
        read_late: set[int] = set()
        for leaf, value in self.gradients.items():
            found = self._without_rows(program.roots[value]) if leaf in self._trace.tape.tensors else None
            if found is None:
                self.early_of.append(leaf)
            else:
                self.late_of.append(leaf)
                late |= found[0]
                read_late |= found[1]
        outside = {*self._of_leaves, *self.seeds}
        made_early = [self.gradients[leaf] for leaf in self.early_of]
        made_early += sorted(root for root in read_late if root not in outside and not self._is_forward(root))
        early = self._needed(made_early)
        self.made = self._once(made_early)
        self.backward: Part | None = None
        self.backward_reads: list[int] = []
        if self.made:
            self.backward, self.backward_reads = part_of(program, early, self.made)
        self.late: Part | None = None
        self.late_reads: list[int] = []
        self.late_made = self._once([self.gradients[leaf] for leaf in self.late_of])
        if self.late_made:
            self.late, self.late_reads = part_of(program, late, self.late_made)
        read = {*self.backward_reads, *self.late_reads}
        self.saved = sorted(root for root in read if root not in outside and self._is_forward(root))

    def forward(self, saved: Sequence[int]) -> tuple[Part | None, list[int], list[int]]:
        """The part that makes results and `saved`, what it reads, and the values that it makes."""
        made = self._once([*self.results, *saved])
        if not made:
            return None, [], []
        part, reads = part_of(self._program, range(self._n_forward), made)
        return part, reads, made

    def leaf(self, index: int) -> int:
        return self._of_leaves[index]

    def shape(self) -> tuple[Any, ...]:
        """What has to be the same for any number of rows."""
        reads = (self.backward_reads, self.late_reads, self.saved)
        return (self.results, self.gradients, self.made, self.late_made, self.late_of, self.early_of, *reads)

    def name(self, value: int) -> tuple[str, int] | None:
        """Where the array of a value from outside is found; None: it is computed."""
        if value in self._of_leaves:
            return "leaf", self._of_leaves.index(value)
        return ("seed", self.seeds.index(value)) if value in self.seeds else None

    def has_rows(self, root: int) -> bool:
        return self._program.types[root].shape[:1] == (self._n,)

    def row_type(self, value: int) -> TensorType | None:
        """The type of one row of a value; None if it has none."""
        t = self._program.types[value]
        return TensorType(t.shape[1:], t.dtype) if self.has_rows(value) else None

    def _once(self, values: Sequence[int]) -> list[int]:
        """Values that have to be made."""
        return [value for value in dict.fromkeys(values) if self.name(value) is None]

    def _is_forward(self, root: int) -> bool:
        if root not in self._makers:
            raise Unplannable("a value that nothing makes")
        return self._makers[root][-1] < self._n_forward

    def _without_rows(self, root: int) -> tuple[set[int], set[int]] | None:
        """The nodes that make a value from rows and captured tensors, and those rows.

        None: shared inputs or open numbers have a part in it.
        """
        program, trace = self._program, self._trace
        nodes: set[int] = set()
        read: set[int] = set()
        todo, met = [root], {root}
        while todo:
            root = todo.pop()
            if self.has_rows(root):
                read.add(root)
                continue
            name = self.name(root)
            if name is not None:
                if name[1] not in trace.tape.tensors:
                    return None
                continue
            self._is_forward(root)
            for position in self._makers[root]:
                nodes.add(position)
                for code in program.nodes[position][2]:
                    if NUMBER <= code < CONSTANT and code - NUMBER < trace.n_open:
                        return None
                    if 0 <= code < NUMBER and program.roots[code] not in met:
                        met.add(program.roots[code])
                        todo.append(program.roots[code])
        return nodes, read

    def _needed(self, values: Sequence[int]) -> set[int]:
        """The nodes of backward that make values."""
        program, nodes = self._program, set[int]()
        todo = [program.roots[value] for value in values]
        met = set(todo)
        while todo:
            root = todo.pop()
            if self.name(root) is not None or self._is_forward(root):
                continue
            for position in self._makers[root]:
                nodes.add(position)
                for code in program.nodes[position][2]:
                    if 0 <= code < NUMBER and program.roots[code] not in met:
                        met.add(program.roots[code])
                        todo.append(program.roots[code])
        return nodes


class _PartitionValues(dict[int, int]):
    """Of refs; numbers and None stand for themselves."""

    def __missing__(self, ref: int) -> int:
        if NONE < ref < NUMBER:
            raise KeyError(ref)
        return ref
