"""Connectionist temporal classification (Graves et al. 2006): -log of the probability of a label sequence.

A path through time emits a class or a blank at every step; repetitions and then blanks are dropped to get its labels.
The sum over all paths is a recursion over positions in the labels with blanks around each ("extended" labels,
2 * length + 1 of them), done here in logarithms and float64, for all samples at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..core.context import is_grad_enabled
from ..core.op import GRADIENTS_ONLY, IN_GRADIENTS_ONLY, Decomposed, Op, Refuse, Rng, Sample
from ..core.storage import Array
from ..core.tensor import Tensor, from_array
from ..core.types import TensorType, float64
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, IndexRangeError, ShapeError
from .loss import reduced, reduction_of


class _Paths:
    """The extended labels of a batch and the emissions at them."""

    def __init__(self, log_probs: Array, targets: Array, target_lengths: Array, blank: int) -> None:
        n_samples, longest = targets.shape
        self.labels = np.full((n_samples, 2 * longest + 1), blank, np.int64)
        self.labels[:, 1::2] = targets
        # A step may skip a blank, unless both labels around it are the same.
        self.may_skip = np.zeros(self.labels.shape, bool)
        self.may_skip[:, 2:] = (self.labels[:, 2:] != blank) & (self.labels[:, 2:] != self.labels[:, :-2])
        index = np.broadcast_to(self.labels, (log_probs.shape[0], *self.labels.shape))
        self.emissions = np.take_along_axis(log_probs.astype(np.float64), index, 2)
        # A path ends at the last label or at the blank after it.
        position = np.arange(self.labels.shape[1])
        self.is_end = (position == 2 * target_lengths[:, None]) | (position == 2 * target_lengths[:, None] - 1)

    def forward(self) -> Array:
        """log of the probability of all beginnings that are at a position after each step: (time, batch, position)."""
        reached = np.full(self.emissions.shape, -np.inf)
        reached[:1, :, :2] = self.emissions[:1, :, :2]
        for t in range(1, len(reached)):
            before = reached[t - 1]
            step = np.logaddexp(before, _shifted(before, 1))
            step = np.logaddexp(step, np.where(self.may_skip, _shifted(before, 2), -np.inf))
            reached[t] = step + self.emissions[t]
        return reached

    def backward(self, input_lengths: Array) -> Array:
        """log of the probability of all continuations from a position after each step, that step not counted."""
        ends = np.where(self.is_end, 0.0, -np.inf)
        left = np.full(self.emissions.shape, -np.inf)
        may_skip = _shifted(self.may_skip, -2) > 0
        after = np.full(ends.shape, -np.inf)
        for t in range(len(left) - 1, -1, -1):
            if t + 1 < len(left):
                after = left[t + 1] + self.emissions[t + 1]
            step = np.logaddexp(after, _shifted(after, -1))
            step = np.logaddexp(step, np.where(may_skip, _shifted(after, -2), -np.inf))
            left[t] = np.where((input_lengths == t + 1)[:, None], ends, step)
        return left


def _shifted(x: Array, by: int) -> Array:
    """The last dimension moved by some places, -inf where nothing comes from."""
    out = np.full(x.shape, -np.inf)
    if by > 0:
        out[:, by:] = x[:, :-by]
    else:
        out[:, :by] = x[:, -by:]
    return out


def _later(x: Tensor, n: int, fill: Any) -> Tensor:
    """Moved n places towards the end of the rows, which begin with `fill`."""
    size = x._type.shape[1]
    filled = ops.full((x._type.shape[0], n), fill, dtype=x.dtype)
    return ops.cat([filled, x], 1).narrow(1, 0, size)


class CtcLoss(Op):
    """The losses of a batch. The recursion is done again for the gradient: its table is as large as all emissions."""

    saves = ("y log_probs targets input_lengths target_lengths", "", "", "", "")
    batch = Refuse("looped over samples")
    ragged = Refuse("it takes padded sequences and their lengths")

    @staticmethod
    def infer(
        log_probs: TensorType, targets: TensorType, input_lengths: TensorType, target_lengths: TensorType, blank: Any
    ) -> TensorType:
        return TensorType((log_probs.shape[1],), log_probs.dtype)

    @staticmethod
    def numpy(log_probs: Array, targets: Array, input_lengths: Array, target_lengths: Array, blank: int) -> Array:
        paths = _Paths(log_probs, targets, target_lengths, blank)
        reached = paths.forward()
        if len(reached):
            last = np.maximum(input_lengths - 1, 0)
            at_end = np.where(paths.is_end, reached[last, np.arange(len(last))], -np.inf)
            total = np.logaddexp.reduce(at_end, axis=1)
        else:
            total = np.full(len(target_lengths), -np.inf)
        # No step at all: certain for an empty label sequence, impossible for any other.
        total = np.where(input_lengths == 0, np.where(target_lengths == 0, 0.0, -np.inf), total)
        return -total.astype(log_probs.dtype)

    @staticmethod
    def vjp(
        g: Tensor, y: Any, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int
    ) -> tuple[Any, ...]:
        def into_log_probs() -> Tensor:
            values = (x.detach() for x in (g, y, log_probs, targets, input_lengths, target_lengths))
            gradient: Tensor = apply(CtcLossGradient, (*values, blank))
            if not is_grad_enabled():
                return gradient
            formula = _differentiable_gradient(g, y, log_probs, targets, input_lengths, target_lengths, blank)
            # The bits of the kernel: the two differ by rounding, so their difference is exact.
            return ops.where(ops.isfinite(gradient), formula + (gradient - formula.detach()), formula)

        return into_log_probs, None, None, None, None

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        lengths = np.array([6, 5]), np.array([2, 3])
        yield Sample(_log_probs(rng, 6, 2, 4), np.array([[1, 1, 3], [2, 3, 1]]), *lengths, 0)
        yield Sample(_log_probs(rng, 3, 1, 3), np.empty((1, 0), np.int64), np.array([3]), np.array([0]), 2)

    @Decomposed
    def onnx(
        flow: Any, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
    ) -> Tensor:
        """The same recursion as a loop, which keeps each sample's last step that counts."""
        n_steps, n_samples, _ = log_probs._type.shape
        n_places = 2 * targets._type.shape[1] + 1
        spaced = ops.stack([ops.full_like(targets, blank), targets], 2).reshape(n_samples, n_places - 1)
        labels = ops.cat([spaced, ops.full((n_samples, 1), blank, dtype=targets.dtype)], 1).long()
        places, never = ops.arange(n_places), -math.inf
        earlier = _later(labels, 2, blank)
        may_skip = ops.logical_and(ops.logical_and(ops.ne(labels, blank), ops.ne(labels, earlier)), ops.ge(places, 2))
        emissions = log_probs.double().gather(2, labels.expand(n_steps, n_samples, n_places))

        def step(state: tuple[Tensor, ...], emitted: Tensor) -> tuple[tuple[Tensor, ...], None]:
            t, before, last = state
            moved = ops.logaddexp(before, _later(before, 1, never))
            moved = ops.logaddexp(moved, ops.where(may_skip, _later(before, 2, never), never))
            start = ops.where(places < 2, 0.0, never)
            reached = ops.where(ops.eq(t, 0), start, moved) + emitted
            counts = (t < input_lengths).unsqueeze(1)
            return (t + 1, reached, ops.where(counts, reached, last)), None

        nothing = ops.full((n_samples, n_places), never).double()
        (_, _, last), _ = flow.scan(step, (ops.tensor(0), nothing, nothing), emissions)
        end = 2 * target_lengths.unsqueeze(1)
        is_end = ops.logical_or(ops.eq(places, end), ops.eq(places, end - 1))
        total = ops.logsumexp(ops.where(is_end, last, never), 1)
        empty = ops.where(ops.eq(target_lengths, 0), 0.0, never).double()
        return -ops.where(ops.eq(input_lengths, 0), empty, total)


