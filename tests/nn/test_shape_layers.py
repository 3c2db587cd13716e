"""Layers without numbers of their own: reshaping, patches, resizing and padding."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ArgumentError, DtypeError


def test_flatten_keeps_the_batch_and_unflatten_undoes_it():
    x = ex.arange(24.0).reshape(2, 3, 4)
    flat = nn.Flatten()(x)
    assert flat.shape == (2, 12)
    assert ex.equal(nn.Unflatten(1, (3, 4))(flat), x)
    assert nn.Flatten(0)(ex.zeros(0, 3)).shape == (0,)
    assert repr(nn.Flatten()) == "Flatten(start_dim=1, end_dim=-1)"


@pytest.mark.parametrize("arguments", [("features", (2, 2)), (1, (("height", 2), ("width", 2)))])
def test_unflatten_refuses_names_of_dimensions(arguments):
    with pytest.raises(DtypeError, match="dimensions have numbers and sizes here, not names"):
        nn.Unflatten(*arguments)


def test_fold_adds_up_what_unfold_took_apart():
    x = ex.ones(1, 1, 3, 3)
    columns = nn.Unfold(2)(x)
    assert columns.shape == (1, 4, 4)
    added = nn.Fold(output_size=(3, 3), kernel_size=2)(columns)
    assert added[0, 0].tolist() == [[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]  # how many windows hold a place


def test_pixels_are_shuffled_and_shuffled_back():
    x = ex.arange(16.0).reshape(1, 4, 2, 2)
    assert ex.equal(nn.PixelUnshuffle(2)(nn.PixelShuffle(2)(x)), x)
    assert ex.equal(nn.ChannelShuffle(2)(nn.ChannelShuffle(2)(x)), x)


@pytest.mark.parametrize(("given", "kept"), [(2, 2.0), ((1, 2), (1.0, 2.0)), (None, None), (0, None)])
def test_scale_factors_are_kept_as_floats(given, kept):
    layer = nn.Upsample(size=4 if not given else None, scale_factor=given)
    assert layer.scale_factor == kept
    assert type(layer.scale_factor) is type(kept)
    assert layer.name == "Upsample"


def test_upsampling_by_its_older_names_fixes_the_mode():
    assert repr(nn.UpsamplingNearest2d(size=4)) == "UpsamplingNearest2d(size=4, mode='nearest')"
    layer = nn.UpsamplingBilinear2d(scale_factor=2)
    assert (layer.mode, layer.align_corners) == ("bilinear", True)


@pytest.mark.parametrize("kind", ["Reflection", "Replication", "Circular", "Zero"])
def test_padding_by_one_number_is_on_all_sides(kind):
    x = ex.arange(4.0).reshape(1, 2, 2)
    layer = getattr(nn, f"{kind}Pad2d")(1)
    assert layer.padding == (1, 1, 1, 1)
    padded = layer(x)
    assert padded.shape == (1, 4, 4)
    assert ex.equal(padded[:, 1:3, 1:3], x)
    first = {"Reflection": 3.0, "Replication": 0.0, "Circular": 3.0, "Zero": 0.0}[kind]
    assert padded[0, 0, 0].item() == first


def test_padding_wants_two_numbers_for_each_dimension():
    with pytest.raises(ArgumentError, match="ConstantPad2d: padding must be one int or 4 of them"):
        nn.ConstantPad2d((1, 2), 0.0)
