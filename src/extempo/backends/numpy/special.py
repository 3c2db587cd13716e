"""Error, gamma and information functions: ndarrays of one float dtype in, one ndarray of that dtype out.

Names and meanings are those of torch.special, also at 0, infinities and NaN; no NumPy warning escapes. Every kernel
computes in float64 whatever comes in and rounds once (float16 and bfloat16 through float32, as a float32 kernel would).
Operands broadcast; a Python number may stand for an operand.

Tables hold powers of t in [-1, 1], highest first: the Chebyshev interpolant, found with 50 digits, of the function in
the comment beside it. Their terms fall fast enough that Horner's scheme loses nothing to cancellation.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Kernel = Callable[..., Array]
SpecialFunction = Callable[..., npt.NDArray[Any]]

_HALF_TYPES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
_FLOAT_TYPES = (*_HALF_TYPES, np.dtype(np.float32), np.dtype(np.float64))
_BLOCK = 32768  # elements at a time: the temporaries stay in the cache, which takes a third off the time


class Symbolic:
    """A base for operands that stand for arrays: what a kernel does to them is noted, not computed (ONNX export)."""


def special_function(kernel: Kernel, single: Kernel | None = None) -> SpecialFunction:
    """Lets `kernel`, written for one-dimensional float64 arrays of equal length, take any shapes and float dtypes.

    `single` is a cheaper kernel, also in float64, that is good enough for float32 and below.
    """

    @functools.wraps(kernel)
    def run(*operands: npt.ArrayLike) -> npt.NDArray[Any]:
        if any(isinstance(operand, Symbolic) for operand in operands):
            return kernel(*(x if isinstance(x, Symbolic) else np.asarray(x, np.float64) for x in operands))
        typed = [operand for operand in operands if isinstance(operand, np.ndarray | np.generic)]
        dtype = typed[0].dtype if typed else np.dtype(np.float64)
        if dtype not in _FLOAT_TYPES:
            raise TypeError(f"{kernel.__name__}: expects a float dtype, got {dtype}; convert the input first")
        chosen = kernel if single is None or dtype == np.float64 else single
        with np.errstate(all="ignore"):
            wide = np.broadcast_arrays(*(np.asarray(operand, dtype=np.float64) for operand in operands))
            flat = [operand.ravel() for operand in wide]
            result = np.empty(flat[0].shape)
            for start in range(0, result.size, _BLOCK):
                block = slice(start, start + _BLOCK)
                result[block] = chosen(*(operand[block] for operand in flat))
            rounded = result.astype(np.float32) if dtype in _HALF_TYPES else result
            return rounded.reshape(wide[0].shape).astype(dtype, copy=False)

    return run


def table(*coefficients: float) -> list[Array]:
    """The form `horner` takes: NumPy adds a 0-d array to a small array a third faster than a Python float."""
    return [np.array(coefficient) for coefficient in coefficients]


def horner(coefficients: Sequence[Array], t: Array) -> Array:
    """The polynomial with these coefficients, highest power first, at `t`."""
    result = t * coefficients[0]
    result += coefficients[1]
    for coefficient in coefficients[2:]:
        result *= t
        result += coefficient
    return result


def by_region(operands: tuple[Array, ...], regions: Sequence[tuple[Mask, Kernel]]) -> Array:
    """Each element by the kernel whose mask holds it, and NaN where none does; masks must not overlap."""
    result = np.full(operands[0].shape, np.nan)
    if any(isinstance(operand, Symbolic) for operand in operands):
        for mask, kernel in regions:
            result = np.where(mask, kernel(*operands), result)
        return result
    for mask, kernel in regions:
        n_inside = np.count_nonzero(mask)
        if n_inside == mask.size:
            return kernel(*operands)
        if n_inside:
            result[mask] = kernel(*(operand[mask] for operand in operands))
    return result


def constant(value: float) -> Kernel:
    """A kernel for regions where the function has one value."""
    return lambda *operands: np.full(operands[0].shape, value)


# One number a line would bury the code.
# fmt: off
_ERF = table(  # erf(x) / x - 1 for x * x in [0, 1]
    1.4543887079465116e-14, -3.8078824063194953e-13, 9.167619596865806e-12, -2.035228405815769e-10,
    4.115800583208149e-09, -7.511569286591727e-08, 1.223382738359897e-06, -1.7537169441124866e-05,
    0.00021751715604159932, -0.0022854855611441132, 0.019852496688983708, -0.1405360890227171, -0.03453126133013269,
)
_ERF_SINGLE = table(  # erf(x) / x for x * x in [0, 16], to 1e-9
    -0.0002375303008634, 0.0005955966060005, -0.0003632396054651, 0.0006199186266208, -0.002843842137572,
    0.005571999462169, -0.008445061534001, 0.0139126742138, -0.02253038075411, 0.03321488463791, -0.04575393377883,
    0.05985653048125, -0.07472896226501, 0.09021197583802, -0.1077104012536, 0.131675004623, -0.1765762335563,
    0.353530996337,
)
_ERFCX = table(  # (x + 1/2) * erfcx(x) for x in [0, inf], t = (x - 3.75) / (x + 3.75): Shepherd and Laframboise 1981
    -1.8990323617950142e-11, 2.1216519125548378e-10, 2.7425422600418125e-10, -2.584540322407966e-09,
    -2.198460958381453e-09, 1.933121033141896e-08, 1.2150919742251542e-08, -1.293244955359161e-07,
    -2.9137509313843457e-08, 8.758094703471839e-07, -4.864206725907539e-07, -5.722067194829238e-06,
    1.119195413830019e-05, 2.5824546942910852e-05, -0.0001450769890689192, 0.00014685683349230654,
    0.0008778129160957678, -0.004873289779137576, 0.01418113871077199, -0.02934669929480558, 0.04615216058009819,
    -0.054401965070875115, 0.041138369245075544, 0.0017927077427322292, -0.07012029929277351, 0.6187563154189137,
)
_ERFINV = table(  # erfinv(x) / x for w = -log(1 - x * x) in [0, 2/1.95]: the variable of Giles 2010
    1.8370277874511953e-14, -2.4237158959393473e-13, -2.5372653630284847e-12, 4.709982501609579e-11,
    3.117421273555504e-10, -8.857149140518773e-09, -2.9627632433128393e-08, 1.6724215439230594e-06,
    -3.745297336301895e-07, -0.00033341288772533074, 0.0020562865226516304, 0.12408420521729589, 1.007923498719072,
)
_NORMAL_TAIL = table(  # z - s, where exp(-s * s / 2) is the upper tail of the normal at z, for log(s) in 2.21 +- 1.46
    3.839068633714606e-10, -3.542729418498043e-10, -3.3798601540419126e-09, 4.4615280929631446e-09,
    1.23229386753528e-08, -2.61079862898499e-08, -1.4534771201825965e-08, 8.766896960766466e-08,
    -6.846119912621803e-08, -1.3685578031507515e-07, 3.9777403224153055e-07, -2.5090418661064193e-07,
    -7.71073014567552e-07, 2.1050682539437577e-06, -1.3088982725511726e-06, -4.352851861110888e-06,
    1.2529122079902014e-05, -1.0345858102619458e-05, -2.1222212100086092e-05, 8.704457920967263e-05,
    -0.0001453783618719539, 1.5937257255849713e-05, 0.0009244471198873675, -0.003612173227686635,
    0.0038146613936014843, 0.027178937359158963, -0.15158275400049354, 0.3532937613031286, -0.3469760603514081,
)
_LGAMMA = table(  # lgamma(2 + d) / d for d in [-1/2, 1/2]
    2.0962059060600024e-12, -8.867306165956492e-12, 2.8206946487921987e-11, -1.2050236137952312e-10,
    5.350164231426595e-10, -2.3086641882572558e-09, 1.0012704932493954e-08, -4.38708276994606e-08,
    1.94253158049944e-07, -8.716991307145595e-07, 3.981793122286463e-06, -1.8636779703098573e-05,
    9.03284478395594e-05, -0.00046159693930847154, 0.0025726010534729226, -0.016838075263298908, 0.1612335167120566,
    0.42278433509846713,
)
_DIGAMMA = table(  # digamma(x) / (x - root) for x in [1, 2]
    2.832706668021759e-11, -8.498137230186096e-11, 9.206434499177992e-11, -2.7619635330317715e-10,
    1.2358072433984831e-09, -3.7075072647122386e-09, 1.0542687624027994e-08, -3.163020268955334e-08,
    9.542050972688906e-08, -2.86315275846934e-07, 8.589127353033379e-07, -2.57809436305308e-06, 7.741232223504057e-06,
    -2.325824239445257e-05, 6.995018873950506e-05, -0.00021074841140458636, 0.0006368880303257201,
    -0.0019350666648590097, 0.005936795278305649, -0.018550615381735115, 0.060135621060196744, -0.2118137106407303,
    0.9510558760318328,
)
# c_k(eta) of Temme's uniform expansion of the incomplete gamma functions (DLMF 8.12), one row for each k: powers of eta
# from the power series of its recurrence, for |eta| < 0.34.
_TEMME = (
    table(
    -2.5514193994946248e-11, 9.14769958223679e-10, -4.382036018453353e-09, 1.0261809784240309e-08,
    6.707853543401498e-09, -1.7665952736826078e-07, 8.296711340953087e-07, -1.85406221071516e-06,
    -2.185448510679992e-06, 3.919263178522438e-05, -0.0001787551440329218, 0.0003527336860670194,
    0.0011574074074074073, -0.014814814814814815, 0.08333333333333333, -0.3333333333333333,
    ), table(
    -1.7543241719747647e-11, 1.1951628599778148e-08, -5.752545603517705e-08, 1.378633446915721e-07,
    4.647127802807434e-09, -1.6120900894563446e-06, 7.64916091608111e-06, -1.8098550334489977e-05,
    -4.018775720164609e-07, 0.00020576131687242798, -0.0009902263374485596, 0.0026455026455026454,
    -0.003472222222222222, -0.001851851851851852,
    ), table(
    -2.0477098421990866e-10, 1.4280614206064242e-07, -6.298992138380055e-07, 1.3721957309062934e-06,
    3.423578734096138e-08, -1.2760635188618728e-05, 5.2923448829120125e-05, -0.0001073665322636516,
    2.0093878600823047e-06, 0.0007716049382716049, -0.0026813271604938273, 0.004133597883597883,
    ), table(
    -2.7861080291528143e-11, 1.4230900732435883e-06, -5.6749528269915965e-06, 1.1082654115347302e-05,
    -2.396505113867297e-07, -7.561801671883977e-05, 0.00026772063206283885, -0.0004691894943952557,
    0.00022947209362139917, 0.0006494341563786008,
    ), table(
    2.507497226237533e-10, 1.1375726970678419e-05, -3.968365047179435e-05, 6.641498215465122e-05,
    -1.4638452578843418e-06, -0.0002990724803031902, 0.0007840392217200666, -0.0008618882909167117,
    ),
)
# fmt: on
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)
_STIRLING = table(*(number / (2 * k * (2 * k - 1)) for k, number in reversed([*enumerate(_BERNOULLI[:8], 1)])))
_DIGAMMA_SERIES = table(*(number / (2 * k) for k, number in reversed([*enumerate(_BERNOULLI[:9], 1)])))
_ATANH = table(*(1.0 / (2 * k + 3) for k in reversed(range(16))))  # of (atanh(z) - z) / z ** 3 in z * z
_DIGAMMA_ROOT = (1.4616321449683622, 9.549995429965697e-17)  # high and low part
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
_ASYMPTOTIC_FROM = 10.0  # from here on the asymptotic series of lgamma and digamma are exact to rounding


# Error functions.


def _exp_square(x: Array, scale: float) -> Array:
    """exp(scale * x * x) for finite x, without the error that rounding x * x would be magnified to."""
    high = x.astype(np.float32).astype(np.float64)  # 24 bits, so high * high is exact
    return np.exp(scale * high * high) * np.exp(scale * (x - high) * (x + high))


def _erf_near(x: Array) -> Array:
    return x + x * horner(_ERF, 2.0 * x * x - 1.0)


def _erfcx_positive(x: Array) -> Array:
    return horner(_ERFCX, 1.0 - 7.5 / (x + 3.75)) / (x + 0.5)


def _erfc_positive(x: Array) -> Array:
    bounded = np.minimum(x, 28.0)  # erfc is below the smallest denormal there, and infinity cannot be split
    return _exp_square(bounded, -1.0) * _erfcx_positive(bounded)


def _erf_far(x: Array) -> Array:
    return np.copysign(1.0 - _erfc_positive(np.abs(x)), x)


def _erf_single(x: Array) -> Array:
    bounded = np.clip(x, -4.0, 4.0)  # from here on float32 rounds to 1
    return bounded * horner(_ERF_SINGLE, bounded * bounded * 0.125 - 1.0)


@functools.partial(special_function, single=_erf_single)
def erf(x: Array) -> Array:
    """The error function."""
    size = np.abs(x)
    return by_region((x,), [(size <= 1.0, _erf_near), (size > 1.0, _erf_far)])


@special_function
def erfc(x: Array) -> Array:
    """1 - erf(x), exact in the upper tail."""
    return by_region(
        (x,),
        [
            (x < -0.5, lambda x: 2.0 - _erfc_positive(-x)),
            (np.abs(x) <= 0.5, lambda x: 1.0 - _erf_near(x)),
            (x > 0.5, _erfc_positive),
        ],
    )


@special_function
def erfcx(x: Array) -> Array:
    """exp(x * x) * erfc(x), finite in the upper tail."""
    return by_region((x,), [(x < 0.0, _erfcx_negative), (x >= 0.0, _erfcx_positive)])


def _erfcx_negative(x: Array) -> Array:
    return 2.0 * _exp_square(np.minimum(-x, 28.0), 1.0) - _erfcx_positive(-x)


def _erfinv_near(x: Array) -> Array:
    """For |x| <= 0.8."""
    return x * horner(_ERFINV, -1.95 * np.log1p(-x * x) - 1.0)


def _normal_tail_inverse(q: Array) -> Array:
    """z > 0 such that the normal distribution has probability q above z, for 0 < q <= 0.1."""
    s = np.sqrt(-2.0 * np.log(q))
    return s + horner(_NORMAL_TAIL, (np.log(s) - 2.21) / 1.46)


@special_function
def erfinv(x: Array) -> Array:
    """The inverse of erf: infinite at -1 and 1, NaN beyond."""
    size = np.abs(x)
    return by_region(
        (x,),
        [
            (size <= 0.8, _erfinv_near),
            ((size > 0.8) & (size < 1.0), _erfinv_far),
            (size == 1.0, lambda x: np.copysign(np.inf, x)),
        ],
    )


def _erfinv_far(x: Array) -> Array:
    return np.copysign(_normal_tail_inverse(0.5 * (1.0 - np.abs(x))) * math.sqrt(0.5), x)


@special_function
def ndtri(p: Array) -> Array:
    """The x at which the normal distribution function is p: infinite at 0 and 1, NaN beyond."""
    return by_region(
        (p,),
        [
            (p == 0.0, constant(-np.inf)),
            ((p > 0.0) & (p < 0.1), lambda p: -_normal_tail_inverse(p)),
            ((p >= 0.1) & (p <= 0.9), lambda p: math.sqrt(2.0) * _erfinv_near(2.0 * p - 1.0)),
            ((p > 0.9) & (p < 1.0), lambda p: _normal_tail_inverse(1.0 - p)),
            (p == 1.0, constant(np.inf)),
        ],
    )


@special_function
def log_ndtr(x: Array) -> Array:
    """The logarithm of the normal distribution function."""
    return by_region(
        (x,),
        [
            (x < -1.0, lambda x: np.log(_half_erfcx(-x)) - 0.5 * x * x),
            (np.abs(x) <= 1.0, lambda x: np.log1p(-0.5 * erfc(x * math.sqrt(0.5)))),
            (x > 1.0, lambda x: np.log1p(-_exp_square(np.minimum(x, 40.0), -0.5) * _half_erfcx(x))),
        ],
    )


def _half_erfcx(x: Array) -> Array:
    return 0.5 * _erfcx_positive(x * math.sqrt(0.5))


# Gamma functions.


def _sin_pi(x: Array) -> Array:
    """sin(pi * x), exact at the integers."""
    nearest = np.rint(x)
    return np.sin(np.pi * (x - nearest)) * (1.0 - 2.0 * np.remainder(nearest, 2.0))


def _is_pole(x: Array) -> Mask:
    """Whether x is 0 or a negative integer, -inf included."""
    pole: Mask = (x <= 0.0) & (x == np.floor(x))
    return pole


def _stirling_error(x: Array) -> Array:
    """lgamma(x) - ((x - 1/2) * log(x) - x + log(2 * pi) / 2) for x >= 10."""
    return horner(_STIRLING, 1.0 / (x * x)) / x


def _lgamma_near_one(d: Array) -> Array:
    """lgamma(1 + d) for |d| <= 1/2, with full relative accuracy near its zero."""
    return d * horner(_LGAMMA, 2.0 * d) - np.log1p(d)


def _lgamma_below_ten(x: Array) -> Array:
    """For 3/2 <= x < 10: down to [3/2, 5/2] by lgamma(x) = lgamma(x - 1) + log(x - 1)."""
    product = np.ones_like(x)
    for _ in range(8):
        above = x > 2.5
        x = np.where(above, x - 1.0, x)
        product = np.where(above, product * x, product)
    return (x - 2.0) * horner(_LGAMMA, 2.0 * (x - 2.0)) + np.log(product)


def _lgamma_asymptotic(x: Array) -> Array:
    return (x - 0.5) * (np.log(x) - 1.0) + (_HALF_LOG_TWO_PI - 0.5) + _stirling_error(x)


def _lgamma_positive(x: Array) -> Array:
    return by_region(
        (x,),
        [
            (x < 0.5, lambda x: _lgamma_near_one(x) - np.log(x)),
            ((x >= 0.5) & (x < 1.5), lambda x: _lgamma_near_one(x - 1.0)),
            ((x >= 1.5) & (x < _ASYMPTOTIC_FROM), _lgamma_below_ten),
            (x >= _ASYMPTOTIC_FROM, _lgamma_asymptotic),
        ],
    )


def _lgamma_negative(x: Array) -> Array:
    """By reflection; below 1e-20 in size lgamma(1 - x) is 0 to rounding and sin(pi * x) may be a denormal."""
    reflected = math.log(math.pi) - np.log(np.abs(_sin_pi(x))) - _lgamma_positive(1.0 - x)
    return np.where(x > -1e-20, -np.log(-x), reflected)


@special_function
def lgamma(x: Array) -> Array:
    """log(abs(gamma(x))), infinite at the poles."""
    pole = _is_pole(x)
    return by_region(
        (x,), [(x > 0.0, _lgamma_positive), (pole, constant(np.inf)), ((x < 0.0) & ~pole, _lgamma_negative)]
    )


def _digamma_below_ten(x: Array) -> Array:
    """For 0 < x < 10: into [1, 2) by digamma(x + 1) = digamma(x) + 1 / x, then relative to the root there."""
    low = x < 1.0
    total = np.where(low, -1.0 / x, 0.0)
    x = np.where(low, x + 1.0, x)
    for _ in range(8):
        above = x >= 2.0
        x = np.where(above, x - 1.0, x)
        total = np.where(above, total + 1.0 / x, total)
    high, rest = _DIGAMMA_ROOT
    return ((x - high) - rest) * horner(_DIGAMMA, 2.0 * x - 3.0) + total


def _digamma_asymptotic(x: Array) -> Array:
    inverse_square = 1.0 / (x * x)
    return np.log(x) - 0.5 / x - inverse_square * horner(_DIGAMMA_SERIES, inverse_square)


def _digamma_positive(x: Array) -> Array:
    near = x < _ASYMPTOTIC_FROM
    return by_region((x,), [(near, _digamma_below_ten), (~near, _digamma_asymptotic)])


def _digamma_negative(x: Array) -> Array:
    return _digamma_positive(1.0 - x) - np.pi / np.tan(np.pi * (x - np.rint(x)))


@special_function
def digamma(x: Array) -> Array:
    """The derivative of lgamma: -inf at 0, inf at -0, NaN at the other poles."""
    return by_region(
        (x,),
        [
            (x > 0.0, _digamma_positive),
            (x == 0.0, lambda x: np.copysign(np.inf, -x)),
            ((x < 0.0) & ~_is_pole(x), _digamma_negative),
        ],
    )


def _zeta_positive(x: Array, q: Array) -> Array:
    """Euler and Maclaurin's summation (DLMF 25.11.5): 10 terms as they are, the rest from the integral."""
    n_direct = 10
    total = np.zeros_like(x)
    for k in range(n_direct):
        total += np.power(q + k, -x)
    end = q + n_direct
    correction = 1.0 / (x - 1.0) + 0.5 / end
    rising = x / (end * end)
    for j, number in enumerate(_BERNOULLI, 1):
        correction += number / math.factorial(2 * j) * rising
        rising = rising * ((x + (2 * j - 1)) / end) * ((x + 2 * j) / end)
    scale = np.power(end, 1.0 - x)
    return np.where(scale > 0.0, total + scale * correction, total)


