"""Losses by class: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss."""

from __future__ import annotations

from ... import ops
from ...core.tensor import Tensor
from ...core.types import int64
from ...errors import ArgumentError
from .table import Fixed, Results, operator


def _loss(log_prob: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int | None, reduction: str) -> Tensor:
    """The negative log-probability of each target's class, weighted, and 0 where the target is to be ignored."""
    classes = target.to(int64)
    kept = ops.ones_like(classes).to(log_prob.dtype)
    if ignore_index is not None:
        there = classes != ignore_index
        classes = ops.where(there, classes, ops.zeros_like(classes))
        kept = there.to(log_prob.dtype)
    if weight is not None:
        kept = kept * weight.index_select(0, classes.reshape(-1)).reshape(classes.shape)
    loss = -log_prob.gather(1, classes.unsqueeze(1)).squeeze(1) * kept
    if reduction == "none":
        return loss
    if reduction not in ("sum", "mean"):
        raise ArgumentError(f"reduction must be none, sum or mean, got {reduction!r}")
    return loss.sum() if reduction == "sum" else loss.sum() / kept.sum()


@operator("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(
    x: Tensor, target: Tensor, weight: Fixed | None = None, *, ignore_index: int | None = None, reduction: str = "mean"
) -> Tensor:
    return _loss(x, target, weight, ignore_index, reduction)


@operator("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(
    scores: Tensor, labels: Tensor, weights: Fixed | None = None, *, ignore_index: int | None = None,
    reduction: str = "mean",
) -> Results:  # fmt: skip
    log_prob = ops.log_softmax(scores, 1)
    return _loss(log_prob, labels, weights, ignore_index, reduction), log_prob
