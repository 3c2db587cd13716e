"""The kind of an op call: what calls of one op must share to run as one batch."""

from __future__ import annotations

import gc
import weakref

import extempo as ex
from extempo import nn
from extempo.batching.op_kinds import kind_of
from extempo.ops.arithmetic import Add
from extempo.ops.join import Stack
from extempo.ops.view import Detach, Slice


def kind(op, *inputs, grad=True, **attrs):
    return kind_of(op, inputs, attrs, grad)[0]


def test_calls_on_other_values_are_of_one_kind():
    assert kind(Add, ex.ones(2), ex.ones(2)) is kind(Add, ex.zeros(2), ex.ones(2))
    assert kind(Add, ex.ones(2), ex.ones(2)) is not kind(Add, ex.ones(3), ex.ones(3))
    assert kind(Add, ex.ones(2), 1.5) is kind(Add, ex.ones(2), 2.5)
    assert kind(Add, ex.ones(2), 1.5) is not kind(Add, ex.ones(2), 1)


def test_a_weight_is_part_of_the_kind_and_no_operand():
    x, w = ex.ones(2), nn.Parameter(ex.ones(2))
    found, operands = kind_of(Add, (x, w), {}, True)
    assert found.captured == (w,)
    assert operands == [x]
    assert found.tracked == (True,)
    assert kind(Add, x, w) is found
    assert kind(Add, x, nn.Parameter(ex.ones(2))) is not found
    without = kind(Add, x, w, grad=False)
    assert (without.captured, len(without.inputs), without.tracked) == ((), 2, (False,))


def test_a_kind_goes_with_its_weight():
    w = nn.Parameter(ex.ones(2))
    gone = weakref.ref(kind(Add, ex.ones(2), w))
    assert gone() is not None
    del w
    gc.collect()
    assert gone() is None


def test_the_function_of_a_kind_puts_weights_where_they_were():
    w = nn.Parameter(ex.tensor([1.0, 2.0]))
    found = kind(Add, w, ex.zeros(2))
    (got,) = found.fn(ex.tensor([10.0, 20.0]))
    assert got.tolist() == [11.0, 22.0]


def test_nothing_is_tracked_behind_a_detach():
    tracked = nn.Parameter(ex.ones(2)) * 2
    assert kind(Detach, tracked).tracked == (False,)
    assert kind(Detach, tracked).inputs[0].tracked


def test_numbers_that_say_which_elements_there_are_belong_to_the_kind():
    x = ex.arange(4.0)
    found, operands = kind_of(Slice, (x, 0), {"spec": ((2, 1),)}, True)
    assert operands == [x]
    assert kind(Slice, x, 1, spec=((2, 1),)) is not found
    assert kind(Slice, x, 0, spec=((2, 1),)) is found


def test_a_stack_of_tensors_of_one_type_only_moves_rows():
    x = ex.ones(2)
    assert kind(Stack, x, x, dim=0).stacks
    assert not kind(Stack, x, x, dim=1).stacks
    assert not kind(Stack, x, nn.Parameter(ex.ones(2)), dim=0).stacks
    assert not kind(Stack, ex.ones(0), ex.ones(0), dim=0).stacks
