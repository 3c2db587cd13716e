"""One call of a native function of rows, while that is written: its arguments, places and numbers.

What places and numbers are says `rows`. Numbers are read into one run of memory, and all are known to be within the
limit before a function changes anything.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..ir.builder import IRFunction, IRModule, Pointer, Value, i64, ptr
from .cpython import ALIGNED, BLOCK_DATA, C_CONTIGUOUS, LARGEST, NO_NUMBER, Python

WORDS = 4  # of a place
ROW_BITS = 32  # of the first word; array numbers have the others
PART = 1 << (ROW_BITS - 1)  # set among them for a part of a row
WHERE, ADDRESS, FORM, DTYPE = range(WORDS)
VIEW_DIMS = 4  # of views that are copied
ARRAY, LIST, NONE = range(3)  # in the tuple that every function has as `self`
_LIST_SIZE = 16  # PyListObject: ob_size


class RowsCall:
    """One call while its function is written: arguments, places, and what is to be let go of at its end."""

    def __init__(self, b: IRFunction) -> None:
        self.b = b
        self.python = Python(b)
        self.args = Pointer(b.arg("args"), ptr)
        self.places = Pointer(self.python.data(self.args[0]), i64)
        self.n_places = self.python.shape(self.args[0])[0]
        self.numbers = Pointer(b.const(ptr, 0), i64)
        self.n = b.const(i64, 0)
        self._block: Value | None = None

    def known(self, index: int) -> Value:
        return self.python.item(self.b.arg("self"), index)

    def end(self, answer: Value) -> None:
        if self._block is not None:
            with self.b.if_(self._block != 0):
                self.python.decref(self._block)
        with self.b.if_(self.python.is_raised()):  # by converting an odd kind of int: an interrupt, say
            self.python.decref(answer)
            self.b.ret(self.b.const(ptr, 0))
        self.b.ret(answer)

    def answer(self, truth: bool) -> None:
        self.end(self.b.call(self.b.module.declare("PyBool_FromLong", ptr, [i64]), int(truth)))

    def number(self, o: Value) -> Value:
        """A Python int; -1 for whatever is none or too large."""
        b = self.b
        number = self.python.as_int(o)
        with b.if_(number == -1):
            self.python.forget(*NO_NUMBER)
        return number

    def unless(self, fits: Value, decline: Callable[[], None]) -> None:
        with self.b.if_(~fits):
            decline()

    def is_array(self, o: Value) -> Value:
        return self.python.type_of(o) == self.known(ARRAY)

    def has_flags(self, array: Value, wanted: int) -> Value:
        return (self.python.flags(array) & wanted) == wanted

    def read_numbers(
        self,
        o: Value,
        decline: Callable[[], None],
        limit: int | None = None,
        start: Value | int = 0,
        end: Value | int = LARGEST,
    ) -> None:
        """Numbers from 0 on; unless there is another limit, of places that are there. `start`, `end`: some of them."""
        b = self.b
        found, stop = b.array(ptr, 3), self.n_places if limit is None else b.const(i64, limit)
        types = (self.known(ARRAY), self.known(LIST))
        fits = b.call(b.module.defined["numbers"], o, *types, stop, start, end, found.address)
        self._block = found[1]  # null unless it has to be let go of
        self.n = Pointer(found.address, i64)[2]
        self.numbers = Pointer(found[0], i64)
        self.unless(fits != 0, decline)

    def place(self, i: Value) -> Pointer:
        """The place of the i-th number."""
        return self.places + self.numbers[i] * WORDS

    def declined(self) -> None:
        self.answer(False)

    def declined_with_none(self) -> None:
        self.end(self.python.incref(self.known(NONE)))


def write_numbers(module: IRModule) -> None:
    """numbers(o, types, limit, start, end, found): whether o[start:end] has int64 numbers, all below the limit; not so
    with an exception that was raised meanwhile.

    found: their address, the block that this memory belongs to (null if it is the array's own), how many there are.
    A start is for arrays only.
    """
    types = {"array_type": ptr, "list_type": ptr}
    with module.function("numbers", i64, internal=True, o=ptr, **types, limit=i64, start=i64, end=i64, found=ptr) as b:
        python, o, declare = Python(b), b.arg("o"), module.declare
        found = Pointer(b.arg("found"), ptr)
        count = Pointer(found.address, i64)
        found[0] = b.const(ptr, 0)
        found[1] = b.const(ptr, 0)
        count[2] = b.const(i64, 0)

        def copies(n: Value) -> Pointer:
            """Memory for them."""
            block = python.take(n * 8)
            with b.if_(block == 0):
                b.ret(0)
            found[1] = block
            found[0] = b.field(ptr, block, BLOCK_DATA)
            count[2] = n
            return Pointer(found[0], i64)

        is_list, other = b.if_else(python.type_of(o) == b.arg("list_type"))
        with is_list:
            n = b.field(i64, o, _LIST_SIZE)
            numbers = copies(n)
            with b.loop(0, n) as i:
                # Looked up with bounds: converting an odd kind of int may run Python code that shortens the list.
                item = b.call(declare("PyList_GetItem", ptr, [ptr, i64]), o, i)
                with b.if_(item == 0):
                    python.forget("IndexError")
                    b.ret(0)
                number = python.as_int(item)
                with b.if_(number == -1):
                    python.forget(*NO_NUMBER)
                numbers[i] = number
        with other:
            with b.if_(python.type_of(o) != b.arg("array_type")):
                b.ret(0)
            is_int64 = (python.dtype_number(o) == np.dtype(np.int64).num) & ((python.flags(o) & ALIGNED) != 0)
            with b.if_(~is_int64 | (python.ndim(o) != 1)):
                b.ret(0)
            end, step = python.shape(o)[0], python.strides(o)[0]
            end = b.smaller(b.arg("end"), end)
            n, data = end - b.arg("start"), b.byte_offset(python.data(o), step * b.arg("start"))
            with b.if_((b.arg("start") < 0) | (n < 0)):
                b.ret(0)
            together, apart = b.if_else((python.flags(o) & C_CONTIGUOUS) != 0)
            with together:
                found[0] = data
                count[2] = n
            with apart:  # a column of a matrix
                numbers = copies(n)
                with b.loop(0, n) as i:
                    numbers[i] = b.load(i64, b.byte_offset(data, step * i))
        numbers, limit = Pointer(found[0], i64), b.arg("limit")
        with b.loop(0, count[2]) as i, b.if_(b.compare(">=", numbers[i], limit, unsigned=True)):
            b.ret(0)
        b.ret(1)
