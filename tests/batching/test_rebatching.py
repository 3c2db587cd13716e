"""Backward in larger batches than forward could have: the same gradients, in fewer steps."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.backends.selection import native
from extempo.batching import rebatching
from extempo.batching.gradients import LevelGroups

from .agreement import check, draw, rows

pytestmark = pytest.mark.skipif(native() is None, reason="levels are native plans")


@pytest.fixture
def counts(monkeypatch):
    """(batches of forward, of backward) of each pass that was looked at."""
    found = []
    real = rebatching._rebatched

    def spy(steps, *args):
        made = real(steps, *args)
        n = sum(len(step.schedule) if isinstance(step, LevelGroups) else 1 for step in made)
        found.append((len(steps), n))
        return made

    monkeypatch.setattr(rebatching, "_rebatched", spy)
    return found


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x, n):
        total = 0.0
        for step in range(n):
            chances = ex.log_softmax(self.second(ex.tanh(self.first(x))), -1)
            action = int(chances.argmax().item())
            total = total + chances[action] * (step + 1)
            x = ex.tensor(np.cos(x.numpy() + action).astype("f4"))
        return total


def test_steps_of_a_policy_go_back_together(counts):
    model = Policy()
    check(model, rows(5, 4), [3, 9, 12, 7, 5], parameters=model.parameters())
    (n_before, n_after), *_ = counts
    assert n_after < n_before / 2


class Grower(nn.Module):
    def __init__(self):
        super().__init__()
        self.sibling, self.child = nn.GRUCell(4, 4), nn.GRUCell(4, 4)
        self.more, self.out = nn.Linear(4, 1), nn.Linear(4, 3)

    def grow(self, h, depth, nodes):
        nodes.append(self.out(h))
        before = ex.zeros(4)
        for _ in range(min(depth, 3)):
            before = self.sibling(h, before)
            if ex.sigmoid(self.more(before)).item() > 0.99:
                break
            self.grow(self.child(before, h), depth - 1, nodes)

    def forward(self, h, depth):
        nodes = []
        self.grow(h, depth, nodes)
        return (ex.stack(nodes) ** 2).mean()


def test_a_tree_that_was_grown_child_by_child_goes_back_level_by_level(counts):
    model = Grower()
    check(model, rows(4, 4), [1, 3, 2, 3], parameters=model.parameters())
    (n_before, n_after), *_ = counts
    assert n_after < n_before / 2


def test_a_second_backward_finds_the_same_batches(counts):
    model = Grower()
    loss = sum(ex.batch(model)(rows(3, 4), [2, 3, 2]))
    found = []
    for retain in (True, False):
        for p in model.parameters():
            p.grad = None
        loss.backward(retain_graph=retain)
        found.append([p.grad.numpy().copy() for p in model.parameters() if p.grad is not None])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
    assert counts


def test_tensors_from_outside_weights_as_arguments_and_other_sizes_get_their_gradients(counts):
    w = draw(0, 3, 3).requires_grad_()
    step = ex.cell(lambda x, weight: ex.tanh(weight @ x))

    def run(x, n):
        kept = []
        for i in range(n):
            x = step(x, w)
            kept.append(x)
            rows_so_far = ex.stack(kept)
            if (rows_so_far * rows_so_far).sum().item() > 1e6:
                break
            x = x + rows_so_far.mean(0) * (i + 1)
        return x.sum() + ex.stack(kept)[:2].sum()

    xs = [x.requires_grad_() for x in rows(4, 3)]
    check(run, xs, [2, 6, 4, 8], parameters=[w, *xs])


def test_runs_whose_batches_stay_are_left_alone_for_a_while(counts):
    cell = nn.GRUCell(4, 4)

    def run(x, n):
        h = ex.zeros(4)
        for _ in range(n):
            h = cell(x, h)
            h[0].item()
        return h.sum()

    batched = ex.batch(run)
    samples = rows(3, 4), [12, 12, 12]
    for _ in range(8):
        sum(batched(*samples)).backward()
    assert 0 < len(counts) < 6
    assert all(n_before == n_after for n_before, n_after in counts)


def test_calls_that_results_were_not_computed_from_do_not_spoil_the_gradients_of_weights(counts):
    linear = nn.Linear(3, 3)

    def run(x, n):
        total = 0.0
        for _ in range(n):
            y = linear(x).abs()
            total = total + (y + 1.0).log().sum()
            if ((y * 0.0).log() * 0.5).sum().item() > 0:  # -inf, which nobody makes anything of
                break
            x = x * 0.9
        return total

    check(run, rows(3, 3), [6, 8, 7], parameters=linear.parameters())
    assert counts


class Pruner(nn.Module):
    """Throws away some of what it has computed."""

    def __init__(self):
        super().__init__()
        self.cell, self.more, self.weight = nn.GRUCell(4, 4), nn.Linear(4, 1), nn.Parameter(draw(1, 4, 4))

    def forward(self, h, n):
        kept = [h]
        for _ in range(n):
            h = self.cell(h, h)
            kept.append(ex.tanh(h @ self.weight))
            if ex.sigmoid(self.more(h)).item() < 0.5:
                kept.pop()
                h = kept[-1]
        return ex.stack(kept)


def test_calls_of_a_batch_that_stays_find_room_for_what_results_were_not_computed_from(counts):
    model = Pruner()
    check(model, rows(6, 4), [9, 12, 7, 5, 8, 3], parameters=model.parameters())
