"""Losses: numbers as targets, extremes, ignored samples, and the sums they are defined by."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

import extempo as ex
from extempo.errors import NumericalError, ShapeError
from extempo.nn import functional as F

from .helpers import leaf, values

# ---- what losses share


@pytest.mark.parametrize(
    "fn",
    [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.soft_margin_loss, F.binary_cross_entropy_with_logits,
     F.hinge_embedding_loss, F.poisson_nll_loss],
)  # fmt: skip
def test_a_number_is_a_target_for_every_element(fn):
    x = leaf(2, 3)
    assert fn(x, 1.0).item() == pytest.approx(fn(x, ex.ones(2, 3, dtype=ex.float64)).item())


@pytest.mark.parametrize("name", ["mse_loss", "cross_entropy", "kl_div", "ctc_loss", "triplet_margin_loss"])
def test_an_unknown_reduction_is_refused_by_name(name):
    fn = getattr(F, name)
    required = [p for p in inspect.signature(fn).parameters.values() if p.default is p.empty]
    with pytest.raises(ShapeError, match=rf"{name}: reduction must be"):
        fn(*[ex.ones(2, 2)] * len(required), reduction="average")


def test_the_flags_before_reduction_still_work():
    x = ex.tensor([1.0, 3.0])
    assert values(F.mse_loss(x, 0.0, reduce=False)) == [1.0, 9.0]
    assert F.mse_loss(x, 0.0, size_average=False).item() == 10.0
    assert F.mse_loss(x, 0.0, size_average=True).item() == 5.0


def test_broadcasting_a_target_warns():
    with pytest.warns(UserWarning, match=r"mse_loss: input has shape \(3,\), target \(3, 1\)"):
        F.mse_loss(ex.ones(3), ex.ones(3, 1))


def test_weights_divide_the_mean_by_their_sum():
    loss = F.mse_loss(ex.tensor([1.0, 3.0]), 0.0, weight=ex.tensor([3.0, 1.0]))
    assert loss.item() == 3.0
    with pytest.raises(ShapeError, match="weight has shape"):
        F.l1_loss(ex.ones(2), 0.0, weight=ex.ones(3))


# ---- numbers and probabilities


def test_smooth_l1_with_beta_zero_is_l1():
    x = leaf(5)
    assert F.smooth_l1_loss(x, 0.0, beta=0.0).item() == F.l1_loss(x, 0.0).item()


def test_huber_meets_its_straight_line():
    x = ex.tensor([0.5, 2.0, 3.0])
    assert values(F.huber_loss(x, 0.0, reduction="none", delta=2.0)) == [0.125, 2.0, 4.0]


def test_binary_cross_entropy_is_finite_at_zero_and_one():
    x = ex.tensor([0.0, 1.0, 0.0, 1.0], requires_grad=True)
    loss = F.binary_cross_entropy(x, ex.tensor([0.0, 1.0, 1.0, 0.0]), reduction="none")
    assert values(loss) == [0.0, 0.0, 100.0, 100.0]
    loss.sum().backward()
    assert np.isfinite(x.grad.numpy()).all()


def test_binary_cross_entropy_refuses_what_is_no_probability():
    with pytest.raises(NumericalError, match="apply sigmoid first"):
        F.binary_cross_entropy(ex.tensor([1.5]), 1.0)
    for target in (ex.tensor([2.0]), ex.tensor([-0.5]), ex.tensor([math.nan]), 2.0):
        with pytest.raises(NumericalError, match="target must lie between 0 and 1"):
            F.binary_cross_entropy(ex.tensor([0.5]), target)
    with pytest.raises(ShapeError, match="they must be equal"):
        F.binary_cross_entropy(ex.tensor([0.5]), ex.ones(1, 1))


def test_binary_cross_entropy_with_logits_keeps_large_scores_finite():
    x = ex.tensor([-1e4, 1e4], requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(x, ex.tensor([1.0, 0.0]), reduction="none")
    assert values(loss) == [1e4, 1e4]
    loss.sum().backward()
    assert values(x.grad) == [-1.0, 1.0]


def test_soft_margin_loss_does_not_overflow():
    assert F.soft_margin_loss(ex.tensor([-1e4]), 1.0).item() == 1e4


def test_kl_div_of_an_impossible_outcome_is_zero():
    x = ex.tensor([[-1.0, -2.0]], requires_grad=True)
    loss = F.kl_div(x, ex.tensor([[1.0, 0.0]]), reduction="batchmean")
    assert loss.item() == pytest.approx(1.0)
    loss.backward()
    assert np.isfinite(x.grad.numpy()).all()


def test_gaussian_nll_bounds_the_variance_and_refuses_a_negative_one():
    var = ex.tensor([0.0, 1.0], requires_grad=True)
    loss = F.gaussian_nll_loss(ex.zeros(2), 0.0, var, eps=1e-3, reduction="none")
    assert values(loss) == pytest.approx([0.5 * math.log(1e-3), 0.0])
    loss.sum().backward()
    assert values(var.grad) == pytest.approx([500.0, 0.5])
    with pytest.raises(NumericalError, match="negative entries"):
        F.gaussian_nll_loss(ex.zeros(1), 0.0, -1.0)


def test_poisson_nll_adds_stirling_only_above_one():
    plain = F.poisson_nll_loss(ex.zeros(3), ex.tensor([0.0, 1.0, 5.0]), reduction="none")
    full = F.poisson_nll_loss(ex.zeros(3), ex.tensor([0.0, 1.0, 5.0]), full=True, reduction="none")
    assert values(full - plain) == pytest.approx([0.0, 0.0, 5 * math.log(5) - 5 + 0.5 * math.log(10 * math.pi)])


# ---- pairs


def test_distances_have_finite_gradients_between_equal_points():
    x = ex.tensor([[1.0, 2.0]], requires_grad=True)
    F.pairwise_distance(x, x.detach()).sum().backward()
    assert np.isfinite(x.grad.numpy()).all()


def test_cosine_similarity_of_a_zero_vector_is_zero():
    x = ex.zeros(1, 3, requires_grad=True)
    y = F.cosine_similarity(x, ex.ones(1, 3))
    assert y.item() == 0.0
    y.sum().backward()
    assert np.isfinite(x.grad.numpy()).all()


def test_cosine_embedding_loss_takes_one_target_for_all():
    a, b = ex.tensor([[1.0, 0.0], [0.0, 2.0]]), ex.tensor([[2.0, 0.0], [1.0, 0.0]])
    assert values(F.cosine_embedding_loss(a, b, 1, reduction="none")) == [0.0, 1.0]


def test_triplet_loss_swaps_for_the_harder_negative():
    anchor, positive, negative = ex.tensor([[0.0]]), ex.tensor([[2.0]]), ex.tensor([[3.0]])
    assert F.triplet_margin_loss(anchor, positive, negative).item() == 0.0
    assert F.triplet_margin_loss(anchor, positive, negative, swap=True).item() == pytest.approx(2.0, abs=1e-5)
    with pytest.raises(ShapeError, match="as many dimensions"):
        F.triplet_margin_loss(anchor, positive, ex.tensor([3.0]))


def test_normalize_leaves_a_zero_vector():
    assert values(F.normalize(ex.tensor([[3.0, 4.0], [0.0, 0.0]]))) == pytest.approx(np.array([[0.6, 0.8], [0.0, 0.0]]))


# ---- classes


# ---- connectionist temporal classification
