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

from ..tape import NUMBER, Step
from .backward import Backward as BackwardNodes
from .building import Plan, Request, Unplannable
from .emitting import Emitter
from .forms import of_signature
from .program import Program
from .units import Units


def made(request: Request) -> Plan:
    """The plan; raises Unplannable where there is none."""
    planner = _Planner(request)
    gradients = planner.nodes()
    return planner.emitted(gradients)


class _Planner:
    def __init__(self, request: Request) -> None:
        self._request = request
        self._steps = request.steps
        self._places = [step.place for step in request.steps]
        self._program = Program()
        self._values: dict[int, int] = {}

    def nodes(self) -> dict[int, int]:
        """Everything that is to be computed; the gradients of leaves by ref."""
        self._forward()
        return self._backward()

    def emitted(self, gradients: dict[int, int]) -> Plan:
        request, program = self._request, self._program
        outputs = self._outputs([self.value_of(place) for place in request.wanted] + list(gradients.values()))
        units = Units(program, outputs)
        used = {root: ref for ref, root in program.inputs.items() if units.last[root] >= 0}
        emitter = Emitter(units, outputs, list(used), _number_kinds(request.steps))
        run = emitter.run()
        leaves = tuple([-1 - ref for ref in gradients])
        steps, nbytes = request.steps, emitter.places.nbytes
        return Plan(tuple(used.values()), leaves, run, emitter.said, steps, emitter.n_fused, nbytes)

    def value_of(self, ref: int) -> int:
        """The value of a place or leaf; made when first asked for, where it is not computed here."""
        value = self._values.get(ref)
        if value is None:
            value = self._values[ref] = self._given(ref)
        return value

    def _given(self, ref: int) -> int:
        if ref < 0:
            kind = self._request.leaves[-1 - ref]
            return self._program.input(ref, kind.type, kind.strides)
        step = self._steps[self._step_of(ref)]
        if step.view is not None:
            return self._view(step)
        if ref not in self._request.kept:
            raise Unplannable(f"the result of {step.op.name} was not kept")
        t = step.type[ref - step.place] if type(step.type) is tuple else step.type
        return self._program.input(ref, t, None)

    def _step_of(self, place: int) -> int:
        return bisect_right(self._places, place) - 1

    def _view(self, step: Step) -> int:
        strides, offset, starts = step.view  # type: ignore[misc] # the caller has seen that it is one
        return self._program.view(self.value_of(step.refs[0]), step.type, strides, offset, starts)

    def _forward(self) -> None:
        program, values, value_of = self._program, self._values, self.value_of
        for index in range(self._request.start, len(self._steps)):
            step = self._steps[index]
            if step.view is not None:
                values[step.place] = self._view(step)
                if step.view.starts:
                    program.start_steps.setdefault(program.places[values[step.place]][2], index)
                continue
            form = of_signature(step.signature, step.op, step.kinds, step.attrs)
            codes = tuple([ref if not -NUMBER < ref < NUMBER else value_of(ref) for ref in step.refs])
            place = step.place
            for value in program.apply(form, codes, index):
                values[place] = value
                place += 1

    def _backward(self) -> dict[int, int]:
        """The gradients of leaves, by ref."""
        asked = self._request.backward
        if asked is None:
            return {}
        nodes = BackwardNodes(self._program, self._steps, self.value_of)
        return nodes.run(asked.root, self.value_of(asked.seed), self._step_of(asked.root))

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
