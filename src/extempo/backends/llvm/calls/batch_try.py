"""Recording one call of `ex.batch` on one way: what `BatchExecutor.call` does, and the structure around the results.

Everything that can fail or run someone else's code comes first, then the run is changed: a call that does not fit has
changed nothing.
"""

from __future__ import annotations

from typing import Any

from ..ir.builder import IRFunction, IRModule, Pointer, Value, i1, i32, i64, ptr
from .batch_match import COUNT, CURSOR, INPUTS, NAMES, Items, Slots, address_in, found_by_id, found_in, list_item, size
from .cpython import C_CONTIGUOUS, LARGEST
from .objects import Objects
from .patterns import HEAD, MOST_INPUTS, MOST_RESULTS, NAME, WORDS

_MOST_FRAMES = 8  # that are looked at for the user's


def write_line(module: IRModule, offsets: Slots) -> None:
    """extempo_batch_line: where the user's code stands; `last` itself if it is still there. A new reference.

    Most calls of a kind come from one line. The module found last is looked for in the innermost frames: between the
    user's own and native code are few of ours.

    Mirrors `core.source_location.user_line`.
    """
    with module.function("extempo_batch_line", ptr, internal=True, last=ptr) as b:
        o, last = Objects(b, offsets, NAMES), b.arg("last")
        python, declare = o.python, module.declare
        frame = b.var(ptr, b.call(declare("PyEval_GetFrame", ptr, [])))
        python.incref(frame.value)
        tries = b.var(i64, 0)
        with b.while_(lambda: (frame.value != 0) & (tries.value < _MOST_FRAMES)):
            found = b.call(declare("PyFrame_GetGlobals", ptr, [ptr]), frame.value)
            python.decref(found)  # the frame holds it
            with b.if_(found == o.known("user_globals")):
                code = b.call(declare("PyFrame_GetCode", ptr, [ptr]), frame.value)
                python.decref(code)  # so does it that
                instruction = b.cast("sext", b.call(declare("PyFrame_GetLasti", i32, [ptr]), frame.value), i64)
                python.decref(frame.value)
                with b.if_(python.item(last, 0) == code), b.if_(python.as_int(python.item(last, 1)) == instruction):
                    b.ret(python.incref(last))
                b.ret(b.call(module.defined["extempo_line"]))
            back = b.call(declare("PyFrame_GetBack", ptr, [ptr]), frame.value)
            python.decref(frame.value)
            frame.set(back)
            tries.set(tries.value + 1)
        python.decref(frame.value)
        python.forget("MemoryError")  # there may have been no memory for a frame
        b.ret(b.call(module.defined["extempo_line"]))


def write_tensor(module: IRModule, offsets: Slots) -> None:
    """extempo_batch_tensor: a tensor of the run without values and without a place."""
    with module.function("extempo_batch_tensor", ptr, internal=True, run=ptr, type=ptr, tracked=ptr) as b:
        o = Objects(b, offsets, NAMES)
        none = o.known("none")
        t = o.new("tensor")
        for name in ("_data", "_memory", "_alias", "_grad_barrier"):
            o.set_shared(t, f"tensor.{name}", none)
        stand_in = o.get(b.arg("run"), "run._traced_node")
        o.set_shared(t, "tensor._type", b.arg("type"))
        o.set_shared(t, "tensor._history", b.select(b.arg("tracked") == o.known("true"), stand_in, none))
        o.set_shared(t, "tensor._source", b.arg("run"))
        b.ret(t)


def write_from_outside(module: IRModule, offsets: Slots) -> None:
    """extempo_batch_from_outside: the value that a tensor which is new to the run gets; null at an error.

    Mirrors `batching.run.BatchExecutor._from_outside`.
    """
    with module.function("extempo_batch_from_outside", ptr, internal=True, run=ptr, t=ptr) as b:
        o = Objects(b, offsets, NAMES)
        python, declare, run, t = o.python, module.declare, b.arg("run"), b.arg("t")
        array, given = o.get(t, "tensor._data"), b.array(ptr, 2)
        given[0], given[1] = run, t

        def slow_way() -> None:
            b.ret(python.vectorcall(o.known("from_outside"), given.address, b.const(i64, 2), b.const(ptr, 0)))

        slow, failed = b.way_out(slow_way), b.way_out(lambda: b.ret(b.const(ptr, 0)))
        slow.take_if((array == 0) | (o.get(t, "tensor._history") == 0) | o.is_tracked(t))
        slow.take_unless(python.type_of(array) == o.known("array"))
        slow.take_if((python.flags(array) & C_CONTIGUOUS) == 0)
        value = o.get(run, "run.n_values")
        following = b.call(declare("PyLong_FromLongLong", ptr, [i64]), python.as_int(value) + 1)
        key = b.call(declare("PyLong_FromVoidPtr", ptr, [ptr]), t)
        met = python.new_tuple(3)
        failed.take_if((following == 0) | (key == 0) | (met == 0))
        for i, part in enumerate((value, t, array)):
            python.set_item(met, i, python.incref(part))
        status = b.var(i32, b.call(declare("PyList_Append", i32, [ptr, ptr]), o.get(run, "run._met"), met))
        with b.if_(status.value == 0):
            status.set(b.call(declare("PyDict_SetItem", i32, [ptr, ptr, ptr]), o.get(run, "run._known"), key, value))
        python.decref(key)
        python.decref(met)
        python.incref(value)
        o.replace(run, "run.n_values", following)
        failed.take_if(status.value != 0)
        b.ret(value)


