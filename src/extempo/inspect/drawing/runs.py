"""What compiled and batched runs made of the ops of a diagram: fused, planned, batched.

A diagram is captured op by op, as eager mode runs. Where plans of `ex.compile` are known for the same lines, each op
says whether it has an instruction of its own or was fused into others; where `ex.batch` ran, in how many batches.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ...batching.report import Explanation
from ...core.graph import describe_where
from ...core.wording import counted
from ...nn import Module
from ...scheduling.pipeline import descriptions
from ...tracing.compiled_function import FUNCTIONS, CompiledFunction
from ...tracing.segment import PLANS
from .model import Diagram, Item

MOST_PLANS = 4  # that are told of
MOST_KERNELS = 6  # fused ones of a plan, likewise
Place = tuple[str, str]  # an op's name and its line


def compiled_of(what: Any) -> CompiledFunction | None:
    """What `ex.compile` made of it, if it did."""
    wrapped = getattr(what, "__wrapped__", None)
    for function in FUNCTIONS:
        fn = function.fn
        if wrapped is not None and fn is wrapped:
            return function
        if isinstance(what, Module) and isinstance(fn, partial) and fn.args and _is_same(fn.args[0], what):
            return function
    return None


def _is_same(module: Any, what: Module) -> bool:
    """Whether one is the compiled form of the other: they share everything they hold."""
    return type(module) is not type(what) and module.__dict__ is what.__dict__


def note_plans(diagram: Diagram, function: CompiledFunction) -> None:
    """Say of ops what plans made of them."""
    places = {(item.op, item.where) for item in diagram.ops()}
    told = 0
    for segment in list(PLANS):
        plan = segment.plan
        if plan is None or told == MOST_PLANS:
            continue
        steps = plan._request.steps
        own = [(step.op.name, describe_where(step.where)) for step in steps]
        if not own or not places.issuperset(own):
            continue
        told += 1
        said = descriptions(plan._request)
        alone = {one.step for one in said if one.step >= 0 and not one.nodes}
        by_place: dict[Place, str] = {}
        for number, place in enumerate(own):
            said_of_it = "a kernel of its own" if number in alone else "fused into a kernel"
            # Ops of one name on one line are not told apart.
            by_place[place] = said_of_it if by_place.get(place, said_of_it) == said_of_it else "fused in part"
        for item in diagram.ops():
            if (item.op, item.where) in by_place:
                item.notes.append(by_place[item.op, item.where])
        diagram.notes.append(
            f"plan {told}: {counted(len(own), 'op')} became {counted(plan.n_instructions, 'instruction')}, "
            f"{plan.n_fused:,} fused into others (gradients count)"
        )
        diagram.notes += [one.text(steps) for one in said if one.nodes][:MOST_KERNELS]
    if not told:
        why = next(iter(function.counters.unplannable), "")
        diagram.notes.append(f"no plan: {why}" if why else "compiled, not planned yet: call it a few times first")


def note_batches(diagram: Diagram, explanation: Explanation) -> None:
    """Say of ops and modules in how many batches the samples ran."""
    lines = {(line.name, line.where): line for line in explanation.lines}
    diagram.notes += explanation.head.splitlines()
    for element in diagram.elements:
        name = element.op if isinstance(element, Item) else element.detail
        line = lines.get((name, element.where))
        if line is not None:
            said = f"{counted(line.calls, 'call')} in {counted(line.batches, 'batch', 'batches')}"
            element.notes.append(said)
