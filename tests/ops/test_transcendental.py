"""Exponentials and logarithms far out, and integers as arguments."""

from __future__ import annotations

import math

import pytest

import extempo as ex

from .helpers import gradient, values


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
