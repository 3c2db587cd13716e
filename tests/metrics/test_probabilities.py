"""Whether probabilities mean what they say, by hand."""

from __future__ import annotations

import math

import pytest

from extempo import metrics as M
from extempo.errors import DtypeError


def test_calibration_error_by_hand():
    # Two bins: confidences 0.6 and 0.6 with one right (0.5), 0.9 with none right.
    m = M.CalibrationError(10).update([1, 0, 0], [0.6, 0.6, 0.9])
    assert m.compute() == pytest.approx((abs(1.2 - 1) + abs(0.9 - 0)) / 3)


def test_losses_by_hand():
    assert M.LogLoss().update([1, 0], [0.5, 0.25]).compute() == pytest.approx(-(math.log(0.5) + math.log(0.75)) / 2)
    assert M.Brier().update([1, 0], [0.5, 0.25]).compute() == pytest.approx((0.25 + 0.0625) / 2)
    assert M.Brier().update([2], [[0.0, 0.5, 0.5]]).compute() == pytest.approx(0.5)


def test_a_probability_of_zero_of_what_happened_is_finite():
    assert math.isfinite(M.LogLoss().update([1], [0.0]).compute())


@pytest.mark.parametrize(
    ("found", "words"), [([1.5], "between 0 and 1"), ([math.nan], "are nan"), ([[0.2, 0.2]], "sum to 0.4, not 1")]
)
def test_what_is_no_probability_is_refused(found, words):
    with pytest.raises(DtypeError, match=words):
        M.LogLoss().update([1], found)
