"""Layers without parameters, unbatched samples, and every example in a docstring."""

from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest

import extempo as ex
from extempo import nn

MODULES = [
    "activation_layers",
    "adaptive_softmax",
    "conv_layers",
    "distance_layers",
    "dropout_layers",
    "embedding_layers",
    "lazy_layers",
    "linear_layers",
    "losses",
    "norm_layers",
    "pair_losses",
    "pooling_layers",
    "shape_layers",
]


@pytest.mark.parametrize("name", MODULES)
def test_every_layer_has_an_example_that_runs(name):
    module = importlib.import_module(f"extempo.nn.{name}")
    for layer in module.__all__:
        assert ">>>" in getattr(module, layer).__doc__, layer
        assert getattr(nn, layer) is getattr(module, layer)
    assert doctest.testmod(module, extraglobs={"ex": ex, "nn": nn}).failed == 0


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(4, 3), (4,)),
        (nn.Conv1d(3, 4, 2, padding="same"), (3, 5)),
        (nn.Conv2d(3, 4, 2, padding=1, padding_mode="circular"), (3, 5, 5)),
        (nn.Conv3d(3, 4, 2), (3, 4, 4, 4)),
        (nn.ConvTranspose1d(3, 4, 2), (3, 5)),
        (nn.ConvTranspose2d(3, 4, 2), (3, 5, 5)),
        (nn.ConvTranspose3d(3, 4, 2), (3, 4, 4, 4)),
        (nn.MaxPool1d(2), (3, 6)),
        (nn.MaxPool2d(2), (3, 6, 6)),
        (nn.MaxPool3d(2), (3, 4, 4, 4)),
        (nn.AvgPool1d(2), (3, 6)),
        (nn.AvgPool2d(2), (3, 6, 6)),
        (nn.AvgPool3d(2), (3, 4, 4, 4)),
        (nn.LPPool1d(2, 2), (3, 6)),
        (nn.LPPool2d(2, 2), (3, 6, 6)),
        (nn.LPPool3d(2, 2), (3, 4, 4, 4)),
        (nn.AdaptiveAvgPool1d(2), (3, 5)),
        (nn.AdaptiveMaxPool2d(2), (3, 5, 5)),
        (nn.AdaptiveAvgPool3d(2), (3, 5, 5, 5)),
        (nn.InstanceNorm1d(3), (3, 5)),
        (nn.InstanceNorm2d(3, affine=True), (3, 5, 5)),
        (nn.InstanceNorm3d(3), (3, 4, 4, 4)),
        (nn.LayerNorm(3), (3,)),
        (nn.RMSNorm(3), (3,)),
        (nn.Softmax2d(), (3, 2, 2)),
        (nn.PixelShuffle(2), (4, 3, 3)),
        (nn.Unfold(2), (3, 4, 4)),
        (nn.Fold((4, 4), 2), (8, 9)),
        (nn.ReflectionPad1d(1), (3, 5)),
        (nn.ReplicationPad2d(1), (3, 5, 5)),
        (nn.CircularPad3d(1), (3, 4, 4, 4)),
        (nn.ZeroPad2d((1, 0, 2, 1)), (3, 5, 5)),
        (nn.ConstantPad3d(1, 2.0), (3, 4, 4, 4)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_one_sample_gives_what_a_batch_of_one_gives(layer, shape):
    x = ex.randn(shape)
    alone, batch = layer(x), layer(x.unsqueeze(0))
    np.testing.assert_allclose(alone.detach().numpy(), batch.squeeze(0).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_gradients_pass_through_every_layer_of_a_network():
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding="same"), nn.BatchNorm2d(2), nn.GELU(), nn.AvgPool2d(2), nn.Upsample(scale_factor=2),
        nn.GroupNorm(1, 2), nn.PReLU(2), nn.Flatten(), nn.LayerNorm(32), nn.Linear(32, 3), nn.LogSoftmax(-1),
    )  # fmt: skip
    x = ex.randn(2, 1, 4, 4, requires_grad=True)
    nn.NLLLoss()(net(x), [0, 2]).backward()
    assert bool((x.grad != 0).any())
    assert all(parameter.grad is not None for parameter in net.parameters())
