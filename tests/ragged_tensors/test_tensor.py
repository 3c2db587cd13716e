"""A ragged tensor as an object: gradients, hooks, writes, comparisons, and what it refuses."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, LeafWriteError, OverwrittenError, ShapeError

from .looped import made


def close(a, b):
    return np.allclose(np.array(a.tolist()), np.array(b.tolist()), atol=1e-6)


def test_backward_of_a_ragged_tensor_needs_a_gradient_of_the_same_rows():
    x = made(2, 3, requires_grad=True)
    (2 * x).backward(ex.ones_like(x))
    assert x.grad.values().tolist() == [[2] * 3] * 5
    with pytest.raises(RuntimeError, match="no single number; call backward on a loss"):
        (2 * x).backward()
    for wrong in (ex.ones_like(made(3, 2)), ex.ones(5, 3), 1.0):
        with pytest.raises(ShapeError, match="must have the same rows"):
            (2 * x).backward(wrong)
    for fn in (lambda y, g: ex.autograd.grad(y, x, g), lambda y, g: ex.autograd.backward([y], [g])):
        with pytest.raises(ShapeError, match=r"same rows: got .*\[3, 2\] for .*\[2, 3\]"):
            fn(2 * x, ex.ones_like(made(3, 2)))
    with pytest.raises(ShapeError, match="same rows or None"):
        x.grad = ex.ones(5, 3)


def test_hooks_see_ragged_gradients_and_may_change_them():
    x = made(2, 0, 3, requires_grad=True)
    seen = []
    handle = x.register_hook(lambda g: seen.append(g) or g * 10)
    after = x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad))
    (3 * x).values().sum().backward()
    assert [g.shape for g in seen] == [x.shape] * 2
    assert x.grad.values().tolist() == [[30] * 3] * 5
    handle.remove()
    after.remove()
    (3 * x).values().sum().backward()
    assert x.grad.values().tolist() == [[33] * 3] * 5
    x.register_hook(lambda g: g.values())
    with pytest.raises(ShapeError, match="returns a gradient of the same rows"):
        (3 * x).values().sum().backward()


def test_a_hook_does_not_keep_its_tensor_alive():
    x = made(2, requires_grad=True)
    x.register_hook(lambda g: None)
    gone = weakref.ref(x.values())
    gc.disable()
    try:
        del x
        assert gone() is None
    finally:
        gc.enable()


def test_gradients_of_ragged_tensors_in_the_middle_are_kept_on_demand():
    x = made(2, 3, requires_grad=True)
    y = 2 * x
    y.retain_grad()
    (y * y).values().sum().backward()
    assert close(y.grad.values(), 2 * y.values())


def test_writes_in_place_keep_the_rows():
    x = made(2, 0, 3)
    view, row = x.values(), x[2]
    same = x
    x += 1
    x *= 2
    x.relu_().add_(1).clamp_(max=2.0)
    assert same is x
    assert view.max().item() <= 2
    assert row.max().item() <= 2
    x.zero_()
    assert not x.any()
    x.fill_(3.0).mul_(ex.tensor([1.0, 2.0, 3.0]))
    assert row[0].tolist() == [3, 6, 9]
    x.copy_(made(2, 0, 3, seed=5))
    assert x.tolist() == made(2, 0, 3, seed=5).tolist()
    for draw in ("normal_", "uniform_", "exponential_", "bernoulli_", "random_", "cauchy_", "log_normal_"):
        assert getattr(x, draw)() is x


def test_writes_that_would_change_rows_or_dtype_are_refused():
    x = made(2, 3)
    with pytest.raises(ShapeError, match="rows are of the same lengths"):
        x += made(3, 2)
    with pytest.raises(DtypeError, match="assign the result"):
        ex.ragged([[1], [2]]).add_(0.5)
    with pytest.raises(LeafWriteError):
        made(2, requires_grad=True).add_(1)
    assert x.tolist() == made(2, 3).tolist()


def test_writes_are_differentiated_through():
    x = made(2, 3, requires_grad=True)
    y = 2 * x
    y *= y
    y[1] = 0.0
    y.values().sum().backward()
    assert close(x.grad[0], 8 * x[0])
    assert not x.grad[1].any()
    z = x.exp()
    z += 1
    with pytest.raises(OverwrittenError):
        z.values().sum().backward()


def test_numpy_is_told_how_to_go_on():
    x = made(2, 3)
    for fn in (np.array, np.asarray, np.exp, np.sqrt, lambda x: np.add(x, x)):
        with pytest.raises(RuntimeError, match=r"x\.values\(\)\.numpy\(\)"):
            fn(x)
    with pytest.raises(RuntimeError, match="numpy: not for ragged tensors"):
        x.numpy()
    assert (np.float32(2.0) * x).tolist() == (2.0 * x).tolist()
    assert (np.ones(3, np.float32) * x).tolist() == x.tolist()


def test_ragged_tensors_are_compared_by_rows_and_values():
    x = made(2, 3)
    ex.testing.assert_close(x, x.clone())
    other = x.clone()
    other[1, 0, 0] += 1
    with pytest.raises(AssertionError, match="1 of 15 elements differ"):
        ex.testing.assert_close(x, other)
    with pytest.raises(AssertionError, match=r"rows differ: .*\[2, 3\] and .*\[3, 2\]"):
        ex.testing.assert_close(x, ex.ragged_from_values(x.values(), [3, 2]))
    with pytest.raises(AssertionError, match="shapes differ"):
        ex.testing.assert_close(x, x.values())
    assert ex.equal(x, x.clone())
    assert not ex.equal(x, ex.ragged_from_values(x.values(), [3, 2]))


def test_what_has_one_meaning_for_a_tensor_and_none_here_is_an_error():
    x = made(2, 3)
    with pytest.raises(ShapeError, match="no single truth value"):
        bool(x)
    with pytest.raises(AttributeError, match="stride: not for ragged tensors"):
        x.stride()
    with pytest.raises(AttributeError, match="no_such_thing"):
        x.no_such_thing()
    assert ex.ragged([[2.0]]).item() == 2.0
    assert x.numel() == ex.numel(x) == 15
    assert len({x, made(2, 3)}) == 2
    assert [row.tolist() for row in reversed(x)] == [row.tolist() for row in x][::-1]
    assert (x.element_size(), x.nbytes, x.is_nested, x.layout, x.device.type) == (4, 60, True, ex.jagged, "cpu")
