"""Bindings: the instructions of a template for all numbers of rows in a range, as words that are affine in it.

A template is emitted at three numbers of the range. Where that gives the same instructions, on the same operands, every
word of their records is constant + slope * rows, but for

- what a routine was bound to: the routine is bound again for each number of rows;
- how sums that are interleaved with others are cut;
- places in the arena: all have those of the largest number, where every value is at least as large;
- scratch memory, which lies behind all of them: no two instructions use it at once. Where it is much, it has a place in
  the arena, too, and numbers that need more of it than the largest have no binding.

So another number of rows takes no planning, only arithmetic.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..backends.llvm.plans.runner import runnable
from ..backends.llvm.plans.running import HEAD, INSTRUCTION
from ..backends.llvm.plans.sums import FIRST_OF_CUT, N_OF_CUT, cut_words, kind_of
from ..backends.llvm.routines.routine import Bound
from ..core.trace_tree import NONE
from ..symbolic.affine import Affine, AffineFit
from ..symbolic.sym_int import DataDependent, GuardedCache, SymInt
from .codegen import InstructionEmitter
from .fusion import Cluster, ScheduleUnits
from .memory_planner import ALIGNMENT
from .program import ROUTINE, PlanProgram
from .request import Run, Unplannable

SMALLEST = 8  # up to here every number of rows is planned: routines do something else for few rows, and n is small
LEAST_WIDTH = 16  # of a part of a range, which are powers of two
MOST_FAILED = 6  # parts of a range that have no binding, after which none is tried
PLANNED_BEFORE = 2  # numbers of rows of a range, before the range is worth a binding
MUCH_SCRATCH = 1 << 20

WORTH = 2  # numbers of rows that are worked out before what follows from them is learnt

_ADDRESS, _FIRST_META, _OWNS = (INSTRUCTION.index(name) for name in ("address", "first_meta", "owns_meta"))
_BLOCK_BYTES = HEAD.index("block_bytes")


class TooWide(Unplannable):
    """A range in which memory for the largest number would be wasted on the smallest."""


class Emission(NamedTuple):
    """A template's instructions at one number of rows."""

    n_rows: int
    program: PlanProgram
    varying: list[Bound]  # routines whose sizes depend on the number of rows
    emitter: InstructionEmitter
    code: Any  # Unfinished, complete


def emitted(
    n: int, program: PlanProgram, units: ScheduleUnits, inputs: Any, outputs: Any, kinds: Any, varying: Any
) -> Emission:
    emitter = InstructionEmitter(units, outputs, inputs, kinds)
    code = emitter.run()
    code.fill()
    return Emission(n, program, varying, emitter, code)


