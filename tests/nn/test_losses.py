"""Losses as layers: reductions, weights, numbers as targets, one sample."""

from __future__ import annotations

import math

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ShapeError
from extempo.nn.losses import _Loss

POSITIVE = ex.tensor([0.25, 0.5, 0.75])


@pytest.mark.parametrize(
    ("loss", "target"),
    [
        (nn.L1Loss(), 0.5),
        (nn.MSELoss(), 2),
        (nn.SmoothL1Loss(beta=0.5), 0.5),
        (nn.HuberLoss(delta=0.5), 2.0),
        (nn.PoissonNLLLoss(full=True), 3.0),
        (nn.BCELoss(), 1.0),
        (nn.BCEWithLogitsLoss(pos_weight=ex.tensor([1.0, 2.0, 3.0])), 1.0),
        (nn.KLDivLoss(), 0.5),
        (nn.SoftMarginLoss(), -1.0),
        (nn.HingeEmbeddingLoss(), -1.0),
        (nn.MultiLabelSoftMarginLoss(), 1.0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_a_number_as_target_stands_for_a_tensor_of_it(loss, target):
    assert loss(POSITIVE, target).item() == pytest.approx(loss(POSITIVE, ex.full((3,), float(target))).item())


def test_a_number_names_the_class_of_one_sample():
    scores = ex.tensor([1.0, 2.0, 3.0])
    for loss in (nn.CrossEntropyLoss(), nn.CrossEntropyLoss(label_smoothing=0.1), nn.NLLLoss(), nn.MultiMarginLoss()):
        assert loss(scores, 1).item() == pytest.approx(loss(scores, ex.tensor(1)).item())
        assert loss(scores, 1).item() == pytest.approx(loss(scores.unsqueeze(0), [1]).item())
    linear = nn.LinearCrossEntropyLoss(3, 4)
    assert linear(scores, 1).item() == pytest.approx(linear(scores, ex.tensor(1)).item())


@pytest.mark.parametrize(
    ("flags", "reduction"),
    [
        ({"size_average": True}, "mean"),
        ({"size_average": False}, "sum"),
        ({"reduce": False}, "none"),
        ({"reduce": True}, "mean"),
        ({"size_average": False, "reduce": True}, "sum"),
    ],
)
def test_the_older_flags_mean_what_they_meant(flags, reduction):
    for kind in (nn.MSELoss, nn.CrossEntropyLoss, nn.TripletMarginLoss, nn.KLDivLoss):
        assert kind(**flags).reduction == reduction


def test_an_unknown_reduction_is_named_at_the_call():
    with pytest.raises(ShapeError, match="average"):
        nn.MSELoss(reduction="average")(POSITIVE, 0.0)


def test_class_weights_and_ignored_targets_change_what_the_mean_divides_by():
    weight = ex.tensor([1.0, 2.0, 4.0])
    log_probs = ex.tensor([[-1.0, -2.0, -3.0]] * 3)
    loss = nn.NLLLoss(weight, ignore_index=1)
    assert loss(log_probs, [0, 1, 2]).item() == pytest.approx((1 * 1 + 4 * 3) / 5)
    assert nn.NLLLoss(weight, ignore_index=1, reduction="none")(log_probs, [0, 1, 2]).tolist() == [1, 0, 12]
    assert loss.state_dict()["weight"] is not None
    assert list(nn.NLLLoss().state_dict()) == []


def test_label_smoothing_mixes_in_the_mean_of_all_classes():
    scores = ex.randn(5, 3)
    target = ex.tensor([0, 1, 2, 1, 0])
    surprise = -scores.log_softmax(-1).numpy()
    picked = surprise[np.arange(5), target.numpy()]
    expected = 0.8 * picked.mean() + 0.2 * surprise.mean()
    assert nn.CrossEntropyLoss(label_smoothing=0.2)(scores, target).item() == pytest.approx(expected, rel=1e-5)


def test_weights_move_with_the_module():
    loss = nn.CrossEntropyLoss(weight=ex.ones(3)).double()
    assert loss.weight.dtype is ex.float64
    assert loss(ex.zeros(2, 3, dtype=ex.float64), [0, 1]).item() == pytest.approx(math.log(3))


def test_ctc_takes_lists_and_one_sample():
    log_probs = ex.randn(6, 4).log_softmax(-1)
    alone = nn.CTCLoss()(log_probs, [1, 2], 6, 2)
    batch = nn.CTCLoss()(log_probs.unsqueeze(1), [[1, 2]], [6], [2])
    assert alone.item() == pytest.approx(batch.item())
    with_flag = nn.CTCLoss(zero_infinity=True)
    assert math.isinf(nn.CTCLoss()(log_probs[:1], [1, 2], 1, 2).item())
    assert with_flag(log_probs[:1], [1, 2], 1, 2).item() == 0


# ---- adaptive softmax


def test_a_loss_of_ones_own_is_made_as_in_pytorch():
    class Quartic(_Loss):
        def __init__(self, size_average=None, reduce=None, reduction="mean"):
            super().__init__(size_average, reduce, reduction)

        def forward(self, input, target):
            powers = (input - target) ** 4
            return powers.sum() if self.reduction == "sum" else powers.mean()

    assert Quartic()(ex.tensor([2.0, 0.0]), ex.zeros(2)).item() == 8.0
    assert Quartic(reduction="sum")(ex.tensor([2.0, 0.0]), ex.zeros(2)).item() == 16.0
