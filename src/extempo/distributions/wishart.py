"""Wishart: random covariance matrices."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from ..errors import DtypeError, ShapeError
from ..linalg import cholesky
from ..ops import digamma, mvlgamma
from . import constraints
from .distribution import Distribution, Shape
from .multivariate import _TO_SCALE_TRIL, _inverse_of
from .positive import Chi2
from .utils import Value, lazy_property

__all__ = ["Wishart"]


class Wishart(Distribution):
    """Sums of outer products of `df` normal vectors of mean 0.

    Their covariance is stated by one of covariance_matrix, precision_matrix, scale_tril (..., n, n). `df` need not be
    whole; it must be greater than n - 1. Draws are made by Bartlett's decomposition.

    >>> ex.distributions.Wishart(3.0, covariance_matrix=ex.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    arg_constraints: ClassVar[constraints.Table] = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
        "df": constraints.greater_than(0),
    }
    support = constraints.positive_definite
    has_rsample = True

    def __init__(
        self,
        df: Value,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        choices = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        stated = {name: matrix for name, matrix in choices.items() if matrix is not None}
        if len(stated) != 1:
            what = " and ".join(stated) or "none"
            raise DtypeError(f"Wishart: expected exactly one of {', '.join(choices)}, got {what}")
        ((name, matrix),) = stated.items()
        if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2]:
            raise ShapeError(f"Wishart: expected {name} of shape (..., n, n), got {tuple(matrix.shape)}")
        size = matrix.shape[-1]
        degrees = df if isinstance(df, Tensor) else ops.tensor(df, dtype=matrix.dtype)
        if bool((degrees <= size - 1).any()):
            raise ShapeError(f"Wishart: df must be greater than {size - 1} for {size} by {size} matrices, got {df}")
        batch_shape = ops.broadcast_shapes(degrees.shape, matrix.shape[:-2])
        self.df = degrees.expand(batch_shape)
        setattr(self, name, matrix.expand((*batch_shape, size, size)))
        super().__init__(batch_shape, (size, size), validate_args)
        self._factor = _TO_SCALE_TRIL[name](getattr(self, name))

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance of the vectors."""
        return self._factor

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance of the vectors."""
        return self._factor @ self._factor.mT

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance of the vectors."""
        inverse = _inverse_of(self._factor)
        return inverse.mT @ inverse

    @property
    def mean(self) -> Tensor:
        return self._df * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        above = self._df - self._event_shape[-1] - 1
        return ops.where(above > 0, above, math.nan) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        return self._df * (covariance.square() + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    @property
    def _df(self) -> Tensor:
        return self.df.unsqueeze(-1).unsqueeze(-1)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        degrees = self.df.unsqueeze(-1) - ops.arange(self._event_shape[-1], dtype=self.df.dtype)
        lengths = Chi2(degrees, validate_args=False).rsample(sample_shape).sqrt()
        noise = ops.randn(shape, dtype=self.df.dtype).tril(-1) + lengths.diag_embed()
        root = self._factor @ noise
        return root @ root.mT

    def log_prob(self, value: Any) -> Tensor:
        value = self._checked(value)
        n = self._event_shape[-1]
        trace = ops.cholesky_solve(value, self._factor).diagonal(dim1=-2, dim2=-1).sum(-1)
        half_log_det = _half_log_det(cholesky(value))
        return (
            (self.df - n - 1) * half_log_det
            - 0.5 * trace
            - self.df * (0.5 * n * math.log(2) + self._log_volume())
            - mvlgamma(0.5 * self.df, n)
        )

    def entropy(self) -> Tensor:
        n, half = self._event_shape[-1], 0.5 * self.df
        volume = 0.5 * n * math.log(2) + self._log_volume()
        return (n + 1) * volume + mvlgamma(half, n) - (half - 0.5 * (n + 1)) * self._digammas() + half * n

    def _log_volume(self) -> Tensor:
        """Half the logarithm of the determinant of the covariance."""
        return _half_log_det(self._factor)

    def _digammas(self) -> Tensor:
        """The derivative of mvlgamma at df / 2."""
        steps = 0.5 * ops.arange(self._event_shape[-1], dtype=self.df.dtype)
        return digamma(0.5 * self.df.unsqueeze(-1) - steps).sum(-1)


def _half_log_det(factor: Tensor) -> Tensor:
    """Half the logarithm of the determinant of the matrix that has this Cholesky factor."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
