"""Pooling as layers."""

from __future__ import annotations

import extempo as ex
from extempo import nn


def test_max_unpool_undoes_max_pool():
    for n in (1, 2, 3):
        x = ex.rand(2, 3, *(4,) * n) + 1
        pooled, places = getattr(nn, f"MaxPool{n}d")(2, return_indices=True)(x)
        back = getattr(nn, f"MaxUnpool{n}d")(2)(pooled, places)
        assert back.shape == x.shape
        assert bool(((back == x) | (back == 0)).all())
        assert int((back != 0).sum()) == pooled.numel()


def test_fractional_pooling_draws_from_the_seed():
    layer, x = nn.FractionalMaxPool2d(2, output_ratio=(0.5, 0.75)), ex.randn(1, 1, 20, 20)
    ex.manual_seed(1)
    first = layer(x)
    ex.manual_seed(1)
    assert bool((layer(x) == first).all())
    assert first.shape == (1, 1, 10, 15)
