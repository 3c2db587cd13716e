"""The NumPy interpreter of a Graph: the oracle that every other way to run one is tested against.

A Graph is put in order once, with every value dropped after its last use; what results holds slots and kernels, no
tensors, so it can be run again and from several threads at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .graph import Graph, Leaf, Node, Pick

Kernel = Callable[..., tuple[Any, ...]]  # of arrays and numbers


def convert(value: Any, to: np.dtype[Any]) -> Any:
    """An input of an elementwise kernel in the dtype it computes in; numbers wrap around like PyTorch's."""
    if isinstance(value, np.ndarray):
        return value if value.dtype is to else value.astype(to)
    if value is None or to.kind not in "iub":
        return value
    return np.asarray(value).astype(to) if to.kind != "b" else bool(value)


def kernel_of(node: Node) -> Kernel:
    """The kernel of one node: its op's NumPy code with the conversions that the node's types ask for."""
    types = tuple(i.type if isinstance(i, Node) else type(i) for i in node.inputs)
    compute = node.op.signature(types, node.attrs).compute
    several = type(node.type) is tuple
    dtypes = [t.dtype.numpy for t in (node.type if several else (node.type,))]

    def kernel(*arrays: Any) -> tuple[Any, ...]:
        if compute is not None:
            arrays = tuple(convert(a, compute) for a in arrays)
        with np.errstate(all="ignore"):
            out = node.op.numpy(*arrays, **node.attrs)
        return tuple(np.asarray(o, d) for o, d in zip(out if several else (out,), dtypes, strict=True))

    return kernel


class Instruction(NamedTuple):
    """Run `kernel` on the slots (or constants) in `reads`, put the results into `writes`, then drop `drops`."""

    kernel: Kernel
    reads: tuple[Any, ...]  # slot numbers as ("slot", n), constants as ("value", x)
    writes: tuple[int, ...]
    drops: tuple[int, ...]


class Interpreter:
    """Instructions over numbered slots."""

    def __init__(self, graph: Graph) -> None:
        self._slots: dict[Node, int] = {}
        self.inputs: list[Node] = graph.inputs
        for node in graph:
            if node.op is not Pick:
                for _ in range(len(node.type) if type(node.type) is tuple else 1):
                    self._slots.setdefault(node, self.n_slots)
                    self.n_slots += 1
        self.outputs = [self._slot_of(o) for o in graph.outputs]
        self.instructions = [self._instruction(n) for n in graph if n.op not in (Leaf, Pick)]
        self._drop_after_last_use()

    n_slots = 0

    def _slot_of(self, node: Node) -> int:
        if node.op is Pick:
            return self._slots[node.inputs[0]] + int(node.attrs["index"])
        return self._slots[node]

    def _instruction(self, node: Node) -> Instruction:
        reads = tuple(("slot", self._slot_of(i)) if isinstance(i, Node) else ("value", i) for i in node.inputs)
        first = self._slots[node]
        n_results = len(node.type) if type(node.type) is tuple else 1
        return Instruction(kernel_of(node), reads, tuple(range(first, first + n_results)), ())

    def _drop_after_last_use(self) -> None:
        kept = set(self.outputs)
        later: set[int] = set()
        for i in reversed(range(len(self.instructions))):
            instruction = self.instructions[i]
            used = {slot for kind, slot in instruction.reads if kind == "slot"} | set(instruction.writes)
            self.instructions[i] = instruction._replace(drops=tuple(used - later - kept))
            later |= used

    def run(self, values: Mapping[Node, Any]) -> list[Any]:
        """The outputs for these values of the graph's leaves: arrays, and numbers for weak leaves."""
        slots: list[Any] = [None] * self.n_slots
        for node in self.inputs:
            if node not in values:
                raise KeyError(f"run: no value given for leaf {node.number} of type {node.type}")
            slots[self._slots[node]] = values[node]
        for kernel, reads, writes, drops in self.instructions:
            results = kernel(*[slots[x] if kind == "slot" else x for kind, x in reads])
            for slot, result in zip(writes, results, strict=True):
                slots[slot] = result
            for slot in drops:
                slots[slot] = None
        return [slots[o] for o in self.outputs]
