"""Attention: softmax(query @ key.T * scale + mask) @ value, alone and with heads and projections around it."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .. import ops
from ..core.op import Decomposed, Op, Refuse, Rng, Routine, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import TensorType, bool_, broadcast_shapes
from ..core.wording import counted
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, ShapeError
from .attention_gradient import AttentionGradient, attention_weights


class ScaledDotProductAttention(Op):
    """softmax(query @ key.T * scale + mask) @ value. The weights are not kept: backward computes them again.

    A bool mask is True where attention is allowed; a query that may attend to nothing gets zeros. Leading dimensions
    broadcast.
    """

    family = "contraction"
    lower = Routine("attention")
    batch = "align"
    ragged = Refuse("its function runs row_attention, or one row after the other")
    saves = ("query key value mask", "query key value mask", "query key mask", "query key value mask", "")

    @staticmethod
    def infer(
        query: TensorType, key: TensorType, value: TensorType, mask: Any, scale: Any, *, is_causal: bool
    ) -> TensorType:
        if not query.dtype is key.dtype is value.dtype or not query.dtype.is_floating_point:
            raise DtypeError(
                f"scaled_dot_product_attention: expected one floating dtype, got query {query.dtype}, key {key.dtype}, "
                f"value {value.dtype}; convert with .to(...)"
            )

        def shapes() -> str:
            return f"query {query.shape}, key {key.shape}, value {value.shape}"

        if min(len(query.shape), len(key.shape), len(value.shape)) < 2:
            raise ShapeError(f"scaled_dot_product_attention: expected (..., length, features) each, got {shapes()}")
        if query.shape[-1] != key.shape[-1]:
            raise ShapeError(f"scaled_dot_product_attention: query and key must have as many features, got {shapes()}")
        if key.shape[-2] != value.shape[-2]:
            raise ShapeError(f"scaled_dot_product_attention: key and value must be as long, got {shapes()}")
        leads = [t.shape[:-2] for t in (query, key, value)]
        if isinstance(mask, TensorType):
            weights = (query.shape[-2], key.shape[-2])
            if not ops.broadcastable(mask.shape[-2:], weights):
                raise ShapeError(
                    f"scaled_dot_product_attention: attn_mask of shape {mask.shape} does not broadcast to {weights}, "
                    "the lengths of query and key"
                )
            leads.append(mask.shape[:-2])
        try:
            lead = broadcast_shapes(*leads)
        except ShapeError:
            raise ShapeError(f"scaled_dot_product_attention: batch dimensions do not broadcast: {shapes()}") from None
        return TensorType((*lead, query.shape[-2], value.shape[-1]), query.dtype)

    @staticmethod
    def numpy(query: Array, key: Array, value: Array, mask: Any, scale: float, *, is_causal: bool) -> Array:
        result = query.dtype
        if result.itemsize == 2:
            query, key, value = (x.astype(np.float32) for x in (query, key, value))
        scores = np.matmul(query * scale, key.swapaxes(-1, -2))
        if is_causal:
            scores[..., ~np.tri(*scores.shape[-2:], dtype=np.bool_)] = -np.inf
        if mask is not None:
            if mask.dtype == np.bool_:
                scores = np.where(mask, scores, scores.dtype.type(-np.inf))
            else:
                scores = scores + mask.astype(scores.dtype)
        top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
        scores -= np.where(np.isneginf(top), scores.dtype.type(0), top)
        np.exp(scores, out=scores)
        total = scores.sum(axis=-1, keepdims=True)
        scores /= np.where(total == 0, scores.dtype.type(1), total)
        return np.matmul(scores, value).astype(result, copy=False)

    @staticmethod
    def vjp(
        g: Tensor, y: Any, query: Any, key: Any, value: Any, mask: Any, scale: float, *, is_causal: bool
    ) -> tuple[Any, ...]:
        if mask is None and isinstance(value, Tensor):  # value is saved if query or key need a gradient
            made: list[Tensor] = []

            def gradient(index: int) -> Tensor:
                if not made:
                    made.extend(apply(AttentionGradient, (g, query, key, value, scale), {"is_causal": is_causal}))
                return made[index]

            return lambda: gradient(0), lambda: gradient(1), lambda: gradient(2), None, None

        @functools.cache
        def weights() -> Tensor:
            return attention_weights(query, key, mask, scale, is_causal)

        @functools.cache
        def into_scores() -> Tensor:
            weighted = weights() * ops.matmul(g, value.mT)
            return weighted - weights() * weighted.sum(-1, keepdim=True)

        return (
            lambda: ops.matmul(into_scores(), key) * scale,
            lambda: ops.matmul(into_scores().mT, query) * scale,
            lambda: ops.matmul(weights().mT, g),
            into_scores if mask is not None else None,
            None,
        )

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        def draw(*shape: int) -> Array:
            return rng.normal(size=shape)

        yield Sample(draw(3, 4), draw(5, 4), draw(5, 2), None, 0.5, is_causal=False)
        yield Sample(draw(2, 3, 4), draw(2, 3, 4), draw(2, 3, 4), None, 0.5, is_causal=True)
        yield Sample(draw(2, 1, 3, 4), draw(2, 5, 4), draw(5, 2), draw(3, 5), 0.3, is_causal=False)
        dead = np.array([[True, False], [False, False], [True, True]])
        yield Sample(draw(2, 3, 4), draw(2, 2, 4), draw(2, 2, 3), dead, 0.5, is_causal=False)
        yield Sample(draw(0, 3, 4), draw(0, 2, 4), draw(0, 2, 4), None, 0.5, is_causal=False)

    @Decomposed
    def onnx(query: Tensor, key: Tensor, value: Tensor, mask: Any, scale: Any, *, is_causal: bool) -> Tensor:
        wide = [x.float() if x.dtype.itemsize == 2 else x for x in (query, key, value)]
        scores = ops.matmul(wide[0] * scale, wide[1].mT)
        if is_causal:
            n_queries, n_keys = scores._type.shape[-2:]
            is_before = ops.ge(ops.arange(n_queries).unsqueeze(1), ops.arange(n_keys))
            scores = ops.where(is_before, scores, -math.inf)
        if mask is not None:
            scores = ops.where(mask, scores, -math.inf) if mask.dtype is bool_ else scores + mask.to(scores.dtype)
        weights = ops.softmax(scores, -1)
        if is_causal or mask is not None:  # a query that may attend to nothing gets zeros
            weights = ops.where(ops.ne(scores, -math.inf).any(-1, keepdim=True), weights, 0.0)
        return ops.matmul(weights, wide[2])


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query @ key.T * scale + attn_mask) @ value, for tensors (..., length, features).

    `scale` is 1 / sqrt(features) unless given. A bool mask is True where attention is allowed, a floating one is added.
    `enable_gqa`: dimension -3 of query (heads) may be a multiple of that of key and value, which are then shared.
    Ragged tensors are (batch, *, features) or (batch, heads, *, features): each row attends to itself, without padding.

    >>> query, key = ex.tensor([[0.0, 0.0], [100.0, 0.0]]), ex.eye(2)
    >>> F.scaled_dot_product_attention(query, key, value=ex.tensor([[1.0], [3.0]]))
    tensor([[2.],
            [1.]])
    """
    if is_causal and attn_mask is not None:
        raise ShapeError("scaled_dot_product_attention: give attn_mask or is_causal=True, not both")
    if query.is_nested or key.is_nested or value.is_nested:
        from ..ragged_tensors.attention import attention

        return attention(
            query, key, value, attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
        )
    if scale is None:
        scale = 1.0 / math.sqrt(max(query.shape[-1], 1))
    heads = None
    if enable_gqa and query.ndim > 2:
        query, key, value, attn_mask, heads = _grouped(query, key, value, attn_mask)
    if dropout_p:
        weights = attention_weights(query, key, attn_mask, scale, is_causal)
        result = ops.matmul(ops.dropout(weights, dropout_p, True), value)
    else:
        result = apply(ScaledDotProductAttention, (query, key, value, attn_mask, scale), {"is_causal": is_causal})
    return result if heads is None else result.reshape(*result.shape[:-4], heads, *result.shape[-2:])


