"""A plan for a long loop, from the units of a short one: the windows that were left out are copies of one of its.

The short loop has HEAD windows, the last of which is the model, and TAIL windows. Copies of the model stand between
these two, forwards and, the other way round, backwards. That is right by induction, if the windows around the gap are
alike (`Blocks`): the same units, in the same order, on the same values as many windows away. Then a copy reads of the
window before it what the model reads of its own predecessor, and the window after the gap finds of the last copy what
it found of the model. One window on each side would not do: values come from the window before, so the model and both
its neighbours are compared. Whatever is otherwise (a value read from two windows away, units of two windows fused into
one, an output inside) is `Uneven`, and the loop is planned as it is: rerolling is an optimisation, never a need.

Values are compared by labels: (direction, window, which of the window's values). What has no label is the same in all
windows: weights, constants, the buffer of a weight's gradient.

In the short loop a value that is last used in a window next to the gap keeps its memory to that window's end: copies,
which come then, may still read it. How copies are made is in `loop_copies`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.trace_tree import NUMBER
from .backward import GradientBuffer
from .fusion import Cluster, ScheduleUnits
from .interleaving import inputs_of
from .loop_detection import HEAD, TAIL, Loop
from .program import CONSTANT, Node, PlanProgram

FORWARD, BACKWARD, LEAF = range(3)
MODEL, NEXT = HEAD - 1, HEAD  # the windows on both sides of the gap
Label = tuple[int, int, int]  # forward or backward, which window, which of its values; or a leaf
Zone = tuple[int, int]
MOST_MORE = 1.25  # units that are more because windows are kept apart


class Uneven(Exception):
    """Windows are not alike; the loop has to be planned as it is."""


class Windows:
    """What each window of the short loop made, noted while nodes are."""

    def __init__(self, loop: Loop, program: PlanProgram) -> None:
        self.loop = loop
        self._program = program
        self._spans: dict[Zone, tuple[int, int]] = {}
        self._pending: dict[int, dict[int, Any]] = {}
        self._began = 0

    def begin(self) -> None:
        self._began = len(self._program.types)

    def end(self, direction: int, window: int, pending: dict[int, Any] | None = None) -> None:
        """A window was gone through. `pending`: gradients that have come for what is before it."""
        self._spans[direction, window] = (self._began, len(self._program.types))
        if pending is not None and window in (MODEL, NEXT):
            self._pending[window] = {ref: _state(g) for ref, g in pending.items()}

    def labels(self) -> dict[int, Label]:
        """Of the values that belong to a window."""
        loop = self.loop
        found = {
            value: (*zone, i) for zone, (first, end) in self._spans.items() for i, value in enumerate(range(first, end))
        }
        for ref, value in self._program.inputs.items():
            found.pop(value, None)
            index = -1 - ref - loop.first_leaf
            if ref < 0 <= index < (HEAD + TAIL) * loop.n_leaves:
                found[value] = (LEAF, *divmod(index, loop.n_leaves))
        return found

    def check_pending(self, labels: dict[int, Label]) -> None:
        """Backward goes from window to window in the same state, but for where it is."""
        if not self._pending:
            return
        before, after = self._pending[NEXT], self._pending[MODEL]
        if len(before) != len(after):
            raise Uneven
        for ref, (value, *state) in before.items():
            if ref >= self.loop.first_place:
                ref -= self.loop.n_places
            other, *other_state = after.get(ref, (None,))
            label = labels.get(value)
            expected = value if label is None else (label[0], label[1] - 1, label[2])
            if state != other_state or expected != (other if label is None else labels.get(other)):
                raise Uneven


def _state(g: int | GradientBuffer) -> tuple[Any, ...]:
    if isinstance(g, GradientBuffer):
        return (g.buffer, g.apart, g.dim, tuple(g.firsts), tuple(g.ends), g.covered)
    return (g,)


class Blocks:
    """The units of windows next to the gap. Made only if they are alike."""

    def __init__(self, windows: Windows, fused: ScheduleUnits, nodes: Sequence[Node], outputs: Sequence[int]) -> None:
        """`fused`: the units of these nodes if it did not matter to which window they belong."""
        self.loop, self.labels = windows.loop, windows.labels()
        labels, program = self.labels, fused.program
        zones = {value: label[:2] for value, label in labels.items()}
        self.units = units = ScheduleUnits(program, nodes, outputs, zones)
        if len(units.units) > MOST_MORE * len(fused.units):
            raise Uneven  # fusing across windows is worth more
        self.spans: dict[Zone, tuple[int, int]] = {}  # positions of units
        windows.check_pending(labels)
        for position, unit in enumerate(units.units):
            self._note(position, unit)
        self.is_backward = (BACKWARD, MODEL) in self.spans
        roots = program.roots
        if any(labels.get(roots[value], (0, -1))[1] in (MODEL, NEXT) for value in outputs):
            raise Uneven
        self._check_alike((FORWARD, MODEL - 1), (FORWARD, MODEL))
        self._check_alike((FORWARD, MODEL), (FORWARD, NEXT))
        self._check_neighbours((FORWARD, MODEL), (FORWARD, NEXT))
        if self.is_backward:
            self._check_alike((BACKWARD, MODEL), (BACKWARD, NEXT))
            self._check_neighbours((BACKWARD, NEXT), (BACKWARD, MODEL))

    def _note(self, position: int, unit: Any) -> None:
        """Units of a window must stand together, and use nothing from beyond the next window."""
        labels, roots = self.labels, self.units.program.roots
        label = labels.get(results_of(unit)[0])
        if label is None:
            return
        direction, window = zone = label[:2]
        first, end = self.spans.get(zone, (position, position))
        if end != position:
            raise Uneven
        self.spans[zone] = (first, position + 1)
        for code in (*inputs_of(unit), *results_of(unit)):
            label = labels.get(roots[code]) if 0 <= code < NUMBER else None
            if label is None:
                continue
            allowed = (window, window - 1) if label[0] != BACKWARD else (window, window + 1)
            if label[1] not in allowed or (label[0] == BACKWARD and direction == FORWARD):
                raise Uneven

    def _check_alike(self, one: Zone, other: Zone) -> None:
        """Raise unless `other`, the window after `one`, has the same units."""
        if one not in self.spans or other not in self.spans:
            raise Uneven
        first, second = ([self.units.units[i] for i in range(*self.spans[zone])] for zone in (one, other))
        if len(first) != len(second) or not all(map(self._alike, first, second)):
            raise Uneven
        if self._interleaved(one) != self._interleaved(other):
            raise Uneven

    def _interleaved(self, zone: Zone) -> list[int]:
        """Which units of a window are interleaved; they all must belong to it."""
        first, end = self.spans[zone]
        ends = [self.units.ends.get(position, position) for position in range(first, end)]
        if self.units.ends.get(first - 1) == self.units.ends.get(first, -1) or ends[-1] >= end:
            raise Uneven
        return [last - first for last in ends]

    def _check_neighbours(self, one: Zone, other: Zone) -> None:
        if self.spans[one][1] != self.spans[other][0]:
            raise Uneven

    def _alike(self, a: Any, b: Any) -> bool:
        if type(a) is not type(b) or not self._same_step(a, b):
            return False
        if type(a) is Cluster:
            fits = a.shape == b.shape and a.flat == b.flat and a.stored == b.stored
        else:
            fits = a[0] == b[0] and a[1] is b[1]
        codes, others = [*inputs_of(a), *results_of(a)], [*inputs_of(b), *results_of(b)]
        return fits and len(codes) == len(others) and all(map(self._next, codes, others))

    def _same_step(self, a: Any, b: Any) -> bool:
        one, other = (unit.step if type(unit) is Cluster else unit[4] for unit in (a, b))
        return bool(one == other == -1 or other - one == self.loop.period)

    def _next(self, x: int, y: int) -> bool:
        """Whether `y` is to its window what `x` is to the one before."""
        if x < 0 or x >= CONSTANT:
            return x == y
        if x >= NUMBER:
            return y - x == self.loop.n_numbers
        program = self.units.program
        if program.types[x] != program.types[y] or program.places.get(x) != program.places.get(y):
            return False
        root, other = program.roots[x], program.roots[y]
        for special in (program.buffers, program.zeroed):
            if (root in special) != (other in special):
                return False
        label = self.labels.get(root)
        if label is None:
            return root == other
        return self.labels.get(other) == (label[0], label[1] + 1, label[2])

    def leaves(self) -> list[int]:
        """Which of its leaves the model window reads."""
        last = self.units.last
        return sorted(
            i for value, (kind, w, i) in self.labels.items() if kind == LEAF and w == MODEL and last[value] >= 0
        )

    def keep_to_the_end(self) -> None:
        """Memory of what is last used next to the gap stays until that window is over."""
        last = self.units.last
        ends = {}
        for zone in ((FORWARD, MODEL), (FORWARD, NEXT), (BACKWARD, NEXT), (BACKWARD, MODEL)):
            first, end = self.spans.get(zone, (0, 0))
            for position in range(first, end):
                # Into the next window: a result of this one must not be written over it, either.
                ends[position] = min(end, len(self.units.units) - 1)
        self.units.last = [ends.get(position, position) for position in last]


def results_of(unit: Any) -> Sequence[int]:
    """The values that a unit makes."""
    return unit.results if type(unit) is Cluster else unit[3]
