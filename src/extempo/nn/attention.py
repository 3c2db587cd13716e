"""MultiheadAttention: nn.functional.multi_head_attention_forward with its weights, under PyTorch's names."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..core.tensor import Tensor
from ..errors import ArgumentError, ShapeError
from . import functional as F
from . import init
from .attention_backends import SDPBackend as SDPBackend
from .attention_backends import sdpa_kernel as sdpa_kernel
from .linear_layers import Linear
from .module import Module
from .parameter import Parameter

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention of several heads, each on its own projection: (query, key, value) -> (result, weights).

    Tensors are (length, batch, features), (batch, length, features) with `batch_first`, or (length, features) of one
    sample. `kdim` and `vdim` are the features of key and value where they differ from `embed_dim`; `add_bias_kv`
    appends one learned key and value, `add_zero_attn` one of zeros.

    Ragged tensors are (batch, *, features) whatever `batch_first` says, and need no padding mask; `is_causal` is then
    enough, and the weights are one tensor for each row.

    Bool masks are True where attention is NOT allowed, floating ones are added to the scores: `key_padding_mask`
    (batch, keys) or (keys,), `attn_mask` (queries, keys) or (batch * num_heads, queries, keys). `is_causal` only says
    that `attn_mask` is the causal mask, which must be given too. Weights come as the mean over heads, per head with
    `average_attn_weights=False`, and as None with `need_weights=False`, which is faster.

    >>> attention = nn.MultiheadAttention(8, num_heads=2)
    >>> words = ex.zeros(5, 8)
    >>> result, weights = attention(words, words, words)
    >>> result.shape, weights.shape
    (extempo.Size([5, 8]), extempo.Size([5, 5]))
    """

    _is_cell = True
    in_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise ArgumentError(
                "MultiheadAttention: embed_dim and num_heads must be at least 1 and embed_dim a multiple of num_heads, "
                f"got embed_dim={embed_dim} and num_heads={num_heads}"
            )
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.dropout = dropout
        self.batch_first = batch_first
        self.add_zero_attn = add_zero_attn
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim

        def register(name: str, present: bool, *shape: int) -> None:
            made = Parameter(ops.empty(shape, device=device, dtype=dtype)) if present else None
            self.register_parameter(name, made)

        separate = not self._qkv_same_embed_dim
        register("q_proj_weight", separate, embed_dim, embed_dim)
        register("k_proj_weight", separate, embed_dim, self.kdim)
        register("v_proj_weight", separate, embed_dim, self.vdim)
        register("in_proj_weight", not separate, 3 * embed_dim, embed_dim)
        register("in_proj_bias", bias, 3 * embed_dim)
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        register("bias_k", add_bias_kv, 1, 1, embed_dim)
        register("bias_v", add_bias_kv, 1, 1, embed_dim)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        self._check_features(query, key, value)
        swapped = self.batch_first and query.ndim == 3 and not (query.is_nested or key.is_nested or value.is_nested)
        if swapped:
            query, key, value = _time_first(query, key, value)
        result, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return result.transpose(0, 1) if swapped else result, weights

    def _check_features(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        expected = {"query": (query, self.embed_dim), "key": (key, self.kdim), "value": (value, self.vdim)}
        for name, (x, size) in expected.items():
            if x.ndim not in (2, 3) or x.ndim != query.ndim or x.shape[-1] != size:
                form = "(batch, length, features)" if self.batch_first else "(length, batch, features)"
                raise ShapeError(
                    f"MultiheadAttention: {name} must be {form} or (length, features), as all three, with {size} "
                    f"features, got shape {tuple(x.shape)}"
                )
        if query.ndim == 3:
            dim = 0 if self.batch_first or query.is_nested or key.is_nested or value.is_nested else 1
            batches = [x.shape[dim] for x in (query, key, value)]
            if any(batch != batches[0] for batch in batches):
                raise ShapeError(
                    f"MultiheadAttention: query, key and value must be batches of one size, got {batches} in dimension "
                    f"{dim} (batch_first={self.batch_first})"
                )


def _time_first(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Batch and time exchanged. What was one tensor stays one: then its projections are one product."""
    swapped = query.transpose(0, 1)
    keys = swapped if key is query else key.transpose(0, 1)
    if value is query:
        return swapped, keys, swapped
    return swapped, keys, keys if value is key else value.transpose(0, 1)
