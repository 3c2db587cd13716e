"""From units to native instructions: every operand gets its address, every cluster its kernel.

An instruction is the address of native code, its operands as (base, offset), and the place of its meta: sizes and
strides, as that code reads them. Bases are what is known only when a plan runs: arrays of inputs and outputs, the
arena, the numbers of the call. A code (`program`) becomes a base and an offset once (`_Bases`); a view that begins
where a number says has a base of its own, which the run computes first.

A long trace has thousands of units and few different ones: the same cell at every step. So what an instruction depends
on besides its operands is a key of ids (`_key`): expressions and types are interned, and comparing them by value for
every unit would cost more than emitting. Behind that stand caches by value that all plans share, where a kernel is
chosen (`kernel_selection`) once for clusters that are equal in nodes, shape and strides.

Kernels that LLVM has not made yet are asked for; their instructions are filled in when they are there (`Unfinished`).
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..backends.llvm.plans.background import Wish, is_pending
from ..backends.llvm.plans.clusters import Nodes, cluster_kernel, known_kernel
from ..backends.llvm.plans.runner import Place as Operand
from ..backends.llvm.plans.runner import PlanCode
from ..backends.llvm.plans.sharing import Shared
from ..backends.llvm.routines.routine import Bound
from ..core.cache import Cache
from ..core.storage import Array
from ..core.trace_tree import NONE, NUMBER
from ..core.types import count
from .describe import Description
from .fusion import MAX_OUTPUTS, Cluster, ScheduleUnits
from .interleaved_parts import WithProduct, WithSums, with_product, with_sums
from .kernel_selection import FittedCluster, fit, reduced
from .layout import Starts, broadcast
from .loop_copies import Copies, Emitted
from .loop_rerolling import Blocks
from .lowering import copy_bound
from .memory_planner import MemoryPlan
from .program import CONSTANT, COPY, ZERO, Node, PlanProgram
from .request import Unplannable

_IN_META = frozenset("msfi")  # reads of routines that put something into meta


Fitted = FittedCluster | WithSums | WithProduct
_FITTED: Cache[Any, FittedCluster] = Cache("clusters of plans", 4_000)
_INTERLEAVED: Cache[Any, WithSums | WithProduct | bool] = Cache("clusters of plans that run in turn with others", 4_000)


class _Bases(dict[int, Operand]):
    """(base, offset) of every code; found when first asked for, where it is not that of a root."""

    def __init__(self, program: PlanProgram, code: PlanCode, n_inputs: int) -> None:
        self._program = program
        self._code = code
        self._n_inputs = n_inputs
        self._derived: dict[tuple[int, Starts], int] = {}

    def __missing__(self, code: int) -> Operand:
        found = self[code] = self._found(code)
        return found

    def _found(self, code: int) -> Operand:
        if code >= CONSTANT:
            return self._n_inputs, 8 * (code - CONSTANT)
        if code >= NUMBER:
            return self._code.numbers, 8 * (code - NUMBER)
        base, start = self[self._program.roots[code]]
        _, offset, starts = self._program.places[code]
        return self._moved(base, starts) if starts else base, start + offset

    def _moved(self, base: int, starts: Starts) -> int:
        """The base from which a view lies that begins where numbers of the run say."""
        key = (base, starts)
        found = self._derived.get(key)
        if found is None:
            step = self._program.start_steps.get(starts, -1)
            found = self._derived[key] = self._code.derived(base, 0, starts, step)
        return found


class Unfinished(NamedTuple):
    """All instructions; `finish`, when what was missing is there, makes `run(arrays, numbers)` of them."""

    code: PlanCode
    unfilled: list[tuple[Fitted, list[int]]]  # instructions whose kernels were missing
    constants: list[tuple[bytes, str]]
    nbytes: int  # of the arena
    keep: list[object]
    copies: Copies | None

    def fill(self) -> None:
        for fitted, instructions in self.unfilled:
            address, meta = fitted.call(cluster_kernel(fitted.kernel))
            for instruction in instructions:
                self.code.fill(instruction, address, meta)

    def finish(self) -> Any:
        self.fill()
        return self.with_constants(self.code.finish(self.nbytes, self.keep))

    def with_constants(self, run: Any) -> Any:
        """`run` as it is called from outside: constants are its last input."""
        if not self.constants:
            return run
        constants = _packed(self.constants)
        return lambda arrays, numbers, *rows: run([*arrays, constants], numbers, *rows)


class InstructionEmitter:
    """Turns the units of a program into instructions. LLVM still has to compile what is `missing` after that."""

    def __init__(
        self,
        units: ScheduleUnits,
        outputs: Sequence[int],
        inputs: Sequence[int],
        number_kinds: tuple[type, ...],
        said: list[Description] | None = None,
        blocks: Blocks | None = None,
    ) -> None:
        self.units = units
        self.program = program = units.program
        self.places = MemoryPlan(units, {*outputs})
        self.nbytes = self.places.nbytes
        self._blocks = blocks
        self._n_inputs = len(inputs)
        self.code = PlanCode(len(inputs) + bool(program.constants), number_kinds)
        self.n_fused = 0  # nodes that run within others' code
        self.sums_in_turn: list[tuple[int, list[Node]]] = []  # instructions, and the sums that run in turn there
        self.missing: list[Wish] = []
        self._unfilled: list[tuple[Fitted, list[int]]] = []  # instructions whose kernels are filled in later
        self._said = said
        self._step_of: dict[int, int] | None = None
        self._keep: list[object] = []
        self._bases = _Bases(program, self.code, len(inputs))
        for i, value in enumerate(inputs):
            self._bases[value] = (i, 0)
        for value in outputs:
            self._bases[value] = (self.code.output(program.types[value], program.shown.get(value)), 0)
        arena = self.code.arena
        for root, offset in self.places.offsets.items():
            self._bases[root] = (arena, offset)
        self._bases[NONE] = (self.code.null, 0)
        for position, offset in self.places.scratch.items():
            self._bases[-1 - position] = (arena, offset)
        self._emitted = Emitted(self._bases, self.places.offsets)
        # What instructions have in common, by ids: all objects that are meant live as long as this does.
        self._calls: dict[Any, tuple[int, int, list[int] | None] | None] = {}
        self._metas: dict[Any, int] = {}
        self._zero_at: dict[int, list[int]] = {}
        for root in program.zeroed:
            if root in units.first:
                self._zero_at.setdefault(units.first[root], []).append(root)

    @property
    def operand_codes(self) -> list[int]:
        """Of every operand of every instruction so far; below 0 nothing, or scratch memory."""
        return self._emitted.codes

    def run(self) -> Unfinished:
        pieces = self.pieces()
        while True:
            try:
                next(pieces)
            except StopIteration as end:
                made: Unfinished = end.value
                return made

    def pieces(self) -> Generator[None, None, Unfinished]:
        """The same; yields between pieces of the work."""
        zero_at, starts, ends = self._zero_at, self._emitted.starts, self.units.ends
        done = -1  # the last unit that was interleaved with one before
        for position, unit in enumerate(self.units.units):
            yield
            if self._blocks is not None:
                starts.append((self.code.n_instructions, len(self._emitted.codes)))
            if position <= done:
                continue
            end = ends.get(position, position)
            for root in [root for at in range(position, end + 1) for root in zero_at.pop(at, ())]:
                self._zero(root)
            is_first = end > position and ends.get(position - 1) != end
            if is_first and self._interleaved(position, end):
                done = end
            elif type(unit) is not Cluster:
                self._node(unit, position)  # type: ignore[arg-type] # not a cluster
            elif len(unit.stored) <= MAX_OUTPUTS:
                self._cluster(unit)
            else:  # too many results for one kernel: each takes some of them, and computes again what it needs
                for first in range(0, len(unit.stored), MAX_OUTPUTS):
                    self._cluster(reduced(unit, unit.stored[first : first + MAX_OUTPUTS]))
        copies = None
        if self._blocks is not None:
            starts.append((self.code.n_instructions, len(self._emitted.codes)))
            copies = Copies(self._blocks, self._emitted, self.code, self.nbytes, self._n_inputs)
        self.n_instructions = self.code.n_instructions
        constants = list(self.program.constants)
        return Unfinished(self.code, self._unfilled, constants, self.nbytes, self._keep, copies)

    def _node(self, node: Node, position: int) -> None:
        kind, _, inputs, results, _, _ = node
        if kind == ZERO:
            self._zero(results[0])
        elif kind == COPY:
            self._copy(inputs[0], results[0])
        else:
            self._routine(node, position)

    # ---- instructions

    def _say(self, kind: str, results: Sequence[int], step: int = -1, nodes: Nodes = (), **others: Any) -> None:
        if self._said is not None:
            self._said.append(
                Description(kind, [self.program.types[value] for value in results], step, nodes, **others)
            )

    def _steps_of(self, cluster: Cluster) -> tuple[int, ...]:
        """The traced ops that the nodes of a cluster belong to."""
        if self._step_of is None:
            self._step_of = {node[3][0]: node[4] for node in self.program.nodes}
        return tuple([self._step_of.get(value, -1) for value in cluster.results])

    def _zero(self, value: int) -> None:
        t = self.program.types[value]
        nbytes = count(t.shape) * t.dtype.itemsize
        if nbytes:
            self.code.zero(self._bases[value], nbytes)
            self._emitted.codes.append(value)
            self._say("zero", (value,))

    def _copy(self, source: int, result: int) -> None:
        program = self.program
        t = program.types[result]
        if not count(t.shape):
            return
        self._say("copy", (result,))
        if program.in_order(source):
            self.code.copy(self._bases[result], self._bases[source], count(t.shape) * t.dtype.itemsize)
            self._emitted.codes += (result, source)
            return
        bound = copy_bound(t)
        itemsize = t.dtype.itemsize
        meta = (*bound.meta, *[stride // itemsize for stride in program.strides(source)])
        self.code.call(bound.address, [self._bases[source], self._bases[result]], meta)
        self._emitted.codes += (source, result)

    def _routine(self, node: Node, position: int) -> None:
        _, bound, inputs, results, step, _ = node
        code, places = self.code, self.program.places
        codes = []
        key: Any = id(bound)  # its types, and so the strides of what lies in order, are always the same
        for value in inputs:
            if 0 <= value < NUMBER:
                codes.append(value)
                if value in places:
                    key = (key, len(codes), places[value][0])
            else:
                codes.append(NONE)  # for numbers, too: these are in meta
        codes += results
        if bound.scratch:
            codes.append(-1 - position)
        self._emitted.codes += codes
        operands = map(self._bases.__getitem__, codes)
        numbered = "f" in bound.reads or "i" in bound.reads
        first_meta = None if numbered else self._metas.get(key)
        if first_meta is None:
            meta, given = self._meta(bound, inputs)
            code.call(bound.address, list(operands), meta, given, step)
            self._keep.append(bound)
            if not numbered:
                self._metas[key] = code.shared(meta)
        else:
            code.append(bound.address, operands, first_meta, step)
        if self._said is not None:
            self._say("run", results, step)

    def _meta(self, bound: Bound, inputs: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[tuple[int, int, str], ...]]:
        """A routine's own numbers, then strides and values of inputs; and which of them come with each run."""
        if not _IN_META.isdisjoint(bound.reads):
            meta = list(bound.meta)
            given: list[tuple[int, int, str]] = []
            for code, kind in zip(inputs, bound.reads, strict=True):
                if kind == "m" or kind == "s":
                    itemsize = self.program.types[code].dtype.itemsize
                    meta += [stride // itemsize for stride in self.program.strides(code)]
                elif kind == "f" or kind == "i":
                    meta.append(self._number(code, kind, len(meta), given))
            return tuple(meta), tuple(given)
        return bound.meta, ()

    def _number(self, code: int, kind: str, position: int, given: list[tuple[int, int, str]]) -> int:
        if code >= CONSTANT:
            return _bits(list(self.program.constants)[code - CONSTANT], kind)
        if code < NUMBER:
            raise Unplannable("a routine that takes a number which the plan computes")
        given.append((position, code - NUMBER, kind))
        return 0

    def _cluster(self, cluster: Cluster) -> None:
        """One kernel."""
        codes = cluster.operands + cluster.writes
        key = self._key(cluster, codes)
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = self._call(cluster, codes)
        self._append(call, codes, cluster.step)
        self.n_fused += len(cluster.results) - 1
        if self._said is not None:
            self._say("fused", cluster.writes, cluster.step, tuple(cluster.nodes()), steps=self._steps_of(cluster))

    def _key(self, cluster: Cluster, codes: list[int]) -> tuple[Any, ...]:
        """What the instruction of a cluster depends on."""
        types, places = self.program.types, self.program.places
        key = [*cluster.flat, *cluster.stored, cluster.shape]
        for code in codes:
            if code < NUMBER:
                key.append(id(types[code]))
                if code in places:
                    key.append(places[code][0])
            else:
                key.append(0)
        return tuple(key)

    def _append(self, call: tuple[int, int, list[int] | None], codes: list[int], step: int) -> None:
        """One instruction, which may have to wait for its kernel."""
        address, first_meta, waiting = call
        if waiting is not None:
            waiting.append(self.code.n_instructions)
        self.code.append(address, map(self._bases.__getitem__, codes), first_meta, step)
        self._emitted.codes += codes

    def _call(self, cluster: Cluster, codes: list[int]) -> tuple[int, int, list[int] | None]:
        """The address and the place of the meta of a cluster's instruction; or the list of those that wait for it."""
        key = (tuple(cluster.nodes()), tuple(cluster.stored), cluster.shape, self._strides(cluster.shape, codes))
        fitted = _FITTED.get(key)
        if fitted is None:
            fitted = _FITTED.put(key, fit(*key))
        return self._filled(fitted)

    def _strides(self, shape: tuple[int, ...], codes: list[int]) -> tuple[tuple[int, ...], ...]:
        """Of the operands of a cluster."""
        program = self.program
        strides: list[tuple[int, ...]] = []
        for code in codes:
            if code >= NUMBER:
                strides.append((0,) * len(shape))
                continue
            own, lies = program.types[code].shape, program.strides(code)
            strides.append(lies if own == shape else broadcast(shape, own, lies))
        return tuple(strides)

    def _filled(self, fitted: Fitted) -> tuple[int, int, list[int] | None]:
        """The address and the place of the meta of an instruction; or the list of those that wait for it."""
        known = None if is_pending(fitted.kernel) else known_kernel(fitted.kernel)
        if known is None:
            self.missing.append(fitted.kernel)
        is_there = True
        if type(fitted) is not FittedCluster:
            shared: Shared = fitted.shared  # type: ignore[union-attr] # it is another one
            if is_pending(shared) or not shared.is_there():
                self.missing.append(shared)
                is_there = False
        if known is None or not is_there:
            waiting: list[int] = []
            self._unfilled.append((fitted, waiting))
            return 0, 0, waiting
        address, meta = fitted.call(known)
        return address, self.code.shared(meta), None

    # ---- interleaved units

    def _interleaved(self, first: int, end: int) -> bool:
        """One instruction for units from `first` to `end`; False where that cannot be."""
        units: Any = self.units.units[first : end + 1]
        if type(units[0]) is Cluster:
            return len(units[0].stored) <= MAX_OUTPUTS and self._with_sums(units[0], units[1:], first + 1)
        return len(units[1].stored) <= MAX_OUTPUTS and self._with_product(units[0], units[1], first)

    def _with_sums(self, cluster: Cluster, sums: list[Node], position: int) -> bool:
        codes, writes = cluster.operands + cluster.writes, cluster.writes
        bounds = [node[1] for node in sums]
        summed = tuple([writes.index(node[2][0]) for node in sums])
        local = tuple([value in self.units.local for value in writes])
        key = (*self._key(cluster, codes), tuple(map(id, bounds)), summed, local)
        if key not in self._calls:
            parts = tuple([bound.parts for bound in bounds])
            own = (tuple(cluster.nodes()), tuple(cluster.stored), cluster.shape, self._strides(cluster.shape, codes))
            self._calls[key] = self._found((*own, parts, summed, local), with_sums)
        call = self._calls[key]
        if call is None:
            return False
        for i, node in enumerate(sums):
            codes += (node[3][0], -1 - (position + i) if node[1].scratch else NONE)
        self.sums_in_turn.append((self.code.n_instructions, sums))
        self._append(call, codes, cluster.step)
        self.n_fused += len(cluster.results) - 1 + len(sums)
        if self._said is not None:
            results = [*[v for v in writes if v not in self.units.local], *[node[3][0] for node in sums]]
            names = tuple(["mean" if bound.parts.divided else "sum" for bound in bounds])
            steps = (*self._steps_of(cluster), *[node[4] for node in sums])
            self._say("fused", results, cluster.step, tuple(cluster.nodes()), after=names, steps=steps)
        return True

    def _with_product(self, node: Node, cluster: Cluster, position: int) -> bool:
        _, bound, inputs, results, _, _ = node
        codes = cluster.operands + cluster.writes
        before = [*[code if 0 <= code < NUMBER else NONE for code in inputs], *results]
        if bound.scratch:
            before.append(-1 - position)
        lies = tuple([self.program.strides(code) if code != NONE else () for code in before[: len(inputs)]])
        key = (*self._key(cluster, codes), id(bound), lies)
        if key not in self._calls:
            meta, _ = self._meta(bound, inputs)
            own = (tuple(cluster.nodes()), tuple(cluster.stored), cluster.shape, self._strides(cluster.shape, codes))
            product = (bound.parts, bound.address, meta, len(before))
            self._calls[key] = self._found((*own, *product), with_product)
            self._keep.append(bound)
        call = self._calls[key]
        if call is None:
            return False
        self._append(call, before + codes, cluster.step)
        self.n_fused += len(cluster.results)
        if self._said is not None:
            written = [*results, *cluster.writes]
            steps = (node[4], *self._steps_of(cluster))
            self._say("fused", written, cluster.step, tuple(cluster.nodes()), before=("product",), steps=steps)
        return True

    def _found(self, key: tuple[Any, ...], fit: Any) -> tuple[int, int, list[int] | None] | None:
        """What `_filled` says of `fit(*key)`; None where these units cannot be one instruction."""
        fitted = _INTERLEAVED.get(key)
        if fitted is None:
            fitted = _INTERLEAVED.put(key, fit(*key) or False)
        return None if isinstance(fitted, bool) else self._filled(fitted)


def _packed(constants: list[tuple[bytes, str]]) -> Array:
    return np.frombuffer(bytearray(b"".join(bits for bits, _ in constants)), np.int64)


def _bits(constant: tuple[bytes, str], kind: str) -> int:
    packed, name = constant
    value = struct.unpack("<d" if name == "float" else "<q", packed)[0]
    if kind == "i":
        return int(value)
    bits: int = struct.unpack("<q", struct.pack("<d", float(value)))[0]
    return bits
