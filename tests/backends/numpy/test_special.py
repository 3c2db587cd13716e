"""The special functions: known values, identities across the borders of their regions, limits, dtypes and shapes."""

import math
import warnings

import ml_dtypes
import numpy as np
import pytest

from extempo.backends.numpy import orthogonal, special

from .functions import INF, NAN, POLYNOMIALS, assert_close, at, function

DTYPES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), np.dtype(np.float64)]

# What each function gives at -inf, -0, 0 and inf; at NaN all give NaN.
LIMITS = {
    "erf": (-1.0, -0.0, 0.0, 1.0),
    "erfc": (2.0, 1.0, 1.0, 0.0),
    "erfcx": (INF, 1.0, 1.0, 0.0),
    "erfinv": (NAN, -0.0, 0.0, NAN),
    "ndtri": (NAN, -INF, -INF, NAN),
    "log_ndtr": (-INF, -math.log(2.0), -math.log(2.0), -0.0),
    "lgamma": (INF, INF, INF, INF),
    "digamma": (NAN, INF, -INF, INF),
    "entr": (-INF, 0.0, 0.0, -INF),
    "sinc": (NAN, 1.0, 1.0, NAN),
    "i0": (NAN, 1.0, 1.0, NAN),
    "i0e": (0.0, 1.0, 1.0, 0.0),
    "i1": (NAN, 0.0, 0.0, NAN),
    "i1e": (-0.0, 0.0, 0.0, 0.0),
    "bessel_j0": (NAN, 1.0, 1.0, NAN),
    "bessel_j1": (NAN, -0.0, 0.0, NAN),
    "bessel_y0": (NAN, -INF, -INF, NAN),
    "bessel_y1": (NAN, -INF, -INF, NAN),
    "modified_bessel_i0": (NAN, 1.0, 1.0, NAN),
    "modified_bessel_i1": (NAN, 0.0, 0.0, NAN),
    "modified_bessel_k0": (NAN, INF, INF, 0.0),
    "modified_bessel_k1": (NAN, INF, INF, 0.0),
    "scaled_modified_bessel_k0": (NAN, INF, INF, 0.0),
    "scaled_modified_bessel_k1": (NAN, INF, INF, 0.0),
    "spherical_bessel_j0": (0.0, 1.0, 1.0, 0.0),
    "airy_ai": (NAN, 0.35502805388781724, 0.35502805388781724, NAN),
}
ONE_OPERAND = list(LIMITS)
TWO_OPERANDS = ["zeta", "gammainc", "gammaincc", "xlogy", "xlog1py"]
POLYGAMMA_ORDERS = [0, 1, 2, 3, 8]


def ulps(actual, expected):
    """The largest distance in units of the last place of the expected value."""
    return np.max(np.abs(actual - expected) / np.spacing(np.abs(expected)))


