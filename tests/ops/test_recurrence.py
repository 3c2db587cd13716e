"""Recurrent ops over packed rows are their steps, one after the other; sizes and weights that do not fit are named."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.core.op import REGISTRY
from extempo.dispatch.dispatcher import apply
from extempo.errors import ShapeError

from .helpers import normal

N_GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def call(kind, lengths, sizes, **attrs):
    """The results of an op for sequences of these lengths, and its inputs."""
    n, hidden = len(lengths), 2
    width = N_GATES[kind] * hidden
    x, input_weight, weight = normal(sum(lengths), 3), normal(width, 3, seed=1), normal(width, hidden, seed=2)
    states = [normal(n, hidden, seed=3 + i) for i in range(2 if kind == "lstm" else 1)]
    bias = [None] if kind == "gru" else []
    options = {"relu": False} if kind == "rnn" else {}
    inputs = (x, input_weight, None, weight, *bias, *states, ex.tensor(sizes, dtype=ex.int64))
    return apply(REGISTRY[f"{kind}_sequence"], inputs, {"backwards": False, **options, **attrs}), inputs


@pytest.mark.parametrize("kind", N_GATES)
def test_a_sequence_that_ends_first_keeps_its_last_state(kind):
    (rows, final, *_), _ = call(kind, [3, 1], [2, 1, 1])
    np.testing.assert_array_equal(final[1].numpy(), rows[1].numpy())  # its one step is the second row
    np.testing.assert_array_equal(final[0].numpy(), rows[3].numpy())


@pytest.mark.parametrize("kind", N_GATES)
def test_backwards_reads_a_sequence_from_its_last_step(kind):
    (forward, *_), (x, *rest) = call(kind, [3], [1, 1, 1])
    attrs = {"backwards": True, **({"relu": False} if kind == "rnn" else {})}
    backward = apply(REGISTRY[f"{kind}_sequence"], (x.flip(0), *rest), attrs)[0]
    np.testing.assert_allclose(backward.flip(0).numpy(), forward.numpy(), atol=1e-12)


@pytest.mark.parametrize("kind", N_GATES)
def test_steps_of_no_sequence_may_follow(kind):
    (rows, final, *_), _ = call(kind, [2, 1], [2, 1])
    (padded, padded_final, *_), _ = call(kind, [2, 1], [2, 1, 0, 0])
    np.testing.assert_array_equal(padded.numpy(), rows.numpy())
    np.testing.assert_array_equal(padded_final.numpy(), final.numpy())


def test_without_sequences_nothing_is_computed():
    (rows, final, *_), _ = call("lstm", [], [])
    assert rows.shape == final.shape == (0, 2)


def test_sizes_that_are_none_of_packed_rows_are_refused():
    with pytest.raises(ShapeError, match="must not grow"):
        call("gru", [2, 1], [1, 2])
