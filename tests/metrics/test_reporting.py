"""The verdict looks past accuracy."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import extempo as ex
from extempo import metrics as M
from extempo.errors import DtypeError, ShapeError


def fraud(n=5000, n_fraud=100, found=12, false=12, seed=0):
    """Nearly all samples are honest; of the frauds only a few are found."""
    rng = np.random.RandomState(seed)
    truth = np.zeros(n, int)
    truth[:n_fraud] = 1
    scores = rng.uniform(0, 0.4, n)
    scores[:found] = rng.uniform(0.6, 1, found)
    scores[found:n_fraud] = rng.uniform(0.3, 0.49, n_fraud - found)
    scores[n_fraud : n_fraud + false] = rng.uniform(0.5, 0.7, false)
    return truth, scores


def test_98_percent_accurate_and_12_percent_recall_is_no():
    truth, scores = fraud()
    report = M.report(truth, scores, names=["honest", "fraud"], recall=0.8)
    assert report.figures["accuracy"] == pytest.approx(0.98)
    assert report.classes[1].recall == pytest.approx(0.12)
    assert report.passed is False
    assert report.verdict.startswith("NO: accuracy 98.0%")
    text = " ".join(report.warnings)
    assert "always answering honest scores 98.0%" in text
    assert "finds 12 and misses 88: recall 12%" in text
    assert "88 of class fraud were missed, 12 others were taken for fraud" in text
    found = M.threshold_for_recall(truth, scores, 0.8)
    assert f"threshold {found.threshold:.4g}" in text
    assert ((scores >= found.threshold) & (truth == 1)).sum() >= 80


def test_a_good_model_on_even_classes_passes():
    rng = np.random.RandomState(1)
    truth = rng.randint(0, 3, 600)
    found = np.where(rng.rand(600) < 0.92, truth, (truth + 1) % 3)
    report = M.report(truth, found)
    assert report.passed is True
    assert report.warnings == []
    assert report.verdict.startswith("YES")


def test_a_good_model_on_rare_classes_passes_with_a_note():
    truth, scores = fraud(found=95, false=5)
    report = M.report(truth, scores)
    assert report.passed is True
    assert any("look at recall" in reason for reason in report.warnings)


def test_too_few_positives_cannot_tell():
    truth = [0] * 50 + [1] * 3
    report = M.report(truth, truth)
    assert report.passed is None
    low, high = M.interval(3, 3)
    assert any(f"anywhere from {low:.0%} to {high:.0%}" in reason for reason in report.warnings)


def test_all_of_one_class_cannot_tell():
    assert M.report([0] * 100, [0] * 100).passed is None


def test_no_better_than_guessing():
    report = M.report([0] * 60 + [1] * 40, [0] * 100)
    assert report.passed is False
    assert any("no better (60.0%)" in reason for reason in report.warnings)


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
    assert any("cost 12 in all; 10 of it comes from 1 samples of class 1 taken for 0" in r for r in report.warnings)


def test_it_fits_80_columns_and_machines_can_read_it():
    truth, scores = fraud()
    report = M.report(truth, scores, names=["honest", "fraud"], recall=0.9)
    assert all(len(line) <= 80 for line in str(report).splitlines())
    told = json.loads(report.to_json())
    assert told["passed"] is False
    assert told["confusion"] == report.confusion.matrix.tolist()
    assert "<svg" in report._repr_html_()


def test_no_samples_is_an_error():
    with pytest.raises(ShapeError, match="no samples"):
        M.report([], [])


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


def test_what_is_no_number_is_null_in_json():
    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    told = json.loads(M.report([0] * 50, np.linspace(0, 0.4, 50)).to_json(), parse_constant=refuse)
    assert told["figures"]["roc auc"] is None


def test_long_names_and_many_classes_fit():
    truth = list(range(200)) * 2
    report = M.report(truth, [0] * 400, names=[f"the class with number {i} and a long name" for i in range(200)])
    lines = str(report).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 100
    assert "(the 30 of 200 classes with the lowest recall; .classes has all)" in lines
    assert any("194 more classes" in reason for reason in report.warnings)


@pytest.mark.parametrize("as_given", [list, iter, ex.tensor, np.array, lambda rows: ex.tensor(rows, dtype=ex.float64)])
def test_leakage_is_seen_between_lists_arrays_and_tensors(as_given):
    train, test = [[1, 2], [3, 4]], [[0, 7], [3, 4]]
    for given in ((train, as_given(test)), (as_given(train), test)):
        report = M.report([0, 1] * 20, [0, 1] * 20, train_inputs=given[0], test_inputs=given[1])
        assert any("1 of 2 test samples" in reason and "number 1" in reason for reason in report.warnings)


def test_costs_that_are_no_dict_are_refused():
    with pytest.raises(DtypeError, match="true, predicted"):
        M.report([0, 1], [1, 1], costs=[[0, 1], [5, 0]])
