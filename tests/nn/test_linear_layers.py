"""Linear maps: of one input, of two, and none at all."""

from __future__ import annotations

import math

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ShapeError


def test_bilinear_starts_within_the_bound_of_its_first_input():
    ex.manual_seed(0)
    layer = nn.Bilinear(16, 3, 50)
    assert float(layer.weight.detach().abs().max()) <= 0.25
    assert float(layer.weight.detach().std()) == pytest.approx(0.25 / math.sqrt(3), rel=0.05)


def test_bilinear_names_both_inputs_that_came():
    with pytest.raises(ShapeError, match=r"Bilinear: .*in1_features=2.*in2_features=3.*\(4, 3\) and \(4, 3\)"):
        nn.Bilinear(2, 3, 1)(ex.zeros(4, 3), ex.zeros(4, 3))


def test_linear_maps_the_last_dimension_with_or_without_bias():
    layer = nn.Linear(2, 1)
    with ex.no_grad():
        layer.weight.copy_(ex.tensor([[2.0, 3.0]]))
        layer.bias.fill_(1.0)
    assert layer(ex.ones(4, 5, 2))[3, 4].tolist() == [6.0]
    assert layer(ex.zeros(0, 2)).shape == (0, 1)
    assert nn.Linear(2, 1, bias=False).bias is None
    assert repr(layer) == "Linear(in_features=2, out_features=1, bias=True)"


def test_identity_takes_any_arguments_and_returns_its_input_itself():
    x = ex.ones(2)
    assert nn.Identity(54, unused=True)(x) is x
