"""What ops are taken to cost, by their families and sizes."""

from __future__ import annotations

import pytest

import extempo  # noqa: F401 # which registers ops
from extempo.core import costs
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType, float32, float64

ADD, MATMUL, RESHAPE = REGISTRY["add"], REGISTRY["matmul"], REGISTRY["reshape"]


def matrix(m, n, dtype=float32):
    return TensorType((m, n), dtype)


def test_elementwise_work_is_the_bytes_that_are_read_and_written():
    x = matrix(8, 16)
    assert costs.work_of(ADD, (x, x), x) == pytest.approx(3 * 8 * 16 * 4 * costs.BYTE)
    wide = matrix(8, 16, float64)
    assert costs.work_of(ADD, (wide, wide), wide) == pytest.approx(2 * costs.work_of(ADD, (x, x), x))


def test_numbers_have_no_bytes():
    x = matrix(8, 16)
    assert costs.work_of(ADD, (x, float), x) == pytest.approx(2 * 8 * 16 * 4 * costs.BYTE)


def test_the_work_of_a_product_is_its_multiplications():
    seconds = costs.work_of(MATMUL, (matrix(10, 20), matrix(20, 30)), matrix(10, 30))
    assert seconds == pytest.approx(10 * 20 * 30 * costs.MULTIPLICATION)
    assert costs.planned_work(MATMUL, seconds) == seconds  # a plan multiplies as often


def test_several_results_are_all_written():
    x = matrix(4, 4)
    two = costs.work_of(ADD, (x,), (x, x))
    assert two == pytest.approx(3 * 4 * 4 * 4 * costs.BYTE)


def test_nothing_is_done_where_nothing_is():
    empty = matrix(0, 5)
    assert costs.work_of(ADD, (empty, empty), empty) == 0.0
    assert costs.work_of(MATMUL, (empty, matrix(5, 3)), matrix(0, 3)) == 0.0


def test_a_view_has_overhead_and_no_work():
    x = matrix(8, 16)
    assert costs.work_of(RESHAPE, (x,), matrix(16, 8)) == 0.0
    assert costs.overhead_of(RESHAPE, tracked=False) == costs.EAGER_VIEW


def test_a_node_adds_to_an_op_and_elementwise_ops_cost_least():
    for op in (ADD, MATMUL, RESHAPE):
        assert costs.overhead_of(op, tracked=True) == pytest.approx(
            costs.overhead_of(op, tracked=False) + costs.EAGER_NODE
        )
    assert costs.overhead_of(ADD, tracked=False) < costs.overhead_of(MATMUL, tracked=False)
    assert costs.backward_overhead_of(ADD) < costs.backward_overhead_of(MATMUL)


def test_an_op_takes_longer_by_itself_than_in_a_plan_by_more_where_it_is_larger():
    small, large = (costs.replayed_seconds(ADD, (x, x), x) for x in (matrix(1, 1), matrix(1_000, 1_000)))
    assert small == pytest.approx(costs.REPLAYED_OP, rel=1e-3)
    assert large > 2 * small
