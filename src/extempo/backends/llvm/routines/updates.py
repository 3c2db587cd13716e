"""Optimizer updates: one pass over values, gradients and moments of any number of parameters, in one native call.

An update is a formula of single elements, written in plain arithmetic (`optim.elementwise` has the contract). Here it
becomes a Python function

    update(places, numbers, values, gradients) -> bool

`values` and `gradients` are lists of arrays of equal shapes, `numbers` is the tuple that the formula gets, `places` is
an int64 array: the ids of ndarray and of the dtype, the address of the first value, then of the first element of each
moment. Moments have the layout of the values: as far from their first element as a value is from the first value.
Values and moments are written, gradients only read. The answer is False, and nothing was written, if an array is not
what this code can walk: another shape, dtype or memory order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..calls.callables import function
from ..calls.cpython import ALIGNED, ARRAY_DATA, ARRAY_DTYPE, C_CONTIGUOUS, Python
from ..ir.builder import IRFunction, IRModule, Pointer, Type, Value, f32, f64, i1, i64, ptr, vector, void
from ..ir.parallel import run_shared
from .routine import build

LANES = 8
CHUNK = 1 << 17  # elements that one thread takes at a time, about 50 us
LIST_SIZE, LIST_ITEMS = 16, 24  # PyListObject: ob_size, ob_item
_N_FIXED_PLACES = 3
_ELEMENTS: dict[np.dtype[Any], Type] = {np.dtype(np.float32): f32, np.dtype(np.float64): f64}

# Formula(arithmetic, numbers, values, gradient, *moments) -> (values, *moments)
Formula = Callable[..., Any]


class Arithmetic:
    """The functions that formulas use beside operators, on lanes."""

    def __init__(self, b: IRFunction) -> None:
        self._b = b

    def sqrt(self, x: Value) -> Value:
        return self._b.intrinsic("sqrt", x)

    def absolute(self, x: Value) -> Value:
        return self._b.intrinsic("fabs", x)

    def maximum(self, x: Value, y: Value) -> Value:
        """The larger one; NaN if either is."""
        return self._b.intrinsic("maximum", x, y)

    def minimum(self, x: Value, y: Value) -> Value:
        return self._b.intrinsic("minimum", x, y)

    def where(self, condition: Value, x: Any, y: Any) -> Value:
        return self._b.select(condition, x, y)

    def sign(self, x: Value) -> Value:
        one = self._b.intrinsic("copysign", self._b.const(x.type, 1.0), x)
        return self._b.select(x != x, x, self._b.select(x == 0.0, 0.0, one))


def update_function(name: str, formula: Formula, n_numbers: int, n_moments: int, dtype: np.dtype[Any]) -> Any | None:
    """The native form of a formula; None for a dtype that has none. The name tells formulas apart."""
    element = _ELEMENTS.get(dtype)
    if element is None:
        return None
    full = f"update_{name}_{element.suffix}"
    address = build(full, _write, formula, n_numbers, n_moments, element)
    return function(full, address)


def places(dtype: np.dtype[Any], values: np.ndarray[Any, Any], moments: Sequence[np.ndarray[Any, Any]]) -> Any:
    """The first argument of an update function, for values and moments that stay where they are."""
    return np.array([id(np.ndarray), id(dtype), *(flat.ctypes.data for flat in (values, *moments))], np.int64)


# What a chunk needs, as words in memory.
_PLACES, _NUMBERS, _VALUES, _GRADIENTS, _COUNT, _TOTAL, _SIZE = range(7)


def _write(module: IRModule, name: str, formula: Formula, n_numbers: int, n_moments: int, element: Type) -> None:
    part = name + "_part"
    _write_part(module, part, formula, n_numbers, n_moments, element)
    with module.function(name, ptr, self=ptr, args=ptr, n_args=i64) as b:
        python = Python(b)
        args = b.pointer(b.arg("args"), ptr)
        words = b.pointer(b.field(ptr, args[0], ARRAY_DATA), i64)
        values, gradients = (_items(b, args[i]) for i in (2, 3))
        n_members = b.field(i64, args[2], LIST_SIZE)
        answer = b.module.declare("PyBool_FromLong", ptr, [i64])
        total = b.var(i64, 0)
        with b.if_(b.field(i64, args[3], LIST_SIZE) != n_members):
            b.ret(b.call(answer, 0))
        with b.loop(0, n_members) as i:
            with b.if_(~_same_form(b, values[i], gradients[i], words)):
                b.ret(b.call(answer, 0))
            total.set(total.value + _n_elements(b, values[i]))
        numbers = b.array(element, max(1, n_numbers))
        for k in range(n_numbers):
            number = python.as_double(python.item(args[1], k))
            numbers[k] = number if element is f64 else b.cast("fptrunc", number, f32)
        n_chunks = (total.value + (CHUNK - 1)) // CHUNK
        context = b.array(ptr, _SIZE + 1)
        context[_PLACES] = words.address
        context[_NUMBERS] = numbers.address
        context[_VALUES] = values.address
        context[_GRADIENTS] = gradients.address
        sizes = Pointer(context.address, i64)
        sizes[_COUNT] = n_members
        sizes[_TOTAL] = total.value
        sizes[_SIZE] = total.value
        several, one = b.if_else(n_chunks > 1)
        with several:
            sizes[_SIZE] = ((total.value + n_chunks - 1) // n_chunks + (LANES - 1)) & -LANES
            run_shared(b, part, context.address, n_chunks)
        with one:
            b.call(module.defined[part], context.address, 0)
        b.ret(b.call(answer, 1))


def _items(b: IRFunction, found: Value) -> Pointer:
    return b.pointer(b.field(ptr, found, LIST_ITEMS), ptr)


def _same_form(b: IRFunction, x: Value, g: Value, words: Pointer) -> Value:
    """Whether both are arrays of the dtype, of one shape, each one plain run of memory."""
    python = Python(b)
    fits = b.var(i1, 0)
    are_arrays = (b.cast("ptrtoint", python.type_of(x), i64) == words[0]) & (
        b.cast("ptrtoint", python.type_of(g), i64) == words[0]
    )
    with b.if_(are_arrays):
        plain = (python.flags(x) & python.flags(g) & (C_CONTIGUOUS | ALIGNED)) == (C_CONTIGUOUS | ALIGNED)
        dtypes = [b.cast("ptrtoint", b.field(ptr, a, ARRAY_DTYPE), i64) == words[1] for a in (x, g)]
        fits.set(plain & dtypes[0] & dtypes[1] & (python.ndim(x) == python.ndim(g)))
        with b.if_(fits.value), b.loop(0, python.ndim(x)) as k, b.if_(python.shape(x)[k] != python.shape(g)[k]):
            fits.set(0)
    return fits.value


def _n_elements(b: IRFunction, array: Value) -> Value:
    python = Python(b)
    n = b.var(i64, 1)
    with b.loop(0, python.ndim(array)) as d:
        n.set(n.value * python.shape(array)[d])
    return n.value


def _write_part(module: IRModule, name: str, formula: Formula, n_numbers: int, n_moments: int, element: Type) -> None:
    """One chunk: a part of the elements of all parameters, counted through one after the other."""
    with module.function(name, void, internal=True, context=ptr, chunk=i64) as b:
        context = b.pointer(b.arg("context"), ptr)
        words = b.pointer(context[_PLACES], i64)
        values, gradients = b.pointer(context[_VALUES], ptr), b.pointer(context[_GRADIENTS], ptr)
        n_members, total, size = (Pointer(context.address, i64)[i] for i in (_COUNT, _TOTAL, _SIZE))
        given = b.pointer(context[_NUMBERS], element)
        numbers = [b.splat(given[i], LANES) for i in range(n_numbers)]
        begin = b.arg("chunk") * size
        end = b.smaller(begin + size, total)
        before = b.var(i64, 0)  # elements of the parameters before this one
        with b.loop(0, n_members) as i:
            first = before.value
            n = _n_elements(b, values[i])
            before.set(first + n)
            low, high = b.larger(begin - first, 0), b.smaller(end - first, n)
            with b.if_(low < high):
                x = b.pointer(b.field(ptr, values[i], ARRAY_DATA), element)
                offset = b.cast("ptrtoint", x.address, i64) - words[2]
                moments = [
                    b.pointer(b.cast("inttoptr", words[_N_FIXED_PLACES + k] + offset, ptr), element)
                    for k in range(n_moments)
                ]
                g = b.pointer(b.field(ptr, gradients[i], ARRAY_DATA), element)
                _write_pass(b, formula, numbers, [x, g, *moments], low, high)


def _write_pass(
    b: IRFunction, formula: Formula, numbers: list[Value], operands: list[Pointer], low: Value, high: Value
) -> None:
    """The formula on elements `low` to `high` of (values, gradient, *moments)."""
    arithmetic = Arithmetic(b)
    written = [operands[0], *operands[2:]]
    whole = low + (high - low) // LANES * LANES
    with b.loop(low, whole, LANES) as i:
        results = formula(arithmetic, numbers, *(p.vector(i, LANES) for p in operands))
        for p, result in zip(written, results, strict=True):
            p.set_vector(i, result)
    with b.if_(whole < high):
        mask = b.splat(high - whole, LANES) > b.lanes(vector(i64, LANES), range(LANES))
        # Where nothing is read stands 1, with which no formula divides by 0.
        ones = b.const(vector(operands[0].element, LANES), 1.0)
        loaded = [b.masked_load(p.at(whole), mask, ones) for p in operands]
        for p, result in zip(written, formula(arithmetic, numbers, *loaded), strict=True):
            b.masked_store(result, p.at(whole), mask)


def _most(b: IRFunction, x: Value, y: Value | int) -> Value:
    return b.larger(x, y)
