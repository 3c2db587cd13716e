"""The ops of recurrent layers on sequences of own lengths: packed as ragged tensors pack them."""

from __future__ import annotations

import pytest

from extempo import nn

from .sizes import agrees, drawn, forms


def sequence(rng, n):
    return drawn(rng, n, 3), drawn(rng, 1, 4), drawn(rng, 1, 4)


@pytest.mark.parametrize(
    ("layer", "op"),
    [(nn.LSTM(3, 4), "lstm_sequence"), (nn.GRU(3, 4), "gru_sequence"), (nn.RNN(3, 4), "rnn_sequence")],
)
def test_sequences_with_states_of_their_own_are_one_batch(layer, op):
    """With a state, the layer runs as its ops."""

    def fn(x, h, c):
        output, final = layer(x * 1.0, (h, c) if isinstance(layer, nn.LSTM) else h)
        return output, final, c

    assert forms(agrees(fn, sequence, layer.parameters()))[op] == ["SequenceForm"]


def test_a_layer_that_goes_both_ways():
    layer = nn.GRU(3, 4, num_layers=2, bidirectional=True)

    def fn(x, h, c):
        state = h.expand(4, 4) * 1.0
        return layer(x * 1.0, state)[0], c

    assert set(forms(agrees(fn, sequence, layer.parameters()))["gru_sequence"]) == {"SequenceForm"}


def test_a_bias_of_each_sample_runs_call_by_call():
    layer = nn.LSTM(3, 4)
    weights = list(layer.parameters())

    def fn(x, h, c):
        bias = {"bias_ih_l0": weights[2] * (1.0 + h.sum())}
        from extempo.func import functional_call

        return functional_call(layer, bias, (x * 1.0, (h, c)))[0]

    agrees(fn, sequence, weights)
