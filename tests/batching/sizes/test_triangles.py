"""Triangles of matrices of a sample's own size."""

from __future__ import annotations

import pytest

import extempo as ex

from .sizes import agrees, drawn, forms


def rows(rng, n):
    return drawn(rng, n, 3)


@pytest.mark.parametrize(
    ("fn", "op"),
    [
        (lambda x: (x @ x.T).tril(), "tril"),
        (lambda x: ex.triu(x @ x.T, 1), "triu"),
        (lambda x: ex.tril(x * 1.0, -1), "tril"),
        (lambda x: ex.stack([x @ x.T, x @ x.T * 2.0]).triu(), "triu"),
        (lambda x: (x @ x.T).masked_fill(ex.ones(len(x), len(x)).triu(1).bool(), -9.0).softmax(1), "triu"),
    ],
)
def test_triangles_of_all_samples_are_one_batch(fn, op):
    assert forms(agrees(fn, rows))[op] == ["TriangleForm"]


def test_what_is_not_finite_is_cut_off():
    made = ex.batch(lambda x: (x * 1.0).tril())([ex.full((n, n), float("inf")) for n in (2, 3, 4)])
    assert [y.isinf().sum().item() for y in made] == [3, 6, 10]
    assert not any(y.isnan().any() for y in made)
