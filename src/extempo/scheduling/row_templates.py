"""Templates: parts of a program that run at any number of rows, from the same part at a few numbers of rows.

A `Part` is some nodes of a program, as a program of its own. Made of what one function does to n rows, it has the same
nodes whatever n is, and every size, stride and offset in it is affine in n. A `RowTemplate` is made of a part at
three values of n, of which the third has to agree with the other two; `RowTemplate.at(n)` fills in all sizes for
another n, has routines bound to them, and returns what runs.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..backends.llvm.routines.routine import ROUTINES, Bound
from ..core.op import Op
from ..core.trace_tree import NUMBER
from ..core.types import TensorType
from ..symbolic.affine import Affine, AffineFit
from .affine_instructions import AffineBinding, Emission, Ranges, emitted
from .dead_code import needed_nodes
from .fusion import ScheduleUnits
from .program import CONSTANT, ROUTINE, UPDATE, Node, PlanProgram
from .request import Run, Unplannable

N_SIZES = 3
_TAKE_ZEROS = frozenset({"linear_gradient", "matmul", "reshape", "sum", "sum_rows"})


class Part(NamedTuple):
    """Some nodes, in order, and what they read and make."""

    program: PlanProgram
    nodes: list[Node]
    inputs: list[int]
    outputs: list[int]


def part_of(whole: PlanProgram, nodes: Iterable[int], outputs: Sequence[int]) -> tuple[Part, list[int]]:
    """The nodes of these positions as a part that makes `outputs`, and the values that it reads from outside.

    Outputs are values that the nodes make, each of them once; a view is copied.
    """
    renumbered = _Renumbered(whole, [whole.nodes[i] for i in sorted(nodes)])
    program = renumbered.program
    made = []
    for value in outputs:
        own = renumbered.values[value]
        made.append(own if program.roots[own] == own and own not in program.inputs else program.copy(own))
    needed = needed_nodes(program, made)
    read = {program.roots[code] for node in needed for code in node[2] if 0 <= code < NUMBER}
    inputs = [value for value in program.inputs if value in read]
    return Part(program, needed, inputs, made), [program.inputs[value] for value in inputs]


def alike(a: Part, b: Part) -> bool:
    """Whether parts do the same, whatever they are parts of."""
    x, y = a.program, b.program
    return (
        (a.inputs, a.outputs, len(a.nodes)) == (b.inputs, b.outputs, len(b.nodes))
        and (x.types, x.roots, x.places) == (y.types, y.roots, y.places)
        and (x.buffers, x.zeroed, list(x.constants)) == (y.buffers, y.zeroed, list(y.constants))
        and all(map(_same_node, a.nodes, b.nodes))
    )


def _same_node(a: Node, b: Node) -> bool:
    same = a[1] is b[1] or (a[0] == b[0] == ROUTINE and a[1].origin is not None and a[1].origin == b[1].origin)
    return same and a[0] == b[0] and a[2:4] == b[2:4]


class _Renumbered:
    """A program of some nodes of another."""

    def __init__(self, whole: PlanProgram, nodes: list[Node]) -> None:
        self._whole = whole
        self.program = program = (
            PlanProgram()
        )  # `inputs`: what each value that comes from outside is in the other program
        self.values = _RowValues(self._value)
        self._constants = list(whole.constants)
        self._made = {whole.roots[result] for node in nodes for result in node[3]}
        for kind, payload, inputs, results, step, may_fail in nodes:
            codes = tuple([self._code(code) for code in inputs])
            program.nodes.append((kind, payload, codes, tuple([self.values[r] for r in results]), step, may_fail))
        program.start_steps = dict(whole.start_steps)

    def _code(self, code: int) -> int:
        if code >= CONSTANT:
            constants = self.program.constants
            return CONSTANT + constants.setdefault(self._constants[code - CONSTANT], len(constants))
        return self.values[code] if 0 <= code < NUMBER else code

    def _value(self, value: int) -> int:
        whole, program = self._whole, self.program
        root = whole.roots[value]
        if root != value:
            own_root = self.values[root]
        own = program.new(whole.types[value])
        if root != value:
            program.roots[own] = own_root
        elif root not in self._made:
            program.inputs[own] = root
        if value in whole.places:
            program.places[own] = whole.places[value]
        if value in whole.buffers:
            program.buffers.add(own)
        if value in whole.zeroed:
            program.zeroed.add(own)
        return own


class _RowValues(dict[int, int]):
    def __init__(self, make: Callable[[int], int]) -> None:
        self._make = make

    def __missing__(self, value: int) -> int:
        made = self[value] = self._make(value)
        return made


class RowTemplate:
    """A part at any number of rows."""

    def __init__(self, parts: Sequence[Part], sizes: Sequence[int], number_kinds: tuple[type, ...]) -> None:
        """`parts`: the same at each of `sizes`, three of them. Unplannable: they are not alike."""
        first, *others = parts
        if any(p.inputs != first.inputs or p.outputs != first.outputs for p in others):
            raise Unplannable("what is read or made depends on the number of rows")
        self.n_inputs, self.n_outputs = len(first.inputs), len(first.outputs)
        self._part = first
        self._number_kinds = number_kinds
        programs = [p.program for p in parts]
        self._check(programs)
        fit = AffineFit(sizes)
        self._sizes = _RowSizes()
        self._types = [(i, self._sizes.add(t)) for i, t in fit.varying([program.types for program in programs])]
        self._places = fit.varying([_sorted_places(program) for program in programs])
        self._place_keys = sorted(first.program.places)
        self._nodes = self._varying_nodes(fit, [p.nodes for p in parts])
        self._ranges = Ranges(self._binding)

    def _check(self, programs: Sequence[PlanProgram]) -> None:
        first, *others = programs
        for other in others:
            if (
                other.roots != first.roots
                or other.places.keys() != first.places.keys()
                or other.buffers != first.buffers
                or other.zeroed != first.zeroed
                or list(other.constants) != list(first.constants)
                or list(other.start_steps.values()) != list(first.start_steps.values())
            ):
                raise Unplannable("memory is used in another way for another number of rows")

    def _varying_nodes(self, fit: AffineFit, nodes: Sequence[list[Node]]) -> list[tuple[int, Bound, list[Any], Any]]:
        """Routines whose sizes depend on n: position, the one at the first size, kinds and attributes."""
        if len({len(one) for one in nodes}) != 1:
            raise Unplannable("the number of rows decides what is computed")
        found = []
        for position, (node, *others) in enumerate(zip(*nodes, strict=True)):
            for other in others:
                if other[0] != node[0] or other[2:] != node[2:] or (node[0] != ROUTINE and other[1] is not node[1]):
                    raise Unplannable("the number of rows decides what is computed")
            if node[0] == ROUTINE:
                origins = [bound.origin for _, bound, *_ in (node, *others)]
                if any(origin is None or origin[0] is not origins[0][0] for origin in origins):
                    raise Unplannable("the number of rows decides which routine runs")
                kinds = [fit(kinds) for kinds in zip(*[origin[1] for origin in origins], strict=True)]
                attrs = fit([origin[2] for origin in origins])
                if any(type(kind) is Affine for kind in (*kinds, attrs)):
                    numbered = [self._sizes.add(kind) if type(kind) is Affine else kind for kind in kinds]
                    found.append((position, node[1], numbered, attrs))
        return found

    @property
    def ignores_zeros(self) -> bool:
        """Whether rows of zeros in all inputs with rows change nothing in results without."""
        varying = {i for i, _ in self._types}
        for kind, payload, _, results, _, _ in self._part.nodes:
            if kind == ROUTINE and payload.origin[0].name not in _TAKE_ZEROS:
                return False
            if kind <= UPDATE and not varying.isdisjoint(results):
                return False
        return varying.isdisjoint(self._part.outputs)

    def at(self, n: int) -> Run:
        """What runs it on n rows: `run(arrays of inputs, numbers)`. Unplannable: not for so many."""
        collects = gc.isenabled()
        gc.disable()  # nearly all that is made here is gone at the end
        try:
            bound = self._ranges.at(n)
            return self._emitted(n).code.finish() if bound is None else bound
        finally:
            if collects:
                gc.enable()

    def _binding(self, sizes: Sequence[int]) -> AffineBinding:
        return AffineBinding([self._emitted(n) for n in sizes], lambda n: self._bounds(n, self._sizes.at(n)))

    def _emitted(self, n: int) -> Emission:
        part, bounds = self._filled(n)
        units = ScheduleUnits(part.program, part.nodes, part.outputs)
        return emitted(n, part.program, units, part.inputs, part.outputs, self._number_kinds, bounds)

    def _bounds(self, n: int, types: list[TensorType]) -> list[Bound]:
        """The routines that vary, for n rows."""
        found = []
        for _, bound, kinds, attrs in self._nodes:
            own = tuple([types[k] if type(k) is int else k for k in kinds])
            found.append(_bound(bound, own, attrs.at(n) if type(attrs) is Affine else attrs))
        return found

    def _filled(self, n: int) -> tuple[Part, list[Bound]]:
        """The part for n rows, and its routines that vary."""
        first = self._part.program
        program = PlanProgram()
        program.types = list(first.types)
        types = self._sizes.at(n)
        for i, k in self._types:
            program.types[i] = types[k]
        program.places = dict(first.places)
        for i, recipe in self._places:
            program.places[self._place_keys[i]] = recipe.at(n)
        program.roots, program.buffers, program.zeroed = first.roots, first.buffers, first.zeroed
        program.constants = first.constants
        if first.start_steps:
            for value, (_, _, starts) in program.places.items():
                if starts:
                    program.start_steps[starts] = first.start_steps.get(first.places[value][2], -1)
        nodes, bounds = list(self._part.nodes), self._bounds(n, types)
        for (position, bound, _, _), filled in reversed(list(zip(self._nodes, bounds, strict=True))):
            kind, _, inputs, *rest = nodes[position]
            if filled.reads != bound.reads:  # where few rows are read in another way
                inputs = tuple(map(program.readable, inputs, filled.reads))
            nodes[position] = (kind, filled, inputs, *rest)
            if program.nodes:
                nodes[position:position] = program.nodes
                program.nodes.clear()
        return Part(program, nodes, self._part.inputs, self._part.outputs), bounds


def _sorted_places(program: PlanProgram) -> list[Any]:
    return [program.places[value] for value in sorted(program.places)]


def _bound(before: Bound, kinds: tuple[Any, ...], attrs: dict[str, Any]) -> Bound:
    """A routine for other sizes, that reads and writes in the same way."""
    op: type[Op] = before.origin[0]
    bound = ROUTINES[op.lower.name](kinds, attrs)
    if (
        bound is None
        or bound.zeroed != before.zeroed
        or bound.reads.replace("m", "c") != before.reads.replace("m", "c")
    ):
        raise Unplannable(f"{op.name} runs in another way for this number of rows")
    return bound


class _RowSizes:
    """Types that vary, each once: those who ask whether types are the same go by the object."""

    def __init__(self) -> None:
        self._known: dict[Any, int] = {}

    def add(self, recipe: Affine) -> int:
        """Its number. A type's shape varies, its dtype does not."""
        shape, dtype = recipe.parts
        sizes = tuple([(p.parts, p.slope) if type(p) is Affine else (p, 0) for p in shape.parts])
        return self._known.setdefault((sizes, dtype), len(self._known))

    def at(self, n: int) -> list[TensorType]:
        return [TensorType(tuple([c + slope * n for c, slope in sizes]), dtype) for sizes, dtype in self._known]
