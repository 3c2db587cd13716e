"""A plan for a long loop, from the units of a short one: the windows that were left out are copies of one of its.

The short loop has HEAD windows, the last of which is the model, and TAIL windows. Copies of the model stand between
these two, forwards and, the other way round, backwards. That is right if the windows around the gap are alike: the
same units on the same values, as many windows away. What differs between copies is where operands lie, and that moves
on evenly from one to the next:

- a value that backward reads has a place in a frame of its copy; others have one in two frames that take turns, for
  nothing is read more than one window away, or in one that serves all;
- a leaf of the window, or a number, is the next one each time.

In the short loop a value that is last used in a window next to the gap keeps its memory to that window's end: copies,
which come then, may still read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backends.llvm.plans.runner import Place, PlanCode
from ..backends.llvm.plans.running import INSTRUCTION
from ..tape import NONE, NUMBER
from .arena import ALIGNMENT, size_of
from .backward import Parts
from .loops import HEAD, TAIL, Loop
from .program import CONSTANT, Node, Program
from .units import Cluster, Units

FORWARD, BACKWARD, LEAF = range(3)
_OPERAND, _META = INSTRUCTION.index("first_operand"), INSTRUCTION.index("first_meta")
_OWNS, _STEP = INSTRUCTION.index("owns_meta"), INSTRUCTION.index("step")
MODEL, NEXT = HEAD - 1, HEAD  # the windows on both sides of the gap
Label = tuple[int, int, int]  # forward or backward, which window, which of its values; or a leaf
Zone = tuple[int, int]
MOST_MORE = 1.25  # units that are more because windows are kept apart


class Uneven(Exception):
    """Windows are not alike; the loop has to be planned as it is."""


class Windows:
    """What each window of the short loop made, noted while nodes are."""

    def __init__(self, loop: Loop, program: Program) -> None:
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


def _state(g: int | Parts) -> tuple[Any, ...]:
    if isinstance(g, Parts):
        return (g.buffer, g.apart, g.dim, tuple(g.firsts), tuple(g.ends), g.covered)
    return (g,)


class Blocks:
    """The units of windows next to the gap. Made only if they are alike."""

    def __init__(self, windows: Windows, fused: Units, nodes: Sequence[Node], outputs: Sequence[int]) -> None:
        """`fused`: the units of these nodes if it did not matter to which window they belong."""
        self.loop, self.labels = windows.loop, windows.labels()
        labels, program = self.labels, fused.program
        zones = {value: label[:2] for value, label in labels.items()}
        self.units = units = Units(program, nodes, outputs, zones)
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
        label = labels.get(_results(unit)[0])
        if label is None:
            return
        direction, window = zone = label[:2]
        first, end = self.spans.get(zone, (position, position))
        if end != position:
            raise Uneven
        self.spans[zone] = (first, position + 1)
        for code in (*_inputs(unit), *_results(unit)):
            label = labels.get(roots[code]) if 0 <= code < NUMBER else None
            if label is None:
                continue
            allowed = (window, window - 1) if label[0] != BACKWARD else (window, window + 1)
            if label[1] not in allowed or (label[0] == BACKWARD and direction == FORWARD):
                raise Uneven

    def _check_alike(self, one: Zone, other: Zone) -> None:
        """`other` is the window after `one`."""
        if one not in self.spans or other not in self.spans:
            raise Uneven
        first, second = ([self.units.units[i] for i in range(*self.spans[zone])] for zone in (one, other))
        if len(first) != len(second) or not all(map(self._alike, first, second)):
            raise Uneven

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
        codes, others = [*_inputs(a), *_results(a)], [*_inputs(b), *_results(b)]
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
        """The leaves of the windows that were left out, one window after the other."""
        loop, own = self.loop, _leaves_of(self.labels, self.units)
        windows = range(HEAD, HEAD + loop.n_left_out)
        return [loop.first_leaf + window * loop.n_leaves + index for window in windows for index in own]

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


def _results(unit: Any) -> Sequence[int]:
    return unit.results if type(unit) is Cluster else unit[3]


def _inputs(unit: Any) -> Sequence[int]:
    return unit.operands if type(unit) is Cluster else unit[2]


class Emitted:
    """What was emitted for the short loop: operands with their codes, and where each unit begins."""

    def __init__(self, bases: dict[int, Place], offsets: dict[int, int]) -> None:
        self.bases = bases
        self.offsets = offsets  # in the arena, by root
        self.codes: list[int] = []  # of every operand; below 0 nothing, or scratch memory
        self.starts: list[tuple[int, int]] = []  # for each unit, and for the end: first instruction, first operand


class Copies:
    """The instructions of the windows that were left out."""

    def __init__(self, blocks: Blocks, emitted: Emitted, arena: int, nbytes: int, first_leaf: int) -> None:
        """`arena`: its base; `nbytes`: what is in use of it. `first_leaf`: the base of the first leaf of the copies."""
        self._blocks, self._emitted, self._arena = blocks, emitted, arena
        self._n = blocks.loop.n_left_out
        self._first_leaf = first_leaf
        self._leaves = {index: i for i, index in enumerate(_leaves_of(blocks.labels, blocks.units))}
        self._values = {label: value for value, label in blocks.labels.items()}
        self._lay_out(nbytes)
        directions = (FORWARD, BACKWARD) if blocks.is_backward else (FORWARD,)
        self._made = [self._copies(direction) for direction in directions]
        self._patches = self._around_the_gap()

    def _lay_out(self, nbytes: int) -> None:
        """Frames, behind what the short loop uses."""
        units, labels = self._blocks.units, self._blocks.labels
        roots, types = units.program.roots, units.program.types
        stay, turn, scratch = set(), set(), 0
        for (direction, window), span in self._blocks.spans.items():
            if window not in (MODEL, NEXT):
                continue
            for unit in units.units[slice(*span)]:
                if type(unit) is not Cluster and unit[1] is not None:  # type: ignore[index] # a node
                    scratch = max(scratch, unit[1].scratch)  # type: ignore[index] # so
                for code in (*_inputs(unit), *_results(unit)):
                    label = labels.get(roots[code]) if 0 <= code < NUMBER else None
                    if label is not None and label[0] < direction:
                        stay.add(label[::2])
                    elif label is not None and label[1] != window:
                        turn.add(label[::2])
        n_bytes = [0, 0, 0]
        self._slots: dict[tuple[int, int], tuple[int, int]] = {}  # by label without window: which frames, where
        for value, label in labels.items():
            if label[1] == MODEL and label[0] != LEAF and value in self._emitted.offsets:
                own = label[::2]
                frames = 0 if own in stay else 1 if own in turn else 2
                self._slots[own] = (frames, n_bytes[frames])
                n_bytes[frames] += size_of(types[value])
        # For each kind of frames: where they begin, how large one is, how many there are.
        self._frames: list[tuple[int, int, int]] = []
        self.nbytes = -(-nbytes // ALIGNMENT) * ALIGNMENT
        for size, count in zip(n_bytes, (self._n, 2, 1), strict=True):
            self._frames.append((self.nbytes, size, count))
            self.nbytes += size * count
        self._scratch = self.nbytes
        self.nbytes += -(-scratch // ALIGNMENT) * ALIGNMENT

    def _place(self, label: Label, copy: Any) -> tuple[Any, Any]:
        """(base, offset) of a value in copies from 1 on."""
        if label[0] == LEAF:
            return self._first_leaf + (copy - 1) * len(self._leaves) + self._leaves[label[2]], copy * 0
        if label[::2] not in self._slots:
            raise Uneven
        frames, slot = self._slots[label[::2]]
        first, size, count = self._frames[frames]
        return copy * 0 + self._arena, first + (copy - 1) % count * size + slot

    def _span(self, zone: Zone, what: int) -> tuple[int, int]:
        """The instructions (0) or operands (1) of a window."""
        first, end = self._blocks.spans[zone]
        return self._emitted.starts[first][what], self._emitted.starts[end][what]

    def _label(self, operand: int) -> tuple[Label | None, int]:
        """Whose memory an operand lies in, and how far from its beginning."""
        code = self._emitted.codes[operand]
        if not 0 <= code < NUMBER:
            return None, 0
        program = self._blocks.units.program
        return self._blocks.labels.get(program.roots[code]), program.places[code][1] if code in program.places else 0

    def _copies(self, direction: int) -> Any:
        """For each copy, in the order in which they run, (base, offset) of each operand."""
        emitted, n = self._emitted, self._n
        first, end = self._span((direction, MODEL), 1)
        made = np.empty((n, end - first, 2), np.int64)
        copies = np.arange(1, n + 1)
        for column, operand in enumerate(range(first, end)):
            code = emitted.codes[operand]
            made[:, column] = (self._arena, self._scratch) if NONE < code < 0 else emitted.bases[code]
            label, offset = self._label(operand)
            if NUMBER <= code < CONSTANT:
                made[:, column, 1] += 8 * self._blocks.loop.n_numbers * copies
            elif label is not None:
                self._fill(made[:, column], label, copies + (label[1] - MODEL), offset)
        return made if direction == FORWARD else made[::-1]

    def _fill(self, column: Any, label: Label, which: Any, offset: int) -> None:
        """Where a value lies of the copies `which`; 0 is the model, and the last is the window after the gap."""
        column[:, 0], column[:, 1] = self._place(label, which)
        column[:, 1] += offset
        for there, window in ((0, MODEL), (self._n + 1, NEXT)):
            at = np.flatnonzero(which == there)
            if at.size:
                base, start = self._emitted.bases[self._values[label[0], window, label[2]]]
                column[at] = (base, start + offset)

    def _around_the_gap(self) -> list[tuple[int, int, int]]:
        """Operands of the short loop that lie in a copy now: (operand, base, offset)."""
        found = []
        seams = [((FORWARD, NEXT), MODEL, self._n)]
        if self._blocks.is_backward:
            seams += [((BACKWARD, NEXT), MODEL, self._n), ((BACKWARD, MODEL), NEXT, 1)]
        for zone, beyond, copy in seams:
            for operand in range(*self._span(zone, 1)):
                label, offset = self._label(operand)
                if label is not None and label[1] == beyond:
                    base, start = self._place(label, copy)
                    found.append((operand, base, start + offset))
        return found

    @property
    def n_instructions(self) -> int:
        directions = range(len(self._made))
        return self._n * sum(end - first for first, end in (self._span((d, MODEL), 0) for d in directions))

    @property
    def n_fused(self) -> int:
        """Elementwise nodes that run within another's kernel."""
        spans = [self._blocks.spans[direction, MODEL] for direction in range(len(self._made))]
        units = [unit for span in spans for unit in self._blocks.units.units[slice(*span)]]
        return self._n * sum(len(unit.results) - 1 for unit in units if isinstance(unit, Cluster))

    def insert(self, code: PlanCode) -> None:
        """Put them where they belong."""
        period, n_numbers, n = self._blocks.loop.period, self._blocks.loop.n_numbers, self._n
        rows, places = np.array(code.instructions).reshape(-1, len(INSTRUCTION)), np.array(code.operands).reshape(-1, 2)
        for operand, base, offset in self._patches:
            places[operand] = (base, offset)
        rows[rows[:, _STEP] >= self._blocks.loop.begin + HEAD * period, _STEP] += n * period
        all_rows, all_places = [], []
        done, places_done, n_more = 0, 0, 0
        for direction, made in enumerate(self._made):
            (first, end), (first_place, end_place) = (self._span((direction, MODEL), what) for what in (0, 1))
            cut, place_cut = (end, end_place) if direction == FORWARD else (first, first_place)
            order = np.arange(n)
            which = order + 1 if direction == FORWARD else n - order  # as they run
            copied = np.repeat(rows[None, first:end], n, 0)
            copied[:, :, _OPERAND] += (place_cut - first_place + n_more + order * (end_place - first_place))[:, None]
            copied[:, :, _STEP] += np.where(copied[:, :, _STEP] >= 0, (which * period)[:, None], 0)
            for column in np.flatnonzero(copied[0, :, _OWNS]).tolist():
                metas = [code.again(int(copied[0, column, _META]), copy * n_numbers) for copy in which.tolist()]
                copied[:, column, _META] = metas
            before = rows[done:cut].copy()
            before[:, _OPERAND] += n_more
            all_rows += [before, copied.reshape(-1, len(INSTRUCTION))]
            all_places += [places[places_done:place_cut], made.reshape(-1, 2)]
            done, places_done, n_more = cut, place_cut, n_more + n * (end_place - first_place)
        rest = rows[done:].copy()
        rest[:, _OPERAND] += n_more
        code.instructions = np.concatenate([*all_rows, rest]).ravel().tolist()
        code.operands = np.concatenate([*all_places, places[places_done:]]).ravel().tolist()


def _leaves_of(labels: dict[int, Label], units: Units) -> list[int]:
    """Which of its leaves the model window reads."""
    return sorted(i for value, (kind, w, i) in labels.items() if kind == LEAF and w == MODEL and units.last[value] >= 0)
