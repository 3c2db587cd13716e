"""Reductions, softmaxes and scans over rows of a sample's own number, as ragged tensors have them."""

from __future__ import annotations

import pytest

import extempo as ex

from .sizes import agrees, drawn, forms


def rows(rng, n):
    return drawn(rng, n, 3)


@pytest.mark.parametrize(
    ("fn", "op"),
    [
        (lambda x: x.sum(0), "sum"),
        (lambda x: (x * 2.0).mean(0), "mean"),
        (lambda x: x.mean(0, keepdim=True), "mean"),
        (lambda x: x.softmax(0), "softmax"),
        (lambda x: x.log_softmax(0), "log_softmax"),
        (lambda x: x.logsumexp(0), "logsumexp"),
        (lambda x: x.amax(0), "amax"),
        (lambda x: x.cumsum(0), "cumsum"),
        (lambda x: x.argmax(0), "argmax"),
        (lambda x: x[:, 0].exp().softmax(0), "softmax"),
        (lambda x: (x @ x.T).softmax(1), "softmax"),
        (lambda x: (x @ x.T).sum(1), "sum"),
    ],
)
def test_rows_of_any_length_are_one_batch(fn, op):
    assert forms(agrees(fn, rows))[op] == ["AlongForm"]


def test_a_maximum_gives_values_and_places():
    agrees(lambda x: list(x.max(0)), rows)


def test_rows_of_no_length_give_what_the_op_gives_for_them():
    agrees(lambda x: (x.sum(0), (x * 1.0).softmax(0)), rows, lengths=[(0, 3, 2), (1, 0, 0)])


def test_an_extreme_of_nothing_is_the_same_error_as_alone():
    samples = [ex.ones(2, 3), ex.ones(0, 3), ex.ones(4, 3)]
    with pytest.raises(Exception) as alone:  # noqa: PT011 # whatever it is
        samples[1].amax(0)
    with pytest.raises(type(alone.value)):
        ex.batch(lambda x: x.amax(0))(samples)
