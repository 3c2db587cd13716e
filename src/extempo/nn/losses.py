"""Losses as layers: each holds its options and calls the function of `nn.functional`. Pairs are in `pair_losses`.

`reduction` is "mean", "sum" or "none"; the older flags size_average and reduce are understood. Targets may be Python
numbers. Losses of one signature share a base class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.tensor import Tensor
from ..errors import ArgumentError
from ..ops.loss import reduction_of
from . import functional as F
from .function_layer import FunctionLayer, stores_arguments
from .linear_layers import Linear

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CrossEntropyLoss", "GaussianNLLLoss", "HuberLoss", "KLDivLoss",
    "L1Loss", "LinearCrossEntropyLoss", "MSELoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss",
    "MultiMarginLoss", "NLLLoss", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss",
]  # fmt: skip

Target = Tensor | float | Sequence[Any]
Classes = Tensor | int | Sequence[Any]


class _Loss(FunctionLayer):
    """What all losses share: how the losses of the elements become one, and the call of the function by keywords."""

    _not_kept = ("size_average", "reduce")
    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        self._store(size_average=size_average, reduce=reduce, reduction=reduction)

    def _store(self, **arguments: Any) -> None:
        flags = arguments.pop("size_average", None), arguments.pop("reduce", None)
        if flags != (None, None):
            arguments["reduction"] = reduction_of(type(self).__name__, arguments["reduction"], *flags)
        weights = {name: arguments.pop(name) for name in ("weight", "pos_weight") if name in arguments}
        super()._store(**arguments)
        for name, weight in weights.items():
            self.register_buffer(name, weight)

    def _loss(self, *inputs: Any) -> Tensor:
        return self._function(*inputs, **{name: getattr(self, name) for name in self._options})

    def extra_repr(self) -> str:
        return ""


class _OneInput(_Loss):
    _is_cell = True

    def forward(self, input: Tensor, target: Target) -> Tensor:
        return self._loss(input, target)


@stores_arguments
class _PlainLoss(_OneInput):
    size_average: bool | None = None
    reduce: bool | None = None
    reduction: str = "mean"


@stores_arguments
class _WeightedLoss(_OneInput):
    weight: Tensor | None = None
    size_average: bool | None = None
    reduce: bool | None = None
    reduction: str = "mean"


# ---- distance from a number


class L1Loss(_PlainLoss):
    """The absolute difference.

    >>> nn.L1Loss()(ex.tensor([1.0, 3.0]), 0.0)
    tensor(2.)
    """

    _function = staticmethod(F.l1_loss)


class MSELoss(_PlainLoss):
    """The squared difference.

    >>> nn.MSELoss()(ex.tensor([1.0, 3.0]), ex.tensor([0.0, 0.0]))
    tensor(5.)
    """

    _function = staticmethod(F.mse_loss)


@stores_arguments
class SmoothL1Loss(_PlainLoss):
    """The absolute difference, rounded off to a parabola where it is below beta.

    >>> nn.SmoothL1Loss()(ex.tensor([1.0, 3.0]), 0.0)
    tensor(1.5000)
    """

    _function = staticmethod(F.smooth_l1_loss)
    beta: float = 1.0


@stores_arguments
class HuberLoss(_OneInput):
    """Half the squared difference up to delta, a straight line beyond.

    >>> nn.HuberLoss(delta=2.0)(ex.tensor([1.0, 3.0]), 0.0)
    tensor(2.2500)
    """

    _function = staticmethod(F.huber_loss)
    reduction: str = "mean"
    delta: float = 1.0


@stores_arguments
class PoissonNLLLoss(_Loss):
    """-log of the Poisson probability of the target; the input is the rate or, with log_input, its logarithm.

    >>> nn.PoissonNLLLoss()(ex.tensor([0.0]), 2.0)
    tensor(1.)
    """

    _is_cell = True
    _function = staticmethod(F.poisson_nll_loss)
    log_input: bool = True
    full: bool = False
    size_average: bool | None = None
    eps: float = 1e-8
    reduce: bool | None = None
    reduction: str = "mean"

    def forward(self, log_input: Tensor, target: Target) -> Tensor:
        return self._loss(log_input, target)


class GaussianNLLLoss(_Loss):
    """-log of the normal density of the target, with mean `input` and variance `var`.

    >>> nn.GaussianNLLLoss()(ex.tensor([1.0]), 3.0, ex.tensor([1.0]))
    tensor(2.)
    """

    _is_cell = True
    _function = staticmethod(F.gaussian_nll_loss)
    _options = ("full", "eps", "reduction")

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        self._store(full=full, eps=eps, reduction=reduction)

    def forward(self, input: Tensor, target: Target, var: Tensor | float) -> Tensor:
        return self._loss(input, target, var)


# ---- probabilities


class BCELoss(_WeightedLoss):
    """The cross entropy of probabilities between 0 and 1.

    >>> nn.BCELoss()(ex.tensor([0.5]), 1.0)
    tensor(0.6931)
    """

    _function = staticmethod(F.binary_cross_entropy)


@stores_arguments
class BCEWithLogitsLoss(_WeightedLoss):
    """BCELoss of sigmoid(input), without its rounding; `pos_weight` scales the positive term.

    >>> nn.BCEWithLogitsLoss()(ex.tensor([0.0, 1000.0]), 1.0)
    tensor(0.3466)
    """

    pos_weight: Tensor | None = None
    _function = staticmethod(F.binary_cross_entropy_with_logits)


@stores_arguments
class KLDivLoss(_PlainLoss):
    """target * (log(target) - input), where the input holds logarithms; "batchmean" is the divergence itself.

    >>> same = ex.tensor([[0.5, 0.5]])
    >>> nn.KLDivLoss(reduction="batchmean")(same.log(), same)
    tensor(0.)
    """

    _function = staticmethod(F.kl_div)
    log_target: bool = False


class SoftMarginLoss(_PlainLoss):
    """log(1 + exp(-target * input)) for targets -1 and 1.

    >>> nn.SoftMarginLoss()(ex.tensor([0.0]), 1)
    tensor(0.6931)
    """

    _function = staticmethod(F.soft_margin_loss)


# ---- classes


@stores_arguments
class _ClassLoss(_OneInput):
    weight: Tensor | None = None
    size_average: bool | None = None
    ignore_index: int = -100
    reduce: bool | None = None
    reduction: str = "mean"


class NLLLoss(_ClassLoss):
    """-input[target], where the input holds log-probabilities (batch, classes, ...) or (classes).

    `weight` has one entry per class; targets equal to `ignore_index` do not count.

    >>> nn.NLLLoss()(ex.tensor([-1.0, -3.0]), 1)
    tensor(3.)
    """

    _function = staticmethod(F.nll_loss)


@stores_arguments
class CrossEntropyLoss(_ClassLoss):
    """The cross entropy of scores (batch, classes, ...) or (classes) for class indices, or for class probabilities.

    >>> nn.CrossEntropyLoss()(ex.tensor([[0.0, 0.0], [1000.0, 0.0]]), [1, 0])
    tensor(0.3466)
    """

    label_smoothing: float = 0.0
    _function = staticmethod(F.cross_entropy)


class LinearCrossEntropyLoss(_Loss):
    """CrossEntropyLoss of a Linear layer's scores; sizes in `out_features` come after the classes.

    >>> nn.LinearCrossEntropyLoss(4, 3)(ex.zeros(2, 4), ex.tensor([0, 2])).detach()
    tensor(1.0986)
    """

    _is_cell = True
    _function = staticmethod(F.linear_cross_entropy)
    _options = ("weight", "reduction", "ignore_index", "label_smoothing", "options")

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: Any = None,
    ) -> None:
        self._store(
            reduction=reduction,
            weight=weight,
            num_classes=num_classes,
            out_features=tuple(out_features),
            ignore_index=ignore_index,
            label_smoothing=label_smoothing,
            options=options,
        )
        self.linear = Linear(in_features, num_classes * math.prod(out_features), bias, device, dtype)

    def forward(self, input: Tensor, target: Classes) -> Tensor:
        sizes = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        options = {name: getattr(self, name) for name in self._options}
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*sizes, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(sizes),
            **options,
        )

    def extra_repr(self) -> str:
        sizes = f"num_classes={self.num_classes}, out_features={self.out_features}, bias={self.linear.bias is not None}"
        rest = f"ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}, options={self.options}"
        return f"in_features={self.linear.in_features}, {sizes}, reduction={self.reduction}, {rest}"


@stores_arguments
class MultiMarginLoss(_OneInput):
    """What every other class lacks to be `margin` below the target's score, to the power p, averaged over classes.

    >>> nn.MultiMarginLoss()(ex.tensor([[1.0, 0.5]]), [0])
    tensor(0.2500)
    """

    _function = staticmethod(F.multi_margin_loss)
    p: int = 1
    margin: float = 1.0
    weight: Tensor | None = None
    size_average: bool | None = None
    reduce: bool | None = None
    reduction: str = "mean"

    def _store(self, **arguments: Any) -> None:
        if arguments["p"] not in (1, 2):
            raise ArgumentError(f"MultiMarginLoss: p must be 1 or 2, got {arguments['p']}")
        super()._store(**arguments)


class MultiLabelMarginLoss(_PlainLoss):
    """What each class that is no target lacks to be 1 below each that is; targets end at the first -1 of a row.

    >>> nn.MultiLabelMarginLoss()(ex.tensor([1.0, 0.5]), ex.tensor([0, -1]))
    tensor(0.2500)
    """

    _function = staticmethod(F.multilabel_margin_loss)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The binary cross entropy of sigmoid(input), averaged over the last dimension, the classes.

    >>> nn.MultiLabelSoftMarginLoss()(ex.tensor([[0.0, 0.0]]), ex.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """

    _function = staticmethod(F.multilabel_soft_margin_loss)


@stores_arguments
class CTCLoss(_Loss):
    """-log of the probability of label sequences, given log-probabilities (time, batch, classes) or (time, classes).

    Graves et al. 2006. "mean" divides each loss by its number of labels first; `zero_infinity` makes the loss of labels
    that do not fit into their time 0.

    >>> log_probs = ex.zeros(3, 2).log_softmax(-1)
    >>> nn.CTCLoss()(log_probs, ex.tensor([1]), 3, 1)  # 6 of the 8 paths say [1]
    tensor(0.2877)
    """

    _function = staticmethod(F.ctc_loss)
    blank: int = 0
    reduction: str = "mean"
    zero_infinity: bool = False

    def forward(
        self,
        log_probs: Tensor,
        targets: Target,
        input_lengths: Tensor | Sequence[int] | int,
        target_lengths: Tensor | Sequence[int] | int,
    ) -> Tensor:
        return self._loss(log_probs, targets, input_lengths, target_lengths)
