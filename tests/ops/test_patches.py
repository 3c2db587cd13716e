"""Patches of images: unfold and fold are adjoint, and say what does not fit."""

import warnings

import pytest

import extempo as ex
from extempo.autograd.numerical import gradcheck, gradgradcheck
from extempo.errors import ShapeError
from extempo.ops import patches

from .helpers import normal


def test_unfold_and_fold_are_adjoint():
    x = normal(2, 3, 5, 6)
    options = {"kernel_size": (2, 3), "dilation": (2, 1), "padding": (1, 0), "stride": (1, 2)}
    columns = patches.unfold(x, **options)
    z = normal(*columns.shape, seed=1)
    back = patches.fold(z, (5, 6), **options)
    assert (columns * z).sum().item() == pytest.approx((x * back).sum().item())


def test_unfold_takes_one_image_and_lists_its_windows():
    x = ex.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    assert patches.unfold(x, (1, 2)).tolist() == [[1, 3], [2, 4]]
    assert patches.fold(patches.unfold(x, (1, 2)), (2, 2), (1, 2)).tolist() == x.tolist()


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: patches.unfold(ex.ones(1, 1, 2, 2), 3), ShapeError, "no window fits"),
        (lambda: patches.fold(ex.ones(1, 3, 4), (3, 3), 2), ShapeError, "a multiple of 4"),
    ],
)
def test_patches_that_do_not_fit_are_said_before_the_kernel_runs(make, error, text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(error, match=text):
            make()


def test_gradients_of_unfolding_are_right_to_second_order():
    x = normal(2, 2, 4, 5, requires_grad=True)
    assert gradcheck(lambda x: patches.unfold(x, 2, padding=1, stride=2), (x,))
    assert gradgradcheck(lambda x: patches.unfold(x, 2, padding=1, stride=2), (x,))
