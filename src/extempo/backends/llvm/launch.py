"""One native call for an elementwise op on tensors: look at them, run the kernel, make the tensor and its node.

What `running.run` does, for ops of one or two inputs of one floating dtype (or a number), outside recordings. Anything
else is handed to the op's slow way with the same arguments, which also prepares what was missing here: so native code
never decides anything by itself, and both ways give the same tensors.

The objects are Extempo's own Python classes. Native code knows them by the offsets of their slots, and everything it
refers to (classes, None, small ints, the mode variable) stands in one table that Python fills.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .broadcasting import DONE, FAILED
from .builder import Function, Module, Pointer, Value, i1, i32, i64, ptr
from .callables import function
from .cpython import Python, slot_offset
from .kernels import ElementwiseKernel
from .routine import machine

# How numbers stand among the inputs: none, first a float, second a float, first an int, second an int.
CASES = ((), (float, 0), (float, 1), (int, 0), (int, 1))
N_CASES, N_DTYPES, N_NEEDS = len(CASES), 2, 4
_RECORDS_AT = 0  # for each dtype and case: the address of an elementwise record
_GRADIENTS_AT = N_DTYPES * N_CASES  # for each of those and each set of inputs that need one: what the node holds, flags
SIZE = _GRADIENTS_AT + 2 * N_DTYPES * N_CASES * N_NEEDS
READY = 8  # among the flags: this entry was filled; bits 0 to 2 say what the gradient reads of (y, a, b)
_PY_EQ = 2

_TABLE = (
    "tensor",
    "parameter",
    "storage",
    "node",
    "array",
    "float",
    "int",
    "true",
    "none",
    "zero",
    "one",
    "two",
    "empty",  # ()
    "mode_variable",  # a ContextVar
    "no_attributes",
    "next_number",
    "find_line",
    "own_node",  # Tensor._own_node
    "no_grad",
    "inference",
    "user_globals",
    "new",  # object.__new__ as a C function
)


class Classes(NamedTuple):
    """What native code must know of Extempo's own objects."""

    tensor: type
    parameter: type
    storage: type
    node: type
    mode: type
    alias: type


def _offsets(classes: Classes) -> dict[str, int]:
    names = {
        classes.tensor: ("_array", "_storage", "_type", "_node", "_alias", "_cut"),
        classes.storage: ("array", "version", "written_at"),
        classes.node: ("op", "inputs", "attrs", "type", "saved", "where", "derived", "number", "extra"),
        classes.mode: ("grad", "inference", "interceptor"),
        classes.alias: ("version",),
    }
    kind = {classes.tensor: "tensor", classes.storage: "storage", classes.node: "node"}
    kind |= {classes.mode: "mode", classes.alias: "alias"}
    return {f"{kind[cls]}.{name}": slot_offset(cls, name) for cls, slots in names.items() for name in slots}


class Objects:
    """Extempo's objects for code that is being written: slots by name, and what the table holds."""

    def __init__(self, b: Function, offsets: dict[str, int]) -> None:
        self.b = b
        self.python = Python(b)
        self._offsets = offsets
        self._table = Pointer(b.module.address_of(b, "table"), ptr)

    def known(self, name: str) -> Value:
        return self._table[_TABLE.index(name)]

    def remember(self, name: str, o: Value) -> None:
        self._table[_TABLE.index(name)] = o

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
        with self.b.if_(o == 0):
            self.b.ret(self.b.const(ptr, 0))
        return o

    def call_no_args(self, callee: Value) -> Value:
        return self.check(self.b.call(self.python.declare("PyObject_CallNoArgs", ptr, [ptr]), callee))


