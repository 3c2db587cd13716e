"""One native call for an elementwise op on tensors: look at them, run the kernel, make the tensor and its node.

What `dispatcher.run_eager` does, for ops of one or two inputs of one floating dtype (or a number); in a recording the
op is put on the trace instead (`tracing`). Anything else is handed to the op's slow way with the same arguments, which
also prepares what was missing here: so native code never decides anything by itself, and both ways give the same
tensors.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from ..elementwise.broadcasting import DONE, FAILED
from ..elementwise.kernels import ElementwiseKernel
from ..ir.builder import IRFunction, IRModule, Pointer, Value, i1, i64, ptr
from ..ir.machine import RARE, Library
from .callables import function
from .cpython import Python
from .dispatch import write_apply
from .inline_cache import write_front
from .loading import load_calls
from .nan_checks import check_results, checked
from .objects import TABLE, Classes, Objects, fill_table, known_objects, offsets_of, write_making, write_table
from .parts import write_parts
from .planned_backward import write_backward
from .probes import time_kernels
from .segment import counts_references, write_flush
from .tracing import Modes, put_on_tape, write_record
from .views import load_views

# How numbers stand among the inputs: none, first a float, second a float, first an int, second an int.
CASES = ((), (float, 0), (float, 1), (int, 0), (int, 1))
N_CASES, N_DTYPES, N_NEEDS = len(CASES), 2, 4
_RECORDS_AT = 0  # for each dtype and case: the address of an elementwise record
_GRADIENTS_AT = N_DTYPES * N_CASES  # for each of those and each set of inputs that need one: what the node holds, flags
SIZE = _GRADIENTS_AT + 2 * N_DTYPES * N_CASES * N_NEEDS
READY = 8  # among the flags: this entry was filled; bits 0 to 2 say what the gradient reads of (y, a, b)


class _Launch:
    """Writes the launch of an op with one or two inputs."""

    def __init__(self, b: IRFunction, offsets: dict[str, int], arity: int) -> None:
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
        self.type = b.var(ptr, 0)  # of the result, once it is known: ours, since another thread may run meanwhile
        self.slow = b.way_out(self._slow)

    def _slow(self) -> None:
        b = self.b
        self.python.decref(self.type.value)
        b.ret(self.python.vectorcall(self.slow_way, b.arg("args"), b.arg("nargs"), b.arg("kwnames")))

    def record_it(self, recording: Value, mode: Modes) -> None:
        """In a recording: return what is on the trace now."""
        b, o = self.b, self.o
        with b.if_(recording != o.known("none")):
            call = (self.op, b.arg("args"), self.arity, o.known("no_attributes"))
            made = put_on_tape(o, recording, call, mode)
            self.slow.take_if(made == o.known("none"))
            b.ret(made)

    def record_for(self, sample: Value) -> None:
        """In a sample of a batch: return what it makes of tensors and numbers."""
        b, o, python = self.b, self.o, self.python
        usual = b.var(i1, 1)
        for k in range(self.arity):
            type_ = python.type_of(self.args[k])
            number = (type_ == o.known("float")) | (type_ == o.known("int"))
            usual.set(usual.value & (o.is_tensor(type_) | number))
        with b.if_(usual.value):
            inputs = o.check(python.new_tuple(self.arity))
            for k in range(self.arity):
                python.set_item(inputs, k, python.incref(self.args[k]))
            o.record_op(sample, self.op, inputs, o.known("no_attributes"))
        self.slow.take()

    def look_at(self, k: int) -> None:
        """An input: its array, its dtype, whether it needs a gradient; or a number."""
        b, o, x = self.b, self.o, self.args[k]
        type_ = self.python.type_of(x)
        is_tensor, other = b.if_else(o.is_tensor(type_))
        with is_tensor:
            self._look_at_tensor(k, x)
        with other:
            self.is_tensor[k].set(0)
            self.slow.take_if(~((type_ == o.known("float")) | (type_ == o.known("int"))) | (self.case.value != 0))
            self.case.set(b.select(type_ == o.known("float"), b.const(i64, 1 + k), b.const(i64, 3 + k)))
            self.inputs[k] = x

    def _look_at_tensor(self, k: int, x: Value) -> None:
        b, o = self.b, self.o
        array = o.values_of(x, self.slow)
        number = self.python.dtype_number(array)
        single, double = np.dtype(np.float32).num, np.dtype(np.float64).num
        self.slow.take_if((number != single) & (number != double))
        d = b.select(number == single, b.const(i64, 0), b.const(i64, 1))
        self.slow.take_if((self.dtype.value >= 0) & (self.dtype.value != d))
        self.dtype.set(d)
        self.inputs[k] = array
        self.needs.set(self.needs.value + b.select(o.is_tracked(x), b.const(i64, 1 << k), b.const(i64, 0)))

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
            with b.if_(found.value != other), b.if_(~self.python.equal(found.value, other)):
                found.set(self._broadcast_type(found.value, other))
        return found.value

    def _broadcast_type(self, first: Value, second: Value) -> Value:
        b, python = self.b, self.python
        key = self.o.check(python.new_tuple(2))
        python.set_item(key, 0, python.incref(first))
        python.set_item(key, 1, python.incref(second))
        found = b.call(b.module.declare("PyDict_GetItem", ptr, [ptr, ptr]), self.types, key)
        python.decref(key)
        self.slow.take_if(found == 0)
        return found

    def entry(self, tracked: Value) -> tuple[Value, Value]:
        """What the node holds as its gradient, and the flags; they must be ready when the result is tracked."""
        b = self.b
        index = (self.dtype.value * N_CASES + self.case.value) * N_NEEDS + self.needs.value
        place = self.record + (index * 2 + _GRADIENTS_AT)
        flags = place[1]
        self.slow.take_if(tracked & ((flags & READY) == 0))
        return b.emit(ptr, f"inttoptr i64 {place[0].text} to ptr"), flags

    def run(self) -> Value:
        """The result's array, a new reference."""
        b = self.b
        record = self.record[self.dtype.value * N_CASES + self.case.value + _RECORDS_AT]
        self.slow.take_if(record == 0)
        results = b.array(ptr, 1)
        callee = b.module.declare("extempo_elementwise", i64, [ptr, ptr, ptr, i64])
        place = b.emit(ptr, f"inttoptr i64 {record.text} to ptr")
        status = b.call(callee, place, self.inputs.address, results.address, 0)
        with b.if_(status == FAILED):
            self.python.decref(self.type.value)
            b.ret(b.const(ptr, 0))
        self.slow.take_if(status != DONE)
        return results[0]

    def track(self, t: Value, derived: Value, flags: Value) -> None:
        inputs = self.o.check(self.python.new_tuple(self.arity))
        for k, x in enumerate(self.args):
            found = self.b.var(ptr, x)
            tensor, number = self.b.if_else(self.is_tensor[k].value)
            with tensor:
                found.set(self.o.node_of(x))
            with number:
                self.python.incref(x)
            self.python.set_item(inputs, k, found.value)
        self.o.set_node(t, self.op, inputs, self.o.known("no_attributes"), self._saved(t, flags), derived)

    def _saved(self, t: Value, flags: Value) -> Value:
        """What the gradient reads of (y, a, b), by the bits of the flags."""
        b, o = self.b, self.o
        n_read = b.var(i64, 0)
        for k in range(self.arity + 1):
            n_read.set(n_read.value + (b.binary("lshr", flags, k) & 1))
        saved = o.check(self.python.new_tuple(n_read.value))
        place = b.var(i64, 0)
        for k, position in enumerate(("zero", "one", "two")[: self.arity + 1]):
            with b.if_((flags & (1 << k)) != 0):
                x = t if k == 0 else self.args[k - 1]
                self.python.set_item(saved, place.value, o.kept(o.known(position), x))
                place.set(place.value + 1)
        return saved

    def cut(self, t: Value, inference: Value) -> None:
        b, o = self.b, self.o
        carried = b.var(ptr, o.known("none"))
        for k in range(self.arity):
            with b.if_(self.is_tensor[k].value):
                own = o.get(self.args[k], "tensor._grad_barrier")
                with b.if_(own != o.known("none")):
                    carried.set(own)
        reason = b.select(inference, o.known("inference"), o.known("no_grad"))
        o.set_cut(t, self.needs.value != 0, reason, carried.value)


