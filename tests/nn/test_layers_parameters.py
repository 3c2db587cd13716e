"""Layers with parameters: how they start, what they refuse, what they keep."""

from __future__ import annotations

import copy
import pickle

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ArgumentError, ShapeError, UnsupportedError


def test_the_same_seed_gives_the_same_weights():
    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(3, 4), nn.Conv1d(2, 3, 2), nn.Embedding(5, 2))

    ex.manual_seed(3)
    first = make().state_dict()
    ex.manual_seed(3)
    second = make().state_dict()
    ex.manual_seed(4)
    third = make().state_dict()
    assert all(bool((first[key] == second[key]).all()) for key in first)
    assert not any(bool((first[key] == third[key]).all()) for key in first)


FACTORIES = [
    lambda **given: nn.Linear(3, 2, **given),
    lambda **given: nn.Bilinear(3, 2, 4, **given),
    lambda **given: nn.Embedding(3, 2, **given),
    lambda **given: nn.EmbeddingBag(3, 2, **given),
    lambda **given: nn.Conv2d(3, 2, 2, **given),
    lambda **given: nn.ConvTranspose3d(3, 2, 2, **given),
    lambda **given: nn.BatchNorm2d(3, **given),
    lambda **given: nn.InstanceNorm1d(3, affine=True, track_running_stats=True, **given),
    lambda **given: nn.LayerNorm(3, **given),
    lambda **given: nn.RMSNorm(3, **given),
    lambda **given: nn.GroupNorm(1, 3, **given),
    lambda **given: nn.PReLU(3, **given),
    lambda **given: nn.LazyLinear(3, **given),
    lambda **given: nn.AdaptiveLogSoftmaxWithLoss(8, 5, [2], **given),
    lambda **given: nn.LinearCrossEntropyLoss(3, 2, **given),
]


@pytest.mark.parametrize("make", FACTORIES)
def test_factory_arguments_reach_every_parameter(make):
    layer = make(dtype=ex.float64, device="cpu")
    floating = [t for t in layer.state_dict().values() if t.is_floating_point()]
    assert floating
    assert all(t.dtype is ex.float64 for t in floating)


@pytest.mark.parametrize("make", FACTORIES)
def test_layers_pickle_and_deepcopy(make):
    layer = make()
    for twin in (pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer)):
        assert repr(twin) == repr(layer)
        state, other = layer.state_dict(), twin.state_dict()
        assert list(state) == list(other)
        assert all(bool((state[key] == other[key]).all()) for key in state)


# ---- errors


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Conv2d(3, 4, 2, groups=2),
        lambda: nn.Conv2d(2, 3, 2, groups=2),
        lambda: nn.Conv2d(2, 2, 2, groups=0),
        lambda: nn.Conv2d(2, 2, (2, 2, 2)),
        lambda: nn.Conv2d(2, 2, 2, padding="half"),
        lambda: nn.Conv2d(2, 2, 2, padding="same", stride=2),
        lambda: nn.Conv2d(2, 2, 2, padding_mode="mirror"),
        lambda: nn.ConvTranspose2d(2, 2, 2, padding_mode="reflect"),
        lambda: nn.ConvTranspose2d(2, 2, 2, padding="same"),
        lambda: nn.GroupNorm(3, 4),
        lambda: nn.Bilinear(0, 2, 2),
        lambda: nn.Dropout(1.5),
        lambda: nn.Hardtanh(1.0, -1.0),
        lambda: nn.FractionalMaxPool2d(2),
        lambda: nn.FractionalMaxPool2d(2, output_ratio=1.5),
        lambda: nn.Embedding(2, 3, _weight=ex.zeros(3, 2)),
        lambda: nn.Embedding.from_pretrained(ex.zeros(3)),
        lambda: nn.TripletMarginLoss(margin=0.0),
        lambda: nn.MultiMarginLoss(p=3),
        lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 5, [3, 2]),
        lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 5, [5]),
        lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 5, []),
    ],
)
def test_impossible_arguments_are_refused_when_the_layer_is_made(make):
    with pytest.raises((ArgumentError, ShapeError)):
        make()


def test_layers_that_have_no_place_here_say_what_to_use():
    with pytest.raises(UnsupportedError, match="LocalResponseNorm"):
        nn.CrossMapLRN2d(3)


# ---- embeddings


# ---- running statistics


# ---- layers that find their size
