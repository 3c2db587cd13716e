"""The native code of recurrent layers over packed rows, forward and backward.

Forward begins with one product: what the inputs of all rows give to the gates, put where the gates will be. Then
sequences go in blocks of a few: a block is taken through all of its steps before the next, so its states stay near, and
blocks know nothing of each other. A step multiplies the block's states with the weight, which was packed once, into a
*strip* of scratch memory, and then works on the gates of one row after the other. Final states, and in backward the
gradients of initial ones, are kept where they will be delivered.

All sizes and places are numbers in meta (NUMBERS), laid out by `recurrence.py`. The addresses of panels of 1 to
MAX_ROWS rows follow them, and in forward the product's plan and functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ..ir.builder import IRFunction, IRModule, Pointer, Value, i1, i8, i64, ptr, void
from ..ir.parallel import run_long
from ..lanes.emitter import Emitter
from .gemm import Gemm, GemmPlan
from .gemm_record import FIELDS, FUNCTIONS, OPERANDS, Record
from .gemm_tiles import MAX_ROWS, null
from .sweeps import SweepRow

# width: of all gates that the weight makes. descending: from the last step to the first. group: columns of the weight
# that all rows of a block are multiplied with before the next. What ends in _at is in bytes into the scratch memory.
NUMBERS = (
    "n_steps", "n_rows", "n_sequences", "n_features", "hidden", "width", "descending", "n_blocks", "block_rows",
    "n_taller", "n_chunks", "chunk_blocks", "group", "strip_row", "zeros_at", "strips_at", "strip_bytes",
)  # fmt: skip

LONG = 1 << 28  # products of a call that takes 5 ms and more on any processor: other Python threads run meanwhile


class RecurrenceCell(NamedTuple):
    """What differs between layers: the buffers of an op in order, and the code of one row."""

    inputs: tuple[str, ...]
    results: tuple[str, ...]
    states: tuple[tuple[str, str], ...]  # (where it comes from, where it is kept) for each
    row: Callable[[RecurrenceRun, _RecurrencePlace], None]
    # Forward: where the product of the inputs is put, and how many blocks of `hidden` columns that has.
    gates: str = ""
    n_blocks: int = 0
    # Backward: the rows that are multiplied with the weight, and whether that is added to what the state holds.
    multiplied: str = ""
    added: bool = False


class _RecurrencePlace(NamedTuple):
    """A row of a step: its number, that of its sequence, and its products with the weight (forward)."""

    row: Value
    sequence: Value
    strip: Pointer


class RecurrenceRun:
    """The code of one chunk of blocks while it is written."""

    def __init__(self, b: IRFunction, gemm: Gemm, cell: RecurrenceCell) -> None:
        self.b, self.t, self.gemm, self.cell = b, gemm.t, gemm, cell
        context = Pointer(b.arg("context"), ptr)
        self.buffers, self.meta = Pointer(context[0], ptr), Pointer(context[1], i64)
        self._names = (*cell.inputs, *cell.results, "scratch")
        self.hidden, self.width = self.number("hidden"), self.number("width")
        self.line = SweepRow(b, self.t.element, self.hidden, self.t.lanes)
        self.e = Emitter(b)
        self.zeros = b.byte_offset(self.buffer("scratch"), self.number("zeros_at"))

    def number(self, name: str) -> Value:
        return self.meta[NUMBERS.index(name)]

    def buffer(self, name: str) -> Value:
        return self.buffers[self._names.index(name)]

    def is_there(self, name: str) -> Value:
        return self.buffer(name) != 0

    def rows(self, name: str, row: Value, n_blocks: int = 1) -> Pointer:
        """Where a row of a matrix with blocks of `hidden` columns begins."""
        return Pointer(self.buffer(name), self.t.element) + row * self.hidden * n_blocks

    def row_or_zeros(self, name: str, row: Value, n_blocks: int = 1) -> Pointer:
        """The same, or zeros if there is no such matrix."""
        there = self.is_there(name)
        return Pointer(self.b.select(there, self.rows(name, row, n_blocks).address, self.zeros), self.t.element)

    def blocks_of(self, start: Pointer, n_blocks: int) -> list[Pointer]:
        return [start + self.hidden * k for k in range(n_blocks)]

    # ---- blocks of sequences, and their steps

    @contextmanager
    def blocks(self, chunk: Value) -> Iterator[tuple[Value, Value]]:
        """For each block: its first sequence and how many it has."""
        b = self.b
        first = chunk * self.number("chunk_blocks")
        last = b.smaller(first + self.number("chunk_blocks"), self.number("n_blocks"))
        with b.loop(first, last) as block:
            n_taller = self.number("n_taller")
            start = block * self.number("block_rows") + b.smaller(block, n_taller)
            yield start, self.number("block_rows") + b.cast("zext", block < n_taller, i64)

    def begin(self, first: Value, n: Value) -> None:
        """The states that a block starts from, zeros where none are given."""
        b = self.b
        copy = b.module.declare("memcpy", ptr, [ptr, ptr, i64])
        zero = b.module.declare("llvm.memset.p0.i64", void, [ptr, i8, i64, i1])
        for source, kept in self.cell.states:
            to, n_bytes = self.rows(kept, first).address, n * self.hidden * self.t.size
            given, missing = b.if_else(self.is_there(source))
            with given:
                b.call(copy, to, self.rows(source, first).address, n_bytes)
            with missing:
                b.call(zero, to, 0, n_bytes, 0)

    @contextmanager
    def steps(self, first: Value, n_sequences: Value) -> Iterator[tuple[Value, Value]]:
        """For each step that the block has: the first of its rows and how many there are."""
        b, n_steps, descending = self.b, self.number("n_steps"), self.number("descending") != 0
        sizes, zero = Pointer(self.buffer("sizes"), i64), b.const(i64, 0)
        passed = b.var(i64, b.select(descending, self.number("n_rows"), zero))
        with b.loop(0, n_steps) as i:
            size = sizes[b.select(descending, n_steps - 1 - i, i)]
            start = b.select(descending, passed.value - size, passed.value)
            passed.set(b.select(descending, start, start + size))
            with b.if_(size > first):
                yield start + first, b.smaller(size - first, n_sequences)

    def multiply(
        self, n: Value, a: Value, a_row: Value, k: Value, n_columns: Value, c: Value, c_row: Value, added: bool = False
    ) -> None:
        """c = a @ the packed weight, for n rows; c is `added` to or set. Strides in bytes."""
        b, t, rows = self.b, self.t, self.gemm.shared(self.b.module, "row_of_tiles")
        n_tiles = (n + (MAX_ROWS - 1)) // MAX_ROWS
        group = b.select(n_tiles == 1, n_columns, self.number("group"))
        with b.loop(0, n_columns, group) as column, b.loop(0, n_tiles) as tile:
            first = tile * n // n_tiles
            height = (tile + 1) * n // n_tiles - first
            panel = b.load(ptr, self.meta.at(height + (len(NUMBERS) - 1)))
            matrix = b.byte_offset(self.buffer("scratch"), column * k * t.size), t.sliver_step, k * t.sliver_step
            n_there, to = b.smaller(n_columns - column, group), b.byte_offset(c, first * c_row + column * t.size)
            left = b.byte_offset(a, first * a_row), a_row, t.size
            b.call(rows, panel, height, *left, *matrix, n_there, k, to, c_row, null(b), int(added))


def write_forward(module: IRModule, name: str, gemm: Gemm, cell: RecurrenceCell) -> None:
    t = gemm.t
    with module.function(name + "_chunk", void, internal=True, context=ptr, chunk=i64) as b:
        run = RecurrenceRun(b, gemm, cell)
        strip_row = run.number("strip_row")
        offset = run.number("strips_at") + b.arg("chunk") * run.number("strip_bytes")
        strip = b.byte_offset(run.buffer("scratch"), offset)
        with run.blocks(b.arg("chunk")) as (first, n_sequences):
            run.begin(first, n_sequences)
            with run.steps(first, n_sequences) as (row, n):
                state, kept = run.rows("h_n", first).address, run.hidden * t.size
                run.multiply(n, state, kept, run.hidden, strip_row // t.size, strip, strip_row)
                with b.loop(0, n) as r:
                    products = Pointer(b.byte_offset(strip, r * strip_row), t.element)
                    cell.row(run, _RecurrencePlace(row + r, first + r, products))
    _write_routine(module, name, gemm, cell, is_gradient=False)


def write_backward(module: IRModule, name: str, gemm: Gemm, cell: RecurrenceCell) -> None:
    t = gemm.t
    with module.function(name + "_chunk", void, internal=True, context=ptr, chunk=i64) as b:
        run = RecurrenceRun(b, gemm, cell)
        width_bytes, state_bytes = run.width * t.size, run.hidden * t.size
        with run.blocks(b.arg("chunk")) as (first, n_sequences):
            run.begin(first, n_sequences)
            with run.steps(first, n_sequences) as (row, n):
                with b.loop(0, n) as r:
                    cell.row(run, _RecurrencePlace(row + r, first + r, Pointer(run.zeros, t.element)))
                gates = b.byte_offset(run.buffer(cell.multiplied), row * width_bytes)
                into = run.rows("into_h", first).address
                run.multiply(n, gates, width_bytes, run.width, run.hidden, into, state_bytes, cell.added)
    _write_routine(module, name, gemm, cell, is_gradient=True)


class _RecurrenceCall:
    """A call of the routine while its code is written."""

    def __init__(self, b: IRFunction, gemm: Gemm, cell: RecurrenceCell) -> None:
        self.b, self.gemm, self.cell, self.size = b, gemm, cell, gemm.t.size
        self.buffers, self.meta = Pointer(b.arg("buffers"), ptr), Pointer(b.arg("meta"), i64)

    def number(self, name: str) -> Value:
        return self.meta[NUMBERS.index(name)]

    def buffer(self, name: str) -> Value:
        return self.buffers[(*self.cell.inputs, *self.cell.results, "scratch").index(name)]

    def decline_wrong_sizes(self) -> None:
        """The sizes of steps must be those of packed rows."""
        b, no = self.b, self.b.way_out(lambda: self.b.ret(1))
        sizes, last, total = Pointer(self.buffer("sizes"), i64), b.var(i64, self.number("n_sequences")), b.var(i64, 0)
        with b.loop(0, self.number("n_steps")) as i:
            no.take_if((sizes[i] < 0) | (sizes[i] > last.value))
            last.set(sizes[i])
            total.set(total.value + sizes[i])
        no.take_if(total.value != self.number("n_rows"))

    def project(self) -> None:
        """The product of all inputs, plus the bias, to where the gates will be."""
        b = self.b
        r = Record(b, b.array(i64, len(FIELDS)).address)
        fields, planned = Pointer(r.address, i64) + len(OPERANDS), self.meta + (len(NUMBERS) + MAX_ROWS)
        with b.loop(0, len(GemmPlan._fields) + len(FUNCTIONS)) as i:
            fields[i] = planned[i]
        row = self.number("n_features") * self.size
        for field, name in {"a": "x", "b": "input_weight", "bias": "input_bias", "c": self.cell.gates}.items():
            r[field] = self.buffer(name)
        r["scratch"], r["epilogue"] = self.buffer("scratch"), null(b)
        r["a_row"], r["a_step"], r["b_column"], r["b_step"] = row, self.size, row, self.size
        r["c_row"], r["first_row"] = self.number("hidden") * (self.cell.n_blocks * self.size), 0
        b.call(self.gemm.product(b.module, threads=True), r.address)

    def pack_weight(self, turned: bool) -> None:
        hidden, width, row = self.number("hidden"), self.number("width"), self.number("hidden") * self.size
        along = (row, self.size, width, hidden) if turned else (self.size, row, hidden, width)
        pack = self.gemm.shared(self.b.module, "pack_slivers")
        self.b.call(pack, self.buffer("weight"), *along, self.buffer("scratch"))
        zero = self.b.module.declare("llvm.memset.p0.i64", void, [ptr, i8, i64, i1])
        zeros = self.b.byte_offset(self.buffer("scratch"), self.number("zeros_at"))
        self.b.call(zero, zeros, 0, width * self.size, 0)


def _write_routine(module: IRModule, name: str, gemm: Gemm, cell: RecurrenceCell, is_gradient: bool) -> None:
    with module.function(name, i64, buffers=ptr, meta=ptr) as b:
        call, context = _RecurrenceCall(b, gemm, cell), b.array(ptr, 2)
        context[0], context[1] = b.arg("buffers"), b.arg("meta")
        call.decline_wrong_sizes()
        if not is_gradient:
            call.project()
        call.pack_weight(turned=not is_gradient)
        n_products = call.number("n_rows") * call.number("hidden") * call.number("width")
        run_long(b, name + "_chunk", context.address, call.number("n_chunks"), n_products >= LONG)
        b.ret(0)


# ---- rows


def _store(
    run: RecurrenceRun, i: Value, mask: Value | None, values: Sequence[Value], places: Sequence[Pointer]
) -> None:
    for value, place in zip(values, places, strict=True):
        run.line.store(value, place, i, mask)


def _lstm_row(run: RecurrenceRun, at: _RecurrencePlace) -> None:
    e, line = run.e, run.line
    gates, products = run.blocks_of(run.rows("gates", at.row, 4), 4), run.blocks_of(at.strip, 4)
    h, c = run.rows("h_n", at.sequence), run.rows("c_n", at.sequence)
    out, before_h, before_c = (run.rows(name, at.row) for name in ("rows", "before_h", "before_c"))

    def element(i: Value, mask: Value | None) -> None:
        sums = [line.load(p, i, mask) + line.load(q, i, mask) for p, q in zip(gates, products, strict=True)]
        made = [(e.tanh if k == 2 else e.sigmoid)(x) for k, x in enumerate(sums)]
        old = line.load(c, i, mask)
        _store(run, i, mask, [*made, line.load(h, i, mask), old], [*gates, before_h, before_c])
        new = made[1] * old + made[0] * made[2]
        y = made[3] * e.tanh(new)
        _store(run, i, mask, [new, y, y], [c, h, out])

    line.each(element)


def _lstm_gradient_row(run: RecurrenceRun, at: _RecurrencePlace) -> None:
    e, line = run.e, run.line
    gates, into = (run.blocks_of(run.rows(name, at.row, 4), 4) for name in ("gates", "into_x"))
    g, before = run.row_or_zeros("of_rows", at.row), run.rows("before_c", at.row)
    into_h, into_c = run.rows("into_h", at.sequence), run.rows("into_c", at.sequence)

    def element(j: Value, mask: Value | None) -> None:
        i, f, new, o = (line.load(p, j, mask) for p in gates)
        old = line.load(before, j, mask)
        bent = e.tanh(f * old + i * new)
        h = line.load(into_h, j, mask) + line.load(g, j, mask)
        c = line.load(into_c, j, mask) + h * o * (1.0 - bent * bent)
        slopes = c * new * (i * (1.0 - i)), c * old * (f * (1.0 - f)), c * i * (1.0 - new * new)
        _store(run, j, mask, [*slopes, h * bent * (o * (1.0 - o)), c * f], [*into, into_c])

    line.each(element)


def _gru_row(run: RecurrenceRun, at: _RecurrencePlace) -> None:
    e, line = run.e, run.line
    products = run.blocks_of(at.strip, 3)
    bias = run.blocks_of(run.row_or_zeros("bias", run.b.const(i64, 0)), 3)
    gates = run.blocks_of(run.rows("gates", at.row, 4), 4)
    state, out, before = run.rows("h_n", at.sequence), run.rows("rows", at.row), run.rows("before", at.row)

    def element(i: Value, mask: Value | None) -> None:
        given = [line.load(p, i, mask) for p in gates[:3]]
        own = [line.load(p, i, mask) + line.load(q, i, mask) for p, q in zip(products, bias, strict=True)]
        reset, update = e.sigmoid(given[0] + own[0]), e.sigmoid(given[1] + own[1])
        new, old = e.tanh(given[2] + reset * own[2]), line.load(state, i, mask)
        y = new + update * (old - new)
        _store(run, i, mask, [reset, update, new, own[2], old, y, y], [*gates, before, state, out])

    line.each(element)


def _gru_gradient_row(run: RecurrenceRun, at: _RecurrencePlace) -> None:
    line = run.line
    gates = run.blocks_of(run.rows("gates", at.row, 4), 4)
    into_x, into_state = (run.blocks_of(run.rows(name, at.row, 3), 3) for name in ("into_x", "into_state"))
    g, before = run.row_or_zeros("of_rows", at.row), run.rows("before", at.row)
    into_h = run.rows("into_h", at.sequence)

    def element(i: Value, mask: Value | None) -> None:
        reset, update, new, own = (line.load(p, i, mask) for p in gates)
        h = line.load(into_h, i, mask) + line.load(g, i, mask)
        into_new = h * (1.0 - update) * (1.0 - new * new)
        into_update = h * (line.load(before, i, mask) - new) * (update * (1.0 - update))
        into_reset = into_new * own * (reset * (1.0 - reset))
        made = [into_reset, into_update, into_new, into_reset, into_update, into_new * reset, h * update]
        _store(run, i, mask, made, [*into_x, *into_state, into_h])

    line.each(element)


def _rnn_row(relu: bool) -> Callable[[RecurrenceRun, _RecurrencePlace], None]:
    def row(run: RecurrenceRun, at: _RecurrencePlace) -> None:
        e, line = run.e, run.line
        state, out, before = run.rows("h_n", at.sequence), run.rows("rows", at.row), run.rows("before", at.row)

        def element(i: Value, mask: Value | None) -> None:
            value = line.load(out, i, mask) + line.load(at.strip, i, mask)
            y = e.maximum(value, 0.0) if relu else e.tanh(value)
            _store(run, i, mask, [line.load(state, i, mask), y, y], [before, state, out])

        line.each(element)

    return row


def _rnn_gradient_row(relu: bool) -> Callable[[RecurrenceRun, _RecurrencePlace], None]:
    def row(run: RecurrenceRun, at: _RecurrencePlace) -> None:
        line, into_h = run.line, run.rows("into_h", at.sequence)
        g, rows, into_x = run.row_or_zeros("of_rows", at.row), run.rows("rows", at.row), run.rows("into_x", at.row)

        def element(i: Value, mask: Value | None) -> None:
            h, y = line.load(into_h, i, mask) + line.load(g, i, mask), line.load(rows, i, mask)
            line.store(run.b.select(y > 0.0, h, 0.0) if relu else h * (1.0 - y * y), into_x, i, mask)

        line.each(element)

    return row


INPUTS = ("x", "input_weight", "input_bias", "weight")
LSTM = RecurrenceCell(
    (*INPUTS, "h", "c", "sizes"),
    ("rows", "h_n", "c_n", "gates", "before_h", "before_c"),
    (("h", "h_n"), ("c", "c_n")),
    _lstm_row,
    gates="gates",
    n_blocks=4,
)
LSTM_GRADIENT = RecurrenceCell(
    ("of_rows", "of_h", "of_c", "weight", "gates", "before_c", "sizes"),
    ("into_x", "into_h", "into_c"),
    (("of_h", "into_h"), ("of_c", "into_c")),
    _lstm_gradient_row,
    multiplied="into_x",
)
GRU = RecurrenceCell(
    (*INPUTS, "bias", "h", "sizes"),
    ("rows", "h_n", "gates", "before"),
    (("h", "h_n"),),
    _gru_row,
    gates="gates",
    n_blocks=4,
)
GRU_GRADIENT = RecurrenceCell(
    ("of_rows", "of_h", "weight", "gates", "before", "sizes"),
    ("into_x", "into_state", "into_h"),
    (("of_h", "into_h"),),
    _gru_gradient_row,
    multiplied="into_state",
    added=True,
)


def rnn(relu: bool) -> RecurrenceCell:
    results, states = ("rows", "h_n", "before"), (("h", "h_n"),)
    return RecurrenceCell((*INPUTS, "h", "sizes"), results, states, _rnn_row(relu), gates="rows", n_blocks=1)


def rnn_gradient(relu: bool) -> RecurrenceCell:
    return RecurrenceCell(
        ("of_rows", "of_h", "weight", "rows", "sizes"),
        ("into_x", "into_h"),
        (("of_h", "into_h"),),
        _rnn_gradient_row(relu),
        multiplied="into_x",
    )
