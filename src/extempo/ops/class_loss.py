"""Losses on classes: cross entropy, its relatives, margins between classes.

Scores have their classes in dimension 1, or in dimension 0 without a batch. Targets are class indices in the shape that
is left without it; a Python number stands for a tensor filled with it, a list for a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ops
from ..core.tensor import Tensor, TensorLike
from ..core.types import int64
from ..core.wording import FORGOTTEN_RETURN, counted
from ..dispatch.dispatcher import apply
from ..dispatch.inline_cache import cached_by_types
from ..errors import DtypeError, ShapeError
from .activation import logsigmoid
from .class_loss_ops import CrossEntropy, check_target
from .loss import reduced, reduction_of

Target = Tensor | int | Sequence[int]


def _class_dim(op: str, input: Tensor) -> int:
    if not input.ndim:
        raise ShapeError(f"{op}: scores must have a dimension of classes, got a 0-dim tensor")
    return min(input.ndim - 1, 1)


def _as_indices(input: Tensor, target: Target, dim: int) -> Tensor:
    """The target as a tensor of int64, a number repeated for every sample; one in a list may go with one sample."""
    if isinstance(target, int):
        shape = tuple(s for d, s in enumerate(input.shape) if d != dim)
        return ops.full(shape, target, dtype=int64)
    if not isinstance(target, Tensor):
        target = ops.as_tensor(target)
    if input.ndim == 1 and target.shape == (1,):
        target = target.reshape(())
    d = target._type.dtype
    return target if d is int64 or d.category != 1 else target.long()


def _shares(op: str, input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, dim: int) -> Tensor:
    """What each sample counts: the weight of its class (1 without weights), and 0 where it is ignored."""
    keep = ops.ne(target, ignore_index)
    if weight is None:
        return keep
    _check_weight(op, input, weight, dim)
    return ops.where(keep, weight[ops.where(keep, target, 0)], 0.0)


def _check_weight(op: str, input: Tensor, weight: Tensor, dim: int) -> None:
    if weight.shape != (input.shape[dim],):
        raise ShapeError(f"{op}: weight has shape {tuple(weight.shape)}, expected one per class: ({input.shape[dim]},)")
    if weight.dtype is not input.dtype:
        raise DtypeError(f"{op}: weight is {weight.dtype}, the scores are {input.dtype}; use weight.to(scores.dtype)")


def _reduced_by(loss: Tensor, shares: Tensor, reduction: str) -> Tensor:
    """The weighted losses; "mean" divides by what counted."""
    return loss.sum() / shares.sum() if reduction == "mean" else reduced(loss, reduction)


def _along(weight: Tensor, dim: int, ndim: int) -> Tensor:
    """Weights of classes in the shape that broadcasts against scores."""
    return weight.reshape(-1, *(1,) * (ndim - 1 - dim))


def cross_entropy(
    input: Tensor,
    target: Target,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The cross entropy of scores `input` for class indices, or for class probabilities of the same shape.

    >>> scores = ex.tensor([[2.0, 0.0], [0.0, 0.0]])
    >>> F.cross_entropy(scores, ex.tensor([0, 1]), reduction="none")
    tensor([0.1269, 0.6931])
    """
    run = _cross_entropy if type(target) is int else _cross_entropy_by_types  # a number is not to be remembered
    return run(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)


