"""Data sets on tables that may be larger than memory: Arrow and Parquet files, through pyarrow.

A table is read one block at a time (a record batch of Arrow, a row group of Parquet), and the last block is kept. So
memory holds one block in each process, and reading in order, or with a `BlockRandomSampler`, reads each block once.
"""

from __future__ import annotations

import bisect
import functools
import importlib
import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ExtempoError, IndexRangeError
from .datasets import Dataset, position
from .files import Path, PerProcess, own_tensor
from .worker_info import get_worker_info

Read = Callable[[int], Any]  # from the number of a row to its value


def _pyarrow(module: str, what: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{what}: reading this kind of file needs pyarrow; pip install 'extempo[arrow]'") from error


def _check_columns(columns: Sequence[str] | None, present: list[str], path: str, what: str) -> list[str]:
    for name in columns or ():
        if name not in present:
            raise IndexRangeError(f"{what}: {path} has no column {name!r}, only {', '.join(present)}")
    return present if columns is None else list(columns)


class _TableDataset(Dataset[dict[str, Any]]):
    """Rows of a file that is read in blocks. `_open` returns an object with `block_sizes` and `read`."""

    _open: Callable[[str, tuple[str, ...] | None], Any]

    def __init__(self, path: Path, columns: Sequence[str] | None = None) -> None:
        self.path = os.fspath(path)
        wanted = None if columns is None else tuple(columns)
        self._file = PerProcess(functools.partial(type(self)._open, self.path, wanted))
        self.block_sizes: list[int] = self._file.get().block_sizes
        self._ends = list(itertools.accumulate(self.block_sizes))
        self._kept: tuple[int, dict[str, Read]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}

    def __getitem__(self, index: Any) -> dict[str, Any]:
        place = position(index, len(self), type(self).__name__)
        block = bisect.bisect_right(self._ends, place)
        if self._kept is None or self._kept[0] != block:
            self._kept = None  # the old block goes before the new one comes
            self._kept = (block, self._file.get().read(block))
        row = place - (self._ends[block - 1] if block else 0)
        return {name: read(row) for name, read in self._kept[1].items()}

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0


class _ArrowFile:
    def __init__(self, path: str, columns: tuple[str, ...] | None) -> None:
        pa = _pyarrow("pyarrow", "ArrowDataset")
        ipc = _pyarrow("pyarrow.ipc", "ArrowDataset")
        self._batches: list[Any] | None = None
        self.block_sizes: list[int]
        mapped = pa.memory_map(path)
        try:
            reader = ipc.open_file(mapped)
        except pa.ArrowInvalid:
            reader = self._open_stream(pa, ipc, path)
        present = list(reader.schema.names)
        self._columns = _check_columns(columns, present, path, "ArrowDataset")
        if self._batches is not None:
            self.block_sizes = [batch.num_rows for batch in self._batches]
            return
        places = [present.index(name) for name in self._columns]
        self._reader = ipc.open_file(mapped, options=ipc.IpcReadOptions(included_fields=places))
        # Where columns are compressed, reading only the narrowest is much cheaper than reading all.
        narrow = ipc.IpcReadOptions(included_fields=[_narrowest(reader.schema)] if present else [])
        counter = ipc.open_file(mapped, options=narrow)
        self.block_sizes = [counter.get_batch(i).num_rows for i in range(counter.num_record_batches)]

    def _open_stream(self, pa: Any, ipc: Any, path: str) -> Any:
        """A stream of batches has no table of contents; reading it once notes where each batch lies in the map."""
        try:
            reader = ipc.open_stream(pa.memory_map(path))
            self._batches = list(reader)
        except pa.ArrowInvalid as error:
            raise ExtempoError(f"ArrowDataset: {path} is not an Arrow file: {error}") from error
        return reader

    def read(self, block: int) -> dict[str, Read]:
        batch = self._reader.get_batch(block) if self._batches is None else self._batches[block]
        return {name: _reader_of(batch.column(name)) for name in self._columns}


class ArrowDataset(_TableDataset):
    """The rows of an Arrow file (also called Feather), each a dict by column; of a stream (`.arrows`) too.

    Numbers are 0-dim tensors, lists of numbers 1-dim ones, fixed-size lists too (nested ones have more dimensions),
    strings and the rest Python objects, missing values None. Files that were written without compression are read in
    place. Needs pyarrow: `pip install 'extempo[arrow]'`.

    >>> import tempfile
    >>> import pyarrow.feather
    >>> table = pyarrow.table({"ids": [[1, 2], [3]], "word": ["a", "b"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pyarrow.feather.write_feather(table, f"{folder}/t.arrow", compression="uncompressed")
    ...     ex.utils.data.ArrowDataset(f"{folder}/t.arrow")[0]
    {'ids': tensor([1, 2]), 'word': 'a'}
    """

    _open = _ArrowFile


class _ParquetFile:
    def __init__(self, path: str, columns: tuple[str, ...] | None) -> None:
        pa = _pyarrow("pyarrow", "ParquetDataset")
        parquet = _pyarrow("pyarrow.parquet", "ParquetDataset")
        try:
            self._file = parquet.ParquetFile(path, memory_map=True)
        except pa.ArrowInvalid as error:
            raise ExtempoError(f"ParquetDataset: {path} is not a Parquet file: {error}") from error
        self._columns = _check_columns(columns, list(self._file.schema_arrow.names), path, "ParquetDataset")
        groups = self._file.metadata
        self.block_sizes = [groups.row_group(i).num_rows for i in range(groups.num_row_groups)]

    def read(self, block: int) -> dict[str, Read]:
        # Workers are the parallelism already, and a forked process starts without Arrow's threads.
        table = self._file.read_row_group(block, columns=self._columns, use_threads=get_worker_info() is None)
        return {name: _reader_of(table.column(name).combine_chunks()) for name in self._columns}


class ParquetDataset(_TableDataset):
    """The rows of a Parquet file, each a dict by column, with values as in `ArrowDataset`.

    Parquet is read a row group at a time: choose `row_group_size` when writing so that a few of them fit into memory,
    and shuffle with `BlockRandomSampler(dataset.block_sizes)`. Needs pyarrow: `pip install 'extempo[arrow]'`.

    >>> import tempfile
    >>> import pyarrow.parquet
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pyarrow.parquet.write_table(pyarrow.table({"x": [0.5, 1.5], "y": [0, 1]}), f"{folder}/t.parquet")
    ...     rows = ex.utils.data.ParquetDataset(f"{folder}/t.parquet", columns=["y"])
    ...     rows[1], rows.block_sizes
    ({'y': tensor(1)}, [2])
    """

    _open = _ParquetFile


def _narrowest(schema: Any) -> int:
    """The column with the fewest bytes in a row, as far as its type tells."""

    def width(place: int) -> int:
        try:
            return schema.field(place).type.bit_width
        except ValueError:  # strings, lists
            return 1 << 30

    return min(range(len(schema)), key=width)


def _reader_of(column: Any) -> Read:
    """How to read one row's value from an Arrow array."""
    types = _pyarrow("pyarrow.types", "ArrowDataset")
    kind = column.type
    if column.null_count:
        return _reader_with_gaps(column)
    if types.is_dictionary(kind):
        return _reader_of(column.dictionary_decode())
    if types.is_struct(kind):
        fields = {kind.field(i).name: _reader_of(column.field(i)) for i in range(kind.num_fields)}
        return lambda row: {name: read(row) for name, read in fields.items()}
    if hasattr(column, "storage"):  # an extension type; those for tensors know their shape
        shape = tuple(getattr(kind, "shape", ()))
        read = _reader_of(column.storage)
        return (lambda row: read(row).reshape(shape)) if shape else read
    if types.is_list(kind) or types.is_large_list(kind):
        values, starts = _numbers(column.values), column.offsets.to_numpy()
        if values is not None:
            return lambda row: own_tensor(values[starts[row] : starts[row + 1]])
    else:
        rows = _numbers(column)
        if rows is not None:
            return lambda row: own_tensor(rows[row])
    return lambda row: column[row].as_py()


def _reader_with_gaps(column: Any) -> Read:
    def read(row: int) -> Any:
        if not column[row].is_valid:
            return None
        return _reader_of(column.slice(row, 1))(0)

    return read


def _numbers(column: Any) -> Any:
    """The values as an array, with a dimension for each fixed-size list; None if they are no numbers or some miss."""
    types = _pyarrow("pyarrow.types", "ArrowDataset")
    sizes = [len(column)]
    while types.is_fixed_size_list(column.type) and not column.null_count:
        sizes.append(column.type.list_size)
        column = column.flatten()
    kind = column.type
    if column.null_count or not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        return None
    return column.to_numpy(zero_copy_only=False).reshape(sizes)
