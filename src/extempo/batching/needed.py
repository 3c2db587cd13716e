"""Which waiting calls have to run for the values that samples wait for. The others stay, and more of them run at once.

A decoder that asks after each word whether to go on needs a step of its cell for that; what it makes of the states
besides is needed at the end. Kinds are told apart, not calls: all calls of a kind run if one of them has to. Kinds that
had to run again and again are taken as needed without a look, so a loop that needs all it does costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .agenda import Calls
from .parts import ROOT, VALUE

_ALWAYS_NEEDED = -3  # of a kind: how much more often it was needed than not, from which on nobody looks


class WaitingValues:
    """The values that calls which may wait on are to make."""

    __slots__ = ("_calls", "_noted")

    def __init__(self) -> None:
        self._calls: dict[int, Calls] = {}  # by value
        self._noted: dict[Calls, tuple[int, int]] = {}  # how many calls of each kind are noted, and their inputs

    def may_wait(self, calls: Calls) -> bool:
        """Whether calls are worth a look. Of those that run one by one, the order may make a difference."""
        return (calls.kind.n_waited > _ALWAYS_NEEDED and not calls.kind.alone) or calls in self._noted

    def note(self, candidates: Iterable[Calls], parts: Any) -> dict[Calls, list[int]]:
        """Look at calls, and parts of values, that are new; the inputs of these calls."""
        by_value, new_refs = self._calls, {}
        for calls in candidates:
            n_calls, n_refs = self._noted.get(calls, (0, 0))
            self._noted[calls] = len(calls.firsts), len(calls.refs)
            n_results, new_refs[calls] = len(calls.kind.results), calls.refs[n_refs:]
            for first in calls.firsts[n_calls:] if n_calls else calls.firsts:
                by_value[first] = calls
                for value in range(first + 1, first + n_results):
                    by_value[value] = calls
        if parts is not None:
            for value, root in parts[:, (VALUE, ROOT)].tolist():
                if root in by_value:
                    by_value[value] = by_value[root]
        return new_refs

    def needed(self, values: list[int], running: Sequence[Calls]) -> set[Calls]:
        """The calls that make these values or inputs of those that run, and whatever they need in turn."""
        found: set[Calls] = set()
        left = [values, *[calls.refs for calls in running]]
        by_value, known = self._calls, self._calls.keys()
        while left:
            refs = left.pop()
            if not known.isdisjoint(refs):
                new = {by_value[ref] for ref in refs if ref in by_value} - found
                found |= new
                left += [calls.refs for calls in new]
        return found

    def makes(self, value: int) -> bool:
        """Whether calls that wait on make a value."""
        return value in self._calls

    def run(self, some: Iterable[Calls], parts: Any) -> None:
        """These calls run now, and these parts get their places."""
        by_value = self._calls
        for calls in some:
            del self._noted[calls]
            for first in calls.firsts:
                for value in range(first, first + len(calls.kind.results)):
                    del by_value[value]
        if parts is not None:
            for value in parts[:, VALUE].tolist():
                by_value.pop(value, None)

    def forget(self) -> None:
        """Everything runs now."""
        self._calls.clear()
        self._noted.clear()
