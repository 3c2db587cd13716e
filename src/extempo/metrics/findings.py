"""What a report finds: each check is a function of counts and gives sentences with numbers of their own.

A finding speaks against the model, against the figures, or is worth knowing; where all is well there is none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, NamedTuple

import numpy as np

from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.wording import counted
from ..errors import DtypeError
from .confusion import ConfusionMatrix, classes_of
from .intervals import interval
from .ranking import threshold_for_recall

RARE = 0.2  # a class with less than this share is called rare
TOO_FEW = 30  # samples of a class for a figure to mean much
LOW_RECALL = 0.5
GAP = 0.1  # between training and validation accuracy
MOST_ALIKE = 5  # findings of one kind


class ClassFigures(NamedTuple):
    """What is known of one class."""

    name: str
    precision: float
    recall: float
    f1: float
    n: int
    recall_interval: tuple[float, float]


class Reason(NamedTuple):
    """One finding. kind: "no" speaks against the model, "unsure" against the figures, "note" is worth knowing."""

    kind: str
    text: str


def against_majority(matrix: Array, confusion: ConfusionMatrix, figures: dict[str, float]) -> list[Reason]:
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
        chance = f"{accuracy:.1%} is above that by less than chance might do on {n} samples"
        return [Reason("unsure", f"{text}: {chance}")]
    if guess > 1 - RARE:
        return [Reason("note", f"{text}: look at recall, not at accuracy")]
    return []


def missed_classes(classes: list[ClassFigures]) -> list[Reason]:
    n = sum(c.n for c in classes)
    found = []
    for c in classes:
        if c.n and c.recall < LOW_RECALL and c.recall_interval[1] < LOW_RECALL + 0.25:
            rare = f", which is rare ({c.n / n:.1%})," if c.n / n < RARE else ""
            found.append(
                Reason(
                    "no",
                    f"of {counted(c.n, 'sample')} of class {c.name}{rare} it finds {round(c.recall * c.n)} and misses "
                    f"{c.n - round(c.recall * c.n)}: recall {c.recall:.0%}",
                )
            )
    return _some(found, "so it is with {} more classes: recall below half")


def _some(reasons: list[Reason], further: str) -> list[Reason]:
    """The first few of the same kind, and how many there are."""
    if len(reasons) <= MOST_ALIKE:
        return reasons
    return [*reasons[:MOST_ALIKE], Reason(reasons[0].kind, further.format(len(reasons) - MOST_ALIKE))]


def dear_errors(
    matrix: Array, confusion: ConfusionMatrix, costs: Mapping[tuple[int, int], float] | None
) -> list[Reason]:
    wrong = matrix - np.diag(np.diag(matrix))
    if not wrong.any():
        return []
    if costs is not None and not isinstance(costs, Mapping):
        raise DtypeError(f"report: costs are {{(true, predicted): cost}}, got {type(costs).__name__}")
    if costs:
        total = {pair_: cost * float(wrong[pair_]) for pair_, cost in costs.items() if max(pair_) < len(wrong)}
        whole = sum(total.values())
        if not whole:
            return []
        (i, j), most = max(total.items(), key=lambda item: item[1])
        return [
            Reason(
                "note",
                f"errors cost {whole:g} in all; {most:g} of it comes from {counted(wrong[i, j], 'sample')} of class "
                f"{confusion.label(i)} taken for {confusion.label(j)}",
            )
        ]
    are = matrix.sum(1)
    if are[are > 0].min() >= RARE * are.sum() or (are > 0).sum() < 2:
        return []
    rarest = _rarest(are)
    missed, false = int(wrong[rarest].sum()), int(wrong[:, rarest].sum())
    name = confusion.label(rarest)
    if not missed and not false:
        return []
    told = f"errors are not alike: {missed} of class {name} were missed, {false} others were taken for {name}"
    if missed:
        told += f"; where a missed {name} costs more than a false alarm, those {missed} are what to bring down"
    return [Reason("note", f"{told} (costs= adds up)")]


def threshold_for(
    truth: Array, probabilities: Array | None, recall: float | None, names: ConfusionMatrix
) -> list[Reason]:
    if recall is None:
        return []
    if probabilities is None:
        told = f"which threshold reaches a recall of {recall:.0%} can be said of probabilities of two classes"
        return [Reason("note", told)]
    if truth.all() or not truth.any():
        return [Reason("note", "with samples of one class only there is no threshold to look for")]
    rarer = int(2 * truth.sum() <= truth.size)
    if rarer:
        threshold = _rounded(threshold_for_recall(truth, probabilities, recall).threshold, down=True)
        alarms = probabilities >= threshold
    else:  # class 0 is what stays below the threshold, so that must be above enough of its samples
        reached = -threshold_for_recall(truth == 0, -probabilities, recall).threshold
        threshold = _rounded(float(np.nextafter(reached, np.inf)), down=False)
        alarms = probabilities < threshold
    real = float((truth[alarms] == rarer).mean())
    return [
        Reason(
            "note",
            f"a recall of {recall:.0%} on class {names.label(rarer)} is reached at threshold {threshold:.4g} "
            f"(precision {real:.0%}: {_alarms(real)})",
        )
    ]


def _alarms(real: float) -> str:
    if real < 0.15:
        return f"about one alarm in {round(1 / real)} is real"
    return f"of ten alarms about {round(10 * real)} are real"


def _rounded(value: float, down: bool) -> float:
    """A number of four digits that is no higher (or no lower), so that what is printed does what it says."""
    shown = Decimal(value)
    if not shown:
        return 0.0
    unit = Decimal(1).scaleb(shown.adjusted() - 3)
    return float(shown.quantize(unit, ROUND_FLOOR if down else ROUND_CEILING))


def too_few(classes: list[ClassFigures]) -> list[Reason]:
    found = []
    for c in classes:
        if 0 < c.n < TOO_FEW:
            low, high = c.recall_interval
            found.append(
                Reason(
                    "unsure",
                    f"class {c.name} has {counted(c.n, 'sample')}: its recall could be anywhere from {low:.0%} "
                    f"to {high:.0%}; "
                    "collect more before you rely on it",
                )
            )
    return _some(found, f"{{}} more classes have fewer than {counted(TOO_FEW, 'sample')}, too")


def overfitting(accuracy: float, train: tuple[Any, Any] | None, threshold: float | None) -> list[Reason]:
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


def leakage(train_inputs: Any, test_inputs: Any) -> list[Reason]:
    if train_inputs is None or test_inputs is None:
        return []
    seen = {_fingerprint(sample) for sample in train_inputs}
    known = [_fingerprint(sample) in seen for sample in test_inputs]
    both, n = [i for i, is_known in enumerate(known) if is_known], len(known)
    if not both:
        return []
    return [
        Reason(
            "no",
            f"{len(both)} of {n} test samples are also in the training set (leakage; the first is number {both[0]}): "
            "the figures are better than they would be on new ones",
        )
    ]


def _fingerprint(sample: Any) -> Any:
    """The same for samples of the same content, be they tensors, arrays or lists."""
    if isinstance(sample, Tensor):
        sample = sample.detach().numpy()
    if isinstance(sample, np.ndarray | np.generic):
        if sample.dtype.kind in "OSU" or not np.ndim(sample):
            return _fingerprint(sample.tolist())
        numbers = np.ascontiguousarray(sample, np.float64) + 0.0  # -0.0 is 0.0
        return sample.shape, hashlib.blake2b(numbers.tobytes(), digest_size=16).digest()
    if isinstance(sample, Mapping):
        return tuple((key, _fingerprint(value)) for key, value in sample.items())
    if isinstance(sample, list | tuple):
        if sample and all(isinstance(part, int | float) for part in sample):
            return _fingerprint(np.asarray(sample, np.float64))
        return tuple(_fingerprint(part) for part in sample)
    return sample


def _rarest(are: Array) -> int:
    """The class with the fewest samples of those that have some."""
    return int(np.where(are > 0, are, are.max() + 1).argmin())
