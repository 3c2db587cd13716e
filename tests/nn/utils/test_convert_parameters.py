"""Parameters as one vector, and back."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ArgumentError, DtypeError, ShapeError
from extempo.nn import utils


def test_parameters_become_a_vector_and_take_values_from_one():
    net = nn.Linear(2, 3)
    vector = utils.parameters_to_vector(net.parameters())
    assert vector.shape == (9,)
    (vector * 2).sum().backward()
    assert net.weight.grad.tolist() == [[2.0, 2.0]] * 3
    weight = net.weight
    utils.vector_to_parameters(ex.arange(9.0), net.parameters())
    assert net.weight is weight
    assert net.weight.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    assert net.bias.tolist() == [6.0, 7.0, 8.0]
    assert weight.requires_grad
    for wrong in (ex.arange(8.0), ex.zeros(3, 3)):
        with pytest.raises(ShapeError, match="9 elements"):
            utils.vector_to_parameters(wrong, net.parameters())
    with pytest.raises(DtypeError):
        utils.vector_to_parameters([1.0], net.parameters())
    with pytest.raises(ArgumentError, match="a parameter at least"):
        utils.parameters_to_vector([])
