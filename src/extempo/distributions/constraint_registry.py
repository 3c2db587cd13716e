"""Which transform leads from free real numbers to a constraint.

`biject_to` answers with a bijection (for densities), `transform_to` with whatever suits an optimizer best.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

from ..errors import DtypeError, UnsupportedError
from . import constraints, transforms
from .constraints import Constraint
from .transforms import Transform

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """A table from classes of constraints to functions that make a transform for one of them.

    >>> d = ex.distributions
    >>> d.transform_to(d.constraints.positive)
    ExpTransform()
    """

    def __init__(self) -> None:
        self._factories: dict[type[Constraint], Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Enter `factory` for a class of constraints (or that of an instance); without a factory, as a decorator."""
        if factory is None:
            return lambda made: self.register(constraint, made)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, Constraint)):
            raise DtypeError(f"register: expected a constraint or a class of constraints, got {constraint!r}")
        self._factories[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """The transform from free numbers to this constraint."""
        factory = self._factories.get(type(constraint))
        if factory is None:
            raise UnsupportedError(
                f"no transform leads to {constraint!r}; register(type(constraint), make_transform) enters one"
            )
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _register(registries: tuple[ConstraintRegistry, ...], *kinds: Any) -> Callable[[Factory], Factory]:
    def enter(factory: Factory) -> Factory:
        for registry in registries:
            for kind in kinds:
                registry.register(kind, factory)
        return factory

    return enter


_BOTH = (biject_to, transform_to)


@_register(_BOTH, constraints.real)
def _to_real(constraint: Any) -> Transform:
    return transforms.identity_transform


def _independent(registry: ConstraintRegistry) -> Factory:
    def make(constraint: Any) -> Transform:
        base = registry(constraint.base_constraint)
        return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)

    return make


def _parts(registry: ConstraintRegistry) -> tuple[Factory, Factory]:
    def make_cat(constraint: Any) -> Transform:
        return transforms.CatTransform([registry(c) for c in constraint.cseq], constraint.dim, constraint.lengths)

    def make_stack(constraint: Any) -> Transform:
        return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)

    return make_cat, make_stack


for _registry in _BOTH:
    _registry.register(constraints.independent, _independent(_registry))
    for _kind, _factory in zip((constraints.cat, constraints.stack), _parts(_registry), strict=True):
        _registry.register(_kind, _factory)


@_register(_BOTH, constraints.positive, constraints.nonnegative)
def _to_above(constraint: Any) -> Transform:
    return _moved(transforms.ExpTransform(), constraint.lower_bound, 1)


@_register(_BOTH, constraints.less_than)
def _to_below(constraint: Any) -> Transform:
    return _moved(transforms.ExpTransform(), constraint.upper_bound, -1)


@_register(_BOTH, constraints.interval, constraints.half_open_interval)
def _to_between(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    return _moved(transforms.SigmoidTransform(), low, high - low)


def _moved(transform: Transform, loc: Any, scale: Any) -> Transform:
    """loc + scale * transform(x), left as it is where nothing moves."""
    if all(isinstance(x, numbers.Number) for x in (loc, scale)) and (loc, scale) == (0, 1):
        return transform
    return transforms.ComposeTransform([transform, transforms.AffineTransform(loc, scale)])


@_register((biject_to,), constraints.simplex)
def _biject_to_simplex(constraint: Any) -> Transform:
    return transforms.StickBreakingTransform()


@_register((transform_to,), constraints.simplex)
def _transform_to_simplex(constraint: Any) -> Transform:
    return transforms.SoftmaxTransform()


@_register((transform_to,), constraints.lower_cholesky)
def _to_lower_cholesky(constraint: Any) -> Transform:
    return transforms.LowerCholeskyTransform()


@_register((transform_to,), constraints.positive_definite, constraints.positive_semidefinite)
def _to_positive_definite(constraint: Any) -> Transform:
    return transforms.PositiveDefiniteTransform()


@_register(_BOTH, constraints.corr_cholesky)
def _to_corr_cholesky(constraint: Any) -> Transform:
    return transforms.CorrCholeskyTransform()
