"""Checks for nan: what `ex.inspect.guard` has native code do with the result of every op and with what leaves a plan.

They stand in variants of launches, of `apply` and of the code that runs plans, which `callables.use_variants` puts in
the place of those without. A number is nan if its bits without the sign are more than those of infinity, so the
largest of an array answers for all of it, in one pass over what has just been written. What plain arithmetic on one
thread makes need not be read again: the processor remembers whether it has made a nan of numbers that were none.
"""

from __future__ import annotations

import ctypes

import numpy as np

from ..ir.builder import IRFunction, IRModule, Pointer, Type, Value, i16, i32, i64, ptr, vector, void
from ..ir.machine import machine
from .cpython import ALIGNED, C_CONTIGUOUS, F_CONTIGUOUS, Python
from .objects import TABLE, Objects

FINE, HAS_INF, HAS_NAN, UNKNOWN = 0, 1, 2, 3  # unknown: whoever can look at any layout and dtype has to
EXTRA = ("found_nan", "by_flag")  # behind everybody's in the table of a module that checks
_LANES, _AT_ONCE = 8, 4  # vectors that are looked at before the largest of them is known
_INFINITIES: tuple[tuple[str, Type, int], ...] = (
    ("f4", i32, 0x7F800000),
    ("f8", i64, 0x7FF0000000000000),
    ("f2", i16, 0x7C00),
)
# Ops whose kernels make a nan by arithmetic alone, and write none that they have ready.
_OF_ELEMENTS = ("add", "sub", "mul", "div", "neg", "abs", "relu", "exp", "gelu_tanh", "sigmoid", "silu", "tanh")
BY_FLAG = (*_OF_ELEMENTS, "softmax", "standardize", "layer_norm")
_LARGE = 1 << 14  # elements of a result that is not read again if the flag is clear
_INVALID = 1  # the bit of the flag in the processor's word of state
_OTHER_FLOATS = np.dtype("V").num  # bfloat16 has a number of NumPy's own above all of those that it knows


def write_has_nan(module: IRModule) -> None:
    """has_nan(array): one of FINE, HAS_INF, HAS_NAN and UNKNOWN."""
    with module.function("has_nan", i64, internal=True, array=ptr) as b:
        python, array = Python(b), b.arg("array")
        number = python.dtype_number(array)
        kinds = [np.dtype(name).num for name, _, _ in _INFINITIES]
        is_float = (number == kinds[0]) | (number == kinds[1]) | (number == kinds[2])
        with b.if_(~is_float):
            b.ret(b.select(number > _OTHER_FLOATS, b.const(i64, UNKNOWN), FINE))
        flags = python.flags(array)
        with b.if_(((flags & (C_CONTIGUOUS | F_CONTIGUOUS)) == 0) | ((flags & ALIGNED) == 0)):
            b.ret(UNKNOWN)
        shape, n = python.shape(array), b.var(i64, 1)
        with b.loop(0, python.ndim(array)) as k:
            n.set(n.value * shape[k])
        for name, element, infinity in _INFINITIES:
            with b.if_(number == np.dtype(name).num):
                _write_pass(b, Pointer(python.data(array), element), n.value, infinity)
        b.ret(UNKNOWN)


def _write_pass(b: IRFunction, bits: Pointer, n: Value, infinity: int) -> None:
    largest = largest_bits(b, bits, n, (1 << (bits.element.bits - 1)) - 1)
    found = b.select(largest == infinity, b.const(i64, HAS_INF), FINE)
    b.ret(b.select(largest > infinity, b.const(i64, HAS_NAN), found))


def largest_bits(b: IRFunction, bits: Pointer, n: Value, mask: int) -> Value:
    """The largest of the bits of `n` floats, of those that a mask without the sign leaves."""
    lanes = vector(bits.element, _LANES)
    wide_mask = b.const(lanes, mask)
    most = [b.var(lanes, 0) for _ in range(_AT_ONCE)]
    long, whole = n // (_LANES * _AT_ONCE) * (_LANES * _AT_ONCE), n // _LANES * _LANES
    with b.loop(0, long, _LANES * _AT_ONCE) as i:
        for k, largest in enumerate(most):
            largest.set(b.larger(bits.vector(i + k * _LANES, _LANES) & wide_mask, largest.value))
    with b.loop(long, whole, _LANES) as i:
        most[0].set(b.larger(bits.vector(i, _LANES) & wide_mask, most[0].value))
    for largest in most[1:]:
        most[0].set(b.larger(largest.value, most[0].value))
    last = b.var(bits.element, b.fold_lanes(most[0].value, b.larger))
    with b.loop(whole, n) as i:
        last.set(b.larger(bits[i] & mask, last.value))
    return last.value


# ---- results of ops


