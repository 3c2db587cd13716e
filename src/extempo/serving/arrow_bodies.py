"""Arrow streams as samples and results: a column for each input or output, a row for each sample.

An input of shape (time, 4) is a list of lists in its row, so rows of different length need no padding. pyarrow (the
`arrow` extra) is asked for when the first such body comes. A stream from outside is validated before it is read, and
compressed ones are refused: they could unpack to any size.
"""

from __future__ import annotations

import importlib
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.storage import Array
from .refusals import BadRequest


def _pyarrow() -> Any:
    try:
        importlib.import_module("pyarrow.ipc")
        return importlib.import_module("pyarrow")
    except ImportError:
        raise BadRequest(
            415, "Arrow bodies need pyarrow, which this server does not have (pip install 'extempo[arrow]')"
        ) from None


def read_arrow(body: bytes, max_samples: int) -> list[dict[str, Array] | BadRequest]:
    """The rows of a stream; one that is no array of numbers harms no other."""
    pa = _pyarrow()
    try:
        for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(body)):
            if message.type == "dictionary" or (message.type == "record batch" and is_compressed(message.metadata)):
                raise BadRequest(400, "expected an Arrow stream of plain columns, neither compressed nor dictionaries")
        table = pa.ipc.open_stream(body).read_all()
        if not 1 <= table.num_rows <= max_samples:
            raise BadRequest(400, f"expected 1 to {max_samples} rows, each a sample, got {table.num_rows}")
        table.validate(full=True)
        table = table.combine_chunks()
        columns = {name: table.column(i).chunk(0) for i, name in enumerate(table.column_names)}
        return [_row(columns, row) for row in range(table.num_rows)]
    except BadRequest:
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, NotImplementedError) as error:
        raise BadRequest(400, f"the body is no Arrow stream that can be read: {error}") from None


def _row(columns: Mapping[str, Any], row: int) -> dict[str, Array] | BadRequest:
    try:
        return {name: _dense(column.slice(row, 1))[0] for name, column in columns.items()}
    except BadRequest as refused:
        return refused


def _dense(array: Any) -> Array:
    """Lists, of lists, of numbers as one array; lists inside one row must be equally long."""
    pa = _pyarrow()
    if array.null_count:
        raise BadRequest(422, "a column has nulls; expected a number in every place")
    kind = array.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = _dense(array.flatten())
        lengths = np.diff(_offsets(array)) if not pa.types.is_fixed_size_list(kind) else np.array([kind.list_size])
        if len(set(lengths.tolist())) > 1:
            raise BadRequest(422, "rows of one array must be equally long")
        length = int(lengths[0]) if len(lengths) else 0
        return inner.reshape(len(array), length, *inner.shape[1:])
    if not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise BadRequest(422, f"a column has values of type {kind}; expected lists of numbers")
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _offsets(array: Any) -> Array:
    return np.asarray(array.offsets.to_numpy(zero_copy_only=False))


def write_arrow(results: Sequence[Mapping[str, Array] | BadRequest]) -> bytes:
    """A stream with a column for each output, and `error` where a sample of the list failed."""
    pa = _pyarrow()
    good = [r for r in results if not isinstance(r, BadRequest)]
    columns: dict[str, Any] = {}
    for name in good[0] if good else ():
        given = [None if isinstance(r, BadRequest) else r[name] for r in results]
        columns[name] = _column(pa, given)
    columns["error"] = pa.array([r.message if isinstance(r, BadRequest) else None for r in results], pa.string())
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _column(pa: Any, arrays: Sequence[Array | None]) -> Any:
    first = next(a for a in arrays if a is not None)
    flat = [(a.astype(np.float32) if a.dtype.kind == "V" else a).ravel() for a in arrays if a is not None]
    values = np.concatenate(flat)
    if values.dtype.kind not in "biuf":
        raise BadRequest(406, f"Arrow has no numbers of type {values.dtype}; accept npz instead")
    built = pa.array(values)
    for d in reversed(range(first.ndim)):
        # A list at depth d for each position of the dimensions before it, of each sample.
        lengths = [a.shape[d] for a in arrays if a is not None for _ in range(math.prod(a.shape[:d]))]
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int32)
        built = pa.ListArray.from_arrays(pa.array(offsets), built)
    if any(a is None for a in arrays):
        places = np.cumsum([a is not None for a in arrays]) - 1
        indices = pa.array([int(p) if a is not None else None for p, a in zip(places, arrays, strict=True)], pa.int64())
        built = built.take(indices)
    return built


def is_compressed(metadata: Any) -> bool:
    """Whether a record batch's header says that its buffers are compressed; what is no such header counts as well.

    The header is a flatbuffer: a Message whose third field is a RecordBatch, of which the fourth says how it is
    compressed. A table begins with the distance back to its list of fields, each a distance from the table or 0.
    """
    data = bytes(metadata)

    def field(table: int, number: int) -> int:
        fields = table - struct.unpack_from("<i", data, table)[0]
        place = 4 + 2 * number
        if place + 2 > struct.unpack_from("<H", data, fields)[0]:
            return 0
        distance = struct.unpack_from("<H", data, fields + place)[0]
        return table + distance if distance else 0

    try:
        message = struct.unpack_from("<I", data, 0)[0]
        header = field(message, 2)
        batch = header + struct.unpack_from("<I", data, header)[0]
        return bool(header == 0 or field(batch, 3))
    except struct.error:
        return True
