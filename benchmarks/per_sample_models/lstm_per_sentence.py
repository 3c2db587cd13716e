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


def arguments(lib: Any, model: Any) -> Loss:
    """The products with all words at once, then a loop over their rows, in a function of the weights."""
    F = lib.nn.functional

    def lstm(x: Any, wx: Any, wh: Any, bx: Any, bh: Any) -> Any:
        gates = F.linear(x, wx, bx)
        h = c = lib.zeros(N_HIDDEN)
        for t in range(x.shape[0]):
            i, f, g, o = (gates[t] + F.linear(h, wh, bh)).chunk(4)
            c = lib.sigmoid(f) * c + lib.sigmoid(i) * lib.tanh(g)
            h = lib.sigmoid(o) * lib.tanh(c)
        return h

    def loss_of(words: Any, label: Any) -> Any:
        return F.cross_entropy(model.out(lstm(model.embedding(words), *model.lstm.parameters())), label)

    return loss_of


def closures(lib: Any, model: Any) -> Loss:
    """Words are looked up one by one and stacked; the layer is one that the function sees around it."""
    F, embedding, lstm, out = lib.nn.functional, model.embedding, model.lstm, model.out

    def loss_of(words: Any, label: Any) -> Any:
        outputs, _ = lstm(lib.stack([embedding(word) for word in words]))
        return F.cross_entropy(out(outputs[-1]), label)

    return loss_of


def attributes(lib: Any, model: Any) -> Loss:
    """A batch of one sentence, in an object that is no module."""
    F = lib.nn.functional

    class Classifier:
        def __init__(self) -> None:
            self.embedding, self.lstm, self.out = model.embedding, model.lstm, model.out

        def loss(self, words: Any, label: Any) -> Any:
            state = lib.zeros(1, 1, N_HIDDEN), lib.zeros(1, 1, N_HIDDEN)
            outputs, _ = self.lstm(self.embedding(words).unsqueeze(1), state)
            return F.cross_entropy(self.out(outputs[-1]), label.view(1))

    return Classifier().loss


STYLES = {"arguments": arguments, "closures": closures, "attributes": attributes}


ROWS = [Row("lstm_per_sentence", __doc__, model, sentence, (5, 50), by_hand, padded_sentences, styles=STYLES)]