def _zeta_negative(x: Array, q: Array) -> Array:
    """For q < 0 and integer x: the terms below 0 are those of a positive q, mirrored."""
    sign = 1.0 - 2.0 * np.remainder(x, 2.0)
    below = _zeta_positive(x, np.ceil(q) - q) - _zeta_positive(x, 1.0 - q)
    return _zeta_positive(x, q - np.floor(q)) + sign * below


@special_function
def zeta(x: Array, q: Array) -> Array:
    """The sum over k >= 0 of 1 / (k + q) ** x (Hurwitz): infinite at x = 1 and at the poles of q."""
    inside = ~(x <= 1.0)
    pole = _is_pole(q)
    finite = inside & np.isfinite(x) & np.isfinite(q)
    unbounded = np.isposinf(x) & ~pole
    return by_region(
        (x, q),
        [
            ((x == 1.0) | (inside & pole) | (unbounded & (q < 1.0)), constant(np.inf)),
            (unbounded & (q == 1.0), constant(1.0)),
            (finite & (q > 0.0), _zeta_positive),
            (finite & (q < 0.0) & ~pole & (x == np.floor(x)), _zeta_negative),
        ],
    )


def polygamma(n: int, x: Array) -> Array:
    """The n-th derivative of digamma."""
    if n == 0:
        return digamma(x)
    factor = (-1.0) ** (n + 1) * (math.factorial(n) if n <= 170 else math.inf)

    @special_function
    def polygamma(x: Array) -> Array:
        result = factor * zeta(n + 1.0, x)
        if n == 1:  # PyTorch's trigamma has these limits, its higher orders those of zeta
            result = np.where(np.isinf(x), np.where(x > 0.0, 0.0, np.nan), result)
        return result

    return polygamma(x)


