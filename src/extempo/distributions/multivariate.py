"""Distributions over vectors: categories as vectors, probabilities, correlated normal variables."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..core.types import Size, finfo
from ..errors import DtypeError, ShapeError
from ..linalg import cholesky, solve_triangular
from ..ops.gamma_gradient import log_standard_gamma
from . import constraints
from .derived import Independent, TransformedDistribution
from .discrete import Binomial, Categorical
from .distribution import Distribution, Shape
from .real_line import Normal
from .transforms import StickBreakingTransform
from .utils import LOG_TWO_PI, Value, lazy_property, same_as

__all__ = [
    "Dirichlet",
    "LogisticNormal",
    "Multinomial",
    "MultivariateNormal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
]


def one_hot(index: Tensor, like: Tensor) -> Tensor:
    """Vectors that are 1 at the index and 0 elsewhere, of the last size and the dtype of `like`."""
    return (index.unsqueeze(-1) == ops.arange(like.shape[-1])).to(like.dtype)


class OverCategories(Distribution):
    """What distributions over vectors of categories share: a Categorical that holds probs and logits."""

    arg_constraints: ClassVar[constraints.Table] = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, probs: Tensor | None, logits: Tensor | None, validate_args: bool | None) -> None:
        self._categorical = Categorical(probs, logits, validate_args=False)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    logits = same_as("_categorical.logits", "Log-probabilities of the categories.")
    probs = same_as("_categorical.probs", "Probabilities of the categories.")

    @property
    def param_shape(self) -> Size:
        """The shape of probs or logits."""
        return self._categorical.param_shape


class OneHotCategorical(OverCategories):
    """One-hot vectors with probabilities `probs` (..., n), or with the unnormalised logarithms `logits`.

    >>> ex.distributions.OneHotCategorical(probs=ex.tensor([1.0, 3.0])).log_prob(ex.tensor([0.0, 1.0])).exp()
    tensor(0.7500)
    """

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(probs, logits, validate_args)

    mean = same_as("probs")

    @property
    def mode(self) -> Tensor:
        return one_hot(self._categorical.mode, self.probs)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with no_grad():
            return one_hot(self._categorical.sample(sample_shape), self.probs)

    def log_prob(self, value: Any) -> Tensor:
        return self._categorical.log_prob(self._checked(value).argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(ops.eye(self.param_shape[-1], dtype=self.probs.dtype), expand)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot vectors whose gradient is passed on to the probabilities as it is (Bengio, Léonard and Courville 2013).

    >>> logits = ex.zeros(3, requires_grad=True)
    >>> ex.distributions.OneHotCategoricalStraightThrough(logits=logits).rsample().sum()
    tensor(1., grad_fn=<SumBackward>)
    """

    has_rsample = True

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(OverCategories):
    """Counts of the categories in `total_count` draws, with probabilities `probs` (..., n) or logarithms `logits`.

    >>> ex.distributions.Multinomial(2, probs=ex.tensor([1.0, 1.0])).log_prob(ex.tensor([1.0, 1.0])).exp()
    tensor(0.5000)
    """

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise DtypeError(
                f"Multinomial: total_count must be one int for all of the batch, got {type(total_count).__name__}"
            )
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            drawn = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)
            counts = ops.zeros(shape, dtype=self.probs.dtype)
            return counts.scatter_add(-1, drawn, ops.ones(drawn.shape, dtype=counts.dtype))

    def log_prob(self, value: Any) -> Tensor:
        value = self._checked(value).to(self.probs.dtype)
        logits, value = ops.broadcast_tensors(self.logits, value)
        impossible = (value == 0) & (logits == -math.inf)
        powers = ops.where(impossible, 0.0, logits) * value
        return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + powers.sum(-1)

    def entropy(self) -> Tensor:
        n = ops.tensor(float(self.total_count), dtype=self.probs.dtype)
        counts = Binomial(self.total_count, probs=self.probs, validate_args=False)
        values = counts.enumerate_support(expand=False)[1:]
        expected = (counts.log_prob(values).exp() * (values + 1).lgamma()).sum(0).sum(-1)
        return n * self._categorical.entropy() - (n + 1).lgamma() + expected


class Dirichlet(Distribution):
    """Dirichlet distribution over the simplex; `concentration` (..., n) has one entry for each category.

    >>> ex.distributions.Dirichlet(ex.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints: ClassVar[constraints.Table] = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ShapeError("Dirichlet: expected a concentration of at least 1 dimension, the last for the categories")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0)
        mode = above / above.sum(-1, True)
        # With every concentration below 1 each corner is a mode: the first is taken.
        corner = (ops.arange(self.concentration.shape[-1]) == 0).to(mode.dtype)
        return ops.where((self.concentration < 1).all(-1, True), corner, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        # Independent gamma draws, normalised; in logarithms, for with small concentrations all of them round to 0.
        logs = log_standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        return logs.softmax(-1).clamp(min=finfo(logs.dtype).tiny)

    def log_prob(self, value: Any) -> Tensor:
        a = self.concentration
        powers = ops.xlogy(a - 1, self._checked(value)).sum(-1)
        return powers + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a = self.concentration
        total = a.sum(-1)
        log_normalizer = a.lgamma().sum(-1) - total.lgamma()
        return log_normalizer + (total - a.shape[-1]) * total.digamma() - ((a - 1) * a.digamma()).sum(-1)


class LogisticNormal(TransformedDistribution):
    """n + 1 probabilities by stick breaking from n normal variables of means `loc` (..., n) and deviations `scale`.

    >>> ex.distributions.LogisticNormal(ex.zeros(2), ex.ones(2)).sample().shape
    extempo.Size([3])
    """

    arg_constraints: ClassVar[constraints.Table] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    base_dist: Any

    def __init__(self, loc: Value, scale: Value, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=False)
        if not base.batch_shape:
            raise ShapeError("LogisticNormal: expected loc or scale of at least 1 dimension, the last for the vector")
        super().__init__(Independent(base, 1), StickBreakingTransform(), validate_args)

    loc = same_as("base_dist.base_dist.loc", "The means of the normal variables.")
    scale = same_as("base_dist.base_dist.scale", "The standard deviations of the normal variables.")


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

    mean = same_as("loc")
    mode = same_as("loc")

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
