"""ex.compare on steps that run: the same start for all, what modes take, leaks, and everything put back."""

from __future__ import annotations

import functools
import random

import numpy as np
import pytest

import extempo as ex
from extempo import nn, optim
from extempo.nn import functional as F

from .steps import QUICK, batches, training


@pytest.mark.usefixtures("fake_clock")
@pytest.mark.parametrize("optimizer", [optim.Adam, functools.partial(optim.SGD, momentum=0.9)])
def test_all_modes_train_the_same_from_the_same_start_in_every_round(optimizer):
    _, _, step = training(optimizer, dropout=0.3)
    found = ex.compare(step, batches(), **QUICK)
    first = found["eager"].losses[0]
    assert len(set(first)) > 4
    assert [f.name for f in found.columns] == ["eager", "compile", "static"]
    for f in found.columns:
        assert f.losses == [first] * 3
        assert f.loss_same_steps == found["eager"].loss_same_steps < f.loss_at_start
    assert found.flags == []
    assert found.verdict.word == "good"


@pytest.mark.usefixtures("fake_clock")
def test_weights_optimizer_gradients_and_random_streams_are_put_back():
    model, optimizer, step = training(dropout=0.3)
    step(*batches()[0])
    (model[0].weight.sum() * 2).backward()
    weights = {name: p.detach().numpy().copy() for name, p in model.state_dict().items()}
    moments = [value["exp_avg"].numpy().copy() for value in optimizer.state_dict()["state"].values()]
    grad, drawn, python = model[0].weight.grad.numpy().copy(), ex.get_rng_state(), random.getstate()
    ex.compare(step, batches(), **QUICK)
    for name, p in model.state_dict().items():
        np.testing.assert_array_equal(p.detach().numpy(), weights[name])
    for value, kept in zip(optimizer.state_dict()["state"].values(), moments, strict=True):
        np.testing.assert_array_equal(value["exp_avg"].numpy(), kept)
    np.testing.assert_array_equal(model[0].weight.grad.numpy(), grad)
    assert model[3].weight.grad is None
    assert ex.equal(ex.get_rng_state(), drawn)
    assert random.getstate() == python


@pytest.mark.usefixtures("fake_clock")
def test_an_optimizer_that_has_made_no_step_has_no_state_afterwards():
    _, optimizer, step = training()
    ex.compare(step, batches(), **QUICK)
    assert optimizer.state_dict()["state"] == {}


@pytest.mark.usefixtures("fake_clock")
def test_everything_is_put_back_when_a_step_raises():
    model, _, step = training()
    before = model[0].weight.detach().numpy().copy()
    n_calls = 0

    def fails_late(x, y):
        nonlocal n_calls
        n_calls += 1
        if n_calls > 12:
            raise ZeroDivisionError
        return step(x, y)

    with pytest.raises(ZeroDivisionError):
        ex.compare(fails_late, batches(), **QUICK)
    np.testing.assert_array_equal(model[0].weight.detach().numpy(), before)


@pytest.mark.usefixtures("fake_clock")
def test_static_is_measured_on_the_batches_that_fit_it():
    _, _, step = training()
    found = ex.compare(step, batches((6, 3, 6, 5)), **QUICK)
    assert found["static"].taken == [True, False, True, False] * 2
    assert found["static"].error.startswith("ShapeError: ")
    assert [row[1] for row in found["static"].seconds] == [None] * 3
    assert found["compile"].takes_all
    assert (found["compile"].flexibility, found["static"].flexibility) == ("High", "Low")
    assert found["compile"].seen(found["compile"].lengths) == 3
    assert (found["compile"].changes_survived, found["static"].changes_survived) == (7, 0)
    assert "static takes 4 of 8 batches" in str(found)


@pytest.mark.usefixtures("fake_clock")
def test_a_step_that_branches_on_a_value_is_beyond_static_and_its_line_is_shown():
    _, _, step = training()

    def branching(x, y):
        loss = step(x, y)
        if loss.item() > 0.5:
            return loss * 2
        return loss

    found = ex.compare(branching, batches(), **QUICK)
    assert found.verdict.word == "dynamic only"
    assert not found["static"].runs
    assert "a value is read" in found["static"].error
    assert "test_calling.py" in found["static"].error
    assert "static cannot run this step" in str(found)


@pytest.mark.usefixtures("fake_clock")
def test_structures_are_counted_by_what_is_computed():
    model = nn.Linear(4, 1)

    def step(x, turns):
        for _ in range(turns):
            x = x.tanh()
        loss = model(x).sum()
        loss.backward()
        return loss

    data = [(ex.ones(2, 4), turns) for turns in (1, 2, 1, 3)]
    found = ex.compare(step, data, modes=("eager",), **QUICK | {"steps": 4})
    assert found["eager"].structures == [0, 1, 0, 2]
    assert found["eager"].lengths == [0, 0, 0, 0]
    assert len(found["eager"].changes) == 3


@pytest.mark.usefixtures("fake_clock")
def test_a_static_function_that_repeats_what_python_decided_once_is_found_out():
    _, _, step = training()
    n_calls = 0

    def alternating(x, y):
        nonlocal n_calls
        n_calls += 1
        return step(x * (1.0 if n_calls % 2 else 3.0), y)

    found = ex.compare(alternating, batches(), **QUICK)
    assert found.verdict.word == "unfair"
    assert "results do not agree" in found.verdict.reason


