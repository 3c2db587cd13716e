"""Which class was taken for which: the confusion matrix, as numbers, as text and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..core.storage import Array
from ..core.wording import counted
from ..errors import DtypeError, IndexRangeError, ShapeError
from ..inspect.svg import FAINT, INK, Picture
from .base import Metric, pair, ratio, require_classes

__all__ = ["ConfusionMatrix"]

_WIDTH = 80
_NAME_WIDTH = 24


def classes_of(
    metric: str, y_true: Any, y_pred: Any, mask: Any = None, threshold: float | None = None
) -> tuple[Array, Array]:
    """True and predicted classes, as vectors of integers.

    Predictions are classes (integers, bools), scores for each class (one dimension more than the truth), or
    probabilities of class 1.
    """
    truth, found = pair(metric, y_true, y_pred, mask)
    of_each = found.ndim == truth.ndim + 1
    truth = require_classes(metric, truth, found.shape[-1] if of_each else None)
    if of_each:
        found = best_class(metric, found, threshold)
    elif found.dtype.kind == "f":
        found = over(metric, found, threshold)
    found = found.reshape(-1).astype(np.int64)
    if found.size and found.min() < 0:
        raise IndexRangeError(f"{metric}: class {found.min()} in the predictions; classes count from 0")
    return truth.reshape(-1), found


def best_class(metric: str, scores: Array, threshold: float | None) -> Array:
    """The class of the highest score; of two classes, with a threshold, class 1 if it is that probable."""
    require_scores(metric, scores)
    if threshold is None:
        return scores.argmax(-1)
    if scores.shape[-1] != 2:
        raise ShapeError(
            f"{metric}: a threshold is for two classes, got scores of shape {scores.shape}; leave it out, and the "
            "highest score counts"
        )
    return second_of_two(scores) >= threshold


def require_scores(metric: str, scores: Array) -> None:
    if np.isnan(scores).any():
        raise DtypeError(f"{metric}: predicted scores are nan, so no class is the best")


def second_of_two(scores: Array) -> Array:
    """The probabilities of class 1, of those of both classes or of scores of both."""
    if sum_to_one(scores):
        return scores[..., 1]
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(scores[..., 0] - scores[..., 1]))


def sum_to_one(scores: Array) -> bool:
    """Whether scores of classes are probabilities."""
    return not scores.size or bool(scores.min() >= 0 and (np.abs(scores.sum(-1) - 1) < 1e-3).all())


def over(metric: str, probabilities: Array, threshold: float | None) -> Array:
    """Which probabilities are at least the threshold, 0.5 if none is given."""
    if np.isnan(probabilities).any():
        raise DtypeError(f"{metric}: predicted probabilities are nan")
    whole = (probabilities == np.floor(probabilities)).all()
    if threshold is None and not whole and (probabilities.min(initial=0) < 0 or probabilities.max(initial=0) > 1):
        raise DtypeError(
            f"{metric}: expected probabilities, got numbers between {probabilities.min():.4g} and "
            f"{probabilities.max():.4g}; pass logits.sigmoid(), or threshold=0.0 for logits"
        )
    if threshold is None and whole:
        if not np.isfinite(probabilities).all():
            raise DtypeError(f"{metric}: predictions are infinite")
        return probabilities.astype(np.int64)  # classes that came as floats
    return probabilities >= (0.5 if threshold is None else threshold)


class ConfusionMatrix(Metric):
    """How often class i (row) was taken for class j (column). It grows with the classes it meets.

    n_classes: at least so many. names: of the classes, for text and pictures. threshold: for probabilities.

    >>> print(ex.metrics.ConfusionMatrix().update([0, 1, 1, 1], [0, 1, 1, 0]))
               predicted
    true       0       1
    0          1       0
    1          1       2
    """

    _state = ()

    def __init__(
        self, n_classes: int = 0, *, names: Sequence[str] | None = None, threshold: float | None = None
    ) -> None:
        self.n_least = max(n_classes, len(names or ()))
        self.names = list(names) if names is not None else None
        self.threshold = threshold
        super().__init__()
        self._settings = {"threshold": threshold}  # matrices of other sizes and names may be merged

    def reset(self) -> None:
        self.matrix = np.zeros((self.n_least, self.n_least), np.int64)

    def update(self, y_true: Any, y_pred: Any, mask: Any = None) -> Self:
        truth, found = classes_of(self.name, y_true, y_pred, mask, self.threshold)
        n = max(len(self.matrix), truth.max(initial=-1) + 1, found.max(initial=-1) + 1)
        if n > 10_000:
            raise ShapeError(f"{self.name}: class {n - 1} would make a matrix of {n} by {n}; number the classes from 0")
        self.matrix = _grown(self.matrix, n) + np.bincount(truth * n + found, minlength=n * n).reshape(n, n)
        return self

    def merge(self, other: Self) -> Self:
        super().merge(other)
        n = max(len(self.matrix), len(other.matrix))
        self.matrix = _grown(self.matrix, n) + _grown(other.matrix, n)
        return self

    def compute(self) -> Any:
        return self.matrix.copy()

    # ---- for people

    def label(self, i: int) -> str:
        """The name of a class, its number if it has none."""
        return self.names[i] if self.names is not None and i < len(self.names) else str(i)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        n = len(self.matrix)
        if not n:
            return "no samples yet"
        if n > 20:
            return (
                f"{counted(n, 'class', 'classes')}, {counted(self.matrix.sum(), 'sample')}, "
                f"{np.trace(self.matrix)} of them on the diagonal; see .svg()"
            )
        labels = [short(self.label(i), _NAME_WIDTH) for i in range(n)]
        first = max(4, *map(len, labels))
        widths = [max(7, len(labels[j]), len(str(self.matrix[:, j].max()))) for j in range(n)]
        lines = []
        at = 0
        while at < n:  # as many columns as fit, then the others below
            to = at + 1
            while to < n and first + sum(widths[at : to + 1]) + to + 1 - at <= _WIDTH:
                to += 1
            lines.append(" " * first + "  " + "predicted".rjust(widths[at] + 2))
            lines.append("true".ljust(first) + "".join(" " + labels[j].rjust(widths[j]) for j in range(at, to)))
            for i in range(n):
                cells = "".join(" " + str(self.matrix[i, j]).rjust(widths[j]) for j in range(at, to))
                lines.append(labels[i].ljust(first) + cells)
            at = to
        return "\n".join(lines)

    def svg(self, title: str = "Confusion matrix") -> Picture:
        """A picture: the share of each true class in colour, the counts in numbers."""
        n = len(self.matrix)
        longest = max((len(self.label(i)) for i in range(n)), default=1)
        cell = min(max(56, 8 * longest), 104 if n <= 6 else 56) if n <= 12 else max(8, 640 / n)
        left, top = 18 + 7 * min(longest, _NAME_WIDTH) + 14, 64
        picture = Picture(left + max(cell * n, 9 * len(title)) + 20, top + cell * n + 20, title)
        picture.text(left, 22, title, size=15, font_weight=600)
        picture.text(left + cell * n / 2, 40, "predicted", anchor="middle", fill=FAINT)
        shares = ratio(self.matrix, self.matrix.sum(1, keepdims=True))
        for i in range(n):
            if n <= 40:
                name = self.label(i)
                picture.text(left - 8, top + cell * (i + 0.5) + 4, short(name, _NAME_WIDTH), anchor="end")
                picture.text(left + cell * (i + 0.5), top - 6, short(name, max(int(cell // 8), 3)), anchor="middle")
            for j in range(n):
                share, count = float(shares[i, j]), int(self.matrix[i, j])
                tone = _tone(share, i == j)
                told = f"{self.label(i)} taken for {self.label(j)}: {count} ({share:.0%} of {self.label(i)})"
                picture.rect(left + cell * j, top + cell * i, cell - 2, cell - 2, fill=tone, title=told)
                if n <= 20:
                    picture.text(
                        left + cell * (j + 0.5) - 1,
                        top + cell * (i + 0.5) + 4,
                        str(count),
                        anchor="middle",
                        fill="#ffffff" if share > 0.55 else INK,
                    )
        middle = top + cell * n / 2
        picture.text(12, middle, "true", anchor="middle", fill=FAINT, transform=f"rotate(-90 12 {middle})")
        return picture

    def _repr_html_(self) -> str:
        return self.svg().svg()


def short(name: str, width: int) -> str:
    """A name of at most so many characters."""
    return name if len(name) <= width else name[: width - 1] + "…"


def _grown(matrix: Array, n: int) -> Array:
    return np.pad(matrix, (0, n - len(matrix)))


def _tone(share: float, right: bool) -> str:
    """White for nothing; blue for what is right, orange for what is not, deeper with the share."""
    full = (31, 111, 180) if right else (209, 89, 30)
    return "#" + "".join(f"{round(255 + (c - 255) * share):02x}" for c in full)