class _Try:
    """Writes the recording of a call on one way: fields shared by its steps."""

    def __init__(self, b: IRFunction, offsets: Slots) -> None:
        self.b = b
        self.o = Objects(b, offsets, NAMES)
        self.python = self.o.python
        self.sample, self.way = b.arg("sample"), b.arg("way")
        self.run = self.o.get(self.sample, "sample.run")
        self.kind = self.o.get(self.way, "way.kind")
        sized = self.o.get(self.kind, "kind.waits_with")
        self.is_sized = sized != self.o.known("none")
        self.waits_with = b.select(self.is_sized, sized, self.kind)
        self.is_op = self.o.get(self.way, "way.attrs") != self.o.known("none")
        pattern = self.o.get(self.way, "way.pattern")
        self.head = Pointer(b.call(b.module.declare("PyBytes_AsString", ptr, [ptr]), pattern), i64)
        self.comparison = b.array(ptr, MOST_INPUTS + INPUTS)
        self.inputs = self.comparison + INPUTS
        self.refs = b.array(ptr, MOST_INPUTS)  # ours, null for numbers until they are noted
        self.tensors = b.array(ptr, MOST_RESULTS)
        self.made = b.var(ptr, 0)  # the result, or a tuple of them: ours until it is returned
        self.where = b.var(ptr, 0)
        self.next = b.var(ptr, 0)
        self.n_inputs, self.n_refs = b.var(i64, 0), b.var(i64, 0)
        self.failed = b.var(i32, 0)
        self.other_way = b.way_out(lambda: b.ret(self._none()))  # before anything is held
        self.not_here = b.way_out(lambda: self.leave(self._none()))
        self.failed_here = b.way_out(lambda: self.leave(b.const(ptr, 0)))

    def _none(self) -> Value:
        """The answer that the way does not fit, unless comparing raised something."""
        return self.python.unless_raised(self.o.known("none"))

    def declare(self, name: str, returns: Any, args: list[Any]) -> Any:
        return self.b.module.declare(name, returns, args)

    def release(self) -> None:
        b, python = self.b, self.python
        with b.loop(0, self.n_inputs.value) as i:
            python.decref(self.inputs[i])
        with b.loop(0, self.n_refs.value) as i:
            python.decref(self.refs[i])
        python.decref(self.where.value)
        python.decref(self.next.value)

    def leave(self, answer: Value) -> None:
        self.python.decref(self.made.value)
        self.release()
        self.b.ret(answer)

    def new_int(self, number: Value) -> Value:
        made = self.b.call(self.declare("PyLong_FromLongLong", ptr, [i64]), number)
        self.failed_here.take_if(made == 0)
        return made

    # ---- what comes first

    def compare(self) -> None:
        b, o = self.b, self.o
        self.other_way.take_unless(
            o.get(self.way, "way.grad") == b.select(b.arg("grad"), o.known("true"), o.known("false"))
        )
        self.other_way.take_unless(self.head[HEAD.index("n_arguments")] == b.arg("n_arguments"))
        words = Pointer(self.comparison.address, i64)
        self.comparison[CURSOR] = (self.head + len(HEAD)).address
        words[COUNT] = b.const(i64, 0)
        arguments = Pointer(b.arg("arguments"), ptr)
        with b.loop(0, b.arg("n_arguments")) as i:
            self._compare_one(arguments[i])
        n_named = size(b, "Dict", b.arg("named"))
        attributes, names = b.if_else(self.is_op)
        with attributes:
            attrs = o.get(self.way, "way.attrs")
            with b.if_((n_named | size(b, "Dict", attrs)) != 0):
                self.other_way.take_unless(self.python.equal(b.arg("named"), attrs))
        with names:
            self.other_way.take_unless(self.head[HEAD.index("n_names")] == n_named)
            self._compare_names(n_named)
        self.n_inputs.set(words[COUNT])
        with b.loop(0, self.n_inputs.value) as i:  # a list among the arguments may be changed while we go on
            self.python.incref(self.inputs[i])

    def _compare_one(self, x: Value) -> None:
        match = self.b.module.defined["extempo_batch_match"]
        self.other_way.take_if(self.b.call(match, x, self.comparison.address, self.b.arg("grad")) == 0)

    def _compare_names(self, n_named: Value) -> None:
        b = self.b
        each = Items(b, b.arg("named"))
        with b.loop(0, n_named):
            name, value = each.following()
            part = Pointer(self.comparison[CURSOR], i64)
            self.other_way.take_unless((part[0] == NAME) & (address_in(b, part[1]) == name))
            self.comparison[CURSOR] = b.byte_offset(part.address, 8 * WORDS)
            self._compare_one(value)

    def begin(self) -> None:
        """The first call of a kind since the last flush."""
        b, null = self.b, self.b.const(ptr, 0)
        with b.if_(found_in(b, self.o.get(self.run, "run._waiting"), self.waits_with) == 0):
            given = b.array(ptr, 2)
            given[0], given[1] = self.run, self.waits_with
            made = self.python.vectorcall(self.o.known("new_kind"), given.address, b.const(i64, 2), null)
            self.failed_here.take_if(made == 0)
            self.python.decref(made)  # the run holds it

    def waiting(self) -> Value:
        """The calls of this kind so far, borrowed."""
        found = found_in(self.b, self.o.get(self.run, "run._waiting"), self.waits_with)
        self.not_here.take_if(found == 0)
        return found

    def is_own(self, x: Value) -> Value:
        return self.o.get(x, "tensor._source") == self.run

    def check(self) -> None:
        """What else a call of that kind has to be."""
        b, o, python = self.b, self.o, self.python
        reads = o.get(self.way, "way.reads")
        with b.if_(reads != o.known("none")):
            same = b.module.defined["extempo_batch_same"]
            self.not_here.take_if(b.call(same, reads) == 0)
        with b.if_(self.head[HEAD.index("views")] != 0):  # views of what is there run at once
            any_own = b.var(i1, 0)
            with b.loop(0, self.n_inputs.value) as i, b.if_(o.is_tensor(python.type_of(self.inputs[i]))):
                any_own.set(any_own.value | self.is_own(self.inputs[i]))
            self.not_here.take_unless(any_own.value)

    def find_refs(self) -> None:
        b, o, python = self.b, self.o, self.python
        with b.loop(0, self.n_inputs.value) as i:
            x, ref = self.inputs[i], b.var(ptr, 0)
            with b.if_(o.is_tensor(python.type_of(x))):
                own, other = b.if_else(self.is_own(x))
                with own:
                    ref.set(python.incref(o.get(x, "tensor._value_id")))
                with other:
                    ref.set(found_by_id(b, o.get(self.run, "run._known"), x))
                    known, new = b.if_else(ref.value != 0)
                    with known:
                        python.incref(ref.value)
                    with new:
                        ref.set(b.call(b.module.defined["extempo_batch_from_outside"], self.run, x))
                        self.failed_here.take_if(ref.value == 0)
            self.refs[i] = ref.value
            self.n_refs.set(i + 1)

    def make_results(self) -> None:
        """Making them may run finalizers, and these may do anything."""
        b, o, python = self.b, self.o, self.python
        wheres = o.get(self.waiting(), "calls.wheres")
        n_before, last = size(b, "List", wheres), b.var(ptr, o.known("nowhere"))
        with b.if_(n_before > 0):
            before = list_item(b, wheres, n_before - 1)
            last.set(b.select(python.type_of(before) == o.known("tuple"), before, last.value))
        self.where.set(b.call(b.module.defined["extempo_batch_line"], last.value))
        self.failed_here.take_if(self.where.value == 0)
        types, tracked = o.get(self.kind, "kind.results"), o.get(self.kind, "kind.tracked")
        self.n_results = size(b, "Tuple", types)
        self.make = o.get(self.way, "way.make")
        with b.if_(self.make != o.known("none")):
            self.made.set(python.new_tuple(self.n_results))
            self.failed_here.take_if(self.made.value == 0)
        tensor = b.module.defined["extempo_batch_tensor"]
        with b.loop(0, self.n_results) as i:
            t = b.call(tensor, self.run, python.item(types, i), python.item(tracked, i))
            self.failed_here.take_if(t == 0)
            self.tensors[i] = t
            one, several = b.if_else(self.make == o.known("none"))
            with one:
                self.made.set(t)
            with several:
                python.set_item(self.made.value, i, t)

    # ---- the run

    def append(self, listed: Value, o: Value) -> None:
        declared = self.declare("PyList_Append", i32, [ptr, ptr])
        self.failed.set(self.failed.value | self.b.call(declared, listed, o))

    def number_results(self) -> None:
        b, o, python = self.b, self.o, self.python
        first = o.get(self.run, "run.n_values")
        number = python.as_int(first)
        self.next.set(self.new_int(number + self.n_results))
        o.set_shared(self.tensors[0], "tensor._value_id", first)
        with b.loop(1, self.n_results) as i:
            o.set(self.tensors[i], "tensor._value_id", self.new_int(number + i))
        with b.if_(self.head[HEAD.index("views")] != 0):
            add = self.declare("PySet_Add", i32, [ptr, ptr])
            viewed = o.get(self.sample, "sample._viewed")
            with b.if_(self.is_own(self.inputs[0])):
                self.failed_here.take_if(b.call(add, viewed, self.refs[0]) != 0)
            with b.loop(0, self.n_results) as i:
                self.failed_here.take_if(b.call(add, viewed, o.get(self.tensors[i], "tensor._value_id")) != 0)

    def number_numbers(self) -> Value:
        """Python numbers among the inputs; returns how many there were."""
        b, o = self.b, self.o
        n_before = size(b, "List", o.get(self.run, "run._numbers"))
        count = b.var(i64, n_before)
        with b.loop(0, self.n_inputs.value) as i, b.if_(self.refs[i] == 0):
            count.set(count.value + 1)
            self.refs[i] = self.new_int(-count.value)
        return n_before

    def commit(self) -> None:
        """Nothing from here on runs anyone's code, so nobody sees it half done."""
        b, o, python = self.b, self.o, self.python
        calls = self.waiting()
        self.number_results()
        n_numbers = self.number_numbers()
        n_calls = size(b, "List", o.get(calls, "calls.firsts"))
        numbers, refs = o.get(self.run, "run._numbers"), o.get(calls, "calls.refs")
        with b.loop(0, self.n_inputs.value) as i:
            with b.if_(~o.is_tensor(python.type_of(self.inputs[i]))):
                self.append(numbers, self.inputs[i])
            self.append(refs, self.refs[i])
        self.append(o.get(calls, "calls.firsts"), o.get(self.tensors[0], "tensor._value_id"))
        self.append(o.get(calls, "calls.samples"), o.get(self.sample, "sample.number"))
        self.append(o.get(calls, "calls.wheres"), self.where.value)
        with b.if_(self.is_sized):
            self.append(o.get(calls, "calls.kinds"), self.kind)
        with b.if_(self.failed.value != 0):  # no memory for a longer list: all are again as long as they were
            cut = self.declare("PyList_SetSlice", i32, [ptr, i64, i64, ptr])
            null = b.const(ptr, 0)
            b.call(cut, numbers, n_numbers, LARGEST, null)
            b.call(cut, refs, n_calls * self.n_inputs.value, LARGEST, null)
            for name in ("firsts", "kinds", "samples", "wheres"):
                b.call(cut, o.get(calls, f"calls.{name}"), n_calls, LARGEST, null)
            self.failed_here.take()
        o.replace(self.run, "run.n_values", python.incref(self.next.value))

    def give_results(self) -> None:
        b, o = self.b, self.o
        self.release()
        with b.if_((self.make == o.known("none")) | (self.make == o.known("tuple"))):
            b.ret(self.made.value)
        given = b.array(ptr, 1)
        given[0] = self.made.value
        answer = self.python.vectorcall(self.make, given.address, b.const(i64, 1), b.const(ptr, 0))
        self.python.decref(self.made.value)
        b.ret(answer)


def write_try(module: IRModule, offsets: Slots) -> None:
    """extempo_batch_try: the results of a call that is recorded now; None if the way does not fit; null at an error.

    `named`: keyword arguments of a cell, attributes of an op.

    Mirrors `batching.run.BatchExecutor.call`.
    """
    arguments = {"sample": ptr, "way": ptr, "arguments": ptr, "n_arguments": i64, "named": ptr, "grad": i1}
    with module.function("extempo_batch_try", ptr, internal=True, **arguments) as b:
        one = _Try(b, offsets)
        one.compare()
        one.check()
        one.find_refs()
        one.begin()
        one.make_results()
        one.commit()
        one.give_results()
