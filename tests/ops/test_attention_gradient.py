"""Gradients of attention to second order, and what is kept for them."""

from __future__ import annotations

import numpy as np

import extempo as ex
from extempo.nn import functional as F

from .helpers import leaf, values


def test_a_query_that_may_attend_to_nothing_gets_zeros_and_no_gradient():
    q, k, v = leaf(2, 4), leaf(3, 4, seed=1), leaf(3, 2, seed=2)
    mask = ex.tensor([[True, False, True], [False, False, False]])
    result = F.scaled_dot_product_attention(q, k, v, mask)
    assert values(result)[1] == [0.0, 0.0]
    result.sum().backward()
    assert values(q.grad)[1] == [0.0] * 4
    for x in (q, k, v):
        assert np.isfinite(x.grad.numpy()).all()


def test_attention_gradients_of_both_orders_with_a_mask_that_requires_grad():
    inputs = (leaf(2, 2, 3), leaf(1, 3, 3, seed=1), leaf(2, 3, 2, seed=2), leaf(2, 3, seed=3))
    fn = F.scaled_dot_product_attention
    assert ex.autograd.gradcheck(fn, inputs)
    assert ex.autograd.gradgradcheck(fn, inputs)


def test_attention_keeps_no_weights():
    q = leaf(2, 50, 4)
    y = F.scaled_dot_product_attention(q, q, q)
    assert {entry[1].shape for entry in y.grad_fn.saved} == {(2, 50, 4)}
