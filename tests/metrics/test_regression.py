"""Errors of numbers, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from extempo import metrics as M
from extempo.errors import ShapeError


def test_errors_by_hand():
    truth, found = [1.0, 2.0, 4.0], [2.0, 2.0, 2.0]
    assert M.MAE().update(truth, found).compute() == 1.0
    assert M.MSE().update(truth, found).compute() == pytest.approx(5 / 3)
    assert M.RMSE().update(truth, found).compute() == pytest.approx((5 / 3) ** 0.5)
    assert M.R2().update(truth, found).compute() == pytest.approx(1 - 5 / (14 / 3))


@pytest.mark.parametrize("metric", [M.MAE, M.MSE, M.RMSE, M.R2])
def test_parts_merged_give_the_figure_of_all(metric):
    rng = np.random.default_rng(0)
    truth, found = rng.normal(size=(2, 50)) + 1e6
    whole = metric().update(truth, found).compute()
    parts = metric().update(truth[:7], found[:7]).merge(metric().update(truth[7:], found[7:]))
    assert parts.compute() == pytest.approx(whole, rel=1e-9)
    assert parts.merge(metric()).compute() == pytest.approx(whole, rel=1e-9)


def test_several_outputs_are_averaged_and_must_stay_as_many():
    metric = M.RMSE().update([[0.0, 0.0]], [[3.0, 4.0]])
    assert metric.compute() == 3.5
    with pytest.raises(ShapeError, match="before there were 2"):
        metric.update([[0.0]], [[1.0]])


def test_a_constant_truth_is_explained_or_not():
    assert M.R2().update([2.0, 2.0], [2.0, 2.0]).compute() == 1.0
    assert M.R2().update([2.0, 2.0], [2.0, 3.0]).compute() == 0.0
    assert np.isnan(M.R2().update([2.0], [2.0]).compute())
    assert np.isnan(M.MAE().compute())
