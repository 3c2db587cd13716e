"""From a request to a plan, step by step:

forward    nodes for the steps that have not run
backward   nodes for their gradients, and for those of steps that ran before
units      what nobody needs is left out; elementwise nodes become clusters
arena      memory
emitting   native instructions
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ..backends.llvm.plans import stamp
from ..backends.llvm.plans.background import WAITS, Job
from ..backends.llvm.plans.runtime import is_there
from ..tape import NONE, NUMBER, Step
from .backward import Backward as BackwardNodes
from .building import LOADED_AT, Plan, Request, Unplannable
from .emitting import Emitter
from .forms import of_step
from .loops import HEAD, TAIL, find_loop, shortened
from .needing import needed_nodes
from .program import ELEMENTWISE, Program
from .rolling import BACKWARD, FORWARD, Blocks, Uneven, Windows
from .said import Said
from .units import Units

stamp.loaded_at(LOADED_AT)


def made(request: Request, wait: bool) -> Plan:
    """The plan, yet to be completed; raises Unplannable where there is none. Unless it waits, LLVM begins its work."""
    rolled = _rolled(request, wait or WAITS)
    if rolled is not None:
        return rolled
    planner = _Planner(request)
    return planner.emitted(planner.nodes(), wait or WAITS)


def _rolled(request: Request, wait: bool) -> Plan | None:
    """The plan by way of a shorter loop; None where there is no long one, or its windows are not alike."""
    loop = find_loop(request)
    short = None if loop is None else shortened(request, loop)
    if loop is None or short is None:
        return None
    planner = _Planner(short)
    windows = Windows(loop, planner.program)
    try:
        return planner.emitted(planner.nodes(windows), wait, windows=windows, request=request)
    except Uneven:
        return None


def begin() -> None:
    """Have what all plans share compiled, if it is not there."""
    if not is_there() and not WAITS:
        Job([None])


def described(request: Request) -> str:
    """The instructions of the plan in words. Plans do not keep them: they can be made again."""
    planner = _Planner(request)
    said: list[Said] = []
    planner.emitted(planner.nodes(), True, said)
    return "\n".join(one.text(request.steps) for one in said)


class _Values(dict[int, int]):
    """The value of each ref; made when first asked for, where it is not computed here."""

    def __init__(self, request: Request, program: Program) -> None:
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
        return self._program.input(ref, t, None)

    def step_of(self, place: int) -> int:
        return bisect_right(self._places, place) - 1

    def view(self, step: Step) -> int:
        strides, offset, starts = step.view  # type: ignore[misc] # the caller has seen that it is one
        return self._program.view(self[step.refs[0]], step.type, strides, offset, starts)


class _Planner:
    def __init__(self, request: Request) -> None:
        self._request = request
        self._steps = request.steps
        self.program = Program()
        self._values = _Values(request, self.program)

    def nodes(self, windows: Windows | None = None) -> dict[int, int]:
        """Everything that is to be computed; the gradients of leaves by ref. `windows` are noted as they come."""
        request, steps, values = self._request, self._steps, self._values
        if windows is None:
            self._forward(request.start, len(steps))
        else:
            self._through(windows)
        asked = request.backward
        if asked is None:
            return {}
        backward = BackwardNodes(self.program, steps, values)
        backward.gradients[asked.root] = values[asked.seed]
        end = values.step_of(asked.root) + 1
        if windows is None:
            backward.visit(0, end)
        else:
            self._back_through(windows, backward, end)
        return backward.finish()

    def _through(self, windows: Windows) -> None:
        loop = windows.loop
        self._forward(self._request.start, loop.begin)
        for window in range(HEAD + TAIL):
            windows.begin()
            first = loop.begin + window * loop.period
            self._forward(first, first + loop.period)
            windows.end(FORWARD, window)
        self._forward(loop.begin + (HEAD + TAIL) * loop.period, len(self._steps))

    def _back_through(self, windows: Windows, backward: BackwardNodes, end: int) -> None:
        loop = windows.loop
        first = loop.begin + (HEAD + TAIL) * loop.period
        backward.visit(first, max(end, first))
        for window in range(HEAD + TAIL - 1, -1, -1):
            windows.begin()
            first = loop.begin + window * loop.period
            backward.visit(first, min(end, first + loop.period))
            windows.end(BACKWARD, window, backward.gradients)
        backward.visit(0, min(end, loop.begin))

    def emitted(
        self,
        gradients: dict[int, int],
        wait: bool,
        said: list[Said] | None = None,
        windows: Windows | None = None,
        request: Request | None = None,
    ) -> Plan:
        """The plan. With `windows`, that of the longer loop in another request."""
        program, request = self.program, request or self._request
        outputs = self._outputs([self._values[place] for place in self._request.wanted] + list(gradients.values()))
        nodes = needed_nodes(program, outputs)
        units = Units(program, nodes, outputs)
        blocks = None
        if windows is not None:
            blocks = Blocks(windows, units, nodes, outputs)
            units = blocks.units
        used = {root: ref for ref, root in program.inputs.items() if units.last[root] >= 0}
        refs, leaves = list(used.values()), [-1 - ref for ref in gradients]
        if blocks is not None:
            blocks.keep_to_the_end()
            loop = blocks.loop
            program.start_steps = {starts: loop.step(step) for starts, step in program.start_steps.items()}
            refs = [ref if ref >= 0 else -1 - loop.leaf(-1 - ref) for ref in refs]
            refs += [-1 - leaf for leaf in blocks.leaves()]
            leaves = [loop.leaf(leaf) for leaf in leaves]
        emitter = Emitter(units, outputs, list(used), _number_kinds(request.steps), said, blocks)
        unfinished = emitter.run()
        job = Job(emitter.missing) if emitter.missing and not wait else None
        size = (emitter.n_instructions, emitter.n_fused, emitter.nbytes)
        return Plan(tuple(refs), tuple(leaves), unfinished.finish, job, request, *size)

    def _forward(self, first: int, end: int) -> None:
        program, values, steps = self.program, self._values, self._steps
        types, roots, nodes, value_of = program.types, program.roots, program.nodes, values.__getitem__
        for index in range(first, end):
            step = steps[index]
            place = step.place
            if step.view is not None:
                values[place] = values.view(step)
                if step.view.starts:
                    program.start_steps.setdefault(program.places[values[place]][2], index)
                continue
            form = of_step(step)
            codes = tuple(map(value_of, step.refs))
            if form.plain:  # as `program.apply` does it; most steps come this way
                result = values[place] = len(types)
                types.append(step.type)
                roots.append(result)
                nodes.append((ELEMENTWISE, form.expression, codes, (result,), index, form.may_fail))
                continue
            for value in program.apply(form, codes, index):
                values[place] = value
                place += 1

    def _outputs(self, values: list[int]) -> list[int]:
        """Values that can be handed out: computed here, in memory of their own, each once."""
        program = self.program
        outside = set(program.inputs.values())
        made: dict[int, None] = {}
        for value in values:
            if program.roots[value] != value or value in outside or value in made:
                value = program.copy(value)
            made[value] = None
        return list(made)


def _number_kinds(steps: Sequence[Step]) -> tuple[type, ...]:
    kinds: list[Any] = [float] * sum([step.n_numbers for step in steps])
    for step in steps:
        if step.n_numbers:
            for ref, kind in zip(step.refs, step.kinds, strict=True):
                if ref >= NUMBER:
                    kinds[ref - NUMBER] = kind
    return tuple(kinds)
