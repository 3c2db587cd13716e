"""Losses: numbers as targets, extremes, ignored samples, and the sums they are defined by."""

from __future__ import annotations

import inspect
import itertools
import math

import numpy as np
import pytest

import extempo as ex
from extempo.errors import DtypeError, IndexRangeError, NumericalError, ShapeError
from extempo.nn import functional as F


def values(tensor: ex.Tensor) -> list:
    return tensor.detach().numpy().tolist()


def draw(*shape: int, seed: int = 0) -> ex.Tensor:
    return ex.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


# ---- what losses share


@pytest.mark.parametrize(
    "fn",
    [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.soft_margin_loss, F.binary_cross_entropy_with_logits,
     F.hinge_embedding_loss, F.poisson_nll_loss],
)  # fmt: skip
def test_a_number_is_a_target_for_every_element(fn):
    x = draw(2, 3)
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
    x = draw(5)
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


def test_cross_entropy_takes_a_number_a_list_and_a_tensor():
    scores = draw(3, 4)
    expected = [values(F.cross_entropy(scores[i], k)) for i, k in enumerate((1, 0, 3))]
    by_list = F.cross_entropy(scores, [1, 0, 3], reduction="none")
    assert values(by_list) == pytest.approx(expected)
    assert values(F.cross_entropy(scores, ex.tensor([1, 0, 3]), reduction="none")) == values(by_list)
    assert values(F.cross_entropy(scores, 2, reduction="none")) == pytest.approx(
        [values(F.cross_entropy(row, 2)) for row in scores]
    )


def test_cross_entropy_is_nll_of_log_softmax_for_every_option():
    scores = draw(5, 4, 2)
    target = ex.tensor(np.random.default_rng(1).integers(0, 4, size=(5, 2)))
    weight = ex.tensor([0.1, 0.5, 1.0, 2.0], dtype=ex.float64)
    for reduction, ignore, w in itertools.product(("none", "mean", "sum"), (-100, 1), (None, weight)):
        ours = F.cross_entropy(scores, target, w, ignore_index=ignore, reduction=reduction)
        theirs = F.nll_loss(F.log_softmax(scores, 1), target, w, ignore_index=ignore, reduction=reduction)
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-12)


def test_cross_entropy_of_one_hot_probabilities_is_that_of_indices():
    scores, target = draw(4, 3), ex.tensor([0, 2, 1, 1])
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


def test_cross_entropy_keeps_scores_and_target_only():
    scores = draw(3, 4) * 1.0
    loss = F.cross_entropy(scores, ex.tensor([0, 1, 2]), reduction="none")
    kept = [entry[1] for entry in loss.grad_fn.saved]
    assert sorted(array.shape for array in kept) == [(3,), (3, 4)]


def test_ignored_targets_have_no_gradient_and_all_ignored_is_nan():
    scores = draw(2, 3)
    F.cross_entropy(scores, ex.tensor([-100, 1])).backward()
    assert values(scores.grad)[0] == [0.0, 0.0, 0.0]
    assert math.isnan(F.cross_entropy(scores, ex.tensor([-100, -100])).item())
    assert math.isnan(F.cross_entropy(draw(3), -100).item())


def test_targets_are_checked():
    with pytest.raises(IndexRangeError, match="target 3 names no class, there are 3"):
        F.cross_entropy(draw(2, 3), [0, 3])
    with pytest.raises(IndexRangeError, match="target -1 names no class"):
        F.cross_entropy(draw(3), -1)
    with pytest.raises(ShapeError, match=r"target has shape \(3,\), expected \(2,\)"):
        F.cross_entropy(draw(2, 3), [0, 1, 2])
    with pytest.raises(ShapeError, match=r"target\.long\(\)"):
        F.cross_entropy(draw(2, 3), ex.ones(2))
    with pytest.raises(DtypeError, match="class indices"):
        F.nll_loss(draw(2, 3), ex.tensor([True, False]))
    with pytest.raises(ShapeError, match="one per class"):
        F.cross_entropy(draw(2, 3), [0, 1], weight=ex.ones(2))


@pytest.mark.parametrize("loss", [F.nll_loss, F.cross_entropy, F.multi_margin_loss])
def test_weights_of_classes_have_the_dtype_of_the_scores(loss):
    with pytest.raises(DtypeError, match=r"weight is extempo.float32, the scores are extempo.float64; use weight.to"):
        loss(draw(2, 3), ex.tensor([0, 1]), weight=ex.ones(3, dtype=ex.float32))


