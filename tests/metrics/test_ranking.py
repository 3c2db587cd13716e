"""Areas under curves: how well scores rank."""

from __future__ import annotations

import numpy as np
import pytest

from extempo import metrics as M
from extempo.metrics.ranking import average_precision, counts_by_score, roc_area


def test_labels_of_sequences_are_ranked_like_those_of_their_steps():
    rng = np.random.RandomState(0)
    truth, scores = rng.randint(0, 2, (4, 6, 3)), rng.rand(4, 6, 3)
    for metric in (M.ROCAUC, M.PRAUC):
        flat = metric(None).update(truth.reshape(-1, 3), scores.reshape(-1, 3)).compute()
        np.testing.assert_allclose(metric(None).update(truth, scores).compute(), flat)


def test_areas_by_hand():
    truth, scores = np.array([True, False, True, False]), np.array([0.9, 0.8, 0.7, 0.1])
    assert roc_area(truth, scores) == pytest.approx(3 / 4)
    assert average_precision(truth, scores) == pytest.approx((1 + 2 / 3) / 2)


def test_equal_scores_count_half():
    assert roc_area(np.array([True, False]), np.array([0.5, 0.5])) == 0.5


@pytest.mark.parametrize("truth", [[True, True], [False, False], []])
def test_one_class_alone_has_no_order(truth):
    assert np.isnan(roc_area(np.array(truth, bool), np.zeros(len(truth))))


def test_scores_are_counted_where_they_change():
    counts = counts_by_score(np.array([True, False, True]), np.array([0.2, 0.7, 0.7]))
    assert counts.thresholds.tolist() == [0.7, 0.2]
    assert (counts.n_true.tolist(), counts.n_false.tolist()) == ([1, 2], [1, 1])
