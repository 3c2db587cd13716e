"""Tracing in native code: an op that a known edge of the trace tree fits goes onto the trace without a line of Python.

What `Tracer.append` does, where one of the last two edges that were taken from here is the same op on the same inputs.
Everything that can fail or run someone else's code comes first, then the inputs are compared, then the trace is
changed: an op that does not fit has changed nothing and goes to Python, which looks for another edge or adds one.

On a trace that has escaped, by a loss outside for example, results are weak references, each with the number that its
node would have: `extempo_go_on`, for who has the lock of such traces.
"""

from __future__ import annotations

from ....core.trace_tree import NUMBER
from ..ir.builder import IRFunction, IRModule, Pointer, Value, i1, i32, i64, ptr
from .cpython import ALIGNED, ARRAY_DTYPE, LARGEST, TUPLE_ITEMS
from .objects import Objects

MAX_FRESH = 16  # leaves that one op can bring along
# What at_once says of an op that is not put on the trace.
NOT_NOW, NOW, NOW_IF_VIEW = range(3)
_PER_LEAF = ("leaves", "arrays", "nodes", "memories", "versions")
_PER_PLACE = ("results", "makers")
Modes = tuple[Value, Value]  # whether gradients are tracked, whether it is inference mode


class _Record:
    """Writes the function: fields shared by its steps."""

    def __init__(self, b: IRFunction, offsets: dict[str, int]) -> None:
        self.b = b
        self.o = Objects(b, offsets)
        self.python = self.o.python
        self.recording = b.arg("recording")
        self.trace = self._trace()  # borrowed: `make_results` sees to it that it is still there
        self.inputs = Pointer(b.arg("inputs"), ptr)
        self.n_inputs = b.arg("n_inputs")
        self.made = b.var(ptr, 0)  # the result, or a tuple of them: ours until it is returned
        self.weak, self.clock = b.var(ptr, 0), b.var(ptr, 0)  # where it was left: for `results` and `clocks`
        self.fresh = b.array(ptr, MAX_FRESH)  # leaves that are new
        self.fresh_at = b.array(i64, MAX_FRESH)  # which inputs they are
        self.n_fresh = b.var(i64, 0)
        self.n_numbers = b.var(i64, 0)  # among the inputs so far
        self.failed = b.var(i32, 0)
        self.state, self.proxy = self.own("cursor"), self.own("proxy")
        self.step = self._edge()
        self.python.incref(self.step)  # another thread may look for another edge from here
        self.not_here = b.way_out(lambda: self.leave(self.o.known("none")))
        self.failed_here = b.way_out(lambda: self.leave(b.const(ptr, 0)))

    def _edge(self) -> Value:
        """The edge that was taken last from here, or else the one before it; it returns unless one is the same op."""
        b, o = self.b, self.o
        edge = b.var(ptr, o.get(self.state, "state.step"))
        with b.if_(edge.value == o.known("none")):
            b.ret(o.known("none"))
        with b.if_(o.get(edge.value, "step.op") != b.arg("op")):
            others = o.get(self.state, "state.others")
            n_others = self.length(others)
            with b.if_(n_others == 0):
                b.ret(o.known("none"))
            edge.set(self.python.item(others, n_others - 1))
            with b.if_(o.get(edge.value, "step.op") != b.arg("op")):
                b.ret(o.known("none"))
        return edge.value

    def _trace(self) -> Value:
        return self.o.get(self.recording, "recording.trace")

    def slot(self, name: str) -> Value:
        return self.o.get(self.step, f"step.{name}")

    def own(self, name: str) -> Value:
        """A slot of the trace."""
        return self.o.get(self.trace, f"trace.{name}")

    def size_of(self, name: str) -> Value:
        return self.b.call(self.b.module.declare("PyList_Size", i64, [ptr]), self.own(name))

    def length(self, made: Value) -> Value:
        return self.b.call(self.b.module.declare("PyTuple_Size", i64, [ptr]), made)

    def leave(self, answer: Value) -> None:
        self.python.decref(self.made.value)
        self.release()
        self.b.ret(answer)

    def release(self) -> None:
        for held in (self.weak.value, self.clock.value, self.step):
            self.python.decref(held)

    def unless(self, condition: Value) -> None:
        self.not_here.take_unless(condition)

    # ---- what comes first

    def compare_op(self) -> None:
        b, declare = self.b, self.b.module.declare
        self.unless(self.slot("grad") == b.arg("grad"))
        self.unless(self.length(self.slot("kinds")) == self.n_inputs)
        size = declare("PyDict_Size", i64, [ptr])
        with b.if_((b.call(size, b.arg("attrs")) | b.call(size, self.slot("attrs"))) != 0):
            equal = self.python.equal(b.arg("attrs"), self.slot("attrs"))
            with b.if_(~equal):
                self.failed_here.take_if(self.python.is_raised())
            self.unless(equal)

    def make_results(self) -> None:
        """The results, not yet on the trace. Making them may run finalizers, and these may do anything."""
        b, o, python = self.b, self.o, self.python
        new_result = b.module.defined["extempo_new_result"]
        several, one = b.if_else(python.type_of(self.slot("type")) == python.type_of(o.known("empty")))
        with several:
            n_results = self.length(self.slot("type"))
            self.made.set(python.new_tuple(n_results))
            self.failed_here.take_if(self.made.value == 0)
            with b.loop(0, n_results) as i:
                number = python.as_int(self.slot("place")) + i
                place = b.call(b.module.declare("PyLong_FromLongLong", ptr, [i64]), number)
                self.failed_here.take_if(place == 0)
                t = b.call(new_result, self.recording, self.step, python.item(self.slot("type"), i), place)
                python.decref(place)
                self.failed_here.take_if(t == 0)
                python.set_item(self.made.value, i, t)
        with one:
            self.made.set(b.call(new_result, self.recording, self.step, self.slot("type"), self.slot("place")))
            self.failed_here.take_if(self.made.value == 0)
        with b.if_(b.arg("is_left")):
            self.unless(python.type_of(self.made.value) == o.known("tensor"))
            weak = b.module.declare("PyWeakref_NewRef", ptr, [ptr, ptr])
            self.weak.set(b.call(weak, self.made.value, b.const(ptr, 0)))
            self.failed_here.take_if(self.weak.value == 0)
            self.clock.set(python.new_tuple(2))
            self.failed_here.take_if(self.clock.value == 0)
            python.set_item(self.clock.value, 0, python.incref(self.slot("place")))
            number = b.call(b.module.declare("PyObject_CallNoArgs", ptr, [ptr]), o.known("next_number"))
            self.failed_here.take_if(number == 0)
            python.set_item(self.clock.value, 1, number)
        # Another trace in the same place as one that has ended would have another proxy than its tracked tensors.
        self.unless(self._trace() == self.trace)
        self.unless((self.own("cursor") == self.state) & (self.own("proxy") == self.proxy))
        self.unless((self.own("inside") == o.known("true")) ^ b.arg("is_left"))

    # ---- the inputs

    def compare_inputs(self) -> None:
        b, o, python = self.b, self.o, self.python
        # An interrupt in Python may have left the other lists of leaves longer than the last one.
        self.n_leaves, self.n_before = self.size_of(_PER_LEAF[-1]), self.size_of("numbers")
        self.n_clocks = self.size_of("clocks")
        self.baked = self.slot("baked")
        packed = Pointer(b.call(b.module.declare("PyBytes_AsString", ptr, [ptr]), self.slot("packed")), i64)
        with b.loop(0, self.n_inputs) as i:
            x, kind = self.inputs[i], python.item(self.slot("kinds"), i)
            ref, tracked = packed[i * 2], packed[i * 2 + 1]
            type_ = python.type_of(x)
            tensor, other = b.if_else(o.is_tensor(type_))
            with tensor:
                self._compare_tensor(i, x, kind, ref, tracked != 0)
            with other:
                self.unless(type_ == kind)
                with b.if_(type_ != o.known("none_type")):
                    self._compare_number(x, ref)

    def _compare_number(self, x: Value, ref: Value) -> None:
        b, count = self.b, self.n_numbers.value
        part_of_key, free = b.if_else(self.baked != self.o.known("none"))
        with part_of_key:
            self.unless(self.python.equal(self.python.item(self.baked, count), x))
        with free:
            self.unless(ref == self.n_before + count + NUMBER)
        self.n_numbers.set(count + 1)

    def _compare_tensor(self, i: Value, x: Value, kind: Value, ref: Value, tracked: Value) -> None:
        b, o = self.b, self.o
        traced, outside = b.if_else(o.get(x, "tensor._source") == self.recording)
        with traced:
            self.unless(self.python.as_int(o.get(x, "tensor._value_id")) == ref)
        with outside:
            self._compare_leaf(i, x, ref)
        type_ = o.get(x, "tensor._type")
        with b.if_(type_ != kind):
            self.unless(self.python.equal(type_, kind))
        self.unless(o.is_tracked(x) == tracked)

    def _compare_leaf(self, i: Value, x: Value, ref: Value) -> None:
        b, o = self.b, self.o
        array = o.values_of(x, self.not_here)
        found = b.var(i64, -1 - self.n_leaves - self.n_fresh.value)
        is_new = b.var(i1, 1)
        with b.if_(o.get(x, "tensor._source") == self.own("token")):
            place = self.python.as_int(o.get(x, "tensor._value_id"))
            self.unless(place >= -self.n_leaves)
            item = b.module.declare("PyList_GetItem", ptr, [ptr, i64])
            same_array = b.call(item, self.own("arrays"), -1 - place) == array
            same_node = b.call(item, self.own("nodes"), -1 - place) == o.get(x, "tensor._history")
            with b.if_(same_array & same_node):  # otherwise it was changed since, and is another leaf
                found.set(place)
                is_new.set(0)
        with b.if_(is_new.value), b.loop(0, self.n_fresh.value) as k, b.if_(self.fresh[k] == x):
            found.set(-1 - self.n_leaves - k)
            is_new.set(0)
        self.unless(found.value == ref)
        with b.if_(is_new.value):
            self._compare_new_leaf(x, array)
            self.fresh[self.n_fresh.value] = x
            self.fresh_at[self.n_fresh.value] = i
            self.n_fresh.set(self.n_fresh.value + 1)

    def _compare_new_leaf(self, x: Value, array: Value) -> None:
        """With the LeafKind; type and tracking are compared like those of any input."""
        b, o, python = self.b, self.o, self.python
        kinds = self.slot("new_leaves")
        self.unless((self.n_fresh.value < MAX_FRESH) & (self.n_fresh.value < self.length(kinds)))
        dtype = python.item(o.get(x, "tensor._type"), 1)
        self.unless(b.field(ptr, array, ARRAY_DTYPE) == o.get(dtype, "dtype.numpy"))
        flags = python.flags(array)
        self.unless((flags & ALIGNED) != 0)
        strides = python.item(python.item(kinds, self.n_fresh.value), 1)
        ndim, own, shape = python.ndim(array), python.strides(array), python.shape(array)
        as_new, other = b.if_else(strides == o.known("none"))
        with as_new:  # the strides of a new array, also where there is a single element
            step = b.var(i64, python.as_int(o.get(dtype, "dtype.itemsize")))
            with b.loop(0, ndim) as back:
                d = ndim - 1 - back
                self.unless(own[d] == step.value)
                step.set(step.value * shape[d])
        with other:
            self.unless(self.length(strides) == ndim)
            with b.loop(0, ndim) as d:
                self.unless(python.as_int(python.item(strides, d)) == own[d])

    # ---- the trace

    def append(self, name: str, o: Value) -> None:
        declared = self.b.module.declare("PyList_Append", i32, [ptr, ptr])
        self.failed.set(self.failed.value | self.b.call(declared, self.own(name), o))

    def commit(self) -> None:
        """Nothing from here on runs anyone's code, so nobody sees it half done."""
        b, o, python = self.b, self.o, self.python
        with b.loop(0, self.n_fresh.value) as k:
            x = self.fresh[k]
            memory = o.get(x, "tensor._memory")
            parts = (x, o.get(x, "tensor._data"), o.get(x, "tensor._history"), memory, o.get(memory, "storage.version"))
            for name, part in zip(_PER_LEAF, parts, strict=True):
                self.append(name, part)
        has_numbers = (self.n_numbers.value != 0) & (self.baked == o.known("none"))
        with b.if_(has_numbers), b.loop(0, self.n_inputs) as i:
            type_ = python.type_of(self.inputs[i])
            with b.if_(~o.is_tensor(type_) & (type_ != o.known("none_type"))):
                self.append("numbers", self.inputs[i])
        several, one = b.if_else(python.type_of(self.made.value) == python.type_of(o.known("empty")))
        with several, b.loop(0, self.length(self.made.value)) as i:
            self.append("results", python.item(self.made.value, i))
            self.append("makers", self.step)
        with one:
            self.append("results", b.select(b.arg("is_left"), self.weak.value, self.made.value))
            self.append("makers", self.step)
        with b.if_(b.arg("is_left")):
            self.append("clocks", self.clock.value)
        with b.if_(self.failed.value != 0):
            self._undo()
        with b.loop(0, self.n_fresh.value) as k:
            o.replace(self.fresh[k], "tensor._source", python.incref(self.own("token")))
            place = python.item(self.slot("refs"), self.fresh_at[k])
            o.replace(self.fresh[k], "tensor._value_id", python.incref(place))
        o.replace(self.trace, "trace.cursor", python.incref(self.slot("following")))

    def _undo(self) -> None:
        """There was no memory for a longer list: all of them are again as long as they were."""
        b = self.b
        n_places = self.python.as_int(self.slot("place"))
        cut = b.module.declare("PyList_SetSlice", i32, [ptr, i64, i64, ptr])
        numbers, clocks = (("numbers",), self.n_before), (("clocks",), self.n_clocks)
        for names, size in ((_PER_LEAF, self.n_leaves), numbers, clocks, (_PER_PLACE, n_places)):
            for name in names:
                b.call(cut, self.own(name), size, LARGEST, b.const(ptr, 0))
        self.failed_here.take()


