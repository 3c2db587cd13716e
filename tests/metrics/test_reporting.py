"""The verdict looks past accuracy."""

from __future__ import annotations

import json

import numpy as np
import pytest

from extempo import metrics as M
from extempo.errors import ShapeError


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
