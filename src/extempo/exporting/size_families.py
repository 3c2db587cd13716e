"""SizeFamily: the plans of a graph at every value of one size, made from one another rather than each anew.

The graph has run at some sizes, and was cut into stretches. At sizes that differ in one of them its steps are the same,
with other numbers; where all these numbers, and the sizes of all values, are affine in that size, so are the
instructions of a plan within a range of sizes (`scheduling.size_ranges`), and a size that was never met takes
arithmetic instead of a run op by op and a plan. `max(0, time - 1)` is affine on either side of 1. What is not affine
(`time // 2`) has no family, and what lies in memory in another way than row by row is left to plans of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..core.graph import Node
from ..core.trace_tree import LeafKind
from ..scheduling.request import Request, Resizing, Unplannable, resizing
from .sizes import MAX_SIZE, Opaque, SizeExpr, at_sizes
from .stretches import PlannedLayout, PlannedStretch, StretchTrace, planning

MOST_KERNELS = 4  # times that LLVM is waited for while a range is planned


class Known(NamedTuple):
    """A graph at sizes that it has run at: the sizes, its parts, and the types of all slots, with expressions."""

    sizes: Mapping[str, int]
    parts: Sequence[Any]  # steps and stretches
    types: Mapping[int, Any]


class SizeFamily:
    """The graph at every value of the size `name`, with all others as they are in `known`."""

    def __init__(self, known: Known, name: str, interval: range) -> None:
        """`interval`: the sizes at which all numbers are affine."""
        self._interval = interval
        parts = enumerate(known.parts)
        self._stretches = [
            (i, _ResizedStretch(p, known, name, interval)) for i, p in parts if isinstance(p, PlannedStretch)
        ]

    @classmethod
    def of(cls, known: Known, name: str) -> SizeFamily | None:
        """None where something is not affine in that size, or there is no stretch."""
        steps = [step for part in known.parts for step in (part.steps if isinstance(part, PlannedStretch) else (part,))]
        numbers = [i for step in steps for i in step.node.inputs if not isinstance(i, Node)]
        lines = _StraightLines(known.sizes, name)
        try:
            for size in _expressions(([step.node.attrs for step in steps], numbers, list(known.types.values()))):
                lines.of(size)
        except ValueError:
            return None
        has_plans = any(isinstance(part, PlannedStretch) for part in known.parts)
        return cls(known, name, range(lines.low, lines.high + 1)) if has_plans else None

    def give_plans(self, size: int, parts: Sequence[Any]) -> bool:
        """Give these parts, the same at another size, their plans. False: not all of them could be made."""
        if size not in self._interval:
            return False
        with planning:
            found = [resized.layout(size, parts[i]) for i, resized in self._stretches]
        if None in found:
            return False
        for (i, _), layout in zip(self._stretches, found, strict=True):
            parts[i].planned.append(layout)
        return True


class _ResizedStretch:
    """One stretch at every size."""

    def __init__(self, stretch: PlannedStretch, known: Known, name: str, interval: range) -> None:
        self._stretch = stretch
        self._interval = interval
        self._layout: PlannedLayout = stretch.planned[0]
        self._known, self._name = known, name
        self._range: Resizing = resizing(self._request)
        self._kinds = dict(zip(stretch.reads, self._layout.kinds, strict=True))
        self._varying = {s for s in stretch.reads if any(name in e.names() for e in _expressions(known.types.get(s)))}

    def _leaf(self, slot: int, sizes: Mapping[str, int]) -> LeafKind:
        """What comes in: like in the known plan, or, where its type depends on the size, row by row."""
        kind = self._kinds[slot]
        if slot not in self._varying:
            return kind
        if kind.strides is not None:
            raise Unplannable("what comes in does not lie row by row")
        return LeafKind(at_sizes(self._known.types[slot], sizes), None, False)

    def _request(self, size: int, request: Request) -> Request:
        if size not in self._interval:
            raise Unplannable("numbers are affine in other sizes only")
        sizes = {**self._known.sizes, self._name: size}
        stretch, types = self._stretch, self._known.types
        trace = StretchTrace(stretch.constants_at(sizes), {slot: self._leaf(slot, sizes) for slot in stretch.reads})
        for step in stretch.steps:
            trace.add(step._replace(attrs=at_sizes(step.node.attrs, sizes)))
            for slot in range(step.first, step.first + max(1, step.n_results)):
                if trace.type_of(slot) != at_sizes(types[slot], sizes):
                    raise Unplannable("a type is not what the program says")
        return trace.request(stretch.writes)

    def layout(self, size: int, stretch: PlannedStretch) -> PlannedLayout | None:
        """The plan of the stretch at that size."""
        for _ in range(MOST_KERNELS):  # the first time, unless kernels have to be compiled
            plan = self._range.plan(size, self._layout.request, lambda: True)
            if plan is not None:
                sizes = {**self._known.sizes, self._name: size}
                kinds = [self._leaf(slot, sizes) for slot in stretch.reads]
                types = [at_sizes(self._known.types[slot], sizes) for slot in stretch.writes]
                return self._layout.resized(plan, stretch.constants, kinds, types)
            if not self._range.waits:
                return None
        return None


def _expressions(value: Any) -> Iterator[SizeExpr]:
    if isinstance(value, SizeExpr):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _expressions(part)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _expressions(part)


class _StraightLines:
    """Expressions as lines in one size, and the interval around its known value in which they are: [low, high]."""

    def __init__(self, sizes: Mapping[str, int], name: str) -> None:
        self._sizes, self._name = sizes, name
        self.low, self.high = 0, MAX_SIZE

    def of(self, size: SizeExpr) -> tuple[int, int]:
        """(a, b) of a + b * n; ValueError: it is no line."""
        total = (0, 0)
        for factors, coefficient in size.terms:
            term = (coefficient, 0)
            for factor in factors:
                term = _product(term, self._factor(factor))
            total = total[0] + term[0], total[1] + term[1]
        if type(total[0]) is not int or type(total[1]) is not int:
            raise ValueError("a fraction")
        return total

    def _factor(self, factor: str | Opaque) -> tuple[int, int]:
        if isinstance(factor, str):
            return (0, 1) if factor == self._name else (self._sizes[factor], 0)
        if factor.sign == "max0":
            return self._at_least_0(*self.of(factor.parts[0]))
        if self._name in SizeExpr.of(factor).names():
            raise ValueError("no line")
        return SizeExpr.of(factor).evaluate(self._sizes), 0

    def _at_least_0(self, a: int, b: int) -> tuple[int, int]:
        """max(0, a + b * n) is one of the two as long as n stays on its side of where they meet."""
        at_known = a + b * self._sizes[self._name]
        if b:
            above = at_known >= 0
            if (b > 0) == above:  # for n from there on
                self.low = max(self.low, -(a // b) if above else -(-a // -b))
            else:
                self.high = min(self.high, (-a) // b if b > 0 else a // -b)
        return (a, b) if at_known >= 0 else (0, 0)


def _product(x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int]:
    if x[1] and y[1]:
        raise ValueError("a square")
    return x[0] * y[0], x[0] * y[1] + x[1] * y[0]
