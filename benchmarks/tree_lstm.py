"""A binary Tree-LSTM over 25 random trees of 10 to 30 leaves, written as a recursion over one tree. Hidden 150, Adam.

Words (of 1000) have embeddings of 300, each root one of 5 classes. Every step has trees that no earlier step had.
Hand-batched PyTorch takes all nodes of one height at once, its schedule made in the step. JAX runs padded programs of
30 leaves and 29 merges, prepared outside the step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import dynet_peer
import jax_peer
import numpy as np
from workload import (
    LEARNING_RATE,
    Each,
    Library,
    Peers,
    Step,
    Workload,
    Wrap,
    as_it_is,
    batch_peers,
    cell,
    fill,
    mirrored,
    one_by_one,
    run_this,
    torch,
    trainer,
)

N_TREES, N_WORDS, N_IN, N_HIDDEN, N_CLASSES = 25, 1000, 300, 150, 5
SHORTEST, LONGEST = 10, 30
BLOCK, N_BLOCKS = 4, 30

Level = tuple[list[int], list[int]]


def draw_tree(rng: Any, n_leaves: int) -> Any:
    """A word, or a pair of trees."""
    if n_leaves == 1:
        return int(rng.randint(N_WORDS))
    left = int(rng.randint(1, n_leaves))
    return draw_tree(rng, left), draw_tree(rng, n_leaves - left)


def words_of(tree: Any) -> list[int]:
    return [tree] if isinstance(tree, int) else words_of(tree[0]) + words_of(tree[1])


def data() -> tuple[dict[str, Any], list[list[Any]], list[list[int]]]:
    """Weights as (in, out), and trees and labels of each step. All blocks have the same number of leaves."""
    rng = np.random.RandomState(0)
    weights = {
        "embedding": rng.randn(N_WORDS, N_IN),
        "leaf": rng.randn(N_IN, 3 * N_HIDDEN) / N_IN**0.5,
        "leaf bias": np.zeros(3 * N_HIDDEN),
        "node": rng.randn(2 * N_HIDDEN, 5 * N_HIDDEN) / (2 * N_HIDDEN) ** 0.5,
        "node bias": np.zeros(5 * N_HIDDEN),
        "classes": rng.randn(N_HIDDEN, N_CLASSES) / N_HIDDEN**0.5,
        "classes bias": np.zeros(N_CLASSES),
    }
    trees = []
    for _ in range(N_BLOCKS):
        drawn = [draw_tree(rng, size) for size in mirrored(rng, SHORTEST, LONGEST, BLOCK * N_TREES)]
        trees += [drawn[k : k + N_TREES] for k in range(0, len(drawn), N_TREES)]
    labels = rng.randint(0, N_CLASSES, (len(trees), N_TREES)).tolist()
    return {name: w.astype("f4") for name, w in weights.items()}, trees, labels


def model_of(lib: Any, weights: dict[str, Any]) -> tuple[Any, Any, Any, Any, list[Any]]:
    """Embedding, the layers of leaf, node and classes, and all their parameters."""
    nn = lib.nn
    embedding, to_leaf = nn.Embedding(N_WORDS, N_IN), nn.Linear(N_IN, 3 * N_HIDDEN)
    to_node, to_classes = nn.Linear(2 * N_HIDDEN, 5 * N_HIDDEN), nn.Linear(N_HIDDEN, N_CLASSES)
    layers = nn.ModuleList([embedding, to_leaf, to_node, to_classes])
    arrays = [w if name == "embedding" else w.T for name, w in weights.items()]
    return embedding, to_leaf, to_node, to_classes, fill(lib, layers.parameters(), arrays)


def cells_of(lib: Any, to_leaf: Any, to_node: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What makes the state (h, c) of a leaf from its input, and of an inner node from the states of its children."""

    def leaf(x: Any) -> tuple[Any, Any]:
        i, o, u = to_leaf(x).chunk(3, -1)
        c = lib.sigmoid(i) * lib.tanh(u)
        return lib.sigmoid(o) * lib.tanh(c), c

    def node(left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
        (hl, cl), (hr, cr) = left, right
        i, fl, fr, o, u = to_node(lib.cat([hl, hr], -1)).chunk(5, -1)
        c = lib.sigmoid(i) * lib.tanh(u) + lib.sigmoid(fl) * cl + lib.sigmoid(fr) * cr
        return lib.sigmoid(o) * lib.tanh(c), c

    return cell(lib, leaf), cell(lib, node)


def program(library: Library, each: Each = one_by_one, wrap: Wrap = as_it_is) -> Step:
    """The code of one tree, run for every tree."""
    lib = library()
    weights, trees, labels = data()
    embedding, to_leaf, to_node, to_classes, parameters = model_of(lib, weights)
    leaf, node = cells_of(lib, to_leaf, to_node)

    def state_of(tree: Any) -> Any:
        if isinstance(tree, int):
            return leaf(embedding(tree))
        return node(state_of(tree[0]), state_of(tree[1]))

    def loss_of_tree(tree: Any, label: int) -> Any:
        h, _ = state_of(tree)
        return lib.nn.functional.cross_entropy(to_classes(h), label)

    losses_of = each(lib, loss_of_tree)

    def loss_of(trees: list[Any], labels: list[int]) -> Any:
        return lib.stack(losses_of(trees, labels)).mean()

    batches = list(zip(trees, labels, strict=True))
    return trainer(lib, loss_of, lib.optim.Adam(parameters, lr=LEARNING_RATE), batches, wrap)


def with_torch(compiled: bool = False) -> Step:
    """One tree at a time, but one lookup and one layer of classes for all trees: kind to PyTorch."""
    lib = torch()
    weights, trees, labels = data()
    embedding, to_leaf, to_node, to_classes, parameters = model_of(lib, weights)
    leaf, node = cells_of(lib, to_leaf, to_node)
    if compiled:
        leaf, node = lib.compile(leaf), lib.compile(node)

    def state_of(tree: Any, inputs: Any) -> Any:
        if isinstance(tree, int):
            return leaf(next(inputs))
        return node(state_of(tree[0], inputs), state_of(tree[1], inputs))

    def loss_of(trees: list[Any], labels: Any) -> Any:
        inputs = iter(embedding(lib.tensor([word for tree in trees for word in words_of(tree)])).split(1))
        roots = lib.cat([state_of(tree, inputs)[0] for tree in trees])
        return lib.nn.functional.cross_entropy(to_classes(roots), labels)

    batches = list(zip(trees, lib.tensor(labels), strict=True))
    return trainer(lib, loss_of, lib.optim.Adam(parameters, lr=LEARNING_RATE, fused=compiled), batches)


def levels_of(trees: list[Any]) -> tuple[list[int], list[Level], list[int]]:
    """All words, the children of all nodes of each height, and the roots: numbers of nodes, counted level by level."""
    words: list[int] = []
    levels: list[list[tuple[tuple[int, int], tuple[int, int]]]] = []

    def walk(tree: Any) -> tuple[int, int]:
        """The height of its root, and which one of that height it is."""
        if isinstance(tree, int):
            words.append(tree)
            return 0, len(words) - 1
        left, right = walk(tree[0]), walk(tree[1])
        height = max(left[0], right[0]) + 1
        if height > len(levels):
            levels.append([])
        levels[height - 1].append((left, right))
        return height, len(levels[height - 1]) - 1

    places = [walk(tree) for tree in trees]
    first = [0, *np.cumsum([len(words), *map(len, levels)]).tolist()]
    children = [([first[h] + k for (h, k), _ in level], [first[h] + k for _, (h, k) in level]) for level in levels]
    return words, children, [first[h] + k for h, k in places]


def by_hand() -> Step:
    lib = torch()
    weights, trees, labels = data()
    embedding, to_leaf, to_node, to_classes, parameters = model_of(lib, weights)
    leaf, node = cells_of(lib, to_leaf, to_node)

    def loss_of(trees: list[Any], labels: Any) -> Any:
        words, levels, roots = levels_of(trees)
        h, c = leaf(embedding(lib.tensor(words)))
        for children in levels:
            left, right = map(lib.tensor, children)
            new_h, new_c = node(
                (h.index_select(0, left), c.index_select(0, left)), (h.index_select(0, right), c.index_select(0, right))
            )
            h, c = lib.cat([h, new_h]), lib.cat([c, new_c])
        return lib.nn.functional.cross_entropy(to_classes(h[lib.tensor(roots)]), labels)

    batches = list(zip(trees, lib.tensor(labels), strict=True))
    return trainer(lib, loss_of, lib.optim.Adam(parameters, lr=LEARNING_RATE, fused=True), batches)


def padded_programs(trees: list[Any]) -> list[Any]:
    """Words (tree, leaf), left and right operand of each merge (merge, tree), and the place of each root (tree,)."""
    words = np.zeros((len(trees), LONGEST), "i4")
    left, right = np.zeros((2, LONGEST - 1, len(trees)), "i4")
    roots = np.zeros(len(trees), "i4")
    for row, tree in enumerate(trees):
        found = words_of(tree)
        words[row, : len(found)] = found
        leaves, merges = iter(range(LONGEST)), iter(range(LONGEST - 1))

        def walk(tree: Any, row: int, leaves: Any, merges: Any) -> int:
            if isinstance(tree, int):
                return int(next(leaves))
            operands = [walk(child, row, leaves, merges) for child in tree]
            number = int(next(merges))
            left[number, row], right[number, row] = operands
            return LONGEST + number

        roots[row] = walk(tree, row, leaves, merges)
    return [words, left, right, roots]


def with_jax() -> Step:
    jax, jnp = jax_peer.jax()
    weights, trees, labels = data()
    rows = np.arange(N_TREES)

    def loss_of(w: dict[str, Any], words: Any, left: Any, right: Any, roots: Any, labels: Any) -> Any:
        i, o, u = jnp.split(w["embedding"][words] @ w["leaf"] + w["leaf bias"], 3, 2)
        c = jax.nn.sigmoid(i) * jnp.tanh(u)
        leaves = jnp.concatenate([jax.nn.sigmoid(o) * jnp.tanh(c), c], 2)
        states = jnp.concatenate([leaves, jnp.zeros((N_TREES, LONGEST - 1, 2 * N_HIDDEN))], 1)

        def merge(states: Any, at: tuple[Any, Any, Any]) -> tuple[Any, None]:
            left, right, number = at
            (hl, cl), (hr, cr) = (jnp.split(states[rows, child], 2, 1) for child in (left, right))
            i, fl, fr, o, u = jnp.split(jnp.concatenate([hl, hr], 1) @ w["node"] + w["node bias"], 5, 1)
            c = jax.nn.sigmoid(i) * jnp.tanh(u) + jax.nn.sigmoid(fl) * cl + jax.nn.sigmoid(fr) * cr
            new = jnp.concatenate([jax.nn.sigmoid(o) * jnp.tanh(c), c], 1)
            return jax.lax.dynamic_update_index_in_dim(states, new, LONGEST + number, 1), None

        states, _ = jax.lax.scan(merge, states, (left, right, jnp.arange(LONGEST - 1)))
        return jax_peer.cross_entropy(states[rows, roots][:, :N_HIDDEN] @ w["classes"] + w["classes bias"], labels)

    batches = [(*padded_programs(t), np.array(y)) for t, y in zip(trees, labels, strict=True)]
    return jax_peer.trainer(loss_of, weights, batches)


def with_dynet(autobatch: bool) -> Step:
    dy = dynet_peer.dynet(1024, autobatch)
    arrays, trees, labels = data()
    weights = dy.ParameterCollection()
    embedding = weights.lookup_parameters_from_numpy(arrays["embedding"])
    from_left, from_right = (weights.parameters_from_numpy(a.T.copy()) for a in np.split(arrays["node"], 2))
    names = ("leaf", "leaf bias", "node bias", "classes", "classes bias")
    wl, bl, bn, wo, bo = (weights.parameters_from_numpy(arrays[name].T.copy()) for name in names)

    def gates_of(z: Any, count: int) -> list[Any]:
        return [dy.pick_range(z, k * N_HIDDEN, (k + 1) * N_HIDDEN) for k in range(count)]

    def state_of(tree: Any) -> tuple[Any, Any]:
        if isinstance(tree, int):
            i, o, u = gates_of(dy.affine_transform([bl, wl, embedding[tree]]), 3)
            c = dy.cmult(dy.logistic(i), dy.tanh(u))
        else:
            (hl, cl), (hr, cr) = state_of(tree[0]), state_of(tree[1])
            i, fl, fr, o, u = gates_of(dy.affine_transform([bn, from_left, hl, from_right, hr]), 5)
            c = dy.cmult(dy.logistic(i), dy.tanh(u)) + dy.cmult(dy.logistic(fl), cl) + dy.cmult(dy.logistic(fr), cr)
        return dy.cmult(dy.logistic(o), dy.tanh(c)), c

    def loss_of(k: int) -> Any:
        samples = zip(trees[k % len(trees)], labels[k % len(labels)], strict=True)
        scores = [(dy.affine_transform([bo, wo, state_of(tree)[0]]), label) for tree, label in samples]
        return dy.esum([dy.pickneglogsoftmax(found, label) for found, label in scores]) * (1 / N_TREES)

    return dynet_peer.trainer(loss_of, dy.AdamTrainer(weights, LEARNING_RATE), weights)


PEERS: Peers = {
    **batch_peers(program),
    "torch": with_torch,
    "torch.compile cells": partial(with_torch, compiled=True),
    "torch hand-batched": by_hand,
    "jax.jit padded": with_jax,
    "dynet": partial(with_dynet, autobatch=False),
    "dynet+autobatch": partial(with_dynet, autobatch=True),
}
WORKLOADS = [Workload("tree_lstm", __doc__, BLOCK, PEERS, batch_floor=0.07)]

if __name__ == "__main__":
    run_this(__file__)
