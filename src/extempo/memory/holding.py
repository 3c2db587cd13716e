"""`holders`: who keeps graphs alive. A tensor that was computed keeps all that it was computed from, so one that is
kept beyond its iteration keeps that iteration's graph: `total += loss`, `losses.append(loss)`, a state without detach.
"""

from __future__ import annotations

import gc
import itertools
import linecache
import textwrap
from collections import Counter
from collections.abc import Iterator
from html import escape
from typing import Any, NamedTuple

from ..core.graph import Graph, Leaf, Node, Traced, Where, describe_where
from ..core.live_objects import live_objects
from ..core.tensor import Tensor
from ..core.wording import counted
from ..inspect.style import fragment
from ..inspect.tables import WIDTH, Column, Printable, Table, bytes_text
from .referrers import holder, saved_bytes, variable_of

_MOST_ASKED = 4  # tensors of a line whose holders the garbage collector is asked for, which is slow


class Holder(NamedTuple):
    """Tensors of one place that keep graphs alive.

    >>> w, total = ex.ones(3, requires_grad=True), 0.0
    >>> for _ in range(40):
    ...     total = total + (w * w).sum()
    >>> held = ex.memory.holders()[0]
    >>> held.name, held.n_iterations >= 39
    ("'total'", True)
    """

    name: str  # of a variable, an attribute, a closure; "" if nobody was found
    line: str  # where the tensors were made, `train.py:12`
    code: str  # the text of that line
    n_tensors: int
    n_nodes: int  # of graphs, each counted once
    n_iterations: int  # how often the line ran, as far as that is kept alive
    n_bytes: int  # that nodes keep for their gradients

    def __str__(self) -> str:
        code = f"`{self.code}` at " if self.code else ""
        of = f" of {counted(self.n_iterations, 'iteration')}" if self.n_iterations > 1 else ""
        size = f" with {bytes_text(self.n_bytes)}" if self.n_bytes else ""
        by = f"; held by {self.name}" if self.name else ""
        return f"{code}{self.line or 'an unknown line'} keeps {counted(self.n_nodes, 'node')}{of}{size}{by}"


class Holders(Printable):
    """What `holders` found, whoever keeps most first.

    >>> w = ex.ones(3, requires_grad=True)
    >>> loss = (w * w).sum()
    >>> len(ex.memory.holders()) > 0
    True
    """

    def __init__(self, found: list[Holder]) -> None:
        self._found = found

    def __iter__(self) -> Iterator[Holder]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __getitem__(self, place: int) -> Holder:
        return self._found[place]

    @property
    def accumulating(self) -> list[Holder]:
        """Those that keep more than one turn of a loop."""
        return [held for held in self._found if held.n_iterations > 1]

    def __str__(self) -> str:
        if not self._found:
            return "nobody keeps a graph alive"
        return "\n".join(textwrap.fill(str(held), WIDTH, subsequent_indent="  ") for held in self._found)

    @property
    def table(self) -> Table:
        """A row for each."""
        titles = ["held by", "made at", "tensors", "nodes", "iterations", "memory"]
        columns = [Column(t, right=t not in titles[:2], may_shrink=t in titles[:2], least=12) for t in titles]
        rows = [
            [
                held.name,
                f"{held.line} {held.code}".strip(),
                f"{held.n_tensors:,}",
                f"{held.n_nodes:,}",
                f"{held.n_iterations:,}",
                bytes_text(held.n_bytes),
            ]
            for held in self._found
        ]
        return Table(columns, rows)

    def as_dict(self) -> dict[str, Any]:
        return {"holders": [held._asdict() for held in self._found]}

    def _repr_html_(self) -> str:
        return fragment(self.table.html() if self._found else f"<p>{escape(str(self))}</p>")


def holders(least: int = 2) -> Holders:
    """Who keeps graphs of at least so many nodes alive, and since which line.

    least: nodes; what is smaller is not told.

    >>> w = ex.ones(3, requires_grad=True)
    >>> losses = [(w * i).sum() for i in range(40)]
    >>> [held.n_tensors for held in ex.memory.holders() if "losses" in held.name]
    [40]
    """
    return holders_since(0, least)


def holders_since(number: float, least: int = 2) -> Holders:
    """The same of nodes that were made after the one with this number."""
    gc.collect()
    tensors = [t for t in live_objects(Tensor) if _has_graph(t) and t._history.number > number]
    by_place: dict[tuple[str, Where | None], list[Tensor]] = {}
    asked: dict[Where | None, list[str]] = {}  # what the collector said of tensors of a line
    own = {id(tensors), id(by_place)}
    for t in tensors:
        where = t._history.where
        name = variable_of(t)
        if not name:
            told = asked.setdefault(where, [])
            if len(told) < _MOST_ASKED:
                told.append(holder(t, set(own)))
            name = told[-1]
        group = by_place.setdefault((name, where), [])
        own.add(id(group))
        group.append(t)
    found = [_held(name, where, group, number) for (name, where), group in by_place.items()]
    found = [held for held in found if held.n_nodes >= least]
    return Holders(sorted(found, key=lambda held: (-held.n_iterations, -held.n_nodes)))


def n_live_nodes() -> int:
    """How many nodes of graphs are alive, leaves not counted."""
    gc.collect()
    return sum(node.op is not Leaf and node.op is not Traced for node in live_objects(Node))


def _has_graph(t: Tensor) -> bool:
    node = getattr(t, "_history", None)  # one that is just being made has none
    return type(node) is Node and node.op is not Leaf and node.op is not Traced


def _held(name: str, where: Where | None, group: list[Tensor], since: float) -> Holder:
    reached = Graph.reach([t._history for t in group])
    nodes = [node for node in reached if node.op is not Leaf and node.number > since]
    # What is saved in several nodes is one array.
    n_bytes = sum({id(part[1]): saved_bytes(node) for node in nodes for part in node.saved or ()}.values())
    times = Counter(node.where for node in nodes)
    n_iterations = max(times[where], len(group)) if where is not None else len(group)
    return Holder(name, describe_where(where), _code(where), len(group), len(nodes), n_iterations, n_bytes)


def _code(where: Where | None) -> str:
    if where is None:
        return ""
    code, instruction = where
    line = next(itertools.islice(code.co_positions(), instruction // 2, None))[0]
    return linecache.getline(code.co_filename, line).strip() if line is not None else ""
