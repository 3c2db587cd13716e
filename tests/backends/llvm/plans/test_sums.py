"""A cluster and its sums as one instruction: the bits of the ops one by one, and nothing else is written."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

import extempo as ex
from extempo.backends.llvm.plans import sums
from extempo.backends.llvm.plans.clusters import ClusterKernel, cluster_kernel
from extempo.backends.llvm.plans.sums import SUMS, cut_of, kind_of, sums_meta
from extempo.backends.llvm.routines.routine import ROUTINES
from extempo.backends.selection import native
from extempo.core.types import TensorType, float32, float64, from_numpy_dtype

from ..guarded import Guarded, run_address
from .fused import Program, as_operand, assert_same_bits

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

DTYPES = {"float32": float32, "float64": float64}


def draw(rng, shape, dtype):
    values = (rng.normal(size=shape) * 10 ** rng.uniform(-3, 3)).astype(dtype)
    if rng.random() < 0.2:
        values.ravel()[rng.integers(values.size)] = rng.choice([np.inf, -np.inf, np.nan, -0.0])
    return values


def summed(op, shape, dtype, dim):
    """How the routine of a reduction goes about it."""
    return ROUTINES[op]((TensorType(shape, DTYPES[dtype]),), {"dim": dim, "keepdim": False}).parts


def run(program, shape, parts, local, stored):
    """The instruction; operands that are broadcast have stride 0. Returns guarded results, then sums."""
    operands = [as_operand(x) for x in program.leaves]
    dtypes = tuple(from_numpy_dtype(x.dtype) for x in operands)
    results = [Guarded(shape, program.nodes[i][0].result.numpy) for i in stored]
    guards, strides = list(results), []
    for x in operands:
        full = np.broadcast_to(x, shape)
        strides.append(full.strides)
    strides += [g.array.strides for g in results]
    s = parts[0][1]
    if s.inner == 1:
        strides = [(down, down, along) for down, along in strides]
    kinds = "".join("0" if along == 0 else "1" for *_, along in strides[: len(operands)])
    kernel = cluster_kernel(ClusterKernel(tuple(program.nodes), dtypes, tuple(stored), kinds))
    n = len(operands)
    own = [(n + stored.index(i), part.divided) for i, part in parts]
    meta = sums_meta(kernel, s, strides, [*[False] * n, *local], own)
    totals, arrays = [], [*operands, *(g.array for g in results)]
    for _, part in parts:
        n_results = part.outer * part.inner
        totals.append(Guarded((n_results,), operands[0].dtype))
        scratch = Guarded((n_results * part.pieces if part.pieces > 1 else 0,), totals[-1].array.dtype)
        guards += [totals[-1], scratch]
        arrays += [totals[-1].array, scratch.array]
    shared = SUMS[s.element, kind_of(s)]
    assert run_address(shared.address(), arrays, meta) == 0
    for guarded in guards:
        guarded.check()
    return [g.array for g in results], [t.array for t in totals]


ROWS = [(1, 9), (1, 8192), (1, 8193), (1, 20_001), (1, 131_072), (1, 131_077), (1, 300_000), (7, 5), (100, 33)]
ROWS += [(1, 1_200_001), (3, 9000), (2, 140_001), (513, 257), (2000, 8), (1, 131_073)]


@pytest.mark.parametrize("shape", ROWS)
@pytest.mark.parametrize("dtype", list(DTYPES))
def test_rows_have_the_bits_of_the_ops_one_by_one(shape, dtype):
    rng = np.random.default_rng([len(dtype), *shape])
    op = "mean" if rng.random() < 0.5 else "sum"
    part = summed(op, shape, dtype, (1,))
    x, y = (ex.from_numpy(draw(rng, shape, dtype)) for _ in range(2))
    program = Program([x, y])
    program.add("mul", ("at", 0), ("at", 1))
    program.add("sub", ("at", 2), ("at", 0))
    for local in ([False, False], [True, False], [True, True]):
        results, totals = run(program, shape, [(0, part), (1, part), (0, part)], local, [0, 1])
        product, difference = x * y, x * y - x
        for total, values in zip(totals, (product, difference, product), strict=True):
            assert_same_bits(total, getattr(values, op)(1).numpy())
        for is_local, got, want in zip(local, results, (product, difference), strict=True):
            if not is_local:
                assert_same_bits(got, want.numpy())


COLUMNS = [(2, 40), (64, 33), (65, 64), (300, 1000), (130, 2100), (5000, 100), (9, 4097), (4200, 40)]


@pytest.mark.parametrize("shape", COLUMNS)
@pytest.mark.parametrize("outer", [1, 3])
@pytest.mark.parametrize("dtype", list(DTYPES))
def test_columns_have_the_bits_of_the_ops_one_by_one(shape, outer, dtype):
    rng = np.random.default_rng([len(dtype), outer, *shape])
    op = "mean" if rng.random() < 0.5 else "sum"
    whole = (outer, *shape)
    part = summed(op, whole, dtype, (1,))
    assert part.inner == shape[1]
    x, row = ex.from_numpy(draw(rng, whole, dtype)), ex.from_numpy(draw(rng, shape[1:], dtype))
    program = Program([x, row])
    program.add("mul", ("at", 0), ("at", 1))
    program.add("relu", ("at", 2))
    for local in ([False, False], [True, True]):
        results, totals = run(program, whole, [(0, part), (1, part)], local, [0, 1])
        made = (x * row, (x * row).relu())
        for total, values in zip(totals, made, strict=True):
            assert_same_bits(total.reshape(outer, -1), getattr(values, op)(1).numpy())
        if not local[0]:
            for got, want in zip(results, made, strict=True):
                assert_same_bits(got, want.numpy())


def test_local_blocks_of_all_parts_find_room():
    rng = np.random.default_rng(0)
    for _ in range(2000):
        rows, columns = (int(2 ** rng.uniform(1, 19)) for _ in range(2))
        if rows * columns > 2**24:
            continue
        for dim in ((0,), (1,), (0, 1)):
            part = summed("sum", (rows, columns), "float32", dim)
            if part is None:
                continue
            cut = cut_of(part)
            assert cut.n_parts * cut.local <= rows * columns or (cut.n_parts == 1 and cut.local <= rows * columns)
            assert cut.n_parts * cut.per_part >= cut.n_tasks > (cut.n_parts - 1) * cut.per_part


def test_the_number_of_parts_changes_no_bit(monkeypatch):
    rng = np.random.default_rng(1)
    for shape, dim in (((700, 300), (0,)), ((700, 300), (1,)), ((1, 400_000), (1,))):
        part = summed("sum", shape, "float32", dim)
        x = ex.from_numpy(draw(rng, shape, "float32"))
        space, x = ((1, *shape), x.reshape(1, *shape)) if dim == (0,) else (shape, x)
        program = Program([x])
        program.add("tanh", ("at", 0))
        for chunk in (1 << 12, 1 << 30):
            monkeypatch.setattr(sums, "CHUNK", chunk)
            _, totals = run(program, space, [(0, part)], [True], [0])
            assert_same_bits(totals[0], x.tanh().sum(1).numpy().ravel())
