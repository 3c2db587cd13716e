"""From a request to a plan, pass by pass:

    nodes         of the traced ops that have not run, then of the gradients of all that are differentiated
    dead_code     what nobody needs is left out
    fusion        elementwise nodes become clusters, units; some units are interleaved
    codegen       memory (memory_planner), kernels (kernel_selection), native instructions

All of it is done in pieces, so that a call need not wait for the whole: generators yield between pieces. A long loop
takes the same passes as a short one, with its windows noted on the way (`loop_rerolling`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from functools import partial

from ..backends.llvm.plans.background import WAITS, CompileJob
from ..core.trace_tree import NONE, NUMBER, TraceOp
from .backward import BackwardBuilder
from .codegen import InstructionEmitter
from .dead_code import needed_nodes
from .describe import Description
from .fusion import ScheduleUnits
from .loop_cache import NOT_ALIKE, ShortLoop, StretchedLoop, Work, number_kinds
from .loop_detection import HEAD, TAIL, Loop, find_loop, shortened
from .loop_rerolling import BACKWARD, FORWARD, Blocks, Uneven, Windows
from .lowering import of_step
from .program import ELEMENTWISE, Node, PlanProgram
from .request import Plan, Request, Unplannable

Pieces = Iterator[None]


class PlanningJob:
    """What planning a request takes; a long loop takes what a short one does, next to nothing once that is known."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._work: Work[Plan] | None = None
        loop = find_loop(request)
        short = None if loop is None else shortened(request, loop)
        self._stretch = None if loop is None or short is None else StretchedLoop(request, loop, short)
        self.n_steps = len(request.steps) if request.backward else len(request.steps) - request.start
        self.is_familiar = False  # the loop in it was met before, at whatever length
        if self._stretch is not None and self._stretch.is_even:
            self.n_steps = 0 if self._stretch.is_planned else len(self._stretch.short.steps)
            self.is_familiar = self._stretch.was_met

    def made(self, wait: bool, goes_on: Callable[[], bool]) -> Plan | None:
        """The plan, yet to be completed; raises Unplannable where there is none. Unless it waits, LLVM begins its work.

        None: `goes_on` said no before it was there; the next time begins where this one ended.
        """
        wait = wait or WAITS
        if self._stretch is not None:
            found = self._stretch.plan(partial(_short, wait=wait), goes_on)
            if found is not NOT_ALIKE:
                return found
            self._stretch = None
        if self._work is None:
            self._work = Work(partial(_planned, self._request, wait))
        return self._work.result if self._work.proceed(goes_on) else None


def _planned(request: Request, wait: bool, said: list[Description] | None = None) -> Generator[None, None, Plan]:
    planner = Planner(request)
    gradients = yield from planner.nodes()
    return (yield from planner.emitted(gradients, wait, said))


def _short(request: Request, loop: Loop, wait: bool) -> Generator[None, None, ShortLoop | None]:
    """The plan of a shortened request; None if windows of its loop are not alike."""
    planner = Planner(request)
    windows = Windows(loop, planner.program)
    try:
        gradients = yield from planner.nodes(windows)
        return (yield from planner.short(gradients, wait, windows))
    except Uneven:
        return None


def descriptions(request: Request) -> list[Description]:
    """What the instructions of the plan are. Plans do not keep that: it can be found again."""
    said: list[Description] = []
    Work(partial(_planned, request, True, said)).finish()
    return said


def described(request: Request) -> str:
    """The instructions of the plan in words."""
    return "\n".join(one.text(request.steps) for one in descriptions(request))


def _visit(backward: BackwardBuilder, first: int, end: int) -> Pieces:
    for index in range(end - 1, first - 1, -1):
        backward.visit(index, index + 1)
        yield


class _PlannedValues(dict[int, int]):
    """The value of each ref; made when first asked for, where it is not computed here."""

    def __init__(self, request: Request, program: PlanProgram) -> None:
        self._request = request
        self._program = program
        self._places = [step.place for step in request.steps]

    def __missing__(self, ref: int) -> int:
        value = self[ref] = self._given(ref)
        return value

    def _given(self, ref: int) -> int:
        """The value of a place or leaf that is not computed here; numbers and None stand for themselves."""
        if not NONE < ref < NUMBER:
            return ref
        if ref < 0:
            kind = self._request.leaves[-1 - ref]
            return self._program.input(ref, kind.type, kind.strides)
        step = self._request.steps[self.step_of(ref)]
        if step.view is not None:
            return self.view(step)
        if ref not in self._request.kept:
            raise Unplannable(f"the result of {step.op.name} was not kept")
        t = step.type[ref - step.place] if type(step.type) is tuple else step.type
        return self._program.input(ref, t, step.strides)

    def step_of(self, place: int) -> int:
        return bisect_right(self._places, place) - 1

    def view(self, step: TraceOp) -> int:
        strides, offset, starts = step.view  # type: ignore[misc] # the caller has seen that it is one
        return self._program.view(self[step.refs[0]], step.type, strides, offset, starts)


