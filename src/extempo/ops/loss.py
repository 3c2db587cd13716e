"""Losses on numbers, pairs and distances. Losses on classes are in `class_loss`.

Every function takes PyTorch's arguments, and a Python number wherever a target tensor could stand. All are functions of
other functions, but for the binary cross entropy, whose gradient stays finite where its logarithms do not.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import ops
from ..core.context import CONTEXT
from ..core.op import Elementwise, Rng, Sample
from ..core.tensor import Tensor, TensorLike
from ..core.types import broadcast_shapes
from ..core.wording import FORGOTTEN_RETURN
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, NumericalError, ShapeError
from .activation import logsigmoid, softplus
from .define import Operand, deliver_converted, numpy_names

__all__ = ["cosine_similarity", "pairwise_distance"]


# ---- what all losses share


def reduction_of(op: str, reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> str:
    """ "none", "mean" or "sum", also from the two flags that PyTorch had before."""
    if size_average is not None or reduce is not None:
        if reduce is False:
            return "none"
        return "sum" if size_average is False else "mean"
    if reduction not in ("none", "mean", "sum"):
        raise ShapeError(f"{op}: reduction must be 'none', 'mean' or 'sum', got {reduction!r}")
    return reduction


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """The losses themselves, their mean or their sum."""
    if reduction == "mean":
        return loss.mean()
    return loss.sum() if reduction == "sum" else loss


def _difference(op: str, input: Tensor, target: Operand) -> Tensor:
    """input - target, with a warning where broadcasting is likely to be an accident."""
    if input is None:
        raise DtypeError(f"{op}: {FORGOTTEN_RETURN}")
    if isinstance(target, Tensor) and target._type.shape != input._type.shape:
        warnings.warn(
            f"{op}: input has shape {tuple(input.shape)}, target {tuple(target.shape)}; they are broadcast, "
            "which is seldom what a loss should do",
            stacklevel=3,
        )
    return input - target


def _weighted(op: str, loss: Tensor, input: Tensor, weight: Tensor | None) -> Tensor:
    if weight is None:
        return loss
    if weight._type.shape != input._type.shape:
        shapes = f"{tuple(weight.shape)}, input {tuple(input.shape)}"
        raise ShapeError(f"{op}: weight has shape {shapes}; they must be equal")
    return loss * weight


def _weighted_reduction(op: str, loss: Tensor, input: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """`reduced`, but that a mean of weighted losses divides by the sum of their weights."""
    weighted = _weighted(op, loss, input, weight)
    if weight is not None and reduction == "mean":
        return weighted.sum() / weight.sum()
    return reduced(weighted, reduction)


def _at_least(x: Tensor, low: float) -> Tensor:
    """x limited from below in value, while its gradient passes everywhere."""
    return x + ops.where(ops.lt(x, low), low - x, 0.0).detach()


# ---- distance from a number


def mse_loss(
    input: Tensor,
    target: Operand,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The squared difference; with weights, "mean" divides by their sum.

    >>> F.mse_loss(ex.tensor([1.0, 2.0]), ex.tensor([1.0, 4.0]))
    tensor(2.)
    """
    reduction = reduction_of("mse_loss", reduction, size_average, reduce)
    difference = _difference("mse_loss", input, target)
    return _weighted_reduction("mse_loss", difference * difference, input, weight, reduction)


