"""The inner loop of backward in native code, for nodes whose gradient is known as kernels.

`reach(roots)` collects every node below; `walk(order, position, gradients, owned, keep)` goes down the order and hands
gradients on, until it meets a node that needs more than that (a hook, several results), and returns its place: Python
does that node and calls again. What it does is what `autograd.engine` does, in the same order.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..elementwise.broadcasting import DONE, FAILED, MAX_INPUTS, MAX_RESULTS
from ..elementwise.kernels import ElementwiseKernel
from ..ir.builder import IRFunction, IRModule, IRVariable, Pointer, Value, i1, i32, i64, ptr
from . import probes
from .callables import function
from .cpython import C_CONTIGUOUS, slot_offset
from .finiteness import write_finiteness
from .loading import load_calls
from .objects import object_new, write_table
from .probes import now
from .sums import TABLE, keep_gradient, objects, write_sums
from .views import load_views

# The record of a gradient: a head, the positions in `inputs` of numbers, then (input, source, fresh) for each output.
# A source is the place among the results, or PASSED for the incoming gradient itself; fresh memory may be added to.
_HEAD = ("kernel", "n_saved", "n_numbers", "n_outputs")
_OUTPUTS_AT = len(_HEAD) + MAX_INPUTS
_SIZE = _OUTPUTS_AT + 3 * MAX_RESULTS
PASSED = -1


class NativeGradient:
    """What native code needs to run a gradient: an elementwise kernel, or a Python function that returns a tuple."""

    __slots__ = ("call", "keep", "record")

    def __init__(
        self, compute: Any, n_saved: int, numbers: Sequence[int], outputs: Sequence[tuple[int, int, bool]]
    ) -> None:
        """`outputs`: for each gradient the input it belongs to, its source, and whether its memory is fresh."""
        kernel = compute if isinstance(compute, ElementwiseKernel) else None
        self.call = compute if kernel is None else None
        view = (ctypes.c_char * len(kernel.record)).from_buffer(kernel.record) if kernel is not None else None
        self.keep = (kernel, view)  # a bytearray that is looked at does not move
        address = ctypes.addressof(view) if view is not None else 0
        fields: list[int] = [address, n_saved, len(numbers), len(outputs), *numbers]
        fields += [0] * (_OUTPUTS_AT - len(fields))
        for output in outputs:
            fields += output
        fields += [0] * (_SIZE - len(fields))
        self.record = bytearray(struct.pack(f"<{_SIZE}q", *fields))

    def calling(self, compute: Callable[..., tuple[Any, ...]]) -> NativeGradient:
        """The same, with another function."""
        made = NativeGradient.__new__(NativeGradient)
        made.call, made.keep, made.record = compute, self.keep, self.record
        return made


def _write_reach(module: IRModule, offsets: dict[str, int]) -> None:
    """reach(list of nodes): every node below, in no order; or a node that was freed.

    Mirrors `autograd.native_engine.reach`.
    """
    with module.function("extempo_reach", ptr, self=ptr, args=ptr, nargs=i64) as b:
        o = objects(b, offsets)
        python, declare = o.python, module.declare
        size = declare("PyList_Size", i64, [ptr])
        item = declare("PyList_GetItem", ptr, [ptr, i64])
        append = declare("PyList_Append", i32, [ptr, ptr])
        count = declare("PySet_Size", i64, [ptr])
        roots = Pointer(b.arg("args"), ptr)[0]
        found = b.call(declare("PyList_New", ptr, [i64]), 0)
        seen = b.call(declare("PySet_New", ptr, [ptr]), b.const(ptr, 0))
        answer = b.var(ptr, 0)

        def let_go() -> None:
            python.decref(found)
            python.decref(seen)
            b.ret(answer.value)

        end = b.way_out(let_go)
        end.take_if((found == 0) | (seen == 0))

        def visit(node: Value) -> None:
            before = b.call(count, seen)
            end.take_if(b.call(declare("PySet_Add", i32, [ptr, ptr]), seen, node) != 0)
            with b.if_(b.call(count, seen) != before):
                end.take_if(b.call(append, found, node) != 0)

        with b.loop(0, b.call(size, roots)) as i:
            visit(b.call(item, roots, i))
        done = b.var(i64, 0)  # nodes before this place have had their inputs visited
        with b.while_(lambda: done.value < b.call(size, found)):
            node = b.call(item, found, done.value)
            with b.if_(o.get(node, "node.saved") == o.known("none")):
                answer.set(python.incref(node))
                end.take()
            inputs = o.get(node, "node.inputs")
            with b.loop(0, b.call(declare("PyTuple_Size", i64, [ptr]), inputs)) as k:
                source = python.item(inputs, k)
                with b.if_(python.type_of(source) == o.known("node")):
                    visit(source)
            done.set(done.value + 1)
        answer.set(python.incref(found))
        end.take()


class _BackwardStep:
    """Writes what is done with one node. `decline` leaves everything as it was."""

    def __init__(self, b: IRFunction, offsets: dict[str, int]) -> None:
        self.b = b
        self.o = objects(b, offsets)
        self.python = self.o.python
        self.node, self.g = b.arg("node"), b.arg("g")
        self.arguments = b.array(ptr, MAX_INPUTS)
        self.results = b.array(ptr, MAX_RESULTS)
        self._declined = b.way_out(lambda: b.ret(0))

    def decline_if(self, condition: Value) -> None:
        self._declined.take_if(condition)

    def find(self) -> None:
        b, o = self.b, self.o
        with b.if_(o.get(self.node, "node.op") == o.known("leaf")):
            self.decline_if(self.python.type_of(self.g) != o.known("array"))
            b.ret(b.call(b.module.defined["accumulate"], self.node, self.g, b.arg("owned")))
        derived = o.get(self.node, "node.derived")
        self.decline_if((derived == o.known("none")) | (o.get(self.node, "node.extra") != o.known("none")))
        self.decline_if(self.python.type_of(self.g) != o.known("array"))
        with b.if_(self.python.type_of(derived) == o.known("bytes")):
            record = self.python.bytes_of(derived)
            embed = b.module.defined["embed"]
            b.ret(b.call(embed, self.node, record, self.g, b.arg("gradients"), b.arg("owned")))
        gradient = o.get(derived, "derived.native")
        self.decline_if(gradient == o.known("none"))
        self.call = o.get(gradient, "gradient.call")
        self.record = Pointer(self.python.bytes_of(o.get(gradient, "gradient.record")), i64)
        self.head = {name: self.record[i] for i, name in enumerate(_HEAD)}
        self.inputs = o.get(self.node, "node.inputs")

    def gather(self) -> None:
        b, python = self.b, self.python
        saved = self.o.get(self.node, "node.saved")
        self.decline_if(saved == self.o.known("none"))  # freed by another thread since this run began
        self.decline_if(b.call(b.module.declare("PyTuple_Size", i64, [ptr]), saved) != self.head["n_saved"])
        self.arguments[0] = self.g
        with b.loop(0, self.head["n_saved"]) as i:
            entry = python.item(saved, i)
            version = self.o.get(python.item(entry, 2), "storage.version")
            with b.if_(version != python.item(entry, 3)):
                self.decline_if(~python.equal(version, python.item(entry, 3)))
            self.arguments[i + 1] = python.item(entry, 1)
        with b.loop(0, self.head["n_numbers"]) as i:
            number = python.item(self.inputs, self.record[i + len(_HEAD)])
            self.arguments[self.head["n_saved"] + i + 1] = number

    def run(self) -> None:
        b, python = self.b, self.python
        with b.if_(self.head["kernel"] != 0):
            record = b.emit(ptr, f"inttoptr i64 {self.head['kernel'].text} to ptr")
            callee = b.module.declare("extempo_elementwise", i64, [ptr, ptr, ptr, i64])
            status = b.call(callee, record, self.arguments.address, self.results.address, 0)
            with b.if_(status == FAILED):
                b.ret(-1)
            self.decline_if(status != DONE)
        with b.if_(self.call != self.o.known("none")):
            n_arguments = self.head["n_saved"] + self.head["n_numbers"] + 1
            answer = python.vectorcall(self.call, self.arguments.address, n_arguments, b.const(ptr, 0))
            with b.if_(answer == 0):
                b.ret(-1)
            with b.loop(0, self.head["n_outputs"]) as i:
                self.results[i] = python.incref(python.item(answer, i))
            python.decref(answer)

    def hand_on(self) -> None:
        """Each gradient to its input: the first stays as it is, later ones are added to it."""
        b, python, declare = self.b, self.python, self.b.module.declare
        gradients, owned = b.arg("gradients"), b.arg("owned")
        with b.loop(0, self.head["n_outputs"]) as i:
            output = self.record + (i * 3 + _OUTPUTS_AT)
            source, place = python.item(self.inputs, output[0]), output[1]
            fresh = b.var(i1, output[2] != 0)
            out = b.var(ptr, self.g)
            passed, computed = b.if_else(place == PASSED)
            with passed:
                python.incref(self.g)
            with computed:
                out.set(self.results[place])
            self._fit(source, out, fresh)
            before = b.call(declare("PyDict_GetItem", ptr, [ptr, ptr]), gradients, source)
            failed = b.var(i1, 0)
            first, later = b.if_else(before == 0)
            with first:
                fresh_one, shared = b.if_else(fresh.value)
                with fresh_one:
                    failed.set(keep_gradient(b, gradients, owned, source, out.value) != 0)
                with shared:
                    put = declare("PyDict_SetItem", i32, [ptr, ptr, ptr])
                    failed.set(b.call(put, gradients, source, out.value) != 0)
            with later:
                failed.set(self._add(source, before, out.value))
            python.decref(out.value)
            with b.if_(failed.value):
                b.ret(-1)

    def _fit(self, source: Value, out: IRVariable, fresh: IRVariable) -> None:
        """Sum a gradient over the dimensions in which its input was broadcast."""
        b, o, python = self.b, self.o, self.python
        own, type_ = o.get(self.node, "node.type"), o.get(source, "node.type")
        with b.if_((type_ != own) & (self.call == o.known("none"))), b.if_(~python.equal(type_, own)):
            args = b.array(ptr, 2)
            args[0] = out.value
            args[1] = type_
            summed = python.vectorcall(o.known("sum_to"), args.address, b.const(i64, 2), b.const(ptr, 0))
            python.decref(out.value)
            with b.if_(summed == 0):
                b.ret(-1)
            out.set(summed)
            fresh.set(1)

    def _add(self, source: Value, before: Value, more: Value) -> Value:
        """Add to the gradient of a node that has one; whether that failed."""
        b, python, owned, failed = self.b, self.python, self.b.arg("owned"), self.b.var(i1, 0)
        is_owned = b.call(b.module.declare("PySet_Contains", i32, [ptr, ptr]), owned, source) == 1
        is_in_order = (python.flags(before) & C_CONTIGUOUS) != 0
        in_place, apart = b.if_else(is_owned | is_in_order)
        with in_place:
            failed.set(self._add_in_place(source, before, more, is_owned))
        with apart:
            args = b.array(ptr, 2)
            args[0] = before
            args[1] = more
            total = python.vectorcall(self.o.known("sum_apart"), args.address, b.const(i64, 2), b.const(ptr, 0))
            failed.set(total == 0)
            with b.if_(total != 0):
                failed.set(keep_gradient(b, b.arg("gradients"), owned, source, total) != 0)
            python.decref(total)
        return failed.value

    def _add_in_place(self, source: Value, before: Value, more: Value, is_owned: Value) -> Value:
        b, python, declare = self.b, self.python, self.b.module.declare
        total, failed = b.var(ptr, python.incref(before)), b.var(i1, 0)
        with b.if_(~is_owned):
            copy = python.contiguous_copy(before)
            python.decref(before)
            total.set(copy)
            failed.set(copy == 0)
            with b.if_(copy != 0):
                failed.set(keep_gradient(b, b.arg("gradients"), b.arg("owned"), source, copy) != 0)
        with b.if_(~failed.value):
            added = b.call(b.module.defined["add_into"], total.value, more)
            failed.set(added < 0)
            with b.if_(added == 0):
                answer = b.call(declare("PyNumber_InPlaceAdd", ptr, [ptr, ptr]), total.value, more)
                failed.set(answer == 0)
                python.decref(answer)
        python.decref(total.value)
        return failed.value


def _write_step(module: IRModule, offsets: dict[str, int]) -> None:
    """step(node, g, gradients, owned): 1 done, 0 declined, -1 a Python error is set.

    Mirrors `autograd.engine.BackwardEngine._by_kernel`.
    """
    with module.function("step", i64, internal=True, node=ptr, g=ptr, gradients=ptr, owned=ptr) as b:
        step = _BackwardStep(b, offsets)
        step.find()
        step.gather()
        step.run()
        step.hand_on()
        b.ret(1)


def _write_timed_step(module: IRModule, offsets: dict[str, int]) -> None:
    """timed_step: as `step`, and a record of it, at the line of the node's op."""
    parts = {"node": ptr, "g": ptr, "gradients": ptr, "owned": ptr}
    with module.function("timed_step", i64, internal=True, **parts) as b:
        o, node = objects(b, offsets), b.arg("node")
        where, op = o.get(node, "node.where"), o.get(node, "node.op")
        instruction, code = b.var(i32, -1), b.var(ptr, 0)
        with b.if_(o.python.type_of(where) == o.python.type_of(o.known("empty"))):
            code.set(o.python.item(where, 0))
            probes.keep(b, code.value)
            instruction.set(b.cast("trunc", o.python.as_int(o.python.item(where, 1)), i32))
        probes.keep(b, op)
        before, begin = probes.inner(b), now(b)
        status = b.call(module.defined["step"], *(b.arg(name) for name in parts))
        with b.if_(status == 1):
            end, taken = now(b), probes.inner(b) - before
            line = {"instruction": instruction.value, "code": code.value}
            probes.record(b, begin, end, probes.NODE_SITE, **line, object=op, inner=taken)
        b.ret(status)


