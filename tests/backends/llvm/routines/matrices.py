"""Matrices in either order, and products compared with NumPy in float64."""

from __future__ import annotations

import ctypes

import numpy as np

from extempo.backends.llvm.ir.builder import IRModule, i64, ptr, void
from extempo.backends.llvm.ir.machine import machine
from extempo.backends.llvm.routines.gemm_plan import plan
from extempo.backends.llvm.routines.gemm_record import FIELDS, FUNCTIONS

from ..guarded import call

TRANSPOSED = [(False, False), (False, True), (True, False), (True, True)]
# Sizes that reach every way of computing: sweeps, dots, columns in place and packed, blocks with several blocks of k.
LARGER = [(1, 333, 517), (3, 65, 200), (5, 401, 97), (25, 300, 310), (67, 129, 258), (201, 401, 131), (390, 37, 161)]


def draw(rng, shape, dtype=np.float32, transposed=False):
    """Numbers of that shape; transposed: the last two dimensions are stored the other way round."""
    if not transposed:
        return rng.standard_normal(shape).astype(dtype)
    return rng.standard_normal((*shape[:-2], shape[-1], shape[-2])).astype(dtype).swapaxes(-1, -2)


def check(got, want, k):
    """Equal up to what summing k products in any order may lose."""
    assert got.shape == want.shape
    eps = np.finfo(got.dtype).eps
    np.testing.assert_allclose(got, want, rtol=8 * eps, atol=4 * eps * max(k, 1))


def check_matmul(a, b):
    (got,) = call("matmul", a, b)
    check(got, np.matmul(a.astype(np.float64), b.astype(np.float64)), a.shape[-1])
    return got


def run_record(gemm, a, b):
    """The product of two matrices by a Gemm that need not be this CPU's."""
    m, k = a.shape
    n = b.shape[1]
    p = plan(m, n, k, gemm.t, threads=False)
    c, scratch = np.empty((m, n), a.dtype), np.empty(p.scratch + 64, np.uint8)
    fields = dict(p._asdict()) | dict(zip(FUNCTIONS, gemm.functions(p), strict=True))
    fields |= {"a": a.ctypes.data, "b": b.ctypes.data, "c": c.ctypes.data, "scratch": scratch.ctypes.data}
    fields |= {"a_row": a.strides[0], "a_step": a.strides[1], "b_step": b.strides[0], "b_column": b.strides[1]}
    record = np.array([fields.get(name, 0) for name in FIELDS], np.int64)
    record[FIELDS.index("c_row")] = c.strides[0]
    module = IRModule()
    product = gemm.product(module, threads=False)
    with module.function("run", void, record=ptr, unused=i64) as f:
        f.call(product, f.arg("record"))
    library = machine().load(module.text(), ["run"], module.imports)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library.address["run"])(record.ctypes.data, 0)
    return c
