"""Affine forms: from something at three sizes to how it is made at any, where its whole numbers are affine in n.

It looks at results, not at the code that made them, so it serves where that code cannot run on symbols; see the
package for when which of the two is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..core.trace_tree import Unplannable


class Affine(NamedTuple):
    """How something is made for n rows: `make(parts at n)`, or constant + slope * n."""

    make: Callable[[Any], Any] | None
    parts: Any
    slope: int = 0

    def at(self, n: Any) -> Any:
        """`n` may be symbolic."""
        if self.make is None:
            return self.parts + self.slope * n
        return self.make([p.at(n) if type(p) is Affine else p for p in self.parts])


def at_size(made: Any, n: Any) -> Any:
    """What varies, at n; what does not, as it is."""
    return made.at(n) if type(made) is Affine else made


class AffineFit:
    """From something at three sizes to how it is made at any: constants, and ints that are affine in n, in tuples."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = sizes

    def varying(self, lists: Sequence[Sequence[Any]]) -> list[tuple[int, Affine]]:
        """Which entries vary, and how."""
        if len({len(one) for one in lists}) != 1:
            raise Unplannable("the number of rows decides what is computed")
        fits = ((i, self(entries)) for i, entries in enumerate(zip(*lists, strict=True)))
        return [(i, fit) for i, fit in fits if type(fit) is Affine]

    def __call__(self, values: Sequence[Any]) -> Any:
        first, *others = values
        kind = type(first)
        if any(type(other) is not kind for other in others):
            raise Unplannable("the number of rows decides what is computed")
        if all(other is first for other in others):
            return first
        if kind is int:
            return self._int(values)
        if isinstance(first, tuple):
            return self._tuple(kind, values)
        if kind is dict:
            if any(list(other) != list(first) for other in others):
                raise Unplannable("the number of rows decides what is computed")
            parts = self([tuple(value.values()) for value in values])
            names = tuple(first)
            if type(parts) is Affine:
                return Affine(lambda made: dict(zip(names, made[0], strict=True)), (parts,))
            return first
        if kind is float:  # there are two zeros, and NaN is unlike itself
            if any(repr(other) != repr(first) for other in others):
                raise Unplannable("a number depends on the number of rows")
            return first
        if any(other != first for other in others):
            raise Unplannable(f"a {kind.__name__} depends on the number of rows")
        return first

    def _int(self, values: Sequence[int]) -> Any:
        a, b, c = self._sizes
        u, v, w = values
        if u == v == w:
            return u
        slope = (v - u) // (b - a)
        constant = u - slope * a
        if constant + slope * b != v or constant + slope * c != w:
            raise Unplannable("a size does not grow evenly with the number of rows")
        return Affine(None, constant, slope)

    def _tuple(self, kind: type, values: Sequence[tuple[Any, ...]]) -> Any:
        if len({len(value) for value in values}) != 1:
            raise Unplannable("the number of rows decides what is computed")
        parts = [self(entries) for entries in zip(*values, strict=True)]
        if not any(type(p) is Affine for p in parts):
            return values[0]
        return Affine(tuple if kind is tuple else lambda made: kind(*made), parts)
