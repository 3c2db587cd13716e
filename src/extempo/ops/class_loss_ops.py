"""Cross entropy of scores for class indices, and its gradient: the primitives behind `cross_entropy`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from ..core.op import GRADIENTS_ONLY, IN_GRADIENTS_ONLY, Decomposed, Op, Refuse, Rng, Routine, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import InputType, TensorType
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, IndexRangeError, ShapeError
from .reduce import wide
from .softmaxes import SoftmaxBackward


class CrossEntropy(Op):
    """-log(softmax(logits)[target]) per sample, and 0 where the target is `ignore`; `reduction`: none, sum or mean.

    The mean is over the samples that are not ignored. The gradient computes the softmax again: nothing of the size of
    the scores is kept but the scores.
    """

    family = "normalization"
    saves = ("logits target", "", "")
    lower = Routine("cross_entropy")
    ragged = Refuse("its function makes each element of each row a sample")

    @staticmethod
    def infer(logits: TensorType, target: InputType, ignore: InputType, *, dim: int, reduction: str) -> TensorType:
        if not logits.dtype.is_floating_point:
            raise DtypeError(f"cross_entropy: expected floating scores, got {logits.dtype}; use x.float()")
        rest = (*logits.shape[:dim], *logits.shape[dim + 1 :])
        check_target("cross_entropy", logits, target, rest)
        return TensorType(rest if reduction == "none" else (), logits.dtype)

    @staticmethod
    def numpy(logits: Array, target: Any, ignore: int, *, dim: int, reduction: str) -> Any:
        x = np.asarray(logits, wide(logits))
        x = x - x.max(axis=dim, keepdims=True, initial=-np.inf)
        target = np.asarray(target)
        keep = target != ignore
        index = np.expand_dims(_checked(target, keep, logits.shape[dim]), dim)
        loss = np.log(np.exp(x).sum(axis=dim)) - np.take_along_axis(x, index, dim).squeeze(dim)
        loss = np.where(keep, loss, loss.dtype.type(0))
        if reduction != "none":
            loss = loss.sum() if reduction == "sum" else loss.sum() / loss.dtype.type(np.count_nonzero(keep))
        return loss.astype(logits.dtype)

    @staticmethod
    def vjp(
        g: Tensor, y: Any, logits: Tensor, target: Any, ignore: int, *, dim: int, reduction: str
    ) -> tuple[Any, ...]:
        attrs = {"dim": dim, "reduction": reduction}
        return apply(CrossEntropyBackward, (g, logits, target, ignore), attrs), None, None

    @staticmethod
    def batch(size: int, logits: Tensor, target: Any, ignore: int, *, dim: int, reduction: str) -> Tensor:
        target = _per_sample(target, logits, dim + 1)
        loss = apply(CrossEntropy, (logits, target, ignore), {"dim": dim + 1, "reduction": "none"})
        if reduction == "none":
            return loss
        total = loss.reshape(size, -1).sum(1)
        return total / ops.ne(target, ignore).reshape(size, -1).sum(1) if reduction == "mean" else total

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for reduction in ("none", "sum", "mean"):
            how: dict[str, Any] = {"reduction": reduction}
            yield Sample(rng.normal(size=(4, 3)), rng.integers(0, 3, size=(4,)), -100, dim=1, **how)
            yield Sample(rng.normal(size=(2, 3, 4)), np.array([[0, 1, 2, 1], [2, 2, 0, 1]]), 1, dim=1, **how)
            yield Sample(rng.normal(size=(5,)), 3, -100, dim=0, **how)
        yield Sample(rng.normal(size=(2, 3)) * 1000, np.array([0, 2]), -100, dim=1, reduction="none")
        yield Sample(np.empty((0, 3)), np.empty(0, np.int64), -100, dim=1, reduction="none")

    @Decomposed
    def onnx(logits: Tensor, target: Any, ignore: int, *, dim: int, reduction: str) -> Tensor:
        target = (target if isinstance(target, Tensor) else ops.tensor(target)).long()
        keep = ops.ne(target, ignore)
        index = ops.where(keep, target, 0).unsqueeze(dim)
        wide = logits.float() if logits.dtype.itemsize == 2 else logits
        loss = ops.where(keep, -ops.log_softmax(wide, dim).gather(dim, index).squeeze(dim), 0.0)
        if reduction == "none":
            return loss
        return loss.sum() if reduction == "sum" else loss.sum() / keep.sum().to(loss.dtype)


class CrossEntropyBackward(Op):
    """The gradient of `CrossEntropy` with respect to the scores, from the cotangent g of its result."""

    family = "normalization"
    saves = ("logits target", "g logits target", "", "")
    lower = Routine("cross_entropy_backward")
    ragged = IN_GRADIENTS_ONLY
    infer = staticmethod(lambda g, logits, target, ignore, *, dim, reduction: logits)

    @staticmethod
    def numpy(g: Array, logits: Array, target: Any, ignore: int, *, dim: int, reduction: str) -> Any:
        x = np.asarray(logits, wide(logits))
        y = np.exp(x - x.max(axis=dim, keepdims=True, initial=-np.inf))
        y /= y.sum(axis=dim, keepdims=True)
        target = np.asarray(target)
        keep = target != ignore
        index = np.expand_dims(_checked(target, keep, logits.shape[dim]), dim)
        if logits.shape[dim]:
            np.put_along_axis(y, index, np.take_along_axis(y, index, dim) - y.dtype.type(1), dim)
        if reduction == "mean":
            g = np.asarray(g, y.dtype) / y.dtype.type(np.count_nonzero(keep))
        y *= np.expand_dims(np.where(keep, g, g.dtype.type(0)), dim)
        return y.astype(logits.dtype, copy=False)

    @staticmethod
    def vjp(
        h: Tensor, y: Any, g: Any, logits: Tensor, target: Any, ignore: int, *, dim: int, reduction: str
    ) -> tuple[Any, ...]:
        target = ops.as_tensor(target)
        keep = ops.ne(target, ignore)

        def into_g() -> Tensor:
            one = ops.ones(target.shape, dtype=h.dtype)
            attrs = {"dim": dim, "reduction": "none"}
            each = (h * apply(CrossEntropyBackward, (one, logits, target, ignore), attrs)).sum(dim)
            if reduction == "none":
                return each
            return each.sum() / keep.sum() if reduction == "mean" else each.sum()

        def into_logits() -> Tensor:
            share = ops.where(keep, g / keep.sum() if reduction == "mean" else g, 0.0).unsqueeze(dim)
            return apply(SoftmaxBackward, (h, ops.softmax(logits, dim)), {"dim": dim}) * share

        return into_g, into_logits, None, None

    @staticmethod
    def batch(size: int, g: Tensor, logits: Tensor, target: Any, ignore: int, *, dim: int, reduction: str) -> Tensor:
        target = _per_sample(target, logits, dim + 1)
        if reduction == "mean":
            g = g / ops.ne(target, ignore).reshape(size, -1).sum(1)
        if reduction != "none":
            g = g.reshape(size, *(1,) * (target.ndim - 1)).expand(target.shape)
        attrs = {"dim": dim + 1, "reduction": "none"}
        return apply(CrossEntropyBackward, (g, logits, target, ignore), attrs)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for sample in CrossEntropy.samples(rng):
            logits, target, _ = sample.inputs
            whole = sample.attrs["reduction"] != "none"
            g = rng.normal(size=() if whole else np.shape(target))
            if np.abs(logits).max(initial=0.0) < 100.0:  # the slopes of steep ones are no differences
                yield Sample(np.asarray(g), *sample.inputs, **sample.attrs)

    onnx = GRADIENTS_ONLY


def _per_sample(target: Any, logits: Tensor, dim: int) -> Tensor:
    """The targets of a batch of samples, from those or from a number that all of them share."""
    if isinstance(target, Tensor):
        return target
    return ops.full((*logits.shape[:dim], *logits.shape[dim + 1 :]), target)


def check_target(op: str, scores: Any, target: Any, expected: tuple[int, ...]) -> None:
    """The target's type against the scores': indices, one per sample."""
    if not isinstance(target, TensorType):
        if target is int and not expected:
            return
        raise DtypeError(f"{op}: expected a class index as target, got {target.__name__}")
    if target.dtype.category != 1:
        raise DtypeError(f"{op}: expected class indices (integers) as target, got {target.dtype}; use target.long()")
    if target.shape != expected:
        raise ShapeError(
            f"{op}: target has shape {target.shape}, expected {expected} for scores of shape {scores.shape}; "
            "classes are dimension 1, or dimension 0 without a batch"
        )


def _checked(target: Array, keep: Array, n_classes: int) -> Array:
    """The indices, 0 where they are ignored; any other that names no class is an error."""
    index = np.where(keep, target, 0)
    wrong = (index < 0) | (index >= n_classes)
    if wrong.any() and n_classes:
        named = index[wrong].flat[0]
        hint = f"; ignore_index={named} leaves it out" if named < 0 else "; does the last layer have too few outputs?"
        raise IndexRangeError(
            f"cross_entropy: target {named} names no class, there are {n_classes}, 0 to {n_classes - 1}{hint}"
        )
    return index
