"""Batches that read each other's results run level by level, in common arrays: results and gradients are the loop's."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.backends.selection import native
from extempo.batching import levels, template_cache
from extempo.errors import ExtempoError

from .agreement import check

pytestmark = pytest.mark.skipif(native() is None, reason="levels run by plans, which need the native backend")

WORDS = [[1, 2, 3, 4, 5, 6, 7], [2, 0], [3, 3, 3, 1, 2, 5, 9, 8], [], [5], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]]


@pytest.fixture
def levels_run(monkeypatch):
    """How many levels ran together in each flush that ran any."""
    found = []
    run = levels.run_levels

    def counted(*args):
        n_done, saved = run(*args)
        found.append(n_done)
        return n_done, saved

    monkeypatch.setattr(levels, "run_levels", counted)
    return found


def check_twice(fn, *samples, **given):
    """The first time kinds learn how they run."""
    check(fn, *samples, **given)
    return check(fn, *samples, **given)


class Steps(nn.Module):
    """A recurrence over words."""

    def __init__(self):
        super().__init__()
        self.embedding, self.cell, self.other = nn.Embedding(10, 3), nn.LSTMCell(3, 4), nn.LSTMCell(3, 4)

    def states(self, words, cells):
        state = (ex.zeros(4), ex.zeros(4))
        states = []
        for i, word in enumerate(words):
            state = cells[i % len(cells)](self.embedding(word), state)
            states.append(state)
        return states


def test_a_recurrence_runs_all_its_levels_together(levels_run):
    model = Steps()
    check_twice(lambda words: [h for h, _ in model.states(words, [model.cell])], WORDS, parameters=model.parameters())
    assert max(levels_run) == 9  # the first step, from zeros, is of another kind


def test_kinds_that_take_turns_run_all_their_levels_together(levels_run):
    model = Steps()
    check_twice(
        lambda words: [h for h, _ in model.states(words, [model.cell, model.other])],
        WORDS,
        parameters=model.parameters(),
    )
    assert max(levels_run) == 9  # the first step, from zeros, is of another kind


@pytest.mark.parametrize("which", [0, 1])
def test_levels_whose_results_have_only_some_gradients(levels_run, which):
    model = Steps()

    def fn(words):
        return [state[which] for state in model.states(words, [model.cell])[-1:]]

    check_twice(fn, WORDS, parameters=model.parameters())
    assert levels_run


def test_levels_that_defer_other_rows_than_the_last_one(levels_run):
    step, score, start = nn.Linear(4, 4), nn.Linear(4, 2), nn.Parameter(ex.ones(4))

    @ex.cell
    def both(h):
        h = ex.tanh(step(h))
        return h, ex.tanh(score(h))

    def fn(n):
        h = start * 1
        for _ in range(n):
            h, y = both(h)
        return y  # which has a gradient in the last level only

    check_twice(fn, [9, 9, 9], parameters=[start, *step.parameters(), *score.parameters()])
    assert max(levels_run) == 9


def test_levels_without_a_gradient(levels_run):
    model = Steps()
    check_twice(
        lambda words: [h for h, _ in model.states(words, [model.cell])[len(words) // 2 : len(words) // 2 + 1]],
        WORDS,
        parameters=model.parameters(),
    )
    assert max(levels_run) == 9


def test_levels_that_start_from_tensors_outside_which_have_gradients(levels_run):
    model = Steps()
    starts = [ex.randn(4, requires_grad=True) for _ in WORDS]

    def fn(words, start):
        state = (start, start * 1)
        for word in words:
            state = model.cell(model.embedding(word), state)
        return state[0]

    check_twice(fn, WORDS, starts, parameters=[*model.parameters(), *starts])
    assert levels_run


def test_a_tree_that_uses_a_subtree_twice(levels_run):
    leaf, node = nn.Embedding(5, 4), nn.Linear(8, 4)
    join = ex.cell(lambda a, b: ex.tanh(node(ex.cat([a, b]))))

    def fn(depth):
        x = leaf(depth % 5)
        for k in range(depth):
            x = join(x, x) if k % 2 else join(x, leaf(k % 5))
        return x

    check_twice(fn, [7, 3, 0, 9], parameters=[*leaf.parameters(), *node.parameters()])
    assert levels_run


def test_a_second_backward_through_the_same_levels(levels_run):
    model = Steps()
    batched = ex.batch(lambda words: model.states(words, [model.cell])[-1][0].sum())
    words = [w for w in WORDS if w]
    batched(words)
    total = ex.stack(batched(words)).sum()
    total.backward(retain_graph=True)
    once = [p.grad.numpy().copy() for p in model.parameters() if p.grad is not None]
    total.backward()
    twice = [p.grad.numpy() for p in model.parameters() if p.grad is not None]
    assert levels_run
    for a, b in zip(once, twice, strict=True):
        np.testing.assert_allclose(b, 2 * a, rtol=1e-5)


def test_gradients_of_two_weights_that_are_equal_are_not_one_memory():
    model = Steps()
    batched = ex.batch(lambda words: model.states(words, [model.cell])[-1][0].sum())
    ex.stack(batched([[1, 2, 3]] * 3)).sum().backward()
    first, second = model.cell.bias_ih.grad, model.cell.bias_hh.grad
    before = second.numpy().copy()
    first.zero_()
    assert np.array_equal(second.numpy(), before)
    assert before.any()


def test_an_error_in_the_middle_names_the_sample(levels_run):
    table = nn.Embedding(6, 1)
    step = ex.cell(lambda i: table(i).sum().to(ex.int64) * 0 + i + 1)

    def fn(start):
        i = ex.tensor(start)
        for _ in range(6):
            i = step(i)
        return i

    batched = ex.batch(fn)
    batched([0, 0])
    with pytest.raises(ExtempoError) as caught:
        batched([0, 3])
    assert "sample 1 of ex.batch" in "".join(caught.value.__notes__)
    assert levels_run
    assert levels_run[-1] == 3
    assert [int(x) for x in batched([0, 0])] == [6, 6]


def test_without_gradients(levels_run):
    model = Steps()
    with ex.no_grad():
        check_twice(lambda words: [h for h, _ in model.states(words, [model.cell])], WORDS)
    assert max(levels_run) == 10


@pytest.mark.parametrize("n_samples", [1, 2, 5, 9, 21, 130])
def test_weights_that_are_packed_once_for_all_levels(levels_run, monkeypatch, n_samples):
    packings = []
    packed = template_cache.packed
    monkeypatch.setattr(template_cache, "packed", lambda *args: packings.append(packed(*args)))
    embedding, cell = (
        nn.Embedding(10, 33),
        nn.LSTMCell(33, 330),
    )  # sums over k in two blocks, columns that are left over
    words = [[(i + k) % 10 for k in range(6 + i % 3)] for i in range(n_samples)]

    def fn(words):
        state = (embedding(0).sum() * ex.ones(330), ex.zeros(330))
        for word in words:
            state = cell(embedding(word), state)
        return state[0]

    check_twice(fn, words, parameters=[*embedding.parameters(), *cell.parameters()])
    assert levels_run
    assert len(packings) >= 4  # two weights, forward and backward
    assert len(packings) < len(levels_run) * 8


def test_the_first_run_has_the_bits_of_later_ones(levels_run):
    model = Steps()

    def bits():
        for p in model.parameters():
            p.grad = None
        losses = ex.stack(ex.batch(lambda words: model.states(words, [model.cell])[-1][0].sum())(WORDS[:3] * 9))
        losses.sum().backward()
        found = [p.grad for p in model.parameters() if p.grad is not None]
        return [t.detach().numpy().tobytes() for t in (losses, *found)]

    first = bits()
    assert levels_run == [7]
    assert bits() == first
