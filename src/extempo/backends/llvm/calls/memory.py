"""The pool: aligned blocks of raw memory that are Python objects, so that reference counts say when one is free.

A block is 64-byte aligned and belongs to a size class (four to a doubling). A new array gets a block as its base;
when the last array, tensor or foreign view on it is gone, Python frees the block, and freeing means: put it on the
free list of its class. Beyond a limit of free bytes, blocks go back to the system: free ones, not much smaller, that
were last asked for before the one that is freed, or else this one. So do, when a class has no block and one must be
allocated, free blocks of the classes that were not asked for the longest, until all blocks together are no more than
twice what was ever in use at a time: sizes that keep changing do not leave blocks behind for each. When the system has
no memory, it gets all free blocks back and is asked once more. Everything happens under the GIL.
"""

from __future__ import annotations

import ctypes
import sys

import numpy as np

from ....core.storage import Array
from ..ir.builder import IRFunction, IRModule, Pointer, Value, i1, i32, i64, ptr, void
from ..ir.machine import CALLS, Library, machine
from . import cpython
from .callables import function
from .cpython import ALIGNED, BLOCK_CLASS, BLOCK_DATA, BLOCK_NEXT, BLOCK_SIZE, C_CONTIGUOUS, LARGEST, WRITEABLE, Python

N_CLASSES = 4 * 58  # every size that an int64 can have
N_SMALLER = 8  # classes that a block takes the place of: blocks are a quarter as large, so a few are enough
N_LARGER = 3  # classes from which a block is taken where the right one has none: it is less than twice as large
MAX_NDIM = 64  # as NumPy
HELD_LIMIT = 1 << 27
SPARE = 1 << 18  # bytes that may be free in any case
LARGE_PAGE = 1 << 21
LARGE_BLOCK = LARGE_PAGE if sys.platform == "linux" else LARGEST  # from here on mapped by itself
_READ_WRITE, _PRIVATE_ANONYMOUS, _HUGE_PAGES = 3, 0x22, 14  # PROT_, MAP_ and MADV_ of Linux
_DISALLOW_INSTANTIATION = 1 << 7
_TP_DEALLOC = 52
# The module's counters, in this order.
COUNTERS = ("free_bytes", "bytes_in_use", "peak_bytes_in_use", "blocks_allocated", "blocks_reused")


def write_memory(module: IRModule) -> None:
    """extempo_empty, extempo_take, extempo_copy, and what frees a block."""
    module.global_("free_lists", ptr, N_CLASSES + N_LARGER)
    module.global_("last_asked", i64, N_CLASSES + N_LARGER)  # for each class, how many blocks had been reused by then
    module.global_("counters", i64, len(COUNTERS))
    module.global_("types", ptr, 3)  # the type of blocks, the type of arrays, and what finds more memory
    with module.function("extempo_set_types", void, block=ptr, array=ptr, find_more=ptr) as b:
        types = b.pointer(module.address_of(b, "types"), ptr)
        types[0] = b.arg("block")
        types[1] = b.arg("array")
        types[2] = b.arg("find_more")
    with module.function("extempo_counters", ptr) as b:
        b.ret(module.address_of(b, "counters"))
    _write_make_room(module)
    _write_find_more(module)
    _write_take(module)
    _write_give_back(module)
    _write_empty(module)
    _write_copy(module)
    _write_new(module)


class _Counters:
    def __init__(self, b: IRFunction) -> None:
        self._at = b.pointer(b.module.address_of(b, "counters"), i64)

    def add(self, name: str, amount: Value | int) -> Value:
        i = COUNTERS.index(name)
        new = self._at[i] + amount
        self._at[i] = new
        return new

    def __getitem__(self, name: str) -> Value:
        return self._at[COUNTERS.index(name)]

    def __setitem__(self, name: str, value: Value) -> None:
        self._at[COUNTERS.index(name)] = value


