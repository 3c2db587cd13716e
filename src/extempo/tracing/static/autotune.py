"""Which way a static function's calls are done: by plans, or op by op. What took less time in the first calls is.

The ways take turns of a few calls each, of which the first is not timed: neither has a use for the memory that the
other took, which is given back. A way that takes much longer in its first turns gets no more. Where a call takes long,
what plans cost beside the work does not matter, and the first way is not compared at all.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from ...backends.selection import give_back_memory
from ..policy import clock

TURN = 3  # calls
TURNS = (1, 4, 16)  # of each way, after which one is chosen that took less
LESS = (0.7, 0.9, 1.0)  # than this part of what the other took; the nearer they are, the less trying costs
LONG_CALL = 2e-3  # seconds
Run = Callable[..., Any]


class Autotuner:
    """Between two ways to do the same, the first of which comes first.

    `goes_on`: part of the work is done after a call, so what is timed is from one call to the next.
    """

    def __init__(self, ways: tuple[Run, Run], goes_on: bool, tell: Callable[[int], None]) -> None:
        self._ways = ways
        self._goes_on = goes_on
        self._tell = tell  # which one it became
        self._n_calls = 0
        self._began = 0.0
        self._best = [inf, inf]
        self._timed: int | None = None  # the way of the last call, if it is to be timed until this one
        self.run: Run = self.first()

    def first(self) -> Run:
        """What calls begin with: trying."""
        return self._try

    def _try(self, *args: Any) -> Any:
        began = clock()
        if self._goes_on and self._timed is not None:
            self._note(self._timed, began - self._began)
        n_calls = self._n_calls
        turn, within = divmod(n_calls, TURN)
        if within == 0 and self._is_clear(turn // 2):
            self.settle(int(self._best[1] < self._best[0]))
            return self.run(*args)
        self._n_calls = n_calls + 1
        if within == 0 and turn:
            give_back_memory()
        way = turn % 2
        self._began, self._timed = began, way if within else None
        out = self._ways[way](*args)
        if within and not self._goes_on:
            self._note(way, clock() - began)
        return out

    def _note(self, way: int, seconds: float) -> None:
        self._best[way] = min(self._best[way], seconds)

    def _is_clear(self, n_turns: int) -> bool:
        if n_turns == 0:  # the second way has not been tried
            return LONG_CALL < self._best[0] < inf
        less = max((x for n, x in zip(TURNS, LESS, strict=True) if n <= n_turns), default=0.0)
        return min(self._best) <= less * max(self._best)

    def settle(self, way: int) -> None:
        """From now on it is this one."""
        self.run = self._ways[way]
        give_back_memory()
        self._tell(way)
