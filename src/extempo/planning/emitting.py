"""From units to native instructions: every operand gets its place, every cluster its kernel.

Kernels that are not there yet can be asked for and filled in later, when they are.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..backends.llvm.plans.background import Wish
from ..backends.llvm.plans.clusters import Kernel, Nodes, cluster_kernel, known_kernel
from ..backends.llvm.plans.geometry import elementwise_call, row_kinds
from ..backends.llvm.plans.runner import Place as Operand
from ..backends.llvm.plans.runner import PlanCode
from ..backends.llvm.plans.runtime import is_there
from ..backends.llvm.routines.routine import Bound
from ..kernel import Cache
from ..storage import Array
from ..tape import NONE, NUMBER
from ..types import count
from .arena import Places
from .building import Unplannable
from .forms import copy_bound
from .layout import Starts, broadcast
from .loops import Loop
from .program import CONSTANT, COPY, ZERO, Node, Program
from .rolling import Blocks, Copies, Emitted
from .said import Said
from .units import MAX_OUTPUTS, Cluster, Units

_IN_META = frozenset("msfi")  # reads of routines that put something into meta


class _Fitted(NamedTuple):
    """A cluster for operands that lie in some way: its kernel, and what `elementwise_call` is to be told."""

    kernel: Kernel
    shape: tuple[int, ...]
    itemsizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    n_inputs: int

    def call(self, address: int) -> tuple[int, tuple[int, ...]]:
        return elementwise_call(address, *self[1:])


_FITTED: Cache[Any, _Fitted] = Cache("clusters of plans", 4_000)


class _Bases(dict[int, Operand]):
    """(base, offset) of every code; found when first asked for, where it is not that of a root."""

    def __init__(self, program: Program, code: PlanCode, n_inputs: int, loop: Loop | None) -> None:
        self._program = program
        self._code = code
        self._n_inputs = n_inputs
        self._loop = loop
        self._derived: dict[tuple[int, Starts], int] = {}

    def __missing__(self, code: int) -> Operand:
        found = self[code] = self._found(code)
        return found

    def _found(self, code: int) -> Operand:
        if code >= CONSTANT:
            return self._n_inputs, 8 * (code - CONSTANT)
        if code >= NUMBER:
            return self._code.numbers, 8 * _number(code, self._loop)
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


def _number(code: int, loop: Loop | None) -> int:
    """Which number of the recording a code means."""
    return code - NUMBER if loop is None else loop.number(code - NUMBER)


class Unfinished(NamedTuple):
    """All instructions; `finish`, when what was missing is there, makes `run(arrays, numbers)` of them."""

    code: PlanCode
    unfilled: list[tuple[_Fitted, list[int]]]  # instructions whose kernels were missing
    constants: list[tuple[bytes, str]]
    nbytes: int  # of the arena
    keep: list[object]
    copies: Copies | None

    def finish(self) -> Any:
        for fitted, instructions in self.unfilled:
            address, meta = fitted.call(cluster_kernel(fitted.kernel))
            for instruction in instructions:
                self.code.fill(instruction, address, meta)
        insert = None if self.copies is None else self.copies.insert
        run = self.code.finish(self.nbytes, self.keep, insert)
        if not self.constants:
            return run
        constants = _packed(self.constants)
        return lambda arrays, numbers: run([*arrays, constants], numbers)


class Emitter:
    """Turns the units of a program into instructions. LLVM still has to compile what is `missing` after that."""

    def __init__(
        self,
        units: Units,
        outputs: Sequence[int],
        inputs: Sequence[int],
        number_kinds: tuple[type, ...],
        said: list[Said] | None = None,
        blocks: Blocks | None = None,
    ) -> None:
        self.units = units
        self.program = program = units.program
        self.places = Places(units, {*outputs})
        self.nbytes = self.places.nbytes
        self._blocks = blocks
        self._loop = loop = None if blocks is None else blocks.loop
        self._n_own_inputs = len(inputs)
        n_inputs = len(inputs) if blocks is None else len(inputs) + len(blocks.leaves())
        self.code = PlanCode(n_inputs + bool(program.constants), number_kinds)
        self.n_fused = 0  # elementwise nodes that run within another's kernel
        self.missing: list[Wish] = [] if is_there() else [None]
        self._unfilled: list[tuple[_Fitted, list[int]]] = []  # instructions whose kernels are filled in later
        self._said = said
        self._keep: list[object] = []
        self._bases = _Bases(program, self.code, n_inputs, loop)
        for i, value in enumerate(inputs):
            self._bases[value] = (i, 0)
        for value in outputs:
            self._bases[value] = (self.code.output(program.types[value]), 0)
        arena = self.code.arena
        for root, offset in self.places.offsets.items():
            self._bases[root] = (arena, offset)
        self._bases[NONE] = (self.code.null, 0)
        for position, offset in self.places.scratch.items():
            self._bases[-1 - position] = (arena, offset)
        self._emitted = Emitted(self._bases, self.places.offsets)
        # What instructions have in common, by ids: all objects that are meant live as long as this does.
        self._calls: dict[Any, tuple[int, int, list[int] | None]] = {}
        self._metas: dict[Any, int] = {}
        self._zero_at: dict[int, list[int]] = {}
        for root in program.zeroed:
            if root in units.first:
                self._zero_at.setdefault(units.first[root], []).append(root)

    def run(self) -> Unfinished:
        zero_at, starts = self._zero_at, self._emitted.starts
        for position, unit in enumerate(self.units.units):
            if self._blocks is not None:
                starts.append((self.code.n_instructions, len(self._emitted.codes)))
            if position in zero_at:
                for root in zero_at[position]:
                    self._zero(root)
            if type(unit) is Cluster:
                if len(unit.stored) <= MAX_OUTPUTS:
                    self._cluster(unit)
                else:  # too many results for one kernel: each takes some of them, and computes again what it needs
                    for first in range(0, len(unit.stored), MAX_OUTPUTS):
                        self._cluster(_reduced(unit, unit.stored[first : first + MAX_OUTPUTS]))
            else:
                self._node(unit, position)  # type: ignore[arg-type] # not a cluster
        copies = None
        if self._blocks is not None:
            starts.append((self.code.n_instructions, len(self._emitted.codes)))
            copies = Copies(self._blocks, self._emitted, self.code.arena, self.nbytes, self._n_own_inputs)
            self.nbytes, self.n_instructions = copies.nbytes, self.code.n_instructions + copies.n_instructions
            self.n_fused += copies.n_fused
        else:
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

    def _say(self, kind: str, results: Sequence[int], step: int = -1, nodes: Nodes = ()) -> None:
        if self._said is not None:
            self._said.append(Said(kind, [self.program.types[value] for value in results], step, nodes))

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
        given.append((position, _number(code, self._loop), kind))
        return 0

    def _cluster(self, cluster: Cluster) -> None:
        """One kernel."""
        types, places = self.program.types, self.program.places
        codes = cluster.operands + cluster.writes
        key = [*cluster.flat, *cluster.stored, cluster.shape]
        for code in codes:
            if code < NUMBER:
                key.append(id(types[code]))
                if code in places:
                    key.append(places[code][0])
            else:
                key.append(0)
        hashable = tuple(key)
        call = self._calls.get(hashable)
        if call is None:
            call = self._calls[hashable] = self._call(cluster, codes)
        address, first_meta, waiting = call
        if waiting is not None:
            waiting.append(self.code.n_instructions)
        self.code.append(address, map(self._bases.__getitem__, codes), first_meta, cluster.step)
        self._emitted.codes += codes
        self.n_fused += len(cluster.results) - 1
        if self._said is not None:
            self._say("fused", cluster.writes, cluster.step, tuple(cluster.nodes()))

    def _call(self, cluster: Cluster, codes: list[int]) -> tuple[int, int, list[int] | None]:
        """The address and the place of the meta of a cluster's instruction; or the list of those that wait for it."""
        program, shape = self.program, cluster.shape
        strides: list[tuple[int, ...]] = []
        for code in codes:
            if code >= NUMBER:
                strides.append((0,) * len(shape))
                continue
            own, lies = program.types[code].shape, program.strides(code)
            strides.append(lies if own == shape else broadcast(shape, own, lies))
        key = (tuple(cluster.nodes()), tuple(cluster.stored), shape, tuple(strides))
        fitted = _FITTED.get(key)
        if fitted is None:
            fitted = _FITTED.put(key, _fit(*key))
        known = known_kernel(fitted.kernel)
        if known is None:
            self.missing.append(fitted.kernel)
        if known is None or self.missing[:1] == [None]:
            waiting: list[int] = []
            self._unfilled.append((fitted, waiting))
            return 0, 0, waiting
        address, meta = fitted.call(known)
        return address, self.code.shared(meta), None


