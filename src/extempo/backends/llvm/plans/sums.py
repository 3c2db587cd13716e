"""A cluster and sums of what it computes, as one instruction: elements are added up while they are in the cache.

The sums have the order that reductions.py gives them: the same pieces, blocks and lanes. What changes is when their
elements are made. The cluster's kernel runs on a block that fits the caches, then every sum takes that block:

    rows       short rows, some at a time
    long_rows  a stretch at a time; the state of the sum is kept in between
    columns    up to 64 rows (a piece of the sum) of some columns

An element that nobody else reads is *local*: its block is at the beginning of the memory that it would have filled,
so that memory is not gone through. Threads share tasks by their number alone.

`buffers`: the operands of the kernel, then for each sum its result and its scratch memory. `meta`: HEAD, three strides
in bytes of every operand (outer, down, along), whether it is local, and for each sum SUM.
"""

from __future__ import annotations

from typing import NamedTuple

from ..elementwise.broadcasting import CHUNK
from ..ir.builder import IRFunction, IRModule, Pointer, Type, Value, f32, f64, i64, ptr, vector, void
from ..routines.reductions import PIECE, ROWS_IN_PIECE, Summed, sum_of, write_join_columns, write_rows, write_strip
from ..routines.sweeps import LANES, SumSweep, SweepRow, fold_together, in_parts, part_range, parts_of, write_part
from .rows import MAX_OPERANDS
from .sharing import Shared

HEAD = (
    *("kernel", "n_operands", "n_sums", "outer", "n", "inner", "pieces"),
    *("block", "n_tasks", "per_part", "n_parts", "local"),
)
FIRST_OF_CUT = HEAD.index("outer")
N_OF_CUT = len(HEAD) - FIRST_OF_CUT
SUM = ("operand", "divided")
BLOCK = 1 << 13  # elements of a block of rows; of float32 and one result, 32 KB
WIDTH = 1 << 10  # columns of a block of these; smaller blocks, of fewer rows at a time or narrower, were slower
MAX_SUMS = 8
_STATE = 4 * LANES  # words of 8 bytes that the state of a sum takes: total, lost, first, and the number of blocks
_STRIDES = 3


class Cut(NamedTuple):
    """How the work is cut."""

    block: int  # columns; or rows, none if they are long and cut themselves
    n_tasks: int
    per_part: int
    n_parts: int
    local: int  # elements of a block


