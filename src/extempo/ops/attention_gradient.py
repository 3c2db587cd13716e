"""The gradient of attention as one op, and the weights of attention in plain tensor arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from ..core.op import GRADIENTS_ONLY, IN_GRADIENTS_ONLY, Op, Rng, Routine, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import InputType, TensorType, bool_, broadcast_shapes


class AttentionGradient(Op):
    """The gradients of softmax(query @ key.T * scale) @ value, given that of the result. The weights are not kept.

    With `is_causal`, a query attends to keys up to its own place. Leading dimensions broadcast; the results have them
    all.
    """

    family = "contraction"
    lower = Routine("attention_gradient")
    batch = "align"
    ragged = IN_GRADIENTS_ONLY
    saves = ("query key value", "g query key value", "g query key value", "g query key", "")

    @staticmethod
    def infer(
        g: TensorType, query: TensorType, key: TensorType, value: TensorType, scale: InputType, *, is_causal: bool
    ) -> tuple[TensorType, ...]:
        lead = broadcast_shapes(*(t.shape[:-2] for t in (g, query, key, value)))
        return tuple(TensorType((*lead, *t.shape[-2:]), t.dtype) for t in (query, key, value))

    @staticmethod
    def numpy(
        g: Array, query: Array, key: Array, value: Array, scale: float, *, is_causal: bool
    ) -> tuple[Array, Array, Array]:
        result = query.dtype
        if result.itemsize == 2:
            g, query, key, value = (x.astype(np.float32) for x in (g, query, key, value))
        weights = np.matmul(query * scale, key.swapaxes(-1, -2))
        if is_causal:
            weights[..., ~np.tri(*weights.shape[-2:], dtype=np.bool_)] = -np.inf
        weights -= weights.max(axis=-1, keepdims=True, initial=-np.inf)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=-1, keepdims=True)
        scores = weights * np.matmul(g, value.swapaxes(-1, -2))
        scores = (scores - weights * scores.sum(axis=-1, keepdims=True)) * scale
        turned = scores.swapaxes(-1, -2)
        gradients = np.matmul(scores, key), np.matmul(turned, query), np.matmul(weights.swapaxes(-1, -2), g)
        lead = scores.shape[:-2]
        into_query, into_key, into_value = (
            np.array(np.broadcast_to(x, lead + x.shape[-2:]), result, order="C") for x in gradients
        )
        return into_query, into_key, into_value

    @staticmethod
    def vjp(
        cotangents: Any, y: Any, g: Any, query: Any, key: Any, value: Any, scale: float, *, is_causal: bool
    ) -> tuple[Any, ...]:
        # With S = scale Q K', P = softmax(S), A = G V' and D = P (A - sum(P A)), the results are scale D K, scale D' Q
        # and P' G. What comes in for them is called u, v and w.
        u, v, w = cotangents
        weights = attention_weights(query, key, None, scale, is_causal)

        def of_softmax(gradient: Tensor) -> Tensor:
            """From the gradient of P to that of S; it also leads from that of D to that of A."""
            return weights * (gradient - (weights * gradient).sum(-1, keepdim=True))

        into_d = (ops.matmul(u, key.mT) + ops.matmul(query, v.mT)) * scale
        into_a = of_softmax(into_d)

        def into_s() -> Tensor:
            a = ops.matmul(g, value.mT)
            mean, along = ((weights * x).sum(-1, keepdim=True) for x in (a, into_d))
            return of_softmax(ops.matmul(g, w.mT) + into_d * (a - mean) - a * along)

        def d() -> Tensor:
            return of_softmax(ops.matmul(g, value.mT))

        return (
            lambda: ops.matmul(into_a, value) + ops.matmul(weights, w),
            lambda: (ops.matmul(into_s(), key) + ops.matmul(d(), v)) * scale,
            lambda: (ops.matmul(into_s().mT, query) + ops.matmul(d().mT, u)) * scale,
            lambda: ops.matmul(into_a.mT, g),
            None,
        )

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        def draw(*shape: int) -> Array:
            return rng.normal(size=shape)

        yield Sample(draw(3, 2), draw(3, 4), draw(5, 4), draw(5, 2), 0.5, is_causal=False)
        yield Sample(draw(2, 3, 4), draw(2, 3, 4), draw(2, 3, 4), draw(2, 3, 4), 0.5, is_causal=True)
        yield Sample(draw(2, 2, 3, 2), draw(2, 1, 3, 4), draw(2, 5, 4), draw(5, 2), 0.3, is_causal=False)
        yield Sample(draw(0, 3, 4), draw(0, 3, 4), draw(0, 2, 4), draw(0, 2, 4), 0.5, is_causal=False)

    onnx = GRADIENTS_ONLY


def attention_weights(query: Tensor, key: Tensor, mask: Tensor | None, scale: float, is_causal: bool) -> Tensor:
    """softmax(query @ key.T * scale + mask), zeros for a query that may attend to nothing."""
    scores = ops.matmul(query * scale, key.mT)
    if is_causal:
        scores = ops.where(ops.tril(ops.ones(scores.shape[-2:], dtype=bool_)), scores, -math.inf)
    if mask is None:
        return ops.softmax(scores, -1)
    scores = ops.where(mask, scores, -math.inf) if mask.dtype is bool_ else scores + mask
    # A slice of -inf only would become NaN, and its gradient too.
    dead = ops.eq(scores.detach(), -math.inf).all(-1, keepdim=True)
    return ops.where(dead, 0.0, ops.softmax(ops.where(dead, 0.0, scores), -1))
