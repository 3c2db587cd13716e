"""Copies of the model window of a short loop, as instructions, for any number of windows that were left out.

What differs between copies is where operands are in memory, and that moves by the same distance from one to the next:

- a value that backward reads has a place in a frame of its copy; others have one in two frames that take turns, for
  nothing is read more than one window away, or in one that serves all;
- a leaf of the window, or a number, is the next one each time.

`Copies` knows of each operand how it moves, and nothing else of what was planned.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..backends.llvm.plans.runner import Place as Operand
from ..backends.llvm.plans.runner import PlanCode
from ..backends.llvm.plans.running import INSTRUCTION
from ..core.trace_tree import NONE, NUMBER
from .fusion import Cluster, ScheduleUnits
from .interleaving import inputs_of
from .loop_detection import HEAD, Loop
from .loop_rerolling import BACKWARD, FORWARD, LEAF, MODEL, NEXT, Blocks, Label, Uneven, Zone, results_of
from .memory_planner import ALIGNMENT, size_of
from .program import CONSTANT

_OPERAND, _META = INSTRUCTION.index("first_operand"), INSTRUCTION.index("first_meta")
_OWNS, _STEP = INSTRUCTION.index("owns_meta"), INSTRUCTION.index("step")
_STAY, _TURN, _SHARED, _SCRATCH, _NOWHERE = range(5)  # kinds of frames


class Emitted:
    """What was emitted for the short loop: operands with their codes, and where each unit begins."""

    def __init__(self, bases: dict[int, Operand], offsets: dict[int, int]) -> None:
        self.bases = bases
        self.offsets = offsets  # in the arena, by root
        self.codes: list[int] = []  # of every operand; below 0 nothing, or scratch memory
        self.starts: list[tuple[int, int]] = []  # for each unit, and for the end: first instruction, first operand


class _CopiedOperands(NamedTuple):
    """Where some operands are in each copy: where they are in the short loop, and how that moves on."""

    fixed: Any  # (base, offset)
    ahead: Any  # in which copy, relative to the one that reads it
    frames: Any  # in frames of which kind
    leaf: Any  # which of a window's leaves; -1: none
    number: Any  # bytes from one copy to the next
    beside: Any  # (base, offset) of the same in the window beside the gap, where that is what is read


class Copies:
    """The instructions of windows that were left out, however many these are."""

    def __init__(self, blocks: Blocks, emitted: Emitted, code: PlanCode, nbytes: int, n_inputs: int) -> None:
        """`nbytes`: what is in use of the arena. `n_inputs`: those of the short loop; the leaves of copies follow."""
        self._labels, self._program, self._emitted = blocks.labels, blocks.units.program, emitted
        self._spans, self._code, self._n_inputs = blocks.spans, code, n_inputs
        self.leaves = blocks.leaves()  # which of its leaves each copy reads
        self._n_numbers = blocks.loop.n_numbers
        self._values = {label: value for value, label in blocks.labels.items()}
        self._nbytes = -(-nbytes // ALIGNMENT) * ALIGNMENT
        self._lay_out(blocks.units)
        self._directions = (FORWARD, BACKWARD) if blocks.is_backward else (FORWARD,)
        self._extents = [[self._span((d, MODEL), what) for what in (0, 1)] for d in self._directions]
        self._operands = [self._moving(list(range(*extent))) for _, extent in self._extents]
        self._seams = self._around_the_gap(blocks.is_backward)
        spans = [blocks.spans[direction, MODEL] for direction in self._directions]
        units = [unit for span in spans for unit in blocks.units.units[slice(*span)]]
        # Of one window: elementwise nodes that run within another's kernel, and instructions.
        self.n_fused = sum(len(unit.results) - 1 for unit in units if isinstance(unit, Cluster))
        starts = emitted.starts
        interleaved = [i for span in spans for i in range(*span) if i in blocks.units.ends]
        self.n_fused += sum(starts[i][0] == starts[i + 1][0] for i in interleaved)
        self.n_instructions = sum(end - first for (first, end), _ in self._extents)
        del self._labels, self._program, self._emitted, self._spans, self._values, self._slots
        self._rows: Any = None  # instructions and operands of the short loop, once they are complete
        self._places: Any = None

    def _lay_out(self, units: ScheduleUnits) -> None:
        """What each kind of frames holds."""
        labels, roots, types = self._labels, units.program.roots, units.program.types
        stay, turn, scratch = set(), set(), 0
        for (direction, window), span in self._spans.items():
            if window not in (MODEL, NEXT):
                continue
            for unit in units.units[slice(*span)]:
                if type(unit) is not Cluster and unit[1] is not None:  # type: ignore[index] # a node
                    scratch = max(scratch, unit[1].scratch)  # type: ignore[index] # so
                for code in (*inputs_of(unit), *results_of(unit)):
                    label = labels.get(roots[code]) if 0 <= code < NUMBER else None
                    if label is not None and label[0] < direction:
                        stay.add(label[::2])
                    elif label is not None and label[1] != window:
                        turn.add(label[::2])
        sizes = [0, 0, 0]
        self._slots: dict[tuple[int, int], tuple[int, int]] = {}  # by label without window: which frames, where
        for value, label in labels.items():
            if label[1] == MODEL and label[0] != LEAF and value in self._emitted.offsets:
                own = label[::2]
                frames = _STAY if own in stay else _TURN if own in turn else _SHARED
                self._slots[own] = (frames, sizes[frames])
                sizes[frames] += size_of(types[value])
        self._sizes = [*sizes, -(-scratch // ALIGNMENT) * ALIGNMENT]

    def _span(self, zone: Zone, what: int) -> tuple[int, int]:
        """The instructions (0) or operands (1) of a window."""
        first, end = self._spans[zone]
        return self._emitted.starts[first][what], self._emitted.starts[end][what]

    def _label(self, operand: int) -> tuple[Label | None, int]:
        """Whose memory an operand lies in, and how far from its beginning."""
        code, program = self._emitted.codes[operand], self._program
        if not 0 <= code < NUMBER:
            return None, 0
        return self._labels.get(program.roots[code]), program.places[code][1] if code in program.places else 0

    def _moving(self, operands: list[int]) -> _CopiedOperands:
        bases, arena = self._emitted.bases, self._code.arena
        rows = []
        for operand in operands:
            code = self._emitted.codes[operand]
            label, offset = self._label(operand)
            ahead, leaf, number, frames = 0, -1, 0, _NOWHERE
            beside = (0, 0)
            if NONE < code < 0:
                fixed, frames = (arena, 0), _SCRATCH
            elif label is None:
                fixed = bases[code]
                number = 8 * self._n_numbers if NUMBER <= code < CONSTANT else 0
            else:
                ahead = label[1] - MODEL
                if label[0] == LEAF and label[2] in self.leaves:
                    fixed, leaf = (0, offset), self.leaves.index(label[2])
                elif label[::2] in self._slots:
                    frames, slot = self._slots[label[::2]]
                    fixed = (arena, slot + offset)
                else:
                    raise Uneven
                if ahead:
                    base, start = bases[self._values[label[0], MODEL if ahead < 0 else NEXT, label[2]]]
                    beside = (base, start + offset)
            rows.append((*fixed, ahead, frames, leaf, number, *beside))
        table = np.array(rows, np.int64).reshape(-1, 8)
        return _CopiedOperands(table[:, :2], table[:, 2], table[:, 3], table[:, 4], table[:, 5], table[:, 6:])

    def _around_the_gap(self, is_backward: bool) -> list[tuple[Any, _CopiedOperands, int]]:
        """Operands of the short loop that lie in a copy now: the first, or (-1) the last."""
        seams = [((FORWARD, NEXT), MODEL, -1)]
        if is_backward:
            seams += [((BACKWARD, NEXT), MODEL, -1), ((BACKWARD, MODEL), NEXT, 1)]
        found = []
        for zone, beyond, copy in seams:
            labels = [(operand, self._label(operand)[0]) for operand in range(*self._span(zone, 1))]
            operands = [operand for operand, label in labels if label is not None and label[1] == beyond]
            found.append((np.array(operands, np.int64), self._moving(operands), copy))
        return found

    def seal(self) -> None:
        """The short loop's own instructions are complete now."""
        self._code.resolve()
        self._rows = np.array(self._code.instructions, np.int64).reshape(-1, len(INSTRUCTION))
        self._places = np.array(self._code.operands, np.int64).reshape(-1, 2)

    def nbytes(self, n: int) -> int:
        """Of the arena, with `n` copies."""
        return self._frames(n)[0][-1]

    def _frames(self, n: int) -> tuple[list[int], list[int], list[int]]:
        """For each kind of frames: where they begin, how large one is, how many there are; then where all end."""
        begins, counts = [self._nbytes], [n, 2, 1, 1, 1]
        for size, count in zip(self._sizes, counts, strict=False):
            begins.append(begins[-1] + size * count)
        return begins, [*self._sizes[:_SCRATCH], 0, 0], counts

    def inserted(self, loop: Loop, kinds: tuple[type, ...]) -> PlanCode:
        """The code of a loop, with numbers of these kinds."""
        n = loop.n_left_out
        code = self._code.moved(kinds, self._n_inputs, n * len(self.leaves), loop.number, loop.step)
        rows, places = self._rows.copy(), self._moved(self._places, n)
        numbers = places[:, 0] == code.numbers
        places[numbers & (places[:, 1] >= 8 * (loop.first_number + HEAD * loop.n_numbers)), 1] += 8 * n * loop.n_numbers
        for operands, moving, copy in self._seams:
            places[operands] = self._lying(moving, copy % (n + 1) - moving.ahead, n)
        rows[rows[:, _STEP] >= loop.begin + HEAD * loop.period, _STEP] += n * loop.period
        all_rows, all_places = [], []
        done, places_done, n_more = 0, 0, 0
        for direction, ((first, end), (first_place, end_place)) in zip(self._directions, self._extents, strict=True):
            cut, place_cut = (end, end_place) if direction == FORWARD else (first, first_place)
            order = np.arange(n)
            which = order + 1 if direction == FORWARD else n - order  # as they run
            copied = np.repeat(rows[None, first:end], n, 0)
            copied[:, :, _OPERAND] += (place_cut - first_place + n_more + order * (end_place - first_place))[:, None]
            copied[:, :, _STEP] += np.where(copied[:, :, _STEP] >= 0, (which * loop.period)[:, None], 0)
            for column in np.flatnonzero(copied[0, :, _OWNS]).tolist():
                metas = [code.again(int(copied[0, column, _META]), copy * loop.n_numbers) for copy in which.tolist()]
                copied[:, column, _META] = metas
            before = rows[done:cut].copy()
            before[:, _OPERAND] += n_more
            all_rows += [before, copied.reshape(-1, len(INSTRUCTION))]
            all_places += [
                places[places_done:place_cut],
                self._lying(self._operands[direction], which[:, None], n).reshape(-1, 2),
            ]
            done, places_done, n_more = cut, place_cut, n_more + n * (end_place - first_place)
        rest = rows[done:].copy()
        rest[:, _OPERAND] += n_more
        code.instructions = np.concatenate([*all_rows, rest]).ravel()
        code.operands = np.concatenate([*all_places, places[places_done:]]).ravel()
        return code

    def _moved(self, places: Any, n: int) -> Any:
        """(base, offset), as bases are numbered when there are leaves of `n` copies."""
        made = places.copy()
        made[places[:, 0] >= self._n_inputs, 0] += n * len(self.leaves)
        return made

    def _lying(self, operands: _CopiedOperands, copies: Any, n: int) -> Any:
        """(base, offset) of operands that these copies read; 0 is the model, n + 1 the window after the gap."""
        begins, sizes, counts = (np.array(of, np.int64) for of in self._frames(n))
        begins[_NOWHERE] = 0
        which, frames = copies + operands.ahead, operands.frames
        fixed, beside = self._moved(operands.fixed, n), self._moved(operands.beside, n)
        leaves = self._n_inputs + (which - 1) * len(self.leaves) + operands.leaf
        offsets = fixed[:, 1] + begins[frames] + (which - 1) % counts[frames] * sizes[frames]
        made = np.stack([np.where(operands.leaf >= 0, leaves, fixed[:, 0]), offsets + operands.number * copies], -1)
        outside = (which == 0) | (which == n + 1)
        return np.where(outside[..., None], beside, made)
