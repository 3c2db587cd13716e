"""Whether gradients are finite, in one pass over their bits, and what a backward does once it is known that they are.

A float is finite unless all bits of its exponent are set, so the largest exponent of an array answers for all of it.
Where an array is of another dtype or is not contiguous the answer is no: the caller then looks more closely.
"""

from __future__ import annotations

import numpy as np

from ..ir.builder import IRFunction, IRModule, Pointer, Type, Value, i1, i32, i64, ptr
from .cpython import ALIGNED, C_CONTIGUOUS
from .nan_checks import largest_bits
from .sums import objects

_EXPONENTS: tuple[tuple[str, Type, int], ...] = (("f4", i32, 0x7F800000), ("f8", i64, 0x7FF0000000000000))


def write_finiteness(module: IRModule, offsets: dict[str, int]) -> None:
    """Everything here, into the module of a walk."""
    _write_finite(module, offsets)
    _write_all_finite(module)
    _write_settle(module, offsets)


def _write_finite(module: IRModule, offsets: dict[str, int]) -> None:
    """finite(array): 1 if all of its elements are known to be finite."""
    with module.function("finite", i64, internal=True, array=ptr) as b:
        o = objects(b, offsets)
        python, array = o.python, b.arg("array")
        with b.if_(python.type_of(array) != o.known("array")):
            b.ret(0)
        wanted = C_CONTIGUOUS | ALIGNED
        with b.if_((python.flags(array) & wanted) != wanted):
            b.ret(0)
        shape, n = python.shape(array), b.var(i64, 1)
        with b.loop(0, python.ndim(array)) as k:
            n.set(n.value * shape[k])
        for name, element, exponent in _EXPONENTS:
            with b.if_(python.dtype_number(array) == np.dtype(name).num):
                _write_pass(b, Pointer(python.data(array), element), n.value, exponent)
        b.ret(0)


def _write_pass(b: IRFunction, bits: Pointer, n: Value, exponent: int) -> None:
    found = largest_bits(b, bits, n, exponent)
    b.ret(b.select(found == exponent, b.const(i64, 0), 1))


def _write_all_finite(module: IRModule) -> None:
    """all_finite(list of arrays): whether all of them are known to be. Mirrors `autograd.native_engine.all_finite`."""
    with module.function("extempo_all_finite", ptr, self=ptr, args=ptr, nargs=i64) as b:
        arrays, answer = Pointer(b.arg("args"), ptr)[0], b.var(i1, 1)
        item = module.declare("PyList_GetItem", ptr, [ptr, i64])
        with b.loop(0, b.call(module.declare("PyList_Size", i64, [ptr]), arrays)) as i, b.if_(answer.value):
            answer.set(b.call(module.defined["finite"], b.call(item, arrays, i)) == 1)
        _return_bool(b, module, answer.value)


def _write_settle(module: IRModule, offsets: dict[str, int]) -> None:
    """settle(order): if the gradients of all leaves are known to be finite, free the nodes; whether they are.

    Mirrors `autograd.native_engine.settle`.
    """
    with module.function("extempo_settle", ptr, self=ptr, args=ptr, nargs=i64) as b:
        o = objects(b, offsets)
        python = o.python
        order, answer = Pointer(b.arg("args"), ptr)[0], b.var(i1, 1)
        size = b.call(module.declare("PyList_Size", i64, [ptr]), order)
        item = module.declare("PyList_GetItem", ptr, [ptr, i64])
        with b.loop(0, size) as i:
            node = b.call(item, order, i)
            with b.if_((o.get(node, "node.op") == o.known("leaf")) & (o.get(node, "node.extra") != o.known("none"))):
                gradient = o.get(o.get(node, "node.extra"), "extra.grad")
                with b.if_((gradient != o.known("none")) & answer.value):
                    answer.set(0)
                    with b.if_(python.type_of(gradient) == o.known("tensor")):
                        answer.set(b.call(module.defined["finite"], o.get(gradient, "tensor._data")) == 1)
        with b.if_(answer.value), b.loop(0, size) as i:
            node = b.call(item, order, i)
            saved = o.get(node, "node.saved")
            with b.if_((saved != o.known("none")) & (saved != o.known("empty"))):
                o.replace(node, "node.saved", python.incref(o.known("none")))
                o.replace(node, "node.inputs", python.incref(o.known("empty")))
        _return_bool(b, module, answer.value)


def _return_bool(b: IRFunction, module: IRModule, answer: Value) -> None:
    b.ret(b.call(module.declare("PyBool_FromLong", ptr, [i64]), b.cast("zext", answer, i64)))
