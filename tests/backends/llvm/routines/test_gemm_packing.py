"""Packing for products: panels of B and tiles of A in the order in which they are read."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.ir.types import f32, ptr, void
from extempo.backends.llvm.routines import gemm_packing, products
from extempo.backends.llvm.routines.gemm import gemm_of, n_packed, packed
from extempo.backends.llvm.routines.gemm_packing import GROUP

from ..guarded import Guarded, _run, bind
from ..written import address, compiled, inner
from .matrices import LARGER, check, draw

# ---- a matrix that was packed before


@pytest.mark.parametrize(("m", "k", "n"), [*LARGER, (2, 64, 256), (6, 300, 750), (13, 33, 17), (130, 700, 40)])
@pytest.mark.parametrize("name", ["linear", "matmul"])
def test_products_with_a_packed_matrix_agree_with_numpy(name, m, k, n):
    rng = np.random.default_rng(3)
    x, w = draw(rng, (m, k)), draw(rng, (n, k) if name == "linear" else (k, n))
    columns = w.T if name == "linear" else w
    place = Guarded((n_packed(n, k),), np.float32)
    packed(columns, place.array)
    place.check()
    bound = bind(name, (x, w, None) if name == "linear" else (x, w), {products.PACKED: True})
    result, scratch = Guarded((m, n), np.float32), Guarded((bound.scratch,), np.uint8)
    inputs = [x, place.array, None][: len(bound.reads)]
    buffers = [None if b is None else b.ctypes.data for b in (*inputs, result.array, scratch.array)]
    strides = [s // 4 for s in x.strides] if bound.reads[0] == "m" else []
    assert bound.reads[1] == "c"
    assert _run(bound.address, buffers, [*bound.meta, *strides]) == 0
    for guarded in (place, result, scratch):
        guarded.check()
    check(result.array, x.astype(np.float64) @ columns.astype(np.float64), k)


def test_a_packed_matrix_is_for_products_of_matrices():
    x = draw(np.random.default_rng(4), (3, 5, 6))
    assert bind("matmul", (x, x.swapaxes(1, 2)), {products.PACKED: True}) is None


def test_transposing_exchanges_rows_and_lanes():
    def write(b):
        source, out = b.pointer(b.arg("source"), f32), b.pointer(b.arg("out"), f32)
        for i, row in enumerate(gemm_packing.transpose(b, [source.vector(8 * i, 8) for i in range(8)])):
            out.set_vector(8 * i, row)

    x, y = np.arange(64, dtype=np.float32).reshape(8, 8), np.empty((8, 8), np.float32)
    compiled(write, void, source=ptr, out=ptr)(address(x), address(y))
    np.testing.assert_array_equal(y, x.T)


@pytest.mark.parametrize("n_lanes", [1, 3, 7, 8])
@pytest.mark.parametrize("k", [1, 7, 8, 9, 33])
@pytest.mark.parametrize("lanes_are_neighbours", [True, False])
def test_a_packed_group_has_its_lanes_side_by_side_step_after_step(n_lanes, k, lanes_are_neighbours):
    t = gemm_of(f32).t
    pack = inner(lambda m: gemm_packing.write_pack(m, "pack", t), "pack", void, **gemm_packing.PACK_ARGS)
    x = draw(np.random.default_rng(k), (k, n_lanes) if lanes_are_neighbours else (n_lanes, k))
    step, lane = x.strides if lanes_are_neighbours else x.strides[::-1]
    out = Guarded((k, GROUP), np.float32)
    pack(address(x), lane, step, n_lanes, k, address(out.array), GROUP * 4)
    out.check()
    np.testing.assert_array_equal(out.array[:, :n_lanes], x if lanes_are_neighbours else x.T)