def _log_probs(rng: Rng, *shape: int) -> Array:
    scores = rng.normal(size=shape)
    return scores - np.log(np.exp(scores).sum(-1, keepdims=True))


class CtcLossGradient(Op):
    """d loss / d log_probs: minus the probability, among the paths that fit, of being at a class at a step."""

    batch = Refuse("looped over samples")
    ragged = IN_GRADIENTS_ONLY
    vjp = Refuse("a gradient that is itself differentiated is made of ops that can be")
    saves = ()
    infer = staticmethod(lambda g, loss, log_probs, *rest: log_probs)

    @staticmethod
    def numpy(
        g: Array, loss: Array, log_probs: Array, targets: Array, input_lengths: Array, target_lengths: Array, blank: int
    ) -> Array:
        paths = _Paths(log_probs, targets, target_lengths, blank)
        whole = paths.forward() + paths.backward(input_lengths)
        posterior = np.exp(whole + loss.astype(np.float64)[:, None])
        # A loss that nobody uses has no gradient, also where it is infinite.
        scaled = np.where(g[:, None] == 0, 0.0, posterior * g[:, None])
        n_steps, n_samples, n_classes = log_probs.shape
        row = np.arange(n_steps * n_samples).reshape(n_steps, n_samples, 1) * n_classes
        total = np.bincount((row + paths.labels).reshape(-1), scaled.reshape(-1), minlength=log_probs.size)
        return -total.reshape(log_probs.shape).astype(log_probs.dtype)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        for sample in CtcLoss.samples(rng):
            loss = CtcLoss.numpy(*sample.inputs)
            yield Sample(rng.normal(size=loss.shape), loss, *sample.inputs)

    onnx = GRADIENTS_ONLY


