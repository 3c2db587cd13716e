"""Functions that make one op of their arguments, in native code: what they made of such arguments, they make again.

What a `fronts.Front` has seen lately stands in a short list. An entry fits tensors of the same types, and other
arguments that are the same objects, equal ints, or tuples of the same objects. Then its op runs, and no Python does.
"""

from __future__ import annotations

from ..ir.builder import Module, Pointer, Value, i32, i64, ptr, void
from .entries import ALL, CONSTANT, LATELY, Entry
from .objects import Objects

_EQUAL = 2  # Py_EQ


def write_front(module: Module, offsets: dict[str, int]) -> None:
    """extempo_front(*arguments), with (what `extempo_apply` needs, the function in Python, list of entries) as self."""
    _write_fits(module, offsets)
    with module.function("extempo_front", ptr, self=ptr, args=ptr, nargs=i64) as b:
        o = Objects(b, offsets)
        python, packed, args = o.python, b.arg("self"), Pointer(b.arg("args"), ptr)
        nothing = b.const(ptr, 0)
        slow_way = python.item(packed, 1)
        slow = b.way_out(lambda: b.ret(python.vectorcall(slow_way, b.arg("args"), b.arg("nargs"), nothing)))
        o.current_mode(slow, lambda sample: None)
        found = b.var(ptr, nothing)
        with b.loop(0, LATELY) as i:
            entry = b.call(module.declare("PyList_GetItem", ptr, [ptr, i64]), python.item(packed, 2), i)
            with b.if_(entry != o.known("none")):
                fits = b.call(module.defined["extempo_fits"], entry, b.arg("args"), b.arg("nargs"))
                with b.if_(fits != 0):
                    found.set(entry)
                    b.break_()
        slow.take_if(found.value == 0)
        entry = python.incref(found.value)  # ours: while the op runs, the list may get others

        def part(name: str) -> Value:
            return python.item(entry, Entry._fields.index(name))

        sources, constants = part("sources"), part("constants")
        n_inputs = b.call(module.declare("PyTuple_Size", i64, [ptr]), sources)
        inputs = o.check(python.new_tuple(n_inputs))
        with b.loop(0, n_inputs) as i:
            source = python.as_int(python.item(sources, i))
            constant, argument = b.if_else(source == CONSTANT)
            with constant:
                python.set_item(inputs, i, python.incref(python.item(constants, i)))
            with argument:
                python.set_item(inputs, i, python.incref(args[source]))
        given = b.array(ptr, 3)
        for k, x in enumerate((part("op"), inputs, part("attrs"))):
            given[k] = x
        made = b.var(ptr, b.call(module.defined["extempo_apply"], python.item(packed, 0), given.address, 3))
        python.decref(inputs)
        pick = python.as_int(part("pick"))
        with b.if_((made.value != 0) & (pick != ALL)):
            results = made.value
            made.set(python.incref(python.item(results, pick)))
            python.decref(results)
        python.decref(entry)
        b.ret(made.value)


def _write_fits(module: Module, offsets: dict[str, int]) -> None:
    with module.function("extempo_fits", i32, internal=True, known=ptr, args=ptr, nargs=i64) as b:
        o = Objects(b, offsets)
        python, args = o.python, Pointer(b.arg("args"), ptr)
        expected = python.item(b.arg("known"), Entry._fields.index("expected"))
        n_of = module.declare("PyTuple_Size", i64, [ptr])
        n_expected = b.call(n_of, expected)
        with b.if_(n_expected != b.arg("nargs")):
            b.ret(0)
        with b.loop(0, n_expected) as k:
            x, wanted = args[k], python.item(expected, k)
            kind, have, same = python.type_of(x), b.var(ptr, x), b.var(i32, 0)
            is_tensor = o.is_tensor(kind)
            with b.if_(is_tensor):
                have.set(o.get(x, "tensor._type"))
            with b.if_(have.value == wanted):
                same.set(1)
            is_like = (have.value != wanted) & (python.type_of(have.value) == python.type_of(wanted))
            with b.if_(is_like & (is_tensor | (kind == o.known("int")))):
                compare = module.declare("PyObject_RichCompareBool", i32, [ptr, ptr, i32])
                same.set(b.call(compare, have.value, wanted, _EQUAL))
                with b.if_(same.value < 0):
                    b.call(module.declare("PyErr_Clear", void, []))
            with b.if_(is_like & (kind == python.type_of(o.known("empty")))):
                n_items = b.call(n_of, x)
                same.set(b.cast("zext", n_items == b.call(n_of, wanted), i32))
                with b.if_(same.value == 1), b.loop(0, n_items) as i:
                    alike = python.item(x, i) == python.item(wanted, i)
                    same.set(same.value & b.cast("zext", alike, i32))
            with b.if_(same.value != 1):
                b.ret(0)
        b.ret(1)
