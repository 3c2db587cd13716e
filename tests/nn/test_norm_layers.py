"""Normalisation layers: where they start, what they count, what they forget."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.errors import ShapeError


def test_norms_start_at_one_and_zero():
    for layer in (nn.BatchNorm1d(3), nn.LayerNorm((2, 3)), nn.GroupNorm(1, 3), nn.InstanceNorm2d(3, affine=True)):
        assert bool((layer.weight == 1).all())
        assert bool((layer.bias == 0).all())
    assert bool((nn.RMSNorm(3).weight == 1).all())
    assert nn.PReLU(2, init=0.1).weight.tolist() == pytest.approx([0.1, 0.1])


def test_batch_norm_counts_batches_and_follows_their_statistics():
    layer = nn.BatchNorm1d(1)
    layer(ex.tensor([[1.0], [3.0]]))
    assert layer.running_mean.tolist() == pytest.approx([0.2])
    assert layer.running_var.tolist() == pytest.approx([0.9 + 0.1 * 2])
    assert layer.num_batches_tracked.item() == 1
    layer.eval()(ex.tensor([[1.0], [3.0]]))
    assert layer.num_batches_tracked.item() == 1


def test_momentum_none_gives_the_mean_of_all_batches():
    layer = nn.BatchNorm1d(1, momentum=None)
    for low in (0.0, 4.0, 8.0):
        layer(ex.tensor([[low], [low + 2]]))
    assert layer.running_mean.tolist() == pytest.approx([5.0])


def test_a_batch_that_is_refused_does_not_count():
    layer = nn.BatchNorm1d(3)
    for wrong in (ex.zeros(2, 4), ex.zeros(1, 3), ex.zeros(3)):
        with pytest.raises(ShapeError):
            layer(wrong)
    assert layer.num_batches_tracked.item() == 0
    assert layer.running_mean.tolist() == [0, 0, 0]


def test_states_from_before_batches_were_counted_load():
    layer = nn.BatchNorm1d(2)
    old = {"weight": ex.ones(2), "bias": ex.ones(2), "running_mean": ex.ones(2), "running_var": ex.ones(2)}
    layer.load_state_dict(old)
    assert layer.running_mean.tolist() == [1, 1]


def test_reset_forgets_everything():
    layer = nn.BatchNorm1d(2)
    layer(ex.randn(4, 2))
    layer.reset_parameters()
    assert layer.running_mean.tolist() == [0, 0]
    assert layer.running_var.tolist() == [1, 1]
    assert layer.num_batches_tracked.item() == 0


def test_instance_norm_warns_of_a_channel_number_that_changes_nothing():
    with pytest.warns(UserWarning, match="num_features=3"):
        nn.InstanceNorm1d(3)(ex.randn(2, 4, 5))
