"""Orthogonal polynomials of a point and a degree: ndarrays of one float dtype in, one ndarray of that dtype out.

Names and meanings are those of torch.special: the degree is cut to a whole number, a negative, infinite or NaN degree
gives 0, degree 0 gives 1 also at NaN. dtypes and accuracy are those of `special`. All use their three-term recurrences
(DLMF 18.9), forwards; the Chebyshev kinds use their cosines and sines (DLMF 18.5) for high degrees within [-1, 1].
"""

from collections.abc import Callable

import numpy as np

from extempo.backends.numpy.special import Array, by_region, special_function

# p_k, p_(k-1), k -> p_(k+1)
Advance = Callable[[Array, Array, int], Array]

_RECURRENCE_UP_TO = 8  # above it, one cosine costs less than the steps of the recurrence
_HERMITE_LIMIT = 512  # PyTorch's, for float64: NaN above


def _recur(degree: Array, first: Array, advance: Advance) -> Array:
    """p_degree, given p_1 and the step; p_0 is 1, and a negative degree gives 0."""
    result = np.where(degree < 0.0, 0.0, np.where(degree == 0.0, 1.0, first))
    previous, current = np.ones_like(first), first
    for k in range(1, int(degree.max(initial=0.0))):
        previous, current = current, advance(current, previous, k)
        result = np.where(degree > k, current, result)
    return result


def _whole(n: Array) -> Array:
    return np.where(np.isfinite(n), np.trunc(n), -1.0)


def _chebyshev(
    x: Array, n: Array, first: Callable[[Array], Array], cosine_form: Callable[[Array, Array], Array]
) -> Array:
    degree = _whole(n)
    oscillating = (np.abs(x) < 1.0) & (degree > _RECURRENCE_UP_TO)

    def by_recurrence(x: Array, degree: Array) -> Array:
        return _recur(degree, first(x), lambda current, previous, k: (x + x) * current - previous)

    return by_region((x, degree), [(oscillating, cosine_form), (~oscillating, by_recurrence)])


def _alternating(degree: Array) -> Array:
    return 1.0 - 2.0 * np.remainder(degree, 2.0)


def _parity(x: Array, degree: Array) -> Array:
    """(-1) ** degree where x < 0, else 1: lets the angle stay in [0, pi/2], where its sine does not cancel."""
    return np.where(x < 0.0, _alternating(degree), 1.0)


def _cosine_t(x: Array, degree: Array) -> Array:
    return _parity(x, degree) * np.cos(degree * np.arccos(np.abs(x)))


def _cosine_u(x: Array, degree: Array) -> Array:
    angle = np.arccos(np.abs(x))
    return _parity(x, degree) * np.sin((degree + 1.0) * angle) / np.sin(angle)


def _cosine_v(x: Array, degree: Array) -> Array:
    angle = np.arccos(np.abs(x))
    third = np.cos((degree + 0.5) * angle) / np.cos(0.5 * angle)
    fourth = np.sin((degree + 0.5) * angle) / np.sin(0.5 * angle)
    return _parity(x, degree) * np.where(x < 0.0, fourth, third)


def _cosine_w(x: Array, degree: Array) -> Array:
    return _alternating(degree) * _cosine_v(-x, degree)


@special_function
def chebyshev_polynomial_t(x: Array, n: Array) -> Array:
    """The Chebyshev polynomial of the first kind.

    >>> ex.special.chebyshev_polynomial_t(ex.tensor([0.25, 1.0]), 2)
    tensor([-0.8750,  1.0000])
    """
    return _chebyshev(x, n, lambda x: x, _cosine_t)


@special_function
def chebyshev_polynomial_u(x: Array, n: Array) -> Array:
    """The Chebyshev polynomial of the second kind.

    >>> ex.special.chebyshev_polynomial_u(ex.tensor([0.25, 1.0]), 2)
    tensor([-0.7500,  3.0000])
    """
    return _chebyshev(x, n, lambda x: x + x, _cosine_u)


