"""Extempo's own objects for native code: the offsets of their slots, what they refer to, how new ones are made.

Native code knows Tensor, Storage, Node, ExecutionContext, Trace and others by the offsets of their slots. Everything
else that it refers to (classes, None, small ints, the mode variable) stands in one table of the module, which Python
fills once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ....core.trace_tree import TraceNode, TraceOp
from ....core.types import dtype
from ..ir.builder import IRFunction, IRModule, Pointer, Value, WayOut, i1, i32, i64, ptr
from .cpython import Python, slot_offset

TABLE = (
    "tensor",
    "parameter",
    "storage",
    "node",
    "array",
    "float",
    "int",
    "bool",
    "bytearray",
    "none_type",
    "alias",
    "recording",
    "true",
    "false",
    "none",
    "zero",
    "one",
    "two",
    "empty",  # ()
    "mode_variable",  # a ContextVar
    "no_attributes",
    "next_number",
    "leaf",  # the op of leaves
    "find_line",
    "package",  # "__package__"
    "packages",  # which packages are Extempo's own, as far as is known
    "own_node",  # Tensor._own_node
    "no_grad",
    "inference",
    "user_globals",
    "new",  # object.__new__ as a C function
    "sample",  # the class of interceptors that `record_op` records for; None as long as there is none
    "record_op",  # NotImplemented: it may be a view of what is there, which is not recorded
    "not_implemented",
)


class Classes(NamedTuple):
    """What native code must know of Extempo's own objects."""

    tensor: type
    parameter: type
    storage: type
    node: type
    mode: type
    alias: type
    signature: type
    recording: type
    trace: type
    counters: type
    flush: type
    plan: type
    extra: type


def offsets_of(classes: Classes) -> dict[str, int]:
    names = {
        classes.tensor: ("_data", "_memory", "_type", "_history", "_alias", "_grad_barrier", "_source", "_value_id"),
        classes.storage: ("array", "version", "written_at"),
        classes.node: ("op", "inputs", "attrs", "type", "saved", "where", "derived", "number", "extra"),
        classes.mode: ("grad", "inference", "interceptor", "recording"),
        classes.alias: ("base", "steps", "version"),
        classes.signature: ("embeds", "floating", "kernel", "numpy_dtype", "plans", "reason", "type", "view"),
        classes.recording: ("counters", "trace"),
        classes.trace: (
            *("alive", "arrays", "clocks", "cursor", "inside", "leaves", "makers", "memories", "nodes", "numbers"),
            *("proxy", "results", "storages", "sweep_at", "token", "values", "versions"),
        ),
        classes.counters: ("runs",),
        classes.flush: ("binding", "following", "freed", "frees_all", "plan", "wanted"),
        classes.plan: ("gradients", "inputs", "run"),
        classes.extra: ("grad", "hooks", "post_hooks", "retain"),
        TraceNode: ("events", "n_leaves", "n_places", "n_run", "others", "step"),
        TraceOp: (
            *("attrs", "baked", "cut", "following", "grad", "kinds", "new_leaves"),
            *("op", "packed", "place", "refs", "tracked", "type", "where"),
        ),
        dtype: ("is_floating_point", "itemsize", "numpy"),
    }
    kind: dict[type, str] = {TraceNode: "state", TraceOp: "step", dtype: "dtype"}
    kind |= {cls: name for name, cls in classes._asdict().items() if cls in names and name != "parameter"}
    return {f"{kind[cls]}.{name}": slot_offset(cls, name) for cls, slots in names.items() for name in slots}


