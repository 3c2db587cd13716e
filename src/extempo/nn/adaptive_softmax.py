"""AdaptiveLogSoftmaxWithLoss: log-softmax over many classes at the price of the frequent ones (Grave et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import ops
from ..core.tensor import Tensor
from ..errors import ArgumentError, DtypeError, ShapeError
from . import functional as F
from .containers import ModuleList, Sequential
from .linear_layers import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class AdaptiveOutput(NamedTuple):
    """`output`: the log-probability of each sample's target; `loss`: minus their mean."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-softmax over classes sorted by frequency, the rare ones in clusters that are only computed where needed.

    `cutoffs` says at which class each cluster begins; the i-th is computed in in_features / div_value ** (i + 1)
    features. A call takes (batch, in_features) and targets (batch), or one sample, and returns (output, loss).

    >>> layer = nn.AdaptiveLogSoftmaxWithLoss(16, n_classes=1000, cutoffs=[10, 100])
    >>> layer(ex.randn(4, 16), ex.tensor([3, 50, 700, 0])).output.shape
    extempo.Size([4])
    >>> layer.log_prob(ex.randn(4, 16)).exp().sum(-1).allclose(ex.ones(4))
    True
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        bounds = list(cutoffs)
        rising = all(a < b for a, b in zip([0, *bounds], [*bounds, n_classes], strict=True))
        if not bounds or not rising or any(int(c) != c for c in bounds):
            raise ArgumentError(
                "AdaptiveLogSoftmaxWithLoss: cutoffs must be ints that rise, from above 0 to below "
                f"n_classes={n_classes}, got {cutoffs!r}"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*bounds, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            width = int(in_features // div_value ** (i + 1))
            n_rows = self.cutoffs[i + 1] - self.cutoffs[i]
            narrow = Linear(in_features, width, False, device, dtype)
            self.tail.append(Sequential(narrow, Linear(width, n_rows, False, device, dtype)))

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for layer in self.modules():
            if isinstance(layer, Linear):
                layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor | int | Sequence[int]) -> AdaptiveOutput:
        target = ops.as_tensor(target_)
        if target.dtype.category != 1:
            raise DtypeError(f"AdaptiveLogSoftmaxWithLoss: targets are class indices, got {target.dtype}; use x.long()")
        if input_.ndim not in (1, 2) or target.shape != input_.shape[:-1]:
            raise ShapeError(
                f"AdaptiveLogSoftmaxWithLoss: expected input (batch, in_features={self.in_features}) and targets "
                f"(batch), or one sample, got {tuple(input_.shape)} and {tuple(target.shape)}"
            )
        rows, classes = input_.reshape(-1, input_.shape[-1]), target.reshape(-1)
        if bool(ops.logical_or(ops.lt(classes, 0), ops.ge(classes, self.n_classes)).any()):
            raise ArgumentError(
                f"AdaptiveLogSoftmaxWithLoss: targets must lie between 0 and {self.n_classes - 1}, "
                f"got {int(classes.min())} to {int(classes.max())}"
            )
        output = self._of_targets(rows, classes).reshape(target.shape)
        return AdaptiveOutput(output, -output.mean())

    def _of_targets(self, rows: Tensor, classes: Tensor) -> Tensor:
        """The log-probability of each row's class; each cluster sees only the rows whose class it holds."""
        in_head = classes
        positions, parts = [], []
        for i in range(self.n_clusters):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            inside = ops.logical_and(ops.ge(classes, low), ops.lt(classes, high))
            position = inside.nonzero().reshape(-1)
            in_head = ops.where(inside, self.shortlist_size + i, in_head)
            if position.numel():
                within = F.log_softmax(self.tail[i](rows[position]), 1)
                positions.append(position)
                parts.append(within.gather(1, (classes[position] - low).unsqueeze(1)).squeeze(1))
        output = F.log_softmax(self.head(rows), 1).gather(1, in_head.unsqueeze(1)).squeeze(1)
        return output.index_add(0, ops.cat(positions), ops.cat(parts)) if parts else output

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes: (batch, in_features) -> (batch, n_classes)."""
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for i in range(self.n_clusters):
            within = F.log_softmax(self.tail[i](input), 1)
            parts.append(within + head[:, self.shortlist_size + i].unsqueeze(1))
        return ops.cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each row; clusters are computed only for rows that could be there."""
        scores = self.head(input)
        best = scores.argmax(1)
        if bool(ops.lt(best, self.shortlist_size).all()):
            return best
        rare = ops.ge(best, self.shortlist_size).nonzero().reshape(-1)
        found = self.log_prob(input[rare]).argmax(1)
        return best.index_copy(0, rare, found)
