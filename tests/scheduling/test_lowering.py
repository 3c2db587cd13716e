"""Ops as native code runs them: expressions, bound routines, or a reason why there is neither."""

from __future__ import annotations

from types import NoneType

import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

from extempo.backends.selection import native
from extempo.core.op import REGISTRY
from extempo.core.types import TensorType, float32, int64
from extempo.scheduling.lowering import additions, copy_bound, lowered_op, of_step
from extempo.scheduling.request import Request, Unplannable, plan

from .taping import draw, record

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def test_what_has_no_native_code_is_said_to_have_none():
    tape, (y,) = record(lambda x: x.argsort(0).sum(), [draw(5, 4)])
    made = plan(Request(tape.steps, 0, tape.leaves, frozenset(), (tape.place(y),)))
    assert isinstance(made, Unplannable)
    assert made.reason == "argsort has no native code for f32[5, 4]"


def test_an_elementwise_op_is_an_expression_and_any_other_a_routine():
    t = TensorType((5, 4), float32)
    add, product = (
        lowered_op(REGISTRY["add"], (t, float), {}),
        lowered_op(REGISTRY["matmul"], (t, TensorType((4, 3), float32)), {}),
    )
    assert (add.bound, product.expression) == (None, None)
    assert add.results == (t,)
    assert product.bound.origin[0] is REGISTRY["matmul"]
    assert add.plain


def test_ops_that_refuse_values_and_routines_that_read_integers_may_fail():
    t, rows = TensorType((5, 4), float32), TensorType((3,), int64)
    assert lowered_op(REGISTRY["floor_divide"], (t, t), {}).may_fail
    assert not lowered_op(REGISTRY["mul"], (t, t), {}).may_fail
    assert lowered_op(REGISTRY["embedding"], (t, rows, NoneType), {"by_frequency": False}).may_fail


def test_steps_of_one_signature_share_a_form():
    tape, _ = record(lambda x: x.tanh() + x.tanh(), [draw(5, 4)])
    assert of_step(tape.steps[0]) is of_step(tape.steps[1])


def test_the_additions_of_a_dtype_take_tensors_and_numbers():
    both, with_number = additions(float32)
    assert both.inputs == (float32, float32)
    assert len(with_number.inputs) == 2
    assert additions(float32) is additions(float32)
    assert copy_bound(TensorType((2, 3), float32)).meta
