"""Lists of any length become one tensor, by moving rows."""

from __future__ import annotations

import pytest

import extempo as ex

from .sizes import agrees, drawn, forms


def rows(rng, n):
    return drawn(rng, n, 3)


@pytest.mark.parametrize("join", [ex.stack, ex.cat])
def test_lists_of_any_length_are_one_batch(join):
    def fn(x):
        parts = [(x[t] * float(t + 1)).exp() for t in range(len(x))]
        return join(parts) * 2.0

    assert forms(agrees(fn, rows))[join.__name__] == ["JoinForm"]


def test_rows_of_different_number_are_joined():
    def fn(x):
        return ex.cat([x * 2.0, x[:1] * 3.0, x[1:].exp()])

    assert forms(agrees(fn, rows, lengths=[(3, 5, 2), (1, 4, 6)]))["cat"] == ["JoinForm"]


def test_only_what_is_tracked_gets_a_gradient():
    def fn(x):
        return ex.cat([x * 2.0, (x * 5.0).detach(), ex.ones(2, 3)]).sum(0)

    agrees(fn, rows)