# Known values, to 17 digits


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("erf", (0.5,), 0.52049987781304654),
        ("erf", (2.0,), 0.99532226501895273),
        ("erfc", (5.0,), 1.5374597944280349e-12),
        ("erfc", (-1.0,), 1.8427007929497149),
        ("erfcx", (10.0,), 0.056140992743822586),
        ("erfcx", (-2.0,), 108.94090438997797),
        ("erfinv", (0.5,), 0.47693627620446987),
        ("erfinv", (-0.96875,), -1.5230194019969561),
        ("ndtri", (0.025,), -1.9599639845400542),
        ("ndtri", (1e-10,), -6.3613409024040562),
        ("log_ndtr", (-30.0,), -454.3212439563432),
        ("log_ndtr", (3.0,), -0.0013508099647481938),
        ("lgamma", (0.25,), 1.2880225246980775),
        ("lgamma", (100.5,), 361.43554046777762),
        ("lgamma", (-1.5,), 0.86004701537648101),
        ("digamma", (1.0,), -0.57721566490153286),
        ("digamma", (0.25,), -4.2274535333762654),
        ("digamma", (30.0,), 3.3844381326855249),
        ("digamma", (-1.5,), 0.70315664064524319),
        ("polygamma_1", (0.5,), 4.9348022005446793),
        ("polygamma_1", (-0.5,), 8.9348022005446793),
        ("polygamma_2", (3.0,), -0.15411380631918857),
        ("polygamma_5", (0.75,), 678.75334287457971),
        ("polygamma_10", (20.0,), -4.5103770549818432e-8),
        ("zeta", (3.0, 1.0), 1.2020569031595943),
        ("zeta", (1.5, 20.0), 0.45287361712938726),
        ("zeta", (3.0, -1.5), 0.1181020258208637),
        ("gammainc", (2.5, 1.0), 0.15085496391539036),
        ("gammainc", (300.0, 280.0), 0.12260728267114314),
        ("gammaincc", (2.5, 10.0), 0.0012497305630313754),
        ("gammaincc", (1e-08, 0.5), 5.5977359770995871e-9),
        ("gammaincc", (300.0, 330.0), 0.044890223870012967),
        ("entr", (0.5,), 0.34657359027997265),
        ("sinc", (0.5,), 0.63661977236758134),
        ("i0", (1.0,), 1.2660658777520083),
        ("i0e", (20.0,), 0.089780311884826022),
        ("i1", (-3.0,), -3.9533702174026094),
        ("i1e", (50.0,), 0.0559931238928954),
        ("bessel_j0", (1.0,), 0.76519768655796655),
        ("bessel_j0", (20.0,), 0.16702466434058315),
        ("bessel_j1", (-2.5,), -0.49709410246427404),
        ("bessel_j1", (30.0,), -0.11875106261662294),
        ("bessel_y0", (2.0,), 0.51037567264974512),
        ("bessel_y0", (15.0,), 0.20546429603891826),
        ("bessel_y1", (0.5,), -1.4714723926702431),
        ("bessel_y1", (9.0,), 0.10431457519671589),
        ("modified_bessel_k0", (0.5,), 0.92441907122766586),
        ("modified_bessel_k0", (10.0,), 1.7780062316167652e-5),
        ("modified_bessel_k1", (0.5,), 1.6564411200033009),
        ("modified_bessel_k1", (4.0,), 0.012483498887268431),
        ("scaled_modified_bessel_k0", (100.0,), 0.12517562165912658),
        ("scaled_modified_bessel_k1", (1.0,), 1.6361534862632582),
        ("spherical_bessel_j0", (2.0,), 0.45464871341284085),
        ("airy_ai", (1.0,), 0.13529241631288142),
        ("airy_ai", (8.0,), 4.6922076160992316e-8),
        ("airy_ai", (-2.5,), -0.11232506769296609),
        ("airy_ai", (-20.0,), -0.17640612707798469),
    ],
)
def test_known_value_is_met(name, arguments, expected):
    assert_close(at(name, *arguments), expected)


# Identities


def test_erf_in_float64_is_within_two_ulps():
    x = np.concatenate([np.linspace(-6.5, 6.5, 20_001), np.geomspace(1e-300, 1.0, 500)])
    expected = np.array([math.erf(value) for value in x])
    assert ulps(special.erf(x), expected) <= 2.0


def test_erf_in_float32_is_within_one_ulp():
    x = np.concatenate([np.linspace(-6.5, 6.5, 20_001), np.geomspace(1e-37, 1.0, 500)]).astype(np.float32)
    expected = np.array([math.erf(value) for value in x], dtype=np.float32)
    assert ulps(special.erf(x), expected) <= 1.0
    assert np.all(special.erf(np.float32([4.0, 5.0, 1e30])) == 1.0)


def test_erfc_keeps_its_relative_accuracy_in_the_tail():
    x = np.linspace(-6.0, 26.0, 5_001)
    assert_close(special.erfc(x), np.array([math.erfc(value) for value in x]), relative=2e-15)
    assert at("erfc", 27.0) > 0.0
    assert at("erfc", 28.0) == 0.0