# Stands for log(0) where gradients of gradients are taken: they would be NaN at -inf.
_NEVER = -1e30


def _differentiable_gradient(
    g: Tensor,
    loss: Tensor,
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
) -> Tensor:
    """What CtcLossGradient computes, in ops that have gradients."""
    scores = ops.clamp(log_probs.to(float64), min=_NEVER)
    paths = _Paths(log_probs.detach().numpy(), targets.numpy(), target_lengths.numpy(), blank)
    labels = from_array(paths.labels).expand(len(scores), *paths.labels.shape)
    emissions = ops.gather(scores, 2, labels).unbind(0)
    ends = from_array(np.where(paths.is_end, 0.0, _NEVER))
    skips = from_array(paths.may_skip)
    skipped = from_array(_shifted(paths.may_skip, -2) > 0)

    reached = [ops.where(ops.arange(ends.shape[1]) < 2, emissions[0], _NEVER)]
    for emission in emissions[1:]:
        reached.append(_step(reached[-1], 1, skips) + emission)
    left: list[Tensor] = []
    after = ops.full_like(ends, _NEVER)
    for t in range(len(emissions) - 1, -1, -1):
        left.insert(0, ops.where(ops.eq(input_lengths, t + 1).unsqueeze(1), ends, _step(after, -1, skipped)))
        after = left[0] + emissions[t]
    posterior = ops.exp(ops.stack(reached) + ops.stack(left) + loss.to(float64).unsqueeze(1))
    share = g.to(float64).unsqueeze(1)
    scaled = ops.where(ops.eq(share, 0), 0.0, posterior * share)
    return ops.scatter_add(ops.zeros_like(scores.detach()), 2, labels, -scaled).to(log_probs.dtype)


