"""PlanCode: a list of native instructions in, one Python callable out.

An instruction is a function `i64 f(ptr buffers, ptr meta)`, as routines and elementwise kernels are. Its operands are
places (base, offset in bytes). Bases are, in this order: the inputs, the arena, the numbers, null (for an operand that
is not there), then outputs and derived bases as they were asked for.

`run(arrays, numbers)` returns new arrays, one for each output; or an int: the `step` of the instruction that returned
non-zero, or -1 where something is not what the plan was built for (a number too large, an array that is none). Nothing
outside the plan has changed then. It raises MemoryError when memory runs out.

`run(arrays, numbers, places, start, has_rows)` reads and writes rows of larger arrays, from row `start` on: of inputs
whose byte in `has_rows` is not 0, and of outputs for which `places` has an array rather than None. The caller answers
for such arrays being C-contiguous, with enough rows of the right form, and for rows that are written not being read.

A plan's record is never written to. What depends on a run (addresses, numbers, the arena) is in one block of the
pool, so any number of threads can be within one plan. The run owns references to all it reads: a long instruction may
hand over the GIL.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import numpy as np

from ....core.types import TensorType, count
from ..calls.callables import function
from .running import HEAD, INSTRUCTION, OPERAND_WORDS, OUTPUT_WORDS, SECTIONS
from .runtime import runtime

Place = tuple[int, int]  # (base, offset in bytes)
Number = tuple[int, int] | tuple[int, int, str]  # (position in meta, number), see `call`
Run = Callable[..., list[Any] | int]
Words = Any  # a list of ints, or an array of int64

_NUMBER_CODES = {float: 0, int: 1, bool: 2}
_CACHE_LINE = 64
_ADDRESS, _FIRST_META = INSTRUCTION.index("address"), INSTRUCTION.index("first_meta")


class PlanCode:
    """Collects instructions, then becomes one callable."""

    def __init__(self, n_inputs: int, number_kinds: tuple[type, ...]) -> None:
        self.n_inputs = n_inputs
        self.arena = n_inputs
        self.numbers = n_inputs + 1
        self.null = n_inputs + 2
        self._n_bases = n_inputs + 3
        self._kinds = number_kinds
        self._outputs: list[int] = []
        self._shapes: list[int] = []
        self._derived: list[int] = []
        self._n_derived = 0
        # Flat lists, as running.py describes them.
        self.operands: Words = []
        self.instructions: Words = []
        self._shared_code: dict[int, str] = {}  # instructions that are no kernels, by position
        self._meta: list[int] = []  # of instructions that know no number of a run
        self._meta_places: dict[tuple[int, ...], int] = {}  # equal ones are there once: they are only read
        self._patched: list[int] = []  # of those that do: every run has its copy
        self._patches: list[int] = []
        self._numbered: dict[int, tuple[tuple[int, ...], tuple[Any, ...]]] = {}  # what they were made of

    def output(self, type_: TensorType, seen: tuple[tuple[int, ...], tuple[int, ...]] | None = None) -> int:
        """A new base: an array of that type, C-contiguous, allocated for each run.

        `seen`: the shape and the strides, in bytes, in which it is handed out.
        """
        nbytes, n_sizes = count(type_.shape) * type_.dtype.itemsize, len(self._shapes)
        shape, strides = seen or (type_.shape, ())
        strides_at = -1 if seen is None else n_sizes + len(shape)
        self._outputs += (self._n_bases, id(type_.dtype.numpy), len(shape), nbytes, n_sizes, strides_at)
        self._shapes += (*shape, *strides)
        return self._new_base()

    def derived(self, base: int, offset: int, starts: tuple[tuple[int, int, int], ...], step: int = -1) -> int:
        """A new base: `offset` bytes beyond another one, plus number * stride for each (number, stride, largest).

        A number that is not in [0, largest] ends the run with `step`.
        """
        self._derived += (self._n_bases, base, offset, step, len(starts))
        for number, stride, largest in starts:
            if self._kinds[number] is float:
                raise ValueError(f"number {number} is a float, expected an int: it counts elements")
            self._derived += (number, stride, largest)
        self._n_derived += 1
        return self._new_base()

    def _new_base(self) -> int:
        self._n_bases += 1
        return self._n_bases - 1

    def call(
        self,
        address: int,
        operands: list[Place],
        meta: tuple[int, ...],
        numbers: tuple[Number, ...] = (),
        step: int = -1,
    ) -> None:
        """One instruction. `numbers`: (position in meta, number), as a double for a float and an int64 for others.

        A third item says what is wanted: "f" makes a double of an int, too; "i" is for ints and bools only.
        """
        if numbers:
            first_operand = len(self.operands) // OPERAND_WORDS
            self.operands += chain.from_iterable(operands)
            self.instructions += (address, first_operand, self._patched_meta(meta, numbers), 1, step)
        else:
            self.append(address, operands, self.shared(meta), step)

    def shared(self, meta: tuple[int, ...]) -> int:
        """The position of a meta that has no number of a run in it: equal ones are there once."""
        found = self._meta_places.get(meta)
        if found is None:
            found = self._meta_places[meta] = len(self._meta)
            self._meta += meta
        return found

    def append(self, address: int, operands: Iterable[Place], first_meta: int, step: int = -1) -> None:
        """One instruction whose meta is there already."""
        places = self.operands
        first_operand = len(places) // OPERAND_WORDS
        places += chain.from_iterable(operands)
        self.instructions += (address, first_operand, first_meta, 0, step)

    def fill(self, instruction: int, address: int, meta: tuple[int, ...]) -> None:
        """Say what an instruction does that was appended before that was known."""
        entry = instruction * len(INSTRUCTION)
        self.instructions[entry + _ADDRESS] = address
        self.instructions[entry + _FIRST_META] = self.shared(meta)

    @property
    def n_instructions(self) -> int:
        return len(self.instructions) // len(INSTRUCTION)

    def again(self, first_meta: int, further: int) -> int:
        """The position of a meta like one that has numbers of a run in it, but these are so many further on."""
        meta, numbers = self._numbered[first_meta]
        return self._patched_meta(meta, tuple([(entry[0], entry[1] + further, *entry[2:]) for entry in numbers]))

    def _patched_meta(self, meta: tuple[int, ...], numbers: tuple[Any, ...]) -> int:
        first = len(self._patched)
        self._numbered[first] = (meta, numbers)
        self._patched += meta
        for entry in numbers:
            number = entry[1]
            is_float = self._kinds[number] is float
            wanted = entry[2] if len(entry) == 3 else "f" if is_float else "i"
            if is_float and wanted == "i":
                raise ValueError(f"number {number} is a float, expected an int")
            self._patches += (first + entry[0], number, int(wanted == "f" and not is_float))
        return first

    def zero(self, operand: Place, nbytes: int) -> None:
        """Fill with zero bytes."""
        self._shared_code[self.n_instructions] = "plan_zero"
        self.call(0, [operand], (nbytes,))

    def copy(self, destination: Place, source: Place, nbytes: int) -> None:
        """Copy bytes; both must not overlap."""
        self._shared_code[self.n_instructions] = "plan_copy"
        self.call(0, [destination, source], (nbytes,))

    def resolve(self) -> None:
        """Fill in the addresses of what all plans share."""
        for instruction, name in self._shared_code.items():
            self.instructions[instruction * len(INSTRUCTION) + _ADDRESS] = runtime()[name]

    def moved(
        self,
        kinds: tuple[type, ...],
        first_input: int,
        n_more_inputs: int,
        number: Callable[[int], int],
        step: Callable[[int], int],
    ) -> PlanCode:
        """The same for a plan of more inputs, from `first_input` on, where numbers and steps are others.

        Its instructions and operands are the caller's to make: in them, too, bases from `first_input` on move.
        """
        made = PlanCode(self.n_inputs + n_more_inputs, kinds)
        made._n_bases = self._n_bases + n_more_inputs
        made._outputs = [word if i % OUTPUT_WORDS else word + n_more_inputs for i, word in enumerate(self._outputs)]
        made._shapes = self._shapes
        made._meta, made._meta_places = list(self._meta), dict(self._meta_places)
        for meta, numbers in self._numbered.values():
            made._patched_meta(meta, tuple([(entry[0], number(entry[1]), *entry[2:]) for entry in numbers]))
        at = 0
        for _ in range(self._n_derived):
            base, source, offset, blamed, n_starts = self._derived[at : at + 5]
            starts = self._derived[at + 5 : at + 5 + 3 * n_starts]
            source = source if source < first_input else source + n_more_inputs
            made._derived += (base + n_more_inputs, source, offset, step(blamed) if blamed >= 0 else blamed, n_starts)
            made._derived += [word if i % 3 else number(word) for i, word in enumerate(starts)]
            at += 5 + len(starts)
        made._n_derived = self._n_derived
        return made

    def finish(self, arena_bytes: int, keep: list[object]) -> Run:
        """The callable. `keep`: what must live as long as it does. struct.error: a size does not fit an int64."""
        return runnable(b"".join(map(_packed, self.record(arena_bytes))), keep)

    def record(self, arena_bytes: int) -> list[Words]:
        """What running.py calls the record: its head, then its sections."""
        self.resolve()
        sections: dict[str, Words] = {
            "kinds": [_NUMBER_CODES[kind] for kind in self._kinds],
            "outputs": self._outputs,
            "shapes": self._shapes,
            "derived": self._derived,
            "operands": self.operands,
            "instructions": self.instructions,
            "meta": self._meta,
            "patched": self._patched,
            "patches": self._patches,
        }
        n_operands, n_outputs = len(self.operands) // OPERAND_WORDS, len(self._outputs) // OUTPUT_WORDS
        head = {
            "n_inputs": self.n_inputs,
            "n_numbers": len(self._kinds),
            "n_outputs": n_outputs,
            "n_derived": self._n_derived,
            "n_operands": n_operands,
            "n_instructions": self.n_instructions,
            "n_patched": len(self._patched),
            "n_patches": len(self._patches) // 3,
            "array_type": id(np.ndarray),
        }
        place = len(HEAD)
        for name, words in sections.items():
            head[f"{name}_at"] = place
            place += len(words)
        place = 0
        sizes = (self._n_bases, n_operands, len(self._patched), len(self._kinds), self.n_inputs, n_outputs)
        for name, size in zip(SECTIONS, sizes, strict=True):
            head[f"own_{name}_at"] = place
            place += size
        tables = -(-8 * place // _CACHE_LINE) * _CACHE_LINE
        head |= {"arena_at": tables, "block_bytes": tables + arena_bytes}
        return [[head[name] for name in HEAD], *sections.values()]


def runnable(record: bytes, keep: object) -> Run:
    """The callable of a record; `keep` lives as long as it does."""
    packed = bytearray(record)  # never resized, so it stays where it is
    run: Run = function("plan", runtime()["extempo_plan_run"], (packed, keep))
    return run


def _packed(words: Words) -> bytes:
    return struct.pack(f"<{len(words)}q", *words) if type(words) is list else words.tobytes()
