"""Similarity and distance of two batches of vectors, as layers."""

from __future__ import annotations

from ..core.tensor import Tensor
from . import functional as F
from .function_layer import FunctionLayer, stores_arguments
from .module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


@stores_arguments
class CosineSimilarity(FunctionLayer):
    """The cosine of the angle between vectors along `dim`.

    >>> nn.CosineSimilarity(dim=0)(ex.tensor([1.0, 0.0]), ex.tensor([3.0, 4.0]))
    tensor(0.6000)
    """

    dim: int = 1
    eps: float = 1e-8
    _is_cell = True
    _shown = ()

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of x1 - x2 + eps over the last dimension.

    >>> nn.PairwiseDistance(p=1)(ex.tensor([1.0, 0.0]), ex.tensor([3.0, 4.0]))
    tensor(6.0000)
    """

    _is_cell = True

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
