"""What an optimizer does around an update, for all parameters at once: look for changes, take gradients, count writes.

Three Python functions that know the objects of Extempo by the offsets of their slots and run nobody's code before they
are done:

    same(contents, options, groups, state) -> int, of SAME_CONTENTS and SAME_OPTIONS
    gradients(parameters, arrays) -> list of arrays, or None
    written(parameters, storages, where) -> None

Wherever something has a form that they do not know the answer is that of a change: the caller then looks more closely.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.graph import Extra, Node
from ....core.storage import Storage
from ..calls.callables import function
from ..calls.cpython import slot_offset
from ..calls.objects import Objects
from ..ir.builder import IRFunction, IRModule, IRVariable, Pointer, Value, i1, i32, i64, ptr
from ..ir.machine import RARE, machine
from .updates import LIST_ITEMS, LIST_SIZE

SAME_CONTENTS, SAME_OPTIONS = 1, 2
_TABLE = ("tensor", "node", "extra", "storage", "array", "list", "dict", "defaultdict", "none", "one", "params")
_NAMES = ("extempo_same", "extempo_gradients", "extempo_written")


class _List:
    """A list that is read from its beginning to its end, beside something that should hold the same objects."""

    def __init__(self, b: IRFunction, items: Value) -> None:
        self.b = b
        self._items = items
        self._read = b.var(i64, 0)
        self.agrees = b.var(i1, 1)

    def compare(self, *objects: Value) -> None:
        b = self.b
        for o in objects:
            with b.if_(self.agrees.value):
                inside = self._read.value < _size(b, self._items)
                self.agrees.set(inside)
                with b.if_(inside):
                    self.agrees.set(_item(b, self._items, self._read.value) == o)
            self._read.set(self._read.value + 1)

    def ends(self) -> Value:
        return self.agrees.value & (self._read.value == _size(self.b, self._items))


def _size(b: IRFunction, items: Value) -> Value:
    return b.field(i64, items, LIST_SIZE)


def _item(b: IRFunction, items: Value, i: Value) -> Value:
    return b.pointer(b.field(ptr, items, LIST_ITEMS), ptr)[i]


def _each(b: IRFunction, entries: Value, key: Pointer, value: Pointer, body: Callable[[], None]) -> None:
    """Run `body` for each (key, value) of a dict."""
    following = b.module.declare("PyDict_Next", i32, [ptr, ptr, ptr, ptr])
    position = b.array(i64, 1)
    position[0] = b.const(i64, 0)
    with b.while_(lambda: b.call(following, entries, position.address, key.address, value.address) != 0):
        body()


def _write_same(module: IRModule, offsets: dict[str, int]) -> None:
    """extempo_same: which of the two lists still hold what groups and state hold.

    Mirrors `optim.change_detection.same`.
    """
    with module.function("extempo_same", ptr, self=ptr, args=ptr, nargs=i64) as b:
        o = Objects(b, offsets, _TABLE)
        type_of, list_type, dict_type = o.python.type_of, o.known("list"), o.known("dict")
        args = Pointer(b.arg("args"), ptr)
        groups, state = args[2], args[3]
        key, value = b.array(ptr, 1), b.array(ptr, 1)
        answer = b.module.declare("PyLong_FromLongLong", ptr, [i64])

        def give_up_if(condition: Value) -> None:
            with b.if_(condition):
                b.ret(b.call(answer, 0))

        give_up_if(type_of(groups) != list_type)
        give_up_if((type_of(state) != o.known("defaultdict")) & (type_of(state) != dict_type))
        contents, options = _List(b, args[0]), _List(b, args[1])

        def of_group() -> None:
            options.compare(key[0], value[0])

        def of_entry() -> None:
            contents.compare(value[0])

        def of_state() -> None:
            entry = value[0]
            contents.compare(entry)
            with b.if_(type_of(entry) != dict_type):
                contents.agrees.set(0)
            with b.if_(contents.agrees.value):
                _each(b, entry, key, value, of_entry)

        with b.loop(0, _size(b, groups)) as i:
            group = _item(b, groups, i)
            give_up_if(type_of(group) != dict_type)
            options.compare(group)
            _each(b, group, key, value, of_group)
            parameters = b.call(b.module.declare("PyDict_GetItem", ptr, [ptr, ptr]), group, o.known("params"))
            give_up_if(parameters == 0)
            give_up_if(type_of(parameters) != list_type)
            with b.loop(0, _size(b, parameters)) as k:
                contents.compare(_item(b, parameters, k))
        _each(b, state, key, value, of_state)
        bits = b.select(contents.ends(), b.const(i64, SAME_CONTENTS), 0)
        b.ret(b.call(answer, bits + b.select(options.ends(), b.const(i64, SAME_OPTIONS), 0)))


def _write_gradients(module: IRModule, offsets: dict[str, int]) -> None:
    """extempo_gradients: the arrays of all gradients; None unless each parameter has one, and the array it had.

    Mirrors `optim.flat_buffers.gradients_in_place`.
    """
    with module.function("extempo_gradients", ptr, self=ptr, args=ptr, nargs=i64) as b:
        o = Objects(b, offsets, _TABLE)
        python, declare = o.python, module.declare
        args = Pointer(b.arg("args"), ptr)
        parameters, arrays = args[0], args[1]
        n = _size(b, parameters)
        with b.if_(_size(b, arrays) != n):
            b.ret(python.incref(o.known("none")))
        found = o.check(b.call(declare("PyList_New", ptr, [i64]), n))

        def unless(condition: Value) -> None:
            with b.if_(~condition):
                python.decref(found)
                b.ret(python.incref(o.known("none")))

        def is_a(x: Value, cls: str) -> Value:
            answer: IRVariable = b.var(i1, 0)
            with b.if_(x != 0):
                answer.set(python.type_of(x) == o.known(cls))
                with b.if_(~answer.value):
                    is_subtype = declare("PyType_IsSubtype", i32, [ptr, ptr])
                    answer.set(b.call(is_subtype, python.type_of(x), o.known(cls)) != 0)
            return answer.value

        with b.loop(0, n) as i:
            p = _item(b, parameters, i)
            unless(is_a(p, "tensor"))
            unless(o.get(p, "tensor._data") == _item(b, arrays, i))
            unless(is_a(o.get(p, "tensor._memory"), "storage"))
            node = o.get(p, "tensor._history")
            unless(is_a(node, "node"))
            extra = o.get(node, "node.extra")
            unless(is_a(extra, "extra"))
            gradient = o.get(extra, "extra.grad")
            unless(is_a(gradient, "tensor"))
            values = o.get(gradient, "tensor._data")  # None while it is pending
            unless(is_a(values, "array"))
            b.pointer(b.field(ptr, found, LIST_ITEMS), ptr)[i] = python.incref(values)
        b.ret(found)


def _write_written(module: IRModule, offsets: dict[str, int]) -> None:
    """extempo_written: one more write to each; parameters remember where. Mirrors `optim.flat_buffers.count_writes`."""
    with module.function("extempo_written", ptr, self=ptr, args=ptr, nargs=i64) as b:
        o = Objects(b, offsets, _TABLE)
        python = o.python
        args = Pointer(b.arg("args"), ptr)
        parameters, storages, where = args[0], args[1], args[2]
        add = module.declare("PyNumber_Add", ptr, [ptr, ptr])

        def count(storage: Value) -> None:
            o.replace(
                storage, "storage.version", o.check(b.call(add, o.get(storage, "storage.version"), o.known("one")))
            )

        with b.loop(0, _size(b, parameters)) as i:
            storage = o.get(_item(b, parameters, i), "tensor._memory")
            count(storage)
            o.replace(storage, "storage.written_at", python.incref(where))
        with b.loop(0, _size(b, storages)) as i:
            count(_item(b, storages, i))
        b.ret(python.incref(o.known("none")))


class Stepping:
    """The loaded functions; `tensor` is the class of tensors."""

    def __init__(self, tensor: type) -> None:
        classes: dict[type, tuple[str, tuple[str, ...]]] = {
            tensor: ("tensor", ("_data", "_memory", "_history")),
            Node: ("node", ("extra",)),
            Extra: ("extra", ("grad",)),
            Storage: ("storage", ("version", "written_at")),
        }
        offsets = {f"{name}.{slot}": slot_offset(cls, slot) for cls, (name, slots) in classes.items() for slot in slots}
        module = IRModule()
        module.global_("table", ptr, len(_TABLE))
        with module.function("extempo_table", ptr) as b:
            b.ret(module.address_of(b, "table"))
        _write_same(module, offsets)
        _write_gradients(module, offsets)
        _write_written(module, offsets)
        self._library = machine().load(module.text(), ["extempo_table", *_NAMES], module.imports, RARE)
        address = self._library.address
        known: dict[str, Any] = {name: cls for cls, (name, _) in classes.items()}
        known |= {"array": np.ndarray, "list": list, "dict": dict, "defaultdict": defaultdict}
        known |= {"none": None, "one": 1, "params": "params"}
        self._keep = known
        table = ctypes.CFUNCTYPE(ctypes.c_void_p)(address["extempo_table"])()
        cells = (ctypes.c_void_p * len(_TABLE)).from_address(table)
        for i, name in enumerate(_TABLE):
            cells[i] = id(known[name])
        self.same, self.gradients, self.written = (function(name, address[name]) for name in _NAMES)
