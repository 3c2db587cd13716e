"""From a Bound to a Python callable: arrays and numbers in, new arrays out, one native call.

The callable reads addresses and strides straight from the ndarrays, copies an input only where the routine cannot read
its layout, allocates the results from the pool and calls the routine. Where the routine declines (a non-zero status)
or an input is not what was bound, it calls the op's NumPy kernel with the same arguments instead.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import Any

from ....core.types import TensorType, count
from ..ir.builder import IRFunction, IRModule, Pointer, Type, Value, i64, ptr
from ..ir.machine import Library
from ..routines.routine import SPREAD_FROM, Bound
from .callables import function
from .copies import offer_copiers, prepare_copier, write_row_major
from .cpython import ALIGNED, BLOCK_DATA, C_CONTIGUOUS, NO_NUMBER, Python
from .loading import load_calls

MAX_BUFFERS = 1040  # a join of a thousand tensors
MAX_META = 6144
MAX_NDIM = 8
KINDS = "cmsfi-"
# The record of a call: a head, one entry for each input, one for each result, the bound numbers; int64 throughout.
_HEAD = ("address", "n_inputs", "n_results", "n_bound", "scratch", "zeroed", "array_type", "in_parts")
_INPUT = ("kind", "dtype_number", "itemsize")
_RESULT = ("dtype", "ndim", "nbytes", *(f"size{i}" for i in range(MAX_NDIM)))


def _write_is_spread(module: IRModule) -> None:
    """is_spread(array, itemsize): whether it is large only by expansion.

    Mirrors `backends.llvm.routines.routine.is_spread`.
    """
    with module.function("is_spread", i64, internal=True, array=ptr, itemsize=i64) as b:
        python, array = Python(b), b.arg("array")
        shape, strides = python.shape(array), python.strides(array)
        expanded, nbytes = b.var(i64, 0), b.var(i64, b.arg("itemsize"))
        with b.loop(0, python.ndim(array)) as k:
            nbytes.set(nbytes.value * shape[k])
            with b.if_((shape[k] > 1) & (strides[k] == 0)):
                expanded.set(1)
        b.ret(b.select(nbytes.value >= SPREAD_FROM, expanded.value, 0))


def _write_prepare(module: IRModule) -> None:
    """An input as the routine can read it: itself or a copy, as a new reference.

    Memory that is not aligned is copied in its own order: an address must not decide between two layouts.
    """
    args = {"array": ptr, "kind": i64, "itemsize": i64}
    write_row_major(module)
    _write_in_order(module, "prepare_aligned", args)
    with module.function("prepare", ptr, internal=True, **args) as b:
        python, array, others = Python(b), b.arg("array"), (b.arg("kind"), b.arg("itemsize"))
        with b.if_((python.flags(array) & ALIGNED) != 0):
            b.ret(b.call(module.defined["prepare_aligned"], array, *others))
        aligned = python.aligned_copy(array)
        with b.if_(aligned == 0):
            b.ret(aligned)
        prepared = b.call(module.defined["prepare_aligned"], aligned, *others)
        python.decref(aligned)
        b.ret(prepared)


def _write_in_order(module: IRModule, name: str, args: dict[str, Type]) -> None:
    """An aligned input itself, or a contiguous copy where the routine cannot read its strides."""
    with module.function(name, ptr, internal=True, **args) as b:
        python, array = Python(b), b.arg("array")
        fits = b.var(i64, 1)
        flags = python.flags(array)
        ndim, shape, strides = python.ndim(array), python.shape(array), python.strides(array)
        with b.if_((flags & C_CONTIGUOUS) == 0):
            with b.if_(b.arg("kind") == KINDS.index("c")):
                fits.set(0)
            with b.loop(0, ndim) as i, b.if_(strides[i] % b.arg("itemsize") != 0):
                fits.set(0)
            with b.if_((b.arg("kind") == KINDS.index("m")) & (ndim >= 2)):
                last, before = strides[ndim - 1], strides[ndim - 2]
                n_rows, n_columns = shape[ndim - 2], shape[ndim - 1]
                one = b.arg("itemsize")
                by_row = ((last == one) | (n_columns <= 1)) & ((before >= n_columns * one) | (n_rows <= 1))
                by_column = ((before == one) | (n_rows <= 1)) & ((last >= n_rows * one) | (n_columns <= 1))
                with b.if_(~(by_row | by_column)):
                    fits.set(0)
        with b.if_(fits.value == 0):
            b.ret(b.call(module.defined["row_major"], array, b.arg("itemsize")))
        b.ret(python.incref(array))


class _KernelCallable:
    """Writes the call: a step goes to `other` when something is not as it was bound, to `failed` at a Python error."""

    def __init__(self, b: IRFunction) -> None:
        self.b = b
        self.python = Python(b)
        packed = b.arg("self")
        self.fallback = self.python.item(packed, 1)
        self.record = Pointer(self.python.bytes_of(self.python.item(packed, 0)), i64)
        self.head = {name: self.record[i] for i, name in enumerate(_HEAD)}
        self.buffers = b.array(ptr, MAX_BUFFERS)
        self.meta = b.array(i64, MAX_META)
        self.owned = b.array(ptr, MAX_BUFFERS)  # inputs as they are read, then results: references of ours
        self.n_owned = b.var(i64, 0)
        self.n_meta = b.var(i64, 0)
        self.answer = b.var(ptr, 0)
        self.other, self.failed = b.way_out(self._fall_back), b.way_out(self._fail)

    def own(self, o: Value) -> None:
        self.owned[self.n_owned.value] = o
        self.n_owned.set(self.n_owned.value + 1)

    def release(self, n: Value) -> None:
        """Let go of the first `n` references."""
        with self.b.loop(0, n) as i:
            self.python.decref(self.owned[i])

    def _fall_back(self) -> None:
        null = self.b.const(ptr, 0)
        self.answer.set(self.python.vectorcall(self.fallback, self.b.arg("args"), self.b.arg("nargs"), null))
        self.failed.take()  # not before that: nobody else may hold the inputs any more

    def _fail(self) -> None:
        self.release(self.n_owned.value)
        self.b.ret(self.answer.value)

    def fall_back_if_too_large(self) -> None:
        """A Python int may be larger than a routine's numbers: NumPy's kernel takes it or says what is wrong."""
        with self.b.if_(self.python.is_raised()):
            self.python.forget(*NO_NUMBER)
            self.failed.take_if(self.python.is_raised())
            self.other.take()

    def push(self, number: Value) -> None:
        self.meta[self.n_meta.value] = number
        self.n_meta.set(self.n_meta.value + 1)

    def inputs(self) -> None:
        b, python = self.b, self.python
        args = Pointer(b.arg("args"), ptr)
        entries = self.record + len(_HEAD)
        with b.loop(0, self.head["n_inputs"]) as i:
            entry = entries + i * len(_INPUT)
            kind, number, itemsize = (entry[k] for k in range(3))
            self.buffers[i] = b.const(ptr, 0)
            with b.if_(kind == KINDS.index("f")):
                self.push(b.bitcast(python.as_double(args[i]), i64))
            with b.if_(kind == KINDS.index("i")):
                self.push(python.as_int(args[i]))
            with b.if_((kind == KINDS.index("f")) | (kind == KINDS.index("i"))):
                self.fall_back_if_too_large()
            with b.if_(kind < KINDS.index("f")):
                type_ = b.emit(i64, f"ptrtoint ptr {python.type_of(args[i]).text} to i64")
                self.other.take_if(type_ != self.head["array_type"])
                self.other.take_if(python.dtype_number(args[i]) != number)
                with b.if_((self.head["in_parts"] != 0) & ((python.flags(args[i]) & C_CONTIGUOUS) == 0)):
                    self.other.take_if(b.call(b.module.defined["is_spread"], args[i], itemsize) != 0)
                array = b.call(b.module.defined["prepare"], args[i], kind, itemsize)
                self.failed.take_if(array == 0)
                self.own(array)
                self.buffers[i] = python.data(array)
                with b.if_(kind != KINDS.index("c")):
                    strides = python.strides(array)
                    with b.loop(0, python.ndim(array)) as k:
                        self.push(strides[k] // itemsize)

    def results(self) -> None:
        b, python = self.b, self.python
        entries = self.record + (self.head["n_inputs"] * len(_INPUT) + len(_HEAD))
        with b.loop(0, self.head["n_results"]) as i:
            entry = entries + i * len(_RESULT)
            dtype = b.emit(ptr, f"inttoptr i64 {entry[0].text} to ptr")
            array = python.empty(dtype, entry[1], (entry + 3).address, entry[2])
            self.failed.take_if(array == 0)
            self.own(array)
            data = python.data(array)
            with b.if_(self.head["zeroed"] != 0):
                python.zero(data, entry[2])
            self.buffers[self.head["n_inputs"] + i] = data

    def run(self) -> None:
        b, head = self.b, self.head
        n_buffers = head["n_inputs"] + head["n_results"]
        scratch = b.var(ptr, 0)
        with b.if_(head["scratch"] > 0):
            scratch.set(self.python.take(head["scratch"]))
            self.failed.take_if(scratch.value == 0)
            self.buffers[n_buffers] = b.field(ptr, scratch.value, BLOCK_DATA)
        routine = b.emit(ptr, f"inttoptr i64 {head['address'].text} to ptr")
        status = b.call_address(routine, i64, self.buffers.address, self.meta.address)
        with b.if_(scratch.value != 0):
            self.python.decref(scratch.value)
        self.other.take_if(status != 0)

    def bound_numbers(self) -> None:
        b, head = self.b, self.head
        start = head["n_inputs"] * len(_INPUT) + head["n_results"] * len(_RESULT) + len(_HEAD)
        with b.loop(0, head["n_bound"]) as i:
            self.push((self.record + start)[i])

    def give_results(self) -> None:
        """The results become the caller's; the inputs were only borrowed."""
        b, head = self.b, self.head
        n_results = head["n_results"]
        first = self.n_owned.value - n_results
        with b.if_(n_results == 1):
            self.release(first)
            b.ret(self.owned[first])
        made = self.python.new_tuple(n_results)
        self.failed.take_if(made == 0)
        self.release(first)
        with b.loop(0, n_results) as i:
            self.python.set_item(made, i, self.owned[first + i])
        b.ret(made)


