"""MultivariateNormal: correlated normal variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from ..errors import DtypeError, ShapeError
from ..linalg import cholesky, solve_triangular
from . import constraints
from .distribution import Distribution, Shape
from .utils import LOG_TWO_PI, lazy_property

__all__ = ["MultivariateNormal"]


class MultivariateNormal(Distribution):
    """Normal vectors of mean `loc` (..., n) and one of: covariance_matrix, precision_matrix, scale_tril (..., n, n).

    `scale_tril` is the Cholesky factor of the covariance; with the others it is computed first.

    >>> d = ex.distributions.MultivariateNormal(ex.zeros(2), covariance_matrix=ex.eye(2))
    >>> d.log_prob(ex.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints: ClassVar[constraints.Table] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _shared = ("_unbroadcasted_scale_tril",)

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.ndim < 1:
            raise ShapeError("MultivariateNormal: expected loc of at least 1 dimension, the last for the vector")
        choices = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        given = {name: matrix for name, matrix in choices.items() if matrix is not None}
        if len(given) != 1:
            what = " and ".join(given) or "none"
            raise DtypeError(f"MultivariateNormal: expected exactly one of {', '.join(choices)}, got {what}")
        ((name, matrix),) = given.items()
        size = loc.shape[-1]
        if matrix.ndim < 2 or tuple(matrix.shape[-2:]) != (size, size):
            raise ShapeError(
                f"MultivariateNormal: expected {name} of shape (..., {size}, {size}) for loc of shape "
                f"{tuple(loc.shape)}, got {tuple(matrix.shape)}"
            )
        batch_shape = ops.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand((*batch_shape, size))
        setattr(self, name, matrix.expand((*batch_shape, size, size)))
        super().__init__(batch_shape, (size,), validate_args)
        # What serves all of the batch is factored and solved once.
        self._unbroadcasted_scale_tril = _TO_SCALE_TRIL[name](matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        size = self.event_shape[0]
        return self._unbroadcasted_scale_tril.expand((*self._batch_shape, size, size))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariances of the variables."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand((*self._batch_shape, *factor.shape[-2:]))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        inverse = _inverse_of(self._unbroadcasted_scale_tril)
        return (inverse.mT @ inverse).expand((*self._batch_shape, *inverse.shape[-2:]))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.square().sum(-1).expand((*self._batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        noise = ops.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype)
        return self.loc + (self._unbroadcasted_scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Any) -> Tensor:
        distance = squared_length(self._unbroadcasted_scale_tril, self._checked(value) - self.loc)
        return -0.5 * (self._event_shape[0] * LOG_TWO_PI + distance) - self._log_volume()

    def entropy(self) -> Tensor:
        entropy = 0.5 * self._event_shape[0] * (1 + LOG_TWO_PI) + self._log_volume()
        return entropy.expand(self._batch_shape)

    def _log_volume(self) -> Tensor:
        """Half the logarithm of the determinant of the covariance."""
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _inverse_of(factor: Tensor) -> Tensor:
    return solve_triangular(factor, ops.eye(factor.shape[-1], dtype=factor.dtype), upper=False)


def _precision_to_scale_tril(precision: Tensor) -> Tensor:
    # Factored with rows and columns in reverse order, the precision gives the inverse of the covariance's factor.
    return _inverse_of(cholesky(precision.flip((-2, -1))).flip((-2, -1)).mT)


_TO_SCALE_TRIL: dict[str, Callable[[Tensor], Tensor]] = {
    "covariance_matrix": cholesky,
    "precision_matrix": _precision_to_scale_tril,
    "scale_tril": lambda matrix: matrix,
}


def squared_length(factor: Tensor, vectors: Tensor) -> Tensor:
    """|factor^-1 v|**2 of vectors (..., n), by one solve for each factor (*batch, n, n) with its vectors as columns."""
    size, n_batch = vectors.shape[-1], factor.ndim - 2
    shape = vectors.shape[:-1]
    vectors = vectors.expand((*ops.broadcast_shapes(shape, factor.shape[:-2]), size))
    shape = vectors.shape[:-1]
    batch = shape[len(shape) - n_batch :]
    columns = vectors.reshape((-1, *batch, size)).movedim(0, -1)
    solved = solve_triangular(factor.expand((*batch, size, size)), columns, upper=False)
    return solved.square().sum(-2).movedim(-1, 0).reshape(shape)
