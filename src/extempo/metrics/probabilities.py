"""Whether predicted probabilities mean what they say: log loss, Brier score, calibration error."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..core.storage import Array
from ..errors import DtypeError, ShapeError
from .base import Mean, Metric, pair, require_classes

__all__ = ["Brier", "CalibrationError", "LogLoss"]


def with_probabilities(metric: str, y_true: Any, y_pred: Any, mask: Any) -> tuple[Array, Array]:
    """True classes as a vector, and the probabilities of each class, of class 1 alone made those of two classes."""
    truth, found = pair(metric, y_true, y_pred, mask)
    if np.isnan(found).any():
        raise DtypeError(f"{metric}: predicted probabilities are nan")
    if found.size and (found.min() < 0 or found.max() > 1):
        raise DtypeError(
            f"{metric}: expected probabilities between 0 and 1, got {found.min():.4g} to {found.max():.4g}; pass "
            "scores.softmax(-1), or logits.sigmoid()"
        )
    if found.ndim == truth.ndim:
        found = np.stack([1 - found, found], -1)
    found = found.reshape(-1, found.shape[-1]).astype(np.float64)
    sums = found.sum(1)
    if found.size and np.abs(sums - 1).max() > 1e-3:
        worst = sums[np.abs(sums - 1).argmax()]
        raise DtypeError(f"{metric}: the probabilities of a sample sum to {worst:.4g}, not 1; pass scores.softmax(-1)")
    classes = require_classes(metric, truth, found.shape[1]).reshape(-1)
    return classes, found / np.maximum(sums, 1e-300)[:, None]


def _least(y_pred: Any) -> float:
    """What stands for a probability of 0, as in scikit-learn: the precision of the numbers that were given."""
    size = getattr(getattr(y_pred, "dtype", None), "itemsize", 8)
    return {2: 2.0**-10, 4: 2.0**-23}.get(size, 2.0**-52)  # of float16, float32 and float64


class LogLoss(Mean):
    """The mean of -log(probability of the true class): cross-entropy, in nats.

    >>> round(ex.metrics.LogLoss().update([1, 0], [0.9, 0.2]).compute(), 4)
    0.1643
    """

    higher_is_better = False

    def update(self, y_true: Any, y_pred: Any, mask: Any = None) -> Self:
        truth, p = with_probabilities(self.name, y_true, y_pred, mask)
        least = _least(y_pred)
        self.total -= float(np.log(np.clip(p[np.arange(len(truth)), truth], least, 1 - least)).sum())
        self.n += len(truth)
        return self


class Brier(Mean):
    """The mean squared error of probabilities: of class 1 for two classes (0 to 1), summed over more (0 to 2).

    >>> ex.metrics.Brier().update([1, 0], [0.5, 0.5]).compute()
    0.25
    """

    higher_is_better = False

    def update(self, y_true: Any, y_pred: Any, mask: Any = None) -> Self:
        truth, p = with_probabilities(self.name, y_true, y_pred, mask)
        off = ((p - np.eye(p.shape[1])[truth]) ** 2).sum(1)
        self.total += float(off.sum()) / (2 if p.shape[1] == 2 else 1)
        self.n += len(truth)
        return self


class CalibrationError(Metric):
    """How far confidence is from accuracy: the mean distance over bins of confidence, weighted by their samples.

    >>> round(ex.metrics.CalibrationError().update([1, 0, 1, 1], [0.9, 0.1, 0.8, 0.4]).compute(), 4)
    0.25
    """

    higher_is_better = False
    _state = ("counts", "confidences", "rights")

    def __init__(self, n_bins: int = 15) -> None:
        if n_bins < 1:
            raise ShapeError(f"calibration_error: expected at least one bin, got {n_bins}")
        self.n_bins = n_bins
        super().__init__()

    def reset(self) -> None:
        self.counts, self.confidences, self.rights = (np.zeros(self.n_bins) for _ in range(3))

    def update(self, y_true: Any, y_pred: Any, mask: Any = None) -> Self:
        truth, p = with_probabilities(self.name, y_true, y_pred, mask)
        if not len(truth):
            return self
        found, confidence = p.argmax(1), p.max(1)
        bins = np.clip(np.ceil(confidence * self.n_bins).astype(np.int64) - 1, 0, self.n_bins - 1)
        self.counts = self.counts + np.bincount(bins, minlength=self.n_bins)
        self.confidences = self.confidences + np.bincount(bins, confidence, self.n_bins)
        self.rights = self.rights + np.bincount(bins, found == truth, self.n_bins)
        return self

    def compute(self) -> float:
        n = self.counts.sum()
        return float(np.abs(self.confidences - self.rights).sum() / n) if n else float("nan")
