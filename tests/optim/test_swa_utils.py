"""Averaged weights: equal weights, moving averages, buffers, and BatchNorm's statistics afterwards."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.optim import swa_utils


def set_weight(model, value):
    with ex.no_grad():
        for p in model.parameters():
            p.fill_(value)


def test_equal_weights_give_the_mean():
    model = nn.Linear(2, 3)
    averaged = swa_utils.AveragedModel(model)
    for value in (1.0, 2.0, 6.0):
        set_weight(model, value)
        averaged.update_parameters(model)
    assert averaged.n_averaged.item() == 3
    assert ex.allclose(averaged.module.weight, ex.full((3, 2), 3.0))
    assert ex.allclose(averaged(ex.ones(1, 2)), ex.full((1, 3), 9.0))


@pytest.mark.parametrize("many", [False, True])
def test_a_moving_average_forgets_by_its_decay(many):
    model = nn.Linear(1, 1)
    fn = swa_utils.get_ema_multi_avg_fn(0.75) if many else swa_utils.get_ema_avg_fn(0.75)
    averaged = swa_utils.AveragedModel(model, **{"multi_avg_fn" if many else "avg_fn": fn})
    for value in (1.0, 5.0, 2.0):
        set_weight(model, value)
        averaged.update_parameters(model)
    assert averaged.module.weight.item() == pytest.approx(0.75 * (0.75 * 1 + 0.25 * 5) + 0.25 * 2)
    with pytest.raises(ValueError, match="between 0 and 1"):
        swa_utils.get_ema_avg_fn(2.0)
    with pytest.raises(ValueError, match="not both"):
        swa_utils.AveragedModel(model, avg_fn=fn, multi_avg_fn=fn)


def test_buffers_are_copied_or_averaged():
    model = nn.BatchNorm1d(1)
    copied, averaged = swa_utils.AveragedModel(model), swa_utils.AveragedModel(model, use_buffers=True)
    for mean in (1.0, 3.0):
        model.running_mean.fill_(mean)
        copied.update_parameters(model)
        averaged.update_parameters(model)
    assert copied.module.running_mean.item() == 3.0
    assert averaged.module.running_mean.item() == 2.0


def test_an_average_of_a_flat_model_does_not_share_its_memory():
    model = nn.Linear(2, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.5)
    model(ex.ones(1, 2)).sum().backward()
    optimizer.step()
    averaged = swa_utils.AveragedModel(model)
    averaged.update_parameters(model)
    before = averaged.module.weight.detach().clone()
    optimizer.step()
    assert ex.equal(averaged.module.weight.detach(), before)


def test_statistics_are_those_of_all_data():
    model = nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 1))
    model.eval()
    batches = [(ex.tensor([[1.0], [3.0]]), "label"), [ex.tensor([[5.0], [7.0]])]]
    swa_utils.update_bn(batches, model)
    assert model[0].running_mean.item() == 4.0
    assert model[0].momentum == 0.1
    assert not model.training
    swa_utils.update_bn(batches, nn.Linear(1, 1))


def test_the_rate_goes_to_its_goal_and_stays():
    optimizer = optim.SGD([ex.ones(1, requires_grad=True)], lr=1.0)
    schedule = swa_utils.SWALR(optimizer, 0.2, anneal_epochs=4, anneal_strategy="linear")
    found = []
    for _ in range(6):
        optimizer.step()
        schedule.step()
        found.append(schedule.get_last_lr()[0])
    assert found == pytest.approx([0.8, 0.6, 0.4, 0.2, 0.2, 0.2])
    for options in ({"anneal_strategy": "square"}, {"anneal_epochs": -1}):
        with pytest.raises(ValueError, match="SWALR"):
            swa_utils.SWALR(optimizer, 0.2, **options)
