"""Elements picked by integer tensors, and their adjoints that add up where an index repeats.

Embedding and its gradient, x[index] with its gradient and its assignment. Indices are looked at before anything is
written: one that is out of range makes the routine decline, and the NumPy kernel says which. Sums are taken in the
order of the indices; threads share the targets, never one target's sum, so results do not depend on their number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....core.strides import row_major_strides
from ....core.types import InputType, TensorType, broadcast_shapes, count
from ..ir.builder import IRFunction, IRModule, Pointer, Type, Value, i32, i64, ptr, vector
from .layout import BY_SIZE, MAX_NDIM, carrier, copy_run, copying, fill_zeros, numbers_from, odometer
from .routine import Attrs, Bound, Inputs, build, element_of, routine, routine_code
from .sweeps import context_words, in_parts, part_range, parts_of, write_part

LANES = 8
PART_WORK = 1 << 18  # elements; memory gives about that many in 30 us
_INDICES = {"int64": i64, "int32": i32}


def index_type(t: InputType) -> Type | None:
    """The type of an integer index's elements; None if it is no such index."""
    return _INDICES.get(t.dtype._name) if isinstance(t, TensorType) else None


# ---- pieces of functions


def read_index(b: IRFunction, index: Pointer, i: Value) -> Value:
    """An index as an i64."""
    return index[i] if index.element is i64 else b.cast("sext", index[i], i64)


def wrapped(b: IRFunction, i: Value, size: Value) -> Value:
    """Negative indices count from the end."""
    return b.select(i < 0, i + size, i)


def decline_outside(b: IRFunction, index: Pointer, n: Value, low: Value | int, size: Value) -> None:
    """Return 1 if one of n indices is below `low` or not below `size`."""
    with b.loop(0, n) as i:
        found = read_index(b, index, i)
        with b.if_((found < low) | (found >= size)):
            b.ret(1)


def add_run(b: IRFunction, target: Pointer, source: Pointer, n: Value) -> None:
    """target[i] += source[i] for n neighbours."""
    whole = n - n % LANES
    with b.loop(0, whole, LANES) as i:
        target.set_vector(i, target.vector(i, LANES) + source.vector(i, LANES))
    with b.if_(whole < n):
        mask = b.splat(n - whole, LANES) > b.lanes(vector(i64, LANES), range(LANES))
        zeros = b.const(vector(target.element, LANES), 0.0)
        sums = [b.masked_load(p.at(whole), mask, zeros) for p in (target, source)]
        b.masked_store(sums[0] + sums[1], target.at(whole), mask)


# ---- embedding