def _write_launch(module: IRModule, offsets: dict[str, int], arity: int) -> None:
    """extempo_launch1(a), extempo_launch2(a, b): an elementwise op on tensors of one dtype.

    Mirrors `dispatch.dispatcher.run_eager`.
    """
    with module.function(f"extempo_launch{arity}", ptr, self=ptr, args=ptr, nargs=i64, kwnames=ptr) as b:
        packed = b.arg("self")
        with b.if_((b.arg("kwnames") != 0) | (b.arg("nargs") != arity)):
            slow_way = Python(b).item(packed, 1)
            b.ret(Python(b).vectorcall(slow_way, b.arg("args"), b.arg("nargs"), b.arg("kwnames")))
        launch = _Launch(b, offsets, arity)
        grad, inference, recording = launch.o.current_mode(launch.slow, launch.record_for)
        launch.record_it(recording, (grad, inference))
        for k in range(arity):
            launch.look_at(k)
        launch.slow.take_if(launch.dtype.value < 0)
        is_tracked = (launch.needs.value != 0) & grad
        derived, flags = launch.entry(is_tracked)
        o = launch.o
        launch.type.set(o.python.incref(launch.result_type()))
        array = launch.run()
        t = o.result(array, launch.type.value)
        tracked, untracked = b.if_else(is_tracked)
        with tracked:
            launch.track(t, derived, flags)
        with untracked:
            launch.cut(t, inference)
        b.ret(checked(b, launch.op, b.arg("args"), arity, t, array))


