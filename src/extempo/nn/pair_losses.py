"""Losses on pairs and triplets of samples, as layers: their distances and how they compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from ..errors import ArgumentError
from . import functional as F
from .distance_layers import PairwiseDistance
from .function_layer import stores_arguments
from .losses import Target, _Loss, _OneInput

__all__ = [
    "CosineEmbeddingLoss", "HingeEmbeddingLoss", "MarginRankingLoss", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]  # fmt: skip


class _TwoInputs(_Loss):
    _is_cell = True

    def forward(self, input1: Tensor, input2: Tensor, target: Target) -> Tensor:
        return self._loss(input1, input2, target)


@stores_arguments
class _RankingLoss(_TwoInputs):
    margin: float = 0.0
    size_average: bool | None = None
    reduce: bool | None = None
    reduction: str = "mean"


@stores_arguments
class HingeEmbeddingLoss(_OneInput):
    """The distance `input` for target 1, what it lacks to margin for target -1.

    >>> nn.HingeEmbeddingLoss()(ex.tensor([0.25, 0.25]), ex.tensor([1, -1]))
    tensor(0.5000)
    """

    margin: float = 1.0
    size_average: bool | None = None
    reduce: bool | None = None
    reduction: str = "mean"
    _function = staticmethod(F.hinge_embedding_loss)


class CosineEmbeddingLoss(_RankingLoss):
    """1 - cosine for target 1, what the cosine exceeds margin by for target -1.

    >>> nn.CosineEmbeddingLoss()(ex.tensor([1.0, 0.0]), ex.tensor([3.0, 4.0]), 1)
    tensor(0.4000)
    """

    _function = staticmethod(F.cosine_embedding_loss)


class MarginRankingLoss(_RankingLoss):
    """max(0, -target * (input1 - input2) + margin): target 1 wants input1 above input2, -1 below.

    >>> nn.MarginRankingLoss(margin=0.5)(ex.tensor([1.0]), ex.tensor([2.0]), 1)
    tensor(1.5000)
    """

    _function = staticmethod(F.margin_ranking_loss)


class _TripletLoss(_Loss):
    _is_cell = True

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return self._loss(anchor, positive, negative)

    def _store(self, **arguments: Any) -> None:
        if arguments["margin"] <= 0:
            raise ArgumentError(f"{type(self).__name__}: margin must be positive, got {arguments['margin']}")
        super()._store(**arguments)


@stores_arguments
class TripletMarginLoss(_TripletLoss):
    """What the distance to `negative` lacks to be `margin` larger than the distance to `positive`.

    >>> nn.TripletMarginLoss()(ex.tensor([[0.0]]), ex.tensor([[3.0]]), ex.tensor([[2.0]]))
    tensor(2.)
    """

    _function = staticmethod(F.triplet_margin_loss)
    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-6
    swap: bool = False
    size_average: bool | None = None
    reduce: bool | None = None
    reduction: str = "mean"


class TripletMarginWithDistanceLoss(_TripletLoss):
    """TripletMarginLoss with a distance of one's own: a function or a module of two tensors.

    >>> loss = nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x - y).abs().sum(-1))
    >>> loss(ex.tensor([[0.0]]), ex.tensor([[3.0]]), ex.tensor([[2.0]]))
    tensor(2.)
    """

    _function = staticmethod(F.triplet_margin_with_distance_loss)
    _options = ("distance_function", "margin", "swap", "reduction")

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        distance = PairwiseDistance() if distance_function is None else distance_function
        self._store(distance_function=distance, margin=margin, swap=swap, reduction=reduction)
