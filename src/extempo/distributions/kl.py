"""kl_divergence, and the table of pairs of distributions that it knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from ..errors import DtypeError, UnsupportedError
from .distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]

Rule = Callable[[Any, Any], Tensor]

_RULES: dict[tuple[type, type], Rule] = {}
_FOUND: dict[tuple[type, type], Rule | None] = {}  # what was looked up, by exact classes


def register_kl(type_p: type, type_q: type) -> Callable[[Rule], Rule]:
    """A decorator: enter a function of (p, q) as the divergence of these classes and their subclasses.

    The most specific entry counts: by the class of p first, then by that of q. A class may be one that
    distributions of another library derive from.

    >>> d = ex.distributions
    >>> class Loud(d.Normal):
    ...     pass
    >>> @d.register_kl(Loud, Loud)
    ... def loud(p, q):
    ...     return ex.zeros(())
    >>> d.kl_divergence(Loud(0.0, 1.0), Loud(1.0, 1.0))
    tensor(0.)
    """
    for given in (type_p, type_q):
        if not isinstance(given, type):
            raise DtypeError(f"register_kl: expected classes of distributions, got {given!r}")

    def enter(rule: Rule) -> Rule:
        _RULES[type_p, type_q] = rule
        _FOUND.clear()
        return rule

    return enter


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The expected log_prob of p minus that of q over draws of p, in nats: how much worse q describes p than p does.

    >>> d = ex.distributions
    >>> d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(1.0, 1.0))
    tensor(0.5000)
    """
    classes = type(p), type(q)
    if classes not in _FOUND:
        _FOUND[classes] = _most_specific(*classes)
    rule = _FOUND[classes]
    if rule is None:
        raise UnsupportedError(
            f"kl_divergence: no formula for {type(p).__name__} and {type(q).__name__}; enter one with register_kl, or "
            "estimate it as the mean of p.log_prob(x) - q.log_prob(x) over x = p.sample((n,))"
        )
    return rule(p, q)


def _most_specific(type_p: type, type_q: type) -> Rule | None:
    for ancestor_p in type_p.__mro__:
        for ancestor_q in type_q.__mro__:
            rule = _RULES.get((ancestor_p, ancestor_q))
            if rule is not None:
                return rule
    return None