def _write_operator(module: IRModule, offsets: dict[str, int]) -> None:
    """extempo_operator(a, b): apply() of an op without attributes, for a tensor and a tensor or number.

    Mirrors `dispatch.fast_path.runner2`.
    """
    with module.function("extempo_operator", ptr, self=ptr, args=ptr, nargs=i64) as b:
        o = Objects(b, offsets)
        python, packed, args = o.python, b.arg("self"), Pointer(b.arg("args"), ptr)
        usual = b.var(i1, 0)
        with b.if_(b.arg("nargs") == 2):
            first, second = python.type_of(args[0]), python.type_of(args[1])
            number = (second == o.known("float")) | (second == o.known("int"))
            usual.set(o.is_tensor(first) & (o.is_tensor(second) | number))
        with b.if_(~usual.value):
            b.ret(python.vectorcall(python.item(packed, 1), args.address, b.arg("nargs"), b.const(ptr, 0)))
        inputs = o.check(python.new_tuple(2))
        for k in range(2):
            python.set_item(inputs, k, python.incref(args[k]))
        given = b.array(ptr, 3)
        for k, x in enumerate((python.item(packed, 2), inputs, o.known("no_attributes"))):
            given[k] = x
        made = b.call(module.defined["extempo_apply"], python.item(packed, 0), given.address, 3)
        python.decref(inputs)
        b.ret(made)


def _write_calls(module: IRModule, offsets: dict[str, int]) -> None:
    """Everything that runs an op now, into a module that has its table."""
    write_making(module, offsets)
    write_record(module, offsets)
    for arity in (1, 2):
        _write_launch(module, offsets, arity)
    write_apply(module, offsets)
    _write_operator(module, offsets)
    write_front(module, offsets)


