"""Cross entropy over a sample's own number of targets."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import IndexRangeError

from .sizes import agrees, drawn, forms

F = nn.functional


def tagged(rng, n):
    return drawn(rng, n, 4), ex.tensor(rng.integers(0, 4, n))


@pytest.mark.parametrize(
    "loss",
    [
        lambda x, y: F.cross_entropy(x * 1.0, y),
        lambda x, y: F.cross_entropy(x * 1.0, y, reduction="sum"),
        lambda x, y: F.cross_entropy(x * 1.0, y, ignore_index=2, reduction="sum"),
        nn.CrossEntropyLoss(),
    ],
)
def test_targets_of_all_samples_are_one_batch(loss):
    assert forms(agrees(loss, tagged))["cross_entropy"] == ["ClassLossForm"]


def test_samples_may_leave_out_different_targets():
    def fn(x, y):
        return F.cross_entropy(x * 1.0, y, ignore_index=len(y) % 3, reduction="sum")

    agrees(fn, tagged)


def test_samples_without_targets_have_a_sum_of_zero():
    agrees(lambda x, y: F.cross_entropy(x * 1.0, y, reduction="sum"), tagged, lengths=[(0, 2, 3), (1, 0, 4)])


def test_a_target_that_is_no_class_is_an_error_of_its_sample():
    scores = [ex.ones(n, 3) for n in (2, 3, 4)]
    targets = [ex.tensor([0, 1]), ex.tensor([0, 3, 1]), ex.tensor([0, 1, 2, 2])]
    with pytest.raises(IndexRangeError) as error:
        ex.batch(lambda x, y: F.cross_entropy(x * 1.0, y))(scores, targets)
    assert any("sample 1" in note for note in error.value.__notes__)
