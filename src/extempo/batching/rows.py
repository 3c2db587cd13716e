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

# A place has four words, of which the last three are native code's (backends/llvm/calls/rows.py). The first:
# (array number + 1) * 2^32 + row, or 0 where nothing is. For a part of a row, whose address says where it is, a bit is
# set among those of the row.
_WORDS = 4
_ROW_BITS = 32
_ROW = (1 << _ROW_BITS) - 1
_PART = 1 << (_ROW_BITS - 1)
_FIRST_PLACES = 256
_BOOL = np.dtype(np.bool_)


class RowTable:
    """Rows of arrays by numbers. A number that is given again means the new row from then on."""

    __slots__ = ("_arrays", "_native", "_places", "_whole")

    def __init__(self, n_places: int = _FIRST_PLACES) -> None:
        """`n_places`: how many numbers there will be, if that is known."""
        backend = selection.native()
        self._native: RowCode | None = None if backend is None else backend.rows()
        self._arrays: list[Array] = []
        self._whole: list[range] = []  # numbers of arrays that are one row, as a whole
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
        native, n_before, sizes = self._native, len(self._arrays), [array.nbytes for array in arrays]
        if native is None or not native.put_each(self._places, list(numbers), list(arrays), sizes, n_before):
            for number, array in zip(numbers, arrays, strict=True):
                self.add_one(number, array)
            return
        self._arrays += arrays
        self._whole.append(range(n_before, len(self._arrays)))

    def add_parts(self, parts: Array) -> None:
        """Stretches of rows get numbers: those whose row is there already (`parts.py` says what the words are)."""
        self._make_room(int(parts[:, 0].max()) + 1)
        if self._native is not None and self._native.put_parts(self._places, parts):
            return
        there = self.has(parts[:, 1])
        for number, whole, offset, size in parts[there].tolist():
            ((array, _, rows),) = self._by_array(self._places[[whole]])
            row = np.ascontiguousarray(array[rows[0]]).reshape(-1)
            if size and not np.may_share_memory(row, array):
                raise ShapeError(f"Table.add_parts: the row of number {whole} is no run of memory")
            self.add_one(number, row[offset // row.itemsize : (offset + size) // row.itemsize])

    def add_pieces(self, numbers: Numbers, counts: Array, array: Array) -> None:
        """The rows of `array` belong to these numbers, end to end: the first counts[0] to numbers[0], and so on."""
        native, arrays = self._native, self._arrays
        if native is None or not native.put_pieces(self._places, numbers, counts, array, array.itemsize, len(arrays)):
            at = _checked(numbers, "Table.add_pieces")
            self._make_room(int(at.max(initial=-1)) + 1)
            if native is None or not native.put_pieces(self._places, at, counts, array, array.itemsize, len(arrays)):
                for number, piece in zip(at.tolist(), _pieces(array, counts, "Table.add_pieces"), strict=True):
                    self.add_one(number, piece)
                return
        arrays.append(array)

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
        places = self._where(numbers, "Table.gather")
        n = len(places)
        sources = list(self._by_array(places))
        for array, _, _ in sources:
            _check_rows(array, shape, dtype, "Table.gather")
        if len(sources) == 1 and (sources[0][2] == np.arange(sources[0][2][0], sources[0][2][0] + n)).all():
            array, _, rows = sources[0]
            if array.flags.c_contiguous:
                return array[rows[0] : rows[0] + n].reshape(n, *shape)
        out = np.empty((n, *shape), dtype)
        for array, positions, rows in sources:
            out[positions] = array[rows].reshape(len(rows), *shape)
        return out

    def gather_pieces(self, numbers: Numbers, counts: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """The rows of all numbers end to end, counts[i] of the i-th, each row in that shape: (total, *shape).

        Like `gather`, C-contiguous and perhaps a view.
        """
        if self._native is not None:
            found = self._native.gather_pieces(
                self._places, self._arrays, numbers, counts, shape, dtype, dtype.itemsize
            )
            if found is not None:
                return found
        pieces = [
            self.gather([number], (n, *shape), dtype)[0]
            for number, n in zip(_checked(numbers, "Table.gather_pieces").tolist(), counts.tolist(), strict=True)
        ]
        return np.concatenate(pieces) if pieces else np.empty((0, *shape), dtype)

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
        places = self._where(numbers, "Table.scatter_add")
        if len(places) != len(values):
            raise ShapeError(f"Table.scatter_add: {len(places)} numbers for {len(values)} rows")
        sources = list(self._by_array(places))
        for array, _, _ in sources:
            _check_rows(array, values.shape[1:], values.dtype, "Table.scatter_add")
            if not array.flags.writeable:
                raise ValueError("Table.scatter_add: an array of the table is read-only")
        for array, positions, rows in sources:
            np.add.at(array, rows, values[positions].reshape(len(rows), *array.shape[1:]))
        if slots is not None and marks is not None:
            found = slots[np.asarray(numbers, np.int64)]
            marks[found[found >= 0]] = 1

    def scatter_add_pieces(
        self, numbers: Numbers, counts: Array, values: Array, slots: Array | None = None, marks: Array | None = None
    ) -> None:
        """`scatter_add` of rows end to end, counts[i] of them for numbers[i]."""
        native = self._native
        if native is not None and native.add_pieces(
            self._places, numbers, counts, values, values.itemsize, slots, marks
        ):
            return
        pieces = _pieces(values, counts, "Table.scatter_add_pieces")
        for number, piece in zip(_checked(numbers, "Table.scatter_add_pieces").tolist(), pieces, strict=True):
            self.scatter_add([number], piece[None], slots, marks)

    def forget(self, numbers: Numbers) -> None:
        """These numbers have no rows any more."""
        at = _checked(numbers, "Table.forget")
        self._places[at[at < len(self._places)]] = 0

    @property
    def n_arrays(self) -> int:
        """How many arrays the table keeps alive."""
        return len(self._arrays)

    def bytes_of(self, first: int) -> int:
        """Of the arrays from this one on, in the order in which they were added."""
        return sum([array.nbytes for array in self._arrays[first:]])

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
        found: Array = self._places[at]
        return found

    def _by_array(self, places: Array) -> Iterator[tuple[Array, Array, Array]]:
        """(array, positions, rows): the rows of each array, and where among all they stand."""
        where = places[:, 0]
        owners, is_part = where >> _ROW_BITS, (where & _PART) != 0
        for owner in np.unique(owners[~is_part]):
            positions, array = np.flatnonzero((owners == owner) & ~is_part), self._arrays[owner - 1]
            is_whole = any(int(owner) - 1 in numbers for numbers in self._whole)
            yield array[None] if is_whole else array, positions, where[positions] & _ROW
        for position in np.flatnonzero(is_part).tolist():
            array, (_, address, form, _) = self._arrays[owners[position] - 1], places[position].tolist()
            n_elements = (form >> 1) // array.itemsize
            start = (address - array.__array_interface__["data"][0]) // array.itemsize if n_elements else 0
            memory = np.lib.stride_tricks.as_strided(array, (start + n_elements,), (array.itemsize,))  # around the row
            yield memory[None, start:], np.array([position]), np.array([0])


def _pieces(array: Array, counts: Array, name: str) -> list[Array]:
    if len(array) != counts.sum():
        raise ShapeError(f"{name}: {len(array)} rows for pieces of {counts.tolist()}")
    return np.split(array, np.cumsum(counts)[:-1]) if len(counts) else []


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