def _size_class(b: IRFunction, nbytes: Value) -> tuple[Value, Value]:
    """The class of a size, and the bytes that blocks of that class have."""
    top = b.select(nbytes > 64, nbytes - 1, 63)
    zeros = b.call(b.module.declare("llvm.ctlz.i64", i64, [i64, i1]), top, 0)
    power = 63 - zeros
    shift = power - 2
    quarter = b.binary("lshr", top, shift)  # 4 to 7
    return (power - 5) * 4 + quarter - 7, (quarter + 1) << shift


def _write_make_room(module: IRModule) -> None:
    with module.function("extempo_make_room", void, size=i64) as b:
        counters = _Counters(b)
        free = b.pointer(module.address_of(b, "free_lists"), ptr)
        last_asked = b.pointer(module.address_of(b, "last_asked"), i64)
        used, most = counters["bytes_in_use"] + b.arg("size"), counters["peak_bytes_in_use"]
        most = b.larger(used, most)
        allowed = 2 * most + SPARE - used  # the classes of one step, which reach their peaks in turn, need up to 1.9
        oldest, since = b.var(i64, 0), b.var(i64, 0)
        with b.while_(lambda: counters["free_bytes"] > b.larger(allowed, 0)):
            since.set(LARGEST)
            with b.loop(0, N_CLASSES) as i, b.if_((free[i] != 0) & (last_asked[i] < since.value)):
                oldest.set(i)
                since.set(last_asked[i])
            _release(b, free, oldest.value)


def _release(b: IRFunction, free: Pointer, index: Value) -> None:
    """Give the first free block of a class back to the system."""
    block = free[index]
    free[index] = b.field(ptr, block, BLOCK_NEXT)
    size = b.field(i64, block, BLOCK_SIZE)
    _Counters(b).add("free_bytes", -size)
    _give_to_system(b, block, b.field(ptr, block, BLOCK_DATA), size)


def _allocate(b: IRFunction, size: Value, used: Value) -> Value:
    """MemoryPool from the system; null if there is none.

    Large blocks are mapped by themselves, on large pages: thousands of small ones are more than a core finds at once,
    and what is given back is the system's again. `used`: the bytes that are asked for; a large page must not go beyond
    them, since all of it counts as soon as any is written.
    """
    data = b.var(ptr, 0)
    large, small = b.if_else(size >= LARGE_BLOCK)
    with large:
        declared = b.module.declare("mmap", ptr, [ptr, i64, i32, i32, i32, i64])
        protection, flags, no_file = (b.const(i32, word) for word in (_READ_WRITE, _PRIVATE_ANONYMOUS, -1))
        found = b.call(declared, b.const(ptr, 0), size + LARGE_PAGE, protection, flags, no_file, b.const(i64, 0))
        begin = b.cast("ptrtoint", found, i64)
        with b.if_(begin != -1):
            first = (begin + (LARGE_PAGE - 1)) & -LARGE_PAGE
            _unmap(b, begin, first - begin)
            _unmap(b, first + size, begin + LARGE_PAGE - first)
            data.set(b.cast("inttoptr", first, ptr))
            advise = b.module.declare("madvise", i32, [ptr, i64, i32])
            # A wish: where it is refused, nothing is lost.
            b.call(advise, data.value, used & -LARGE_PAGE, b.const(i32, _HUGE_PAGES))
    with small:
        data.set(b.call(b.module.declare("aligned_alloc", ptr, [i64, i64]), 64, (size + 63) & -64))
    return data.value


def _unmap(b: IRFunction, begin: Value, size: Value) -> None:
    with b.if_(size > 0):
        b.call(b.module.declare("munmap", i32, [ptr, i64]), b.cast("inttoptr", begin, ptr), size)


def _give_to_system(b: IRFunction, block: Value, data: Value, size: Value) -> None:
    """A block and its memory, either of which may be null, are no more."""
    large, small = b.if_else(size >= LARGE_BLOCK)
    with large, b.if_(data != 0):
        _unmap(b, b.cast("ptrtoint", data, i64), size)
    with small:
        b.call(b.module.declare("free", void, [ptr]), data)
    b.call(b.module.declare("PyObject_Free", void, [ptr]), block)


