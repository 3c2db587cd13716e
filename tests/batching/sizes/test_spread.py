"""Broadcasting within a sample, whose sizes are its own."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.batching.sizes.spread import spread_of

from .sizes import agrees, drawn, forms


def pair(rng, n):
    return drawn(rng, n, 3), drawn(rng, n + 2, 3)


@pytest.mark.parametrize(
    ("fn", "op"),
    [
        (lambda x, y: (x[:, None] - y[None]).exp(), "sub"),
        (lambda x, y: x[:, :1] * y[:, 0], "mul"),
        (lambda x, y: x[:, 1, None] + y[None, :, 1], "add"),
        (lambda x, y: ex.where(x[:, None] > y[None], x[:, None], y[None]), "where"),
        (lambda x, y: ex.maximum(x.T[:, :, None], y.T[:, None]), "maximum"),
    ],
)
def test_pairs_of_two_own_sizes_are_one_batch(fn, op):
    assert forms(agrees(fn, pair))[op][-1] == "BroadcastForm"


def test_a_number_may_be_among_the_inputs():
    def fn(x, y):
        return ex.addcmul(x.T, x[:, 0], y[:1, 0], value=2.0).sum(), y

    agrees(fn, pair)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, y: x.mean(0).expand(len(x), -1).exp() * y[: len(x)],
        lambda x, y: x[:, :, None].expand(-1, -1, len(y)).exp(),
        lambda x, y: (x[:1] * 1.0).expand(len(y), 3).tanh() + y,
        lambda x, y: (x[:, None] * 1.0).repeat(1, 2, 1),
    ],
)
def test_tensors_are_repeated_to_own_sizes_in_one_batch(fn):
    assert "EachForm" not in forms(agrees(fn, pair)).get("expand", [])


def test_nothing_is_repeated_to_nothing():
    agrees(lambda x, y: (x[:, None] - y[None]).sum(), pair, lengths=[(0, 3, 2), (1, 0, 0), (0, 0, 0)])


def test_elements_of_a_result_that_are_one_of_the_input_come_last():
    spread = spread_of((3, 1), (2, 3, 4))
    assert (spread.n_kept, spread.n_each) == (3, 8)
    assert spread_of((2, 1, 2, 1, 2, 1), (2, 2, 2, 2, 2, 2)) is None  # too many dimensions to copy