class Objects:
    """Extempo's objects for code that is being written: slots by name, and what the table holds."""

    def __init__(self, b: IRFunction, offsets: dict[str, int], names: tuple[str, ...] = TABLE) -> None:
        self.b = b
        self.python = Python(b)
        self._offsets = offsets
        self._names = names
        self._table = Pointer(b.module.address_of(b, "table"), ptr)
        self._failed = b.way_out(lambda: b.ret(b.const(b.returns, 0)))

    def known(self, name: str) -> Value:
        return self._table[self._names.index(name)]

    def remember(self, name: str, o: Value) -> None:
        self._table[self._names.index(name)] = o

    def replace(self, o: Value, slot: str, value: Value) -> None:
        """Put an owned reference into a slot and let go of what was there."""
        before = self.get(o, slot)
        self.set(o, slot, value)
        self.python.decref(before)

    def get(self, o: Value, slot: str) -> Value:
        return self.b.field(ptr, o, self._offsets[slot])

    def set(self, o: Value, slot: str, value: Value) -> None:
        """Put an owned reference into a slot of a new object."""
        self.b.set_field(o, self._offsets[slot], value)

    def set_shared(self, o: Value, slot: str, value: Value) -> None:
        self.set(o, slot, self.python.incref(value))

    def new(self, cls: str) -> Value:
        """A new instance without values; on failure the function returns with the error."""
        made = self.b.call_address(self.known("new"), ptr, self.known(cls), self.known("empty"), self.b.const(ptr, 0))
        self.check(made)
        return made

    def check(self, o: Value) -> Value:
        self._failed.take_if(o == 0)
        return o

    def _made_by(self, name: str, *args: Value) -> Value:
        """By a function of `write_making`; on failure the function returns with the error."""
        return self.check(self.b.call(self.b.module.defined[name], *args))

    def call_no_args(self, callee: Value) -> Value:
        return self.check(self.b.call(self.python.declare("PyObject_CallNoArgs", ptr, [ptr]), callee))

    # ---- what is asked of inputs

    def current_mode(self, otherwise: WayOut, recorded: Callable[[Value], None]) -> tuple[Value, Value, Value]:
        """Whether gradients are tracked, whether it is inference mode, and the recording (or None), borrowed.

        `otherwise` is taken when someone intercepts, but for a sample of a batch: what is to be done there is written
        by `recorded(sample)`; what does not end the function there runs as if nobody intercepted.
        """
        b = self.b
        place = b.array(ptr, 1)
        get = b.module.declare("PyContextVar_Get", i32, [ptr, ptr, ptr])
        failed = b.call(get, self.known("mode_variable"), b.const(ptr, 0), place.address)
        otherwise.take_if((failed != 0) | (place[0] == 0))
        mode = place[0]
        grad = self.get(mode, "mode.grad") == self.known("true")
        inference = self.get(mode, "mode.inference") == self.known("true")
        interceptor = self.get(mode, "mode.interceptor")
        self.python.decref(mode)  # the context holds it
        recording = self.get(mode, "mode.recording")
        with b.if_(interceptor != self.known("none")):
            otherwise.take_unless(self.python.type_of(interceptor) == self.known("sample"))
            recorded(interceptor)
        return grad, inference, recording

    def record_op(self, sample: Value, op: Value, inputs: Value, attrs: Value) -> None:
        """Return what the sample of a batch makes of an op, unless it leaves that to us. Takes over the inputs."""
        given = self.b.array(ptr, 4)
        for k, x in enumerate((sample, op, inputs, attrs)):
            given[k] = x
        self.python.incref(sample)
        made = self.python.vectorcall(
            self.known("record_op"), given.address, self.b.const(i64, 4), self.b.const(ptr, 0)
        )
        self.python.decref(sample)
        self.python.decref(inputs)
        with self.b.if_(made != self.known("not_implemented")):
            self.b.ret(made)
        self.python.decref(made)

    def is_tensor(self, type_: Value) -> Value:
        return (type_ == self.known("tensor")) | (type_ == self.known("parameter"))

    def values_of(self, x: Value, otherwise: WayOut) -> Value:
        """The array of a tensor; `otherwise` is taken if it is a view of something written since, or has no values."""
        array = self.b.call(self.b.module.defined["extempo_values"], x)
        otherwise.take_if(array == 0)
        return array

    def is_tracked(self, x: Value) -> Value:
        """Whether a tensor requires grad: a node of exactly that class says so."""
        return self.python.type_of(self.get(x, "tensor._history")) == self.known("node")

    def node_of(self, x: Value) -> Value:
        """The node of a tensor, made if it has none; a new reference."""
        return self._made_by("extempo_node_of", x)

    # ---- what is made

    def new_storage(self, array: Value) -> Value:
        storage = self.new("storage")
        self.set_shared(storage, "storage.array", array)
        self.set_shared(storage, "storage.version", self.known("zero"))
        self.set_shared(storage, "storage.written_at", self.known("none"))
        return storage

    def new_tensor(self, array: Value, storage: Value, type_: Value, alias: Value) -> Value:
        """A tensor that takes over the references to its parts; node and cut are still to be set."""
        t = self.new("tensor")
        self.set(t, "tensor._data", array)
        self.set(t, "tensor._memory", storage)
        self.set(t, "tensor._type", type_)
        self.set(t, "tensor._alias", alias)
        self.set_shared(t, "tensor._source", self.known("none"))
        return t

    def result(self, array: Value, type_: Value) -> Value:
        """A tensor on memory of its own that takes over both; node and cut are still to be set."""
        return self._made_by("extempo_result", array, type_)

    def kept(self, position: Value, x: Value) -> Value:
        """What a node keeps of a tensor: (position, array, storage, version). Mirrors `dispatch.dispatcher.entry`."""
        return self._made_by("extempo_kept", position, x)

    def set_node(self, t: Value, op: Value, inputs: Value, attrs: Value, saved: Value, derived: Value) -> None:
        """A tracked result: its node takes over `inputs` and `saved`, and shares the others."""
        self._made_by("extempo_set_node", t, op, inputs, attrs, saved, derived)

    def set_cut(self, t: Value, cut_here: Value, reason: Value, carried: Value) -> None:
        """An untracked result: why gradients end here, or what the inputs carry along."""
        b = self.b
        self.set_shared(t, "tensor._history", self.known("none"))
        here, before = b.if_else(cut_here)
        with here:
            self.set(t, "tensor._grad_barrier", self._made_by("extempo_cut", reason))
        with before:
            self.set_shared(t, "tensor._grad_barrier", carried)


