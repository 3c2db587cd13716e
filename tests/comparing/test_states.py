"""What a step changes: found, kept and put back."""

from __future__ import annotations

import functools

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.comparing.states import State, find_state

from .steps import shared


def uses_a_global(x):
    return shared(x).step_count


def test_state_is_found_in_closures_globals_attributes_and_arguments():
    inner, optimizer = nn.Linear(2, 2), optim.SGD([ex.ones(1, requires_grad=True)], lr=0.1)

    class Holder:
        def __init__(self):
            self.parts = {"model": [inner]}

        def step(self, x):
            return self.parts["model"][0](x)

    def closing(x):
        optimizer.step()
        return uses_a_global(x)

    weight = ex.ones(2, requires_grad=True)
    assert find_state(uses_a_global) == [shared]
    assert find_state(Holder().step) == [inner]
    assert find_state(closing) == [optimizer, shared]
    assert find_state(functools.partial(lambda w, x: w * x, weight))[0] is weight
    assert find_state(inner) == [inner]


def test_a_step_without_state_has_to_be_told():
    with pytest.raises(ex.errors.UnsupportedError, match=r"state=\[model, optimizer\]"):
        ex.compare(lambda x: x.sum(), [ex.ones(2)])


def test_a_model_that_changes_its_shape_cannot_be_put_back():
    model = nn.Linear(2, 2)
    state = State([model])
    kept = state.take()
    model.weight = nn.Parameter(ex.ones(3, 2))
    with pytest.raises(ex.errors.UnsupportedError, match="which parameters there are"):
        state.put(kept)
