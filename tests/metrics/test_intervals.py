"""Intervals of a share."""

from __future__ import annotations

import numpy as np

from extempo import metrics as M


def test_intervals_hold_the_share_as_often_as_they_say():
    rng = np.random.RandomState(0)
    for p, n in ((0.12, 50), (0.5, 20), (0.95, 200)):
        counts = rng.binomial(n, p, 2000)
        held = np.mean([low <= p <= high for low, high in (M.interval(c, n) for c in counts)])
        assert 0.92 < held < 0.98
    assert M.interval(0, 0) == (0.0, 1.0)