def _grouped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> tuple[Any, ...]:
    """Query heads as (shared heads, group): key and value then broadcast over the group and need no copies."""
    heads, shared = query.shape[-3], key.shape[-3]
    if value.shape[-3] != shared or heads % shared:
        raise ShapeError(
            f"scaled_dot_product_attention: {heads} query heads cannot share {shared} key and {value.shape[-3]} value "
            "heads; the first must be a multiple of the others, which must be equal"
        )
    group = heads // shared
    if mask is not None and mask.ndim > 2:
        if mask.shape[-3] == heads:
            mask = mask.reshape(*mask.shape[:-3], shared, group, *mask.shape[-2:])
        else:
            mask = mask.unsqueeze(-3)
    query = query.reshape(*query.shape[:-3], shared, group, *query.shape[-2:])
    return query, key.unsqueeze(-3), value.unsqueeze(-3), mask, heads


# ---- heads and projections


class _Sizes(NamedTuple):
    batch: int
    heads: int
    features: int  # of one head


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention of several heads: (result, weights), for tensors (length, batch, features) or (length, features).

    Bool masks are True where attention is NOT allowed, unlike those of scaled_dot_product_attention. `is_causal` is a
    hint that attn_mask is the causal one. Weights are None unless `need_weights`; the mean over heads unless
    `average_attn_weights` is False.

    >>> x, w = ex.randn(3, 1, 4), ex.randn(12, 4)
    >>> y, weights = F.multi_head_attention_forward(x, x, x, 4, 2, w, None, None, None, False, 0.0, ex.eye(4), None)
    >>> y.shape, weights.shape
    (extempo.Size([3, 1, 4]), extempo.Size([1, 3, 3]))
    """
    if query.is_nested or key.is_nested or value.is_nested:
        arguments = dict(locals())
        from ..ragged_tensors.attention import multi_head

        return multi_head(**arguments)
    _check_heads(query, key, value, embed_dim_to_check, num_heads, attn_mask, is_causal)
    batched = query.ndim == 3
    if not batched:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    n_queries, n_samples, n_features = query.shape
    sizes = _Sizes(n_samples, num_heads, n_features // num_heads)
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = projected(query, key, value, in_proj_weight, separate, in_proj_bias)
    mask = _joined_mask(attn_mask, key_padding_mask, sizes, q.dtype, n_queries, key.shape[0])
    if bias_k is not None and bias_v is not None:
        k = ops.cat([k, bias_k.expand(1, n_samples, n_features)])
        v = ops.cat([v, bias_v.expand(1, n_samples, n_features)])
    q, k, v = (_split(x, sizes) for x in (q, k, v))
    if static_k is not None:
        k = _static("static_k", static_k, sizes)
    if static_v is not None:
        v = _static("static_v", static_v, sizes)
    if add_zero_attn:
        nothing = ops.zeros(n_samples, num_heads, 1, sizes.features, dtype=q.dtype)
        k, v = ops.cat([k, nothing], 2), ops.cat([v, nothing], 2)
    if mask is not None and mask.shape[-1] < k.shape[2]:
        # What was added at the end (bias, zeros) may always be attended to.
        mask = ops.cat([mask, ops.zeros(*mask.shape[:-1], k.shape[2] - mask.shape[-1], dtype=mask.dtype)], -1)
    p = dropout_p if training else 0.0
    weights = None
    if need_weights:
        scores = ops.matmul(q * (1.0 / math.sqrt(sizes.features)), k.mT)
        weights = ops.softmax(scores if mask is None else scores + mask, -1)
        weights = ops.dropout(weights, p, True) if p else weights
        result = ops.matmul(weights, v)
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        result = scaled_dot_product_attention(q, k, v, mask, p)
    result = result.permute(2, 0, 1, 3).reshape(n_queries, n_samples, n_features)
    result = ops.linear(result, out_proj_weight, out_proj_bias)
    if batched:
        return result, weights
    return result.squeeze(1), None if weights is None else weights.squeeze(0)


def _check_heads(
    query: Tensor, key: Tensor, value: Tensor, n_features: int, n_heads: int, attn_mask: Any, is_causal: bool
) -> None:
    op = "multi_head_attention_forward"
    if query.ndim not in (2, 3) or not query.ndim == key.ndim == value.ndim:
        shapes = ", ".join(str(tuple(x.shape)) for x in (query, key, value))
        raise ShapeError(f"{op}: expected (length, batch, features) or (length, features) three times, got {shapes}")
    if query.shape[-1] != n_features:
        raise ShapeError(f"{op}: query has {counted(query.shape[-1], 'feature')}, expected {n_features}")
    if n_features % n_heads:
        raise ShapeError(f"{op}: {n_features} features cannot be split among {n_heads} heads")
    if key.shape[:-1] != value.shape[:-1]:
        raise ShapeError(f"{op}: key and value must be as long, got {tuple(key.shape)} and {tuple(value.shape)}")
    if is_causal and attn_mask is None:
        raise ShapeError(f"{op}: is_causal is only a hint about attn_mask; pass the mask as well")


def projected(
    query: Tensor, key: Tensor, value: Tensor, packed: Tensor | None, separate: Any, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The three inputs through their linear maps, which lie in one tensor (packed) or in three."""
    inputs = (query, key, value)
    biases = (None, None, None) if bias is None else bias.chunk(3)
    if separate is not None:
        weights = separate
    elif packed is None:
        raise ShapeError("multi_head_attention_forward: give in_proj_weight, or use_separate_proj_weight and its three")
    elif query is key and key is value:
        q, k, v = ops.linear(query, packed, bias).chunk(3, -1)
        return q, k, v
    else:
        weights = packed.chunk(3)
    q, k, v = (ops.linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True))
    return q, k, v


