"""Module and Parameter: registration, traversal, conversion, copies, text, hooks."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import DtypeError, UnsupportedError
from extempo.func import functional_call, grad, stack_module_state, vmap

from .models import Net, Scale

# ---- Parameter and Buffer


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


# ---- hooks around backward


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


class ForgetsToReturn(nn.Module):
    def forward(self, x):
        x * 2


@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear(3, 2),
        nn.ReLU(),
        nn.Conv2d(3, 4, 3),
        nn.LSTM(3, 4),
        nn.Embedding(3, 4),
        nn.BatchNorm1d(3),
        nn.Dropout(),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_a_layer_that_gets_none_asks_for_the_forgotten_return(layer):
    told = f"{type(layer).__name__}: got None where a tensor was expected; did a forward before it forget to return"
    with pytest.raises(DtypeError, match=told):
        nn.Sequential(ForgetsToReturn(), layer)(ex.ones(2, 3))


@pytest.mark.parametrize(
    "loss", [nn.functional.cross_entropy, nn.functional.nll_loss, nn.functional.mse_loss, nn.CrossEntropyLoss()]
)
def test_a_loss_that_gets_none_asks_for_the_forgotten_return(loss):
    with pytest.raises(DtypeError, match="did a forward before it forget to return"):
        loss(ForgetsToReturn()(ex.ones(2, 3)), ex.tensor([0, 1]))


def test_modules_of_users_may_take_none_and_keep_their_own_errors():
    class Optional(nn.Module):
        def forward(self, x):
            return None if x is None else x.shape

    class Failing(nn.Module):
        def forward(self, x):
            raise AttributeError("mine")

    assert Optional()(None) is None
    with pytest.raises(AttributeError, match="mine"):
        Failing()(None)


def test_a_layer_that_cannot_take_an_array_asks_for_a_tensor():
    with pytest.raises(DtypeError, match=r"Conv2d: expected a tensor, got a NumPy array; pass ex\.from_numpy\(x\)"):
        nn.Conv2d(3, 4, 3)(np.zeros((1, 3, 8, 8), "float32"))
