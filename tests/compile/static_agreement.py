"""What the tests of static functions share."""

from __future__ import annotations

import functools
import itertools

import extempo as ex
from extempo import nn, tape
from extempo.modes import MODE

from .agreement import observe

CALLS = 6
static = functools.partial(ex.compile, static=True)


def agree(scenario, *args):
    """A static function shows what eager shows; how often its body ran is for the scenario to count."""
    expected = observe(scenario, lambda fn: fn, *args)
    found = observe(scenario, static, *args)
    for i, (a, b) in enumerate(zip(expected, found, strict=True)):
        assert b == a, f"observation {i} differs"
    assert not tape.ACTIVE.recordings
    assert MODE.get().recording is None
    assert MODE.get().interceptor is None
    assert ex.is_grad_enabled()


def mlp(*sizes, **options):
    layers = []
    for n, m in itertools.pairwise(sizes):
        layers += [nn.Linear(n, m), nn.ReLU(**options)]
    return nn.Sequential(*layers[:-1])


def state(model):
    return {name: t.detach().clone() for name, t in model.state_dict().items()}
