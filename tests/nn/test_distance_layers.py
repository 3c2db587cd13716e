"""Similarity and distance of two batches of vectors."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ShapeError


def test_the_cosine_is_along_dim_and_zero_vectors_have_none():
    x, y = ex.tensor([[3.0, 0.0], [4.0, 0.0]]), ex.tensor([[1.0, 0.0], [0.0, 0.0]])
    assert nn.CosineSimilarity(dim=0)(x, y).tolist() == pytest.approx([0.6, 0.0])
    assert nn.CosineSimilarity()(x, y).tolist() == pytest.approx([1.0, 0.0])


def test_distances_are_norms_over_the_last_dimension():
    x, y = ex.tensor([[3.0, 4.0]]), ex.zeros(1, 2)
    assert nn.PairwiseDistance(eps=0.0)(x, y).tolist() == [5.0]
    assert nn.PairwiseDistance(p=1.0, eps=0.0, keepdim=True)(x, y).tolist() == [[7.0]]
    assert nn.PairwiseDistance(p=float("inf"), eps=0.0)(x, y).tolist() == [4.0]


def test_the_order_of_a_distance_is_kept_as_norm():
    layer = nn.PairwiseDistance(p=3.0)
    assert (layer.norm, layer.eps, layer.keepdim) == (3.0, 1e-6, False)
    assert repr(layer) == "PairwiseDistance()"


def test_equal_vectors_have_a_gradient_because_of_eps():
    x = ex.ones(1, 2, requires_grad=True)
    nn.PairwiseDistance()(x, ex.ones(1, 2)).sum().backward()
    assert ex.isfinite(x.grad).all()


def test_shapes_that_do_not_broadcast_are_refused():
    with pytest.raises(ShapeError):
        nn.CosineSimilarity()(ex.zeros(2, 3), ex.zeros(2, 4))
