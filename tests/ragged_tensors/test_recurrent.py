"""Recurrent layers over ragged sequences are those over each sequence by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import extempo as ex
from extempo import nn
from extempo.errors import ShapeError
from extempo.ops.recurrence import GruSequence, LstmSequence, RnnSequence

from .looped import FEW, LENGTHS, leaf, ragged_leaf, same

LAYERS = {
    "RNN": lambda: nn.RNN(3, 4, nonlinearity="relu"),
    "LSTM": lambda: nn.LSTM(3, 4),
    "GRU": lambda: nn.GRU(3, 4),
    "two layers, both directions": lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True),
    "GRU in both directions": lambda: nn.GRU(3, 4, bidirectional=True, bias=False, batch_first=True),
    "LSTM with a projection": lambda: nn.LSTM(3, 4, proj_size=2),
}


def build(name):
    ex.manual_seed(0)
    return LAYERS[name]().double()


def as_tuple(states):
    return states if isinstance(states, tuple) else (states,)


@pytest.mark.parametrize("name", LAYERS)
@FEW
@given(lengths=LENGTHS)
def test_outputs_and_states_are_those_of_each_sequence(name, lengths):
    layer, x = build(name), ragged_leaf(lengths, 3)
    n_runs = layer.num_layers * layer._n_directions
    sizes = [layer._output_size, 4] if layer.mode == "LSTM" else [4]
    initial = [leaf(n_runs, len(lengths), size, seed=7 + k) for k, size in enumerate(sizes)]

    def delivered(states):
        return tuple(states) if layer.mode == "LSTM" else states[0]

    output, final = layer(x, delivered(initial))
    assert output._rows is x._rows
    if not lengths:
        assert as_tuple(final)[0].shape == (n_runs, 0, sizes[0])
        return
    outputs, finals = [], []
    for i, sequence in enumerate(x):
        y, states = layer(sequence, delivered([h[:, i] for h in initial]))
        outputs.append(y)
        finals.append(as_tuple(states))
    inputs = [x, *initial, *layer.parameters()]
    same(output.values(), ex.cat(outputs), inputs)
    for found, expected in zip(as_tuple(final), zip(*finals, strict=True), strict=True):
        same(found, ex.stack(expected, 1), inputs)


@FEW
@given(st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_the_last_output_is_the_final_state(lengths):
    layer, x = build("LSTM"), ragged_leaf(lengths, 3)
    output, (h, _) = layer(x)
    assert ex.equal(output[:, -1], h[0])


def test_a_sequence_of_no_elements_keeps_its_state():
    layer = build("GRU")
    initial = leaf(1, 3, 4)
    output, h = layer(ragged_leaf([0, 2, 0], 3), initial)
    assert output.lengths().tolist() == [0, 2, 0]
    assert ex.equal(h[:, [0, 2]], initial[:, [0, 2]])
    assert layer(ragged_leaf([0], 3))[1].tolist() == [[[0.0] * 4]]


def test_the_order_of_rows_changes_nothing():
    layer, x = build("two layers, both directions"), ragged_leaf([2, 5, 0, 3], 3)
    output, (h, c) = layer(x)
    order = [3, 0, 1, 2]
    turned, (h2, c2) = layer(x[order])
    for i, k in enumerate(order):
        same(turned[i], output[k], [], rtol=1e-12)
    same(h2, h[:, order], [], rtol=1e-12)
    same(c2, c[:, order], [], rtol=1e-12)


class Counted(np.ndarray):
    """An array that counts the multiplications of its matrix products, and of those of what is computed from it."""

    n_products = 0

    def __matmul__(self, other):
        Counted.n_products += self.shape[0] * self.shape[1] * other.shape[1]
        return super().__matmul__(other)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU", "two layers, both directions"])
def test_no_cell_is_computed_for_padding(name, monkeypatch):
    """The kernel is counted that is made of NumPy's products; the native one is tested against it."""
    real = nn.recurrent.apply
    lengths, counts = [7, 0, 1, 50, 3], []
    n_rows, n_hidden = sum(lengths), 4

    def counted(op, inputs, attrs):
        assert op in (RnnSequence, LstmSequence, GruSequence)
        assert sum(inputs[-1].tolist()) == n_rows  # one cell for each element
        arrays = [x if x is None else x.detach().numpy() for x in inputs]
        Counted.n_products = 0
        op.numpy(*(a.view(Counted) if a is not None and a.dtype.kind == "f" else a for a in arrays), **attrs)
        width, n_features = inputs[1].shape  # of all gates, and of what comes in
        counts.append(Counted.n_products == n_rows * width * (n_features + n_hidden))
        return real(op, inputs, attrs)

    monkeypatch.setattr(nn.recurrent, "apply", counted)
    layer = build(name)
    layer(ragged_leaf(lengths, 3))
    assert counts == [True] * layer.num_layers * layer._n_directions


def test_dropout_between_layers_draws_in_training_only():
    ex.manual_seed(0)
    layer = nn.LSTM(3, 4, num_layers=2, dropout=0.5).double()
    x = ragged_leaf([3, 2], 3)
    assert not ex.equal(layer(x)[0].values(), layer(x)[0].values())
    layer.eval()
    assert ex.equal(layer(x)[0].values(), layer(x)[0].values())


def test_shapes_that_do_not_fit_are_described():
    layer = build("LSTM")
    with pytest.raises(ShapeError, match=r"\(B, \*, input_size=3\)"):
        layer(ragged_leaf([2, 3], 5))
    with pytest.raises(ShapeError, match=r"\(B, \*, input_size=3\)"):
        layer(ragged_leaf([2, 3], 3, dim=2))
    with pytest.raises(ShapeError, match="h must be"):
        layer(ragged_leaf([2, 3], 3), (leaf(1, 3, 4), leaf(1, 3, 4)))


@pytest.mark.parametrize("name", ["LSTM", "GRU in both directions"])
def test_a_compiled_layer_is_bitwise_that_of_eager_mode(name):
    layer = build(name).float()

    def loss_of(x):
        output, states = layer(x)
        return (output * output).values().sum() + as_tuple(states)[0].sum()

    compiled = ex.compile(loss_of)
    for lengths in ([3, 1], [2, 5, 0], [3, 1], [1, 3], [3, 1]):
        results = []
        for run in (loss_of, compiled):
            layer.zero_grad()
            x = ragged_leaf(lengths, 3, dtype=ex.float32)
            loss = run(x)
            loss.backward()
            results.append((loss.item(), x.grad.values().tolist(), [p.grad.tolist() for p in layer.parameters()]))
        assert results[0] == results[1]
