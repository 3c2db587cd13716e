"""Bessel and Airy functions: an ndarray of a float dtype in, an ndarray of that dtype out.

Names and meanings are those of torch.special, also at 0, infinities and NaN; dtypes, accuracy and the form of the
tables are those of `special`. Far from 0 the oscillating functions are accurate relative to their envelope, not to
their zeros.
"""

import math
from collections.abc import Sequence

import numpy as np

from extempo.backends.numpy.special import Array, Kernel, by_region, constant, horner, special_function, table

# One number a line would bury the code.
# fmt: off
_I0_FAR = table(  # sqrt(x) * exp(-x) * I0(x) for 8 / x in [0, 1]
    -2.4421972688131832e-11, 9.114760157514253e-11, 1.7698085539456536e-10, -6.494591114401118e-10,
    -6.327909921997027e-10, 2.163681278413876e-09, 1.6084886155781772e-09, -4.5305710768621196e-09,
    -3.5862834111582305e-09, 6.522264862032271e-09, 7.600254486433509e-09, -5.0175940345046716e-09,
    -1.3427511481900905e-08, -6.856484545962442e-09, 7.559364098665437e-09, 2.156780676115673e-08,
    3.932512321137824e-08, 8.872014585661555e-08, 2.9735992084667734e-07, 1.4838476780922646e-06,
    1.114303378845176e-05, 0.00013621607438951463, 0.0033605519836678913, 0.4021765094450081,
)
_I1_FAR = table(  # sqrt(x) * exp(-x) * I1(x) for 8 / x in [0, 1]
    2.2421768596847442e-11, -9.491890392992048e-11, -1.6283264322621244e-10, 6.7727478454462e-10,
    5.870664618471487e-10, -2.2624401109204446e-09, -1.5218214060680734e-09, 4.763780078020254e-09,
    3.501765193290176e-09, -6.9444186339873875e-09, -7.687251308765992e-09, 5.5720183980930355e-09,
    1.4051746928735543e-08, 6.84757829926934e-09, -8.432168972932417e-09, -2.3394122958362557e-08,
    -4.3128498031006734e-08, -1.0001075046243961e-07, -3.4838563464253135e-07, -1.8349102493990178e-06,
    -1.5038547198221758e-05, -0.00021923576383137776, -0.009749577193235765, 0.38939845902587233,
)
_K0_FAR = table(  # sqrt(x) * exp(x) * K0(x) for 1.5 / x in [0, 1]
    5.332206068200495e-10, -8.296099474505276e-10, -2.2975334583905697e-09, 3.5389711545798056e-09,
    5.305500484812855e-09, -8.208679297060881e-09, -6.161164565424815e-09, 9.340695223346626e-09,
    7.434011722872459e-09, -1.197813806178983e-08, 2.826120204821956e-09, -6.764321157980511e-09, 2.4629388005307e-08,
    -4.933771994156007e-08, 9.855473454651425e-08, -2.1282464149655567e-07, 4.776805328071547e-07,
    -1.1160220458895424e-06, 2.7412401185601236e-06, -7.148655438565716e-06, 2.0054517337125373e-05,
    -6.167417861997896e-05, 0.00021394067817365607, -0.0008773219932842098, 0.004642608579299453, -0.0389281065005251,
    1.2085585393824039,
)
_K1_FAR = table(  # sqrt(x) * exp(x) * K1(x) for 1.5 / x in [0, 1]
    -5.805689758385515e-10, 9.049567450513322e-10, 2.4960892872019567e-09, -3.851120034257964e-09,
    -5.76952341415011e-09, 8.94337734021059e-09, 6.670882259685237e-09, -1.0122372950435069e-08,
    -8.155974366729979e-09, 1.3194983928461877e-08, -3.4327508622297707e-09, 8.11720025464439e-09,
    -2.8460958424812552e-08, 5.746689050162421e-08, -1.161193323357418e-07, 2.532052549094282e-07,
    -5.747711542646888e-07, 1.3615341965280998e-06, -3.40134409733611e-06, 9.060885591050753e-06,
    -2.613454174371508e-05, 8.348625072981574e-05, -0.000306226689165016, 0.001375908408190825, -0.008734853795315188,
    0.13315330036563794, 1.3970089271126294,
)
_J0_NEAR = table(  # J0(x) over its zeros' factors (x * x - zero * zero) for x * x in [0, 64]
    4.006178286297737e-16, -1.2482966637990574e-14, 3.3923324014926297e-13, -8.023472603248695e-12,
    1.627648945732473e-10, -2.7948629678312687e-09, 3.9988393454959875e-08, -4.677128021300755e-07,
    4.366932324640601e-06, -3.157342540223544e-05, 0.00016977200713997844, -0.0006415390646406123,
    0.0015636431645931661, -0.002119794289479692, 0.0011434937743762545,
)
_J1_NEAR = table(  # J1(x) / x over its zeros' factors for x * x in [0, 64]
    1.1809575438223918e-17, -3.910422781244815e-16, 1.1343132028985911e-14, -2.8755308688882974e-13,
    6.2847338188380325e-12, -1.1696932521779358e-10, 1.826854769538332e-09, -2.3521922545778545e-08,
    2.4425222607520203e-07, -1.989093515914257e-06, 1.224217365301561e-05, -5.408003239085506e-05,
    0.00015860016799369874, -0.0002697522746716368, 0.00019498936985895625,
)
_Y0_NEAR = table(  # Y0(x) - 2 / pi * log(x) * J0(x) for x * x in [0, 64]
    -8.838468394309022e-13, 2.6926937109987802e-11, -7.130468040126112e-10, 1.6390875017619395e-08,
    -3.218507833909702e-07, 5.321318810394401e-06, -7.279541882544516e-05, 0.00080615860596164, -0.007025741057270546,
    0.046367047681375125, -0.2189574709617164, 0.6721770783431679, -1.0775477338215995, 0.14412632369302475,
    1.6470964788745466, -0.8284358903604587, -0.382250654459425,
)
_Y1_NEAR = table(  # (Y1(x) - 2 / pi * (log(x) * J1(x) - 1 / x)) / x for x * x in [0, 64]
    -2.6946935633741497e-14, 8.760000901470383e-13, -2.4887527719058385e-11, 6.169688029976363e-10,
    -1.3153322522176987e-08, 2.3804930420500538e-07, -3.6009998743823114e-06, 4.4674330126463756e-05,
    -0.00044381734351148726, 0.0034224907399188495, -0.019628756833099427, 0.07854786922242532, -0.19639839859930425,
    0.23507209206669755, 0.023367571720993584, -0.24337743079193114, 0.07075985882118005,
)
# P(x) and x * Q(x) of Hankel's expansions (DLMF 10.17), of order 0 and 1, for (8 / x) ** 2 in [0, 1].
_P0 = table(
    3.2274659236696375e-14, -1.0240462527458219e-13, 2.486651879170221e-13, -1.0160586409351026e-12,
    4.7832464504070676e-12, -2.4911156906092825e-11, 1.5500758850965851e-10, -1.2121099519052884e-09,
    1.2803760990761632e-08, -2.0527448258799454e-07, 6.137416080147722e-06, -0.0005363673192129684,
    0.9994572757882519,
)
_Q0 = table(
    -3.865968322695467e-14, 1.0162670211167594e-13, -1.3804814538584404e-13, 4.612313225070798e-13,
    -1.864509534041415e-12, 6.950884509252912e-12, -2.871340122554895e-11, 1.3623551327470025e-10,
    -7.576308983575964e-10, 5.146231447392908e-09, -4.53497287291549e-08, 5.684971881945821e-07,
    -1.1817110661178995e-05, 0.000546651927947526, -0.12444091103610815,
)
_P1 = table(
    -3.4273425511664546e-14, 1.0911783467601572e-13, -2.668914316041983e-13, 1.0958092927251801e-12,
    -5.1871998149145174e-12, 2.7234187811287063e-11, -1.713127898085761e-10, 1.360297066536911e-09,
    -1.470851251614582e-08, 2.45367663311693e-07, -7.959694698478657e-06, 0.0008988049416705195, 1.0009070262780821,
)
_Q1 = table(
    4.074705384627214e-14, -1.073572214809827e-13, 1.4696599919708492e-13, -4.923339389851518e-13,
    1.993145349755006e-12, -7.46416005204052e-12, 3.101014520989263e-11, -1.4816645190838213e-10,
    8.316054768262827e-10, -5.720890726108569e-09, 5.136106034386487e-08, -6.633568561252034e-07,
    1.4569614809828342e-05, -0.00076971670576437, 0.3742149922195918,
)
_AIRY_FAR = table(  # 2 * sqrt(pi) * x ** (1/4) * exp(zeta) * Ai(x), zeta = 2/3 * x ** (3/2), for 1.875 / zeta in [0, 1]
    3.3837891312705395e-11, -5.723057037867106e-11, -1.1360091667271314e-10, 1.8824928584684522e-10,
    2.6690850774337084e-10, -4.5287661639512697e-10, -1.463827969856279e-10, 2.051370907566082e-10,
    6.792667576223198e-10, -1.3275857456480496e-09, 2.036459909930091e-09, -4.502242702519791e-09,
    1.0543394299905503e-08, -2.4622681416582363e-08, 5.979013254548565e-08, -1.5243324380951268e-07,
    4.103781285910023e-07, -1.1787739379720693e-06, 3.6646467735990304e-06, -1.2583583582073995e-05,
    4.921444138986848e-05, -0.00023063261540410982, 0.0014253471247738761, -0.014680139927093102, 0.9835965724164262,
)
_AIRY_NEAR = table(  # Ai(x) for x in [0, 2]
    -8.353966493008627e-13, 5.834280960500866e-12, 1.4570107509485998e-12, -2.76208711074884e-10,
    1.8426551615955113e-09, -1.4629808513457e-09, -5.651282396148512e-08, 3.9185118857875604e-07,
    -6.20097540805541e-07, -6.839583496259204e-06, 4.9943223640595395e-05, -0.00010575200545359031,
    -0.0003866980086328201, 0.0031835185329570186, -0.007625102761696099, -0.003975837497318685, 0.06764620815644071,
    -0.1591474412967932, 0.13529241631288141,
)
# Amplitudes of cos and of sin / zeta in sqrt(pi) * x ** (1/4) * Ai(-x), DLMF 9.7.9, for (7.4375 / zeta) ** 2 in [0, 1].
_AIRY_COS = table(
    -1.9654971645800767e-14, 5.447278781924596e-14, -9.291016565185785e-14, 3.295307883995413e-13,
    -1.3693189475814629e-12, 5.746374811223955e-12, -2.7635562296627793e-11, 1.5845709259908221e-10,
    -1.132088783414539e-09, 1.0834794112515267e-08, -1.5603319259498896e-07, 4.162426006712299e-06,
    -0.0003268030821424779, 0.9996688662980704,
)
_AIRY_SIN = table(
    6.916984584302033e-14, -1.72162240821705e-13, 1.931317510644469e-13, -6.209640376270773e-13,
    2.5066072469953823e-12, -8.743773675763171e-12, 3.355396020370902e-11, -1.4779914649559105e-10,
    7.583443699656421e-10, -4.717917701803535e-09, 3.777150778991692e-08, -4.264143870898105e-07,
    7.91654868516278e-06, -0.0003261228446221926, 0.06910993519532121,
)
# Ai(x) for x in [-5, 0] as a Chebyshev series, lowest order first: its powers of t would cancel.
_AIRY_WAVE = (
    0.21780501400549876, 0.15243919682610405, 0.24413048723903907, -0.25723797937555526, -0.10405689786164055,
    0.1258789994498457, -0.010730847332209423, -0.019770891044724, 0.006501814365774597, 0.0007291639947388939,
    -0.0007904009988707628, 0.00010807305451804548, 3.4929680917219585e-05, -1.3631889435344286e-05,
    5.550644712274884e-07, 5.960077778021826e-07, -1.282333427112974e-07, -3.89217252588784e-09,
    5.604665504886613e-09, -7.325023228050804e-10, -7.584948080022729e-11, 3.38146239476339e-11,
    -2.6271661958850626e-12, -5.532266987341432e-13, 1.420039294312333e-13, -5.439423676954658e-15,
    -2.531215287774012e-15, 4.3663099026744113e-16, -2.0279016787339435e-18,
)
# fmt: on
_J0_ZEROS = ((2.404825557695773, -1.176691651530894e-16), (5.520078110286311, 8.088597146146722e-17))  # high, low parts
_J1_ZEROS = ((3.8317059702075125, -1.5269184090088067e-16), (7.015586669815619, -9.414165653410389e-17))
_TWO_OVER_PI = 2.0 / math.pi


