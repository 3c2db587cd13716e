"""From a recorded call to its script: what later actions need is known now, so every flush keeps just that.

Each flush and backward gets its plan here, at the end of the first call. A backward that no plan can do becomes what it
was in the recorded call: a flush, and the engine.
"""

from __future__ import annotations

from math import inf
from typing import Any

from ...core.trace_tree import TraceNode
from ..output_binding import bind_outputs
from ..planner import SegmentPlanner, op_by_op
from ..segment import Counters, Segment, first_segment
from ..trace import Trace
from .backwards import PlannedBackward
from .script import Action, Effect
from .trace_actions import Extend, FlushNow, Handle, Leave, RecordedTrace
from .tracer import StaticTracer


class ScriptPlanner:
    """Finishes the actions of one recorder."""

    def __init__(self, recorder: StaticTracer, counters: Counters, outputs: list[int]) -> None:
        self._recorder = recorder
        self._planner = SegmentPlanner(counters, op_by_op)
        self._last: dict[int, float] = {}  # the last action that reads a slot; inf for results
        self._kept: dict[RecordedTrace, set[int]] = {}  # places whose values are there
        actions = [*recorder.renewals, *recorder.actions]
        self._n_actions = len(actions)
        for i, action in enumerate(actions):
            for slot in action.uses():
                self._last[slot] = i
        for slot in outputs:
            self._last[slot] = inf
        self.actions: list[Action] = []
        for i, action in enumerate(actions):
            self._finish(i, action)
        self._leave(recorder.position())
        self._drop()

    def _finish(self, i: int, action: Action) -> None:
        if isinstance(action, FlushNow):
            self._plan_flush(i, action)
        elif isinstance(action, PlannedBackward):
            self._plan_backward(i, action)
        else:
            self.actions.append(action)

    def _needed(self, recorded: RecordedTrace, first: int, end: int, after: float) -> list[Handle]:
        """The handles of places from `first` to `end` that are read after an action."""
        found = [h for h in recorded.handles.values() if first <= h.place < end and self._last.get(h.slot, -1) > after]
        return sorted(found, key=lambda h: h.place)

    def _trace_at(self, recorded: RecordedTrace, state: TraceNode) -> Trace:
        """As far as planning asks: what was on it there, and which values are known."""
        made = Trace(state)
        made.makers = recorded.makers[: state.n_places]
        nothing: Any = None
        made.values = dict.fromkeys(self._kept.setdefault(recorded, set()), nothing)
        return made

    def _plan_flush(self, i: int, action: FlushNow) -> None:
        recorded, state, first = action.recorded, action.state, action.first
        action.handles = self._needed(recorded, first, state.n_places, i - 1)
        held = {h.place for h in action.handles}
        for step in recorded.makers[state.n_places :]:
            held.update(ref for ref in step.refs if first <= ref < state.n_places)
        live = bytes([place in held for place in range(first, state.n_places)])
        trace = self._trace_at(recorded, state)
        following = next((e.following for e in state.events.values() if _is_flush(e)), None) or state.after_flush()
        action.found = first_segment(trace, first, live, following)
        self._planner.plan(action.found, trace, state)
        self._kept[recorded].update(action.found.wanted)
        self.actions.append(action)

    def _plan_backward(self, i: int, action: PlannedBackward) -> None:
        recorded, state, first = action.recorded, action.state, action.first
        action.handles = self._needed(recorded, first, state.n_places, i)
        held = {h.place for h in action.handles}
        live = bytes([place in held for place in range(first, state.n_places)])
        trace = self._trace_at(recorded, state)
        found = action.found = first_segment(trace, first, live, TraceNode(), action.backward, action.keep)
        tracked = [h.place for h in self._needed(recorded, 0, state.n_places, i) if h.tracked]
        action.alive = [place for place in tracked if place < first]
        if action.keep or all(recorded.makers[place].place in found.freed for place in tracked):
            self._planner.plan(found, trace, state)
        if action.finds_all:
            if not action.keep and action.backward.asked is None:
                bind_outputs(found, trace.makers, state)
                state.remember((action.backward.root, live), found)
            self.actions.append(action)
            return
        if state.n_places > first:
            self._plan_flush(i, FlushNow(recorded, state))
        self.actions.append(action.effect)

    def _leave(self, state: TraceNode) -> None:
        """The end of the function: what is returned gets its values, or stays on the trace for a backward outside."""
        recorded, first = self._recorder.recorded, state.n_run
        returned = [h for h in recorded.handles.values() if self._last.get(h.slot) == inf]
        waits = [h for h in returned if h.tracked]
        if not any(h.place >= first for h in waits) and any(h.place >= first for h in returned):
            self._plan_flush(self._n_actions, FlushNow(recorded, state))
        if waits:
            self.actions.append(Leave())

    def _drop(self) -> None:
        """Let go of what nobody reads any more."""
        made: set[int] = set()
        for action in self.actions:
            if isinstance(action, Extend):
                made.update(h.slot for h in action.handles)
            elif isinstance(action, Effect | PlannedBackward):
                effect = action if isinstance(action, Effect) else action.effect
                made.update(slot for _, slot, _ in effect.results)
        last: dict[int, int] = {}
        for i, action in enumerate(self.actions):
            for slot in action.uses():
                last[slot] = i
        for slot, i in last.items():
            if slot in made and self._last.get(slot) != inf:
                self.actions[i].drops = (*self.actions[i].drops, slot)


def _is_flush(event: Any) -> bool:
    return isinstance(event, Segment) and event.backward is None