def write_glue(module: IRModule) -> None:
    _write_is_spread(module)
    _write_prepare(module)
    with module.function("extempo_bound", ptr, self=ptr, args=ptr, nargs=i64) as b:
        call = _KernelCallable(b)
        call.other.take_if(b.arg("nargs") != call.head["n_inputs"])
        call.bound_numbers()
        call.inputs()
        call.results()
        call.run()
        call.give_results()


_library: list[Library] = []


def address() -> int:
    """Of the code of all kernels that are made here."""
    if not _library:
        offer_copiers()
        _library.append(load_calls(write_glue, ["extempo_bound"]))
    return _library[0].address["extempo_bound"]


def callable_of(
    name: str, bound: Bound, inputs: tuple[Any, ...], fallback: Callable[..., Any]
) -> Callable[..., Any] | None:
    """`bound` as a kernel. `fallback(*arrays)` runs where the routine declines. None: too many or too large ones."""
    words = words_of(bound, inputs)
    return None if words is None else callable_on(name, words, fallback, bound.keep)


def callable_on(
    name: str, words: tuple[int, ...], fallback: Callable[..., Any], keep: Any = None
) -> Callable[..., Any] | None:
    """A kernel from the words of its record. None: they are too large."""
    try:
        packed = bytearray(_packer(len(words))(*words))
    except struct.error:
        return None
    return function(name, address(), (packed, fallback, keep))


