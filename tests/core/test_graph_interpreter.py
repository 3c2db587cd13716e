"""The interpreter of graphs: NumPy's kernels in order, with values dropped after their last use."""

from __future__ import annotations

import numpy as np

import extempo as ex
from extempo.core.graph_interpreter import Interpreter
from extempo.core.types import TensorType, float32
from extempo.dispatch.graph_tracer import trace_graph


def test_a_plan_drops_values_after_their_last_use_and_runs_again():
    graph, _, _ = trace_graph(lambda x: (x.exp() * x).tanh() + x, [TensorType((3,), float32)])
    plan = Interpreter(graph)
    dropped = [slot for i in plan.instructions for slot in i.drops]
    assert len(dropped) == len(set(dropped)) == plan.n_slots - 1
    x = np.array([0.1, 0.2, 0.3], "f4")
    first, second = (plan.run({graph.inputs[0]: x})[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_a_plan_runs_ops_with_several_results():
    graph, _, _ = trace_graph(lambda x: ex.max(x, 1)[0] * 2.0, [TensorType((2, 3), float32)])
    x = np.array([[1, 5, 2], [7, 0, 3]], "f4")
    np.testing.assert_array_equal(Interpreter(graph).run({graph.inputs[0]: x})[0], [10, 14])
