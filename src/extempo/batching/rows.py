"""Where values are: a table from value ids to rows of arrays, and the moving of rows.

A run numbers its values from 0. A batch of calls leaves its results as rows of arrays, and later ones gather theirs
from many of those: `RowTable.gather`; gradients are added to rows: `RowTable.scatter_add`. The table never copies what
is put into it and keeps it alive. Native code does the same faster; NumPy here says what it means, and words errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends import selection
from ..core.storage import Array
from ..errors import DtypeError, IndexRangeError, ShapeError

if TYPE_CHECKING:
    from ..backends.llvm.calls.rows import RowCode

Numbers = list[int] | Array  # of values: ints, or an int64 array

# A place has four words, of which native code alone uses the last three (backends/llvm/calls/rows.py). The first:
# (array number + 1) * 2^32 + row, or 0 where nothing is.
_WORDS = 4
_ROW_BITS = 32
_ROW = (1 << _ROW_BITS) - 1
_FIRST_PLACES = 256
_BOOL = np.dtype(np.bool_)


class RowTable:
    """Rows of arrays by numbers. A number that is given again means the new row from then on."""

    __slots__ = ("_arrays", "_native", "_places")

    def __init__(self, n_places: int = _FIRST_PLACES) -> None:
        """`n_places`: how many numbers there will be, if that is known."""
        backend = selection.native()
        self._native: RowCode | None = None if backend is None else backend.rows()
        self._arrays: list[Array] = []
        self._places = np.zeros((n_places, _WORDS), np.int64)

    def add(self, first: int, array: Array, stride: int = 1) -> None:
        """The rows of `array` get the numbers first, first + stride, ..."""
        native, arrays = self._native, self._arrays
        end = first + len(array) * stride
        if end > len(self._places):
            self._make_room(end)
        if native is None or not native.put(self._places, first, stride, array, array.itemsize, len(arrays)):
            if first < 0 or stride < 1:
                raise IndexRangeError(f"Table.add: expected first >= 0 and stride >= 1, got {first} and {stride}")
            self._put(slice(first, end, stride), array)
        arrays.append(array)

    def add_at(self, numbers: Numbers, array: Array) -> None:
        """Row i of `array` gets the number numbers[i]."""
        native, arrays = self._native, self._arrays
        if native is None or not native.put_at(self._places, numbers, array, array.itemsize, len(arrays)):
            at = _checked(numbers, "Table.add_at")
            if len(at) != len(array):
                raise ShapeError(f"Table.add_at: {len(at)} numbers for {len(array)} rows")
            self._make_room(int(at.max(initial=-1)) + 1)
            if native is None or not native.put_at(self._places, at, array, array.itemsize, len(arrays)):
                self._put(at, array)
        arrays.append(array)

    def add_one(self, number: int, array: Array) -> None:
        """The whole `array` is the row of that number."""
        self.add(number, array[None])

    def add_each(self, numbers: Sequence[int], arrays: Sequence[Array]) -> None:
        """The whole of arrays[i] is the row of numbers[i], which grow."""
        self._make_room(numbers[-1] + 1)
        native, sizes = self._native, [array.nbytes for array in arrays]
        if native is None or not native.put_each(self._places, list(numbers), list(arrays), sizes, len(self._arrays)):
            for number, array in zip(numbers, arrays, strict=True):
                self.add_one(number, array)
            return
        self._arrays += [array[None] for array in arrays]

    def has(self, numbers: Numbers) -> Array:
        """Which of these numbers have a row: bools."""
        found = None if self._native is None else self._native.has(self._places, numbers, _BOOL)
        if found is not None:
            return found
        at = _checked(numbers, "Table.has")
        known = at < len(self._places)
        answer: Array = np.where(known, self._places[np.where(known, at, 0), 0], 0) != 0
        return answer

    def gather(self, numbers: Numbers, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """The rows of these numbers, each in that shape, in one array (n, *shape).

        C-contiguous, and a view if they lie like that in one array already: it is to be read, not to be written.
        """
        if self._native is not None:
            found = self._native.gather(self._places, self._arrays, numbers, shape, dtype, dtype.itemsize)
            if found is not None:
                return found
        where = self._where(numbers, "Table.gather")
        n = len(where)
        sources = list(self._by_array(where))
        for array, _, _ in sources:
            _check_rows(array, shape, dtype, "Table.gather")
        if len(sources) == 1 and (where == np.arange(where[0], where[0] + n)).all():
            array, _, rows = sources[0]
            if array.flags.c_contiguous:
                return array[rows[0] : rows[0] + n].reshape(n, *shape)
        out = np.empty((n, *shape), dtype)
        for array, positions, rows in sources:
            out[positions] = array[rows].reshape(len(rows), *shape)
        return out

    def fill(self, numbers: Array, array: Array, start: int, end: int) -> None:
        """Copy the rows of numbers[start:end] to array[start:end], which is C-contiguous and has that form."""
        native = self._native
        if native is None or not native.fill(self._places, numbers, array, array.itemsize, start, end):
            array[start:end] = self.gather(numbers[start:end], array.shape[1:], array.dtype)

    def gather_columns(
        self, numbers: Array, forms: Sequence[tuple[tuple[int, ...], np.dtype[Any], int]]
    ) -> list[Array]:
        """The rows of each column of an int64 matrix of numbers; `forms`: shape, dtype and itemsize of each."""
        found, native = [], self._native
        for j, (shape, dtype, itemsize) in enumerate(forms):
            column = numbers[:, j]
            x = None if native is None else native.gather(self._places, self._arrays, column, shape, dtype, itemsize)
            if x is None:
                x = self.gather(column, shape, dtype)
                x = x if x.flags.carray else np.array(x, order="C")
            found.append(x)
        return found

    def add_from(self, start: int, numbers: Array, values: Array, slots: Array, marks: Array) -> None:
        """`scatter_add` for as many of the numbers from `start` on as there are values."""
        native = self._native
        if native is None or not native.add(self._places, numbers, values, values.itemsize, slots, marks, start):
            self.scatter_add(numbers[start : start + len(values)], values, slots, marks)

    def scatter_add(
        self, numbers: Numbers, values: Array, slots: Array | None = None, marks: Array | None = None
    ) -> None:
        """Add row i of `values` to the row of numbers[i], in this order: a number may come more than once.

        With `slots`, an int64 by number, the bytes of `marks` for the slots of these numbers become 1; a slot below 0
        has none.
        """
        native = self._native
        if native is not None and native.add(self._places, numbers, values, values.itemsize, slots, marks):
            return
        where = self._where(numbers, "Table.scatter_add")
        if len(where) != len(values):
            raise ShapeError(f"Table.scatter_add: {len(where)} numbers for {len(values)} rows")
        sources = list(self._by_array(where))
        for array, _, _ in sources:
            _check_rows(array, values.shape[1:], values.dtype, "Table.scatter_add")
            if not array.flags.writeable:
                raise ValueError("Table.scatter_add: an array of the table is read-only")
        for array, positions, rows in sources:
            np.add.at(array, rows, values[positions].reshape(len(rows), *array.shape[1:]))
        if slots is not None and marks is not None:
            found = slots[np.asarray(numbers, np.int64)]
            marks[found[found >= 0]] = 1

    def _make_room(self, n_places: int) -> None:
        before = self._places
        if n_places > len(before):
            self._places = np.zeros((max(n_places, 2 * len(before)), _WORDS), np.int64)
            self._places[: len(before)] = before

    def _put(self, at: slice | Array, array: Array) -> None:
        self._places[at] = 0
        self._places[at, 0] = ((len(self._arrays) + 1) << _ROW_BITS) + np.arange(len(array))

    def _where(self, numbers: Numbers, name: str) -> Array:
        at = _checked(numbers, name)
        there = self.has(at)
        if not there.all():
            raise IndexRangeError(f"{name}: nothing has the number {at[~there][0]}")
        found: Array = self._places[at, 0]
        return found

    def _by_array(self, where: Array) -> Iterator[tuple[Array, Array, Array]]:
        """(array, positions, rows): the rows of each array, and where among all they stand."""
        owners = where >> _ROW_BITS
        for owner in np.unique(owners):
            positions = np.flatnonzero(owners == owner)
            yield self._arrays[owner - 1], positions, where[positions] & _ROW


def _checked(numbers: Numbers, name: str) -> Array:
    at = np.asarray(numbers)
    if at.ndim != 1 or (at.size and at.dtype.kind not in "iu"):
        raise DtypeError(
            f"{name}: expected a list of ints or an int64 array of one dimension, got {at.dtype}{at.shape}"
        )
    at = at.astype(np.int64, copy=False)
    if (at < 0).any():
        raise IndexRangeError(f"{name}: expected numbers from 0 on, got {at.min()}")
    return at


def _check_rows(array: Array, shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> None:
    if array.dtype != dtype:
        raise DtypeError(f"{name}: expected rows of {dtype}, a row is of {array.dtype}")
    if np.prod(array.shape[1:], dtype=np.int64) != np.prod(shape, dtype=np.int64):
        raise ShapeError(f"{name}: expected rows of shape {tuple(shape)}, a row has {array.shape[1:]}")
