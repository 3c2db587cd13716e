"""What the ops of the cross entropy keep, and their second derivatives."""

from __future__ import annotations

import math

import extempo as ex
from extempo.nn import functional as F

from .helpers import leaf, values


def test_cross_entropy_keeps_scores_and_target_only():
    scores = leaf(3, 4) * 1.0
    loss = F.cross_entropy(scores, ex.tensor([0, 1, 2]), reduction="none")
    kept = [entry[1] for entry in loss.grad_fn.saved]
    assert sorted(array.shape for array in kept) == [(3,), (3, 4)]


def test_ignored_targets_have_no_gradient_and_all_ignored_is_nan():
    scores = leaf(2, 3)
    F.cross_entropy(scores, ex.tensor([-100, 1])).backward()
    assert values(scores.grad)[0] == [0.0, 0.0, 0.0]
    assert math.isnan(F.cross_entropy(scores, ex.tensor([-100, -100])).item())
    assert math.isnan(F.cross_entropy(leaf(3), -100).item())


def test_cross_entropy_has_a_second_derivative():
    x = leaf(2, 3)
    assert ex.autograd.gradgradcheck(lambda x: F.cross_entropy(x, [0, 2]), (x,))