def test_erfcx_is_erfc_without_its_exponential():
    x = np.linspace(-5.0, 5.0, 1_001)
    assert_close(special.erfcx(x), np.exp(x * x) * special.erfc(x))
    assert_close(at("erfcx", 1e300), 1e-300 / math.sqrt(math.pi))


def test_erfinv_inverts_erf():
    y = np.concatenate([np.linspace(-0.999, 0.999, 2_001), 1.0 - np.geomspace(1e-12, 0.3, 200)])
    assert_close(1.0 - special.erf(special.erfinv(y)), 1.0 - y, relative=1e-14, absolute=3e-16)
    assert_close(special.erfinv(special.erf(np.linspace(-2.0, 2.0, 401))), np.linspace(-2.0, 2.0, 401), 2e-14, 1e-16)


def test_ndtri_inverts_the_normal_distribution_down_to_the_smallest_probabilities():
    p = np.concatenate([np.geomspace(1e-300, 0.5, 1_001), np.linspace(0.5, 0.999, 500)])
    assert_close(np.exp(special.log_ndtr(special.ndtri(p))), p, relative=1e-12)
    assert_close(special.ndtri(p[-500:]), -special.ndtri(1.0 - p[-500:]), relative=1e-13, absolute=1e-16)


def test_lgamma_agrees_with_the_standard_library():
    x = np.concatenate([np.linspace(0.01, 30.0, 5_001), np.geomspace(1e-300, 1e300, 600)])
    expected = np.array([math.lgamma(value) for value in x])
    assert_close(special.lgamma(x), expected, relative=3e-15, absolute=2e-15)  # its own error at the zeros


def test_lgamma_keeps_its_relative_accuracy_at_its_zeros():
    d = np.geomspace(1e-15, 1e-3, 100)
    near_one, near_two = (1.0 + d) - 1.0, (2.0 + 4.0 * d) - 2.0
    assert_close(special.lgamma(1.0 + d) / near_one, -np.euler_gamma + near_one * math.pi**2 / 12, relative=1e-6)
    assert_close(special.lgamma(2.0 + 4.0 * d) / near_two, 1.0 - np.euler_gamma, relative=1e-2)
    assert special.lgamma(np.array([1.0, 2.0])).tolist() == [0.0, 0.0]


def test_lgamma_of_negative_numbers_agrees_with_the_standard_library():
    x = -np.concatenate([np.linspace(0.013, 30.0, 3_001), np.geomspace(1e-300, 0.1, 200)])
    x = x[x != np.floor(x)]
    assert_close(special.lgamma(x), np.array([math.lgamma(value) for value in x]), relative=1e-14, absolute=1e-13)


@pytest.mark.parametrize("order", POLYGAMMA_ORDERS)
def test_polygamma_obeys_its_recurrence(order):
    x = np.concatenate([np.linspace(0.05, 40.0, 801), np.linspace(-8.98, -0.03, 301)])
    step = (-1.0) ** order * math.factorial(order) / x ** (order + 1)
    left, right = special.polygamma(order, x + 1.0), special.polygamma(order, x) + step
    assert np.max(np.abs(left - right) / (np.abs(left) + np.abs(step))) < 1e-13


def test_digamma_keeps_its_relative_accuracy_at_its_root():
    # The nearest float is 9.55e-17 below the root, where the slope is the first factor.
    assert_close(at("digamma", 1.4616321449683622), 0.9676722454 * -9.549995429965697e-17, relative=1e-9)


def test_zeta_of_even_integers_is_a_power_of_pi():
    assert_close(at("zeta", [2.0, 4.0, 6.0], 1.0), [math.pi**2 / 6, math.pi**4 / 90, math.pi**6 / 945])