def _write_line(module: Module, offsets: dict[str, int]) -> None:
    """extempo_line: where the user's code stands, as (code, instruction), a new reference."""
    with module.function("extempo_line", ptr, internal=True) as b:
        o = Objects(b, offsets)
        python = o.python
        frame = b.call(module.declare("PyEval_GetFrame", ptr, []))
        with b.if_(frame != 0):
            found = b.call(module.declare("PyFrame_GetGlobals", ptr, [ptr]), frame)
            python.decref(found)  # the frame holds it
            with b.if_(found == o.known("user_globals")):
                where = o.check(python.new_tuple(2))
                python.set_item(where, 0, b.call(module.declare("PyFrame_GetCode", ptr, [ptr]), frame))
                instruction = b.cast("sext", b.call(module.declare("PyFrame_GetLasti", i32, [ptr]), frame), i64)
                number = b.call(module.declare("PyLong_FromLongLong", ptr, [i64]), instruction)
                python.set_item(where, 1, number)
                b.ret(where)
        # (where, the globals of the frame that was found): the next call from there takes the short way above.
        answer = o.call_no_args(o.known("find_line"))
        where = python.incref(python.item(answer, 0))
        before = o.known("user_globals")
        o.remember("user_globals", python.incref(python.item(answer, 1)))
        python.decref(before)
        python.decref(answer)
        b.ret(where)


