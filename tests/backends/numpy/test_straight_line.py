"""A graph as straight-line Python: NumPy's results, and numbers that bring no dtype of their own."""

import math

import numpy as np

from extempo.backends.numpy.straight_line import numbers_only, straight_line
from extempo.core.graph import Leaf
from extempo.core.types import TensorType, float32
from extempo.dispatch.graph_tracer import trace_graph
from extempo.nn import functional as F

ROW = TensorType((3,), float32)
X, Y = (np.random.default_rng(seed).normal(size=3).astype(np.float32) for seed in range(2))


def traced(fn, *types):
    graph, _, _ = trace_graph(fn, list(types))
    return graph, [node for node in graph if node.op is Leaf]


def test_kernels_run_one_after_another_and_all_outputs_come_out():
    graph, arguments = traced(lambda x, y: (x * y - 2.0, x.exp()), ROW, ROW)
    first, second = straight_line(graph, arguments)(X, Y)
    np.testing.assert_array_equal(first, X * Y - np.float32(2))
    np.testing.assert_array_equal(second, np.exp(X))


def test_numbers_do_not_widen_the_result():
    graph, arguments = traced(lambda x, scale: F.softplus(x, beta=scale) * 0.1 + scale, ROW, float)
    (y,) = straight_line(graph, arguments)(X, 2.0)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, np.logaddexp(0.0, 2.0 * X) / 2.0 * 0.1 + 2.0, rtol=1e-6)


def test_nodes_made_of_numbers_alone_are_found_and_stay_numbers():
    graph, arguments = traced(lambda x, a, b: x * (a * b + 1.0), ROW, float, float)
    weak = numbers_only(graph)
    assert set(arguments[1:]) <= weak
    assert arguments[0] not in weak
    assert len(weak) == 4
    (y,) = straight_line(graph, arguments)(X, 3.0, 1e-9)
    np.testing.assert_array_equal(y, X * np.float32(3.0 * 1e-9 + 1.0))


def test_infinities_and_nan_among_the_constants_are_written_as_they_are():
    graph, arguments = traced(lambda x: (x * math.inf + math.nan,), ROW)
    with np.errstate(invalid="ignore"):
        assert np.isnan(straight_line(graph, arguments)(X)[0]).all()
