"""`report`: a table of figures, and a verdict that looks past accuracy.

The verdict is yes, no, or "cannot tell", with the reasons in sentences. Each sentence is a check with numbers of its
own: what guessing the most frequent class would score, which class is missed, whether there are enough samples of it,
whether training and validation differ, whether test samples were trained on.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from .._tensor import Tensor
from ..errors import ShapeError
from ..storage import Array
from .base import pair, ratio
from .confusion import ConfusionMatrix, classes_of
from .figures import MCC
from .intervals import interval
from .ranking import ROCAUC, threshold_for_recall

__all__ = ["Report", "report"]

RARE = 0.2  # a class with less than this share is called rare
TOO_FEW = 30  # samples of a class for a figure to mean much
LOW_RECALL = 0.5
GAP = 0.1  # between training and validation accuracy


class ClassFigures(NamedTuple):
    """What is known of one class."""

    name: str
    precision: float
    recall: float
    f1: float
    n: int
    recall_interval: tuple[float, float]


class Report:
    """Figures of a classification: printed, a table and a verdict. `.passed` is True, False or None (cannot tell)."""

    def __init__(
        self, confusion: ConfusionMatrix, figures: dict[str, float], classes: list[ClassFigures], reasons: list[Reason]
    ) -> None:
        self.confusion = confusion
        self.figures = figures
        self.classes = classes
        self.reasons = reasons

    @property
    def passed(self) -> bool | None:
        """Whether the model does more than accuracy pretends; None where the samples are too few to tell."""
        if any(reason.kind == "no" for reason in self.reasons):
            return False
        return None if any(reason.kind == "unsure" for reason in self.reasons) else True

    @property
    def verdict(self) -> str:
        words = {True: "YES", False: "NO", None: "CANNOT TELL"}[self.passed]
        accuracy = self.figures["accuracy"]
        if self.passed:
            return f"{words}: accuracy {accuracy:.1%} is no illusion."
        return f"{words}: accuracy {accuracy:.1%} does not tell how good this model is."

    @property
    def warnings(self) -> list[str]:
        """The reasons, in sentences."""
        return [reason.text for reason in self.reasons]

    def __str__(self) -> str:
        width = max(5, *(len(c.name) for c in self.classes)) if self.classes else 5
        lines = [f"{'class':<{width}}  precision  recall      f1       n   recall, 95% sure"]
        for c in self.classes:
            low, high = c.recall_interval
            sure = f"{low:6.1%} to {high:6.1%}" if c.n else "no samples"
            lines.append(f"{c.name:<{width}}  {c.precision:9.1%}  {c.recall:6.1%}  {c.f1:6.1%}  {c.n:6d}   {sure}")
        lines.append("")
        lines += [f"{name:<20} {_figure_text(name, value)}" for name, value in self.figures.items()]
        lines += ["", self.verdict]
        for reason in self.reasons:
            lines += _wrapped(f"- {reason.text}", 79)
        return "\n".join(lines)

    __repr__ = __str__

    def as_dict(self) -> dict[str, Any]:
        """For machines; `json.dumps` takes it."""
        return {
            "figures": self.figures,
            "classes": [{**c._asdict(), "recall_interval": list(c.recall_interval)} for c in self.classes],
            "confusion": self.confusion.matrix.tolist(),
            "passed": self.passed,
            "verdict": self.verdict,
            "reasons": [reason._asdict() for reason in self.reasons],
        }

    def to_json(self) -> str:
        return json.dumps(self.as_dict(), indent=2)

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><td>{escape(c.name)}</td><td>{c.precision:.1%}</td><td>{c.recall:.1%}</td><td>{c.f1:.1%}</td>"
            f"<td>{c.n}</td></tr>"
            for c in self.classes
        )
        figures = "".join(
            f"<tr><td>{escape(name)}</td><td>{_figure_text(name, value)}</td></tr>"
            for name, value in self.figures.items()
        )
        reasons = "".join(f"<li>{escape(reason.text)}</li>" for reason in self.reasons)
        return (
            f"<p><b>{escape(self.verdict)}</b></p><ul>{reasons}</ul>"
            "<table><tr><th>class</th><th>precision</th><th>recall</th><th>f1</th><th>n</th></tr>"
            f"{cells}</table><table>{figures}</table>{self.confusion.svg()}"
        )


class Reason(NamedTuple):
    """One finding. kind: "no" speaks against the model, "unsure" against the figures, "note" is worth knowing."""

    kind: str
    text: str


def report(
    y_true: Any,
    y_pred: Any,
    *,
    names: Sequence[str] | None = None,
    threshold: float | None = None,
    recall: float | None = None,
    costs: Mapping[tuple[int, int], float] | None = None,
    train: tuple[Any, Any] | None = None,
    train_inputs: Any = None,
    test_inputs: Any = None,
    mask: Any = None,
) -> Report:
    """A table of what a classifier does, and whether its accuracy can be believed.

    y_true, y_pred: true classes, and classes, scores or probabilities that were predicted.
    names: of the classes. threshold: from which probability on it is class 1 (0.5).
    recall: of the rarest class that you need; says which threshold reaches it, if probabilities were given.
    costs: {(true, predicted): cost} of errors; without it an error of the rarer class is said to cost most.
    train: the same pair for the training samples, to see overfitting.
    train_inputs, test_inputs: samples, to see whether some were both trained and tested on.

    >>> y_true = [0] * 96 + [1] * 4
    >>> print(ex.metrics.report(y_true, [0] * 99 + [1]).verdict)
    NO: accuracy 97.0% does not tell how good this model is.
    """
    truth, found = classes_of("report", y_true, y_pred, mask, threshold)
    if not truth.size:
        raise ShapeError("report: there are no samples")
    confusion = ConfusionMatrix(len(names or ()), names=names).update(truth, found)
    matrix = confusion.matrix
    probabilities = _probabilities(y_true, y_pred, mask)
    classes = _class_figures(confusion)
    figures = _figures(matrix, truth, found, probabilities)
    reasons = [
        *_against_majority(matrix, confusion, figures),
        *_missed_classes(classes),
        *_dear_errors(matrix, confusion, costs),
        *_threshold(truth, probabilities, recall, confusion),
        *_too_few(classes),
        *_overfitting(figures["accuracy"], train, threshold),
        *_leakage(train_inputs, test_inputs),
    ]
    return Report(confusion, figures, classes, reasons)


# ---- figures


def _class_figures(confusion: ConfusionMatrix) -> list[ClassFigures]:
    m = confusion.matrix
    hit, said, are = np.diag(m), m.sum(0), m.sum(1)
    precision, recall, f1 = ratio(hit, said), ratio(hit, are), ratio(2 * hit, said + are)
    return [
        ClassFigures(
            confusion.label(i),
            float(precision[i]),
            float(recall[i]),
            float(f1[i]),
            int(are[i]),
            interval(hit[i], are[i]),
        )
        for i in range(len(m))
    ]


def _figures(matrix: Array, truth: Array, found: Array, probabilities: Array | None) -> dict[str, float]:
    are = matrix.sum(1)
    there = are > 0
    recalls = ratio(np.diag(matrix), are)
    figures = {
        "accuracy": float(np.trace(matrix) / matrix.sum()),
        "majority guess": float(are.max() / are.sum()),
        "balanced accuracy": float(recalls[there].mean()),
        "macro f1": float(ratio(2 * np.diag(matrix), matrix.sum(0) + are)[(matrix.sum(0) + are) > 0].mean()),
        "mcc": MCC().update(truth, found).compute(),
    }
    if probabilities is not None:
        figures["roc auc"] = ROCAUC().update(truth, probabilities).compute()
    return figures


def _figure_text(name: str, value: float) -> str:
    return f"{value:7.3f}" if name in ("mcc", "roc auc") else f"{value:7.1%}"


def _probabilities(y_true: Any, y_pred: Any, mask: Any) -> Array | None:
    """Of class 1, where that was predicted."""
    truth, found = pair("report", y_true, y_pred, mask)
    if found.dtype.kind != "f":
        return None
    if found.ndim == truth.ndim + 1:
        return found[..., 1].reshape(-1) if found.shape[-1] == 2 else None
    return None if (found == np.floor(found)).all() else found.reshape(-1)


# ---- findings


def _against_majority(matrix: Array, confusion: ConfusionMatrix, figures: dict[str, float]) -> list[Reason]:
    are = matrix.sum(1)
    most = int(are.argmax())
    guess, accuracy, n = figures["majority guess"], figures["accuracy"], int(are.sum())
    text = (
        f"{confusion.label(most)} is {are[most]} of {n} samples, so always answering {confusion.label(most)} scores "
        f"{guess:.1%} without looking"
    )
    if (are > 0).sum() == 1:
        return [
            Reason("unsure", f"all {n} samples are of class {confusion.label(most)}; nothing can be told of others")
        ]
    low, _ = interval(np.trace(matrix), n)
    if accuracy <= guess:
        return [Reason("no", f"{text}: this model is no better ({accuracy:.1%})")]
    if low <= guess:
        return [Reason("unsure", f"{text}: {accuracy:.1%} is above that by less than chance might do on {n} samples")]
    if guess > 1 - RARE:
        return [Reason("note", f"{text}: look at recall, not at accuracy")]
    return []


def _missed_classes(classes: list[ClassFigures]) -> list[Reason]:
    n = sum(c.n for c in classes)
    found = []
    for c in classes:
        if c.n and c.recall < LOW_RECALL and c.recall_interval[1] < LOW_RECALL + 0.25:
            rare = f", which is rare ({c.n / n:.1%})," if c.n / n < RARE else ""
            found.append(
                Reason(
                    "no",
                    f"of {c.n} samples of class {c.name}{rare} it finds {round(c.recall * c.n)} and misses "
                    f"{c.n - round(c.recall * c.n)}: recall {c.recall:.0%}",
                )
            )
    return found


def _dear_errors(
    matrix: Array, confusion: ConfusionMatrix, costs: Mapping[tuple[int, int], float] | None
) -> list[Reason]:
    wrong = matrix - np.diag(np.diag(matrix))
    if not wrong.any():
        return []
    if costs:
        total = {pair_: cost * float(wrong[pair_]) for pair_, cost in costs.items() if max(pair_) < len(wrong)}
        whole = sum(total.values())
        if not whole:
            return []
        (i, j), most = max(total.items(), key=lambda item: item[1])
        return [
            Reason(
                "note",
                f"errors cost {whole:g} in all; {most:g} of it comes from {wrong[i, j]} samples of class "
                f"{confusion.label(i)} taken for {confusion.label(j)}",
            )
        ]
    are = matrix.sum(1)
    if are[are > 0].min() >= RARE * are.sum() or (are > 0).sum() < 2:
        return []
    rarest = int(np.where(are > 0, are, are.max() + 1).argmin())
    missed, false = int(wrong[rarest].sum()), int(wrong[:, rarest].sum())
    name = confusion.label(rarest)
    if not missed and not false:
        return []
    return [
        Reason(
            "note",
            f"errors are not alike: {missed} of class {name} were missed, {false} others were taken for {name}; where "
            f"a missed {name} costs more than a false alarm, those {missed} are what to bring down (costs= adds up)",
        )
    ]


def _threshold(truth: Array, probabilities: Array | None, recall: float | None, names: ConfusionMatrix) -> list[Reason]:
    if recall is None:
        return []
    if probabilities is None:
        return [
            Reason("note", f"which threshold reaches a recall of {recall:.0%} can be said when probabilities are given")
        ]
    if not truth.any():
        return [Reason("note", f"without samples of class {names.label(1)} there is no recall")]
    found = threshold_for_recall(truth, probabilities, recall)
    return [
        Reason(
            "note",
            f"a recall of {recall:.0%} on class {names.label(1)} is reached at threshold {found.threshold:.4g} "
            f"(precision {found.precision:.0%}: of ten alarms about {round(10 * found.precision)} are real)",
        )
    ]


def _too_few(classes: list[ClassFigures]) -> list[Reason]:
    found = []
    for c in classes:
        if 0 < c.n < TOO_FEW:
            low, high = c.recall_interval
            found.append(
                Reason(
                    "unsure",
                    f"class {c.name} has {c.n} samples: its recall could be anywhere from {low:.0%} to {high:.0%}; "
                    "collect more before you rely on it",
                )
            )
    return found


def _overfitting(accuracy: float, train: tuple[Any, Any] | None, threshold: float | None) -> list[Reason]:
    if train is None:
        return []
    truth, found = classes_of("report", train[0], train[1], None, threshold)
    trained = float((truth == found).mean()) if truth.size else float("nan")
    if trained - accuracy <= GAP:
        return []
    return [
        Reason(
            "no",
            f"accuracy is {trained:.1%} on the training samples and {accuracy:.1%} here: it has learned them by heart "
            "(overfitting); more data, dropout, weight decay or a smaller model would help",
        )
    ]


def _leakage(train_inputs: Any, test_inputs: Any) -> list[Reason]:
    if train_inputs is None or test_inputs is None:
        return []
    seen = {_fingerprint(sample) for sample in train_inputs}
    both = [i for i, sample in enumerate(test_inputs) if _fingerprint(sample) in seen]
    if not both:
        return []
    n = len(test_inputs)
    return [
        Reason(
            "no",
            f"{len(both)} of {n} test samples are also in the training set (leakage; the first is number {both[0]}): "
            "the figures are better than they would be on new ones",
        )
    ]


def _fingerprint(sample: Any) -> Any:
    """The same for samples of the same content."""
    if isinstance(sample, Tensor):
        sample = sample.detach().numpy()
    if isinstance(sample, np.ndarray | np.generic):
        return sample.shape, sample.tobytes()
    if isinstance(sample, Mapping):
        return tuple((key, _fingerprint(value)) for key, value in sample.items())
    if isinstance(sample, list | tuple):
        return tuple(_fingerprint(part) for part in sample)
    return sample


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent="  ")
