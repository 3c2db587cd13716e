"""Where gradients are added up: into one another, into parts, into a leaf's own."""

import gc
import sys

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import extempo as ex
import extempo.nn.functional as F
from extempo.backends.selection import native

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def in_use():
    gc.collect()
    return ex.backends.stats()["memory"]["bytes_in_use"]


@pytest.mark.parametrize("size", [1, 2, 8, 3000])
def test_a_gradient_is_not_added_to_one_of_another_shape(size):
    x = ex.ones(size, requires_grad=True)
    (x * ex.ones(size)).backward(ex.ones(size))
    x.data = ex.ones(4)
    before = x.grad.clone()
    with pytest.raises(ex.errors.ShapeError, match=r"x\.grad = None"):
        (x * ex.ones(4)).backward(ex.ones(4))
    assert x.grad.equal(before)


@pytest.mark.parametrize("contiguous", [True, False])
def test_a_gradient_is_not_added_to_memory_that_is_read_only(contiguous):
    memory = bytes(24)
    x = ex.ones(3, requires_grad=True)
    x.grad = ex.as_tensor(np.frombuffer(memory, np.float32)[: 3 if contiguous else 6 : 1 if contiguous else 2])
    for _ in range(2):
        with pytest.raises(ValueError, match="read-only"):
            (x * ex.ones(3)).backward(ex.ones(3))
    assert memory == bytes(24)


def test_gradients_reach_leaves_a_thousand_times_without_a_trace():
    x, w = ex.randn(4, 6, requires_grad=True), ex.randn(6, requires_grad=True)
    held = ex.tensor(np.zeros((4, 6), np.float32))

    def step():
        h = ex.tanh(x * w + 2.0)
        h[1:].reshape(-1)[::2].sum().backward()
        x.grad = w.grad = None

    for _ in range(5):
        step()
    gc.collect()  # what other tests have left
    before, references = in_use(), [sys.getrefcount(t) for t in (x, w, x._array, w._array, held)]
    n_objects = len(gc.get_objects())
    for _ in range(1000):
        step()
    assert in_use() == before
    assert [sys.getrefcount(t) for t in (x, w, x._array, w._array, held)] == references
    assert len(gc.get_objects()) - n_objects < 50


def test_versions_beyond_the_small_integers_are_compared_by_value():
    base = ex.zeros(6)
    part = base[1:5][1:3]
    for _ in range(300):
        base.add_(1.0)
    x = ex.ones(2, requires_grad=True)
    for _ in range(300):
        (part * x).sum().backward()
    assert x.grad.tolist() == [90_000.0, 90_000.0]
    assert x.grad._version == 299
    y = (part * x).sum()
    base.add_(1.0)
    with pytest.raises(ex.errors.OverwrittenError, match="test_sums"):
        y.backward()


def test_a_gradient_that_came_in_is_not_written_to():
    memory = np.ones(3, np.float32)
    x, y = ex.ones(3, requires_grad=True), ex.ones(3, requires_grad=True)
    for _ in range(3):
        (x + y).backward(ex.from_numpy(memory))
        x.grad.add_(5.0)
    assert memory.tolist() == [1.0] * 3
    assert y.grad.tolist() == [3.0] * 3
    assert x.grad.tolist() == [18.0] * 3


@pytest.mark.parametrize("dtype", [ex.float32, ex.float64])
def test_attention_of_a_tensor_with_itself_adds_its_three_gradients(dtype):
    x = ex.randn(2, 5, 4, dtype=dtype, requires_grad=True)
    F.scaled_dot_product_attention(x, x, x).sum().backward()
    q, k, v = (x.detach().clone().requires_grad_() for _ in range(3))
    F.scaled_dot_product_attention(q, k, v).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), (q.grad + k.grad + v.grad).numpy(), rtol=1e-4, atol=1e-5)
