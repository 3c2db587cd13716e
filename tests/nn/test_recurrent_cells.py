"""One step of a recurrent network, as modules and as functions."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ArgumentError, DtypeError, ShapeError
from extempo.nn.recurrent_cells import gru_update, lstm_pair, lstm_update


def listed(state: ex.Tensor | tuple[ex.Tensor, ...]) -> list[ex.Tensor]:
    return list(state) if isinstance(state, tuple) else [state]


def test_an_lstm_forgets_and_takes_in_by_its_gates():
    shut, open_ = -100.0, 100.0
    cell = ex.tensor([[0.5]])
    keep = ex.tensor([[shut, open_, 1.0, open_]])  # i, f, g, o
    h, c = lstm_update(keep, cell)
    assert c.tolist() == [[0.5]]
    assert h.item() == pytest.approx(ex.tanh(ex.tensor(0.5)).item())
    take = ex.tensor([[open_, shut, open_, shut]])
    h, c = lstm_update(take, cell)
    assert (c.tolist(), h.item()) == ([[1.0]], pytest.approx(0.0, abs=1e-30))


def test_a_gru_keeps_its_state_where_the_update_gate_is_open():
    hidden = ex.tensor([[0.25]])
    kept = gru_update(ex.tensor([[0.0, 100.0, 5.0]]), ex.zeros(1, 3), hidden)
    assert kept.tolist() == [[0.25]]
    # The reset gate shuts out the hidden part of the candidate, and only that.
    new = gru_update(ex.tensor([[-100.0, -100.0, 0.5]]), ex.tensor([[0.0, 0.0, 9.0]]), hidden)
    assert new.item() == pytest.approx(ex.tanh(ex.tensor(0.5)).item())


@pytest.mark.parametrize("kind", [nn.RNNCell, nn.LSTMCell, nn.GRUCell])
def test_without_a_state_a_cell_starts_from_zeros(kind):
    ex.manual_seed(0)
    cell, x = kind(3, 4), ex.randn(2, 3)
    zeros = ex.zeros(2, 4)
    state = (zeros, zeros) if kind is nn.LSTMCell else zeros
    for result, expected in zip(listed(cell(x)), listed(cell(x, state)), strict=True):
        assert ex.equal(result, expected)
    assert listed(cell(ex.zeros(0, 3)))[0].shape == (0, 4)


def test_a_state_that_is_no_pair_is_named():
    pair = (ex.zeros(1), ex.ones(1))
    assert lstm_pair("LSTM", list(pair)) == pair
    for wrong, what in ((ex.zeros(2, 4), "Tensor"), ((ex.zeros(1),), "1 things"), ((1, 2), "2 things")):
        with pytest.raises(DtypeError, match=f"LSTMCell: the state must be a pair of tensors .* got {what}"):
            lstm_pair("LSTMCell", wrong)


def test_a_cell_refuses_an_input_or_state_of_another_size():
    cell = nn.GRUCell(3, 4)
    with pytest.raises(ShapeError, match=r"GRUCell: expected input \(batch, input_size=3\)"):
        cell(ex.zeros(2, 5))
    with pytest.raises(ShapeError, match=r"hx must be \(2, 4\)"):
        cell(ex.zeros(2, 3), ex.zeros(2, 3))
    with pytest.raises(ArgumentError, match="nonlinearity must be 'tanh' or 'relu'"):
        nn.RNNCell(3, 4, nonlinearity="gelu")
