"""Losses of which ragged tensors need more than the ops that they are made of: those on classes, and on vectors.

Classes stand in dimension 1, as always: scores (B, C, *) and targets (B, *) with the same rows. Means are over all
elements of all rows, so a long row counts for more than a short one, as it does in one long sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from ..errors import ShapeError
from .tensor import RaggedTensor


def by_class(name: str, loss: Callable[..., Tensor], input: Any, target: Any, **options: Any) -> Any:
    """A loss of scores and classes: each element of each row is one sample."""
    if not isinstance(input, RaggedTensor):
        raise ShapeError(
            f"{name}: the targets are ragged and the scores are not, {tuple(input.shape)}; make both ragged"
        )
    if input._dim == 1:
        hint = (
            "; did you mean scores.transpose(1, 2)?"
            if input.ndim > 2
            else "; a choice among the elements of each row is -scores.log_softmax(1)[ex.arange(len(scores)), target]"
        )
        raise ShapeError(f"{name}: classes are dimension 1, which is ragged in scores {tuple(input.shape)}{hint}")
    target = _checked_target(name, input, target)
    scores = input._flat.movedim(input._dim - 1, 0)  # (elements, classes, ...)
    if isinstance(target, RaggedTensor):
        target = target._flat.movedim(target._dim - 1, 0)
    found = loss(scores, target, **options)
    if options["reduction"] != "none":
        return found
    return RaggedTensor(found.movedim(0, input._dim - 2), input._rows, input._dim - 1)


def _checked_target(name: str, input: RaggedTensor, target: Any) -> Any:
    """Classes with the same rows, or probabilities of the same shape, or one class for all elements."""
    if isinstance(target, int):
        return target
    if not isinstance(target, RaggedTensor):
        given = f"shape {tuple(target.shape)}" if isinstance(target, Tensor) else type(target).__name__
        raise ShapeError(
            f"{name}: ragged scores {tuple(input.shape)} need ragged targets with the same rows, got {given}; "
            "use ex.ragged, or ex.ragged_from_padded(target, scores.lengths())"
        )
    expected = input.shape if target.is_floating_point() else (*input.shape[:1], *input.shape[2:])
    if tuple(target.shape) != tuple(expected):
        raise ShapeError(
            f"{name}: scores {tuple(input.shape)} of lengths {input._rows.brief()} need targets of shape "
            f"{tuple(expected)} with the same rows, got {tuple(target.shape)} of lengths {target._rows.brief()}"
        )
    return target


def cosine_embedding(loss: Callable[..., Tensor], input1: Any, input2: Any, target: Any, **options: Any) -> Any:
    """F.cosine_embedding_loss of ragged vectors (B, *, features), one target for each: (B, *)."""
    name = "cosine_embedding_loss"
    for x in (input1, input2):
        if not (isinstance(x, RaggedTensor) and x.ndim == 3 and x._dim == 1 and x.shape == input1.shape):
            raise ShapeError(
                f"{name}: expected two ragged tensors (B, *, features) of the same rows, got {tuple(input1.shape)} and "
                f"{tuple(input2.shape)}"
            )
    if isinstance(target, RaggedTensor):
        if tuple(target.shape) != tuple(input1.shape[:2]):
            raise ShapeError(f"{name}: targets must have the rows of the vectors, (B, *), got {tuple(target.shape)}")
        target = target._flat
    elif isinstance(target, Tensor) and target.ndim:
        raise ShapeError(f"{name}: ragged vectors need ragged targets or a number, got shape {tuple(target.shape)}")
    found = loss(input1._flat, input2._flat, target, **options)
    return RaggedTensor(found, input1._rows) if options["reduction"] == "none" else found