def cut_of(s: Summed) -> Cut:
    total = s.outer * s.n * s.inner
    if s.inner > 1:
        block = min(s.inner, WIDTH)
        n_tasks, local = s.outer * s.pieces * -(-s.inner // block), min(s.n, ROWS_IN_PIECE) * block
    else:
        block = min(BLOCK // s.n, s.outer)
        n_tasks, local = s.outer * s.pieces, block * s.n or BLOCK
    most = total // local  # parts of which each has room for a local block
    n_parts, per_part = parts_of(n_tasks, -(-total // n_tasks), max(CHUNK, -(-total // most)))
    return Cut(block, n_tasks, per_part, n_parts, local) if n_parts <= most else Cut(block, n_tasks, n_tasks, 1, local)


def cut_words(s: Summed) -> tuple[int, ...]:
    """What of the meta follows from how it is summed, from FIRST_OF_CUT on."""
    return (s.outer, s.n, s.inner, s.pieces, *cut_of(s))


def sums_meta(
    kernel: int, s: Summed, strides: list[tuple[int, int, int]], local: list[bool], sums: list[tuple[int, bool]]
) -> tuple[int, ...]:
    """`strides`: of every operand. `sums`: of each, which operand it adds up, and whether it is divided."""
    head = (kernel, len(strides), len(sums), *cut_words(s))
    return (*head, *[n for one in strides for n in one], *map(int, local), *[int(n) for one in sums for n in one])


class _SumCall:
    """What a part of the work reads, and the kernel's operands and geometry while it is called."""

    def __init__(self, b: IRFunction, size: int) -> None:
        self.b, self.size = b, size
        words = Pointer(b.arg("context"), ptr)
        self.buffers, self.meta, self.refused = Pointer(words[0], ptr), Pointer(words[1], i64), Pointer(words[2], i64)
        self.n = self["n_operands"]
        self.strides = self.meta + len(HEAD)
        self.local = self.strides + self.n * _STRIDES
        self.sums = self.local + self.n
        self.operands, self.geometry = b.array(ptr, MAX_OPERANDS), b.array(i64, 2 + 2 * MAX_OPERANDS)

    def __getitem__(self, name: str) -> Value:
        return self.meta[HEAD.index(name)]

    def begin(self, local_row: Value) -> None:
        """The strides of all blocks. `local_row`: elements from one row of a local block to the next."""
        b = self.b
        with b.loop(0, self.n) as i:
            is_local = self.local[i] != 0
            self.geometry[i + 2] = b.select(is_local, local_row * self.size, self.strides[i * _STRIDES + 1])
            self.geometry[self.n + i + 2] = self.strides[i * _STRIDES + 2]

    def run(self, outer: Value, row: Value, column: Value, n_rows: Value, n_columns: Value, room: Value) -> None:
        """The kernel on a block. `room`: where local blocks of this part begin, in bytes."""
        b = self.b
        with b.loop(0, self.n) as i:
            step = self.strides + i * _STRIDES
            offset = outer * step[0] + row * step[1] + column * step[2]
            self.operands[i] = b.byte_offset(self.buffers[i], b.select(self.local[i] != 0, room, offset))
        self.geometry[0], self.geometry[1] = n_rows, n_columns
        kernel = b.emit(ptr, f"inttoptr i64 {self['kernel'].text} to ptr")
        status = b.call_address(kernel, i64, self.operands.address, self.geometry.address)
        with b.if_(status != 0):
            self.refused[0] = status

    def summed(self, s: Value) -> tuple[Value, Value]:
        """(address, elements from row to row) of the block that sum `s` takes."""
        operand = self.sums[s * len(SUM)]
        return self.operands[operand], self.geometry[operand + 2] // self.size

    def target(self, s: Value) -> Value:
        """Where sum `s` puts what a task gives."""
        b, at = self.b, self.n + s * 2
        return b.select(self["pieces"] > 1, self.buffers[at + 1], self.buffers[at])

    def room(self) -> Value:
        return self.b.arg("i") * self["local"] * self.size


def _write_columns_part(module: IRModule, name: str, element: Type) -> None:
    """Tasks are (outer, piece of the rows, `block` columns)."""

    def body(b: IRFunction) -> None:
        call, size = _SumCall(b, element.nbytes), element.nbytes
        n, inner, pieces, block = (call[name] for name in ("n", "inner", "pieces", "block"))
        strips = (inner + (block - 1)) // block
        call.begin(block)
        room = call.room()
        first, last = part_range(b, call["n_tasks"], call["per_part"])
        with b.loop(first, last) as task:
            left, group = task % strips * block, task // strips
            at, top = group // pieces, group % pieces * ROWS_IN_PIECE
            n_rows, n_columns = b.smaller(n - top, ROWS_IN_PIECE), b.smaller(inner - left, block)
            call.run(at, top, left, n_rows, n_columns, room)
            with b.loop(0, call["n_sums"]) as s:
                x, stride = call.summed(s)
                y = b.byte_offset(call.target(s), (group * inner + left) * size)
                b.call(module.defined["strip"], x, y, n_rows, stride, n_columns)

    write_part(module, name, body)


def _write_resume(module: IRModule, element: Type) -> None:
    """`resume(x, state, n)`: go on with a sum by n vectors; a whole number of blocks, unless they are the last ones."""
    type_ = vector(element, LANES)
    with module.function("resume", void, internal=True, x=ptr, state=ptr, n=i64) as b:
        x, state = Pointer(b.arg("x"), element), Pointer(b.arg("state"), element)
        n_blocks = Pointer(b.arg("state"), i64)
        total = SumSweep(b, type_)
        total.total.set(state.vector(0, LANES))
        total.lost.set(state.vector(LANES, LANES))
        total.first.set(state.vector(2 * LANES, LANES))
        total.n_blocks.set(n_blocks[3 * LANES])
        fold_together([total], b.arg("n"), lambda k: [x.vector(k * LANES, LANES)])
        state.set_vector(0, total.total.value)
        state.set_vector(LANES, total.lost.value)
        state.set_vector(2 * LANES, total.first.value)
        n_blocks[3 * LANES] = total.n_blocks.value
    with module.function("begin", void, internal=True, x=ptr, state=ptr, n=i64) as b:
        x, state = Pointer(b.arg("x"), element), Pointer(b.arg("state"), element)
        row, zeros = SweepRow(b, element, b.arg("n")), b.const(type_, 0.0)
        for k in range(3):
            state.set_vector(k * LANES, zeros)
        Pointer(b.arg("state"), i64)[3 * LANES] = b.const(i64, 0)
        row.rest(lambda mask: state.set_vector(2 * LANES, b.select(mask, row.load(x, row.n_whole, mask), zeros)))
    with module.function("end", element, internal=True, state=ptr) as b:
        state, total = Pointer(b.arg("state"), element), SumSweep(b, type_)
        total.total.set(state.vector(0, LANES))
        total.lost.set(state.vector(LANES, LANES))
        b.ret(total.scalar())


def _write_rows_part(module: IRModule, name: str, element: Type) -> None:
    """Tasks are rows, which are never cut; `block` of them at a time."""

    def body(b: IRFunction) -> None:
        call, size = _SumCall(b, element.nbytes), element.nbytes
        n, block, none = call["n"], call["block"], b.const(i64, 0)
        call.begin(n)
        room = call.room()
        first, last = part_range(b, call["n_tasks"], call["per_part"])
        with b.loop(first, last, block) as task:
            n_rows = b.smaller(last - task, block)
            call.run(task, none, none, n_rows, n, room)
            with b.loop(0, call["n_sums"]) as s:
                x, _ = call.summed(s)
                y = b.byte_offset(call.target(s), task * size)
                b.call(module.defined["rows"], x, y, n, 1, 0, n_rows)

    write_part(module, name, body)


def _write_long_rows_part(module: IRModule, name: str, element: Type) -> None:
    """Tasks are pieces of rows. The rest that fills no vector comes first, as in `fold_row`."""

    def body(b: IRFunction) -> None:
        call = _SumCall(b, element.nbytes)
        defined, n, pieces, n_sums, one = module.defined, call["n"], call["pieces"], call["n_sums"], b.const(i64, 1)
        states = b.array(i64, MAX_SUMS * _STATE)
        call.begin(n)
        room = call.room()
        first, last = part_range(b, call["n_tasks"], call["per_part"])
        with b.loop(first, last) as task:
            at, start = task // pieces, task % pieces * PIECE
            length = b.smaller(n - start, PIECE)
            whole = length & -LANES

            def stretch(column: Value, width: Value, take: str, count: Value) -> None:
                with b.if_(width > 0):
                    call.run(at, b.const(i64, 0), start + column, one, width, room)
                with b.loop(0, n_sums) as s:
                    b.call(defined[take], call.summed(s)[0], states.at(s * _STATE), count)

            stretch(whole, length - whole, "begin", length - whole)
            with b.loop(0, b.select(whole > 0, whole, 1), BLOCK) as column:
                width = b.smaller(whole - column, BLOCK)
                stretch(column, width, "resume", width >> (LANES.bit_length() - 1))
            with b.loop(0, n_sums) as s:
                Pointer(call.target(s), element)[task] = b.call(defined["end"], states.at(s * _STATE))

    write_part(module, name, body)


def _write(module: IRModule, name: str, element: Type, kind: str) -> None:
    """The instruction."""
    if kind == "columns":
        write_strip(module, "strip", sum_of(element), True)
        write_join_columns(module, "join", "strip", element)
        _write_columns_part(module, "part", element)
    elif kind == "rows":
        write_rows(module, "rows", sum_of(element), True)
        _write_rows_part(module, "part", element)
    else:
        _write_resume(module, element)
        _write_long_rows_part(module, "part", element)
    with module.function(name, i64, buffers=ptr, meta=ptr) as b:
        buffers, meta, refused = Pointer(b.arg("buffers"), ptr), Pointer(b.arg("meta"), i64), b.array(i64, 1)
        head = {name: meta[i] for i, name in enumerate(HEAD)}
        refused[0] = b.const(i64, 0)
        in_parts(b, "part", head["n_parts"], buffers.address, meta.address, refused.address)
        n, outer, inner, pieces = head["n_operands"], head["outer"], head["inner"], head["pieces"]
        sums = meta + (n * (_STRIDES + 1) + len(HEAD))
        with b.loop(0, head["n_sums"]) as s:
            y, partial = buffers[n + s * 2], buffers[n + s * 2 + 1]
            if kind == "columns":
                with b.if_(pieces > 1):
                    b.call(module.defined["join"], partial, y, outer, pieces, inner)
            elif kind == "long_rows":
                with b.if_(pieces > 1):
                    _join_pieces(b, Pointer(partial, element), Pointer(y, element), outer, pieces)
            with b.if_(sums[s * len(SUM) + 1] != 0):
                row = SweepRow(b, element, outer * inner)
                whole, by = Pointer(y, element), b.cast("sitofp", head["n"], element)
                row.each(lambda i, mask: row.store(row.load(whole, i, mask) / b.splat(by, LANES), whole, i, mask))
        b.ret(refused[0])


def _join_pieces(b: IRFunction, partial: Pointer, y: Pointer, outer: Value, pieces: Value) -> None:
    """Sums of the sums of all pieces."""
    defined, state = b.module.defined, b.array(i64, _STATE).address
    with b.loop(0, outer) as row:
        x = partial + row * pieces
        b.call(defined["begin"], x.at(pieces & -LANES), state, pieces & (LANES - 1))
        b.call(defined["resume"], x.address, state, pieces >> (LANES.bit_length() - 1))
        y[row] = b.call(defined["end"], state)


def kind_of(s: Summed) -> str:
    """Which instruction adds up like this."""
    return "columns" if s.inner > 1 else "rows" if s.n <= BLOCK else "long_rows"


def _shared(element: Type, kind: str) -> Shared:
    name = f"plan_sum_{kind}_{element.suffix}"
    return Shared(name, lambda module: _write(module, name, element, kind))


SUMS = {(element, kind): _shared(element, kind) for element in (f32, f64) for kind in ("rows", "long_rows", "columns")}