def _write_find_more(module: IRModule) -> None:
    """extempo_find_more(array to be copied or null, bytes, tries before): whether to try again; 0: it has raised."""
    with module.function("extempo_find_more", i64, array=ptr, nbytes=i64, n_before=i64) as b:
        python, args = Python(b), b.array(ptr, 2)
        types = b.pointer(module.address_of(b, "types"), ptr)
        number = module.declare("PyLong_FromLongLong", ptr, [i64])
        args[0] = python.incref(b.arg("array"))
        with b.if_(args[0] == 0):
            args[0] = b.call(number, b.arg("nbytes"))
        args[1] = b.call(number, b.arg("n_before"))
        answer = b.var(ptr, 0)
        with b.if_((args[0] != 0) & (args[1] != 0)):
            answer.set(python.vectorcall(types[2], args.address, b.const(i64, 2), b.const(ptr, 0)))
        for i in range(2):
            python.decref(args[i])
        python.decref(answer.value)
        b.ret(b.cast("zext", answer.value != 0, i64))


def _write_take(module: IRModule) -> None:
    with module.function("extempo_take", ptr, nbytes=i64) as b:
        counters = _Counters(b)
        index, size = _size_class(b, b.arg("nbytes"))
        free = b.pointer(module.address_of(b, "free_lists"), ptr)
        types = b.pointer(module.address_of(b, "types"), ptr)
        block, at, taken = b.var(ptr, free[index]), b.var(i64, index), b.var(i64, size)
        with b.if_(block.value == 0):
            for more in range(1, N_LARGER + 1):
                with b.if_(block.value == 0):
                    at.set(index + more)
                    block.set(free[index + more])
        is_new, is_old = b.if_else(block.value == 0)
        with is_new:
            b.call(module.defined["extempo_make_room"], size)
            data, n_tries, find_more = b.var(ptr, 0), b.var(i64, 0), module.defined["extempo_find_more"]
            with b.while_(lambda: data.value == 0):
                block.set(b.call(module.declare("PyObject_Malloc", ptr, [i64]), 48))
                data.set(_allocate(b, size, b.arg("nbytes")))
                with b.if_((data.value == 0) | (block.value == 0)):
                    _give_to_system(b, block.value, data.value, size)
                    data.set(b.const(ptr, 0))
                    with b.if_(b.call(find_more, b.const(ptr, 0), b.arg("nbytes"), n_tries.value) == 0):
                        b.ret(b.const(ptr, 0))
                    n_tries.set(n_tries.value + 1)
            b.set_field(block.value, BLOCK_DATA, data.value)
            b.set_field(block.value, BLOCK_CLASS, index)
            b.set_field(block.value, BLOCK_SIZE, size)
            at.set(index)
            counters.add("blocks_allocated", 1)
        with is_old:
            free[at.value] = b.field(ptr, block.value, BLOCK_NEXT)
            taken.set(b.field(i64, block.value, BLOCK_SIZE))
            counters.add("free_bytes", -taken.value)
            counters.add("blocks_reused", 1)
        b.pointer(module.address_of(b, "last_asked"), i64)[at.value] = counters["blocks_reused"]
        used = counters.add("bytes_in_use", taken.value)
        with b.if_(used > counters["peak_bytes_in_use"]):
            counters["peak_bytes_in_use"] = used
        b.ret(b.call(module.declare("PyObject_Init", ptr, [ptr, ptr]), block.value, types[0]))


