"""Native random numbers: the bits of the NumPy generator, with guards around everything that is written."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.routines import draws
from extempo.core.op import REGISTRY
from extempo.core.types import as_dtype

from ..guarded import bind, call

SHAPES = [(), (0,), (1,), (2,), (3,), (5, 3), (31,), (32,), (33,), (64,), (7, 11), (3, 100), (2, 0, 3)]
SEEDS = [(0, 0), (1, 2), (-1, 2**62), (-(2**63), 12345678901)]


def drawn(name, *numbers, shape, dtype):
    (got,) = call(name, *numbers, shape=shape, dtype=as_dtype(dtype))
    return got


def wanted(name, *numbers, shape, dtype):
    return np.asarray(REGISTRY[name].numpy(*numbers, shape=shape, dtype=as_dtype(dtype)))


def expect(name, *numbers, shape, dtype):
    got, want = (f(name, *numbers, shape=shape, dtype=dtype) for f in (drawn, wanted))
    assert got.dtype == want.dtype
    assert got.shape == shape
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform_numbers_have_the_bits_of_numpy(dtype):
    for shape in SHAPES:
        for seed, draw in SEEDS:
            expect("random_uniform", seed, draw, 0.0, 1.0, shape=shape, dtype=dtype)
            expect("random_uniform", seed, draw, -3.0, 2.5, shape=shape, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("low", "high"), [(1.0, 1.0), (-1e-30, 0.0), (1.0, 1.0000001), (-5.0, -4.9999995), (0.0, 1e-40), (1e30, 1.0001e30)]
)
def test_the_end_of_an_interval_is_never_drawn(low, high, dtype):
    expect("random_uniform", 1, 2, low, high, shape=(3000,), dtype=dtype)


def test_a_large_draw_is_shared_without_changing_a_bit():
    shape = (3, 40_001)
    bound = bind("random_uniform", (1, 2, 0.0, 1.0), {"shape": shape, "dtype": as_dtype("float32")})
    assert bound.meta[0] > 1
    for dtype in ("float32", "float64"):
        expect("random_uniform", 5, 6, 0.0, 1.0, shape=shape, dtype=dtype)


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 2), (-3, 4), (10, 1000), (-(2**31), 2**31 - 1), (0, 3 * 2**29)])
def test_whole_numbers_have_the_bits_of_numpy(low, high, dtype):
    for shape in SHAPES:
        for seed, draw in SEEDS:
            expect("random_integer", seed, draw, low, high, shape=shape, dtype=dtype)


@pytest.mark.parametrize(("low", "high"), [(0, 2**62), (-(2**62), 2**62), (-(2**63), -(2**63)), (0, -(2**63)), (5, 4)])
def test_whole_numbers_from_any_interval_are_counted_modulo_64_bits(low, high):
    expect("random_integer", 1, 2, low, high, shape=(100,), dtype="int64")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "bool"])
@pytest.mark.parametrize("p", [0.0, 2.0**-33, 2.0**-32, 0.1, 0.5, 0.75, 1.0 - 2.0**-32, 1.0 - 2.0**-40, 1.0])
def test_coins_have_the_bits_of_numpy(p, dtype):
    for shape in SHAPES:
        expect("random_coin", 1, 2, p, shape=shape, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9])
def test_dropout_noise_has_the_bits_of_numpy(p, dtype):
    for shape in SHAPES:
        expect("random_keep", 1, 2, p, 1.0 / (1.0 - p), shape=shape, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_numbers_are_those_of_numpy_to_a_few_units_of_the_radius(dtype):
    for shape in SHAPES:
        for seed, draw in SEEDS:
            got, want = (f("random_normal", seed, draw, shape=shape, dtype=dtype) for f in (drawn, wanted))
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=0, atol=8 * np.finfo(dtype).eps * 4)
    got, want = (f("random_normal", 3, 4, shape=(200_000,), dtype=dtype).reshape(-1, 2) for f in (drawn, wanted))
    radius = np.hypot(want[:, :1], want[:, 1:])
    assert (np.abs(got - want) <= 3 * np.finfo(dtype).eps * radius).all()


def test_sines_and_cosines_of_all_quadrants_are_exact_to_a_unit():
    # Box and Muller with the radius divided out again.
    pairs = drawn("random_normal", 7, 8, shape=(100_000,), dtype="float32").reshape(-1, 2).astype(np.float64)
    exact = wanted("random_normal", 7, 8, shape=(100_000,), dtype="float32").reshape(-1, 2).astype(np.float64)
    angles = np.arctan2(pairs[:, 1], pairs[:, 0]), np.arctan2(exact[:, 1], exact[:, 0])
    difference = np.abs((angles[0] - angles[1] + np.pi) % (2 * np.pi) - np.pi)
    assert difference.max() < 4e-7


def test_dtypes_without_native_draws_are_left_to_numpy():
    for dtype in ("float16", "bfloat16"):
        attrs = {"shape": (3,), "dtype": as_dtype(dtype)}
        assert bind("random_uniform", (1, 2, 0.0, 1.0), attrs) is None
        assert bind("random_normal", (1, 2), attrs) is None
    assert draws.LANES == 8
