"""Calls of one kind run op by op: rows in, rows out, gradients by the engine."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.batching.vmap_runner import LoopRunner, VmapRunner
from extempo.core.context import CONTEXT

from .runners import close, kind_of, parameters, x


def test_rows_are_what_each_sample_gives_alone():
    layer = nn.Linear(3, 2)
    runner = VmapRunner(kind_of(layer, [x(3)], parameters(layer)), (False,))
    rows = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    (got,), saved = runner.forward([rows], 4)
    for row, y in zip(rows, got, strict=True):
        close(y, layer(ex.tensor(row)).detach().numpy(), "result")
    g = np.ones((4, 2), np.float32)
    (of_rows,), left = runner.backward(saved, [g])
    close(of_rows, g @ layer.weight.detach().numpy(), "gradient of rows")
    found = dict(zip(("weight", "bias"), [total for _, total in runner.finish([left, left])], strict=True))
    close(found["weight"], 2 * (g.T @ rows), "twice the gradient of the weight")
    assert found["bias"].tolist() == [8.0, 8.0]


def test_a_shared_input_gets_one_gradient():
    runner = VmapRunner(kind_of(lambda a, b: a * b, [x(2), x(2)]), (False, True))
    shared = ex.tensor([2.0, 3.0])
    rows = np.array([[1.0, 2.0], [10.0, 20.0]], np.float32)
    _, saved = runner.forward([rows, shared], 2)
    (of_rows, of_shared), _ = runner.backward(saved, [np.ones((2, 2), np.float32)])
    assert of_rows.tolist() == [[2.0, 3.0], [2.0, 3.0]]
    assert of_shared.tolist() == [11.0, 22.0]


def test_without_seeds_there_are_no_gradients():
    runner = VmapRunner(kind_of(lambda a: a * 2, [x(2)]), (False,))
    _, saved = runner.forward([np.ones((3, 2), np.float32)], 3)
    assert runner.backward(saved, [None]) == ([None], [])
    assert runner.finish([[]]) == []
    assert VmapRunner(kind_of(lambda a: a * 2, [x(2)], grad=False), (False,)).forward([np.ones((1, 2))], 1)[1] is None


def test_the_context_is_what_it_was_after_an_error():
    kind = kind_of(lambda a: a, [x(2)])
    kind.fn = lambda a: {}["missing"]
    before = CONTEXT.get()
    with pytest.raises(KeyError):
        VmapRunner(kind, (False,)).forward([np.ones((1, 2), np.float32)], 1)
    assert CONTEXT.get() is before


def test_draws_are_made_one_call_after_the_other():
    calls = []

    def fn(a, scale):
        calls.append(scale)
        return a * scale

    runner = LoopRunner(kind_of(fn, [x(2), 1.0]), (False, False))
    calls.clear()
    (got,), _ = runner.forward([np.ones((3, 2), np.float32), [1.0, 2.0, 4.0]], 3)
    assert calls == [1.0, 2.0, 4.0]
    assert got.tolist() == [[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]]
