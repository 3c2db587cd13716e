"""Module and Parameter: registration, traversal, conversion, copies, text, hooks."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import DtypeError, ShapeError, UnsupportedError
from extempo.func import functional_call, grad, stack_module_state, vmap


class Scale(nn.Module):
    def __init__(self, size: int = 2) -> None:
        super().__init__()
        self.weight = nn.Parameter(ex.full((size,), 2.0))
        self.register_buffer("seen", ex.zeros(1))
        self.register_buffer("scratch", ex.zeros(1), persistent=False)

    def forward(self, x: ex.Tensor, times: int = 1) -> ex.Tensor:
        return x * self.weight * times


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Scale()
        self.second = Scale()
        self.shared = self.first

    def forward(self, x: ex.Tensor) -> ex.Tensor:
        return self.second(self.first(x))


# ---- Parameter and Buffer


def test_a_parameter_shares_memory_with_its_tensor_and_is_a_leaf():
    data = ex.zeros(2)
    p = nn.Parameter(data)
    data.fill_(3.0)
    assert p.tolist() == [3.0, 3.0]
    assert p.requires_grad
    assert p.is_leaf
    assert not nn.Parameter(data, requires_grad=False).requires_grad


def test_a_parameter_of_a_computed_tensor_is_cut_from_its_graph():
    x = ex.ones(2, requires_grad=True)
    p = nn.Parameter(x * 2)
    (p * 3).sum().backward()
    assert x.grad is None
    assert p.grad.tolist() == [3.0, 3.0]


def test_ops_on_parameters_give_plain_tensors():
    p = nn.Parameter(ex.ones(2))
    for result in (p + 1, p.detach(), p.data, p.clone(), p[0], p.exp(), 2 * p, p @ p):
        assert type(result) is ex.Tensor


def test_writing_to_the_tensor_behind_a_parameter_is_noticed_by_backward():
    data = ex.ones(2)
    p = nn.Parameter(data)
    loss = (p * p).sum()
    data.add_(1.0)
    with pytest.raises(RuntimeError, match=r"in place|changed"):
        loss.backward()


def test_a_parameter_copies_without_gradient_and_pickles():
    p = nn.Parameter(ex.tensor([1.0, 2.0]), requires_grad=True)
    p.sum().backward()
    p.tag = "kept"
    copied, restored = copy.deepcopy(p), pickle.loads(pickle.dumps(p))
    for q in (copied, restored):
        assert type(q) is nn.Parameter
        assert q.requires_grad
        assert q.tag == "kept"
        assert q.tolist() == [1.0, 2.0]
    assert copied.grad is None
    copied.data.fill_(0.0)
    assert p.tolist() == [1.0, 2.0]


def test_wrong_parameters_are_refused_with_advice():
    with pytest.raises(DtypeError, match=r"nn\.Parameter\(ex\.tensor"):
        nn.Parameter([1.0])
    with pytest.raises(DtypeError, match="requires_grad=False"):
        nn.Parameter(ex.tensor([1]))
    assert nn.Parameter(ex.tensor([1]), requires_grad=False).dtype is ex.int64
    assert nn.Parameter().shape == (0,)


def test_a_buffer_registers_itself_and_can_stay_out_of_the_state():
    module = nn.Module()
    module.kept = nn.Buffer(ex.zeros(2))
    module.dropped = nn.Buffer(ex.zeros(2), persistent=False)
    assert [name for name, _ in module.named_buffers()] == ["kept", "dropped"]
    assert list(module.state_dict()) == ["kept"]
    module.kept = ex.ones(3)
    assert module.get_buffer("kept").tolist() == [1.0, 1.0, 1.0]


# ---- registration and attributes


def test_attributes_before_init_are_an_error_that_names_the_cause():
    class Early(nn.Module):
        def __init__(self) -> None:
            self.weight = nn.Parameter(ex.ones(1))
            super().__init__()

    class Never(nn.Module):
        def __init__(self) -> None:
            self.number = 3

    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\)"):
        Early()
    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\)"):
        _ = Never().weight
    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\)"):
        Never().child = nn.Module()
    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\)"):
        Never().register_buffer("b", None)


def test_registered_names_keep_their_kind():
    m = Scale()
    with pytest.raises(DtypeError, match="as parameter 'weight'"):
        m.weight = ex.ones(2)
    with pytest.raises(TypeError, match="as buffer 'seen'"):
        m.seen = 3
    n = Net()
    with pytest.raises(DtypeError, match="as module 'first'"):
        n.first = 3
    m.weight = None
    assert list(m.parameters()) == []
    m.weight = nn.Parameter(ex.ones(5))
    assert m.weight.shape == (5,)
    n.first = None
    assert [name for name, _ in n.named_children()] == ["second", "shared"]


def test_a_name_moves_when_it_is_given_another_kind_of_value():
    m = nn.Module()
    m.part = 3
    m.part = nn.Parameter(ex.ones(1))
    assert list(dict(m.named_parameters())) == ["part"]
    m.part = nn.Module()
    assert list(dict(m.named_parameters())) == []
    assert list(dict(m.named_children())) == ["part"]
    m.part = nn.Buffer(ex.ones(1), persistent=False)
    assert list(dict(m.named_buffers())) == ["part"]
    assert list(m.state_dict()) == []
    m.part = nn.Parameter(ex.ones(1))
    assert list(m.state_dict()) == ["part"]
    del m.part
    assert not hasattr(m, "part")
    m.part = ex.ones(1)
    assert list(m.state_dict()) == []


def test_names_are_checked_when_they_are_registered():
    m = nn.Module()
    for name in ("a.b", ""):
        with pytest.raises(KeyError):
            m.register_parameter(name, None)
    with pytest.raises(KeyError, match="already"):
        m.register_buffer("forward", ex.ones(1))
    with pytest.raises(TypeError, match="a name is a str"):
        m.add_module(3, nn.Module())
    with pytest.raises(TypeError, match="must be a Module"):
        m.add_module("x", 3)
    with pytest.raises(TypeError, match=r"nn\.Parameter or None"):
        m.register_parameter("x", ex.ones(1))
    with pytest.raises(TypeError, match="must be a tensor"):
        m.register_buffer("x", 3)


def test_deleting_takes_a_name_out_everywhere():
    m = Scale()
    del m.weight, m.scratch
    assert list(m.parameters()) == []
    assert [name for name, _ in m.named_buffers()] == ["seen"]
    with pytest.raises(AttributeError):
        _ = m.weight
    with pytest.raises(AttributeError):
        del m.weight


def test_the_tables_and_the_attributes_are_one():
    m = Scale()
    other = ex.zeros(2)
    m._parameters["weight"] = other
    assert m.weight is other
    popped = m._buffers.pop("seen")
    assert isinstance(popped, ex.Tensor)
    assert not hasattr(m, "seen")
    m._buffers.update(late=ex.ones(1))
    m._modules |= {"child": nn.Module()}
    assert m.late.tolist() == [1.0]
    assert isinstance(m.child, nn.Module)
    assert m._buffers.setdefault("late") is m.late
    name, value = m._modules.popitem()
    assert (name, type(value)) == ("child", nn.Module)
    assert m._buffers.pop("nothing", 5) == 5
    m._buffers.clear()
    assert not hasattr(m, "late")


def test_a_module_goes_away_without_a_garbage_collection():
    gc.collect()
    gc.disable()
    try:
        m = Net()
        gone = weakref.ref(m)
        del m
        assert gone() is None
    finally:
        gc.enable()


def test_dir_lists_what_is_registered():
    names = dir(Scale())
    assert {"weight", "seen", "forward"} <= set(names)
    assert "0" not in dir(nn.Sequential(Scale()))


def test_an_unknown_attribute_is_named_with_its_module():
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'frist'"):
        _ = Net().frist


# ---- traversal


def test_names_are_dotted_and_shared_parts_come_once():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["first.weight", "second.weight"]
    assert [n for n, _ in net.named_parameters(prefix="net")] == ["net.first.weight", "net.second.weight"]
    everything = [n for n, _ in net.named_parameters(remove_duplicate=False)]
    assert everything == ["first.weight", "second.weight", "shared.weight"]
    assert list(net.named_parameters(recurse=False)) == []
    assert [n for n, _ in net.named_buffers()] == ["first.seen", "first.scratch", "second.seen", "second.scratch"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "second"]
    assert [n for n, _ in net.named_modules(remove_duplicate=False)] == ["", "first", "second", "shared"]
    assert [n for n, _ in net.named_children()] == ["first", "second"]
    assert len(list(net.modules())) == 3
    assert len(list(net.children())) == 2
    assert len(list(net.parameters())) == 2
    assert len(list(net.buffers())) == 4


def test_parts_are_found_and_replaced_by_dotted_names():
    net = nn.Sequential(Net())
    assert net.get_submodule("0.first") is net[0].first
    assert net.get_submodule("") is net
    assert net.get_parameter("0.first.weight") is net[0].first.weight
    assert net.get_buffer("0.first.seen") is net[0].first.seen
    net.set_submodule("0.second", nn.Identity())
    assert isinstance(net[0].second, nn.Identity)
    for wrong in (
        lambda: net.get_submodule("0.third"),
        lambda: net.get_parameter("0.first.bias"),
        lambda: net.get_buffer("0.first.weight"),
        lambda: net.set_submodule("0.third", nn.Identity(), strict=True),
    ):
        with pytest.raises(AttributeError):
            wrong()


def test_apply_visits_children_first():
    net, seen = Net(), []
    assert net.apply(lambda m: seen.append(m)) is net
    assert seen == [net.first, net.second, net]


# ---- the whole tree


def test_train_and_eval_reach_every_module():
    net = Net()
    assert net.eval() is net
    assert not any(m.training for m in net.modules())
    assert all(m.training for m in net.train().modules())
    with pytest.raises(TypeError):
        net.train("yes")


def test_requires_grad_freezes_and_zero_grad_forgets():
    net = Net()
    net(ex.ones(2)).sum().backward()
    gradient = net.first.weight.grad
    net.zero_grad(set_to_none=False)
    assert net.first.weight.grad.tolist() == [0.0, 0.0]
    assert gradient is not None
    net.zero_grad()
    assert net.first.weight.grad is None
    net.requires_grad_(False)
    assert not net(ex.ones(2)).requires_grad


def test_conversion_keeps_parameter_objects_and_their_gradients():
    net = Net()
    net(ex.ones(2)).sum().backward()
    before = net.first.weight
    net.first.register_buffer("count", ex.tensor(3))
    assert net.double() is net
    assert net.first.weight is before
    assert before.dtype is before.grad.dtype is net.first.seen.dtype is ex.float64
    assert net.first.count.dtype is ex.int64
    net.zero_grad()
    net(ex.ones(2, dtype=ex.float64)).sum().backward()
    assert before.grad.dtype is ex.float64
    for convert, expected in (
        (lambda: net.half(), ex.float16),
        (lambda: net.bfloat16(), ex.bfloat16),
        (lambda: net.float(), ex.float32),
        (lambda: net.to(ex.float64), ex.float64),
        (lambda: net.to("cpu", ex.float32), ex.float32),
        (lambda: net.to(ex.zeros(1, dtype=ex.float16)), ex.float16),
        (lambda: net.to(device="cpu", dtype=ex.float32, non_blocking=True), ex.float32),
        (lambda: net.to(ex.device("cpu")), ex.float32),
    ):
        convert()
        assert before.dtype is expected
    net.type(ex.float64)
    assert net.first.count.dtype is ex.float64
    assert net.cpu() is net


def test_impossible_conversions_are_refused():
    net = Net()
    for wrong in (lambda: net.cuda(), lambda: net.to("cuda"), lambda: net.share_memory()):
        with pytest.raises(UnsupportedError):
            wrong()
    for wrong in (lambda: net.to(ex.int64), lambda: net.to(3), lambda: net.to(ex.float32, dtype=ex.float32)):
        with pytest.raises(TypeError):
            wrong()
    assert net.first.weight.dtype is ex.float32


def test_memory_format_reorders_only_images():
    net = nn.Module()
    net.image = nn.Parameter(ex.arange(24.0).reshape(1, 2, 3, 4))
    net.vector = nn.Parameter(ex.ones(3))
    net.to(memory_format=ex.channels_last)
    assert net.image.is_contiguous(memory_format=ex.channels_last)
    assert net.image.flatten().tolist() == list(range(24))


def test_to_empty_keeps_shapes():
    net = Net()
    before = net.first.weight
    net.to_empty(device="cpu")
    assert net.first.weight is before
    assert before.shape == (2,)


def test_forward_must_be_defined():
    with pytest.raises(NotImplementedError, match='"forward"'):
        nn.Module()(1)


# ---- copies


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_keep_sharing_inside_and_share_nothing_with_the_original(duplicate):
    net = Net()
    net.eval()
    net.note = "kept"
    other = duplicate(net)
    assert other.shared is other.first
    assert other.first is not net.first
    assert other.first.weight is other.first._parameters["weight"]
    assert type(other.first.weight) is nn.Parameter
    assert not other.training
    assert other.note == "kept"
    assert list(other.state_dict()) == list(net.state_dict())
    with ex.no_grad():
        other.first.weight.fill_(7.0)
    assert net.first.weight.tolist() == [2.0, 2.0]
    other.first._parameters["weight"] = ex.zeros(2)
    assert other.first.weight.tolist() == [0.0, 0.0]


def test_a_shallow_copy_shares_tensors_but_not_tables():
    net = Scale()
    other = copy.copy(net)
    assert other.weight is net.weight
    other.extra = nn.Parameter(ex.ones(1))
    assert not hasattr(net, "extra")


def test_a_computed_tensor_kept_as_attribute_is_copied_without_its_history():
    net = Scale()
    net.last = net(ex.ones(2))
    other = copy.deepcopy(net)
    assert other.last.tolist() == [2.0, 2.0]
    assert not other.last.requires_grad
    assert net.last.requires_grad


# ---- text


def test_the_text_of_a_module_is_indented_by_depth():
    class Named(nn.Module):
        def extra_repr(self) -> str:
            return "a=1"

    outer = Named()
    outer.inner = nn.Sequential(Named())
    assert repr(Named()) == "Named(a=1)"
    assert repr(outer) == "Named(\n  a=1\n  (inner): Sequential(\n    (0): Named(a=1)\n  )\n)"
    assert repr(nn.Module()) == "Module()"


# ---- hooks around forward


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


# ---- hooks around backward


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


# ---- as functions


def test_functional_call_swaps_tensors_and_puts_them_back():
    net = Net()
    before = net.first.weight
    out = functional_call(net, {"first.weight": ex.full((2,), 5.0)}, (ex.ones(2),))
    assert out.tolist() == [10.0, 10.0]
    assert net.first.weight is before is net.shared.weight

    def loss(weights):
        return functional_call(net, weights, (ex.ones(2),)).sum()

    gradients = grad(loss)({name: p.detach() for name, p in net.named_parameters()})
    assert gradients["first.weight"].tolist() == [2.0, 2.0]


def test_an_ensemble_is_stacked_and_mapped():
    nets = [Scale() for _ in range(3)]
    for i, net in enumerate(nets):
        net.weight.data.fill_(float(i))
    parameters, buffers = stack_module_state(nets)
    out = vmap(lambda p, b: functional_call(nets[0], (p, b), (ex.ones(2),)))(parameters, buffers)
    assert out.tolist() == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]


def test_a_module_can_change_between_two_steps():
    net = nn.Sequential(Scale(), Scale())
    x = ex.ones(2)
    net(x).sum().backward()
    net.append(Scale())
    del net[0]
    net[0].weight = nn.Parameter(ex.full((2,), 3.0))
    assert net(x).tolist() == [6.0, 6.0]
    net.zero_grad()
    net(x).sum().backward()
    assert all(p.grad is not None for p in net.parameters())


# ---- beside PyTorch


@pytest.mark.filterwarnings("ignore:Full backward hook")
def test_the_text_and_the_gradients_in_hooks_equal_pytorch():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")

    def build(nn_):
        return nn_.Sequential(nn_.Linear(3, 4), nn_.ModuleDict({"a": nn_.Identity()})["a"], nn_.Linear(4, 2))

    ours, theirs = build(nn), build(torch.nn)
    assert repr(ours) == repr(theirs)
    ours.load_state_dict(theirs.state_dict())
    seen: dict[str, list] = {"ours": [], "theirs": []}
    for key, net in (("ours", ours), ("theirs", theirs)):
        for m in net:
            m.register_full_backward_hook(lambda m, gi, go, key=key: seen[key].append((gi, go)))
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    ours(ex.tensor(x)).square().sum().backward()
    theirs(torch.tensor(x)).square().sum().backward()
    assert len(seen["ours"]) == len(seen["theirs"]) == 3
    for mine, other in zip(seen["ours"], seen["theirs"], strict=True):
        for a, b in zip((*mine[0], *mine[1]), (*other[0], *other[1]), strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


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
