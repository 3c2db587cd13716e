"""Layers that start as the identity, and those that cannot."""

from __future__ import annotations

import warnings

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ArgumentError
from extempo.nn.identity_start import start_as_identity


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(4, 4), (3, 4)),
        (nn.Linear(4, 4, bias=False), (3, 4)),
        (nn.Conv1d(4, 4, 3, padding=1), (2, 4, 6)),
        (nn.Conv2d(4, 4, (3, 5), padding="same"), (2, 4, 6, 7)),
        (nn.Conv2d(4, 4, 3, padding=2, dilation=2, groups=2), (2, 4, 6, 7)),
        (nn.Conv2d(4, 4, 1, padding="valid"), (2, 4, 6, 7)),
        (nn.Conv3d(2, 2, 3, padding=1, padding_mode="circular"), (1, 2, 4, 4, 4)),
        (nn.PReLU(), (3, 4)),
        (nn.Identity(), (3, 4)),
        (nn.Dropout(0.5), (3, 4)),
        (nn.Sequential(nn.Linear(4, 4), nn.PReLU(), nn.Linear(4, 4)), (3, 4)),
        (nn.TransformerEncoderLayer(4, 2, 8, norm_first=True, batch_first=True), (2, 5, 4)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_layer_that_can_passes_its_input_on(layer, shape):
    x = ex.randn(*shape)
    assert start_as_identity(layer) == ""
    assert ex.equal(layer.eval()(x), x)


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (nn.Linear(4, 3), "4 features in and 3 out differ"),
        (nn.Conv2d(4, 2, 3, padding=1), "4 channels in and 2 out differ"),
        (nn.Conv2d(4, 4, 3), "it changes sizes"),
        (nn.Conv2d(4, 4, 3, padding=1, stride=2), "it changes sizes"),
        (nn.Conv2d(4, 4, 2, padding="same"), "it changes sizes"),
        (nn.ReLU(), "what is negative becomes 0"),
        (nn.LayerNorm(4), "whatever its weights are"),
        (nn.BatchNorm1d(4), "whatever its weights are"),
        (nn.GRU(4, 4), "whatever its weights are"),
        (nn.Sequential(nn.Linear(4, 4), nn.ReLU()), "ReLU: what is negative"),
        (nn.TransformerEncoderLayer(4, 2, 8), "norm_first=True"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_layer_that_cannot_says_why_and_keeps_its_weights(layer, why):
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    assert why in start_as_identity(layer)
    assert all(ex.equal(value, before[name]) for name, value in layer.state_dict().items())


def test_relu_is_the_identity_behind_relu_and_layers_that_changed_nothing():
    fresh = nn.Linear(4, 4)
    assert start_as_identity(fresh) == ""
    assert start_as_identity(nn.ReLU(), [nn.ReLU(), nn.Dropout(), fresh]) == ""
    assert start_as_identity(nn.ReLU(), [nn.ReLU(), nn.Linear(4, 4)]) != ""
    assert start_as_identity(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), [nn.ReLU()]) == ""


def test_a_model_computes_the_same_after_a_layer_was_put_in():
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    x = ex.randn(4, 3)
    before = model(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.utils.insert_layer(model, 2, nn.Linear(5, 5))
        nn.utils.insert_layer(model, 3, nn.ReLU())
    assert ex.equal(model(x), before)
    with pytest.warns(
        UserWarning, match="Tanh cannot start as the identity .* start=None says that this is meant"
    ) as told:
        nn.utils.insert_layer(model, 2, nn.Tanh())
    assert told[0].filename == __file__


def test_a_layer_is_left_as_it_is_on_request():
    model, trained = nn.Sequential(nn.Linear(3, 3)), nn.Linear(3, 3)
    weight = trained.weight.detach().clone()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.utils.insert_layer(model, 0, trained, start=None)
        nn.utils.insert_layer(model, 0, nn.Tanh(), start=None)
    assert ex.equal(trained.weight, weight)
    with pytest.raises(ArgumentError, match="start must be 'identity' or None, got 'zero'"):
        nn.utils.insert_layer(model, 0, trained, start="zero")
