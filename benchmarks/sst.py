"""The Stanford Sentiment Treebank: a recursive Tree-LSTM, written for one tree, beside the same model in PyTorch.

    python benchmarks/sst.py --data DIR     DIR holds train.txt and dev.txt, one bracketed tree with labels a line

Extempo runs the recursion with `ex.batch` in a compiled step; PyTorch's side is batched by hand, level by level. Both
start from the same weights and see the same trees in the same order. Every node has one of five classes and counts in
the loss; accuracy is that of the last epoch on the other file. Without data, trees of the same sizes are generated,
whose words have a valence each, which goes up the tree.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from interleave import ONE_THREAD, Result
from report import BASELINE, OURS, source, table
from worker import version_of
from workload import extempo, fill, torch

N_IN, N_HIDDEN, N_CLASSES = 100, 100, 5
N_TREES = 25  # in a batch
LEARNING_RATE = 2e-3
WITHIN_POINTS = 1.0
UNKNOWN = 0


class Tree(NamedTuple):
    """A node: a word and no children, or two children; in both cases a label."""

    label: int
    word: int
    children: tuple[Any, ...]

    @property
    def nodes(self) -> list[Tree]:
        return [self, *(node for child in self.children for node in child.nodes)]


class Data(NamedTuple):
    train: list[Tree]
    dev: list[Tree]
    n_words: int


# ---- trees


def parse(line: str, number_of: dict[str, int]) -> Tree:
    """A tree from text: (label word) or (label tree tree)."""
    parts = iter(re.findall(r"[()]|[^ ()]+", line))

    def node() -> Tree:
        """What follows an opening bracket."""
        label, children = int(next(parts)), []
        for part in parts:
            if part == ")":
                return Tree(label, UNKNOWN, tuple(children))
            if part != "(":
                word = number_of.get(part, UNKNOWN)
                next(parts)
                return Tree(label, word, ())
            children.append(node())
        raise ValueError(f"a bracket is open at the end of: {line}")

    next(parts)
    return node()


def read(folder: Path) -> Data:
    """Both files; words that are in the first only once, or not at all, are unknown."""
    lines = {name: (folder / f"{name}.txt").read_text(encoding="utf-8").splitlines() for name in ("train", "dev")}
    words = Counter(word for line in lines["train"] for word in re.findall(r" ([^ ()]+)\)", line))
    known = sorted(word for word, count in words.items() if count > 1)
    number_of = {word: number for number, word in enumerate(known, start=1)}
    train, dev = ([parse(line, number_of) for line in lines[name]] for name in ("train", "dev"))
    return Data(train, dev, 1 + len(known))


def generated(n_train: int = 8544, n_dev: int = 1101, n_words: int = 2000) -> Data:
    """As many trees, with as many leaves: 19 on average, 2 to 52."""
    rng = np.random.RandomState(0)
    valence = rng.randn(n_words) * 0.6

    def draw(n_leaves: int) -> tuple[Tree, float]:
        if n_leaves == 1:
            word, children = int(n_words * rng.rand() ** 3), ()
            value = float(valence[word])
        else:
            left = int(rng.randint(1, n_leaves))
            (first, a), (second, b) = draw(left), draw(n_leaves - left)
            word, children, value = UNKNOWN, (first, second), float(np.tanh(a + b))
        return Tree(int(np.digitize(value, (-0.6, -0.2, 0.2, 0.6))), word, children), value

    sizes = np.clip(np.rint(rng.gamma(4.2, 19.1 / 4.2, n_train + n_dev)), 2, 52)
    trees = [draw(int(size))[0] for size in sizes]
    return Data(trees[:n_train], trees[n_train:], n_words)


def batches(trees: list[Tree], rng: np.random.RandomState) -> Iterator[list[Tree]]:
    order = rng.permutation(len(trees))
    for first in range(0, len(order), N_TREES):
        yield [trees[k] for k in order[first : first + N_TREES]]


# ---- the model, twice

Train = Callable[[list[Tree]], Any]
Predict = Callable[[list[Tree]], list[int]]
Weights = list[Any]


def with_extempo(n_words: int, seed: int) -> tuple[Train, Predict, Weights]:
    """A training step, the classes of roots, and copies of the weights at the start."""
    ex = extempo()
    nn, F = ex.nn, ex.nn.functional
    ex.manual_seed(seed)
    embedding, cell, classify = (
        nn.Embedding(n_words, N_IN),
        nn.NaryTreeLSTMCell(N_IN, N_HIDDEN, 2),
        nn.Linear(N_HIDDEN, N_CLASSES),
    )
    parameters = list(nn.ModuleList([embedding, cell, classify]).parameters())
    optimizer = ex.optim.Adam(parameters, lr=LEARNING_RATE)

    def loss_of_tree(tree: Tree) -> Any:
        scores, labels = [], []

        def state_of(tree: Tree) -> Any:
            if tree.children:
                state = cell(*(state_of(child) for child in tree.children))
            else:
                state = cell.leaf(embedding(tree.word))
            scores.append(classify(state.h))
            labels.append(tree.label)
            return state

        state_of(tree)
        return F.cross_entropy(ex.stack(scores), ex.tensor(labels), reduction="sum")

    def scores_of_root(tree: Tree) -> Any:
        def state_of(tree: Tree) -> Any:
            if tree.children:
                return cell(*(state_of(child) for child in tree.children))
            return cell.leaf(embedding(tree.word))

        return classify(state_of(tree).h)

    losses_of, roots_of = ex.batch(loss_of_tree), ex.batch(scores_of_root)

    @ex.compile
    def train(trees: list[Tree], n_nodes: int) -> Any:
        loss = ex.stack(losses_of(trees)).sum() / n_nodes
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    def predict(trees: list[Tree]) -> list[int]:
        with ex.no_grad():
            return [int(scores.argmax().item()) for scores in roots_of(trees)]

    weights = [p.detach().numpy().copy() for p in parameters]
    return lambda trees: train(trees, sum(len(tree.nodes) for tree in trees)), predict, weights


class Levels(NamedTuple):
    """Nodes of several trees by height. Nodes are numbered level by level; `children` holds numbers."""

    words: list[int]
    children: list[tuple[list[int], list[int]]]
    labels: list[int]
    roots: list[int]


def levels_of(trees: list[Tree]) -> Levels:
    levels: list[list[tuple[Tree, list[tuple[int, int]]]]] = [[]]

    def walk(tree: Tree) -> tuple[int, int]:
        """The height of its root, and which one of that height it is."""
        places = [walk(child) for child in tree.children]
        height = 1 + max((height for height, _ in places), default=-1)
        if height == len(levels):
            levels.append([])
        levels[height].append((tree, places))
        return height, len(levels[height]) - 1

    roots = [walk(tree) for tree in trees]
    first = [0, *np.cumsum([len(level) for level in levels]).tolist()]
    children: list[Any] = [
        tuple([first[places[side][0]] + places[side][1] for _, places in level] for side in (0, 1))
        for level in levels[1:]
    ]
    words = [tree.word for tree, _ in levels[0]]
    labels = [tree.label for level in levels for tree, _ in level]
    return Levels(words, children, labels, [first[height] + k for height, k in roots])


def with_torch(n_words: int, weights: Weights) -> tuple[Train, Predict]:
    lib = torch()
    nn, F = lib.nn, lib.nn.functional
    embedding, classify = nn.Embedding(n_words, N_IN), nn.Linear(N_HIDDEN, N_CLASSES)
    from_input, from_children, bias = (lib.empty(array.shape).requires_grad_() for array in weights[1:4])
    parameters = [embedding.weight, from_input, from_children, bias, *classify.parameters()]
    fill(lib, parameters, weights)
    optimizer = lib.optim.Adam(parameters, lr=LEARNING_RATE, fused=True)
    n = 3 * N_HIDDEN

    def state_of(gates: Any, kept: Any) -> tuple[Any, Any]:
        u, i, o = gates.chunk(3, 1)
        c = lib.sigmoid(i) * lib.tanh(u) + kept
        return lib.sigmoid(o) * lib.tanh(c), c

    def scores_of(levels: Levels) -> Any:
        """Of all nodes."""
        h, c = state_of(F.linear(embedding(lib.tensor(levels.words)), from_input[:n], bias[:n]), 0.0)
        for left, right in levels.children:
            pair = lib.tensor([left, right]).T
            gates = F.linear(h[pair].flatten(1), from_children)
            forget = lib.sigmoid(gates[:, n:].unflatten(1, (2, N_HIDDEN)) + bias[n:])
            new_h, new_c = state_of(gates[:, :n] + bias[:n], (forget * c[pair]).sum(1))
            h, c = lib.cat([h, new_h]), lib.cat([c, new_c])
        return classify(h)

    def train(trees: list[Tree]) -> Any:
        levels = levels_of(trees)
        loss = F.cross_entropy(scores_of(levels), lib.tensor(levels.labels))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    def predict(trees: list[Tree]) -> list[int]:
        levels = levels_of(trees)
        with lib.no_grad():
            found: list[int] = scores_of(levels)[levels.roots].argmax(1).tolist()
        return found

    return train, predict


# ---- training


class Outcome(NamedTuple):
    losses: list[float]  # the mean of each epoch
    accuracy: float  # percent
    seconds: float  # in training


def learn(train: Train, predict: Predict, data: Data, epochs: int, seed: int) -> Outcome:
    rng = np.random.RandomState(seed)
    losses, seconds = [], 0.0
    for _ in range(epochs):
        began, found = time.perf_counter(), []
        for trees in batches(data.train, rng):
            found.append(float(train(trees).item()))
        seconds += time.perf_counter() - began
        losses.append(float(np.mean(found)))
    right = 0
    for first in range(0, len(data.dev), 100):
        trees = data.dev[first : first + 100]
        right += sum(tree.label == label for tree, label in zip(trees, predict(trees), strict=True))
    return Outcome(losses, 100 * right / len(data.dev), seconds)


def run(data: Data, epochs: int, n_seeds: int) -> dict[str, list[Outcome]]:
    """What each library reached with each seed, printed as soon as it is known."""
    outcomes: dict[str, list[Outcome]] = {OURS: []}
    if importlib.util.find_spec("torch"):
        outcomes[BASELINE] = []
    for seed in range(n_seeds):
        train, predict, weights = with_extempo(data.n_words, seed)
        for peer, found in outcomes.items():
            if peer == BASELINE:
                train, predict = with_torch(data.n_words, weights)
            outcome = learn(train, predict, data, epochs, seed)
            found.append(outcome)
            losses = ", ".join(f"{loss:.4f}" for loss in outcome.losses)
            print(f"seed {seed}, {peer}: losses {losses}; {outcome.accuracy:.1f}%, {outcome.seconds:.0f} s", flush=True)
    return outcomes


def report(outcomes: dict[str, list[Outcome]], how: str) -> tuple[str, bool]:
    """The table, and whether the means are within a point."""
    header = ["", *(f"seed {seed}" for seed in range(len(outcomes[OURS]))), "mean accuracy", "training s"]
    means = {peer: float(np.mean([outcome.accuracy for outcome in found])) for peer, found in outcomes.items()}
    rows = [
        [
            peer,
            *(f"{outcome.accuracy:.1f}" for outcome in found),
            f"{means[peer]:.2f}",
            f"{sum(outcome.seconds for outcome in found):.0f}",
        ]
        for peer, found in outcomes.items()
    ]
    text = f"{table(header, rows)}\n\n{source([Result(peer, version_of(peer)) for peer in outcomes], how)}"
    if BASELINE not in outcomes:
        return text + "\n\nPyTorch is not installed: nothing to compare with.", True
    apart = abs(means[OURS] - means[BASELINE])
    holds = apart <= WITHIN_POINTS
    return f"{text}\n\nThe means are {apart:.2f} points apart: {'pass' if holds else 'FAIL'}.", holds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder of train.txt and dev.txt")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--trees", type=int, help="train with so many only")
    given = parser.parse_args()
    os.environ.update(ONE_THREAD)
    data = read(given.data) if given.data else generated()
    data = data._replace(train=data.train[: given.trees])
    outcomes = run(data, given.epochs, given.seeds)
    what = "the treebank" if given.data else "generated trees"
    text, holds = report(outcomes, f"{what}, {len(data.train)} trees, {given.epochs} epochs, {given.seeds} seeds")
    print(text)
    raise SystemExit(not holds)


if __name__ == "__main__":
    main()