def _cross_entropy(
    input: Tensor,
    target: Target,
    weight: Tensor | None,
    size_average: bool | None,
    ignore_index: int,
    reduce: bool | None,
    reduction: str,
    label_smoothing: float,
) -> Any:
    reduction = reduction_of("cross_entropy", reduction, size_average, reduce)
    if input is None:
        raise DtypeError(f"cross_entropy: {FORGOTTEN_RETURN}")
    if input.is_nested or isinstance(target, TensorLike):
        from ..ragged_tensors import losses

        options = {"weight": weight, "ignore_index": ignore_index, "label_smoothing": label_smoothing}
        return losses.by_class("cross_entropy", cross_entropy, input, target, reduction=reduction, **options)
    dim = _class_dim("cross_entropy", input)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ShapeError(f"cross_entropy: label_smoothing must lie between 0 and 1, got {label_smoothing}")
    if isinstance(target, Tensor) and target._type.dtype.is_floating_point:
        if ignore_index >= 0:
            raise DtypeError(
                f"cross_entropy: ignore_index ({ignore_index}) is for class indices, the target is {target.dtype} and "
                "so holds probabilities; leave ignore_index out, or use target.long()"
            )
        return _cross_entropy_of_probabilities(input, target, weight, label_smoothing, reduction, dim)
    plain = weight is None and not label_smoothing
    if plain and isinstance(target, int) and input.ndim == 1:
        # A number that only says it is an int stands for others, too, and is not looked at.
        counts = type(target) is int and target != ignore_index
        return apply(
            CrossEntropy, (input, target, ignore_index), {"dim": 0, "reduction": "none" if counts else reduction}
        )
    target = _as_indices(input, target, dim)
    if plain:
        return apply(CrossEntropy, (input, target, ignore_index), {"dim": dim, "reduction": reduction})
    loss = apply(CrossEntropy, (input, target, ignore_index), {"dim": dim, "reduction": "none"})
    shares = _shares("cross_entropy", input, target, weight, ignore_index, dim)
    if weight is not None:
        loss = loss * shares
    if label_smoothing:
        surprise = -ops.log_softmax(input, dim)
        if weight is not None:
            surprise = surprise * _along(weight, dim, input.ndim)
        spread = ops.where(ops.ne(target, ignore_index), surprise.sum(dim), 0.0)
        loss = loss * (1.0 - label_smoothing) + spread * (label_smoothing / input.shape[dim])
    return _reduced_by(loss, shares, reduction)


_cross_entropy_by_types = cached_by_types(_cross_entropy)


def _cross_entropy_of_probabilities(
    input: Tensor, target: Tensor, weight: Tensor | None, label_smoothing: float, reduction: str, dim: int
) -> Tensor:
    if target.shape != input.shape:
        raise ShapeError(
            f"cross_entropy: target has shape {tuple(target.shape)}, scores {tuple(input.shape)}; class probabilities "
            "must have the shape of the scores (class indices must be integers: target.long())"
        )
    if label_smoothing:
        target = target * (1.0 - label_smoothing) + label_smoothing / input.shape[dim]
    surprise = -ops.log_softmax(input, dim) * target
    if weight is not None:
        surprise = surprise * _along(weight, dim, input.ndim)
    return reduced(surprise.sum(dim), reduction)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Target,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """cross_entropy of linear(input, linear_weight); middle dimensions of the weight come after the classes.

    `options` say how PyTorch may save memory; they change no result and are ignored.

    >>> F.linear_cross_entropy(ex.tensor([[1.0, 2.0]]), ex.eye(2), ex.tensor([1]))
    tensor(0.3133)
    """
    if input.ndim not in (1, 2) or linear_weight.ndim < 2 or input.shape[-1] != linear_weight.shape[-1]:
        raise ShapeError(
            "linear_cross_entropy: expected input (features) or (batch, features) and a weight "
            f"(classes, ..., features), got {tuple(input.shape)} and {tuple(linear_weight.shape)}"
        )
    if isinstance(target, Tensor) and target.is_floating_point() and ignore_index is not None:
        raise DtypeError("linear_cross_entropy: ignore_index is for class indices, the target holds probabilities")
    if input.ndim == 1 and linear_weight.ndim > 2:
        raise ShapeError(
            f"linear_cross_entropy: a weight of shape {tuple(linear_weight.shape)} needs input (batch, features), got "
            f"{tuple(input.shape)}; use x.unsqueeze(0)"
        )
    flat = linear_weight.reshape(-1, linear_weight.shape[-1])
    logits = ops.linear(input, flat, None if linear_bias is None else linear_bias.reshape(-1))
    logits = logits.reshape(*input.shape[:-1], *linear_weight.shape[:-1])
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        logits, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
    )