class _Launch:
    """Writes the launch of an op with one or two inputs."""

    def __init__(self, b: Function, offsets: dict[str, int], arity: int) -> None:
        self.b = b
        self.arity = arity
        self.o = Objects(b, offsets)
        self.python = self.o.python
        packed = b.arg("self")
        self.record = Pointer(self.python.bytes_of(self.python.item(packed, 0)), i64)
        self.slow_way = self.python.item(packed, 1)
        self.op = self.python.item(packed, 2)
        self.types = self.python.item(packed, 3)
        args = Pointer(b.arg("args"), ptr)
        self.args = [args[k] for k in range(arity)]
        self.inputs = b.array(ptr, arity)
        self.is_tensor = [b.var(i1, 1) for _ in range(arity)]
        self.case = b.var(i64, 0)
        self.needs = b.var(i64, 0)
        self.dtype = b.var(i64, -1)

    def slow(self) -> None:
        b = self.b
        b.ret(self.python.vectorcall(self.slow_way, b.arg("args"), b.arg("nargs"), b.arg("kwnames")))

    def slow_if(self, condition: Value) -> None:
        with self.b.if_(condition):
            self.slow()

    def mode(self) -> None:
        b, o = self.b, self.o
        place = b.array(ptr, 1)
        get = b.module.declare("PyContextVar_Get", i32, [ptr, ptr, ptr])
        failed = b.call(get, o.known("mode_variable"), b.const(ptr, 0), place.address)
        self.slow_if((failed != 0) | (place[0] == 0))
        mode = place[0]
        self.grad = o.get(mode, "mode.grad") == o.known("true")
        self.inference = o.get(mode, "mode.inference") == o.known("true")
        interceptor = o.get(mode, "mode.interceptor")
        self.python.decref(mode)  # the context holds it
        self.slow_if(interceptor != o.known("none"))

    def look_at(self, k: int) -> None:
        """An input: its array, its dtype, whether it needs a gradient; or a number."""
        b, o, x = self.b, self.o, self.args[k]
        type_ = self.python.type_of(x)
        is_tensor, other = b.if_else((type_ == o.known("tensor")) | (type_ == o.known("parameter")))
        with is_tensor:
            self._look_at_tensor(k, x)
        with other:
            self.is_tensor[k].set(0)
            self.slow_if(~((type_ == o.known("float")) | (type_ == o.known("int"))) | (self.case.value != 0))
            self.case.set(b.select(type_ == o.known("float"), b.const(i64, 1 + k), b.const(i64, 3 + k)))
            self.inputs[k] = x

    def _look_at_tensor(self, k: int, x: Value) -> None:
        b, o = self.b, self.o
        alias = o.get(x, "tensor._alias")
        with b.if_(alias != o.known("none")):
            version = o.get(o.get(x, "tensor._storage"), "storage.version")
            self.slow_if(o.get(alias, "alias.version") != version)
        array = o.get(x, "tensor._array")
        self.slow_if(self.python.type_of(array) != o.known("array"))
        number = self.python.dtype_number(array)
        single, double = np.dtype(np.float32).num, np.dtype(np.float64).num
        self.slow_if((number != single) & (number != double))
        d = b.select(number == single, b.const(i64, 0), b.const(i64, 1))
        self.slow_if((self.dtype.value >= 0) & (self.dtype.value != d))
        self.dtype.set(d)
        self.inputs[k] = array
        node = o.get(x, "tensor._node")
        tracked = self.python.type_of(node) == o.known("node")
        self.needs.set(self.needs.value + b.select(tracked, b.const(i64, 1 << k), b.const(i64, 0)))

    def result_type(self) -> Value:
        """The TensorType of the result, borrowed."""
        b, o = self.b, self.o
        if self.arity == 1:
            return o.get(self.args[0], "tensor._type")
        found = b.var(ptr, 0)
        first_is, first_is_not = b.if_else(self.is_tensor[0].value)
        with first_is:
            found.set(o.get(self.args[0], "tensor._type"))
        with first_is_not:
            found.set(o.get(self.args[1], "tensor._type"))
        with b.if_(self.case.value == 0):
            other = o.get(self.args[1], "tensor._type")
            with b.if_(found.value != other):
                equal = b.call(
                    b.module.declare("PyObject_RichCompareBool", i32, [ptr, ptr, i32]), found.value, other, 2
                )
                with b.if_(equal != 1):
                    found.set(self._broadcast_type(found.value, other))
        return found.value

    def _broadcast_type(self, first: Value, second: Value) -> Value:
        b, python = self.b, self.python
        key = self.o.check(python.new_tuple(2))
        python.set_item(key, 0, python.incref(first))
        python.set_item(key, 1, python.incref(second))
        found = b.call(b.module.declare("PyDict_GetItem", ptr, [ptr, ptr]), self.types, key)
        python.decref(key)
        self.slow_if(found == 0)
        return found

    def entry(self) -> tuple[Value, Value]:
        """What the node holds as its gradient, and the flags; they must be ready when the result is tracked."""
        b = self.b
        index = (self.dtype.value * N_CASES + self.case.value) * N_NEEDS + self.needs.value
        place = self.record + (index * 2 + _GRADIENTS_AT)
        tracked = (self.needs.value != 0) & self.grad
        flags = place[1]
        self.slow_if(tracked & ((flags & READY) == 0))
        return b.emit(ptr, f"inttoptr i64 {place[0].text} to ptr"), flags

    def run(self) -> Value:
        """The result's array, a new reference."""
        b = self.b
        record = self.record[self.dtype.value * N_CASES + self.case.value + _RECORDS_AT]
        self.slow_if(record == 0)
        results = b.array(ptr, 1)
        callee = b.module.declare("extempo_elementwise", i64, [ptr, ptr, ptr])
        place = b.emit(ptr, f"inttoptr i64 {record.text} to ptr")
        status = b.call(callee, place, self.inputs.address, results.address)
        with b.if_(status == FAILED):
            b.ret(b.const(ptr, 0))
        self.slow_if(status != DONE)
        return results[0]

    def tensor(self, array: Value, type_: Value) -> tuple[Value, Value]:
        o = self.o
        storage = o.new("storage")
        o.set_shared(storage, "storage.array", array)
        o.set_shared(storage, "storage.version", o.known("zero"))
        o.set_shared(storage, "storage.written_at", o.known("none"))
        t = o.new("tensor")
        o.set(t, "tensor._array", array)
        o.set(t, "tensor._storage", storage)
        o.set_shared(t, "tensor._type", type_)
        o.set_shared(t, "tensor._alias", o.known("none"))
        return t, storage

    def untracked(self, t: Value) -> None:
        """No node; why gradients end here is carried along."""
        b, o = self.b, self.o
        o.set_shared(t, "tensor._node", o.known("none"))
        cut_here, carried = b.if_else(self.needs.value != 0)
        with cut_here:
            cut = o.check(self.python.new_tuple(2))
            reason = b.select(self.inference, o.known("inference"), o.known("no_grad"))
            self.python.set_item(cut, 0, self.python.incref(reason))
            self.python.set_item(cut, 1, o.check(b.call(b.module.defined["extempo_line"])))
            o.set(t, "tensor._cut", cut)
        with carried:
            cut_from = b.var(ptr, o.known("none"))
            for k in reversed(range(self.arity)):
                with b.if_(self.is_tensor[k].value):
                    own = o.get(self.args[k], "tensor._cut")
                    with b.if_(own != o.known("none")):
                        cut_from.set(own)
            o.set_shared(t, "tensor._cut", cut_from.value)

    def node(self, t: Value, storage: Value, type_: Value, derived: Value, flags: Value) -> None:
        b, o = self.b, self.o
        node = o.new("node")
        o.set_shared(node, "node.op", self.op)
        o.set_shared(node, "node.attrs", o.known("no_attributes"))
        o.set_shared(node, "node.type", type_)
        o.set_shared(node, "node.derived", derived)
        o.set_shared(node, "node.extra", o.known("none"))
        inputs = o.check(self.python.new_tuple(self.arity))
        for k in range(self.arity):
            self.python.set_item(inputs, k, self._input_node(k))
        o.set(node, "node.inputs", inputs)
        o.set(node, "node.saved", self._saved(t, storage, flags))
        o.set(node, "node.where", o.check(b.call(b.module.defined["extempo_line"])))
        o.set(node, "node.number", o.call_no_args(o.known("next_number")))
        o.set(t, "tensor._node", node)
        o.set_shared(t, "tensor._cut", o.known("none"))

    def _input_node(self, k: int) -> Value:
        """The node of an input, made if it has none; a number stands for itself. A new reference."""
        b, o, x = self.b, self.o, self.args[k]
        found = b.var(ptr, x)
        with b.if_(self.is_tensor[k].value):
            found.set(o.get(x, "tensor._node"))
            with b.if_(found.value == o.known("none")):
                args = b.array(ptr, 1)
                args[0] = x
                made = self.python.vectorcall(o.known("own_node"), args.address, b.const(i64, 1), b.const(ptr, 0))
                o.check(made)
                self.python.decref(made)  # the tensor holds it
                found.set(made)
        return self.python.incref(found.value)

    def _saved(self, t: Value, storage: Value, flags: Value) -> Value:
        """((position, array, storage, version), ...) of what the gradient reads."""
        b, o, python = self.b, self.o, self.python
        n_read = b.var(i64, 0)
        for k in range(self.arity + 1):
            n_read.set(n_read.value + (b.binary("lshr", flags, k) & 1))
        saved = o.check(python.new_tuple(n_read.value))
        place = b.var(i64, 0)
        for k, position in enumerate(("zero", "one", "two")[: self.arity + 1]):
            with b.if_((flags & (1 << k)) != 0):
                of, at = (t, storage) if k == 0 else (self.args[k - 1], o.get(self.args[k - 1], "tensor._storage"))
                kept = o.check(python.new_tuple(4))
                parts = (o.known(position), o.get(of, "tensor._array"), at, o.get(at, "storage.version"))
                for i, part in enumerate(parts):
                    python.set_item(kept, i, python.incref(part))
                python.set_item(saved, place.value, kept)
                place.set(place.value + 1)
        return saved


