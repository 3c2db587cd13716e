"""Runs leave nothing behind: memory stays flat and caches bounded while structures are ever new."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np

import extempo as ex
from extempo import nn, optim
from extempo.batching.run import BatchExecutor
from extempo.core.cache import CACHES
from extempo.nn import functional as F


class Trees(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 6)
        self.compose = nn.NaryTreeLSTMCell(6, 6, arity=2)
        self.out = nn.Linear(6, 3)

    def state(self, tree):
        if isinstance(tree, int):
            return self.compose.leaf(self.embed(tree))
        return self.compose(self.state(tree[0]), self.state(tree[1]))

    def forward(self, tree):
        scores = self.out(self.state(tree).h)
        return F.cross_entropy(scores, int(scores.argmax().item()))


def tree(rng, n):
    if n == 1:
        return int(rng.integers(30))
    k = int(rng.integers(1, n))
    return tree(rng, k), tree(rng, n - k)


def test_ever_new_structures_keep_memory_flat():
    ex.manual_seed(0)
    rng = np.random.default_rng(0)
    model = Trees()
    optimizer = optim.Adam(model.parameters())

    def step():
        trees = [tree(rng, int(rng.integers(1, 9))) for _ in range(6)]
        ex.stack(ex.batch(model)(trees)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(150):  # until most sizes of batches have been met
        step()
    gc.collect()
    tracemalloc.start()
    try:
        step()
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(100):
            step()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1_500_000, f"{(after - before) / 100:.0f} bytes a step stayed"
    for name, cache in CACHES.items():
        assert len(cache) <= cache.limit, name


def test_values_go_with_the_run_and_the_rest_with_backward():
    layer = nn.Linear(8, 8)

    def run(x):
        for _ in range(3):
            x = ex.tanh(layer(x))
        return x.sum()

    losses = ex.batch(run)([ex.randn(8) for _ in range(4)])
    gc.collect()
    assert not [one for one in gc.get_objects() if type(one) is BatchExecutor]
    history = losses[0].grad_fn.inputs[0].attrs["history"]
    assert history.groups
    loss = ex.stack(losses).sum()
    loss.backward()
    assert history.groups is None
