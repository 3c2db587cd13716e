"""From units to native instructions: every operand gets its place, every cluster its kernel."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..backends.llvm.plans.clusters import Nodes, cluster_kernel
from ..backends.llvm.plans.expressions import Expression
from ..backends.llvm.plans.geometry import elementwise_call, row_kinds
from ..backends.llvm.plans.runner import PlanCode
from ..backends.llvm.routines.routine import Bound
from ..kernel import Cache
from ..storage import Array
from ..tape import NUMBER, Step
from ..types import TensorType, count
from .arena import Places
from .building import Unplannable
from .forms import copy_bound
from .layout import Starts, broadcast, row_major
from .program import CONSTANT, COPY, ZERO, Node
from .units import MAX_OUTPUTS, Cluster, Units

_IN_META = frozenset("msfi")  # reads of routines that put something into meta
_CALLS: Cache[Any, tuple[int, tuple[int, ...]]] = Cache("clusters of plans", 4_000)


class Said(NamedTuple):
    """What an instruction is, for people."""

    kind: str
    types: list[TensorType]  # of all values
    results: Sequence[int]
    step: int = -1
    nodes: Nodes = ()

    def text(self, steps: Sequence[Step]) -> str:
        what = ", ".join(str(self.types[value]) for value in self.results)
        if self.nodes:
            return f"{self.kind}: {', '.join(_name(expression) for expression, _ in self.nodes)} -> {what}"
        name = f" {steps[self.step].op.name}" if self.step >= 0 else ""
        return f"{self.kind}{name} -> {what}"


def _name(expression: Expression) -> str:
    """`mul`, or `gradient` of something."""
    return repr(expression).removeprefix("<Expression ").partition("(")[0]


class Emitter:
    """Turns the units of a program into a callable."""

    def __init__(
        self, units: Units, outputs: Sequence[int], inputs: Sequence[int], number_kinds: tuple[type, ...]
    ) -> None:
        self.units = units
        self.program = program = units.program
        self.places = Places(units, {*outputs})
        self.n_inputs = len(inputs)
        self.code = PlanCode(len(inputs) + bool(program.constants), number_kinds)
        self.n_fused = 0  # elementwise nodes that run within another's kernel
        self.said: list[Said] = []
        self._keep: list[object] = []
        self._bases: dict[int, tuple[int, int]] = {}  # of roots, and of every operand that has been asked for
        for i, value in enumerate(inputs):
            self._bases[value] = (i, 0)
        for value in outputs:
            self._bases[value] = (self.code.output(program.types[value]), 0)
        arena = self.code.arena
        for root, offset in self.places.offsets.items():
            self._bases[root] = (arena, offset)
        self._derived: dict[tuple[int, Starts], int] = {}
        self._zero_at: dict[int, list[int]] = {}
        for root in program.zeroed:
            if units.first[root] >= 0:
                self._zero_at.setdefault(units.first[root], []).append(root)

    def run(self) -> Any:
        """The callable `run(arrays, numbers)`."""
        for position, unit in enumerate(self.units.units):
            for root in self._zero_at.get(position, ()):
                self._zero(root)
            if type(unit) is Cluster:
                self._cluster(unit)
            else:
                self._node(unit, position)  # type: ignore[arg-type] # not a cluster
        run = self.code.finish(self.places.nbytes, self._keep)
        if not self.program.constants:
            return run
        constants = _packed(list(self.program.constants))
        return lambda arrays, numbers: run([*arrays, constants], numbers)

    def _node(self, node: Node, position: int) -> None:
        kind, _, inputs, results, _, _ = node
        if kind == ZERO:
            self._zero(results[0])
        elif kind == COPY:
            self._copy(inputs[0], results[0])
        else:
            self._routine(node, position)

    # ---- operands

    def _place(self, code: int) -> tuple[int, int]:
        """(base, offset) of an operand."""
        found = self._bases.get(code)
        if found is None:
            found = self._bases[code] = self._place_of(code)
        return found

    def _place_of(self, code: int) -> tuple[int, int]:
        if code >= CONSTANT:
            return self.n_inputs, 8 * (code - CONSTANT)
        if code >= NUMBER:
            return self.code.numbers, 8 * (code - NUMBER)
        base, start = self._bases[self.program.roots[code]]
        _, offset, starts = self.program.places[code]
        return self._moved(base, starts) if starts else base, start + offset

    def _moved(self, base: int, starts: Starts) -> int:
        """The base from which a view lies that begins where numbers of the run say."""
        key = (base, starts)
        found = self._derived.get(key)
        if found is None:
            step = self.program.start_steps.get(starts, -1)
            found = self._derived[key] = self.code.derived(base, 0, starts, step)
        return found

    # ---- instructions

    def _zero(self, value: int) -> None:
        t = self.program.types[value]
        nbytes = count(t.shape) * t.dtype.itemsize
        if nbytes:
            self.code.zero(self._place(value), nbytes)
            self.said.append(Said("zero", self.program.types, (value,)))

    def _copy(self, source: int, result: int) -> None:
        program = self.program
        t = program.types[result]
        if not count(t.shape):
            return
        self.said.append(Said("copy", program.types, (result,)))
        if program.in_order(source):
            self.code.copy(self._place(result), self._place(source), count(t.shape) * t.dtype.itemsize)
            return
        bound = copy_bound(t)
        itemsize = t.dtype.itemsize
        meta = (*bound.meta, *[stride // itemsize for stride in program.strides(source)])
        self.code.call(bound.address, [self._place(source), self._place(result)], meta)

    def _routine(self, node: Node, position: int) -> None:
        _, bound, inputs, results, step, _ = node
        meta, given = self._meta(bound, inputs)
        nothing = (self.code.null, 0)  # for None, and for numbers, which are in meta
        operands = [self._place(code) if 0 <= code < NUMBER else nothing for code in inputs]
        operands += [self._bases[value] for value in results]
        if bound.scratch:
            operands.append((self.code.arena, self.places.scratch[position]))
        self.code.call(bound.address, operands, meta, given, step)
        self._keep.append(bound)
        self.said.append(Said("run", self.program.types, results, step))

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
        stored = self.units.stored_results(cluster)
        if len(stored) <= MAX_OUTPUTS:
            self._kernel(cluster, list(cluster.codes), tuple(cluster.nodes), stored)
            return
        # Too many results for one kernel: each takes some of them, and computes again what it needs.
        for first in range(0, len(stored), MAX_OUTPUTS):
            self._kernel(cluster, *_reduced(cluster, stored[first : first + MAX_OUTPUTS]))

    def _kernel(self, cluster: Cluster, codes: list[int], nodes: Nodes, stored: list[int], results: Any = None) -> None:
        """One instruction. `stored`: the nodes whose results are written, `results`: which values those are."""
        program, shape, place = self.program, cluster.shape, self._place
        types, places, lying = program.types, program.places, program.strides
        written = results or [cluster.results[i] for i in stored]
        bases, nowhere = self._bases, (0,) * len(shape)
        operands = [bases[code] if code in bases else place(code) for code in codes]
        strides: list[tuple[int, ...]] = []
        for code in codes:
            if code >= NUMBER:
                strides.append(nowhere)
                continue
            own = types[code]
            lies = places[code][0] if code in places else row_major(own)
            strides.append(lies if own.shape == shape else broadcast(shape, own.shape, lies))
        for value in written:
            operands.append(place(value))
            strides.append(lying(value))
        key = (nodes, tuple(stored), shape, tuple(strides))
        call = _CALLS.get(key)
        if call is None:
            call = _CALLS.put(key, _cluster_call(*key))
        self.code.call(call[0], operands, call[1], (), cluster.step)
        self.n_fused += len(nodes) - 1
        self.said.append(Said("fused", types, written, cluster.step, nodes))


def _reduced(cluster: Cluster, stored: list[int]) -> tuple[list[int], Nodes, list[int], list[int]]:
    """What is left of a cluster for some of its results: operands, nodes, and where the results are among them."""
    needed = set(stored)
    for i in range(len(cluster.nodes) - 1, -1, -1):
        if i in needed:
            needed |= {-1 - ref for ref in cluster.nodes[i][1] if ref < 0}
    members = sorted(needed)
    at = {member: i for i, member in enumerate(members)}
    codes: dict[int, int] = {}
    given = list(cluster.codes)
    nodes = []
    for member in members:
        expression, refs = cluster.nodes[member]
        own = [-1 - at[-1 - ref] if ref < 0 else codes.setdefault(given[ref], len(codes)) for ref in refs]
        nodes.append((expression, tuple(own)))
    return list(codes), tuple(nodes), [at[i] for i in stored], [cluster.results[i] for i in stored]


def _cluster_call(
    nodes: tuple[Any, ...], stored: tuple[int, ...], shape: tuple[int, ...], strides: tuple[tuple[int, ...], ...]
) -> tuple[int, tuple[int, ...]]:
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
    address = cluster_kernel(nodes, tuple(dtypes), stored, kinds)
    return elementwise_call(address, shape, itemsizes, strides, n_inputs)


def _packed(constants: list[tuple[bytes, str]]) -> Array:
    return np.frombuffer(bytearray(b"".join(bits for bits, _ in constants)), np.int64)


def _bits(constant: tuple[bytes, str], kind: str) -> int:
    packed, name = constant
    value = struct.unpack("<d" if name == "float" else "<q", packed)[0]
    if kind == "i":
        return int(value)
    bits: int = struct.unpack("<q", struct.pack("<d", float(value)))[0]
    return bits
