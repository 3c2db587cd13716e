"""Dropout as layers: active in training, the identity after `eval()`."""

from __future__ import annotations

from typing import Any

from ..errors import ArgumentError
from . import functional as F
from .function_layer import OneInputLayer, stores_arguments

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


@stores_arguments
class _DropoutNd(OneInputLayer):
    p: float = 0.5
    inplace: bool = False
    _options = ("p", "training", "inplace")
    _shown = ("p", "inplace")

    def _store(self, **arguments: Any) -> None:
        if not 0 <= arguments["p"] <= 1:
            raise ArgumentError(f"{type(self).__name__}: p is a probability between 0 and 1, got {arguments['p']}")
        super()._store(**arguments)


class Dropout(_DropoutNd):
    """Zero each element with probability p in training, and scale the rest by 1 / (1 - p).

    >>> layer = nn.Dropout(0.5).eval()
    >>> layer(ex.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    _function = staticmethod(F.dropout)


class Dropout1d(_DropoutNd):
    """Zero whole channels of (batch, channel, length) or (channel, length).

    >>> _ = ex.manual_seed(0)
    >>> nn.Dropout1d()(ex.ones(8, 4, 100)).std(-1).max()  # a channel is kept or dropped as one
    tensor(0.)
    """

    _function = staticmethod(F.dropout1d)


class Dropout2d(_DropoutNd):
    """Zero whole channels of (batch, channel, height, width).

    >>> nn.Dropout2d(p=0.2)(ex.ones(2, 3, 4, 4)).shape
    extempo.Size([2, 3, 4, 4])
    """

    _function = staticmethod(F.dropout2d)


class Dropout3d(_DropoutNd):
    """Zero whole channels of (batch, channel, depth, height, width), or without batch.

    >>> nn.Dropout3d(p=1.0)(ex.ones(2, 3, 4, 4, 4)).sum()
    tensor(0.)
    """

    _function = staticmethod(F.dropout3d)


class AlphaDropout(_DropoutNd):
    """Dropout for SELU networks: dropped elements saturate, and mean and variance stay (Klambauer et al. 2017).

    >>> nn.AlphaDropout(p=0.1)(ex.zeros(2, 3)).shape
    extempo.Size([2, 3])
    """

    _function = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels of (batch, channel, ...).

    >>> nn.FeatureAlphaDropout(p=0.1)(ex.zeros(2, 3, 4)).shape
    extempo.Size([2, 3, 4])
    """

    _function = staticmethod(F.feature_alpha_dropout)
