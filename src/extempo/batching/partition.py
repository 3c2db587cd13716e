"""A kind's trace and its gradients, partitioned into three programs: forward, backward, and what is deferred.

`forward` makes the results and what backward reads. `backward` makes rows of gradients of the inputs from rows of
gradients of the results. The gradients of weights (captured tensors, and inputs that all calls share) are sums over all
rows of all batches: they are *deferred* to the end of backward, where one product over all rows takes the place of one
for each batch. The deferred program reads rows, of forward or backward, and weights. A gradient of a weight that cannot
wait, because a number that only some calls share has a part in it, is one of the things that `backward` makes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ..core.trace_tree import NONE, NUMBER
from ..core.types import TensorType
from ..scheduling.backward import BackwardBuilder
from ..scheduling.lowering import additions, of_step
from ..scheduling.program import CONSTANT, PlanProgram
from ..scheduling.request import Unplannable
from ..scheduling.row_templates import Part, part_of
from .row_tracer import KindTrace


class Partition:
    """A trace as programs, for gradients of some of the results. Values are those of the program of all nodes."""

    def __init__(self, trace: KindTrace, n: int, seeded: Sequence[bool]) -> None:
        """`seeded`: which results come with a gradient."""
        self._trace, self._n = trace, n
        self._program = program = PlanProgram()
        self._values = values = _PartitionValues()
        for index, leaf in enumerate(trace.leaves):
            values[-1 - index] = program.input(-1 - index, leaf.type, leaf.strides)
        self.n_leaves = len(trace.leaves)
        self._forward()
        self._n_forward = len(program.nodes)
        self.results = [values[ref] for ref in trace.results]
        self._of_leaves = [values[-1 - index] for index in range(self.n_leaves)]
        self.seeds: list[int] = []
        self.gradients: dict[int, int] = {}  # by leaf
        if any(seeded):
            self._backward(seeded)
        self._makers: dict[int, list[int]] = {}  # by root: positions of the nodes that write it
        for position, node in enumerate(program.nodes):
            for result in node[3]:
                self._makers.setdefault(program.roots[result], []).append(position)
        self._cut()

    def _forward(self) -> None:
        program, values = self._program, self._values
        for index, step in enumerate(self._trace.steps):
            if step.view is not None:
                strides, offset, starts = step.view
                values[step.place] = value = program.view(values[step.refs[0]], step.type, strides, offset, starts)
                if starts:
                    program.start_steps.setdefault(program.places[value][2], index)
                continue
            made = program.apply(of_step(step), tuple([values[ref] for ref in step.refs]), index)
            values.update(enumerate(made, step.place))

    def _backward(self, seeded: Sequence[bool]) -> None:
        program, trace = self._program, self._trace
        backward = BackwardBuilder(program, trace.steps, self._values)
        for position, ref in enumerate(trace.results):
            if seeded[position]:
                t = program.types[self._values[ref]]
                seed = program.input(-1 - self.n_leaves - position, t, None)
                self.seeds.append(seed)
                if trace.is_tracked(ref):
                    before: Any = backward.gradients.get(ref)
                    if before is not None:
                        seed = program.elementwise(additions(t.dtype)[0], (before, seed), t)
                    backward.gradients[ref] = seed
        backward.visit(0, len(trace.steps))
        found = backward.finish().items()
        self.gradients = {-1 - ref: value for ref, value in found if trace.leaves[-1 - ref].tracked}

    # ---- what runs when

    def _cut(self) -> None:
        program = self._program
        self.deferred_of: list[int] = []  # leaves whose gradients are deferred
        self.backward_of: list[int] = []  # leaves whose gradients backward makes
        nodes: set[int] = set()  # of what is deferred
        rows: set[int] = set()  # that it reads
        for leaf, value in self.gradients.items():
            found = None if self.has_rows(self._of_leaves[leaf]) else self._from_rows(program.roots[value])
            if found is None:
                self.backward_of.append(leaf)
            else:
                self.deferred_of.append(leaf)
                nodes |= found[0]
                rows |= found[1]
        outside = {*self._of_leaves, *self.seeds}
        made = [self.gradients[leaf] for leaf in self.backward_of]
        made += sorted(root for root in rows if root not in outside and not self._is_forward(root))
        self.made = self._computed(made)
        self.backward, self.backward_reads = self._part(self._backward_nodes(made), self.made)
        self.deferred_made = self._computed([self.gradients[leaf] for leaf in self.deferred_of])
        self.deferred, self.deferred_reads = self._part(nodes, self.deferred_made)
        read = {*self.backward_reads, *self.deferred_reads}
        self.saved = sorted(root for root in read if root not in outside and self._is_forward(root))

    def _part(self, nodes: Collection[int], made: list[int]) -> tuple[Part | None, list[int]]:
        """The part that makes values, and what it reads; None if there are none to make."""
        return part_of(self._program, nodes, made) if made else (None, [])

    def forward(self, saved: Sequence[int]) -> tuple[Part | None, list[int], list[int]]:
        """The part that makes results and `saved`, what it reads, and the values that it makes."""
        made = self._computed([*self.results, *saved])
        return *self._part(range(self._n_forward), made), made

    def leaf(self, index: int) -> int:
        return self._of_leaves[index]

    def shape(self) -> tuple[Any, ...]:
        """What has to be the same for any number of rows."""
        made = (self.made, self.deferred_made, self.deferred_of, self.backward_of)
        return (self.results, self.gradients, *made, self.backward_reads, self.deferred_reads, self.saved)

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

    def _computed(self, values: Sequence[int]) -> list[int]:
        """Those that are no leaves and no seeds, each once."""
        return [value for value in dict.fromkeys(values) if self.name(value) is None]

    def _is_forward(self, root: int) -> bool:
        if root not in self._makers:
            raise Unplannable("a value that nothing makes")
        return self._makers[root][-1] < self._n_forward

    def _from_rows(self, root: int) -> tuple[set[int], set[int]] | None:
        """The nodes that make a value without rows from rows and weights, and those rows.

        None: open numbers have a part in it, which other batches have others of.
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
            if self.name(root) is not None:
                continue
            self._is_forward(root)
            for position in self._makers[root]:
                nodes.add(position)
                codes = program.nodes[position][2]
                if any(NUMBER <= code < CONSTANT and code - NUMBER < trace.n_open for code in codes):
                    return None
                self._follow(codes, todo, met)
        return nodes, read

    def _backward_nodes(self, values: Sequence[int]) -> set[int]:
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
                self._follow(program.nodes[position][2], todo, met)
        return nodes

    def _follow(self, codes: Sequence[int], todo: list[int], met: set[int]) -> None:
        """Add what a node reads to what is to be visited."""
        for code in codes:
            if 0 <= code < NUMBER and self._program.roots[code] not in met:
                met.add(self._program.roots[code])
                todo.append(self._program.roots[code])


class _PartitionValues(dict[int, int]):
    """Of refs; numbers and None stand for themselves."""

    def __missing__(self, ref: int) -> int:
        if NONE < ref < NUMBER:
            raise KeyError(ref)
        return ref
