"""Packing for matrix products: copies of A and B in the order in which tiles read them.

A packed sliver has its columns side by side, k after k; a packed tile of A has `packed_rows` rows side by side, k after
k. Strides are in bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.builder import IRFunction, IRModule, Pointer, Value, i64, ptr, vector, void
from .gemm_tiles import VECTORS, Tiling, first_lanes

GROUP = 8  # lanes that are packed at once


def transpose(b: IRFunction, rows: Sequence[Value]) -> list[Value]:
    """As many vectors as each has lanes, with rows and lanes exchanged: first single lanes, then pairs, then fours."""
    rows = list(rows)
    n, run = len(rows), 1
    while run < n:
        starts = range(0, n, 2 * run)
        low = [lane + source * n for s in starts for source in (0, 1) for lane in range(s, s + run)]
        high = [lane + run for lane in low]
        made = list(rows)
        for i in [i for s in starts for i in range(s, s + run)]:
            made[i] = b.shuffle(rows[i], rows[i + run], low)
            made[i + run] = b.shuffle(rows[i], rows[i + run], high)
        rows = made
        run *= 2
    return rows


PACK_ARGS = {"source": ptr, "lane": i64, "step": i64, "n_lanes": i64, "k": i64, "out": ptr, "out_step": i64}


class _Pack:
    """Up to GROUP lanes, k steps each, to `out`: the lanes of one step side by side, GROUP of them written."""

    def __init__(self, b: IRFunction, t: Tiling) -> None:
        self.b, self.t = b, t
        self.type = vector(t.element, GROUP)
        self.n_lanes = b.arg("n_lanes")

    def out(self, step: Value) -> Value:
        return self.b.byte_offset(self.b.arg("out"), step * self.b.arg("out_step"))

    def beside(self) -> None:
        """Lanes are side by side. Those that are not there become zeros."""
        b = self.b
        mask = first_lanes(b, self.n_lanes, GROUP)
        zeros = b.const(self.type, 0.0)
        with b.loop(0, b.arg("k")) as step:
            source = b.byte_offset(b.arg("source"), step * b.arg("step"))
            b.store(b.masked_load(source, mask, zeros), self.out(step))

    def along(self) -> None:
        """Steps are side by side: GROUP x GROUP blocks are transposed. Lanes that are not there repeat the last one."""
        b, t = self.b, self.t
        last = self.n_lanes - 1
        starts = [
            b.byte_offset(b.arg("source"), b.smaller(b.const(i64, lane), last) * b.arg("lane")) for lane in range(GROUP)
        ]
        blocks, single = b.if_else(b.arg("k") >= GROUP)
        with blocks, b.loop(0, b.arg("k"), GROUP) as step:
            begin = b.smaller(step, b.arg("k") - GROUP)  # the last block is shifted back and repeats some steps
            turned = transpose(b, [b.load(self.type, b.byte_offset(start, begin * t.size)) for start in starts])
            for i, lanes in enumerate(turned):
                b.store(lanes, self.out(begin + i))
        with single, b.loop(0, b.arg("k")) as step:
            out = Pointer(self.out(step), t.element)
            for i, start in enumerate(starts):
                out[i] = Pointer(start, t.element)[step]


def write_pack(module: IRModule, name: str, t: Tiling) -> None:
    """Pack a group of lanes, columns of B or rows of A, of which either lanes or steps are side by side."""
    with module.function(name, void, internal=False, **PACK_ARGS) as b:
        pack = _Pack(b, t)
        beside, along = b.if_else((b.arg("lane") == t.size) | (pack.n_lanes <= 0))
        with beside:
            pack.beside()
        with along:
            pack.along()


def write_copy_slivers(module: IRModule, name: str, t: Tiling) -> None:
    """Pack whole slivers of a row-major B, together: so each row of B is read in one go, once."""
    args = {"source": ptr, "step": i64, "k": i64, "n_slivers": i64, "out": ptr}
    with module.function(name, void, internal=True, **args) as b:
        out_sliver = b.arg("k") * t.sliver_step
        with b.loop(0, b.arg("k")) as step:
            source = b.var(ptr, b.byte_offset(b.arg("source"), step * b.arg("step")))
            out = b.var(ptr, b.byte_offset(b.arg("out"), step * t.sliver_step))
            with b.loop(0, b.arg("n_slivers")):
                p, q = source.value, out.value
                for v in range(VECTORS):
                    offset = v * t.lanes * t.size
                    b.store(b.load(t.vector, b.byte_offset(p, offset)), b.byte_offset(q, offset))
                source.set(b.byte_offset(p, t.sliver_step))
                out.set(b.byte_offset(q, out_sliver))
