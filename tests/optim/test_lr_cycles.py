"""Schedules that go up and down."""

from __future__ import annotations

import math

import pytest

import extempo as ex
from extempo import optim
from extempo.optim import lr_scheduler as schedules

from .schedules import rates, sgd


def test_warm_restarts_take_fractions_of_epochs():
    schedule = schedules.CosineAnnealingWarmRestarts(sgd(), 2, T_mult=2)
    schedule.step(1.5)
    assert schedule.get_last_lr() == pytest.approx([(1 + math.cos(math.pi * 0.75)) / 2])
    schedule.step(3.0)  # restarted at 2, now a quarter of the way through 4
    assert schedule.get_last_lr() == pytest.approx([(1 + math.cos(math.pi * 0.25)) / 2])
    with pytest.raises(ValueError, match="negative"):
        schedule.step(-1)


def test_a_cycle_moves_momentum_against_the_rate():
    optimizer = sgd(momentum=0.5)
    schedule = schedules.CyclicLR(optimizer, 0.0, 1.0, 2, base_momentum=0.8, max_momentum=0.9)
    group = optimizer.param_groups[0]
    assert group["momentum"] == 0.9
    rates(schedule, 2)
    assert (group["lr"], group["momentum"]) == pytest.approx((1.0, 0.8))
    adam = optim.Adam([ex.ones(1, requires_grad=True)])
    schedule = schedules.OneCycleLR(adam, 1.0, total_steps=10)
    rates(schedule, 2)
    assert adam.param_groups[0]["betas"] == pytest.approx((0.85, 0.999))
    with pytest.raises(NotImplementedError, match="cycle_momentum=False"):
        schedules.CyclicLR(optim.Adagrad([ex.ones(1)]), 0.0, 1.0)


def test_one_cycle_ends():
    schedule = schedules.OneCycleLR(sgd(momentum=0.9), 1.0, total_steps=3)
    rates(schedule, 3)
    with pytest.raises(ValueError, match="larger total_steps"):
        schedule.step()
