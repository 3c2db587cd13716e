"""Shares: the time of a profile in small parts, of which each has a line, a module, an op, a kernel and a phase.

Every report adds up shares by one of these. A kernel that was fused of several ops belongs to several lines: its time
is shared among them by what the ops are estimated to cost (`core.costs`), and marked as an estimate. So is the native
time of an `ex.batch`, among the lines of the calls that its last run made batches of.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from . import sites
from .call_tree import PYTHON, CallNode
from .lines import Line, line_of

_NAMING = frozenset((sites.OP, sites.NODE, sites.INSTRUCTION, sites.OPTIMIZER, sites.DATA, sites.PLANNING, sites.BATCH))
_ENGINE = "backward engine"
_BEGIN_ANEW = frozenset((sites.MODULE, sites.LABEL, "thread"))


class Share(NamedTuple):
    """A part of the time."""

    nanoseconds: float
    calls: int
    line: Line | None
    module: Any  # the innermost one, None outside of all
    op: str
    kernel: str  # "" outside of kernels
    phase: str
    is_native: bool
    is_estimate: bool = False  # its line and op are
    node: CallNode | None = None
    has_guessed_module: bool = False


class _Part(NamedTuple):
    """An op that an instruction of a plan computes, or one of several."""

    weight: float
    name: str
    line: Line | None


def shares_of(tree: CallNode) -> list[Share]:
    """All of them: they add up to the time of the tree."""
    found: list[Share] = []
    plans = PlanLines()
    _collect(tree, None, "", found, plans)
    return _with_modules(found)


def _collect(node: CallNode, module: Any, op: str, found: list[Share], plans: PlanLines, in_op: bool = False) -> None:
    """`op`: what the calls around it are a part of; `in_op`: an op is around it, which may run as another."""
    if node.kind == sites.MODULE:
        module = node.object
    if node.kind in _BEGIN_ANEW:
        op, in_op = "", False
    elif not op and node.kind in _NAMING:
        op = f"{node.name} backward" if node.kind == sites.NODE else node.name
    if node.kind == sites.INSTRUCTION:
        found += _of_instruction(node, module, plans)
    else:
        phase = node.stage or (sites.PYTHON if node.kind == PYTHON else sites.phase_of(node.kind, None))
        name = op or ("Python" if phase == sites.PYTHON else _ENGINE if node.kind == sites.BACKWARD else node.name)
        rest, calls = node.own - node.native, 0 if in_op and node.kind == sites.OP else node.calls
        if node.native:
            native_phase = node.stage or sites.NATIVE
            found.append(Share(node.native, calls, node.line, module, name, node.name, native_phase, True, node=node))
            calls = 0
        if rest or calls:
            found.append(Share(rest, calls, node.line, module, name, "", phase, False, node=node))
    for child in node.children.values():
        _collect(child, module, op, found, plans, in_op or node.kind == sites.OP)


def _of_instruction(node: CallNode, module: Any, plans: PlanLines) -> list[Share]:
    kernel, parts = plans.parts(node.parent, node.index)
    phase = node.stage or sites.NATIVE
    whole = sum(part.weight for part in parts) or 1.0
    made = []
    for k, part in enumerate(parts):
        time, calls = node.own * part.weight / whole, 0 if k else node.calls
        line = part.line or node.line
        made.append(Share(time, calls, line, module, part.name, kernel, phase, True, len(parts) > 1, node))
    return made


class PlanLines:
    """What the instructions of plans compute, and at which lines."""

    def __init__(self) -> None:
        self._known: dict[int, Any] = {}  # by what a plan runs: its request
        self._described: dict[int, list[tuple[str, list[_Part]]]] = {}
        self._of_notes: dict[int, list[_Part]] = {}
        from ..tracing.segment import PLANS

        for segment in PLANS:
            plan = segment.plan
            if plan is not None and plan.is_complete:
                packed = _packed(plan.run)
                if packed is not None:
                    self._known[id(packed)] = plan

    def parts(self, plan: CallNode | None, index: int) -> tuple[str, list[_Part]]:
        """The name of a kernel, and the ops in it."""
        key = id(plan.object) if plan is not None and plan.object is not None else 0
        found = self._described.get(key)
        if found is None:
            found = self._described[key] = self._describe(key)
        if index < len(found):
            return found[index]
        batches = [] if plan is None else [each for each in plan.path if each.kind == sites.BATCH]
        name = "batched plan" if batches else "plan"
        parts = self._of_batch(next((each.object for each in batches if each.object is not None), None))
        return f"{name}, instruction {index}", parts or [_Part(1.0, name, None)]

    def _of_batch(self, function: Any) -> list[_Part]:
        """The calls that the last run of a batched function made batches of, by line."""
        notes = getattr(function, "_notes", None)
        if notes is None:
            return []
        found = self._of_notes.get(id(notes))
        if found is None:
            found = self._of_notes[id(notes)] = [
                _Part(max(cost, 1e-12), name, None if where is None else line_of(*where))
                for (where, name), cost in notes.costs().items()
            ]
        return found

    def _describe(self, key: int) -> list[tuple[str, list[_Part]]]:
        plan = self._known.get(key)
        if plan is None:
            return []
        from ..scheduling import pipeline
        from ..scheduling.request import Unplannable

        try:
            said = pipeline.descriptions(plan._request)
        except Unplannable:
            return []
        if len(said) != plan.n_instructions:
            return []
        return [_parts_of(one, plan._request.steps) for one in said]


def _parts_of(description: Any, steps: Any) -> tuple[str, list[_Part]]:
    from ..core import costs

    def part(name: str, step: int) -> _Part:
        if step < 0:
            return _Part(1e-9, name, None)
        traced = steps[step]
        weight = costs.work_of(traced.op, traced.kinds, traced.type)
        return _Part(max(weight, 1e-12), name, None if traced.where is None else line_of(*traced.where))

    if description.nodes:
        names = description.names()
        parts = [part(name, step) for name, step in zip(names, description.steps, strict=True)]
        merged: dict[tuple[str, Line | None], float] = defaultdict(float)
        for one in parts:
            merged[one.name, one.line] += one.weight
        joined = ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"
        return f"fused: {joined}", [_Part(weight, name, line) for (name, line), weight in merged.items()]
    name = steps[description.step].op.name if description.step >= 0 else description.kind
    return name, [part(name, description.step)]


def _packed(run: Any) -> Any:
    """What a plan's callable has as its `self`, also behind the function that hands it constants."""
    found = getattr(run, "__self__", None)
    for cell in getattr(run, "__closure__", None) or ():
        found = found if isinstance(found, tuple) else getattr(cell.cell_contents, "__self__", None)
    return found if isinstance(found, tuple) else None


def _with_modules(shares: list[Share]) -> list[Share]:
    """Backward has no calls of modules: its nodes belong to those that ran at their lines, by what they took there."""
    at: dict[Line | None, dict[int, tuple[Any, float]]] = defaultdict(dict)
    for share in shares:
        if share.module is not None and share.phase != sites.BACKWARD_PHASE:
            _, before = at[share.line].get(id(share.module), (None, 0.0))
            at[share.line][id(share.module)] = (share.module, before + share.nanoseconds)
    made = []
    for share in shares:
        there = at.get(share.line)
        if share.module is not None or share.phase != sites.BACKWARD_PHASE or not there:
            made.append(share)
            continue
        whole = sum(time for _, time in there.values())
        if not whole:
            made.append(share)
            continue
        for k, (module, time) in enumerate(there.values()):
            part = share.nanoseconds * time / whole
            calls, guessed = 0 if k else share.calls, len(there) > 1
            made.append(share._replace(nanoseconds=part, calls=calls, module=module, has_guessed_module=guessed))
    return made
