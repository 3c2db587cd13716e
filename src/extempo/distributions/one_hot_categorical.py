"""OneHotCategorical: one of several categories, as a vector of zeros and a one."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..core.types import Size
from . import constraints
from .categorical import Categorical
from .distribution import Distribution, Shape

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


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

    @property
    def logits(self) -> Tensor:
        """Log-probabilities of the categories."""
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities of the categories."""
        return self._categorical.probs

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

    @property
    def mean(self) -> Tensor:
        return self.probs

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
