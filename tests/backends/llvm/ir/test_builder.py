"""The writer of IR: what the written functions compute, and what it refuses to write."""

import ctypes
import math

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.ir.builder import IRModule, f32, f64, i1, i32, i64, literal, ptr, vector, void
from extempo.backends.llvm.ir.machine import CALLS, KERNEL, RARE, machine

from ..written import compiled


def test_a_loop_adds_up():
    def write(b):
        total = b.var(i64, 0)
        with b.loop(0, b.arg("n")) as i:
            total.set(total.value + i)
        b.ret(total.value)

    add = compiled(write, i64, n=i64)
    assert [add(n) for n in (-3, 0, 1, 10)] == [0, 0, 0, 45]


def test_break_and_continue_belong_to_the_innermost_loop():
    def write(b):
        count = b.var(i64, 0)
        with b.loop(0, 5), b.loop(0, b.arg("n")) as j:
            with b.if_(j == 1):
                b.continue_()
            with b.if_(j == 4):
                b.break_()
            count.set(count.value + 1)
        b.ret(count.value)

    run = compiled(write, i64, n=i64)
    assert [run(n) for n in (0, 1, 2, 3, 9)] == [0, 5, 5, 10, 15]


def test_a_way_out_is_shared_and_written_only_if_it_is_taken():
    def write(b):
        b.way_out(lambda: b.ret(99))
        seen = b.var(i64, 0)
        out = b.way_out(lambda: b.ret(seen.value))
        with b.loop(0, b.arg("n")) as i:
            out.take_if(i == 3)
            seen.set(seen.value + 10)
            out.take_unless(i != 1)
        seen.set(-1)
        out.take()

    module = IRModule()
    with module.function("written", i64, n=i64) as b:
        write(b)
    assert module.text().count("ret i64") == 1
    run = compiled(write, i64, n=i64)
    assert [run(n) for n in (0, 1, 2, 9)] == [-1, -1, 20, 20]


@pytest.mark.parametrize("kind", [KERNEL, CALLS, RARE])
def test_code_of_every_kind_calls_and_is_called(kind):
    module = IRModule()
    module.global_("numbers", i64, 3)
    with module.function("inner", i64, internal=True, x=i64) as b:
        numbers = b.pointer(module.address_of(b, "numbers"), i64)
        numbers[2] = b.arg("x")
        b.ret(b.call(module.declare("labs", i64, [i64]), numbers[2]) + 1)
    with module.function("outer", i64, x=i64) as b:
        b.ret(b.call(module.defined["inner"], b.arg("x")) * 2)
    library = machine().load(module.text(), ["outer"], module.imports, kind)
    run = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library.address["outer"])
    assert [run(x) for x in (-5, 0, 7)] == [12, 2, 16]


def test_if_else_and_early_return():
    def write(b):
        with b.if_(b.arg("x") < 0.0):
            b.ret(-1.0)
        small, large = b.if_else(b.arg("x") < 10.0)
        out = b.var(f64, 0.0)
        with small:
            out.set(b.arg("x") * 2.0)
        with large:
            out.set(b.arg("x") / 2.0)
        b.ret(out.value)

    run = compiled(write, f64, x=f64)
    assert [run(x) for x in (-5.0, 3.0, 30.0)] == [-1.0, 6.0, 15.0]


@pytest.mark.parametrize("value", [0.1, -0.0, 1e-45, 3.4e38, math.inf, -math.inf, 1 / 3, 1e300])
def test_float_constants_are_rounded_once_and_exact(value):
    run = compiled(lambda b: b.ret(b.const(f32, value)), f32)
    with np.errstate(over="ignore"):
        expected = np.float32(value)
    assert np.float32(run()).tobytes() == expected.tobytes()


def test_a_nan_constant_is_a_nan():
    assert math.isnan(compiled(lambda b: b.ret(b.const(f64, math.nan)), f64)())


def test_numbers_take_the_type_of_the_other_operand_and_spread_over_lanes():
    def write(b):
        x = b.pointer(b.arg("x"), f32)
        x.set_vector(0, 1.0 + x.vector(0, 8) * b.arg("factor"))

    run = compiled(write, void, x=ptr, factor=f32)
    x = np.arange(8, dtype=np.float32)
    run(x.ctypes.data, 2.5)
    np.testing.assert_array_equal(x, 1 + np.arange(8, dtype=np.float32) * np.float32(2.5))


def test_masked_lanes_are_neither_read_nor_written():
    def write(b):
        x = b.pointer(b.arg("x"), f32)
        mask = b.splat(b.arg("n"), 8) > b.lanes(vector(i64, 8), range(8))
        loaded = b.masked_load(x.address, mask, b.const(vector(f32, 8), 0.0))
        b.masked_store(loaded + 1.0, x.address, mask)

    run = compiled(write, void, x=ptr, n=i64)
    for n in range(9):
        x = np.zeros(8, np.float32)
        run(x.ctypes.data, n)
        assert x.tolist() == [1.0] * n + [0.0] * (8 - n)


def test_folding_lanes_takes_halves_first():
    def write(b):
        x = b.pointer(b.arg("x"), f32).vector(0, 8)
        b.ret(b.fold_lanes(x, lambda p, q: p - q))

    x = np.array([1, 2, 4, 8, 16, 32, 64, 128], np.float32)
    four = x[:4] - x[4:]
    two = four[:2] - four[2:]
    assert compiled(write, f32, x=ptr)(x.ctypes.data) == two[0] - two[1]


def test_operands_of_different_types_are_refused_while_writing():
    with pytest.raises(TypeError, match="add: operands are"):
        compiled(lambda b: b.ret(b.arg("x") + b.arg("y")), f32, x=f32, y=i64)


def test_a_value_has_no_truth():
    with pytest.raises(TypeError, match="if_"):
        compiled(lambda b: b.ret(1 if b.arg("x") > 0 else 0), i64, x=i64)


def test_literals_of_truth_values_and_vectors():
    assert literal(i1, True) == "true"
    assert literal(vector(i32, 2), -3) == "<i32 -3, i32 -3>"
