"""Message passing on a graph of its own size: three rounds, in which nodes add up what their neighbours send."""

from __future__ import annotations

from typing import Any

import numpy as np

from .row import N_CLASSES, Loss, Row, Sample, draw_label, owners

N_IN, N_HIDDEN, N_ROUNDS, EDGES_PER_NODE = 16, 64, 3, 3


def draw(rng: Any, n_nodes: int) -> Sample:
    """Features of the nodes, source and target of each edge, and the class of the graph."""
    edges = rng.randint(0, n_nodes, (2, EDGES_PER_NODE * n_nodes))
    return rng.randn(n_nodes, N_IN).astype("f4"), edges, draw_label(rng)


def model(lib: Any) -> Any:
    nn, F = lib.nn, lib.nn.functional

    class Round(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.message = nn.Linear(N_HIDDEN, N_HIDDEN)
            self.own = nn.Linear(N_HIDDEN, N_HIDDEN)

        def forward(self, x: Any, edges: Any) -> Any:
            source, target = edges
            received = lib.zeros_like(x).index_add(0, target, self.message(x)[source])
            return F.relu(self.own(x) + received)

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter = nn.Linear(N_IN, N_HIDDEN)
            self.rounds = nn.ModuleList([Round() for _ in range(N_ROUNDS)])
            self.out = nn.Linear(N_HIDDEN, N_CLASSES)

        def nodes(self, x: Any, edges: Any) -> Any:
            x = F.relu(self.enter(x))
            for one in self.rounds:
                x = one(x, edges)
            return x

        def forward(self, x: Any, edges: Any, label: Any) -> Any:
            return F.cross_entropy(self.out(self.nodes(x, edges).mean(0)), label)

    return Network()


def collate(samples: list[Sample]) -> Sample:
    """One large graph, whose parts are not connected, and of each node which part it is of."""
    nodes, edges, labels = zip(*samples, strict=True)
    sizes = np.array([len(x) for x in nodes])
    moved = [e + first for e, first in zip(edges, np.cumsum(sizes) - sizes, strict=True)]
    return np.concatenate(nodes), np.concatenate(moved, 1), owners(nodes), sizes.astype("f4"), np.array(labels)


def by_hand(lib: Any, model: Any) -> Loss:
    """The same rounds on the one large graph."""

    def loss_of(x: Any, edges: Any, owner: Any, sizes: Any, labels: Any) -> Any:
        sums = lib.zeros(len(sizes), N_HIDDEN).index_add(0, owner, model.nodes(x, edges))
        return lib.nn.functional.cross_entropy(model.out(sums / sizes[:, None]), labels)

    return loss_of


ROWS = [Row("gnn", __doc__, model, draw, (5, 50), by_hand, collate)]
