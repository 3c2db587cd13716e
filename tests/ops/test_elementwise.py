"""Arithmetic, choice, comparison, rounding and transcendental functions where PyTorch's samples do not look."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, NumericalError, ShapeError


def values(tensor: ex.Tensor) -> list:
    return tensor.detach().numpy().tolist()


def gradient(fn, x: ex.Tensor) -> list:
    return values(ex.autograd.grad(fn(x).sum(), x)[0])


# ---- powers


def test_integers_to_a_negative_number_are_refused():
    with pytest.raises(NumericalError, match=r"use x\.float"):
        ex.tensor([2, 3]) ** -1
    with pytest.raises(NumericalError, match=r"use x\.float"):
        ex.pow(ex.tensor([2, 3]), -2)


def test_integers_to_negative_tensors_give_the_whole_part():
    assert values(ex.tensor([1, -1, -1, 2, 0]) ** ex.tensor([-3, -3, -2, -1, -1])) == [1, -1, 1, 0, 0]


def test_power_gradients_at_zero_are_finite():
    x = ex.tensor([0.0, 2.0], requires_grad=True)
    assert gradient(lambda x: x**0, x) == [0.0, 0.0]
    assert gradient(lambda x: x**2, x) == [0.0, 4.0]
    exponent = ex.tensor([2.0, 2.0], requires_grad=True)
    assert gradient(lambda e: ex.tensor([0.0, 1.0]) ** e, exponent) == [0.0, 0.0]


def test_gradient_of_a_float_power_keeps_the_dtype():
    x = ex.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x**3.0).sum().backward()
    assert x.grad.numpy().dtype == np.float32
    assert values(x.grad) == [3.0, 12.0, 27.0]


def test_float_power_is_always_float64():
    assert ex.float_power(ex.tensor([2, 3]), 2).dtype is ex.float64
    assert ex.float_power(2, ex.tensor([0.5])).dtype is ex.float64


# ---- division


def test_truncating_division_is_exact_beyond_float_precision():
    big = 2**62 + 1
    assert values(ex.div(ex.tensor([-big, big]), 3, rounding_mode="trunc")) == [-(big // 3), big // 3]


def test_division_by_integer_zero_is_an_error():
    with pytest.raises(NumericalError, match="division of integers by zero"):
        ex.tensor([1]) // 0
    with pytest.raises(NumericalError):
        ex.tensor([1]) % ex.tensor([0])


def test_unknown_rounding_mode_is_refused():
    with pytest.raises(ShapeError, match="'trunc' or 'floor'"):
        ex.div(ex.tensor([1.0]), 2.0, rounding_mode="up")


def test_addcdiv_refuses_integers():
    with pytest.raises(DtypeError, match=r"use x\.float"):
        ex.addcdiv(ex.tensor([1]), ex.tensor([1]), ex.tensor([2]))


# ---- choice


def test_nan_wins_in_maximum_and_loses_in_fmax():
    a, b = ex.tensor([math.nan, 1.0]), ex.tensor([0.0, math.nan])
    assert all(math.isnan(v) for v in values(ex.maximum(a, b)))
    assert values(ex.fmax(a, b)) == [0.0, 1.0]


def test_equal_elements_share_the_gradient_of_maximum():
    a = ex.tensor([1.0, 2.0, 0.0], requires_grad=True)
    b = ex.tensor([1.0, 1.0, 1.0], requires_grad=True)
    ex.maximum(a, b).sum().backward()
    assert values(a.grad) == [0.5, 1.0, 0.0]
    assert values(b.grad) == [0.5, 0.0, 1.0]


def test_clamp_passes_the_gradient_on_its_bounds():
    x = ex.tensor([-2.0, -1.0, 0.0, 1.0, 2.0], requires_grad=True)
    assert gradient(lambda x: x.clamp(-1, 1), x) == [0.0, 1.0, 1.0, 1.0, 0.0]


def test_clamp_with_crossed_bounds_gives_the_upper_one():
    low = ex.tensor([2.0], requires_grad=True)
    high = ex.tensor([1.0], requires_grad=True)
    y = ex.clamp(ex.tensor([5.0]), low, high)
    y.sum().backward()
    assert values(y) == [1.0]
    assert values(low.grad) == [0.0]
    assert values(high.grad) == [1.0]


def test_clamp_needs_a_bound():
    with pytest.raises(ShapeError, match="at least one"):
        ex.clamp(ex.tensor([1.0]))


def test_nan_to_num_replaces_by_the_limits_of_the_dtype():
    x = ex.tensor([math.nan, math.inf, -math.inf, 1.5], requires_grad=True)
    limit = ex.finfo(ex.float32).max
    assert values(ex.nan_to_num(x)) == [0.0, limit, -limit, 1.5]
    assert values(ex.nan_to_num(x, 7.0, 8.0, 9.0)) == [7.0, 8.0, 9.0, 1.5]
    assert gradient(ex.nan_to_num, x) == [0.0, 0.0, 0.0, 1.0]


def test_heaviside_asks_for_one_dtype():
    assert values(ex.heaviside(ex.tensor([-1.0, 0.0, 2.0]), ex.tensor(0.5))) == [0.0, 0.5, 1.0]
    with pytest.raises(DtypeError, match="one dtype"):
        ex.heaviside(ex.tensor([1.0]), ex.tensor([1]))


def test_where_refuses_a_condition_that_is_no_bool():
    with pytest.raises(DtypeError, match="bool condition"):
        ex.where(ex.tensor([1.0]), 1.0, 2.0)


def test_lerp_meets_both_ends_exactly():
    a, b = ex.tensor([0.1, 1e8]), ex.tensor([0.7, 3.0])
    assert values(ex.lerp(a, b, 0.0)) == values(a)
    assert values(ex.lerp(a, b, 1.0)) == values(b)


# ---- rounding


def test_halves_are_rounded_to_even():
    assert values(ex.round(ex.tensor([0.5, 1.5, 2.5, -0.5]))) == [0.0, 2.0, 2.0, -0.0]


def test_round_to_decimals_and_to_tens():
    assert values(ex.round(ex.tensor([1234.567], dtype=ex.float64), decimals=2)) == [1234.57]
    assert values(ex.round(ex.tensor([1234.567], dtype=ex.float64), decimals=-2)) == [1200.0]
    with pytest.raises(DtypeError, match="decimals=1"):
        ex.round(ex.tensor([1]), decimals=1)


def test_rounding_leaves_integers_as_they_are_and_copies_them():
    x = ex.tensor([1, 2])
    y = ex.floor(x)
    y += 1
    assert values(x) == [1, 2]


def test_frexp_names_its_parts_and_ldexp_joins_them():
    x = ex.tensor([0.0, 1.0, -10.0, 0.3])
    parts = ex.frexp(x)
    assert parts.exponent.dtype is ex.int32
    assert values(ex.ldexp(parts.mantissa, parts.exponent)) == values(x)


def test_frac_refuses_integers():
    with pytest.raises(DtypeError, match="no fraction"):
        ex.frac(ex.tensor([1]))


# ---- functions


def test_sigmoid_does_not_overflow():
    x = ex.tensor([-1000.0, 0.0, 1000.0], requires_grad=True)
    assert values(ex.sigmoid(x)) == [0.0, 0.5, 1.0]
    assert gradient(ex.sigmoid, x) == [0.0, 0.25, 0.0]


def test_logaddexp_of_large_numbers_is_finite():
    a = ex.tensor([1000.0, -1000.0], requires_grad=True)
    assert values(ex.logaddexp(a, ex.tensor([1000.0, -1000.0]))) == pytest.approx([1000.693147, -999.306853])
    assert gradient(lambda a: ex.logaddexp(a, ex.tensor([1000.0, -1000.0])), a) == [0.5, 0.5]


def test_logit_outside_the_unit_interval_is_nan():
    x = ex.tensor([-0.5, 0.5, 1.5], requires_grad=True)
    result = values(ex.logit(x))
    assert math.isnan(result[0])
    assert result[1] == 0.0
    assert math.isnan(gradient(ex.logit, x)[2])
    assert values(ex.logit(x, eps=0.25)) == pytest.approx([-math.log(3), 0.0, math.log(3)])


def test_integers_become_the_default_floating_dtype():
    assert ex.exp(ex.tensor([0, 1])).dtype is ex.float32
    assert ex.true_divide(ex.tensor([1]), ex.tensor([2])).dtype is ex.float32


def test_angle_of_negative_numbers_is_pi():
    assert values(ex.angle(ex.tensor([-2, 0, 3]))) == pytest.approx([math.pi, 0.0, 0.0])
    assert math.isnan(values(ex.angle(ex.tensor([math.nan])))[0])


# ---- comparison


def test_infinities_are_close_only_to_themselves():
    x = ex.tensor([math.inf, -math.inf, math.inf, 1.0])
    y = ex.tensor([math.inf, math.inf, 1.0, math.inf])
    assert values(ex.isclose(x, y)) == [True, False, False, False]


def test_isclose_of_bools_and_of_nan():
    assert values(ex.isclose(ex.tensor([True, False]), ex.tensor([True, True]))) == [True, False]
    nan = ex.tensor([math.nan])
    assert not ex.allclose(nan, nan)
    assert ex.allclose(nan, nan, equal_nan=True)


def test_tensors_of_different_shapes_are_not_equal():
    assert not ex.equal(ex.tensor([1.0]), ex.tensor([1.0, 1.0]))
    assert ex.equal(ex.empty(0, 3), ex.empty(0, 3))


def test_comparing_with_none_is_false():
    assert (ex.tensor([1.0]) == None) is False  # noqa: E711 - the operator is what is tested
    assert (ex.tensor([1.0]) != None) is True  # noqa: E711 - the operator is what is tested


# ---- shapes and memory


@pytest.mark.parametrize("name", ["add", "maximum", "atan2", "hypot", "xlogy", "logaddexp"])
def test_shapes_that_do_not_broadcast_name_op_and_shapes(name):
    with pytest.raises(ShapeError, match=rf"{name}: shapes \(2, 3\) and \(2,\) do not broadcast"):
        getattr(ex, name)(ex.ones(2, 3), ex.ones(2))


@pytest.mark.parametrize("name", ["exp", "floor", "erf", "relu", "lgamma", "sinc", "isnan"])
def test_strided_empty_and_0_dim_inputs(name):
    fn = getattr(ex, name)
    grid = ex.tensor(np.linspace(0.5, 2.0, 12).reshape(3, 4))
    strided = grid.T[::2]
    assert values(fn(strided)) == values(fn(strided.contiguous()))
    assert fn(ex.empty(0, 2)).shape == (0, 2)
    assert fn(ex.tensor(1.0)).shape == ()


def test_out_takes_the_shape_of_the_result():
    out = ex.empty(0)
    assert ex.add(ex.ones(2), 1.0, out=out) is out
    assert values(out) == [2.0, 2.0]


def test_in_place_forms_write_where_they_stand():
    x = ex.tensor([1.0, 4.0])
    address = x.data_ptr()
    assert values(x.sqrt_().lerp_(ex.tensor([3.0, 3.0]), 0.5).addcmul_(x, x, value=2).neg_()) == [-10.0, -15.0]
    assert x.data_ptr() == address


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("add", lambda x: x.__iadd__(None)),
        ("mul", lambda x: x.__imul__(None)),
        ("where", lambda x: ex.where(x > 0, x, None)),
        ("lerp", lambda x: ex.lerp(x, x, None)),
        ("leaky_relu", lambda x: ex.nn.functional.leaky_relu(x, None)),
    ],
)
def test_none_is_no_operand(name, call):
    with pytest.raises(DtypeError, match=f"^{name}: expected tensors or numbers, got None"):
        call(ex.ones(3))


def test_a_choice_among_other_things_than_numbers_is_refused_by_name():
    with pytest.raises(DtypeError, match=r"^where: expected a tensor or a number, got str"):
        ex.where(ex.ones(2) > 0, ex.ones(2), "a")


# ---- special values, out= and alpha as PyTorch has them


@pytest.mark.parametrize("dtype", [ex.int8, ex.int16, ex.int32, ex.int64])
def test_isclose_of_integers_at_their_limits_does_not_wrap_around(dtype):
    least, most = ex.iinfo(dtype).min, ex.iinfo(dtype).max
    a, b = ex.tensor([least, 0, most, most], dtype=dtype), ex.tensor([0, least, -1, most], dtype=dtype)
    assert values(ex.isclose(a, b)) == [False, False, False, True]


@pytest.mark.parametrize("dtype", [ex.float16, ex.bfloat16, ex.float32, ex.float64])
def test_a_remainder_of_zero_has_the_sign_of_the_dividend(dtype):
    a, b = ex.tensor([0.0, -0.0, 4.0, -4.0], dtype=dtype), ex.tensor([-2.0, 2.0, -2.0, 2.0], dtype=dtype)
    for rest in (ex.remainder(a, b), a % b):
        same_bits(rest, [0.0, -0.0, 0.0, -0.0])


@pytest.mark.parametrize("dtype", [ex.float16, ex.bfloat16, ex.float32, ex.float64])
def test_rectifiers_keep_negative_zero(dtype):
    F, x = ex.nn.functional, ex.tensor([-0.0] * 9, dtype=dtype)
    for function in (ex.relu, F.relu6, F.elu, F.celu, F.selu, F.hardtanh, F.leaky_relu):
        same_bits(function(x), [-0.0] * 9)


def test_trapezoid_adds_narrow_integers_in_int64():
    assert ex.trapezoid(ex.tensor([100, 100, 100], dtype=ex.int8)).item() == 200.0
    assert ex.trapezoid(ex.tensor([255, 255], dtype=ex.uint8)).item() == 255.0


def test_no_integer_is_infinite_also_into_out():
    for question in (ex.isposinf, ex.isneginf):
        for dtype in (ex.bool, ex.uint8, ex.int64):
            out = ex.ones(2, dtype=ex.bool)
            assert question(ex.tensor([0, 1], dtype=dtype), out=out) is out
            assert values(out) == [False, False]


def test_sums_with_alpha_have_the_dtype_of_sums_without():
    truth, small, half = ex.tensor([True, False]), ex.tensor([1, 2], dtype=ex.int8), ex.tensor([0.5, 1.0]).half()
    assert values(ex.add(truth, truth, alpha=3)) == [True, False]
    assert ex.add(truth, truth, alpha=3).dtype is ex.bool
    assert ex.add(small, truth, alpha=2).dtype is ex.int8
    assert ex.add(half, small, alpha=0.5).dtype is ex.float16
    assert ex.sub(half, small, alpha=0.5).dtype is ex.float16


BASES = [-math.inf, -2.0, -0.0, 0.0, 4.0, math.inf, math.nan]


def same_bits(actual: ex.Tensor, expected: list) -> None:
    array, wanted = actual.detach().double().numpy(), np.array(expected)
    np.testing.assert_array_equal(array, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(array)[numbers], np.signbit(wanted)[numbers])


@pytest.mark.parametrize("dtype", [ex.float16, ex.bfloat16, ex.float32, ex.float64])
@pytest.mark.parametrize("compiled", [False, True])
def test_roots_by_pow_are_those_of_c_for_a_tensor_and_square_roots_for_a_number(dtype, compiled):
    nan, inf = math.nan, math.inf
    roots = {0.5: [nan, nan, -0.0, 0.0, 2.0, inf, nan], -0.5: [nan, nan, -inf, inf, 0.5, 0.0, nan]}
    powers = {0.5: [inf, nan, 0.0, 0.0, 2.0, inf, nan], -0.5: [0.0, nan, inf, inf, 0.5, 0.0, nan]}
    x = ex.tensor(BASES, dtype=dtype)

    def raised(a, b):
        a = a.clone()
        a **= b
        return a

    def run(fn, *arguments):
        fn = ex.compile(fn) if compiled else fn
        return [fn(*arguments) for _ in range(3)][-1]

    for exponent in (0.5, -0.5):
        wanted = powers[exponent]
        for tensor in (ex.tensor(exponent, dtype=dtype), ex.full((7,), exponent, dtype=dtype)):
            same_bits(run(lambda a, b: a**b, x, tensor), wanted)
            same_bits(run(lambda a, b: ex.float_power(a, b), x, tensor), wanted)
            same_bits(run(lambda a, b: a.clone().pow_(b), x, tensor), wanted)
            same_bits(run(raised, x, tensor), wanted)
        for base, result in zip(BASES, wanted, strict=True):
            same_bits(run(lambda b, base=base: base**b, ex.full((3,), exponent, dtype=dtype)), [result] * 3)
        wanted = wanted if dtype is ex.float16 else roots[exponent]  # PyTorch has no roots for float16
        same_bits(run(lambda a, e=exponent: a**e, x), wanted)
        same_bits(run(lambda a, e=exponent: a.clone().pow_(e), x), wanted)
        same_bits(run(lambda a, e=exponent: raised(a, e), x), wanted)
        same_bits(run(lambda a, e=exponent: ex.float_power(a, e), x), roots[exponent])


@pytest.mark.parametrize("close", [ex.isclose, ex.allclose])
@pytest.mark.parametrize("tolerance", [{"rtol": -0.1}, {"atol": -1e-8}, {"rtol": math.nan}])
def test_tolerances_are_not_negative(close, tolerance):
    with pytest.raises(NumericalError, match=f"{next(iter(tolerance))} must be 0 or more"):
        close(ex.tensor([1.0]), ex.tensor([1.0]), **tolerance)


@pytest.mark.parametrize("dtype", [ex.float16, ex.bfloat16])
@pytest.mark.filterwarnings("error")
def test_half_precision_overflows_and_compares_nan_without_a_warning(dtype):
    x = ex.tensor([ex.finfo(dtype).max, math.nan], dtype=dtype)
    assert values((x**1.5)[:1]) == [math.inf]
    assert values(ex.xlogy(x, x)[:1]) == [math.inf]
    assert values(x > 1.0) == values(x >= x) == [True, False]
    assert values(ex.fmin(x, x)[:1]) == values(ex.maximum(x, x)[:1]) == [ex.finfo(dtype).max]


def test_functions_of_bools_whose_gradients_would_negate_them_can_be_compiled():
    x = ex.tensor([True, False])
    for function in (lambda a: ex.erfc(a), lambda a: ex.atan2(a, a)):
        compiled = ex.compile(function)
        for _ in range(3):
            assert values(compiled(x)) == values(function(x))
