"""Attention of ragged sequences: each row of queries attends to the keys of the same row, and no padding is computed.

Sequences are (B, *, E) or (B, H, *, E); queries may be of other lengths than keys and values, or regular. A mask for
all rows is one for the longest, of which each row takes its part. Without one, all rows together are one op
(`ops.row_attention`); else there is one for each row. Weights have two ragged dimensions, so layers that
return them return one tensor for each row.
"""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from ..dispatch.dispatcher import apply
from ..errors import ShapeError
from ..ops.attention import additive_mask, multi_head_attention_forward, projected, scaled_dot_product_attention
from ..ops.row_attention import RowAttention
from .per_row import each_row, one_of_none, ragged_of, rows_of
from .rules import common
from .tensor import RaggedTensor, refuse

_NO_PADDING = "ragged rows have no padding, leave it out"


def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Tensor | None,
    *,
    dropout_p: float,
    is_causal: bool,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """F.scaled_dot_product_attention, of which at least one of query, key and value is ragged."""
    options: dict[str, Any] = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
    given = [x for x in (query, key, value) if isinstance(x, RaggedTensor)]
    shapes = ", ".join(str(tuple(x.shape)) for x in (query, key, value))
    if isinstance(attn_mask, RaggedTensor):
        refuse("scaled_dot_product_attention with a ragged mask", "give one for the longest rows; each takes its part")
    if all(x._dim < x.ndim - 2 for x in given) and len(given) == 3 and attn_mask is None:
        x = common("scaled_dot_product_attention", (query, key, value))  # one attention for each element of the rows
        return x.like(scaled_dot_product_attention(query._flat, key._flat, value._flat, **options))
    if any(x._dim != x.ndim - 2 for x in given):
        raise ShapeError(
            "scaled_dot_product_attention: sequences are (B, *, E) or (B, heads, *, E), with the ragged dimension "
            f"before the features, got query, key, value {shapes}; did you mean x.transpose(1, 2)?"
        )
    n, ndim = given[0]._rows.n, max(x.ndim for x in (query, key, value))
    if any(x._rows.n != n for x in given) or any(x.ndim != ndim for x in given):
        raise ShapeError(
            f"scaled_dot_product_attention: ragged tensors must have as many rows and dimensions: {shapes}"
        )
    _check_lengths(key, value)
    leads = [x._flat.shape[:-2] for x in given]
    if len(given) == 3 and attn_mask is None and not dropout_p and leads[0] == leads[1] == leads[2]:
        scale = 1.0 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale
        flats, offsets = (x._flat for x in given), (query._rows.offsets_tensor, key._rows.offsets_tensor)
        return query.like(apply(RowAttention, (*flats, *offsets, scale), {"is_causal": is_causal}))
    parts = [_rows_or_all(x, n, ndim, shapes) for x in (query, key, value)]
    masks = _mask_of_rows(attn_mask, parts[0], parts[1], ndim)

    def of_row(*row: Any) -> Tensor:
        return scaled_dot_product_attention(*row, **options)

    if not n:
        sample = (x if x.ndim < ndim else one_of_none(x) for x in (query, key, value))
        empty = scaled_dot_product_attention(*sample, **options)
        return RaggedTensor(empty, query._rows, ndim - 2) if query.is_nested else empty.unsqueeze(0)[:0]
    found = each_row("scaled_dot_product_attention", of_row, *parts, masks)
    return ragged_of(found, ndim - 2) if query.is_nested else ops.stack(found)


def _check_lengths(key: Any, value: Any) -> None:
    if key.is_nested != value.is_nested or (key.is_nested and not key._rows.same(value._rows)):
        lengths = " and ".join(x._rows.brief() if x.is_nested else "regular" for x in (key, value))
        raise ShapeError(f"scaled_dot_product_attention: key and value must have the same rows, got lengths {lengths}")


def _rows_or_all(x: Any, n: int, ndim: int, shapes: str) -> list[Any]:
    found = rows_of(x, n, ndim)
    if len(found) != n:
        raise ShapeError(f"scaled_dot_product_attention: {n} rows, but {len(found)} samples: {shapes}")
    return found