# Incomplete gamma functions: the scheme of regions of Gil, Segura and Temme 2012.

_UNIFORM_FROM = 200.0  # smallest a for Temme's expansion, which serves |x - a| <= 0.3 * a
_MOST_TERMS = 500  # never reached: outside that region both loops below end after some 130 terms


def _log_gap(mu: Array) -> Array:
    """mu - log(1 + mu) for |mu| <= 1/2, with full relative accuracy: 2 * atanh(z) is the logarithm."""
    z = mu / (2.0 + mu)
    return z * (mu - 2.0 * z * z * horner(_ATANH, z * z))


def _gamma_density(a: Array, x: Array) -> Array:
    """x ** a * exp(-x) / gamma(a + 1)."""
    return by_region((a, x), [(a < _ASYMPTOTIC_FROM, _density_small), (a >= _ASYMPTOTIC_FROM, _density_large)])


def _density_small(a: Array, x: Array) -> Array:
    bounded = np.minimum(x, 1e3)  # already 0 there, and the power cannot overflow
    return np.power(bounded, a) * np.exp(-bounded - _lgamma_positive(a + 1.0))


def _density_large(a: Array, x: Array) -> Array:
    mu = (x - a) / a
    gap = np.where(np.abs(mu) <= 0.5, _log_gap(mu), mu - np.log(x / a))
    return np.exp(-a * gap - _stirling_error(a)) / np.sqrt(2.0 * np.pi * a)


