"""Fast ops: prepared by their first call, native from then on, and left alone where native code knows nothing."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.backends import selection
from extempo.backends.entry_points import FAST_OP, python_defaults
from extempo.core.op import REGISTRY
from extempo.dispatch import fast_path
from extempo.dispatch.fast_path import FastOp, is_plain, native_call, runner1, runner2
from extempo.ops.define import deliver

natively = pytest.mark.skipif(selection.native() is None, reason="the native backend does not run here")


@pytest.fixture
def slow_calls(monkeypatch):
    """What goes the slow way, by the names of ops."""
    calls, slow = [], FastOp._slow

    def noted(self, *inputs):
        calls.append(self.op.name)
        return slow(self, *inputs)

    monkeypatch.setattr(FastOp, "_slow", noted)
    before = len(FAST_OP.bindings)
    yield calls
    del FAST_OP.bindings[before:]


@natively
def test_the_first_call_prepares_what_later_ones_need(slow_calls):
    mul = FastOp(REGISTRY["mul"], 2)
    x, y = ex.ones(3), ex.ones(3)
    for _ in range(3):
        mul.run(x, y)
    assert slow_calls == ["mul"]
    for _ in range(3):
        mul.run(x, 2.0)  # another kernel
    assert slow_calls == ["mul"] * 2
    x.requires_grad_()
    for _ in range(3):
        mul.run(x, y)  # with a gradient
    assert slow_calls == ["mul"] * 3


@natively
def test_shapes_that_broadcast_are_learnt_without_running_the_op_slowly(slow_calls):
    add = FastOp(REGISTRY["add"], 2)
    add.run(ex.ones(2, 3), ex.ones(2, 3))
    for _ in range(3):
        assert add.run(ex.ones(2, 1), ex.ones(3)).shape == (2, 3)
    assert slow_calls == ["add"] * 2
    with pytest.raises(ex.errors.ShapeError, match="add"):
        add.run(ex.ones(2), ex.ones(3))


@natively
def test_types_that_were_learnt_are_bounded(slow_calls, monkeypatch):
    monkeypatch.setattr(fast_path, "_MOST_TYPES", 4)
    add = FastOp(REGISTRY["add"], 2)
    add.run(ex.ones(1), ex.ones(1))
    for n in range(2, 12):
        assert add.run(ex.ones(n, 1), ex.ones(n)).shape == (n, n)
    assert 0 < len(add.launch.types) <= 4


@natively
def test_other_dtypes_go_the_slow_way_every_time(slow_calls):
    add = FastOp(REGISTRY["add"], 2)
    for _ in range(3):
        assert add.run(ex.ones(2, dtype=ex.float16), 1).dtype is ex.float16
    assert len(slow_calls) == 3


def test_what_is_no_operand_is_not_implemented_for_two_and_an_error_for_one():
    assert runner2(REGISTRY["add"])(ex.ones(2), "text") is NotImplemented
    with pytest.raises(ex.errors.DtypeError, match="exp"):
        runner1(REGISTRY["exp"], deliver)("text")


def test_a_result_can_be_delivered_elsewhere():
    out = ex.zeros(2)
    run = runner1(REGISTRY["exp"], lambda result, out, input: out.copy_(result))
    assert run(ex.zeros(2), out=out) is out
    assert out.tolist() == [1.0, 1.0]


@natively
def test_a_native_call_is_found_where_there_is_one():
    ex.ones(1) + 1
    assert native_call(REGISTRY["exp"], 1)(ex.zeros(1)).tolist() == [1.0]
    assert native_call(REGISTRY["matmul"], 2) is None
    assert native_call(REGISTRY["exp"], 2) is None


def test_parameters_are_plain_and_other_subclasses_are_not():
    class Own(ex.Tensor):
        pass

    assert is_plain(ex.Tensor)
    assert is_plain(ex.nn.Parameter)
    assert not is_plain(Own)


@natively
def test_without_native_calls_a_fast_op_prepares_all_the_same():
    before = len(FAST_OP.bindings)
    try:
        tanh = FastOp(REGISTRY["tanh"], 1)
        with python_defaults():
            slow = tanh.run(ex.ones(2))
        assert tanh.launch.has_kernel(0, 0)
        assert tanh.run(ex.ones(2)).tolist() == slow.tolist()
    finally:
        del FAST_OP.bindings[before:]