def check_results(module: IRModule, offsets: dict[str, int]) -> None:
    """In a module that is written after this, launches and `apply` check what they have made."""
    write_has_nan(module)
    module.global_("trusts_flag", i64, 1)
    with module.function("extempo_trusts_flag", ptr) as b:
        b.ret(module.address_of(b, "trusts_flag"))
    _write_flag(module, offsets)
    parts = {"op": ptr, "inputs": ptr, "n": i64, "t": ptr}
    with module.function("extempo_found_nan", ptr, internal=True, **parts) as b:
        o = Objects(b, offsets, TABLE + EXTRA)
        python, t, n = o.python, b.arg("t"), b.arg("n")
        inputs = python.new_tuple(n)
        with b.if_(inputs == 0):
            python.decref(t)
            b.ret(inputs)
        with b.loop(0, n) as i:
            python.set_item(inputs, i, python.incref(Pointer(b.arg("inputs"), ptr)[i]))
        args = b.array(ptr, 3)
        for k, x in enumerate((b.arg("op"), inputs, t)):
            args[k] = x
        told = python.vectorcall(o.known("found_nan"), args.address, b.const(i64, 3), b.const(ptr, 0))
        python.decref(inputs)
        with b.if_(told == 0):
            python.decref(t)
            b.ret(told)
        python.decref(told)
        b.ret(t)


def _write_flag(module: IRModule, offsets: dict[str, int]) -> None:
    """made_nan(op, array): as has_nan, of a result. Of a large one of some ops the processor's flag answers first.

    The flag says that an invalid operation, as 0 / 0 or inf - inf, has happened in this thread since it was cleared: as
    long as it has not, no nan was made. Whatever else sets it costs one look at an array.
    """
    with module.function("made_nan", i64, internal=True, op=ptr, array=ptr) as b:
        array = b.arg("array")
        if machine().processor.is_x86:
            o = Objects(b, offsets, TABLE + EXTRA)
            shape, n = o.python.shape(array), b.var(i64, 1)
            with b.loop(0, o.python.ndim(array)) as k:
                n.set(n.value * shape[k])
            trusts = Pointer(module.address_of(b, "trusts_flag"), i64)[0] != 0
            with b.if_((n.value >= _LARGE) & trusts):
                has = module.declare("PySet_Contains", i32, [ptr, ptr])
                with b.if_(b.call(has, o.known("by_flag"), b.arg("op")) == 1):
                    state = b.array(i32, 1)
                    b.call(module.declare("llvm.x86.sse.stmxcsr", void, [ptr]), state.address)
                    with b.if_((state[0] & _INVALID) == 0):
                        b.ret(FINE)
                    state[0] = state[0] & ~_INVALID
                    b.call(module.declare("llvm.x86.sse.ldmxcsr", void, [ptr]), state.address)
        b.ret(b.call(module.defined["has_nan"], array))


def checked(b: IRFunction, op: Value, inputs: Value, n: Value | int, t: Value, array: Value) -> Value:
    """A result that is about to be returned, in code that checks: null, with the error, if `found_nan` raises one."""
    if "extempo_found_nan" not in b.module.defined:
        return t
    result = b.var(ptr, t)
    with b.if_(b.call(b.module.defined["made_nan"], op, array) >= HAS_NAN):
        n_inputs = b.const(i64, n) if isinstance(n, int) else n
        result.set(b.call(b.module.defined["extempo_found_nan"], op, inputs, n_inputs, t))
    return result.value


# ---- what leaves a plan


# How many plans have run, and of the arrays that left them those with an infinity, and those with a nan.
_COUNTS = ("n_runs", "n_with_inf", "n_with_nan")


def write_counts(module: IRModule) -> None:
    """The words of the module with these counts."""
    write_has_nan(module)
    module.global_("plan_counts", i64, len(_COUNTS))
    with module.function("extempo_plan_counts", ptr) as b:
        b.ret(module.address_of(b, "plan_counts"))


def count_run(b: IRFunction) -> None:
    """One more plan has run."""
    _count(b, "n_runs")


def count_output(b: IRFunction, array: Value) -> None:
    """One more of its kind; one that cannot be looked at here may have a nan."""
    found = b.call(b.module.defined["has_nan"], array)
    with b.if_(found == HAS_INF):
        _count(b, "n_with_inf")
    with b.if_(found >= HAS_NAN):
        _count(b, "n_with_nan")


def _count(b: IRFunction, name: str) -> None:
    word = Pointer(b.module.address_of(b, "plan_counts"), i64) + _COUNTS.index(name)
    word[0] = word[0] + 1


class CountedPlans:
    """Those words, for Python."""

    def __init__(self, address: int) -> None:
        """`address`: of `extempo_plan_counts`."""
        words = ctypes.c_int64 * len(_COUNTS)
        self._words = words.from_address(ctypes.CFUNCTYPE(ctypes.c_void_p)(address)())

    def begin(self) -> None:
        """Count from now on."""
        words = self._words
        words[0] = words[1] = words[2] = 0

    @property
    def n_with_nan(self) -> int:
        """Arrays with a nan, or that only Python can look at."""
        return self._words[2]

    def is_one_and_fine(self) -> bool:
        """Whether one plan has run, and all that left it is finite."""
        words = self._words
        return words[0] == 1 and not words[1] and not words[2]
