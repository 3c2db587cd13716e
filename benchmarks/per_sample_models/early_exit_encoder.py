"""An encoder that every sentence leaves after the layer whose scores are sure enough."""

from __future__ import annotations

from typing import Any

from .row import N_CLASSES, N_WORDS, Loss, Row, Sample, padded_sentences, sentence

N_DIM, N_HEADS, N_INNER, N_LAYERS = 64, 4, 128, 5


def draw(rng: Any, n: int) -> Sample:
    """Words, label, and how sure is sure enough."""
    return (*sentence(rng, n), float(rng.uniform(0.25, 0.75)))


def model(lib: Any) -> Any:
    nn, F = lib.nn, lib.nn.functional

    class EarlyExit(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(N_WORDS, N_DIM)
            self.layers = nn.ModuleList(
                [nn.TransformerEncoderLayer(N_DIM, N_HEADS, N_INNER, 0.0, batch_first=True) for _ in range(N_LAYERS)]
            )
            self.exits = nn.ModuleList([nn.Linear(N_DIM, N_CLASSES) for _ in range(N_LAYERS)])

        def forward(self, words: Any, label: Any, sure: float) -> Any:
            x = self.embedding(words)
            for layer, leave in zip(self.layers, self.exits, strict=True):
                x = layer(x)
                scores = leave(x.mean(0))
                if F.softmax(scores, dim=-1).max().item() > sure:
                    break
            return F.cross_entropy(scores, label)

    return EarlyExit()


def collate(samples: list[Sample]) -> Sample:
    return (*padded_sentences([sample[:2] for sample in samples]), [sure for *_, sure in samples])


def by_hand(lib: Any, model: Any) -> Loss:
    """Padded sentences; those that leave are taken out after each layer."""
    F = lib.nn.functional

    def loss_of(words: Any, lengths: Any, labels: Any, sure: list[float]) -> Any:
        n, limits = len(words), lib.tensor(sure)
        x, absent = model.embedding(words), lib.arange(words.shape[1]) >= lengths[:, None]
        loss = 0.0
        for number, (layer, leave) in enumerate(zip(model.layers, model.exits, strict=True)):
            x = layer(x, src_key_padding_mask=absent)
            scores = leave(x.masked_fill(absent[:, :, None], 0.0).sum(1) / lengths[:, None])
            losses = F.cross_entropy(scores, labels, reduction="none")
            if number == N_LAYERS - 1:
                return (loss + losses.sum()) / n
            leaves = F.softmax(scores, 1).amax(1) > limits
            loss = loss + losses[leaves].sum()
            stays = (~leaves).nonzero()[:, 0]
            if not len(stays):
                break
            longest = int(lengths[stays].max())
            x, absent = x[stays, :longest], absent[stays, :longest]
            lengths, labels, limits = lengths[stays], labels[stays], limits[stays]
        return loss / n

    return loss_of


ROWS = [Row("early_exit_encoder", __doc__, model, draw, (5, 40), by_hand, collate)]
