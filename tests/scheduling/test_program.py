"""Programs: values with a place in some root's memory, and nodes that make them."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

from extempo.backends.selection import native
from extempo.core.op import REGISTRY
from extempo.core.trace_tree import NUMBER
from extempo.core.types import TensorType, float32
from extempo.scheduling.lowering import lowered_op
from extempo.scheduling.program import CONSTANT, COPY, ELEMENTWISE, ROUTINE, ZERO, PlanProgram

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

T = TensorType((2, 3), float32)
TURNED = TensorType((3, 2), float32)


def test_a_value_from_outside_is_one_value_however_often_it_is_read():
    program = PlanProgram()
    first = program.input(-1, T, None)
    assert program.input(-1, T, None) == first
    assert program.input(-2, T, (4, 8)) != first
    assert program.in_order(first)
    assert not program.in_order(program.inputs[-2])


def test_a_view_of_a_view_lies_in_the_root_and_one_that_changes_nothing_is_none():
    program = PlanProgram()
    root = program.new(T)
    turned = program.view(root, TURNED, (4, 12))
    assert program.view(turned, T, (12, 4)) == root
    assert program.view(turned, TURNED, (4, 12)) == turned
    row = program.view(turned, TensorType((2,), float32), (12,), 4)
    part = program.view(row, TensorType((1,), float32), (12,), 12)
    assert program.roots[part] == root
    assert program.place(part) == ((12,), 16, ())


def test_an_elementwise_result_keeps_the_order_of_its_inputs():
    program = PlanProgram()
    turned = program.view(program.input(-1, T, None), TURNED, (4, 12))
    lowered = lowered_op(REGISTRY["exp"], (TURNED,), {})
    (y,) = program.apply(lowered, (turned,), 0)
    assert program.types[y] == TURNED
    assert program.strides(y) == (4, 12)  # a view of a root of the type of x
    assert program.types[program.roots[y]] == T


def test_a_routine_reads_a_copy_where_it_cannot_read_what_is_there():
    program = PlanProgram()
    x = program.input(-1, TURNED, (4, 12))
    lowered = lowered_op(REGISTRY["softmax"], (TURNED,), {"dim": 1})
    program.apply(lowered, (x,), 0)
    assert [node[0] for node in program.nodes] == [COPY, ROUTINE]
    product = PlanProgram()
    x, w = product.input(-1, T, None), product.input(-2, TURNED, (4, 12))
    product.apply(lowered_op(REGISTRY["matmul"], (T, TURNED), {}), (x, w), 0)
    assert [node[0] for node in product.nodes] == [ROUTINE]  # a product reads transposed weights as they are


def test_what_is_handed_out_twice_or_is_a_part_is_copied():
    program = PlanProgram()
    x = program.input(-1, T, None)
    (y,) = program.apply(lowered_op(REGISTRY["exp"], (T,), {}), (x,), 0)
    assert program.hand_out(y, {x}) == y
    again = program.hand_out(y, {x, y})
    assert again != y
    assert program.nodes[-1][0] == COPY
    row = program.view(y, TensorType((3,), float32), (4,), 12)
    assert program.hand_out(row, set()) not in (row, y)
    turned = program.view(y, TURNED, (4, 12))
    assert program.hand_out(turned, {x}) == y
    assert program.shown[y] == ((3, 2), (4, 12))  # all of it, seen otherwise


def test_equal_numbers_share_a_constant_and_zeros_of_two_signs_do_not():
    program = PlanProgram()
    assert program.constant(2.0) == program.constant(2.0) == CONSTANT
    assert len({program.constant(v) for v in (2.0, 2, 0.0, -0.0)}) == 4
    assert program.constant(2.0) > NUMBER


def test_zeros_and_elementwise_nodes_are_noted_in_order():
    program = PlanProgram()
    zeros = program.zeros(T)
    (y,) = program.apply(lowered_op(REGISTRY["add"], (T, T), {}), (zeros, zeros), 3)
    assert [node[0] for node in program.nodes] == [ZERO, ELEMENTWISE]
    assert program.nodes[1][2:5] == ((zeros, zeros), (y,), 3)
