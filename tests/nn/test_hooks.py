"""Hooks of modules: before and after forward, and around backward."""

from __future__ import annotations

import copy
import pickle

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import DtypeError, ShapeError
from extempo.func import grad, vmap
from extempo.nn import hooks

from .models import Scale


def test_forward_hooks_run_in_order_and_may_replace():
    net, order = Scale(), []
    net.register_forward_pre_hook(lambda m, args: order.append("pre"))
    net.register_forward_pre_hook(lambda m, args: (order.append("first pre"), args[0] * 10)[1], prepend=True)
    net.register_forward_hook(lambda m, args, out: (order.append("post"), out + 1)[1])
    handle = net.register_forward_hook(lambda m, args, out: order.append("first post"), prepend=True)
    assert net(ex.ones(2)).tolist() == [21.0, 21.0]
    assert order == ["first pre", "pre", "first post", "post"]
    handle.remove()
    order.clear()
    net(ex.ones(2))
    assert order == ["first pre", "pre", "post"]


def test_hooks_with_kwargs_see_and_replace_them():
    net, seen = Scale(), []
    net.register_forward_pre_hook(lambda m, args, kwargs: (args, {"times": 5}), with_kwargs=True)
    net.register_forward_hook(lambda m, args, kwargs, out: seen.append(kwargs), with_kwargs=True)
    assert net(ex.ones(2), times=3).tolist() == [10.0, 10.0]
    assert seen == [{"times": 5}]
    net.register_forward_pre_hook(lambda m, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(DtypeError, match=r"\(args, kwargs\)"):
        net(ex.ones(2))


def test_a_hook_that_is_always_called_runs_after_an_error_too():
    class Broken(nn.Module):
        def forward(self, x: ex.Tensor) -> ex.Tensor:
            raise ValueError("broken")

    net, seen = Broken(), []
    net.register_forward_hook(lambda m, args, out: seen.append("plain"))
    net.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    with pytest.raises(ValueError, match="broken"):
        net(ex.ones(2))
    assert seen == [None]

    def raises(m, args, out):
        raise KeyError("worse")

    net.register_forward_hook(raises, always_call=True)
    with pytest.warns(UserWarning, match="worse"), pytest.raises(ValueError, match="broken"):
        net(ex.ones(2))


def test_hooks_are_copied_and_independent():
    net = Scale()
    net.register_forward_hook(_add_one)
    other = pickle.loads(pickle.dumps(copy.deepcopy(net)))
    assert other(ex.ones(2)).tolist() == [3.0, 3.0]
    other._call_hooks.forward.clear()
    assert net(ex.ones(2)).tolist() == [3.0, 3.0]


def _add_one(module, args, output):
    return output + 1


def test_full_backward_hooks_see_gradients_of_arguments_and_results():
    net, seen = Scale(), []
    net.register_full_backward_hook(lambda m, gi, go: seen.append((m, gi, go)))
    x = ex.ones(2, requires_grad=True)
    (x.sum() + (3 * net(x)).sum()).backward()
    ((module, grad_input, grad_output),) = seen
    assert module is net
    assert [g.tolist() for g in grad_input] == [[6.0, 6.0]]  # what leaves through the module, not all of x.grad
    assert [g.tolist() for g in grad_output] == [[3.0, 3.0]]
    assert x.grad.tolist() == [7.0, 7.0]


def test_full_backward_hooks_may_replace_gradients():
    net = Scale()
    net.register_full_backward_pre_hook(lambda m, go: (go[0] * 10,))
    net.register_full_backward_hook(lambda m, gi, go: (gi[0] + 1,))
    x = ex.ones(2, requires_grad=True)
    net(x).sum().backward()
    assert net.weight.grad.tolist() == [10.0, 10.0]
    assert x.grad.tolist() == [21.0, 21.0]


def test_backward_hooks_fire_when_no_argument_has_a_gradient():
    net, seen = Scale(), []
    net.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go[0].tolist())))
    net(ex.ones(2)).sum().backward()
    assert seen == [((None,), [1.0, 1.0])]


