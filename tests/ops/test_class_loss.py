"""Losses on classes: targets of every kind, weights, margins, messages."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, IndexRangeError, ShapeError
from extempo.nn import functional as F

from .helpers import leaf, values


def test_cross_entropy_takes_a_number_a_list_and_a_tensor():
    scores = leaf(3, 4)
    expected = [values(F.cross_entropy(scores[i], k)) for i, k in enumerate((1, 0, 3))]
    by_list = F.cross_entropy(scores, [1, 0, 3], reduction="none")
    assert values(by_list) == pytest.approx(expected)
    assert values(F.cross_entropy(scores, ex.tensor([1, 0, 3]), reduction="none")) == values(by_list)
    assert values(F.cross_entropy(scores, 2, reduction="none")) == pytest.approx(
        [values(F.cross_entropy(row, 2)) for row in scores]
    )


def test_cross_entropy_is_nll_of_log_softmax_for_every_option():
    scores = leaf(5, 4, 2)
    target = ex.tensor(np.random.default_rng(1).integers(0, 4, size=(5, 2)))
    weight = ex.tensor([0.1, 0.5, 1.0, 2.0], dtype=ex.float64)
    for reduction, ignore, w in itertools.product(("none", "mean", "sum"), (-100, 1), (None, weight)):
        ours = F.cross_entropy(scores, target, w, ignore_index=ignore, reduction=reduction)
        theirs = F.nll_loss(F.log_softmax(scores, 1), target, w, ignore_index=ignore, reduction=reduction)
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-12)


def test_cross_entropy_of_one_hot_probabilities_is_that_of_indices():
    scores, target = leaf(4, 3), ex.tensor([0, 2, 1, 1])
    one_hot = F.one_hot(target, 3).double()
    for smoothing in (0.0, 0.2):
        a = F.cross_entropy(scores, target, label_smoothing=smoothing)
        b = F.cross_entropy(scores, one_hot, label_smoothing=smoothing)
        assert a.item() == pytest.approx(b.item())


def test_cross_entropy_of_huge_scores_is_finite():
    scores = ex.tensor([[1e4, -1e4]], requires_grad=True)
    loss = F.cross_entropy(scores, 1)
    assert loss.item() == 2e4
    loss.backward()
    assert values(scores.grad) == [[1.0, -1.0]]


def test_targets_are_checked():
    with pytest.raises(IndexRangeError, match="target 3 names no class, there are 3"):
        F.cross_entropy(leaf(2, 3), [0, 3])
    with pytest.raises(IndexRangeError, match="target -1 names no class"):
        F.cross_entropy(leaf(3), -1)
    with pytest.raises(ShapeError, match=r"target has shape \(3,\), expected \(2,\)"):
        F.cross_entropy(leaf(2, 3), [0, 1, 2])
    with pytest.raises(ShapeError, match=r"target\.long\(\)"):
        F.cross_entropy(leaf(2, 3), ex.ones(2))
    with pytest.raises(DtypeError, match="class indices"):
        F.nll_loss(leaf(2, 3), ex.tensor([True, False]))
    with pytest.raises(ShapeError, match="one per class"):
        F.cross_entropy(leaf(2, 3), [0, 1], weight=ex.ones(2))


@pytest.mark.parametrize("loss", [F.nll_loss, F.cross_entropy, F.multi_margin_loss])
def test_weights_of_classes_have_the_dtype_of_the_scores(loss):
    with pytest.raises(DtypeError, match=r"weight is extempo.float32, the scores are extempo.float64; use weight.to"):
        loss(leaf(2, 3), ex.tensor([0, 1]), weight=ex.ones(3, dtype=ex.float32))


def test_class_probabilities_have_no_index_to_ignore():
    probabilities = leaf(2, 3).softmax(1)
    with pytest.raises(DtypeError, match=r"ignore_index \(1\) is for class indices"):
        F.cross_entropy(leaf(2, 3), probabilities, ignore_index=1)
    assert F.cross_entropy(leaf(2, 3), probabilities, ignore_index=-1).isfinite()


def test_empty_batches_have_empty_losses():
    assert F.cross_entropy(ex.empty(0, 3), ex.empty(0, dtype=ex.int64), reduction="none").shape == (0,)
    assert math.isnan(F.cross_entropy(ex.empty(0, 3), ex.empty(0, dtype=ex.int64)).item())


def test_multi_margin_losses_are_the_sums_they_are_defined_by():
    x = np.random.default_rng(3).normal(size=(2, 4))
    target = [1, 3]
    expected = [
        sum(max(0.0, 1.0 - x[n, y] + x[n, i]) ** 2 for i in range(4) if i != y) / 4 for n, y in enumerate(target)
    ]
    assert values(F.multi_margin_loss(ex.tensor(x), target, p=2, reduction="none")) == pytest.approx(expected)
    labels = [[1, 3, -1, 0], [2, -1, 2, 2]]
    used = [[1, 3], [2]]
    expected = [
        sum(max(0.0, 1.0 - x[n, j] + x[n, i]) for j in used[n] for i in range(4) if i not in used[n]) / 4
        for n in range(2)
    ]
    result = F.multilabel_margin_loss(ex.tensor(x), ex.tensor(labels), reduction="none")
    assert values(result) == pytest.approx(expected)


def test_losses_of_one_sample_take_its_target_in_a_vector_of_one():
    scores, weight = ex.tensor([0.1, 0.7, 0.4]), ex.tensor([1.0, 2.0, 3.0])
    for reduction in ("none", "mean", "sum"):
        for loss in (F.cross_entropy, F.nll_loss):
            for w in (None, weight):
                alone = loss(scores, ex.tensor(1), weight=w, reduction=reduction)
                found = loss(scores, ex.tensor([1]), weight=w, reduction=reduction)
                assert found.shape == ()
                assert found.item() == alone.item()
        shape = (1,) if reduction == "none" else ()
        assert F.multi_margin_loss(scores, ex.tensor([1]), reduction=reduction).shape == shape
        assert F.multi_margin_loss(scores, ex.tensor(1), reduction=reduction).shape == ()


@pytest.mark.parametrize("dtype", [ex.float16, ex.bfloat16, ex.float32])
def test_multilabel_soft_margin_loss_keeps_the_dtype_with_integer_targets(dtype):
    scores, target = ex.tensor([[0.5, -1.0]], dtype=dtype), ex.tensor([[1, 0]])
    for reduction in ("none", "mean", "sum"):
        assert F.multilabel_soft_margin_loss(scores, target, reduction=reduction).dtype is dtype