@pytest.mark.parametrize("x", [1.001, 2.0, 7.5, 40.0])
def test_zeta_loses_one_term_when_q_grows_by_one(x):
    q = np.geomspace(0.01, 500.0, 301)
    assert_close(at("zeta", x, q), at("zeta", x, q + 1.0) + q**-x)


def test_zeta_of_a_negative_q_sums_the_terms_below_zero_too():
    q = -7.25
    for x in (2.0, 3.0, 5.0):
        direct = sum((q + k) ** -x for k in range(8))
        assert_close(at("zeta", x, q), direct + at("zeta", x, q + 8.0))


def test_gammainc_of_one_is_the_exponential_distribution():
    x = np.geomspace(1e-10, 700.0, 501)
    assert_close(at("gammainc", 1.0, x), -np.expm1(-x))
    assert_close(at("gammaincc", 1.0, x), np.exp(-x))


def test_gammainc_of_one_half_is_erf():
    x = np.geomspace(1e-10, 600.0, 501)
    assert_close(at("gammainc", 0.5, x), special.erf(np.sqrt(x)))
    assert_close(at("gammaincc", 0.5, x), special.erfc(np.sqrt(x)), relative=1e-12)


@pytest.mark.parametrize("a", [1e-3, 0.3, 1.7, 9.5, 60.0, 199.0, 200.5, 3e3, 1e6])
def test_incomplete_gamma_functions_agree_across_their_regions(a):
    x = a * np.concatenate([np.linspace(0.2, 3.0, 601), 1.0 + np.linspace(-8.0, 8.0, 201) / math.sqrt(a)])
    x = x[x > 0.0]
    lower, upper = at("gammainc", a, x), at("gammaincc", a, x)
    assert_close(lower + upper, 1.0, relative=4e-15)
    # gammainc(a, x) - gammainc(a + 1, x) is the density below; in its logarithm lgamma(a) is the largest term.
    density = np.exp(a * np.log(x) - x - math.lgamma(a + 1.0))
    assert_close(lower - at("gammainc", a + 1.0, x), density, relative=1e-14 + 1e-14 * a, absolute=4e-15)


def test_incomplete_gamma_functions_are_one_and_zero_at_their_borders():
    #              a, x: 0, 1   1, 0   inf, 1  1, inf  inf, inf  0, 0   -1, 1   1, -1  NaN, 0  inf, NaN
    a = np.array([0.0, 1.0, INF, 1.0, INF, 0.0, -1.0, 1.0, NAN, INF])
    x = np.array([1.0, 0.0, 1.0, INF, INF, 0.0, 1.0, -1.0, 0.0, NAN])
    np.testing.assert_array_equal(special.gammainc(a, x), [1.0, 0.0, 0.0, 1.0, NAN, NAN, NAN, NAN, 0.0, 0.0])
    np.testing.assert_array_equal(special.gammaincc(a, x), [0.0, 1.0, 1.0, 0.0, NAN, NAN, NAN, NAN, 1.0, 1.0])


def test_sinc_is_zero_at_the_integers_and_even():
    integers = np.array([1.0, 2.0, 3.0, 100.0, 1e10, 1e300])
    assert np.all(special.sinc(integers) == 0.0)
    x = np.linspace(0.01, 20.3, 500)
    assert_close(special.sinc(-x), special.sinc(x))
    assert_close(special.sinc(x), np.sinc(x), relative=1e-13, absolute=1e-16)


def test_xlogy_and_xlog1py_are_zero_where_x_is():
    y = np.array([-1.0, 0.0, 1.0, INF, NAN])
    np.testing.assert_array_equal(at("xlogy", 0.0, y), [0.0, 0.0, 0.0, 0.0, NAN])
    np.testing.assert_array_equal(at("xlog1py", 0.0, y), [0.0, 0.0, 0.0, 0.0, NAN])
    assert_close(at("xlogy", 2.0, 3.0), 2.0 * math.log(3.0))
    assert_close(at("xlog1py", 2.0, 1e-20), 2e-20)


