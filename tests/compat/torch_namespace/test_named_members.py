"""Tensors of a module are taken out and put in by name."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.compat.torch_namespace.named_members import NamedMemberAccessor, set_tensor, swap_tensor


def test_a_plain_tensor_takes_the_place_of_a_parameter_and_goes_again():
    layer = nn.Linear(2, 1, bias=False)
    weight = layer.weight
    assert swap_tensor(layer, "weight", ex.ones(1, 2)) is weight
    assert layer(ex.ones(2)).item() == 2
    set_tensor(layer, "weight", weight)
    assert layer.weight is weight
    assert next(layer.parameters()) is weight


def test_names_reach_into_modules():
    net = nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1))
    members = NamedMemberAccessor(net)
    members.set_tensor("1.running_mean", ex.ones(1))
    assert net[1].running_mean.item() == members.get_tensor("1.running_mean").item() == 1
    assert members.swap_tensor("0.bias", ex.zeros(1)) is not net[0].bias
    assert dict(members.named_parameters()).keys() == dict(net.named_parameters()).keys()


def test_what_is_no_tensor_of_the_module_is_refused():
    layer = nn.Linear(2, 1)
    with pytest.raises(AttributeError, match="has no attribute 'wieght'"):
        swap_tensor(layer, "wieght", ex.ones(1))
    with pytest.raises(KeyError, match="must be one of the module itself"):
        swap_tensor(layer, "a.b", ex.ones(1))
    with pytest.raises(TypeError, match="is not a tensor"):
        swap_tensor(layer, "in_features", ex.ones(1))
    with pytest.raises(TypeError, match="not an instance"):
        swap_tensor(3, "weight", ex.ones(1))
