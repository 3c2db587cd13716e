"""Interpolation, sampling on grids, patches: known values, adjoints, gradients, messages."""

import warnings

import numpy as np
import pytest

import extempo as ex
from extempo.autograd.numerical import gradcheck, gradgradcheck
from extempo.errors import DtypeError, ShapeError, UnsupportedError
from extempo.ops import resample


def normal(*shape, requires_grad=False, seed=0):
    return ex.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=requires_grad)


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
    assert resample.grid_sample(ex.zeros(0, 2, 4, 4), ex.zeros(0, 3, 3, 2), align_corners=False).shape == (0, 2, 3, 3)


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_the_identity_grid_returns_the_image(mode, padding_mode):
    x = normal(2, 3, 4, 5)
    theta = ex.tensor([[[1.0, 0, 0], [0, 1, 0]]] * 2, dtype=ex.float64)
    for align_corners in (True, False):
        grid = resample.affine_grid(theta, (2, 3, 4, 5), align_corners)
        y = resample.grid_sample(x, grid, mode, padding_mode, align_corners)
        np.testing.assert_allclose(y.numpy(), x.numpy(), atol=1e-12)


def test_outside_the_image_lie_zeros_the_border_or_its_reflection():
    x = ex.tensor([[[[1.0, 2.0, 3.0]]]])
    grid = ex.tensor([[[[3.0, 0.0]]]])  # one whole width to the right of the last element
    values = [resample.grid_sample(x, grid, "nearest", mode, True).item() for mode in ("zeros", "border", "reflection")]
    assert values == [0, 3, 1]


def test_a_nan_in_the_grid_reads_nothing():
    y = resample.grid_sample(ex.ones(1, 1, 2, 2), ex.full((1, 1, 1, 2), float("nan")), align_corners=False)
    assert y.shape == (1, 1, 1, 1)


def test_volumes_are_sampled_as_well():
    x = normal(1, 2, 3, 4, 5)
    theta = ex.tensor([[[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]], dtype=ex.float64)
    grid = resample.affine_grid(theta, (1, 2, 3, 4, 5), False)
    np.testing.assert_allclose(resample.grid_sample(x, grid, align_corners=False).numpy(), x.numpy(), atol=1e-12)


def test_unfold_and_fold_are_adjoint():
    x = normal(2, 3, 5, 6)
    options = {"kernel_size": (2, 3), "dilation": (2, 1), "padding": (1, 0), "stride": (1, 2)}
    columns = resample.unfold(x, **options)
    z = normal(*columns.shape, seed=1)
    back = resample.fold(z, (5, 6), **options)
    assert (columns * z).sum().item() == pytest.approx((x * back).sum().item())


def test_unfold_takes_one_image_and_lists_its_windows():
    x = ex.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    assert resample.unfold(x, (1, 2)).tolist() == [[1, 3], [2, 4]]
    assert resample.fold(resample.unfold(x, (1, 2)), (2, 2), (1, 2)).tolist() == x.tolist()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: resample.interpolate(x, (6, 3), mode="bilinear"),
        lambda x: resample.interpolate(x, (3, 7), mode="bicubic", align_corners=True),
        lambda x: resample.interpolate(x, (2, 3), mode="nearest"),
        lambda x: resample.interpolate(x, (2, 3), mode="bilinear", antialias=True),
        lambda x: resample.unfold(x, 2, padding=1, stride=2),
    ],
)
def test_gradients_of_first_and_second_order_are_right(function):
    x = normal(1, 2, 4, 4, requires_grad=True)
    assert gradcheck(function, (x,))
    assert gradgradcheck(lambda x: function(x * x), (x,))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
def test_gradients_of_sampling_are_right(mode, padding_mode):
    x = normal(1, 2, 4, 3, requires_grad=True)
    grid = ex.tensor(np.random.default_rng(1).uniform(-1.4, 1.4, size=(1, 2, 2, 2)), requires_grad=True)

    def function(x, grid):
        return resample.grid_sample(x, grid, mode, padding_mode, False)

    assert gradcheck(function, (x, grid))
    assert gradgradcheck(function, (x, grid))


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
        (lambda: resample.grid_sample(ex.ones(1, 1, 4, 4), ex.ones(1, 2, 2, 3)), ShapeError, "grid"),
        (lambda: resample.grid_sample(ex.ones(1, 1, 4, 4), ex.ones(1, 2, 2, 2).double()), DtypeError, "float64"),
        (lambda: resample.affine_grid(ex.ones(1, 2, 2), (1, 1, 3, 3)), ShapeError, "theta"),
        (lambda: resample.unfold(ex.ones(1, 1, 2, 2), 3), ShapeError, "no window fits"),
        (lambda: resample.fold(ex.ones(1, 3, 4), (3, 3), 2), ShapeError, "a multiple of 4"),
    ],
)
def test_what_does_not_fit_is_said_before_the_kernel_runs(make, error, text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(error, match=text):
            make()
