"""The native code of every elementwise op against its NumPy kernel, over dtypes, layouts, sizes and awkward values."""

from __future__ import annotations

import functools
import math
import re

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.elementwise.kernels import of_op
from extempo.backends.llvm.lanes.emitter import NotNative
from extempo.backends.selection import native
from extempo.core.op import REGISTRY, Elementwise, Refuse, Routine
from extempo.core.types import TensorType, as_dtype, int64

from ..lane_kernels import DTYPES, REFUSING, Kernel, awkward, kernel_of, operands_of, ulps

# Every op that training can meet; one that loses its native code must not do so silently.
_LOWERED = """
    abs acos acosh add asin asinh atan atan2 atanh binary_cross_entropy bitwise_and bitwise_left_shift
    bitwise_not bitwise_or bitwise_right_shift bitwise_xor cast ceil clamp clone copy copysign cos cosh div elu
    eq erf erfc exp exp2 expm1 floor floor_divide fmax fmin fmod ge gelu gelu_tanh gelu_tanh_slope gt hardswish
    hardtanh hypot isfinite isinf isnan le leaky_relu lerp lgamma log log10 log1p log2 logaddexp logaddexp2 logical_and
    logical_not logical_or logical_xor logit lt maximum minimum mish mul ne neg nextafter pow pow_tensor reciprocal relu
    remainder round_half_even rsqrt sigmoid sign signbit silu sin sinh softplus special_entr special_xlog1py
    sqrt sub tan tanh trunc trunc_divide where xlogy zero
"""
LOWERED = re.findall(r"\w+", _LOWERED)

# Functions that are more than one correctly rounded step; all others must give NumPy's bits, the sign of 0 included.
# The number: how many ulp they may be away from the NumPy kernel's float64 result (for float64: from its result).
_FOUR_ULP = """
    acos acosh asin asinh atan atan2 atanh cos cosh elu erf erfc exp exp2 expm1 gelu gelu_tanh gelu_tanh_slope hypot
    log log10 log1p log2 logaddexp logaddexp2 logit mish pow pow_tensor sigmoid silu sin sinh softplus special_entr
    special_xlog1py tan tanh xlogy
"""
ROUNDED = dict.fromkeys(re.findall(r"\w+", _FOUR_ULP), 4.0) | {
    "binary_cross_entropy": 8.0,  # a sum of two logarithms
    "lgamma": 16.0,  # NumPy's table is good to that near the roots
    "rsqrt": 2.0,
}
# What else is allowed, absolutely, in units of the dtype's eps: these pass through 0 by subtracting numbers of size 1.
CANCELS = {"logit": 2.0, "logaddexp": 2.0, "logaddexp2": 2.0, "binary_cross_entropy": 2.0, "gelu_tanh_slope": 2.0}
# and in float64 everywhere, because NumPy's formula cancels: 1 + tanh() far below 0, a table near its roots.
ORACLE_CANCELS = {"gelu_tanh": 1e-14, "gelu_tanh_slope": 1e-14, "lgamma": 1e-14}
# Parameters that are not data; with these the argument of the exponential is exact.
PARAMETERS = {"elu": ([1.0, 1.75], [1.0, 1.0625], [1.0, 0.5]), "softplus": ([1.0, 0.5], [20.0, math.inf])}
OPS = [pytest.param(REGISTRY[name], id=name) for name in LOWERED if name != "cast"]  # which has a test of its own


def dtypes_of(op):
    domain = "f" if op.to_float else op.domain
    return [d for kind in domain for d in DTYPES[kind]]


