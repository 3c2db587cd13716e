"""Norms over dimensions of a sample's own size."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn

from .sizes import agrees, drawn, forms

F = nn.functional


def sequence(rng, n):
    return drawn(rng, 4, n + 1)


def image(rng, n):
    return drawn(rng, 1, 4, n + 1, 2 * n)


@pytest.mark.parametrize(
    ("layer", "make"),
    [
        (nn.InstanceNorm1d(4), sequence),
        (nn.InstanceNorm1d(4, affine=True), sequence),
        (nn.InstanceNorm2d(4, affine=True), image),
        (nn.GroupNorm(2, 4), image),
        (nn.GroupNorm(1, 4, affine=False), image),
    ],
)
def test_norms_of_own_sequences_and_images_are_one_batch(layer, make):
    def fn(x):
        return layer(x * 1.0).exp()

    assert forms(agrees(fn, make, layer.parameters()))["standardize"] == ["NormForm"]


def test_statistics_have_gradients_as_well():
    def fn(x):
        return F.layer_norm(x * 1.0, x.shape) * x.sum(), x.T

    assert forms(agrees(fn, sequence))["standardize"] == ["NormForm"]


def test_mean_squares_over_all_of_a_sample():
    agrees(lambda x: F.rms_norm(x * 1.0, x.shape), sequence)


def test_weights_may_be_frozen():
    layer = nn.GroupNorm(2, 4).requires_grad_(False)
    with ex.no_grad():
        assert forms(agrees(lambda x: layer(x * 1.0), image))["standardize"] == ["NormForm"]


def test_norms_over_features_go_by_rows():
    layer = nn.LayerNorm(3)
    found = forms(agrees(lambda x: layer(x * 1.0), lambda rng, n: drawn(rng, n, 3), layer.parameters()))
    assert "NormForm" not in found.get("standardize", [])
