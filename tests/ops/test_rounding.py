"""Whole parts, decimals and the parts of floating numbers."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.errors import DtypeError

from .helpers import values


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