def _write_launch(module: Module, offsets: dict[str, int], arity: int) -> None:
    args = {"self": ptr, "args": ptr, "nargs": i64, "kwnames": ptr}
    with module.function(f"extempo_launch{arity}", ptr, **args) as b:
        packed = b.arg("self")
        with b.if_((b.arg("kwnames") != 0) | (b.arg("nargs") != arity)):
            slow_way = Python(b).item(packed, 1)
            b.ret(Python(b).vectorcall(slow_way, b.arg("args"), b.arg("nargs"), b.arg("kwnames")))
        launch = _Launch(b, offsets, arity)
        launch.mode()
        for k in range(arity):
            launch.look_at(k)
        launch.slow_if(launch.dtype.value < 0)
        derived, flags = launch.entry()
        type_ = launch.result_type()
        t, storage = launch.tensor(launch.run(), type_)
        tracked, untracked = b.if_else((launch.needs.value != 0) & launch.grad)
        with tracked:
            launch.node(t, storage, type_, derived, flags)
        with untracked:
            launch.untracked(t)
        b.ret(t)


class Launcher:
    """The loaded functions, and the launches that were made of them."""

    def __init__(self, classes: Classes, table: dict[str, Any]) -> None:
        offsets = _offsets(classes)
        module = Module()
        module.global_("table", ptr, len(_TABLE))
        with module.function("extempo_table", ptr) as b:
            b.ret(module.address_of(b, "table"))
        _write_line(module, offsets)
        for arity in (1, 2):
            _write_launch(module, offsets, arity)
        names = [n for n in module.defined if n != "extempo_line"]
        self._library = machine().load(module.text(), names, module.imports)
        known = dict(table, **classes._asdict(), array=np.ndarray, float=float, int=int, true=True, none=None)
        known |= {"zero": 0, "one": 1, "two": 2, "empty": (), "user_globals": {}}
        self._known = known  # native code holds addresses only
        address = ctypes.CFUNCTYPE(ctypes.c_void_p)(self._library.address["extempo_table"])()
        self._cells = (ctypes.c_void_p * len(_TABLE)).from_address(address)
        for i, name in enumerate(_TABLE):
            self._cells[i] = _object_new() if name == "new" else id(known[name])
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(known["user_globals"]))  # native code lets go of it

    def set_parameter(self, cls: type) -> None:
        """The subclass of Tensor whose instances are treated like tensors."""
        self._known["parameter"] = cls
        self._cells[_TABLE.index("parameter")] = id(cls)

    def launch(self, name: str, op: Any, arity: int, slow: Callable[..., Any]) -> Launch:
        return Launch(name, op, self._library.address[f"extempo_launch{arity}"], slow)


