"""What the tests of static functions share."""

from __future__ import annotations

import contextlib
import functools
import itertools
from unittest import mock

import extempo as ex
from extempo import nn
from extempo.core import active_traces
from extempo.core.context import CONTEXT
from extempo.tracing.static.static_function import Script

from ..agreement import observe

CALLS = 6
static = functools.partial(ex.compile, static=True)


WAYS = {"by plans": [0], "op by op": [1], "in turns": [0, 1]}


@contextlib.contextmanager
def going(way):
    """Inside, the calls of functions that are recorded there are done in this way: a key of WAYS."""

    def chosen(script, *ways):
        turns = itertools.cycle(WAYS[way])
        return lambda *args: ways[next(turns)](*args)

    with mock.patch.object(Script, "_chosen", chosen):
        yield


def agree(scenario, *args):
    """A static function shows what eager shows; how often its body ran is for the scenario to count."""
    expected = observe(scenario, lambda fn: fn, *args)
    for way in WAYS:
        with going(way):
            found = observe(scenario, static, *args)
        for i, (a, b) in enumerate(zip(expected, found, strict=True)):
            assert b == a, f"{way}: observation {i} differs"
        assert not active_traces.ACTIVE.recordings
        assert CONTEXT.get().recording is None
        assert CONTEXT.get().interceptor is None
        assert ex.is_grad_enabled()


def mlp(*sizes, **options):
    layers = []
    for n, m in itertools.pairwise(sizes):
        layers += [nn.Linear(n, m), nn.ReLU(**options)]
    return nn.Sequential(*layers[:-1])


def state(model):
    return {name: t.detach().clone() for name, t in model.state_dict().items()}