def _mask_of_rows(mask: Tensor | None, queries: list[Any], keys: list[Any], ndim: int) -> list[Any]:
    """The part of the mask that each row needs."""
    n = len(queries)
    if mask is None or not n:
        return [mask] * n
    longest = tuple(max(x.shape[-2] for x in rows) for rows in (queries, keys))
    if any(size not in (1, long) for size, long in zip(mask.shape[-2:], longest, strict=True)):
        raise ShapeError(
            f"scaled_dot_product_attention: attn_mask must end in {longest}, the longest rows of query and key, and "
            f"each row takes its part; got shape {tuple(mask.shape)}"
        )
    return [
        m[..., : q.shape[-2] if m.shape[-2] > 1 else 1, : k.shape[-2] if m.shape[-1] > 1 else 1]
        for m, q, k in zip(rows_of(mask, n, ndim), queries, keys, strict=True)
    ]


# ---- heads and projections


def multi_head(
    query: Any, key: Any, value: Any, embed_dim_to_check: int, num_heads: int, **given: Any
) -> tuple[Any, Any]:
    """F.multi_head_attention_forward for ragged sequences (B, *, features); the weights are one tensor for each row."""
    n_features, n_heads = embed_dim_to_check, num_heads
    name, sequences = "multi_head_attention_forward", (query, key, value)
    shapes = ", ".join(str(tuple(x.shape)) for x in sequences)
    for x in sequences:
        if x.ndim != 3 or (x.is_nested and x._dim != 1) or x.shape[0] != query.shape[0]:
            raise ShapeError(
                f"{name}: with ragged sequences all are (B, *, features) or (B, length, features): {shapes}"
            )
    if given["key_padding_mask"] is not None:
        refuse(f"{name} with key_padding_mask", _NO_PADDING)
    if given["static_k"] is not None or given["static_v"] is not None:
        refuse(f"{name} with static_k or static_v", "loop over the rows")
    if n_features % n_heads or query.shape[-1] != n_features:
        raise ShapeError(f"{name}: expected {n_features} features for {n_heads} heads, got {shapes}")
    if given["is_causal"]:
        given["attn_mask"] = None  # it only says the same for the longest row
    if given["need_weights"] or given["bias_k"] is not None or given["add_zero_attn"]:
        return _multi_head_by_row(sequences, n_features, n_heads, given)
    separate = [given[f"{x}_proj_weight"] for x in "qkv"] if given["use_separate_proj_weight"] else None
    q, k, v = projected(query, key, value, given["in_proj_weight"], separate, given["in_proj_bias"])
    mask = given["attn_mask"]
    if mask is not None:
        mask = additive_mask(mask, q.dtype)
        mask = mask.unflatten(0, (-1, n_heads)) if mask.ndim == 3 else mask
    result = attention(
        _split(q, n_heads),
        _split(k, n_heads),
        _split(v, n_heads),
        mask,
        dropout_p=given["dropout_p"] if given["training"] else 0.0,
        is_causal=given["is_causal"],
    )
    return ops.linear(_merged(result), given["out_proj_weight"], given["out_proj_bias"]), None


def _split(x: Any, n_heads: int) -> Any:
    """(B, *, features) as (B, heads, *, features of a head)."""
    if isinstance(x, RaggedTensor):
        return RaggedTensor(x._flat.unflatten(-1, (n_heads, -1)).transpose(0, 1), x._rows, 2)
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _merged(x: Any) -> Any:
    if isinstance(x, RaggedTensor):
        return RaggedTensor(x._flat.transpose(0, 1).flatten(1), x._rows, 1)
    return x.transpose(1, 2).flatten(2)


def _multi_head_by_row(sequences: Any, n_features: int, n_heads: int, given: dict[str, Any]) -> tuple[Any, Any]:
    """What cannot be done for all rows at once: weights, and keys that are added to each row."""
    query = sequences[0]
    n, is_causal = len(query), given.pop("is_causal")
    mask = given.pop("attn_mask")
    if mask is not None and mask.ndim == 3:
        mask = mask.unflatten(0, (n, n_heads))
    parts = [rows_of(x, n, 3) for x in sequences]
    masks = _mask_of_rows(mask, parts[0], parts[1], 4)

    def of_row(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        if is_causal:
            mask = ops.triu(ops.ones(q.shape[0], k.shape[0], dtype=ops.types.bool_), 1)
        return multi_head_attention_forward(q, k, v, n_features, n_heads, attn_mask=mask, **given)

    if not n:
        q, k, v = map(one_of_none, sequences)
        empty, _ = of_row(q, k, v, None)
        return (RaggedTensor(empty, query._rows, 1) if query.is_nested else empty.unsqueeze(0)[:0]), ()
    results, weights = zip(*each_row("multi_head_attention_forward", of_row, *parts, masks), strict=True)
    joined: Any = ragged_of(results, 1) if query.is_nested else ops.stack(list(results))
    return joined, weights if given["need_weights"] else None
