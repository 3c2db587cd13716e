"""The roads of the NumPy kernels lead to the same numbers."""

import numpy as np

import extempo as ex

from .helpers import by_definition, normal


def test_many_channels_and_few_outputs_take_the_other_road_to_the_same_numbers():
    x, w = normal(2, 16, 6, 6), normal(2, 16, 3, 3, seed=1)
    np.testing.assert_allclose(ex.conv2d(x, w).numpy(), by_definition(x.numpy(), w.numpy(), 1, 0, 1, 1), atol=1e-12)


def test_a_large_batch_is_cut_into_parts_without_a_seam():
    x, w = normal(70, 8, 20, 20), normal(4, 8, 3, 3, seed=1)
    whole = ex.conv2d(x, w)
    np.testing.assert_allclose(whole[33:35].numpy(), ex.conv2d(x[33:35], w).numpy(), atol=1e-12)


def test_half_precision_adds_up_in_float32():
    x = ex.ones(1, 4096, 1, dtype=ex.float16)
    assert ex.conv1d(x, ex.ones(1, 4096, 1, dtype=ex.float16)).item() == 4096
    assert ex.conv1d(x.bfloat16(), ex.ones(1, 4096, 1, dtype=ex.bfloat16)).dtype is ex.bfloat16


def test_integers_convolve_exactly():
    y = ex.conv1d(ex.tensor([[[1, 2, 3]]]), ex.tensor([[[1, -1]]]))
    assert y.dtype is ex.int64
    assert y.tolist() == [[[-1, -1]]]


def test_a_nan_reaches_only_the_windows_that_see_it():
    x = ex.zeros(1, 1, 6)
    x[0, 0, 0] = float("nan")
    assert ex.isnan(ex.conv1d(x, ex.ones(1, 1, 3))).tolist() == [[[True, False, False, False]]]
