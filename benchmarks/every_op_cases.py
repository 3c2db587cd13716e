"""What `every_op.py` measures: each op of the registry, as a call in both libraries.

A case is text that takes the library as an argument, and for each size the shapes of its inputs. Ops that only occur
inside of others (gradients, mostly) are measured with those; `INSIDE` and `NOT_MEASURED` say which, and why.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

SIZES = ("tiny", "middle", "large")
Shapes = Sequence[tuple[int, ...]]  # one for each size

PLANES: Shapes = ((2, 4), (256, 256), (2048, 2048))
SMALLER_PLANES: Shapes = ((2, 4), (128, 256), (1024, 512))  # of ops that take long
LINES: Shapes = ((8,), (65536,), (1 << 22,))
SHORT_LINES: Shapes = ((8,), (4096,), (65536,))
SQUARES: Shapes = ((4, 4), (128, 128), (768, 768))
MATRICES: Shapes = ((4, 4), (64, 16, 16), (4, 128, 128))
SIGNALS: Shapes = ((1, 4, 8), (8, 16, 512), (32, 32, 4096))
IMAGES: Shapes = ((1, 4, 8, 8), (8, 16, 24, 24), (16, 32, 64, 64))
VOLUMES: Shapes = ((1, 2, 4, 4, 4), (2, 8, 16, 16, 16), (4, 16, 32, 32, 32))
SEQUENCES: Shapes = ((2, 3, 8), (32, 16, 64), (64, 64, 256))  # (batch, time, features)


@dataclass(frozen=True)
class Given:
    """One input: its shape at each size, and what its values are drawn from."""

    shapes: Shapes = PLANES
    values: str = "normal"  # positive, unit (0 to 1), above_one, index (of what has `below` values), mask, definite
    below: Sequence[int] = (2, 128, 512)

    @property
    def is_data(self) -> bool:
        """Whether it comes in the dtype and the layout that are measured."""
        return self.values not in ("index", "mask")


@dataclass(frozen=True)
class Case:
    """A call in both libraries: prepare(library, size) -> a function of the inputs, made anew for each."""

    name: str
    prepare: Callable[[Any, int], Callable[..., Any]]
    inputs: tuple[Given, ...]
    kind: str = "op"  # or "layer"


def words(text: str) -> list[str]:
    return text.split()


@functools.cache  # looking for a name that is not there takes milliseconds, and some cases look in every call
def function_of(library: Any, name: str) -> Any:
    """The public function of an op: of that name, of `nn.functional`, or of a namespace that the name begins with."""
    first, _, last = name.partition("_")
    for place, inside in ((library, name), (library.nn.functional, name), (getattr(library, first, None), last)):
        if place is not None and hasattr(place, inside):
            return getattr(place, inside)
    return getattr(library.Tensor, name)


def op(name: str, *inputs: Given, call: Callable[..., Any] | None = None) -> Case:
    """An op by its name, or by call(library, *inputs)."""
    if call is None:
        return Case(name, lambda library, size: function_of(library, name), inputs or (Given(),))
    return Case(name, lambda library, size: lambda *xs: call(library, *xs), inputs or (Given(),))


X, POSITIVE, UNIT, ABOVE_ONE, MASK = (
    Given(),
    Given(values="positive"),
    Given(values="unit"),
    Given(values="above_one"),
    Given(values="mask"),
)
LINE, SHORT = Given(LINES), Given(SHORT_LINES)
SMALL = Given(SMALLER_PLANES, "positive")
ANY_SMALL = Given(SMALLER_PLANES)
SMALL_UNIT = Given(SMALLER_PLANES, "unit")
MATRIX, DEFINITE = Given(MATRICES), Given(MATRICES, "definite")
CLASSES = Given(((2,), (256,), (2048,)), "index", (4, 256, 2048))
PLACES = Given(PLANES, "index", (2, 256, 2048))
SIGNAL, IMAGE, VOLUME = Given(SIGNALS), Given(IMAGES), Given(VOLUMES)

UNARY = words(
    "relu leaky_relu elu hardtanh gelu silu mish hardswish softplus neg abs sign exp exp2 expm1 sin cos tan atan sinh "
    "cosh tanh asinh sigmoid clone floor ceil trunc erf erfc isnan isinf isfinite signbit logical_not sinc"
)
UNARY_POSITIVE = words("log log2 log10 log1p sqrt rsqrt reciprocal")
UNARY_UNIT = words("asin acos atanh logit")
UNARY_SLOW = words(
    "lgamma digamma i0 special_i0e special_i1 special_i1e special_bessel_j0 special_bessel_j1 special_bessel_y0 "
    "special_bessel_y1 special_modified_bessel_k0 special_modified_bessel_k1 special_scaled_modified_bessel_k0 "
    "special_scaled_modified_bessel_k1 special_spherical_bessel_j0 special_airy_ai special_erfcx special_log_ndtr "
    "special_entr"
)
BINARY = words(
    "add sub mul maximum minimum fmax fmin eq ne lt le gt ge logical_and logical_or logical_xor atan2 hypot copysign "
    "logaddexp logaddexp2 nextafter"
)
BINARY_POSITIVE = words("div floor_divide remainder fmod xlogy special_xlog1py")
BITS = words("bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift gcd lcm")
POLYNOMIALS = [
    f"special_{shifted}chebyshev_polynomial_{letter}" for shifted in ("", "shifted_") for letter in "tuvw"
] + [
    f"special_{name}"
    for name in ("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p")
]
REDUCTIONS = words("sum prod mean amax amin argmax argmin logsumexp median nanmedian mode")
SCANS = words("cumsum cumprod logcumsumexp cummax cummin")


def _elementwise() -> Iterator[Case]:
    yield from (op(name) for name in UNARY)
    yield from (op(name, POSITIVE) for name in UNARY_POSITIVE)
    yield from (op(name, UNIT) for name in UNARY_UNIT)
    yield from (op(name, SMALL) for name in UNARY_SLOW)
    yield from (op(name, SMALL_UNIT) for name in ("erfinv", "special_ndtri"))
    yield op("acosh", ABOVE_ONE)
    yield from (op(name, X, X) for name in BINARY)
    yield from (op(name, POSITIVE, POSITIVE) for name in BINARY_POSITIVE)
    yield from (op(name, POSITIVE, POSITIVE) for name in BITS)
    yield op("bitwise_not", POSITIVE)
    yield from (op(name, SMALL_UNIT, call=lambda t, x, n=name: function_of(t, n)(x, 5)) for name in POLYNOMIALS)
    yield op("add with a number", X, call=lambda t, x: x + 1)
    yield op("mul with a number", X, call=lambda t, x: x * 3)
    yield op("trunc_divide", POSITIVE, POSITIVE, call=lambda t, x, y: t.div(x, y, rounding_mode="trunc"))
    yield op("pow", X, call=lambda t, x: x**2)
    yield op("pow_tensor", POSITIVE, POSITIVE, call=lambda t, x, y: x**y)
    yield op("clamp", X, call=lambda t, x: x.clamp(-1, 1))
    yield op("where", MASK, X, X)
    yield op("lerp", X, X, call=lambda t, x, y: t.lerp(x, y, 0.3))
    yield op("gelu_tanh", X, call=lambda t, x: t.nn.functional.gelu(x, approximate="tanh"))
    yield op("round_half_even", X, call=lambda t, x: t.round(x))
    yield op("cast", X, call=lambda t, x: x.to(t.float64 if x.dtype != t.float64 else t.float32))
    yield op("copy", X, X, call=lambda t, x, y: x.detach().clone().copy_(y))
    yield op("arrange", X, call=lambda t, x: x.T.contiguous())
    yield op("zero", X, call=lambda t, x: t.zeros_like(x))
    yield op("polygamma", SMALL, call=lambda t, x: t.polygamma(1, x))
    yield op("igamma", SMALL, SMALL)
    yield op("igammac", SMALL, SMALL)
    yield op("special_zeta", Given(SMALLER_PLANES, "above_one"), SMALL)
    yield op("frexp", ANY_SMALL, call=lambda t, x: t.frexp(x)[0])
    yield op("binary_cross_entropy", UNIT, UNIT)


def _over(name: str, dim: int) -> Case:
    return op(f"{name} over {dim}", call=lambda t, x: function_of(t, name)(x, dim))


def _reductions() -> Iterator[Case]:
    for dim in (0, 1):
        yield from (_over(name, dim) for name in (*REDUCTIONS, *SCANS, "softmax", "log_softmax", "all", "any"))
        yield from _over_one(dim)
    yield op("sum of all", call=lambda t, x: x.sum())
    yield op("max_with_index", call=lambda t, x: t.max(x, 1))
    yield op("min_with_index", call=lambda t, x: t.min(x, 1))
    yield op("unique", SHORT, call=lambda t, x: t.unique(x))
    yield op("histc", LINE, call=lambda t, x: t.histc(x, 16))
    yield op("searchsorted", SHORT, SHORT, call=lambda t, x, y: t.searchsorted(x, y))
    yield op("isin", SHORT, call=lambda t, x: t.isin(x, x[:8]))
    yield op("cross_entropy", X, CLASSES)


def _over_one(dim: int) -> Iterator[Case]:
    yield op(f"kthvalue over {dim}", ANY_SMALL, call=lambda t, x: t.kthvalue(x, 2, dim))
    yield op(f"argsort over {dim}", ANY_SMALL, call=lambda t, x: t.sort(x, dim))
    yield op(f"topk over {dim}", call=lambda t, x: t.topk(x, 2, dim))
    yield op(f"vector_norm over {dim}", call=lambda t, x: t.linalg.vector_norm(x, dim=dim))
    yield op(f"var over {dim}", call=lambda t, x: t.var(x, dim=dim))
    yield op(f"quantile over {dim}", ANY_SMALL, call=lambda t, x: t.quantile(x, 0.3, dim=dim))


def _layouts() -> Iterator[Case]:
    yield op("reshape", call=lambda t, x: x.reshape(-1))
    yield op("permute", call=lambda t, x: x.permute(1, 0))
    yield op("expand", call=lambda t, x: x.expand(2, *x.shape))
    yield op("slice", call=lambda t, x: x[1:3])
    yield op("slice of one element", call=lambda t, x: x[1, 2])
    yield op("diagonal", call=lambda t, x: x.diagonal())
    yield op("unfold", LINE, call=lambda t, x: x.unfold(0, 4, 2))
    yield op("as_strided", LINE, call=lambda t, x: x.as_strided((2, 2), (2, 1)))
    yield op("alias", call=lambda t, x: x.view_as(x))
    yield op("detach", call=lambda t, x: x.detach())
    yield op("write_through", call=_filled_table)
    yield op("flip", call=lambda t, x: t.flip(x, (0,)))
    yield op("roll", call=lambda t, x: t.roll(x, 1, 0))
    yield op("tril")
    yield op("triu")
    yield op("constant_pad", call=lambda t, x: t.nn.functional.pad(x, (1, 1)))
    yield op("cat", X, X, call=lambda t, x, y: t.cat([x, y]))
    yield op("stack", X, X, call=lambda t, x, y: t.stack([x, y]))
    yield op("cat of 64", Given(((2, 4), (16, 64), (256, 256))), call=lambda t, x: t.cat([x] * 64))
    yield op("stack of 64", Given(((2, 4), (16, 64), (256, 256))), call=lambda t, x: t.stack([x] * 64))
    yield op(
        "embedding", Given(((8,), (1024,), (16384,)), "index", (2, 128, 512)), Given(((4, 4), (128, 64), (512, 256)))
    )
    rows = Given(((2,), (256,), (2048,)), "index", (2, 256, 2048))
    yield op("index_get", X, rows, call=lambda t, x, i: x[i])
    yield op("index_get by a mask", X, MASK, call=lambda t, x, m: x[m])
    yield op("index_put", X, rows, call=lambda t, x, i: x.index_add(0, i, x))
    yield op("gather", X, PLACES, call=lambda t, x, i: t.gather(x, 1, i % x.shape[1]))
    yield op("scatter", X, PLACES, call=lambda t, x, i: t.scatter(x, 0, i % x.shape[0], x))
    yield op("scatter_reduce", X, PLACES, call=lambda t, x, i: t.scatter_reduce(x, 0, i % x.shape[0], x, "sum"))


def _filled_table(t: Any, x: Any) -> Any:
    table = t.zeros(4, 4, dtype=x.dtype)
    for i in range(4):
        table[i, i] = i
    return table


def _products() -> Iterator[Case]:
    square = Given(SQUARES)
    yield op("matmul", square, square)
    yield op("linear", square, square)
    yield op("scaled_dot_product_attention", *[Given(((1, 1, 4, 8), (4, 4, 64, 32), (4, 8, 256, 64)))] * 3)
    yield op("batched matmul", MATRIX, MATRIX, call=lambda t, a, b: a @ b)
    for name in ("inv", "det", "slogdet", "eigh", "eigvalsh", "svdvals", "cholesky", "lu_factor", "matrix_exp"):
        yield op(f"linalg_{name}", DEFINITE)
    yield op("solve", DEFINITE, MATRIX, call=lambda t, a, b: t.linalg.solve(a, b))
    yield op("solve_triangular", DEFINITE, MATRIX, call=lambda t, a, b: t.linalg.solve_triangular(a, b, upper=False))
    yield op("qr", DEFINITE, call=lambda t, a: t.linalg.qr(a)[0])
    yield op("svd", DEFINITE, call=lambda t, a: t.linalg.svd(a)[1])
    yield op("pinv", DEFINITE, call=lambda t, a: t.linalg.pinv(a))
    yield op("lstsq", DEFINITE, MATRIX, call=lambda t, a, b: t.linalg.lstsq(a, b)[0])
    yield op("ldl_factor", DEFINITE, call=lambda t, a: t.linalg.ldl_factor(a)[0])
    yield op("geqrf", DEFINITE, call=lambda t, a: t.geqrf(a)[0])


def _draws() -> Iterator[Case]:
    for name in ("uniform", "normal", "exponential", "cauchy"):
        yield op(f"random_{name}", call=lambda t, x, n=name: getattr(t.empty_like(x), f"{n}_")())
    yield op("random_geometric", call=lambda t, x: t.empty_like(x).geometric_(0.3))
    yield op("random_integer", call=lambda t, x: t.randint(0, 9, tuple(x.shape)))
    yield op("random_permutation", SHORT, call=lambda t, x: t.randperm(x.shape[0]))
    yield op("bernoulli", UNIT)
    yield op("normal", X, POSITIVE, call=lambda t, x, s: t.normal(x, s))
    yield op("poisson", SMALL)
    yield op("multinomial", Given(SHORT_LINES, "positive"), call=lambda t, x: t.multinomial(x, 4))
    yield op("standard_gamma", SMALL, call=lambda t, x: t.distributions.Gamma(x, 1.0).sample())
    yield op("random_keep", call=lambda t, x: t.nn.functional.dropout(x, 0.5))


def every_op() -> list[Case]:
    """All cases of ops."""
    return [case for family in (_elementwise, _reductions, _layouts, _products, _draws) for case in family()]


# Ops that have no function of their own: which case runs them, forward or backward.
INSIDE = {
    "attention_gradient": "scaled_dot_product_attention",
    "linear_gradient": "linear",
    "conv": "Conv2d",
    "conv_transpose": "ConvTranspose2d",
    "conv_weight_grad": "Conv2d",
    "taps": "Upsample",
    "logsumexp_backward": "logsumexp over 1",
    "avg_pool": "AvgPool2d",
    "avg_pool_grad": "AvgPool2d",
    "max_pool": "MaxPool2d",
    "max_pool_grad": "MaxPool2d",
    "unpool": "MaxUnpool2d",
    "standardize": "LayerNorm",
    "standardize_backward": "LayerNorm",
    "median_place": "median over 1",
    "nanmedian_place": "nanmedian over 1",
    "softmax_backward": "softmax over 1",
    "log_softmax_backward": "log_softmax over 1",
    "cross_entropy_backward": "cross_entropy",
    "gelu_tanh_slope": "gelu_tanh",
    "log_gamma_draw_gradient": "standard_gamma",
    "log_standard_gamma": "standard_gamma",
    "random_coin": "RReLU",
    "sum_rows": "embedding",
    "index_embed": "index_get",
    "last_written": "index_put",
    "patches": "Unfold",
    "patch_sum": "Fold",
    "gather_embed": "gather",
    "embed": "slice",
    "pick": "max_with_index",
    "mirrored": "linalg_eigh",
    "inverse": "linalg_inv",
    "permutation_matrix": "linalg_lu_factor",
    "cofactors": "linalg_det",
    "eigh": "linalg_eigh",
    "eigvalsh": "linalg_eigvalsh",
    "svdvals": "linalg_svdvals",
    "cholesky": "linalg_cholesky",
    "lu_factor": "linalg_lu_factor",
    "det": "linalg_det",
    "slogdet": "linalg_slogdet",
    "matrix_exp": "linalg_matrix_exp",
    "recurrence": "cumprod over 1",
    "ctc_loss": "CTCLoss",
    "ctc_loss_gradient": "CTCLoss",
    **{f"{kind}_sequence{end}": kind.upper() for kind in ("lstm", "gru", "rnn") for end in ("", "_gradient")},
}
NOT_MEASURED = {
    **dict.fromkeys(("leaf", "traced", "once_differentiable"), "the engine's own, they compute nothing"),
    **dict.fromkeys(("cond", "while_loop", "scan", "map", "places", "counted", "require"), "control flow of programs"),
    **dict.fromkeys(("row_attention", "row_attention_gradient"), "of ragged tensors: benchmarks/ragged_attention.py"),
    **dict.fromkeys(
        [f"segment_{name}" for name in words("sum dot spread amax amin places index softmax log_softmax cumsum")]
        + ["segment_softmax_backward", "segment_log_softmax_backward"],
        "of ragged tensors, which PyTorch has not: benchmarks/ragged_batch.py",
    ),
    "ldl_solve": "PyTorch has no gradient for it, and it is a solve_triangular twice",
}
