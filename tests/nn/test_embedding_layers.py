"""Tables of vectors: which rows are looked up, trained, shortened and frozen."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import IndexRangeError, UnsupportedError


def test_embeddings_start_normal_with_a_zero_row_for_padding():
    ex.manual_seed(0)
    table = nn.Embedding(200, 50, padding_idx=-2).weight.detach().numpy()
    assert not table[198].any()
    assert np.delete(table, 198, 0).std() == pytest.approx(1, rel=0.05)


def test_embedding_takes_ints_lists_and_tensors():
    layer = nn.Embedding(5, 2)
    table = layer.weight.detach().numpy()
    np.testing.assert_array_equal(layer(3).detach().numpy(), table[3])
    np.testing.assert_array_equal(layer([1, 4]).detach().numpy(), table[[1, 4]])
    np.testing.assert_array_equal(layer([[1, 4], [0, 0]]).detach().numpy(), table[[[1, 4], [0, 0]]])
    np.testing.assert_array_equal(layer(ex.tensor([2])).detach().numpy(), table[[2]])


def test_a_row_outside_the_table_is_an_error():
    with pytest.raises(IndexRangeError):
        nn.Embedding(5, 2)(5)
    with pytest.raises(IndexRangeError, match=r"padding_idx 5 .* num_embeddings=5"):
        nn.Embedding(5, 2, padding_idx=5)


def test_sparse_gradients_are_refused_when_the_table_is_made():
    for layer in (nn.Embedding, nn.EmbeddingBag):
        with pytest.raises(UnsupportedError, match=rf"{layer.__name__}: sparse=True .* leave it out"):
            layer(5, 2, sparse=True)
        with pytest.raises(UnsupportedError, match="sparse=True"):
            layer.from_pretrained(ex.ones(5, 2), sparse=True)


def test_the_padding_row_gets_no_gradient():
    layer = nn.Embedding(4, 2, padding_idx=1)
    layer([1, 2, 2]).sum().backward()
    assert layer.weight.grad.tolist() == [[0, 0], [0, 0], [2, 2], [0, 0]]


def test_max_norm_shortens_only_the_rows_that_are_used():
    layer = nn.Embedding.from_pretrained(ex.tensor([[3.0, 4.0], [30.0, 40.0]]), max_norm=1.0)
    np.testing.assert_allclose(layer([0]).numpy(), [[0.6, 0.8]], rtol=1e-5)
    assert layer.weight[1].tolist() == [30.0, 40.0]


def test_pretrained_tables_are_frozen_unless_asked():
    table = ex.randn(3, 2)
    for kind in (nn.Embedding, nn.EmbeddingBag):
        assert not kind.from_pretrained(table).weight.requires_grad
        assert kind.from_pretrained(table, freeze=False).weight.requires_grad
