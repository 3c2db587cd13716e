"""Figures that follow from which class was taken for which: accuracy, precision, recall and their like."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..core.storage import Array
from ..errors import ShapeError
from .base import Metric, pair, ratio, require_classes, require_labels
from .confusion import ConfusionMatrix, classes_of, over, require_scores

__all__ = [
    "F1",
    "MCC",
    "Accuracy",
    "BalancedAccuracy",
    "CohenKappa",
    "FBeta",
    "Precision",
    "Recall",
    "Specificity",
]

AVERAGES = ("binary", "micro", "macro", "weighted", None)


class _OfClasses(Metric):
    """A figure that follows from counts of classes, or, for several labels at once, of each label by itself.

    For several labels truth and predictions have the same shape (..., labels), of at least two dimensions, and
    `multilabel=True`.
    """

    higher_is_better = True

    def __init__(self, *, multilabel: bool = False, threshold: float | None = None) -> None:
        self.multilabel = multilabel
        self.threshold = threshold
        super().__init__()

    def reset(self) -> None:
        self.confusion = ConfusionMatrix(threshold=self.threshold)
        self.counts: Array = np.zeros(
            (0, 4), np.int64
        )  # of each label: true positives, false ones, missed, true negatives

    def update(self, y_true: Any, y_pred: Any, mask: Any = None) -> Self:
        if not self.multilabel:
            self.confusion.update(y_true, y_pred, mask)
            return self
        yes, said = self._labels(y_true, y_pred, mask)
        counts = np.stack([(yes & said).sum(0), (~yes & said).sum(0), (yes & ~said).sum(0), (~yes & ~said).sum(0)], 1)
        self._require_as_many(len(counts))
        self.counts = counts if not len(self.counts) else self.counts + counts
        return self

    def _labels(self, y_true: Any, y_pred: Any, mask: Any) -> tuple[Array, Array]:
        """Which labels are true and which were predicted, by sample."""
        truth, found = pair(self.name, y_true, y_pred, mask)
        if truth.ndim < 2 or truth.shape != found.shape:
            raise ShapeError(
                f"{self.name}: several labels need truth and predictions of one shape (samples, labels), got "
                f"{truth.shape} and {found.shape}"
            )
        yes = require_labels(self.name, truth).reshape(-1, truth.shape[-1])
        if found.dtype.kind == "f":
            found = over(self.name, found, self.threshold)
        return yes, found.astype(bool).reshape(yes.shape)

    def merge(self, other: Self) -> Self:
        super().merge(other)
        self.confusion.merge(other.confusion)
        if len(other.counts):
            self._require_as_many(len(other.counts))
            self.counts = other.counts.copy() if not len(self.counts) else self.counts + other.counts
        return self

    def _require_as_many(self, n_labels: int) -> None:
        if len(self.counts) not in (0, n_labels):
            raise ShapeError(f"{self.name}: {n_labels} labels, before there were {len(self.counts)}")

    def _counts(self) -> Array:
        """Of each class or label that occurred: true positives, false ones, missed ones, true negatives."""
        if self.multilabel:
            return self.counts
        m = self.confusion.matrix
        hit = np.diag(m)
        said, are = m.sum(0), m.sum(1)
        return np.stack([hit, said - hit, are - hit, m.sum() - said - are + hit], 1)

    def _occurring(self) -> Array:
        """Which classes are in the truth or were predicted; all labels are."""
        if self.multilabel:
            return np.ones(len(self.counts), bool)
        m = self.confusion.matrix
        return (m.sum(0) + m.sum(1)) > 0


class _OfOneClass(_OfClasses):
    """A figure that is defined for samples of one class each."""

    def __init__(self, *, threshold: float | None = None) -> None:
        super().__init__(threshold=threshold)


class Accuracy(_OfClasses):
    """The share of predictions that are right; with top_k, those with the truth among the k best scores.

    Of several labels (`multilabel=True`) a sample is right when all its labels are.

    >>> ex.metrics.Accuracy().update([0, 1, 2, 2], [0, 2, 2, 2]).compute()
    0.75
    >>> ex.metrics.Accuracy(top_k=2).update([0, 1], [[0.1, 0.2, 0.7], [0.2, 0.3, 0.5]]).compute()
    0.5
    """

    _state = ("n_right", "n")

    def __init__(self, top_k: int = 1, *, multilabel: bool = False, threshold: float | None = None) -> None:
        if top_k < 1:
            raise ShapeError(f"accuracy: top_k must be at least 1, got {top_k}")
        self.top_k = top_k
        super().__init__(multilabel=multilabel, threshold=threshold)

    @property
    def name(self) -> str:
        return "accuracy" if self.top_k == 1 else f"top_{self.top_k}_accuracy"

    def reset(self) -> None:
        super().reset()
        self.n_right, self.n = 0, 0

    def update(self, y_true: Any, y_pred: Any, mask: Any = None) -> Self:
        if self.multilabel:
            yes, said = self._labels(y_true, y_pred, mask)
            right = (yes == said).all(-1)
        elif self.top_k > 1:
            truth, scores = pair(self.name, y_true, y_pred, mask)
            if scores.ndim != truth.ndim + 1:
                raise ShapeError(
                    f"{self.name}: expected scores for each class, got predictions of shape {scores.shape}"
                )
            require_scores(self.name, scores)
            truth = require_classes(self.name, truth, scores.shape[-1])
            # As scikit-learn: of equal scores the higher class goes first.
            best = np.argsort(scores, -1, kind="stable")[..., ::-1][..., : self.top_k]
            right = (best == truth[..., None]).any(-1)
        else:
            truth, found = classes_of(self.name, y_true, y_pred, mask, self.threshold)
            right = truth == found
        self.n_right += int(right.sum())
        self.n += right.size
        return self

    def compute(self) -> float:
        return self.n_right / self.n if self.n else float("nan")


class _Averaged(_OfClasses):
    """A figure of each class, and its average.

    average: "micro" counts over all classes together, "macro" is the mean over classes, "weighted" the mean by how
    often they are true, None an array of all, "binary" that of class `positive`.
    """

    def __init__(
        self,
        average: str | None = "macro",
        *,
        positive: int = 1,
        multilabel: bool = False,
        threshold: float | None = None,
    ) -> None:
        if average not in AVERAGES:
            raise ShapeError(f"{self.name}: average must be one of {AVERAGES}, got {average!r}")
        self.average = average
        self.positive = positive
        super().__init__(multilabel=multilabel, threshold=threshold)

    _share = (0, 0)  # which count is the share, and which one completes the whole

    def compute(self) -> Any:
        counts, occurring = self._counts(), self._occurring()
        if not occurring.any():
            return np.zeros(0) if self.average is None else float("nan")
        if self.average == "binary":
            if self.positive >= len(counts):
                return 0.0
            return float(self._of(counts[self.positive]))
        if self.average is None:
            return self._of(counts)
        if self.average == "micro":
            return float(self._of(counts[occurring].sum(0)))
        each = self._of(counts[occurring])
        if self.average == "macro":
            return float(each.mean())
        weights = (counts[:, 0] + counts[:, 2])[occurring]
        return float((each * weights).sum() / weights.sum()) if weights.sum() else 0.0

    def _of(self, counts: Array) -> Array:
        """From true positives, false ones, missed ones and true negatives, along the last dimension."""
        part, other = (counts[..., i] for i in self._share)
        return ratio(part, part + other)


class Precision(_Averaged):
    """Of those taken for a class, the share that are of it: tp / (tp + fp); 0 where nothing was.

    >>> ex.metrics.Precision("binary").update([0, 0, 1, 1], [0, 1, 1, 1]).compute()
    0.6666666666666666
    """

    _share = (0, 1)


class Recall(_Averaged):
    """Of those that are of a class, the share that was found: tp / (tp + fn); 0 where there are none.

    >>> ex.metrics.Recall("binary").update([0, 0, 1, 1], [0, 0, 0, 1]).compute()
    0.5
    """

    _share = (0, 2)


class Specificity(_Averaged):
    """Of those that are not of a class, the share that was not taken for it: tn / (tn + fp).

    >>> ex.metrics.Specificity("binary").update([0, 0, 1, 1], [0, 1, 1, 1]).compute()
    0.5
    """

    _share = (3, 1)


class FBeta(_Averaged):
    """The weighted harmonic mean of precision and recall; beta > 1 gives recall more weight.

    >>> ex.metrics.FBeta(2.0, "binary").update([0, 0, 1, 1], [0, 0, 0, 1]).compute()
    0.5555555555555556
    """

    def __init__(self, beta: float, average: str | None = "macro", **options: Any) -> None:
        if not beta > 0:
            raise ShapeError(f"f_beta: beta must be positive, got {beta}")
        self.beta = beta
        super().__init__(average, **options)

    def _of(self, counts: Array) -> Array:
        square = self.beta**2
        hits = (1 + square) * counts[..., 0]
        return ratio(hits, hits + square * counts[..., 2] + counts[..., 1])


class F1(FBeta):
    """The harmonic mean of precision and recall.

    >>> ex.metrics.F1("binary").update([0, 0, 1, 1], [0, 0, 0, 1]).compute()
    0.6666666666666666
    """

    def __init__(self, average: str | None = "macro", **options: Any) -> None:
        super().__init__(1.0, average, **options)


class BalancedAccuracy(_OfOneClass):
    """The mean recall of the classes that are there: a majority guess gets no more than chance.

    >>> ex.metrics.BalancedAccuracy().update([0, 0, 0, 1], [0, 0, 0, 0]).compute()
    0.5
    """

    def compute(self) -> float:
        counts = self._counts()
        hits, are = counts[:, 0], counts[:, 0] + counts[:, 2]
        there = are > 0
        return float(ratio(hits[there], are[there]).mean()) if there.any() else float("nan")


class MCC(_OfOneClass):
    """Matthews' correlation coefficient: 1 is perfect, 0 is no better than chance, for any mixture of classes.

    >>> ex.metrics.MCC().update([0, 0, 1, 1], [0, 0, 0, 1]).compute()
    0.5773502691896258
    """

    def compute(self) -> float:
        m = self.confusion.matrix.astype(np.float64)
        n, said, are = m.sum(), m.sum(0), m.sum(1)
        if not n:
            return float("nan")
        shared = np.trace(m) * n - said @ are
        spread = (n * n - said @ said) * (n * n - are @ are)
        return float(shared / np.sqrt(spread)) if spread > 0 else 0.0


class CohenKappa(_OfOneClass):
    """Agreement beyond that of chance: 1 is perfect, 0 is chance.

    >>> ex.metrics.CohenKappa().update([0, 0, 1, 1], [0, 0, 0, 1]).compute()
    0.5
    """

    def compute(self) -> float:
        m = self.confusion.matrix.astype(np.float64)
        n = m.sum()
        if not n:
            return float("nan")
        chance = (m.sum(0) @ m.sum(1)) / n
        return float((np.trace(m) - chance) / (n - chance)) if n != chance else float("nan")
