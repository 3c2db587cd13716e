"""Reductions and scans whose dimensions must be copied to the end first."""

from __future__ import annotations

import pytest

import extempo as ex

from .sizes import agrees, drawn, forms


def rows(rng, n):
    return drawn(rng, n, 3)


@pytest.mark.parametrize(
    ("fn", "op"),
    [
        (lambda x: (x @ x.T).sum(0), "sum"),
        (lambda x: ex.stack([x @ x.T, x @ x.T * 2.0]).mean(0), "mean"),
        (lambda x: (x @ x.T).softmax(0), "softmax"),
        (lambda x: (x @ x.T).cumsum(0), "cumsum"),
        (lambda x: (x @ x.T).cumprod(0), "cumprod"),
        (lambda x: (x @ x.T).unsqueeze(1).expand(-1, 2, -1).exp().sum((0, 2)), "sum"),
        (lambda x: ex.stack([x @ x.T, x @ x.T * 2.0]).amax((0, 1), keepdim=True), "amax"),
        (lambda x: (x @ x.T).argmax(0), "argmax"),
    ],
)
def test_sizes_of_a_samples_own_may_stand_behind_the_dimension(fn, op):
    assert forms(agrees(fn, rows))[op] == ["ArrangedForm"]


def test_an_empty_sample_has_the_sum_of_nothing():
    agrees(lambda x: (x @ x.T).sum(0), rows, lengths=[(0, 3, 2), (1, 0, 4)])
