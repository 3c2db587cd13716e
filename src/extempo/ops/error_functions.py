"""Error functions and the normal distribution. Values come from `backends.numpy.special`, gradients are PyTorch's."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..backends.numpy import special as kernels
from ..core.tensor import Tensor
from .define import deliver_converted, unary
from .special_define import TableFunction, of_one
from .transcendental import FloatingFunction

__all__ = ["erf", "erfc", "erfinv"]

_TWO_OVER_ROOT_PI = 2.0 / math.sqrt(math.pi)
_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)


class Erf(FloatingFunction):
    """The error function.

    >>> ex.erf(ex.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.8427,  0.0000,  0.8427])
    """

    numpy = staticmethod(kernels.erf)
    vjp = staticmethod(lambda g, y, x: (g * (ops.exp(-(x * x)) * _TWO_OVER_ROOT_PI),))


class Erfc(FloatingFunction):
    """1 - erf(x), accurate also where it is tiny.

    >>> ex.erfc(ex.tensor([-1.0, 0.0, 1.0]))
    tensor([1.8427, 1.0000, 0.1573])
    """

    numpy = staticmethod(kernels.erfc)
    vjp = staticmethod(lambda g, y, x: (g * (ops.exp(-(x * x)) * -_TWO_OVER_ROOT_PI),))
    onnx = "kernel"


class Erfcx(TableFunction):
    """exp(x**2) * erfc(x), without overflow on the way.

    >>> ex.special.erfcx(ex.tensor([0.0, 1.0, 100.0]))
    tensor([1.0000, 0.4276, 0.0056])
    """

    numpy = staticmethod(kernels.erfcx)
    name = "special_erfcx"
    vjp = staticmethod(lambda g, y, x: (g * (x * y * 2.0 - _TWO_OVER_ROOT_PI),))


class Erfinv(TableFunction):
    """The inverse of the error function.

    >>> ex.erfinv(ex.tensor([-1.0, 0.0, 0.5]))
    tensor([  -inf, 0.0000, 0.4769])
    """

    numpy = staticmethod(kernels.erfinv)
    low, high = -0.9, 0.9

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        root = erfinv(x)
        return (g * (ops.exp(root * root) / _TWO_OVER_ROOT_PI),)


class Ndtri(TableFunction):
    """The value that a standard normal variable stays below with probability x.

    >>> ex.special.ndtri(ex.tensor([0.25, 0.5, 0.975]))
    tensor([-0.6745,  0.0000,  1.9600])
    """

    numpy = staticmethod(kernels.ndtri)
    name = "special_ndtri"
    low, high = 0.1, 0.9
    vjp = staticmethod(lambda g, y, x: (g * (ops.exp(y * y * 0.5) * _ROOT_TWO_PI),))


class LogNdtr(TableFunction):
    """The logarithm of the probability that a standard normal variable stays below x.

    >>> ex.special.log_ndtr(ex.tensor([-10.0, 0.0]))
    tensor([-53.2313,  -0.6931])
    """

    numpy = staticmethod(kernels.log_ndtr)
    name = "special_log_ndtr"

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        # density / probability, with the exponentials of both cancelled.
        return (g * (math.sqrt(2.0 / math.pi) / erfcx(x * -math.sqrt(0.5))),)


erf, erfc, erfinv = unary(Erf), unary(Erfc), unary(Erfinv)
erfcx, ndtri, log_ndtr = of_one(Erfcx), of_one(Ndtri), of_one(LogNdtr)


def ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The probability that a standard normal variable stays below each element.

    >>> ex.special.ndtr(ex.tensor([-1.0, 0.0, 1.0]))
    tensor([0.1587, 0.5000, 0.8413])
    """
    return deliver_converted(erfc(input * -math.sqrt(0.5)) * 0.5, out, input)
