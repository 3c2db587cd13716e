"""plan_rows: a kernel on blocks of rows, in any number of outer dimensions, split over threads or not."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.elementwise.broadcasting import SPLIT_FROM
from extempo.backends.llvm.plans.clusters import ClusterKernel, cluster_kernel
from extempo.backends.llvm.plans.expressions import of_op
from extempo.backends.llvm.plans.runtime import runtime
from extempo.backends.selection import native
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType, float32

from ..guarded import Guarded, run_address

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def kernel_of(name, kinds="11"):
    t = TensorType((1,), float32)
    made = of_op(REGISTRY[name], (t,) * len(kinds), {})
    return cluster_kernel(ClusterKernel(((made, tuple(range(len(kinds)))),), made.inputs, (0,), kinds))


def run(kernel, operands, n_inner=2):
    """The instruction on operands of one shape: the last two dimensions are the kernel's, the others outer ones."""
    shape, n = operands[0].shape, len(operands)
    outer, inner = shape[:-n_inner], (1,) * (2 - n_inner) + shape[-n_inner:]
    rows = [(0,) * (2 - n_inner) + x.strides[-n_inner:] for x in operands]
    geometry = (*inner, *(r[0] for r in rows), *(r[1] for r in rows))
    strides = [x.strides[k] for k in range(len(outer)) for x in operands]
    return run_address(runtime()["plan_rows"], operands, (kernel, n, len(outer), *geometry, *outer, *strides))


@pytest.mark.parametrize("shape", [(3, 9), (2, 3, 9), (2, 1, 3, 7), (2, 2, 2, 2, 8)])
def test_every_block_of_rows_is_done(shape):
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape).astype(np.float32)
    y = rng.normal(size=(*shape[:-1], 2 * shape[-1])).astype(np.float32)[..., : shape[-1]]
    out = Guarded(shape, np.float32)
    assert run(kernel_of("add"), [x, y, out.array]) == 0
    out.check()
    np.testing.assert_array_equal(out.array, x + y)


def test_an_operand_that_is_repeated_over_outer_dimensions_does_not_move():
    x = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    y = np.broadcast_to(np.arange(6, dtype=np.float32).reshape(2, 3), (4, 2, 3))
    out = Guarded((4, 2, 3), np.float32)
    assert run(kernel_of("mul"), [x, y, out.array]) == 0
    np.testing.assert_array_equal(out.array, x * y)


@pytest.mark.parametrize("shape", [(SPLIT_FROM + 33,), (300, SPLIT_FROM // 256 + 1), (2, 300, SPLIT_FROM // 256)])
def test_large_blocks_are_split_without_changing_a_bit(shape):
    rng = np.random.default_rng(1)
    x, y = (rng.normal(size=shape).astype(np.float32) for _ in range(2))
    out = np.empty(shape, np.float32)
    assert run(kernel_of("add"), [x, y, out], n_inner=min(len(shape), 2)) == 0
    np.testing.assert_array_equal(out, x + y)


def test_an_error_in_any_block_is_the_status():
    p, target, out = (
        np.full((3, 2, 8), 0.5, np.float32),
        np.ones((3, 2, 8), np.float32),
        np.empty((3, 2, 8), np.float32),
    )
    kernel = kernel_of("binary_cross_entropy")
    assert run(kernel, [p, target, out]) == 0
    p[1, 1, 3] = 2.0
    assert run(kernel, [p, target, out]) != 0
