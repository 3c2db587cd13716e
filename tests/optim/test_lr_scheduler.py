"""Schedules: closed forms, chains, checkpoints, and what they say when used wrongly."""

from __future__ import annotations

import copy
import inspect
import math

import pytest

import extempo as ex
from extempo.optim import lr_scheduler as schedules

from .schedules import rates, sgd

CLOSED_FORMS = {
    "LambdaLR": (lambda o: schedules.LambdaLR(o, lambda t: 1 / (1 + t)), lambda t: 1 / (1 + t)),
    "MultiplicativeLR": (lambda o: schedules.MultiplicativeLR(o, lambda t: 0.9), lambda t: 0.9**t),
    "StepLR": (lambda o: schedules.StepLR(o, 3, 0.5), lambda t: 0.5 ** (t // 3)),
    "MultiStepLR": (
        lambda o: schedules.MultiStepLR(o, [2, 5, 5], 0.5),
        lambda t: 0.5 ** ((t >= 2) + 2 * (t >= 5)),
    ),
    "ConstantLR": (lambda o: schedules.ConstantLR(o, 0.25, 4), lambda t: 0.25 if t < 4 else 1.0),
    "LinearLR": (lambda o: schedules.LinearLR(o, 0.2, 0.8, 6), lambda t: 0.2 + 0.6 * min(t, 6) / 6),
    "ExponentialLR": (lambda o: schedules.ExponentialLR(o, 0.8), lambda t: 0.8**t),
    "PolynomialLR": (lambda o: schedules.PolynomialLR(o, 7, 2.0), lambda t: (1 - min(t, 7) / 7) ** 2),
    "CosineAnnealingLR": (
        lambda o: schedules.CosineAnnealingLR(o, 5, 0.1),
        lambda t: 0.1 + 0.9 * (1 + math.cos(math.pi * t / 5)) / 2,
    ),
    "CosineAnnealingWarmRestarts": (
        lambda o: schedules.CosineAnnealingWarmRestarts(o, 4),
        lambda t: (1 + math.cos(math.pi * (t % 4) / 4)) / 2,
    ),
    "CyclicLR": (
        lambda o: schedules.CyclicLR(o, 0.0, 1.0, 4, cycle_momentum=False),
        lambda t: 1 - abs((t % 8) / 4 - 1),
    ),
    "OneCycleLR": (
        lambda o: schedules.OneCycleLR(
            o, 1.0, total_steps=21, pct_start=0.5, anneal_strategy="linear", cycle_momentum=False, div_factor=10.0
        ),
        lambda t: 0.1 + 0.9 * t / 9.5 if t <= 9.5 else 1.0 + (1e-5 - 1.0) * (t - 9.5) / 10.5,
    ),
    "ChainedScheduler": (
        lambda o: schedules.ChainedScheduler([schedules.ConstantLR(o, 0.5, 3), schedules.ExponentialLR(o, 0.9)]),
        lambda t: (0.5 if t < 3 else 1.0) * 0.9**t,
    ),
    "SequentialLR": (
        lambda o: schedules.SequentialLR(
            o, [schedules.LinearLR(o, 0.1, total_iters=4), schedules.ExponentialLR(o, 0.9)], [4]
        ),
        lambda t: 0.1 + 0.9 * t / 4 if t < 4 else 0.9 ** (t - 4),
    ),
}
every_schedule = pytest.mark.parametrize("name", list(CLOSED_FORMS))


@every_schedule
def test_rates_follow_the_closed_form(name):
    make, closed_form = CLOSED_FORMS[name]
    assert rates(make(sgd()), 20) == pytest.approx([closed_form(t) for t in range(20)])


def test_every_schedule_is_tested():
    listed = {n for n in schedules.__all__ if inspect.isclass(getattr(schedules, n))}
    assert listed - set(CLOSED_FORMS) == {"LRScheduler", "ReduceLROnPlateau"}


@every_schedule
def test_a_schedule_goes_on_from_its_checkpoint(name):
    make, closed_form = CLOSED_FORMS[name]
    schedule = make(sgd())
    rates(schedule, 6)
    state, optimizer_state = copy.deepcopy((schedule.state_dict(), schedule.optimizer.state_dict()))
    assert "optimizer" not in state
    restored = make(sgd())
    restored.load_state_dict(state)
    restored.optimizer.load_state_dict(optimizer_state)
    assert rates(restored, 10) == pytest.approx([closed_form(t) for t in range(6, 16)])


@every_schedule
def test_a_tensor_rate_stays_the_same_tensor(name):
    make, closed_form = CLOSED_FORMS[name]
    lr = ex.tensor(1.0, dtype=ex.float64)
    schedule = make(sgd(lr))
    found = [float(r) for r in (schedule.get_last_lr()[0],)]
    for _ in range(5):
        schedule.optimizer.step()
        schedule.step()
        found.append(lr.item())
    assert schedule.optimizer.param_groups[0]["lr"] is lr
    assert found == pytest.approx([closed_form(t) for t in range(6)])


@pytest.mark.filterwarnings("ignore:scheduler.step")
@pytest.mark.parametrize("name", ["StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR", "PolynomialLR"])
def test_a_schedule_can_jump_to_an_epoch(name):
    make, closed_form = CLOSED_FORMS[name]
    schedule = make(sgd())
    schedule.optimizer.step()
    schedule.step(9)
    assert schedule.get_last_lr() == pytest.approx([closed_form(9)])


def test_wrong_options_are_refused():
    o = sgd()
    for make in (
        lambda: schedules.ConstantLR(o, 1.5),
        lambda: schedules.LinearLR(o, 0.0),
        lambda: schedules.LinearLR(o, 0.5, 2.0),
        lambda: schedules.CosineAnnealingWarmRestarts(o, 0),
        lambda: schedules.CosineAnnealingWarmRestarts(o, 3, 1.5),
        lambda: schedules.OneCycleLR(o, 1.0),
        lambda: schedules.OneCycleLR(o, 1.0, total_steps=-1),
        lambda: schedules.OneCycleLR(o, 1.0, total_steps=5, pct_start=2.0),
        lambda: schedules.OneCycleLR(o, 1.0, total_steps=5, anneal_strategy="square"),
        lambda: schedules.CyclicLR(o, 0.0, 1.0, mode="square"),
        lambda: schedules.ReduceLROnPlateau(o, factor=1.0),
        lambda: schedules.ReduceLROnPlateau(o, "least"),
        lambda: schedules.SequentialLR(o, [schedules.StepLR(o, 1)], [3]),
        lambda: schedules.ChainedScheduler([]),
        lambda: schedules.ChainedScheduler([schedules.ReduceLROnPlateau(o)]),
        lambda: schedules.ChainedScheduler([schedules.StepLR(o, 1), schedules.StepLR(sgd(), 1)]),
    ):
        with pytest.raises(ValueError, match=r"LR|Scheduler|Restarts"):
            make()
    for make in (lambda: schedules.StepLR("adam", 1), lambda: schedules.MultiplicativeLR(o, 0.5)):
        with pytest.raises(TypeError):
            make()
