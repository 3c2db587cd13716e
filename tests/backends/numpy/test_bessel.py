"""Bessel and Airy functions: identities between them, zeros, limits and scaled forms."""

import math

import numpy as np
import pytest

from .functions import INF, assert_close, at


def test_bessel_functions_have_their_wronskians():
    x = np.concatenate([np.linspace(0.01, 40.0, 2_001), np.geomspace(1e-5, 500.0, 300)])
    j0, j1, y0, y1 = (at(f"bessel_{kind}", x) for kind in ("j0", "j1", "y0", "y1"))
    assert_close(j1 * y0 - j0 * y1, 2.0 / (math.pi * x))
    i0, i1, k0, k1 = (at(name, x) for name in ("i0e", "i1e", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1"))
    assert_close(i0 * k1 + i1 * k0, 1.0 / x)


@pytest.mark.parametrize(
    ("plain", "scaled", "sign"),
    [
        ("i0", "i0e", -1),
        ("i1", "i1e", -1),
        ("modified_bessel_k0", "scaled_modified_bessel_k0", 1),
        ("modified_bessel_k1", "scaled_modified_bessel_k1", 1),
    ],
)
def test_scaled_bessel_function_is_the_plain_one_without_its_exponential(plain, scaled, sign):
    x = np.linspace(0.1, 600.0, 1_001)
    assert_close(at(plain, x) * np.exp(sign * x), at(scaled, x))


def test_bessel_i_is_finite_as_long_as_its_value_is():
    assert np.isfinite(at("i0", 713.0))
    assert at("i0", 714.5) == INF


def test_bessel_j_keeps_its_relative_accuracy_at_its_first_zeros():
    # The derivatives there are -J1(zero) and J0(zero); each zero's float is off by the second number.
    assert_close(at("bessel_j0", 2.404825557695773), -0.51914749729 * 1.176691651530894e-16, relative=1e-6)
    assert_close(at("bessel_j1", 3.8317059702075125), -0.40275939570 * 1.5269184090088067e-16, relative=1e-6)


def test_airy_function_solves_its_differential_equation():
    # y'' = x * y by the eighth-order difference, across every border between two regions.
    x = np.linspace(-12.0, 6.0, 721)
    h = 0.02
    weights = {0: -205 / 72, 1: 8 / 5, 2: -1 / 5, 3: 8 / 315, 4: -1 / 560}
    second = sum(w * (at("airy_ai", x + k * h) + at("airy_ai", x - k * h)) / (1 + (k == 0)) for k, w in weights.items())
    assert_close(second / h**2, x * at("airy_ai", x), relative=1e-9, absolute=1e-9)