@routine("embedding")
def bind_embedding(types: Inputs, attrs: Attrs) -> Bound | None:
    """Rows of a table."""
    weight, rows, padding = types
    index = i64 if rows is int else index_type(rows)
    if not isinstance(weight, TensorType) or index is None:
        return None
    picked = rows.shape if isinstance(rows, TensorType) else ()
    n_picks, row_bytes = count(picked), weight.shape[1] * weight.dtype.itemsize
    n_parts, per_part = parts_of(n_picks, row_bytes // 4, PART_WORK)
    address = build(f"embedding_{index.suffix}", _write_embedding, index)
    reads = "c" + ("c" if isinstance(rows, TensorType) else "i") + ("i" if padding is int else "-")
    out = TensorType((*picked, weight.shape[1]), weight.dtype)
    return Bound(address, reads, (out,), (n_parts, per_part, n_picks, weight.shape[0], row_bytes))


def _write_embedding(module: IRModule, name: str, index: Type) -> None:
    def part(b: IRFunction) -> None:
        table, rows, out, n_picks, per_part, row_bytes = context_words(b, ptr, ptr, ptr, i64, i64, i64)
        first, end = part_range(b, n_picks, per_part)
        with b.loop(first, end) as i:
            row = read_index(b, b.pointer(rows, index), i)
            copy_run(b, b.byte_offset(out, i * row_bytes), b.byte_offset(table, row * row_bytes), row_bytes)

    write_part(module, name + "_part", part)
    with routine_code(module, name) as (b, buffers, numbers):
        n_parts, per_part, n_picks, n_rows, row_bytes = (numbers[i] for i in range(5))
        # A single row may be given as a number, which stands after the bound ones.
        rows = b.select(buffers[1] == 0, numbers.at(5), buffers[1])
        decline_outside(b, b.pointer(rows, index), n_picks, 0, n_rows)
        with b.if_((row_bytes > 0) & (n_picks > 0)):
            in_parts(b, name + "_part", n_parts, buffers[0], rows, buffers[3], n_picks, per_part, row_bytes)
        b.ret(0)


@routine("sum_rows")
def bind_sum_rows(types: Inputs, attrs: Attrs) -> Bound | None:
    """Vectors added to the rows of a table of zeros."""
    x, rows = types
    element, index = element_of(x), i64 if rows is int else index_type(rows)
    if not isinstance(x, TensorType) or element is None or index is None:
        return None
    width, n_rows, n_vectors = x.shape[-1], attrs["n_rows"], count(x.shape[:-1])
    n_parts, per_part = parts_of(n_rows, width + width * n_vectors // max(1, n_rows), PART_WORK)
    address = build(f"sum_rows_{element.suffix}_{index.suffix}", _write_sum_rows, element, index)
    out = TensorType((n_rows, width), x.dtype)
    return Bound(address, "ci" if rows is int else "cc", (out,), (n_parts, per_part, n_vectors, n_rows, width))


def _write_sum_rows(module: IRModule, name: str, element: Type, index: Type) -> None:
    def part(b: IRFunction) -> None:
        """One stretch of the table's rows: every part reads all indices, and adds where they are its own."""
        x, rows, out, n_vectors, n_rows, per_part, width = context_words(b, ptr, ptr, ptr, i64, i64, i64, i64)
        first, end = part_range(b, n_rows, per_part)
        vectors, table, numbers = b.pointer(x, element), b.pointer(out, element), b.pointer(rows, index)
        fill_zeros(b, table.at(first * width), (end - first) * width * element.nbytes)
        with b.loop(0, n_vectors) as i:
            row = read_index(b, numbers, i)
            with b.if_((row >= first) & (row < end)):
                add_run(b, table + row * width, vectors + i * width, width)

    write_part(module, name + "_part", part)
    with routine_code(module, name) as (b, buffers, given):
        n_parts, per_part, n_vectors, n_rows, width = (given[i] for i in range(5))
        rows = b.select(buffers[1] == 0, given.at(5), buffers[1])  # a number stands after the bound ones
        decline_outside(b, b.pointer(rows, index), n_vectors, 0, n_rows)
        with b.if_((n_rows > 0) & (width > 0)):
            words = (buffers[0], rows, buffers[2], n_vectors, n_rows, per_part, width)
            in_parts(b, name + "_part", n_parts, *words)
        b.ret(0)


# ---- x[index]


class _Picks:
    """Where integer tensors on neighbouring dimensions point: (outer, picks, inner) of an array's elements.

    Its numbers in `meta`: dimensions before the picked ones, picked dimensions, the number of picks, the length of the
    runs behind them, then the shape of the array.
    """

    HEAD = 4

    def __init__(self, shape: Sequence[int], dims: Sequence[int], n_picks: int) -> None:
        self.n_outer_dims = dims[0]
        self.n_indices = len(dims)
        inner = shape[dims[-1] + 1 :]
        self.meta = (dims[0], len(dims), n_picks, count(inner), *shape)


def _picks(shape: Sequence[int], indices: Sequence[InputType], dims: tuple[int, ...]) -> _Picks | None:
    """None where native code does not go: index tensors apart from each other, of several shapes or other dtypes."""
    first = indices[0]
    if not isinstance(first, TensorType) or index_type(first) is None or len(shape) > MAX_NDIM:
        return None
    neighbours = dims[-1] - dims[0] == len(dims) - 1
    if not neighbours or any(i != first for i in indices):
        return None
    return _Picks(shape, dims, count(first.shape))


def _picked_shape(x: TensorType, indices: Sequence[Any], dims: tuple[int, ...]) -> tuple[int, ...]:
    return (*x.shape[: dims[0]], *broadcast_shapes(*(i.shape for i in indices)), *x.shape[dims[-1] + 1 :])


class _PickCode:
    """The loops over picks while a function is written."""

    def __init__(self, b: IRFunction, at: int, n_indices: int, index: Type, first_index: int) -> None:
        self.b = b
        head = b.pointer(b.arg("meta"), i64) + at
        self.n_outer_dims, _, self.n_picks, self.run = (head[i] for i in range(_Picks.HEAD))
        self.shape = head + _Picks.HEAD
        buffers = b.pointer(b.arg("buffers"), ptr)
        self.indices = [b.pointer(buffers[first_index + k], index) for k in range(n_indices)]

    def decline_outside(self) -> None:
        for k, index in enumerate(self.indices):
            size = self.shape[self.n_outer_dims + k]
            decline_outside(self.b, index, self.n_picks, 0 - size, size)

    def decline_gaps(self, ndim: Value, strides: Pointer) -> None:
        """Return 1 unless the elements behind the picked dimensions are contiguous."""
        b = self.b
        expected, d = b.var(i64, 1), b.var(i64, ndim - 1)
        with b.while_(lambda: d.value >= self.n_outer_dims + len(self.indices)):
            size = self.shape[d.value]
            with b.if_((size > 1) & (strides[d.value] != expected.value)):
                b.ret(1)
            expected.set(expected.value * size)
            d.set(d.value - 1)

    def each(self, strides: Pointer, body: Callable[[Value, Value], None]) -> None:
        """Run body(number of the pick, counted through; offset in the array) in order."""
        b = self.b
        count_ = b.var(i64, 0)

        def one(offsets: list[Value]) -> None:
            with b.loop(0, self.n_picks) as j:
                at = offsets[0]
                for k, index in enumerate(self.indices):
                    d = self.n_outer_dims + k
                    at = at + wrapped(b, read_index(b, index, j), self.shape[d]) * strides[d]
                body(count_.value, at)
                count_.set(count_.value + 1)

        odometer(b, self.n_outer_dims, self.shape, (strides,), one)


@routine("index_get")
def bind_index_get(types: Inputs, attrs: Attrs) -> Bound | None:
    """Elements picked by integer tensors along neighbouring dimensions."""
    x, *indices = types
    if not isinstance(x, TensorType):
        return None
    picks = _picks(x.shape, indices, attrs["dims"])
    index = index_type(indices[0])
    if picks is None or index is None:
        return None
    element, n = carrier(x.dtype), len(indices)
    address = build(f"index_get_{element.suffix}_{index.suffix}_{n}", _write_index_get, element, index, n)
    out = TensorType(_picked_shape(x, indices, attrs["dims"]), x.dtype)
    return Bound(address, "s" + "c" * n, (out,), (x.ndim, *picks.meta))


def _write_index_get(module: IRModule, name: str, element: Type, index: Type, n_indices: int) -> None:
    with routine_code(module, name) as (b, buffers, numbers):
        ndim = numbers[0]
        code = _PickCode(b, 1, n_indices, index, 1)
        _, strides = numbers_from(b, 1 + _Picks.HEAD, ndim)
        code.decline_outside()
        code.decline_gaps(ndim, strides)
        source, target = b.pointer(buffers[0], element), b.pointer(buffers[1 + n_indices], element)
        single, runs = b.if_else(code.run == 1)
        with single:

            def move(i: Value, at: Value) -> None:
                target[i] = source[at]

            code.each(strides, move)
        with runs:
            code.each(
                strides, lambda i, at: copy_run(b, target.at(i * code.run), source.at(at), code.run * element.nbytes)
            )
        b.ret(0)


@routine("index_embed")
def bind_index_embed(types: Inputs, attrs: Attrs) -> Bound | None:
    """Zeros with the input added where integer tensors point."""
    g, *indices = types
    shape = attrs["shape"]
    picks, element, index = _picks(shape, indices, attrs["dims"]), element_of(g), index_type(indices[0])
    if picks is None or element is None or index is None or not isinstance(g, TensorType):
        return None
    n = len(indices)
    address = build(f"index_embed_{element.suffix}_{index.suffix}_{n}", _write_index_embed, element, index, n)
    meta = (count(shape), len(shape), *picks.meta, *row_major_strides(shape))
    return Bound(address, "c" * (n + 1), (TensorType(shape, g.dtype),), meta)


def _write_index_embed(module: IRModule, name: str, element: Type, index: Type, n_indices: int) -> None:
    with routine_code(module, name) as (b, buffers, numbers):
        total, ndim = numbers[0], numbers[1]
        code = _PickCode(b, 2, n_indices, index, 1)
        _, strides, _ = numbers_from(b, 2 + _Picks.HEAD, ndim, ndim)
        code.decline_outside()
        source, target = b.pointer(buffers[0], element), b.pointer(buffers[1 + n_indices], element)
        fill_zeros(b, target.address, total * element.nbytes)
        code.each(strides, lambda i, at: add_run(b, target + at, source + i * code.run, code.run))
        b.ret(0)


@routine("index_put")
def bind_index_put(types: Inputs, attrs: Attrs) -> Bound | None:
    """A copy of x with values written (or added) where integer tensors point."""
    x, values, *indices = types
    if not isinstance(x, TensorType) or not isinstance(values, TensorType) or values.dtype is not x.dtype:
        return None
    picks, index, add = _picks(x.shape, indices, attrs["dims"]), index_type(indices[0]), attrs["accumulate"]
    element = element_of(x) if add else carrier(x.dtype)
    if picks is None or index is None or element is None:
        return None
    single = values.numel() == 1
    if not single and values.shape != _picked_shape(x, indices, attrs["dims"]):
        return None
    n = len(indices)
    name = f"index_{'add' if add else 'put'}_{element.suffix}_{index.suffix}_{n}"
    address = build(name, _write_index_put, element, index, n, add)
    meta = (x.ndim, int(not single), *picks.meta, *row_major_strides(x.shape))
    return Bound(address, "sc" + "c" * n, (x,), meta)


def _write_index_put(module: IRModule, name: str, element: Type, index: Type, n_indices: int, add: bool) -> None:
    copy = copying(module, BY_SIZE[element.nbytes])
    with routine_code(module, name) as (b, buffers, numbers):
        ndim, step = numbers[0], numbers[1]  # a single value is read again and again
        code = _PickCode(b, 2, n_indices, index, 2)
        shape, strides, given = numbers_from(b, 2 + _Picks.HEAD, ndim, ndim)
        code.decline_outside()
        values, target = b.pointer(buffers[1], element), b.pointer(buffers[2 + n_indices], element)
        b.call(copy, target.address, buffers[0], ndim, shape.address, strides.address, given.address)

        def write(i: Value, at: Value) -> None:
            source, place = values + i * code.run * step, target + at
            with b.loop(0, code.run) as k:
                value = source[k * step]
                place[k] = place[k] + value if add else value

        code.each(strides, write)
        b.ret(0)