def test_warm_up_is_reported_apart(fake_clock):
    _, _, step = training()
    n_calls = 0

    def slow_at_first(x, y):
        nonlocal n_calls
        n_calls += 1
        fake_clock.now += 1000.0 if n_calls < 20 else 0.0
        return step(x, y)

    found = ex.compare(slow_at_first, batches(), modes=("eager",), **QUICK | {"warm_up": 16})
    eager = found["eager"]
    assert eager.first_seconds == 1001.0
    assert eager.warm_up_steps == 16
    assert eager.warm_up_seconds > 1000
    assert (eager.median_seconds, eager.p90_seconds, eager.training_seconds) == (1.0, 1.0, 8.0)


def test_two_steps_of_which_one_skips_work(fake_clock):
    ex.manual_seed(0)
    generator = ex.random.Generator().manual_seed(1)
    data = [(x, (x[:, 0] > 0).long()) for x in (ex.randn(32, 4, generator=generator) for _ in range(8))]

    def variant(trains):
        ex.manual_seed(3)
        model = nn.Linear(4, 2)
        optimizer = optim.SGD(model.parameters(), lr=0.5)

        def step(x, y):
            fake_clock.now += 9.0 if trains else 0.0
            loss = F.cross_entropy(model(x), y)
            if trains:
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            return loss

        return step

    full, lazy = variant(True), variant(False)
    full.__name__, lazy.__name__ = "full", "lazy"
    found = ex.compare(full, data, other=lazy, **QUICK)
    assert [f.name for f in found.columns] == ["full", "lazy"]
    assert found["full"].median_seconds == 10 * found["lazy"].median_seconds
    assert found.verdict.word == "overfitted to speed"
    assert found["full"].steps_same_time == 1
    assert found["lazy"].steps_same_time == 8
    assert found["lazy"].loss_same_steps == found["lazy"].loss_at_start


@pytest.mark.usefixtures("fake_clock")
def test_different_models_are_refused():
    _, _, step = training()
    wide = nn.Linear(4, 2)

    def other(x, y):
        loss = F.cross_entropy(wide(x), y)
        loss.backward()
        return loss

    found = ex.compare(step, batches(), other=other, **QUICK)
    assert found.verdict.word == "unfair"
    assert "step has 58 parameters, other 10" in found.verdict.reason


@pytest.mark.usefixtures("fake_clock")
def test_memory_is_that_of_tensors():
    model = nn.Linear(4, 1)

    def step(x):
        wide = model(x) * ex.ones(1, 50_000)
        loss = wide.sum()
        loss.backward()
        return loss

    if ex.backends.stats()["backend"] == "numpy":
        pytest.skip("NumPy does not count")
    found = ex.compare(step, [ex.ones(5, 4)], modes=("eager",), **QUICK)
    assert found["eager"].peak_bytes >= 5 * 50_000 * 4
    assert found["eager"].retained_bytes < 50_000
    assert found["eager"].memory_of == "tensors"


@pytest.mark.usefixtures("fake_clock")
def test_rounds_go_on_until_times_allow_a_verdict(fake_clock):
    _, _, step = training()
    n_calls = 0

    def restless(x, y):
        nonlocal n_calls
        n_calls += 1
        fake_clock.now += (n_calls // 8) % 3 * 1e-3
        return step(x, y)

    fake_clock.tick = 1e-4
    given = QUICK | {"rounds": None, "modes": ("eager", "compile")}
    assert ex.compare(restless, batches(), **given).about["rounds"] > 7
    assert ex.compare(step, batches(), **given).about["rounds"] == 7


@pytest.mark.conformance
@pytest.mark.usefixtures("fake_clock")
def test_a_step_of_pytorch_gets_our_weights_and_batches(request):
    torch = pytest.importorskip("torch", reason="compares with PyTorch: pip install -e '.[conformance]'")
    _, _, step = training()
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    request.addfinalizer(lambda: torch.set_num_threads(n_threads))
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Dropout(0.0), torch.nn.Linear(8, 2))
    before = model[0].weight.detach().clone()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)

    def torch_step(x, y):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    found = ex.compare(step, batches(), torch=torch_step, **QUICK)
    assert [f.name for f in found.columns] == ["eager", "compile", "static", "torch"]
    np.testing.assert_allclose(found["torch"].losses[0], found["eager"].losses[0], rtol=1e-4)
    assert found["torch"].loss_same_steps == pytest.approx(found["eager"].loss_same_steps, rel=1e-3)
    assert torch.equal(model[0].weight.detach(), before)
    assert optimizer.state_dict()["state"] == {}
    assert found["torch"].n_parameters == found["eager"].n_parameters


# What a step uses, and what batches are

step_count = nn.Linear(3, 3)  # its name is an attribute that the step below asks for, not a global that it reads


def test_bad_arguments_are_named():
    _, _, step = training()
    with pytest.raises(ValueError, match="no batches"):
        ex.compare(step, [])
    with pytest.raises(ValueError, match="eager, compile, static; got 'fast'"):
        ex.compare(step, batches(), modes=("fast",))
    with pytest.raises(ValueError, match="at least one round"):
        ex.compare(step, batches(), rounds=0)
    with pytest.raises(ex.errors.DtypeError, match="the step is a int"):
        ex.compare(3, batches())
