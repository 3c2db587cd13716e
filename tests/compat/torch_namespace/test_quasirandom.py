"""Sobol points: SciPy's direction numbers, PyTorch's class."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import extempo as ex
from extempo.compat.torch_namespace.quasirandom import SobolEngine


def test_without_scipy_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(ex.errors.UnsupportedError, match="pip install scipy"):
        SobolEngine(2)


def test_a_dimension_out_of_range_is_refused():
    with pytest.raises(ex.errors.ArgumentError, match="from 1 to 21201, got 0"):
        SobolEngine(0)


def test_points_are_those_of_the_sequence():
    pytest.importorskip("scipy")
    engine = SobolEngine(2)
    assert engine.draw(4).tolist() == [[0.0, 0.0], [0.5, 0.5], [0.75, 0.25], [0.25, 0.75]]
    assert engine.num_generated == 4
    assert engine.reset().fast_forward(2).draw(1).tolist() == [[0.75, 0.25]]
    assert repr(engine) == "SobolEngine(dimension=2)"


def test_powers_of_two_stay_powers_of_two():
    pytest.importorskip("scipy")
    engine = SobolEngine(3)
    assert engine.draw_base2(2, dtype=ex.float64).dtype == ex.float64
    with pytest.raises(ex.errors.ArgumentError, match=r"use draw\(8\)"):
        engine.draw_base2(3)


def test_scrambled_points_repeat_by_their_seed():
    pytest.importorskip("scipy")
    first, second, other = (SobolEngine(2, scramble=True, seed=seed).draw(8) for seed in (1, 1, 2))
    assert first.tolist() == second.tolist() != other.tolist()
    ex.manual_seed(0)
    drawn = SobolEngine(2, scramble=True).draw(8)
    ex.manual_seed(0)
    assert SobolEngine(2, scramble=True).draw(8, out=ex.empty(0)).tolist() == drawn.tolist()


def test_points_are_those_of_pytorch():
    pytest.importorskip("scipy")
    torch = pytest.importorskip("torch")
    theirs = torch.quasirandom.SobolEngine(5)
    ours = SobolEngine(5)
    for n in (1, 2, 13):
        np.testing.assert_array_equal(ours.draw(n).numpy(), theirs.draw(n).numpy())
