"""The fields of an output binding, as native code reads them; `extempo.tracing.output_binding` fills them in."""

from __future__ import annotations

from typing import Any, NamedTuple

from ....core.trace_tree import TraceOp

# Where the values of a tensor come from: an output of the plan, or a view of another tensor that gets its values at the
# same time, of one that has run before, of a leaf.
OUTPUT, OF_GIVEN, OF_PLACE, OF_LEAF = range(4)
ENTRY = ("kind", "source", "index", "tracked", "freed")


class Filling(NamedTuple):
    """For each tensor that gets values, in the order of the tape, one item of the first five."""

    # (kind, which output, tensor, place or leaf, index among the results of this flush, whether it is tracked, whether
    # a backward frees its node), int64 each
    entries: bytes
    places: tuple[int, ...]
    steps: tuple[TraceOp, ...]
    looks: tuple[Any, ...]  # how a view is made: the record of its signature, or a function of an array
    ways: tuple[Any, ...]  # ((op, numbers, attrs),) as in Alias.steps; None: no alias; (): numbers that vary
    kept: list[None]  # as many as there are results
    stays: bytes  # which results the recording keeps, int64 each
    alive: list[int]  # what this adds to Recording.alive
