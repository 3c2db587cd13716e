"""Running an elementwise kernel on arrays of any shapes and strides that broadcast together.

`elementwise_run(record, inputs, results, given, held)`: inputs are ndarrays and numbers; results are new arrays, or, if
`given`, arrays that are there already and are written to (they may be the inputs themselves). The common case
(contiguous arrays of one shape, and numbers) is one row. Everything else is brought into the order of dimensions that
results have in memory (transposed arrays without gaps are one row again) and to as few dimensions as possible: the last
one becomes the kernel's columns, the one before its rows, and the rest is counted through here. Which variant of the
kernel fits is looked up by how the inputs run along a row; a missing one is built by calling Python.

`extempo_elementwise(record, inputs, results, given)` is what others call: the usual cases (new results, not too large,
rows and columns only, a kernel that is there), so that this much and no more is optimised code. What it is not made for
goes to `elementwise_any` (`safe_entry`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....core.types import dtype
from ..calls.cpython import ALIGNED, C_CONTIGUOUS, DTYPE_NUMBER, NO_NUMBER, WRITEABLE, Python
from ..ir.builder import IRFunction, IRModule, Pointer, Value, f32, i1, i8, i32, i64, ptr, void
from ..ir.parallel import run_shared

MAX_INPUTS = 6
MAX_RESULTS = 4
MAX_NDIM = 64  # as NumPy
N_OPERANDS = MAX_INPUTS + MAX_RESULTS
DONE, DECLINED, FAILED = 0, 1, 2  # DECLINED: not for native code, nothing happened; FAILED: a Python error is set
TO_BE_HELD = 3  # other threads may run meanwhile, or an input is not aligned: see `safe_entry`

# Elements in a chunk of work for one thread, and from how many on work is split: 20 us and more of it.
CHUNK, SPLIT_FROM = 1 << 15, 1 << 17
_CONTEXT = ("kernel", "operands", "geometry", "record", "refused")

# The record: a head, then (dtype number, item size, class) for each input, then (dtype, item size) for each result.
_HEAD = ("n_inputs", "n_results", "table", "build", "array_type")
BUILD, ARRAY_TYPE = _HEAD.index("build"), _HEAD.index("array_type")
_INPUTS_AT = len(_HEAD)
_RESULTS_AT = _INPUTS_AT + 3 * MAX_INPUTS
RECORD_SIZE = _RESULTS_AT + 2 * MAX_RESULTS
CLASSES = ("float32", "float64", "int64", "int32", "bool")


def pack(inputs: Sequence[dtype], results: Sequence[dtype], table: int, build: Any) -> bytes:
    """The record of a kernel; `build(pattern)` must put the address of that variant into the table."""
    numbers = [len(inputs), len(results), table, id(build), id(np.ndarray)]
    for d in inputs:
        numbers += [d.numpy.num, d.itemsize, CLASSES.index(d._name)]
    numbers += [0] * (_RESULTS_AT - len(numbers))
    for d in results:
        numbers += [id(d.numpy), d.itemsize]
    numbers += [0] * (RECORD_SIZE - len(numbers))
    return struct.pack(f"<{RECORD_SIZE}q", *numbers)


class _BroadcastRun:
    """Writes the function: fields shared by its steps."""

    def __init__(self, b: IRFunction, decline: Callable[[], None], hold: Callable[[], None]) -> None:
        """`decline` returns from what native code is not made for, `hold` from inputs that are not aligned."""
        self.b = b
        self.python = Python(b)
        self.record = Pointer(b.arg("record"), i64)
        self.head = {name: self.record[i] for i, name in enumerate(_HEAD)}
        self.inputs = Pointer(b.arg("inputs"), ptr)
        self.results = Pointer(b.arg("results"), ptr)
        self.operands = b.array(ptr, N_OPERANDS)
        self.scalars = b.array(i64, MAX_INPUTS)
        self.is_array = b.array(i64, MAX_INPUTS)
        self.geometry = b.array(i64, 2 + 2 * N_OPERANDS)
        self.shape = b.array(i64, MAX_NDIM)
        self.strides = b.array(i64, N_OPERANDS * MAX_NDIM)  # of the operands in bytes, operand by operand
        self.ndim = b.var(i64, 0)
        self.pattern = b.var(i64, 0)
        self.n_elements = b.var(i64, 1)
        self.loop_shape = b.array(i64, MAX_NDIM)  # after joining dimensions
        self.n_loops = b.var(i64, 0)
        self.first = b.var(ptr, 0)  # the first array among the inputs
        self.in_order = b.var(i1, 1)  # whether every array is row-major without gaps
        self.is_reordered = b.var(i1, 0)  # whether results have another order of dimensions: `order`
        self.order = b.array(i64, MAX_NDIM)
        self.result_shape = b.array(i64, MAX_NDIM)
        self.refused = b.array(i64, 1)  # whether the kernel met an element that is an error
        self.declined = b.way_out(decline)
        self.not_held = b.way_out(hold)

    @property
    def n_inputs(self) -> Value:
        return self.head["n_inputs"]

    @property
    def n_results(self) -> Value:
        return self.head["n_results"]

    def itemsize(self, i: Value) -> Value:
        return self.record[i * 3 + (_INPUTS_AT + 1)]

    def result_itemsize(self, i: Value) -> Value:
        return self.record[i * 2 + (_RESULTS_AT + 1)]

    # ---- what came in

    def read_inputs(self, convert: Callable[[Value, Value], None]) -> Value:
        """Addresses of arrays and of numbers, which `convert` puts in place. Returns whether it is the plain case."""
        b, python = self.b, self.python
        plain = b.var(i1, 1)
        first = self.first
        with b.loop(0, self.n_inputs) as i:
            x = self.inputs[i]
            type_ = b.emit(i64, f"ptrtoint ptr {python.type_of(x).text} to i64")
            array, number = b.if_else(type_ == self.head["array_type"])
            with array:
                flags = python.flags(x)
                self.declined.take_if(python.dtype_number(x) != self.record[i * 3 + _INPUTS_AT])
                self.not_held.take_if((flags & ALIGNED) == 0)
                self.operands[i] = python.data(x)
                self.is_array[i] = b.const(i64, 1)
                self.in_order.set(self.in_order.value & ((flags & C_CONTIGUOUS) != 0))
                is_first, later = b.if_else(first.value == 0)
                with is_first:
                    first.set(x)
                with later:
                    plain.set(plain.value & self._same_shape(first.value, x))
            with number:
                self.is_array[i] = b.const(i64, 0)
                convert(i, x)
                self.operands[i] = self.scalars.at(i)
        self.declined.take_if(first.value == 0)
        return plain.value & self.in_order.value

    def _same_shape(self, x: Value, y: Value) -> Value:
        b, python = self.b, self.python
        same = b.var(i1, python.ndim(x) == python.ndim(y))
        with b.if_(same.value):
            mine, other = python.shape(x), python.shape(y)
            with b.loop(0, python.ndim(x)) as k:
                same.set(same.value & (mine[k] == other[k]))
        return same.value

    def convert_number(self, i: Value, x: Value) -> None:
        """A Python number in the dtype of its operand, kept in `scalars`."""
        b, python = self.b, self.python
        place, kind = self.scalars.at(i), self.record[i * 3 + (_INPUTS_AT + 2)]
        floating, other = b.if_else(kind <= 1)
        with floating:
            self._convert_to_float(x, kind, place)
        with other:
            is_bool, integer = b.if_else(kind == CLASSES.index("bool"))
            with is_bool:
                truth = b.call(b.module.declare("PyObject_IsTrue", i32, [ptr]), x)
                b.store(b.cast("trunc", truth, i8), place)
            with integer:
                whole = python.as_int(x)
                wide, narrow = b.if_else(kind == CLASSES.index("int64"))
                with wide:
                    b.store(whole, place)
                with narrow:
                    b.store(b.cast("trunc", whole, i32), place)
        self._decline_at_error()

    def convert_float(self, i: Value, x: Value) -> None:
        """The same, where others than floats are declined."""
        kind = self.record[i * 3 + (_INPUTS_AT + 2)]
        self.declined.take_if(kind > 1)
        self._convert_to_float(x, kind, self.scalars.at(i))
        self._decline_at_error()

    def _convert_to_float(self, x: Value, kind: Value, place: Value) -> None:
        b, value = self.b, self.python.as_double(x)
        single, double = b.if_else(kind == 0)
        with single:
            b.store(b.cast("fptrunc", value, f32), place)
        with double:
            b.store(value, place)

    def _decline_at_error(self) -> None:
        b = self.b
        with b.if_(self.python.is_raised()):
            self.python.forget(*NO_NUMBER)
            with b.if_(self.python.is_raised()):
                b.ret(FAILED)
            self.declined.take()

    # ---- the plain case: arrays are contiguous and of one shape

    def plain_geometry(self) -> None:
        b, python = self.b, self.python
        shape = python.shape(self.first.value)
        self.ndim.set(python.ndim(self.first.value))
        with b.loop(0, self.ndim.value) as k:
            self.shape[k] = shape[k]
            self.n_elements.set(self.n_elements.value * shape[k])
        self.geometry[0] = b.const(i64, 1)
        self.geometry[1] = self.n_elements.value
        n = self.n_inputs + self.n_results
        with b.loop(0, self.n_inputs) as i:
            self.geometry[i + 2] = b.const(i64, 0)
            self.geometry[n + i + 2] = self.is_array[i] * self.itemsize(i)
            self.pattern.set(self.pattern.value * 3 + self.is_array[i])
        with b.loop(0, self.n_results) as i:
            self.geometry[i + (self.n_inputs + 2)] = b.const(i64, 0)
            self.geometry[n + self.n_inputs + i + 2] = self.result_itemsize(i)

    # ---- the general case

    def broadcast(self) -> None:
        """The common shape, and every operand's strides in it, 0 where it is repeated."""
        b, python = self.b, self.python
        with b.loop(0, self.n_inputs) as i, b.if_(self.is_array[i] != 0):
            ndim = python.ndim(self.inputs[i])
            with b.if_(ndim > self.ndim.value):
                self.ndim.set(ndim)
        with b.loop(0, self.ndim.value) as k:
            self.shape[k] = b.const(i64, 1)
        with b.loop(0, self.n_inputs) as i, b.if_(self.is_array[i] != 0):
            shape, lead = python.shape(self.inputs[i]), self.ndim.value - python.ndim(self.inputs[i])
            with b.loop(lead, self.ndim.value) as k:
                size = shape[k - lead]
                with b.if_(size != 1):
                    self.declined.take_if((self.shape[k] != 1) & (self.shape[k] != size))
                    self.shape[k] = size
        with b.loop(0, self.n_inputs) as i:
            with b.loop(0, self.ndim.value) as k:
                self.strides[i * MAX_NDIM + k] = b.const(i64, 0)
            with b.if_(self.is_array[i] != 0):
                array = self.inputs[i]
                shape, strides, lead = python.shape(array), python.strides(array), self.ndim.value - python.ndim(array)
                with b.loop(lead, self.ndim.value) as k, b.if_(shape[k - lead] != 1):
                    self.strides[i * MAX_NDIM + k] = strides[k - lead]
        with b.loop(0, self.ndim.value) as k:
            self.n_elements.set(self.n_elements.value * self.shape[k])

    def given_strides(self) -> None:
        """Results that are there: of the common shape, of the right dtype, and their elements side by side."""
        b, python = self.b, self.python
        with b.loop(0, self.n_results) as i:
            array = self.results[i]
            descriptor = b.emit(ptr, f"inttoptr i64 {self.record[i * 2 + _RESULTS_AT].text} to ptr")
            wanted = b.cast("sext", b.field(i32, descriptor, DTYPE_NUMBER), i64)
            flags = WRITEABLE | ALIGNED
            fits = (python.dtype_number(array) == wanted) & ((python.flags(array) & flags) == flags)
            self.declined.take_if(~fits | (python.ndim(array) != self.ndim.value))
            shape, strides = python.shape(array), python.strides(array)
            with b.loop(0, self.ndim.value) as k:
                self.declined.take_if(shape[k] != self.shape[k])
                self.strides[(self.n_inputs + i) * MAX_NDIM + k] = strides[k]
            self.in_order.set(self.in_order.value & ((python.flags(array) & C_CONTIGUOUS) != 0))
            self.operands[self.n_inputs + i] = python.data(array)

    def order_dims(self, first: int | Value, n_deciding: Value) -> None:
        """Bring the dimensions into the order that results have in memory. Mirrors `core.strides.kept_order`.

        `n_deciding` operands from `first` on decide, then those before it.
        """
        b, n = self.b, self.ndim.value
        perm = b.array(i64, MAX_NDIM)  # from the fastest to the slowest
        with b.loop(0, n) as i:
            perm[i] = n - 1 - i
        with b.loop(1, n) as i:
            at, before = b.var(i64, i), b.var(i64, i - 1)
            with b.while_(lambda: before.value >= 0):
                one, other = perm[before.value], perm[at.value]
                verdict = self._compare(one, other, first, n_deciding)
                with b.if_(verdict < 0):
                    b.break_()
                with b.if_(verdict > 0):
                    perm[before.value] = other
                    perm[at.value] = one
                    at.set(before.value)
                before.set(before.value - 1)
        slowest = b.var(i64, 0)  # so far: among those of more than one element, none may come before it
        with b.loop(0, n) as i:
            self.order[i] = perm[n - 1 - i]
            with b.if_(self.shape[self.order[i]] != 1):
                self.is_reordered.set(self.is_reordered.value | (self.order[i] < slowest.value))
                slowest.set(self.order[i])
        self.is_reordered.set(self.is_reordered.value & (self.n_elements.value > 0))
        with b.if_(self.is_reordered.value):
            self._reorder(self.shape, self.result_shape)
            row = b.array(i64, MAX_NDIM)
            with b.loop(0, self.n_inputs + self.n_results) as i:
                self._reorder(self.strides + i * MAX_NDIM, row)

    def _compare(self, one: Value, other: Value, first: int | Value, n_deciding: Value) -> Value:
        """Above 0: dimension `one` is slower than `other`, below 0: faster; 0: nobody knows."""
        b = self.b
        verdict = b.var(i64, 0)
        with b.loop(0, n_deciding) as k:
            turn = k + first
            i = b.select(turn < n_deciding, turn, turn - n_deciding)
            mine, others = (self._distance(self.strides[i * MAX_NDIM + d]) for d in (one, other))
            with b.if_((mine != 0) & (others != 0)):
                larger = b.cast("zext", (mine == others) & (self.shape[one] > self.shape[other]), i64)
                verdict.set(mine - others + larger)
                with b.if_(verdict.value != 0):
                    b.break_()
        return verdict.value

    def _distance(self, stride: Value) -> Value:
        return self.b.select(stride < 0, -stride, stride)

    def _reorder(self, entries: Pointer, before: Pointer) -> None:
        """One entry for each dimension in the order of results; `before` gets what they were."""
        with self.b.loop(0, self.ndim.value) as k:
            before[k] = entries[k]
        with self.b.loop(0, self.ndim.value) as k:
            entries[k] = before[self.order[k]]

    def result_strides(self) -> None:
        b = self.b
        with b.loop(0, self.n_results) as i:
            step = b.var(i64, self.result_itemsize(i))
            with b.loop(0, self.ndim.value) as back:
                k = self.ndim.value - 1 - back
                self.strides[(self.n_inputs + i) * MAX_NDIM + k] = step.value
                step.set(step.value * self.shape[k])

    def collapse(self) -> None:
        """Join dimensions that are contiguous with one another in every operand, and leave out those of size 1."""
        b = self.b
        kept = self.n_loops  # dimensions kept so far, from the first on; the last kept one is at kept - 1
        n = self.n_inputs + self.n_results
        with b.loop(0, self.ndim.value) as k, b.if_(self.shape[k] != 1):
            joins = b.var(i1, kept.value > 0)
            with b.if_(joins.value), b.loop(0, n) as i:
                outer = self.strides[i * MAX_NDIM + kept.value - 1]
                joins.set(joins.value & (outer == self.strides[i * MAX_NDIM + k] * self.shape[k]))
            with b.if_(~joins.value):
                kept.set(kept.value + 1)
                self.loop_shape[kept.value - 1] = b.const(i64, 1)
            self.loop_shape[kept.value - 1] = self.loop_shape[kept.value - 1] * self.shape[k]
            with b.loop(0, n) as i:
                self.strides[i * MAX_NDIM + kept.value - 1] = self.strides[i * MAX_NDIM + k]

    def general_geometry(self) -> None:
        """Columns from the last loop, rows from the one before."""
        b = self.b
        n = self.n_inputs + self.n_results
        last, before = self.n_loops.value - 1, self.n_loops.value - 2
        self.geometry[0] = b.const(i64, 1)
        self.geometry[1] = b.const(i64, 1)
        with b.loop(0, n) as i:
            self.geometry[i + 2] = b.const(i64, 0)
            self.geometry[n + i + 2] = b.const(i64, 0)
        with b.if_(self.n_loops.value >= 1):
            self.geometry[1] = self.loop_shape[last]
            with b.loop(0, n) as i:
                self.geometry[n + i + 2] = self.strides[i * MAX_NDIM + last]
        with b.if_(self.n_loops.value >= 2):
            self.geometry[0] = self.loop_shape[before]
            with b.loop(0, n) as i:
                self.geometry[i + 2] = self.strides[i * MAX_NDIM + before]
        with b.loop(0, self.n_inputs) as i:
            step = self.geometry[n + i + 2]
            kind = b.select(step == 0, b.const(i64, 0), b.select(step == self.itemsize(i), b.const(i64, 1), 2))
            self.pattern.set(self.pattern.value * 3 + kind)

    def decline_scattered_results(self) -> None:
        """Kernels write the columns of a row side by side."""
        b = self.b
        n = self.n_inputs + self.n_results
        with b.loop(0, self.n_results) as i:
            step = self.geometry[n + self.n_inputs + i + 2]
            self.declined.take_if((step != self.result_itemsize(i)) & (self.geometry[1] > 1))

    # ---- running

    def variants(self) -> Pointer:
        """The addresses of the kernel's variants, by pattern; 0 where one has not been built."""
        return Pointer(self.b.emit(ptr, f"inttoptr i64 {self.head['table'].text} to ptr"), i64)

    def find_kernel(self) -> Value:
        b = self.b
        table = self.variants()
        # Python builds what is missing, and threads give up the GIL when they take long.
        others_may_run = (table[self.pattern.value] == 0) | (self.n_elements.value >= SPLIT_FROM)
        self.not_held.take_if(others_may_run & (b.arg("held") == 0))
        with b.if_(table[self.pattern.value] == 0):
            number = b.call(b.module.declare("PyLong_FromLongLong", ptr, [i64]), self.pattern.value)
            with b.if_(number == 0):
                b.ret(FAILED)
            build = b.emit(ptr, f"inttoptr i64 {self.head['build'].text} to ptr")
            args = b.array(ptr, 1)
            args[0] = number
            answer = self.python.vectorcall(build, args.address, b.const(i64, 1), b.const(ptr, 0))
            self.python.decref(number)
            with b.if_(answer == 0):
                b.ret(FAILED)
            self.python.decref(answer)
        return b.emit(ptr, f"inttoptr i64 {table[self.pattern.value].text} to ptr")

    def allocate(self) -> None:
        b, python = self.b, self.python
        shape = b.select(self.is_reordered.value, self.result_shape.address, self.shape.address)
        strides = b.array(i64, MAX_NDIM)
        given = b.select(self.is_reordered.value, strides.address, b.const(ptr, 0))
        with b.loop(0, self.n_results) as i:
            descriptor = b.emit(ptr, f"inttoptr i64 {self.record[i * 2 + _RESULTS_AT].text} to ptr")
            nbytes = self.n_elements.value * self.result_itemsize(i)
            with b.if_(self.is_reordered.value):
                self._ordered_strides(strides, self.result_itemsize(i))
            array = python.empty(descriptor, self.ndim.value, shape, nbytes, given)
            with b.if_(array == 0):
                with b.loop(0, i) as made:
                    python.decref(self.results[made])
                b.ret(FAILED)
            self.results[i] = array
            self.operands[self.n_inputs + i] = python.data(array)

    def _ordered_strides(self, strides: Pointer, itemsize: Value) -> None:
        """Those of a result, in the order of its own dimensions."""
        b, step = self.b, self.b.var(i64, itemsize)
        with b.loop(0, self.ndim.value) as back:
            d = self.order[self.ndim.value - 1 - back]
            strides[d] = step.value
            step.set(step.value * self.result_shape[d])

    def call(self, kernel: Value) -> None:
        """Run the kernel on all rows and columns; a large number of elements is split over threads."""
        b = self.b
        n = self.geometry[0] * self.geometry[1]
        large, small = b.if_else(n >= SPLIT_FROM)
        with large:
            context = b.array(ptr, len(_CONTEXT))
            addresses = {"kernel": kernel, "operands": self.operands.address, "geometry": self.geometry.address}
            addresses |= {"record": self.record.address, "refused": self.refused.address}
            for i, name in enumerate(_CONTEXT):
                context[i] = addresses[name]
            n_units, per_chunk = units(b, self.geometry)
            # Other Python threads may run meanwhile, and must not take the memory away.
            self._for_each_array(self.python.incref)
            run_shared(b, "elementwise_chunk", context.address, (n_units + per_chunk - 1) // per_chunk)
            self._for_each_array(self.python.decref)
        with small:
            status = b.call_address(kernel, i64, self.operands.address, self.geometry.address)
            self.refused[0] = self.refused[0] | status

    def _for_each_array(self, act: Callable[[Value], Any]) -> None:
        with self.b.loop(0, self.n_inputs) as i, self.b.if_(self.is_array[i] != 0):
            act(self.inputs[i])

    def run_rows(self, kernel: Value) -> None:
        """Call the kernel for every index of the dimensions before the last two; once if there are none."""
        b = self.b
        n_outer = self.n_loops.value - 2
        index = b.array(i64, MAX_NDIM)
        with b.loop(0, n_outer) as k:
            index[k] = b.const(i64, 0)
        running = b.var(i1, 1)
        n = self.n_inputs + self.n_results
        with b.while_(lambda: running.value):
            self.call(kernel)
            with b.if_(n_outer <= 0):
                b.break_()
            running.set(0)
            place = b.var(i64, n_outer - 1)
            with b.while_(lambda: place.value >= 0):
                k = place.value
                index[k] = index[k] + 1
                with b.loop(0, n) as i:
                    self.operands[i] = b.byte_offset(self.operands[i], self.strides[i * MAX_NDIM + k])
                with b.if_(index[k] < self.loop_shape[k]):
                    running.set(1)
                    b.break_()
                with b.loop(0, n) as i:
                    back = self.strides[i * MAX_NDIM + k] * self.loop_shape[k]
                    self.operands[i] = b.byte_offset(self.operands[i], -back)
                index[k] = b.const(i64, 0)
                place.set(k - 1)

    def finish(self) -> None:
        """Done, unless an element was an error: then nothing is returned, and NumPy's kernel says what it is."""
        b = self.b
        with b.if_(self.refused[0] != 0):
            with b.if_(b.arg("given") == 0), b.loop(0, self.n_results) as i:
                self.python.decref(self.results[i])
            self.declined.take()
        b.ret(DONE)


def units(b: IRFunction, geometry: Pointer) -> tuple[Value, Value]:
    """What is split, rows or the columns of a single row, and how many of them make a chunk; by the sizes alone."""
    one_row = geometry[0] == 1
    n_units = b.select(one_row, geometry[1], geometry[0])
    rows_per_chunk = b.const(i64, CHUNK) // geometry[1]
    rows_per_chunk = b.larger(rows_per_chunk, 1)
    return n_units, b.select(one_row, b.const(i64, CHUNK), rows_per_chunk)


def _write_chunk(module: IRModule) -> None:
    """elementwise_chunk(context, chunk): the kernel on a part of the rows, or of the columns of the only row."""
    with module.function("elementwise_chunk", void, internal=True, context=ptr, chunk=i64) as b:
        context = {name: b.pointer(b.arg("context"), ptr)[i] for i, name in enumerate(_CONTEXT)}
        geometry, record = Pointer(context["geometry"], i64), Pointer(context["record"], i64)
        operands = Pointer(context["operands"], ptr)
        n = record[0] + record[1]
        n_units, per_chunk = units(b, geometry)
        start = b.arg("chunk") * per_chunk
        left = n_units - start
        size = b.smaller(left, per_chunk)
        one_row = geometry[0] == 1
        own_geometry, own_operands = b.array(i64, 2 + 2 * N_OPERANDS), b.array(ptr, N_OPERANDS)
        with b.loop(0, n * 2 + 2) as i:
            own_geometry[i] = geometry[i]
        own_geometry[0] = b.select(one_row, b.const(i64, 1), size)
        own_geometry[1] = b.select(one_row, size, geometry[1])
        with b.loop(0, n) as i:
            step = b.select(one_row, geometry[n + i + 2], geometry[i + 2])
            own_operands[i] = b.byte_offset(operands[i], start * step)
        status = b.call_address(context["kernel"], i64, own_operands.address, own_geometry.address)
        with b.if_(status != 0):
            Pointer(context["refused"], i64)[0] = status


def write_run(module: IRModule) -> None:
    """elementwise_run(record, inputs, results, given, held) -> DONE, DECLINED, FAILED or, unless `held`, TO_BE_HELD."""
    _write_chunk(module)
    with module.function(
        "elementwise_run", i64, internal=True, record=ptr, inputs=ptr, results=ptr, given=i64, held=i64
    ) as b:
        run = _BroadcastRun(b, lambda: b.ret(DECLINED), lambda: b.ret(TO_BE_HELD))
        is_given = b.arg("given") != 0
        run.refused[0] = b.const(i64, 0)
        plain, general = b.if_else(run.read_inputs(run.convert_number) & ~is_given)
        with plain:
            run.plain_geometry()
        with general:
            run.broadcast()
            there, new = b.if_else(is_given)
            with there:
                run.given_strides()
                with b.if_(~run.in_order.value):
                    run.order_dims(run.n_inputs, run.n_inputs + run.n_results)
            with new:
                with b.if_(~run.in_order.value):
                    run.order_dims(0, run.n_inputs)
                run.result_strides()
            run.collapse()
            run.general_geometry()
            with b.if_(is_given):
                run.decline_scattered_results()
        kernel = run.find_kernel()
        with b.if_(~is_given):
            run.allocate()
        with b.if_(run.n_elements.value > 0):
            run.run_rows(kernel)
        run.finish()


def write_usual_run(module: IRModule) -> None:
    """extempo_elementwise(record, inputs, results, given) -> DONE, DECLINED or FAILED."""
    with module.function("extempo_elementwise", i64, record=ptr, inputs=ptr, results=ptr, given=i64) as b:
        arguments = [b.arg(name) for name in ("record", "inputs", "results", "given")]
        run_any = module.declare("elementwise_any", i64, [ptr, ptr, ptr, i64])
        other = b.way_out(lambda: b.ret(b.call(run_any, *arguments)))
        other.take_if(b.arg("given") != 0)
        run = _BroadcastRun(b, other.take, other.take)
        plain, general = b.if_else(run.read_inputs(run.convert_float))
        with plain:
            run.plain_geometry()
        with general:
            run.broadcast()
            with b.if_(~run.in_order.value):
                run.order_dims(0, run.n_inputs)
            run.result_strides()
            run.collapse()
            other.take_if(run.n_loops.value > 2)
            run.general_geometry()
        kernel = run.variants()[run.pattern.value]
        other.take_if((kernel == 0) | (run.n_elements.value >= SPLIT_FROM))
        run.allocate()
        address = b.emit(ptr, f"inttoptr i64 {kernel.text} to ptr")
        run.refused[0] = b.call_address(address, i64, run.operands.address, run.geometry.address)
        run.finish()