def _write_replace_older(module: IRModule) -> None:
    """Free blocks that were last asked for before a class was go, until no more than `allowed` bytes are free."""
    with module.function("extempo_replace_older", void, index=i64, allowed=i64) as b:
        counters, index = _Counters(b), b.arg("index")
        free = b.pointer(module.address_of(b, "free_lists"), ptr)
        last_asked = b.pointer(module.address_of(b, "last_asked"), i64)
        first = b.select(index > N_SMALLER, index - N_SMALLER, 0)
        oldest, since = b.var(i64, 0), b.var(i64, 0)
        with b.while_(lambda: (counters["free_bytes"] > b.arg("allowed")) & (oldest.value >= 0)):
            oldest.set(-1)
            since.set(last_asked[index])
            with b.loop(first, N_CLASSES) as i, b.if_((free[i] != 0) & (i != index) & (last_asked[i] <= since.value)):
                oldest.set(i)
                since.set(last_asked[i])
            with b.if_(oldest.value >= 0):
                _release(b, free, oldest.value)


def _write_give_back(module: IRModule) -> None:
    """tp_dealloc of the type of blocks."""
    _write_replace_older(module)
    with module.function("extempo_give_back", void, block=ptr) as b:
        python, counters, block = Python(b), _Counters(b), b.arg("block")
        size, index = b.field(i64, block, BLOCK_SIZE), b.field(i64, block, BLOCK_CLASS)
        python.decref(python.type_of(block))  # an instance of a heap type holds its type
        counters.add("bytes_in_use", -size)
        with b.if_((counters["free_bytes"] + size > HELD_LIMIT) & (size <= HELD_LIMIT)):
            b.call(module.defined["extempo_replace_older"], index, HELD_LIMIT - size)
        keep, drop = b.if_else(counters["free_bytes"] + size <= HELD_LIMIT)
        with keep:
            free = b.pointer(module.address_of(b, "free_lists"), ptr)
            b.set_field(block, BLOCK_NEXT, free[index])
            free[index] = block
            counters.add("free_bytes", size)
        with drop:
            _give_to_system(b, block, b.field(ptr, block, BLOCK_DATA), size)
    with module.function("extempo_release_free", void) as b:
        free = b.pointer(module.address_of(b, "free_lists"), ptr)
        with b.loop(0, N_CLASSES) as i, b.while_(lambda: free[i] != 0):
            _release(b, free, i)


def _write_empty(module: IRModule) -> None:
    with module.function("extempo_empty", ptr, dtype=ptr, ndim=i64, shape=ptr, nbytes=i64, strides=ptr) as b:
        python = Python(b)
        block = b.call(module.defined["extempo_take"], b.arg("nbytes"))
        with b.if_(block == 0):
            b.ret(block)
        python.incref(b.arg("dtype"))  # the new array takes one over
        types = b.pointer(module.address_of(b, "types"), ptr)
        null, flags = b.const(ptr, 0), b.const(i32, C_CONTIGUOUS | ALIGNED | WRITEABLE)
        new = module.declare("PyArray_NewFromDescr", ptr, [ptr, ptr, i32, ptr, ptr, ptr, i32, ptr])
        ndim = b.cast("trunc", b.arg("ndim"), i32)
        data = b.field(ptr, block, BLOCK_DATA)
        array = b.call(new, types[1], b.arg("dtype"), ndim, b.arg("shape"), b.arg("strides"), data, flags, null)
        with b.if_(array == 0):
            python.decref(block)
            b.ret(array)
        b.call(module.declare("PyArray_SetBaseObject", i32, [ptr, ptr]), array, block)
        b.ret(array)


def _write_copy(module: IRModule) -> None:
    """extempo_copy(array, order): NumPy's copy of an array, in memory of NumPy's."""
    with module.function("extempo_copy", ptr, array=ptr, order=i32) as b:
        python, array, made, n_tries = Python(b), b.arg("array"), b.var(ptr, 0), b.var(i64, 0)
        copy, more = module.declare("PyArray_NewCopy", ptr, [ptr, i32]), module.defined["extempo_find_more"]
        with b.while_(lambda: made.value == 0):
            made.set(b.call(copy, array, b.arg("order")))
            with b.if_(made.value == 0):
                python.forget("MemoryError")
                with b.if_(python.is_raised()):
                    b.ret(made.value)
                with b.if_(b.call(more, array, b.const(i64, 0), n_tries.value) == 0):
                    b.ret(made.value)
                n_tries.set(n_tries.value + 1)
        b.ret(made.value)


