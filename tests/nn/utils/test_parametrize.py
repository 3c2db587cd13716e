"""Tensors of a module that are computed from others."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ArgumentError, DtypeError, ShapeError
from extempo.nn.utils import parametrizations, parametrize


class Symmetric(nn.Module):
    def forward(self, x: ex.Tensor) -> ex.Tensor:
        return x.triu() + x.triu(1).T


class Double(nn.Module):
    def forward(self, x: ex.Tensor) -> ex.Tensor:
        return 2 * x

    def right_inverse(self, x: ex.Tensor) -> ex.Tensor:
        return x / 2


class Cut(nn.Module):
    def forward(self, x: ex.Tensor) -> ex.Tensor:
        return x[:1]


def test_a_parametrized_tensor_is_computed_when_it_is_read():
    net = nn.Linear(3, 3)
    original = net.weight
    parametrize.register_parametrization(net, "weight", Symmetric())
    assert parametrize.is_parametrized(net)
    assert parametrize.is_parametrized(net, "weight")
    assert not parametrize.is_parametrized(net, "bias")
    assert ex.equal(net.weight, net.weight.T)
    assert list(net.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert net.parametrizations.weight.original is original
    net(ex.rand(2, 3)).sum().backward()
    assert original.grad is not None
    assert type(net) is parametrize.type_before_parametrizations(net) is nn.Linear
    before = net.weight.tolist()
    parametrize.remove_parametrizations(net, "weight")
    assert net.weight is original
    assert net.weight.tolist() == before
    assert list(net.state_dict()) == ["bias", "weight"]


def test_parametrizations_are_chained_and_assignment_goes_through_them():
    net = nn.Linear(2, 2)
    weight = net.weight.detach().clone()
    parametrize.register_parametrization(net, "weight", Double())
    assert ex.equal(net.weight, weight)
    parametrize.register_parametrization(net, "weight", Double())
    assert ex.equal(net.weight, weight)
    assert ex.equal(net.parametrizations.weight.original, weight / 4)
    net.weight = ex.ones(2, 2)
    assert net.parametrizations.weight.original.tolist() == [[0.25] * 2] * 2
    assert net.weight.tolist() == [[1.0] * 2] * 2
    with pytest.raises(ShapeError):
        net.weight = ex.ones(3, 3)
    parametrize.remove_parametrizations(net, "weight", leave_parametrized=False)
    assert net.weight.tolist() == [[0.25] * 2] * 2


def test_a_cached_block_computes_once():
    net = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Double())
    assert net.weight is not net.weight
    with parametrize.cached():
        kept = net.weight
        with parametrize.cached():
            assert net.weight is kept
        assert net.weight is kept
    assert net.weight is not kept


def test_buffers_can_be_parametrized():
    net = nn.Module()
    net.register_buffer("mean", ex.ones(2))
    parametrize.register_parametrization(net, "mean", Double())
    assert net.mean.tolist() == [1.0, 1.0]
    assert list(net.parameters()) == []
    parametrize.remove_parametrizations(net, "mean")
    assert net.get_buffer("mean").tolist() == [1.0, 1.0]


def test_a_parametrization_that_changes_the_shape_is_refused_and_leaves_no_trace():
    net = nn.Linear(2, 2)
    weight = net.weight.tolist()
    with pytest.raises(ShapeError, match="unsafe=True"):
        parametrize.register_parametrization(net, "weight", Cut())
    assert net.weight.tolist() == weight
    assert not parametrize.is_parametrized(net)
    parametrize.register_parametrization(net, "weight", Double())
    with pytest.raises(ShapeError, match="unsafe=True"):
        parametrize.register_parametrization(net, "weight", Cut())
    assert net.weight.tolist() == weight
    parametrize.register_parametrization(nn.Linear(2, 2), "weight", Cut(), unsafe=True)
    for wrong, kind in ((Double, DtypeError), (Double(), ArgumentError)):
        with pytest.raises(kind):
            parametrize.register_parametrization(nn.Linear(2, 2), "nothing", wrong)
    with pytest.raises(ArgumentError, match="not parametrized"):
        parametrize.remove_parametrizations(nn.Linear(2, 2), "weight")
    with pytest.raises(ArgumentError, match="no original"):
        parametrize.remove_parametrizations(parametrizations.weight_norm(nn.Linear(2, 2)), "weight", False)
