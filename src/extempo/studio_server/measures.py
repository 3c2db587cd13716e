"""The metrics panel: scores of the last evaluation, and what `ex.metrics.report` says of them at a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..core.storage import Array
from ..metrics import Metric, report
from ..metrics.base import as_array
from ..metrics.confusion import sum_to_one

MOST_SAMPLES = 20000  # that are kept of an evaluation
MOST_CLASSES = 200
_WORDS = {True: "yes", False: "no", None: "cannot tell"}


class CollectedScores(Metric):
    """A metric that keeps what it is fed, for a look at it later."""

    def __init__(self) -> None:
        self.truth: list[Array] = []
        self.scores: list[Array] = []

    def reset(self) -> None:
        self.truth, self.scores = [], []

    def update(self, y_true: Any, y_pred: Any, mask: Any = None) -> Self:
        truth, scores = as_array("studio", y_true), as_array("studio", y_pred)
        if mask is not None:
            kept = as_array("studio", mask).astype(bool)
            truth, scores = truth[kept], scores[kept]
        self.truth.append(truth.reshape(-1))
        self.scores.append(scores.reshape(truth.size, -1))
        return self

    def compute(self) -> Any:
        """Nothing that is a figure."""
        return np.empty((0, 0))


class ScoreBoard:
    """True classes and probabilities, of which a page may ask for another threshold at any time."""

    def __init__(self, truth: Any, predicted: Any, classes: Sequence[str] | None, step: int) -> None:
        truth, predicted = as_array("studio", truth).reshape(-1), as_array("studio", predicted)
        predicted = predicted.reshape(len(truth), -1 if len(truth) else 1)
        self.step = step
        self.n = len(truth)
        self.why = _why_not(truth, predicted)
        if self.why:
            return
        self._truth = truth[:MOST_SAMPLES].astype(np.int64)
        self._probabilities = _as_probabilities(predicted[:MOST_SAMPLES].astype(np.float64))
        n_classes = max(2, self._probabilities.shape[1])
        self.classes = [str(name) for name in classes] if classes else [str(i) for i in range(n_classes)]
        if len(self.classes) != n_classes:
            self.classes = [str(i) for i in range(n_classes)]

    def message(self, threshold: float | None = None, positive: int | None = None) -> dict[str, Any]:
        """The figures at a threshold; `positive`: that class against all others."""
        if self.why:
            return {"type": "metrics", "available": False, "why": self.why}
        truth, scores, names = self._truth, self._probabilities, self.classes
        is_binary = scores.shape[1] <= 2
        if is_binary:
            positive = 1
        if positive is not None and positive >= len(names):
            positive = None
        if positive is not None:
            threshold = 0.5 if threshold is None else threshold
            names = names if is_binary else [f"not {names[positive]}", names[positive]]
            truth = truth if is_binary else (truth == positive).astype(np.int64)
            found = report(truth, scores[:, -1] if is_binary else scores[:, positive], names=names, threshold=threshold)
        else:
            found = report(truth, scores, names=names)
        shown = found.classes[1:2] if positive is not None else found.classes
        means = {name: float(np.mean([getattr(c, name) for c in shown])) for name in ("precision", "recall", "f1")}
        accuracy = found.figures["accuracy"]
        verdict = _WORDS[found.passed]
        return {
            "type": "metrics",
            "available": True,
            "step": self.step,
            "n": self.n,
            "classes": names,
            "all_classes": self.classes,
            "positive": positive,
            "threshold": threshold,
            "kind": "binary" if is_binary else "classes",
            "confusion": found.confusion.matrix.tolist(),
            "accuracy": accuracy,
            **means,
            "figures": [{"name": name, "value": value} for name, value in found.figures.items()],
            "by_class": [c._asdict() for c in found.classes],
            "verdict": verdict,
            "ok": found.passed,
            "report": [f"{accuracy:.0%} accurate, {means['recall']:.0%} recall: {verdict}", found.verdict],
            "findings": found.warnings,
        }


def _why_not(truth: Array, predicted: Array) -> str:
    if not truth.size:
        return "there were no samples"
    if truth.dtype.kind not in "iub" and not (truth == np.floor(truth)).all():
        return "the targets are no classes, so there is no confusion matrix"
    if truth.min() < 0 or truth.max() >= MOST_CLASSES or predicted.shape[1] > MOST_CLASSES:
        return f"there are more than {MOST_CLASSES} classes"
    if predicted.shape[1] > 1 and truth.max() >= predicted.shape[1]:
        return "there are more classes in the targets than in the scores"
    if predicted.shape[1] == 1 and truth.max() > 1:
        return "one score for each sample tells two classes apart, and the targets have more"
    if not np.isfinite(predicted).all():
        return "some scores are not finite"
    return ""


def _as_probabilities(scores: Array) -> Array:
    """Scores as they come out of a model, or probabilities, as probabilities."""
    if scores.shape[1] == 1:
        is_share = scores.min() >= 0.0 and scores.max() <= 1.0
        return scores if is_share else 1.0 / (1.0 + np.exp(-np.clip(scores, -500, 500)))
    if scores.min() >= 0.0 and sum_to_one(scores):
        return scores
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
