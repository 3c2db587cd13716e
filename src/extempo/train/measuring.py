"""Metrics of outputs: what they are fed follows from the loss, which says what a model's output means.

cross_entropy and nll_loss: classes along dimension 1, moved to the end; targets that the loss ignores are left out.
Metrics of probabilities get probabilities. binary_cross_entropy_with_logits: all metrics get probabilities.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..errors import ShapeError
from ..metrics import PRAUC, ROCAUC, Brier, CalibrationError, ConfusionMatrix, LogLoss, Metric
from ..nn import functional as F
from ..nn.losses import BCELoss, BCEWithLogitsLoss, CrossEntropyLoss, NLLLoss
from ..ragged_tensors.tensor import RaggedTensor

_OF_PROBABILITIES = (Brier, CalibrationError, LogLoss, PRAUC, ROCAUC)

_KINDS: dict[str, tuple[Any, type]] = {
    "cross_entropy": (F.cross_entropy, CrossEntropyLoss),
    "nll": (F.nll_loss, NLLLoss),
    "logits": (F.binary_cross_entropy_with_logits, BCEWithLogitsLoss),
    "probabilities": (F.binary_cross_entropy, BCELoss),
}


def kind_of(loss: Any) -> str:
    """Which loss it is, where that says what the output means; else ""."""
    for kind, (function, layer) in _KINDS.items():
        if loss is function or isinstance(loss, layer):
            return kind
    return ""


def named(metrics: Sequence[Metric] | Mapping[str, Metric] | None) -> dict[str, Metric]:
    """Metrics by name."""
    if isinstance(metrics, Metric | str):
        metrics = [metrics]  # a name is refused below
    given = metrics or ()
    for metric in given.values() if isinstance(given, Mapping) else given:
        if not isinstance(metric, Metric):
            raise TypeError(f"Trainer: metrics must be from ex.metrics, got {metric!r}; Accuracy() makes one")
    pairs = list(given.items()) if isinstance(given, Mapping) else [(metric.name, metric) for metric in given]
    for i, (name, _) in enumerate(pairs):
        if name == "loss" or name in [other for other, _ in pairs[:i]]:
            raise ValueError(f"Trainer: two figures would be named {name!r}; give a dict, metrics={{'name': metric}}")
    return dict(pairs)


def fresh(metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """The same metrics, which have seen nothing."""
    made = copy.deepcopy(dict(metrics))
    for metric in made.values():
        metric.reset()
    return made


def is_table(metric: Metric) -> bool:
    """Whether it tells more than numbers: no column of a history, but something to look at when training ends."""
    return isinstance(metric, ConfusionMatrix)


def tables(of: str, metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """Copies of the metrics that are tables, by the name that their figures would have."""
    return {f"{of}_{name}": copy.deepcopy(metric) for name, metric in metrics.items() if is_table(metric)}


def figures(metrics: Mapping[str, Metric]) -> dict[str, Any]:
    """What they tell: numbers, one for each class where there are several, and arrays of more dimensions as such."""
    told: dict[str, Any] = {}
    for name, metric in metrics.items():
        value = metric.compute()
        if np.ndim(value) == 0:
            told[name] = float(value)
        elif np.ndim(value) == 1:
            told |= {f"{name}_{i}": float(v) for i, v in enumerate(value)}
        else:
            told[name] = value
    return told


class Feeding:
    """Feeds metrics with targets and outputs."""

    def __init__(
        self, metrics: Mapping[str, Metric], loss: Any, batch: bool, predictions: Callable[[Any], Any] | None
    ) -> None:
        self._kind = "" if predictions is not None else kind_of(loss)
        for name, metric in metrics.items():
            if self._kind == "logits" and getattr(metric, "threshold", None) == 0:
                raise ValueError(
                    f"Trainer: {name} has threshold=0, but with this loss metrics get probabilities, which are all "
                    "above it; leave it out, or pass predictions=lambda output: output"
                )
        self._ignored = getattr(loss, "ignore_index", -100)
        self._batch = batch
        self._predictions = predictions

    def update(self, metrics: Mapping[str, Metric], target: Any, output: Any) -> None:
        """One batch."""
        if not metrics:
            return
        with no_grad():
            if self._batch:
                target, output = _put_together(target, output)
            if self._predictions is not None:
                output = self._predictions(output)
            elif not isinstance(output, Tensor | RaggedTensor):
                raise ShapeError(
                    f"Trainer: the model's output is a {type(output).__name__}, which metrics cannot take; say what "
                    "they get: predictions=lambda output: ..."
                )
            target, scores, mask = self._by_class(target, output)
            probabilities: Any = None
            for metric in metrics.values():
                if self._kind == "logits" or isinstance(metric, _OF_PROBABILITIES):
                    if probabilities is None:
                        probabilities = self._as_probabilities(scores)
                    metric.update(target, probabilities, mask)
                else:
                    metric.update(target, scores, mask)

    def _by_class(self, target: Any, output: Any) -> tuple[Any, Any, Any]:
        """Classes at the end, probabilities as targets made classes, and which targets count."""
        if self._kind not in ("cross_entropy", "nll"):
            return target, output, None
        if output.ndim > 2 and not self._batch:
            output = output.transpose(1, 2) if isinstance(output, RaggedTensor) else output.movedim(1, -1)
        if isinstance(target, RaggedTensor):
            counts = target != self._ignored
            return target, output, None if bool(counts.values().all().item()) else counts
        target = ops.as_tensor(target)
        if target.dtype.is_floating_point:
            return (target if self._batch or target.ndim < 3 else target.movedim(1, -1)).argmax(-1), output, None
        classes = target.detach().numpy()
        counts = classes != self._ignored
        return classes, output, None if counts.all() else counts

    def _as_probabilities(self, scores: Any) -> Any:
        if self._kind == "cross_entropy":
            return scores.softmax(-1)
        if self._kind == "nll":
            return scores.exp()
        return scores.sigmoid() if self._kind == "logits" else scores


def _put_together(target: Any, outputs: Sequence[Any]) -> tuple[Any, Any]:
    """Targets and outputs of samples as one: a row each, or, where they are sequences, one after the other."""
    if not all(isinstance(output, Tensor) for output in outputs):
        return target, outputs
    targets = target if isinstance(target, Tensor) else [ops.as_tensor(part) for part in target]
    if len({tuple(output.shape) for output in outputs}) == 1 and len({tuple(part.shape) for part in targets}) == 1:
        return targets if isinstance(targets, Tensor) else ops.stack(targets), ops.stack(list(outputs))
    return ops.cat(list(targets)), ops.cat(list(outputs))
