"""Intervals of a share."""

from __future__ import annotations

import numpy as np
import pytest

from extempo import metrics as M
from extempo.metrics.intervals import interval


def test_intervals_hold_the_share_as_often_as_they_say():
    rng = np.random.RandomState(0)
    for p, n in ((0.12, 50), (0.5, 20), (0.95, 200)):
        counts = rng.binomial(n, p, 2000)
        held = np.mean([low <= p <= high for low, high in (M.interval(c, n) for c in counts)])
        assert 0.92 < held < 0.98
    assert M.interval(0, 0) == (0.0, 1.0)


def test_few_samples_tell_little_and_nothing_tells_nothing():
    assert interval(0, 0) == (0.0, 1.0)
    low, high = interval(1, 1)
    assert low < 0.25
    assert high == pytest.approx(1.0)
    wide, narrow = (high - low for low, high in (interval(5, 10), interval(500, 1000)))
    assert narrow < wide / 5


def test_both_sides_are_alike():
    low, high = interval(3, 25)
    assert interval(22, 25) == pytest.approx((1 - high, 1 - low))
