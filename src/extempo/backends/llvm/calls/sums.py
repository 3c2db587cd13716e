"""Where gradients are added up in native code: into another, into a part of a whole, into a leaf's `.grad`.

They answer 1, 0 (not possible here) or -1 (a Python error is set). Between looking at a leaf's gradient and adding to
it no other Python thread runs, so none is lost.
"""

from __future__ import annotations

import numpy as np

from ..elementwise.broadcasting import DONE, FAILED
from ..ir.builder import IRFunction, IRModule, Pointer, Value, i1, i32, i64, ptr
from .cpython import ALIGNED, C_CONTIGUOUS, TUPLE_ITEMS, WRITEABLE
from .objects import Objects
from .views import make_view, zeros_like_source

# What the code of a walk refers to, in this order in the table of its module.
TABLE = (
    "node",
    "tensor",
    "storage",
    "leaf",  # the op
    "array",
    "bytes",
    "none",
    "true",
    "zero",
    "one",
    "empty",  # ()
    "new",  # object.__new__ as a C function
    "sum_to",
    "sum_apart",
    "add32",  # the address of the cell that has a kernel's address
    "add64",
    "record32",
    "record64",
)


def objects(b: IRFunction, offsets: dict[str, int]) -> Objects:
    """Extempo's objects for code that is being written, with this table."""
    return Objects(b, offsets, TABLE)


def write_sums(module: IRModule, offsets: dict[str, int]) -> None:
    """Everything here, into the module of a walk."""
    _write_add_into(module, offsets)
    _write_python_add(module)
    _write_embed(module, offsets)
    _write_grad_tensor(module, offsets)
    _write_accumulate(module, offsets)


def _write_add_into(module: IRModule, offsets: dict[str, int]) -> None:
    """add_into(sum, more): sum += more. 1, 0 (not possible here: another dtype or shape) or -1 as `step`.

    Mirrors `autograd.engine.BackwardEngine._add`.
    """
    with module.function("add_into", i64, internal=True, sum=ptr, more=ptr) as b:
        o = objects(b, offsets)
        python, total, more = o.python, b.arg("sum"), b.arg("more")
        single = python.dtype_number(total) == np.dtype(np.float32).num
        double = python.dtype_number(total) == np.dtype(np.float64).num
        with b.if_(~(single | double) | (python.dtype_number(total) != python.dtype_number(more))):
            b.ret(0)
        shape, other_shape, n = python.shape(total), python.shape(more), b.var(i64, 1)
        with b.if_(python.ndim(total) != python.ndim(more)):
            b.ret(0)
        with b.loop(0, python.ndim(total)) as k:
            with b.if_(shape[k] != other_shape[k]):
                b.ret(0)
            n.set(n.value * shape[k])
        wanted = C_CONTIGUOUS | ALIGNED
        plain = (python.flags(total) & python.flags(more) & wanted) == wanted
        kernel = b.load(ptr, b.select(single, o.known("add32"), o.known("add64")))
        with b.if_(~plain | ((python.flags(total) & WRITEABLE) == 0) | (kernel == 0)):  # which builds it
            inputs, results = b.array(ptr, 2), b.array(ptr, 1)
            inputs[0] = total
            inputs[1] = more
            results[0] = total
            record = b.select(single, o.known("record32"), o.known("record64"))
            callee = module.declare("extempo_elementwise", i64, [ptr, ptr, ptr, i64])
            status = b.call(callee, record, inputs.address, results.address, 1)
            b.ret(b.select(status == DONE, b.const(i64, 1), b.select(status == FAILED, b.const(i64, -1), 0)))
        operands, geometry = b.array(ptr, 3), b.array(i64, 8)
        for i, x in enumerate((total, more, total)):
            operands[i] = python.data(x)
        for i in range(8):
            geometry[i] = b.const(i64, 0)
        geometry[0] = b.const(i64, 1)
        geometry[1] = n.value
        b.call_address(kernel, i64, operands.address, geometry.address)
        b.ret(1)


def keep_gradient(b: IRFunction, gradients: Value, owned: Value, source: Value, array: Value) -> Value:
    """Write down that an array of our own is the gradient of a node. 0, or else a Python error is set."""
    declare = b.module.declare
    kept = b.var(i32, b.call(declare("PyDict_SetItem", i32, [ptr, ptr, ptr]), gradients, source, array))
    with b.if_(kept.value == 0):
        kept.set(b.call(declare("PySet_Add", i32, [ptr, ptr]), owned, source))
    return kept.value