def _reduced(cluster: Cluster, stored: list[int]) -> Cluster:
    """What is left of a cluster for some of its results."""
    nodes = list(cluster.nodes())
    needed = set(stored)
    for i in range(len(nodes) - 1, -1, -1):
        if i in needed:
            needed |= {-1 - ref for ref in nodes[i][1] if ref < 0}
    members = sorted(needed)
    at = {member: i for i, member in enumerate(members)}
    made = Cluster(cluster.position, cluster.shape, cluster.step)
    codes: dict[int, int] = {}
    for member in members:
        expression, refs = nodes[member]
        made.flat.append(expression)
        for ref in refs:
            made.flat.append(-1 - at[-1 - ref] if ref < 0 else codes.setdefault(cluster.operands[ref], len(codes)))
        made.results.append(cluster.results[member])
    made.operands = list(codes)
    made.stored = [at[i] for i in stored]
    made.writes = [cluster.results[i] for i in stored]
    return made


def _fit(
    nodes: Nodes, stored: tuple[int, ...], shape: tuple[int, ...], strides: tuple[tuple[int, ...], ...]
) -> _Fitted:
    n_inputs = len(strides) - len(stored)
    dtypes: list[Any] = [None] * n_inputs
    for expression, refs in nodes:
        for d, ref in zip(expression.inputs, refs, strict=True):
            if ref >= 0:
                dtypes[ref] = d
    itemsizes = tuple([d.itemsize for d in dtypes] + [nodes[i][0].result.itemsize for i in stored])
    try:
        kinds = row_kinds(shape, itemsizes, strides, n_inputs)
    except ValueError:  # results that do not lie side by side: rows of one element each
        shape, strides = (*shape, 1), tuple([(*s, 0) for s in strides])
        kinds = row_kinds(shape, itemsizes, strides, n_inputs)
    return _Fitted(Kernel(nodes, tuple(dtypes), stored, kinds), shape, itemsizes, strides, n_inputs)


def _packed(constants: list[tuple[bytes, str]]) -> Array:
    return np.frombuffer(bytearray(b"".join(bits for bits, _ in constants)), np.int64)


def _bits(constant: tuple[bytes, str], kind: str) -> int:
    packed, name = constant
    value = struct.unpack("<d" if name == "float" else "<q", packed)[0]
    if kind == "i":
        return int(value)
    bits: int = struct.unpack("<q", struct.pack("<d", float(value)))[0]
    return bits
