"""Chooses the kernel variant of a cluster by its operands' layouts, and makes the instruction."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..backends.llvm.plans.clusters import ClusterKernel, Nodes
from ..backends.llvm.plans.geometry import elementwise_call, row_kinds
from ..core.types import dtype
from .fusion import Cluster


class FittedCluster(NamedTuple):
    """A cluster for operands of certain layouts: its kernel, and the arguments of `elementwise_call`."""

    kernel: ClusterKernel
    shape: tuple[int, ...]
    itemsizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    n_inputs: int

    def call(self, address: int) -> tuple[int, tuple[int, ...]]:
        return elementwise_call(address, *self[1:])


def operand_dtypes(nodes: Nodes, n_inputs: int) -> tuple[dtype, ...]:
    """What a cluster reads."""
    dtypes: list[Any] = [None] * n_inputs
    for expression, refs in nodes:
        for d, ref in zip(expression.inputs, refs, strict=True):
            if ref >= 0:
                dtypes[ref] = d
    return tuple(dtypes)


def reduced(cluster: Cluster, stored: list[int]) -> Cluster:
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


def fit(
    nodes: Nodes, stored: tuple[int, ...], shape: tuple[int, ...], strides: tuple[tuple[int, ...], ...]
) -> FittedCluster:
    """The variant for operands of these strides, in bytes: the inputs', then those of the stored results."""
    n_inputs = len(strides) - len(stored)
    dtypes = operand_dtypes(nodes, n_inputs)
    itemsizes = tuple([d.itemsize for d in dtypes] + [nodes[i][0].result.itemsize for i in stored])
    try:
        kinds = row_kinds(shape, itemsizes, strides, n_inputs)
    except ValueError:  # results that do not lie side by side: rows of one element each
        shape, strides = (*shape, 1), tuple([(*s, 0) for s in strides])
        kinds = row_kinds(shape, itemsizes, strides, n_inputs)
    return FittedCluster(ClusterKernel(nodes, dtypes, stored, kinds), shape, itemsizes, strides, n_inputs)
