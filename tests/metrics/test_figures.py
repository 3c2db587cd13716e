"""Figures of classes, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from extempo import metrics as M
from extempo.errors import ShapeError

TRUTH, FOUND = [0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 2, 2]


def test_shares_of_each_class():
    def each(metric):
        return metric(None).update(TRUTH, FOUND).compute().tolist()

    assert each(M.Precision) == pytest.approx([1, 1 / 2, 1 / 2])
    assert each(M.Recall) == pytest.approx([2 / 3, 1 / 2, 1])
    assert each(M.Specificity) == pytest.approx([1, 3 / 4, 4 / 5])
    assert each(M.F1) == pytest.approx([4 / 5, 1 / 2, 2 / 3])


@pytest.mark.parametrize(
    ("average", "value"),
    [("micro", 4 / 6), ("macro", (2 / 3 + 1 / 2 + 1) / 3), ("weighted", (3 * 2 / 3 + 2 / 2 + 1) / 6), ("binary", 0.5)],
)
def test_averages_of_recall(average, value):
    assert M.Recall(average).update(TRUTH, FOUND).compute() == pytest.approx(value)


def test_a_class_that_never_occurs_counts_for_nothing():
    assert M.Recall().update([0, 2], [0, 2]).compute() == 1.0
    assert M.Recall("binary", positive=9).update([0], [0]).compute() == 0.0
    assert np.isnan(M.Recall().compute())


def test_a_sample_of_several_labels_is_right_when_all_are():
    truth, found = [[1, 0], [1, 1], [0, 0]], [[1, 0], [1, 0], [0, 0]]
    assert M.Accuracy(multilabel=True).update(truth, found).compute() == pytest.approx(2 / 3)
    chances = [[0.9, 0.1], [0.9, 0.2], [0.3, 0.1]]
    assert M.Accuracy(multilabel=True).update(truth, chances).compute() == pytest.approx(2 / 3)
    assert M.Recall(None, multilabel=True).update(truth, found).compute().tolist() == [1.0, 0.0]
    with pytest.raises(ShapeError, match="one shape"):
        M.Accuracy(multilabel=True).update([1, 0, 1], [1, 0, 0])


def test_of_equal_scores_the_higher_class_goes_first():
    scores = [[0.4, 0.4, 0.2]]
    assert M.Accuracy(top_k=2).update([0], scores).compute() == 1.0
    assert M.Accuracy().update([1], np.array([[0.1, 0.5, 0.4]])).compute() == 1.0


def test_a_majority_guess_is_no_better_than_chance():
    truth, guess = [0] * 9 + [1], [0] * 10
    assert M.Accuracy().update(truth, guess).compute() == 0.9
    assert M.BalancedAccuracy().update(truth, guess).compute() == 0.5
    assert M.MCC().update(truth, guess).compute() == 0.0
    assert M.CohenKappa().update(truth, guess).compute() == 0.0