def _write_walk(module: IRModule, offsets: dict[str, int], step: str = "step") -> None:
    """walk(order, position, gradients, owned, keep): the number of nodes left; the last of them is for Python.

    Mirrors `autograd.engine.BackwardEngine._visit`.
    """
    with module.function("extempo_walk", ptr, self=ptr, args=ptr, nargs=i64) as b:
        o = objects(b, offsets)
        python, declare = o.python, module.declare
        args = Pointer(b.arg("args"), ptr)
        order, gradients, owned = args[0], args[2], args[3]
        keep = args[4] == o.known("true")
        left = b.var(i64, python.as_int(args[1]))
        stopped = b.var(i1, 0)
        with b.while_(lambda: (left.value > 0) & ~stopped.value):
            node = b.call(declare("PyList_GetItem", ptr, [ptr, i64]), order, left.value - 1)
            g = b.call(declare("PyDict_GetItem", ptr, [ptr, ptr]), gradients, node)
            has, has_not = b.if_else(g != 0)
            with has:
                inputs, saved = o.get(node, "node.inputs"), o.get(node, "node.saved")
                held = (g, inputs, saved)  # a backward in another thread may free the node meanwhile
                for each in held:
                    python.incref(each)
                status = b.call(module.defined[step], node, g, gradients, owned)
                for each in held:
                    python.decref(each)
                with b.if_(status < 0):
                    b.ret(b.const(ptr, 0))
                done, declined = b.if_else(status == 1)
                with done:
                    b.call(declare("PyDict_DelItem", i32, [ptr, ptr]), gradients, node)
                    now = o.get(node, "node.saved")
                    with b.if_((now != o.known("none")) & (now != o.known("empty")) & ~keep):
                        o.replace(node, "node.saved", python.incref(o.known("none")))
                        o.replace(node, "node.inputs", python.incref(o.known("empty")))
                    left.set(left.value - 1)
                with declined:
                    stopped.set(1)
            with has_not:
                left.set(left.value - 1)
        b.ret(b.call(declare("PyLong_FromLongLong", ptr, [i64]), left.value))


