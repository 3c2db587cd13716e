"""Bessel functions, by `backends.numpy.bessel`. Their gradients are Bessel functions again."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..backends.numpy import bessel
from ..core.op import Refuse
from ..core.tensor import Tensor
from .define import Function, unary
from .special_define import TableFunction, of_one

__all__ = ["i0"]


class I0(TableFunction):
    """The modified Bessel function of the first kind and order 0.

    >>> ex.i0(ex.tensor([0.0, 1.0, 2.0]))
    tensor([1.0000, 1.2661, 2.2796])
    """

    numpy = staticmethod(bessel.i0)
    vjp = staticmethod(lambda g, y, x: (g * i1(x),))


class I0e(TableFunction):
    """exp(-|x|) * i0(x).

    >>> ex.special.i0e(ex.tensor([0.0, 1.0, 100.0]))
    tensor([1.0000, 0.4658, 0.0399])
    """

    numpy = staticmethod(bessel.i0e)
    name = "special_i0e"
    vjp = staticmethod(lambda g, y, x: (g * (i1e(x) - ops.sign(x) * y),))


class I1(TableFunction):
    """The modified Bessel function of the first kind and order 1.

    >>> ex.special.i1(ex.tensor([0.0, 1.0, 2.0]))
    tensor([0.0000, 0.5652, 1.5906])
    """

    numpy = staticmethod(bessel.i1)
    name = "special_i1"
    low, high = 0.2, 2.0
    vjp = staticmethod(lambda g, y, x: (ops.where(ops.eq(x, 0), g * 0.5, g * (i0(x) - y / x)),))


class I1e(TableFunction):
    """exp(-|x|) * i1(x).

    >>> ex.special.i1e(ex.tensor([0.0, 1.0, 100.0]))
    tensor([0.0000, 0.2079, 0.0397])
    """

    numpy = staticmethod(bessel.i1e)
    name = "special_i1e"
    low, high = 0.2, 2.0

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (ops.where(ops.eq(x, 0), g * 0.5, g * (i0e(x) - (ops.sign(x) + ops.reciprocal(x)) * y)),)


class BesselJ0(TableFunction):
    """The Bessel function of the first kind and order 0.

    >>> ex.special.bessel_j0(ex.tensor([0.0, 1.0, 2.0]))
    tensor([1.0000, 0.7652, 0.2239])
    """

    numpy = staticmethod(bessel.bessel_j0)
    name = "special_bessel_j0"
    vjp = staticmethod(lambda g, y, x: (-g * bessel_j1(x),))


class BesselJ1(TableFunction):
    """The Bessel function of the first kind and order 1.

    >>> ex.special.bessel_j1(ex.tensor([0.0, 1.0, 2.0]))
    tensor([0.0000, 0.4401, 0.5767])
    """

    numpy = staticmethod(bessel.bessel_j1)
    name = "special_bessel_j1"
    low, high = 0.2, 2.0
    vjp = staticmethod(lambda g, y, x: (ops.where(ops.eq(x, 0), g * 0.5, g * (bessel_j0(x) - y / x)),))


class BesselY0(TableFunction):
    """The Bessel function of the second kind and order 0.

    >>> ex.special.bessel_y0(ex.tensor([0.5, 1.0, 2.0]))
    tensor([-0.4445,  0.0883,  0.5104])
    """

    numpy = staticmethod(bessel.bessel_y0)
    name = "special_bessel_y0"
    low, high = 0.3, 3.0
    vjp = staticmethod(lambda g, y, x: (-g * bessel_y1(x),))


class BesselY1(TableFunction):
    """The Bessel function of the second kind and order 1.

    >>> ex.special.bessel_y1(ex.tensor([0.5, 1.0, 2.0]))
    tensor([-1.4715, -0.7812, -0.1070])
    """

    numpy = staticmethod(bessel.bessel_y1)
    name = "special_bessel_y1"
    low, high = 0.3, 3.0
    vjp = staticmethod(lambda g, y, x: (g * (bessel_y0(x) - y / x),))


class ModifiedBesselK0(TableFunction):
    """The modified Bessel function of the second kind and order 0.

    >>> ex.special.modified_bessel_k0(ex.tensor([0.5, 1.0, 2.0]))
    tensor([0.9244, 0.4210, 0.1139])
    """

    numpy = staticmethod(bessel.modified_bessel_k0)
    name = "special_modified_bessel_k0"
    low, high = 0.3, 3.0
    vjp = staticmethod(lambda g, y, x: (-g * modified_bessel_k1(x),))


class ModifiedBesselK1(TableFunction):
    """The modified Bessel function of the second kind and order 1.

    >>> ex.special.modified_bessel_k1(ex.tensor([0.5, 1.0, 2.0]))
    tensor([1.6564, 0.6019, 0.1399])
    """

    numpy = staticmethod(bessel.modified_bessel_k1)
    name = "special_modified_bessel_k1"
    low, high = 0.3, 3.0
    vjp = staticmethod(lambda g, y, x: (-g * (modified_bessel_k0(x) + y / x),))


class ScaledModifiedBesselK0(TableFunction):
    """exp(x) * modified_bessel_k0(x).

    >>> ex.special.scaled_modified_bessel_k0(ex.tensor([0.5, 1.0, 100.0]))
    tensor([1.5241, 1.1445, 0.1252])
    """

    numpy = staticmethod(bessel.scaled_modified_bessel_k0)
    name = "special_scaled_modified_bessel_k0"
    low, high = 0.3, 3.0
    vjp = staticmethod(lambda g, y, x: (g * (y - scaled_modified_bessel_k1(x)),))


class ScaledModifiedBesselK1(TableFunction):
    """exp(x) * modified_bessel_k1(x).

    >>> ex.special.scaled_modified_bessel_k1(ex.tensor([0.5, 1.0, 100.0]))
    tensor([2.7310, 1.6362, 0.1258])
    """

    numpy = staticmethod(bessel.scaled_modified_bessel_k1)
    name = "special_scaled_modified_bessel_k1"
    low, high = 0.3, 3.0
    vjp = staticmethod(lambda g, y, x: (g * (y - y / x - scaled_modified_bessel_k0(x)),))


class SphericalBesselJ0(TableFunction):
    """sin(x) / x, and 1 at 0.

    >>> ex.special.spherical_bessel_j0(ex.tensor([0.0, 1.0, 2.0]))
    tensor([1.0000, 0.8415, 0.4546])
    """

    numpy = staticmethod(bessel.spherical_bessel_j0)
    name = "special_spherical_bessel_j0"
    low, high = 0.2, 2.0
    vjp = staticmethod(lambda g, y, x: (ops.where(ops.eq(x, 0), 0.0, g * ((ops.cos(x) - y) / x)),))


class AiryAi(TableFunction):
    """The Airy function Ai.

    >>> ex.special.airy_ai(ex.tensor([-1.0, 0.0, 1.0]))
    tensor([0.5356, 0.3550, 0.1353])
    """

    numpy = staticmethod(bessel.airy_ai)
    name = "special_airy_ai"
    vjp = Refuse("the derivative of Ai is not among the functions here")


i0: Function = unary(I0)
i0e: Function = of_one(I0e)
i1: Function = of_one(I1)
i1e: Function = of_one(I1e)
bessel_j0: Function = of_one(BesselJ0)
bessel_j1: Function = of_one(BesselJ1)
bessel_y0: Function = of_one(BesselY0)
bessel_y1: Function = of_one(BesselY1)
modified_bessel_i0, modified_bessel_i1 = i0, i1
modified_bessel_k0: Function = of_one(ModifiedBesselK0)
modified_bessel_k1: Function = of_one(ModifiedBesselK1)
scaled_modified_bessel_k0: Function = of_one(ScaledModifiedBesselK0)
scaled_modified_bessel_k1: Function = of_one(ScaledModifiedBesselK1)
spherical_bessel_j0, airy_ai = of_one(SphericalBesselJ0), of_one(AiryAi)