@functools.cache
def _packer(n_words: int) -> Callable[..., bytes]:
    return struct.Struct(f"<{n_words}q").pack


def words_of(bound: Bound, inputs: tuple[Any, ...]) -> tuple[int, ...] | None:
    """The words of a call's record; None where there is no room for it."""
    import numpy as np

    n_meta = len(bound.meta) + sum(
        len(t.shape) if isinstance(t, TensorType) and kind in "ms" else 1
        for t, kind in zip(inputs, bound.reads, strict=True)
    )
    shapes = [t.shape for t in (*inputs, *bound.writes) if isinstance(t, TensorType)]
    if len(inputs) + len(bound.writes) >= MAX_BUFFERS or n_meta > MAX_META or any(len(s) > MAX_NDIM for s in shapes):
        return None
    record: list[int] = [
        bound.address,
        len(inputs),
        len(bound.writes),
        len(bound.meta),
        bound.scratch,
        int(bound.zeroed),
        id(np.ndarray),
        int(bound.in_parts),
    ]
    for kind, t in zip(bound.reads, inputs, strict=True):
        number, itemsize = (t.dtype.numpy.num, t.dtype.itemsize) if isinstance(t, TensorType) else (0, 0)
        prepare_copier(itemsize)
        record += [KINDS.index(kind), number, itemsize]
    for w in bound.writes:
        sizes = [*w.shape, *[0] * (MAX_NDIM - len(w.shape))]
        record += [id(w.dtype.numpy), len(w.shape), count(w.shape) * w.dtype.itemsize, *sizes]
    return (*record, *bound.meta)
