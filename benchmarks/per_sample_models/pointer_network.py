"""A pointer network (Vinyals et al. 2015) puts the points of a set in order: each turn points at one of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from .row import Loss, Row, Sample, padded

N_HIDDEN = 64


def draw(rng: Any, n: int) -> Sample:
    """Points of a plane, and their order by angle."""
    points = rng.randn(n, 2).astype("f4")
    return points, np.argsort(np.arctan2(*points.T))


def model(lib: Any) -> Any:
    nn, F = lib.nn, lib.nn.functional

    class PointerNetwork(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter = nn.Linear(2, N_HIDDEN)
            self.encoder = nn.LSTM(N_HIDDEN, N_HIDDEN)
            self.decoder = nn.LSTMCell(N_HIDDEN, N_HIDDEN)
            self.of_memory = nn.Linear(N_HIDDEN, N_HIDDEN, bias=False)
            self.of_state = nn.Linear(N_HIDDEN, N_HIDDEN, bias=False)
            self.score = nn.Linear(N_HIDDEN, 1, bias=False)

        def forward(self, points: Any, order: Any) -> Any:
            inputs = self.enter(points)
            memory, (h, c) = self.encoder(inputs)
            state, x = (h[-1], c[-1]), lib.zeros(N_HIDDEN)
            keys, places = self.of_memory(memory), lib.arange(len(points))
            gone = lib.zeros(len(points), dtype=lib.bool)
            loss = 0.0
            for chosen in order:
                state = self.decoder(x, state)
                scores = self.score(lib.tanh(keys + self.of_state(state[0])))[:, 0]
                loss = loss + F.cross_entropy(scores.masked_fill(gone, -1e9), chosen)
                gone = gone | (places == chosen)
                x = inputs[chosen]
            return loss / len(points)

    return PointerNetwork()


def collate(samples: list[Sample]) -> Sample:
    """Padded points and orders, and the lengths."""
    points, orders = zip(*samples, strict=True)
    return (*padded(points), padded(orders)[0])


def by_hand(lib: Any, model: Any) -> Loss:
    """Turn after turn of all sets; the states of the encoder are those at the end of each."""
    F = lib.nn.functional

    def loss_of(points: Any, lengths: Any, orders: Any) -> Any:
        inputs = model.enter(points)
        packed = lib.nn.utils.rnn.pack_padded_sequence(inputs, lengths, True, enforce_sorted=False)
        memory, (h, c) = model.encoder(packed)
        memory, _ = lib.nn.utils.rnn.pad_packed_sequence(memory, True)
        state, x = (h[-1], c[-1]), lib.zeros(len(points), N_HIDDEN)
        keys, lines, places = model.of_memory(memory), lib.arange(len(points)), lib.arange(points.shape[1])
        gone = places >= lengths[:, None]
        loss = 0.0
        for t in range(points.shape[1]):
            chosen = orders[:, t]
            state = model.decoder(x, state)
            scores = model.score(lib.tanh(keys + model.of_state(state[0])[:, None]))[:, :, 0]
            losses = F.cross_entropy(scores.masked_fill(gone, -1e9), chosen, reduction="none")
            loss = loss + (losses * (t < lengths) / lengths).sum()
            gone = gone | (places == chosen[:, None])
            x = inputs[lines, chosen]
        return loss / len(points)

    return loss_of


ROWS = [Row("pointer_network", __doc__, model, draw, (5, 25), by_hand, collate)]