def results_of(op, kernel, *arrays, shape=None):
    """The results, when nothing in whole vectors is refused; which lanes of the last one exist, `live` would say."""
    made = kernel(*arrays, shape=shape)
    if op.name not in REFUSING:
        return made
    assert not made[1][..., : made[1].shape[-1] // 8 * 8].any()
    return made[0]


def inputs_of(op, dtype, n, rng):
    arrays = [awkward(dtype, n, rng, op.name) for _ in range(operands_of(op))]
    if op.name == "where":
        arrays[0] = rng.random(n) < 0.5
    for i, choices in enumerate(PARAMETERS.get(op.name, ())):
        arrays[i + 1] = rng.choice(np.array(choices, dtype), size=n)
    if np.dtype(dtype).kind == "i" and op.name in ("floor_divide", "remainder", "fmod"):
        arrays[1][arrays[1] == 0] = 1
    return arrays


def compare(op, dtype, arrays, actual):
    """The results against those of the NumPy kernel; arrays may be None, for an input that is not given."""
    allowed = ROUNDED.get(op.name) if np.dtype(dtype).kind == "f" else None
    if allowed is None:
        with np.errstate(all="ignore"):
            expected = np.broadcast_to(np.asarray(op.numpy(*arrays), actual.dtype), actual.shape)
        np.testing.assert_array_equal(actual, expected)
        if actual.dtype.kind == "f":
            numbers = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(actual)[numbers], np.signbit(expected)[numbers])
        return
    anyway = CANCELS.get(op.name, 0.0) * np.finfo(dtype).eps + ORACLE_CANCELS.get(op.name, 0.0)
    with np.errstate(all="ignore"):
        expected = op.numpy(*(None if a is None else a.astype(np.float64) for a in arrays))
        error = np.where(np.abs(actual - expected) <= anyway, 0.0, ulps(actual, expected))
    if error.size:
        i = int(np.argmax(error))
        given = [a if a is None or a.ndim == 0 else a[i] for a in arrays]
        assert error[i] <= allowed, f"{error[i]} ulp off at {given}: {actual[i]}, expected {expected[i]}"


@pytest.mark.parametrize("op", OPS)
def test_native_code_gives_what_numpy_gives(op):
    rng = np.random.default_rng(7)
    for dtype in dtypes_of(op):
        arrays = inputs_of(op, dtype, 1003, rng)
        compare(op, dtype, arrays, results_of(op, kernel_of(op, dtype), *arrays))


@pytest.mark.parametrize("op", OPS)
def test_every_size_and_layout_gives_the_same_bits(op):
    """A lane's result depends on that lane alone: not on its place, on its neighbours or on a mask."""
    rng = np.random.default_rng(8)
    dtype = dtypes_of(op)[0]
    arrays = inputs_of(op, dtype, 43, rng)
    run = functools.partial(results_of, op, kernel_of(op, dtype))
    whole = run(*arrays)
    for n in range(41):
        np.testing.assert_array_equal(run(*(a[3 : n + 3] for a in arrays)), whole[3 : n + 3])
    rows = run(*(a[:42].reshape(3, 14) for a in arrays))
    np.testing.assert_array_equal(rows.ravel(), whole[:42])
    wide = [np.zeros(129, a.dtype) for a in arrays]
    for w, a in zip(wide, arrays, strict=True):
        w[::3] = a
    run_strided = functools.partial(results_of, op, kernel_of(op, dtype, "s" * len(arrays)))
    np.testing.assert_array_equal(run_strided(*(w[::3] for w in wide)), whole)
    np.testing.assert_array_equal(run_strided(*(w[::3][::-1] for w in wide)), whole[::-1])
    if len(arrays) > 1:
        numbers = [a[5:6].reshape(()) for a in arrays[1:]]
        once = results_of(op, kernel_of(op, dtype, "1" + "0" * len(numbers)), arrays[0], *numbers)
        np.testing.assert_array_equal(once, run(arrays[0], *(np.full_like(arrays[0], x, x.dtype) for x in numbers)))


@pytest.mark.parametrize("op", OPS)
def test_samples_give_what_numpy_gives(op):
    for sample in op.samples(np.random.default_rng(9)):
        arrays = [None if x is None else np.asarray(x) for x in sample.inputs]
        floating = any(a is not None and a.dtype.kind == "f" for a in arrays)
        truth = all(a.dtype.kind == "b" for a in arrays if a is not None)
        for dtype in DTYPES["f"] if floating else DTYPES["b"] if truth else (np.int64,):
            check_sample(op, dtype, arrays)


def check_sample(op, dtype, arrays):
    """Arrays are spread to one shape, numbers stay numbers, what is None is not given to the kernel."""
    cast = [a if a is None or a.dtype.kind == "b" else a.astype(dtype) for a in arrays]
    shape = np.broadcast_shapes(*(a.shape for a in cast if a is not None))
    flat = [a if a is None or not a.ndim else np.ascontiguousarray(np.broadcast_to(a, shape)).ravel() for a in cast]
    given = [a for a in flat if a is not None]
    kernel = kernel_of(op, dtype, "".join("01"[a.ndim] for a in given), tuple(a is not None for a in flat))
    compare(op, dtype, flat, results_of(op, kernel, *given, shape=(math.prod(shape),)))


def test_every_elementwise_op_has_native_code_or_says_why_not():
    named = {n for n, op in REGISTRY.items() if issubclass(op, Elementwise) and not isinstance(op.lower, Routine)}
    without = {name for name in named if isinstance(REGISTRY[name].lower, Refuse)}
    assert named - without == set(LOWERED)
    assert [name for name in without if REGISTRY[name].lower.why.startswith("not yet")] == []


