"""Dropout: elements or whole channels zeroed (or saturated) at random, the rest scaled so that the mean stays.

One random draw per call. The noise is kept for backward, the input is not. Nothing is drawn, and the input itself is
returned, in evaluation and with p = 0.
"""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from ..core.types import dtype, float32, get_default_dtype
from ..dispatch.inplace import write
from ..errors import ArgumentError, ShapeError
from .sampling import dropout_noise

__all__ = ["native_dropout"]


# What selu saturates at: -scale * alpha of that function.
_SATURATION = -1.7580993408473766


def _kept(shape: tuple[int, ...], p: float) -> Tensor:
    """True with probability 1 - p; drawn in float32, where p keeps 24 bits."""
    return ops.ge(ops.rand(shape, dtype=float32), p)


def _channel_shape(op: str, x: Tensor) -> tuple[int, ...]:
    if x.ndim < 2:
        raise ShapeError(f"{op}: expected (batch, channel, ...), got shape {tuple(x.shape)}; use dropout")
    return (*x.shape[:2], *(1,) * (x.ndim - 2))


def _drop(
    op: str, x: Tensor, p: float, training: bool, inplace: bool, *, channels: bool = False, alpha: bool = False
) -> Tensor:
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"{op}: p is a probability between 0 and 1, got {p}")
    if p == 0 or not training or not x.numel():
        return x
    d = x.dtype if x.is_floating_point() else get_default_dtype()
    if p == 1:
        y = x * 0.0
    elif alpha:
        # Scale and shift that bring mean 0 and variance 1 back (Klambauer et al. 2017).
        scale = 1 / math.sqrt((1 - p) * (1 + p * _SATURATION**2))
        kept = _noise(op, x, p, 1.0, d, channels)
        y = x * (kept * scale) + ((1 - kept) * (_SATURATION * scale) - _SATURATION * scale * p)
    else:
        y = x * _noise(op, x, p, 1 / (1 - p), d, channels)
    return write(x, y, f"{op}_") if inplace else y


def _noise(op: str, x: Tensor, p: float, scale: float, d: dtype, channels: bool) -> Tensor:
    """What x is multiplied with, for each element or for each channel."""
    if channels:
        shape = _channel_shape(op, x)
    if x.is_nested:
        from ..ragged_tensors.layers import noise_for

        return noise_for(x, p, scale, d, channels)
    return dropout_noise(shape if channels else tuple(x.shape), p, scale, d)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability p in training, and scale the rest by 1 / (1 - p).

    >>> F.dropout(ex.ones(1000), 0.5).unique(), F.dropout(ex.ones(2), training=False)
    (tensor([0., 2.]), tensor([1., 1.]))
    """
    return _drop("dropout", input, p, training, inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout for selu: dropped elements saturate, and mean and variance stay.

    >>> F.alpha_dropout(ex.zeros(1000), 0.5, training=True).unique()
    tensor([-0.7792,  0.7792])
    """
    return _drop("alpha_dropout", input, p, training, inplace, alpha=True)


def feature_dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of (batch, channel, ...) with probability p in training, and scale the rest."""
    return _drop("feature_dropout", input, p, training, inplace, channels=True)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """alpha_dropout of whole channels of (batch, channel, ...).

    >>> F.feature_alpha_dropout(ex.zeros(1, 100, 2), 0.5, training=True)[0].unique(dim=0)
    tensor([[-0.7792, -0.7792],
            [ 0.7792,  0.7792]])
    """
    return _drop("feature_alpha_dropout", input, p, training, inplace, channels=True, alpha=True)


def _spatial(op: str, n: int, x: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    if x.ndim not in (n + 1, n + 2):
        raise ShapeError(
            f"{op}: expected {n + 2} dimensions (batch, channel, {n} spatial) or {n + 1} without batch, "
            f"got shape {tuple(x.shape)}; use dropout to drop single elements"
        )
    if x.ndim == n + 2:
        return _drop(op, x, p, training, inplace, channels=True)
    y = _drop(op, x.unsqueeze(0), p, training, False, channels=True).squeeze(0)
    return write(x, y, f"{op}_") if inplace else y


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of (batch, channel, length) or (channel, length).

    >>> F.dropout1d(ex.ones(100, 2), 0.5).unique(dim=0)
    tensor([[0., 0.],
            [2., 2.]])
    """
    return _spatial("dropout1d", 1, input, p, training, inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of (batch, channel, height, width); three dimensions are (batch, channel, length).

    >>> F.dropout2d(ex.ones(1, 100, 1, 2), 0.5)[0, :, 0].unique(dim=0)
    tensor([[0., 0.],
            [2., 2.]])
    """
    return _drop("dropout2d", input, p, training, inplace, channels=True)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of (batch, channel, depth, height, width), or without batch.

    >>> F.dropout3d(ex.ones(1, 100, 1, 1, 2), 0.5)[0, :, 0, 0].unique(dim=0)
    tensor([[0., 0.],
            [2., 2.]])
    """
    return _spatial("dropout3d", 3, input, p, training, inplace)


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """dropout, with the mask of what was kept.

    >>> result, kept = ex.native_dropout(ex.ones(100), 0.5, True)
    >>> ex.equal(result, kept * 2.0)
    True
    """
    if train is False or not input.numel():
        return input.clone(), ops.ones(input.shape, dtype=ops.types.bool_)
    kept = _kept(tuple(input.shape), p)
    return native_dropout_backward(input, kept, 0.0 if p == 1 else 1 / (1 - p)), kept


def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Any:
    """The gradient of native_dropout's input."""
    return grad_output * mask * scale
