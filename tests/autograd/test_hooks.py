"""Hooks of tensors and nodes, retain_grad, saved-tensor hooks, anomaly detection."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import extempo as ex
from extempo import autograd
from extempo.errors import AutogradError, ShapeError


def leaf(*values: float) -> ex.Tensor:
    return ex.tensor(values, requires_grad=True)


def test_a_hook_sees_the_complete_gradient_once() -> None:
    x = leaf(1.0, 2.0)
    seen: list[Any] = []
    y = x * 2
    y.register_hook(lambda g: seen.append(g.tolist()))
    (y.sum() + (y * y).sum()).backward()
    assert seen == [[5.0, 9.0]]


def test_a_hook_may_replace_the_gradient() -> None:
    x = leaf(1.0, 2.0)
    x.register_hook(lambda g: g * 10)
    (x * 3).sum().backward()
    assert x.grad.tolist() == [30.0, 30.0]
    (g,) = autograd.grad((x * 3).sum(), x)
    assert g.tolist() == [30.0, 30.0]


def test_hooks_run_in_the_order_they_were_registered_and_can_be_removed() -> None:
    x = leaf(1.0)
    first = x.register_hook(lambda g: g + 1)
    x.register_hook(lambda g: g * 2)
    (x * 1).sum().backward()
    assert x.grad.tolist() == [4.0]
    first.remove()
    first.remove()
    x.grad = None
    (x * 1).sum().backward()
    assert x.grad.tolist() == [2.0]


def test_a_handle_is_a_context_manager() -> None:
    x = leaf(1.0)
    with x.register_hook(lambda g: g * 5):
        (x * 1).sum().backward()
    (x * 1).sum().backward()
    assert x.grad.tolist() == [6.0]


def test_a_hook_that_returns_another_shape_is_refused() -> None:
    x = leaf(1.0, 2.0)
    x.register_hook(lambda g: g.sum())
    with pytest.raises(ShapeError, match="hook"):
        (x * 1).sum().backward()


def test_hooks_need_a_tensor_that_requires_grad() -> None:
    for name in ("register_hook", "register_post_accumulate_grad_hook"):
        with pytest.raises(AutogradError, match=f"{name}: this tensor does not require grad"):
            getattr(ex.ones(2), name)(print)
    with pytest.raises(AutogradError, match="retain_grad"):
        ex.ones(2).retain_grad()


def test_hooks_of_gradients_that_are_recorded_see_recorded_tensors() -> None:
    x = leaf(2.0)
    seen: list[Any] = []
    y = x**3
    y.register_hook(lambda g: seen.append(g.requires_grad))
    (g,) = autograd.grad((y * y).sum(), x, create_graph=True)
    assert seen == [True]
    assert autograd.grad(g.sum(), x)[0].tolist() == [480.0]


def test_a_post_accumulate_hook_runs_after_the_gradient_was_added() -> None:
    x = leaf(1.0, 2.0)
    seen: list[Any] = []

    def step(t: ex.Tensor) -> None:
        seen.append(t.grad.tolist())
        t.grad = None

    handle = x.register_post_accumulate_grad_hook(step)
    (x * 2).sum().backward()
    assert seen == [[2.0, 2.0]]
    assert x.grad is None
    handle.remove()
    (x * 2).sum().backward()
    assert x.grad is not None
    with pytest.raises(AutogradError, match="expected a leaf"):
        (x * 2).register_post_accumulate_grad_hook(step)


def test_retain_grad_keeps_the_gradient_of_what_is_no_leaf() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    assert not y.retains_grad
    y.retain_grad()
    assert y.retains_grad
    (y * y).sum().backward()
    assert y.grad.tolist() == [4.0, 8.0]
    x.retain_grad()
    assert not x.retains_grad


def test_a_node_shows_what_comes_in_and_what_goes_out() -> None:
    a, b = leaf(2.0), leaf(3.0)
    y = a * b
    seen: list[Any] = []

    def hook(grad_inputs: Any, grad_outputs: Any) -> Any:
        seen.append(([g.tolist() for g in grad_inputs], [g.tolist() for g in grad_outputs]))
        return tuple(g * 10 for g in grad_inputs)

    handle = y.grad_fn.register_hook(hook)
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 2,))
    y.sum().backward(retain_graph=True)
    assert seen == [([[6.0], [4.0]], [[2.0]])]
    assert (a.grad.tolist(), b.grad.tolist()) == ([60.0], [40.0])
    handle.remove()
    a.grad = None
    y.sum().backward()
    assert a.grad.tolist() == [6.0]
    assert y.grad_fn.name() == "MulBackward"


def test_a_hook_of_a_node_may_keep_the_gradients_and_read_them_later() -> None:
    kept: list[Any] = []
    for _ in range(3):
        x = ex.tensor([[1.0, 2.0]], requires_grad=True)
        for y in (x @ ex.ones(2, 3), x.exp(), x.sum(1)):
            y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: kept.append((grad_inputs[0], grad_outputs[0])))
            y.sum().backward()
    found = [(i.tolist(), o.tolist()) for i, o in kept]
    e = np.exp([[1.0, 2.0]], dtype=np.float32)
    assert len(found) == 9
    for k, (grad_input, grad_output) in enumerate(found):
        np.testing.assert_allclose(grad_input, [[[3.0, 3.0]], e, [[1.0, 1.0]]][k % 3], rtol=1e-6)
        assert grad_output == [[[1.0] * 3], [[1.0] * 2], [1.0]][k % 3]


def test_hooks_do_not_keep_a_dropped_graph_alive() -> None:
    gc.disable()
    try:
        y = leaf(1.0) * 2
        y.register_hook(lambda g: g)
        y.grad_fn.register_hook(lambda i, o: None)
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()


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


def logged(log, **leaves):
    for name, leaf in leaves.items():
        leaf.register_hook(lambda g, name=name: log.append(name))
        leaf.register_post_accumulate_grad_hook(lambda leaf, name=name: log.append(name.upper()))


def test_hooks_of_a_leaf_run_as_soon_as_its_gradient_is_complete():
    log = []
    a, b, c = (ex.ones(2, requires_grad=True) for _ in range(3))
    logged(log, a=a, b=b, c=c)
    y = a * b + c
    y.register_hook(lambda g: log.append("y"))
    (y * a).sum().backward()
    assert log == ["y", "c", "C", "a", "A", "b", "B"]


def test_leaves_of_one_node_come_in_the_order_of_its_inputs_and_a_bias_before_its_weight():
    log = []
    a, b, weight, bias = ex.ones(1, 2), ex.ones(2), ex.ones(2, 2), ex.zeros(2)
    logged(log, **{name: t.requires_grad_() for name, t in zip("abwv", (a, b, weight, bias), strict=True)})
    ex.addcmul(ex.nn.functional.linear(a, weight, bias), b, b).sum().backward()
    assert log == [*"bB", *"vVaAwW"]


def test_orders_of_hooks_are_those_of_pytorch():
    torch = pytest.importorskip("torch")

    def order(lib):
        log = []
        model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.Tanh(), lib.nn.LayerNorm(4), lib.nn.Linear(4, 4))
        logged(log, **dict(model.named_parameters()))
        for name, layer in model.named_children():
            layer.register_full_backward_hook(lambda layer, into, out, name=name: log.append(name))
        x = lib.ones(2, 3, requires_grad=True)
        logged(log, x=x)
        model[:3](model(x)[:, :3]).sum().backward()
        return log

    assert order(ex) == order(torch)


def test_an_optimizer_may_step_and_free_each_gradient_while_the_backward_goes_on():
    def trained(in_backward):
        ex.manual_seed(0)
        model = ex.nn.Sequential(ex.nn.Linear(3, 4), ex.nn.Tanh(), ex.nn.Linear(4, 1))
        alive = []
        if in_backward:
            optimizers = {p: ex.optim.SGD([p], lr=0.1) for p in model.parameters()}

            def step(p):
                alive.append(sum(q.grad is not None for q in model.parameters()))
                optimizers[p].step()
                optimizers[p].zero_grad()

            for p in model.parameters():
                p.register_post_accumulate_grad_hook(step)
        optimizer = ex.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            model(ex.ones(2, 3)).square().mean().backward()
            if not in_backward:
                optimizer.step()
                optimizer.zero_grad()
        assert set(alive) <= {1}
        return [p.tolist() for p in model.parameters()]

    assert trained(True) == trained(False)
