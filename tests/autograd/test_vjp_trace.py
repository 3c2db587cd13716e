"""An op's vjp run on symbols: what it reads, what it computes, and the types in which it hands out gradients."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.autograd.vjp_trace import VjpTrace, input_kind, keeps_dtype
from extempo.backends.numpy.straight_line import numbers_only
from extempo.core.graph import Leaf
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType

MATRIX, ROW = TensorType((3, 4), ex.float32), TensorType((4,), ex.float32)


def test_gradients_come_in_the_types_of_their_inputs():
    trace = VjpTrace(REGISTRY["mul"], (MATRIX, ROW), {}, MATRIX, (1, 2), (0, 1))
    assert [(i, value._type) for i, value in trace.gradients] == [(0, MATRIX), (1, ROW)]
    names = [node.op.name for node in trace.graph if node.op is not Leaf]
    assert names == ["mul", "mul", "sum"]  # the row was broadcast, so its gradient is summed


def test_only_needed_gradients_are_in_the_graph():
    product = TensorType((2, 4), ex.float32)
    trace = VjpTrace(REGISTRY["matmul"], (TensorType((2, 3), ex.float32), MATRIX), {}, product, (2,), (0,))
    assert [i for i, _ in trace.gradients] == [0]
    g, b = trace.arguments((2,))
    assert (g.type, b.type) == (product, MATRIX)
    assert trace.graph.nodes[-1].inputs[0] is g


def test_a_vjp_that_reads_more_than_it_says_fails():
    with pytest.raises((TypeError, AttributeError)):
        VjpTrace(REGISTRY["softmax"], (MATRIX,), {"dim": 1}, MATRIX, (), (0,))


def test_of_several_results_those_without_a_gradient_get_zeros():
    square = TensorType((3, 3), ex.float32)
    op = REGISTRY["qr"]
    trace = VjpTrace(op, (square,), {"mode": "reduced"}, (square, square), (0,), (0,), (False, True))
    assert (trace.cotangents, trace.zeros) == ((1,), (0,))
    assert tuple(trace.reads) == (-1, -2)  # each result by itself
    assert len(trace.arguments(trace.reads)) == 4
    assert [value._type for _, value in trace.gradients] == [square]


def test_numbers_are_weak_symbols():
    trace = VjpTrace(REGISTRY["mul"], (MATRIX, float), {}, MATRIX, (1,), (0,))
    assert trace.numbers == (1,)
    g, _, number = trace.arguments((1,))
    assert number.type is float
    weak = numbers_only(trace.graph)
    assert input_kind(number, weak) is float
    assert input_kind(g, weak) == MATRIX
    assert input_kind(2, weak) is int


@pytest.mark.parametrize(
    ("result", "kinds", "expected"),
    [
        (MATRIX, (MATRIX, float), True),
        (MATRIX, (MATRIX, TensorType((), ex.bool)), True),
        (MATRIX, (MATRIX, TensorType((), ex.int64)), False),
        (TensorType((3,), ex.float16), (TensorType((3,), ex.float16),), False),
    ],
)
def test_one_kernel_computes_a_gradient_where_nothing_is_rounded_on_the_way(result, kinds, expected):
    assert keeps_dtype(result, kinds) is expected
