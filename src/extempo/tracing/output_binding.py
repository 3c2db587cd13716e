"""Which live tensors get which outputs of a segment, as int64 records that native code reads.

They depend on the segment and its live values only, so they are written once.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..backends.llvm.calls.output_binding import OF_GIVEN, OF_LEAF, OF_PLACE, OUTPUT, Filling
from ..core.trace_tree import NUMBER, TraceOp

if TYPE_CHECKING:
    from .segment import Segment


def output_binding(found: Segment, makers: Sequence[TraceOp], first: int, stop: int) -> Filling | tuple[()]:
    """For a flush of the places from `first` to `stop`; empty if a view is one that native code does not make."""
    given = set(found.held)
    for place in found.held:
        while makers[place].view is not None and (place := makers[place].refs[0]) >= first:
            given.add(place)  # not held by anyone, but by its view from now on
    places = tuple(sorted(given))
    entries, looks, ways = b"", [], []
    for place in places:
        step = makers[place]
        if step.view is None:
            kind, source, look, way = OUTPUT, found.wanted.index(place), None, None
        else:
            kind, source = _source(step.refs[0], places, first)
            look = step.signature.view
            if look is None and not step.attrs and len(step.refs) == 1:
                look = step.op.numpy
            if look is None:
                return ()
            way = _way(step)
        frees = type(step.type) is not tuple and bool(step.read_positions)
        entries += struct.pack("<5q", kind, source, place - first, step.tracked, step.tracked and frees)
        looks.append(look)
        ways.append(way)
    tracked = [p for p in places if makers[p].tracked]
    alive = tracked
    if found.backward is not None:  # the others get their freed nodes at once
        alive = [p for p in tracked if type(makers[p].type) is tuple or not makers[p].read_positions]
    steps = tuple([makers[p] for p in places])
    stays = struct.pack(f"<{len(tracked)}q", *[p - first for p in tracked])
    return Filling(entries, places, steps, tuple(looks), tuple(ways), [None] * (stop - first), stays, alive)


def _source(ref: int, places: tuple[int, ...], first: int) -> tuple[int, int]:
    if ref < 0:
        return OF_LEAF, -1 - ref
    return (OF_GIVEN, places.index(ref)) if ref >= first else (OF_PLACE, ref)


def _way(step: TraceOp) -> Any:
    if step.op.name == "detach":
        return None
    if step.baked is None and any(ref >= NUMBER for ref in step.refs):
        return ()
    return ((step.op, step.baked or (), step.attrs),)
