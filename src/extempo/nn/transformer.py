"""Transformers (Vaswani et al. 2017): encoder and decoder layers, stacks of them, and the whole model.

Sequences are (length, batch, features), (batch, length, features) with `batch_first`, or (length, features) of one
sample. Masks are those of MultiheadAttention: bool ones are True where attention is NOT allowed, floating ones are
added; an `is_causal` argument only says that the mask given is the causal one, so it needs the mask beside it.

Rows of padding are computed like all others. (PyTorch, in evaluation without gradients, has a path that returns zeros
there; nothing should read them.)
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from ..errors import ArgumentError, ShapeError
from . import functional as F
from . import init
from .attention import MultiheadAttention
from .containers import ModuleList
from .dropout_layers import Dropout
from .linear_layers import Linear
from .module import Module
from .norm_layers import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Activation = str | Callable[[Tensor], Tensor]

_NAMED_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


def _activation(given: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(given, str):
        return given
    if given not in _NAMED_ACTIVATIONS:
        raise ArgumentError(f"activation must be 'relu', 'gelu' or a function, got {given!r}")
    return _NAMED_ACTIVATIONS[given]


class _Layer(Module):
    """Blocks (attentions, then two linear maps), each added to its input and normalized, before it or after the sum."""

    attends_memory: ClassVar[bool]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()

        def attention() -> MultiheadAttention:
            return MultiheadAttention(
                d_model, nhead, dropout, bias=bias, batch_first=batch_first, device=device, dtype=dtype
            )

        self.self_attn = attention()
        if self.attends_memory:
            self.multihead_attn = attention()
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, device=device, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, device=device, dtype=dtype)
        self.norm_first = norm_first
        blocks = (1, 2, 3) if self.attends_memory else (1, 2)
        for number in blocks:
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)
            setattr(self, f"norm{number}", norm)
        for number in blocks:
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation = _activation(activation)

    def _add(self, x: Tensor, norm: Module, block: Callable[[Tensor], Tensor]) -> Tensor:
        return x + block(norm(x)) if self.norm_first else norm(x + block(x))

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        """Self-attention."""
        return self._attended(self.self_attn, self.dropout1, x, x, attn_mask, key_padding_mask, is_causal)

    def _attended(
        self,
        attention: Module,
        dropout: Module,
        x: Tensor,
        memory: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool,
    ) -> Tensor:
        result, _ = attention(
            x,
            memory,
            memory,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            is_causal=is_causal,
        )
        return dropout(result)

    def _ff_block(self, x: Tensor) -> Tensor:
        """The two linear maps."""
        last = self.dropout3 if self.attends_memory else self.dropout2
        return last(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoderLayer(_Layer):
    """Self-attention, then two linear maps with an activation between; each added to its input and normalized.

    `norm_first` normalizes the input of each block in place of the sum. `activation` is "relu", "gelu" or a function.

    >>> layer = nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
    >>> layer(ex.zeros(3, 5, 8)).shape
    extempo.Size([3, 5, 8])
    """

    attends_memory = False
    _is_cell = True  # on one sequence

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        x = self._add(src, self.norm1, lambda y: self._sa_block(y, src_mask, src_key_padding_mask, is_causal))
        return self._add(x, self.norm2, self._ff_block)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to `memory` (an encoder's result), two linear maps; each added and normalized.

    >>> layer = nn.TransformerDecoderLayer(8, nhead=2, dim_feedforward=16)
    >>> target, memory = ex.zeros(4, 3, 8), ex.zeros(5, 3, 8)
    >>> layer(target, memory).shape
    extempo.Size([4, 3, 8])
    """

    attends_memory = True
    _is_cell = True  # on one sequence and its memory

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        def to_itself(y: Tensor) -> Tensor:
            return self._sa_block(y, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        def to_memory(y: Tensor) -> Tensor:
            return self._mha_block(y, memory, memory_mask, memory_key_padding_mask, memory_is_causal)

        x = self._add(tgt, self.norm1, to_itself)
        x = self._add(x, self.norm2, to_memory)
        return self._add(x, self.norm3, self._ff_block)

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        """Attention to the memory."""
        return self._attended(self.multihead_attn, self.dropout2, x, mem, attn_mask, key_padding_mask, is_causal)


def _copies(layer: Module, n: int) -> ModuleList:
    return ModuleList([copy.deepcopy(layer) for _ in range(n)])


class TransformerEncoder(Module):
    """`num_layers` copies of an encoder layer, one after another, then `norm` if there is one.

    All copies start with the same values: draw them anew where that matters. `enable_nested_tensor` and `mask_check`
    are accepted and have no effect.

    >>> layer = nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16)
    >>> nn.TransformerEncoder(layer, num_layers=2)(ex.zeros(5, 3, 8)).shape
    extempo.Size([5, 3, 8])
    """

    _is_cell = True  # on one sequence

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        x = src
        for layer in self.layers:
            x = layer(x, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal))
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """`num_layers` copies of a decoder layer, one after another, then `norm` if there is one.

    All copies start with the same values: draw them anew where that matters.

    >>> layer = nn.TransformerDecoderLayer(8, nhead=2, dim_feedforward=16)
    >>> target, memory = ex.zeros(4, 8), ex.zeros(5, 8)
    >>> nn.TransformerDecoder(layer, num_layers=2)(target, memory).shape
    extempo.Size([4, 8])
    """

    _is_cell = True  # on one sequence and its memory

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        x = tgt
        for layer in self.layers:
            x = layer(
                x,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """An encoder of `src` and a decoder of `tgt` that attends to its result, each a stack of layers with a last norm.

    Matrices start by `init.xavier_uniform_`. `custom_encoder` and `custom_decoder` take the place of the stacks.

    >>> model = nn.Transformer(8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=16)
    >>> source, target = ex.zeros(5, 3, 8), ex.zeros(4, 3, 8)
    >>> mask = nn.Transformer.generate_square_subsequent_mask(4)
    >>> model(source, target, tgt_mask=mask, tgt_is_causal=True).shape
    extempo.Size([4, 3, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)

        def last_norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is None:
            layer: Module = TransformerEncoderLayer(*options, device, dtype)
            self.encoder: Module = TransformerEncoder(layer, num_encoder_layers, last_norm())
        else:
            self.encoder = custom_encoder
        if custom_decoder is None:
            layer = TransformerDecoderLayer(*options, device, dtype)
            self.decoder: Module = TransformerDecoder(layer, num_decoder_layers, last_norm())
        else:
            self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        self._check_sequences(src, tgt)
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    def _check_sequences(self, src: Tensor, tgt: Tensor) -> None:
        batch_dim = 0 if self.batch_first or src.is_nested or tgt.is_nested else 1
        if (
            src.ndim not in (2, 3)
            or src.ndim != tgt.ndim
            or {src.shape[-1], tgt.shape[-1]} != {self.d_model}
            or (src.ndim == 3 and src.shape[batch_dim] != tgt.shape[batch_dim])
        ):
            form = "(batch, length, features)" if self.batch_first else "(length, batch, features)"
            raise ShapeError(
                f"Transformer: expected src and tgt {form} of one batch size, or both (length, features), with "
                f"d_model={self.d_model} features, got {tuple(src.shape)} and {tuple(tgt.shape)}"
            )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """The causal mask: 0 on and below the diagonal, -inf above, where the future is.

        >>> nn.Transformer.generate_square_subsequent_mask(2)
        tensor([[0., -inf],
                [0., 0.]])
        """
        return ops.triu(ops.full((sz, sz), -math.inf, device=device, dtype=dtype), 1)