# Limits, dtypes, shapes


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ONE_OPERAND)
def test_limits_are_pytorchs(name, dtype):
    result = function(name)(np.array([-INF, -0.0, 0.0, INF, NAN], dtype=dtype))
    np.testing.assert_allclose(result, np.array([*LIMITS[name], NAN], dtype=dtype), rtol=2e-7)
    assert np.array_equal(
        np.signbit(result[:4]) & (result[:4] == 0.0), [str(limit) == "-0.0" for limit in LIMITS[name]]
    )


def test_poles_are_signed_like_pytorchs():
    poles = np.array([-3.0, -1.0, -0.0, 0.0])
    assert special.lgamma(poles).tolist() == [INF, INF, INF, INF]
    np.testing.assert_array_equal(special.digamma(poles), [NAN, NAN, INF, -INF])
    assert special.polygamma(1, poles).tolist() == [INF, INF, INF, INF]
    assert special.polygamma(2, poles).tolist() == [-INF, -INF, -INF, -INF]
    np.testing.assert_array_equal(special.polygamma(1, np.array([-INF, INF])), [NAN, 0.0])
    np.testing.assert_array_equal(special.polygamma(2, np.array([-INF, INF])), [-INF, NAN])


def test_zeta_at_its_borders_is_pytorchs():
    #              pole at x = 1, below it, pole of q, power of a negative, limits of x and of q
    x = np.array([1.0, 1.0, 0.5, 2.0, NAN, 2.5, INF, INF, INF, INF, 2.0])
    q = np.array([3.0, NAN, 1.0, -2.0, 0.0, -0.5, 0.5, 1.0, 2.0, -1.5, INF])
    np.testing.assert_array_equal(special.zeta(x, q), [INF, INF, NAN, INF, INF, NAN, INF, 1.0, NAN, INF, NAN])


@pytest.mark.parametrize("name", ["erf", "erfinv", "sinc", "i1", "bessel_j1"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_denormals_are_not_flushed(name, dtype):
    tiny = np.array([np.finfo(dtype).tiny / 4], dtype=dtype)
    slope = {"erf": 2 / math.sqrt(math.pi), "erfinv": math.sqrt(math.pi) / 2, "i1": 0.5, "bessel_j1": 0.5}
    result = function(name)(tiny)
    expected = tiny.astype(np.float64) * slope[name] if name in slope else [1.0]
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [*ONE_OPERAND, "polygamma_0", "polygamma_1", "polygamma_2"])
def test_one_operand_keeps_dtype_and_shape(name, dtype):
    x = np.linspace(0.05, 0.95, 12).astype(dtype)
    expected = function(name)(x)
    assert isinstance(expected, np.ndarray)
    assert expected.dtype == dtype
    for view in (x.reshape(3, 4), x.reshape(3, 4).T, x[::-2], x[:0].reshape(0, 3), x[3].reshape(())):
        result = function(name)(view)
        assert isinstance(result, np.ndarray)
        assert (result.shape, result.dtype) == (view.shape, dtype)
        np.testing.assert_array_equal(result.ravel(), function(name)(view.ravel()))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [*TWO_OPERANDS, *POLYNOMIALS])
def test_two_operands_broadcast_and_keep_their_dtype(name, dtype):
    first = np.array([[1.25], [2.0], [3.0]], dtype=dtype)
    second = np.array([0.5, 1.0, 2.0, 4.0], dtype=dtype)
    result = function(name)(first, second)
    assert (result.shape, result.dtype) == ((3, 4), dtype)
    assert function(name)(first[:0], second).shape == (0, 4)
    assert function(name)(first[0, 0], second[0]).shape == ()


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
@pytest.mark.parametrize("name", ONE_OPERAND)
def test_half_precision_rounds_the_float32_result(name, dtype):
    x = np.linspace(-3.0, 3.0, 97).astype(dtype)
    rounded = function(name)(x.astype(np.float32)).astype(dtype)
    np.testing.assert_array_equal(function(name)(x).astype(np.float32), rounded.astype(np.float32))


