"""Steps of packed rows: their stretches, what is refused, and gradients on arrays as on tensors."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import ops
from extempo.errors import ShapeError
from extempo.ops import recurrence_steps as steps

SIZES = [3, 2, 0, 0]


def test_stretches_are_the_rows_of_each_step_that_a_sequence_has():
    assert steps.stretches(SIZES, backwards=False) == [slice(0, 3), slice(3, 5)]
    assert steps.stretches(SIZES, backwards=True) == [slice(3, 5), slice(0, 3)]
    assert steps.stretches([], backwards=False) == []


@pytest.mark.parametrize("sizes", [[2, 3], [4, 1], [3, 1], [3, 2, -1, 1]])
def test_sizes_that_are_none_of_packed_rows_are_refused(sizes):
    assert steps.listed_sizes("lstm", np.array(SIZES), 5, 3) == SIZES
    with pytest.raises(
        ShapeError, match=r"^lstm: the sizes of steps must not grow, begin with at most the 3 sequences"
    ):
        steps.listed_sizes("lstm", np.array(sizes), 5, 3)


def test_blocks_are_the_columns_of_each_gate():
    x = np.arange(12).reshape(2, 6)
    np.testing.assert_array_equal(steps.blocks(x, 2)[1], [[2, 3], [8, 9]])


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("relu", [False, True])
def test_the_gradient_of_an_rnn_is_that_of_its_steps(backwards, relu):
    rng = np.random.default_rng(0)
    x, weight, h = (rng.normal(size=shape) for shape in ((5, 2), (2, 2), (3, 2)))
    leaves = [ex.tensor(a, requires_grad=True) for a in (x, h)]
    state, rows = leaves[1], [None] * 2
    order = [(1, slice(3, 5)), (0, slice(0, 3))] if backwards else [(0, slice(0, 3)), (1, slice(3, 5))]
    for step, at in order:
        n = at.stop - at.start
        new = (ops.relu if relu else ops.tanh)(leaves[0][at] + state[:n] @ ex.tensor(weight).T)
        rows[step], state = new, ops.cat([new, state[n:]])
    y = ops.cat(rows)
    g = rng.normal(size=(5, 2)), rng.normal(size=(3, 2))
    expected = ex.autograd.grad([y, state], leaves, [ex.tensor(a) for a in g])
    options = {"relu": relu, "backwards": backwards, "n_sequences": 3}
    found = steps.rnn_gradient(steps.Arrays, (*g, None), weight, y.detach().numpy(), SIZES, **options)
    of_tensors = steps.rnn_gradient(ops, (*map(ex.tensor, g), None), ex.tensor(weight), y.detach(), SIZES, **options)
    for a, b, c in zip(found, expected, of_tensors, strict=True):
        np.testing.assert_allclose(a, b.numpy(), atol=1e-12)
        np.testing.assert_allclose(a, c.numpy(), atol=1e-12)


def test_sequences_of_no_step_hand_their_states_gradient_on():
    weight, g = np.eye(2), np.ones((3, 2))
    of_x, of_h = steps.rnn_gradient(
        steps.Arrays, (None, g, None), weight, np.empty((0, 2)), [], relu=False, backwards=False, n_sequences=3
    )
    assert of_x.shape == (0, 2)
    np.testing.assert_array_equal(of_h, g)
