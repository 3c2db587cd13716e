"""The connectionist temporal classification loss, compared with the sum over all paths."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import extempo as ex
from extempo.errors import IndexRangeError, ShapeError
from extempo.nn import functional as F

from .helpers import leaf, values


def brute_force(log_probs: np.ndarray, labels: list[int], blank: int) -> float:
    """-log of the sum over all paths that collapse to the labels."""
    total = 0.0
    for path in itertools.product(range(log_probs.shape[1]), repeat=len(log_probs)):
        collapsed = [k for k, _ in itertools.groupby(path) if k != blank]
        if collapsed == labels:
            total += math.exp(sum(log_probs[t, k] for t, k in enumerate(path)))
    return -math.log(total) if total else math.inf


@pytest.mark.parametrize("blank", [0, 2])
def test_ctc_is_the_sum_over_all_paths(blank):
    log_probs = F.log_softmax(leaf(5, 3, 3), -1)
    labels = [[1], [1, 1], []]
    lengths = [5, 4, 3]
    loss = F.ctc_loss(log_probs, ex.tensor([1, 1, 1]), lengths, [1, 2, 0], blank, reduction="none")
    raw = log_probs.detach().numpy()
    expected = [brute_force(raw[: lengths[n], n], labels[n], blank) for n in range(3)]
    assert values(loss) == pytest.approx(expected)


def test_ctc_of_padded_and_joined_targets_and_of_one_sample_agree():
    log_probs = F.log_softmax(leaf(6, 2, 4), -1)
    padded = F.ctc_loss(log_probs, ex.tensor([[1, 2, 9], [3, 3, 1]]), [6, 6], [2, 3], reduction="none")
    joined = F.ctc_loss(log_probs, ex.tensor([1, 2, 3, 3, 1]), [6, 6], [2, 3], reduction="none")
    alone = F.ctc_loss(log_probs[:, 1], ex.tensor([3, 3, 1]), 6, 3, reduction="none")
    assert values(padded) == values(joined)
    assert alone.shape == ()
    assert alone.item() == pytest.approx(values(joined)[1])


def test_ctc_gradients_of_both_orders():
    log_probs = F.log_softmax(leaf(5, 2, 3), -1).detach().requires_grad_()

    def loss(x):
        return F.ctc_loss(x, ex.tensor([[1, 2], [2, 0]]), [5, 4], [2, 1])

    assert ex.autograd.gradcheck(loss, (log_probs,))
    assert ex.autograd.gradgradcheck(loss, (log_probs,))


def test_ctc_of_labels_that_do_not_fit_is_infinite_or_zero():
    log_probs = F.log_softmax(leaf(2, 2, 3), -1).detach().requires_grad_()
    arguments = (ex.tensor([[1, 1], [1, 2]]), [2, 2], [2, 2])
    assert values(F.ctc_loss(log_probs, *arguments, reduction="none"))[0] == math.inf
    loss = F.ctc_loss(log_probs, *arguments, reduction="sum", zero_infinity=True)
    loss.backward()
    assert math.isfinite(loss.item())
    assert np.isfinite(log_probs.grad.numpy()).all()
    assert not log_probs.grad.numpy()[:, 0].any()


def test_ctc_checks_its_arguments():
    log_probs = F.log_softmax(leaf(4, 2, 3), -1)
    with pytest.raises(ShapeError, match="give one for each"):
        F.ctc_loss(log_probs, ex.tensor([[1], [2]]), [4], [1, 1])
    with pytest.raises(ShapeError, match="from 0 to the 4 steps"):
        F.ctc_loss(log_probs, ex.tensor([[1], [2]]), [5, 4], [1, 1])
    with pytest.raises(IndexRangeError, match="classes from 0 to 2"):
        F.ctc_loss(log_probs, ex.tensor([[1], [3]]), [4, 4], [1, 1])
    with pytest.raises(IndexRangeError, match="blank 3"):
        F.ctc_loss(log_probs, ex.tensor([[1], [2]]), [4, 4], [1, 1], blank=3)
    with pytest.raises(ShapeError, match="do not hold the labels"):
        F.ctc_loss(log_probs, ex.tensor([[1], [2]]), [4, 4], [1, 2])
