"""The fields of an output binding, as native code reads them; `extempo.tracing.output_binding` fills them in."""

from __future__ import annotations

from typing import Any, NamedTuple

from ....core.trace_tree import TraceOp

# Where the value of a tensor comes from: an output of the plan, or a view of another tensor that is bound at the same
# time, of a value that has run before, of a leaf.
OUTPUT, OF_BOUND, OF_VALUE, OF_LEAF = range(4)
ENTRY = ("kind", "source", "index", "tracked", "freed")


class OutputBinding(NamedTuple):
    """For each tensor that gets a value, in the order of the trace, one item of the first five."""

    # (kind, which output, tensor, value or leaf, index among the results of this segment, whether it is tracked,
    # whether a backward frees its node), int64 each
    entries: bytes
    places: tuple[int, ...]
    steps: tuple[TraceOp, ...]
    views: tuple[Any, ...]  # how a view is made: the record of its signature, or a function of an array
    aliases: tuple[Any, ...]  # ((op, numbers, attrs),) as in ViewOf.steps; None: no alias; (): numbers that vary
    kept: list[None]  # as many as there are results
    stays: bytes  # which results the trace keeps, int64 each
    alive: list[int]  # what this adds to Trace.alive
