"""Recording calls of `ex.batch` in native code: one like a call before it is noted without a line of Python.

What `SampleTracer.apply` and `call_cell` do, where a cached call (`batching.call_cache`) of an op or a cell fits:
the same structure of arguments, equal types, and for a cell whatever it reads from Python. Everything that can fail or
run someone else's code comes first, then the run is changed: a call that does not fit has changed nothing and goes the
slow way, which finds or makes its kind and remembers the way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..ir.builder import IRModule, Pointer, Value, WayOut, f64, i1, i32, i64, ptr
from .batch_match import MORE, NAMES, Slots, found_by_id, found_in, list_item, size, write_match, write_same
from .batch_parts import place_of, write_part
from .batch_try import write_from_outside, write_line, write_tensor, write_try
from .callables import function
from .cpython import NO_NUMBER, TUPLE_ITEMS, Python, slot_offset
from .launch import Launcher
from .objects import Objects


class BatchClasses(NamedTuple):
    """What native code must know of the objects of `ex.batch`."""

    sample: type
    run: type
    calls: type
    kind: type
    cell: type
    way: type
    reads: type
    content: type
    extra: type
    parts: type

    def offsets(self) -> Slots:
        names = {
            "sample": ("run", "number", "_viewed"),
            "run": ("n_values", "_known", "_met", "_numbers", "_parts", "_traced_node", "_waiting"),
            "parts": ("_roots", "_words"),
            "calls": ("firsts", "kinds", "refs", "samples", "wheres"),
            "kind": ("results", "tracked", "waits_with"),
            "cell": ("cached_calls", "runs_as_ops", "_n_new"),
            "way": ("attrs", "grad", "kind", "make", "pattern", "reads"),
            "reads": ("_attributes", "_captured", "_contents", "_items", "_seen"),
            "content": ("_container", "_kept", "_keys"),
            "extra": ("kinds",),
        }
        found = self._asdict()
        return {f"{name}.{slot}": slot_offset(found[name], slot) for name, slots in names.items() for slot in slots}


class BatchTracer(NamedTuple):
    """The loaded functions."""

    apply: Callable[..., Any]  # (sample, op, inputs, attrs): NotImplemented if it may be a view of what is there
    call_cell: Callable[..., Any]  # (callable, args, kwargs): NotImplemented if nobody records it
    as_array: Callable[[list[int]], Any]  # an int64 array of ints; None if they are not
    depths: Callable[..., None]  # (refs, maker, number, which, first value, depths): see _write_depths
    agenda: Callable[..., int]  # (sources, readers, kinds, number of kinds, order, ends, chosen, room): _write_agenda
    note_makers: Callable[..., None]  # (firsts, number of results, which, maker, number, first value)
    line: Callable[[Any], Any]  # (a line that was found): where the user's code stands, which is often the same line
    sources: Callable[..., int]  # (refs, maker, first value): the kinds that made inputs, as bits


def load_recorder(launcher: Launcher, classes: BatchClasses, known: dict[str, Any]) -> BatchTracer:
    """`known`: what native code refers to besides, by the names of `MORE`."""
    offsets = launcher.offsets | classes.offsets()
    exported = ("apply", "call", "as_array", "depths", "agenda", "note_makers", "line_now", "sources")
    names = [f"extempo_batch_{name}" for name in exported]

    def write(module: IRModule) -> None:
        write_match(module, offsets)
        write_same(module, offsets)
        write_line(module, offsets)
        write_tensor(module, offsets)
        write_from_outside(module, offsets)
        write_try(module, offsets)
        write_part(module, offsets)
        _write_search(module, offsets)
        _write_call(module, offsets)
        _write_apply(module, offsets)
        _write_as_array(module, offsets)
        _write_depths(module)
        _write_agenda(module)
        _write_note_makers(module)
        _write_line_now(module)
        _write_sources(module)

    known |= {"cell": classes.cell, "dict": dict, "int64": np.dtype(np.int64), "tuple": tuple}
    known |= {"nowhere": (None, -1)}
    library = launcher.extend(write, names, offsets, {name: known[name] for name in MORE})
    return BatchTracer(*(function(name, library.address[full]) for name, full in zip(exported, names, strict=True)))


def _mode(o: Objects) -> tuple[Value, Value]:
    """Whether the current mode tracks gradients, and its interceptor, borrowed."""
    b = o.b
    place = b.array(ptr, 1)
    place[0] = b.const(ptr, 0)
    get = b.module.declare("PyContextVar_Get", i32, [ptr, ptr, ptr])
    b.call(get, o.known("mode_variable"), b.const(ptr, 0), place.address)  # it has a default
    mode = place[0]
    grad = o.get(mode, "mode.grad") == o.known("true")
    interceptor = o.get(mode, "mode.interceptor")
    o.python.decref(mode)  # the context holds it
    return grad, interceptor


def _write_search(module: IRModule, offsets: Slots) -> None:
    """extempo_batch_search: the same for the first of a list of ways that fits; it is found sooner the next time."""
    arguments = {"sample": ptr, "ways": ptr, "arguments": ptr, "named": ptr, "grad": i1}
    with module.function("extempo_batch_search", ptr, internal=True, **arguments) as b:
        o, ways = Objects(b, offsets, NAMES), b.arg("ways")
        python, i = o.python, b.var(i64, 0)
        python.incref(ways)
        answer = b.var(ptr, o.known("none"))
        items, n = b.byte_offset(b.arg("arguments"), TUPLE_ITEMS), size(b, "Tuple", b.arg("arguments"))
        with b.while_(lambda: (answer.value == o.known("none")) & (i.value < size(b, "List", ways))):
            way = python.incref(list_item(b, ways, i.value))
            named, grad = b.arg("named"), b.arg("grad")
            answer.set(b.call(module.defined["extempo_batch_try"], b.arg("sample"), way, items, n, named, grad))
            fits = (answer.value != o.known("none")) & (answer.value != 0)
            with b.if_(fits & (i.value > 0) & (i.value < size(b, "List", ways))):
                put = module.declare("PyList_SetItem", i32, [ptr, i64, ptr])
                b.call(put, ways, i.value, python.incref(list_item(b, ways, i.value // 2)))
                b.call(put, ways, i.value // 2, python.incref(way))
            python.decref(way)
            i.set(i.value + 1)
        python.decref(ways)
        b.ret(answer.value)


def _slow_way(o: Objects, name: str) -> WayOut:
    b = o.b

    def take() -> None:
        with b.if_(o.python.is_raised()):  # by a look-up or a comparison
            b.ret(b.const(ptr, 0))
        b.ret(o.python.vectorcall(o.known(name), b.arg("args"), b.arg("nargs"), b.const(ptr, 0)))

    return b.way_out(take)


def _write_call(module: IRModule, offsets: Slots) -> None:
    """extempo_batch_call(callable, args, kwargs). Mirrors `batching.sample_tracer.call_cell`."""
    with module.function("extempo_batch_call", ptr, self=ptr, args=ptr, nargs=i64) as b:
        o = Objects(b, offsets, NAMES)
        slow = _slow_way(o, "slow_call")
        slow.take_unless(b.arg("nargs") == 3)
        given = Pointer(b.arg("args"), ptr)
        cell = b.var(ptr, given[0])
        with b.if_(o.python.type_of(given[0]) != o.known("cell")):
            cell.set(found_by_id(b, o.known("cells"), given[0]))
        with b.if_(cell.value == o.known("none")):  # a module that is an ordinary function
            b.ret(o.python.incref(o.known("not_implemented")))
        grad, sample = _mode(o)
        with b.if_(o.python.type_of(sample) != o.known("sample")):
            b.ret(o.python.incref(o.known("not_implemented")))
        slow.take_if(cell.value == 0)
        with b.if_(o.get(cell.value, "cell.runs_as_ops") == o.known("true")):
            b.ret(o.python.incref(o.known("not_implemented")))
        o.python.incref(cell.value)
        o.python.incref(sample)
        search = module.defined["extempo_batch_search"]
        answer = b.call(search, sample, o.get(cell.value, "cell.cached_calls"), given[1], given[2], grad)
        fits = answer != o.known("none")
        with b.if_(fits & (o.get(cell.value, "cell._n_new") != o.known("zero"))):
            o.replace(cell.value, "cell._n_new", o.python.incref(o.known("zero")))
        o.python.decref(cell.value)
        o.python.decref(sample)
        slow.take_unless(fits)
        b.ret(answer)


def _write_apply(module: IRModule, offsets: Slots) -> None:
    """extempo_batch_apply(sample, op, inputs, attrs)

    Ways of ops that read a leaf belong to the first one that they read, as their kinds do.

    Mirrors `batching.sample_tracer.SampleTracer.apply`.
    """
    with module.function("extempo_batch_apply", ptr, self=ptr, args=ptr, nargs=i64) as b:
        o = Objects(b, offsets, NAMES)
        python = o.python
        slow = _slow_way(o, "slow_op")
        slow.take_unless(b.arg("nargs") == 4)
        given = Pointer(b.arg("args"), ptr)
        inputs, grad = given[2], _mode(o)[0]
        slow.take_unless(python.type_of(inputs) == o.known("tuple"))
        with b.if_(size(b, "Tuple", inputs) > 0):
            x, is_own = python.item(inputs, 0), b.var(i1, 0)
            with b.if_(o.is_tensor(python.type_of(x))):
                is_own.set(o.get(x, "tensor._source") == o.get(given[0], "sample.run"))
            with b.if_(is_own.value):
                place = place_of(o, given[1], inputs, given[3])
                with b.if_(place != 0):
                    part = b.call(module.defined["extempo_batch_part"], given[0], x, place, grad)
                    with b.if_(part != 0):
                        b.ret(part)
                slow.take_if(python.is_raised())
        ways, looking = b.var(ptr, o.known("ops")), b.var(i1, grad)
        with b.loop(0, size(b, "Tuple", inputs)) as i, b.if_(looking.value):
            x = python.item(inputs, i)
            with b.if_(o.is_tensor(python.type_of(x))):
                history = o.get(x, "tensor._history")
                slow.take_if(history == 0)
                with b.if_(o.is_tracked(x)), b.if_(o.get(history, "node.op") == o.known("leaf")):
                    extra = o.get(history, "node.extra")
                    ways.set(extra)
                    with b.if_(extra != o.known("none")):
                        ways.set(o.get(extra, "extra.kinds"))
                    looking.set(0)
        answer = b.var(ptr, o.known("none"))
        with b.if_(ways.value != o.known("none")):
            by_types = found_in(b, ways.value, given[1])
            with b.if_(by_types != 0):
                listed = _found_by_types(o, by_types, inputs)
                with b.if_(listed != 0):
                    search = module.defined["extempo_batch_search"]
                    answer.set(b.call(search, given[0], listed, inputs, given[3], grad))
                slow.take_if(python.is_raised())
        with b.if_(answer.value != o.known("none")):
            b.ret(answer.value)
        n, run = size(b, "Tuple", inputs), o.get(given[0], "sample.run")
        slow.take_if(n == 0)
        slow.take_unless(o.is_tensor(python.type_of(python.item(inputs, 0))))
        with b.loop(0, n) as i:
            x = python.item(inputs, i)
            with b.if_(o.is_tensor(python.type_of(x))):
                slow.take_if(o.get(x, "tensor._source") == run)
        b.ret(python.incref(o.known("not_implemented")))


def _found_by_types(o: Objects, by_types: Value, inputs: Value) -> Value:
    """What a dict has for the types of the tensors among the inputs, borrowed; null for nothing, or at an error."""
    b, python, n = o.b, o.python, size(o.b, "Tuple", inputs)
    n_tensors = b.var(i64, 0)
    with b.loop(0, n) as i, b.if_(o.is_tensor(python.type_of(python.item(inputs, i)))):
        n_tensors.set(n_tensors.value + 1)
    types, found, at = python.new_tuple(n_tensors.value), b.var(ptr, 0), b.var(i64, 0)
    with b.if_(types != 0):
        with b.loop(0, n) as i, b.if_(o.is_tensor(python.type_of(python.item(inputs, i)))):
            python.set_item(types, at.value, python.incref(o.get(python.item(inputs, i), "tensor._type")))
            at.set(at.value + 1)
        found.set(found_in(b, by_types, types))
        python.decref(types)
    return found.value


def _write_line_now(module: IRModule) -> None:
    """extempo_batch_line_now(last): see `write_line`. Mirrors `batching.run._line_of_read`."""
    with module.function("extempo_batch_line_now", ptr, self=ptr, args=ptr, nargs=i64) as b:
        b.ret(b.call(module.defined["extempo_batch_line"], Pointer(b.arg("args"), ptr)[0]))


# ---- arrays for the agenda


def _write_as_array(module: IRModule, offsets: Slots) -> None:
    """extempo_batch_as_array(list of ints). Mirrors `batching.agenda._array_of_ints`."""
    with module.function("extempo_batch_as_array", ptr, self=ptr, args=ptr, nargs=i64) as b:
        o = Objects(b, offsets, NAMES)
        python = o.python
        listed = Pointer(b.arg("args"), ptr)[0]
        shape = b.array(i64, 1)
        shape[0] = size(b, "List", listed)
        array = o.check(python.empty(o.known("int64"), b.const(i64, 1), shape.address, shape[0] * 8))
        data = Pointer(python.data(array), i64)
        with b.loop(0, shape[0]) as i:
            data[i] = python.as_int(list_item(b, listed, i))
        with b.if_(python.is_raised()):
            python.forget(*NO_NUMBER)
            python.decref(array)
            with b.if_(python.is_raised()):
                b.ret(b.const(ptr, 0))
            b.ret(python.incref(o.known("none")))
        b.ret(array)


def _write_depths(module: IRModule) -> None:
    """extempo_batch_depths: how many calls of the same kind are below each, at most.

    (refs by call and input, kind that makes a value, which of its calls does, this kind, first value, depths), all of
    them contiguous int64 arrays but for the two numbers; returns refs.

    Mirrors `batching.agenda._depths`.
    """
    with module.function("extempo_batch_depths", ptr, self=ptr, args=ptr, nargs=i64) as b:
        given = Pointer(b.arg("args"), ptr)
        python = Python(b)
        refs, maker, number, depths = (Pointer(python.data(given[k]), i64) for k in (0, 1, 2, 5))
        which, first = python.as_int(given[3]), python.as_int(given[4])
        shape = python.shape(given[0])
        n_calls, n_inputs = shape[0], shape[1]
        with b.loop(0, n_calls) as i:
            deepest = b.var(i64, 0)
            with b.loop(0, n_inputs) as j:
                value = refs[i * n_inputs + j] - first
                with b.if_(value >= 0), b.if_(maker[value] == which):
                    below = depths[number[value]] + 1
                    deepest.set(b.larger(below, deepest.value))
            depths[i] = deepest.value
        b.ret(python.incref(given[0]))


def _write_agenda(module: IRModule) -> None:
    """extempo_batch_agenda: in which order batches of several kinds run; how many there are.

    Calls are numbered kind by kind. (calls that make an input, calls that read it, kind of each call, number of kinds,
    calls in the order of batches, where each batch ends, its kind, room): contiguous int64 arrays but for the number.

    Mirrors `batching.agenda.agenda`.
    """
    with module.function("extempo_batch_agenda", ptr, self=ptr, args=ptr, nargs=i64) as b:
        given = Pointer(b.arg("args"), ptr)
        python = Python(b)
        sources, readers, kinds, order, ends, chosen, room = (
            Pointer(python.data(given[k]), i64) for k in (0, 1, 2, 4, 5, 6, 7)
        )
        n_edges, n, n_kinds = python.shape(given[0])[0], python.shape(given[2])[0], python.as_int(given[3])
        first, missing, counts, depths, ready = (room + (n + 1) * i for i in range(5))
        per_kind = room + (n + 1) * 5
        begins, n_ready, sums, left = (per_kind + (n_kinds + 1) * i for i in range(4))
        targets = per_kind + (n_kinds + 1) * 4
        python.zero(room.address, ((n + 1) * 5 + (n_kinds + 1) * 4) * 8)

        def for_readers(call: Value, do: Callable[[Value], None]) -> None:
            with b.loop(first[call], first[call + 1]) as e:
                do(targets[e])

        # The readers of call i are targets[first[i]] to targets[first[i + 1] - 1]: edges counted, added up, sorted in.
        with b.loop(0, n_edges) as e:
            first[sources[e] + 1] = first[sources[e] + 1] + 1
            missing[readers[e]] = missing[readers[e]] + 1
        with b.loop(0, n) as i:
            first[i + 1] = first[i + 1] + first[i]
            counts[i] = first[i]
            begins[kinds[i] + 1] = i + 1
        with b.loop(0, n_edges) as e:
            at = counts[sources[e]]
            targets[at] = readers[e]
            counts[sources[e]] = at + 1
        # Depths, in topological order: a call is met when all that it reads was. `order` is the queue for now.
        n_met, n_done = b.var(i64, 0), b.var(i64, 0)
        with b.loop(0, n) as i:
            counts[i] = missing[i]
            with b.if_(missing[i] == 0):
                order[n_met.value] = i
                n_met.set(n_met.value + 1)
        with b.while_(lambda: n_done.value < n_met.value):
            call = order[n_done.value]
            below = depths[call] + 1

            def deepen(reader: Value) -> None:
                depths[reader] = b.select(below > depths[reader], below, depths[reader])
                counts[reader] = counts[reader] - 1
                with b.if_(counts[reader] == 0):
                    order[n_met.value] = reader
                    n_met.set(n_met.value + 1)

            for_readers(call, deepen)
            n_done.set(n_done.value + 1)

        def make_ready(call: Value) -> None:
            kind = kinds[call]
            ready[begins[kind] + n_ready[kind]] = call
            n_ready[kind] = n_ready[kind] + 1

        with b.loop(0, n) as i:
            sums[kinds[i]] = sums[kinds[i]] + depths[i]
            left[kinds[i]] = left[kinds[i]] + 1
            with b.if_(missing[i] == 0):
                make_ready(i)
        # Batches: of the kinds that have calls ready, the one whose calls that are left are least deep on average.
        n_batches, place, best, least = b.var(i64, 0), b.var(i64, 0), b.var(i64, 0), b.var(f64, 0.0)
        with b.while_(lambda: best.value >= 0):
            best.set(-1)
            with b.loop(0, n_kinds) as k, b.if_(n_ready[k] > 0):
                mean = b.cast("sitofp", sums[k], f64) / b.cast("sitofp", left[k], f64)
                with b.if_((best.value < 0) | (mean < least.value)):
                    best.set(k)
                    least.set(mean)
            with b.if_(best.value >= 0):
                k, start = best.value, place.value
                end = start + n_ready[k]
                with b.loop(start, end) as i:
                    call = ready[begins[k] + i - start]
                    order[i] = call
                    sums[k] = sums[k] - depths[call]
                left[k] = left[k] - n_ready[k]
                n_ready[k] = b.const(i64, 0)

                def pass_on(reader: Value) -> None:
                    missing[reader] = missing[reader] - 1
                    with b.if_(missing[reader] == 0):
                        make_ready(reader)

                with b.loop(start, end) as i:
                    for_readers(order[i], pass_on)
                place.set(end)
                ends[n_batches.value] = end
                chosen[n_batches.value] = k
                n_batches.set(n_batches.value + 1)
        b.ret(b.call(module.declare("PyLong_FromLongLong", ptr, [i64]), n_batches.value))


def _write_note_makers(module: IRModule) -> None:
    """extempo_batch_note_makers: by value, which kind makes it and which of its calls does; returns `firsts`.

    (firsts by call, number of results, this kind, maker by value, number by value, first value): contiguous arrays.

    Mirrors `batching.agenda._note_makers`.
    """
    with module.function("extempo_batch_note_makers", ptr, self=ptr, args=ptr, nargs=i64) as b:
        given = Pointer(b.arg("args"), ptr)
        python = Python(b)
        firsts, maker, number = (Pointer(python.data(given[k]), i64) for k in (0, 3, 4))
        n_results, which, first = (python.as_int(given[k]) for k in (1, 2, 5))
        with b.loop(0, python.shape(given[0])[0]) as i, b.loop(0, n_results) as j:
            value = firsts[i] - first + j
            maker[value] = which
            number[value] = i
        b.ret(python.incref(given[0]))


def _write_sources(module: IRModule) -> None:
    """extempo_batch_sources: bit k is set if kind k makes one of the values in `refs`; k must be below 63.

    Mirrors `batching.agenda._sources_of`.
    """
    with module.function("extempo_batch_sources", ptr, self=ptr, args=ptr, nargs=i64) as b:
        given = Pointer(b.arg("args"), ptr)
        python = Python(b)
        refs, maker = (Pointer(python.data(given[k]), i64) for k in (0, 1))
        first, shape = python.as_int(given[2]), python.shape(given[0])
        found = b.var(i64, 0)
        with b.loop(0, shape[0] * shape[1]) as i:
            value = refs[i] - first
            with b.if_(value >= 0), b.if_(maker[value] >= 0):
                found.set(found.value | (b.const(i64, 1) << maker[value]))
        b.ret(b.call(module.declare("PyLong_FromLongLong", ptr, [i64]), found.value))