def _object_new() -> int:
    get = ctypes.pythonapi.PyType_GetSlot
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_int]
    found: int = get(object, 65)  # Py_tp_new
    return found


class Launch:
    """The launch of one op: the native callable, and the record that the slow way fills."""

    def __init__(self, name: str, op: Any, address: int, slow: Callable[..., Any]) -> None:
        self._record = bytearray(8 * SIZE)
        self._keep: list[Any] = []
        self.types: dict[Any, Any] = {}
        self.call = function(name, address, (self._record, slow, op, self.types, self._keep), keywords=True)

    def _put(self, index: int, number: int) -> None:
        struct.pack_into("<q", self._record, 8 * index, number)

    def has_kernel(self, dtype: int, case: int) -> bool:
        found: int = struct.unpack_from("<q", self._record, 8 * (_RECORDS_AT + dtype * N_CASES + case))[0]
        return found != 0

    def has_gradient(self, dtype: int, case: int, needs: int) -> bool:
        index = _GRADIENTS_AT + 2 * ((dtype * N_CASES + case) * N_NEEDS + needs) + 1
        found: int = struct.unpack_from("<q", self._record, 8 * index)[0]
        return found != 0

    def set_kernel(self, dtype: int, case: int, kernel: ElementwiseKernel) -> None:
        """The kernel for this dtype (0 float32, 1 float64) and case of numbers."""
        self._keep.append(kernel)
        view = (ctypes.c_char * len(kernel.record)).from_buffer(kernel.record)
        self._keep.append(view)  # a bytearray that is looked at does not move
        self._put(_RECORDS_AT + dtype * N_CASES + case, ctypes.addressof(view))

    def set_gradient(self, dtype: int, case: int, needs: int, derived: Any, reads: tuple[int, ...]) -> None:
        """What nodes hold as their gradient (None: it is found when needed), and what it reads of (y, a, b)."""
        self._keep.append(derived)
        index = _GRADIENTS_AT + 2 * ((dtype * N_CASES + case) * N_NEEDS + needs)
        self._put(index, id(derived))
        self._put(index + 1, READY | sum(1 << position for position in reads))
