"""Sampling on grids of any shape: known values, gradients, messages."""

import warnings

import numpy as np
import pytest

import extempo as ex
from extempo.autograd.numerical import gradcheck, gradgradcheck
from extempo.errors import DtypeError, ShapeError
from extempo.ops import grid_sampling

from .helpers import normal


def test_an_empty_batch_of_grids_stays_empty():
    assert grid_sampling.grid_sample(ex.zeros(0, 2, 4, 4), ex.zeros(0, 3, 3, 2), align_corners=False).shape == (
        0,
        2,
        3,
        3,
    )


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_the_identity_grid_returns_the_image(mode, padding_mode):
    x = normal(2, 3, 4, 5)
    theta = ex.tensor([[[1.0, 0, 0], [0, 1, 0]]] * 2, dtype=ex.float64)
    for align_corners in (True, False):
        grid = grid_sampling.affine_grid(theta, (2, 3, 4, 5), align_corners)
        y = grid_sampling.grid_sample(x, grid, mode, padding_mode, align_corners)
        np.testing.assert_allclose(y.numpy(), x.numpy(), atol=1e-12)


def test_outside_the_image_lie_zeros_the_border_or_its_reflection():
    x = ex.tensor([[[[1.0, 2.0, 3.0]]]])
    grid = ex.tensor([[[[3.0, 0.0]]]])  # one whole width to the right of the last element
    values = [
        grid_sampling.grid_sample(x, grid, "nearest", mode, True).item() for mode in ("zeros", "border", "reflection")
    ]
    assert values == [0, 3, 1]


def test_a_nan_in_the_grid_reads_nothing():
    y = grid_sampling.grid_sample(ex.ones(1, 1, 2, 2), ex.full((1, 1, 1, 2), float("nan")), align_corners=False)
    assert y.shape == (1, 1, 1, 1)


def test_volumes_are_sampled_as_well():
    x = normal(1, 2, 3, 4, 5)
    theta = ex.tensor([[[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]], dtype=ex.float64)
    grid = grid_sampling.affine_grid(theta, (1, 2, 3, 4, 5), False)
    np.testing.assert_allclose(grid_sampling.grid_sample(x, grid, align_corners=False).numpy(), x.numpy(), atol=1e-12)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
def test_gradients_of_sampling_are_right(mode, padding_mode):
    x = normal(1, 2, 4, 3, requires_grad=True)
    grid = ex.tensor(np.random.default_rng(1).uniform(-1.4, 1.4, size=(1, 2, 2, 2)), requires_grad=True)

    def function(x, grid):
        return grid_sampling.grid_sample(x, grid, mode, padding_mode, False)

    assert gradcheck(function, (x, grid))
    assert gradgradcheck(function, (x, grid))


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: grid_sampling.grid_sample(ex.ones(1, 1, 4, 4), ex.ones(1, 2, 2, 3)), ShapeError, "grid"),
        (lambda: grid_sampling.grid_sample(ex.ones(1, 1, 4, 4), ex.ones(1, 2, 2, 2).double()), DtypeError, "float64"),
        (lambda: grid_sampling.affine_grid(ex.ones(1, 2, 2), (1, 1, 3, 3)), ShapeError, "theta"),
    ],
)
def test_a_grid_that_does_not_fit_is_said_before_the_kernel_runs(make, error, text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(error, match=text):
            make()
