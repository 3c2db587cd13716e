"""Recurrent layers beside onnxruntime, by one op and step by step."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import ArgumentError, ShapeError, UnsupportedError

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
LENGTHS = np.array([5, 2, 1, 3], np.int32)


@pytest.fixture
def inputs(normal):
    """Inputs of a layer: 5 steps, 4 sequences, 3 features, 2 hidden."""

    def make(op, n_directions, lengths=None, states=True):
        n = GATES[op]
        arrays = [
            normal(5, 4, 3),
            normal(n_directions, 2 * n, 3),
            normal(n_directions, 2 * n, 2),
            normal(n_directions, 4 * n),
        ]
        arrays.append(lengths)
        if states:
            arrays += [normal(n_directions, 4, 2) for _ in range(2 if op == "LSTM" else 1)]
        return arrays

    return make


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("by_steps", [False, True])
def test_layers_agree_in_every_direction_and_at_every_length(agrees, inputs, op, direction, lengths, by_steps):
    n_directions = 2 if direction == "bidirectional" else 1
    options = {"clip": 0.7} if by_steps else {}
    if op == "GRU":
        options["linear_before_reset"] = 0 if by_steps else 1
    agrees(
        op, inputs(op, n_directions, lengths), 3 if op == "LSTM" else 2, hidden_size=2, direction=direction,
        rtol=1e-4, **options,
    )  # fmt: skip


def test_an_lstm_with_peepholes_and_one_gate_for_two(agrees, inputs, normal):
    agrees("LSTM", [*inputs("LSTM", 1), normal(1, 6)], 3, hidden_size=2, rtol=1e-4)
    agrees("LSTM", inputs("LSTM", 1), 3, hidden_size=2, input_forget=1, rtol=1e-4)


@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        (["HardSigmoid", "Softsign"], {"activation_alpha": [0.3], "activation_beta": [0.4]}),
        (["Sigmoid", "ScaledTanh"], {"activation_alpha": [1.5], "activation_beta": [0.7]}),
        (["Affine", "LeakyRelu"], {"activation_alpha": [0.1, 0.2], "activation_beta": [0.5]}),
        (["Sigmoid", "Elu"], {"activation_alpha": [0.9]}),
    ],
)
def test_activations_take_their_numbers_in_order(agrees, inputs, names, numbers):
    agrees("GRU", inputs("GRU", 1), 2, hidden_size=2, activations=names, rtol=1e-4, **numbers)


def test_sequences_may_come_first(run_node, inputs):
    for op in GATES:
        arrays = inputs(op, 1)
        n = 3 if op == "LSTM" else 2
        y, *last = run_node(op, arrays, n, hidden_size=2)
        swapped = [a if i not in (0, 5, 6) else a.swapaxes(0, 1).copy() for i, a in enumerate(arrays) if i != 4]
        z, *other = run_node(op, [*swapped[:4], None, *swapped[4:]], n, hidden_size=2, layout=1)
        np.testing.assert_allclose(z, y.transpose(2, 0, 1, 3), atol=1e-6)
        for a, b in zip(last, other, strict=True):
            np.testing.assert_allclose(b, a.swapaxes(0, 1), atol=1e-6)


def test_both_ways_have_the_same_gradients(node_model, inputs):
    """A clip that nothing reaches goes step by step and changes nothing."""
    arrays = inputs("LSTM", 2, LENGTHS)
    gradients = []
    for options in ({}, {"clip": 100.0}):
        module = ex.from_onnx(node_model("LSTM", arrays, 3, hidden_size=2, direction="bidirectional", **options))
        given = [ex.from_numpy(a.copy()) for a in arrays]
        for t in given:
            t.requires_grad_(t.is_floating_point())
        (module(*given)[0] ** 2).sum().backward()
        gradients.append([t.grad for t in given if t.requires_grad])
    for a, b in zip(*gradients, strict=True):
        assert (a is None and b is None) or ex.allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("op", GATES)
def test_a_sequence_of_no_step_keeps_its_state(run_node, inputs, op):
    """As a sequence that has ended does; the format does not say, and onnxruntime gives zeros."""
    arrays = inputs(op, 2, np.array([5, 0, 1, 3], np.int32))
    _, h, *_ = run_node(op, arrays, 3 if op == "LSTM" else 2, hidden_size=2, direction="bidirectional")
    np.testing.assert_array_equal(h[:, 1], arrays[5][:, 1])


def test_no_steps_at_all_give_the_states_back(run_node, inputs):
    for options in ({}, {"clip": 1.0}):
        arrays = inputs("LSTM", 1)
        arrays[0] = arrays[0][:0].copy()
        y, h, c = run_node("LSTM", arrays, 3, hidden_size=2, **options)
        assert y.shape == (0, 1, 4, 2)
        np.testing.assert_array_equal(h, arrays[5])
        np.testing.assert_array_equal(c, arrays[6])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"direction": "sideways"}, ArgumentError, "direction must be one of forward"),
        ({"hidden_size": 3}, ShapeError, "hidden_size is 3"),
        ({"activations": ["Sigmoid"]}, ShapeError, "expected 3 activations, 3 for each direction, got 1"),
        ({"activations": ["Sigmoid", "Tanh", "Sine"]}, UnsupportedError, "the activation 'sine'"),
        ({"direction": "bidirectional"}, ShapeError, r"expected weights W \(2, 4 \* hidden, input\)"),
    ],
)
def test_what_does_not_fit_is_an_error(run_node, inputs, change, error, message):
    with pytest.raises(error, match=message):
        run_node("LSTM", inputs("LSTM", 1), 3, **{"hidden_size": 2, **change})


def test_wrong_lengths_are_an_error(run_node, inputs):
    with pytest.raises(ShapeError, match=r"sequence_lens must be 4 numbers from 0 to 5, got \[6, 1, 1, 1\]"):
        run_node("RNN", inputs("RNN", 1, np.array([6, 1, 1, 1], np.int32)), 2, hidden_size=2)
