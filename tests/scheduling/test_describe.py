"""Instructions in words: what runs, of which steps, and what comes out."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

from extempo.backends.selection import native
from extempo.core.types import TensorType, float32
from extempo.scheduling.describe import Description
from extempo.scheduling.request import Request, plan

from .taping import draw, record

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def test_an_instruction_names_its_step_and_its_results():
    tape, _ = record(lambda x, w: x @ w, [draw(2, 3), draw(3, 4)])
    t = TensorType((2, 4), float32)
    assert Description("run", [t], 0).text(tape.steps) == "run matmul -> f32[2, 4]"
    assert Description("zero", [t]).text(tape.steps) == "zero -> f32[2, 4]"


def test_a_cluster_names_its_nodes_and_what_runs_in_turn_with_it():
    def fn(x):
        return ((x * 2.0).tanh() * x).sum()

    tape, (y,) = record(fn, [draw(200, 300)])
    made = plan(Request(tape.steps, 0, tape.leaves, frozenset(), (tape.place(y),)))
    assert made.describe().splitlines() == ["fused: mul, tanh, mul, sum -> f32[]"]
