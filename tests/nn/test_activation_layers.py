"""Activations as layers."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn


@pytest.mark.parametrize("kind", [nn.ReLU, nn.ReLU6, nn.SELU, nn.SiLU, nn.Mish, nn.Hardsigmoid, nn.Hardswish, nn.ELU])
def test_inplace_activations_write_over_their_input(kind):
    x = ex.tensor([-1.0, 2.0])
    expected = kind()(x).tolist()
    assert x.tolist() == [-1.0, 2.0]
    assert kind(inplace=True)(x) is x
    assert x.tolist() == expected


def test_a_softmax_without_dim_shows_none():
    assert repr(nn.Softmax()) == "Softmax(dim=None)"
    assert (
        repr(nn.Upsample(scale_factor=(2, 3), mode="bilinear")) == "Upsample(scale_factor=(2.0, 3.0), mode='bilinear')"
    )
    assert repr(nn.ConstantPad1d(1, 2.5)) == "ConstantPad1d(padding=(1, 1), value=2.5)"
    assert repr(nn.ZeroPad1d(1)) == "ZeroPad1d((1, 1))"