def _lower_series(a: Array, x: Array) -> Array:
    """gammainc by its power series (DLMF 8.7.1)."""
    term = np.ones_like(x)
    total = np.ones_like(x)
    for n in range(1, _MOST_TERMS):
        term = term * (x / (a + n))
        total += term
        if not (term > 1e-17 * total).any():
            break
    return np.minimum(_gamma_density(a, x) * total, 1.0)


def _upper_fraction(a: Array, x: Array) -> Array:
    """gammaincc for x >= a by Legendre's continued fraction (DLMF 8.9.2), whose convergents Steed's method adds up."""
    b = x + 1.0 - a
    d = 1.0 / b
    step = d
    fraction = d
    for n in range(1, _MOST_TERMS):
        b = b + 2.0
        d = 1.0 / (b + n * (a - n) * d)
        step = step * (b * d - 1.0)
        fraction = fraction + step
        if not (np.abs(step) > 1e-17 * fraction).any():
            break
    return a * _gamma_density(a, x) * fraction


def _upper_series(a: Array, x: Array) -> Array:
    """gammaincc for small a and x, where 1 - gammainc would cancel (DLMF 8.7.3)."""
    log_leading = a * np.log(x) - np.where(a < 0.5, _lgamma_near_one(a), _lgamma_positive(a + 1.0))
    term = np.ones_like(x)
    total = np.zeros_like(x)
    for n in range(1, 20):
        term = term * (-x / n)
        total += term * (a / (a + n))
    return -np.expm1(log_leading) - np.exp(log_leading) * total


