"""The verdict looks past accuracy."""

from __future__ import annotations

import json

import numpy as np
import pytest

import extempo as ex
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
