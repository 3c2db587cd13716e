"""Figures of a step are those that can be computed by hand."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.profiling.api import profile
from extempo.studio_server.step_figures import gradient_norms, memory_parts, phase_seconds, quietly


@pytest.fixture
def trained():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    optimizer = ex.optim.Adam(model.parameters())
    model(ex.ones(4, 2)).sum().backward()
    optimizer.step()
    return model, optimizer


def test_gradients_are_norms_by_layer(trained):
    model, _ = trained
    found = gradient_norms(model)
    assert list(found) == ["0", "2"]
    by_hand = sum(float((p.grad**2).sum()) for p in model[2].parameters()) ** 0.5
    assert found["2"] == pytest.approx(by_hand, rel=1e-5)


def test_layers_without_gradients_are_left_out(trained):
    model, _ = trained
    model[0].zero_grad()
    assert list(gradient_norms(model)) == ["2"]


def test_memory_has_its_parts(trained):
    model, optimizer = trained
    parts = memory_parts(model, optimizer)
    n_bytes = 4 * (2 * 3 + 3 + 3 + 1)
    assert parts["parameters"] == parts["gradients"] == n_bytes
    assert parts["optimizer"] >= 2 * n_bytes
    assert parts["total"] >= 4 * n_bytes
    assert parts["peak"] >= parts["total"]


def test_phases_add_up_to_the_time_of_a_profile(trained):
    model, optimizer = trained
    with profile(records=1 << 14) as profiled:
        for _ in range(3):
            model(ex.ones(4, 2)).sum().backward()
            optimizer.step()
    phases = phase_seconds(profiled)
    assert {"Python", "recording", "planning", "kernels", "backward", "optimizer"} <= set(phases)
    assert sum(phases.values()) == pytest.approx(profiled.seconds, rel=0.25)
    assert phases["backward"] > 0
    assert phases["optimizer"] > 0


def test_a_figure_that_fails_is_none():
    assert quietly(lambda: 1 / 0) is None
    assert quietly(lambda: 7) == 7
