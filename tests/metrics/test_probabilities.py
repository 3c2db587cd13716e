"""Whether probabilities mean what they say, by hand."""

from __future__ import annotations

import pytest

from extempo import metrics as M


def test_calibration_error_by_hand():
    # Two bins: confidences 0.6 and 0.6 with one right (0.5), 0.9 with none right.
    m = M.CalibrationError(10).update([1, 0, 0], [0.6, 0.6, 0.9])
    assert m.compute() == pytest.approx((abs(1.2 - 1) + abs(0.9 - 0)) / 3)