# Modified functions, I and K: power series (DLMF 10.25.2, 10.31.1) near 0, tables beyond.


def _series(order: int, k: int) -> float:
    """The coefficient of (x * x / 4) ** k in I_order(x) / (x / 2) ** order."""
    return 1.0 / (math.factorial(k) * math.factorial(k + order))


def _harmonic(k: int) -> float:
    return math.fsum(1.0 / j for j in range(1, k + 1))


_I0_NEAR = table(*(_series(0, k) for k in reversed(range(25))))
_I1_NEAR = table(*(_series(1, k) for k in reversed(range(25))))
_K0_NEAR = table(*(_series(0, k) * _harmonic(k) for k in reversed(range(13))))
_K1_NEAR = table(*(_series(1, k) * (_harmonic(k) + _harmonic(k + 1)) for k in reversed(range(13))))


def _i0_near(x: Array) -> Array:
    return horner(_I0_NEAR, 0.25 * x * x)


def _i1_near(x: Array) -> Array:
    return 0.5 * x * horner(_I1_NEAR, 0.25 * x * x)


def _i0e_far(x: Array) -> Array:
    return horner(_I0_FAR, 16.0 / x - 1.0) / np.sqrt(x)


def _i1e_far(x: Array) -> Array:
    return horner(_I1_FAR, 16.0 / x - 1.0) / np.sqrt(x)


