"""Eviction: the trace tree of a function that does ever new things stays small, as what never came up again goes.

A node of the tree is kept if something was met again there or further on: a segment that was seen twice, or one that
is like others of another size. So what repeats keeps its plans, however much else comes and goes.
"""

from __future__ import annotations

from typing import Any

from ..core import trace_tree
from ..core.trace_tree import NO_EVENTS, TraceNode, TraceOp
from .segment import Segment


def prune(root: TraceNode) -> int:
    """Forget all edges from a node on which nothing was met twice. Returns how many nodes are left."""
    with trace_tree.tree_lock:
        order = _in_order(root)
        kept: set[TraceNode] = {root}
        for state in reversed(order):  # whatever follows comes before what leads to it
            kept.update([_after(event) for event in state.events.values() if _has_repeated(event)])
            following = [step.following for step in _steps(state)]
            if not kept.isdisjoint(following) or not kept.isdisjoint(map(_after, state.events.values())):
                kept.add(state)
            for family in state.families:
                if any(step.following in kept for step in family.members()):
                    kept.update((state, *family.samples()))
        for state in order:
            if state in kept:
                _keep(state, kept)
    return len(kept)


def _in_order(root: TraceNode) -> list[TraceNode]:
    """Each node after the one that leads to it."""
    found, waiting = [], [root]
    while waiting:
        state = waiting.pop()
        found.append(state)
        waiting += [step.following for step in _steps(state)]
        waiting += map(_after, state.events.values())
    return found


def _steps(state: TraceNode) -> dict[TraceOp, None]:
    """The edges from a node, those of families too."""
    return dict.fromkeys([*state.edges(), *[step for family in state.families for step in family.members()]])


def _after(event: Any) -> TraceNode:
    following: TraceNode = event.following if isinstance(event, Segment) else event
    return following


def _has_repeated(event: Any) -> bool:
    return isinstance(event, Segment) and event.has_repeated


def _keep(state: TraceNode, kept: set[TraceNode]) -> None:
    """Of what leads on from here."""
    state.others = tuple([step for step in state.others if step.following in kept])
    if state.step is not None and state.step.following not in kept:
        state.step = None
    for family in state.families:
        family.keep([step for step in family.members() if step.following in kept])
    state.families = tuple([family for family in state.families if kept.issuperset(family.samples())])
    if state.events is not NO_EVENTS:
        state.events = {key: event for key, event in state.events.items() if _after(event) in kept}