def known_objects(classes: Classes, table: dict[str, Any]) -> dict[str, Any]:
    """Everything that native code refers to, by its name in the table; it must stay alive."""
    known = dict(table, **classes._asdict(), array=np.ndarray, float=float, int=int, bool=bool, bytearray=bytearray)
    known |= {
        "none_type": type(None),
        "true": True,
        "false": False,
        "package": "__package__",
        "none": None,
        "zero": 0,
        "one": 1,
        "two": 2,
        "empty": (),
        "user_globals": {},
        "sample": None,
        "record_op": None,
        "not_implemented": NotImplemented,
    }
    return known


def fill_table(cells: Any, known: dict[str, Any]) -> None:
    """Put the address of everything into a module's table."""
    for i, name in enumerate(TABLE):
        cells[i] = object_new() if name == "new" else id(known[name])
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(known["user_globals"]))  # native code lets go of it


def object_new() -> int:
    """The address of `object.__new__`."""
    get = ctypes.pythonapi.PyType_GetSlot
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_int]
    found: int = get(object, 65)  # Py_tp_new
    return found


def write_table(module: IRModule, size: int) -> None:
    """The table that Objects reads; extempo_table says where it is."""
    module.global_("table", ptr, size)
    with module.function("extempo_table", ptr) as b:
        b.ret(module.address_of(b, "table"))


def write_making(module: IRModule, offsets: dict[str, int]) -> None:
    """What Objects makes by calling a function: each makes one object, or returns null with the error."""
    _write_values(module, offsets)
    _write_line(module, offsets)
    with module.function("extempo_result", ptr, internal=True, array=ptr, type=ptr) as b:
        o = Objects(b, offsets)
        array, alias = b.arg("array"), o.python.incref(o.known("none"))
        b.ret(o.new_tensor(array, o.new_storage(array), b.arg("type"), alias))
    with module.function("extempo_cut", ptr, internal=True, reason=ptr) as b:
        o = Objects(b, offsets)
        cut = o.check(o.python.new_tuple(2))
        o.python.set_item(cut, 0, o.python.incref(b.arg("reason")))
        o.python.set_item(cut, 1, o.check(b.call(module.defined["extempo_line"])))
        b.ret(cut)
    with module.function("extempo_kept", ptr, internal=True, position=ptr, x=ptr) as b:
        o = Objects(b, offsets)
        made, storage = o.check(o.python.new_tuple(4)), o.get(b.arg("x"), "tensor._memory")
        array, version = o.get(b.arg("x"), "tensor._data"), o.get(storage, "storage.version")
        for i, part in enumerate((b.arg("position"), array, storage, version)):
            o.python.set_item(made, i, o.python.incref(part))
        b.ret(made)
    with module.function("extempo_node_of", ptr, internal=True, x=ptr) as b:
        o = Objects(b, offsets)
        found = b.var(ptr, o.get(b.arg("x"), "tensor._history"))
        with b.if_(found.value == o.known("none")):
            args = b.array(ptr, 1)
            args[0] = b.arg("x")
            made = o.python.vectorcall(o.known("own_node"), args.address, b.const(i64, 1), b.const(ptr, 0))
            o.check(made)
            o.python.decref(made)  # the tensor holds it
            found.set(made)
        b.ret(o.python.incref(found.value))
    _write_set_node(module, offsets)


