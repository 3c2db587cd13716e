"""Backward from a compiled function's trace: by its plan, into leaves and beyond, with the bits of eager mode."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.autograd.traced_backward import accumulate_planned, backward_by_plan, grad_by_plan
from extempo.backends.selection import native
from extempo.core.graph import Leaf

pytestmark = [
    pytest.mark.skipif(native() is None, reason="plans need native kernels"),
    pytest.mark.usefixtures("always_planned"),
]


def compiled():
    return ex.compile(lambda x, w: ((x @ w).tanh() * x.sum()).sum())


def inputs():
    rng = np.random.default_rng(5)
    x, w = (ex.tensor(rng.normal(size=shape)).requires_grad_() for shape in ((3, 4), (4, 2)))
    return x, w


def planned_loss(fn, x, w):
    """A loss on a trace that has a plan."""
    for _ in range(4):
        fn(x, w).backward()
    x.grad = w.grad = None
    return fn(x, w)


def test_a_tensor_on_no_trace_is_left_to_the_engine():
    x, w = inputs()
    loss = (x @ w).sum()
    assert backward_by_plan([loss], None, "backward", None, keep=False) is None
    assert grad_by_plan([loss], None, [x], keep=False) is None


def test_two_tensors_are_left_to_the_engine():
    x, w = inputs()
    loss = planned_loss(compiled(), x, w)
    assert backward_by_plan([loss, loss], None, "backward", None, keep=False) is None
    loss.backward()


def test_a_plan_has_the_gradients_of_the_engine():
    x, w = inputs()
    loss = planned_loss(compiled(), x, w)
    found = backward_by_plan([loss], None, "backward", None, keep=False)
    assert found is not None
    accumulate_planned(found, keep=False)
    other_x, other_w = inputs()
    ((other_x @ other_w).tanh() * other_x.sum()).sum().backward()
    assert x.grad.numpy().tobytes() == other_x.grad.numpy().tobytes()
    assert w.grad.numpy().tobytes() == other_w.grad.numpy().tobytes()


def test_asked_gradients_come_in_the_order_of_their_inputs_and_are_not_accumulated():
    x, w = inputs()
    fn = compiled()
    ex.autograd.grad(planned_loss(fn, x, w), [w, x])
    gw, gx = grad_by_plan([fn(x, w)], None, [w, x], keep=False)
    assert (gw.shape, gx.shape) == (w.shape, x.shape)
    assert x.grad is None
    assert w.grad is None


def test_found_gradients_are_added_to_leaves_or_go_on_from_nodes():
    x = ex.tensor([1.0, 2.0], requires_grad=True)
    leaf = x._own_node()
    assert leaf.op is Leaf
    accumulate_planned([(leaf, np.float32([1, 1]))], keep=False)
    accumulate_planned([(leaf, np.float32([2, 3]))], keep=False)
    assert x.grad.tolist() == [3.0, 4.0]
    x.grad = None
    y = x * 10.0
    accumulate_planned([(y.grad_fn, np.float32([1, 2]))], keep=False)
    assert x.grad.tolist() == [10.0, 20.0]


def test_a_gradient_in_another_order_than_its_leaf_is_copied_into_it():
    x = ex.ones(3, 2).T.requires_grad_()  # its memory is column by column
    accumulate_planned([(x._own_node(), np.ones((2, 3), np.float32))], keep=False)
    assert x.grad.stride() == x.stride()


def test_compiled_backward_goes_on_where_its_inputs_were_computed():
    base, w = inputs()
    fn = compiled()
    planned_loss(fn, (base * 2.0).detach().requires_grad_(), w)
    w.grad = None
    fn(base * 2.0, w).backward()
    x, other = inputs()
    ((x * 2.0 @ other).tanh() * (x * 2.0).sum()).sum().backward()
    np.testing.assert_array_equal(base.grad.numpy(), x.grad.numpy())
