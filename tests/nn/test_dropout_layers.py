"""Dropout: random in training, the identity after `eval()`."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn


@pytest.mark.parametrize("kind", [nn.Dropout, nn.AlphaDropout, nn.FeatureAlphaDropout, nn.Dropout2d, nn.Dropout3d])
def test_dropout_is_the_identity_after_eval(kind):
    x = ex.randn(2, 3, 4, 4, 4)
    assert bool((kind(0.9).eval()(x) == x).all())
    assert not bool((kind(0.9)(x) == x).all())


def test_dropout_keeps_the_mean_and_can_overwrite():
    ex.manual_seed(0)
    x = ex.ones(10000)
    y = nn.Dropout(0.25, inplace=True)(x)
    assert y is x
    assert x.unique().tolist() == pytest.approx([0, 4 / 3])
    assert float(x.mean()) == pytest.approx(1, abs=0.05)