def _write_new_result(module: IRModule, offsets: dict[str, int]) -> None:
    """extempo_new_result: a traced tensor without values. Mirrors `tracing.trace.Trace.new_result`."""
    with module.function("extempo_new_result", ptr, internal=True, recording=ptr, step=ptr, type=ptr, place=ptr) as b:
        o = Objects(b, offsets)
        step, none = b.arg("step"), o.known("none")
        floating = o.get(o.python.item(b.arg("type"), 1), "dtype.is_floating_point") == o.known("true")
        tracked = (o.get(step, "step.tracked") == o.known("true")) & floating
        t = o.new("tensor")
        for name in ("_data", "_memory", "_alias"):
            o.set_shared(t, f"tensor.{name}", none)
        o.set_shared(t, "tensor._type", b.arg("type"))
        trace = o.get(b.arg("recording"), "recording.trace")
        o.set_shared(t, "tensor._history", b.select(tracked, o.get(trace, "trace.proxy"), none))
        o.set_shared(t, "tensor._grad_barrier", o.get(step, "step.cut"))
        o.set_shared(t, "tensor._source", b.arg("recording"))
        o.set_shared(t, "tensor._value_id", b.arg("place"))
        b.ret(t)


def _write_at_once(module: IRModule, offsets: dict[str, int]) -> None:
    """extempo_at_once: whether an op that no edge fits runs now: it has no tensors, or may be a view.

    A view of what is there already, through which no gradient passes, is made at once.
    """
    with module.function("extempo_at_once", i64, internal=True, inputs=ptr, n_inputs=i64, grad=i1) as b:
        o = Objects(b, offsets)
        inputs, not_now = Pointer(b.arg("inputs"), ptr), b.way_out(lambda: b.ret(NOT_NOW))
        with b.if_(b.arg("n_inputs") > 0):
            first = inputs[0]
            with b.if_(o.is_tensor(o.python.type_of(first))):
                o.values_of(first, not_now)
                not_now.take_if(o.is_tracked(first) & b.arg("grad"))
                b.ret(NOW_IF_VIEW)
        with b.loop(0, b.arg("n_inputs")) as i:
            not_now.take_if(o.is_tensor(o.python.type_of(inputs[i])))
        b.ret(NOW)


