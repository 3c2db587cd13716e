"""A sentence is embedded at once, then an LSTM cell is looped over its rows: the textbook's reader of sentences."""

from __future__ import annotations

from typing import Any

from .row import N_CLASSES, N_WORDS, Loss, Row, last_states, padded_sentences, sentence

N_IN, N_HIDDEN = 32, 64


def model(lib: Any) -> Any:
    nn, F = lib.nn, lib.nn.functional

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(N_WORDS, N_IN)
            self.cell = nn.LSTMCell(N_IN, N_HIDDEN)
            self.out = nn.Linear(N_HIDDEN, N_CLASSES)

        def forward(self, words: Any, label: Any) -> Any:
            inputs = self.embedding(words)
            h = c = lib.zeros(N_HIDDEN)
            for t in range(len(inputs)):
                h, c = self.cell(inputs[t], (h, c))
            return F.cross_entropy(self.out(h), label)

    return Reader()


def by_hand(lib: Any, model: Any) -> Loss:
    """nn.LSTM on padded sentences, with the weights of the cell."""
    lstm = lib.nn.LSTM(N_IN, N_HIDDEN)
    lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, lstm.bias_hh_l0 = model.cell.parameters()

    def loss_of(words: Any, lengths: Any, labels: Any) -> Any:
        last = last_states(lib, lstm, model.embedding(words), lengths)
        return lib.nn.functional.cross_entropy(model.out(last), labels)

    return loss_of


ROWS = [Row("embed_then_loop", __doc__, model, sentence, (5, 50), by_hand, padded_sentences)]
