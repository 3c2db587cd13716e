"""`report`: a table of figures, and a verdict that looks past accuracy.

The verdict is yes, no, or "cannot tell", with the reasons in sentences. Each sentence is a check with numbers of its
own: what guessing the most frequent class would score, which class is missed, whether there are enough samples of it,
whether training and validation differ, whether test samples were trained on.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from ..core.storage import Array
from ..errors import ShapeError
from ..inspect.style import figure, fragment, page
from ..inspect.tables import Column, Printable, Table
from . import findings
from .base import pair, ratio
from .confusion import ConfusionMatrix, classes_of, second_of_two, short
from .figures import MCC
from .findings import ClassFigures, Reason
from .intervals import interval
from .ranking import ROCAUC

__all__ = ["Report", "report"]

MOST_CLASSES = 30  # that a table shows
_NAME_WIDTH = 24


class Report(Printable):
    """Figures of a classification: printed, a table and a verdict. `.passed` is True, False or None (cannot tell).

    >>> found = ex.metrics.report([0] * 96 + [1] * 4, [0] * 99 + [1])  # 97% right, and 1 of 4 found
    >>> found.passed, found.figures["accuracy"]
    (False, 0.97)
    """

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
        """Whether accuracy tells how good the model is, as a sentence."""
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
        shown = sorted(self.classes, key=lambda c: c.recall if c.n else 2.0)[:MOST_CLASSES]
        fewer = len(shown) < len(self.classes)
        names = [short(c.name, _NAME_WIDTH) for c in (shown if fewer else self.classes)]
        width = max(5, *map(len, names))
        lines = [f"{'class':<{width}}  precision  recall      f1       n   recall, 95% sure"]
        for name, c in zip(names, shown if fewer else self.classes, strict=True):
            low, high = c.recall_interval
            sure = f"{low:6.1%} to {high:6.1%}" if c.n else "no samples"
            lines.append(f"{name:<{width}}  {c.precision:9.1%}  {c.recall:6.1%}  {c.f1:6.1%}  {c.n:6d}   {sure}")
        if fewer:
            lines.append(f"(the {len(shown)} of {len(self.classes)} classes with the lowest recall; .classes has all)")
        lines.append("")
        lines += [f"{name:<20} {_figure_text(name, value)}" for name, value in self.figures.items()]
        lines += ["", self.verdict]
        for reason in self.reasons:
            lines += _wrapped(f"- {reason.text}", 79)
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        return {
            "figures": self.figures,
            "classes": [{**c._asdict(), "recall_interval": list(c.recall_interval)} for c in self.classes],
            "confusion": self.confusion.matrix.tolist(),
            "passed": self.passed,
            "verdict": self.verdict,
            "reasons": [reason._asdict() for reason in self.reasons],
        }

    def _repr_html_(self) -> str:
        return fragment(self._html())

    def html(self) -> str:
        """A page with the verdict, the classes, the figures and the confusion matrix."""
        return page("Report", self._html())

    def _html(self) -> str:
        titles = ("class", "precision", "recall", "f1", "n")
        rows = [[c.name, *(f"{x:.1%}" for x in (c.precision, c.recall, c.f1)), str(c.n)] for c in self.classes]
        classes = Table([Column(title, right=title != "class") for title in titles], rows)
        pairs = [[name, _figure_text(name, value)] for name, value in self.figures.items()]
        figures = Table([Column("figure"), Column("value", right=True)], pairs)
        reasons = "".join(f"<li>{escape(reason.text)}</li>" for reason in self.reasons)
        return (
            f"<h2>{escape(self.verdict)}</h2><ul>{reasons}</ul>{classes.html()}{figures.html()}"
            f"{figure(self.confusion.svg())}"
        )


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

    y_true: the true classes.
    y_pred: what was predicted: classes, scores or probabilities.
    names: the names of the classes. threshold: from which probability on it is class 1 (0.5).
    recall: of the rarer class that you need; says which threshold reaches it, if probabilities of two classes were
        given.
    costs: {(true, predicted): cost} of errors; without it an error of the rarer class is said to cost most.
    train: the same pair for the training samples, to see overfitting.
    train_inputs, test_inputs: samples, to see whether some were both trained and tested on.

    >>> y_true = [0] * 96 + [1] * 4
    >>> print(ex.metrics.report(y_true, [0] * 99 + [1]).verdict)
    NO: accuracy 97.0% does not tell how good this model is.
    """
    if recall is not None and not 0 < recall <= 1:
        raise ShapeError(f"report: recall must be above 0 and at most 1, got {recall}")
    truth, found = classes_of("report", y_true, y_pred, mask, threshold)
    if not truth.size:
        raise ShapeError("report: there are no samples")
    confusion = ConfusionMatrix(len(names or ()), names=names).update(truth, found)
    matrix = confusion.matrix
    probabilities = _probabilities(y_true, y_pred, mask)
    classes = _class_figures(confusion)
    figures = _figures(matrix, truth, found, probabilities)
    reasons = [
        *findings.against_majority(matrix, confusion, figures),
        *findings.missed_classes(classes),
        *findings.dear_errors(matrix, confusion, costs),
        *findings.threshold_for(truth, probabilities, recall, confusion),
        *findings.too_few(classes),
        *findings.overfitting(figures["accuracy"], train, threshold),
        *findings.leakage(train_inputs, test_inputs),
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
        return second_of_two(found).reshape(-1) if found.shape[-1] == 2 else None
    return None if (found == np.floor(found)).all() else found.reshape(-1)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent="  ")
