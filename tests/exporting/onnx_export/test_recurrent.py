"""Recurrent layers as ONNX's operators: packed sequences of different lengths, both directions, states given."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.dispatch.dispatcher import apply
from extempo.ops.recurrence import LstmSequence

from .agreement import Exported, normal


@pytest.mark.parametrize("backwards", [False, True])
def test_sequences_of_different_lengths_one_of_them_empty(backwards):
    rng = np.random.default_rng(0)
    weights = [normal(rng, 8, 3), normal(rng, 8), normal(rng, 8, 2)]

    def layer(rows, h, c, sizes):
        return apply(LstmSequence, (rows, *weights, h, c, sizes), {"backwards": backwards})[:3]

    def draw(steps, n_samples):
        sizes = sorted(rng.integers(1, n_samples, size=steps), reverse=True) if steps else []
        rows = normal(rng, int(sum(sizes)), 3)
        return rows, normal(rng, n_samples, 2), normal(rng, n_samples, 2), ex.tensor(np.array(sizes, np.int64))

    dynamic = [{0: "rows"}, {0: "batch"}, {0: "batch"}, {0: "steps"}]
    exported = Exported(ex.program(layer, draw(4, 5), dynamic=dynamic, check=False))
    assert "LSTM" in exported.kinds()
    for steps, n_samples in ((0, 2), (1, 2), (4, 5), (9, 7)):
        exported.agree(*draw(steps, n_samples))


def test_a_layer_with_states_that_are_given():
    lstm = nn.LSTM(3, 4, batch_first=True).eval()
    rng = np.random.default_rng(0)
    args = normal(rng, 2, 5, 3), (normal(rng, 1, 2, 4), normal(rng, 1, 2, 4))
    exported = Exported(ex.program(lstm, args, dynamic=[{1: "time"}, None]))
    for time in (0, 1, 8):
        exported.agree(normal(rng, 2, time, 3), args[1])


def test_what_only_gradients_read_has_no_form():
    rng = np.random.default_rng(0)
    weights = [normal(rng, 8, 3), None, normal(rng, 8, 2), ex.zeros(2, 2), ex.zeros(2, 2), ex.tensor([2, 1])]
    program = ex.program(lambda x: apply(LstmSequence, (x, *weights), {"backwards": False})[3], ex.ones(3, 3))
    with pytest.raises(ex.errors.ExportError, match="what its gradient reads"):
        Exported(program)