def put_on_tape(o: Objects, recording: Value, call: tuple[Value, Value, int | Value, Value], mode: Modes) -> Value:
    """Write the call of extempo_record for (op, address of the inputs, their number, attributes)."""
    grad, inference = mode
    key = o.b.select(grad, o.known("true"), o.b.select(inference, o.known("none"), o.known("false")))
    return o.b.call(o.b.module.defined["extempo_record"], recording, *call, key, o.b.const(i1, 0))


def write_record(module: IRModule, offsets: dict[str, int]) -> None:
    """extempo_record: the result(s) of an op that is on the trace now; None if it is not; null at an error.

    extempo_go_on(executor, op, inputs, attrs, grad): the same for Python, on a trace that has escaped.

    Mirrors `tracing.tracer.Tracer.append`.
    """
    _write_new_result(module, offsets)
    _write_at_once(module, offsets)
    args = {"recording": ptr, "op": ptr, "inputs": ptr, "n_inputs": i64, "attrs": ptr, "grad": ptr, "is_left": i1}
    with module.function("extempo_record", ptr, internal=True, **args) as b:
        o = Objects(b, offsets)
        with b.if_(o.python.type_of(b.arg("recording")) != o.known("recording")):
            b.ret(o.known("none"))
        record = _Record(b, offsets)
        record.compare_op()
        record.make_results()
        record.compare_inputs()
        record.commit()
        record.release()
        b.ret(record.made.value)
    with module.function("extempo_go_on", ptr, self=ptr, args=ptr, nargs=i64) as b:
        o, given = Objects(b, offsets), Pointer(b.arg("args"), ptr)
        recording, op, inputs, attrs, grad = (given[k] for k in range(5))
        n_inputs = b.call(module.declare("PyTuple_Size", i64, [ptr]), inputs)
        first = b.byte_offset(inputs, TUPLE_ITEMS)
        made = b.call(module.defined["extempo_record"], recording, op, first, n_inputs, attrs, grad, b.const(i1, 1))
        with b.if_(made == o.known("none")):
            o.python.incref(made)
        b.ret(made)
