"""How well scores put the positive ones first: areas under the ROC and the precision-recall curve, thresholds.

These figures depend on the order of all scores, so every score is kept: nine bytes a sample and class.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from ..core.storage import Array
from ..errors import DtypeError, ShapeError
from .base import Metric, pair, require_classes
from .confusion import sum_to_one

__all__ = ["PRAUC", "ROCAUC", "precision_recall_curve", "roc_curve", "threshold_for_recall"]


class Counts(NamedTuple):
    """By falling score, where it changes: the scores, and how many positives and negatives have at least that score."""

    thresholds: Array
    n_true: Array
    n_false: Array


def counts_by_score(truth: Array, scores: Array) -> Counts:
    order = np.argsort(-scores, kind="stable")
    scores, truth = scores[order], truth[order]
    last = np.flatnonzero(np.append(scores[1:] != scores[:-1], True)) if scores.size else np.zeros(0, np.int64)
    n_true = np.cumsum(truth)[last]
    return Counts(scores[last], n_true, last + 1 - n_true)


def roc_area(truth: Array, scores: Array) -> float:
    """The chance that a positive has a higher score than a negative; nan if one of them is missing."""
    counts = counts_by_score(truth, scores)
    if not truth.any() or truth.all():
        return float("nan")
    rate = np.append(0, counts.n_true) / truth.sum()
    false_rate = np.append(0, counts.n_false) / (~truth).sum()
    return float((np.diff(false_rate) * (rate[1:] + rate[:-1])).sum() / 2)


def average_precision(truth: Array, scores: Array) -> float:
    """The mean of the precision over recall; nan without positives."""
    if not truth.any():
        return float("nan")
    counts = counts_by_score(truth, scores)
    precision = counts.n_true / (counts.n_true + counts.n_false)
    gained = np.diff(np.append(0, counts.n_true / truth.sum()))
    return float((precision * gained).sum())


class _Area(Metric):
    """Keeps truth and scores: a vector of both, or (samples, classes) of both, a truth of classes made one-hot."""

    higher_is_better = True

    def __init__(self, average: str | None = "macro") -> None:
        if average not in ("macro", "weighted", "micro", None):
            raise ShapeError(f"{self.name}: average must be 'macro', 'weighted', 'micro' or None, got {average!r}")
        self.average = average
        super().__init__()

    def reset(self) -> None:
        self._truth: list[Array] = []
        self._scores: list[Array] = []

    def update(self, y_true: Any, y_pred: Any, mask: Any = None) -> Self:
        truth, scores = pair(self.name, y_true, y_pred, mask)
        if np.isnan(scores).any():
            raise DtypeError(f"{self.name}: scores are nan and have no order")
        if scores.ndim == truth.ndim + 1:
            n = scores.shape[-1]
            classes = require_classes(self.name, truth, n).reshape(-1)
            truth, scores = np.eye(n, dtype=bool)[classes], scores.reshape(-1, n)
            if n == 2:
                if not sum_to_one(scores):
                    raise DtypeError(
                        f"{self.name}: expected the probabilities of two classes, or one score for each sample; pass "
                        "scores.softmax(-1)"
                    )
                truth, scores = truth[:, 1], scores[:, 1]  # the probabilities of one class say it all
        elif truth.size and not np.isin(truth, (0, 1)).all():
            raise ShapeError(
                f"{self.name}: a truth of several classes needs a score for each, predictions of shape (..., classes)"
            )
        elif truth.ndim > 2:
            truth, scores = truth.reshape(-1, truth.shape[-1]), scores.reshape(-1, truth.shape[-1])
        if not truth.size:
            return self
        self._require_columns(scores)
        self._truth.append(np.atleast_1d(truth).astype(bool))
        self._scores.append(np.atleast_1d(scores).astype(np.float64))
        return self

    def _require_columns(self, scores: Array) -> None:
        if self._scores and self._scores[0].shape[1:] != scores.shape[1:]:
            raise ShapeError(f"{self.name}: scores of shape {scores.shape} after some of {self._scores[0].shape}")

    def merge(self, other: Self) -> Self:
        super().merge(other)
        if other._scores:
            self._require_columns(other._scores[0])
        self._truth += other._truth
        self._scores += other._scores
        return self

    def _area(self, truth: Array, scores: Array) -> float:
        raise NotImplementedError

    def compute(self) -> Any:
        if not self._truth:
            return float("nan")
        truth, scores = np.concatenate(self._truth), np.concatenate(self._scores)
        if truth.ndim == 1:
            return self._area(truth, scores)
        if self.average == "micro":
            return self._area(truth.reshape(-1), scores.reshape(-1))
        each = np.array([self._area(truth[:, j], scores[:, j]) for j in range(truth.shape[1])])
        if self.average is None:
            return each
        weights = truth.sum(0) if self.average == "weighted" else np.ones(len(each))
        return float((each * weights).sum() / weights.sum())


class ROCAUC(_Area):
    """The area under the ROC curve: the chance that a positive has a higher score than a negative.

    Of several classes each against the rest, and their mean.

    >>> ex.metrics.ROCAUC().update([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).compute()
    0.75
    """

    name = "roc_auc"

    def _area(self, truth: Array, scores: Array) -> float:
        return roc_area(truth, scores)


class PRAUC(_Area):
    """The area under the precision-recall curve (average precision): what ROC hides when positives are rare.

    >>> ex.metrics.PRAUC().update([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).compute()
    0.8333333333333333
    """

    name = "pr_auc"

    def _area(self, truth: Array, scores: Array) -> float:
        return average_precision(truth, scores)


def _binary(metric: str, y_true: Any, scores: Any, mask: Any = None) -> tuple[Array, Array]:
    truth, found = pair(metric, y_true, scores, mask)
    if truth.shape != found.shape or (truth.size and not np.isin(truth, (0, 1)).all()):
        raise ShapeError(f"{metric}: expected a truth of 0 and 1 and one score for each, got shape {found.shape}")
    if np.isnan(found).any():
        raise DtypeError(f"{metric}: scores are nan and have no order")
    return truth.reshape(-1).astype(bool), found.reshape(-1).astype(np.float64)


def roc_curve(y_true: Any, scores: Any, mask: Any = None) -> tuple[Array, Array, Array]:
    """False-positive rates, true-positive rates and the scores at which they are reached, falling.

    >>> fpr, tpr, thresholds = ex.metrics.roc_curve([0, 1], [0.2, 0.9])
    >>> fpr, tpr
    (array([0., 0., 1.]), array([0., 1., 1.]))
    """
    truth, found = _binary("roc_curve", y_true, scores, mask)
    counts = counts_by_score(truth, found)
    n_true, n_false = max(truth.sum(), 1), max((~truth).sum(), 1)
    rates = np.append(0, counts.n_false) / n_false, np.append(0, counts.n_true) / n_true
    return *rates, np.append(np.inf, counts.thresholds)


def precision_recall_curve(y_true: Any, scores: Any, mask: Any = None) -> tuple[Array, Array, Array]:
    """Precision and recall of "score >= t" for each score t that occurs, rising; the last pair is (1, 0), without one.

    >>> precision, recall, thresholds = ex.metrics.precision_recall_curve([0, 1], [0.2, 0.9])
    >>> precision, recall, thresholds
    (array([0.5, 1. , 1. ]), array([1., 1., 0.]), array([0.2, 0.9]))
    """
    truth, found = _binary("precision_recall_curve", y_true, scores, mask)
    counts = counts_by_score(truth, found)
    precision = counts.n_true / np.maximum(counts.n_true + counts.n_false, 1)
    recall = counts.n_true / truth.sum() if truth.any() else np.ones(len(counts.n_true))
    return np.append(precision[::-1], 1.0), np.append(recall[::-1], 0.0), counts.thresholds[::-1]


class ThresholdFound(NamedTuple):
    """A threshold, and what "score >= threshold" reaches."""

    threshold: float
    precision: float
    recall: float


def threshold_for_recall(y_true: Any, scores: Any, recall: float, mask: Any = None) -> ThresholdFound:
    """The highest threshold whose recall is at least the one asked for.

    >>> ex.metrics.threshold_for_recall([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], recall=1.0)
    ThresholdFound(threshold=0.35, precision=0.6666666666666666, recall=1.0)
    """
    if not 0 < recall <= 1:
        raise ShapeError(f"threshold_for_recall: recall must be above 0 and at most 1, got {recall}")
    precisions, recalls, thresholds = precision_recall_curve(y_true, scores, mask)
    reached = np.flatnonzero(recalls[:-1] >= recall - 1e-12)
    if not reached.size:
        raise ShapeError("threshold_for_recall: there are no samples")
    at = reached[-1]
    return ThresholdFound(float(thresholds[at]), float(precisions[at]), float(recalls[at]))
