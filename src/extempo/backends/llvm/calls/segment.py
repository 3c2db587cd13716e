"""Running a segment in native code: its plan runs and its tensors get their values without a line of Python.

What `TraceExecutor._flush` does, where the segment was met before with the same tensors live, and has a plan.
Everything that can fail or run someone else's code (the plan itself, new objects: the garbage collector may call
finalizers, and these may trace) comes first; then it is seen whether the trace is still where it was; then all is
changed at once. Whatever does not fit has changed nothing and is left to Python, which may run the plan again: plans
have no effects.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ..ir.builder import IRFunction, IRModule, Pointer, Value, i8, i32, i64, ptr
from .cpython import LARGEST, TUPLE_ITEMS
from .objects import Objects
from .output_binding import ENTRY, OF_BOUND, OF_VALUE, OUTPUT, OutputBinding

REFERENCES = 0  # PyObject.ob_refcnt; the lower half of it is the count in every Python that has a GIL
_PARTS = 3  # what a tensor gets: array, storage, alias
_OWNED = ("trace", "state", "found", "plan", "binding", "live", "arrays", "numbers", "out", "parts", "kept", "runs")


def counts_references() -> bool:
    """Whether references are counted where native code looks: it must know what nobody else holds."""
    o = object()
    before = ctypes.c_int32.from_address(id(o) + REFERENCES).value
    held = [o] * 5
    return ctypes.c_int32.from_address(id(o) + REFERENCES).value == before + len(held)


class FlushCode:
    """Writes the function: fields shared by its steps. It returns through `leave`, which lets go of all it owns.

    `otherwise` is what it returns to say that Python has to do it.
    """

    def __init__(self, b: IRFunction, offsets: dict[str, int], otherwise: str, owned: tuple[str, ...] = ()) -> None:
        self.b = b
        self.o = Objects(b, offsets)
        self.python = self.o.python
        self.recording = Pointer(b.arg("args"), ptr)[0]
        self.owned = {name: b.var(ptr, 0) for name in (*_OWNED, *owned)}
        self._answer = b.var(ptr, 0)
        self.not_here = b.way_out(lambda: self.leave(self.python.incref(self.o.known(otherwise))))
        self.failed = b.way_out(lambda: self.leave(b.const(ptr, 0)))
        self._end = b.way_out(self._let_go_of_all)

    # ---- small words

    def own(self, name: str) -> Value:
        """A slot of the trace."""
        return self.o.get(self.owned["trace"].value, f"trace.{name}")

    def hold(self, name: str, o: Value) -> Value:
        """Take over a new reference until the end; null is an error that is returned."""
        self.owned[name].set(o)
        return self.check(o)

    def share(self, name: str, o: Value) -> Value:
        return self.hold(name, self.python.incref(o))

    def leave(self, answer: Value) -> None:
        """Return a new reference, or null with an error."""
        self._answer.set(answer)
        self._end.take()

    def _let_go_of_all(self) -> None:
        for held in reversed(self.owned.values()):
            self.python.decref(held.value)
        self.b.ret(self._answer.value)

    def unless(self, condition: Value) -> None:
        self.not_here.take_unless(condition)

    def check(self, o: Value) -> Value:
        self.failed.take_if(o == 0)
        return o

    def call(self, name: str, *args: Value | int, returns: Any = ptr) -> Value:
        """A C function on objects and sizes."""
        types = [a.type if isinstance(a, Value) else i64 for a in args]
        return self.b.call(self.b.module.declare(name, returns, types), *args)

    def size(self, listed: Value) -> Value:
        return self.call("PyList_Size", listed, returns=i64)

    def at(self, listed: Value, index: Value) -> Value:
        """An item of a list, borrowed; a list that is too short is left to Python."""
        found = self.call("PyList_GetItem", listed, index)
        with self.b.if_(found == 0):
            self.python.forget("IndexError")
            self.not_here.take()
        return found

    def length(self, made: Value) -> Value:
        return self.call("PyTuple_Size", made, returns=i64)

    def references(self, o: Value) -> Value:
        return self.b.field(i32, o, REFERENCES)

    def of_binding(self, name: str) -> Value:
        return self.python.item(self.owned["binding"].value, OutputBinding._fields.index(name))

    def words(self, name: str) -> Pointer:
        """Bytes of the binding as int64."""
        return Pointer(self.call("PyBytes_AsString", self.of_binding(name)), i64)

    def entry(self, k: Value) -> dict[str, Value]:
        words = self.words("entries") + k * len(ENTRY)
        return {name: words[i] for i, name in enumerate(ENTRY)}

    def part(self, k: Value, which: int) -> Value:
        return self.python.item(self.owned["parts"].value, k * _PARTS + which)

    # ---- what is to be done

    def begin(self) -> None:
        """Where the trace stands. It is ours until the end, also if a finalizer ends it meanwhile."""
        o = self.o
        self.unless(self.python.type_of(self.recording) == o.known("recording"))
        self.share("trace", o.get(self.recording, "recording.trace"))
        self.unless(self.own("inside") == o.known("true"))
        state = self.share("state", self.own("cursor"))
        self.first, self.stop, self.n_leaves = (
            self.python.as_int(o.get(state, f"state.{name}")) for name in ("n_run", "n_places", "n_leaves")
        )

    def mark_live(self) -> None:
        """Which tensors are live. Mirrors `tracing.trace.Trace.live_from`."""
        b = self.b
        results = self.own("results")
        self.unless(self.size(results) == self.stop)
        n = self.stop - self.first
        live = self.hold("live", self.call("PyBytes_FromStringAndSize", b.const(ptr, 0), n))
        marks = Pointer(self.call("PyBytes_AsString", live), i8)
        with b.loop(0, n) as i:
            t = self.at(results, self.first + i)
            nobody, somebody = b.if_else(t == self.o.known("none"))
            with nobody:
                marks[i] = b.const(i8, 0)
            with somebody:
                self.unless(self.python.type_of(t) == self.o.known("tensor"))
                marks[i] = b.cast("zext", self.references(t) > 1, i8)

    def find(self, key: Value) -> None:
        """The segment, its plan, and how it ends: ours, since other threads may forget the plan."""
        o = self.o
        found = self.call("PyDict_GetItem", o.get(self.owned["state"].value, "state.events"), key)
        self.unless(found != 0)
        self.share("found", found)
        plan = self.share("plan", o.get(found, "flush.plan"))
        binding = self.share("binding", o.get(found, "flush.binding"))
        self.unless((plan != o.known("none")) & (binding != o.known("none")))
        self.unless(self.length(binding) == len(OutputBinding._fields))
        self.n_bound = self.length(self.of_binding("places"))
        self._compare_tensors()

    def _compare_tensors(self) -> None:
        """Those that get values have none yet, and those that ran before have some."""
        b, o = self.b, self.o
        with b.loop(0, self.n_bound) as k:
            entry = self.entry(k)
            t = self.at(self.own("results"), self.first + entry["index"])
            self.unless(o.get(t, "tensor._data") == o.known("none"))
            with b.if_(entry["kind"] > OF_BOUND):
                raw = o.get(self._tensor_behind(entry["kind"], entry["source"]), "tensor._data")
                self.unless(self.python.type_of(raw) == o.known("array"))

    def _tensor_behind(self, kind: Value, source: Value) -> Value:
        """The tensor of an earlier place or a leaf, borrowed."""
        listed = self.b.select(kind == OF_VALUE, self.own("results"), self.own("leaves"))
        t = self.at(listed, source)
        self.unless(self.o.is_tensor(self.python.type_of(t)))
        return t

    # ---- what may run someone's code

    def run(self, gradient: Value | None = None) -> Value:
        """Run the plan: its outputs."""
        b, o, python = self.b, self.o, self.python
        plan = self.owned["plan"].value
        refs = o.get(plan, "plan.inputs")
        n = self.length(refs)
        arrays = self.hold("arrays", self.call("PyList_New", n))
        with b.loop(0, n) as i:
            ref = python.item(refs, i)
            number, array = python.as_int(ref), b.var(ptr, 0)
            place, outside = b.if_else(number >= 0)
            with place:
                array.set(self.call("PyDict_GetItem", self.own("values"), ref))
            with outside:
                leaves = self.own("arrays")
                if gradient is None:
                    array.set(self.at(leaves, -1 - number))
                else:
                    incoming, leaf = b.if_else(self.n_leaves == -1 - number)
                    with incoming:
                        array.set(gradient)
                    with leaf:
                        array.set(self.at(leaves, -1 - number))
            self.unless(array.value != 0)
            b.call(b.module.declare("PyList_SetItem", i32, [ptr, i64, ptr]), arrays, i, python.incref(array.value))
        self.unchanged()  # otherwise these are no inputs of the plan
        args = b.array(ptr, 2)
        args[0] = arrays
        args[1] = self.share("numbers", self.own("numbers"))
        out = python.vectorcall(o.get(plan, "plan.run"), args.address, b.const(i64, 2), b.const(ptr, 0))
        self.hold("out", out)
        self.unless(python.type_of(out) == python.type_of(arrays))
        return out

    def make_parts(self) -> None:
        """For each tensor that gets values its array, storage and alias."""
        b, o, python = self.b, self.o, self.python
        parts = self.hold("parts", python.new_tuple(self.n_bound * _PARTS))
        with b.loop(0, self.n_bound) as k:
            entry = self.entry(k)
            output, view = b.if_else(entry["kind"] == OUTPUT)
            with output:
                array = self.at(self.owned["out"].value, entry["source"])
                python.set_item(parts, k * _PARTS, python.incref(array))
                storage = self.check(b.call(b.module.defined["extempo_new_storage"], array))
                python.set_item(parts, k * _PARTS + 1, storage)
                python.set_item(parts, k * _PARTS + 2, python.incref(o.known("none")))
            with view:
                self._make_view(k, entry)

    def _make_view(self, k: Value, entry: dict[str, Value]) -> None:
        b, o, python, parts = self.b, self.o, self.python, self.owned["parts"].value
        tensor, array, memory, alias = (b.var(ptr, 0) for _ in range(4))
        same_time, earlier = b.if_else(entry["kind"] == OF_BOUND)
        with same_time:
            source = entry["source"]
            tensor.set(self.at(self.own("results"), self.first + self.entry(source)["index"]))
            for which, variable in enumerate((array, memory, alias)):
                variable.set(self.part(source, which))
        with earlier:
            tensor.set(self._tensor_behind(entry["kind"], entry["source"]))
            for name, variable in (("_data", array), ("_memory", memory), ("_alias", alias)):
                variable.set(o.get(tensor.value, f"tensor.{name}"))
        step = python.item(self.of_binding("steps"), k)
        args = b.array(ptr, 7)
        for i, part in enumerate((tensor, array, memory, alias)):
            args[i] = part.value
        args[4] = python.item(self.of_binding("views"), k)
        args[5] = python.item(self.of_binding("aliases"), k)
        args[6] = self.own("numbers")
        place = b.byte_offset(parts, (k * _PARTS) * 8 + TUPLE_ITEMS)
        made = b.call(b.module.defined["extempo_fill_view"], args.address, step, place)
        self.failed.take_if(made < 0)
        with b.if_(made == 0):  # it would be no other the next time: Python does it from now on
            o.replace(self.owned["found"].value, "flush.binding", python.incref(o.known("empty")))
            self.not_here.take()

    def count(self) -> None:
        number = self.python.as_int(self.o.get(self._counters(), "counters.runs")) + 1
        self.hold("runs", self.call("PyLong_FromLongLong", number))

    def _counters(self) -> Value:
        return self.o.get(self.recording, "recording.counters")

    def unchanged(self) -> None:
        """Whether the trace is still where it was; one that has ended is nowhere."""
        self.unless(self.own("cursor") == self.owned["state"].value)
        self.unless(self.own("inside") == self.o.known("true"))
        self.unless(self.size(self.own("results")) == self.stop)

    # ---- what runs nobody's code

    def remember_values(self) -> None:
        """Values, storages and what is alive; when there is no memory for that, all is as it was."""
        b, python = self.b, self.python
        alive, more = self.own("alive"), self.of_binding("alive")
        n_alive = self.size(alive)
        failed = b.var(i32, 0)
        with b.if_(self.size(more) > 0):
            failed.set(self.call("PyList_SetSlice", alive, LARGEST, LARGEST, more, returns=i32))
        wanted, places = self.o.get(self.owned["found"].value, "flush.wanted"), self.of_binding("places")
        put = b.module.declare("PyDict_SetItem", i32, [ptr, ptr, ptr])
        with b.loop(0, self.length(wanted)) as i:
            array = self.call("PyList_GetItem", self.owned["out"].value, i)
            failed.set(failed.value | b.call(put, self.own("values"), python.item(wanted, i), array))
        with b.loop(0, self.n_bound) as k, b.if_(self.entry(k)["kind"] == OUTPUT):
            failed.set(failed.value | b.call(put, self.own("storages"), python.item(places, k), self.part(k, 1)))
        with b.if_(failed.value != 0):
            for name, keys in (("values", wanted), ("storages", places)):
                with b.loop(0, self.length(keys)) as i:
                    python.forget("MemoryError", "KeyError")
                    self.call("PyDict_DelItem", self.own(name), python.item(keys, i), returns=i32)
            python.forget("MemoryError", "KeyError")
            self.call("PyList_SetSlice", alive, n_alive, LARGEST, b.const(ptr, 0), returns=i32)
            self.leave(self.call("PyErr_NoMemory"))

    def fill(self) -> None:
        """The tensors get their parts."""
        b, o, python = self.b, self.o, self.python
        with b.loop(0, self.n_bound) as k:
            entry = self.entry(k)
            t = self.call("PyList_GetItem", self.own("results"), self.first + entry["index"])
            for which, name in enumerate(("_data", "_memory", "_alias")):
                o.replace(t, f"tensor.{name}", python.incref(self.part(k, which)))
            with b.if_(entry["tracked"] == 0):
                o.replace(t, "tensor._source", python.incref(o.known("none")))
            self.filled(k, t)

    def filled(self, k: Value, t: Value) -> None:
        """What else is done with a tensor that has its values."""

    def go_on(self) -> None:
        """Where the trace goes on, and that a plan has run."""
        o, python = self.o, self.python
        following = python.incref(o.get(self.owned["found"].value, "flush.following"))
        o.replace(self.owned["trace"].value, "trace.cursor", following)
        o.replace(self._counters(), "counters.runs", python.incref(self.owned["runs"].value))

    def let_go(self) -> None:
        """Keep only tensors that are live and tracked. The others end here, and with them what they hold."""
        b, python = self.b, self.python
        kept, results = self.owned["kept"].value, self.own("results")
        stays = self.words("stays")
        put = b.module.declare("PyList_SetItem", i32, [ptr, i64, ptr])
        with b.loop(0, b.binary("lshr", self.call("PyBytes_Size", self.of_binding("stays"), returns=i64), 3)) as k:
            t = self.call("PyList_GetItem", results, self.first + stays[k])
            b.call(put, kept, stays[k], python.incref(t))
        failed = self.call("PyList_SetSlice", results, self.first, self.stop, kept, returns=i32)
        self.failed.take_if(failed != 0)


def write_flush(module: IRModule, offsets: dict[str, int]) -> None:
    """extempo_flush(executor): whether everything on the trace has run now.

    Mirrors `tracing.executor.TraceExecutor._flush`.
    """
    with module.function("extempo_flush", ptr, self=ptr, args=ptr, nargs=i64) as b:
        flush = FlushCode(b, offsets, otherwise="false")
        flush.begin()
        with b.if_(flush.first == flush.stop):
            flush.leave(flush.python.incref(flush.o.known("true")))
        flush.unless(flush.size(flush.own("makers")) <= flush.python.as_int(flush.own("sweep_at")))
        flush.mark_live()
        flush.find(flush.owned["live"].value)
        flush.run()
        flush.make_parts()
        flush.count()
        flush.hold("kept", flush.call("PyList_GetSlice", flush.of_binding("kept"), 0, LARGEST))
        flush.unchanged()
        flush.remember_values()
        flush.fill()
        flush.go_on()
        flush.let_go()
        flush.leave(flush.python.incref(flush.o.known("true")))
