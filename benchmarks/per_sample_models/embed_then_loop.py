"""A sentence is embedded at once, then an LSTM cell is looped over its rows: the textbook's reader of sentences."""

from __future__ import annotations

from typing import Any

from workload import cell

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


SHAPES = {
    "embedding.weight": (N_WORDS, N_IN),
    "cell.weight_ih": (4 * N_HIDDEN, N_IN),
    "cell.weight_hh": (4 * N_HIDDEN, N_HIDDEN),
    "cell.bias_ih": (4 * N_HIDDEN,),
    "cell.bias_hh": (4 * N_HIDDEN,),
    "out.weight": (N_CLASSES, N_HIDDEN),
    "out.bias": (N_CLASSES,),
}


def dynet(dy: Any, parameters: Any) -> Loss:
    """Word by word: DyNet looks up one at a time."""
    table, wx, wh, bx, bh, out, out_bias = parameters.values()

    def read(words: Any, label: Any) -> Any:
        h = c = dy.zeros(N_HIDDEN)
        for word in words.tolist():
            gates = dy.affine_transform([bx + bh, wx, table[word], wh, h])
            i, f, g, o = (dy.pick_range(gates, k * N_HIDDEN, (k + 1) * N_HIDDEN) for k in range(4))
            c = dy.cmult(dy.logistic(f), c) + dy.cmult(dy.logistic(i), dy.tanh(g))
            h = dy.cmult(dy.logistic(o), dy.tanh(c))
        return dy.pickneglogsoftmax(dy.affine_transform([out_bias, out, h]), int(label))

    return read


def arguments(lib: Any, model: Any) -> Loss:
    """The sentence at once; the cell is a function of its inputs and weights."""
    F = lib.nn.functional

    def step(x: Any, h: Any, c: Any, wx: Any, wh: Any, bx: Any, bh: Any) -> tuple[Any, Any]:
        i, f, g, o = (F.linear(x, wx, bx) + F.linear(h, wh, bh)).chunk(4, -1)
        c = lib.sigmoid(f) * c + lib.sigmoid(i) * lib.tanh(g)
        return lib.sigmoid(o) * lib.tanh(c), c

    step = cell(lib, step)

    def read(words: Any, label: Any, table: Any, weights: list[Any], out: Any, out_bias: Any) -> Any:
        h = c = lib.zeros(N_HIDDEN)
        for x in F.embedding(words, table):
            h, c = step(x, h, c, *weights)
        return F.cross_entropy(F.linear(h, out, out_bias), label)

    def loss_of(words: Any, label: Any) -> Any:
        return read(words, label, model.embedding.weight, list(model.cell.parameters()), *model.out.parameters())

    return loss_of


def closures(lib: Any, model: Any) -> Loss:
    """Word by word, in functions that see the weights around them; no cell."""
    F = lib.nn.functional
    table = model.embedding.weight
    wx, wh, bx, bh = model.cell.parameters()
    out, out_bias = model.out.parameters()

    def loss_of(words: Any, label: Any) -> Any:
        def step(word: Any, h: Any, c: Any) -> tuple[Any, Any]:
            i, f, g, o = (wx @ table[word] + bx + wh @ h + bh).chunk(4)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            return o.sigmoid() * c.tanh(), c

        h, c = lib.zeros(N_HIDDEN), lib.zeros(N_HIDDEN)
        for word in words:
            h, c = step(word, h, c)
        return F.cross_entropy(out @ h + out_bias, label)

    return loss_of


def attributes(lib: Any, model: Any) -> Loss:
    """An object that is no module keeps its weights and its state as attributes; rows of one element (1, n)."""
    F = lib.nn.functional

    class Reader:
        def __init__(self) -> None:
            self.embedding, self.out = model.embedding, model.out
            self.wx, self.wh, self.bx, self.bh = model.cell.parameters()

        def start(self) -> None:
            self.h = self.c = lib.zeros(1, N_HIDDEN)

        def step(self, x: Any) -> None:
            gates = F.linear(x, self.wx, self.bx) + F.linear(self.h, self.wh, self.bh)
            i, f, g, o = gates.split(N_HIDDEN, dim=1)
            self.c = lib.sigmoid(f) * self.c + lib.sigmoid(i) * lib.tanh(g)
            self.h = lib.sigmoid(o) * lib.tanh(self.c)

    def loss_of(words: Any, label: Any) -> Any:
        reader = Reader()
        reader.start()
        for x in reader.embedding(words).split(1):
            reader.step(x)
        return F.cross_entropy(reader.out(reader.h), label[None])

    return loss_of


STYLES = {"arguments": arguments, "closures": closures, "attributes": attributes}


ROWS = [
    Row(
        *("embed_then_loop", __doc__, model, sentence, (5, 50), by_hand, padded_sentences),
        styles=STYLES,
        shapes=SHAPES,
        dynet=dynet,
    )
]
