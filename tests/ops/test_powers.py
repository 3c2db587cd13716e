"""Powers: signs, zeros, infinities and dtypes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
from extempo.errors import NumericalError

from .helpers import gradient, same_bits, values


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


BASES = [-math.inf, -2.0, -0.0, 0.0, 4.0, math.inf, math.nan]


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
