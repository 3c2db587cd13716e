"""The checks behind a verdict: each a sentence with numbers of its own."""

from __future__ import annotations

import re

import numpy as np
import pytest

import extempo as ex
from extempo import metrics as M
from extempo.errors import DtypeError, ShapeError


def test_overfitting_and_leakage():
    rng = np.random.RandomState(0)
    truth = rng.randint(0, 2, 400)
    found = np.where(rng.rand(400) < 0.75, truth, 1 - truth)
    report = M.report(truth, found, train=(truth, truth))
    assert any("100.0% on the training samples" in reason for reason in report.warnings)
    train, test = ex.randn(10, 3), ex.randn(5, 3)
    test[3] = train[7]
    leaky = M.report(truth, found, train_inputs=train, test_inputs=test)
    assert any("1 of 5 test samples are also in the training set (leakage; the first is number 3)" in r
               for r in leaky.warnings)  # fmt: skip
    clean = M.report(truth, found, train_inputs=[{"x": [1, 2]}], test_inputs=[{"x": [1, 3]}])
    assert not any("leakage" in reason for reason in clean.warnings)


def test_costs_name_the_dearest_error():
    report = M.report([0, 0, 0, 1, 1, 1], [1, 1, 0, 0, 1, 1], costs={(0, 1): 1.0, (1, 0): 10.0})
    assert any("cost 12 in all; 10 of it comes from 1 sample of class 1 taken for 0" in r for r in report.warnings)


def threshold_told(report):
    (number,) = [re.search(r"threshold ([0-9.e+-]+)", r)[1] for r in report.warnings if "is reached at" in r]
    return float(number)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("rarer", [0, 1])
def test_the_threshold_that_is_printed_reaches_the_recall(seed, rarer):
    rng = np.random.RandomState(seed)
    truth = (rng.rand(300) < 0.2).astype(int)
    scores = np.clip(rng.rand(300) * 10 ** rng.uniform(-6, 0) + 0.1 * truth * rng.rand(300), 0, 1)
    if not rarer:
        truth, scores = 1 - truth, 1 - scores
    asked = rng.choice([0.5, 0.8, 0.95, 1.0])
    threshold = threshold_told(M.report(truth, scores, recall=asked))
    again = M.report(truth, scores, threshold=threshold)
    assert again.classes[rarer].recall >= asked
    two = np.stack([1 - scores, scores], 1)
    assert threshold_told(M.report(truth, two, recall=asked)) == pytest.approx(threshold, rel=1e-3)


def test_few_real_alarms_are_told_as_one_in_so_many():
    truth = [1] * 10 + [0] * 990
    report = M.report(truth, np.linspace(0.6, 0.1, 1000)[::-1], recall=1.0)
    assert any("about one alarm in 100 is real" in reason for reason in report.warnings)


def test_which_threshold_can_not_always_be_said():
    several = M.report([0, 1, 2] * 20, np.eye(3)[[0, 1, 2] * 20] * 0.7 + 0.1, recall=0.9)
    assert any("can be said of probabilities of two classes" in reason for reason in several.warnings)
    one = M.report([0] * 50, np.linspace(0, 0.4, 50), recall=0.9)
    assert any("no threshold" in reason for reason in one.warnings)
    with pytest.raises(ShapeError, match="above 0 and at most 1, got 80"):
        M.report([0, 1], [0, 1], recall=80)


@pytest.mark.parametrize("as_given", [list, iter, ex.tensor, np.array, lambda rows: ex.tensor(rows, dtype=ex.float64)])
def test_leakage_is_seen_between_lists_arrays_and_tensors(as_given):
    train, test = [[1, 2], [3, 4]], [[0, 7], [3, 4]]
    for given in ((train, as_given(test)), (as_given(train), test)):
        report = M.report([0, 1] * 20, [0, 1] * 20, train_inputs=given[0], test_inputs=given[1])
        assert any("1 of 2 test samples" in reason and "number 1" in reason for reason in report.warnings)


def test_costs_that_are_no_dict_are_refused():
    with pytest.raises(DtypeError, match="true, predicted"):
        M.report([0, 1], [1, 1], costs=[[0, 1], [5, 0]])
