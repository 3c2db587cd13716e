"""Transforms of vectors and matrices."""

from __future__ import annotations

import math

from ... import ops
from ...core.tensor import Tensor
from ...core.types import finfo
from ...errors import ShapeError
from ...linalg import cholesky
from ...ops.activation import logsigmoid
from .. import constraints
from ..utils import tril_matrix_to_vec, vec_to_tril_matrix
from .base import Shape, StatelessTransform
from .elementwise import TanhTransform

__all__ = [
    "CorrCholeskyTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform", "SoftmaxTransform",
    "StickBreakingTransform",
]  # fmt: skip


class SoftmaxTransform(StatelessTransform):
    """y = softmax(x): a vector as probabilities. Many vectors share one image; the inverse is the logarithm.

    >>> ex.distributions.SoftmaxTransform()(ex.zeros(2))
    tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Shape) -> Shape:
        return _require_dims(self, shape, 1)

    def inverse_shape(self, shape: Shape) -> Shape:
        return _require_dims(self, shape, 1)


def _require_dims(transform: StatelessTransform, shape: Shape, n_dims: int) -> Shape:
    if len(shape) < n_dims:
        raise ShapeError(f"{type(transform).__name__}: expected at least {n_dims} dimensions, got shape {tuple(shape)}")
    return shape


class StickBreakingTransform(StatelessTransform):
    """n real numbers as n + 1 probabilities: each says how much of what is left of a stick is broken off.

    >>> ex.distributions.StickBreakingTransform()(ex.zeros(2))
    tensor([0.3333, 0.3333, 0.3333])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        logits = x - _log_pieces_to_come(x)
        log_left = logsigmoid(-logits).cumsum(-1)
        none = ops.zeros_like(log_left[..., :1])
        return ops.exp(ops.cat([logsigmoid(logits), none], -1) + ops.cat([none, log_left], -1))

    def _inverse(self, y: Tensor) -> Tensor:
        pieces = y[..., :-1]
        left = (1 - pieces.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return pieces.log() - left.log() + _log_pieces_to_come(pieces)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        logits = x - _log_pieces_to_come(x)
        log_share_left = logsigmoid(-logits)
        # Each piece is share * left: the slope of its share, times all that was left before it.
        log_left_before = log_share_left.cumsum(-1) - log_share_left
        return (logsigmoid(logits) + log_share_left + log_left_before).sum(-1)

    def forward_shape(self, shape: Shape) -> Shape:
        _require_dims(self, shape, 1)
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Shape) -> Shape:
        _require_dims(self, shape, 1)
        return (*shape[:-1], shape[-1] - 1)


def _log_pieces_to_come(x: Tensor) -> Tensor:
    """What x is moved by, so that 0 breaks the stick into equal pieces."""
    return ops.arange(x.shape[-1], 0, -1, dtype=x.dtype).log()


class LowerCholeskyTransform(StatelessTransform):
    """Any square matrix as a Cholesky factor: its lower triangle, with exp on the diagonal.

    >>> ex.distributions.LowerCholeskyTransform()(ex.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(StatelessTransform):
    """Any square matrix as a positive definite one: L @ L.T of its LowerCholeskyTransform L.

    >>> ex.distributions.PositiveDefiniteTransform()(ex.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(cholesky(y))


class CorrCholeskyTransform(StatelessTransform):
    """n * (n - 1) / 2 real numbers as the Cholesky factor of an n by n correlation matrix.

    Each row is a unit vector: tanh of the numbers says, one after the other, how much of its length is used up.

    >>> ex.distributions.CorrCholeskyTransform()(ex.zeros(1))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = finfo(x.dtype).eps
        share = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), -1)
        left = (1 - share.square()).sqrt().cumprod(-1)
        share = share + ops.eye(share.shape[-1], dtype=x.dtype)
        return share * ops.cat([ops.ones_like(left[..., :1]), left[..., :-1]], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = _length_left(y)
        return tril_matrix_to_vec(y, -1).div(tril_matrix_to_vec(left, -1).sqrt()).atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        rows = 0.5 * tril_matrix_to_vec(_length_left(y), -1).log().sum(-1)
        return rows + TanhTransform().log_abs_det_jacobian(x, y).sum(-1)

    def forward_shape(self, shape: Shape) -> Shape:
        _require_dims(self, shape, 1)
        n_entries = shape[-1]
        size = (1 + math.isqrt(1 + 8 * n_entries)) // 2
        if size * (size - 1) // 2 != n_entries:
            raise ShapeError(f"CorrCholeskyTransform: {n_entries} numbers do not fill the triangle of a square matrix")
        return (*shape[:-1], size, size)

    def inverse_shape(self, shape: Shape) -> Shape:
        _require_dims(self, shape, 2)
        if shape[-2] != shape[-1]:
            raise ShapeError(f"CorrCholeskyTransform: expected square matrices, got shape {tuple(shape)}")
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


def _length_left(factor: Tensor) -> Tensor:
    """Of each entry of a row of length 1, the squared length that the entries before it have left."""
    left = 1 - factor.square().cumsum(-1)
    return ops.cat([ops.ones_like(left[..., :1]), left[..., :-1]], -1)
