"""A function of a set: two layers on every element, their sum, and two layers on that (Zaheer et al. 2017)."""

from __future__ import annotations

from typing import Any

import numpy as np
from workload import cell

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


def arguments(lib: Any, model: Any) -> Loss:
    """Both parts are cells, functions of their inputs and weights."""
    F = lib.nn.functional

    def element(x: Any, first: Any, first_bias: Any, second: Any, second_bias: Any) -> Any:
        return F.relu(F.linear(F.relu(F.linear(x, first, first_bias)), second, second_bias))

    def whole(x: Any, first: Any, first_bias: Any, second: Any, second_bias: Any) -> Any:
        return F.linear(F.relu(F.linear(x, first, first_bias)), second, second_bias)

    element, whole = cell(lib, element), cell(lib, whole)

    def loss_of(x: Any, label: Any) -> Any:
        total = element(x, *model.element.parameters()).sum(0)
        return F.cross_entropy(whole(total, *model.whole.parameters()), label)

    return loss_of


def closures(lib: Any, model: Any) -> Loss:
    """Element by element, added up in Python; no cell."""
    F, element, whole = lib.nn.functional, model.element, model.whole

    def loss_of(x: Any, label: Any) -> Any:
        total = lib.zeros(N_HIDDEN)
        for row in x:
            total = total + element(row)
        return F.cross_entropy(whole(total), label)

    return loss_of


def attributes(lib: Any, model: Any) -> Loss:
    """Layers as attributes of an object that is no module; methods of tensors, and the mean times the size."""

    class DeepSets:
        def __init__(self) -> None:
            self.first, _, self.second, _ = model.element
            self.third, _, self.fourth = model.whole

        def loss(self, x: Any, label: Any) -> Any:
            elements = self.second(self.first(x).relu()).relu()
            total = elements.mean(dim=0) * elements.size(0)
            scores = self.fourth(self.third(total).relu())
            return -scores.log_softmax(-1)[label]

    return DeepSets().loss


STYLES = {"arguments": arguments, "closures": closures, "attributes": attributes}


ROWS = [Row("deep_sets", __doc__, model, draw, (5, 50), by_hand, collate, styles=STYLES)]
