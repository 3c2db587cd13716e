"""Sliding windows: sizes made uniform, padding that may cut, views of windows."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, ShapeError
from extempo.ops import windows


def test_one_int_stands_for_all_dimensions():
    assert windows.as_ints(3, 2, "pool", "stride") == (3, 3)
    assert windows.as_ints([np.int64(1), 2], 2, "pool", "stride") == (1, 2)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (1.5, DtypeError, r"^pool: stride must be an int or 2 of them, got 1\.5"),
        ((1, 2, 3), ShapeError, r"^pool: stride must be one int or 2, got \(1, 2, 3\)"),
        (0, ShapeError, r"^pool: stride must be at least 1, got 0"),
    ],
)
def test_sizes_that_do_not_fit_name_the_argument(value, error, text):
    with pytest.raises(error, match=text):
        windows.as_ints(value, 2, "pool", "stride")


def test_a_sample_without_batch_gets_one_and_loses_it_again():
    assert windows.per_sample(lambda x: x + x.shape[0], ex.zeros(3, 4), 1, "pool").shape == (3, 4)
    assert windows.per_sample(lambda x: x, ex.zeros(2, 3, 4), 1, "pool").shape == (2, 3, 4)
    with pytest.raises(ShapeError, match=r"^pool: expected 3 dimensions \(batch, channel, 1 spatial\) or 2 without"):
        windows.batched(ex.zeros(4), 1, "pool")


def test_windows_are_counted_with_the_gaps_between_their_elements():
    assert windows.dilated_size(3, 2) == 5
    assert windows.dilated_size(0, 2) == 0
    assert windows.n_windows(7, 3, 2, 2) == 2
    assert windows.n_windows(4, 3, 1, 2) == 0


def test_padding_fills_and_negative_padding_cuts():
    x = np.arange(6.0).reshape(2, 3)
    assert windows.padded(x, ((0, 0),)) is x
    np.testing.assert_array_equal(windows.padded(x, ((1, 2),), -1.0)[0], [-1, 0, 1, 2, -1, -1])
    np.testing.assert_array_equal(windows.padded(x, ((-1, 1),))[1], [4, 5, 0])
    assert windows.padded(x, ((-2, -1),)).shape == (2, 0)


def test_dilation_puts_zeros_between_neighbours():
    np.testing.assert_array_equal(windows.dilated(np.array([1.0, 2.0, 3.0]), (3,)), [1, 0, 0, 2, 0, 0, 3])


def test_views_of_windows_and_places_in_them_see_the_same_elements():
    x = np.arange(20.0).reshape(4, 5)
    kernel, stride, dilation, counts = (2, 2), (1, 2), (2, 1), (2, 2)
    view = windows.windows(x, kernel, stride, dilation, counts)
    assert view.shape == (*kernel, *counts)
    assert not view.flags.writeable
    for k, selected in windows.places(kernel, stride, dilation, counts):
        np.testing.assert_array_equal(view[k], x[selected])
