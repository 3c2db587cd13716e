"""Views inside `ex.batch` that are a stretch of a value of the run: parts of it, which need no call (`batching.parts`).

Everything that can fail comes first, then the run is changed.
"""

from __future__ import annotations

from ..ir.builder import IRModule, Value, i1, i32, i64, ptr
from .batch_match import NAMES, Items, Slots, found_in
from .objects import Objects


def write_part(module: IRModule, offsets: Slots) -> None:
    """extempo_batch_part: a view of a value of the run as a tensor; null if it is none, perhaps with an exception.

    `place`: the view's type, first byte and bytes, as `batching.parts.PLACES` has them.

    Mirrors `batching.run.BatchExecutor.part_of`.
    """
    arguments = {"sample": ptr, "x": ptr, "place": ptr, "grad": i1}
    with module.function("extempo_batch_part", ptr, internal=True, **arguments) as b:
        o = Objects(b, offsets, NAMES)
        python, declare, x, place = o.python, module.declare, b.arg("x"), b.arg("place")
        run = o.get(b.arg("sample"), "sample.run")
        null = b.const(ptr, 0)
        no = b.way_out(lambda: b.ret(null))
        history, parts = o.get(x, "tensor._history"), o.get(run, "run._parts")
        no.take_if(history == 0)
        offset = b.var(i64, python.as_int(python.item(place, 1)))
        whole = b.var(ptr, o.get(x, "tensor._value_id"))
        known = found_in(b, o.get(parts, "parts._roots"), whole.value)
        with b.if_(known != 0):
            offset.set(offset.value + python.as_int(python.item(known, 1)))
            whole.set(python.item(known, 0))
        is_tracked = b.select(b.arg("grad") & o.is_tracked(x), o.known("true"), o.known("false"))
        t = b.call(module.defined["extempo_batch_tensor"], run, python.item(place, 0), is_tracked)
        no.take_if(t == 0)
        value = o.get(run, "run.n_values")
        number = b.call(declare("PyLong_FromLongLong", ptr, [i64]), offset.value)
        following = b.call(declare("PyLong_FromLongLong", ptr, [i64]), python.as_int(value) + 1)
        root = python.new_tuple(2)
        with b.if_((number == 0) | (following == 0) | (root == 0)):
            for made in (number, following, root, t):
                python.decref(made)
            b.ret(null)
        o.set_shared(t, "tensor._value_id", value)
        python.set_item(root, 0, python.incref(whole.value))
        python.set_item(root, 1, python.incref(number))
        words, status = o.get(parts, "parts._words"), b.var(i32, 0)
        viewed = o.get(b.arg("sample"), "sample._viewed")

        def note(result: Value) -> None:
            status.set(status.value | result)

        set_item = declare("PyDict_SetItem", i32, [ptr, ptr, ptr])
        note(b.call(set_item, o.get(parts, "parts._roots"), value, root))
        for seen in (value, o.get(x, "tensor._value_id")):
            note(b.call(declare("PySet_Add", i32, [ptr, ptr]), viewed, seen))
        with b.if_(status.value == 0):
            n_words = b.call(declare("PyList_Size", i64, [ptr]), words)
            for word in (value, whole.value, number, python.item(place, 2)):
                note(b.call(declare("PyList_Append", i32, [ptr, ptr]), words, word))
            with b.if_(status.value != 0):  # no memory: as long as it was
                cut = declare("PyList_SetSlice", i32, [ptr, i64, i64, ptr])
                b.call(cut, words, n_words, n_words + 4, null)
        python.decref(root)
        python.decref(number)
        with b.if_(status.value != 0):
            python.decref(following)
            python.decref(t)
            b.ret(null)
        o.replace(run, "run.n_values", following)
        b.ret(t)


def place_of(o: Objects, op: Value, inputs: Value, attrs: Value) -> Value:
    """Where a view that was asked for before is in its value, borrowed; null for anything else, perhaps with an error.

    `inputs`: a tuple, of which the first is a tensor.
    """
    b, python = o.b, o.python
    place = b.var(ptr, found_in(b, o.known("places"), op))
    n = b.call(b.module.declare("PyTuple_Size", i64, [ptr]), inputs)
    n_attrs = b.call(b.module.declare("PyDict_Size", i64, [ptr]), attrs)
    with b.if_((place.value != 0) & (n <= 2) & (n_attrs == 1)):
        _, attr = Items(b, attrs).following()
        place.set(found_in(b, place.value, attr))
        with b.if_(place.value != 0):
            place.set(found_in(b, place.value, o.get(python.item(inputs, 0), "tensor._type")))
        with b.if_(place.value != 0):
            number = b.var(ptr, o.known("none"))
            with b.if_(n == 2):
                number.set(python.item(inputs, 1))
            place.set(found_in(b, place.value, number.value))
    with b.if_((n > 2) | (n_attrs != 1)):
        place.set(b.const(ptr, 0))
    return place.value
