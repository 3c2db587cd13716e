"""Convolutions and their transposes as layers."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ShapeError


def test_a_transposed_convolution_gives_the_size_asked_for_or_says_what_it_can():
    layer = nn.ConvTranspose1d(2, 3, 3, stride=3)
    for size in (12, 13, 14):
        assert layer(ex.zeros(1, 2, 4), output_size=[size]).shape == (1, 3, size)
    with pytest.raises(ShapeError, match=r"ConvTranspose1d: output_size \(15,\) .* between \(12,\) and \(14,\)"):
        layer(ex.zeros(1, 2, 4), output_size=[15])
    with pytest.raises(ShapeError, match="must have 1 or 3 sizes"):
        layer(ex.zeros(1, 2, 4), output_size=[1, 1])


def test_layers_that_change_the_weight_can_use_the_convolution_alone():
    class Standardised(nn.Conv2d):
        def forward(self, input):
            return self._conv_forward(input, self.weight - self.weight.mean(), self.bias)

    x = ex.ones(1, 4, 4)
    assert Standardised(1, 1, 4, bias=False)(x).item() == pytest.approx(0, abs=1e-5)


def test_a_weight_of_another_size_decides_over_the_stated_one():
    layer = nn.Linear(5, 2)
    layer.weight = nn.Parameter(ex.ones(2, 3))
    assert layer(ex.ones(3)).shape == (2,)