class Launcher:
    """The loaded functions, and the launches that were made of them."""

    def __init__(
        self, classes: Classes, table: dict[str, Any], signatures: dict[Any, Any], new_signature: Any, slow: Any
    ) -> None:
        """`new_signature(op, types, attrs)` puts one into `signatures`; `slow(op, inputs, attrs)` runs all the rest."""
        self.offsets = offsets = offsets_of(classes)

        def write(module: IRModule) -> None:
            write_table(module, len(TABLE))
            _write_calls(module, offsets)

        load_views()
        names = ["table", "launch1", "launch2", "apply", "operator", "front", "go_on"]
        self._library = load_calls(write, [f"extempo_{name}" for name in names], offsets)
        self._checked: dict[int, int] | None = None
        self._known = known_objects(classes, table)
        self._tables: list[Any] = []
        self._more: list[dict[str, Any]] = []  # what tables of others refer to
        self._segment_calls: dict[str, Any] = {}
        self._fill_table(self._library)
        self._for_apply = (signatures, slow, new_signature)
        self.apply = function("apply", self._library.address["extempo_apply"], self._for_apply)
        self.go_on = function("go_on", self._library.address["extempo_go_on"])

    def _fill_table(self, library: Library) -> None:
        address = ctypes.CFUNCTYPE(ctypes.c_void_p)(library.address["extempo_table"])()
        self._tables.append((ctypes.c_void_p * len(TABLE)).from_address(address))
        fill_table(self._tables[-1], self._known)

    def extend(
        self, write: Callable[[IRModule], None], names: list[str], offsets: dict[str, int], more: dict[str, Any]
    ) -> Library:
        """More functions that know Extempo's objects; `more` stand in their table behind everybody's."""

        def with_making(module: IRModule) -> None:
            write_making(module, offsets)
            write(module)

        return self._load_more(with_making, names, offsets, more)

    def _load_more(
        self, write: Callable[[IRModule], None], names: list[str], facts: Any, more: dict[str, Any]
    ) -> Library:
        def with_table(module: IRModule) -> None:
            write_table(module, len(TABLE) + len(more))
            write(module)

        library = load_calls(with_table, ["extempo_table", *names], facts)
        self._fill_table(library)
        address = ctypes.CFUNCTYPE(ctypes.c_void_p)(library.address["extempo_table"])()
        cells = (ctypes.c_void_p * len(more)).from_address(address + 8 * len(TABLE))
        for i, found in enumerate(more.values()):
            cells[i] = id(found)
        self._more.append(more)
        return library

    def segment_call(self, name: str) -> Callable[..., Any] | None:
        """`flush` or `backward`, compiled when first asked for: eager mode has no traces.

        None where references are not counted as native code reads them.
        """
        if not counts_references():
            return None

        def write(module: IRModule) -> None:
            write_table(module, len(TABLE))
            write_parts(module, self.offsets)
            write_flush(module, self.offsets)
            write_backward(module, self.offsets)

        if not self._segment_calls:
            names = ["extempo_table", "extempo_flush", "extempo_backward"]
            library = load_calls(write, names, self.offsets, RARE)
            self._fill_table(library)
            made = {name: function(name, library.address[f"extempo_{name}"]) for name in ("flush", "backward")}
            self._segment_calls.update(made)
        return self._segment_calls[name]

    @property
    def addresses(self) -> dict[str, int]:
        """Where the functions are that calls are made of."""
        return self._library.address

    def timed(self) -> dict[int, int]:
        """For a profile: launches that time their kernels, by the addresses of those that do not."""

        def write(module: IRModule) -> None:
            time_kernels(module)
            write_table(module, len(TABLE))
            write_making(module, self.offsets)
            write_record(module, self.offsets)
            for arity in (1, 2):
                _write_launch(module, self.offsets, arity)

        names = [f"extempo_launch{arity}" for arity in (1, 2)]
        library = load_calls(write, ["extempo_table", *names], ("timed", self.offsets))
        self._fill_table(library)
        return {self._library.address[name]: library.address[name] for name in names}

    def checked(
        self, found_nan: Callable[[Any, tuple[Any, ...], Any], None], by_flag: frozenset[Any], on_one_thread: bool
    ) -> dict[int, int]:
        """For a guard: calls that look for nan in their results, by the addresses of those that do not.

        `found_nan(op, inputs, result)` is called where there is one, or may be; what it raises the op raises. The
        results of the ops `by_flag` need not be read if the processor's flag is clear, which knows of one thread only.
        """
        if self._checked is None:
            names = [f"extempo_{name}" for name in ("launch1", "launch2", "apply", "operator", "front")]
            asked = "extempo_trusts_flag"
            more = {"found_nan": found_nan, "by_flag": by_flag}

            def write(module: IRModule) -> None:
                check_results(module, self.offsets)
                _write_calls(module, self.offsets)

            library = self._load_more(write, [*names, asked], ("checked", self.offsets), more)
            word = ctypes.CFUNCTYPE(ctypes.c_void_p)(library.address[asked])()
            self._trusts_flag = ctypes.c_int64.from_address(word)
            self._checked = {self._library.address[name]: library.address[name] for name in names}
        self._trusts_flag.value = on_one_thread
        return self._checked

    def set_parameter(self, cls: type) -> None:
        """The subclass of Tensor whose instances are treated like tensors."""
        self._set("parameter", cls)

    def set_sample(self, cls: type) -> None:
        """In a mode with an interceptor of this class, `record_op(interceptor, op, inputs, attrs)` runs ops."""
        self._set("sample", cls)

    @property
    def sample(self) -> Any:
        """That class; None as long as there is none."""
        return self._known["sample"]

    @property
    def record_op(self) -> Any:
        return self._known["record_op"]

    @record_op.setter
    def record_op(self, function: Any) -> None:
        self._set("record_op", function)

    def _set(self, name: str, value: Any) -> None:
        self._known[name] = value
        for cells in self._tables:
            cells[TABLE.index(name)] = id(value)

    def operator(self, op: Any, slow: Callable[..., Any]) -> Callable[..., Any]:
        """An operator of two operands that goes straight to `apply`; `slow(a, b)` for what are no such operands."""
        return function(op.name, self._library.address["extempo_operator"], (self._for_apply, slow, op))

    def front(
        self, fn: Callable[..., Any], slow: Callable[..., Any], lately: list[Any], entries: dict[Any, Any]
    ) -> Callable[..., Any]:
        """A function of which these entries say what it makes of its arguments; `slow(*arguments)` of others."""
        given = self._for_apply, slow, lately, entries, fn
        return function(fn.__name__, self._library.address["extempo_front"], given)

    def launch(self, name: str, op: Any, arity: int, slow: Callable[..., Any]) -> Launch:
        return Launch(name, op, self._library.address[f"extempo_launch{arity}"], slow)


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