def _write_values(module: IRModule, offsets: dict[str, int]) -> None:
    """extempo_values: the array of a tensor, borrowed; null where `Objects.values_of` has none."""
    with module.function("extempo_values", ptr, internal=True, x=ptr) as b:
        o, x = Objects(b, offsets), b.arg("x")
        none = b.way_out(lambda: b.ret(b.const(ptr, 0)))
        array = o.get(x, "tensor._data")
        none.take_if(array == 0)  # made by object.__new__: the slow way says what it lacks
        none.take_if(o.python.type_of(array) != o.known("array"))
        none.take_if(o.python.type_of(o.get(x, "tensor._source")) == o.known("recording"))  # on a trace
        alias = o.get(x, "tensor._alias")
        with b.if_(alias != o.known("none")):
            version = o.get(o.get(x, "tensor._memory"), "storage.version")
            none.take_if(o.get(alias, "alias.version") != version)
        b.ret(array)


def _write_set_node(module: IRModule, offsets: dict[str, int]) -> None:
    """extempo_set_node: give a tracked result its node, which takes over `inputs` and `saved`.

    Mirrors `dispatch.dispatcher.link`.
    """
    parts = dict.fromkeys(("t", "op", "inputs", "attrs", "saved", "derived"), ptr)
    with module.function("extempo_set_node", ptr, internal=True, **parts) as b:
        o, t = Objects(b, offsets), b.arg("t")
        node = o.new("node")
        for name in ("inputs", "saved"):
            o.set(node, f"node.{name}", b.arg(name))
        for name in ("op", "attrs", "derived"):
            o.set_shared(node, f"node.{name}", b.arg(name))
        o.set_shared(node, "node.type", o.get(t, "tensor._type"))
        o.set_shared(node, "node.extra", o.known("none"))
        o.set(node, "node.where", o.check(b.call(module.defined["extempo_line"])))
        o.set(node, "node.number", o.call_no_args(o.known("next_number")))
        o.set(t, "tensor._history", node)
        o.set_shared(t, "tensor._grad_barrier", o.known("none"))
        b.ret(node)


def _write_line(module: IRModule, offsets: dict[str, int]) -> None:
    """extempo_line: where the user's code stands, as (code, instruction), a new reference.

    The innermost frame whose module does not belong to Extempo. The module found last is looked for first; packages
    that were never met are left to Python.

    Mirrors `core.source_location.user_line`.
    """
    with module.function("extempo_line", ptr, internal=True) as b:
        o = Objects(b, offsets)
        python, declare = o.python, module.declare
        frame = b.var(ptr, b.call(declare("PyEval_GetFrame", ptr, [])))
        searching = b.var(i1, frame.value != 0)
        with b.if_(searching.value):
            python.incref(frame.value)
        with b.while_(lambda: searching.value):
            found = b.call(declare("PyFrame_GetGlobals", ptr, [ptr]), frame.value)
            python.decref(found)  # the frame holds it
            known = b.var(i1, found == o.known("user_globals"))
            internal = b.var(ptr, 0)
            with b.if_(~known.value):
                package = b.call(declare("PyDict_GetItem", ptr, [ptr, ptr]), found, o.known("package"))
                with b.if_(package != 0):
                    internal.set(b.call(declare("PyDict_GetItem", ptr, [ptr, ptr]), o.known("packages"), package))
                with b.if_(internal.value == o.known("false")):
                    before = o.known("user_globals")
                    o.remember("user_globals", python.incref(found))
                    python.decref(before)
                    known.set(1)
            with b.if_(known.value):
                instruction = b.cast("sext", b.call(declare("PyFrame_GetLasti", i32, [ptr]), frame.value), i64)
                number = b.call(declare("PyLong_FromLongLong", ptr, [i64]), instruction)
                where = python.new_tuple(2)
                code = b.call(declare("PyFrame_GetCode", ptr, [ptr]), frame.value)
                python.decref(frame.value)
                with b.if_((where == 0) | (number == 0)):
                    for made in (where, number, code):
                        python.decref(made)
                    b.ret(b.const(ptr, 0))
                python.set_item(where, 0, code)
                python.set_item(where, 1, number)
                b.ret(where)
            back = b.call(declare("PyFrame_GetBack", ptr, [ptr]), frame.value)
            python.decref(frame.value)
            frame.set(back)
            unknown = internal.value != o.known("true")
            with b.if_(unknown & (back != 0)):
                python.decref(back)
            searching.set(~unknown & (back != 0))
        python.forget("MemoryError")  # there may have been no memory for a frame
        b.ret(o.call_no_args(o.known("find_line")))