def test_python_numbers_may_stand_for_operands():
    x = np.array([0.5, 2.0], dtype=np.float32)
    assert special.zeta(2.0, x).dtype == np.float32
    assert orthogonal.legendre_polynomial_p(x, 3).dtype == np.float32
    assert special.erf(0.5) == math.erf(0.5)


def test_result_does_not_depend_on_how_many_elements_come_with_it():
    x = np.random.default_rng(0).normal(size=100_003) * 3.0
    for name in ("erf", "lgamma", "bessel_j0"):
        whole = function(name)(x)
        np.testing.assert_array_equal(whole[-1000:], function(name)(x[-1000:]))
        np.testing.assert_array_equal(whole[40_000:40_100], function(name)(x[40_000:40_100]))
    a, y = np.abs(x[:2000]) + 0.1, np.abs(x[2000:4000])
    np.testing.assert_array_equal(special.gammainc(a, y)[:50], special.gammainc(a[:50], y[:50]))


def test_input_is_not_changed():
    x = np.linspace(-2.0, 2.0, 11)
    for name in ONE_OPERAND:
        function(name)(x)
    np.testing.assert_array_equal(x, np.linspace(-2.0, 2.0, 11))


def test_no_warning_escapes_and_the_callers_error_state_is_kept():
    points = np.array([-INF, -1e300, -2.0, -0.0, 0.0, 5e-324, 1.0, 30.0, 1e300, INF, NAN])
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for dtype in DTYPES:
            with np.errstate(all="ignore"):
                x = points.astype(dtype)
            for name in ONE_OPERAND:
                function(name)(x)
            for name in TWO_OPERANDS:
                function(name)(x[:, None], x)
            for name in POLYNOMIALS:
                function(name)(x[:, None], np.array([0.0, 3.0, 12.0], dtype=dtype))
            for order in POLYGAMMA_ORDERS:
                special.polygamma(order, x)
        assert np.geterr()["divide"] == "raise"


def test_integers_are_refused_by_name():
    with pytest.raises(TypeError, match="erf: expects a float dtype, got int64; convert the input first"):
        special.erf(np.array([1, 2], dtype=np.int64))


# PyTorch

# Where PyTorch's own error is larger than the tolerance of the rest (float64): its Bessel functions are off by up to
# 5e-7 above 5, its Airy function by 3e-6 near -2, its incomplete gamma functions by 1e-9 where a is near x.
LOOSE = {
    "airy_ai": 5e-5,
    "bessel_j0": 5e-6,
    "bessel_j1": 5e-6,
    "bessel_y0": 5e-6,
    "bessel_y1": 5e-6,
    "gammainc": 1e-8,
    "gammaincc": 1e-8,
    "polygamma_1": 1e-9,
    "zeta": 1e-9,
}


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="compares with PyTorch; install the conformance extra")


def torch_values(torch, name, *arguments):
    """torch.special's result; NumPy arrays in and out."""
    tensors = [torch.from_numpy(np.ascontiguousarray(argument)) for argument in arguments]
    if name.startswith("polygamma_"):
        return torch.special.polygamma(int(name.removeprefix("polygamma_")), *tensors).numpy()
    return getattr(torch.special, {"lgamma": "gammaln"}.get(name, name))(*tensors).numpy()


def assert_like_torch(torch, name, *arguments):
    actual, expected = function(name)(*arguments), torch_values(torch, name, *arguments)
    assert actual.dtype == expected.dtype
    tolerance = max(1e-11, LOOSE.get(name, 0.0)) if actual.dtype == np.float64 else 2e-5
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * 0.1)