def _step(x: Tensor, by: int, skips: Tensor) -> Tensor:
    """From each position, the neighbours that a step comes from (by 1) or leads to (by -1), itself included."""

    def moved(places: int) -> Tensor:
        width = min(abs(places), x.shape[1])
        gap = ops.full((x.shape[0], width), _NEVER, dtype=float64)
        rest = x.shape[1] - width
        return ops.cat([gap, x.narrow(1, 0, rest)] if places > 0 else [x.narrow(1, width, rest), gap], 1)

    return ops.logaddexp(ops.logaddexp(x, moved(by)), ops.where(skips, moved(2 * by), _NEVER))


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int] | int,
    target_lengths: Tensor | Sequence[int] | int,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability of label sequences, given log_probs (time, batch, classes) or (time, classes).

    `targets` is (batch, longest), or all label sequences one after another. "mean" divides each loss by its number of
    labels first. Labels that do not fit into their time have infinite loss; `zero_infinity` makes that 0.

    >>> log_probs = ex.full((3, 1, 2), 0.5).log()
    >>> F.ctc_loss(log_probs, ex.tensor([[1]]), [3], [1], reduction="none")
    tensor([0.2877])
    """
    reduction = reduction_of("ctc_loss", reduction)
    if log_probs.ndim not in (2, 3):
        raise ShapeError(
            f"ctc_loss: expected log_probs (time, batch, classes) or (time, classes), got {tuple(log_probs.shape)}"
        )
    if not log_probs.is_floating_point():
        raise DtypeError(f"ctc_loss: expected floating log_probs, got {log_probs.dtype}; use log_softmax of the scores")
    batched = log_probs.ndim == 3
    scores = log_probs if batched else log_probs.unsqueeze(1)
    n_steps, n_samples, n_classes = scores.shape
    if not 0 <= blank < n_classes:
        raise IndexRangeError(f"ctc_loss: blank {blank} is none of the {n_classes} classes")
    steps = _lengths("input_lengths", input_lengths, n_samples, n_steps)
    labels = _lengths("target_lengths", target_lengths, n_samples, None)
    table = _table(ops.as_tensor(targets), labels, n_classes)
    lengths = from_array(labels)
    loss: Tensor = apply(CtcLoss, (scores, from_array(table), from_array(steps), lengths, blank))
    if zero_infinity:
        loss = ops.where(ops.isinf(loss), 0.0, loss)
    if reduction == "mean":
        return (loss / ops.clamp(lengths, min=1).to(loss.dtype)).mean()
    return reduced(loss if batched else loss.squeeze(0), reduction)


def _lengths(name: str, lengths: Any, n_samples: int, most: int | None) -> Array:
    """One length per sample, checked."""
    values = np.asarray(ops.as_tensor(lengths).detach().numpy(), np.int64).reshape(-1)
    if values.size != n_samples:
        raise ShapeError(f"ctc_loss: {values.size} {name} for {n_samples} samples; give one for each")
    if values.size and (values.min() < 0 or (most is not None and values.max() > most)):
        bound = "at least 0" if most is None else f"from 0 to the {most} steps of log_probs"
        raise ShapeError(f"ctc_loss: {name} must be {bound}, got {values.tolist()}")
    return values


def _table(targets: Tensor, lengths: Array, n_classes: int) -> Array:
    """The labels as (batch, longest), 0 after the end of each."""
    values = np.asarray(targets.detach().numpy())
    if values.dtype.kind not in "iu":
        raise DtypeError(f"ctc_loss: expected integer targets, got {targets.dtype}; use targets.long()")
    longest = int(lengths.max(initial=0))
    used = np.arange(longest) < lengths[:, None]
    table = np.zeros((len(lengths), longest), np.int64)
    if values.ndim == 2 and len(values) == len(lengths) and values.shape[1] >= longest:
        table[used] = values[:, :longest][used]
    elif values.ndim == 1 and values.size >= lengths.sum():
        table[used] = values[: lengths.sum()]
    else:
        raise ShapeError(
            f"ctc_loss: targets of shape {values.shape} do not hold the labels of target_lengths {lengths.tolist()}; "
            "expected (batch, longest) or all of them one after another"
        )
    if table.size and (table.min() < 0 or table.max() >= n_classes):
        raise IndexRangeError(f"ctc_loss: targets must be classes from 0 to {n_classes - 1}, got {values.tolist()}")
    return table
