"""Means of windows: padding, windows over the end, half precision."""

import pytest

import extempo as ex
from extempo.errors import DtypeError
from extempo.ops import pool


def test_avg_pool_counts_padding_unless_told_otherwise():
    x = ex.ones(1, 1, 4)
    assert pool.avg_pool1d(x, 2, 2, 1).tolist() == [[[0.5, 1, 0.5]]]
    assert pool.avg_pool1d(x, 2, 2, 1, count_include_pad=False).tolist() == [[[1, 1, 1]]]
    assert pool.avg_pool2d(ex.ones(1, 1, 2, 2), 2, divisor_override=2).item() == 2


def test_a_window_over_the_end_divides_by_what_it_sees():
    assert pool.avg_pool1d(ex.ones(1, 1, 5), 2, 2, ceil_mode=True).tolist() == [[[1, 1, 1]]]


def test_means_of_half_precision_do_not_overflow():
    assert pool.avg_pool1d(ex.full((1, 1, 4), 40000.0, dtype=ex.float16), 4).item() == 40000


def test_means_of_integers_and_bools_are_refused_where_they_have_no_meaning():
    with pytest.raises(DtypeError, match="bool"):
        pool.max_pool1d(ex.ones(1, 1, 4).bool(), 2)
    with pytest.raises(DtypeError, match=r"x\.float\(\)"):
        pool.adaptive_avg_pool1d(ex.ones(1, 1, 4).long(), 2)