def _grow(scaled: Array, x: Array) -> Array:
    """scaled * exp(x), finite as long as the product is."""
    half = np.exp(0.5 * x)
    return scaled * half * half


@special_function
def i0(x: Array) -> Array:
    """The modified Bessel function of the first kind, order 0."""
    x = np.abs(x)
    return by_region((x,), [(x <= 8.0, _i0_near), (x > 8.0, lambda x: _grow(_i0e_far(x), x))])


@special_function
def i0e(x: Array) -> Array:
    """exp(-|x|) * i0(x)."""
    x = np.abs(x)
    return by_region((x,), [(x <= 8.0, lambda x: _i0_near(x) * np.exp(-x)), (x > 8.0, _i0e_far)])


@special_function
def i1(x: Array) -> Array:
    """The modified Bessel function of the first kind, order 1."""
    size = np.abs(x)
    result = by_region((size,), [(size <= 8.0, _i1_near), (size > 8.0, lambda x: _grow(_i1e_far(x), x))])
    return np.where(x < 0.0, -result, result)


@special_function
def i1e(x: Array) -> Array:
    """exp(-|x|) * i1(x)."""
    size = np.abs(x)
    result = by_region((size,), [(size <= 8.0, lambda x: _i1_near(x) * np.exp(-x)), (size > 8.0, _i1e_far)])
    return np.where(x < 0.0, -result, result)


