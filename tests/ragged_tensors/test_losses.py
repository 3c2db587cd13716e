"""Losses of ragged tensors: means are over all elements, and no element is padding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import extempo as ex
from extempo import nn
from extempo.errors import IndexRangeError, ShapeError
from extempo.nn import functional as F

from .looped import FEW, LENGTHS, check_rows, leaf, ragged_ints, ragged_leaf, same

SOME = st.lists(st.integers(0, 6), min_size=1, max_size=5).filter(any)


def positive(x):
    return x.abs() + 0.1


ON_NUMBERS = {
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "smooth_l1": lambda x, y, reduction: F.smooth_l1_loss(x, y, reduction=reduction, beta=0.5),
    "huber": lambda x, y, reduction: F.huber_loss(x, y, reduction=reduction, delta=0.5),
    "bce": lambda x, y, reduction: F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), reduction=reduction),
    "bce with logits": lambda x, y, reduction: F.binary_cross_entropy_with_logits(x, y.sigmoid(), reduction=reduction),
    "kl_div": lambda x, y, reduction: F.kl_div(x, y.sigmoid(), reduction=reduction),
    "kl_div of logarithms": lambda x, y, reduction: F.kl_div(x, y, reduction=reduction, log_target=True),
    "poisson": lambda x, y, reduction: F.poisson_nll_loss(x, positive(y), reduction=reduction, full=True),
    "gaussian": lambda x, y, reduction: F.gaussian_nll_loss(x, y, positive(y), reduction=reduction),
    "soft margin": lambda x, y, reduction: F.soft_margin_loss(x, y.sign(), reduction=reduction),
    "hinge": lambda x, y, reduction: F.hinge_embedding_loss(x, y.sign(), reduction=reduction),
    "ranking": lambda x, y, reduction: F.margin_ranking_loss(x, y, 1, reduction=reduction),
}


def loss_by(name, reduction):
    return lambda *inputs: ON_NUMBERS[name](*inputs, reduction=reduction)


@pytest.mark.parametrize("name", ON_NUMBERS)
@FEW
@given(lengths=LENGTHS)
def test_losses_of_elements_are_those_of_each_row(name, lengths):
    check_rows(loss_by(name, "none"), ragged_leaf(lengths, 2), ragged_leaf(lengths, 2, seed=5))
    check_rows(loss_by(name, "none"), ragged_leaf(lengths), ragged_leaf(lengths, seed=5))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("name", ON_NUMBERS)
@FEW
@given(lengths=SOME)
def test_reduced_losses_count_every_element_once(name, reduction, lengths):
    x, y = ragged_leaf(lengths, 2), ragged_leaf(lengths, 2, seed=5)
    loss = loss_by(name, reduction)
    same(loss(x, y), loss(x.values(), y.values()), [x, y])


def test_weights_of_elements():
    x, y, w = (ragged_leaf([2, 0, 3], seed=seed) for seed in (1, 2, 3))
    same(F.mse_loss(x, y, weight=w), F.mse_loss(x.values(), y.values(), weight=w.values()), [x, y, w])
    found = F.binary_cross_entropy_with_logits(x, y.sigmoid(), weight=w, pos_weight=w)
    expected = F.binary_cross_entropy_with_logits(
        x.values(), y.values().sigmoid(), weight=w.values(), pos_weight=w.values()
    )
    same(found, expected, [x, y, w])


def test_a_divergence_is_divided_by_the_number_of_rows():
    x, y = ragged_leaf([2, 0, 3], 4), ragged_leaf([2, 0, 3], 4, seed=5)
    found = F.kl_div(x, y, reduction="batchmean", log_target=True)
    same(found, F.kl_div(x, y, reduction="sum", log_target=True) / 3, [x, y])


def test_targets_may_be_numbers_and_modules_take_ragged_tensors():
    x = ragged_leaf([2, 0, 3])
    same(nn.MSELoss()(x, 0.5), nn.MSELoss()(x.values(), 0.5), [x])
    y = ragged_leaf([2, 0, 3], seed=5)
    same(nn.HuberLoss()(x, y), nn.HuberLoss()(x.values(), y.values()), [x])


def test_rows_of_other_lengths_are_no_target():
    for loss in (F.mse_loss, F.binary_cross_entropy_with_logits):
        with pytest.raises(ShapeError, match="of the same lengths"):
            loss(ragged_leaf([2, 3]), ragged_leaf([3, 2]))


# ---- classes

OPTIONS = [{}, {"ignore_index": 1}, {"weight": leaf(4).detach().abs()}]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "".join(o) or "plain")
@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss], ids=lambda f: f.__name__)
@FEW
@given(lengths=LENGTHS)
def test_losses_of_classes_are_those_of_each_row(loss, options, lengths):
    scores = ragged_leaf(lengths, 4, dim=2)
    check_rows(
        lambda x, y: loss(x, y, reduction="none", **options),
        scores,
        ragged_ints(lengths, 4),
        of_row=lambda i, x, y: loss(x.T, y, reduction="none", **options),
    )


@pytest.mark.parametrize("options", [*OPTIONS, {"label_smoothing": 0.1}], ids=lambda o: "".join(o) or "plain")
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_mean_losses_of_classes_are_over_all_elements(reduction, options):
    lengths = [3, 0, 5, 1]
    scores, target = ragged_leaf(lengths, 4, dim=2), ragged_ints(lengths, 4)
    for loss in (F.cross_entropy, F.nll_loss):
        if loss is F.nll_loss and "label_smoothing" in options:
            continue
        found = loss(scores, target, reduction=reduction, **options)
        same(found, loss(scores.values().T, target.values(), reduction=reduction, **options), [scores])


def test_scores_of_elements_are_transposed_to_classes_first():
    x, target = ragged_leaf([3, 2], 4), ragged_ints([3, 2], 4)
    same(F.cross_entropy(x.transpose(1, 2), target), F.cross_entropy(x.values(), target.values()), [x])
    with pytest.raises(ShapeError, match=r"scores.transpose\(1, 2\)"):
        F.cross_entropy(x, target)


def test_a_choice_among_the_elements_of_each_row():
    scores, target = ragged_leaf([3, 2]), ex.tensor([2, 0])
    with pytest.raises(ShapeError, match=r"-scores.log_softmax\(1\)\[ex.arange\(len\(scores\)\), target\]"):
        F.cross_entropy(scores, target)
    found = -scores.log_softmax(1)[ex.arange(len(scores)), target]
    expected = [F.cross_entropy(row, y) for row, y in zip(scores, target, strict=True)]
    same(found, ex.stack(expected), [scores])


def test_class_probabilities_and_more_dimensions():
    lengths = [3, 0, 2]
    scores, probabilities = ragged_leaf(lengths, 4, dim=2), ragged_leaf(lengths, 4, dim=2, seed=5)
    found = F.cross_entropy(scores, probabilities, reduction="none")
    assert found.lengths().tolist() == lengths
    same(found.values(), F.cross_entropy(scores.values().T, probabilities.values().T, reduction="none"), [scores])
    planes = ragged_leaf(lengths, 4, 2, dim=2)  # (B, classes, *, 2)
    check_rows(
        lambda x, y: F.cross_entropy(x, y, reduction="none"),
        planes,
        ragged_ints(lengths, 4, 2),
        of_row=lambda i, x, y: F.cross_entropy(x.movedim(1, 0), y, reduction="none"),
    )


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (ragged_ints([2, 3], 4), r"\[3, 2\].*\[2, 3\]"),
        (ragged_ints([3, 2], 4, 5), "targets of shape"),
        (ex.zeros(2, 3, dtype=ex.int64), "ragged_from_padded"),
        ([0, 1], "list"),
    ],
)
def test_targets_that_do_not_fit_are_described(target, says):
    with pytest.raises(ShapeError, match=says):
        F.cross_entropy(ragged_leaf([3, 2], 4, dim=2), target)
    with pytest.raises(ShapeError, match="make both ragged"):
        F.cross_entropy(leaf(2, 4, 3), ragged_ints([3, 3], 4))


def test_a_class_that_is_out_of_range_raises():
    with pytest.raises(IndexRangeError):
        F.cross_entropy(ragged_leaf([3, 2], 4, dim=2), ragged_ints([3, 2], 4) + 4)


# ---- vectors


@FEW
@given(LENGTHS)
def test_cosines_of_elements(lengths):
    x, y = ragged_leaf(lengths, 3), ragged_leaf(lengths, 3, seed=5)
    check_rows(lambda x, y: F.cosine_similarity(x, y, dim=-1), x, y)
    check_rows(lambda x: F.normalize(x, dim=-1), x)
    check_rows(F.pairwise_distance, x, y)
    signs = ragged_ints(lengths, 2) * 2 - 1
    check_rows(lambda x, y, t: F.cosine_embedding_loss(x, y, t, reduction="none"), x, y, signs)


def test_mean_losses_of_vectors():
    x, y, z = (ragged_leaf([3, 0, 2], 4, seed=seed) for seed in (1, 2, 3))
    signs = ragged_ints([3, 0, 2], 2) * 2 - 1
    found = F.cosine_embedding_loss(x, y, signs, margin=0.1)
    same(found, F.cosine_embedding_loss(x.values(), y.values(), signs.values(), margin=0.1), [x, y])
    found = F.triplet_margin_loss(x, y, z, swap=True)
    same(found, F.triplet_margin_loss(x.values(), y.values(), z.values(), swap=True), [x, y, z])
    with pytest.raises(ShapeError, match="rows of the vectors"):
        F.cosine_embedding_loss(x, y, ragged_ints([2, 0, 3], 2))
