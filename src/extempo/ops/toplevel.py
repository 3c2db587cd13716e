"""PyTorch's top-level functions whose namesakes in nn.functional take other arguments or return something else.

`ex.batch_norm` is `torch.batch_norm`, `ex.nn.functional.batch_norm` is `torch.nn.functional.batch_norm`; they agree in
what they compute.
"""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor
from . import dropouts as _dropouts
from . import normalization as _normalization
from . import pool as _pool

__all__ = [
    "adaptive_max_pool1d",
    "alpha_dropout",
    "alpha_dropout_",
    "batch_norm",
    "dropout",
    "dropout_",
    "feature_alpha_dropout",
    "feature_alpha_dropout_",
    "feature_dropout",
    "feature_dropout_",
    "instance_norm",
]


def adaptive_max_pool1d(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """The largest elements of `output_size` windows that cover the length evenly, and where they lie."""
    return _pool.adaptive_max_pool1d_with_indices(input, output_size)


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """nn.functional.batch_norm with weight and bias first."""
    return _normalization.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """nn.functional.instance_norm with weight and bias first."""
    return _normalization.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Zero each element with probability p if `train`, and scale the rest by 1 / (1 - p)."""
    return _dropouts.dropout(input, p, train)


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place dropout."""
    return _dropouts.dropout(input, p, train, True)


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout of whole channels of (batch, channel, ...)."""
    return _dropouts.feature_dropout(input, p, train)


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place feature_dropouts."""
    return _dropouts.feature_dropout(input, p, train, True)


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout for selu: dropped elements saturate, and mean and variance stay."""
    return _dropouts.alpha_dropout(input, p, train)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place alpha_dropouts."""
    return _dropouts.alpha_dropout(input, p, train, True)


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """alpha_dropout of whole channels of (batch, channel, ...)."""
    return _dropouts.feature_alpha_dropout(input, p, train)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place feature_alpha_dropouts."""
    return _dropouts.feature_alpha_dropout(input, p, train, True)
