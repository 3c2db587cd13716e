"""The code of recurrent layers: what one step of each cell computes, and sequences that end early."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

from extempo.backends.llvm.routines.recurrence_code import GRU, GRU_GRADIENT, LSTM, LSTM_GRADIENT, rnn, rnn_gradient

from ..guarded import call
from .oracle import FLOATS, draw

HIDDEN = 9


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def operands(n_gates, n_sequences, dtype, n_features=5):
    x, w = draw((n_sequences, n_features), dtype), draw((n_gates * HIDDEN, n_features), dtype, 1)
    bias, weight = draw((n_gates * HIDDEN,), dtype, 2), draw((n_gates * HIDDEN, HIDDEN), dtype, 3)
    return (x, w, bias, weight), np.array([n_sequences])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [1, 7, 9])
def test_a_step_of_an_lstm_is_its_formula(n, dtype):
    (x, w, bias, weight), sizes = operands(4, n, dtype)
    h, c = draw((n, HIDDEN), dtype, 4), draw((n, HIDDEN), dtype, 5)
    rows, h_n, c_n, *_ = call("lstm_sequence", x, w, bias, weight, h, c, sizes, backwards=False)
    i, f, g, o = np.split((x.astype("d") @ w.T + bias + h @ weight.T), 4, axis=1)
    new = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    tolerance = 2e-5 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(c_n, new, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(h_n, sigmoid(o) * np.tanh(new), rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(rows, h_n)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_step_of_a_gru_is_its_formula(dtype):
    (x, w, bias, weight), sizes = operands(3, 7, dtype)
    h, own = draw((7, HIDDEN), dtype, 4), draw((3 * HIDDEN,), dtype, 5)
    rows, h_n, *_ = call("gru_sequence", x, w, bias, weight, own, h, sizes, backwards=False)
    given, state = np.split(x.astype("d") @ w.T + bias, 3, axis=1), np.split(h @ weight.T + own, 3, axis=1)
    reset, update = sigmoid(given[0] + state[0]), sigmoid(given[1] + state[1])
    new = np.tanh(given[2] + reset * state[2])
    tolerance = 2e-5 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(h_n, new + update * (h - new), rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(rows, h_n)


@pytest.mark.parametrize("relu", [False, True])
def test_a_step_of_a_plain_cell_is_its_formula(relu):
    (x, w, bias, weight), sizes = operands(1, 3, np.float64)
    h = draw((3, HIDDEN), np.float64, 4)
    _, h_n, before = call("rnn_sequence", x, w, bias, weight, h, sizes, backwards=False, relu=relu)
    value = x @ w.T + bias + h @ weight.T
    np.testing.assert_allclose(h_n, np.maximum(value, 0) if relu else np.tanh(value), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(before, h)


def test_a_sequence_that_ends_early_keeps_its_last_state():
    n_features, sizes = 4, np.array([3, 2, 1])
    x, w = draw((6, n_features), np.float64), draw((HIDDEN, n_features), np.float64, 1)
    weight, h = draw((HIDDEN, HIDDEN), np.float64, 2) / 5, draw((3, HIDDEN), np.float64, 3)
    rows, h_n, before = call("rnn_sequence", x, w, None, weight, h, sizes, backwards=False, relu=False)
    np.testing.assert_array_equal(h_n, rows[[5, 4, 2]])
    np.testing.assert_array_equal(before, np.concatenate([h, rows[:2], rows[3:4]]))
    # The other way round, each begins where it ends.
    rows, h_n, before = call("rnn_sequence", x, w, None, weight, h, sizes, backwards=True, relu=False)
    np.testing.assert_array_equal(h_n, rows[:3])
    np.testing.assert_array_equal(before, np.concatenate([rows[3:5], h[2:], rows[5:], h[1:2], h[:1]]))


def test_a_gradient_reads_what_its_forward_leaves():
    for forward, backward in ((LSTM, LSTM_GRADIENT), (GRU, GRU_GRADIENT), (rnn(False), rnn_gradient(False))):
        known = {*forward.inputs, *forward.results, "of_rows", "of_h", "of_c"}
        assert set(backward.inputs) <= known
        assert [kept for _, kept in backward.states] == [
            name for name in backward.results if name in ("into_h", "into_c")
        ]
        assert backward.multiplied in backward.results
