"""Native code of functions of rows against their NumPy kernels, at lengths and widths around those of vectors."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.backends.selection import FALLBACKS, native
from extempo.core.op import REGISTRY
from extempo.dispatch.dispatcher import apply

LENGTHS = [(3, 0, 5, 1), (40,), (0, 0, 7), (100, 1, 16, 8, 9, 64, 65), (1,) * 5]
SHAPES = [(), (1,), (3,), (17,), (64,), (70,), (130,), (5, 7)]
ONE_EACH = ("segment_sum", "segment_amax", "segment_amin")
SAME_SHAPE = ("segment_softmax", "segment_log_softmax")
BACKWARD = ("segment_softmax_backward", "segment_log_softmax_backward")


@pytest.fixture(autouse=True)
def needs_native_code():
    if native() is None:
        pytest.skip("the native backend is not there")


def compare(name, inputs, attrs, tolerance):
    before = FALLBACKS[name]
    found = apply(REGISTRY[name], tuple(map(ex.from_numpy, inputs)), attrs).numpy()
    assert FALLBACKS[name] == before
    with np.errstate(all="ignore"):
        expected = REGISTRY[name].numpy(*inputs, **attrs)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * 10)


def rows_of(lengths):
    return np.cumsum([0, *lengths]), np.repeat(np.arange(len(lengths)), lengths)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("name", [*ONE_EACH, *SAME_SHAPE, *BACKWARD, "segment_spread", "segment_cumsum"])
def test_native_code_equals_numpy(name, lengths, dtype):
    offsets, row_of = rows_of(lengths)
    random = np.random.RandomState(0)
    tolerance = 3e-5 if dtype is np.float32 else 1e-12
    for shape in SHAPES:
        n_values = len(lengths) if name == "segment_spread" else sum(lengths)
        values = [random.normal(size=(n_values, *shape)).astype(dtype) for _ in range(2 if name in BACKWARD else 1)]
        for attrs in ({"reverse": False}, {"reverse": True}) if name == "segment_cumsum" else ({},):
            compare(name, [*values, offsets, row_of], attrs, tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lengths", [(3, 5, 1), (40,), (100, 1, 16, 8, 9, 64, 65)])
@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_places_of_equal_elements_and_of_nan_are_those_of_numpy(op, lengths, dtype):
    offsets, _ = rows_of(lengths)
    random = np.random.RandomState(0)
    for shape in SHAPES:
        values = random.randint(-2, 3, (sum(lengths), *shape)).astype(dtype)
        values[random.uniform(size=values.shape) < 0.05] = np.nan
        values[random.uniform(size=values.shape) < 0.05] = -np.inf
        compare("segment_places", [values, offsets], {"op": op, "attrs": ()}, 0.0)


def test_a_row_of_nothing_but_the_worst_has_its_first_place():
    values = np.full((5, 3), -np.inf, np.float32)
    compare("segment_places", [values, np.array([0, 2, 5])], {"op": "argmax", "attrs": ()}, 0.0)
    compare("segment_places", [values[:, 0].copy(), np.array([0, 2, 5])], {"op": "argmax", "attrs": ()}, 0.0)
