"""Gradients added to `.grad`: in memory of their own, nothing lost."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import extempo as ex


def test_gradients_accumulate_until_they_are_cleared():
    x = ex.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [5, 5, 5])
    x.grad = None
    assert x.grad is None


def test_two_leaves_never_share_their_gradient():
    a, b = ex.ones(2, requires_grad=True), ex.ones(2, requires_grad=True)
    (a + b).sum().backward()
    a.grad.zero_()
    np.testing.assert_array_equal(b.grad.numpy(), [1, 1])


def test_the_gradient_given_to_backward_is_not_taken_over():
    x = ex.ones(2, requires_grad=True)
    g = ex.tensor([1.0, 2.0])
    y = x + 0.0
    y.backward(g, retain_graph=True)
    y.backward(g)
    np.testing.assert_array_equal(g.numpy(), [1, 2])
    np.testing.assert_array_equal(x.grad.numpy(), [2, 4])


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
