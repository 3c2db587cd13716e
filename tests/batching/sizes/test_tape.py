"""Gradients of forms that run by ordinary ops."""

from __future__ import annotations

import numpy as np

import extempo as ex
from extempo.batching.sizes.tape import TapeRunner, elements, on_tape, recorded


def test_gradients_go_through_the_graph_that_a_forward_left():
    weight = ex.tensor([2.0, 3.0], requires_grad=True)
    x, y = (on_tape(np.full(n, 1.0, np.float32), True) for n in (2, 3))
    made = recorded(True, lambda: [x * weight, y * 5.0])
    runner = TapeRunner([weight, ex.ones(1)])
    g = np.array([1.0, 10.0, 1.0, 1.0, 2.0], np.float32)
    (of_inputs,), left = runner.backward(([made], [[x, y]]), [g])
    assert of_inputs.tolist() == [2.0, 30.0, 5.0, 5.0, 10.0]
    ((found, total),) = runner.finish([left, [], left])
    assert found is weight
    assert total.tolist() == [2.0, 20.0]


def test_what_no_gradient_reaches_has_none_or_zeros():
    x, y = (on_tape(np.ones(2, np.float32), True) for _ in range(2))
    made = recorded(True, lambda: [x * 2.0])
    runner = TapeRunner()
    found, left = runner.backward(([made], [[x, y], [y], None]), [np.ones(2, np.float32)])
    assert found[0].tolist() == [2.0, 2.0, 0.0, 0.0]
    assert found[1:] == [None, None]
    assert runner.backward(([made], [[x]]), [None]) == ([None], [])
    assert runner.finish([left]) == []


def test_nothing_is_recorded_where_no_gradient_is_wanted():
    x = on_tape(np.ones(2, np.float32), True)
    assert not recorded(False, lambda: x * 2.0).requires_grad
    assert elements((x * 2.0).reshape(2, 1), x.dtype).tolist() == [2.0, 2.0]
