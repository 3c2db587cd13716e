"""GradScaler: off it passes everything through, on it follows PyTorch's rules."""

from __future__ import annotations

import copy
import io
import math
import pickle
import random

import numpy as np
import pytest

import extempo as ex
from extempo import optim
from extempo.amp import GradScaler
from extempo.errors import ArgumentError, DtypeError, ExtempoError
from extempo.serialization import load, save


def model(*values: float):
    w = ex.tensor(values, requires_grad=True)
    return w, optim.SGD([w], lr=0.5)


def test_off_it_passes_everything_through():
    w, optimizer = model(1.0)
    scaler = GradScaler("cpu", enabled=False)
    loss = w.sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)
    assert scaler.step(optimizer, closure=lambda: 2.5) == 2.5
    scaler.update()
    assert w.item() == 0.5
    assert not scaler.is_enabled()
    assert scaler.get_scale() == 1.0
    assert scaler.state_dict() == {}
    scaler.load_state_dict({})


def test_the_default_device_is_not_there_so_it_is_off_with_a_warning():
    with pytest.warns(UserWarning, match=r"no device 'cuda'; scaling is off\. GradScaler\('cpu'\) scales"):
        scaler = GradScaler()
    assert not scaler.is_enabled()
    assert not GradScaler("cuda", enabled=False).is_enabled()


def test_on_gradients_are_scaled_and_scaled_back():
    w, optimizer = model(1.0)
    scaler = GradScaler("cpu", init_scale=8.0)
    scaler.scale(w.sum()).backward()
    assert w.grad.item() == 8.0
    scaler.unscale_(optimizer)
    assert w.grad.item() == 1.0
    scaler.step(optimizer)
    scaler.update()
    assert w.item() == 0.5


def test_several_outputs_are_scaled_each_and_keep_their_container_and_dtype():
    scaler = GradScaler("cpu", init_scale=4.0)
    one, (two,) = scaler.scale((ex.ones(1), [ex.ones(1, dtype=ex.bfloat16)]))
    assert (one.item(), two.item(), two.dtype) == (4.0, 4.0, ex.bfloat16)
    assert [x.item() for x in scaler.scale(iter([ex.ones(1)]))] == [4.0]
    with pytest.raises(DtypeError, match="expected a tensor or several, got float"):
        scaler.scale(1.0)


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_a_step_with_gradients_that_are_not_finite_is_skipped_and_the_scale_shrinks(bad):
    w, optimizer = model(1.0, 2.0)
    scaler = GradScaler("cpu", init_scale=8.0)
    scaler.scale(w.sum()).backward()
    w.grad[1] = bad
    assert scaler.step(optimizer) is None
    scaler.update()
    assert w.tolist() == [1.0, 2.0]
    assert scaler.get_scale() == 4.0


def test_the_scale_grows_after_enough_good_steps_and_never_to_infinity():
    w, optimizer = model(1.0)
    scaler = GradScaler("cpu", init_scale=2.0**126, growth_interval=2)
    scales = []
    for _ in range(6):
        optimizer.zero_grad()
        scaler.scale(w.sum() * 0.0).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [2.0**126, *[2.0**127] * 5]


def test_calls_out_of_order_say_what_was_expected():
    w, optimizer = model(1.0)
    scaler = GradScaler("cpu", init_scale=2.0)
    with pytest.raises(ExtempoError, match="no optimizer was stepped"):
        scaler.update()
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(ExtempoError, match="unscale_ was called for this optimizer already"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(ExtempoError, match="step was called for this optimizer already"):
        scaler.step(optimizer)
    with pytest.raises(ExtempoError, match="step was called for this optimizer already"):
        scaler.unscale_(optimizer)
    with pytest.raises(ExtempoError, match="closure"):
        scaler.step(optimizer, closure=lambda: 0.0)
    scaler.update()
    with pytest.raises(ArgumentError, match="growth_factor above 1"):
        GradScaler("cpu", growth_factor=1.0)


def test_float16_gradients_are_refused():
    w = ex.ones(1, dtype=ex.float16).requires_grad_()
    optimizer = optim.SGD([w], lr=0.5)
    scaler = GradScaler("cpu")
    w.grad = ex.ones(1, dtype=ex.float16)
    with pytest.raises(DtypeError, match="keep weights in float32"):
        scaler.step(optimizer)


def test_its_state_is_saved_loaded_copied_and_pickled():
    scaler = GradScaler("cpu", init_scale=3.0, growth_factor=1.7, growth_interval=5)
    scaler.set_backoff_factor(0.25)
    file = io.BytesIO()
    save(scaler.state_dict(), file)
    file.seek(0)
    other = GradScaler("cpu")
    other.load_state_dict(load(file))
    for same in (other, copy.deepcopy(scaler), pickle.loads(pickle.dumps(scaler))):
        assert same.state_dict() == scaler.state_dict()
        assert same.get_growth_factor() == 1.7
    with pytest.raises(ExtempoError, match="the state is empty"):
        other.load_state_dict({})
    with pytest.raises(ExtempoError, match=r"lacks _growth_tracker, backoff_factor"):
        other.load_state_dict({"scale": 1.0, "growth_factor": 2.0, "growth_interval": 5})
    other.set_growth_factor(3.0)
    other.set_growth_interval(7)
    other.update(ex.tensor(32.0))
    assert (other.get_growth_factor(), other.get_growth_interval(), other.get_scale()) == (3.0, 7, 32.0)


@pytest.mark.conformance
def test_a_run_with_overflows_follows_pytorchs_step_by_step():
    torch = pytest.importorskip("torch", reason="compares with PyTorch: pip install -e '.[conformance]'")
    settings = {"init_scale": 1000.0, "growth_factor": 1.9, "backoff_factor": 0.3, "growth_interval": 3}
    theirs, ours = torch.amp.GradScaler("cpu", **settings), GradScaler("cpu", **settings)
    start = np.random.default_rng(0).normal(size=5).astype("f4")
    v = torch.tensor(start, requires_grad=True)
    w = ex.tensor(start, requires_grad=True)
    optimizers = torch.optim.SGD([v], lr=0.1, momentum=0.9), optim.SGD([w], lr=0.1, momentum=0.9)
    rng = random.Random(0)
    for _ in range(40):
        factor = rng.choice([1.0, 1.0, 1.0, math.inf])
        for x, scaler, optimizer in ((v, theirs, optimizers[0]), (w, ours, optimizers[1])):
            optimizer.zero_grad()
            scaler.scale((x * x).sum() * factor).backward()
            scaler.step(optimizer)
            scaler.update()
        assert ours.get_scale() == theirs.get_scale()
        assert ours.state_dict() == theirs.state_dict()
        np.testing.assert_allclose(w.detach().numpy(), v.detach().numpy(), rtol=1e-6, atol=1e-6)
    state = theirs.state_dict()
    ours.load_state_dict(state)
    assert ours.state_dict() == state
