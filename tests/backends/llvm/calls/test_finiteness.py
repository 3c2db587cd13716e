"""Whether gradients are finite, and what is freed then: native code beside Python."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.autograd import native_engine
from extempo.backends.entry_points import python_defaults


def both(fn):
    native = fn()
    with python_defaults():
        assert fn() == native
    return native


@pytest.mark.parametrize("d", ["f4", "f8"])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 40])
def test_native_code_finds_what_is_not_finite_wherever_it_stands(d, n):
    values = np.linspace(-1, 1, n).astype(d)
    values[: n // 2] *= np.finfo(d).max
    assert both(lambda: native_engine.all_finite([values, values.reshape(n, 1)])) is True
    for bad in (np.nan, np.inf, -np.inf):
        for i in range(n):
            wrong = values.copy()
            wrong[i] = bad
            assert both(lambda: native_engine.all_finite([values, wrong])) is False  # noqa: B023 - called at once


def test_what_it_does_not_know_is_no_answer():
    for unknown in (np.ones((3, 4), "f4").T, np.ones(3, "f2"), np.ones(3, "i8"), None):
        assert both(lambda: native_engine.all_finite([unknown])) is False  # noqa: B023 - called at once
    assert both(lambda: native_engine.all_finite([])) is True


@pytest.mark.parametrize("slope", [1.0, float("inf")])
def test_nodes_are_freed_if_all_gradients_are_finite(slope):
    def settled():
        w = ex.ones(3, requires_grad=True)
        h = w.exp()
        y = (h * h).sum()
        order = sorted(native_engine.reach([y.grad_fn]), key=lambda node: node.number)
        w.grad = ex.full((3,), slope)
        answer = native_engine.settle(order)
        return answer, [node.saved is None for node in order], [len(node.inputs) for node in order]

    answer, freed, n_inputs = both(settled)
    assert answer is (slope == 1.0)
    assert freed == ([False, True, True, False] if answer else [False] * 4)
    assert n_inputs == ([0, 0, 0, n_inputs[3]] if answer else n_inputs)


def test_gradients_that_are_not_there_do_not_matter():
    w = ex.ones(3, requires_grad=True)
    y = w * w
    assert both(lambda: native_engine.settle([w._own_node()])) is True
    assert y.grad_fn.saved