def _uniform(a: Array, x: Array, side: float) -> Array:
    """gammaincc (side 1) or gammainc (side -1) for large a and x near a: Temme 1979."""
    mu = (x - a) / a
    gap = _log_gap(mu)
    eta = np.copysign(np.sqrt(2.0 * gap), mu)
    series = np.zeros_like(x)
    for row in reversed(_TEMME):
        series = series / a + horner(row, eta)
    rest = np.exp(-a * gap) / np.sqrt(2.0 * np.pi * a) * series
    return 0.5 * erfc(side * eta * np.sqrt(0.5 * a)) + side * rest


def _incomplete_gamma_limits(a: Array, x: Array, at_zero: float) -> list[tuple[Mask, Kernel]]:
    """The values at the borders, given the one at x = 0; like PyTorch, a border decides before a NaN does."""
    return [
        ((a == 0.0) & (x > 0.0) | np.isposinf(x) & ~(a <= 0.0) & ~np.isposinf(a), constant(1.0 - at_zero)),
        ((x == 0.0) & ~(a <= 0.0) | np.isposinf(a) & ~(x <= 0.0) & ~np.isposinf(x), constant(at_zero)),
    ]


@special_function
def gammainc(a: Array, x: Array) -> Array:
    """The regularised lower incomplete gamma function P(a, x)."""
    inside = (a > 0.0) & (x > 0.0) & np.isfinite(a) & np.isfinite(x)
    uniform = inside & (a >= _UNIFORM_FROM) & (np.abs(x - a) <= 0.3 * a)
    series = inside & ~uniform & ((x <= 1.0) | (x <= a))
    return by_region(
        (a, x),
        [
            *_incomplete_gamma_limits(a, x, at_zero=0.0),
            (uniform, lambda a, x: _uniform(a, x, -1.0)),
            (series, _lower_series),
            (inside & ~uniform & ~series, lambda a, x: 1.0 - _upper_fraction(a, x)),
        ],
    )


