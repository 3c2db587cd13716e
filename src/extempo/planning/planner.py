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
from .program import ELEMENTWISE, Program
from .said import Said
from .units import Units

stamp.loaded_at(LOADED_AT)


def made(request: Request, wait: bool) -> Plan:
    """The plan, yet to be completed; raises Unplannable where there is none. Unless it waits, LLVM begins its work."""
    planner = _Planner(request)
    return planner.emitted(planner.nodes(), wait or WAITS)


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
        self._program = Program()
        self._values = _Values(request, self._program)

    def nodes(self) -> dict[int, int]:
        """Everything that is to be computed; the gradients of leaves by ref."""
        self._forward()
        return self._backward()

    def emitted(self, gradients: dict[int, int], wait: bool, said: list[Said] | None = None) -> Plan:
        request, program = self._request, self._program
        outputs = self._outputs([self._values[place] for place in request.wanted] + list(gradients.values()))
        units = Units(program, outputs)
        used = {root: ref for ref, root in program.inputs.items() if units.last[root] >= 0}
        emitter = Emitter(units, outputs, list(used), _number_kinds(request.steps), said)
        unfinished = emitter.run()
        job = Job(emitter.missing) if emitter.missing and not wait else None
        leaves = tuple([-1 - ref for ref in gradients])
        n_instructions, n_fused, nbytes = emitter.code.n_instructions, emitter.n_fused, emitter.places.nbytes
        return Plan(tuple(used.values()), leaves, unfinished.finish, job, request, n_instructions, n_fused, nbytes)

    def _forward(self) -> None:
        program, values, steps = self._program, self._values, self._steps
        types, roots, nodes, value_of = program.types, program.roots, program.nodes, values.__getitem__
        for index in range(self._request.start, len(steps)):
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

    def _backward(self) -> dict[int, int]:
        """The gradients of leaves, by ref."""
        asked = self._request.backward
        if asked is None:
            return {}
        nodes = BackwardNodes(self._program, self._steps, self._values)
        return nodes.run(asked.root, self._values[asked.seed], self._values.step_of(asked.root))

    def _outputs(self, values: list[int]) -> list[int]:
        """Values that can be handed out: computed here, in memory of their own, each once."""
        program = self._program
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