def _split(x: Tensor, sizes: _Sizes) -> Tensor:
    """(length, batch, features) as (batch, heads, length, features of a head)."""
    return x.reshape(x.shape[0], sizes.batch, sizes.heads, sizes.features).permute(1, 2, 0, 3)


def _static(name: str, x: Tensor, sizes: _Sizes) -> Tensor:
    """Keys or values given directly, as (batch * heads, length, features of a head)."""
    if x.ndim != 3 or x.shape[0] != sizes.batch * sizes.heads or x.shape[2] != sizes.features:
        raise ShapeError(
            f"multi_head_attention_forward: {name} must be ({sizes.batch * sizes.heads}, length, {sizes.features}), "
            f"got {tuple(x.shape)}"
        )
    return x.reshape(sizes.batch, sizes.heads, x.shape[1], sizes.features)


def _joined_mask(
    attn_mask: Tensor | None, padding: Tensor | None, sizes: _Sizes, dtype: Any, n_queries: int, n_keys: int
) -> Tensor | None:
    """Both masks as one that is added to the scores, in a shape that broadcasts against (batch, heads, query, key)."""
    op = "multi_head_attention_forward"
    joined = None
    if attn_mask is not None:
        whole = (sizes.batch * sizes.heads, n_queries, n_keys)
        if attn_mask.shape not in (whole, whole[1:]):
            raise ShapeError(f"{op}: attn_mask must be {whole[1:]} or {whole}, got {tuple(attn_mask.shape)}")
        joined = additive_mask(attn_mask, dtype)
        if attn_mask.ndim == 3:
            joined = joined.reshape(sizes.batch, sizes.heads, n_queries, n_keys)
    if padding is not None:
        if padding.shape != (sizes.batch, n_keys):
            raise ShapeError(f"{op}: key_padding_mask must be {(sizes.batch, n_keys)}, got {tuple(padding.shape)}")
        spread = additive_mask(padding, dtype).reshape(sizes.batch, 1, 1, n_keys)
        joined = spread if joined is None else joined + spread
    return joined


def additive_mask(mask: Tensor, dtype: Any) -> Tensor:
    """A bool mask (True: not allowed) as -inf and 0; a floating one as it is."""
    if mask.dtype is not bool_:
        return mask.to(dtype)
    return ops.where(mask, -math.inf, ops.zeros((), dtype=dtype))