@special_function
def gammaincc(a: Array, x: Array) -> Array:
    """The regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x)."""
    inside = (a > 0.0) & (x > 0.0) & np.isfinite(a) & np.isfinite(x)
    uniform = inside & (a >= _UNIFORM_FROM) & (np.abs(x - a) <= 0.3 * a)
    fraction = inside & ~uniform & (x > 1.1) & (x >= a)
    # The upper series where 1 - P would be small.
    small = inside & (x <= 1.1) & (a <= np.where(x <= 0.5, -0.4 / np.log(x), 1.1 * x))
    return by_region(
        (a, x),
        [
            *_incomplete_gamma_limits(a, x, at_zero=1.0),
            (uniform, lambda a, x: _uniform(a, x, 1.0)),
            (fraction, _upper_fraction),
            (small, _upper_series),
            (inside & ~uniform & ~fraction & ~small, lambda a, x: 1.0 - _lower_series(a, x)),
        ],
    )


# Logarithms that are 0 where their factor is, and the cardinal sine.


@special_function
def entr(x: Array) -> Array:
    """-x * log(x): 0 at 0, -inf below."""
    return np.where(x == 0.0, 0.0, np.where(x < 0.0, -np.inf, -x * np.log(x)))


@special_function
def xlogy(x: Array, y: Array) -> Array:
    """x * log(y), and 0 where x is 0 unless y is NaN."""
    return np.where((x == 0.0) & ~np.isnan(y), 0.0, x * np.log(y))


@special_function
def xlog1py(x: Array, y: Array) -> Array:
    """x * log1p(y), and 0 where x is 0 unless y is NaN."""
    return np.where((x == 0.0) & ~np.isnan(y), 0.0, x * np.log1p(y))


@special_function
def sinc(x: Array) -> Array:
    """sin(pi * x) / (pi * x), exactly 0 at the integers other than 0."""
    return np.where(x == 0.0, 1.0, _sin_pi(x) / (np.pi * x))
