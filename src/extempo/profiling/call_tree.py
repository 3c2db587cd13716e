"""The call tree: records, which say when something began and ended, become a tree of what ran inside what.

Records of one thread nest, as calls do. What a call took and no record inside of it has is its own; in code that Python
runs (the program itself, a module's forward) that is the time between two records, which is booked as Python on the
line of the record that follows. So every moment of a profile belongs to one place of the tree, and all add up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core.op import REGISTRY
from . import sites
from .lines import Line, line_of
from .recording import Recording
from .sites import Site

_RUNS_PYTHON = frozenset((sites.MODULE, sites.LABEL, sites.COMPILED, "thread"))
_KEEPS_OBJECT = frozenset((sites.MODULE, sites.PLAN, sites.BATCH))
_TIMES_KERNELS = frozenset((sites.OP, sites.NODE))
PYTHON = "python"  # the kind of nodes that hold the time between records
Samples = list[tuple[int, tuple[Line, ...]]]  # moments, and the user's lines then, the innermost first


class CallNode:
    """All calls of one thing from one place: one line, inside the same calls."""

    __slots__ = (
        *("calls", "children", "index", "kind", "line", "name", "native", "object", "own", "parent", "stage", "total"),
    )

    def __init__(self, name: str, kind: str, line: Line | None, parent: CallNode | None, o: Any, index: int) -> None:
        self.name = name
        self.kind = kind
        self.line = line
        self.parent = parent
        self.object = o  # the module, what a plan runs, or the function of an ex.batch
        self.index = index  # of an instruction
        self.stage: str | None = sites.stage_of(kind, None if parent is None else parent.stage)
        self.children: dict[Any, CallNode] = {}
        self.calls = 0
        self.total = 0  # nanoseconds, as all of these
        self.own = 0  # in no call inside of it
        self.native = 0  # of its own time: in kernels

    def child(self, name: str, kind: str, line: Line | None, o: Any = None, index: int = -1) -> CallNode:
        key = (name, kind, line, id(o), index)
        found = self.children.get(key)
        if found is None:
            found = self.children[key] = CallNode(name, kind, line, self, o, index)
        return found

    def walk(self) -> Iterator[CallNode]:
        """This one and all below, each after the one that it is in."""
        yield self
        for node in self.children.values():
            yield from node.walk()

    @property
    def path(self) -> list[CallNode]:
        """From the outermost call down to this one."""
        found, node = [], self
        while node.parent is not None:
            found.append(node)
            node = node.parent
        return found[::-1]


class _Call:
    """A call while the records inside of it are read."""

    __slots__ = ("begin", "cursor", "end", "last_line", "node")

    def __init__(self, node: CallNode, begin: int, end: int) -> None:
        self.node = node
        self.begin = begin
        self.end = end
        self.cursor = begin  # all before this is booked
        self.last_line: Line | None = node.line


class _Builder:
    def __init__(self, recording: Recording, samples: Samples) -> None:
        self._recording = recording
        self._samples = samples
        self._moments = [moment for moment, _ in samples]

    def build(self, records: Any, begin: int, end: int, name: str) -> CallNode:
        root = CallNode(name, "thread", None, None, None, -1)
        root.calls, root.total = 1, end - begin
        stack = [_Call(root, begin, end)]
        objects, known = self._recording.objects, self._recording.sites
        order = records[_in_order(records)]
        columns = [order[field].tolist() for field in ("begin", "end", "site", "instruction", "code", "object")]
        inner, indices = order["inner"].tolist(), order["index"].tolist()
        for k, (first, last, site_number, instruction, code, o) in enumerate(zip(*columns, strict=True)):
            first = max(first, begin)
            while len(stack) > 1 and stack[-1].end <= first:
                self._close(stack.pop())
            outer = stack[-1]
            last = min(max(last, first), outer.end)  # calls of other greenlets may not nest
            site: Site = known[site_number]
            found = objects.get(code) if code else None
            line = outer.node.line if found is None else line_of(found, instruction)
            self._book(outer, first, line)
            outer.cursor, outer.last_line = max(last, outer.cursor), line
            thing = objects.get(o) if o else None
            name_ = _name(site, thing)
            node = outer.node.child(name_, site.kind, line, thing if site.kind in _KEEPS_OBJECT else None, indices[k])
            node.calls += 1
            node.total += last - first
            if site.kind in _TIMES_KERNELS:
                node.native += inner[k]
                if outer.node.kind in _TIMES_KERNELS:
                    outer.node.native -= inner[k]
            stack.append(_Call(node, first, last))
        while stack:
            self._close(stack.pop())
        for node in root.walk():
            if node.kind in (sites.KERNEL, sites.INSTRUCTION):
                node.native = node.own
            node.native = max(min(node.native, node.own), 0)
            if node.kind == sites.OP and node.name not in REGISTRY:  # a function that runs an op
                inside = {child.name for child in node.children.values() if child.kind in (sites.KERNEL, sites.OP)}
                node.name = inside.pop() if len(inside) == 1 else node.name
        return root

    def _close(self, call: _Call) -> None:
        self._book(call, call.end, call.last_line)

    def _book(self, call: _Call, until: int, line: Line | None) -> None:
        """What lies between the last record inside a call and the next one, which has that line."""
        time = until - call.cursor
        if time <= 0:
            return
        if call.node.kind not in _RUNS_PYTHON:
            call.node.own += time
            return
        first, end = bisect_left(self._moments, call.cursor), bisect_left(self._moments, until)
        lines: list[Line | None] = [stack[0] for _, stack in self._samples[first:end] if stack]
        lines = lines or [line]
        for k, one in enumerate(lines):
            node = call.node.child("Python", PYTHON, one)
            share = time // len(lines) if k else time - time // len(lines) * (len(lines) - 1)
            node.own += share
            node.total += share


def _name(site: Site, thing: Any) -> str:
    if site.names_itself:
        return str(getattr(thing, "name", site.name))
    if site.kind == sites.OPTIMIZER and thing is not None:
        return f"{type(thing).__name__}.{site.name}"
    return site.name


def _in_order(records: Any) -> Any:
    """By beginning; of those that begin together, the one that ends last is around the others."""
    return np.lexsort((-records["end"], records["begin"]))


def call_trees(recording: Recording, samples: Samples) -> list[CallNode]:
    """A tree for each thread, that of the thread which profiled first."""
    records, builder = recording.records, _Builder(recording, samples)
    own = records["thread"] == recording.thread
    trees = [builder.build(records[own], recording.begin, recording.end, "main")]
    for k, thread in enumerate(sorted(set(records["thread"][~own].tolist()))):
        those = records[records["thread"] == thread]
        first, last = int(those["begin"].min()), int(those["end"].max())
        trees.append(_Builder(recording, []).build(those, first, last, f"thread {k + 1}"))
    return trees
