"""A parser that acts on its own predictions (after SPINN, Bowman et al. 2016): 32 sentences of 10 to 30 words, Adam.

A tracking LSTM of 64 sees the next word and the top of the stack, and scores two actions; the better one that is legal
is taken: its argmax is read with .item() at every turn. Shift puts the next word on the stack, reduce joins the two
topmost nodes with a binary Tree-LSTM of 100 that also sees the tracker. The loss is that of the class of the root and
of every action. Words are of 1000, with embeddings of 100; PyTorch looks up and projects those of a sentence at once.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import dynet_peer
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

N_SENTENCES, N_WORDS, N_IN, N_TRACKER, N_HIDDEN, N_CLASSES = 32, 1000, 100, 64, 100, 5
SHORTEST, LONGEST = 10, 30
BLOCK, N_BLOCKS = 2, 40
SHIFT, REDUCE = 0, 1


def draw_actions(rng: Any, n_words: int) -> list[int]:
    """The actions that build a random binary tree over so many words."""
    actions: list[int] = []
    left, on_stack = n_words, 0
    while left or on_stack > 1:
        reduce = on_stack > 1 and (not left or rng.rand() < 0.5)
        actions.append(REDUCE if reduce else SHIFT)
        left, on_stack = (left, on_stack - 1) if reduce else (left - 1, on_stack + 1)
    return actions


def data() -> tuple[dict[str, Any], list[list[list[int]]], list[list[list[int]]], list[list[int]]]:
    """Weights as (in, out), and words, right actions and labels of each step. All blocks have as many words."""
    rng = np.random.RandomState(0)
    shapes = {
        "embedding": (N_WORDS, N_IN),
        "project": (N_IN, 2 * N_HIDDEN),
        "tracker": (3 * N_HIDDEN, 4 * N_TRACKER),
        "tracker state": (N_TRACKER, 4 * N_TRACKER),
        "actions": (N_TRACKER, 2),
        "join": (2 * N_HIDDEN + N_TRACKER, 5 * N_HIDDEN),
        "classes": (N_HIDDEN, N_CLASSES),
    }
    weights = {name: (rng.randn(*shape) / shape[0] ** 0.5).astype("f4") for name, shape in shapes.items()}
    weights["embedding"] *= np.float32(N_WORDS**0.5)
    words: list[Any] = []
    actions: list[Any] = []
    for _ in range(N_BLOCKS):
        sizes = mirrored(rng, SHORTEST, LONGEST, BLOCK * N_SENTENCES)
        drawn = [(rng.randint(0, N_WORDS, n).tolist(), draw_actions(rng, n)) for n in sizes]
        for k in range(0, len(drawn), N_SENTENCES):
            columns = zip(*drawn[k : k + N_SENTENCES], strict=True)
            for made, column in zip((words, actions), columns, strict=True):
                made.append(list(column))
    return weights, words, actions, rng.randint(0, N_CLASSES, (len(words), N_SENTENCES)).tolist()


def legal(action: int, n_left: int, n_on_stack: int) -> int:
    """The action, or the other one where it cannot be taken."""
    if n_on_stack < 2:
        return SHIFT
    return action if n_left else REDUCE


class Model:
    """The layers, with these weights, and the cell that joins two nodes."""

    def __init__(self, lib: Any, weights: dict[str, Any]) -> None:
        nn = lib.nn
        self.embedding = nn.Embedding(N_WORDS, N_IN)
        self.project = nn.Linear(N_IN, 2 * N_HIDDEN)
        self.tracker = nn.LSTMCell(3 * N_HIDDEN, N_TRACKER)
        self.to_actions = nn.Linear(N_TRACKER, 2)
        self.to_gates = to_gates = nn.Linear(2 * N_HIDDEN + N_TRACKER, 5 * N_HIDDEN)
        self.to_classes = nn.Linear(N_HIDDEN, N_CLASSES)
        layers = [layer for layer in vars(self).values() if isinstance(layer, nn.Module)]
        matrices, biases = self.parameters_of(layers)
        arrays = [w if name == "embedding" else w.T for name, w in weights.items()]
        self.parameters = fill(lib, [*matrices, *biases], [*arrays, *(np.zeros(b.shape, "f4") for b in biases)])

        def join(left: tuple[Any, Any], right: tuple[Any, Any], tracked: Any) -> tuple[Any, Any]:
            (hl, cl), (hr, cr) = left, right
            i, fl, fr, o, u = to_gates(lib.cat([hl, hr, tracked], -1)).chunk(5, -1)
            c = lib.sigmoid(i) * lib.tanh(u) + lib.sigmoid(fl) * cl + lib.sigmoid(fr) * cr
            return lib.sigmoid(o) * lib.tanh(c), c

        self.join = cell(lib, join)

    @staticmethod
    def parameters_of(layers: list[Any]) -> tuple[list[Any], list[Any]]:
        """Matrices, in the order of the layers, and biases."""
        found = [parameter for layer in layers for parameter in layer.parameters()]
        return [p for p in found if p.ndim == 2], [p for p in found if p.ndim == 1]


def program(library: Library, each: Each = one_by_one, wrap: Wrap = as_it_is, sentence_at_once: bool = False) -> Step:
    """The code of one sentence, run for every sentence. States are vectors; with `sentence_at_once` rows of one."""
    lib = library()
    F = lib.nn.functional
    weights, words, actions, labels = data()
    model = Model(lib, weights)
    rows = (1,) if sentence_at_once else ()
    start = lib.zeros(*rows, N_TRACKER), lib.zeros(*rows, N_TRACKER)
    nothing = lib.zeros(*rows, N_HIDDEN)

    def leaf(word: int) -> Any:
        return model.project(model.embedding(word)).chunk(2, -1)

    def leaves(words: Any) -> list[Any]:
        h, c = model.project(model.embedding(words)).chunk(2, -1)
        return list(zip(h.split(1), c.split(1), strict=True))

    def loss_of_sentence(words: Any, actions: Any, label: Any) -> Any:
        ahead = leaves(words) if sentence_at_once else [leaf(word) for word in words]
        ahead.reverse()
        stack: list[Any] = []
        tracked, scores = start, []
        while ahead or len(stack) > 1:
            seen = [ahead[-1][0] if ahead else nothing, *(node[0] for node in stack[:-3:-1])]
            seen += [nothing] * (3 - len(seen))
            tracked = model.tracker(lib.cat(seen, -1), tracked)
            scores.append(model.to_actions(tracked[0]))
            if legal(scores[-1].argmax().item(), len(ahead), len(stack)) == SHIFT:
                stack.append(ahead.pop())
            else:
                right, left = stack.pop(), stack.pop()
                stack.append(model.join(left, right, tracked[0]))
        of_actions = F.cross_entropy(lib.cat(scores) if sentence_at_once else lib.stack(scores), actions)
        return of_actions + F.cross_entropy(model.to_classes(stack[0][0]), label)

    losses_of = each(lib, loss_of_sentence)

    def loss_of(words: list[Any], actions: list[Any], labels: list[Any]) -> Any:
        return lib.stack(losses_of(words, actions, labels)).mean()

    columns: list[Any] = [words, [[lib.tensor(a) for a in batch] for batch in actions], labels]
    if sentence_at_once:
        columns[0] = [[lib.tensor(sentence) for sentence in batch] for batch in words]
        columns[2] = [[lib.tensor([label]) for label in batch] for batch in labels]
    batches = list(zip(*columns, strict=True))
    return trainer(lib, loss_of, lib.optim.Adam(model.parameters, lr=LEARNING_RATE), batches, wrap)


def with_dynet(autobatch: bool) -> Step:
    """A lookup of every word, as in Extempo; reading a value runs what is not yet computed, of this sentence only."""
    dy = dynet_peer.dynet(1024, autobatch)
    arrays, words, actions, labels = data()
    weights = dy.ParameterCollection()
    embedding = weights.lookup_parameters_from_numpy(arrays.pop("embedding"))
    wp, wx, wh, wa, wj, wo = (weights.parameters_from_numpy(a.T.copy()) for a in arrays.values())
    sizes = (2 * N_HIDDEN, 4 * N_TRACKER, 4 * N_TRACKER, 2, 5 * N_HIDDEN, N_CLASSES)
    bp, bx, bh, ba, bj, bo = (weights.parameters_from_numpy(np.zeros(n, "f4")) for n in sizes)

    def gates_of(z: Any, count: int, size: int) -> list[Any]:
        return [dy.pick_range(z, k * size, (k + 1) * size) for k in range(count)]

    def track(bias: Any, seen: list[Any], h: Any, c: Any) -> tuple[Any, Any]:
        z = dy.affine_transform([bias, wx, dy.concatenate(seen), wh, h])
        i, f, g, o = gates_of(z, 4, N_TRACKER)
        c = dy.cmult(dy.logistic(f), c) + dy.cmult(dy.logistic(i), dy.tanh(g))
        return dy.cmult(dy.logistic(o), dy.tanh(c)), c

    def join(left: Any, right: Any, tracked: Any) -> tuple[Any, Any]:
        (hl, cl), (hr, cr) = left, right
        z = dy.affine_transform([bj, wj, dy.concatenate([hl, hr, tracked])])
        i, fl, fr, o, u = gates_of(z, 5, N_HIDDEN)
        c = dy.cmult(dy.logistic(i), dy.tanh(u)) + dy.cmult(dy.logistic(fl), cl) + dy.cmult(dy.logistic(fr), cr)
        return dy.cmult(dy.logistic(o), dy.tanh(c)), c

    def loss_of_sentence(words: list[int], actions: list[int], label: int, bias: Any) -> Any:
        ahead = [gates_of(dy.affine_transform([bp, wp, embedding[word]]), 2, N_HIDDEN) for word in reversed(words)]
        stack: list[Any] = []
        h = c = dy.zeros(N_TRACKER)
        nothing, losses = dy.zeros(N_HIDDEN), []
        while ahead or len(stack) > 1:
            seen = [ahead[-1][0] if ahead else nothing, *(node[0] for node in stack[:-3:-1])]
            seen += [nothing] * (3 - len(seen))
            h, c = track(bias, seen, h, c)
            scores = dy.affine_transform([ba, wa, h])
            losses.append(dy.pickneglogsoftmax(scores, actions[len(losses)]))
            if legal(int(scores.npvalue().argmax()), len(ahead), len(stack)) == SHIFT:
                stack.append(ahead.pop())
            else:
                right, left = stack.pop(), stack.pop()
                stack.append(join(left, right, h))
        root = dy.pickneglogsoftmax(dy.affine_transform([bo, wo, stack[0][0]]), label)
        return dy.average(losses) + root

    def loss_of(k: int) -> Any:
        bias = bx + bh
        samples = zip(*(column[k % len(column)] for column in (words, actions, labels)), strict=True)
        return dy.average([loss_of_sentence(*sample, bias) for sample in samples])

    return dynet_peer.trainer(loss_of, dy.AdamTrainer(weights, LEARNING_RATE), weights)


PEERS: Peers = {
    **batch_peers(program),
    "torch": partial(program, torch, sentence_at_once=True),
    "dynet": partial(with_dynet, autobatch=False),
    "dynet+autobatch": partial(with_dynet, autobatch=True),
}
WORKLOADS = [Workload("spinn", __doc__, BLOCK, PEERS, batch_floor=0.15)]

if __name__ == "__main__":
    run_this(__file__)
