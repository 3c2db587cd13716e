"""Sine and cosine on float32 lanes: small and huge angles, zeros, infinities, and lanes that differ."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.lanes import trigonometry

from ..lane_kernels import Kernel, ulps

FUNCTIONS = {"sin": np.sin, "cos": np.cos}


def of(name):
    return Kernel(lambda e, values: [getattr(trigonometry, name)(e.b, *values)], [np.float32], [np.float32])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_angles_of_every_size_are_right_to_an_ulp_and_a_half(name):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-10, 10, 2000), rng.normal(size=500) * 10.0 ** rng.uniform(-30, 9, 500)])
    x = x.astype(np.float32)
    assert ulps(of(name)(x), FUNCTIONS[name](x.astype(np.float64))).max() <= 1.5


@pytest.mark.parametrize("name", FUNCTIONS)
def test_angles_beyond_the_limit_are_the_c_librarys_beside_small_ones(name):
    x = np.array([1e30, 0.5, -(2.0**31), 2.0**30, 3e38, 1.0, 2.0**40, -0.25], np.float32)
    assert ulps(of(name)(x), FUNCTIONS[name](x.astype(np.float64))).max() <= 1.5
    alone = np.array([of(name)(x[i : i + 1])[0] for i in range(len(x))])
    np.testing.assert_array_equal(of(name)(x), alone)


def test_the_sine_keeps_the_sign_of_zero_and_infinity_has_none():
    got = of("sin")(np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32))
    assert np.signbit(got[:2]).tolist() == [False, True]
    assert np.isnan(got[2:]).all()
    assert of("cos")(np.zeros(1, np.float32))[0] == 1.0
