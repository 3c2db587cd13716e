"""The tracer of graphs: types go in, nodes come out, and nothing is computed."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.core.graph_interpreter import Interpreter
from extempo.core.types import TensorType, float32
from extempo.dispatch.graph_tracer import trace_graph
from extempo.errors import GraphError


def program(x, w):
    return ex.tanh(x @ w * 2.0 + 1).sum(0)[1:]


def test_a_recording_computes_nothing_and_replays_to_the_same_values():
    types = [TensorType((2, 3), float32), TensorType((3, 4), float32)]
    graph, recorder, _ = trace_graph(program, types)
    graph.verify()
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=t.shape).astype("f4") for t in types]
    (replayed,) = Interpreter(graph).run(dict(zip(graph.inputs, arrays, strict=True)))
    eager = program(*map(ex.tensor, arrays)).numpy()
    # A plan runs NumPy's kernels; native ones may round the product and tanh differently, by 1 ulp each.
    np.testing.assert_allclose(replayed, eager, rtol=0.0 if ex.backends.stats()["backend"] == "numpy" else 5e-7)
    assert recorder.captured == {}


def test_a_value_read_while_recording_is_an_error():
    with pytest.raises(GraphError, match="value was read"):
        trace_graph(lambda x: x if x.sum().item() > 0 else -x, [TensorType((2,), float32)])
