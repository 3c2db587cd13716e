"""Special functions of each element: error, gamma, Bessel, information functions and orthogonal polynomials.

Values come from `backends.special`, `backends.bessel` and `backends.orthogonal`; gradients are those that PyTorch has,
and those of the Bessel functions, which are Bessel functions again. What PyTorch has in `special` only is not in
`__all__`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from .. import ops
from .._methods import method
from .._tensor import Tensor
from ..backends import bessel, orthogonal
from ..backends import special as kernels
from ..errors import DtypeError, NotDifferentiableError, ShapeError
from ..op import Elementwise, Refuse, Rng, Sample, samples_binary
from ..running import apply
from ..short_path import runner1, runner2
from ..types import Number
from .define import Operand, binary, deliver, inplace_method, unary
from .transcendental import FloatingFunction

__all__ = [
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "i0",
    "igamma",
    "igammac",
    "lgamma",
    "mvlgamma",
    "polygamma",
    "sinc",
    "xlogy",
]

_TWO_OVER_ROOT_PI = 2.0 / math.sqrt(math.pi)
_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)


_TABLES = Refuse("its regions and tables are NumPy code; no training loop waits for it")


class _TableFunction(FloatingFunction, abstract=True):
    """A function of one variable that NumPy code computes from tables, region by region."""

    lower = _TABLES  # type: ignore[assignment] # the family has native code, these members have not


# ---- error functions and the normal distribution


class Erf(FloatingFunction):
    """The error function.

    >>> ex.erf(ex.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.8427,  0.0000,  0.8427])
    """

    numpy = staticmethod(kernels.erf)

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * (ops.exp(-(x * x)) * _TWO_OVER_ROOT_PI),)


class Erfc(FloatingFunction):
    """1 - erf(x), accurate also where it is tiny.

    >>> ex.erfc(ex.tensor([-1.0, 0.0, 1.0]))
    tensor([1.8427, 1.0000, 0.1573])
    """

    numpy = staticmethod(kernels.erfc)

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * (ops.exp(-(x * x)) * -_TWO_OVER_ROOT_PI),)


class Erfcx(_TableFunction):
    """exp(x**2) * erfc(x), without overflow on the way.

    >>> ex.special.erfcx(ex.tensor([0.0, 1.0, 100.0]))
    tensor([1.0000, 0.4276, 0.0056])
    """

    numpy = staticmethod(kernels.erfcx)
    name = "special_erfcx"

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * (x * y * 2.0 - _TWO_OVER_ROOT_PI),)


class Erfinv(_TableFunction):
    """The inverse of the error function.

    >>> ex.erfinv(ex.tensor([-1.0, 0.0, 0.5]))
    tensor([  -inf, 0.0000, 0.4769])
    """

    numpy = staticmethod(kernels.erfinv)
    low, high = -0.9, 0.9

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * (ops.exp(y * y) / _TWO_OVER_ROOT_PI),)


class Ndtri(_TableFunction):
    """The value that a standard normal variable stays below with probability x.

    >>> ex.special.ndtri(ex.tensor([0.25, 0.5, 0.975]))
    tensor([-0.6745,  0.0000,  1.9600])
    """

    numpy = staticmethod(kernels.ndtri)
    name = "special_ndtri"
    low, high = 0.1, 0.9

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * (ops.exp(y * y * 0.5) * _ROOT_TWO_PI),)


class LogNdtr(_TableFunction):
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


# ---- gamma functions


class Lgamma(FloatingFunction):
    """The logarithm of the absolute value of the gamma function.

    >>> ex.lgamma(ex.tensor([1.0, 3.0, 5.0]))
    tensor([0.0000, 0.6931, 3.1781])
    """

    numpy = staticmethod(kernels.lgamma)
    low, high = 0.3, 4.0

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * digamma(x),)


class Digamma(_TableFunction):
    """The derivative of lgamma.

    >>> ex.digamma(ex.tensor([1.0, 2.0]))
    tensor([-0.5772,  0.4228])
    """

    numpy = staticmethod(kernels.digamma)
    low, high = 0.3, 4.0

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * apply(Polygamma, (1, x)),)


class Polygamma(Elementwise):
    """The n-th derivative of digamma."""

    to_float = True

    @staticmethod
    def numpy(n: Any, x: Any) -> Any:
        return kernels.polygamma(int(n), x)

    @staticmethod
    def vjp(g: Tensor, y: Tensor, n: Any, x: Tensor) -> tuple[Any, ...]:
        return None, g * apply(Polygamma, (n + 1, x))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(1, rng.uniform(0.3, 4.0, size=(3, 4)))
        yield Sample(3, rng.uniform(0.3, 4.0, size=()))
        yield Sample(2, np.empty((0, 3)))

    lower = _TABLES


def _no_gradient(op: str, what: str) -> Callable[[], NoReturn]:
    """A thunk in place of a gradient: it raises if that gradient is asked for, and only then."""

    def refuse() -> NoReturn:
        raise NotDifferentiableError(f"{op}: no gradient with respect to {what}; detach() it if none is wanted")

    return refuse


def _gamma_density(a: Tensor | Number, x: Tensor) -> Tensor:
    """d igamma(a, x) / dx."""
    # Of a number, a number as wide: a tensor would have the default dtype, whatever x has.
    scale = lgamma(a) if isinstance(a, Tensor) else Lgamma.numpy(a).item()
    return ops.exp((a - 1.0) * ops.log(x) - x - scale)


class _IncompleteGamma(Elementwise, abstract=True):
    """A function of the shape `input` and the point `other`; differentiable in the point."""

    domain = "f"
    saves = ("", "a x")

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(1.5, rng.uniform(0.4, 3.0, size=(3, 4)))
        yield Sample(np.array([[1], [2], [4]]), rng.uniform(0.4, 3.0, size=(2, 1, 4)))
        yield Sample(2.0, np.empty((0, 3)))

    lower = _TABLES


class Igamma(_IncompleteGamma):
    """The regularised lower incomplete gamma function P(input, other).

    >>> ex.igamma(ex.tensor([1.0, 2.0]), ex.tensor([1.0, 1.0]))
    tensor([0.6321, 0.2642])
    """

    numpy = staticmethod(kernels.gammainc)

    @staticmethod
    def vjp(g: Tensor, y: Any, a: Tensor, x: Tensor) -> tuple[Any, ...]:
        return _no_gradient("igamma", "its first argument"), lambda: g * _gamma_density(a, x)


class Igammac(_IncompleteGamma):
    """The regularised upper incomplete gamma function Q(input, other) = 1 - P(input, other).

    >>> ex.igammac(ex.tensor([1.0, 2.0]), ex.tensor([1.0, 1.0]))
    tensor([0.3679, 0.7358])
    """

    numpy = staticmethod(kernels.gammaincc)

    @staticmethod
    def vjp(g: Tensor, y: Any, a: Tensor, x: Tensor) -> tuple[Any, ...]:
        return _no_gradient("igammac", "its first argument"), lambda: -g * _gamma_density(a, x)


class Zeta(Elementwise):
    """The Hurwitz zeta function: the sum over k >= 0 of 1 / (k + other) ** input.

    >>> ex.special.zeta(ex.tensor([2.0, 4.0]), 1.0)
    tensor([1.6449, 1.0823])
    """

    name = "special_zeta"
    to_float = True
    saves = ("", "x q")
    numpy = staticmethod(kernels.zeta)

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Tensor, q: Tensor) -> tuple[Any, ...]:
        return _no_gradient("special.zeta", "its exponent"), lambda: g * -x * zeta(x + 1.0, q)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(2.0, rng.uniform(0.5, 3.0, size=(3, 4)))
        yield Sample(np.array([[2], [3], [5]]), rng.uniform(0.5, 3.0, size=(2, 1, 4)))
        yield Sample(2.5, np.empty((0, 3)))

    lower = _TABLES


# ---- logarithms that are 0 where their factor is, and sin(x) / x


class Entr(FloatingFunction):
    """-x * log(x): what an outcome of probability x adds to the entropy; 0 at 0, -inf below.

    >>> ex.special.entr(ex.tensor([0.0, 0.25, 0.5]))
    tensor([0.0000, 0.3466, 0.3466])
    """

    numpy = staticmethod(kernels.entr)
    name = "special_entr"
    low, high = 0.2, 2.0

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (-g * (ops.log(x) + 1.0),)

    @staticmethod
    def lower(e: Any, x: Any) -> Any:
        inside = e.neg(e.mul(x, e.log(x)))
        return e.where(e.eq(x, 0.0), 0.0, e.where(e.lt(x, 0.0), -math.inf, inside))


class Xlogy(Elementwise):
    """input * log(other), and 0 where input is 0.

    >>> ex.xlogy(ex.tensor([0.0, 2.0]), ex.tensor([0.0, 3.0]))
    tensor([0.0000, 2.1972])
    """

    to_float = True
    numpy = staticmethod(kernels.xlogy)

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor, other: Tensor) -> tuple[Any, ...]:
        unused = ops.logical_and(ops.eq(x, 0), ops.le(other, 0))  # where the logarithm is not asked for
        return ops.where(unused, 0.0, g * ops.log(other)), g * x / other

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield from samples_binary(rng, 0.3, 2.0)
        yield Sample(2.0, rng.uniform(0.3, 2.0, size=(3,)))

    @staticmethod
    def lower(e: Any, x: Any, other: Any) -> Any:
        nothing = e.logical_and(e.eq(x, 0.0), e.eq(other, other))
        return e.where(nothing, 0.0, e.mul(x, e.log(other)))


class Xlog1py(Elementwise):
    """input * log1p(other), and 0 where input is 0.

    >>> ex.special.xlog1py(ex.tensor([0.0, 2.0]), ex.tensor([-1.0, 2.0]))
    tensor([0.0000, 2.1972])
    """

    name = "special_xlog1py"
    to_float = True
    numpy = staticmethod(kernels.xlog1py)

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor, other: Tensor) -> tuple[Any, ...]:
        nothing = ops.logical_and(ops.eq(x, 0), ops.le(other, -1))
        return ops.where(nothing, 0.0, g * ops.log1p(other)), g * x / (other + 1.0)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield from samples_binary(rng, 0.3, 2.0)
        yield Sample(2.0, rng.uniform(0.3, 2.0, size=(3,)))

    @staticmethod
    def lower(e: Any, x: Any, other: Any) -> Any:
        nothing = e.logical_and(e.eq(x, 0.0), e.eq(other, other))
        return e.where(nothing, 0.0, e.mul(x, e.log1p(other)))


class Sinc(_TableFunction):
    """sin(pi * x) / (pi * x), and 1 at 0.

    >>> ex.sinc(ex.tensor([0.0, 0.5, 1.5]))
    tensor([ 1.0000,  0.6366, -0.2122])
    """

    numpy = staticmethod(kernels.sinc)
    low, high = 0.2, 2.0

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (ops.where(ops.eq(x, 0), 0.0, g * ((ops.cos(x * math.pi) - y) / x)),)


# ---- Bessel functions


class I0(_TableFunction):
    """The modified Bessel function of the first kind and order 0.

    >>> ex.i0(ex.tensor([0.0, 1.0, 2.0]))
    tensor([1.0000, 1.2661, 2.2796])
    """

    numpy = staticmethod(bessel.i0)

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * i1(x),)


class I0e(_TableFunction):
    """exp(-|x|) * i0(x).

    >>> ex.special.i0e(ex.tensor([0.0, 1.0, 100.0]))
    tensor([1.0000, 0.4658, 0.0399])
    """

    numpy = staticmethod(bessel.i0e)
    name = "special_i0e"

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * (i1e(x) - ops.sign(x) * y),)


class I1(_TableFunction):
    """The modified Bessel function of the first kind and order 1.

    >>> ex.special.i1(ex.tensor([0.0, 1.0, 2.0]))
    tensor([0.0000, 0.5652, 1.5906])
    """

    numpy = staticmethod(bessel.i1)
    name = "special_i1"
    low, high = 0.2, 2.0

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (ops.where(ops.eq(x, 0), g * 0.5, g * (i0(x) - y / x)),)


class I1e(_TableFunction):
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


class BesselJ0(_TableFunction):
    """The Bessel function of the first kind and order 0.

    >>> ex.special.bessel_j0(ex.tensor([0.0, 1.0, 2.0]))
    tensor([1.0000, 0.7652, 0.2239])
    """

    numpy = staticmethod(bessel.bessel_j0)
    name = "special_bessel_j0"

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (-g * bessel_j1(x),)


class BesselJ1(_TableFunction):
    """The Bessel function of the first kind and order 1.

    >>> ex.special.bessel_j1(ex.tensor([0.0, 1.0, 2.0]))
    tensor([0.0000, 0.4401, 0.5767])
    """

    numpy = staticmethod(bessel.bessel_j1)
    name = "special_bessel_j1"
    low, high = 0.2, 2.0

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (ops.where(ops.eq(x, 0), g * 0.5, g * (bessel_j0(x) - y / x)),)


class BesselY0(_TableFunction):
    """The Bessel function of the second kind and order 0.

    >>> ex.special.bessel_y0(ex.tensor([0.5, 1.0, 2.0]))
    tensor([-0.4445,  0.0883,  0.5104])
    """

    numpy = staticmethod(bessel.bessel_y0)
    name = "special_bessel_y0"
    low, high = 0.3, 3.0

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (-g * bessel_y1(x),)


class BesselY1(_TableFunction):
    """The Bessel function of the second kind and order 1.

    >>> ex.special.bessel_y1(ex.tensor([0.5, 1.0, 2.0]))
    tensor([-1.4715, -0.7812, -0.1070])
    """

    numpy = staticmethod(bessel.bessel_y1)
    name = "special_bessel_y1"
    low, high = 0.3, 3.0

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * (bessel_y0(x) - y / x),)


class ModifiedBesselK0(_TableFunction):
    """The modified Bessel function of the second kind and order 0.

    >>> ex.special.modified_bessel_k0(ex.tensor([0.5, 1.0, 2.0]))
    tensor([0.9244, 0.4210, 0.1139])
    """

    numpy = staticmethod(bessel.modified_bessel_k0)
    name = "special_modified_bessel_k0"
    low, high = 0.3, 3.0

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (-g * modified_bessel_k1(x),)


class ModifiedBesselK1(_TableFunction):
    """The modified Bessel function of the second kind and order 1.

    >>> ex.special.modified_bessel_k1(ex.tensor([0.5, 1.0, 2.0]))
    tensor([1.6564, 0.6019, 0.1399])
    """

    numpy = staticmethod(bessel.modified_bessel_k1)
    name = "special_modified_bessel_k1"
    low, high = 0.3, 3.0

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (-g * (modified_bessel_k0(x) + y / x),)


class ScaledModifiedBesselK0(_TableFunction):
    """exp(x) * modified_bessel_k0(x).

    >>> ex.special.scaled_modified_bessel_k0(ex.tensor([0.5, 1.0, 100.0]))
    tensor([1.5241, 1.1445, 0.1252])
    """

    numpy = staticmethod(bessel.scaled_modified_bessel_k0)
    name = "special_scaled_modified_bessel_k0"
    low, high = 0.3, 3.0

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * (y - scaled_modified_bessel_k1(x)),)


class ScaledModifiedBesselK1(_TableFunction):
    """exp(x) * modified_bessel_k1(x).

    >>> ex.special.scaled_modified_bessel_k1(ex.tensor([0.5, 1.0, 100.0]))
    tensor([2.7310, 1.6362, 0.1258])
    """

    numpy = staticmethod(bessel.scaled_modified_bessel_k1)
    name = "special_scaled_modified_bessel_k1"
    low, high = 0.3, 3.0

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g * (y - y / x - scaled_modified_bessel_k0(x)),)


class SphericalBesselJ0(_TableFunction):
    """sin(x) / x, and 1 at 0.

    >>> ex.special.spherical_bessel_j0(ex.tensor([0.0, 1.0, 2.0]))
    tensor([1.0000, 0.8415, 0.4546])
    """

    numpy = staticmethod(bessel.spherical_bessel_j0)
    name = "special_spherical_bessel_j0"
    low, high = 0.2, 2.0

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (ops.where(ops.eq(x, 0), 0.0, g * ((ops.cos(x) - y) / x)),)


class AiryAi(_TableFunction):
    """The Airy function Ai.

    >>> ex.special.airy_ai(ex.tensor([-1.0, 0.0, 1.0]))
    tensor([0.5356, 0.3550, 0.1353])
    """

    numpy = staticmethod(bessel.airy_ai)
    name = "special_airy_ai"
    vjp = Refuse("the derivative of Ai is not among the functions here")


# ---- orthogonal polynomials


class _Polynomial(Elementwise, abstract=True):
    """A polynomial at `input` whose degree is `n`."""

    to_float = True
    vjp = Refuse("these polynomials are evaluated only, as in PyTorch")

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.uniform(-1.0, 1.0, size=(3, 4)), rng.integers(0, 6, size=(4,)).astype(float))
        yield Sample(rng.uniform(-1.0, 1.0, size=(3,)), 4)
        yield Sample(0.5, rng.integers(0, 6, size=()).astype(float))
        yield Sample(np.empty((0, 3)), 2)

    lower = _TABLES


def _polynomial(kernel: Callable[..., Any]) -> Callable[..., Tensor]:
    """The op and the function of one family of polynomials."""
    name = kernel.__name__
    aspects = {"__doc__": kernel.__doc__, "__module__": __name__, "name": f"special_{name}"}
    op = type("".join(map(str.title, name.split("_"))), (_Polynomial,), aspects | {"numpy": staticmethod(kernel)})
    run = runner2(op)

    def fn(input: Operand, n: Operand, *, out: Tensor | None = None) -> Tensor:
        return run(input, n) if out is None else deliver(run(input, n), out)

    return _named(fn, name, kernel.__doc__)


def _of_one(op: type[Elementwise]) -> Callable[..., Tensor]:
    """The function of an op that PyTorch has in `special` only: tensors get no method of it."""
    return _named(runner1(op, deliver), op.name.removeprefix("special_"), op.__doc__)


def _of_two(op: type[Elementwise]) -> Callable[..., Tensor]:
    """`_of_one` for a function of two operands."""
    run = runner2(op)

    def fn(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
        return run(input, other) if out is None else deliver(run(input, other), out)

    return _named(fn, op.name.removeprefix("special_"), op.__doc__)


def _named(fn: Callable[..., Tensor], name: str, text: str | None) -> Callable[..., Tensor]:
    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = text
    return fn


erf, erfc, erfinv = unary(Erf), unary(Erfc), unary(Erfinv)
lgamma, digamma = unary(Lgamma), unary(Digamma)
igamma, igammac = binary(Igamma), binary(Igammac)
xlogy, sinc, i0 = binary(Xlogy), unary(Sinc), unary(I0)

erfcx, ndtri, log_ndtr, entr = _of_one(Erfcx), _of_one(Ndtri), _of_one(LogNdtr), _of_one(Entr)
zeta, xlog1py = _of_two(Zeta), _of_two(Xlog1py)
i0e, i1, i1e = _of_one(I0e), _of_one(I1), _of_one(I1e)
bessel_j0, bessel_j1 = _of_one(BesselJ0), _of_one(BesselJ1)
bessel_y0, bessel_y1 = _of_one(BesselY0), _of_one(BesselY1)
modified_bessel_i0, modified_bessel_i1 = i0, i1
modified_bessel_k0, modified_bessel_k1 = _of_one(ModifiedBesselK0), _of_one(ModifiedBesselK1)
scaled_modified_bessel_k0 = _of_one(ScaledModifiedBesselK0)
scaled_modified_bessel_k1 = _of_one(ScaledModifiedBesselK1)
spherical_bessel_j0, airy_ai = _of_one(SphericalBesselJ0), _of_one(AiryAi)

chebyshev_polynomial_t = _polynomial(orthogonal.chebyshev_polynomial_t)
chebyshev_polynomial_u = _polynomial(orthogonal.chebyshev_polynomial_u)
chebyshev_polynomial_v = _polynomial(orthogonal.chebyshev_polynomial_v)
chebyshev_polynomial_w = _polynomial(orthogonal.chebyshev_polynomial_w)
shifted_chebyshev_polynomial_t = _polynomial(orthogonal.shifted_chebyshev_polynomial_t)
shifted_chebyshev_polynomial_u = _polynomial(orthogonal.shifted_chebyshev_polynomial_u)
shifted_chebyshev_polynomial_v = _polynomial(orthogonal.shifted_chebyshev_polynomial_v)
shifted_chebyshev_polynomial_w = _polynomial(orthogonal.shifted_chebyshev_polynomial_w)
hermite_polynomial_h = _polynomial(orthogonal.hermite_polynomial_h)
hermite_polynomial_he = _polynomial(orthogonal.hermite_polynomial_he)
laguerre_polynomial_l = _polynomial(orthogonal.laguerre_polynomial_l)
legendre_polynomial_p = _polynomial(orthogonal.legendre_polynomial_p)


def ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The probability that a standard normal variable stays below each element.

    >>> ex.special.ndtr(ex.tensor([-1.0, 0.0, 1.0]))
    tensor([0.1587, 0.5000, 0.8413])
    """
    return deliver(erfc(input * -math.sqrt(0.5)) * 0.5, out)


def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of digamma.

    >>> ex.polygamma(1, ex.tensor([1.0, 2.0]))
    tensor([1.6449, 0.6449])
    """
    if n < 0:
        raise DtypeError(f"polygamma: n counts derivatives and must not be negative, got {n}")
    return deliver(apply(Polygamma, (n, input)), out)


def _polygamma_method(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma at each element."""
    return polygamma(n, self)


method(_polygamma_method, "polygamma")
inplace_method("polygamma_", _polygamma_method)


@method
def mvlgamma(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension `p`.

    >>> ex.mvlgamma(ex.tensor([2.0, 3.0]), p=2)
    tensor([0.4516, 1.5502])
    """
    if p < 1:
        raise ShapeError(f"mvlgamma: p is a dimension and must be at least 1, got {p}")
    result: Tensor | Number = p * (p - 1) / 4 * math.log(math.pi)
    for j in range(p):
        result = result + lgamma(input - j / 2)
    return deliver(result, out)


inplace_method("mvlgamma_", mvlgamma)