def nll_loss(
    input: Tensor,
    target: Target,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-input[target], where `input` holds log-probabilities.

    >>> F.nll_loss(ex.tensor([[0.25, 0.75]]).log(), ex.tensor([1]))
    tensor(0.2877)
    """
    reduction = reduction_of("nll_loss", reduction, size_average, reduce)
    if input is None:
        raise DtypeError(f"nll_loss: {FORGOTTEN_RETURN}")
    if input.is_nested or isinstance(target, TensorLike):
        from ..ragged_tensors import losses

        return losses.by_class(
            "nll_loss", nll_loss, input, target, weight=weight, ignore_index=ignore_index, reduction=reduction
        )
    dim = _class_dim("nll_loss", input)
    indices = _as_indices(input, target, dim)
    check_target("nll_loss", input, indices._type, (*input.shape[:dim], *input.shape[dim + 1 :]))
    keep = ops.ne(indices, ignore_index)
    shares = _shares("nll_loss", input, indices, weight, ignore_index, dim)
    picked = ops.gather(input, dim, ops.where(keep, indices, 0).unsqueeze(dim)).squeeze(dim)
    loss = -ops.where(keep, picked, 0.0)
    return _reduced_by(loss if weight is None else loss * shares, shares, reduction)


# ---- margins between classes


def _rows(op: str, input: Tensor) -> Tensor:
    """Scores as (batch, classes); a 0-dim tensor is the score of one class."""
    if input.ndim > 2:
        raise ShapeError(f"{op}: expected scores (classes) or (batch, classes), got shape {tuple(input.shape)}")
    return input if input.ndim == 2 else input.reshape(1, -1)


def _positive(x: Tensor) -> Tensor:
    """x where it is positive, 0 elsewhere: at 0, unlike that of a clamp, the gradient is 0."""
    return ops.where(ops.gt(x, 0), x, 0.0)


def multi_margin_loss(
    input: Tensor,
    target: Target,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """What every other class lacks to be `margin` below the target's score, to the power p, averaged over classes.

    >>> F.multi_margin_loss(ex.tensor([[0.0, 0.5, 2.0]]), ex.tensor([1]))
    tensor(1.)
    """
    reduction = reduction_of("multi_margin_loss", reduction, size_average, reduce)
    if p not in (1, 2):
        raise ShapeError(f"multi_margin_loss: p must be 1 or 2, got {p}")
    scores = _rows("multi_margin_loss", input)
    targets = _as_indices(scores, target, 1)
    indices = targets.reshape(-1, 1)
    if indices.shape[0] != scores.shape[0]:
        raise ShapeError(
            f"multi_margin_loss: {counted(indices.shape[0], 'target')} for {counted(scores.shape[0], 'row')} of scores"
        )
    lacking = _positive(scores - ops.gather(scores, 1, indices) + margin)
    if p == 2:
        lacking = lacking * lacking
    if weight is not None:
        _check_weight("multi_margin_loss", scores, weight, 1)
        lacking = lacking * weight[indices]
    others = ops.ne(ops.arange(scores.shape[1]), indices)
    loss = ops.where(others, lacking, 0.0).sum(1) / scores.shape[1]
    return reduced(loss.reshape(targets.shape), reduction)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """What each class that is no target lacks to be 1 below each that is; targets end at the first -1 of a row.

    >>> F.multilabel_margin_loss(ex.tensor([[0.0, 1.5, 2.0]]), ex.tensor([[2, -1, -1]]))
    tensor(0.1667)
    """
    reduction = reduction_of("multilabel_margin_loss", reduction, size_average, reduce)
    if target.shape != input.shape:
        raise ShapeError(
            f"multilabel_margin_loss: target has shape {tuple(target.shape)}, input {tuple(input.shape)}; they must be "
            "equal, with -1 after the last target of a row"
        )
    scores = _rows("multilabel_margin_loss", input)
    indices = target.reshape(scores.shape)
    named = ops.eq(ops.cumsum(ops.lt(indices, 0), 1), 0)
    indices = ops.where(named, indices, 0)
    is_target = ops.gt(ops.scatter_add(ops.zeros_like(indices), 1, indices, named.long()), 0)
    lacking = _positive(scores.unsqueeze(1) - ops.gather(scores, 1, indices).unsqueeze(2) + 1.0)
    counts = ops.logical_and(named.unsqueeze(2), ops.logical_not(is_target).unsqueeze(1))
    loss = ops.where(counts, lacking, 0.0).sum((1, 2)) / scores.shape[1]
    return reduced(loss if input.ndim == 2 else loss.squeeze(0), reduction)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The binary cross entropy of sigmoid(input), averaged over the last dimension, the classes.

    >>> F.multilabel_soft_margin_loss(ex.tensor([[0.0, 0.0]]), ex.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """
    reduction = reduction_of("multilabel_soft_margin_loss", reduction, size_average, reduce)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    return reduced((loss if weight is None else loss * weight).mean(-1), reduction)
