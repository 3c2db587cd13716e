"""A loop in a loop: one cell reads the words of a sentence, another the sentences of a document."""

from __future__ import annotations

from typing import Any

import numpy as np

from .row import N_CLASSES, N_WORDS, Loss, Row, Sample, draw_label, draw_words, last_states, padded

N_IN, N_HIDDEN, SHORTEST, LONGEST = 32, 64, 3, 15


def draw(rng: Any, n: int) -> Sample:
    """Sentences, each with words in a number of its own, and the class of the document."""
    return [draw_words(rng, rng.randint(SHORTEST, LONGEST + 1)) for _ in range(n)], draw_label(rng)


def model(lib: Any) -> Any:
    nn, F = lib.nn, lib.nn.functional

    class DocumentReader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(N_WORDS, N_IN)
            self.of_words = nn.GRUCell(N_IN, N_HIDDEN)
            self.of_sentences = nn.GRUCell(N_HIDDEN, N_HIDDEN)
            self.out = nn.Linear(N_HIDDEN, N_CLASSES)

        def forward(self, sentences: list[Any], label: Any) -> Any:
            document = lib.zeros(N_HIDDEN)
            for words in sentences:
                h = lib.zeros(N_HIDDEN)
                for x in self.embedding(words):
                    h = self.of_words(x, h)
                document = self.of_sentences(h, document)
            return F.cross_entropy(self.out(document), label)

    return DocumentReader()


def collate(samples: list[Sample]) -> Sample:
    """All sentences padded, with their lengths; of each document the numbers of its sentences, padded."""
    documents, labels = zip(*samples, strict=True)
    first = np.cumsum([0, *map(len, documents)])
    numbers = [np.arange(len(document)) + k for document, k in zip(documents, first[:-1], strict=True)]
    return (*padded([words for document in documents for words in document]), *padded(numbers), np.array(labels))


def by_hand(lib: Any, model: Any) -> Loss:
    """nn.GRU on all sentences, then on all documents, with the weights of the cells."""
    grus = []
    for cell in (model.of_words, model.of_sentences):
        gru = lib.nn.GRU(cell.input_size, N_HIDDEN)
        gru.weight_ih_l0, gru.weight_hh_l0, gru.bias_ih_l0, gru.bias_hh_l0 = cell.parameters()
        grus.append(gru)

    def loss_of(words: Any, lengths: Any, numbers: Any, document_lengths: Any, labels: Any) -> Any:
        sentences = last_states(lib, grus[0], model.embedding(words), lengths)
        documents = last_states(lib, grus[1], sentences[numbers], document_lengths)
        return lib.nn.functional.cross_entropy(model.out(documents), labels)

    return loss_of


SHAPES = {
    "embedding.weight": (N_WORDS, N_IN),
    "of_words.weight_ih": (3 * N_HIDDEN, N_IN),
    "of_words.weight_hh": (3 * N_HIDDEN, N_HIDDEN),
    "of_words.bias_ih": (3 * N_HIDDEN,),
    "of_words.bias_hh": (3 * N_HIDDEN,),
    "of_sentences.weight_ih": (3 * N_HIDDEN, N_HIDDEN),
    "of_sentences.weight_hh": (3 * N_HIDDEN, N_HIDDEN),
    "of_sentences.bias_ih": (3 * N_HIDDEN,),
    "of_sentences.bias_hh": (3 * N_HIDDEN,),
    "out.weight": (N_CLASSES, N_HIDDEN),
    "out.bias": (N_CLASSES,),
}


def dynet(dy: Any, parameters: Any) -> Loss:
    table, *cells, out, out_bias = parameters.values()

    def step(x: Any, h: Any, wx: Any, wh: Any, bx: Any, bh: Any) -> Any:
        of_input, of_state = dy.affine_transform([bx, wx, x]), dy.affine_transform([bh, wh, h])
        r, z, n = (dy.pick_range(of_input, k * N_HIDDEN, (k + 1) * N_HIDDEN) for k in range(3))
        hr, hz, hn = (dy.pick_range(of_state, k * N_HIDDEN, (k + 1) * N_HIDDEN) for k in range(3))
        update = dy.logistic(z + hz)
        new = dy.tanh(n + dy.cmult(dy.logistic(r + hr), hn))
        return new + dy.cmult(update, h - new)

    def read(sentences: list[Any], label: Any) -> Any:
        document = dy.zeros(N_HIDDEN)
        for words in sentences:
            h = dy.zeros(N_HIDDEN)
            for word in words.tolist():
                h = step(table[word], h, *cells[:4])
            document = step(h, document, *cells[4:])
        return dy.pickneglogsoftmax(dy.affine_transform([out_bias, out, document]), int(label))

    return read


ROWS = [Row("nested_rnn", __doc__, model, draw, (2, 6), by_hand, collate, shapes=SHAPES, dynet=dynet)]
