"""nn.LSTM on each sentence as it comes."""

from __future__ import annotations

from typing import Any

from .row import N_CLASSES, N_WORDS, Loss, Row, last_states, padded_sentences, sentence

N_IN, N_HIDDEN = 32, 64


def model(lib: Any) -> Any:
    nn, F = lib.nn, lib.nn.functional

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(N_WORDS, N_IN)
            self.lstm = nn.LSTM(N_IN, N_HIDDEN)
            self.out = nn.Linear(N_HIDDEN, N_CLASSES)

        def forward(self, words: Any, label: Any) -> Any:
            _, (h, _) = self.lstm(self.embedding(words))
            return F.cross_entropy(self.out(h[-1]), label)

    return Classifier()


def by_hand(lib: Any, model: Any) -> Loss:
    """The same layer on padded sentences."""

    def loss_of(words: Any, lengths: Any, labels: Any) -> Any:
        last = last_states(lib, model.lstm, model.embedding(words), lengths)
        return lib.nn.functional.cross_entropy(model.out(last), labels)

    return loss_of


ROWS = [Row("lstm_per_sentence", __doc__, model, sentence, (5, 50), by_hand, padded_sentences)]
