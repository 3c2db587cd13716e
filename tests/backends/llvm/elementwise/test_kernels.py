"""Generated graphs of elementwise ops: one fused kernel, the ops one by one, and NumPy must agree."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")


import extempo as ex
from extempo.backends.llvm.elementwise import kernels
from extempo.backends.numpy.straight_line import numbers_only
from extempo.backends.selection import native
from extempo.core.graph import Leaf
from extempo.core.graph_interpreter import Interpreter
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType, float32, float64
from extempo.dispatch.graph_tracer import trace_graph

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

UNARY = ["neg", "abs", "exp", "tanh", "sigmoid", "relu", "sin", "gelu", "silu", "erf", "floor", "sign", "log1p", "sqrt"]
BINARY = ["add", "sub", "mul", "maximum", "minimum", "atan2", "hypot"]
N_ARGUMENTS = 3


@st.composite
def programs(draw):
    """A list of (op, operands): an operand is the place of an earlier value or a number."""
    steps = []
    for i in range(draw(st.integers(1, 8))):
        values = st.integers(0, N_ARGUMENTS + i - 1)
        if draw(st.booleans()):
            steps.append((draw(st.sampled_from(UNARY)), (draw(values),)))
        else:
            numbers = st.floats(-3, 3, width=32).map(float)
            second = draw(st.one_of(values, numbers))
            steps.append((draw(st.sampled_from(BINARY)), (draw(values), second)))
    return steps


def run(steps, arguments):
    from extempo.dispatch.dispatcher import apply

    known = list(arguments)
    for name, operands in steps:
        known.append(apply(REGISTRY[name], tuple(known[o] if isinstance(o, int) else o for o in operands)))
    return known[-1]


@settings(max_examples=60, deadline=None)
@given(programs(), st.sampled_from([float32, float64]), st.sampled_from([0, 1, 5, 8, 19]), st.integers(0, 5))
def test_fused_op_by_op_and_numpy_agree(steps, d, n, seed):
    shapes = [(2, n), (n,), (2, 1)]
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=shape).astype(d.numpy) for shape in shapes]
    graph, _, _ = trace_graph(lambda *a: run(steps, a), [TensorType(shape, d) for shape in shapes])
    arguments = [node for node in graph if node.op is Leaf]
    fused = kernels.of_graph("fused", graph, arguments, numbers_only(graph))
    if fused is None:
        pytest.fail(f"no native code for one of {steps}")

    def refuse(*values):
        raise AssertionError("the kernel declined")

    (together,) = fused.callable(refuse, as_tuple=True)(*arrays)

    one_by_one = run(steps, [ex.tensor(a) for a in arrays]).numpy()
    # The fused kernel computes at the shape of all arguments; the ops at the shape of those that they use.
    np.testing.assert_array_equal(together, np.broadcast_to(one_by_one, together.shape))
    (oracle,) = Interpreter(graph).run(dict(zip(arguments, arrays, strict=True)))
    np.testing.assert_allclose(one_by_one, oracle, rtol=2e-4 if d is float32 else 1e-9, atol=1e-5)


INTERRUPTED = """
import extempo as ex
from extempo.backends.llvm.elementwise import kernels

class Interrupted(BaseException):
    pass

def interrupt(*args, **kwargs):
    raise Interrupted

def interrupted(call):
    try:
        call()
    except Interrupted:
        return True

x, w = ex.randn(5, 3, requires_grad=True), ex.randn(5, 3)
for _ in range(2):
    ex.atan2(x, w).sum().backward()
y, turned, gradient = ex.atan2(x, w), ex.randn(3, 5).T, x.grad.clone()
write_kernel, kernels.write_kernel = kernels.write_kernel, interrupt
assert interrupted(lambda: ex.atan2(x[:, ::2], w[:, ::2]))
assert interrupted(lambda: ex.hypot(x, turned))
assert interrupted(lambda: y.backward(turned))
kernels.write_kernel = write_kernel
assert x.grad.equal(gradient)
ex.atan2(x[:, ::2], w[:, ::2])
ex.atan2(x, w).backward(turned)
"""


def test_an_interrupt_while_a_kernel_is_built_comes_out_as_it_is():
    """In a process of its own: others may have built the kernels already."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
