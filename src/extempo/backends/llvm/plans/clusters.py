"""Clusters: several elementwise functions, one after another, as one kernel that passes values on in registers.

Nodes and layouts in, the address of a kernel out: `i64 k(ptr operands, ptr geometry)`, as elementwise/loops.py has it.
A value is converted to the dtype of the node that made it before the next one reads it, so it has the same bits as if
it went through memory.
"""

from __future__ import annotations

from typing import NamedTuple

from ....core.cache import Cache
from ....core.types import dtype
from ..elementwise.loops import write_kernel
from ..ir.builder import IRModule, Value
from ..ir.machine import machine
from ..lanes.emitter import Emitter
from .expressions import Expression
from .stamp import writers

Nodes = tuple[tuple[Expression, tuple[int, ...]], ...]

MAX_INPUTS, MAX_OUTPUTS, MAX_NODES = 24, 24, 64


class ClusterKernel(NamedTuple):
    """All that the code of a cluster depends on."""

    nodes: Nodes  # in order, each with its inputs: r >= 0 is input r of the cluster, r < 0 is node -1 - r
    inputs: tuple[dtype, ...]
    outputs: tuple[int, ...]  # the nodes that are stored
    kinds: str  # how each input runs along a row: "1" side by side, "0" the same value, "s" any stride


_CLUSTERS: Cache[ClusterKernel, int] = Cache("native clusters", 4_000)
_writers: list[str | None] = []  # which code writes kernels, once it is known


def cluster_kernel(kernel: ClusterKernel) -> int:
    """The address of the kernel, which is compiled if need be."""
    found = _CLUSTERS.get(kernel)
    if found is None:
        identity = _identity(kernel)
        if identity is None:
            module = _written(kernel)
            library = machine().load(module.text(), ["kernel"], module.imports)
        else:
            library = machine().load_as(identity, ["kernel"], lambda: _written(kernel))
        found = _CLUSTERS.put(kernel, library.address["kernel"])
    return found


def known_kernel(kernel: ClusterKernel) -> int | None:
    """The address of the kernel if it is in memory or on disk; None if that could take a wait for LLVM."""
    found = _CLUSTERS.get(kernel)
    if found is None:
        identity = _identity(kernel)
        library = None if identity is None else machine().find(["kernel"], identity=identity)
        if library is not None:
            found = _CLUSTERS.put(kernel, library.address["kernel"])
    return found


def _identity(kernel: ClusterKernel) -> str | None:
    """All of a kernel as text, shorter than its code; None where that is not to be had."""
    if not _writers:
        _writers.append(writers())
    parts = [*_writers, repr(kernel.inputs), repr(kernel.outputs), kernel.kinds]
    for expression, refs in kernel.nodes:
        parts += (expression.identity, repr(refs))
    return None if None in parts else "\n".join(parts)  # type: ignore[arg-type] # no None


def _written(kernel: ClusterKernel) -> IRModule:
    nodes, inputs, outputs, kinds = kernel
    if len(inputs) > MAX_INPUTS or len(outputs) > MAX_OUTPUTS or len(nodes) > MAX_NODES:
        raise ValueError(
            f"a cluster of {len(inputs)} inputs, {len(nodes)} nodes and {len(outputs)} outputs, "
            f"expected at most {MAX_INPUTS}, {MAX_NODES} and {MAX_OUTPUTS}"
        )

    def body(e: Emitter, values: list[Value]) -> list[Value]:
        made: list[Value] = []
        for expression, refs in nodes:
            made.append(expression.emit(e, [values[r] if r >= 0 else made[-1 - r] for r in refs]))
        return [made[i] for i in outputs]

    module = IRModule()
    write_kernel(module, "kernel", body, inputs, [nodes[i][0].result for i in outputs], kinds)
    return module