def _write_new(module: IRModule) -> None:
    """empty(dtype, shape, itemsize), to be called from Python."""
    with module.function("extempo_new", ptr, self=ptr, args=ptr, nargs=i64) as b:
        python = Python(b)
        dtype, shape, itemsize = (b.pointer(b.arg("args"), ptr)[k] for k in range(3))
        ndim = b.call(module.declare("PyTuple_Size", i64, [ptr]), shape)
        sizes = b.array(i64, MAX_NDIM)
        nbytes = b.var(i64, python.as_int(itemsize))
        # NumPy refuses more dimensions, and sizes that are not taken for what they are here (an int too large is -1).
        with b.loop(0, b.smaller(ndim, MAX_NDIM)) as k:
            sizes[k] = python.as_int(python.item(shape, k))
            nbytes.set(nbytes.value * sizes[k])
        row_major = b.const(ptr, 0)
        b.ret(b.call(module.defined["extempo_empty"], dtype, ndim, sizes.address, nbytes.value, row_major))


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("function", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


class MemoryPool:
    """The loaded pool."""

    def __init__(self) -> None:
        compiler = machine()
        for name, address in cpython.numpy_functions().items():
            compiler.offer(name, address)
        module = IRModule()
        write_memory(module)
        self._library: Library = compiler.load(module.text(), list(module.defined), module.imports, CALLS)
        at = self._library.address
        for name in ("extempo_empty", "extempo_take", "extempo_copy"):
            compiler.offer(name, at[name])
        self.block_type = self._make_type(at["extempo_give_back"])
        set_types = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(at["extempo_set_types"])
        self._more = self._find_more  # native code holds the address of this very object
        set_types(id(self.block_type), id(np.ndarray), id(self._more))
        counters = ctypes.CFUNCTYPE(ctypes.c_void_p)(at["extempo_counters"])()
        self._counters = (ctypes.c_int64 * len(COUNTERS)).from_address(counters)
        self.empty = function("empty", at["extempo_new"])  # (NumPy dtype, shape, bytes of one element)
        self._release = ctypes.PYFUNCTYPE(None)(at["extempo_release_free"])
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc keeps what was freed, unless it is asked

    def _make_type(self, give_back: int) -> type:
        self._slots = (_Slot * 2)(_Slot(_TP_DEALLOC, give_back), _Slot(0, None))
        self._name = b"extempo.Block"
        self._spec = _Spec(self._name, 48, 0, _DISALLOW_INSTANTIATION, self._slots)
        make = ctypes.pythonapi.PyType_FromSpec
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p]
        made: type = make(ctypes.addressof(self._spec))
        return made

    def _find_more(self, wanted: int | Array, n_before: int) -> None:
        """The system has no memory for so many bytes, or a copy: what is free here may be what it lacks."""
        if n_before > 0:
            raise self.none_left(wanted if isinstance(wanted, int) else wanted.nbytes)
        self.clear()

    def none_left(self, nbytes: int) -> MemoryError:
        """What says that there is no memory for so many bytes."""
        used = self.stats()["bytes_in_use"]
        return MemoryError(
            f"no memory for {nbytes:,} bytes; tensors have {used:,} bytes in use: "
            "let go of some, or compute in smaller parts"
        )

    def stats(self) -> dict[str, int]:
        """Bytes held free and in use, and how many blocks were newly allocated and reused."""
        return dict(zip(COUNTERS, self._counters, strict=True))

    @property
    def free_bytes(self) -> int:
        return int(self._counters[0])

    @property
    def bytes_in_use(self) -> int:
        return int(self._counters[1])

    def reset_peak(self) -> None:
        self._counters[2] = self._counters[1]

    def clear(self) -> None:
        """Give every free block back to the system."""
        self._release()
        if self._trim is not None:
            self._trim(0)
