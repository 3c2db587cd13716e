"""The metrics panel says what `ex.metrics.report` says, at any threshold."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.studio_server.measures import CollectedScores, ScoreBoard


@pytest.fixture
def fraud():
    """Accurate, and blind to what counts."""
    rng = np.random.default_rng(0)
    truth = (np.arange(1000) % 50 == 0).astype(int)
    scores = np.clip(0.1 + 0.25 * truth + 0.1 * rng.standard_normal(1000), 0.01, 0.99)
    return truth, scores


def test_the_threshold_moves_every_figure_and_the_verdict(fraud):
    truth, scores = fraud
    board = ScoreBoard(truth, scores, ["fine", "fraud"], 7)
    high, low = board.message(0.5), board.message(0.2)
    assert high["accuracy"] > 0.97
    assert high["recall"] < 0.2 < low["recall"]
    assert high["verdict"] == "no"
    assert high["report"][0].startswith("98% accurate")
    report = ex.metrics.report(truth, scores, threshold=0.5, names=["fine", "fraud"])
    assert high["confusion"] == report.confusion.matrix.tolist()
    assert high["recall"] == report.classes[1].recall
    assert (high["kind"], high["classes"], high["step"]) == ("binary", ["fine", "fraud"], 7)


def test_scores_of_many_classes_are_told_by_best_and_for_one_class_by_threshold():
    truth = np.array([0, 1, 2, 0, 1, 2])
    scores = np.log(np.eye(3)[truth] * 0.8 + 0.1)
    board = ScoreBoard(truth, scores, None, 1)
    whole = board.message()
    assert whole["accuracy"] == 1.0
    assert len(whole["confusion"]) == 3
    one = board.message(0.95, positive=2)
    assert one["confusion"] == [[4, 0], [2, 0]]
    assert one["classes"] == ["not 2", "2"]
    assert board.message(0.5, positive=99)["positive"] is None


@pytest.mark.parametrize(
    ("truth", "scores", "why"),
    [
        ([], [], "no samples"),
        ([0.5, 1.25], [0.1, 0.2], "no classes"),
        ([0, 3], [[0.1, 0.9], [0.2, 0.8]], "more classes"),
        ([0, 2], [0.1, 0.2], "two classes"),
        ([0, 1], [0.1, float("nan")], "not finite"),
        ([-1, 1], [0.1, 0.2], "classes"),
    ],
)
def test_what_has_no_confusion_matrix_says_why(truth, scores, why):
    message = ScoreBoard(np.array(truth), np.array(scores, float), None, 1).message(0.5)
    assert message["available"] is False
    assert why in message["why"]


def test_scores_are_collected_as_a_metric_is_fed():
    collected = CollectedScores()
    collected.update(ex.tensor([0, 1]), ex.tensor([[0.9, 0.1], [0.2, 0.8]]))
    collected.update(ex.tensor([1, 1, 0]), ex.ones(3, 2), mask=ex.tensor([True, False, True]))
    assert [len(truth) for truth in collected.truth] == [2, 2]
    assert [scores.shape for scores in collected.scores] == [(2, 2), (2, 2)]
    collected.reset()
    assert collected.truth == []
