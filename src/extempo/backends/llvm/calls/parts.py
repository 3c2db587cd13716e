"""What tensors get when a trace has run, made by native code: storages, views and their aliases, nodes, gradients.

Each function makes one object, or returns null (or -1) with the error and has made nothing.
"""

from __future__ import annotations

from ....core.trace_tree import NUMBER
from ..ir.builder import IRModule, Pointer, i64, ptr
from .cpython import TUPLE_ITEMS
from .objects import Objects
from .views import make_view


def write_parts(module: IRModule, offsets: dict[str, int]) -> None:
    for write in (_write_new_storage, _write_way, _write_alias, _write_fill_view, _write_freed_node, _write_wrap):
        write(module, offsets)


def _write_new_storage(module: IRModule, offsets: dict[str, int]) -> None:
    with module.function("extempo_new_storage", ptr, internal=True, array=ptr) as b:
        b.ret(Objects(b, offsets).new_storage(b.arg("array")))


def _write_fill_view(module: IRModule, offsets: dict[str, int]) -> None:
    """extempo_fill_view(source, step, parts): 1, 0 where it declines, -1 at an error.

    `source` points to a tensor, its array, storage and alias, then to how the view is made, its way as in Alias.steps,
    and the recording's numbers. A view that was made is in `parts`.
    """
    with module.function("extempo_fill_view", i64, internal=True, source=ptr, step=ptr, parts=ptr) as b:
        o = Objects(b, offsets)
        python = o.python
        tensor, array, memory, alias, look, way, numbers = (Pointer(b.arg("source"), ptr)[i] for i in range(7))
        parts, none = Pointer(b.arg("parts"), ptr), o.known("none")
        steps, made, error = b.var(ptr, python.incref(way)), b.var(ptr, 0), b.var(i64, 0)
        sources = (tensor, array, memory, alias)
        for source in sources:
            python.incref(source)  # finalizers that run here may let go of it
        with b.if_(way == o.known("empty")):
            python.decref(way)
            steps.set(b.call(module.defined["extempo_way"], b.arg("step"), numbers))
            error.set(b.select(steps.value == 0, b.const(i64, -1), 0))
        with b.if_(error.value == 0):
            by_call, by_record = b.if_else(python.type_of(look) != o.known("bytearray"))
            with by_call:
                args = b.array(ptr, 1)
                args[0] = array
                made.set(python.vectorcall(look, args.address, b.const(i64, 1), b.const(ptr, 0)))
                error.set(b.select(made.value == 0, b.const(i64, -1), 0))
            with by_record:
                inputs = b.var(ptr, b.arg("source"))
                with b.if_(steps.value != none):
                    starts = python.item(python.item(steps.value, 0), 1)
                    inputs.set(b.byte_offset(starts, TUPLE_ITEMS - 8))  # input 0 is the array
                made.set(make_view(b, python.bytes_of(look), array, inputs.value))
        seen = b.var(ptr, python.incref(none))
        with b.if_((made.value != 0) & (steps.value != none)):
            python.decref(none)
            seen.set(b.call(module.defined["extempo_alias"], tensor, alias, memory, steps.value))
            error.set(b.select(seen.value == 0, b.const(i64, -1), 0))
        python.decref(steps.value)
        python.incref(memory)
        for source in sources:
            python.decref(source)
        with b.if_((made.value == 0) | (error.value != 0)):
            python.decref(made.value)
            python.decref(memory)
            python.decref(seen.value)
            b.ret(error.value)
        for i, part in enumerate((made.value, memory, seen.value)):
            parts[i] = part
        b.ret(1)


