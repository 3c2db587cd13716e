"""Functions that make one op of their arguments, in native code: what they made of such arguments, they make again.

What an `InlineCache` has seen lately stands in a short list, the rest in a dict. An entry fits tensors of the same
types, and other arguments that are the same objects, the same numbers, or tuples of the same objects or ints. Then its
op runs, and no Python does. A dict takes 1, 1.0 and True for the same; what it has found is looked at like the others.
"""

from __future__ import annotations

from ..ir.builder import IRModule, Pointer, Value, i32, i64, ptr
from .cpython import FLOAT_VALUE, NOT_COMPARABLE
from .entries import ALL, CONSTANT, LATELY, Entry
from .objects import Objects


def write_front(module: IRModule, offsets: dict[str, int]) -> None:
    """extempo_front(*arguments); self: what `extempo_apply` needs, the slow way, entries (list, dict), the function.

    Mirrors `dispatch.inline_cache.InlineCache._slow`.
    """
    _write_fits(module, offsets)
    with module.function("extempo_front", ptr, self=ptr, args=ptr, nargs=i64) as b:
        o = Objects(b, offsets)
        python, packed, args = o.python, b.arg("self"), Pointer(b.arg("args"), ptr)
        nothing = b.const(ptr, 0)
        slow_way = python.item(packed, 1)

        def ask_python() -> None:
            with b.if_(
                python.is_raised()
            ):  # by a look-up or a comparison: an interrupt, or whatever an argument raised
                b.ret(nothing)
            b.ret(python.vectorcall(slow_way, b.arg("args"), b.arg("nargs"), nothing))

        slow = b.way_out(ask_python)
        o.current_mode(slow, lambda sample: None)
        found, lately = b.var(ptr, nothing), python.item(packed, 2)
        with b.loop(0, b.arg("nargs")) as k:
            slow.take_if(python.type_of(args[k]) == python.type_of(lately))  # lists are no keys

        def look_at(entry: Value) -> None:
            with b.if_(b.call(module.defined["extempo_fits"], entry, b.arg("args"), b.arg("nargs")) != 0):
                found.set(entry)

        with b.loop(0, LATELY) as i:
            entry = b.call(module.declare("PyList_GetItem", ptr, [ptr, i64]), lately, i)
            with b.if_((found.value == 0) & (entry != o.known("none"))):
                look_at(entry)
        with b.if_(found.value == 0):
            with b.loop(0, b.arg("nargs")) as k:
                slow.take_if(_known_by(o, args[k]) == 0)
            key = o.check(python.new_tuple(b.arg("nargs")))
            with b.loop(0, b.arg("nargs")) as k:
                python.set_item(key, k, python.incref(_known_by(o, args[k])))
            known = b.call(module.declare("PyDict_GetItemWithError", ptr, [ptr, ptr]), python.item(packed, 3), key)
            python.decref(key)
            nowhere, somewhere = b.if_else(known == 0)
            with nowhere:
                python.forget(*NOT_COMPARABLE)
            with somewhere:
                look_at(known)
        slow.take_if(found.value == 0)
        entry = python.incref(found.value)  # ours: while the op runs, the list may get others

        def part(name: str) -> Value:
            return python.item(entry, Entry._fields.index(name))

        with b.if_(part("op") == o.known("none")):
            python.decref(entry)
            b.ret(python.vectorcall(python.item(packed, 4), b.arg("args"), b.arg("nargs"), nothing))
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
        for place, x in enumerate((part("op"), inputs, part("attrs"))):
            given[place] = x
        made = b.var(ptr, b.call(module.defined["extempo_apply"], python.item(packed, 0), given.address, 3))
        python.decref(inputs)
        pick = python.as_int(part("pick"))
        with b.if_((made.value != 0) & (pick != ALL)):
            results = made.value
            made.set(python.incref(python.item(results, pick)))
            python.decref(results)
        python.decref(entry)
        b.ret(made.value)


def _known_by(o: Objects, x: Value) -> Value:
    """What an argument is known by: the type of a tensor (null: it was never filled), otherwise itself."""
    found = o.b.var(ptr, x)
    with o.b.if_(o.is_tensor(o.python.type_of(x))):
        found.set(o.get(x, "tensor._type"))
    return found.value


def _write_fits(module: IRModule, offsets: dict[str, int]) -> None:
    """extempo_fits(entry, arguments, their number): whether they are what the entry expects.

    Mirrors `dispatch.inline_cache._key`.
    """
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
            kind, have, same = python.type_of(x), _known_by(o, x), b.var(i32, 0)
            with b.if_(have == 0):
                b.ret(0)
            with b.if_(have == wanted):
                same.set(1)
            is_like = (have != wanted) & (python.type_of(have) == python.type_of(wanted))
            with b.if_(is_like & (o.is_tensor(kind) | (kind == o.known("int")))):
                same.set(b.cast("zext", python.equal(have, wanted), i32))
            with b.if_(is_like & (kind == o.known("float"))):  # bit by bit: there are two zeros
                alike = b.field(i64, x, FLOAT_VALUE) == b.field(i64, wanted, FLOAT_VALUE)
                same.set(b.cast("zext", alike, i32))
            with b.if_(is_like & (kind == python.type_of(o.known("empty")))):
                n_items = b.call(n_of, x)
                same.set(b.cast("zext", n_items == b.call(n_of, wanted), i32))
                with b.if_(same.value == 1), b.loop(0, n_items) as place:
                    one, other = python.item(x, place), python.item(wanted, place)
                    with b.if_(one != other):
                        are_ints = (python.type_of(one) == o.known("int")) & (python.type_of(other) == o.known("int"))
                        ints, others = b.if_else(are_ints)
                        with ints:
                            same.set(same.value & b.cast("zext", python.equal(one, other), i32))
                        with others:
                            same.set(0)
            with b.if_(same.value != 1):
                b.ret(0)
        b.ret(1)
