"""Rows of tables: embeddings and bags of them."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, IndexRangeError, ShapeError, UnsupportedError
from extempo.nn import functional as F

from .helpers import leaf, values


def test_rows_are_ints_lists_and_tensors():
    table = leaf(5, 3)
    assert values(F.embedding(2, table)) == values(table)[2]
    assert values(F.embedding([0, 4], table)) == [values(table)[0], values(table)[4]]
    assert F.embedding(ex.tensor([[1, 2]]), table).shape == (1, 2, 3)
    assert F.embedding([], table).shape == (0, 3)


def test_a_row_used_twice_gets_both_gradients():
    table = ex.zeros(4, 2, requires_grad=True)
    (F.embedding([1, 3, 1], table) * ex.tensor([[1.0], [10.0], [100.0]])).sum().backward()
    assert values(table.grad) == [[0.0, 0.0], [101.0, 101.0], [0.0, 0.0], [10.0, 10.0]]


def test_the_padding_row_gets_no_gradient():
    for padding in (1, -3):
        table = ex.ones(4, 2, requires_grad=True)
        F.embedding([1, 3, 1], table, padding_idx=padding).sum().backward()
        assert values(table.grad) == [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]


def test_gradients_are_divided_by_how_often_a_row_was_used():
    table = ex.ones(3, 1, requires_grad=True)
    F.embedding([2, 2, 0], table, scale_grad_by_freq=True).sum().backward()
    assert values(table.grad) == [[1.0], [0.0], [1.0]]


def test_max_norm_shortens_only_the_rows_that_are_used():
    table = ex.tensor([[3.0, 4.0], [30.0, 40.0], [0.3, 0.4]])
    F.embedding([0, 2], table, max_norm=1.0)
    assert values(table) == pytest.approx(np.array([[0.6, 0.8], [30.0, 40.0], [0.3, 0.4]]))
    leaf = ex.tensor([[3.0, 4.0]], requires_grad=True)
    F.embedding(0, leaf, max_norm=1.0).sum().backward()
    assert values(leaf) == pytest.approx(np.array([[0.6, 0.8]]))
    assert values(leaf.grad) == [[1.0, 1.0]]


def test_embedding_keeps_no_copy_of_its_table():
    y = F.embedding(ex.tensor([1, 2]), leaf(1000, 3))
    assert [entry[1].shape for entry in y.grad_fn.saved] == [(2,)]


def test_embedding_gradients_of_both_orders():
    rows = ex.tensor([[0, 2], [2, 2]])
    assert ex.autograd.gradcheck(lambda w: F.embedding(rows, w), (leaf(3, 2),))
    assert ex.autograd.gradgradcheck(lambda w: F.embedding(rows, w).sin(), (leaf(3, 2),))


def test_rows_are_checked():
    table = leaf(4, 2)
    with pytest.raises(IndexRangeError, match="row 4 is out of range for a table of 4 rows"):
        F.embedding([0, 4], table)
    with pytest.raises(IndexRangeError, match="row -1"):
        F.embedding(-1, table)
    with pytest.raises(DtypeError, match=r"use x\.long"):
        F.embedding(ex.tensor([0.5]), table)
    with pytest.raises(DtypeError, match="rows must be integers"):
        F.embedding([0.5], table)
    with pytest.raises(ShapeError, match=r"\(rows, features\)"):
        F.embedding(0, ex.ones(3))
    with pytest.raises(IndexRangeError, match="padding_idx 7"):
        F.embedding(0, table, padding_idx=7)


def test_sparse_gradients_are_refused_with_what_dense_ones_mean():
    table = ex.ones(3, 2, requires_grad=True)
    with pytest.raises(UnsupportedError, match=r"embedding: sparse=True .* leave it out"):
        F.embedding([2, 2], table, sparse=True)
    with pytest.raises(UnsupportedError, match=r"embedding_bag: sparse=True .* leave it out"):
        F.embedding_bag([[2, 2]], table, sparse=True)
    F.embedding([2, 2], table).sum().backward()
    np.testing.assert_array_equal(table.grad.numpy(), [[0, 0], [0, 0], [2, 2]])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_are_reductions_of_embeddings(mode):
    table, rows = leaf(5, 3), [[0, 1], [4, 4]]
    picked = F.embedding(rows, table)
    expected = {"sum": picked.sum(1), "mean": picked.mean(1), "max": picked.amax(1)}[mode]
    by_rows = F.embedding_bag(ex.tensor(rows), table, mode=mode)
    by_offsets = F.embedding_bag([0, 1, 4, 4], table, [0, 2], mode=mode)
    assert values(by_rows) == pytest.approx(np.array(values(expected)))
    assert values(by_offsets) == values(by_rows)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_an_empty_bag_is_zero_and_padding_is_left_out(mode):
    table = ex.tensor([[5.0], [1.0], [2.0]], requires_grad=True)
    result = F.embedding_bag([0, 1, 2], table, [0, 1, 1], mode=mode, padding_idx=0)
    assert values(result) == [[0.0], [0.0], [{"sum": 3.0, "mean": 1.5, "max": 2.0}[mode]]]
    result.sum().backward()
    assert values(table.grad)[0] == [0.0]


def test_weights_of_samples_get_gradients():
    table, weights = leaf(4, 2), ex.tensor([1.0, 2.0, 3.0], dtype=ex.float64, requires_grad=True)
    result = F.embedding_bag([0, 1, 3], table, [0, 2], mode="sum", per_sample_weights=weights)
    result.sum().backward()
    assert values(weights.grad) == pytest.approx([sum(values(table)[i]) for i in (0, 1, 3)])
    with pytest.raises(ShapeError, match="needs mode='sum'"):
        F.embedding_bag([0, 1, 3], table, [0, 2], per_sample_weights=weights)


def test_offsets_are_checked():
    table = leaf(4, 2)
    with pytest.raises(ShapeError, match="needs offsets"):
        F.embedding_bag([0, 1], table)
    with pytest.raises(ShapeError, match="begin with 0"):
        F.embedding_bag([0, 1], table, [1, 2])
    last = F.embedding_bag([0, 1], table, [0, 1, 2], include_last_offset=True)
    assert last.shape == (2, 2)
