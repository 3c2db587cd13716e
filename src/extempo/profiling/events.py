"""What PyTorch's programs ask a profile for: events by name, with their times in microseconds, and a table of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from . import sites
from .call_tree import PYTHON, CallNode


@dataclass
class FunctionEventAvg:
    """All calls of one name; times are microseconds.

    >>> with ex.profile() as prof:
    ...     y = ex.ones(3) + 1
    >>> [event.count for event in prof.key_averages() if event.key == "add"]
    [1]
    """

    key: str
    count: int = 0
    cpu_time_total: float = 0.0
    self_cpu_time_total: float = 0.0

    @property
    def cpu_time(self) -> float:
        """The mean of a call."""
        return self.cpu_time_total / self.count if self.count else 0.0


class EventList(list[FunctionEventAvg]):
    """What was timed."""

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_name_column_width: int | None = 55, **kwargs: Any
    ) -> str:
        """As text, the first `row_limit` by one of their figures."""
        events: Iterable[FunctionEventAvg] = self
        if sort_by is not None:
            field = sort_by.replace("cuda", "cpu").replace("device", "cpu")
            if field in ("count", "cpu_time", "cpu_time_total", "self_cpu_time_total"):
                events = sorted(self, key=lambda event: getattr(event, field), reverse=True)
        whole = sum(event.self_cpu_time_total for event in self) or 1.0
        width = max_name_column_width or 200
        lines = [f"{'Name':32} {'Self CPU %':>10} {'Self CPU':>12} {'CPU total':>12} {'# of Calls':>11}"]
        for event in list(events)[:row_limit]:
            lines.append(
                f"{event.key[:width]:32} {event.self_cpu_time_total / whole:>10.2%} "
                f"{event.self_cpu_time_total:>10.1f}us {event.cpu_time_total:>10.1f}us {event.count:>11,}"
            )
        return "\n".join([*lines, f"Self CPU time total: {whole / 1e3:.3f}ms"])

    def total_average(self) -> FunctionEventAvg:
        """All of them as one."""
        own = sum(event.self_cpu_time_total for event in self)
        return FunctionEventAvg("Total", sum(event.count for event in self), own, own)


def events_of(trees: list[CallNode]) -> EventList:
    """By name; what a call of the same name is inside of counts once."""
    found: dict[str, FunctionEventAvg] = {}

    def visit(node: CallNode, around: frozenset[str]) -> None:
        if node.parent is not None and node.kind != PYTHON:
            name = node.name
            if node.kind == sites.MODULE and node.object is not None:
                name = f"nn.Module: {type(node.object).__name__}"
            elif node.kind == sites.NODE:
                name = f"{name} backward"
            event = found.setdefault(name, FunctionEventAvg(name))
            event.count += node.calls
            event.self_cpu_time_total += node.own / 1e3
            if name not in around:
                event.cpu_time_total += node.total / 1e3
                around = around | {name}
        for child in node.children.values():
            visit(child, around)

    for tree in trees:
        visit(tree, frozenset())
    return EventList(found.values())
