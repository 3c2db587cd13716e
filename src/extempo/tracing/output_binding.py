"""Which live tensors get which outputs of a segment, as int64 records that native code reads.

They depend on the segment and its live values only, so they are written once.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..backends.llvm.calls.output_binding import OF_BOUND, OF_LEAF, OF_VALUE, OUTPUT, OutputBinding
from ..core.trace_tree import NUMBER, TraceNode, TraceOp

if TYPE_CHECKING:
    from .segment import Segment


def bind_outputs(segment: Segment, makers: Sequence[TraceOp], state: TraceNode) -> None:
    """Note how a segment ends that has run by a plan; for a size that is new, only when it has come up again."""
    if segment.plan is not None and segment.binding is None:
        if segment.resizing is None or segment.seen:
            segment.binding = output_binding(segment, makers, state.n_run, state.n_places)
        segment.seen += 1


def output_binding(segment: Segment, makers: Sequence[TraceOp], first: int, stop: int) -> OutputBinding | tuple[()]:
    """For a segment of the values from `first` to `stop`; empty if a view is one that native code does not make."""
    places = _bound(segment, makers, first)
    entries, views, aliases = b"", [], []
    for place in places:
        step = makers[place]
        if step.view is None:
            kind, source, view, alias = OUTPUT, segment.wanted.index(place), None, None
        else:
            kind, source = _source(step.refs[0], places, first)
            view, alias = _view(step), _alias(step)
            if view is None:
                return ()
        frees = type(step.type) is not tuple and bool(step.read_positions)
        entries += struct.pack("<5q", kind, source, place - first, step.tracked, step.tracked and frees)
        views.append(view)
        aliases.append(alias)
    tracked = [p for p in places if makers[p].tracked]
    alive = tracked
    if segment.backward is not None:  # the others get their freed nodes at once
        alive = [p for p in tracked if type(makers[p].type) is tuple or not makers[p].read_positions]
    steps = tuple([makers[p] for p in places])
    stays = struct.pack(f"<{len(tracked)}q", *[p - first for p in tracked])
    return OutputBinding(entries, places, steps, tuple(views), tuple(aliases), [None] * (stop - first), stays, alive)


def _bound(segment: Segment, makers: Sequence[TraceOp], first: int) -> tuple[int, ...]:
    """The values whose tensors are live, and the bases of views among them, which are from now on."""
    found = set(segment.live)
    for place in segment.live:
        while makers[place].view is not None and (place := makers[place].refs[0]) >= first:
            found.add(place)
    return tuple(sorted(found))


def _source(ref: int, places: tuple[int, ...], first: int) -> tuple[int, int]:
    """What a view is one of."""
    if ref < 0:
        return OF_LEAF, -1 - ref
    return (OF_BOUND, places.index(ref)) if ref >= first else (OF_VALUE, ref)


def _view(step: TraceOp) -> Any:
    """How a view is made: the record of its signature, or a function of an array; None if native code cannot."""
    if step.signature.view is not None:
        return step.signature.view
    return step.op.numpy if not step.attrs and len(step.refs) == 1 else None


def _alias(step: TraceOp) -> Any:
    """How a view is seen from its base."""
    if step.op.name == "detach":
        return None
    if step.baked is None and any(ref >= NUMBER for ref in step.refs):
        return ()
    return ((step.op, step.baked or (), step.attrs),)
