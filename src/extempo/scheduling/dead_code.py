"""Dead-code elimination, and view sinking: an elementwise result read through views only is computed per view.

Both in one pass from the last node to the first, when all readers of a value are known. The gates of an LSTM are the
reason for the second: one sum is read as four slices, and computed as four it stays in the registers of who reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.trace_tree import NUMBER
from ..core.types import count
from .program import ELEMENTWISE, UPDATE, Node, PlanProgram


def needed_nodes(program: PlanProgram, outputs: Sequence[int]) -> list[Node]:
    """The nodes that outputs depend on or that may fail, in order."""
    roots = program.roots
    needed = bytearray(len(roots))
    whole = bytearray(len(roots))  # whether it is read as it is, or by what is not elementwise
    seen: dict[int, dict[int, None]] = {}  # by root: the views through which elementwise nodes read it
    for value in outputs:
        needed[value] = whole[value] = 1
    kept: list[Node] = []
    for node in reversed(program.nodes):
        kind, _, inputs, results, _, may_fail = node
        if not may_fail:
            for result in results:
                if needed[roots[result]]:
                    break
            else:
                continue
        if kind == ELEMENTWISE and results[0] in seen and not whole[results[0]]:
            parts = _as_views(program, node, list(seen[results[0]]))
            if parts is not None:
                kept += parts
                inputs = tuple([code for part in parts for code in part[2]])
            else:
                kept.append(node)
        else:
            kept.append(node)
        for code in inputs:
            if 0 <= code < NUMBER:
                root = roots[code]
                needed[root] = 1
                if root == code or kind > UPDATE:
                    whole[root] = 1
                elif root in seen:
                    seen[root][code] = None
                else:
                    seen[root] = {code: None}
    kept.reverse()
    return kept


def _as_views(program: PlanProgram, node: Node, views: list[int]) -> list[Node] | None:
    """A node for each view of the result instead of one for the result; None where that would not pay."""
    types, places = program.types, program.places
    _, expression, inputs, (result,), step, may_fail = node
    t = types[result]
    if may_fail or result in program.buffers or sum([count(types[v].shape) for v in views]) > count(t.shape):
        return None
    itemsize = t.dtype.itemsize
    tensors = [code for code in inputs if code < NUMBER]
    for code in tensors:
        own = types[code]
        if code in places or own.shape != t.shape or own.dtype.itemsize != itemsize:
            return None
    if len(tensors) > 1 and any(places[v][0][-1:] not in ((itemsize,), ()) for v in views):
        return None  # elements far from one another are better collected once
    made: list[Node] = []
    for view in reversed(views):
        seen, place = types[view], places[view]
        parts = tuple([program.view(code, seen, *place) if code < NUMBER else code for code in inputs])
        program.become_root(view)
        made.append((ELEMENTWISE, expression, parts, (view,), step, False))
    return made