def l1_loss(
    input: Tensor,
    target: Operand,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The absolute difference; with weights, "mean" divides by their sum.

    >>> F.l1_loss(ex.tensor([1.0, 2.0]), ex.tensor([1.5, 4.0]))
    tensor(1.2500)
    """
    reduction = reduction_of("l1_loss", reduction, size_average, reduce)
    return _weighted_reduction("l1_loss", ops.abs(_difference("l1_loss", input, target)), input, weight, reduction)


def smooth_l1_loss(
    input: Tensor,
    target: Operand,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """The absolute difference, rounded off to a parabola where it is below beta.

    >>> F.smooth_l1_loss(ex.tensor([0.5, 3.0]), ex.tensor([0.0, 0.0]), reduction="none")
    tensor([0.1250, 2.5000])
    """
    reduction = reduction_of("smooth_l1_loss", reduction, size_average, reduce)
    if beta < 0:
        raise ShapeError(f"smooth_l1_loss: beta must not be negative, got {beta}")
    distance = ops.abs(_difference("smooth_l1_loss", input, target))
    if beta == 0:
        return reduced(distance, reduction)
    far = ops.ge(distance, beta)
    near = ops.where(far, 0.0, distance)  # an infinite one would make NaN of the gradient that does not go there
    return reduced(ops.where(far, distance - 0.5 * beta, near * near * (0.5 / beta)), reduction)


def huber_loss(
    input: Tensor, target: Operand, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Half the squared difference up to delta, a straight line beyond.

    >>> F.huber_loss(ex.tensor([0.5, 3.0]), ex.tensor([0.0, 0.0]), reduction="none")
    tensor([0.1250, 2.5000])
    """
    reduction = reduction_of("huber_loss", reduction)
    if delta <= 0:
        raise ShapeError(f"huber_loss: delta must be positive, got {delta}")
    distance = ops.abs(_difference("huber_loss", input, target))
    far = ops.gt(distance, delta)
    near = ops.where(far, 0.0, distance)  # as in smooth_l1_loss
    loss = ops.where(far, (distance - 0.5 * delta) * delta, near * near * 0.5)
    return reduced(_weighted("huber_loss", loss, input, weight), reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Operand,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """-log of the normal density of target with mean `input` and variance `var` (at least eps).

    >>> F.gaussian_nll_loss(ex.tensor([0.0, 0.0]), ex.tensor([0.0, 2.0]), ex.ones(2), reduction="none")
    tensor([0., 2.])
    """
    reduction = reduction_of("gaussian_nll_loss", reduction)
    if not isinstance(var, Tensor | TensorLike):
        var = ops.full_like(input.detach(), var)
    is_exported = hasattr(CONTEXT.get().interceptor, "filled")  # a program has no values yet
    if not is_exported and bool(ops.lt(var, 0).any()):
        raise NumericalError("gaussian_nll_loss: var has negative entries; pass a variance, e.g. ex.exp(log_variance)")
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif not ops.broadcastable(tuple(var.shape), tuple(input.shape)):
            raise ShapeError(
                f"gaussian_nll_loss: var has shape {tuple(var.shape)}, input {tuple(input.shape)}; "
                "expected a shape that broadcasts to the input's"
            )
    var = _at_least(var, eps)
    difference = input - target
    loss = (ops.log(var) + difference * difference / var) * 0.5
    return reduced(loss + 0.5 * math.log(2.0 * math.pi) if full else loss, reduction)


def poisson_nll_loss(
    input: Tensor,
    target: Operand,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-log of the Poisson probability of target; `input` is the rate or, with log_input, its logarithm.

    >>> F.poisson_nll_loss(ex.tensor([0.0]), ex.tensor([3.0])), F.poisson_nll_loss(ex.tensor([1.0]), ex.tensor([3.0]))
    (tensor(1.), tensor(-0.2817))
    """
    reduction = reduction_of("poisson_nll_loss", reduction, size_average, reduce)
    loss = ops.exp(input) - input * target if log_input else input - ops.log(input + eps) * target
    if full:
        count = ops.as_tensor(target, dtype=input.dtype)
        # Stirling's formula for log(target!), which is 0 for 0 and 1.
        large = ops.where(ops.gt(count, 1), count, 1.0)
        stirling = large * ops.log(large) - large + ops.log(large * (2.0 * math.pi)) * 0.5
        loss = loss + ops.where(ops.gt(count, 1), stirling, 0.0)
    return reduced(loss, reduction)


# ---- probabilities


class BinaryCrossEntropy(Elementwise):
    """-(target * log(x) + (1 - target) * log(1 - x)), each logarithm at least -100."""

    domain = "f"

    @staticmethod
    def numpy(x: Any, target: Any) -> Any:
        if not np.all((x >= 0) & (x <= 1)):
            raise NumericalError(
                "binary_cross_entropy: input must lie between 0 and 1; apply sigmoid first, "
                "or better use binary_cross_entropy_with_logits"
            )
        if not np.all((target >= 0) & (target <= 1)):
            raise NumericalError(
                "binary_cross_entropy: target must lie between 0 and 1, as probabilities do; "
                "class indices are for cross_entropy"
            )
        return (target - 1) * np.maximum(np.log1p(-x), -100) - target * np.maximum(np.log(x), -100)

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor, target: Tensor) -> tuple[Any, ...]:
        # The bound keeps the gradient finite at 0 and 1, where PyTorch has the same one.
        slope = (x - target) / ops.maximum(x * (1.0 - x), 1e-12)
        return g * slope, g * (ops.log1p(-x) - ops.log(x))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        x = rng.uniform(0.1, 0.9, size=(3, 4))
        yield Sample(x, rng.uniform(0, 1, size=(3, 4)))
        yield Sample(x, 1.0)
        yield Sample(np.empty((0, 3)), 0.0)

    @staticmethod
    def lower(e: Any, x: Any, target: Any) -> Any:
        for p in (x, target):
            e.refuse_where(e.logical_not(e.logical_and(e.ge(p, 0.0), e.le(p, 1.0))))
        positive = e.mul(target, e.maximum(e.log(x), -100.0))
        return e.sub(e.mul(e.sub(target, 1.0), e.maximum(e.log1p(e.neg(x)), -100.0)), positive)


def binary_cross_entropy(
    input: Tensor,
    target: Operand,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The cross entropy of probabilities `input` for targets between 0 and 1.

    >>> F.binary_cross_entropy(ex.tensor([0.5, 0.9]), ex.tensor([0.0, 1.0]), reduction="none")
    tensor([0.6931, 0.1054])
    """
    reduction = reduction_of("binary_cross_entropy", reduction, size_average, reduce)
    _same_shape("binary_cross_entropy", input, target)
    loss = apply(BinaryCrossEntropy, (input, target))
    return reduced(loss if weight is None else loss * weight, reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Operand,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """binary_cross_entropy of sigmoid(input), without its rounding; pos_weight scales the positive term.

    >>> F.binary_cross_entropy_with_logits(ex.tensor([0.0, 100.0]), ex.tensor([1.0, 0.0]), reduction="none")
    tensor([  0.6931, 100.0000])
    """
    reduction = reduction_of("binary_cross_entropy_with_logits", reduction, size_average, reduce)
    _same_shape("binary_cross_entropy_with_logits", input, target)
    surprise = softplus(-input, 1.0, math.inf)
    if pos_weight is not None:
        surprise = surprise * ((pos_weight - 1.0) * target + 1.0)
    loss = (1.0 - target) * input + surprise
    return reduced(loss if weight is None else loss * weight, reduction)


def _same_shape(op: str, input: Tensor, target: Operand) -> None:
    if isinstance(target, Tensor) and target._type.shape != input._type.shape:
        raise ShapeError(
            f"{op}: target has shape {tuple(target.shape)}, input {tuple(input.shape)}; they must be equal "
            "(squeeze or unsqueeze one of them)"
        )


def kl_div(
    input: Tensor,
    target: Operand,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """target * (log(target) - input), where `input` holds logarithms; "batchmean" is the divergence itself.

    >>> F.kl_div(ex.tensor([[0.5, 0.5]]).log(), ex.tensor([[0.25, 0.75]]), reduction="batchmean")
    tensor(0.1308)
    """
    by_batch = reduction == "batchmean"
    reduction = reduction_of("kl_div", "sum" if by_batch else reduction, size_average, reduce)
    target = ops.as_tensor(target, dtype=None if isinstance(target, Tensor) else input.dtype)
    loss = ops.exp(target) * (target - input) if log_target else ops.xlogy(target, target) - target * input
    total = reduced(loss, reduction)
    return total / input.shape[0] if by_batch and input.ndim else total


def soft_margin_loss(
    input: Tensor,
    target: Operand,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-target * input)) for targets -1 and 1.

    >>> F.soft_margin_loss(ex.tensor([1.0, 1.0]), ex.tensor([1.0, -1.0]), reduction="none")
    tensor([0.3133, 1.3133])
    """
    reduction = reduction_of("soft_margin_loss", reduction, size_average, reduce)
    _same_shape("soft_margin_loss", input, target)
    return reduced(-logsigmoid(input * target), reduction)


# ---- pairs and triplets


@numpy_names
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`; lengths count as at least eps.

    >>> ex.cosine_similarity(ex.tensor([[1.0, 0.0]]), ex.tensor([[3.0, 4.0]]))
    tensor([0.6000])
    """
    if not (x1.is_floating_point() and x2.is_floating_point()):
        raise DtypeError(f"cosine_similarity: expected floating tensors, got {x1.dtype} and {x2.dtype}; use x.float()")
    if x1.shape != x2.shape:
        shape = broadcast_shapes(x1.shape, x2.shape)
        x1, x2 = x1.expand(shape), x2.expand(shape)
    unit1, unit2 = (x / _at_least(ops.norm(x, 2, dim, keepdim=True), eps) for x in (x1, x2))
    return (unit1 * unit2).sum(dim)


@numpy_names
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dimension; eps keeps the gradient finite where both are equal.

    >>> ex.pairwise_distance(ex.tensor([[0.0, 0.0]]), ex.tensor([[3.0, 4.0]]))
    tensor([5.0000])
    """
    return ops.norm(x1 - x2 + eps, p, -1, keepdim=keepdim)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """input divided by its p-norm along `dim`, so that every vector has length 1.

    >>> F.normalize(ex.tensor([[3.0, 4.0], [0.0, 2.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 1.0000]])
    """
    return deliver_converted(input / ops.clamp(ops.norm(input, p, dim, keepdim=True), min=eps), out)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Operand,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cosine for target 1, what the cosine exceeds margin by for target -1.

    >>> a, b = ex.tensor([[1.0, 0.0]]), ex.tensor([[3.0, 4.0]])
    >>> F.cosine_embedding_loss(a, b, ex.tensor([1])), F.cosine_embedding_loss(a, b, ex.tensor([-1]))
    (tensor(0.4000), tensor(0.6000))
    """
    reduction = reduction_of("cosine_embedding_loss", reduction, size_average, reduce)
    if input1.is_nested or input2.is_nested:
        from ..ragged_tensors import losses

        return losses.cosine_embedding(
            cosine_embedding_loss, input1, input2, target, margin=margin, reduction=reduction
        )
    if input1.ndim not in (1, 2) or input1.ndim != input2.ndim:
        raise ShapeError(
            f"cosine_embedding_loss: expected two vectors or two batches of them, got shapes {tuple(input1.shape)} "
            f"and {tuple(input2.shape)}"
        )
    # 1e-12 is added to the squared lengths, not to the lengths as in cosine_similarity.
    squares = ((input1 * input1).sum(-1) + 1e-12) * ((input2 * input2).sum(-1) + 1e-12)
    cosine = (input1 * input2).sum(-1) / ops.sqrt(squares)
    target = ops.as_tensor(target)
    alike = ops.where(ops.eq(target, 1), 1.0 - cosine, 0.0)
    return reduced(alike + ops.where(ops.eq(target, -1), ops.clamp(cosine - margin, min=0), 0.0), reduction)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Operand,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, -target * (input1 - input2) + margin): target 1 wants input1 above input2, -1 below.

    >>> F.margin_ranking_loss(ex.tensor([1.0, 1.0]), ex.tensor([3.0, 3.0]), ex.tensor([1, -1]), reduction="none")
    tensor([2., 0.])
    """
    reduction = reduction_of("margin_ranking_loss", reduction, size_average, reduce)
    return reduced(ops.clamp((input2 - input1) * target + margin, min=0), reduction)


def hinge_embedding_loss(
    input: Tensor,
    target: Operand,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The distance `input` for target 1, what it lacks to margin for target -1.

    >>> F.hinge_embedding_loss(ex.tensor([0.25, 0.25]), ex.tensor([1.0, -1.0]), reduction="none")
    tensor([0.2500, 0.7500])
    """
    reduction = reduction_of("hinge_embedding_loss", reduction, size_average, reduce)
    target = ops.as_tensor(target)
    lacking = ops.where(ops.ne(target, 1), ops.clamp(margin - input, min=0), 0.0)
    return reduced(lacking + ops.where(ops.ne(target, -1), input, 0.0), reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """What the distance to `negative` lacks to be `margin` larger than the distance to `positive`.

    >>> anchor, positive, negative = ex.tensor([[0.0]]), ex.tensor([[1.0]]), ex.tensor([[1.5]])
    >>> F.triplet_margin_loss(anchor, positive, negative)
    tensor(0.5000)
    """
    reduction = reduction_of("triplet_margin_loss", reduction, size_average, reduce)

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return pairwise_distance(a, b, p, eps)

    return _triplet("triplet_margin_loss", (anchor, positive, negative), distance, margin, swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """triplet_margin_loss with a distance of one's own.

    >>> anchor, positive, negative = ex.tensor([[0.0]]), ex.tensor([[1.0]]), ex.tensor([[1.5]])
    >>> F.triplet_margin_with_distance_loss(anchor, positive, negative, distance_function=F.l1_loss)
    tensor(0.5000)
    """
    name = "triplet_margin_with_distance_loss"
    distance = distance_function or pairwise_distance
    return _triplet(name, (anchor, positive, negative), distance, margin, swap, reduction_of(name, reduction))


def _triplet(
    op: str,
    tensors: tuple[Tensor, Tensor, Tensor],
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    anchor, positive, negative = tensors
    if margin <= 0:
        raise ShapeError(f"{op}: margin must be positive, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        shapes = ", ".join(str(tuple(x.shape)) for x in tensors)
        raise ShapeError(f"{op}: expected three tensors with as many dimensions each, got {shapes}")
    far = distance(anchor, negative)
    if swap:  # the positive may be the nearer one (Balntas et al. 2016)
        far = ops.minimum(far, distance(positive, negative))
    return reduced(ops.clamp(distance(anchor, positive) - far + margin, min=0), reduction)
