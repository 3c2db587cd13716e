"""View ops in native code: a new ndarray header on the same memory, without asking NumPy.

Every dimension of a view runs along one dimension of its source, with a step; where a slice starts is a number input.
`words_of` writes that down for one signature, and `extempo_view` makes the header from it. It declines (and NumPy's
own indexing runs) where the source is not writeable, a start is outside, or a reshape would need a copy.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from ....core.types import TensorType, count
from ..ir.builder import IRFunction, IRModule, Pointer, Value, i32, i64, ptr
from ..ir.machine import RARE, Library, machine
from .callables import function
from .cpython import ARRAY_DTYPE, C_CONTIGUOUS, NO_NUMBER, WRITEABLE, Python
from .loading import load_calls

MAX_NDIM = 8
_HEAD = ("ndim", "contiguous", "n_starts", "source_ndim", "itemsize", "source_nbytes", "repeats")
_SHAPE = len(_HEAD)
_SOURCES = _SHAPE + MAX_NDIM
_STEPS = _SOURCES + MAX_NDIM
_SOURCE_SHAPE = _STEPS + MAX_NDIM
_STARTS = _SOURCE_SHAPE + MAX_NDIM  # (input, source dimension, how far it reaches) for each
_SIZE = _STARTS + 3 * MAX_NDIM


class DimensionMap(NamedTuple):
    """Where each dimension of a view runs in its source (-1: nowhere) and by which step, and what starts move it."""

    sources: tuple[int, ...]
    steps: tuple[int, ...]
    starts: tuple[tuple[int, int], ...] = ()  # (source dimension, how far the slice reaches from its start)
    contiguous: bool = False  # the elements in order, under another shape


def _slice(x: TensorType, result: TensorType, attrs: dict[str, Any]) -> DimensionMap:
    sources: list[int] = []
    steps: list[int] = []
    starts: list[tuple[int, int]] = []
    dim = 0
    for entry in attrs["spec"]:
        if entry is None:
            sources.append(-1)
            steps.append(0)
            continue
        if entry == ":":
            sources.append(dim)
            steps.append(1)
        elif entry == "i":
            starts.append((dim, 0))
        else:
            length, step = entry
            starts.append((dim, (length - 1) * step))
            sources.append(dim)
            steps.append(step)
        dim += 1
    for rest in range(dim, len(x.shape)):
        sources.append(rest)
        steps.append(1)
    return DimensionMap(tuple(sources), tuple(steps), tuple(starts))


def _permute(x: TensorType, result: TensorType, attrs: dict[str, Any]) -> DimensionMap:
    return DimensionMap(attrs["dims"], (1,) * len(x.shape))


def _reshape(x: TensorType, result: TensorType, attrs: dict[str, Any]) -> DimensionMap:
    if x.shape == result.shape:  # as NumPy has it: strides of sizes 1 stay
        return DimensionMap(tuple(range(len(x.shape))), (1,) * len(x.shape))
    return DimensionMap((-1,) * len(result.shape), (0,) * len(result.shape), (), contiguous=True)


def _expand(x: TensorType, result: TensorType, attrs: dict[str, Any]) -> DimensionMap:
    lead = len(result.shape) - len(x.shape)
    sources, steps = [-1] * lead, [0] * lead
    for dim, size in enumerate(x.shape):
        sources.append(dim)
        steps.append(int(size != 1))  # as NumPy has it, also where 1 stays 1
    return DimensionMap(tuple(sources), tuple(steps))


_MAPS: dict[str, Callable[[TensorType, TensorType, dict[str, Any]], DimensionMap]] = {
    "slice": _slice,
    "permute": _permute,
    "reshape": _reshape,
    "expand": _expand,
}


def packed(words: tuple[int, ...] | None) -> bytearray | None:
    """The record of a view, of the words in it; None where NumPy makes it."""
    try:
        return None if words is None else bytearray(struct.pack(f"<{_SIZE}q", *words))
    except struct.error:  # too large for a word
        return None


def words_of(name: str, types: tuple[Any, ...], result: TensorType, attrs: dict[str, Any]) -> tuple[int, ...] | None:
    """What the record of a view says for inputs of these types; None where NumPy makes it."""
    x = types[0]
    if name not in _MAPS or len(x.shape) > MAX_NDIM or len(result.shape) > MAX_NDIM or 0 in result.shape:
        return None
    made = _MAPS[name](x, result, attrs)
    if any(step < 0 for step in made.steps):
        return None
    pad = [0] * (MAX_NDIM - len(result.shape))
    itemsize = x.dtype.itemsize
    fields = [len(result.shape), int(made.contiguous), len(made.starts), len(x.shape), itemsize]
    repeats = any(step == 0 and size > 1 for step, size in zip(made.steps, result.shape, strict=True))
    fields += [
        count(x.shape) * itemsize,
        int(repeats and not made.contiguous),
        *result.shape,
        *pad,
        *made.sources,
        *pad,
        *made.steps,
        *pad,
    ]
    fields += [*x.shape, *[0] * (MAX_NDIM - len(x.shape))]
    for i, (dim, reach) in enumerate(made.starts):
        fields += [i + 1, dim, reach]
    return (*fields, *[0] * (_SIZE - len(fields)))


def _write_reshaped_strides(module: IRModule) -> None:
    """reshaped_strides(record, array, strides): those of the new shape on the same memory; 0 if it takes a copy.

    From the first dimension on, as few old and new dimensions as have the same number of elements are taken together;
    the old ones must be contiguous with one another.

    Mirrors `scheduling.layout.reshaped_strides`.
    """
    with module.function("reshaped_strides", i64, record=ptr, array=ptr, strides=ptr) as b:
        python, record = Python(b), Pointer(b.arg("record"), i64)
        new, strides = record + _SHAPE, Pointer(b.arg("strides"), i64)
        n_new = record[_HEAD.index("ndim")]
        sizes, steps, n_old = b.array(i64, MAX_NDIM), b.array(i64, MAX_NDIM), b.var(i64, 0)
        shape, old_strides = python.shape(b.arg("array")), python.strides(b.arg("array"))
        with b.loop(0, python.ndim(b.arg("array"))) as d, b.if_(shape[d] != 1):
            sizes[n_old.value] = shape[d]
            steps[n_old.value] = old_strides[d]
            n_old.set(n_old.value + 1)
        old_from, old_to, new_from, new_to = (b.var(i64, start) for start in (0, 1, 0, 1))
        with b.while_(lambda: (new_from.value < n_new) & (old_from.value < n_old.value)):
            of_new, of_old = b.var(i64, new[new_from.value]), b.var(i64, sizes[old_from.value])
            with b.while_(lambda: of_new.value != of_old.value):
                more_new, more_old = b.if_else(of_new.value < of_old.value)
                with more_new:
                    of_new.set(of_new.value * new[new_to.value])
                    new_to.set(new_to.value + 1)
                with more_old:
                    of_old.set(of_old.value * sizes[old_to.value])
                    old_to.set(old_to.value + 1)
            with b.loop(old_from.value, old_to.value - 1) as d, b.if_(steps[d] != sizes[d + 1] * steps[d + 1]):
                b.ret(0)
            step = b.var(i64, steps[old_to.value - 1])
            with b.loop(0, new_to.value - new_from.value) as back:
                d = new_to.value - 1 - back
                strides[d] = step.value
                step.set(step.value * new[d])
            new_from.set(new_to.value)
            new_to.set(new_to.value + 1)
            old_from.set(old_to.value)
            old_to.set(old_to.value + 1)
        with b.loop(new_from.value, n_new) as d:  # what is left has size 1; there are gaps, so there is one before
            strides[d] = strides[new_from.value - 1]
        b.ret(1)


def _write_view(module: IRModule) -> None:
    """extempo_view(record, array, inputs): a new array, or null without an error set where it declines.

    `inputs`: the op's inputs one after another, for the numbers among them.

    Mirrors `scheduling.layout.view_layout`.
    """
    with module.function("extempo_view", ptr, record=ptr, array=ptr, inputs=ptr) as b:
        python, array = Python(b), b.arg("array")
        record = Pointer(b.arg("record"), i64)
        head = {name: record[i] for i, name in enumerate(_HEAD)}
        null = b.const(ptr, 0)
        flags = python.flags(array)
        with b.if_(((flags & WRITEABLE) == 0) | (python.ndim(array) != head["source_ndim"])):
            b.ret(null)
        shape, strides = python.shape(array), python.strides(array)
        data = b.var(ptr, python.data(array))
        with b.loop(0, head["n_starts"]) as i:
            start_at = record + (i * 3 + _STARTS)
            dim = start_at[1]
            number = python.as_int(Pointer(b.arg("inputs"), ptr)[start_at[0]])
            with b.if_((number < 0) | (number + start_at[2] >= shape[dim])):
                python.forget(*NO_NUMBER)
                b.ret(null)
            data.set(b.byte_offset(data.value, number * strides[dim]))
        new_strides = b.array(i64, MAX_NDIM)
        in_order, mapped = b.if_else(head["contiguous"] != 0)
        with in_order:
            plain, other = b.if_else((flags & C_CONTIGUOUS) != 0)
            with plain:
                step = b.var(i64, head["itemsize"])
                with b.loop(0, head["ndim"]) as back:
                    d = head["ndim"] - 1 - back
                    new_strides[d] = step.value
                    step.set(step.value * (record + _SHAPE)[d])
            with other:
                reshaped = module.declare("reshaped_strides", i64, [ptr, ptr, ptr])
                with b.if_(b.call(reshaped, record.address, array, new_strides.address) == 0):
                    b.ret(null)
        with mapped, b.loop(0, head["ndim"]) as k:
            source = (record + _SOURCES)[k]
            new_strides[k] = b.const(i64, 0)
            with b.if_(source >= 0):
                new_strides[k] = strides[source] * (record + _STEPS)[k]
        dtype = b.field(ptr, array, ARRAY_DTYPE)
        python.incref(dtype)  # the new array takes one over
        new = module.declare("PyArray_NewFromDescr", ptr, [ptr, ptr, i32, ptr, ptr, ptr, i32, ptr])
        ndim = b.cast("trunc", head["ndim"], i32)
        shape_at = (record + _SHAPE).address
        flag = b.select(head["repeats"] != 0, b.const(i32, 0), WRITEABLE)  # one element stands for several
        made = b.call(new, python.type_of(array), dtype, ndim, shape_at, new_strides.address, data.value, flag, null)
        with b.if_(made == 0):
            python.forget("MemoryError", "ValueError")  # NumPy will say what is wrong
            b.ret(null)
        python.incref(array)
        b.call(module.declare("PyArray_SetBaseObject", i32, [ptr, ptr]), made, array)
        b.ret(made)


def _write_view_call(module: IRModule) -> None:
    """extempo_view_call(array, *numbers): the view, by a record and a fallback in `self`."""
    with module.function("extempo_view_call", ptr, self=ptr, args=ptr, nargs=i64) as b:
        python, args = Python(b), Pointer(b.arg("args"), ptr)
        record = python.bytes_of(python.item(b.arg("self"), 0))
        made = b.call(module.defined["extempo_view"], record, args[0], b.arg("args"))
        with b.if_(made == 0):
            with b.if_(python.is_raised()):  # by converting an odd kind of int
                b.ret(made)
            fallback = python.item(b.arg("self"), 1)
            b.ret(python.vectorcall(fallback, b.arg("args"), b.arg("nargs"), b.const(ptr, 0)))
        b.ret(made)


_library: list[Library] = []


def load_views() -> Library:
    """What is here as functions; from now on other code can call extempo_view."""
    if not _library:

        def write(module: IRModule) -> None:
            _write_view(module)
            _write_view_call(module)

        reshaped = load_calls(_write_reshaped_strides, ["reshaped_strides"], kind=RARE)
        machine().offer("reshaped_strides", reshaped.address["reshaped_strides"])
        library = load_calls(write, ["extempo_view", "extempo_view_call"])
        machine().offer("extempo_view", library.address["extempo_view"])
        _library.append(library)
    return _library[0]


def make_view(b: IRFunction, record: Value, array: Value, inputs: Value) -> Value:
    """Write the call of extempo_view, for code that is loaded after `load_views`."""
    return b.call(b.module.declare("extempo_view", ptr, [ptr, ptr, ptr]), record, array, inputs)


def view_call(name: str, record: bytearray, fallback: Callable[..., Any]) -> Callable[..., Any]:
    """A view as a function of an array and numbers; `fallback` where native code declines."""
    return function(name, load_views().address["extempo_view_call"], (record, fallback))


def zeros_like_source(b: IRFunction, record: Pointer, like: Value) -> Value:
    """An array of zeros of the source's shape and another array's dtype, a new reference; null on failure."""
    python = Python(b)
    head = {name: record[i] for i, name in enumerate(_HEAD)}
    dtype = b.field(ptr, like, ARRAY_DTYPE)
    array = python.empty(dtype, head["source_ndim"], (record + _SOURCE_SHAPE).address, head["source_nbytes"])
    with b.if_(array != 0):
        python.zero(python.data(array), head["source_nbytes"])
    return array
