"""Rows of arrays, found by numbers: gathered into one array, and added to. What `batching.rows` does, natively.

A place is four int64: (array number + 1) * 2^32 + row, the row's address, its bytes * 2 + whether it may be written,
and the address of the array's dtype. A part of a row has `PART` set in the first, and counts parts of its own size. All
zero: nothing is there; only the first: native code does not go there. Numbers come as a list or as an int64 array, of
any stride. Every function declines (None or False), and has changed nothing, if a number, a dtype or a layout is not
what it can work on: NumPy's way then does it or words the error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..ir.builder import IRModule, Pointer, Type, Value, f32, f64, i1, i8, i32, i64, ptr, vector, void
from ..ir.machine import machine
from .callables import function
from .cpython import ALIGNED, ARRAY_DTYPE, C_CONTIGUOUS, LARGEST, WRITEABLE
from .memory import MAX_NDIM
from .rows_call import (
    ADDRESS,
    ARRAY,
    DTYPE,
    FORM,
    NONE,
    PART,
    ROW_BITS,
    VIEW_DIMS,
    WHERE,
    WORDS,
    RowsCall,
    write_numbers,
)

_LIST_ITEMS = 24  # PyListObject: ob_item
_LANES = 8
_NAMES = (
    "put",
    "put_at",
    "put_each",
    "put_parts",
    "put_pieces",
    "gather",
    "gather_pieces",
    "fill",
    "add",
    "add_pieces",
    "copy_views",
    "has",
)


class RowCode(NamedTuple):
    """`places` is an array of places by number, `arrays` the list that their array numbers count through."""

    put: Callable[..., bool]  # (places, first, stride, array, itemsize, array number): its rows get numbers
    put_at: Callable[..., bool]  # (places, numbers, array, itemsize, array number)
    put_each: Callable[..., bool]  # (places, numbers, arrays, bytes of each, number of the first array): whole arrays
    put_parts: Callable[..., bool]  # (places, words): stretches of rows that are there get numbers
    # (places, numbers, counts, array, itemsize, array number): so many rows of the array for each number, end to end
    put_pieces: Callable[..., bool]
    gather: Callable[..., Any]  # (places, arrays, numbers, row shape, dtype, itemsize): an array or a view of one
    gather_pieces: Callable[..., Any]  # (places, arrays, numbers, counts, row shape, dtype, itemsize): end to end
    # (places, numbers, array, itemsize, start, end): copy the rows of numbers[start:end] to array[start:end]
    fill: Callable[..., bool]
    # (places, numbers, values, itemsize, slots or None, marks[, start]), in the order of the numbers, from `start` on.
    # With slots, an int64 by number, the byte of `marks` for the slot of each number that is added to becomes 1; a slot
    # below 0 has none.
    add: Callable[..., bool]
    add_pieces: Callable[..., bool]  # (places, numbers, counts, values, itemsize, slots or None, marks)
    # (source, target, words, itemsize, whether it is put back): views of pieces of one array to pieces of another
    copy_views: Callable[..., bool]
    has: Callable[..., Any]  # (places, numbers, dtype of bools): whether something is there


def load_rows() -> RowCode:
    """Compile, or take from the disk."""
    module = IRModule()
    write_numbers(module)
    _write_add_rows(module, "add_rows32", f32)
    _write_add_rows(module, "add_rows64", f64)
    writers = (
        _put,
        _put_at,
        _put_each,
        _put_parts,
        _put_pieces,
        _gather,
        _gather_pieces,
        _fill,
        _add,
        _add_pieces,
        _copy_views,
        _has,
    )
    for name, write in zip(_NAMES, writers, strict=True):
        with module.function(f"extempo_rows_{name}", ptr, self=ptr, args=ptr, nargs=i64) as b:
            write(RowsCall(b))
    names = [f"extempo_rows_{name}" for name in _NAMES]
    at = machine().load(module.text(), names, module.imports).address
    known = (np.ndarray, list, None)
    return RowCode(*(function(f"rows_{name}", at[full], known) for name, full in zip(_NAMES, names, strict=True)))


# ---- giving numbers to rows


def _row_form(c: RowsCall, array: Value, itemsize: Value) -> tuple[Value, Value, Value]:
    """(number of rows, bytes of one, bytes from one to the next). Declines unless rows are runs of memory."""
    b, python = c.b, c.python
    c.unless(c.is_array(array), c.declined)
    c.unless(c.has_flags(array, ALIGNED) & (python.ndim(array) > 0), c.declined)
    shape, strides, nbytes = python.shape(array), python.strides(array), b.var(i64, itemsize)
    last = python.ndim(array) - 1
    with b.loop(0, last) as k:
        d = last - k
        with b.if_((shape[d] != 1) & (strides[d] != nbytes.value)):
            c.declined()
        nbytes.set(nbytes.value * shape[d])
    c.unless(shape[0] < 1 << ROW_BITS, c.declined)
    return shape[0], nbytes.value, strides[0]


def _put_rows(
    c: RowsCall, array: Value, number: Value, form: tuple[Value, Value, Value], place: Callable[[Value], Pointer]
) -> None:
    b, python = c.b, c.python
    n, nbytes, step = form
    where, data = (number + 1) << ROW_BITS, python.data(array)
    writeable = b.cast("zext", c.has_flags(array, WRITEABLE), i64)
    dtype = b.cast("ptrtoint", b.field(ptr, array, ARRAY_DTYPE), i64)
    with b.loop(0, n) as i:
        p = place(i)
        p[WHERE] = where + i
        p[ADDRESS] = b.cast("ptrtoint", b.byte_offset(data, step * i), i64)
        p[FORM] = nbytes * 2 + writeable
        p[DTYPE] = dtype


def _put(c: RowsCall) -> None:
    """Number rows from a first one on. Mirrors `batching.rows.RowTable.add`."""
    b = c.b
    first, stride, array, itemsize, number = (c.args[k] for k in range(1, 6))
    form = _row_form(c, array, c.number(itemsize))
    begin, step, limit = c.number(first), c.number(stride), c.n_places
    with b.if_(form[0] == 0):
        c.answer(True)
    fits = (begin >= 0) & (begin < limit) & (step > 0) & (step <= limit) & (form[0] <= limit)
    c.unless(fits, c.declined)
    c.unless(begin + (form[0] - 1) * step < limit, c.declined)
    _put_rows(c, array, c.number(number), form, lambda i: c.places + (begin + i * step) * WORDS)
    c.answer(True)


def _put_at(c: RowsCall) -> None:
    """Number rows one by one. Mirrors `batching.rows.RowTable.add_at`."""
    numbers, array, itemsize, number = (c.args[k] for k in range(1, 5))
    form = _row_form(c, array, c.number(itemsize))
    c.read_numbers(numbers, c.declined)
    c.unless(c.n == form[0], c.declined)
    _put_rows(c, array, c.number(number), form, c.place)
    c.answer(True)


def _put_each(c: RowsCall) -> None:
    """The numbers must be below the number of places; the three lists must have one length.

    Mirrors `batching.rows.RowTable.add_each`.
    """
    b, python, declare = c.b, c.python, c.b.module.declare
    arrays, sizes = c.args[2], c.args[3]
    c.read_numbers(c.args[1], c.declined)

    def item(listed: Value, i: Value) -> Value:
        return b.call(declare("PyList_GetItem", ptr, [ptr, i64]), listed, i)

    with b.loop(0, c.n) as i:
        array = item(arrays, i)
        c.unless(c.is_array(array), c.declined)
        c.unless(c.has_flags(array, ALIGNED | C_CONTIGUOUS), c.declined)
    before = c.number(c.args[4])
    with b.loop(0, c.n) as i:
        array, p = item(arrays, i), c.place(i)
        writeable = b.cast("zext", c.has_flags(array, WRITEABLE), i64)
        p[WHERE] = (before + i + 1) << ROW_BITS
        p[ADDRESS] = b.cast("ptrtoint", python.data(array), i64)
        p[FORM] = c.number(item(sizes, i)) * 2 + writeable
        p[DTYPE] = b.cast("ptrtoint", b.field(ptr, array, ARRAY_DTYPE), i64)
    c.answer(True)


def _put_parts(c: RowsCall) -> None:
    """Number stretches of rows: (number, number of the row, first byte, bytes) for each, as one array.

    Mirrors `batching.rows.RowTable.add_parts`.
    """
    b, python, words = c.b, c.python, c.args[1]
    c.unless(c.is_array(words), c.declined)
    is_int64 = python.dtype_number(words) == np.dtype(np.int64).num
    c.unless(is_int64 & c.has_flags(words, C_CONTIGUOUS | ALIGNED) & (python.ndim(words) == 2), c.declined)
    n, parts = python.shape(words)[0], Pointer(python.data(words), i64)
    c.unless(python.shape(words)[1] == 4, c.declined)
    with b.loop(0, n) as i:
        number, whole, first, nbytes = (parts[i * 4 + k] for k in range(4))
        within = b.compare("<", number, c.n_places, unsigned=True) & b.compare("<", whole, c.n_places, unsigned=True)
        c.unless(within, c.declined)
        row = c.places + whole * WORDS
        # Nothing is there yet, or native code does not go there: then NumPy's way does it. Nothing has no address.
        is_inside = (first >= 0) & (first + nbytes <= row[FORM] >> 1) & ((row[ADDRESS] != 0) | (nbytes == 0))
        c.unless((row[WHERE] == 0) | is_inside, c.declined)
    with b.loop(0, n) as i:
        number, whole, first, nbytes = (parts[i * 4 + k] for k in range(4))
        row, place = c.places + whole * WORDS, c.places + number * WORDS
        with b.if_(row[WHERE] != 0):
            before = (row[WHERE] & (PART - 1)) * (row[FORM] >> 1) + first  # bytes of its array, where rows have no gaps
            ordinal = before // b.select(nbytes > 0, nbytes, b.const(i64, 1))
            place[WHERE] = ((row[WHERE] >> ROW_BITS) << ROW_BITS) + ((ordinal & (PART - 1)) | PART)
            place[ADDRESS] = row[ADDRESS] + first
            place[FORM] = nbytes * 2 + (row[FORM] & 1)
            place[DTYPE] = row[DTYPE]
    c.answer(True)


def _counts(c: RowsCall, counts: Value, decline: Callable[[], None]) -> Pointer:
    """An int64 for each number, none below 0."""
    b, python = c.b, c.python
    c.unless(c.is_array(counts), decline)
    is_int64 = python.dtype_number(counts) == np.dtype(np.int64).num
    c.unless(is_int64 & c.has_flags(counts, C_CONTIGUOUS | ALIGNED) & (python.ndim(counts) == 1), decline)
    c.unless(python.shape(counts)[0] == c.n, decline)
    found = Pointer(python.data(counts), i64)
    with b.loop(0, c.n) as i:
        c.unless(found[i] >= 0, decline)
    return found


def _total(c: RowsCall, counts: Pointer) -> Value:
    total = c.b.var(i64, 0)
    with c.b.loop(0, c.n) as i:
        total.set(total.value + counts[i])
    return total.value


def _put_pieces(c: RowsCall) -> None:
    """Number runs of rows. Mirrors `batching.rows.RowTable.add_pieces`."""
    b, python = c.b, c.python
    numbers, given, array, itemsize, number = (c.args[k] for k in range(1, 6))
    n_rows, nbytes, step = _row_form(c, array, c.number(itemsize))
    c.read_numbers(numbers, c.declined)
    counts = _counts(c, given, c.declined)
    c.unless((_total(c, counts) == n_rows) & ((step == nbytes) | (n_rows <= 1)), c.declined)
    data, before = python.data(array), b.var(i64, 0)  # rows
    writeable = b.cast("zext", c.has_flags(array, WRITEABLE), i64)
    dtype = b.cast("ptrtoint", b.field(ptr, array, ARRAY_DTYPE), i64)
    with b.loop(0, c.n) as i:
        p, rows = c.place(i), counts[i]
        ordinal = before.value // b.select(rows > 0, rows, b.const(i64, 1))
        p[WHERE] = ((c.number(number) + 1) << ROW_BITS) + ((ordinal & (PART - 1)) | PART)
        p[ADDRESS] = b.cast("ptrtoint", b.byte_offset(data, nbytes * before.value), i64)
        p[FORM] = nbytes * rows * 2 + writeable
        p[DTYPE] = dtype
        before.set(before.value + rows)
    c.answer(True)


# ---- reading and adding


def _row_shape(c: RowsCall, shape: Value, itemsize: Value) -> tuple[Value, Pointer, Value]:
    """(how many sizes there are, they behind a first one to be set, bytes of a row)."""
    b, python, decline = c.b, c.python, c.declined_with_none
    n_sizes = b.call(b.module.declare("PyTuple_Size", i64, [ptr]), shape)
    with b.if_(n_sizes < 0):
        python.forget("SystemError")  # it is no tuple
    c.unless((n_sizes >= 0) & (n_sizes < MAX_NDIM - 1), decline)
    sizes, nbytes = b.array(i64, MAX_NDIM), b.var(i64, c.number(itemsize))
    with b.loop(0, n_sizes) as k:
        size = c.number(python.item(shape, k))
        c.unless(size >= 0, decline)
        sizes[k + 1] = size
        nbytes.set(nbytes.value * size)
    return n_sizes, sizes, nbytes.value


def _view(c: RowsCall, first: Pointer, arrays: Value, dtype: Value, ndim: Value, sizes: Pointer) -> None:
    """Answer with an array on the memory that begins at a place."""
    b, python, declare = c.b, c.python, c.b.module.declare
    array = b.pointer(b.field(ptr, arrays, _LIST_ITEMS), ptr)[(first[WHERE] >> ROW_BITS) - 1]
    writeable = b.select((first[FORM] & 1) != 0, b.const(i32, WRITEABLE), 0)
    new = declare("PyArray_NewFromDescr", ptr, [ptr, ptr, i32, ptr, ptr, ptr, i32, ptr])
    null = b.const(ptr, 0)
    flags, data = writeable | (C_CONTIGUOUS | ALIGNED), b.cast("inttoptr", first[ADDRESS], ptr)
    python.incref(dtype)  # the view takes one over
    view = b.call(new, c.known(ARRAY), dtype, b.cast("trunc", ndim, i32), sizes.address, null, data, flags, null)
    with b.if_(view != 0):
        b.call(declare("PyArray_SetBaseObject", i32, [ptr, ptr]), view, python.incref(array))
    c.end(view)


def _gather(c: RowsCall) -> None:
    """The rows of numbers, as one array. Mirrors `batching.rows.RowTable.gather`."""
    b, python = c.b, c.python
    arrays, numbers, shape, dtype, itemsize = (c.args[k] for k in range(1, 6))
    decline = c.declined_with_none
    n_sizes, sizes, row = _row_shape(c, shape, itemsize)
    c.read_numbers(numbers, decline)
    n = c.n
    c.unless(n > 0, decline)
    sizes[0] = n
    first, together = c.place(b.const(i64, 0)), b.var(i1, 1)
    begin, start, kind = first[WHERE], first[ADDRESS], b.cast("ptrtoint", dtype, i64)
    with b.loop(0, n) as i:
        p = c.place(i)
        c.unless((p[DTYPE] == kind) & ((p[FORM] >> 1) == row), decline)
        together.set(together.value & (p[WHERE] == begin + i) & (p[ADDRESS] == start + row * i))
    with b.if_(together.value):
        _view(c, first, arrays, dtype, n_sizes + 1, sizes)
    made = python.empty(dtype, n_sizes + 1, sizes.address, n * row)
    with b.if_(made != 0):
        _copy_rows(c, python.data(made), row)
    c.end(made)


def _gather_pieces(c: RowsCall) -> None:
    """Runs of rows, end to end. Mirrors `batching.rows.RowTable.gather_pieces`."""
    b, python = c.b, c.python
    arrays, numbers, given, shape, dtype, itemsize = (c.args[k] for k in range(1, 7))
    decline = c.declined_with_none
    n_sizes, sizes, row = _row_shape(c, shape, itemsize)
    c.read_numbers(numbers, decline)
    counts = _counts(c, given, decline)
    total = _total(c, counts)
    c.unless(total > 0, decline)
    sizes[0] = total
    first, together = c.place(b.const(i64, 0)), b.var(i1, 1)
    owner, address, kind = first[WHERE] >> ROW_BITS, b.var(i64, first[ADDRESS]), b.cast("ptrtoint", dtype, i64)
    with b.loop(0, c.n) as i:
        p, nbytes = c.place(i), counts[i] * row
        c.unless((p[DTYPE] == kind) & ((p[FORM] >> 1) == nbytes), decline)
        together.set(together.value & (p[WHERE] >> ROW_BITS == owner) & (p[ADDRESS] == address.value))
        address.set(address.value + nbytes)
    with b.if_(together.value):
        _view(c, first, arrays, dtype, n_sizes + 1, sizes)
    made = python.empty(dtype, n_sizes + 1, sizes.address, total * row)
    with b.if_(made != 0):
        target = b.var(ptr, python.data(made))
        with b.loop(0, c.n) as i:
            source = b.cast("inttoptr", c.place(i)[ADDRESS], ptr)
            b.call(b.module.declare("memcpy", ptr, [ptr, ptr, i64]), target.value, source, counts[i] * row)
            target.set(b.byte_offset(target.value, counts[i] * row))
    c.end(made)


def _fill(c: RowsCall) -> None:
    """Copy rows to their places in an array. Mirrors `batching.rows.RowTable.fill`."""
    b, python = c.b, c.python
    numbers, array, itemsize = (c.args[k] for k in range(1, 4))
    start, end = c.number(c.args[4]), c.number(c.args[5])
    n, row, _ = _row_form(c, array, c.number(itemsize))
    c.unless(c.has_flags(array, C_CONTIGUOUS | WRITEABLE) & c.is_array(numbers), c.declined)
    c.read_numbers(numbers, c.declined, start=start, end=end)
    c.unless((c.n == end - start) & (end <= n), c.declined)
    kind = b.cast("ptrtoint", b.field(ptr, array, ARRAY_DTYPE), i64)
    with b.loop(0, c.n) as i:
        p = c.place(i)
        c.unless((p[DTYPE] == kind) & ((p[FORM] >> 1) == row), c.declined)
    _copy_rows(c, b.byte_offset(python.data(array), row * start), row)
    c.answer(True)


def _copy_rows(c: RowsCall, target: Value, row: Value) -> None:
    b = c.b
    single, more = b.if_else(row == 4)
    with single:
        _copy_elements(c, target, i32)
    with more:
        double, rows = b.if_else(row == 8)
        with double:
            _copy_elements(c, target, i64)
        with rows, b.loop(0, c.n) as i:
            source = b.cast("inttoptr", c.place(i)[ADDRESS], ptr)
            b.call(b.module.declare("memcpy", ptr, [ptr, ptr, i64]), b.byte_offset(target, row * i), source, row)


def _copy_elements(c: RowsCall, target: Value, element: Type) -> None:
    """Rows of as many bytes as an element: a call each would cost more than they do."""
    with c.b.loop(0, c.n) as i:
        source = Pointer(c.b.cast("inttoptr", c.place(i)[ADDRESS], ptr), element)
        Pointer(target, element)[i] = source[0]


def _add(c: RowsCall) -> None:
    """Add to the rows of numbers, in their order. Mirrors `batching.rows.RowTable.scatter_add`."""
    b, python = c.b, c.python
    numbers, values, itemsize = (c.args[k] for k in range(1, 4))
    form = _row_form(c, values, c.number(itemsize))
    single = python.dtype_number(values) == np.dtype(np.float32).num
    double = python.dtype_number(values) == np.dtype(np.float64).num
    c.unless((single | double) & c.has_flags(values, C_CONTIGUOUS), c.declined)
    start = b.var(i64, 0)
    with b.if_(b.arg("nargs") == 7):
        start.set(c.number(c.args[6]))
        c.unless(c.is_array(numbers), c.declined)
    n = b.select(b.arg("nargs") == 7, form[0], b.const(i64, LARGEST))
    c.read_numbers(numbers, c.declined, start=start.value, end=b.select(n == LARGEST, n, start.value + n))
    c.unless(c.n == form[0], c.declined)
    kind, row = b.cast("ptrtoint", b.field(ptr, values, ARRAY_DTYPE), i64), form[1]
    with b.loop(0, c.n) as i:
        p = c.place(i)
        c.unless((p[DTYPE] == kind) & (p[FORM] == row * 2 + 1), c.declined)
    slots = c.args[4]
    with b.if_(slots != c.known(NONE)):
        _mark(c, slots, c.args[5])
    given = (c.places.address, c.numbers.address, c.n, python.data(values), row)
    short, long = b.if_else(single)
    with short:
        b.call(b.module.defined["add_rows32"], *given)
    with long:
        b.call(b.module.defined["add_rows64"], *given)
    c.answer(True)


def _add_pieces(c: RowsCall) -> None:
    """Add to runs of rows, in the order of their numbers. Mirrors `batching.rows.RowTable.scatter_add_pieces`."""
    b, python = c.b, c.python
    numbers, given, values, itemsize = (c.args[k] for k in range(1, 5))
    n_rows, row, _ = _row_form(c, values, c.number(itemsize))
    single = python.dtype_number(values) == np.dtype(np.float32).num
    double = python.dtype_number(values) == np.dtype(np.float64).num
    c.unless((single | double) & c.has_flags(values, C_CONTIGUOUS), c.declined)
    c.read_numbers(numbers, c.declined)
    counts = _counts(c, given, c.declined)
    c.unless(_total(c, counts) == n_rows, c.declined)
    kind = b.cast("ptrtoint", b.field(ptr, values, ARRAY_DTYPE), i64)
    with b.loop(0, c.n) as i:
        p = c.place(i)
        c.unless((p[DTYPE] == kind) & (p[FORM] == counts[i] * row * 2 + 1), c.declined)
    slots = c.args[5]
    with b.if_(slots != c.known(NONE)):
        _mark(c, slots, c.args[6])
    before = b.var(ptr, python.data(values))
    with b.loop(0, c.n) as i:
        own = (c.places.address, (c.numbers + i).address, b.const(i64, 1), before.value, counts[i] * row)
        short, long = b.if_else(single)
        with short:
            b.call(b.module.defined["add_rows32"], *own)
        with long:
            b.call(b.module.defined["add_rows64"], *own)
        before.set(b.byte_offset(before.value, counts[i] * row))
    c.answer(True)


def _copy_views(c: RowsCall) -> None:
    """Copy strided views to contiguous memory, or such memory back into views, a row of words for each.

    The words: the view's first element in one array, the first element in the other, `VIEW_DIMS` sizes, as many
    strides of the view; all count elements, of 4 or 8 bytes.

    Mirrors `batching.sizes.views.copy_views`.
    """
    b, python = c.b, c.python
    strided, dense, words = c.args[0], c.args[1], c.args[2]
    itemsize, back = c.number(c.args[3]), c.number(c.args[4]) != 0
    for array in (strided, dense, words):
        c.unless(c.is_array(array), c.declined)
        c.unless(c.has_flags(array, C_CONTIGUOUS | ALIGNED), c.declined)
    is_int64 = python.dtype_number(words) == np.dtype(np.int64).num
    c.unless(is_int64 & (python.ndim(words) == 2) & ((itemsize == 4) | (itemsize == 8)), c.declined)
    c.unless(python.shape(words)[1] == 2 + 2 * VIEW_DIMS, c.declined)
    n, table = python.shape(words)[0], Pointer(python.data(words), i64)
    short, long = b.if_else(itemsize == 4)
    for branch, element in ((short, i32), (long, i64)):
        with branch, b.loop(0, n) as i:
            at = i * (2 + 2 * VIEW_DIMS)
            sizes = [table[at + 2 + d] for d in range(VIEW_DIMS)]
            steps = [table[at + 2 + VIEW_DIMS + d] for d in range(VIEW_DIMS)]
            view, flat, place = Pointer(python.data(strided), element), Pointer(python.data(dense), element), b.var(i64)
            place.set(table[at + 1])
            with b.loop(0, sizes[0]) as i0, b.loop(0, sizes[1]) as i1, b.loop(0, sizes[2]) as i2:
                start = table[at] + i0 * steps[0] + i1 * steps[1] + i2 * steps[2]
                with b.loop(0, sizes[3]) as i3:
                    here = start + i3 * steps[3]
                    put_back, forth = b.if_else(back)
                    with put_back:
                        view[here] = flat[place.value + i3]
                    with forth:
                        flat[place.value + i3] = view[here]
                place.set(place.value + sizes[3])
    c.answer(True)


def _mark(c: RowsCall, slots: Value, marks: Value) -> None:
    b, python = c.b, c.python
    c.unless(c.is_array(slots) & c.is_array(marks), c.declined)
    is_int64 = python.dtype_number(slots) == np.dtype(np.int64).num
    is_byte = python.dtype_number(marks) == np.dtype(np.uint8).num
    c.unless(is_int64 & is_byte & c.has_flags(slots, C_CONTIGUOUS | ALIGNED), c.declined)
    c.unless(c.has_flags(marks, C_CONTIGUOUS | WRITEABLE) & (python.shape(slots)[0] >= c.n_places), c.declined)
    slot_of, found, limit = Pointer(python.data(slots), i64), Pointer(python.data(marks), i8), python.shape(marks)[0]
    with b.loop(0, c.n) as i:
        slot = slot_of[c.numbers[i]]
        with b.if_(b.compare("<", slot, limit, unsigned=True)):
            found[slot] = b.const(i8, 1)


def _write_add_rows(module: IRModule, name: str, element: Type) -> None:
    """Row by row, in the order of the numbers: a row that comes again gets its sums in that order."""
    with module.function(name, void, internal=True, places=ptr, numbers=ptr, n=i64, values=ptr, row=i64) as b:
        places, numbers = Pointer(b.arg("places"), i64), Pointer(b.arg("numbers"), i64)
        size = b.arg("row") // element.nbytes
        whole = size - size % _LANES
        rest = b.splat(size - whole, _LANES) > b.lanes(vector(i64, _LANES), range(_LANES))
        zeros = b.const(vector(element, _LANES), 0.0)
        with b.loop(0, b.arg("n")) as i:
            address = places[numbers[i] * WORDS + ADDRESS]
            total = Pointer(b.cast("inttoptr", address, ptr), element)
            more = Pointer(b.byte_offset(b.arg("values"), b.arg("row") * i), element)
            with b.loop(0, whole, _LANES) as k:
                total.set_vector(k, total.vector(k, _LANES) + more.vector(k, _LANES))
            with b.if_(whole < size):
                old = b.masked_load(total.at(whole), rest, zeros)
                b.masked_store(old + b.masked_load(more.at(whole), rest, zeros), total.at(whole), rest)


def _has(c: RowsCall) -> None:
    """Whether there are rows of these numbers. Mirrors `batching.rows.RowTable.has`."""
    b, python = c.b, c.python
    c.read_numbers(c.args[1], c.declined_with_none, limit=LARGEST)
    sizes = b.array(i64, 1)
    sizes[0] = c.n
    made = python.empty(c.args[2], b.const(i64, 1), sizes.address, c.n)
    with b.if_(made != 0):
        answers = Pointer(python.data(made), i8)
        with b.loop(0, c.n) as i:
            answers[i] = b.const(i8, 0)
            with b.if_(c.numbers[i] < c.n_places):
                answers[i] = b.cast("zext", c.place(i)[WHERE] != 0, i8)
    c.end(made)
