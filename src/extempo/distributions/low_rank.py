"""Normal vectors whose covariance is a matrix of low rank plus a diagonal."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from ..errors import ShapeError
from ..linalg import cholesky, solve_triangular
from . import constraints
from .distribution import Distribution, Shape
from .multivariate import squared_length
from .utils import LOG_TWO_PI, lazy_property, same_as

__all__ = ["LowRankMultivariateNormal"]


class LowRankMultivariateNormal(Distribution):
    """Normal vectors of mean `loc` (..., n) and covariance W @ W.T + diag(d).

    W is `cov_factor` (..., n, rank), d is `cov_diag` (..., n). What is factored is a matrix of size rank by rank,
    whatever n is.

    >>> d = ex.distributions.LowRankMultivariateNormal(ex.zeros(2), ex.ones(2, 1), ex.ones(2))
    >>> d.covariance_matrix
    tensor([[2., 1.],
            [1., 2.]])
    """

    arg_constraints: ClassVar[constraints.Table] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _shared = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        name = "LowRankMultivariateNormal"
        if loc.ndim < 1:
            raise ShapeError(f"{name}: expected loc of at least 1 dimension, the last for the vector")
        size = loc.shape[-1]
        if cov_factor.ndim < 2 or cov_factor.shape[-2] != size:
            raise ShapeError(f"{name}: expected cov_factor of shape (..., {size}, rank), got {tuple(cov_factor.shape)}")
        if cov_diag.ndim < 1 or cov_diag.shape[-1] != size:
            raise ShapeError(f"{name}: expected cov_diag of shape (..., {size}), got {tuple(cov_diag.shape)}")
        batch_shape = ops.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc = loc.expand((*batch_shape, size))
        self.cov_factor = cov_factor.expand((*batch_shape, *cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand((*batch_shape, size))
        super().__init__(batch_shape, (size,), validate_args)
        # What serves all of the batch is factored and solved once.
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        inside = cov_factor.mT @ (cov_factor / cov_diag.unsqueeze(-1))
        self._capacitance_tril = cholesky(inside + ops.eye(cov_factor.shape[-1], dtype=inside.dtype))

    mean = same_as("loc")
    mode = same_as("loc")

    @lazy_property
    def variance(self) -> Tensor:
        variance = self._unbroadcasted_cov_factor.square().sum(-1) + self._unbroadcasted_cov_diag
        return variance.expand((*self._batch_shape, *self._event_shape))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariances of the variables."""
        factor = self._unbroadcasted_cov_factor
        return self._for_batch(factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance, by the matrix inversion lemma."""
        diagonal = self._unbroadcasted_cov_diag
        scaled = (self._unbroadcasted_cov_factor / diagonal.unsqueeze(-1)).mT
        solved = solve_triangular(self._capacitance_tril, scaled, upper=False)
        return self._for_batch(diagonal.reciprocal().diag_embed() - solved.mT @ solved)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance, by way of one whose diagonal part is 1."""
        deviation = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / deviation
        inside = scaled @ scaled.mT + ops.eye(self._event_shape[0], dtype=scaled.dtype)
        return self._for_batch(deviation * cholesky(inside))

    def _for_batch(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *matrix.shape[-2:]))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        rank = self._unbroadcasted_cov_factor.shape[-1]
        common = ops.randn((*shape[:-1], rank, 1), dtype=self.loc.dtype)
        own = ops.randn(shape, dtype=self.loc.dtype)
        return (
            self.loc + (self._unbroadcasted_cov_factor @ common).squeeze(-1) + self._unbroadcasted_cov_diag.sqrt() * own
        )

    def log_prob(self, value: Any) -> Tensor:
        scaled = (self._checked(value) - self.loc) / self._unbroadcasted_cov_diag.sqrt()
        inner = self._unbroadcasted_cov_factor / self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        explained = squared_length(self._capacitance_tril, (inner.mT @ scaled.unsqueeze(-1)).squeeze(-1))
        distance = scaled.square().sum(-1) - explained
        return -0.5 * (self._event_shape[0] * LOG_TWO_PI + distance) - self._log_volume()

    def entropy(self) -> Tensor:
        entropy = 0.5 * self._event_shape[0] * (1 + LOG_TWO_PI) + self._log_volume()
        return entropy.expand(self._batch_shape)

    def _log_volume(self) -> Tensor:
        """Half the logarithm of the determinant of the covariance."""
        of_factor = self._capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return of_factor + 0.5 * self._unbroadcasted_cov_diag.log().sum(-1)
