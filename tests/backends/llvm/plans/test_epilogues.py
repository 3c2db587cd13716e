"""A product and the cluster that reads it as one instruction: each part goes through the kernel as it is made."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.plans.clusters import ClusterKernel, cluster_kernel
from extempo.backends.llvm.plans.epilogues import EPILOGUE, with_epilogue
from extempo.backends.llvm.plans.expressions import of_op
from extempo.backends.llvm.routines import gemm_plan
from extempo.backends.llvm.routines.products import EPILOGUE_AT
from extempo.backends.selection import native
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType, float32

from ..guarded import Guarded, bind, run_address

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def kernel_of(name, n_inputs):
    t = TensorType((1,), float32)
    made = of_op(REGISTRY[name], (t,) * n_inputs, {})
    return cluster_kernel(ClusterKernel(((made, tuple(range(n_inputs))),), made.inputs, (0,), "1" * n_inputs))


def product(a, b, kernel, operands):
    """a @ b and the kernel on it and other operands, the last of which is the result; the status and the product."""
    bound = bind("matmul", (a, b), {})
    c, scratch = Guarded((len(a), b.shape[1]), np.float32), Guarded((bound.scratch,), np.uint8)
    strides = [s // 4 for x, kind in zip((a, b), bound.reads, strict=True) if kind == "m" for s in x.strides]
    buffers = [a, b, c.array, scratch.array, c.array, *operands]
    rows, columns = ([x.strides[k] for x in buffers[4:]] for k in (0, 1))
    meta = with_epilogue((*bound.meta, *strides), 4, kernel, rows, columns)
    status = run_address(bound.address, buffers, meta)
    for guarded in (c, scratch):
        guarded.check()
    return status, c.array


@pytest.mark.parametrize("chunk_products", [1_000, 10**9])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 9, 33), (5, 7, 16), (6, 300, 700), (250, 33, 129)])
def test_the_cluster_has_the_bits_of_its_ops_one_by_one(m, k, n, chunk_products, monkeypatch):
    monkeypatch.setattr(gemm_plan, "CHUNK_PRODUCTS", chunk_products)  # parts are rows, or also columns of them
    rng = np.random.default_rng(m)
    a, b, x = (rng.normal(size=shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))
    out = Guarded((m, n), np.float32)
    status, c = product(a, b, kernel_of("mul", 2), [x, out.array])
    assert status == 0
    out.check()
    np.testing.assert_array_equal(out.array, c * x)
    plain = Guarded((m, n), np.float32)
    bound = bind("matmul", (a, b), {})
    strides = [s // 4 for y, kind in zip((a, b), bound.reads, strict=True) if kind == "m" for s in y.strides]
    scratch = np.empty(bound.scratch + 64, np.uint8)
    run_address(bound.address, [a, b, plain.array, scratch], (*bound.meta, *strides))
    np.testing.assert_array_equal(c, plain.array)


def test_an_operand_that_is_one_row_is_repeated():
    a, b = np.ones((7, 3), np.float32), np.ones((3, 20), np.float32)
    row, out = np.broadcast_to(np.arange(20, dtype=np.float32), (7, 20)), np.empty((7, 20), np.float32)
    assert product(a, b, kernel_of("add", 2), [row, out])[0] == 0
    np.testing.assert_array_equal(out, 3 + row)


def test_an_element_that_is_an_error_is_the_status_of_the_product():
    a, b = np.full((4, 2), 0.25, np.float32), np.ones((2, 9), np.float32)
    target, out = np.ones((4, 9), np.float32), np.empty((4, 9), np.float32)
    kernel = kernel_of("binary_cross_entropy", 2)
    assert product(a, b, kernel, [target, out])[0] == 0
    a[3] = 5.0  # no probability
    assert product(a, b, kernel, [target, out])[0] != 0


def test_the_meta_of_a_product_says_where_its_epilogue_is():
    meta = tuple(range(100, 100 + EPILOGUE_AT + 3))
    made = with_epilogue(meta, 7, 1234, [8, 16], [4, 4])
    assert made[EPILOGUE_AT] == len(meta)
    assert made[:EPILOGUE_AT] == meta[:EPILOGUE_AT]
    assert made[len(meta) :] == (EPILOGUE.address(), 7, 1234, 2, 8, 16, 4, 4)
