"""Weights stored as int8 and float16: how far they are from what they were, and that storing again changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.core.types import TensorType, float32
from extempo.exporting.storage import KINDS, is_storable, n_bytes, restored, stored, stored_weights

r = ex.randn


def again(tensor, kind):
    made = restored("w", tensor._type, kind, stored("w", tensor, kind))
    assert made is not None
    return made


@pytest.mark.parametrize("shape", [(16, 16), (300, 3), (8, 4, 3, 3), (1, 256)])
@pytest.mark.parametrize("scale", [1.0, 1e-6, 300.0])
def test_int8_is_as_near_as_half_a_step_and_stable(shape, scale):
    w = r(*shape) * scale
    made = again(w, "int8")
    steps = w.abs().flatten(1).amax(1) / 127 if len(shape) > 1 else w.abs()
    assert bool(((made - w).abs().flatten(1).amax(1) <= steps * 0.5001).all())
    assert ex.equal(again(made, "int8"), made)


def test_float16_rounds_and_is_stable_and_never_infinite():
    w = r(20, 20)
    w[0, 0] = 1e30
    made = again(w, "float16")
    assert ex.equal(again(made, "float16"), made)
    assert float(made[0, 0]) == 65504
    assert ex.allclose(made[1:], w[1:], rtol=1e-3)


def test_odd_values_have_a_form_too():
    for w in (ex.zeros(16, 16), ex.full((16, 16), float("nan")), ex.full((16, 16), float("inf"))):
        assert again(w, "int8").shape == (16, 16)


def test_small_weights_biases_and_whole_numbers_stay():
    assert not is_storable(r(4, 4), "int8")
    assert not is_storable(r(1000), "int8")
    assert is_storable(r(1000), "float16")
    assert not is_storable(ex.arange(1000).reshape(10, 100), "float16")
    assert is_storable(r(10, 100).double(), "int8")


def test_a_quarter_and_a_half_of_the_bytes():
    weights = {"w": r(64, 64), "b": r(64)}
    assert n_bytes(stored_weights(weights, {})) == 64 * 65 * 4
    assert n_bytes(stored_weights(weights, {"w": "int8"})) == 64 * 64 + 64 * 4 + 64 * 4
    assert n_bytes(stored_weights(weights, {"w": "float16"})) == 64 * 64 * 2 + 64 * 4


@pytest.mark.parametrize("kind", [*KINDS, ""])
def test_what_a_file_does_not_hold_in_that_form_is_none(kind):
    type_ = TensorType((4, 4), float32)
    for held in (
        {},
        {"w": r(4, 5)},
        {"w": ex.ones(4, 4, dtype=ex.int8)},
        {"w": ex.ones(4, 4, dtype=ex.int8), "w@scale": r(4)},
        {"w": ex.ones(4, 4, dtype=ex.int64)},
        {"w": np.ones((4, 4), np.float32)},
    ):
        assert restored("w", type_, kind, held) is None