modified_bessel_i0 = i0
modified_bessel_i1 = i1


def _k0_near(x: Array) -> Array:
    return horner(_K0_NEAR, 0.25 * x * x) - (np.log(x) - (math.log(2.0) - np.euler_gamma)) * _i0_near(x)


def _k1_near(x: Array) -> Array:
    logarithm = np.log(x) - (math.log(2.0) - np.euler_gamma)
    return 1.0 / x + logarithm * _i1_near(x) - 0.25 * x * horner(_K1_NEAR, 0.25 * x * x)


def _scaled_far(coefficients: Sequence[Array], x: Array) -> Array:
    return horner(coefficients, 3.0 / x - 1.0) / np.sqrt(x)


def _second_kind(x: Array, near: Kernel, far: Kernel) -> Array:
    """`near` up to 1.5, `far` beyond; infinite at 0, NaN below."""
    return by_region((x,), [(x == 0.0, constant(np.inf)), ((x > 0.0) & (x <= 1.5), near), (x > 1.5, far)])


@special_function
def modified_bessel_k0(x: Array) -> Array:
    """The modified Bessel function of the second kind, order 0: NaN below 0."""
    return _second_kind(x, _k0_near, lambda x: _scaled_far(_K0_FAR, x) * np.exp(-x))


@special_function
def modified_bessel_k1(x: Array) -> Array:
    """The modified Bessel function of the second kind, order 1: NaN below 0."""
    return _second_kind(x, _k1_near, lambda x: _scaled_far(_K1_FAR, x) * np.exp(-x))


@special_function
def scaled_modified_bessel_k0(x: Array) -> Array:
    """exp(x) * modified_bessel_k0(x)."""
    return _second_kind(x, lambda x: _k0_near(x) * np.exp(x), lambda x: _scaled_far(_K0_FAR, x))


@special_function
def scaled_modified_bessel_k1(x: Array) -> Array:
    """exp(x) * modified_bessel_k1(x)."""
    return _second_kind(x, lambda x: _k1_near(x) * np.exp(x), lambda x: _scaled_far(_K1_FAR, x))


# J and Y: tables up to 8 (with the zeros of J factored out), Hankel's amplitudes P and Q beyond.


def _zero_factors(zeros: Sequence[tuple[float, float]], x: Array) -> Array:
    product = np.ones_like(x)
    for high, low in zeros:
        product = product * ((x - high) - low) * (x + high)
    return product


def _j0_near(x: Array) -> Array:
    return _zero_factors(_J0_ZEROS, x) * horner(_J0_NEAR, x * x / 32.0 - 1.0)