def _write_embed(module: IRModule, offsets: dict[str, int]) -> None:
    """embed(node, record, g, gradients, owned): add g into its part of the source's gradient. 1, 0 or -1 as `step`.

    Mirrors `autograd.engine.BackwardEngine._add_into_part`.
    """
    with module.function("embed", i64, internal=True, node=ptr, record=ptr, g=ptr, gradients=ptr, owned=ptr) as b:
        o = objects(b, offsets)
        python, declare = o.python, module.declare
        gradients, owned, g = b.arg("gradients"), b.arg("owned"), b.arg("g")
        inputs = o.get(b.arg("node"), "node.inputs")
        source = python.item(inputs, 0)
        with b.if_(python.type_of(source) != o.known("node")):
            b.ret(0)
        whole = b.var(ptr, b.call(declare("PyDict_GetItem", ptr, [ptr, ptr]), gradients, source))
        is_owned = b.call(declare("PySet_Contains", i32, [ptr, ptr]), owned, source)
        in_order = b.var(i1, 0)
        with b.if_(whole.value != 0):
            in_order.set((python.flags(whole.value) & C_CONTIGUOUS) != 0)
        with b.if_((whole.value == 0) | (is_owned != 1) | ~in_order.value):
            first, later = b.if_else(whole.value == 0)
            with first:
                whole.set(zeros_like_source(b, Pointer(b.arg("record"), i64), g))
            with later:
                whole.set(python.contiguous_copy(whole.value))
            with b.if_(whole.value == 0):
                b.ret(-1)
            kept = keep_gradient(b, gradients, owned, source, whole.value)
            python.decref(whole.value)  # the dict holds it
            with b.if_(kept != 0):
                b.ret(-1)
        numbers = b.byte_offset(inputs, TUPLE_ITEMS)
        part = make_view(b, b.arg("record"), whole.value, numbers)
        with b.if_(part == 0):
            b.ret(0)
        added = b.var(i64, b.call(module.defined["add_into"], part, g))
        with b.if_(added.value == 0):
            answer = b.call(declare("PyNumber_InPlaceAdd", ptr, [ptr, ptr]), part, g)
            added.set(1)
            with b.if_(answer == 0):
                added.set(-1)
            with b.if_(answer != 0):
                python.decref(answer)
        python.decref(part)
        b.ret(added.value)


def _write_accumulate(module: IRModule, offsets: dict[str, int]) -> None:
    """accumulate(node, g, owned): add the gradient of a leaf to its `.grad`. 1, 0 or -1 as `step`.

    Mirrors `autograd.accumulating.accumulate`.
    """
    with module.function("accumulate", i64, internal=True, node=ptr, g=ptr, owned=ptr) as b:
        o = objects(b, offsets)
        python, declare, node, none = o.python, module.declare, b.arg("node"), o.known("none")
        extra = o.get(node, "node.extra")
        with b.if_(extra == none):
            b.ret(0)
        watched = (o.get(extra, "extra.hooks") != none) | (o.get(extra, "extra.post_hooks") != none)
        with b.if_(watched | (o.get(extra, "extra.retain") == o.known("true"))):
            b.ret(0)
        made = b.var(ptr, 0)
        with b.if_(o.get(extra, "extra.grad") == none):
            array = b.var(ptr, b.arg("g"))
            n_attrs = b.call(declare("PyDict_Size", i64, [ptr]), o.get(node, "node.attrs"))
            with b.if_(n_attrs != 0):  # its order is another than row-major
                b.ret(0)
            is_owned = b.call(declare("PySet_Contains", i32, [ptr, ptr]), b.arg("owned"), node)
            in_order = (python.flags(array.value) & C_CONTIGUOUS) != 0
            mine, shared = b.if_else((is_owned == 1) & in_order)
            with mine:
                python.incref(array.value)
            with shared:
                array.set(python.contiguous_copy(array.value))
                with b.if_(array.value == 0):
                    b.ret(-1)
            made.set(b.call(module.defined["grad_tensor"], array.value, o.get(node, "node.type")))
            with b.if_(made.value == 0):
                b.ret(-1)
        # Making it may have let another thread run, which may have been first.
        before = o.get(extra, "extra.grad")
        with b.if_((before == none) & (made.value != 0)):
            o.replace(extra, "extra.grad", made.value)
            b.ret(1)
        with b.if_(made.value != 0):
            python.decref(made.value)
        with b.if_(python.type_of(before) != o.known("tensor")):
            b.ret(0)
        with b.if_(o.get(before, "tensor._history") != none):
            b.ret(0)
        total = o.get(before, "tensor._data")
        with b.if_(python.type_of(total) != o.known("array")):
            b.ret(0)
        python.incref(before)  # a large addition lets other threads run, too
        added = b.var(i64, b.call(module.defined["add_into"], total, b.arg("g")))
        with b.if_(added.value == 1):
            storage = o.get(before, "tensor._memory")
            add = declare("PyNumber_Add", ptr, [ptr, ptr])
            version = b.call(add, o.get(storage, "storage.version"), o.known("one"))
            counted, not_counted = b.if_else(version != 0)
            with counted:
                o.replace(storage, "storage.version", version)
            with not_counted:
                added.set(-1)
        python.decref(before)
        b.ret(added.value)


def _write_grad_tensor(module: IRModule, offsets: dict[str, int]) -> None:
    """grad_tensor(array, type): a tensor outside any graph that takes over the array. Mirrors `core.tensor.wrap`."""
    with module.function("grad_tensor", ptr, internal=True, array=ptr, type=ptr) as b:
        o = objects(b, offsets)
        array, none = b.arg("array"), o.known("none")
        t = o.new_tensor(array, o.new_storage(array), o.python.incref(b.arg("type")), o.python.incref(none))
        o.set_shared(t, "tensor._history", none)
        o.set_shared(t, "tensor._grad_barrier", none)
        b.ret(t)


def _write_python_add(module: IRModule) -> None:
    """add(sum, more) for Python: whether it was done here, in one go that no other thread can get into.

    Mirrors `autograd.accumulating._add_in_place`.
    """
    with module.function("extempo_add", ptr, self=ptr, args=ptr, nargs=i64) as b:
        args = Pointer(b.arg("args"), ptr)
        done = b.call(module.defined["add_into"], args[0], args[1])
        with b.if_(done < 0):
            b.ret(b.const(ptr, 0))
        b.ret(b.call(module.declare("PyBool_FromLong", ptr, [i64]), done))
