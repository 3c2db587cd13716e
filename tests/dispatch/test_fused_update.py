"""Updates by formulas: by NumPy and natively the same bits, written in place."""

from __future__ import annotations

import numpy as np
import pytest

from extempo.backends.selection import native
from extempo.dispatch.fused_update import Update, UpdateKernel, native_places, native_update, numpy_update


def descend(m, numbers, choices, values, gradient, *moments):
    """Momentum; with the choice, by its sign."""
    moment = moments[0] * numbers[1] + gradient
    step = m.sign(moment) if choices[0] else moment
    return values - step * numbers[0], moment


def drawn(n, d=np.float32):
    return np.random.default_rng(n).normal(size=n).astype(d)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, lambda x, g: x - 0.5 * g),
        ({"maximize": True}, lambda x, g: x + 0.5 * g),
        ({"decay": "decoupled"}, lambda x, g: 0.75 * x - 0.5 * g),
        ({"decay": "added"}, lambda x, g: x - 0.5 * (g + 0.75 * x)),
        ({"choices": (True,)}, lambda x, g: x - 0.5 * np.sign(g)),
    ],
)
def test_a_kernel_takes_its_branches(options, expected):
    kernel = UpdateKernel(descend, **({"choices": (False,)} | options))
    values, gradient, moment = drawn(7), drawn(8)[:7], np.zeros(7, np.float32)
    before = values.copy()
    numpy_update(Update(kernel, (0.5, 0.9, 0.75)), gradient, values, [moment])
    np.testing.assert_allclose(values, expected(before, gradient), rtol=1e-6)


def test_kernels_are_told_apart_by_what_chooses_their_branches():
    names = {
        UpdateKernel(descend, (choice,), maximize, decay).name
        for choice in (False, True)
        for maximize in (False, True)
        for decay in ("", "added", "decoupled")
    }
    assert len(names) == 12


def test_halves_are_computed_in_the_precision_of_the_gradient_and_rounded_once():
    values = np.array([1.0], np.float16)
    moment = np.zeros(1, np.float16)
    update = Update(UpdateKernel(descend, (False,)), (1e-4, 0.0))
    numpy_update(update, np.array([3.0], np.float32), values, [moment])
    assert values[0] == np.float16(1.0 - 3e-4)  # in float16, 1e-4 * 3 would have been rounded before
    assert (values.dtype, moment.dtype) == (np.float16, np.float16)


def test_no_elements_are_updated_without_complaint():
    empty = np.empty(0, np.float32)
    numpy_update(Update(UpdateKernel(descend, (False,)), (0.1, 0.9)), empty, empty.copy(), [empty.copy()])


@pytest.mark.skipif(native() is None, reason="the native backend does not run here")
def test_a_native_update_has_the_bits_of_numpy():
    update = Update(UpdateKernel(descend, (True,), decay="added"), (0.1, 0.9, 0.01))
    values, gradient, moment = drawn(17), drawn(18)[:17], np.zeros(17, np.float32)
    by_numpy = values.copy()
    expected_moment = moment.copy()
    numpy_update(update, gradient, by_numpy, [expected_moment])
    kernel = native_update(update, 1, values.dtype)
    assert kernel is native_update(Update(update.kind, (0.5, 0.5, 0.5)), 1, values.dtype)  # numbers are in no kernel
    assert kernel(native_places(values.dtype, values, [moment]), update.numbers, [values], [gradient])
    np.testing.assert_array_equal(values, by_numpy)
    np.testing.assert_array_equal(moment, expected_moment)


def test_a_formula_made_inside_a_function_has_no_native_kernel():
    unnamed = UpdateKernel(lambda m, numbers, choices, values, gradient: (values - gradient,))
    assert native_update(Update(unnamed, ()), 0, np.dtype(np.float32)) is None
