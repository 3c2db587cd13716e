"""Orthogonal polynomials: NumPy's values, relations between kinds, ends of the interval and odd degrees."""

import numpy as np
import pytest

from .functions import INF, NAN, POLYNOMIALS, assert_close, at

# Orthogonal polynomials

POINTS = np.array([-1.75, -1.0, -0.999, -0.6, -1e-9, 0.0, 0.3, 0.5, 0.97, 1.0, 1.25])
DEGREES = np.array([0.0, 1.0, 2.0, 3.0, 8.0, 9.0, 10.0, 33.0])


@pytest.mark.parametrize(
    ("name", "evaluate"),
    [
        ("chebyshev_polynomial_t", np.polynomial.chebyshev.chebval),
        ("hermite_polynomial_h", np.polynomial.hermite.hermval),
        ("hermite_polynomial_he", np.polynomial.hermite_e.hermeval),
        ("laguerre_polynomial_l", np.polynomial.laguerre.lagval),
        ("legendre_polynomial_p", np.polynomial.legendre.legval),
    ],
)
def test_polynomial_agrees_with_numpy(name, evaluate):
    expected = np.stack([evaluate(POINTS, [0.0] * int(n) + [1.0]) for n in DEGREES])
    assert_close(at(name, POINTS, DEGREES[:, None]), expected, relative=1e-12, absolute=1e-13)


def test_chebyshev_kinds_are_related():
    x, n = POINTS, DEGREES[1:, None]
    t, u, v, w = (at(f"chebyshev_polynomial_{kind}", x, n) for kind in "tuvw")
    lower = at("chebyshev_polynomial_u", x, n - 1.0)
    assert_close(t, u - x * lower, relative=1e-12, absolute=1e-12)
    assert_close(v, u - lower, relative=1e-12, absolute=1e-12)
    assert_close(w, u + lower, relative=1e-12, absolute=1e-12)


@pytest.mark.parametrize("kind", list("tuvw"))
def test_shifted_chebyshev_polynomial_moves_the_interval(kind):
    plain = at(f"chebyshev_polynomial_{kind}", POINTS, DEGREES[:, None])
    assert_close(at(f"shifted_chebyshev_polynomial_{kind}", 0.5 * POINTS + 0.5, DEGREES[:, None]), plain, 1e-6, 1e-12)


@pytest.mark.parametrize("kind", list("uvw"))
def test_chebyshev_polynomial_stays_accurate_beside_the_ends_of_the_interval(kind):
    gap = np.geomspace(1e-16, 1e-10, 30)
    for end in (-1.0, 1.0):
        beside, there = (at(f"chebyshev_polynomial_{kind}", x, 20.0) for x in (end * (1.0 - gap), end))
        assert_close(beside, there, relative=1e-6)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_degree_is_cut_to_a_whole_number_and_gives_zero_below_zero(name):
    x = np.array([-0.5, 0.3, 2.0])
    np.testing.assert_array_equal(at(name, x, 2.9), at(name, x, 2.0))
    np.testing.assert_array_equal(at(name, x, -0.5), np.ones(3))
    for degree in (-1.0, -INF, NAN):
        np.testing.assert_array_equal(at(name, x, degree), np.zeros(3))
    assert at(name, NAN, 0.0) == 1.0
    assert np.isnan(at(name, NAN, 3.0))


def test_hermite_polynomials_refuse_degrees_above_their_limit():
    assert np.isnan(at("hermite_polynomial_h", 0.5, 513.0))
    assert np.isnan(at("hermite_polynomial_he", 0.5, 1e9))
