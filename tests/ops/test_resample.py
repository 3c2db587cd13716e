"""Interpolation: known values, gradients, messages."""

import warnings

import numpy as np
import pytest

import extempo as ex
from extempo.autograd.numerical import gradcheck, gradgradcheck
from extempo.errors import DtypeError, ShapeError, UnsupportedError
from extempo.ops import resample

from .helpers import normal


def test_nearest_repeats_and_linear_blends():
    x = ex.tensor([[[0.0, 4.0]]])
    assert resample.interpolate(x, 4).tolist() == [[[0, 0, 4, 4]]]
    assert resample.interpolate(x, 4, mode="linear").tolist() == [[[0, 1, 3, 4]]]
    assert resample.interpolate(x, 3, mode="linear", align_corners=True).tolist() == [[[0, 2, 4]]]
    assert resample.interpolate(x, 1, mode="area").tolist() == [[[2]]]


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "area"])
def test_the_same_size_changes_nothing(mode):
    x = normal(2, 3, 4, 5)
    np.testing.assert_allclose(resample.interpolate(x, (4, 5), mode=mode).numpy(), x.numpy(), atol=1e-15)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
def test_antialiased_shrinking_keeps_a_constant_image(mode):
    y = resample.interpolate(ex.ones(1, 1, 9, 7), (3, 2), mode=mode, antialias=True)
    np.testing.assert_allclose(y.numpy(), 1, atol=1e-6)


def test_an_infinity_stays_where_it_is_seen():
    x = ex.tensor([[[float("inf"), 1.0, 1.0, 1.0]]])
    assert resample.interpolate(x, 8, mode="linear").isinf().sum().item() == 3


def test_bytes_are_rounded_and_kept_in_range():
    x = ex.tensor([[[[0, 255], [255, 0]]]], dtype=ex.uint8)
    y = resample.interpolate(x, (3, 3), mode="bilinear", align_corners=True)
    assert y.dtype is ex.uint8
    assert y[0, 0, 1, 1].item() == 128


def test_an_empty_batch_stays_empty():
    assert resample.interpolate(ex.zeros(0, 2, 4, 4), scale_factor=2, mode="bilinear").shape == (0, 2, 8, 8)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: resample.interpolate(x, (6, 3), mode="bilinear"),
        lambda x: resample.interpolate(x, (3, 7), mode="bicubic", align_corners=True),
        lambda x: resample.interpolate(x, (2, 3), mode="nearest"),
        lambda x: resample.interpolate(x, (2, 3), mode="bilinear", antialias=True),
    ],
)
def test_gradients_of_first_and_second_order_are_right(function):
    x = normal(1, 2, 4, 4, requires_grad=True)
    assert gradcheck(function, (x,))
    assert gradgradcheck(lambda x: function(x * x), (x,))


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: resample.interpolate(ex.ones(1, 1, 4)), ShapeError, "size or scale_factor"),
        (lambda: resample.interpolate(ex.ones(1, 1, 4), 2, 2.0), ShapeError, "size or scale_factor"),
        (lambda: resample.interpolate(ex.ones(4, 4), 2), ShapeError, "unsqueeze"),
        (lambda: resample.interpolate(ex.ones(1, 1, 4, 4), 2, mode="linear"), ShapeError, "did you mean 'bilinear'"),
        (lambda: resample.interpolate(ex.ones(1, 1, 4), 2, align_corners=True), ShapeError, "align_corners"),
        (lambda: resample.interpolate(ex.ones(1, 1, 4), 2, mode="cubic"), UnsupportedError, "'cubic'"),
        (lambda: resample.interpolate(ex.ones(1, 1, 4), scale_factor=0.1), ShapeError, "leave nothing"),
        (lambda: resample.interpolate(ex.ones(1, 1, 4).long(), 2, mode="linear"), DtypeError, r"x\.float"),
        (lambda: resample.interpolate(ex.ones(1, 1, 4), 2, antialias=True), UnsupportedError, "antialias"),
    ],
)
def test_what_does_not_fit_is_said_before_the_kernel_runs(make, error, text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(error, match=text):
            make()
