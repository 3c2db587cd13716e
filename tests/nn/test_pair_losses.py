"""Losses on pairs and triplets."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn


def test_numbers_are_targets_of_pairs_too():
    a, b = ex.randn(4), ex.randn(4)
    assert nn.MarginRankingLoss()(a, b, 1).item() == pytest.approx(nn.MarginRankingLoss()(a, b, ex.ones(4)).item())
    assert nn.CosineEmbeddingLoss()(a, b, -1).item() == pytest.approx(
        nn.CosineEmbeddingLoss()(a, b, ex.tensor(-1)).item()
    )
    gaussian = nn.GaussianNLLLoss()
    assert gaussian(a, 1.0, ex.ones(4)).item() == pytest.approx(gaussian(a, ex.ones(4), ex.ones(4)).item())


def test_a_distance_may_be_a_module_or_a_function():
    anchor, positive, negative = ex.randn(4, 3), ex.randn(4, 3), ex.randn(4, 3)
    plain = nn.TripletMarginLoss(p=1.0)(anchor, positive, negative).item()
    for distance in (nn.PairwiseDistance(1.0), lambda a, b: nn.functional.pairwise_distance(a, b, 1.0)):
        loss = nn.TripletMarginWithDistanceLoss(distance_function=distance)
        assert loss(anchor, positive, negative).item() == pytest.approx(plain)