def _j1_near(x: Array) -> Array:
    return x * _zero_factors(_J1_ZEROS, x) * horner(_J1_NEAR, x * x / 32.0 - 1.0)


def _y0_near(x: Array) -> Array:
    return horner(_Y0_NEAR, x * x / 32.0 - 1.0) + _TWO_OVER_PI * np.log(x) * _j0_near(x)


def _y1_near(x: Array) -> Array:
    return x * horner(_Y1_NEAR, x * x / 32.0 - 1.0) + _TWO_OVER_PI * (np.log(x) * _j1_near(x) - 1.0 / x)


def _hankel(p_table: Sequence[Array], q_table: Sequence[Array], x: Array) -> tuple[Array, Array, Array, Array]:
    """P, Q, sin x + cos x and sin x - cos x, over sqrt(pi * x): the phase x - pi/4 is never rounded."""
    t = 2.0 * (8.0 / x) ** 2 - 1.0
    envelope = 1.0 / (math.sqrt(math.pi) * np.sqrt(x))
    sine, cosine = np.sin(x), np.cos(x)
    return envelope * horner(p_table, t), envelope * horner(q_table, t) / x, sine + cosine, sine - cosine


def _j0_far(x: Array) -> Array:
    p, q, plus, minus = _hankel(_P0, _Q0, x)
    return p * plus - q * minus


def _y0_far(x: Array) -> Array:
    p, q, plus, minus = _hankel(_P0, _Q0, x)
    return p * minus + q * plus


def _j1_far(x: Array) -> Array:
    p, q, plus, minus = _hankel(_P1, _Q1, x)
    return p * minus + q * plus


def _y1_far(x: Array) -> Array:
    p, q, plus, minus = _hankel(_P1, _Q1, x)
    return q * minus - p * plus


@special_function
def bessel_j0(x: Array) -> Array:
    """The Bessel function of the first kind, order 0."""
    x = np.abs(x)
    return by_region((x,), [(x <= 8.0, _j0_near), (x > 8.0, _j0_far)])


@special_function
def bessel_j1(x: Array) -> Array:
    """The Bessel function of the first kind, order 1."""
    size = np.abs(x)
    return by_region((size,), [(size <= 8.0, _j1_near), (size > 8.0, _j1_far)]) * np.copysign(1.0, x)


@special_function
def bessel_y0(x: Array) -> Array:
    """The Bessel function of the second kind, order 0: NaN below 0."""
    return by_region((x,), [(x == 0.0, constant(-np.inf)), ((x > 0.0) & (x <= 8.0), _y0_near), (x > 8.0, _y0_far)])


@special_function
def bessel_y1(x: Array) -> Array:
    """The Bessel function of the second kind, order 1: NaN below 0."""
    return by_region((x,), [(x == 0.0, constant(-np.inf)), ((x > 0.0) & (x <= 8.0), _y1_near), (x > 8.0, _y1_far)])


@special_function
def spherical_bessel_j0(x: Array) -> Array:
    """sin(x) / x: 1 at 0, and 0 at infinity."""
    return np.where(x == 0.0, 1.0, np.where(np.isinf(x), 0.0, np.sin(x) / x))


# The Airy function.


def _airy_far(x: Array) -> Array:
    root = np.sqrt(x)
    zeta = x * root / 1.5
    return horner(_AIRY_FAR, 3.75 / zeta - 1.0) * np.exp(-zeta) / (2.0 * math.sqrt(math.pi) * np.sqrt(root))


def _airy_oscillating(x: Array) -> Array:
    root = np.sqrt(-x)
    zeta = -x * root / 1.5
    t = 2.0 * (7.4375 / zeta) ** 2 - 1.0
    sine, cosine = np.sin(zeta), np.cos(zeta)
    amplitude_sine = horner(_AIRY_SIN, t) / zeta
    wave: Array = horner(_AIRY_COS, t) * (cosine + sine) + amplitude_sine * (sine - cosine)
    return wave / (math.sqrt(2.0 * math.pi) * np.sqrt(root))


@special_function
def airy_ai(x: Array) -> Array:
    """The Airy function Ai: NaN at both infinities."""
    return by_region(
        (x,),
        [
            (x < -5.0, _airy_oscillating),
            ((x >= -5.0) & (x <= 0.0), lambda x: np.polynomial.chebyshev.chebval(0.4 * x + 1.0, _AIRY_WAVE)),
            ((x > 0.0) & (x <= 2.0), lambda x: horner(_AIRY_NEAR, x - 1.0)),
            ((x > 2.0) & np.isfinite(x), _airy_far),
        ],
    )