def test_class_probabilities_have_no_index_to_ignore():
    probabilities = draw(2, 3).softmax(1)
    with pytest.raises(DtypeError, match=r"ignore_index \(1\) is for class indices"):
        F.cross_entropy(draw(2, 3), probabilities, ignore_index=1)
    assert F.cross_entropy(draw(2, 3), probabilities, ignore_index=-1).isfinite()


def test_empty_batches_have_empty_losses():
    assert F.cross_entropy(ex.empty(0, 3), ex.empty(0, dtype=ex.int64), reduction="none").shape == (0,)
    assert math.isnan(F.cross_entropy(ex.empty(0, 3), ex.empty(0, dtype=ex.int64)).item())


def test_cross_entropy_has_a_second_derivative():
    x = draw(2, 3)
    assert ex.autograd.gradgradcheck(lambda x: F.cross_entropy(x, [0, 2]), (x,))


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


# ---- connectionist temporal classification


def brute_force(log_probs: np.ndarray, labels: list[int], blank: int) -> float:
    """-log of the sum over all paths that collapse to the labels."""
    total = 0.0
    for path in itertools.product(range(log_probs.shape[1]), repeat=len(log_probs)):
        collapsed = [k for k, _ in itertools.groupby(path) if k != blank]
        if collapsed == labels:
            total += math.exp(sum(log_probs[t, k] for t, k in enumerate(path)))
    return -math.log(total) if total else math.inf


@pytest.mark.parametrize("blank", [0, 2])
def test_ctc_is_the_sum_over_all_paths(blank):
    log_probs = F.log_softmax(draw(5, 3, 3), -1)
    labels = [[1], [1, 1], []]
    lengths = [5, 4, 3]
    loss = F.ctc_loss(log_probs, ex.tensor([1, 1, 1]), lengths, [1, 2, 0], blank, reduction="none")
    raw = log_probs.detach().numpy()
    expected = [brute_force(raw[: lengths[n], n], labels[n], blank) for n in range(3)]
    assert values(loss) == pytest.approx(expected)


def test_ctc_of_padded_and_joined_targets_and_of_one_sample_agree():
    log_probs = F.log_softmax(draw(6, 2, 4), -1)
    padded = F.ctc_loss(log_probs, ex.tensor([[1, 2, 9], [3, 3, 1]]), [6, 6], [2, 3], reduction="none")
    joined = F.ctc_loss(log_probs, ex.tensor([1, 2, 3, 3, 1]), [6, 6], [2, 3], reduction="none")
    alone = F.ctc_loss(log_probs[:, 1], ex.tensor([3, 3, 1]), 6, 3, reduction="none")
    assert values(padded) == values(joined)
    assert alone.shape == ()
    assert alone.item() == pytest.approx(values(joined)[1])


def test_ctc_gradients_of_both_orders():
    log_probs = F.log_softmax(draw(5, 2, 3), -1).detach().requires_grad_()

    def loss(x):
        return F.ctc_loss(x, ex.tensor([[1, 2], [2, 0]]), [5, 4], [2, 1])

    assert ex.autograd.gradcheck(loss, (log_probs,))
    assert ex.autograd.gradgradcheck(loss, (log_probs,))


def test_ctc_of_labels_that_do_not_fit_is_infinite_or_zero():
    log_probs = F.log_softmax(draw(2, 2, 3), -1).detach().requires_grad_()
    arguments = (ex.tensor([[1, 1], [1, 2]]), [2, 2], [2, 2])
    assert values(F.ctc_loss(log_probs, *arguments, reduction="none"))[0] == math.inf
    loss = F.ctc_loss(log_probs, *arguments, reduction="sum", zero_infinity=True)
    loss.backward()
    assert math.isfinite(loss.item())
    assert np.isfinite(log_probs.grad.numpy()).all()
    assert not log_probs.grad.numpy()[:, 0].any()


def test_ctc_checks_its_arguments():
    log_probs = F.log_softmax(draw(4, 2, 3), -1)
    with pytest.raises(ShapeError, match="give one for each"):
        F.ctc_loss(log_probs, ex.tensor([[1], [2]]), [4], [1, 1])
    with pytest.raises(ShapeError, match="from 0 to the 4 steps"):
        F.ctc_loss(log_probs, ex.tensor([[1], [2]]), [5, 4], [1, 1])
    with pytest.raises(IndexRangeError, match="classes from 0 to 2"):
        F.ctc_loss(log_probs, ex.tensor([[1], [3]]), [4, 4], [1, 1])
    with pytest.raises(IndexRangeError, match="blank 3"):
        F.ctc_loss(log_probs, ex.tensor([[1], [2]]), [4, 4], [1, 1], blank=3)
    with pytest.raises(ShapeError, match="do not hold the labels"):
        F.ctc_loss(log_probs, ex.tensor([[1], [2]]), [4, 4], [1, 2])


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
