"""Special functions by name, on arrays of float64."""

import math

import numpy as np

from extempo.backends.numpy import bessel, orthogonal, special

INF, NAN = math.inf, math.nan

POLYNOMIALS = [
    *(f"{shift}chebyshev_polynomial_{kind}" for shift in ("", "shifted_") for kind in "tuvw"),
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
]


def function(name):
    if name.startswith("polygamma_"):
        return lambda x: special.polygamma(int(name.removeprefix("polygamma_")), x)
    return next(getattr(module, name) for module in (special, bessel, orthogonal) if hasattr(module, name))


def at(name, *arguments):
    return function(name)(*(np.asarray(argument, dtype=np.float64) for argument in arguments))


def assert_close(actual, expected, relative=1e-14, absolute=0.0):
    np.testing.assert_allclose(actual, expected, rtol=relative, atol=absolute)
