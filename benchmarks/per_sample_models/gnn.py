"""Message passing on a graph of its own size: three rounds, in which nodes add up what their neighbours send."""

from __future__ import annotations

from typing import Any

import numpy as np
from workload import cell

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


def arguments(lib: Any, model: Any) -> Loss:
    """A round is a cell, a function of the nodes, the edges and the weights; index_add_ in place."""
    F = lib.nn.functional

    def one_round(x: Any, source: Any, target: Any, message: Any, bias: Any, own: Any, own_bias: Any) -> Any:
        received = lib.zeros(x.shape[0], N_HIDDEN)
        received.index_add_(0, target, F.linear(x.index_select(0, source), message, bias))
        return F.relu(F.linear(x, own, own_bias) + received)

    one_round = cell(lib, one_round)

    def loss_of(x: Any, edges: Any, label: Any) -> Any:
        x = F.relu(F.linear(x, *model.enter.parameters()))
        for layer in model.rounds:
            x = one_round(x, edges[0], edges[1], *layer.parameters())
        return F.cross_entropy(F.linear(x.sum(0) / x.shape[0], *model.out.parameters()), label)

    return loss_of


def closures(lib: Any, model: Any) -> Loss:
    """Node by node and edge by edge, in lists of rows; no cell."""
    F = lib.nn.functional

    def loss_of(x: Any, edges: Any, label: Any) -> Any:
        pairs = edges.t().tolist()
        nodes = [F.relu(model.enter(row)) for row in x]
        for layer in model.rounds:
            sent, total = [layer.message(node) for node in nodes], [layer.own(node) for node in nodes]
            for source, target in pairs:
                total[target] = total[target] + sent[source]
            nodes = [F.relu(one) for one in total]
        return F.cross_entropy(model.out(lib.stack(nodes).mean(0)), label)

    return loss_of


def attributes(lib: Any, model: Any) -> Loss:
    """A matrix of how many edges lead from node to node, times what nodes send, in an object that is no module."""
    F = lib.nn.functional

    class Graph:
        def __init__(self, x: Any, edges: Any) -> None:
            self.n = len(x)
            places, ones = edges[1] * self.n + edges[0], lib.ones(edges.shape[1])
            self.adjacency = lib.zeros(self.n * self.n).index_add(0, places, ones).view(self.n, self.n)
            self.x = F.relu(model.enter(x))

        def pass_messages(self, layer: Any) -> None:
            self.x = F.relu(layer.own(self.x) + self.adjacency @ layer.message(self.x))

    def loss_of(x: Any, edges: Any, label: Any) -> Any:
        graph = Graph(x, edges)
        for layer in model.rounds:
            graph.pass_messages(layer)
        return F.cross_entropy(model.out(graph.x.mean(dim=0)), label)

    return loss_of


STYLES = {"arguments": arguments, "closures": closures, "attributes": attributes}


ROWS = [Row("gnn", __doc__, model, draw, (5, 50), by_hand, collate, styles=STYLES)]