@special_function
def chebyshev_polynomial_v(x: Array, n: Array) -> Array:
    """The Chebyshev polynomial of the third kind.

    >>> ex.special.chebyshev_polynomial_v(ex.tensor([0.25, 1.0]), 2)
    tensor([-1.2500,  1.0000])
    """
    return _chebyshev(x, n, lambda x: x + x - 1.0, _cosine_v)


@special_function
def chebyshev_polynomial_w(x: Array, n: Array) -> Array:
    """The Chebyshev polynomial of the fourth kind.

    >>> ex.special.chebyshev_polynomial_w(ex.tensor([0.25, 1.0]), 2)
    tensor([-0.2500,  5.0000])
    """
    return _chebyshev(x, n, lambda x: x + x + 1.0, _cosine_w)


@special_function
def shifted_chebyshev_polynomial_t(x: Array, n: Array) -> Array:
    """chebyshev_polynomial_t(2 * x - 1, n).

    >>> ex.special.shifted_chebyshev_polynomial_t(ex.tensor([0.25, 1.0]), 2)
    tensor([-0.5000,  1.0000])
    """
    return chebyshev_polynomial_t(x + x - 1.0, n)


@special_function
def shifted_chebyshev_polynomial_u(x: Array, n: Array) -> Array:
    """chebyshev_polynomial_u(2 * x - 1, n).

    >>> ex.special.shifted_chebyshev_polynomial_u(ex.tensor([0.25, 1.0]), 3)
    tensor([1., 4.])
    """
    return chebyshev_polynomial_u(x + x - 1.0, n)


@special_function
def shifted_chebyshev_polynomial_v(x: Array, n: Array) -> Array:
    """chebyshev_polynomial_v(2 * x - 1, n).

    >>> ex.special.shifted_chebyshev_polynomial_v(ex.tensor([0.25, 1.0]), 2)
    tensor([1., 1.])
    """
    return chebyshev_polynomial_v(x + x - 1.0, n)


@special_function
def shifted_chebyshev_polynomial_w(x: Array, n: Array) -> Array:
    """chebyshev_polynomial_w(2 * x - 1, n).

    >>> ex.special.shifted_chebyshev_polynomial_w(ex.tensor([0.25, 1.0]), 2)
    tensor([-1.,  5.])
    """
    return chebyshev_polynomial_w(x + x - 1.0, n)


def _hermite(n: Array, first: Array, advance: Advance) -> Array:
    degree = _whole(n)
    result = _recur(np.minimum(degree, _HERMITE_LIMIT), first, advance)
    return np.where(degree > _HERMITE_LIMIT, np.nan, result)


@special_function
def hermite_polynomial_h(x: Array, n: Array) -> Array:
    """The Hermite polynomial of physics; NaN above degree 512.

    >>> ex.special.hermite_polynomial_h(ex.tensor([0.25, 1.0]), 2)
    tensor([-1.7500,  2.0000])
    """
    return _hermite(n, x + x, lambda current, previous, k: (x + x) * current - 2.0 * k * previous)


@special_function
def hermite_polynomial_he(x: Array, n: Array) -> Array:
    """The Hermite polynomial of probability; NaN above degree 512.

    >>> ex.special.hermite_polynomial_he(ex.tensor([0.25, 1.0]), 2)
    tensor([-0.9375,  0.0000])
    """
    return _hermite(n, x, lambda current, previous, k: x * current - k * previous)


@special_function
def laguerre_polynomial_l(x: Array, n: Array) -> Array:
    """The Laguerre polynomial.

    >>> ex.special.laguerre_polynomial_l(ex.tensor([0.25, 1.0]), 2)
    tensor([ 0.5312, -0.5000])
    """
    return _recur(_whole(n), 1.0 - x, lambda current, previous, k: ((2 * k + 1 - x) * current - k * previous) / (k + 1))


@special_function
def legendre_polynomial_p(x: Array, n: Array) -> Array:
    """The Legendre polynomial.

    >>> ex.special.legendre_polynomial_p(ex.tensor([0.25, 1.0]), 2)
    tensor([-0.4062,  1.0000])
    """
    return _recur(_whole(n), x, lambda current, previous, k: ((2 * k + 1) * x * current - k * previous) / (k + 1))
