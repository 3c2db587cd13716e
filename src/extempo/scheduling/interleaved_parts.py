"""The native side of interleaved units (`interleaving`): kernels, strides and meta of their one instruction."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ..backends.llvm.plans.clusters import ClusterKernel, Nodes
from ..backends.llvm.plans.epilogues import EPILOGUE, with_epilogue
from ..backends.llvm.plans.sharing import Shared
from ..backends.llvm.plans.sums import SUMS, kind_of, sums_meta
from ..backends.llvm.routines.products import Product
from ..backends.llvm.routines.reductions import Summed
from .kernel_selection import operand_dtypes

Strides = tuple[tuple[int, ...], ...]


class WithSums(NamedTuple):
    """A cluster and sums of what it computes."""

    kernel: ClusterKernel
    shared: Shared
    summed: Summed
    strides: list[tuple[int, ...]]
    local: list[bool]
    sums: list[tuple[int, bool]]

    def call(self, address: int) -> tuple[int, tuple[int, ...]]:
        return self.shared.address(), sums_meta(address, self.summed, self.strides, self.local, self.sums)  # type: ignore[arg-type] # three each


class WithProduct(NamedTuple):
    """A product and a cluster that reads it."""

    kernel: ClusterKernel
    shared: Shared
    product: int  # the address of its routine
    meta: tuple[int, ...]
    first_buffer: int
    rows: list[int]
    columns: list[int]

    def call(self, address: int) -> tuple[int, tuple[int, ...]]:
        return self.product, with_epilogue(self.meta, self.first_buffer, address, self.rows, self.columns)


def with_sums(
    nodes: Nodes,
    stored: tuple[int, ...],
    shape: tuple[int, ...],
    strides: Strides,
    parts: tuple[Summed, ...],
    summed: tuple[int, ...],
    local: tuple[bool, ...],
) -> WithSums | None:
    """`summed`: for each sum, which of the stored results it adds up. `local`: of the stored results."""
    s, n_inputs = parts[0], len(strides) - len(stored)
    found = _joined(shape, strides, (s.outer, s.n, s.inner))
    if found is None or s.n == 1:
        return None
    if s.inner == 1:  # rows lie where `outer` says
        found = [(outer, outer, along) for outer, along, _ in found]
    kernel = _kernel(nodes, stored, [one[-1] for one in found], n_inputs)
    if kernel is None:
        return None
    sums = [(n_inputs + i, part.divided) for i, part in zip(summed, parts, strict=True)]
    shared = SUMS[s.element, kind_of(s)]
    return WithSums(kernel, shared, s, found, [*[False] * n_inputs, *local], sums)


def with_product(
    nodes: Nodes,
    stored: tuple[int, ...],
    shape: tuple[int, ...],
    strides: Strides,
    parts: Product,
    address: int,
    meta: tuple[int, ...],
    first_buffer: int,
) -> WithProduct | None:
    """`address`, `meta`: of the product's routine. `first_buffer`: how many operands of its own come first."""
    found = _joined(shape, strides, parts)
    if found is None or parts.n_columns == 1:
        return None
    rows, columns = ([one[i] for one in found] for i in range(2))
    kernel = _kernel(nodes, stored, columns, len(strides) - len(stored))
    return None if kernel is None else WithProduct(kernel, EPILOGUE, address, meta, first_buffer, rows, columns)


def _kernel(nodes: Nodes, stored: tuple[int, ...], along: Sequence[int], n_inputs: int) -> ClusterKernel | None:
    """The kernel for operands that move on like this from column to column; None if results do not lie side by side."""
    dtypes = operand_dtypes(nodes, n_inputs)
    kinds = ""
    for stride, d in zip(along, dtypes, strict=False):
        kinds += "0" if stride == 0 else "1" if stride == d.itemsize else "s"
    for stride, i in zip(along[n_inputs:], stored, strict=True):
        if stride != nodes[i][0].result.itemsize:
            return None
    return ClusterKernel(nodes, dtypes, stored, kinds)


def _joined(shape: tuple[int, ...], strides: Strides, sizes: Sequence[int]) -> list[tuple[int, ...]] | None:
    """The strides of all operands where dimensions are taken together to these sizes; None if that cannot be done."""
    groups: list[list[int]] = []
    dims = [d for d, size in enumerate(shape) if size != 1]
    for size in sizes:
        group: list[int] = []
        while size > 1:
            if not dims or size % shape[dims[0]]:
                return None
            size //= shape[dims[0]]
            group.append(dims.pop(0))
        groups.append(group)
    made = []
    for own in strides:
        one = []
        for group in groups:
            for outer, inner in pairwise(group):
                if own[outer] != own[inner] * shape[inner]:
                    return None
            one.append(own[group[-1]] if group else 0)
        made.append(tuple(one))
    return None if dims else made
