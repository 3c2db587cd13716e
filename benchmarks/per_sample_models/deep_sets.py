"""A function of a set: two layers on every element, their sum, and two layers on that (Zaheer et al. 2017)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .row import N_CLASSES, Loss, Row, Sample, draw_label, owners

N_IN, N_HIDDEN = 16, 64


def draw(rng: Any, n: int) -> Sample:
    return rng.randn(n, N_IN).astype("f4"), draw_label(rng)


def model(lib: Any) -> Any:
    nn, F = lib.nn, lib.nn.functional

    class DeepSets(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.element = nn.Sequential(nn.Linear(N_IN, N_HIDDEN), nn.ReLU(), nn.Linear(N_HIDDEN, N_HIDDEN), nn.ReLU())
            self.whole = nn.Sequential(nn.Linear(N_HIDDEN, N_HIDDEN), nn.ReLU(), nn.Linear(N_HIDDEN, N_CLASSES))

        def forward(self, x: Any, label: Any) -> Any:
            return F.cross_entropy(self.whole(self.element(x).sum(0)), label)

    return DeepSets()


def collate(samples: list[Sample]) -> Sample:
    """All elements end to end, and of each which set it is of."""
    sets, labels = zip(*samples, strict=True)
    return np.concatenate(sets), owners(sets), np.array(labels)


def by_hand(lib: Any, model: Any) -> Loss:
    """All elements at once."""

    def loss_of(x: Any, owner: Any, labels: Any) -> Any:
        sums = lib.zeros(len(labels), N_HIDDEN).index_add(0, owner, model.element(x))
        return lib.nn.functional.cross_entropy(model.whole(sums), labels)

    return loss_of


ROWS = [Row("deep_sets", __doc__, model, draw, (5, 50), by_hand, collate)]