CASTS = (np.float32, np.float64, np.int64, np.int32, np.bool_)


@pytest.mark.parametrize("source", CASTS)
@pytest.mark.parametrize("target", CASTS)
def test_conversion_between_dtypes_is_numpys(source, target):
    rng = np.random.default_rng(10)
    values = awkward(source, 203, rng)
    if np.dtype(source).kind == "f":  # around the limits of both integers, where rounding decides
        edges = [2.0**31, -(2.0**31), 2.0**31 - 0.5, -(2.0**31) - 0.5, -(2.0**31) - 1.0, 2.0**63, -(2.0**63), 1e30]
        values[:8] = edges
    to = as_dtype(np.dtype(target).name)
    kernel = Kernel(lambda e, v: [REGISTRY["cast"].lower(e, *v, dtype=to)], [source], [target])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(kernel(values), values.astype(target))


def test_a_dtype_without_lanes_is_not_native():
    with pytest.raises(NotNative, match="float16"):
        Kernel(lambda e, v: [e.cast(v[0], as_dtype("float16"))], [np.float32], [np.float32])


def test_probabilities_outside_0_to_1_are_refused():
    kernel = kernel_of(REGISTRY["binary_cross_entropy"], np.float32)
    x = np.linspace(0.0, 1.0, 64, dtype=np.float32)
    assert not kernel(x, x)[1].any()
    for wrong in (-1e-6, 1.0001, math.nan):
        x[3] = wrong
        refused = kernel(x, x)[1].tolist()
        assert (refused[3], refused[32:]) == (True, [False] * 32)  # those done at once with it are refused, too


def test_lanes_that_do_not_exist_are_not_refused():
    def body(e, values):
        e.live = values[0] > 0.0
        e.refuse_where(values[0] < 1.0)
        return [values[0]]

    kernel = Kernel(body, [np.float32], [np.float32], refusable=True)
    assert not kernel(np.array([-1, 0, 1, 2, -3, 0, 1, 1], np.float32))[1].any()
    assert kernel(np.array([-1, 0, 1, 2, -3, 0, 1, 0.5], np.float32))[1].all()


@pytest.mark.parametrize("n", [1, 7, 8, 9, 17])
def test_an_element_that_is_an_error_is_reported_wherever_it_stands_and_lanes_beyond_the_end_never_are(n):
    if native() is None:  # it loads what calls kernels
        pytest.skip("the native backend is off")
    kernel = of_op(REGISTRY["floor_divide"], (TensorType((n,), int64), TensorType((n,), int64)), {})
    divide = kernel.callable(lambda *arrays: "declined")
    a = np.arange(n) + 1
    np.testing.assert_array_equal(divide(a * 3, a), np.full(n, 3))
    for zero in range(n):
        b = a.copy()
        b[zero] = 0
        assert divide(a, b) == "declined"


@pytest.mark.parametrize("name", ["maximum", "minimum", "add", "sub", "mul", "div", "pow", "fmax", "lt", "where"])
def test_a_number_takes_the_other_operands_type(name):
    x = awkward(np.float32, 64, np.random.default_rng(11))
    result = np.bool_ if name == "lt" else np.float32
    left = (True,) if name == "where" else ()
    for number in (2, 0.5, -1.0):
        for swap in (False, True):

            def written(e, values, number=number, swap=swap):
                pair = (number, values[0]) if swap else (values[0], number)
                return [getattr(e, name)(*left, *pair)]

            def spread(e, values, number=number, swap=swap):
                full = e.number(number, values[0])
                pair = (full, values[0]) if swap else (values[0], full)
                return [getattr(e, name)(*(e.ne(full, 0.0) for _ in left), *pair)]

            alone, beside = (Kernel(body, [np.float32], [result])(x) for body in (written, spread))
            np.testing.assert_array_equal(alone, beside)


def test_one_lane_is_spread_over_the_other_operands_lanes():
    x = np.arange(8, dtype=np.float32)
    kernel = Kernel(lambda e, v: [e.sub(e.b.extract(v[0], 3), v[0])], [np.float32], [np.float32])
    np.testing.assert_array_equal(kernel(x), x[3] - x)


def test_two_numbers_alone_are_left_to_python():
    with pytest.raises(TypeError, match="in Python"):
        Kernel(lambda e, v: [e.add(1.0, 2.0)], [np.float32], [np.float32])
