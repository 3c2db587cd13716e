"""Schedules: closed forms, chains, checkpoints, and what they say when used wrongly."""

from __future__ import annotations

import copy
import inspect
import math
import pickle

import pytest

import extempo as ex
from extempo import optim
from extempo.optim import lr_scheduler as schedules


def sgd(lr=1.0, n_groups=1, **options):
    return optim.SGD([{"params": [ex.ones(1, requires_grad=True)]} for _ in range(n_groups)], lr=lr, **options)


def rates(schedule, n_steps):
    """The rate that each step is taken with."""
    found = []
    for _ in range(n_steps):
        found.append(schedule.optimizer.param_groups[0]["lr"])
        schedule.optimizer.step()
        schedule.step()
    return found


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


def test_continuing_needs_the_initial_rate():
    with pytest.raises(KeyError, match="initial_lr"):
        schedules.StepLR(sgd(), 3, last_epoch=5)
    optimizer = sgd(lr=0.25)
    optimizer.param_groups[0]["initial_lr"] = 1.0
    schedule = schedules.StepLR(optimizer, 3, 0.5, last_epoch=5)
    assert schedule.last_epoch == 6
    assert schedule.get_last_lr() == [0.125]


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


def test_a_schedule_pickles_with_its_optimizer():
    schedule = schedules.StepLR(sgd(), 2, 0.5)
    rates(schedule, 3)
    other = pickle.loads(pickle.dumps(schedule))
    assert rates(other, 4) == rates(schedule, 4)
