"""Gamma-distributed draws that have a gradient with respect to their concentration.

A draw z of concentration a keeps its probability P(a, z) when a moves, so dz/da = -(dP/da) / (dP/dz): the implicit
reparameterisation of Figurnov, Mohamed and Mnih (2018). Here it is d log(z) / da, a function of a and log(z), so that
draws too small for their dtype still have their gradient.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..backends.numpy import philox
from ..backends.numpy import special as kernels
from ..core.op import GRADIENTS_ONLY, Elementwise, Op, Refuse, Rng, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..dispatch.dispatcher import apply
from ..errors import DtypeError
from ..random import take_draw
from .draws import DrawOf
from .transcendental import log

__all__ = ["log_standard_gamma", "standard_gamma"]

_NEGLIGIBLE = 37.0  # exp(-37) is below the rounding of float64


@functools.cache  # not at import, which would load numpy.polynomial
def _quadrature() -> tuple[Array, Array]:
    """Nodes and weights of Gauss and Legendre: 1e-13 over the decay that is integrated; 32 of them leave 1e-10."""
    return np.polynomial.legendre.leggauss(40)


def _by_series(a: Array, log_z: Array) -> Array:
    """For z <= 1, from the power series of P, differentiated term by term."""
    z = np.exp(log_z)
    term = 1.0 / a
    digamma = kernels.digamma(a + 1.0)
    total = term * (digamma - log_z)
    for n in range(1, 20):  # z**n / n! is below 1e-17 from there on
        term = term * (z / (a + n))
        digamma = digamma + 1.0 / (a + n)
        total += term * (digamma - log_z)
    return total


def _by_quadrature(a: Array, log_z: Array) -> Array:
    """For z > 1: the integral of t**(a - 1) * exp(-t) * (log(t) - digamma(a)) over the side of z without the mode.

    With t = z * exp(side * u) the integrand falls from u = 0 on like exp(-decay(u)), decay(u) = |a - z| * u + z *
    (exp(side * u) - 1 - side * u), and is integrated up to where nothing is left.
    """
    z = np.exp(log_z)
    side = np.where(z > a, 1.0, -1.0)
    slope = np.abs(a - z)

    def bend(u: Array) -> Array:  # exp(v) - 1 - v without cancellation at small v
        v = side * u
        near_zero = v * v * (0.5 + v * (1 / 6 + v * (1 / 24 + v * (1 / 120 + v / 720))))
        return np.where(np.abs(v) < 1e-2, near_zero, np.expm1(v) - v)

    end = 2.0 * _NEGLIGIBLE / (slope + np.sqrt(slope * slope + 2.0 * _NEGLIGIBLE * z))
    for _ in range(6):  # Newton on a convex function: from the second step on it comes down from above
        growth = slope + z * side * np.expm1(side * end)
        end = end - (slope * end + z * bend(end) - _NEGLIGIBLE) / growth
    offset = side * (log_z - kernels.digamma(a))
    total = np.zeros_like(z)
    for node, weight in zip(*_quadrature(), strict=True):
        u = end * (0.5 * (1.0 + node))
        total += (0.5 * weight) * np.exp(-slope * u - z * bend(u)) * (offset + u)
    return total * end


@kernels.special_function
def log_sample_gradient(a: Array, log_z: Array) -> Array:
    """d log(z) / da of a gamma-distributed z of concentration a and scale 1; NaN unless a > 0 and both are finite."""
    inside = (a > 0.0) & np.isfinite(a) & np.isfinite(log_z)
    return kernels.by_region(
        (a, log_z), [(inside & (log_z <= 0.0), _by_series), (inside & (log_z > 0.0), _by_quadrature)]
    )


class LogGammaDrawGradient(Elementwise):
    """d log(z) / da of a gamma-distributed z of concentration a and scale 1, at (a, log(z))."""

    domain = "f"
    numpy = staticmethod(log_sample_gradient)
    vjp = Refuse("the second derivative of a gamma draw is not known; detach() the gradient of the sample")

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.uniform(0.2, 4.0, size=(3, 4)), rng.uniform(-2.0, 2.0, size=(3, 4)))
        yield Sample(rng.uniform(20.0, 40.0, size=(2, 1)), rng.uniform(2.0, 4.0, size=3))
        yield Sample(np.empty((0, 3)), rng.uniform(-2.0, 2.0, size=3))

    lower = Refuse("its regions and tables are NumPy code; no training loop waits for it")
    onnx = GRADIENTS_ONLY


class StandardGamma(DrawOf):
    """Gamma-distributed numbers of scale 1 and the concentrations that the tensor holds."""

    saves = ("y x",)
    samples = Refuse("the gradient holds the probability of a draw fixed, where finite differences redraw it")
    numpy = staticmethod(lambda x, seed, draw: philox.gamma(seed, draw, x))

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, seed: Any, draw: Any) -> tuple[Any, ...]:
        return g * y * apply(LogGammaDrawGradient, (x, log(y))), None, None


class LogStandardGamma(DrawOf):
    """Logarithms of gamma-distributed numbers, finite also where the number itself is too small for the dtype."""

    saves = ("y x",)
    samples = StandardGamma.samples
    vjp = staticmethod(lambda g, y, x, seed, draw: (g * apply(LogGammaDrawGradient, (x, y)), None, None))

    @staticmethod
    def numpy(x: Array, seed: int, draw: int) -> Array:
        a = np.asarray(x, np.float64)
        # Below 1, gamma(a) is gamma(a + 1) * u ** (1 / a). From 1 on, philox.gamma leaves the counters of u unused.
        small = (a > 0) & (a < 1)
        drawn = np.asarray(np.log(philox.gamma(seed, draw, np.where(small, a + 1, a))))
        drawn[small] -= philox.exponential(seed, draw, a.shape, np.float64)[small] / a[small]
        return drawn.astype(x.dtype)


def _drawn(op: type[Op], concentration: Tensor) -> Tensor:
    if not concentration.is_floating_point():
        raise DtypeError(f"{op.name}: expected a floating concentration, got {concentration.dtype}; use x.float()")
    return apply(op, (concentration, *take_draw()))


def standard_gamma(concentration: Tensor) -> Tensor:
    """One draw of scale 1 for each concentration; the gradient is that of the draw at a fixed probability."""
    return _drawn(StandardGamma, concentration)


def log_standard_gamma(concentration: Tensor) -> Tensor:
    """The logarithm of one draw of scale 1 for each concentration, with the same kind of gradient."""
    return _drawn(LogStandardGamma, concentration)
