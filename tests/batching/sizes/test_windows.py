"""Convolution and pooling of sequences and images of a sample's own size."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.batching.sizes import windows

from .sizes import agrees, drawn, forms

F = nn.functional


def sequence(rng, n):
    return drawn(rng, 2, n + 3)


def image(rng, n):
    return drawn(rng, 2, n + 3, 2 * n + 2)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv1d(2, 3, 3),
        nn.Conv1d(2, 3, 3, padding=1, bias=False),
        nn.Conv1d(2, 4, 2, stride=2, padding=1, groups=2),
        nn.Conv1d(2, 3, 3, dilation=2, padding=2, stride=3),
        nn.ConvTranspose1d(2, 3, 3, stride=2, padding=1, output_padding=1),
        nn.ConvTranspose1d(2, 4, 2, groups=2, dilation=3),
    ],
)
@pytest.mark.parametrize("with_batch", [False, True])
def test_convolutions_along_own_sequences_are_one_batch(layer, with_batch):
    def fn(x):
        y = x * 1.0
        return layer(y[None])[0] if with_batch else layer(y)

    found = forms(agrees(fn, sequence, layer.parameters()))
    assert found["conv_transpose" if isinstance(layer, nn.ConvTranspose1d) else "conv"] == ["WindowForm"]


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(2, 3, 3, padding=1),
        nn.Conv2d(2, 4, (2, 3), stride=(2, 1), padding=(0, 2), dilation=(1, 2), groups=2),
        nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1),
    ],
)
def test_convolutions_of_own_images_are_one_batch(layer):
    def fn(x):
        return layer(x * 1.0).relu()

    found = forms(agrees(fn, image, layer.parameters()))
    assert found["conv_transpose" if isinstance(layer, nn.ConvTranspose2d) else "conv"] == ["WindowForm"]


@pytest.mark.parametrize(
    ("pool", "make", "op"),
    [
        (lambda x: F.max_pool1d(x, 2), sequence, "max_pool"),
        (lambda x: F.max_pool1d(x, 3, 2, 1, ceil_mode=True), sequence, "max_pool"),
        (lambda x: list(F.max_pool1d(x, 3, 1, 1, return_indices=True)), sequence, "max_pool"),
        (lambda x: F.avg_pool1d(x, 2), sequence, "avg_pool"),
        (lambda x: F.avg_pool1d(x, 3, 2, 1, count_include_pad=False), sequence, "avg_pool"),
        (lambda x: F.avg_pool1d(x, 3, 2, 1, ceil_mode=True), sequence, "avg_pool"),
        (lambda x: F.max_pool2d(x, 2), image, "max_pool"),
        (lambda x: list(F.max_pool2d(x, (2, 3), (1, 2), (1, 0), return_indices=True)), image, "max_pool"),
        (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), image, "avg_pool"),
        (lambda x: F.avg_pool2d(x, 2, divisor_override=3), image, "avg_pool"),
    ],
)
def test_pools_of_own_sizes_are_one_batch(pool, make, op):
    assert forms(agrees(lambda x: pool(x * 1.0), make))[op] == ["WindowForm"]


def test_large_images_have_canvases_of_their_own(monkeypatch):
    monkeypatch.setattr(windows, "_LARGE", 1_500)
    layer = nn.Conv2d(2, 3, 3, padding=1)
    agrees(lambda x: layer(x * 1.0), image, layer.parameters())


def test_a_sequence_of_nothing_goes_by_itself():
    layer = nn.Conv1d(2, 3, 3, padding=3)
    agrees(lambda x: layer(x[:, 3:] * 1.0), sequence, layer.parameters(), lengths=[(0, 3, 2), (1, 0, 4)])


def test_weights_may_be_computed_and_frozen():
    weight, frozen = ex.ones(3, 2, 3, requires_grad=True), ex.ones(3)

    def fn(x):
        return F.conv1d(x * 1.0, weight * 2.0, frozen)

    agrees(fn, sequence, [weight])
    with ex.no_grad():
        agrees(fn, sequence)


def test_samples_with_weights_of_their_own_are_each_given_theirs():
    def fn(x, w):
        return F.conv1d(x * 1.0, w * 1.0)

    agrees(fn, lambda rng, n: (drawn(rng, 2, n + 3), drawn(rng, 3, 2, 3)))


def test_what_is_not_finite_stays_in_its_sample():
    samples = [ex.ones(2, 5), ex.full((2, 6), float("nan")), ex.ones(2, 7)]
    for made in (ex.batch(lambda x: F.conv1d(x * 1.0, ex.ones(1, 2, 3), padding=1))(samples) for _ in range(2)):
        assert [bool(np.isnan(y.numpy()).any()) for y in made] == [False, True, False]