def test_backward_hooks_fire_once_for_several_arguments_and_results():
    class Two(nn.Module):
        def forward(self, a, n, b):
            return {"sum": a + b, "pair": (a * n, "text")}

    net, seen = Two(), []
    net.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
    a, b = ex.tensor(1.0, requires_grad=True), ex.tensor(2.0)
    out = net(a, 3, b)
    assert out["pair"][1] == "text"
    (out["sum"] + 2 * out["pair"][0]).backward()
    ((grad_input, grad_output),) = seen
    assert grad_input[0].item() == 7.0
    assert grad_input[1:] == (None, None)
    assert [g if g is None else g.item() for g in grad_output] == [1.0, 2.0, None]


def test_backward_hooks_fire_at_every_backward_and_leave_no_grad_runs_alone():
    net, seen = Scale(), []
    handle = net.register_full_backward_hook(lambda m, gi, go: seen.append(1))
    with ex.no_grad():
        assert not net(ex.ones(2, requires_grad=True)).requires_grad
    loss = net(ex.ones(2, requires_grad=True)).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    assert len(seen) == 2
    handle.remove()
    net(ex.ones(2, requires_grad=True)).sum().backward()
    assert len(seen) == 2


def test_a_backward_hook_with_the_wrong_number_of_gradients_is_an_error():
    net = Scale()
    net.register_full_backward_hook(lambda m, gi, go: (gi[0], gi[0]))
    with pytest.raises(ShapeError, match="returned 2"):
        net(ex.ones(2, requires_grad=True)).sum().backward()


def test_backward_hooks_stand_second_derivatives_and_writes_in_place():
    net, seen = Scale(), []
    net.register_full_backward_hook(lambda m, gi, go: seen.append(1))
    x = ex.ones(2, requires_grad=True)
    (gradient,) = ex.autograd.grad(net(x).pow(3).sum(), x, create_graph=True)
    gradient.sum().backward()
    assert x.grad.tolist() == [48.0, 48.0]  # of 3 * (2 x)**2 * 2
    x.grad = None
    y = net(x)
    y += 1
    y.square_().sum().backward()
    assert x.grad.tolist() == [12.0, 12.0]
    assert len(seen) >= 2
    assert vmap(grad(lambda x: net(x).sum()))(ex.ones(3, 2)).tolist() == [[2.0, 2.0]] * 3


def test_hooks_of_all_modules_run_before_their_own():
    seen = []
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    own = net[1].register_forward_hook(lambda module, args, output: seen.append("own"))
    handles = [
        hooks.register_module_forward_pre_hook(lambda module, args: seen.append(f"before {type(module).__name__}")),
        hooks.register_module_forward_hook(lambda module, args, output: seen.append(f"after {type(module).__name__}")),
    ]
    net(ex.ones(1, 2))
    assert seen == [
        "before Sequential", "before Linear", "after Linear", "before Tanh", "after Tanh", "own", "after Sequential",
    ]  # fmt: skip
    for handle in handles:
        handle.remove()
    seen.clear()
    net(ex.ones(1, 2))
    assert seen == ["own"]
    own.remove()


def test_a_hook_of_all_modules_sees_gradients_and_leaves_no_trace_when_it_is_removed():
    seen = []
    net = nn.Linear(2, 1)
    x = ex.ones(1, 2, requires_grad=True)
    with (
        hooks.register_module_full_backward_hook(lambda module, inputs, outputs: seen.append(inputs[0].shape)),
        hooks.register_module_full_backward_pre_hook(lambda module, outputs: (2 * outputs[0],)),
    ):
        net(x).sum().backward()
    assert seen == [(1, 2)]
    assert x.grad.tolist() == (2 * net.weight).tolist()
    net.register_forward_hook(lambda module, args, output: 0 * output).remove()
    assert not net._call_hooks
    assert not hooks.EVERYWHERE.has_any()


def test_hooks_of_all_modules_leave_the_short_path_behind_when_they_go():
    layer, seen = nn.Identity(), []
    first = hooks.register_module_forward_hook(lambda *called: seen.append("after"))
    second = hooks.register_module_forward_pre_hook(lambda *called: seen.append("before"))
    layer(ex.ones(1))
    first.remove()
    layer(ex.ones(1))
    assert seen == ["before", "after", "before"]
    second.remove()
    second.remove()
    assert layer._call_hooks is None
    layer(ex.ones(1))
    with hooks.register_module_forward_pre_hook(lambda *called: seen.append("again")):
        layer(ex.ones(1))
    assert seen[3:] == ["again"]
    assert layer._call_hooks is None
