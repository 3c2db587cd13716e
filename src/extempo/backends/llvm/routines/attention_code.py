"""The native code of attention: one head after the other, a few rows of the query at a time.

A *strip* is a few rows of scores in scratch memory: they become weights there, and in backward the gradients of scores.
Every function works on a *state*, an array on the stack of who runs the chunk: the call's buffers and meta, the chunk's
scratch memory, the head and where its operands begin. All sizes and places are numbers in meta (NUMBERS), laid out by
`attention.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ..ir.builder import IRFunction, IRModule, Pointer, Type, Value, f64, i1, i8, i64, ptr, void
from ..ir.parallel import run_shared
from ..lanes.emitter import Emitter
from .gemm import Gemm
from .gemm_tiles import MAX_ROWS, Tiling, first_lanes, null

BLOCK_TILES = 8  # strips of which backward keeps weights and gradients at a time
SIZES = ("n_queries", "n_keys", "n_features", "n_values", "is_causal", "n_tiles", "tile_rows", "n_taller")
PANELS = ("panel", "taller_panel", "high_panel")
SHARES = ("n_lead", "n_heads", "n_chunks", "chunk_heads", "scale_at", "operands_at", "scratch")
# Rows of strips, in bytes; widths of matrices in whole slivers, in elements; bytes into the chunk's scratch memory.
WIDTHS = ("strip_row", "features_width", "values_width")
PLACES = (
    "keys_at", "values_at", "rows_at", "strip_at", "scores_at", "query_rows_at", "gradient_rows_at", "into_keys_at",
    "into_values_at",
)  # fmt: skip
NUMBERS = (*SIZES, *PANELS, *SHARES, *WIDTHS, *PLACES)
# After NUMBERS, meta has (size, place of each operand's stride) for each leading dimension, a zero, the places of each
# operand's strides of rows and columns. The call adds the strides and the scale.
FORWARD = ("query", "key", "value")
BACKWARD = ("gradient", "query", "key", "value")
N_INPUTS = 5  # of both ops, whatever they are
_STATE = ("buffers", "meta", "scratch", "head", *BACKWARD, "rows", "rows_step", "rows_sliver")
_NUMBERS_OF_STATE = ("head", "rows_step", "rows_sliver")


class _AttentionOperand(NamedTuple):
    """A matrix while code is written: where it is and its strides in bytes."""

    address: Value
    row: Value
    column: Value

    def rows_from(self, row: Value) -> _AttentionOperand:
        return _AttentionOperand(self.address.b.byte_offset(self.address, row * self.row), self.row, self.column)


class _Matrix(NamedTuple):
    """What a row of tiles reads as its B."""

    address: Value
    step: Value
    sliver: Value


def rounded(n: Value, multiple: int) -> Value:
    return (n + (multiple - 1)) // multiple * multiple


class SoftmaxState:
    """The state, in one function that works on it."""

    def __init__(self, b: IRFunction, gemm: Gemm, names: Sequence[str], address: Value) -> None:
        self.b, self.t, self.gemm, self.names, self.address = b, gemm.t, gemm, names, address

    def _slot(self, name: str) -> Value:
        return self.b.byte_offset(self.address, 8 * _STATE.index(name))

    def __getitem__(self, name: str) -> Value:
        return self.b.load(i64 if name in _NUMBERS_OF_STATE else ptr, self._slot(name))

    def __setitem__(self, name: str, value: Value) -> None:
        self.b.store(value, self._slot(name))

    @property
    def meta(self) -> Pointer:
        return Pointer(self["meta"], i64)

    def number(self, name: str) -> Value:
        return self.meta[NUMBERS.index(name)]

    def numbers(self, *names: str) -> list[Value]:
        return [self.number(name) for name in names]

    def panel(self, name: str) -> Value:
        return self.b.load(ptr, self.meta.at(NUMBERS.index(name)))

    def place(self, name: str) -> Value:
        """A part of the scratch memory."""
        return self.b.byte_offset(self["scratch"], self.number(name))

    def result(self, index: int, row: Value, n_columns: Value) -> Value:
        """Where a row of a result begins, counted over all heads."""
        buffer = Pointer(self["buffers"], ptr)[N_INPUTS + index]
        return self.b.byte_offset(buffer, row * n_columns * self.t.size)

    def scale(self) -> Value:
        scale = self.b.bitcast(self.meta[self.number("scale_at")], f64)
        return scale if self.t.element is f64 else self.b.cast("fptrunc", scale, self.t.element)

    def operand(self, name: str) -> _AttentionOperand:
        strides = self.meta + (self.number("operands_at") + 2 * self.names.index(name))
        return _AttentionOperand(self[name], *(self.meta[strides[i]] * self.t.size for i in (0, 1)))

    def strips(self, name: str) -> _AttentionOperand:
        return _AttentionOperand(self.place(name), self.number("strip_row"), self.b.const(i64, self.t.size))

    # ---- rows

    def visible(self, end: Value) -> Value:
        """How many keys the rows before `end` can see."""
        n_keys = self.number("n_keys")
        return self.b.select(self.number("is_causal") != 0, self.b.smaller(end, n_keys), n_keys)

    def tile_start(self, tile: Value) -> Value:
        return tile * self.number("tile_rows") + self.b.smaller(tile, self.number("n_taller"))

    def tile(self, tile: Value) -> tuple[Value, Value, Value]:
        """First row, height and panel of a strip."""
        b = self.b
        taller = tile < self.number("n_taller")
        height = self.number("tile_rows") + b.cast("zext", taller, i64)
        return self.tile_start(tile), height, b.select(taller, self.panel("taller_panel"), self.panel("panel"))

    def strip_args(self, start: Value, height: Value, end: Value) -> tuple[Value, ...]:
        """What functions of a strip are given beside its address (STRIP_ARGS), for the rows from `start` on."""
        n_keys, growth, row = self.numbers("n_keys", "is_causal", "strip_row")
        return height, self.visible(start + 1), growth, n_keys, end, row

    # ---- products

    def packed(
        self, source: _AttentionOperand, out: Value, n_columns: Value, k: Value, turned: bool = False
    ) -> _Matrix:
        """A matrix with `n_columns` columns as slivers; `turned`: its transpose, whose columns are rows of `source`."""
        t = self.t
        column, step = (source.row, source.column) if turned else (source.column, source.row)
        self.b.call(self.gemm.shared(self.b.module, "pack_slivers"), source.address, column, step, n_columns, k, out)
        return _Matrix(out, self.b.const(i64, t.sliver_step), k * t.sliver_step)

    def slivers(self, place: str, k: Value) -> _Matrix:
        """What `packed` left at a place."""
        return _Matrix(self.place(place), self.b.const(i64, self.t.sliver_step), k * self.t.sliver_step)

    def scale_all(self, start: Value, n: Value) -> None:
        """Multiply packed slivers by the scale: then scores come out scaled."""
        b, t = self.b, self.t
        values, scale = Pointer(start, t.element), b.splat(self.scale(), t.lanes)
        with b.loop(0, n, t.lanes) as i:
            values.set_vector(i, values.vector(i, t.lanes) * scale)

    def in_place(self, source: _AttentionOperand, spare: Value, n_columns: Value, k: Value) -> _Matrix:
        """A matrix in place, if its columns are whole slivers side by side; else packed into `spare`."""
        b, t = self.b, self.t
        address, step, sliver = b.var(ptr, source.address), b.var(i64, source.row), b.var(i64, t.sliver_step)
        with b.if_((source.column != t.size) | (n_columns % t.columns != 0)):
            made = self.packed(source, spare, n_columns, k)
            address.set(made.address)
            step.set(made.step)
            sliver.set(made.sliver)
        return _Matrix(address.value, step.value, sliver.value)

    def multiply(
        self, panel: Value, height: Value, a: _AttentionOperand, matrix: _Matrix,
        n: Value, k: Value, c: Value, c_row: Value, accumulate: bool = False,
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

    def __init__(self, b: IRFunction, t: Tiling) -> None:
        self.b, self.t = b, t

    @contextmanager
    def rows(self, *strips: str) -> Iterator[tuple[Value, Value, list[Pointer]]]:
        """For each row: its number, how many scores it has, and where it begins in each of the strips."""
        b = self.b
        with b.loop(0, b.arg("height")) as r:
            n = b.smaller(b.arg("n") + r * b.arg("growth"), b.arg("n_keys"))
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
        with b.loop(rounded(n, t.lanes), b.arg("end"), t.lanes) as i:
            row.set_vector(i, b.const(t.vector, 0.0))


def write_softmax(module: IRModule, name: str, t: Tiling) -> None:
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
                top.set(b.larger(score, top.value))
            peak = b.fold_lanes(top.value, lambda y, z: b.larger(y, z))
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


def write_softmax_gradient(module: IRModule, name: str, t: Tiling) -> None:
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


# ---- calls, chunks and heads


class AttentionWriter:
    """Writes the routine `name`. What one head needs is written by `forward` or `backward`."""

    def __init__(self, module: IRModule, name: str, gemm: Gemm, names: Sequence[str]) -> None:
        self.module, self.name, self.gemm, self.names, self.t = module, name, gemm, names, gemm.t

    @contextmanager
    def function(self, part: str, **args: Type) -> Iterator[SoftmaxState]:
        """A function of the state."""
        with self.module.function(f"{self.name}_{part}", void, internal=True, state=ptr, **args) as b:
            yield SoftmaxState(b, self.gemm, self.names, b.arg("state"))

    def call(self, s: SoftmaxState, part: str, *args: Value) -> None:
        s.b.call(self.module.defined[f"{self.name}_{part}"], s.address, *args)

    def state_array(self, b: IRFunction) -> Value:
        return b.array(i64, len(_STATE)).address

    def write_find(self) -> None:
        """Where the operands of a head begin."""
        with self.function("find") as s:
            b, n = s.b, len(self.names)
            rest, offsets = b.var(i64, s["head"]), [b.var(i64, 0) for _ in self.names]
            with b.loop(0, s.number("n_lead")) as d:
                entry = s.meta + (d * (n + 1) + len(NUMBERS))
                place = rest.value % entry[0]
                rest.set(rest.value // entry[0])
                for i, offset in enumerate(offsets):
                    offset.set(offset.value + place * s.meta[entry[i + 1]])
            for i, offset in enumerate(offsets):
                s[self.names[i]] = b.byte_offset(Pointer(s["buffers"], ptr)[i], offset.value * self.t.size)

    def write_routine(self, n_results: int, parts: Sequence[str]) -> None:
        """The chunks of heads, each head with all `parts`, and the routine that runs them all."""
        module, chunk = self.module, self.name + "_chunk"
        with module.function(chunk, void, internal=True, context=ptr, chunk=i64) as b:
            s = SoftmaxState(b, self.gemm, self.names, self.state_array(b))
            context = Pointer(b.arg("context"), ptr)
            s["buffers"], s["meta"] = context[0], context[1]
            scratch = Pointer(context[0], ptr)[N_INPUTS + n_results]
            s["scratch"] = b.byte_offset(scratch, b.arg("chunk") * s.number("scratch"))
            first = b.arg("chunk") * s.number("chunk_heads")
            with b.loop(first, b.smaller(first + s.number("chunk_heads"), s.number("n_heads"))) as head:
                s["head"] = head
                for part in ("find", *parts):
                    self.call(s, part)
        with module.function(self.name, i64, buffers=ptr, meta=ptr) as b:
            context = b.array(ptr, 2)
            context[0], context[1] = b.arg("buffers"), b.arg("meta")
            n_chunks = Pointer(b.arg("meta"), i64)[NUMBERS.index("n_chunks")]
            run_shared(b, chunk, context.address, n_chunks)
            b.ret(0)


# ---- forward


def write_forward(module: IRModule, name: str, gemm: Gemm, kind: type[AttentionWriter] = AttentionWriter) -> None:
    """The routine of attention; `kind` says what it runs over."""
    w, t, softmax = kind(module, name, gemm, FORWARD), gemm.t, name + "_softmax"
    write_softmax(module, softmax, t)
    w.write_find()
    with w.function("prepare") as s:
        n_keys, n_features, n_values = s.numbers("n_keys", "n_features", "n_values")
        s.packed(s.operand("key"), s.place("keys_at"), n_keys, n_features, turned=True)
        s.scale_all(s.place("keys_at"), rounded(n_keys, t.columns) * n_features)
        rows = s.in_place(s.operand("value"), s.place("rows_at"), n_values, n_keys)
        s["rows"], s["rows_step"], s["rows_sliver"] = rows
    with w.function("strips") as s, s.b.loop(0, s.number("n_tiles")) as tile:
        b, strip = s.b, s.strips("strip_at")
        start, height, panel = s.tile(tile)
        n_queries, n_features, n_values = s.numbers("n_queries", "n_features", "n_values")
        n = s.visible(start + height)
        keys, values = s.slivers("keys_at", n_features), _Matrix(s["rows"], s["rows_step"], s["rows_sliver"])
        query = s.operand("query").rows_from(start)
        s.multiply(panel, height, query, keys, rounded(n, t.columns), n_features, strip.address, strip.row)
        b.call(module.defined[softmax], strip.address, *s.strip_args(start, height, n))
        out = s.result(0, s["head"] * n_queries + start, n_values)
        s.multiply(panel, height, strip, values, n_values, n, out, n_values * t.size)
    w.write_routine(1, ["prepare", "strips"])


# ---- backward


def write_backward(module: IRModule, name: str, gemm: Gemm, kind: type[AttentionWriter] = AttentionWriter) -> None:
    """The routine of attention's gradient; `kind` says what it runs over."""
    w, t = kind(module, name, gemm, BACKWARD), gemm.t
    write_softmax(module, name + "_softmax", t)
    write_softmax_gradient(module, name + "_softmax_gradient", t)
    w.write_find()
    _write_prepare(w)
    _write_strip(w)
    _write_add(w)
    with w.function("blocks") as s, s.b.loop(0, s.number("n_tiles"), BLOCK_TILES) as first:
        b = s.b
        last = b.smaller(first + BLOCK_TILES, s.number("n_tiles"))
        start, end = s.tile_start(first), s.tile_start(last)
        n_keys = s.visible(end)
        with b.loop(first, last) as tile:
            w.call(s, "strip", tile, start, rounded(n_keys, MAX_ROWS))
        w.call(s, "add", start, end - start, n_keys)
    _write_deliver(w)
    w.write_routine(3, ["prepare", "blocks", "deliver"])