def _write_way(module: IRModule, offsets: dict[str, int]) -> None:
    """extempo_way(step, numbers): ((op, numbers of the step, attrs),), a new reference."""
    with module.function("extempo_way", ptr, internal=True, step=ptr, numbers=ptr) as b:
        o = Objects(b, offsets)
        python, declare, step = o.python, module.declare, b.arg("step")
        refs = o.get(step, "step.refs")
        n = b.call(declare("PyTuple_Size", i64, [ptr]), refs) - 1
        starts, inner, outer = (python.new_tuple(size) for size in (n, 3, 1))
        with b.if_((starts == 0) | (inner == 0) | (outer == 0)):
            for made in (starts, inner, outer):
                python.decref(made)
            b.ret(b.const(ptr, 0))
        with b.loop(0, n) as i:
            index = python.as_int(python.item(refs, i + 1)) - NUMBER
            number = b.call(declare("PyList_GetItem", ptr, [ptr, i64]), b.arg("numbers"), index)
            with b.if_(number == 0):
                for made in (starts, inner, outer):
                    python.decref(made)
                b.ret(number)
            python.set_item(starts, i, python.incref(number))
        python.set_item(inner, 0, python.incref(o.get(step, "step.op")))
        python.set_item(inner, 1, starts)
        python.set_item(inner, 2, python.incref(o.get(step, "step.attrs")))
        python.set_item(outer, 0, inner)
        b.ret(outer)


def _write_alias(module: IRModule, offsets: dict[str, int]) -> None:
    """extempo_alias(tensor, its alias, its storage, way): how a view of it is seen, as `alias_of` makes it.

    Mirrors `dispatch.dispatcher.alias_of`.
    """
    with module.function("extempo_alias", ptr, internal=True, tensor=ptr, before=ptr, memory=ptr, way=ptr) as b:
        o = Objects(b, offsets)
        python, before = o.python, b.arg("before")
        base, steps = b.var(ptr, b.arg("tensor")), b.var(ptr, b.arg("way"))
        first, further = b.if_else(before == o.known("none"))
        with first:
            python.incref(steps.value)
        with further:
            base.set(o.get(before, "alias.base"))
            joined = module.declare("PySequence_Concat", ptr, [ptr, ptr])
            steps.set(o.check(b.call(joined, o.get(before, "alias.steps"), b.arg("way"))))
        made = b.call_address(o.known("new"), ptr, o.known("alias"), o.known("empty"), b.const(ptr, 0))
        with b.if_(made == 0):
            python.decref(steps.value)
            b.ret(made)
        o.set_shared(made, "alias.base", base.value)
        o.set(made, "alias.steps", steps.value)
        o.set_shared(made, "alias.version", o.get(b.arg("memory"), "storage.version"))
        b.ret(made)


def _write_freed_node(module: IRModule, offsets: dict[str, int]) -> None:
    """extempo_freed_node(step): a node without inputs whose saved values are gone.

    Mirrors `tracing.materialize.materialize_freed_nodes`.
    """
    with module.function("extempo_freed_node", ptr, internal=True, step=ptr) as b:
        o = Objects(b, offsets)
        number = o.call_no_args(o.known("next_number"))
        node = b.call_address(o.known("new"), ptr, o.known("node"), o.known("empty"), b.const(ptr, 0))
        with b.if_(node == 0):
            o.python.decref(number)
            b.ret(node)
        for name in ("op", "attrs", "type", "where"):
            o.set_shared(node, f"node.{name}", o.get(b.arg("step"), f"step.{name}"))
        o.set_shared(node, "node.inputs", o.known("empty"))
        for name in ("saved", "derived", "extra"):
            o.set_shared(node, f"node.{name}", o.known("none"))
        o.set(node, "node.number", number)
        b.ret(node)


def _write_wrap(module: IRModule, offsets: dict[str, int]) -> None:
    """extempo_wrap(array, type): a tensor outside any graph, as `wrap` makes it. Mirrors `core.tensor.wrap`."""
    with module.function("extempo_wrap", ptr, internal=True, array=ptr, type=ptr) as b:
        o = Objects(b, offsets)
        python, array = o.python, b.arg("array")
        storage = o.new_storage(array)
        t = b.call_address(o.known("new"), ptr, o.known("tensor"), o.known("empty"), b.const(ptr, 0))
        with b.if_(t == 0):
            python.decref(storage)
            b.ret(t)
        o.set_shared(t, "tensor._data", array)
        o.set(t, "tensor._memory", storage)
        o.set_shared(t, "tensor._type", b.arg("type"))
        for name in ("_history", "_alias", "_grad_barrier", "_source"):
            o.set_shared(t, f"tensor.{name}", o.known("none"))
        b.ret(t)
