"""A binary Tree-LSTM as a recursion over one tree."""

from __future__ import annotations

from functools import partial
from typing import Any

from workload import cell

from .row import N_CLASSES, N_WORDS, Loss, Row
from .trees import collate, draw

N_IN, N_HIDDEN = 64, 100


def model(lib: Any, functions: bool) -> Any:
    """`functions`: leaf and node are cells, plain functions of their inputs and weights; otherwise there is no cell."""
    nn, F = lib.nn, lib.nn.functional

    def leaf(x: Any, weight: Any, bias: Any) -> tuple[Any, Any]:
        i, o, u = F.linear(x, weight, bias).chunk(3, -1)
        c = lib.sigmoid(i) * lib.tanh(u)
        return lib.sigmoid(o) * lib.tanh(c), c

    def node(left: tuple[Any, Any], right: tuple[Any, Any], weight: Any, bias: Any) -> tuple[Any, Any]:
        (hl, cl), (hr, cr) = left, right
        i, fl, fr, o, u = F.linear(lib.cat([hl, hr], -1), weight, bias).chunk(5, -1)
        c = lib.sigmoid(i) * lib.tanh(u) + lib.sigmoid(fl) * cl + lib.sigmoid(fr) * cr
        return lib.sigmoid(o) * lib.tanh(c), c

    if functions:
        leaf, node = cell(lib, leaf), cell(lib, node)

    class TreeLSTM(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(N_WORDS, N_IN)
            self.of_leaf = nn.Linear(N_IN, 3 * N_HIDDEN)
            self.of_node = nn.Linear(2 * N_HIDDEN, 5 * N_HIDDEN)
            self.out = nn.Linear(N_HIDDEN, N_CLASSES)

        def leaf(self, x: Any) -> tuple[Any, Any]:
            return leaf(x, self.of_leaf.weight, self.of_leaf.bias)

        def node(self, left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
            return node(left, right, self.of_node.weight, self.of_node.bias)

        def state(self, tree: Any, inputs: Any) -> tuple[Any, Any]:
            if isinstance(tree, int):
                return self.leaf(inputs[tree])
            return self.node(self.state(tree[0], inputs), self.state(tree[1], inputs))

        def forward(self, words: Any, tree: Any, label: Any) -> Any:
            h, _ = self.state(tree, self.embedding(words))
            return F.cross_entropy(self.out(h), label)

    return TreeLSTM()


def by_hand(lib: Any, model: Any) -> Loss:
    """All nodes of one height at once."""

    def loss_of(words: Any, levels: Any, roots: Any, labels: Any) -> Any:
        h, c = model.leaf(model.embedding(words))
        for left, right in levels:
            new_h, new_c = model.node((h[left], c[left]), (h[right], c[right]))
            h, c = lib.cat([h, new_h]), lib.cat([c, new_c])
        return lib.nn.functional.cross_entropy(model.out(h[roots]), labels)

    return loss_of


def row(name: str, how: str, functions: bool) -> Row:
    about = f"{__doc__} {how}"
    return Row(name, about, partial(model, functions=functions), draw, (5, 30), by_hand, collate)


ROWS = [
    row("tree_lstm_functions", "Its cells are plain functions of inputs and weights.", functions=True),
    row("tree_lstm_no_cell", "It has no cell at all.", functions=False),
]
