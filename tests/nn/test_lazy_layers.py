"""Layers that wait for the size of their input."""

from __future__ import annotations

import copy

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ShapeError

from .models import fan_in_bound


def test_lazy_layers_become_plain_at_the_first_call():
    layer = nn.LazyConv2d(4, 3, groups=2)
    assert isinstance(layer, nn.Conv2d)
    weight = layer.weight
    assert layer(ex.zeros(6, 5, 5)).shape == (4, 3, 3)
    assert type(layer) is nn.Conv2d
    assert layer.in_channels == 6
    assert layer.weight is weight
    assert weight.shape == (4, 3, 3, 3)
    assert float(weight.detach().abs().max()) <= fan_in_bound(weight)


def test_lazy_layers_keep_dtype_and_mode_set_before():
    layer = nn.LazyBatchNorm1d().double().eval()
    layer(ex.zeros(2, 3, dtype=ex.float64))
    assert layer.weight.dtype is ex.float64
    assert not layer.training
    assert layer.running_var.tolist() == [1, 1, 1]


def test_lazy_layers_take_their_size_from_a_state():
    net = nn.Sequential(nn.LazyConv1d(4, 2, groups=2), nn.LazyLinear(3))
    plain = nn.Sequential(nn.Conv1d(6, 4, 2, groups=2), nn.Linear(5, 3))
    net.load_state_dict(plain.state_dict())
    assert repr(net) == repr(plain)
    x = ex.randn(1, 6, 6)
    assert bool((net(x) == plain(x)).all())


def test_a_lazy_layer_waits_after_an_input_that_does_not_fit():
    layer = nn.LazyConv1d(4, 2, groups=2)
    for wrong in (ex.zeros(3, 5), ex.zeros(5)):
        with pytest.raises(ShapeError, match="LazyConv1d"):
            layer(wrong)
    assert layer(ex.zeros(2, 5)).shape == (4, 4)


def test_weights_of_lazy_layers_say_that_they_have_no_shape_yet():
    layer = nn.LazyConv2d(4, 3)
    copied = copy.deepcopy(layer)
    assert [nn.parameter.is_lazy(p) for p in (layer.weight, layer.bias, copied.weight)] == [True, False, True]
    weight = layer.weight
    layer(ex.zeros(1, 2, 5, 5))
    assert layer.weight is weight
    assert type(weight) is nn.Parameter
    assert nn.parameter.is_lazy(copied.weight)
