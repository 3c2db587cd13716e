"""Functions whose formula fails at one point, where they have their limit: 0 * log(0) and sin(0) / 0.

Values come from `backends.numpy.special`, gradients are those that PyTorch has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from .. import ops
from ..backends.numpy import special as kernels
from ..core.op import Elementwise, Rng, Sample, samples_binary
from ..core.tensor import Tensor
from .define import Function, binary, unary
from .special_define import TableFunction, of_one, of_two
from .transcendental import FloatingFunction

__all__ = ["sinc", "xlogy"]


class Entr(FloatingFunction):
    """-x * log(x): what an outcome of probability x adds to the entropy; 0 at 0, -inf below.

    >>> ex.special.entr(ex.tensor([0.0, 0.25, 0.5]))
    tensor([0.0000, 0.3466, 0.3466])
    """

    numpy = staticmethod(kernels.entr)
    name = "special_entr"
    low, high = 0.2, 2.0
    vjp = staticmethod(lambda g, y, x: (-g * (ops.log(x) + 1.0),))

    @staticmethod
    def lower(e: Any, x: Any) -> Any:
        inside = e.neg(e.mul(x, e.log(x)))
        return e.where(e.eq(x, 0.0), 0.0, e.where(e.lt(x, 0.0), -math.inf, inside))


class _TimesLogarithm(Elementwise, abstract=True):
    """`input` times a logarithm of `other`."""

    to_float = True

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield from samples_binary(rng, 0.3, 2.0)
        yield Sample(2.0, rng.uniform(0.3, 2.0, size=(3,)))


def _product(e: Any, x: Any, other: Any, logarithm: Callable[[Any], Any]) -> Any:
    """x * logarithm(other), and 0 where x is 0 and `other` a number."""
    nothing = e.logical_and(e.eq(x, 0.0), e.eq(other, other))
    return e.where(nothing, 0.0, e.mul(x, logarithm(other)))


class Xlogy(_TimesLogarithm):
    """input * log(other), and 0 where input is 0.

    >>> ex.xlogy(ex.tensor([0.0, 2.0]), ex.tensor([0.0, 3.0]))
    tensor([0.0000, 2.1972])
    """

    numpy = staticmethod(kernels.xlogy)
    lower = staticmethod(lambda e, x, other: _product(e, x, other, e.log))

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor, other: Tensor) -> tuple[Any, ...]:
        unused = ops.logical_and(ops.eq(x, 0), ops.le(other, 0))  # where the logarithm is not asked for
        return ops.where(unused, 0.0, xlogy(g, other)), g * x / other


class Xlog1py(_TimesLogarithm):
    """input * log1p(other), and 0 where input is 0.

    >>> ex.special.xlog1py(ex.tensor([0.0, 2.0]), ex.tensor([-1.0, 2.0]))
    tensor([0.0000, 2.1972])
    """

    name = "special_xlog1py"
    numpy = staticmethod(kernels.xlog1py)
    lower = staticmethod(lambda e, x, other: _product(e, x, other, e.log1p))

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor, other: Tensor) -> tuple[Any, ...]:
        nothing = ops.logical_and(ops.eq(x, 0), ops.le(other, -1))
        return ops.where(nothing, 0.0, xlog1py(g, other)), g * x / (other + 1.0)


class Sinc(TableFunction):
    """sin(pi * x) / (pi * x), and 1 at 0.

    >>> ex.sinc(ex.tensor([0.0, 0.5, 1.5]))
    tensor([ 1.0000,  0.6366, -0.2122])
    """

    numpy = staticmethod(kernels.sinc)
    low, high = 0.2, 2.0
    vjp = staticmethod(lambda g, y, x: (ops.where(ops.eq(x, 0), 0.0, g * ((ops.cos(x * math.pi) - sinc(x)) / x)),))


xlogy = binary(Xlogy)
sinc: Function = unary(Sinc)
entr, xlog1py = of_one(Entr), of_two(Xlog1py)
