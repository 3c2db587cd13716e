"""Losses on pairs and triplets of samples, as layers: their distances and how they compare."""

from __future__ import annotations

from collections.abc import Callable

from ..core.tensor import Tensor
from ..errors import ShapeError
from . import functional as F
from .distance_layers import PairwiseDistance
from .losses import Target, _Loss, _OneInput

__all__ = [
    "CosineEmbeddingLoss", "HingeEmbeddingLoss", "MarginRankingLoss", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]  # fmt: skip


class _TwoInputs(_Loss):
    _is_cell = True

    def forward(self, input1: Tensor, input2: Tensor, target: Target) -> Tensor:
        return self._loss(input1, input2, target)


class _MarginLoss(_Loss):
    _options = ("margin", "reduction")

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class HingeEmbeddingLoss(_MarginLoss, _OneInput):
    """The distance `input` for target 1, what it lacks to margin for target -1.

    >>> nn.HingeEmbeddingLoss()(ex.tensor([0.25, 0.25]), ex.tensor([1, -1]))
    tensor(0.5000)
    """

    _function = staticmethod(F.hinge_embedding_loss)

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(margin, size_average, reduce, reduction)


class CosineEmbeddingLoss(_MarginLoss, _TwoInputs):
    """1 - cosine for target 1, what the cosine exceeds margin by for target -1.

    >>> nn.CosineEmbeddingLoss()(ex.tensor([1.0, 0.0]), ex.tensor([3.0, 4.0]), 1)
    tensor(0.4000)
    """

    _function = staticmethod(F.cosine_embedding_loss)


class MarginRankingLoss(_MarginLoss, _TwoInputs):
    """max(0, -target * (input1 - input2) + margin): target 1 wants input1 above input2, -1 below.

    >>> nn.MarginRankingLoss(margin=0.5)(ex.tensor([1.0]), ex.tensor([2.0]), 1)
    tensor(1.5000)
    """

    _function = staticmethod(F.margin_ranking_loss)


class _TripletLoss(_Loss):
    _is_cell = True

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return self._loss(anchor, positive, negative)

    def _check_margin(self, margin: float) -> float:
        if margin <= 0:
            raise ShapeError(f"{type(self).__name__}: margin must be positive, got {margin}")
        return margin


class TripletMarginLoss(_TripletLoss):
    """What the distance to `negative` lacks to be `margin` larger than the distance to `positive`.

    >>> nn.TripletMarginLoss()(ex.tensor([[0.0]]), ex.tensor([[3.0]]), ex.tensor([[2.0]]))
    tensor(2.)
    """

    _function = staticmethod(F.triplet_margin_loss)
    _options = ("margin", "p", "eps", "swap", "reduction")

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = self._check_margin(margin)
        self.p = p
        self.eps = eps
        self.swap = swap


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
        super().__init__(reduction=reduction)
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin = self._check_margin(margin)
        self.swap = swap