class Planner:
    """The passes of one request."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._steps = request.steps
        self.program = PlanProgram()
        self._values = _PlannedValues(request, self.program)

    def nodes(self, windows: Windows | None = None) -> Generator[None, None, dict[int, int]]:
        """Everything that is to be computed; the gradients by ref. `windows` are noted as they come."""
        request, steps, values = self._request, self._steps, self._values
        if windows is None:
            yield from self._forward(request.start, len(steps))
        else:
            yield from self._through(windows)
        asked = request.backward
        if asked is None:
            return {}
        backward = BackwardBuilder(self.program, steps, values, asked.asked)
        backward.gradients[asked.root] = values[asked.seed]
        end = values.step_of(asked.root) + 1
        if windows is None:
            yield from _visit(backward, 0, end)
        else:
            yield from self._back_through(windows, backward, end)
        return backward.finish()

    def all_nodes(self) -> dict[int, int]:
        """The same at once."""
        return Work(self.nodes).finish()

    def _through(self, windows: Windows) -> Pieces:
        loop = windows.loop
        yield from self._forward(self._request.start, loop.begin)
        for window in range(HEAD + TAIL):
            windows.begin()
            first = loop.begin + window * loop.period
            yield from self._forward(first, first + loop.period)
            windows.end(FORWARD, window)
        yield from self._forward(loop.begin + (HEAD + TAIL) * loop.period, len(self._steps))

    def _back_through(self, windows: Windows, backward: BackwardBuilder, end: int) -> Pieces:
        loop = windows.loop
        first = loop.begin + (HEAD + TAIL) * loop.period
        yield from _visit(backward, first, max(end, first))
        for window in range(HEAD + TAIL - 1, -1, -1):
            windows.begin()
            first = loop.begin + window * loop.period
            yield from _visit(backward, first, min(end, first + loop.period))
            windows.end(BACKWARD, window, backward.gradients)
        yield from _visit(backward, 0, min(end, loop.begin))

    def emitted(
        self, gradients: dict[int, int], wait: bool, said: list[Description] | None = None
    ) -> Generator[None, None, Plan]:
        """The plan."""
        outputs, nodes = self.needed(gradients)
        yield
        units = ScheduleUnits(self.program, nodes, outputs)
        yield
        used = self.used(units)
        emitter = InstructionEmitter(units, outputs, list(used), number_kinds(self._steps), said)
        unfinished = yield from emitter.pieces()
        job = CompileJob(emitter.missing) if emitter.missing and not wait else None
        size = (emitter.n_instructions, emitter.n_fused, emitter.nbytes)
        leaves = tuple([-1 - ref for ref in gradients])
        return Plan(tuple(used.values()), leaves, unfinished.finish, job, self._request, *size)

    def short(self, gradients: dict[int, int], wait: bool, windows: Windows) -> Generator[None, None, ShortLoop]:
        """What the plans of longer loops have in common with that of this one."""
        outputs, nodes = self.needed(gradients)
        yield
        fused = ScheduleUnits(self.program, nodes, outputs)
        yield
        blocks = Blocks(windows, fused, nodes, outputs)
        used = self.used(blocks.units)
        blocks.keep_to_the_end()
        yield
        emitter = InstructionEmitter(blocks.units, outputs, list(used), number_kinds(self._steps), None, blocks)
        unfinished = yield from emitter.pieces()
        job = CompileJob(emitter.missing) if emitter.missing and not wait else None
        leaves = tuple([-1 - ref for ref in gradients])
        return ShortLoop(unfinished, tuple(used.values()), leaves, job, emitter.n_instructions, emitter.n_fused)

    def needed(self, gradients: dict[int, int]) -> tuple[list[int], list[Node]]:
        """What is handed out, and the nodes for that."""
        outputs = self._outputs([self._values[place] for place in self._request.wanted] + list(gradients.values()))
        return outputs, needed_nodes(self.program, outputs)

    def used(self, units: ScheduleUnits) -> dict[int, int]:
        """Refs of the inputs that are read, by their values."""
        return {root: ref for ref, root in self.program.inputs.items() if units.last[root] >= 0}

    def _forward(self, first: int, end: int) -> Pieces:
        program, values, steps = self.program, self._values, self._steps
        types, roots, nodes, value_of = program.types, program.roots, program.nodes, values.__getitem__
        places = program.places.keys()
        for index in range(first, end):
            yield
            step = steps[index]
            place = step.place
            if step.view is not None:
                values[place] = values.view(step)
                if step.view.starts:
                    program.start_steps.setdefault(program.places[values[place]][2], index)
                continue
            form = of_step(step)
            codes = tuple(map(value_of, step.refs))
            if form.plain and places.isdisjoint(codes):  # as `program.apply` does it; most steps come this way
                result = values[place] = len(types)
                types.append(step.type)
                roots.append(result)
                nodes.append((ELEMENTWISE, form.expression, codes, (result,), index, form.may_fail))
                continue
            for value in program.apply(form, codes, index):
                values[place] = value
                place += 1

    def _outputs(self, values: list[int]) -> list[int]:
        """Values that can be handed out: computed here, in memory of their own, each once (`PlanProgram.hand_out`)."""
        program = self.program
        taken = set(program.inputs.values())
        made: list[int] = []
        for value in values:
            made.append(program.hand_out(value, taken))
            taken.add(made[-1])
        return made