class Ranges:
    """Which numbers of rows have a binding."""

    def __init__(
        self,
        make: Callable[[Sequence[int]], AffineBinding],
        planned_before: int = PLANNED_BEFORE,
        with_powers: bool = True,
    ) -> None:
        """`make`: the binding of a range, from three numbers of it; raises Unplannable.

        `with_powers`: whether powers of two, from which on much is done in another way, belong to the ranges below.
        """
        self._make, self._planned_before, self._with_powers = make, planned_before, with_powers
        self._found: dict[tuple[int, int], AffineBinding | None] = {}
        self._n_planned: dict[tuple[int, int], int] = {}
        self._n_failed: dict[int, int] = {}  # by the power of two at the end

    def at(self, n: int, may_bind: Callable[[], bool] = lambda: True) -> Run | None:
        """What runs it on n rows; None: it has to be planned. `may_bind`: whether a range may be bound now."""
        top = 1 << (n - 1).bit_length()
        if n <= SMALLEST or self._n_failed.get(top, 0) >= MOST_FAILED or (n == top and not self._with_powers):
            return None
        first, last = top // 2 + 1, top if self._with_powers else top - 1
        while True:
            key = (first, last)
            if key not in self._found:
                known = self._n_planned[key] = self._n_planned.get(key, -1) + 1
                if known < self._planned_before or not may_bind():
                    return None
                self._found[key] = self._bound(first, last, top)
            binding = self._found[key]
            if binding is not None:
                return binding.at(n)
            middle = (first + last) // 2
            first, last = (first, middle) if n <= middle else (middle + 1, last)
            if last - first + 1 < LEAST_WIDTH:
                return None

    @property
    def n_worked_out(self) -> int:
        """How often planning was needed in any way."""
        return len(self._found) + sum(b.n_worked_out for b in self._found.values() if b is not None)

    @property
    def n_bound(self) -> int:
        return sum(binding is not None for binding in self._found.values())

    def _bound(self, first: int, last: int, top: int) -> AffineBinding | None:
        try:
            return self._make((first, (first + last) // 2, last))
        except TooWide:
            return None
        except Unplannable:
            self._n_failed[top] = self._n_failed.get(top, 0) + 1
            return None


class _Bindable(NamedTuple):
    """A routine whose sizes vary, in a record."""

    bound: int  # which of them it is
    reads: str
    n_meta: int
    where: int  # its meta begins
    addresses: list[int]  # where its address stands
    patched: list[int]  # which words of its meta are its own


class _Cuttable(NamedTuple):
    """Sums that are interleaved with what they add up, in a record."""

    bound: int  # which of the routines that vary the first of them is
    kind: tuple[Any, str]
    where: int  # how they are cut


class AffineBinding:
    """The instructions for all numbers of rows between the smallest and the largest of three.

    The constructor raises Unplannable where what was emitted at the three differs in more than numbers.
    """

    def __init__(self, emissions: Sequence[Emission], bind: Callable[[int], list[Bound]]) -> None:
        """`bind`: the routines that vary, for a number of rows; raises Unplannable."""
        largest = emissions[-1]
        self._bind = bind
        self.n_worked_out = 0  # how often a number of rows was not known to follow from others
        _check(emissions)
        self._arena_bytes = -(-largest.code.nbytes // ALIGNMENT) * ALIGNMENT
        records = [e.code.code.record(self._arena_bytes) for e in emissions]
        if len({tuple(map(len, record)) for record in records}) != 1:
            raise Unplannable("the number of rows decides which instructions there are")
        words = np.array([[word for section in record for word in section] for record in records], np.int64)
        begins = dict(zip(HEAD, records[0][0], strict=True))
        self._inside = self._much_scratch(emissions)
        for own, e in zip(words, emissions, strict=True):
            self._move_operands(own[begins["operands_at"] : begins["instructions_at"]], e, largest)
        self._sums = self._find_sums(words, begins, emissions)
        self._routines = self._find_routines(words, begins, emissions)
        sizes = [e.n_rows for e in emissions]
        self._slopes = (words[2] - words[0]) // (sizes[2] - sizes[0])
        self._constants = words[0] - self._slopes * sizes[0]
        for n, own in zip(sizes, words, strict=True):
            if (self._constants + self._slopes * n != own).any():
                raise Unplannable("something does not grow evenly with the number of rows")
        varying = {id(bound) for bound in largest.varying}
        nodes = [unit for unit in largest.emitter.units.units if type(unit) is not Cluster]
        fixed = [node[1] for node in nodes if node[0] == ROUTINE and id(node[1]) not in varying]  # type: ignore[index]
        groups = [sum(_room(node) for node in nodes) for _, nodes in largest.emitter.sums_in_turn]
        behind = [bound.scratch for bound in fixed if id(bound) not in self._inside]
        self._scratch = max(behind + groups, default=0)
        self._most_scratch = [self._inside.get(id(bound)) for bound in largest.varying]
        written: list[int] = []
        for sums in self._sums:
            written += range(sums.where, sums.where + N_OF_CUT)
        for own in self._routines:
            written += (*own.addresses, *[own.where + i for i in own.patched])
        self._written = np.array([*written, _BLOCK_BYTES])
        self._known = GuardedCache(WORTH)
        self._keep = largest.code.keep
        self._code = largest.code
        self._numbers = _AffineConstants(emissions)

    def _much_scratch(self, emissions: Sequence[Emission]) -> dict[int, int]:
        """Routines, by id, whose scratch memory is in the arena, and how much that is at the largest number."""
        largest = emissions[-1]
        interleaved = {id(node[1]) for _, nodes in largest.emitter.sums_in_turn for node in nodes}
        routines = [unit[1] for unit in largest.emitter.units.units if type(unit) is tuple and unit[0] == ROUTINE]
        found = {id(b): b.scratch for b in routines if b.scratch >= MUCH_SCRATCH and id(b) not in interleaved}
        for k, bound in enumerate(largest.varying):
            if any(e.varying[k].scratch > bound.scratch for e in emissions):
                found.pop(id(bound), None)
        return found

    def _move_operands(self, operands: Any, e: Emission, largest: Emission) -> None:
        """Into the arena of the largest number of rows."""
        own, at_most = e.emitter.places.offsets, largest.emitter.places.offsets
        roots = e.program.roots
        scratch: dict[int, int] = {}  # those of one instruction lie one after another
        for _, nodes in largest.emitter.sums_in_turn:
            taken = 0
            for node in nodes:
                scratch[-1 - largest.emitter.units.units.index(node)] = taken
                taken += _room(node)
        units, places = largest.emitter.units.units, largest.emitter.places.scratch
        for i, code in enumerate(e.emitter.operand_codes):
            if NONE < code < 0:
                inside = id(units[-1 - code][1]) in self._inside  # type: ignore[index] # a routine
                operands[2 * i + 1] = places[-1 - code] if inside else self._arena_bytes + scratch.get(code, 0)
            elif 0 <= code < len(roots) and roots[code] in own:
                operands[2 * i + 1] += at_most[roots[code]] - own[roots[code]]

    def _find_routines(self, words: Any, begins: dict[str, int], emissions: Sequence[Emission]) -> list[_Bindable]:
        """The routines that vary. Their words are made the same at all sizes, as they are written over."""
        entries = words[:, begins["instructions_at"] : begins["meta_at"]].reshape(len(words), -1, len(INSTRUCTION))
        found: list[_Bindable] = []
        users: dict[int, int] = {}  # of metas, which routines of the same sizes share
        interleaved = {id(node[1]) for _, nodes in emissions[-1].emitter.sums_in_turn for node in nodes}
        for k, bound in enumerate(emissions[-1].varying):
            if id(bound) in interleaved:
                continue
            n_meta = len(bound.meta)
            if any(len(e.varying[k].meta) != n_meta for e in emissions):
                raise Unplannable("the number of rows decides how a routine is bound")
            fitting = []  # a word may differ, which says what comes after the routine; but not if there is a better one
            for i in range(entries.shape[1]):
                owns = entries[0, i, _OWNS]  # a meta that takes numbers is one instruction's alone
                first = begins["patched_at" if owns else "meta_at"] + int(entries[0, i, _FIRST_META])
                metas = words[:, first : first + n_meta]
                if (owns and first in users) or metas.shape[1] != n_meta:
                    continue
                same = np.array([m == e.varying[k].meta for m, e in zip(metas, emissions, strict=True)]).all(0)
                runs_it = all(entries[j, i, _ADDRESS] == e.varying[k].address for j, e in enumerate(emissions))
                if runs_it and n_meta - same.sum() <= 1:
                    fitting.append((n_meta - int(same.sum()), first, i, np.flatnonzero(same).tolist()))
            if not fitting:
                raise Unplannable("a routine runs in turn with another")
            _, where, _, patched = min(fitting, key=lambda fit: fit[0])
            instructions = [i for _, first, i, _ in fitting if first == where]
            addresses = [begins["instructions_at"] + i * len(INSTRUCTION) + _ADDRESS for i in instructions]
            users[where] = users.get(where, 0) + 1
            found.append(_Bindable(k, bound.reads, n_meta, where, addresses, patched))
        for own in found:
            if len(own.addresses) != users[own.where]:
                raise Unplannable("a routine does the same as one that does not vary")
            words[:, own.addresses] = 0
            words[:, [own.where + i for i in own.patched]] = 0
        return found

    def _find_sums(self, words: Any, begins: dict[str, int], emissions: Sequence[Emission]) -> list[_Cuttable]:
        """Interleaved sums. How they are cut is made the same at all sizes, as it is written over."""
        found = []
        largest = emissions[-1]
        varying = {id(bound): k for k, bound in enumerate(largest.varying)}
        for i, nodes in largest.emitter.sums_in_turn:
            bound: Bound = nodes[0][1]
            if id(bound) in varying:
                entry = begins["instructions_at"] + i * len(INSTRUCTION)
                where = begins["meta_at"] + int(words[-1, entry + _FIRST_META]) + FIRST_OF_CUT
                found.append(_Cuttable(varying[id(bound)], (bound.parts.element, kind_of(bound.parts)), where))
                words[:, where : where + N_OF_CUT] = 0
        return found

    def at(self, n: int) -> Run | None:
        found = self._known.find((n,))
        self.n_worked_out += found is None
        if found is None:
            found = self._not_affine(n)
            self._known.missed(self._not_affine, (n,))
        words, bounds = found
        if words is None:
            return None
        record = self._constants + self._slopes * n
        record[self._written] = words
        code = self._code if self._numbers.are_fixed else self._code._replace(constants=self._numbers.at(n))
        run: Run = code.with_constants(runnable(record.tobytes(), (self._keep, bounds)))
        return run

    def _not_affine(self, n: Any) -> tuple[tuple[int, ...] | None, list[Bound]]:
        """The words that are not affine, at `_written`, and what they refer to. The number may be symbolic.

        None: something runs in another way.
        """
        bounds = self._bind(n)
        if type(n) is SymInt and any(bound.keep is not None for bound in bounds):
            raise DataDependent("what was made for this number of rows is no number")
        words: list[int] = []
        scratch = self._scratch
        metas: dict[int, Bound] = {}
        for sums in self._sums:
            parts = bounds[sums.bound].parts
            if (parts.element, kind_of(parts)) != sums.kind:
                return None, bounds
            words += cut_words(parts)
        for own in self._routines:
            bound = bounds[own.bound]
            same = metas.setdefault(own.where, bound)
            if bound.reads != own.reads or len(bound.meta) != own.n_meta:
                return None, bounds
            if (same.address, same.meta) != (bound.address, bound.meta):
                return None, bounds
            words += [bound.address] * len(own.addresses)
            words += [bound.meta[i] for i in own.patched]
            most = self._most_scratch[own.bound]
            if most is None:
                scratch = max(scratch, bound.scratch)
            elif bound.scratch > most:
                return None, bounds
        return (*words, self._block_bytes_at(n) + scratch), bounds

    def _block_bytes_at(self, n: Any) -> Any:
        return int(self._constants[_BLOCK_BYTES]) + int(self._slopes[_BLOCK_BYTES]) * n


class _AffineConstants:
    """The constants of a plan: whole numbers among them, such as what a mean divides by, may be affine."""

    def __init__(self, emissions: Sequence[Emission]) -> None:
        lists = [e.code.constants for e in emissions]
        if len({len(one) for one in lists}) != 1:
            raise Unplannable("the number of rows decides which numbers there are")
        fit = AffineFit([e.n_rows for e in emissions])
        self._entries: list[tuple[str, Any]] = []  # the name of its type, and the number or how it is made
        for same in zip(*lists, strict=True):
            values = [struct.unpack("<d" if name == "float" else "<q", packed)[0] for packed, name in same]
            if len({*same}) == 1:
                made = same[0][0]
            elif len({name for _, name in same}) == 1 and all(float(value).is_integer() for value in values):
                made = fit([int(value) for value in values])
            else:
                raise Unplannable("a number depends on the number of rows")
            self._entries.append((same[0][1], made))
        self.are_fixed = not any(type(made) is Affine for _, made in self._entries)

    def at(self, n: int) -> list[tuple[bytes, str]]:
        found = []
        for name, made in self._entries:
            packed = struct.pack("<d" if name == "float" else "<q", made.at(n)) if type(made) is Affine else made
            found.append((packed, name))
        return found


def _room(node: Any) -> int:
    """For the scratch memory of a sum."""
    return -(-node[1].scratch // ALIGNMENT) * ALIGNMENT


def _check(emissions: Sequence[Emission]) -> None:
    first, *others = emissions
    largest = emissions[-1]
    for e in others:
        if e.emitter.operand_codes != first.emitter.operand_codes or e.program.roots != first.program.roots:
            raise Unplannable("the number of rows decides which instructions there are")
    interleaved = [[(i, len(nodes)) for i, nodes in e.emitter.sums_in_turn] for e in emissions]
    if any(one != interleaved[0] for one in interleaved):
        raise Unplannable("the number of rows decides what runs in turn")
    for root in largest.emitter.places.offsets:
        sizes = [e.program.types[root].shape for e in emissions]
        if any(a > b for small in sizes for a, b in zip(small, sizes[-1], strict=True)):
            raise Unplannable("something is smaller for more rows")
