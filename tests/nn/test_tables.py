"""The tables of a module, which its attributes mirror."""

from __future__ import annotations

import copy
import gc
import weakref
from collections import OrderedDict

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import DtypeError
from extempo.nn.tables import Table

from .models import Net, Scale


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


# ---- tables that are replaced as a whole


def of(name, value):
    return {name: nn.Parameter(ex.full((2, 2), value)), "bias": None}


@pytest.mark.parametrize("make", [dict, OrderedDict])
def test_parameters_assigned_as_a_dict_are_those_of_forward_and_of_the_state(make):
    layer = nn.Linear(2, 2, bias=False)
    layer._parameters = make(of("weight", 3.0))
    assert layer(ex.ones(1, 2)).tolist() == [[6.0, 6.0]]
    assert [p.tolist() for p in layer.parameters()] == [[[3.0, 3.0], [3.0, 3.0]]]
    assert layer.state_dict()["weight"].tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert isinstance(layer._parameters, Table)


def test_names_that_a_new_table_lacks_are_attributes_no_longer():
    layer = nn.Linear(2, 2)
    layer._parameters = {"weight": layer.weight}
    with pytest.raises(AttributeError, match="no attribute 'bias'"):
        _ = layer.bias


def test_buffers_and_modules_can_be_replaced_as_well():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    net._modules = {"0": nn.Identity(), "last": nn.Identity()}
    assert net(ex.tensor([-1.0])).tolist() == [-1.0]
    assert [name for name, _ in net.named_children()] == ["0", "last"]
    assert net.last is net._modules["last"]
    norm = nn.BatchNorm1d(2).eval()
    norm._buffers = {**norm._buffers, "running_mean": ex.ones(2)}
    assert norm(ex.ones(1, 2)).abs().max() < 1e-6


def test_a_table_that_was_taken_out_is_a_plain_dict_until_it_comes_back():
    layer = nn.Linear(2, 2, bias=False)
    kept = layer._parameters
    layer._parameters = of("weight", 1.0)
    kept["weight"] = nn.Parameter(ex.full((2, 2), 5.0))
    assert layer.weight[0, 0] == 1.0
    layer._parameters = kept
    assert layer._parameters is kept
    assert layer.weight[0, 0] == 5.0
    kept["weight"] = nn.Parameter(ex.zeros(2, 2))
    assert layer.weight[0, 0] == 0.0


def test_entries_put_in_and_taken_out_of_a_table_are_attributes():
    layer = nn.Linear(2, 2)
    layer.__dict__["_parameters"]["weight"] = ex.full((2, 2), 2.0)  # no Parameter: swapped in for one forward
    del layer._parameters["bias"]
    layer._parameters["bias"] = None
    assert layer(ex.ones(1, 2)).tolist() == [[4.0, 4.0]]
    del layer._parameters["weight"]
    assert not hasattr(layer, "weight")


def test_a_clone_of_attributes_with_copied_tables_is_a_module_of_its_own():
    module = nn.Linear(2, 2)
    clone = module.__new__(type(module))
    clone.__dict__ = module.__dict__.copy()
    for table in ("_parameters", "_buffers", "_modules"):
        setattr(clone, table, getattr(clone, table).copy())
    for name, p in module._parameters.items():
        clone._parameters[name] = p.clone()
    assert clone.weight is not module.weight
    (clone(ex.ones(1, 2)) ** 2).sum().backward()
    assert module.weight.grad is not None


def test_a_table_that_is_no_dict_is_refused():
    with pytest.raises(DtypeError, match=r"Linear\._parameters: expected a dict of names, got list"):
        nn.Linear(2, 2)._parameters = []  # type: ignore[assignment]


class RestoresItself(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def __setstate__(self, state):
        self.__dict__ = state


def test_plain_dicts_that_a_class_restores_for_itself_are_its_tables():
    copied = copy.deepcopy(RestoresItself())
    assert copied.inner.weight.shape == (2, 2)
    assert isinstance(copied._modules, Table)


@pytest.mark.parametrize(
    "way", [ex.compile, lambda m: ex.compile(m, static=True), lambda m: lambda x: ex.batch(m)([x, x])[0]]
)
def test_compiled_static_and_batched_calls_notice_a_table_that_is_replaced(way):
    layer = nn.Linear(2, 2, bias=False)
    call, x = way(layer), ex.ones(1, 2)
    for value in (1.0, 2.0, 3.0, 1.0):
        for _ in range(3):
            layer._parameters = of("weight", value)
            assert call(x).tolist() == [[2 * value, 2 * value]]
        layer._parameters["weight"] = nn.Parameter(ex.full((2, 2), 7.0))
        assert call(x).tolist() == [[14.0, 14.0]]


@pytest.mark.parametrize("way", [ex.compile, lambda m: lambda x: ex.batch(m)([x, x])[0]])
def test_compiled_and_batched_calls_take_a_plain_tensor_swapped_in_for_a_parameter(way):
    layer = nn.Linear(2, 2, bias=False)
    call, x = way(layer), ex.ones(1, 2)
    before = layer._parameters["weight"]
    for _ in range(4):
        w = ex.full((2, 2), 2.0, requires_grad=True)
        layer._parameters["weight"] = w * 3
        call(x).sum().backward()
        layer._parameters["weight"] = before
        assert w.grad.tolist() == [[3.0, 3.0], [3.0, 3.0]]
        assert call(x).equal(x @ before.T)


def test_an_optimizer_that_follows_takes_the_parameters_of_a_new_table():
    layer = nn.Linear(2, 2, bias=False)
    optimizer = ex.optim.SGD(layer.parameters(), lr=1.0)
    optimizer.follow(layer)
    layer._parameters = of("weight", 1.0)
    layer(ex.ones(1, 2)).sum().backward()
    optimizer.step()
    assert layer.weight.tolist() == [[0.0, 0.0], [0.0, 0.0]]
