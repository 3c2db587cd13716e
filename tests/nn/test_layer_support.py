"""What families of layers share: initial values, sizes per dimension, texts of errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ArgumentError, ShapeError
from extempo.nn.layer_support import changed, draw_by_fan_in, per_dimension

from .models import fan_in_bound


@pytest.mark.parametrize(
    "layer",
    [
        lambda: nn.Linear(50, 400),
        lambda: nn.Conv1d(8, 400, 5),
        lambda: nn.Conv2d(8, 400, 3, groups=2),
        lambda: nn.Conv3d(4, 100, 2),
        lambda: nn.ConvTranspose1d(400, 8, 5),
        lambda: nn.ConvTranspose2d(400, 8, 3),
        lambda: nn.ConvTranspose3d(100, 8, 2),
    ],
)
def test_weights_start_uniform_within_the_bound_of_their_fan_in(layer):
    ex.manual_seed(0)
    made = layer()
    bound = fan_in_bound(made.weight)
    for values in (made.weight.detach().numpy(), made.bias.detach().numpy()):
        assert np.abs(values).max() <= bound
    weight = made.weight.detach().numpy()
    assert np.abs(weight).max() > 0.95 * bound
    assert weight.std() == pytest.approx(bound / math.sqrt(3), rel=0.05)
    assert weight.mean() == pytest.approx(0, abs=0.05 * bound)


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        (nn.Linear(5, 2), (3, 4), r"Linear: expected input \(\.\.\., in_features=5\), got shape \(3, 4\)"),
        (nn.Conv1d(3, 2, 2), (1, 4, 5), r"Conv1d: .*in_channels=3, length.* got shape \(1, 4, 5\)"),
        (nn.Conv2d(3, 2, 2, padding=1, padding_mode="reflect"), (4, 5, 5), r"Conv2d: .*in_channels=3.*\(4, 5, 5\)"),
        (nn.Conv2d(3, 2, 2), (5,), r"Conv2d: .*in_channels=3, height, width.*\(5,\)"),
        (nn.ConvTranspose2d(3, 2, 2), (1, 4, 5, 5), r"ConvTranspose2d: .*in_channels=3.*\(1, 4, 5, 5\)"),
        (nn.BatchNorm1d(3), (2, 4), r"BatchNorm1d: .*num_features=3.*\(2, 4\)"),
        (nn.BatchNorm2d(3), (2, 3), r"BatchNorm2d: expected input \(batch, num_features=3, height, width\).*\(2, 3\)"),
        (nn.InstanceNorm2d(3, affine=True), (2, 4, 5, 5), r"InstanceNorm2d: .*num_features=3.*\(2, 4, 5, 5\)"),
        (nn.LayerNorm((2, 3)), (3, 2), r"LayerNorm: .*normalized_shape=\(2, 3\).*\(3, 2\)"),
        (nn.RMSNorm(3), (2,), r"RMSNorm: .*normalized_shape=\(3,\).*\(2,\)"),
        (nn.GroupNorm(2, 4), (2, 6), r"GroupNorm: .*num_channels=4.*\(2, 6\)"),
        (nn.PReLU(3), (2, 4), r"PReLU: .*num_parameters=3.*\(2, 4\)"),
        (nn.Softmax2d(), (2, 4), r"Softmax2d: expected .*\(2, 4\)"),
    ],
)  # fmt: skip
def test_a_shape_error_names_the_layer_what_it_expected_and_what_came(layer, shape, expected):
    with pytest.raises(ShapeError, match=expected):
        layer(ex.zeros(shape))


def test_one_number_stands_for_every_dimension_and_others_must_be_as_many():
    assert per_dimension("Layer", "stride", 2, 3) == (2, 2, 2)
    assert per_dimension("Layer", "stride", [1, 2], 2) == (1, 2)
    for wrong in ((), (1, 2, 3)):
        with pytest.raises(ArgumentError, match="Layer: stride must be one int or 2 of them"):
            per_dimension("Layer", "stride", wrong, 2)


def test_a_weight_without_inputs_starts_at_its_only_bound_zero():
    weight, bias = ex.ones(2, 0), ex.ones(2)
    draw_by_fan_in(weight, bias)
    assert bias.tolist() == [0.0, 0.0]


def test_a_repr_shows_what_is_not_at_its_default():
    layer = nn.Linear(2, 3)
    assert changed(layer, {"in_features": 2, "out_features": 4}) == ", out_features=3"
