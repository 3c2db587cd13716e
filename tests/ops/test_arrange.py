"""Flip, roll, repeat, triangles, diagonals, padding and shuffles, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import IndexRangeError, ShapeError

from .helpers import grid


def test_flip_reverses_dimensions_in_memory_of_its_own():
    x = grid(2, 3)
    np.testing.assert_array_equal(x.flip(0, 1).numpy(), np.flip(x.numpy()))
    np.testing.assert_array_equal(ex.flip(x, dims=(-1,)).numpy(), x.numpy()[:, ::-1])
    np.testing.assert_array_equal(x.fliplr().numpy(), np.fliplr(x.numpy()))
    np.testing.assert_array_equal(x.flipud().numpy(), np.flipud(x.numpy()))
    one = ex.ones(1)
    one.flip(0).zero_()
    assert one.item() == 1.0
    assert ex.tensor(2.0).flip(()).item() == 2.0
    with pytest.raises(ShapeError, match="name a dimension twice"):
        x.flip(0, -2)
    with pytest.raises(ShapeError, match="fliplr: expected at least 2 dimensions"):
        ex.ones(2).fliplr()


@pytest.mark.parametrize(("shifts", "dims"), [(1, None), (-5, None), (2, 1), ((1, -1), (0, 1)), ((1, 1), (0, 0))])
def test_roll_is_numpys(shifts, dims):
    x = grid(3, 4)
    np.testing.assert_array_equal(x.roll(shifts, dims).numpy(), np.roll(x.numpy(), shifts, dims))


def test_roll_of_a_transposed_tensor_counts_in_its_own_order():
    x = grid(2, 3).T
    np.testing.assert_array_equal(x.roll(1).numpy(), np.roll(x.numpy(), 1))
    with pytest.raises(ShapeError, match="must be equally many"):
        x.roll((1, 2), 0)


@pytest.mark.parametrize("k", range(-3, 6))
def test_rot90_is_numpys(k):
    x = grid(2, 3, 2)
    np.testing.assert_array_equal(x.rot90(k, (0, 2)).numpy(), np.rot90(x.numpy(), k, (0, 2)))


def test_repetition_copies():
    x = grid(2, 3)
    np.testing.assert_array_equal(x.repeat(2, 1, 2).numpy(), np.tile(x.numpy(), (2, 1, 2)))
    np.testing.assert_array_equal(x.tile(2).numpy(), np.tile(x.numpy(), 2))
    np.testing.assert_array_equal(ex.tile(x, dims=(2, 1, 1)).numpy(), np.tile(x.numpy(), (2, 1, 1)))
    x.repeat(1, 1).zero_()
    x.repeat_interleave(1, 0).zero_()
    assert x.sum().item() == 15
    assert x.repeat(0, 1).shape == (0, 3)
    with pytest.raises(ShapeError, match="must have a number for each of the 2 dimensions"):
        x.repeat(2)


def test_repeat_interleave_takes_one_count_or_many():
    x = grid(2, 3)
    np.testing.assert_array_equal(x.repeat_interleave(2).numpy(), np.repeat(x.numpy(), 2))
    np.testing.assert_array_equal(x.repeat_interleave(2, 1).numpy(), np.repeat(x.numpy(), 2, 1))
    counts = ex.tensor([2, 0, 1])
    np.testing.assert_array_equal(x.repeat_interleave(counts, 1).numpy(), np.repeat(x.numpy(), [2, 0, 1], 1))
    assert ex.repeat_interleave(counts).tolist() == [0, 0, 2]
    with pytest.raises(ShapeError, match="2 repeats for dimension 1 of size 3"):
        x.repeat_interleave(ex.tensor([1, 2]), 1)
    with pytest.raises(ShapeError, match="must not be negative"):
        x.repeat_interleave(-1)


def test_gradients_of_repetition_add_up():
    x = ex.ones(2, requires_grad=True)
    (g,) = ex.autograd.grad((x.repeat(3) * ex.arange(6.0)).sum(), x)
    assert g.tolist() == [6.0, 9.0]
    (g,) = ex.autograd.grad((x.repeat_interleave(ex.tensor([1, 2])) * ex.arange(3.0)).sum(), x)
    assert g.tolist() == [0.0, 3.0]


def test_fill_makes_a_tensor_of_one_value():
    x = ex.zeros(2, dtype=ex.int64)
    assert ex.fill(x, 3).tolist() == [3, 3]
    assert x.tolist() == [0, 0]
    value = ex.tensor(2.0, requires_grad=True)
    (g,) = ex.autograd.grad(ex.fill(ex.zeros(3), value).sum(), value)
    assert g.item() == 3.0


def test_pixel_shuffles_undo_each_other():
    x = grid(2, 8, 3, 2)
    large = ex.pixel_shuffle(x, 2)
    assert large.shape == (2, 2, 6, 4)
    assert large[0, 0, :2, :2].tolist() == [[0.0, 6.0], [12.0, 18.0]]
    np.testing.assert_array_equal(ex.pixel_unshuffle(large, 2).numpy(), x.numpy())
    with pytest.raises(ShapeError, match="channels divisible by 3"):
        ex.pixel_shuffle(x, 3)
    with pytest.raises(ShapeError, match="height and width divisible by 2"):
        ex.pixel_unshuffle(x, 2)


def test_channel_shuffle_deals_channels_out():
    x = grid(1, 6, 1)
    assert ex.channel_shuffle(x, 2).flatten().tolist() == [0, 3, 1, 4, 2, 5]
    with pytest.raises(ShapeError, match="divisible by 4"):
        ex.channel_shuffle(x, 4)


@pytest.mark.parametrize("dim", [0, -1, 5])
def test_a_scalar_has_no_dimension_to_roll(dim):
    with pytest.raises(IndexRangeError, match=f"roll: a 0-dim tensor has no dimension {dim}; leave dims out"):
        ex.roll(ex.tensor(1.0), 0, dim)
    assert ex.roll(ex.tensor(1.0), 3).item() == 1.0
