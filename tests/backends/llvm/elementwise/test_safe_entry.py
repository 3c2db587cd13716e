"""Elementwise kernels on operands that are unaligned, or that other threads replace meanwhile."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import extempo as ex
import extempo.nn.functional as F
from extempo.backends.selection import native
from extempo.core.types import float32, float64, int64

from ..apart import run_apart

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


@pytest.mark.parametrize("d", [float32, float64, int64])
def test_unaligned_memory_is_read_through_a_copy(d):
    raw = np.zeros(8 * 9 + 1, np.uint8)
    x = raw[1 : 1 + 8 * 8].view(d.numpy)[:8] if d.itemsize == 8 else raw[1 : 1 + 4 * 8].view(d.numpy)
    assert not x.flags.aligned
    y = ex.from_numpy(x) + ex.from_numpy(x)
    np.testing.assert_array_equal(y.numpy(), x + x)


def watched(fn, *arrays):
    """Values and gradients of fn, as bits, with and without the graph of the gradients."""
    answers = []
    for create_graph in (False, False, True):
        leaves = [ex.from_numpy(a).requires_grad_() for a in arrays]
        y = fn(*leaves)
        y.sum().backward(create_graph=create_graph)
        answers.append([t.detach().numpy().tobytes() for t in (y, *(x.grad for x in leaves))])
    return answers


@pytest.mark.parametrize("name", ["gelu", "softplus", "mish", "elu", "silu"])
def test_gradients_on_unaligned_memory_have_the_bits_of_their_op_by_op_form(name):
    x = np.zeros(4 * 37 + 1, np.uint8)[1:].view(np.float32)
    x[:] = np.random.default_rng(0).normal(size=37)
    assert not x.flags.aligned
    once, again, op_by_op = watched(getattr(F, name), x)
    aligned = watched(getattr(F, name), x.copy())[0]
    assert once == again == op_by_op == aligned


@pytest.mark.alone
def test_memory_that_another_thread_replaces_lives_until_the_kernel_is_done():
    run_apart(
        """
        sys.setswitchinterval(1e-6)
        n = 1 << 23
        x, done = ex.ones(n), []

        def replace():
            while not done:
                x.data = ex.full((n,), 1.0)

        thread = threading.Thread(target=replace)
        thread.start()
        try:
            for _ in range(15):
                y = (x * 2.0).numpy()
                assert y.min() == y.max() == 2.0
                ex.exp(x)
                ex.where(x > 0.0, x, 3.0)
        finally:
            done.append(True)
            thread.join()
        """
    )
