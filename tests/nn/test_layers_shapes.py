"""Layers without parameters, unbatched samples, and every example in a docstring."""

from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ShapeError

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


@pytest.mark.parametrize("kind", [nn.ReLU, nn.ReLU6, nn.SELU, nn.SiLU, nn.Mish, nn.Hardsigmoid, nn.Hardswish, nn.ELU])
def test_inplace_activations_write_over_their_input(kind):
    x = ex.tensor([-1.0, 2.0])
    expected = kind()(x).tolist()
    assert x.tolist() == [-1.0, 2.0]
    assert kind(inplace=True)(x) is x
    assert x.tolist() == expected


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


def test_gradients_pass_through_every_layer_of_a_network():
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding="same"), nn.BatchNorm2d(2), nn.GELU(), nn.AvgPool2d(2), nn.Upsample(scale_factor=2),
        nn.GroupNorm(1, 2), nn.PReLU(2), nn.Flatten(), nn.LayerNorm(32), nn.Linear(32, 3), nn.LogSoftmax(-1),
    )  # fmt: skip
    x = ex.randn(2, 1, 4, 4, requires_grad=True)
    nn.NLLLoss()(net(x), [0, 2]).backward()
    assert bool((x.grad != 0).any())
    assert all(parameter.grad is not None for parameter in net.parameters())


def test_a_softmax_without_dim_shows_none():
    assert repr(nn.Softmax()) == "Softmax(dim=None)"
    assert (
        repr(nn.Upsample(scale_factor=(2, 3), mode="bilinear")) == "Upsample(scale_factor=(2.0, 3.0), mode='bilinear')"
    )
    assert repr(nn.ConstantPad1d(1, 2.5)) == "ConstantPad1d(padding=(1, 1), value=2.5)"
    assert repr(nn.ZeroPad1d(1)) == "ZeroPad1d((1, 1))"
