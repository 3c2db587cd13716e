"""Schedules made of schedules, and the one that watches a metric."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.errors import ArgumentError, DtypeError
from extempo.optim import lr_scheduler as schedules

from .schedules import rates, sgd


def test_a_plateau_lowers_the_rate_after_patience_and_not_below_the_minimum():
    schedule = schedules.ReduceLROnPlateau(sgd(), factor=0.1, patience=1, min_lr=0.05, cooldown=1)
    found = []
    for metric in [1.0, 0.5, 0.5, ex.tensor(0.5), 0.5, 0.5, 0.5, 0.4]:
        schedule.step(metric)
        found.append(schedule.get_last_lr()[0])
    assert found == pytest.approx([1.0, 1.0, 1.0, 0.1, 0.1, 0.1, 0.05, 0.05])
    assert schedule.best == pytest.approx(0.4)
    state = schedule.state_dict()
    other = schedules.ReduceLROnPlateau(sgd())
    other.load_state_dict(state)
    assert (other.best, other.factor, other.patience) == (schedule.best, 0.1, 1)


def test_a_sequence_changes_at_its_milestones():
    optimizer = sgd()
    parts = [schedules.ConstantLR(optimizer, 0.5, total_iters=9), schedules.ExponentialLR(optimizer, 0.5)]
    schedule = schedules.SequentialLR(optimizer, parts, milestones=[2])
    assert rates(schedule, 4) == pytest.approx([0.5, 0.5, 1.0, 0.5])


def test_chained_schedules_all_act():
    optimizer = sgd()
    parts = [schedules.ExponentialLR(optimizer, 0.5), schedules.StepLR(optimizer, 1, gamma=0.1)]
    assert rates(schedules.ChainedScheduler(parts), 3) == pytest.approx([1.0, 0.05, 0.0025])


def test_parts_that_cannot_be_combined_are_named():
    optimizer = sgd()
    decay = schedules.ExponentialLR(optimizer, 0.5)
    with pytest.raises(ArgumentError, match=r"schedulers\[1\] belongs to another optimizer"):
        schedules.ChainedScheduler([decay, schedules.ExponentialLR(sgd(), 0.5)])
    with pytest.raises(ArgumentError, match="ReduceLROnPlateau, whose step needs a metric"):
        schedules.SequentialLR(optimizer, [decay, schedules.ReduceLROnPlateau(optimizer)], milestones=[1])
    with pytest.raises(DtypeError, match=r"schedulers\[1\] is a float, not a scheduler"):
        schedules.SequentialLR(optimizer, [decay, 0.5], milestones=[1])
    with pytest.raises(ArgumentError, match="at least one scheduler"):
        schedules.ChainedScheduler([])
