"""Clusters: several elementwise functions, one after another, as one kernel that passes values on in registers.

Nodes and layouts in, the address of a kernel out: `i64 k(ptr operands, ptr geometry)`, as elementwise/loops.py has it.
A value is converted to the dtype of the node that made it before the next one reads it, so it has the same bits as if
it went through memory.
"""

from __future__ import annotations

from ....kernel import Cache
from ....types import dtype
from ..elementwise.loops import write_kernel
from ..ir.builder import Module, Value
from ..ir.machine import machine
from ..lanes.emitter import Emitter
from .expressions import Expression

Nodes = tuple[tuple[Expression, tuple[int, ...]], ...]

MAX_INPUTS, MAX_OUTPUTS, MAX_NODES = 24, 24, 64
_CLUSTERS: Cache[tuple[Nodes, tuple[dtype, ...], tuple[int, ...], str], int] = Cache("native clusters", 4_000)


def cluster_kernel(nodes: Nodes, inputs: tuple[dtype, ...], outputs: tuple[int, ...], kinds: str) -> int:
    """The address of the kernel of these nodes, in order.

    A node's input r >= 0 is input r of the cluster, r < 0 is node -1 - r. `outputs`: the nodes that are stored.
    `kinds`: how each input runs along a row, "1" side by side, "0" the same value, "s" any stride.
    """
    key = (nodes, inputs, outputs, kinds)
    found = _CLUSTERS.get(key)
    if found is None:
        found = _CLUSTERS.put(key, _build(nodes, inputs, outputs, kinds))
    return found


def has_cluster(nodes: Nodes, inputs: tuple[dtype, ...], outputs: tuple[int, ...], kinds: str) -> bool:
    """Whether that kernel is there, and asking for it costs nothing."""
    return (nodes, inputs, outputs, kinds) in _CLUSTERS


def _build(nodes: Nodes, inputs: tuple[dtype, ...], outputs: tuple[int, ...], kinds: str) -> int:
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

    module = Module()
    write_kernel(module, "kernel", body, inputs, [nodes[i][0].result for i in outputs], kinds)
    return machine().load(module.text(), ["kernel"], module.imports).address["kernel"]