def _write_prepare(w: AttentionWriter) -> None:
    """Keys and values packed as columns, keys also as rows; the sums that go into both are zeros."""
    t = w.t
    with w.function("prepare") as s:
        b = s.b
        n_keys, n_features, n_values = s.numbers("n_keys", "n_features", "n_values")
        key, value = s.operand("key"), s.operand("value")
        s.packed(key, s.place("keys_at"), n_keys, n_features, turned=True)
        s.scale_all(s.place("keys_at"), rounded(n_keys, t.columns) * n_features)
        s.packed(value, s.place("values_at"), n_keys, n_values, turned=True)
        s.packed(key, s.place("rows_at"), n_features, n_keys)
        s.scale_all(s.place("rows_at"), s.number("features_width") * n_keys)
        zero = w.module.declare("llvm.memset.p0.i64", void, [ptr, i8, i64, i1])
        for place, width in (("into_keys_at", "features_width"), ("into_values_at", "values_width")):
            b.call(zero, s.place(place), 0, rounded(n_keys, MAX_ROWS) * s.number(width) * t.size, 0)


def _write_strip(w: AttentionWriter) -> None:
    """Weights and the gradients of scores for a few rows of a block, and from these the rows' gradient."""
    t, defined = w.t, w.module.defined
    with w.function("strip", tile=i64, block_start=i64, end=i64) as s:
        b = s.b
        start, height, panel = s.tile(b.arg("tile"))
        n_queries, n_features, n_values = s.numbers("n_queries", "n_features", "n_values")
        n = s.visible(start + height)
        n_whole = rounded(n, t.columns)
        weights, scores = (s.strips(name).rows_from(start - b.arg("block_start")) for name in ("strip_at", "scores_at"))
        query, gradient = (s.operand(name).rows_from(start) for name in ("query", "gradient"))
        keys, values = s.slivers("keys_at", n_features), s.slivers("values_at", n_values)
        s.multiply(panel, height, query, keys, n_whole, n_features, weights.address, weights.row)
        s.multiply(panel, height, gradient, values, n_whole, n_values, scores.address, scores.row)
        args = s.strip_args(start, height, b.arg("end"))
        b.call(defined[w.name + "_softmax"], weights.address, *args)
        b.call(defined[w.name + "_softmax_gradient"], weights.address, scores.address, *args)
        rows = s.slivers("rows_at", s.number("n_keys"))
        out = s.result(0, s["head"] * n_queries + start, n_features)
        s.multiply(panel, height, scores, rows, n_features, n, out, n_features * t.size)


