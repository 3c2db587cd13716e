"""Starting a layer as the identity, so that a model into which it is put computes what it did before.

From there it learns. Which layers can start so, and why others cannot, is said by type in one table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.context import no_grad
from . import init
from .activation_layers import PReLU, ReLU, ReLU6, Sigmoid, Softmax, Softplus
from .containers import Sequential
from .conv_layers import Conv1d, Conv2d, Conv3d
from .dropout_layers import AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout
from .linear_layers import Identity, Linear
from .module import Module
from .transformer import TransformerEncoderLayer

_CONVOLUTIONS = (Conv1d, Conv2d, Conv3d)
_TRANSPARENT = (Identity, Dropout, Dropout1d, Dropout2d, Dropout3d, AlphaDropout, FeatureAlphaDropout)
_NEVER_NEGATIVE = (ReLU, ReLU6, Sigmoid, Softmax, Softplus)  # relu leaves what comes out of these as it is


def start_as_identity(layer: Module, before: Sequence[Module] = ()) -> str:
    """Give a layer weights with which it returns what it gets; "", or why there are none. Then nothing is changed.

    `before`: the layers before it, the last one last.
    """
    why, starts = _looked_at(layer, before)
    if why:
        return why
    with no_grad():
        for start in starts:
            start()
    return ""


_Starts = list[Callable[[], Any]]


def _looked_at(layer: Module, before: Sequence[Module]) -> tuple[str, _Starts]:
    """Why a layer cannot start as the identity, or what to do."""
    if isinstance(layer, _TRANSPARENT):
        return "", []
    if isinstance(layer, Sequential):
        return _sequential(layer, before)
    if type(layer) is Linear:
        return _linear(layer)
    if type(layer) in _CONVOLUTIONS:
        return _convolution(layer)
    if isinstance(layer, PReLU):
        return "", [lambda: init.ones_(layer.weight)]
    if isinstance(layer, ReLU):
        return _relu(before), []
    if isinstance(layer, TransformerEncoderLayer):
        return _transformer(layer)
    return "it returns something else than it gets, whatever its weights are", []


def _linear(layer: Any) -> tuple[str, _Starts]:
    if layer.in_features != layer.out_features:
        return f"{layer.in_features} features in and {layer.out_features} out differ", []
    return "", [lambda: init.eye_(layer.weight), *_zeros(layer.bias)]


def _convolution(layer: Any) -> tuple[str, _Starts]:
    if layer.in_channels != layer.out_channels:
        return f"{layer.in_channels} channels in and {layer.out_channels} out differ", []
    padding = (0,) * len(layer.kernel_size) if layer.padding == "valid" else layer.padding
    kept = padding == "same" or all(
        2 * pad == dilation * (size - 1)
        for pad, dilation, size in zip(padding, layer.dilation, layer.kernel_size, strict=True)
    )
    if any(step != 1 for step in layer.stride) or any(size % 2 == 0 for size in layer.kernel_size) or not kept:
        return "it changes sizes: stride 1, an odd kernel_size and padding='same' keep them", []
    return "", [lambda: init.dirac_(layer.weight, layer.groups), *_zeros(layer.bias)]


def _relu(before: Sequence[Module]) -> str:
    """relu is the identity behind another relu, also with layers between that are the identity themselves."""
    for layer in reversed(before):
        if isinstance(layer, _NEVER_NEGATIVE):
            return ""
        if not _is_identity(layer):
            break
    return "what is negative becomes 0"


def _is_identity(layer: Any) -> bool:
    """Whether a layer before is one that was just put in as the identity."""
    if isinstance(layer, _TRANSPARENT):
        return True
    if type(layer) not in (Linear, *_CONVOLUTIONS) or _looked_at(layer, ())[0]:
        return False
    fresh = layer.weight.detach().clone()
    init.eye_(fresh) if type(layer) is Linear else init.dirac_(fresh, layer.groups)
    same = bool((layer.weight == fresh).all().item())
    return same and (layer.bias is None or not bool(layer.bias.any().item()))


def _sequential(layer: Sequential, before: Sequence[Module]) -> tuple[str, _Starts]:
    starts: _Starts = []
    behind = list(before)
    for part in layer:
        why, more = _looked_at(part, behind)
        if why:
            return f"{type(part).__name__}: {why}", []
        starts += more
        behind += [] if isinstance(part, Linear) or type(part) in _CONVOLUTIONS else [part]
    return "", starts


def _transformer(layer: TransformerEncoderLayer) -> tuple[str, _Starts]:
    if not layer.norm_first:
        return "its norms come last; norm_first=True leaves the sum as it is", []
    ends = (layer.self_attn.out_proj, layer.linear2)  # what both residual branches add
    return "", [start for end in ends for start in (*_zeros(end.weight), *_zeros(end.bias))]


def _zeros(parameter: Any) -> _Starts:
    return [] if parameter is None else [lambda: init.zeros_(parameter)]
