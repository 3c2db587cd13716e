"""Expressions: equal functions are one object, and there are none where there is no native code."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

import extempo as ex
from extempo.autograd.derive import derived_vjp
from extempo.backends.llvm.plans.clusters import ClusterKernel, cluster_kernel
from extempo.backends.llvm.plans.expressions import of_derived, of_op
from extempo.backends.llvm.plans.geometry import elementwise_call
from extempo.backends.selection import native
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType, bool_, float32, float64, int64

from ..guarded import Guarded, run_address
from .fused import assert_same_bits

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def test_equal_expressions_are_one_object_and_shapes_play_no_part():
    matrix, row, scalar = (TensorType(shape, float32) for shape in ((4, 5), (5,), ()))
    add = REGISTRY["add"]
    assert of_op(add, (matrix, row), {}) is of_op(add, (row, row), {})
    assert of_op(add, (matrix, float), {}) is not of_op(add, (matrix, matrix), {})
    assert of_op(add, (matrix, float), {}).inputs == (float32, float64)
    # A 0-dim float64 tensor does not widen a float32 matrix, one with dimensions does.
    wide = TensorType((5,), float64)
    assert of_op(add, (matrix, TensorType((), float64)), {}).result is float32
    assert of_op(add, (matrix, wide), {}).result is float64
    assert of_op(add, (scalar, scalar), {}) is of_op(add, (matrix, matrix), {})


def test_an_expression_follows_the_default_dtype():
    kinds = (TensorType((3,), int64),)
    assert of_op(REGISTRY["exp"], kinds, {}).result is float32
    ex.set_default_dtype(ex.float64)
    try:
        assert of_op(REGISTRY["exp"], kinds, {}).result is float64
    finally:
        ex.set_default_dtype(ex.float32)


def test_there_is_no_expression_where_there_is_no_native_code():
    half = TensorType((3,), ex.float16)
    assert of_op(REGISTRY["exp"], (half,), {}) is None
    assert of_op(REGISTRY["matmul"], (TensorType((3, 3), float32),) * 2, {}) is None


GRADIENTS = [("mul", 2), ("tanh", 1), ("gelu", 1), ("div", 2), ("add", 2), ("where", 3), ("pow", 2), ("lerp", 3)]


@pytest.mark.parametrize(("name", "n"), GRADIENTS)
@pytest.mark.parametrize("number", [False, True])
def test_a_gradient_as_an_expression_gives_the_bits_of_the_eager_kernel(name, n, number):
    rng = np.random.default_rng(n)
    inputs = [ex.from_numpy(rng.uniform(0.2, 2, size=(3, 7)).astype(np.float32)) for _ in range(n)]
    if name == "where":
        inputs[0] = ex.from_numpy(rng.normal(size=(3, 7)) > 0)
    elif number and n > 1:
        inputs[-1] = 1.5
    needs = sum(1 << i for i, x in enumerate(inputs) if isinstance(x, ex.Tensor) and x.dtype is not bool_)
    types = tuple(TensorType(tuple(x.shape), x.dtype) if isinstance(x, ex.Tensor) else type(x) for x in inputs)
    derived = derived_vjp(REGISTRY[name], needs, types)
    y = getattr(ex, name, None) or getattr(ex.nn.functional, name)
    values = [y(*inputs), *inputs]
    g = rng.normal(size=(3, 7)).astype(np.float32)
    arguments = [g, *(values[p].numpy() for p in derived.reads), *(inputs[i] for i in derived.numbers)]
    wanted = derived.kernel(*arguments)
    for j, want in enumerate(wanted):
        expression = of_derived(derived, j)
        assert expression is of_derived(derived, j)
        assert len(expression.inputs) == len(expression.reads) == len(arguments)
        if expression.passes is not None:
            assert want is arguments[expression.passes]
            continue
        kinds = "".join("1" if isinstance(x, np.ndarray) else "0" for x in arguments)
        kernel = cluster_kernel(
            ClusterKernel(((expression, tuple(range(len(arguments)))),), expression.inputs, (0,), kinds)
        )
        operands = [x if isinstance(x, np.ndarray) else np.array(x, np.float64) for x in arguments]
        out = Guarded((3, 7), np.float32)
        strides = tuple(x.strides if x.ndim else (0, 0) for x in (*operands, out.array))
        itemsizes = tuple(x.itemsize for x in (*operands, out.array))
        address, meta = elementwise_call(kernel, (3, 7), itemsizes, strides, len(operands))
        assert run_address(address, [*operands, out.array], meta) == 0
        out.check()
        assert_same_bits(out.array, np.asarray(want))


def test_gradients_that_are_alike_are_one_expression():
    t = TensorType((3,), float32)
    one, other = (derived_vjp(REGISTRY["relu"], 1, (t,)) for _ in range(2))
    assert of_derived(one, 0) is of_derived(other, 0)
    sub = derived_vjp(REGISTRY["sub"], 3, (t, t))
    assert of_derived(sub, 0) is of_derived(derived_vjp(REGISTRY["add"], 3, (t, t)), 0)
    assert of_derived(sub, 0) is not of_derived(sub, 1)