def _write_add(w: AttentionWriter) -> None:
    """Add to the gradients of keys and values what comes from a block of rows, a few keys at a time."""
    t = w.t
    with w.function("add", start=i64, n_rows=i64, n_keys=i64) as s:
        b = s.b
        start, n_rows = b.arg("start"), b.arg("n_rows")
        for strips_at, name, size, width_name, spare, into in (
            ("strip_at", "gradient", "n_values", "values_width", "gradient_rows_at", "into_values_at"),
            ("scores_at", "query", "n_features", "features_width", "query_rows_at", "into_keys_at"),
        ):
            rows = s.in_place(s.operand(name).rows_from(start), s.place(spare), s.number(size), n_rows)
            strips, width = s.strips(strips_at), s.number(width_name)
            with b.loop(0, b.arg("n_keys"), MAX_ROWS) as key:
                # Rows before the first one that can see these keys add nothing.
                hidden = b.select((s.number("is_causal") != 0) & (key > start), key - start, b.const(i64, 0))
                # The transpose: keys are rows, and a step of the sum goes to the next row of the strips.
                first = b.byte_offset(strips.rows_from(hidden).address, key * t.size)
                turned = _AttentionOperand(first, b.const(i64, t.size), strips.row)
                seen = _Matrix(b.byte_offset(rows.address, hidden * rows.step), rows.step, rows.sliver)
                out, out_row = b.byte_offset(s.place(into), key * width * t.size), width * t.size
                panel, height = s.panel("high_panel"), b.const(i64, MAX_ROWS)
                s.multiply(panel, height, turned, seen, width, n_rows - hidden, out, out_row, accumulate=True)


