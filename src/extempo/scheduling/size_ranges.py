"""Plans of a segment at sizes that it was never met with: within a range of sizes they take arithmetic, no planning.

What is to be planned is known at any size (`tracing.dynamic_shapes`). A range of sizes is planned at its ends and in
the middle, and bound (`affine_instructions`) where that gives the same instructions. What is not affine in the size,
such as how a matrix product is cut, is asked for anew at each size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..backends.llvm.plans.background import CompileJob
from ..backends.llvm.routines.routine import ROUTINES, Bound
from ..core.op import Op
from ..symbolic.affine import Affine, AffineFit, at_size
from .affine_instructions import AffineBinding, Emission, Ranges, TooWide
from .codegen import InstructionEmitter
from .fusion import ScheduleUnits
from .loop_cache import number_kinds
from .loop_detection import find_loop
from .pipeline import Planner
from .program import ROUTINE, Node
from .request import Plan, Request, Unplannable

MOST_WASTE = 32 << 20  # bytes of memory that the largest size of a range takes and the smallest does not


class _NotYet(Exception):
    """LLVM has to compile something first."""


class SizeRange:
    """The plans of one segment at all sizes."""

    def __init__(self, resized: Callable[[int, Request], Request]) -> None:
        """`resized`: what is to be planned at some size; raises Unplannable."""
        self._resized = resized
        self._request: Request
        self._ranges = Ranges(self._binding, planned_before=1, with_powers=False)
        self._job: CompileJob | None = None
        self._made: tuple[Any, ...] | None = None  # what all its plans have in common

    def plan(self, n: int, request: Request, may_bind: Callable[[], bool]) -> Plan | None:
        """The plan at this size; None: there is none yet. `may_bind`: whether a range may be planned now."""
        if self._job is not None:
            self._job.wait()
            self._job = None
        self._request = request
        try:
            run = self._ranges.at(n, may_bind)
        except (_NotYet, Unplannable):
            return None
        if run is None or self._made is None:
            return None
        inputs, gradients, *size = self._made
        plan = Plan(inputs, gradients, lambda: run, None, request, *size).completed()
        return plan if isinstance(plan, Plan) else None

    @property
    def waits(self) -> bool:
        """Whether LLVM was asked for kernels without which there is no plan; the next call waits for them."""
        return self._job is not None

    @property
    def n_worked_out(self) -> int:
        return self._ranges.n_worked_out

    @property
    def n_bound(self) -> int:
        """Ranges of sizes that have their instructions."""
        return self._ranges.n_bound

    def _binding(self, sizes: Sequence[int]) -> AffineBinding:
        largest, smallest = self._planned(sizes[-1]), self._planned(sizes[0])
        if largest[3].nbytes - smallest[3].nbytes > MOST_WASTE:
            raise TooWide("too much memory would be wasted")
        planned = [smallest, *map(self._planned, sizes[1:-1]), largest]
        (_, used, gradients, emitter, nodes), *others = planned
        for _, *same, _, other_nodes in others:
            if same != [used, gradients] or len(nodes) != len(other_nodes):
                raise Unplannable("the size decides what is computed")
        varying = _Varying(sizes, [one[-1] for one in planned])
        emissions = [
            Emission(n, emitter.program, [node[1] for node in varying.nodes(own)], emitter, code)
            for n, (code, _, _, emitter, own) in zip(sizes, planned, strict=True)
        ]
        binding = AffineBinding(emissions, varying.bounds)
        self._made = (used, gradients, emitter.n_instructions, emitter.n_fused, emitter.nbytes)
        return binding

    def _planned(self, n: int) -> tuple[Any, tuple[int, ...], tuple[int, ...], InstructionEmitter, list[Node]]:
        """The instructions at one size, the refs that they read and whose gradients they give, and the nodes."""
        request = self._resized(n, self._request)
        if find_loop(request) is not None:
            raise Unplannable("a loop, which is planned as a shorter one")
        planner = Planner(request)
        gradients = planner.all_nodes()
        outputs, nodes = planner.needed(gradients)
        units = ScheduleUnits(planner.program, nodes, outputs)
        used = planner.used(units)
        emitter = InstructionEmitter(units, outputs, list(used), number_kinds(request.steps))
        code = emitter.run()
        if emitter.missing:
            self._job = CompileJob(emitter.missing)
            raise _NotYet
        return code, tuple(used.values()), tuple([-1 - ref for ref in gradients]), emitter, nodes


class _Varying:
    """Routines that have to be bound for each size: what they are bound to is not affine in it."""

    def __init__(self, sizes: Sequence[int], planned: Sequence[list[Node]]) -> None:
        fit = AffineFit(sizes)
        self._entries: list[_Routine] = []
        for position, same in enumerate(zip(*planned, strict=True)):
            if any(node[0] != same[0][0] or node[2:4] != same[0][2:4] for node in same):
                raise Unplannable("the size decides what is computed")
            if same[0][0] != ROUTINE:
                continue
            bounds: list[Bound] = [node[1] for node in same]
            op = bounds[0].origin[0]
            if any(bound.origin[0] is not op for bound in bounds):
                raise Unplannable("the size decides which routine runs")
            if bounds[0].parts is not None or not _is_affine(fit, bounds):
                kinds, attrs = (fit([bound.origin[i] for bound in bounds]) for i in (1, 2))
                if type(kinds) is Affine or type(attrs) is Affine:
                    self._entries.append(_Routine(position, op, kinds, attrs))

    def nodes(self, nodes: list[Node]) -> list[Node]:
        return [nodes[entry.position] for entry in self._entries]

    def bounds(self, n: Any) -> list[Bound]:
        return [entry.at(n) for entry in self._entries]


class _Routine(NamedTuple):
    """One of them."""

    position: int
    op: type[Op]
    kinds: Any  # of its inputs, at some size
    attrs: Any

    def at(self, n: Any) -> Bound:
        found = ROUTINES[self.op.lower.name](at_size(self.kinds, n), at_size(self.attrs, n))
        if found is None:
            raise Unplannable(f"{self.op.name} has no native code for this size")
        return found


def _is_affine(fit: AffineFit, bounds: Sequence[Bound]) -> bool:
    first, *_, last = bounds
    if any(bound[:2] != first[:2] or bound.scratch > last.scratch for bound in bounds):
        return False
    try:
        fit([bound.meta for bound in bounds])
    except Unplannable:
        return False
    return True
