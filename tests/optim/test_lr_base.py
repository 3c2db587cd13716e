"""What learning-rate schedules share."""

from __future__ import annotations

import pickle

import pytest

from extempo.optim import lr_scheduler as schedules

from .schedules import rates, sgd


def test_groups_have_rates_of_their_own():
    optimizer = sgd(n_groups=2)
    optimizer.param_groups[1]["lr"] = 10.0
    schedule = schedules.ExponentialLR(optimizer, 0.5)
    rates(schedule, 2)
    assert schedule.get_last_lr() == [0.25, 2.5]
    with pytest.raises(ValueError, match="3 values for 2 parameter groups"):
        schedules.LambdaLR(optimizer, [lambda t: 1.0] * 3)


def test_stepping_before_the_optimizer_warns():
    schedule = schedules.StepLR(sgd(), 1)
    with pytest.warns(UserWarning, match=r"optimizer.step\(\) first"):
        schedule.step()


def test_asking_for_the_rate_outside_a_step_warns():
    with pytest.warns(UserWarning, match="get_last_lr"):
        schedules.StepLR(sgd(), 1).get_lr()


def test_continuing_needs_the_initial_rate():
    with pytest.raises(KeyError, match="initial_lr"):
        schedules.StepLR(sgd(), 3, last_epoch=5)
    optimizer = sgd(lr=0.25)
    optimizer.param_groups[0]["initial_lr"] = 1.0
    schedule = schedules.StepLR(optimizer, 3, 0.5, last_epoch=5)
    assert schedule.last_epoch == 6
    assert schedule.get_last_lr() == [0.125]


def test_a_schedule_pickles_with_its_optimizer():
    schedule = schedules.StepLR(sgd(), 2, 0.5)
    rates(schedule, 3)
    other = pickle.loads(pickle.dumps(schedule))
    assert rates(other, 4) == rates(schedule, 4)
