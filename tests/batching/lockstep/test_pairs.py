"""Values of two sizes of each sample's own run together, with the results and gradients of a loop."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
import extempo.nn.functional as F
from extempo.batching.lockstep.lanes import PairRows

from ..agreement import draw
from .loops_beside import check, ragged, weight

N, M = (4, 1, 3, 7, 3), (2, 5, 3, 1, 6)
W = weight(3, 3)
SCALE = weight(1, 1, seed=6)


def scores(x, y):
    return (x @ W) @ y.T


TOGETHER = {
    "a product": lambda x, y: scores(x, y),
    "a number times it": lambda x, y: scores(x, y) / 3**0.5,
    "softmax along lines, and a product": lambda x, y: scores(x, y).softmax(1) @ y,
    "softmax along columns": lambda x, y: scores(x, y).softmax(0),
    "log_softmax along columns": lambda x, y: scores(x, y).log_softmax(0),
    "transposed": lambda x, y: scores(x, y).T,
    "transposed, and a product": lambda x, y: scores(x, y).T @ x,
    "columns times it": lambda x, y: x.T @ scores(x, y),
    "two matrices of pairs": lambda x, y: scores(x, y) @ scores(y, x),
    "elements of both": lambda x, y: (scores(x, y).tanh() * scores(y, x).T.exp()).sum(),
    "sums of lines": lambda x, y: scores(x, y).sum(1),
    "sums of columns": lambda x, y: scores(x, y).sum(0),
    "the sum of all": lambda x, y: scores(x, y).sum(),
    "the mean of all": lambda x, y: scores(x, y).mean(),
    "means of lines, kept": lambda x, y: scores(x, y) - scores(x, y).mean(1, keepdim=True),
    "the largest of lines": lambda x, y: scores(x, y).amax(1),
    "the largest of columns, and where": lambda x, y: scores(x, y).max(0),
    "logsumexp of lines": lambda x, y: scores(x, y).logsumexp(1),
    "the place of the largest": lambda x, y: scores(x, y).argmax(0),
    "distances": lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1),
    "distances, weighed": lambda x, y: ((x[:, None] - y[None]) * W[0]).sum(-1).exp().sum(1),
    "a vector for each line": lambda x, y: scores(x, y) + x.sum(1, keepdim=True),
    "a vector for each column": lambda x, y: scores(x, y) * y.sum(1),
    "a vector for each column, with a dimension": lambda x, y: scores(x, y) * y.sum(1)[None],
    "a number of each sample": lambda x, y: scores(x, y) * x.sum(),
    "a tensor of one element for all": lambda x, y: scores(x, y) * SCALE,
    "a size": lambda x, y: scores(x, y) / len(x),
    "a mask": lambda x, y: scores(x, y).masked_fill(scores(x, y) > 0.1, 0.0).sum(0),
    "where": lambda x, y: ex.where(scores(x, y) > 0, scores(x, y), 2.0),
    "features of pairs": lambda x, y: F.relu(x[:, None] + y[None]).mean(1) @ W,
    "detached": lambda x, y: scores(x, y) * scores(x, y).detach(),
    "with itself": lambda x, y: (x @ x.T).softmax(1) @ x + y.sum(),
}
ONE_BY_ONE = {
    "a cumulative product": lambda x, y: scores(x, y).cumprod(1),
    "a line": lambda x, y: scores(x, y)[0],
    "features of pairs by a layer": lambda x, y: (x[:, None] * y[None]) @ W,
    "means of columns, kept": lambda x, y: scores(x, y) - scores(x, y).mean(0, keepdim=True),
    "a triangle": lambda x, y: scores(x, x).tril().sum(1),
    "flipped": lambda x, y: scores(x, y).flip(0),
}


def _rules(batched):
    return [is_each for program, _ in batched._notes.programs for _, _, is_each in program.rules()]


@pytest.mark.parametrize("name", TOGETHER)
def test_pairs_run_together(name):
    batched = check(TOGETHER[name], ragged(3, lengths=N), ragged(3, lengths=M), parameters=[W, SCALE])
    assert not any(_rules(batched)), batched.explain()


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_what_has_no_rule_runs_one_by_one(name):
    batched = check(ONE_BY_ONE[name], ragged(3, lengths=N), ragged(3, lengths=M), parameters=[W, SCALE])
    assert any(_rules(batched)), batched.explain()


@pytest.mark.parametrize("name", [name for name in TOGETHER if "largest" not in name])
def test_sizes_may_be_0_and_1(name):
    samples = ragged(3, lengths=(1, 2, 0, 3, 1)), ragged(3, lengths=(2, 1, 3, 0, 1))
    expected = [TOGETHER[name](*sample) for sample in zip(*samples, strict=True)]
    batched = ex.batch(TOGETHER[name])
    batched(ragged(3, lengths=N), ragged(3, lengths=M))
    for got, wanted in zip(batched(*samples), expected, strict=True):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_samples_that_are_pairs_and_tracked_have_gradients():
    matrices = [draw(i, n, m) for i, (n, m) in enumerate(zip(N, M, strict=True))]
    for x in matrices:
        x.requires_grad_()
    check(lambda a, y: a.softmax(1) @ y, matrices, ragged(3, lengths=M), parameters=[])


def test_a_loop_may_read_pairs():
    def fn(x, y):
        weights, h = scores(x, y).softmax(1), ex.zeros(3)
        for row in x:
            h = (row + h + (weights @ y).sum(0)).tanh()
        return h + weights.sum()

    check(fn, ragged(3, lengths=N), ragged(3, lengths=M), parameters=[W])


def test_a_saved_matrix_that_is_written_is_noticed_by_backward():
    left = ragged(3, lengths=N)
    for x in left:
        x.requires_grad_()
    batched = ex.batch(lambda x, y: (x @ y.T).sum())
    batched(left, ragged(3, lengths=M))
    total = sum(batched(left, ragged(3, lengths=M)))
    total.backward()
    with pytest.raises(ex.errors.GraphFreedError):
        total.backward()


def test_where_elements_of_matrices_are():
    n, m = np.array([2, 0, 1]), np.array([3, 2, 2])
    found = PairRows(n, m)
    assert found.rows.lengths.tolist() == [6, 0, 2]
    assert found.lines.lengths.tolist() == [3, 3, 2]
    assert found.samples.tolist() == [0, 0, 0, 0, 0, 0, 2, 2]
    assert found.columns.tolist() == [0, 1, 2, 0, 1, 2, 5, 6]
    assert found.turned.tolist() == [0, 3, 1, 4, 2, 5, 6, 7]


def test_rows_that_are_one_in_each_sample_go_with_all_rows_of_another_input():
    def fn(x, y):
        y.norm()  # asks whether there is one
        return (x.clamp(-1.0, 1.0)[:, None] - y[None]).square().sum(-1).mean(1)

    for n_rows in ((2, 1, 3, 1, 1), (1, 1, 1, 1, 1), (1, 4, 1, 1, 2)):
        check(fn, ragged(3, lengths=N[:5]), ragged(3, lengths=n_rows))
