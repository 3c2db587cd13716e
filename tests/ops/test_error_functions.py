"""Functions of the normal distribution."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import special

from .helpers import values


def test_normal_distribution_functions_invert_each_other():
    p = ex.tensor([0.01, 0.5, 0.99], dtype=ex.float64)
    assert values(special.ndtr(special.ndtri(p))) == pytest.approx(values(p))
    assert special.log_ndtr(ex.tensor(-40.0, dtype=ex.float64)).item() == pytest.approx(-804.608442013754)


def test_integers_become_floats_and_out_is_filled():
    assert special.erfcx(ex.tensor([1, 2])).dtype is ex.float32
    out = ex.empty(1)
    assert special.erfcx(ex.tensor([0.0]), out=out) is out
    assert values(out) == [1.0]
