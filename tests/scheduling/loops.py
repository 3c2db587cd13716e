"""Loops for tests of the planner: what runs again and again, and the shapes that it takes."""

from __future__ import annotations

import numpy as np

import extempo as ex

F = ex.nn.functional


def draw(*shape, seed=0, requires_grad=True):
    values = np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32) * 0.4
    return ex.tensor(values, requires_grad=requires_grad)


def inputs(n, *shape, requires_grad=False):
    return [draw(*shape, seed=7 + i, requires_grad=requires_grad) for i in range(n)]


def lstm(w, u, b, h, c, *xs):
    for x in xs:
        i, f, g, o = (x @ w + h @ u + b).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    return (h * h).sum()


def gru(w, u, b, h, *xs):
    for x in xs:
        a, e = x @ w + b, h @ u
        z, r = (a[:, :6] + e[:, :6]).sigmoid().chunk(2, 1)
        h = (1 - z) * (a[:, 6:] + r * e[:, 6:]).tanh() + z * h
    return h.mean()


def losses(w, u, h, *xs):
    total = 0.0
    for x in xs:
        h = (x @ w + h @ u).tanh()
        total = total + F.cross_entropy(h, LABELS) * 0.25
    return total


def two_layers(w, u, h, k, *xs):
    for x in xs:
        h = (x @ w + h @ u).tanh()
        k = (h @ u + k @ u).relu() * 0.9
    return k.sum()


def normed(w, g, h, *xs):
    for x in xs:
        h = F.layer_norm(h @ w + x, (3,), g)
        h = F.softmax(h, -1) + h
    return h.sum()


def independent(w, *xs):
    total = xs[0].sum() * 0
    for x in xs:
        total = total + ((x @ w).tanh() ** 2).sum()
    return total


def elementwise(h, *xs):
    for x in xs:
        h = (h * 1.01 + x).tanh() * x
    return h.sum()


LABELS = ex.tensor([0, 2])
LSTM = [(4, 12), (3, 12), (12,), (2, 3), (2, 3)]
CASES = {
    "an LSTM": (lstm, LSTM, (2, 4), True),
    "a GRU with slices": (gru, [(4, 9), (3, 9), (9,), (2, 3)], (2, 4), True),
    "a loss at every step": (losses, [(4, 3), (3, 3), (2, 3)], (2, 4), True),
    "two layers": (two_layers, [(4, 3), (3, 3), (2, 3), (2, 3)], (2, 4), True),
    "several results": (normed, [(3, 3), (3,), (2, 3)], (2, 3), True),
    "a sum over steps": (independent, [(4, 3)], (2, 4), True),
    "what is fused across steps": (elementwise, [(2, 3)], (2, 3), False),
}
