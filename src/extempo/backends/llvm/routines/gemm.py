"""Matrix products: C = A B or C = A B + bias, for any size, A and B by rows or by columns.

`Gemm` builds the code for one dtype and hands out addresses. Who wants a product calls `plan`, puts plan and
`functions(plan)` into a record (`gemm_record.FIELDS`) and lets native code call `product`, which may be declared in any
module. Only what a plan needs is compiled: panels one by one, variants one by one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from ....core.locks import cached_property
from ..ir.builder import Callee, IRModule, Type, f32, ptr, void
from ..ir.machine import Library, machine
from .gemm_plan import GemmPlan, k_blocks, plan
from .gemm_tiles import Tiling, write_panel, write_stack
from .gemm_variants import SHARED, GemmVariants, product_name
from .routine import build

__all__ = ["Gemm", "GemmPlan", "gemm_of", "plan"]


class Gemm:
    """The native code for products of one dtype. Functions are built when first asked for."""

    def __init__(self, t: Tiling) -> None:
        self.t = t
        self._libraries: dict[str, Library] = {}

    def symbol(self, name: str) -> str:
        """The name of a function of this dtype, the same in every module."""
        return f"extempo_gemm_{self.t.name}_{name}"

    def functions(self, p: GemmPlan) -> tuple[int, ...]:
        """The addresses for FUNCTIONS of a record with this plan."""
        if p.sweeps:  # such a product is never packed or cut into tiles
            return self._variant("sweep", p.m), self._variant("dots", p.m), 0, 0
        if p.packed:
            variant = self._variant("blocks" if p.n_row_blocks > 1 else "packed")
            return variant, variant, self.stack(p.tile_rows), self.stack(p.tile_rows + 1) if p.n_taller else 0
        columns = self._base().address[self.symbol("columns")]
        by_columns = self._variant("dots", p.m) if p.dots else columns
        return columns, by_columns, self.panel(p.tile_rows), self.panel(p.tile_rows + 1) if p.n_taller else 0

    def product(self, module: IRModule, threads: bool) -> Callee:
        """`void product(record)`, for use in a module. Without `threads`, plans must be made without them too."""
        self._base()
        name = product_name(threads)
        if threads:
            self._library(name, lambda variants: variants.write_product(True))
        return module.declare(self.symbol(name), void, [ptr])

    def shared(self, module: IRModule, name: str) -> Callee:
        """One of the functions in SHARED, for use in a module."""
        self._base()
        return module.declare(self.symbol(name), void, list(SHARED[name].values()))

    @cached_property
    def pack_slivers(self) -> Callable[..., None]:
        return _PACK_SLIVERS(self._base().address[self.symbol("pack_slivers")])

    def _base(self) -> Library:
        """What nearly every product needs."""

        def write(variants: GemmVariants) -> None:
            variants.write_pack_slivers()
            variants.write_row_of_tiles()
            variants.write_tiles()
            variants.write_columns()
            variants.write_product(False)

        return self._library("product", write, *SHARED)

    def _variant(self, kind: str, n_rows: int = 0) -> int:
        self._base()
        name = f"{kind}_{n_rows}" if n_rows else kind

        def write(variants: GemmVariants) -> None:
            if kind == "sweep":
                variants.write_sweep(n_rows)
            elif kind == "dots":
                variants.write_dots(n_rows)
            else:
                variants.write_pack_rows()
                variants.write_stacks()
                if kind == "blocks":
                    variants.write_blocks()
                else:
                    variants.write_packed()

        return self._library(name, write).address[self.symbol(name)]

    def panel(self, n_rows: int) -> int:
        """The address of a panel of that many rows, 1 to MAX_ROWS."""
        return build(self.symbol(f"panel_{n_rows}"), write_panel, self.t, n_rows)

    def stack(self, n_rows: int) -> int:
        """The address of a stack of tiles of that many rows."""
        return build(self.symbol(f"stack_{n_rows}"), write_stack, self.t, n_rows)

    def _library(self, name: str, write: Callable[[GemmVariants], None], *others: str) -> Library:
        """The library that has `name` and `others`, which are offered to those that are loaded later."""
        found = self._libraries.get(name)
        if found is None:
            module = IRModule()
            write(GemmVariants(module, self.t, self.symbol))
            names = [self.symbol(n) for n in (name, *others)]
            found = machine().load(module.text(), names, module.imports)
            for symbol in names:
                machine().offer(symbol, found.address[symbol])
            self._libraries[name] = found  # last: an interrupt before leaves it to be done again
        return found


_PACK_SLIVERS = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_longlong] * 4, ctypes.c_void_p)


def packed(columns: Any, out: Any) -> None:
    """B, C-contiguous or the transpose of what is, as products take it whose plan says that it is given.

    `out`: memory for `n_packed` elements.
    """
    gemm = gemm_of(f32)
    (k, n), (step, column) = columns.shape, columns.strides
    pack, source, to = gemm.pack_slivers, columns.ctypes.data, out.ctypes.data
    _, k_block = k_blocks(k, gemm.t)
    for start in range(0, k, k_block):
        at = to + start * (n_packed(n, k) // k) * gemm.t.size
        pack(source + start * step, column, step, n, min(k_block, k - start), at)


def n_packed(n: int, k: int) -> int:
    """How many elements a B of that size has when it is packed."""
    return -(-n // gemm_of(f32).t.columns) * gemm_of(f32).t.columns * k


_GEMMS: dict[Type, Gemm] = {}


def gemm_of(element: Type) -> Gemm:
    """Products of that element type on this CPU: as many lanes as its registers hold."""
    found = _GEMMS.get(element)
    if found is None:
        found = _GEMMS[element] = Gemm(Tiling(element, machine().processor.vector_bytes // element.nbytes))
    return found
