"""A layer of a transformer's encoder on each sentence, and the mean of its rows."""

from __future__ import annotations

from typing import Any

from .row import N_CLASSES, N_WORDS, Loss, Row, padded_sentences, sentence

N_DIM, N_HEADS, N_INNER, LONGEST = 64, 4, 128, 50


def model(lib: Any) -> Any:
    nn, F = lib.nn, lib.nn.functional

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(N_WORDS, N_DIM)
            self.position = nn.Embedding(LONGEST, N_DIM)
            self.encoder = nn.TransformerEncoderLayer(N_DIM, N_HEADS, N_INNER, dropout=0.0, batch_first=True)
            self.out = nn.Linear(N_DIM, N_CLASSES)

        def forward(self, words: Any, label: Any) -> Any:
            x = self.embedding(words) + self.position(lib.arange(len(words)))
            return F.cross_entropy(self.out(self.encoder(x).mean(0)), label)

    return Classifier()


def by_hand(lib: Any, model: Any) -> Loss:
    """The same layer on padded sentences, with a mask."""

    def loss_of(words: Any, lengths: Any, labels: Any) -> Any:
        places = lib.arange(words.shape[1])
        absent = places >= lengths[:, None]
        x = model.encoder(model.embedding(words) + model.position(places), src_key_padding_mask=absent)
        means = x.masked_fill(absent[:, :, None], 0.0).sum(1) / lengths[:, None]
        return lib.nn.functional.cross_entropy(model.out(means), labels)

    return loss_of


ROWS = [Row("encoder_per_sentence", __doc__, model, sentence, (5, LONGEST), by_hand, padded_sentences)]
