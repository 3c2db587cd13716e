"""Operators and indexing on values write the instructions that they mean."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from extempo.backends.llvm.ir.builder import IRModule, f64, i32, i64, ptr, void
from extempo.backends.llvm.ir.values import Pointer

from ..written import compiled

INTEGERS = {
    "x + y": lambda x, y: x + y,
    "7 - x": lambda x, y: 7 - x,
    "x * y - x": lambda x, y: x * y - x,
    "(x & y) | (x ^ 5)": lambda x, y: (x & y) | (x ^ 5),
    "(x << 3) + (x >> 1)": lambda x, y: (x << 3) + (x >> 1),
    "~x - -y": lambda x, y: ~x - -y,
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_operators_mean_what_pythons_do(name):
    fn = INTEGERS[name]
    run = compiled(lambda b: b.ret(fn(b.arg("x"), b.arg("y"))), i64, x=i64, y=i64)
    for x, y in ((0, 1), (13, -5), (-9, 4), (2**40, 3)):
        assert run(x, y) == fn(x, y)


def test_division_and_remainder_truncate_as_in_c():
    def write(b):
        b.ret(b.arg("x") // b.arg("y") * 1000 + b.arg("x") % b.arg("y"))

    run = compiled(write, i64, x=i64, y=i64)
    assert [run(*pair) for pair in ((7, 2), (-7, 2), (7, -2))] == [3001, -3001, -2999]


def test_float_operators_take_numbers_on_either_side():
    def write(b):
        x = b.arg("x")
        b.ret(1.0 / (2.0 * x + 1.0) - (3.0 - x) / -x)

    x = 2.5
    assert compiled(write, f64, x=f64)(x) == 1.0 / (2.0 * x + 1.0) - (3.0 - x) / -x


def test_comparisons_are_values_and_nan_is_unequal_to_itself():
    def write(b):
        x, y = b.arg("x"), b.arg("y")
        bits = (x < y, x <= y, x > y, x >= y, x == y, x != y, x != x)
        total = b.const(i64, 0)
        for k, bit in enumerate(bits):
            total = total + b.cast("zext", bit, i64) * (1 << k)
        b.ret(total)

    run = compiled(write, i64, x=f64, y=f64)
    assert run(1.0, 2.0) == 0b0100011
    assert run(2.0, 2.0) == 0b0011010
    assert run(float("nan"), 2.0) == 0b1100000


def test_a_pointer_moves_by_elements_and_loads_and_stores():
    def write(b):
        p = Pointer(b.arg("p"), i32)
        (p + 2)[1] = p[0] + (p + b.arg("k"))[0]
        p.set_vector(4, p.vector(0, 4) + p.vector(0, 4))

    x = np.array([5, 6, 7, 0, 0, 0, 0, 0], np.int32)
    compiled(write, void, p=ptr, k=i64)(x.ctypes.data, 2)
    assert x.tolist() == [5, 6, 7, 12, 10, 12, 14, 24]


def test_the_address_of_the_first_element_needs_no_instruction():
    module = IRModule()
    with module.function("f", void, p=ptr) as b:
        before = b.n_lines
        assert Pointer(b.arg("p"), i64).at(0) is b.arg("p") or Pointer(b.arg("p"), i64).at(0).text == b.arg("p").text
        assert b.n_lines == before


def test_a_variable_has_what_was_stored_last():
    def write(b):
        x = b.var(i64, 3)
        old = x.value
        x.set(x.value * 10)
        b.ret(x.value + old)

    assert compiled(write, i64)() == 33
