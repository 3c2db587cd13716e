"""ExponentialFamily: distributions that are known by natural parameters and the logarithm of their normalizer."""

from __future__ import annotations

from typing import Any

from ..autograd import grad
from ..core.context import enable_grad
from ..core.tensor import Tensor
from .distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A base class for distributions of density exp(<t(x), theta> - F(theta) + k(x)), which gives them an entropy.

    A subclass states `_natural_params` (theta), `_log_normalizer(*theta)` (F) and `_mean_carrier_measure`, the mean of
    k(x). Extempo's own distributions have their entropies in closed form, and do not derive from it.

    >>> class Coin(ex.distributions.ExponentialFamily):
    ...     _mean_carrier_measure = 0
    ...     _natural_params = (ex.tensor(0.0),)
    ...     def _log_normalizer(self, logit):
    ...         return nn.functional.softplus(logit)
    >>> Coin(validate_args=False).entropy()
    tensor(0.6931, grad_fn=<SubBackward>)
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError(f"{type(self).__name__} does not state its natural parameters")

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not state its mean carrier measure")

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not state its log normalizer")

    def entropy(self) -> Tensor:
        """By differentiation: the gradient of F is the mean of t(x)."""
        with enable_grad():
            params = [param.detach().requires_grad_() for param in self._natural_params]
            log_normalizer = self._log_normalizer(*params)
            means = grad(log_normalizer.sum(), params, create_graph=True)
        entropy = log_normalizer - self._mean_carrier_measure
        for param, mean in zip(params, means, strict=True):
            entropy = entropy - (param * mean).reshape((*self._batch_shape, -1)).sum(-1)
        return entropy
