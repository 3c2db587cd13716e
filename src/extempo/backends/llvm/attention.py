"""Routines of attention without a mask, or with the causal one: softmax(q @ k.T * scale) @ v, and its gradients.

The work is one (batch, head) after the other. A few rows of q go through all keys at once: their scores live in a strip
of scratch memory, become weights there and are multiplied with v. No matrix of all weights ever exists, and nothing is
kept for backward, which computes the weights again. Where the causal mask hides keys from all rows of a strip, those
keys are not touched.

Backward takes rows in blocks of BLOCK_TILES strips, so that sums over rows, which go into k and v, are long enough to
pay. Threads share heads. A result never depends on how.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ...types import InputType, TensorType, broadcast_shapes, count
from .builder import Function, Module, Pointer, Value, f64, i1, i8, i64, ptr, void
from .emitter import Emitter
from .gemm import Gemm, gemm_of
from .gemm_plan import CHUNK_PRODUCTS, MAX_CHUNKS
from .gemm_tiles import MAX_ROWS, Tiling, first_lanes, null, smaller
from .products import ELEMENTS, usable
from .routine import Bound, build, routine

BLOCK_TILES = 8
STRIP_SLIVERS = 3  # a strip that is read along rows and along columns is a multiple of a sliver and of MAX_ROWS wide
# In meta: these numbers, then (size, place of each operand's stride) for each leading dimension, a zero, the places of
# each operand's strides of rows and columns. The call adds the strides and the scale.
_HEAD = (
    "n_queries", "n_keys", "n_features", "n_values", "is_causal",
    "n_tiles", "tile_rows", "n_taller", "panel", "taller_panel", "high_panel",
    "n_lead", "n_heads", "n_chunks", "chunk_heads", "scratch", "scale_at", "operands_at",
)  # fmt: skip
_LEAD_AT = len(_HEAD)


class _Operand(NamedTuple):
    """One head's matrix while code is written: where it is and its strides in bytes."""

    address: Value
    row: Value
    column: Value

    def rows_from(self, row: Value) -> _Operand:
        return _Operand(self.address.b.byte_offset(self.address, row * self.row), self.row, self.column)


class _Matrix(NamedTuple):
    """What a row of tiles reads as its B."""

    address: Value
    step: Value
    sliver: Value


def _rounded(n: Value, multiple: int) -> Value:
    return (n + (multiple - 1)) // multiple * multiple


