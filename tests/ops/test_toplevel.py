"""Top-level functions whose namesakes in nn.functional take other arguments."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.errors import IndexRangeError, UnsupportedError


def test_detach_has_no_gradient_and_shares_memory():
    x = ex.ones(2, requires_grad=True)
    y = ex.detach(x)
    assert not y.requires_grad
    assert y.data_ptr() == x.data_ptr()


def test_embedding_takes_the_table_first_and_minus_one_is_no_padding():
    table = ex.arange(6.0).reshape(3, 2).requires_grad_()
    rows = ex.embedding(table, ex.tensor([[2, 0]]))
    assert rows.tolist() == [[[4.0, 5.0], [0.0, 1.0]]]
    rows.sum().backward()
    assert table.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
    table.grad = None
    ex.embedding(table, ex.tensor([2, 0]), padding_idx=2).sum().backward()
    assert table.grad.tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]


def test_embedding_refuses_what_its_namesake_refuses():
    with pytest.raises(UnsupportedError, match="sparse"):
        ex.embedding(ex.ones(3, 2), ex.tensor([0]), sparse=True)
    with pytest.raises(IndexRangeError):
        ex.embedding(ex.ones(3, 2), ex.tensor([3]))
    assert ex.embedding(ex.ones(3, 2), ex.zeros(0, dtype=ex.int64)).shape == (0, 2)


def test_norms_take_weight_and_bias_first():
    x = ex.tensor([[0.0, 4.0], [2.0, 8.0]])
    weight, bias = ex.tensor([1.0, 2.0]), ex.tensor([0.0, 1.0])
    found = ex.batch_norm(x, weight, bias, None, None, True, 0.1, 1e-12)
    assert found.flatten().tolist() == pytest.approx([-1.0, -1.0, 1.0, 3.0])


def test_dropout_off_changes_nothing_and_in_place_forms_return_their_input():
    x = ex.ones(4)
    assert ex.dropout(x, 0.5, False).tolist() == [1.0] * 4
    assert ex.dropout_(x, 1.0, True) is x
    assert x.tolist() == [0.0] * 4