@pytest.mark.conformance
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*ONE_OPERAND, *(f"polygamma_{order}" for order in POLYGAMMA_ORDERS)])
def test_one_operand_agrees_with_pytorch_over_wide_ranges(torch, name, dtype):
    if name in ("erfinv", "ndtri"):
        x = np.concatenate([np.linspace(-0.99, 0.99, 4_001), np.geomspace(1e-30, 1e-3, 101)])
    elif name.startswith("polygamma_"):  # PyTorch's float32 digamma and trigamma lose all digits beside their poles
        x = np.linspace(0.1, 60.0, 2_001)
    elif name == "airy_ai":
        x = np.linspace(-8.0, 15.0, 2_001)
    else:
        x = np.concatenate([np.linspace(0.05, 30.0, 3_001), -np.arange(20) - 0.37, np.geomspace(1e-30, 1.0, 101)])
    assert_like_torch(torch, name, x.astype(dtype))


@pytest.mark.conformance
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", TWO_OPERANDS)
def test_two_operands_agree_with_pytorch_over_wide_ranges(torch, name, dtype):
    first = np.concatenate([np.geomspace(0.01, 500.0, 60), np.linspace(1.5, 30.0, 40)]).astype(dtype)
    second = np.concatenate([np.geomspace(0.01, 500.0, 61), np.linspace(0.5, 30.0, 41)]).astype(dtype)
    if name == "gammaincc" and dtype == np.float32:
        first = first[first > 0.1]  # below, PyTorch's float32 result cancels
    assert_like_torch(torch, name, *(grid.ravel() for grid in np.meshgrid(first, second)))


@pytest.mark.conformance
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_agree_with_pytorch(torch, name):
    x, n = np.meshgrid(np.linspace(-1.5, 1.5, 61), np.arange(-1.0, 16.0))
    assert_like_torch(torch, name, x.ravel(), n.ravel())


@pytest.mark.conformance
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize(
    "name", ["erf", "erfc", "erfinv", "lgamma", "digamma", "i0", "i0e", "i1", "i1e", "entr", "sinc"]
)
def test_half_precision_agrees_with_pytorch_to_one_rounding(torch, name, dtype):
    x = np.linspace(-0.97, 7.0, 401).astype(dtype)
    kind = torch.float16 if dtype == np.float16 else torch.bfloat16
    tensor = torch.from_numpy(x.astype(np.float32)).to(kind)
    expected = getattr(torch.special, {"lgamma": "gammaln"}.get(name, name))(tensor).float().numpy()
    spacing = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(function(name)(x).astype(np.float32), expected, rtol=spacing, atol=spacing * 1e-2)


@pytest.mark.conformance
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "name", [*ONE_OPERAND, *TWO_OPERANDS, *(f"polygamma_{order}" for order in POLYGAMMA_ORDERS), *POLYNOMIALS]
)
def test_zeros_infinities_and_nan_agree_with_pytorch(torch, name, dtype):
    """Same NaNs, same infinities, same signs of zero, wherever an operand is 0, infinite or NaN."""
    special_points = np.array([-INF, -0.0, 0.0, INF, NAN], dtype=dtype)
    others = np.array([-2.5, -1.0, 0.5, 1.0, 2.0, 3.0, 7.0], dtype=dtype)
    if name in ONE_OPERAND or name.startswith("polygamma_"):
        arguments = (special_points,)
    elif name in POLYNOMIALS:  # not at NaN, where PyTorch returns what its last element left behind
        arguments = tuple(grid.ravel() for grid in np.meshgrid(special_points[:4], np.arange(-1, 6).astype(dtype)))
    else:
        first, second = (grid.ravel() for grid in np.meshgrid(*[np.concatenate([special_points, others])] * 2))
        chosen = ~np.isfinite(first) | ~np.isfinite(second) | (first == 0.0) | (second == 0.0)
        arguments = (first[chosen], second[chosen])
    actual, expected = function(name)(*arguments), torch_values(torch, name, *arguments)
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=0.0)
    zero = expected == 0.0
    np.testing.assert_array_equal(np.signbit(actual[zero]), np.signbit(expected[zero]))