class _Head:
    """The code for one head: what forward and backward share."""

    def __init__(self, b: Function, gemm: Gemm, names: Sequence[str], n_others: int) -> None:
        self.b, self.t, self.gemm, self.n_others = b, gemm.t, gemm, n_others
        context = Pointer(b.arg("context"), ptr)
        self.buffers, self.meta = Pointer(context[0], ptr), Pointer(context[1], i64)
        self.names = names
        self.n_queries, self.n_keys = self["n_queries"], self["n_keys"]
        self.n_features, self.n_values = self["n_features"], self["n_values"]
        self.causal = self["is_causal"] != 0
        self._scratch = null(b)
        scale = b.bitcast(self.meta[self["scale_at"]], f64)
        self.scale = scale if self.t.element is f64 else b.cast("fptrunc", scale, self.t.element)

    def __getitem__(self, name: str) -> Value:
        index = _HEAD.index(name)
        if name.endswith("panel"):
            return self.b.load(ptr, self.meta.at(index))
        return self.meta[index]

    def operands(self, head: Value) -> list[_Operand]:
        """The matrices of one head, in the order of the names."""
        b, n = self.b, len(self.names)
        rest = b.var(i64, head)
        offsets = [b.var(i64, 0) for _ in self.names]
        with b.loop(0, self["n_lead"]) as d:
            entry = self.meta + (d * (n + 1) + _LEAD_AT)
            place = rest.value % entry[0]
            rest.set(rest.value // entry[0])
            for i, offset in enumerate(offsets):
                offset.set(offset.value + place * self.meta[entry[i + 1]])
        made = []
        strides = self.meta + self["operands_at"]
        for i, offset in enumerate(offsets):
            row, column = (self.meta[strides[2 * i + j]] * self.t.size for j in (0, 1))
            made.append(_Operand(b.byte_offset(self.buffers[i], offset.value * self.t.size), row, column))
        return made

    def visible(self, end: Value) -> Value:
        """How many keys the rows before `end` can see."""
        return self.b.select(self.causal, smaller(self.b, end, self.n_keys), self.n_keys)

    def strip_args(self, start: Value, height: Value, end: Value, strip: _Operand) -> tuple[Value, ...]:
        """What functions of a strip are given beside its address (STRIP_ARGS), for the rows from `start` on."""
        growth = self.b.cast("zext", self.causal, i64)
        return height, self.visible(start + 1), growth, self.n_keys, end, strip.row

    def tile_start(self, tile: Value) -> Value:
        return tile * self["tile_rows"] + smaller(self.b, tile, self["n_taller"])

    def tile(self, tile: Value) -> tuple[Value, Value, Value]:
        """First row, height and panel of a strip."""
        b = self.b
        taller = tile < self["n_taller"]
        height = self["tile_rows"] + b.cast("zext", taller, i64)
        return self.tile_start(tile), height, b.select(taller, self["taller_panel"], self["panel"])

    def take(self, n_elements: Value) -> Value:
        """The next part of the scratch memory; `_scratch_sizes` has the same sums."""
        here = self._scratch
        self._scratch = self.b.byte_offset(here, _rounded(n_elements * self.t.size, 64))
        return here

    def begin(self, chunk: Value, n_results: int) -> None:
        """All of the chunk's scratch memory is free."""
        index = len(self.names) + self.n_others + n_results
        self._scratch = self.b.byte_offset(self.buffers[index], chunk * self["scratch"])

    # ---- products

    def packed(self, source: _Operand, out: Value, n_columns: Value, k: Value, turned: bool) -> _Matrix:
        """A matrix with `n_columns` columns as slivers; `turned`: its transpose, whose columns are rows of `source`."""
        t = self.t
        column, step = (source.row, source.column) if turned else (source.column, source.row)
        self.b.call(self.gemm.shared(self.b.module, "pack_slivers"), source.address, column, step, n_columns, k, out)
        return _Matrix(out, self.b.const(i64, t.sliver_step), k * t.sliver_step)

    def scale_all(self, matrix: _Matrix, n_columns: Value, k: Value) -> None:
        """Multiply packed slivers by the scale: then scores come out scaled."""
        b, t = self.b, self.t
        values, scale = Pointer(matrix.address, t.element), b.splat(self.scale, t.lanes)
        with b.loop(0, _rounded(n_columns, t.columns) * k, t.lanes) as i:
            values.set_vector(i, values.vector(i, t.lanes) * scale)

    def in_place(self, source: _Operand, spare: Value, n_columns: Value, k: Value) -> _Matrix:
        """A matrix where it lies, if its columns are whole slivers side by side; else packed into `spare`."""
        b, t = self.b, self.t
        address, step, sliver = b.var(ptr, source.address), b.var(i64, source.row), b.var(i64, t.sliver_step)
        with b.if_((source.column != t.size) | (n_columns % t.columns != 0)):
            made = self.packed(source, spare, n_columns, k, turned=False)
            address.set(made.address)
            step.set(made.step)
            sliver.set(made.sliver)
        return _Matrix(address.value, step.value, sliver.value)

    def multiply(
        self, panel: Value, height: Value, a: _Operand, matrix: _Matrix, n: Value, k: Value, c: Value, c_row: Value,
        accumulate: bool = False,
    ) -> None:  # fmt: skip
        """c = a @ matrix for a few rows; n columns, sums of k."""
        b = self.b
        rows = self.gemm.shared(b.module, "row_of_tiles")
        b.call(rows, panel, height, *a, *matrix, n, k, c, c_row, null(b), int(accumulate))


# ---- strips of scores

STRIP_ARGS = {"height": i64, "n": i64, "growth": i64, "n_keys": i64, "end": i64, "row": i64}


class _Strip:
    """A few rows of scratch memory, row r with n + r * growth scores, at most n_keys; rows are `row` bytes apart.

    Every step goes through all rows before the next begins: the sums of different rows then overlap in time. Memory is
    there for a whole vector at the end of a row.
    """

    def __init__(self, b: Function, t: Tiling) -> None:
        self.b, self.t = b, t

    @contextmanager
    def rows(self, *strips: str) -> Iterator[tuple[Value, Value, list[Pointer]]]:
        """For each row: its number, how many scores it has, and where it begins in each of the strips."""
        b = self.b
        with b.loop(0, b.arg("height")) as r:
            n = smaller(b, b.arg("n") + r * b.arg("growth"), b.arg("n_keys"))
            yield r, n, [Pointer(b.byte_offset(b.arg(s), r * b.arg("row")), self.t.element) for s in strips]

    def array(self) -> Pointer:
        """A number for each row."""
        return self.b.array(self.t.element, MAX_ROWS)

    def spread(self, numbers: Pointer, r: Value) -> Value:
        return self.b.splat(numbers[r], self.t.lanes)

    def sum_lanes(self, x: Value) -> Value:
        return self.b.fold_lanes(x, lambda y, z: y + z)

    def zeros_from(self, row: Pointer, n: Value) -> None:
        """Zeros from the vector after the last score up to `end`."""
        b, t = self.b, self.t
        with b.loop(_rounded(n, t.lanes), b.arg("end"), t.lanes) as i:
            row.set_vector(i, b.const(t.vector, 0.0))


def _write_softmax(module: Module, name: str, t: Tiling) -> None:
    """Scores x become weights, in place: the softmax of each row, and zeros up to `end`."""
    with module.function(name, void, internal=True, x=ptr, **STRIP_ARGS) as b:
        strip, e, low = _Strip(b, t), Emitter(b), b.const(t.vector, -math.inf)
        peaks, shares = strip.array(), strip.array()
        with strip.rows("x") as (r, n, (x,)):
            n_whole = n - n % t.lanes
            with b.if_(n_whole < n):
                there = first_lanes(b, n - n_whole, t.lanes)
                x.set_vector(n_whole, b.select(there, x.vector(n_whole, t.lanes), low))
            top = b.var(t.vector, low)
            with b.loop(0, n, t.lanes) as i:
                score = x.vector(i, t.lanes)
                top.set(b.select(score > top.value, score, top.value))
            peak = b.fold_lanes(top.value, lambda y, z: b.select(y > z, y, z))
            peaks[r] = b.select(peak == -math.inf, 0.0, peak)
        with strip.rows("x") as (r, n, (x,)):
            total, peak = b.var(t.vector, 0.0), strip.spread(peaks, r)
            with b.loop(0, n, t.lanes) as i:
                weight = e.exp(x.vector(i, t.lanes) - peak)
                x.set_vector(i, weight)
                total.set(total.value + weight)
            whole = strip.sum_lanes(total.value)
            shares[r] = b.select(whole == 0.0, whole, 1.0 / whole)
        with strip.rows("x") as (r, n, (x,)):
            share = strip.spread(shares, r)
            with b.loop(0, n, t.lanes) as i:
                x.set_vector(i, x.vector(i, t.lanes) * share)
            strip.zeros_from(x, n)


def _write_softmax_gradient(module: Module, name: str, t: Tiling) -> None:
    """Weights p and their gradients g: g becomes that of the scores, p * (g - sum(p * g)), and zeros up to `end`."""
    with module.function(name, void, internal=True, p=ptr, g=ptr, **STRIP_ARGS) as b:
        strip = _Strip(b, t)
        means = strip.array()
        with strip.rows("p", "g") as (r, n, (p, g)):
            total = b.var(t.vector, 0.0)
            with b.loop(0, n, t.lanes) as i:
                total.set(b.fma(p.vector(i, t.lanes), g.vector(i, t.lanes), total.value))
            means[r] = strip.sum_lanes(total.value)
        with strip.rows("p", "g") as (r, n, (p, g)):
            mean = strip.spread(means, r)
            with b.loop(0, n, t.lanes) as i:
                g.set_vector(i, p.vector(i, t.lanes) * (g.vector(i, t.lanes) - mean))
            strip.zeros_from(g, n)


# ---- forward


def _write_forward(module: Module, name: str, gemm: Gemm) -> None:
    t, softmax = gemm.t, name + "_softmax"
    _write_softmax(module, softmax, t)
    with module.function(name + "_chunk", void, internal=True, context=ptr, chunk=i64) as b:
        h = _Head(b, gemm, ("query", "key", "value"), n_others=2)
        n_keys, n_features, n_values = h.n_keys, h.n_features, h.n_values
        strip_width = _rounded(n_keys, t.columns)
        first = b.arg("chunk") * h["chunk_heads"]
        with b.loop(first, smaller(b, first + h["chunk_heads"], h["n_heads"])) as head:
            h.begin(b.arg("chunk"), n_results=1)
            query, key, value = h.operands(head)
            keys = h.packed(key, h.take(strip_width * n_features), n_keys, n_features, turned=True)
            h.scale_all(keys, n_keys, n_features)
            values = h.in_place(value, h.take(_rounded(n_values, t.columns) * n_keys), n_values, n_keys)
            strip = _Operand(h.take(strip_width * MAX_ROWS), strip_width * t.size, b.const(i64, t.size))
            out_row = n_values * t.size
            out = b.byte_offset(h.buffers[5], head * h.n_queries * out_row)
            with b.loop(0, h["n_tiles"]) as tile:
                start, height, panel = h.tile(tile)
                n = h.visible(start + height)
                rows = query.rows_from(start)
                h.multiply(panel, height, rows, keys, _rounded(n, t.columns), n_features, strip.address, strip.row)
                b.call(module.defined[softmax], strip.address, *h.strip_args(start, height, n, strip))
                h.multiply(panel, height, strip, values, n_values, n, b.byte_offset(out, start * out_row), out_row)
    _write_entry(module, name)


def _write_entry(module: Module, name: str) -> None:
    """The routine itself: all chunks."""
    with module.function(name, i64, buffers=ptr, meta=ptr) as b:
        context = b.array(ptr, 2)
        context[0], context[1] = b.arg("buffers"), b.arg("meta")
        n_chunks = Pointer(b.arg("meta"), i64)[_HEAD.index("n_chunks")]
        parallel = module.declare("extempo_parallel", void, [ptr, ptr, i64])
        b.call(parallel, module.address_of(b, name + "_chunk"), context.address, n_chunks)
        b.ret(0)


# ---- backward


def _write_backward(module: Module, name: str, gemm: Gemm) -> None:
    t = gemm.t
    _write_softmax(module, name + "_softmax", t)
    _write_softmax_gradient(module, name + "_softmax_gradient", t)
    with module.function(name + "_chunk", void, internal=True, context=ptr, chunk=i64) as b:
        h = _Head(b, gemm, ("gradient", "query", "key", "value"), n_others=1)
        first = b.arg("chunk") * h["chunk_heads"]
        with b.loop(first, smaller(b, first + h["chunk_heads"], h["n_heads"])) as head:
            h.begin(b.arg("chunk"), n_results=3)
            _Backward(h, name, head).write()
    _write_entry(module, name)


class _Backward:
    """The gradients of one head."""

    def __init__(self, h: _Head, name: str, head: Value) -> None:
        b, t = h.b, h.t
        self.h, self.name, self.head = h, name, head
        self.gradient, self.query, self.key, self.value = h.operands(head)
        n_keys, n_features, n_values = h.n_keys, h.n_features, h.n_values
        self.features_width, self.values_width = (_rounded(n, t.columns) for n in (n_features, n_values))
        keys_width, width = _rounded(n_keys, t.columns), _rounded(n_keys, STRIP_SLIVERS * t.columns)
        self.keys = h.packed(self.key, h.take(keys_width * n_features), n_keys, n_features, turned=True)
        h.scale_all(self.keys, n_keys, n_features)
        self.values = h.packed(self.value, h.take(keys_width * n_values), n_keys, n_values, turned=True)
        self.key_rows = h.packed(self.key, h.take(self.features_width * n_keys), n_features, n_keys, turned=False)
        h.scale_all(self.key_rows, n_features, n_keys)
        n_rows = BLOCK_TILES * MAX_ROWS
        one = b.const(i64, t.size)
        self.weights = _Operand(h.take(width * n_rows), width * t.size, one)
        self.scores = _Operand(h.take(width * n_rows), width * t.size, one)
        self.spare_queries = h.take(self.features_width * n_rows)
        self.spare_gradients = h.take(self.values_width * n_rows)
        n_padded = _rounded(n_keys, MAX_ROWS)
        self.into_keys = self._zeros(n_padded, self.features_width)
        self.into_values = self._zeros(n_padded, self.values_width)

    def _zeros(self, n_rows: Value, width: Value) -> _Operand:
        h, b = self.h, self.h.b
        start = h.take(n_rows * width)
        zero = b.module.declare("llvm.memset.p0.i64", void, [ptr, i8, i64, i1])
        b.call(zero, start, 0, n_rows * width * h.t.size, 0)
        return _Operand(start, width * h.t.size, b.const(i64, h.t.size))

    def write(self) -> None:
        h, b = self.h, self.h.b
        with b.loop(0, h["n_tiles"], BLOCK_TILES) as first:
            last = smaller(b, first + BLOCK_TILES, h["n_tiles"])
            start, end = h.tile_start(first), h.tile_start(last)
            n_keys = h.visible(end)
            with b.loop(first, last) as tile:
                self._strip(tile, start, _rounded(n_keys, MAX_ROWS))
            self._into_keys_and_values(start, end - start, n_keys)
        self._deliver(self.into_keys, h.n_features, h.buffers[6], h.scale)
        self._deliver(self.into_values, h.n_values, h.buffers[7], 1.0)

    def _strip(self, tile: Value, block_start: Value, end: Value) -> None:
        """Weights and the gradients of scores for a few rows, and from these the rows' gradient."""
        h, b, t = self.h, self.h.b, self.h.t
        start, height, panel = h.tile(tile)
        n = h.visible(start + height)
        n_whole = _rounded(n, t.columns)
        weights, scores = (x.rows_from(start - block_start) for x in (self.weights, self.scores))
        query, gradient = (x.rows_from(start) for x in (self.query, self.gradient))
        h.multiply(panel, height, query, self.keys, n_whole, h.n_features, weights.address, weights.row)
        h.multiply(panel, height, gradient, self.values, n_whole, h.n_values, scores.address, scores.row)
        softmax, softmax_gradient = (b.module.defined[self.name + s] for s in ("_softmax", "_softmax_gradient"))
        args = h.strip_args(start, height, end, weights)
        b.call(softmax, weights.address, *args)
        b.call(softmax_gradient, weights.address, scores.address, *args)
        row = h.n_features * t.size
        out = b.byte_offset(h.buffers[5], (self.head * h.n_queries + start) * row)
        h.multiply(panel, height, scores, self.key_rows, h.n_features, n, out, row)

    def _into_keys_and_values(self, start: Value, n_rows: Value, n_keys: Value) -> None:
        """What a block of rows adds to the gradients of keys and values, a few keys at a time."""
        h, b, t = self.h, self.h.b, self.h.t
        queries = h.in_place(self.query.rows_from(start), self.spare_queries, h.n_features, n_rows)
        gradients = h.in_place(self.gradient.rows_from(start), self.spare_gradients, h.n_values, n_rows)
        panel, height = h["high_panel"], b.const(i64, MAX_ROWS)
        with b.loop(0, n_keys, MAX_ROWS) as key:
            # Rows before the first one that can see these keys add nothing.
            hidden = b.select(h.causal & (key > start), key - start, b.const(i64, 0))
            for strips, matrix, width, into in (
                (self.weights, gradients, self.values_width, self.into_values),
                (self.scores, queries, self.features_width, self.into_keys),
            ):
                # The transpose: keys are rows, and a step of the sum goes to the next row of the strips.
                first = b.byte_offset(strips.rows_from(hidden).address, key * t.size)
                turned = _Operand(first, b.const(i64, t.size), strips.row)
                seen = _Matrix(b.byte_offset(matrix.address, hidden * matrix.step), matrix.step, matrix.sliver)
                out = into.rows_from(key).address
                h.multiply(panel, height, turned, seen, width, n_rows - hidden, out, into.row, accumulate=True)

    def _deliver(self, source: _Operand, n_columns: Value, result: Value, scale: Value | float) -> None:
        """From scratch memory, where rows are whole slivers, to the result."""
        h, b, t = self.h, self.h.b, self.h.t
        out = Pointer(b.byte_offset(result, self.head * h.n_keys * n_columns * t.size), t.element)
        factor = b.as_value(scale, t.vector)
        with b.loop(0, h.n_keys) as i:
            row, to = Pointer(source.rows_from(i).address, t.element), out + i * n_columns
            n_whole = n_columns - n_columns % t.lanes
            with b.loop(0, n_whole, t.lanes) as j:
                to.set_vector(j, row.vector(j, t.lanes) * factor)
            with b.if_(n_whole < n_columns):
                mask = first_lanes(b, n_columns - n_whole, t.lanes)
                b.masked_store(row.vector(n_whole, t.lanes) * factor, to.at(n_whole), mask)


# ---- binding


def _up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple


class _Sizes(NamedTuple):
    lead: tuple[int, ...]
    n_queries: int
    n_keys: int
    n_features: int
    n_values: int


def _sizes(tensors: Sequence[InputType]) -> _Sizes | None:
    """The sizes of query, key, value and what else has their dtype; None if there is no native code for them."""
    given = [t for t in tensors if isinstance(t, TensorType)]
    query, key, value = given[:3]
    lead = broadcast_shapes(*(t.shape[:-2] for t in given))
    sizes = _Sizes(lead, query.shape[-2], key.shape[-2], query.shape[-1], value.shape[-1])
    known = query.dtype._name in ELEMENTS and all(t.dtype is query.dtype for t in given)
    return sizes if known and usable() and 0 not in (*lead, *sizes[1:]) else None


def _places(t: TensorType, n_lead: int, at: int, nothing: int) -> tuple[list[int], tuple[int, int]]:
    """Where the strides of an operand stand in meta, those of leading dimensions and of rows and columns.

    They begin `at`; `nothing` is where a zero stands, for dimensions that are not there or are broadcast.
    """
    own = [at + d if t.shape[d] > 1 else nothing for d in range(t.ndim - 2)]
    return [nothing] * (n_lead - len(own)) + own, (at + t.ndim - 2, at + t.ndim - 1)


def _meta(
    sizes: _Sizes, operands: Sequence[TensorType], is_causal: bool, gemm: Gemm, n_products: int, scratch: int
) -> tuple[int, ...]:
    """The numbers of a call. `n_products`: multiplications of one head; `scratch`: bytes for one chunk."""
    n_tiles, n_lead, n_heads = -(-sizes.n_queries // MAX_ROWS), len(sizes.lead), count(sizes.lead)
    tile_rows, n_taller = divmod(sizes.n_queries, n_tiles)
    n_chunks = max(1, min(n_heads, MAX_CHUNKS, n_heads * n_products // CHUNK_PRODUCTS))
    chunk_heads = -(-n_heads // n_chunks)
    panels = gemm.panel(tile_rows), gemm.panel(tile_rows + 1) if n_taller else 0, gemm.panel(MAX_ROWS)
    nothing = _LEAD_AT + n_lead * (len(operands) + 1)
    n_bound = nothing + 1 + 2 * len(operands)
    lead_places: list[list[int]] = []
    matrix_places: list[int] = []
    at = n_bound
    for t in operands:
        lead, matrix = _places(t, n_lead, at, nothing)
        lead_places.append(lead)
        matrix_places += matrix
        at += t.ndim
    leads = [n for d in reversed(range(n_lead)) for n in (sizes.lead[d], *(places[d] for places in lead_places))]
    head = (
        *sizes[1:], int(is_causal), n_tiles, tile_rows, n_taller, *panels,
        n_lead, n_heads, -(-n_heads // chunk_heads), chunk_heads, scratch, at, nothing + 1,
    )  # fmt: skip
    return (*head, *leads, 0, *matrix_places)


def _scratch_bytes(t: Tiling, *parts: int) -> int:
    """Parts of so many elements, each rounded up as `_Head.take` does."""
    return sum(_up(n * t.size, 64) for n in parts)


@routine("attention")
def bind_attention(types: tuple[InputType, ...], attrs: dict[str, Any]) -> Bound | None:
    query, key, value, mask, scale = types
    sizes = _sizes(types[:3])
    if sizes is None or isinstance(mask, TensorType) or isinstance(scale, TensorType):
        return None
    assert isinstance(query, TensorType)
    assert isinstance(key, TensorType)
    assert isinstance(value, TensorType)
    gemm = gemm_of(ELEMENTS[query.dtype._name])
    columns = gemm.t.columns
    width = _up(sizes.n_keys, columns)
    strips = width * MAX_ROWS
    scratch = _scratch_bytes(gemm.t, width * sizes.n_features, _up(sizes.n_values, columns) * sizes.n_keys, strips)
    n_products = sizes.n_queries * sizes.n_keys * (sizes.n_features + sizes.n_values)
    meta = _meta(sizes, (query, key, value), attrs["is_causal"], gemm, n_products, scratch)
    name = gemm.symbol("attention")
    result = TensorType((*sizes.lead, sizes.n_queries, sizes.n_values), query.dtype)
    address = build(name, lambda module: _write_forward(module, name, gemm))
    return Bound(address, "mmm-f", (result,), meta, scratch * meta[_HEAD.index("n_chunks")])


@routine("attention_gradient")
def bind_attention_gradient(types: tuple[InputType, ...], attrs: dict[str, Any]) -> Bound | None:
    g, query, key, value, scale = types
    sizes = _sizes((query, key, value, g))
    if sizes is None or isinstance(scale, TensorType):
        return None
    assert isinstance(g, TensorType)
    assert isinstance(query, TensorType)
    assert isinstance(key, TensorType)
    assert isinstance(value, TensorType)
    gemm = gemm_of(ELEMENTS[query.dtype._name])
    columns, n_keys = gemm.t.columns, sizes.n_keys
    features_width, values_width = _up(sizes.n_features, columns), _up(sizes.n_values, columns)
    width, n_rows, n_padded = _up(n_keys, STRIP_SLIVERS * columns), BLOCK_TILES * MAX_ROWS, _up(n_keys, MAX_ROWS)
    scratch = _scratch_bytes(
        gemm.t,
        _up(n_keys, columns) * sizes.n_features,
        _up(n_keys, columns) * sizes.n_values,
        features_width * n_keys,
        width * n_rows,
        width * n_rows,
        features_width * n_rows,
        values_width * n_rows,
        n_padded * features_width,
        n_padded * values_width,
    )
    n_products = sizes.n_queries * n_keys * (3 * sizes.n_features + 2 * sizes.n_values)
    meta = _meta(sizes, (g, query, key, value), attrs["is_causal"], gemm, n_products, scratch)
    name = gemm.symbol("attention_gradient")
    shapes = [(sizes.n_queries, sizes.n_features), (n_keys, sizes.n_features), (n_keys, sizes.n_values)]
    results = tuple(TensorType((*sizes.lead, *shape), query.dtype) for shape in shapes)
    address = build(name, lambda module: _write_backward(module, name, gemm))
    return Bound(address, "mmmmf", results, meta, scratch * meta[_HEAD.index("n_chunks")])
