"""Corners where memory could be shared, a mode could leak, or a gradient could be lost."""

from __future__ import annotations

import operator
import threading

import greenlet
import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, ShapeError
from extempo.nn import functional as F


def test_repeat_never_shares_memory_with_its_input():
    a = ex.zeros(1, 4)
    h = a.repeat(3, 1)
    h[1] = 7.0
    np.testing.assert_array_equal(h.numpy()[:, 0], [0, 7, 0])
    assert not a.any()


def test_gradients_of_two_leaves_are_separate_under_create_graph():
    a, b = ex.ones(2, requires_grad=True), ex.ones(2, requires_grad=True)
    v = ex.ones(2)
    (a + b).backward(v, create_graph=True)
    with ex.no_grad():
        a.grad.zero_()
    np.testing.assert_array_equal(b.grad.detach().numpy(), [1, 1])
    np.testing.assert_array_equal(v.numpy(), [1, 1])


def test_retained_gradients_are_separate():
    a = ex.ones(2, requires_grad=True)
    y = a * 2
    z = y + 1
    y.retain_grad()
    z.retain_grad()
    z.sum().backward()
    z.grad.zero_()
    np.testing.assert_array_equal(y.grad.numpy(), [1, 1])


@pytest.mark.alone
def test_threads_lose_no_gradient_of_a_shared_leaf():
    w = ex.ones(200_000, requires_grad=True)

    def work() -> None:
        for _ in range(20):
            w.sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert w.grad.min().item() == w.grad.max().item() == 80


def test_a_backward_inside_a_hook_leaves_the_outer_mode_alone():
    a, w = ex.ones(2, requires_grad=True), ex.ones(2, requires_grad=True)
    other = (w * w).sum()
    y = a * a

    def hook(g: ex.Tensor) -> None:
        ex.autograd.grad(other, w, retain_graph=True)

    y.register_hook(hook)
    (g,) = ex.autograd.grad((y * y).sum(), a, create_graph=True)
    assert g.requires_grad


def test_a_hook_must_keep_the_type():
    x = ex.ones(2, requires_grad=True)
    x.register_hook(lambda g: g.double())
    with pytest.raises(ShapeError, match=r"f32\[2\], got f64\[2\]"):
        x.sum().backward()


def test_hooks_of_a_slice_are_called():
    x = ex.ones(3, requires_grad=True)
    y = x[1:]
    seen = []
    y.grad_fn.register_hook(lambda *grads: seen.append(grads))
    (y * y).sum().backward()
    assert len(seen) == 1


def test_the_array_handed_out_is_not_the_tensors_own_object():
    x = ex.arange(6.0)
    n = x.numpy()
    n.resize((2, 3))
    n.flags.writeable = False
    x.add_(1)
    assert n[0, 0] == 1  # the memory is shared all the same
    assert (x + ex.zeros(6)).shape == (6,)
    masked = ex.from_numpy(np.ma.array([1.0, 2.0], mask=[True, False]))
    assert type((masked * masked).numpy()) is np.ndarray


def test_data_of_a_computed_tensor_can_be_replaced_without_cutting_the_graph():
    x = ex.ones(2, requires_grad=True)
    y = x * 2
    y.data = ex.zeros(2)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2, 2])


def test_float16_times_a_large_number_is_computed_wide():
    x = ex.tensor([0.5, 1e-3], dtype=ex.float16, requires_grad=True)
    y = x * 65536.0
    np.testing.assert_array_equal(y.detach().numpy(), np.float16([32768, 65.56]))
    assert y.dtype is ex.float16
    y.sum().backward()
    assert (x / 1e5).detach().numpy()[0] > 0


@pytest.mark.parametrize("d", [ex.float16, ex.bfloat16])
def test_short_paths_keep_half_precision(d):
    x = ex.tensor([1.0, 2.0, 0.3], dtype=d)
    for y in (F.gelu(x), F.silu(x), x.sigmoid(), x * x, x + 1.5):
        assert y.numpy().dtype == d.numpy


@pytest.mark.parametrize(
    "fn", [lambda y: F.mish(y, inplace=True), lambda y: y.logit_(1e-3), lambda y: F.hardswish(y, inplace=True)]
)
def test_in_place_forms_keep_what_their_gradient_needs(fn):
    x = ex.tensor([0.2, 0.7], requires_grad=True)
    fn(x * 1.0).sum().backward()
    assert x.grad.isfinite().all()


def test_the_gradient_of_a_maximum_goes_to_the_nan():
    x = ex.tensor([1.0, float("nan"), 2.0], requires_grad=True)
    ex.amax(x).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0, 1, 0])


def test_atan2_at_the_origin_has_no_gradient():
    a, b = ex.zeros(1, requires_grad=True), ex.zeros(1, requires_grad=True)
    ex.atan2(a, b).backward()
    assert a.grad.item() == b.grad.item() == 0


def test_inference_mode_false_records_again():
    with ex.inference_mode(), ex.inference_mode(False):
        assert ex.is_grad_enabled()


def test_out_is_allowed_where_nothing_is_recorded():
    x = ex.ones(2, requires_grad=True)
    with ex.no_grad():
        ex.mul(x, 3.0, out=x)
    np.testing.assert_array_equal(x.detach().numpy(), [3, 3])


def test_detaching_a_leaf_in_place_keeps_its_gradient():
    x = ex.ones(2, requires_grad=True)
    x.sum().backward()
    x.detach_()
    assert not x.requires_grad
    np.testing.assert_array_equal(x.grad.numpy(), [1, 1])


def test_an_operator_may_be_the_first_frame():
    x = ex.ones(2, requires_grad=True)
    assert greenlet.greenlet(operator.mul).switch(x, x).requires_grad


def test_a_gradient_that_is_no_tensor_is_refused_in_words():
    x = ex.ones(2, requires_grad=True)
    with pytest.raises(DtypeError, match="the gradient must be a tensor, got float"):
        (x * 2).backward(1.0)


def test_norms_keep_no_more_than_their_input_and_statistics():
    x = ex.ones(64, 64, requires_grad=True)
    y = F.layer_norm(x, (64,))
    kept = sum(entry[1].nbytes for node in ex.Graph.of(y) for entry in node.saved or ())
    assert kept <= x.nbytes + 4 * 64 * 4


def test_exact_comparison_tells_large_integers_apart():
    with pytest.raises(AssertionError, match="1 of 1"):
        ex.testing.assert_close(ex.tensor([2**53]), ex.tensor([2**53 + 1]))
