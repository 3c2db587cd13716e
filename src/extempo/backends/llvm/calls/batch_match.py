"""Whether a call of `ex.batch` is one that native code knows: its arguments, and what a cell reads from Python.

Arguments are compared with a pattern (`patterns`), what was read with what it was (`batching.purity_guards`): by
identity, but types by equality. A comparison says no wherever it is not sure; Python then looks again. It also says no
with an exception set, such as an interrupt that came while somebody's code compared: whoever asked returns that.
"""

from __future__ import annotations

from typing import Any

from ..ir.builder import IRFunction, IRModule, Pointer, Value, WayOut, i1, i32, i64, ptr, void
from .objects import TABLE, Objects
from .patterns import EQUAL, LEAF, LIST, NO_LEAF, NUMBER, REFERRED, SAME, TENSOR, TRACKED, TUPLE, WORDS

MORE = (
    "cell",
    "dict",
    "int64",
    "tuple",
    "missing",
    "changes",
    "cells",
    "nowhere",
    "ops",
    "from_outside",
    "new_kind",
    "slow_call",
    "slow_op",
    "places",
)
NAMES = (*TABLE, *MORE)
CURSOR, COUNT, INPUTS = range(3)  # of a comparison: the next part of the pattern, inputs met so far, and they
Slots = dict[str, int]


def address_in(b: IRFunction, word: Value) -> Value:
    return b.emit(ptr, f"inttoptr i64 {word.text} to ptr")


def is_type(o: Objects, type_: Value, wanted: Value) -> Value:
    """Whether two types of tensors are the same, or equal."""
    answer = o.b.var(i1, type_ == wanted)
    with o.b.if_(~answer.value & (type_ != 0)):
        answer.set(o.python.equal(type_, wanted))
    return answer.value


def size(b: IRFunction, kind: str, o: Value) -> Value:
    return b.call(b.module.declare(f"Py{kind}_Size", i64, [ptr]), o)


def list_item(b: IRFunction, o: Value, i: Value | int) -> Value:
    """Borrowed; there must be one."""
    return b.call(b.module.declare("PyList_GetItem", ptr, [ptr, i64]), o, i)


def found_in(b: IRFunction, mapping: Value, key: Value) -> Value:
    """What an exact dict has, borrowed; null for nothing. Keys must be comparable without an error."""
    return b.call(b.module.declare("PyDict_GetItemWithError", ptr, [ptr, ptr]), mapping, key)


def found_by_id(b: IRFunction, mapping: Value, o: Value) -> Value:
    """What a dict has for `id(o)`, borrowed; null for nothing, and with an exception when there is no memory."""
    declare = b.module.declare
    key = b.call(declare("PyLong_FromVoidPtr", ptr, [ptr]), o)
    found = b.var(ptr, 0)
    with b.if_(key != 0):
        found.set(found_in(b, mapping, key))
    b.call(declare("Py_DecRef", void, [ptr]), key)
    return found.value


# ---- arguments and patterns


def write_match(module: IRModule, offsets: Slots) -> None:
    """extempo_batch_match: whether an argument is what the pattern says; inputs are noted, borrowed."""
    with module.function("extempo_batch_match", i64, internal=True, x=ptr, comparison=ptr, grad=i1) as b:
        o, x = Objects(b, offsets, NAMES), b.arg("x")
        python = o.python
        state, words = Pointer(b.arg("comparison"), ptr), Pointer(b.arg("comparison"), i64)
        no = b.way_out(lambda: b.ret(0))
        part = Pointer(state[CURSOR], i64)
        code, said, second = part[0], address_in(b, part[1]), part[2]
        state[CURSOR] = b.byte_offset(part.address, 8 * WORDS)
        type_ = python.type_of(x)

        def note() -> None:
            state[words[COUNT] + INPUTS] = x
            words[COUNT] = words[COUNT] + 1
            b.ret(1)

        with b.if_(code == TENSOR):
            no.take_unless(o.is_tensor(type_))
            _check_whole(o, x, no)
            no.take_unless(is_type(o, o.get(x, "tensor._type"), said))
            no.take_unless((o.is_tracked(x) & b.arg("grad")) == ((second & TRACKED) != 0))
            with b.if_((second & NO_LEAF) != 0):
                no.take_if(o.get(o.get(x, "tensor._history"), "node.op") == o.known("leaf"))
            note()
        with b.if_(code == NUMBER):
            no.take_unless(type_ == said)
            note()
        with b.if_(code == SAME):
            b.ret(b.cast("zext", x == said, i64))
        with b.if_(code == REFERRED):  # to None, if it is gone; where None is an argument, the pattern says SAME
            no.take_if(x == o.known("none"))
            referred = b.call(module.declare("PyWeakref_GetObject", ptr, [ptr]), said)
            b.ret(b.cast("zext", x == referred, i64))
        with b.if_(code == EQUAL):
            no.take_unless(type_ == python.type_of(said))
            b.ret(b.cast("zext", python.equal(x, said), i64))
        with b.if_(code == LEAF):
            no.take_unless(x == said)
            _check_whole(o, x, no)
            no.take_unless(is_type(o, o.get(x, "tensor._type"), address_in(b, second)))
            no.take_unless(o.is_tracked(x) & b.arg("grad"))
            is_leaf = o.get(o.get(x, "tensor._history"), "node.op") == o.known("leaf")
            b.ret(b.cast("zext", is_leaf, i64))
        no.take_unless(type_ == said)
        match = module.defined["extempo_batch_match"]
        with b.if_(code == TUPLE):
            no.take_unless(size(b, "Tuple", x) == second)
            with b.loop(0, second) as i:
                no.take_if(b.call(match, python.item(x, i), b.arg("comparison"), b.arg("grad")) == 0)
            b.ret(1)
        with b.if_(code == LIST):
            no.take_unless(size(b, "List", x) == second)
            with b.loop(0, second) as i:
                no.take_if(b.call(match, list_item(b, x, i), b.arg("comparison"), b.arg("grad")) == 0)
            b.ret(1)
        b.ret(0)


