"""Loops on a trace: the same ops again and again, each time reading what the time before made.

A window is one time through. `find_loop` looks for windows that differ in nothing but where they are: a ref is either
the same in all of them, or moves on with them by the same distance. `shortened` leaves most of them out: the first ones
stay, and what follows the loop is moved to stand behind them. So a plan for a long loop can be made from one for a
short loop (`loop_rerolling`), and planning a loop takes as long at 10,000 turns as at 10.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.trace_tree import NONE, NUMBER, TraceOp
from .request import BackwardRequest, Request

HEAD, TAIL = 3, 3  # windows that stay before and after those that are left out
LEAST = 8  # windows; for fewer it does not pay
MOST_PERIODS = 40  # that are tried


class Loop(NamedTuple):
    """Where the windows are, and how many of each kind of thing one has."""

    begin: int  # the first step
    period: int  # steps
    n_windows: int
    first_place: int
    n_places: int
    first_leaf: int
    n_leaves: int
    first_number: int
    n_numbers: int

    @property
    def n_left_out(self) -> int:
        return self.n_windows - HEAD - TAIL

    # Where things of the shortened trace really are: everything up to the head's last window is where it was.

    def place(self, index: int) -> int:
        return index if index < self.first_place + HEAD * self.n_places else index + self.n_left_out * self.n_places

    def leaf(self, index: int) -> int:
        return index if index < self.first_leaf + HEAD * self.n_leaves else index + self.n_left_out * self.n_leaves

    def number(self, index: int) -> int:
        return index if index < self.first_number + HEAD * self.n_numbers else index + self.n_left_out * self.n_numbers

    def step(self, index: int) -> int:
        return index if index < self.begin + HEAD * self.period else index + self.n_left_out * self.period


def find_loop(request: Request) -> Loop | None:
    """The longest loop that goes through the middle of what is to be run, if there is one worth the trouble."""
    steps, start = request.steps[request.start :], request.start
    if len(steps) < 4 * LEAST:
        return None
    keys = [step.signature for step in steps]
    refs = np.frombuffer(b"".join([step.packed for step in steps]), np.int64)[::2]
    at = [0]
    for step in steps:
        at.append(at[-1] + len(step.refs))
    period = _period(keys, refs, at)
    if period is None:
        return None
    first, last = _extent(keys, period)
    n_windows = (last - first) // period
    if n_windows < LEAST:
        return None
    rows = refs[at[first] : at[first + n_windows * period]].reshape(n_windows, -1)
    moves = rows[1:] - rows[:-1]
    usual = moves[n_windows // 2]
    strange = np.flatnonzero((moves != usual).any(1))
    before, after = strange[strange < n_windows // 2], strange[strange > n_windows // 2]
    skipped = int(before[-1]) + 1 if before.size else 0
    n_windows = (int(after[0]) + 1 if after.size else n_windows) - skipped
    if n_windows < LEAST:
        return None
    return _checked(request, start + first + skipped * period, period, n_windows, rows[skipped:], usual)


def _period(keys: list[Any], refs: Any, at: list[int]) -> int | None:
    """The distance after which, in the middle, the same steps come again with refs that move by the same distance."""
    middle = len(keys) // 2
    tried = 0
    for before in range(middle - 1, middle - 1 - len(keys) // LEAST, -1):
        if keys[before] is not keys[middle]:
            continue
        period = middle - before
        tried += 1
        begin, end = middle - 2 * period, middle + 2 * period
        if tried > MOST_PERIODS or begin < 0 or end > len(keys):
            return None
        if keys[begin : end - period] == keys[begin + period : end]:
            rows = refs[at[begin] : at[end]].reshape(4, -1)
            moves = rows[1:] - rows[:-1]
            if (moves[1:] == moves[:-1]).all():
                return period
    return None


def _extent(keys: list[Any], period: int) -> tuple[int, int]:
    """How far to both sides of the middle steps are those that come a period later, or earlier."""
    first = last = len(keys) // 2
    while first > 0 and keys[first - 1] is keys[first - 1 + period]:
        first -= 1
    while last < len(keys) and keys[last] is keys[last - period]:
        last += 1
    return first, last


def _checked(request: Request, begin: int, period: int, n_windows: int, rows: Any, moves: Any) -> Loop | None:
    """The loop, if its windows are alike in all that matters. The first may be the one that meets leaves of all."""
    inside = request.steps[begin : begin + n_windows * period]
    kinds = [(s.needs, s.view, s.order, s.baked, s.new_leaves, s.grad) for s in inside]
    if kinds[period : 2 * period] != kinds[:period]:
        begin, n_windows, rows, inside, kinds = begin + period, n_windows - 1, rows[1:], inside[period:], kinds[period:]
    window, row, before = inside[:period], rows[0], request.steps[:begin]
    if kinds[period:] != kinds[:-period] or any(s.view is not None and s.view.starts for s in window):
        return None
    made = Loop(
        begin,
        period,
        n_windows,
        window[0].place,
        inside[period].place - window[0].place,
        sum([len(s.new_leaves) for s in before]),
        sum([len(s.new_leaves) for s in window]),
        sum([s.n_numbers for s in before]),
        sum([s.n_numbers for s in window]),
    )
    fits = (row == NONE) & (moves == 0)
    fits |= (row >= NUMBER) & (moves == made.n_numbers)
    fits |= (row >= 0) & (row < NUMBER) & ((moves == made.n_places) | ((moves == 0) & (row < made.first_place)))
    fits |= (row < 0) & (row > NONE) & ((moves == -made.n_leaves) | ((moves == 0) & (row >= -made.first_leaf)))
    return made if fits.all() and n_windows >= LEAST else None


def shortened(request: Request, loop: Loop) -> Request | None:
    """The request for a loop of HEAD + TAIL windows; None if someone needs what is left out."""
    short = _Shorter(loop)
    end = loop.begin + loop.n_windows * loop.period
    try:
        following = [short.step(step) for step in request.steps[end:]]
        wanted = tuple([short.place(place) for place in request.wanted])
        backward = request.backward
        if backward is not None:
            asked = backward.asked and tuple(map(short.ref, backward.asked))
            backward = BackwardRequest(short.place(backward.root), short.ref(backward.seed), asked)
    except _Needed:
        return None
    n_leaves, n_left_out = loop.n_leaves, loop.n_left_out
    cut = loop.first_leaf + (loop.n_windows - n_left_out) * n_leaves
    leaves = [*request.leaves[:cut], *request.leaves[cut + n_left_out * n_leaves :]]
    steps = [*request.steps[: end - n_left_out * loop.period], *following]
    return Request(steps, request.start, leaves, request.kept, wanted, backward)


class _Needed(Exception):
    """Something of a window that is left out is needed elsewhere."""


class _Shorter:
    """Where things are when windows are left out."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def _moved(self, index: int, first: int, n_each: int) -> int:
        """A place, leaf or number, where `first` is that of the first window and a window has `n_each`."""
        loop = self._loop
        if index < first or not n_each:
            return index
        window = (index - first) // n_each
        if HEAD <= window < loop.n_windows - TAIL:
            raise _Needed
        return index if window < HEAD else index - loop.n_left_out * n_each

    def place(self, place: int) -> int:
        return self._moved(place, self._loop.first_place, self._loop.n_places)

    def ref(self, ref: int) -> int:
        loop = self._loop
        if ref >= NUMBER:
            return NUMBER + self._moved(ref - NUMBER, loop.first_number, loop.n_numbers)
        if ref >= 0:
            return self.place(ref)
        return ref if ref == NONE else -1 - self._moved(-1 - ref, loop.first_leaf, loop.n_leaves)

    def step(self, step: TraceOp) -> TraceOp:
        if step.view is not None and step.view.starts and self._loop.n_numbers:
            raise _Needed  # the numbers that it begins at are others in a shorter trace
        made = object.__new__(TraceOp)
        for name in _KEPT:
            setattr(made, name, getattr(step, name))
        made.place = self.place(step.place)
        made.refs = tuple(map(self.ref, step.refs))
        return made


_KEPT = (
    *("_read_positions", "_signature", "attrs", "baked", "kinds", "n_numbers", "needs", "new_leaves", "op"),
    *("order", "tracked", "type", "view"),
)