def _write_deliver(w: AttentionWriter) -> None:
    """The gradients of keys and values, from scratch memory, where rows are whole slivers, to the results."""
    t = w.t
    args = {"source": ptr, "width": i64, "n_rows": i64, "n_columns": i64, "out": ptr, "scale": t.element}
    copy = w.name + "_copy"
    with w.module.function(copy, void, internal=True, **args) as b:
        n_columns, factor = b.arg("n_columns"), b.splat(b.arg("scale"), t.lanes)
        n_whole = n_columns - n_columns % t.lanes
        mask = first_lanes(b, n_columns - n_whole, t.lanes)
        with b.loop(0, b.arg("n_rows")) as i:
            row = Pointer(b.arg("source"), t.element) + i * b.arg("width")
            to = Pointer(b.arg("out"), t.element) + i * n_columns
            with b.loop(0, n_whole, t.lanes) as j:
                to.set_vector(j, row.vector(j, t.lanes) * factor)
            with b.if_(n_whole < n_columns):
                b.masked_store(row.vector(n_whole, t.lanes) * factor, to.at(n_whole), mask)
    with w.function("deliver") as s:
        n_keys, n_features, n_values = s.numbers("n_keys", "n_features", "n_values")
        first = s["head"] * n_keys
        into_keys, into_values = s.place("into_keys_at"), s.place("into_values_at")
        one, copied = s.b.const(t.element, 1.0), w.module.defined[copy]
        features_width, values_width = s.numbers("features_width", "values_width")
        s.b.call(copied, into_keys, features_width, n_keys, n_features, s.result(1, first, n_features), s.scale())
        s.b.call(copied, into_values, values_width, n_keys, n_values, s.result(2, first, n_values), one)