def _check_whole(o: Objects, x: Value, no: WayOut) -> None:
    """A tensor has a history that holds now: it is no view of something written since."""
    b, alias, memory = o.b, o.get(x, "tensor._alias"), o.get(x, "tensor._memory")
    no.take_if((o.get(x, "tensor._history") == 0) | (alias == 0) | (memory == 0))
    with b.if_(alias != o.known("none")):
        no.take_unless(o.python.type_of(memory) == o.known("storage"))
        no.take_unless(o.get(alias, "alias.version") == o.get(memory, "storage.version"))


def _write_same_content(module: IRModule, offsets: Slots) -> None:
    """extempo_batch_same_content: whether a list or dict has the very same elements, and keys."""
    with module.function("extempo_batch_same_content", i64, internal=True, content=ptr) as b:
        o = Objects(b, offsets, NAMES)
        container, kept, keys = (
            o.get(b.arg("content"), f"content.{name}") for name in ("_container", "_kept", "_keys")
        )
        type_ = o.python.type_of(container)
        no = b.way_out(lambda: b.ret(0))
        is_list = o.python.type_of(o.known("changes"))
        with b.if_(type_ == is_list):
            n = size(b, "List", container)
            no.take_unless(n == size(b, "List", kept))
            with b.loop(0, n) as i:
                no.take_unless(list_item(b, container, i) == list_item(b, kept, i))
            b.ret(1)
        no.take_unless(type_ == o.known("dict"))
        n = size(b, "Dict", container)
        no.take_unless(n == size(b, "List", kept))
        each = Items(b, container)
        with b.loop(0, n) as i:
            key, value = each.following()
            no.take_unless((key == list_item(b, keys, i)) & (value == list_item(b, kept, i)))
        b.ret(1)


class Items:
    """Goes through a dict."""

    def __init__(self, b: IRFunction, mapping: Value) -> None:
        self._b, self._mapping = b, mapping
        self._position, self._found = b.array(i64, 1), b.array(ptr, 2)
        self._position[0] = b.const(i64, 0)

    def following(self) -> tuple[Value, Value]:
        """The next key and value, borrowed; there must be one."""
        b, found = self._b, self._found
        declared = b.module.declare("PyDict_Next", i32, [ptr, ptr, ptr, ptr])
        b.call(declared, self._mapping, self._position.address, found.address, (found + 1).address)
        return found[0], found[1]


def write_same(module: IRModule, offsets: Slots) -> None:
    """extempo_batch_same: whether all that a cell reads is the very same.

    Mirrors `batching.purity_guards.PurityGuards.same`.
    """
    _write_same_content(module, offsets)
    with module.function("extempo_batch_same", i64, internal=True, reads=ptr) as b:
        o, reads = Objects(b, offsets, NAMES), b.arg("reads")
        python, declare = o.python, module.declare
        no = b.way_out(lambda: b.ret(0))
        no.take_unless(list_item(b, o.known("changes"), 0) == o.get(reads, "reads._seen"))
        i = b.var(i64, 0)

        def each(slot: str) -> Any:
            """Getting attributes may run anything, so that a list is shorter than it was."""
            i.set(0)
            return b.while_(lambda: i.value < size(b, "List", o.get(reads, slot)))

        with each("reads._items"):
            item = list_item(b, o.get(reads, "reads._items"), i.value)
            mapping, value = python.item(item, 0), python.item(item, 2)
            no.take_unless(python.type_of(mapping) == o.known("dict"))
            found = found_in(b, mapping, python.item(item, 1))
            no.take_unless(b.select(found == 0, o.known("missing"), found) == value)
            i.set(i.value + 1)
        with each("reads._contents"):
            content = list_item(b, o.get(reads, "reads._contents"), i.value)
            no.take_if(b.call(module.defined["extempo_batch_same_content"], content) == 0)
            i.set(i.value + 1)
        with each("reads._captured"):
            item = list_item(b, o.get(reads, "reads._captured"), i.value)
            t = python.item(item, 0)
            no.take_unless(is_type(o, o.get(t, "tensor._type"), python.item(item, 1)))
            no.take_unless(o.is_tracked(t) == (python.item(item, 2) == o.known("true")))
            i.set(i.value + 1)
        with each("reads._attributes"):
            item = python.incref(list_item(b, o.get(reads, "reads._attributes"), i.value))
            found = b.call(declare("PyObject_GetAttr", ptr, [ptr, ptr]), python.item(item, 0), python.item(item, 1))
            with b.if_(found == 0):
                python.forget("AttributeError")
            same = found == python.item(item, 2)  # compared by address alone, so it may be gone already
            python.decref(found)
            python.decref(item)
            no.take_unless(same)
            i.set(i.value + 1)
        b.ret(1)
