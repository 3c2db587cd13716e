"""PyTorch's top-level functions whose namesakes in nn.functional take other arguments or return something else.

`ex.batch_norm` is `torch.batch_norm`, `ex.nn.functional.batch_norm` is `torch.nn.functional.batch_norm`; they agree in
what they compute.
"""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from . import dropouts as _dropouts
from . import lookup as _lookup
from . import normalization as _normalization
from . import pool as _pool

__all__ = [
    "adaptive_max_pool1d",
    "alpha_dropout",
    "alpha_dropout_",
    "batch_norm",
    "detach",
    "dropout",
    "dropout_",
    "embedding",
    "feature_alpha_dropout",
    "feature_alpha_dropout_",
    "feature_dropout",
    "feature_dropout_",
    "instance_norm",
]


def adaptive_max_pool1d(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """The largest elements of `output_size` windows that cover the length evenly, and where they lie.

    >>> ex.adaptive_max_pool1d(ex.tensor([[1.0, 3.0, 7.0, 5.0]]), 2)
    (tensor([[3., 7.]]), tensor([[1, 2]]))
    """
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
    """nn.functional.batch_norm with weight and bias first.

    >>> ex.batch_norm(ex.tensor([[0.0], [2.0]]), None, None, None, None, True, 0.1, 1e-5).flatten()
    tensor([-1.0000,  1.0000])
    """
    return _normalization.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def detach(input: Tensor) -> Tensor:
    """The same values, with no gradient to what made them: `input.detach()`.

    >>> ex.detach(ex.ones(2, requires_grad=True) * 3)
    tensor([3., 3.])
    """
    return input.detach()


def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """nn.functional.embedding with the table first; no row is padding if `padding_idx` is -1.

    >>> ex.embedding(ex.tensor([[1.0, 1.0], [2.0, 2.0]]), ex.tensor([1, 0]))
    tensor([[2., 2.],
            [1., 1.]])
    """
    padding = None if padding_idx == -1 else padding_idx
    return _lookup.embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


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
    """nn.functional.instance_norm with weight and bias first.

    >>> ex.instance_norm(ex.tensor([[[1.0, 3.0], [10.0, 30.0]]]), None, None, None, None, True, 0.1, 0.0)[0]
    tensor([[-1.,  1.],
            [-1.,  1.]])
    """
    return _normalization.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Zero each element with probability p if `train`, and scale the rest by 1 / (1 - p).

    >>> ex.dropout(ex.ones(1000), 0.5, True).unique(), ex.dropout(ex.ones(2), 0.5, False)
    (tensor([0., 2.]), tensor([1., 1.]))
    """
    return _dropouts.dropout(input, p, train)


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place dropout.

    >>> x = ex.ones(1000)
    >>> ex.dropout_(x, 0.5, True) is x, x.unique()
    (True, tensor([0., 2.]))
    """
    return _dropouts.dropout(input, p, train, True)


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout of whole channels of (batch, channel, ...).

    >>> ex.feature_dropout(ex.ones(1, 100, 2), 0.5, True)[0].unique(dim=0)
    tensor([[0., 0.],
            [2., 2.]])
    """
    return _dropouts.feature_dropout(input, p, train)


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place feature_dropout.

    >>> x = ex.ones(1, 100, 2)
    >>> ex.feature_dropout_(x, 0.5, True) is x
    True
    >>> x[0].unique(dim=0)
    tensor([[0., 0.],
            [2., 2.]])
    """
    return _dropouts.feature_dropout(input, p, train, True)


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout for selu: dropped elements saturate, and mean and variance stay.

    >>> ex.alpha_dropout(ex.zeros(1000), 0.5, True).unique()
    tensor([-0.7792,  0.7792])
    """
    return _dropouts.alpha_dropout(input, p, train)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place alpha_dropout.

    >>> x = ex.zeros(1000)
    >>> ex.alpha_dropout_(x, 0.5, True) is x, x.unique()
    (True, tensor([-0.7792,  0.7792]))
    """
    return _dropouts.alpha_dropout(input, p, train, True)


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """alpha_dropout of whole channels of (batch, channel, ...).

    >>> ex.feature_alpha_dropout(ex.zeros(1, 100, 2), 0.5, True)[0].unique(dim=0)
    tensor([[-0.7792, -0.7792],
            [ 0.7792,  0.7792]])
    """
    return _dropouts.feature_alpha_dropout(input, p, train)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place feature_alpha_dropout.

    >>> x = ex.zeros(1, 100, 2)
    >>> ex.feature_alpha_dropout_(x, 0.5, True) is x
    True
    >>> x[0].unique(dim=0)
    tensor([[-0.7792, -0.7792],
            [ 0.7792,  0.7792]])
    """
    return _dropouts.feature_alpha_dropout(input, p, train, True)
