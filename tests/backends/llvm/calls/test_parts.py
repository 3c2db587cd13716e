"""What tensors get when a trace has run, made natively: views, aliases, nodes and gradients like Python's."""

import pytest

pytest.importorskip("llvmlite")

import numpy as np

import extempo as ex
from extempo.backends.selection import native

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

pytestmark = pytest.mark.usefixtures("always_planned")


def settled(fn, *args):
    """What a compiled function returns once its plan is in use."""
    compiled = ex.compile(fn)
    for _ in range(3):
        compiled(*args)
    return compiled(*args)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[1:],
        lambda x: x.T,
        lambda x: x.reshape(-1)[::2],
        lambda x: x[1].expand(2, 3),
        lambda x: x.T[1:][::2],
    ],
)
def test_views_share_memory_with_their_base_as_in_eager_mode(view):
    def fn(x):
        y = x * 2.0
        return y, view(y)

    x = ex.tensor(np.arange(9.0, dtype=np.float32).reshape(3, 3))
    (base, seen), (eager_base, eager_seen) = settled(fn, x), fn(x)
    assert seen.stride() == eager_seen.stride()
    assert seen.storage_offset() == eager_seen.storage_offset()
    assert seen._memory is base._memory
    assert eager_seen._memory is eager_base._memory
    base.add_(1.0)
    eager_base.add_(1.0)
    assert seen.tolist() == eager_seen.tolist()


def test_starts_of_slices_are_those_of_the_call():
    def fn(x, k):
        y = x + 1.0
        return y[k : k + 2]

    compiled, x = ex.compile(fn), ex.arange(8.0)
    for k in (0, 1, 2, 3, 4, 5, 6):
        assert compiled(x, k).tolist() == [k + 1.0, k + 2.0]


def test_a_result_after_backward_has_a_node_that_was_freed():
    w = ex.ones(3, requires_grad=True)

    def fn():
        y = w * w
        loss = y.sum()
        loss.backward()
        return y, loss

    y, loss = settled(fn)
    assert (y.grad_fn.name(), loss.grad_fn.name()) == ("MulBackward", "SumBackward")
    with pytest.raises(ex.errors.GraphFreedError):
        loss.backward()


def test_a_gradient_is_a_tensor_outside_any_graph():
    w = ex.ones(3, requires_grad=True)

    def fn():
        w.grad = None
        (w * w).sum().backward()

    settled(fn)
    assert w.grad.tolist() == [2.0] * 3
    assert (w.grad.requires_grad, w.grad.grad_fn, w.grad._alias, w.grad._version) == (False, None, None, 0)
