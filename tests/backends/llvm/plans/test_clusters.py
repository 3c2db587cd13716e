"""Fused kernels against the same ops one by one: every bit, on every layout."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

import extempo as ex
from extempo.backends.llvm.plans.clusters import ClusterKernel, cluster_kernel, known_kernel
from extempo.backends.llvm.plans.expressions import of_op
from extempo.backends.llvm.plans.geometry import elementwise_call
from extempo.backends.llvm.plans.runner import PlanCode
from extempo.backends.selection import native
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType, float32, float64

from ..guarded import Guarded, run_address
from .fused import Program, assert_same_bits, columns_place, plain_place

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

UNARY = ["neg", "exp", "tanh", "sigmoid", "relu", "gelu", "floor", "abs", "logical_not", "sqrt", "isnan", "clone"]
BINARY = ["add", "sub", "mul", "div", "maximum", "lt", "eq", "pow", "remainder", "copysign", "bitwise_and"]
NUMBERS = [2, 0.5, -1.5, True, 3, -0.0, 2**40, float("inf")]
DTYPES = ["float32", "float64", "int64", "int32", "bool"]
SHAPES = [(), (1,), (7,), (3, 20), (4, 1, 9), (2, 3, 1, 5), (3, 0, 2), (5, 1), (2, 2, 2, 2, 3), (1, 33)]


def leaf(rng, shape, dtype):
    """A tensor of that shape: whole, broadcast along some dimensions, or lying in a larger array in some order."""
    shape = tuple(1 if rng.random() < 0.25 else n for n in shape)
    shape = shape[rng.integers(len(shape) + 1) :] if shape and rng.random() < 0.25 else shape
    order = rng.permutation(len(shape)) if rng.random() < 0.3 else np.arange(len(shape))
    steps = [int(rng.integers(1, 3)) if rng.random() < 0.3 else 1 for _ in shape]
    wide = rng.normal(scale=2.0, size=[shape[k] * steps[k] for k in order])
    values = np.asarray(wide > 0 if dtype == "bool" else wide, dtype)
    values = values.transpose(np.argsort(order))[(..., *(slice(None, None, s) for s in steps))]
    return ex.from_numpy(values)


def random_program(rng):
    shape = SHAPES[rng.integers(len(SHAPES))]
    program = Program([leaf(rng, shape, DTYPES[rng.integers(len(DTYPES))]) for _ in range(rng.integers(1, 5))])
    n_leaves, n_wanted = len(program.values), int(rng.integers(1, 9))
    for _ in range(4 * n_wanted):
        if len(program.nodes) == n_wanted:
            break

        def operand():
            if rng.random() < 0.2:
                return NUMBERS[rng.integers(len(NUMBERS))]
            return ("at", int(rng.integers(max(0, len(program.values) - 5), len(program.values))))

        at = ("at", int(rng.integers(len(program.values))))
        choice = rng.random()
        try:
            if choice < 0.4:
                program.add(UNARY[rng.integers(len(UNARY))], at)
            elif choice < 0.85:
                pair = [at, operand()] if rng.random() < 0.7 else [operand(), at]
                program.add(BINARY[rng.integers(len(BINARY))], *pair)
            elif choice < 0.95:
                program.add("where", at, operand(), operand())
            else:
                program.add("clamp", at, None, 1.5)
        except (TypeError, ValueError, OverflowError, ArithmeticError):
            continue  # not for these dtypes or numbers
    assert len(program.values) - n_leaves == len(program.nodes)
    return program


@pytest.mark.parametrize("seed", range(70))
def test_a_cluster_gives_the_bits_of_its_ops_one_by_one(seed):
    rng = np.random.default_rng(seed)
    program = random_program(rng)
    if not program.nodes:
        return
    n = len(program.nodes)
    outputs = sorted({n - 1, *(int(i) for i in rng.integers(n, size=rng.integers(0, 3)))})
    wide = bool(program.shape()) and rng.random() < 0.3
    places = [columns_place if wide and rng.random() < 0.7 else plain_place for _ in outputs]
    status, got = program.run(outputs, places)
    assert status == 0
    for mine, want in zip(got, program.expected(outputs), strict=True):
        assert_same_bits(mine, want)


def test_many_inputs_nodes_and_outputs_fit_one_kernel():
    rng = np.random.default_rng(0)
    program = Program([ex.from_numpy(rng.normal(size=(3, 11)).astype(np.float32)) for _ in range(24)])
    last = 0
    for i in range(64):
        last = program.add("mul" if i % 3 else "sub", ("at", last), ("at", (7 * i) % 24))
    outputs = list(range(40, 64))
    status, got = program.run(outputs)
    assert status == 0
    for mine, want in zip(got, program.expected(outputs), strict=True):
        assert_same_bits(mine, want)


def test_a_cluster_that_is_too_large_is_refused():
    negate = of_op(REGISTRY["neg"], (TensorType((), float32),), {})
    with pytest.raises(ValueError, match="25 inputs, 1 nodes"):
        cluster_kernel(ClusterKernel(((negate, (0,)),), (float32,) * 25, (0,), "1" * 25))


def test_much_work_is_split_with_the_same_bits_on_every_layout():
    rng = np.random.default_rng(1)
    row = ex.from_numpy(rng.normal(size=300).astype(np.float32))
    for shape in [(150_001,), (500, 300), (3, 450, 300)]:
        x = ex.from_numpy(rng.normal(size=shape).astype(np.float32))
        for other in (x, 0.5) if len(shape) == 1 else (x, row, x[..., :1]):
            program = Program([x] if isinstance(other, float) else [x, other])
            first = program.add("mul", ("at", 0), other if isinstance(other, float) else ("at", 1))
            program.add("tanh", ("at", first))
            status, got = program.run([1])
            assert status == 0
            assert_same_bits(got[0], program.expected([1])[0])


@pytest.mark.parametrize("n", [5, 200_000])
def test_an_element_that_is_an_error_is_reported(n):
    expression = of_op(REGISTRY["binary_cross_entropy"], (TensorType((n,), float32),) * 2, {})
    kernel = cluster_kernel(ClusterKernel(((expression, (0, 1)),), (float32, float32), (0,), "11"))
    address, meta = elementwise_call(kernel, (n,), (4, 4, 4), ((4,), (4,), (4,)), 2)
    x, target, out = np.full(n, 0.5, np.float32), np.ones(n, np.float32), Guarded((n,), np.float32)
    assert run_address(address, [x, target, out.array], meta) == 0
    x[n - 2] = 1.5
    assert run_address(address, [x, target, out.array], meta) != 0
    out.check()


@pytest.mark.parametrize("kind", "01s")
@pytest.mark.parametrize("shape", [(3,), (4, 11)])
def test_an_operand_that_nobody_reads_may_be_null(kind, shape):
    clamp = of_op(REGISTRY["clamp"], (TensorType(shape, float32), type(None), float), {})
    assert clamp.reads == (True, False, True)
    kernel = cluster_kernel(ClusterKernel(((clamp, (0, 1, 2)),), clamp.inputs, (0,), f"1{kind}0"))
    x, number = np.arange(np.prod(shape), dtype=np.float32).reshape(shape), np.array(1.5)
    strides = (x.strides, (0,) * len(shape), (0,) * len(shape), x.strides)
    address, meta = elementwise_call(kernel, shape, (4, 1, 8, 4), strides, 3)
    code = PlanCode(2, ())
    out = code.output(TensorType(shape, float32))
    code.call(address, [(0, 0), (code.null, 0), (1, 0), (out, 0)], meta)
    (got,) = code.finish(0, [])([x, number], [])
    np.testing.assert_array_equal(got, np.minimum(x, np.float32(1.5)))


def test_a_kernel_is_there_once_it_was_asked_for(no_kernels_on_disk):
    expression = of_op(REGISTRY["hypot"], (TensorType((), float64),) * 2, {})
    kernel = ClusterKernel(((expression, (0, 0)), (expression, (-1, 1))), (float64, float64), (1,), "s0")
    assert known_kernel(kernel) is None
    address = cluster_kernel(kernel)
    assert known_kernel(kernel) == address
    assert cluster_kernel(kernel) == address