class Walker:
    """The loaded functions."""

    def __init__(
        self,
        classes: dict[str, type],
        leaf: type,
        sum_to: Callable[..., Any],
        sum_apart: Callable[..., Any],
        add: Sequence[ElementwiseKernel],
        is_timed: bool = False,
    ) -> None:
        """`classes`: those of nodes, storages, ... by name; `add`: the kernels of addition in float32 and float64.

        `is_timed`: it writes records of the nodes that it visits (`probes`).
        """
        slots = {
            "node": ("saved", "inputs", "derived", "extra", "type", "op", "attrs", "where"),
            "storage": ("array", "version", "written_at"),
            "tensor": ("_data", "_memory", "_type", "_history", "_alias", "_grad_barrier", "_source"),
            "extra": ("grad", "hooks", "post_hooks", "retain"),
            "derived": ("native",),
            "gradient": ("call", "record"),
        }
        every = {**classes, "gradient": NativeGradient}
        offsets = {f"{kind}.{name}": slot_offset(every[kind], name) for kind, names in slots.items() for name in names}

        def write(module: IRModule) -> None:
            if is_timed:
                probes.time_kernels(module)
            write_table(module, len(TABLE))
            _write_reach(module, offsets)
            write_sums(module, offsets)
            _write_step(module, offsets)
            if is_timed:
                _write_timed_step(module, offsets)
            _write_walk(module, offsets, "timed_step" if is_timed else "step")
            write_finiteness(module, offsets)

        load_views()
        names = ["extempo_table", "extempo_reach", "extempo_walk", "extempo_add"]
        names += ["extempo_all_finite", "extempo_settle"]
        self._library = load_calls(write, names, ("timed", offsets) if is_timed else offsets)
        self.address = address = self._library.address
        both_contiguous = "11"
        cells = (ctypes.c_void_p * len(TABLE)).from_address(
            ctypes.CFUNCTYPE(ctypes.c_void_p)(address["extempo_table"])()
        )
        known: dict[str, Any] = {"array": np.ndarray, "bytes": bytearray, "none": None, "true": True, "zero": 0}
        known |= {"one": 1, "empty": (), "leaf": leaf, "sum_to": sum_to, "sum_apart": sum_apart, **classes}
        views = [(ctypes.c_char * len(kernel.record)).from_buffer(kernel.record) for kernel in add]
        self._keep = (known, add, views)  # a bytearray that is looked at does not move
        for i, name in enumerate(TABLE):
            wide = name.endswith("64")
            if name.startswith("add"):
                cells[i] = add[wide].place(both_contiguous)
            elif name.startswith("record"):
                cells[i] = ctypes.addressof(views[wide])
            else:
                cells[i] = object_new() if name == "new" else id(known[name])
        self.reach: Callable[..., Any] = function("reach", address["extempo_reach"])
        self.walk: Callable[..., Any] = function("walk", address["extempo_walk"])
        self.add: Callable[..., Any] = function("add", address["extempo_add"])
        self.all_finite: Callable[..., Any] = function("all_finite", address["extempo_all_finite"])
        self.settle: Callable[..., Any] = function("settle", address["extempo_settle"])
