"""A translator: a GRU reads the source, a GRU cell writes the target and attends to its own source at every word."""

from __future__ import annotations

from typing import Any

from .row import N_WORDS, Loss, Row, Sample, draw_words, padded

N_IN, N_HIDDEN, N_TARGET_WORDS = 32, 64, 200


def draw(rng: Any, n: int) -> Sample:
    """Source and target, which is about as long."""
    return draw_words(rng, n), rng.randint(0, N_TARGET_WORDS, n + rng.randint(-2, 3))


def model(lib: Any) -> Any:
    nn, F = lib.nn, lib.nn.functional

    class Translator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source = nn.Embedding(N_WORDS, N_IN)
            self.target = nn.Embedding(N_TARGET_WORDS, N_IN)
            self.encoder = nn.GRU(N_IN, N_HIDDEN)
            self.decoder = nn.GRUCell(N_IN + N_HIDDEN, N_HIDDEN)
            self.out = nn.Linear(2 * N_HIDDEN, N_TARGET_WORDS)

        def forward(self, source: Any, target: Any) -> Any:
            memory, last = self.encoder(self.source(source))
            h = last[-1]
            found = []
            for x in self.target(target[:-1]):
                attention = F.softmax(memory @ h, dim=0)
                context = attention @ memory
                h = self.decoder(lib.cat([x, context]), h)
                found.append(lib.cat([h, context]))
            return F.cross_entropy(self.out(lib.stack(found)), target[1:])

    return Translator()


def collate(samples: list[Sample]) -> Sample:
    """Padded sources and targets, and their lengths."""
    sources, targets = zip(*samples, strict=True)
    return (*padded(sources), *padded([t[:-1] for t in targets]), padded([t[1:] for t in targets])[0])


def by_hand(lib: Any, model: Any) -> Loss:
    """All sources at once; then word after word of all targets, with a mask in the attention and in the loss."""
    F = lib.nn.functional

    def loss_of(sources: Any, lengths: Any, targets: Any, target_lengths: Any, expected: Any) -> Any:
        memory = model.encoder(model.source(sources).transpose(0, 1))[0]
        h = memory[lengths - 1, lib.arange(len(lengths))]
        memory = memory.transpose(0, 1)
        absent = lib.arange(sources.shape[1]) >= lengths[:, None]
        found = []
        for x in model.target(targets.t()):
            scores = lib.bmm(memory, h[:, :, None])[:, :, 0].masked_fill(absent, -lib.inf)
            context = lib.bmm(F.softmax(scores, 1)[:, None], memory)[:, 0]
            h = model.decoder(lib.cat([x, context], 1), h)
            found.append(lib.cat([h, context], 1))
        present = lib.arange(targets.shape[1]) < target_lengths[:, None]
        scores = model.out(lib.stack(found, 1)[present])
        weights = (present / (target_lengths[:, None] * len(lengths)))[present]
        return (F.cross_entropy(scores, expected[present], reduction="none") * weights).sum()

    return loss_of


ROWS = [Row("seq2seq", __doc__, model, draw, (5, 30), by_hand, collate)]
