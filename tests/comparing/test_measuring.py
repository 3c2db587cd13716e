"""What makes a comparison fair: the same start for every step, nothing of it in the times, all of it put back."""

from __future__ import annotations

import signal

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.comparing import calling
from extempo.comparing.states import State

from .steps import step_of

QUICK = {"steps": 8, "warm_up": 8, "rounds": 3, "progress": False}
pytestmark = pytest.mark.usefixtures("fake_clock")


def batches(seed=5):
    generator = ex.random.Generator().manual_seed(seed)
    drawn = [ex.randn(6, 4, generator=generator) for _ in range(4)]
    return [(x, (x.sum(1) > 0).long()) for x in drawn]


def weights(model):
    return {name: p.detach().numpy().copy() for name, p in model.state_dict().items()}


def assert_same(model, kept):
    for name, value in weights(model).items():
        np.testing.assert_array_equal(value, kept[name])


# The same start


def test_two_steps_that_train_one_model_begin_with_the_same_weights():
    model = nn.Linear(4, 2)
    kept = weights(model)
    found = ex.compare(step_of(model, "a"), batches(), other=step_of(model, "b"), **QUICK)
    assert found["a"].losses == found["b"].losses
    assert found["a"].loss_at_start == found["b"].loss_at_start
    assert found.flags == []
    assert_same(model, kept)


def test_a_second_model_of_the_same_names_begins_with_the_firsts_weights_and_gets_its_own_back():
    first, second = nn.Linear(4, 2), nn.Linear(4, 2)
    kept = weights(second)
    assert not np.array_equal(kept["weight"], weights(first)["weight"])
    found = ex.compare(step_of(first, "a"), batches(), other=step_of(second, "b"), **QUICK)
    assert found["a"].losses == found["b"].losses
    assert found.flags == []
    assert_same(second, kept)


def test_weights_that_cannot_be_copied_and_other_batches_are_noted():
    first, second = nn.Linear(4, 2), nn.Sequential(nn.Linear(4, 2))
    found = ex.compare(step_of(first, "a"), batches(), other=step_of(second, "b"), other_data=batches(seed=6), **QUICK)
    said = str([flag.text for flag in found.flags])
    assert "b begins with other weights than a" in said
    assert "b begins with other batches than a" in said
    assert found.verdict.word != "unfair"


def test_threads_that_one_step_sets_are_its_own_and_are_put_back():
    model = nn.Linear(4, 2)
    plain = step_of(model, "plain")
    n_before = ex.get_num_threads()

    def other(x, y):
        ex.set_num_threads(n_before + 1)
        return plain(x, y)

    found = ex.compare(plain, batches(), other=other, **QUICK)
    assert found.verdict.word == "unfair"
    assert f"plain has {n_before} thread" in found.verdict.reason
    assert ex.get_num_threads() == n_before


def test_a_step_that_does_not_fit_the_batches_is_refused_before_it_runs():
    model = nn.Linear(4, 2)

    def step(x, y, z):
        return model(x)

    with pytest.raises(ex.errors.ShapeError, match="step cannot be called with the first batch, a tuple of 2: missing"):
        ex.compare(step, batches())


def test_a_step_that_trains_nothing_or_returns_no_loss_is_told_so():
    model = nn.Linear(4, 2)

    def looks(x, y):
        model(x)

    text = " ".join(str(ex.compare(looks, batches(), modes=("eager",), **QUICK)).split())
    assert "Note: looks does not train: it changes no parameter." in text
    assert "looks returns no loss" in text
    assert "loss at start" not in text


# Interrupts


@pytest.mark.alone
@pytest.mark.parametrize("n_calls", [1, 3, 9, 20, 40, 60, 80])
def test_an_interrupt_at_any_stage_leaves_everything_as_it_was(n_calls):
    ex.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 2))
    plain = step_of(model)
    kept, drawn = weights(model), ex.get_rng_state()
    left = n_calls

    def step(x, y):
        nonlocal left
        left -= 1
        if not left:
            signal.raise_signal(signal.SIGINT)
        return plain(x, y)

    with pytest.raises(KeyboardInterrupt):
        ex.compare(step, batches(), **QUICK)
    assert_same(model, kept)
    assert ex.equal(ex.get_rng_state(), drawn)
    first = plain(*batches()[0]).item()
    later = [plain(*batch).item() for _ in range(20) for batch in batches()]
    assert later[-1] < first


def test_a_second_interrupt_while_things_are_put_back_does_not_stop_that(monkeypatch):
    model = nn.Linear(4, 2)
    kept = weights(model)
    plain = step_of(model)
    put = State.put
    n_interrupts = 0

    def interrupted(x, y):
        nonlocal n_interrupts
        plain(x, y)
        n_interrupts += 1
        raise KeyboardInterrupt

    def impatient(self, snapshot):
        nonlocal n_interrupts
        if n_interrupts == 1:
            n_interrupts += 1
            raise KeyboardInterrupt
        put(self, snapshot)

    monkeypatch.setattr(State, "put", impatient)
    with pytest.raises(KeyboardInterrupt):
        ex.compare(interrupted, batches(), **QUICK)
    assert n_interrupts == 2
    assert_same(model, kept)


# Progress and memory


def test_every_step_moves_the_bar_and_none_of_that_is_in_the_times(monkeypatch, fake_clock):
    bars = []

    class Counting:
        def __init__(self, title, total, shown):
            self.total, self.n_done, self.titles = total, 0, []
            bars.append(self)

        def say(self, title, total=None):
            self.total = total or self.total
            self.titles.append(title)

        def __enter__(self):
            return self

        def __exit__(self, *raised):
            pass

        def advance(self, n_samples):
            assert n_samples == 6
            self.n_done += 1
            fake_clock.now += 1000

    monkeypatch.setattr(calling, "Bar", Counting)
    found = ex.compare(step_of(nn.Linear(4, 2)), batches(), **QUICK)
    (bar,) = bars
    n_taken_twice = 3 * 8  # steps in the same time, of which all modes have as many as there are
    assert bar.n_done == bar.total - n_taken_twice
    assert bar.titles == [
        *("looking at the first steps", "looking at the graphs"),
        *("warming up eager", "warming up compile", "warming up static"),
        *("timing, round 1 of 3", "timing, round 2 of 3", "timing, round 3 of 3"),
        *("measuring memory of eager", "measuring memory of compile", "measuring memory of static"),
        "training once more, for losses",
    ]
    for f in found.columns:
        assert set(f.step_seconds) == {1.0}
        assert f.warm_up_seconds == 8.0


@pytest.mark.parametrize(("seconds", "n_rounds"), [(0.05, 7), (0.3, 3)])
def test_a_slow_step_is_run_less_often_so_that_half_a_minute_is_enough(fake_clock, seconds, n_rounds):
    step = step_of(nn.Linear(4, 2))

    def slow(x, y):
        fake_clock.now += seconds
        return step(x, y)

    fake_clock.tick = 0.0
    began = fake_clock.now
    many = [(x + i, y) for i in range(15) for x, y in batches()]
    found = ex.compare(slow, many, modes=("eager", "compile"), progress=False)
    assert fake_clock.now - began < 30
    assert found.about["rounds"] == n_rounds
    assert 4 <= found.about["steps"] < 60
    asked = ex.compare(slow, many, modes=("eager",), steps=60, rounds=1, progress=False)
    assert asked.about["steps"] == 60
