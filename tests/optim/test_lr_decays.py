"""Schedules that go one way."""

from __future__ import annotations

import pytest

from extempo.errors import ArgumentError, DtypeError
from extempo.optim import lr_scheduler as schedules

from .schedules import rates, sgd


def test_callable_objects_are_saved_by_their_attributes():
    class Decay:
        def __init__(self, base):
            self.base = base

        def __call__(self, epoch):
            return self.base**epoch

    state = schedules.LambdaLR(sgd(), Decay(0.5)).state_dict()
    other = schedules.LambdaLR(sgd(), Decay(0.9))
    other.load_state_dict(state)
    assert rates(other, 3) == pytest.approx([1.0, 0.5, 0.25])


def test_milestones_that_stand_twice_count_twice():
    assert rates(schedules.MultiStepLR(sgd(), [1, 2, 2], gamma=0.5), 4) == pytest.approx([1.0, 0.5, 0.125, 0.125])


def test_a_polynomial_ends_at_zero_and_stays_there():
    assert rates(schedules.PolynomialLR(sgd(), total_iters=2, power=2.0), 5) == pytest.approx([1, 0.25, 0, 0, 0])


def test_a_cosine_goes_down_and_up_again():
    assert rates(schedules.CosineAnnealingLR(sgd(), T_max=2, eta_min=0.5), 5) == pytest.approx([1, 0.75, 0.5, 0.75, 1])


def test_factors_outside_of_their_range_are_refused():
    with pytest.raises(ArgumentError, match="start_factor must be above 0"):
        schedules.LinearLR(sgd(), start_factor=0.0)
    with pytest.raises(ArgumentError, match="factor must lie between 0 and 1"):
        schedules.ConstantLR(sgd(), factor=1.5)
    with pytest.raises(DtypeError, match="LambdaLR: lr_lambda must be a function"):
        schedules.LambdaLR(sgd(), 0.5)
