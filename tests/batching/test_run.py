"""Runs leave nothing behind: memory stays flat and caches bounded while structures are ever new."""

from __future__ import annotations

import gc
import threading
import tracemalloc
import weakref

import numpy as np
import pytest

import extempo as ex
from extempo import nn, optim
from extempo.batching.run import BatchExecutor
from extempo.core.cache import CACHES
from extempo.core.context import CONTEXT
from extempo.nn import functional as F

from .agreement import draw, rows


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


def test_what_is_kept_by_side_effect_is_usable_later():
    w = draw(0, 3).requires_grad_()
    kept = []

    def run(x):
        y = x * w
        kept.append(y)
        return y.sum()

    results = ex.batch(run)(rows(3, 3))
    total = sum((t * t).sum() for t in kept) + sum(results)
    total.backward()
    gradient = w.grad.numpy().copy()
    w.grad = None
    plain = [x * w for x in rows(3, 3)]
    (sum((t * t).sum() for t in plain) + sum(t.sum() for t in plain)).backward()
    np.testing.assert_allclose(gradient, w.grad.numpy(), rtol=1e-5)


def test_a_result_may_be_written_to():
    w = draw(0, 3).requires_grad_()
    got = ex.batch(lambda x: ex.tanh(x * w))(rows(3, 3))
    expected = [ex.tanh(x * w) for x in rows(3, 3)]
    with ex.no_grad():
        copies = [t.clone() for t in got]
    for t in copies:
        t.zero_()
    sum(t.sum() for t in got).backward()
    gradient = w.grad.numpy().copy()
    w.grad = None
    sum(t.sum() for t in expected).backward()
    np.testing.assert_allclose(gradient, w.grad.numpy(), rtol=1e-5)


@pytest.mark.alone
def test_threads_have_runs_of_their_own():
    w = draw(0, 3)
    results = {}

    def run(x):
        for _ in range(3):
            x = (x * w).tanh()
            x.sum().item()
        return x

    def work(k):
        results[k] = [t.tolist() for t in ex.batch(run)(rows(5, 3))]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results[0] == results[1] == results[2] == results[3]


def test_a_run_is_gone_with_its_results():
    w = draw(0, 3).requires_grad_()

    class Mark:
        pass

    mark = Mark()
    alive = weakref.ref(mark)

    def run(x, mark=mark):
        return (x * w).sum()

    loss = sum(ex.batch(run)(rows(4, 3)))
    del mark, run
    loss.backward()
    del loss
    gc.collect()
    assert alive() is None


def test_tensors_that_nobody_holds_leave_a_run_once_they_were_read():
    weight = ex.randn(3, 3, requires_grad=True)
    held = []

    def fn(x, run=None):
        total = 0.0
        for step in range(6):  # ids of earlier tensors come again
            total += (ex.tensor([x, step, 1.0]) @ weight.T).sum().item()
        if run is not None:
            held.append(len(run()._tensors))
        return (ex.tensor([total, x, 1.0]) @ weight.T).sum()

    samples = [0.5, 1.5, -1.0, 2.0]
    results = {}
    for looped in (False, True):
        run = None if looped else lambda: CONTEXT.get().interceptor.run
        found = ex.batch(fn, debug=looped)(samples, run=run)
        ex.stack(found).sum().backward()
        results[looped] = [y.item() for y in found], weight.grad.numpy()
        weight.grad = None
    assert max(held) <= 6 * len(samples)  # views of the weight, which gradients go through
    for ours, theirs in zip(results[False], results[True], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)
