"""Kernels of elementwise functions: one loop over rows, one over columns, whatever the operands' layout.

A kernel is `i64 k(ptr operands, ptr geometry)`; it returns 0, or 1 if an element was an error. `operands` holds the
addresses of the inputs, then of the results; `geometry` holds the number of rows and of columns, then every operand's
row stride in bytes, then every operand's column stride in bytes. How an input runs along a row is part of the kernel's
text: "1" side by side, "0" the same value for the whole row, "s" any stride. Results are contiguous. Sizes and values
are never part of it.

Several registers' worth of elements are done at once: while the processor waits for one register's result it goes on
with the next (`lanes_for`). The last elements of a row that are fewer are done by a second copy of the function's code,
on lanes that are masked; where the code is long, and LLVM would take its time for it twice, they are moved to memory
for as many elements as there are lanes instead, and the loop runs once more, on that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ....core.types import dtype
from ..ir.builder import (
    IRFunction,
    IRModule,
    IRVariable,
    Pointer,
    Type,
    Value,
    f32,
    f64,
    i1,
    i8,
    i32,
    i64,
    ptr,
    vector,
    void,
)
from ..lanes.emitter import Emitter

LANES = 8  # of elements of 8 bytes, and where each lane is fetched or computed by itself
WIDE, WIDEST = 16, 32  # of smaller ones; where the code is very long
LONG, VERY_LONG = 32, 96  # lines of code from which on there is no second copy, and that many lanes
# Body(emitter, input values) -> result values, in the dtypes of the results; bools are lanes of i1.
Body = Callable[[Emitter, list[Value]], Sequence[Value]]

MEMORY: dict[str, Type] = {"float32": f32, "float64": f64, "int64": i64, "int32": i32, "bool": i8}


def in_memory(d: dtype) -> Type:
    """The type of one element in memory."""
    return MEMORY[d._name]


def supported(d: dtype) -> bool:
    """Whether native elementwise kernels know this dtype."""
    return d._name in MEMORY


class _LoopOperand:
    """One operand while a kernel is written: where it begins, how it moves, how its lanes are got."""

    def __init__(self, b: IRFunction, index: int, n_operands: int, element: Type, kind: str, lanes: int) -> None:
        self.b = b
        self.lanes = lanes
        self.element = element
        self.is_bool = element is i8
        self.kind = kind
        geometry = b.pointer(b.arg("geometry"), i64)
        self.start = b.pointer(b.arg("operands"), ptr)[index]
        self.row_stride = geometry[2 + index]
        self.column_stride = geometry[2 + n_operands + index] if kind == "s" else None
        self.row: Value = self.start
        self.spread: Value | None = None
        self.place: IRVariable | None = None  # of the row, where that can change
        self.step: IRVariable | None = None  # and of the column stride

    def begin_row(self, row: Value) -> None:
        self.row = self.b.byte_offset(self.start, self.row_stride * row)
        if self.kind == "0":
            self.spread = self._register(self.b.splat(self.b.load(self.element, self.row), self.lanes))

    def _register(self, x: Value) -> Value:
        return x != 0 if self.is_bool else x

    def can_move(self) -> None:
        """From now on the row is where `move` says."""
        if self.kind != "0":
            self.place = self.b.var(ptr, self.row)
        if self.column_stride is not None:
            self.step = self.b.var(i64, self.column_stride)

    def look(self) -> None:
        """See where the row is now."""
        if self.place is not None:
            self.row = self.place.value
        if self.step is not None:
            self.column_stride = self.step.value

    def move(self, value: Value | None = None) -> None:
        """From now on the row is `lanes` elements in memory of our own, with this value."""
        if self.place is not None:
            lanes = self.b.array(self.element, self.lanes)
            if value is not None:
                lanes.set_vector(0, value)
            self.place.set(lanes.address)
        if self.step is not None:
            self.step.set(self.element.nbytes)

    def load(self, column: Value, rest: Value | None, mask: Value | None) -> Value:
        """`lanes` elements from `column` on; the first `rest` of them when there are fewer."""
        if self.spread is not None:
            return self.spread
        return self._register(self.raw(column, rest, mask))

    def raw(self, column: Value, rest: Value | None, mask: Value | None) -> Value:
        b = self.b
        if self.kind == "1" and rest is None:
            return Pointer(self.row, self.element).vector(column, self.lanes)
        if self.kind == "1" and self.element.nbytes >= 4:
            assert mask is not None
            zeros = b.const(vector(self.element, self.lanes), 0)
            return b.masked_load(Pointer(self.row, self.element).at(column), mask, zeros)
        return self._gather(column, rest)

    def _gather(self, column: Value, rest: Value | None) -> Value:
        """Lane by lane; beyond the end the last element again, which is there."""
        b = self.b
        stride = self.column_stride if self.column_stride is not None else b.const(i64, self.element.nbytes)
        out = b.undefined(vector(self.element, self.lanes))
        for lane in range(self.lanes):
            offset = b.const(i64, lane)
            if rest is not None:
                offset = b.select(rest > lane, offset, rest - 1)
            address = b.byte_offset(self.row, (column + offset) * stride)
            out = b.insert(out, b.load(self.element, address), lane)
        return out

    def store(self, value: Value, column: Value, rest: Value | None, mask: Value | None) -> None:
        b = self.b
        if self.is_bool:
            value = b.cast("zext", value, i8)
        if rest is None:
            b.store(value, Pointer(self.row, self.element).at(column))
            return
        assert mask is not None
        self._store_rest(value, Pointer(self.row, self.element).at(column), rest, mask)

    def move_back(self, row: Value, column: Value, rest: Value, mask: Value) -> None:
        """Store what was stored after `move` where it belongs."""
        value = Pointer(self.row, self.element).vector(0, self.lanes)
        self._store_rest(value, Pointer(row, self.element).at(column), rest, mask)

    def _store_rest(self, value: Value, address: Value, rest: Value, mask: Value) -> None:
        b = self.b
        if self.element.nbytes >= 4:
            b.masked_store(value, address, mask)
            return
        lanes = b.array(self.element, self.lanes)
        lanes.set_vector(0, value)
        with b.loop(0, rest) as i:
            Pointer(address, self.element)[i] = lanes[i]


def write_kernel(
    module: IRModule, name: str, body: Body, inputs: Sequence[dtype], results: Sequence[dtype], kinds: str
) -> None:
    """Write the kernel `name`. `kinds`: for each input "1", "0" or "s"."""
    code = probed(body, inputs)
    kinds += "1" * len(results)
    lanes = lanes_for(code, [*inputs, *results], kinds)
    with module.function(name, i64, operands=ptr, geometry=ptr) as b:
        n = len(inputs) + len(results)
        made = [
            _LoopOperand(b, i, n, in_memory(d), kind, lanes)
            for i, (d, kind) in enumerate(zip([*inputs, *results], kinds, strict=True))
        ]
        reads, writes = made[: len(inputs)], made[len(inputs) :]
        geometry = b.pointer(b.arg("geometry"), i64)
        n_rows, n_columns = geometry[0], geometry[1]
        n_whole = n_columns - n_columns % lanes
        refused = b.var(i1, 0)
        emitter = Emitter(b, refused, lanes)

        def step(column: Value, rest: Value | None, mask: Value | None) -> None:
            emitter.live = mask
            values = [x.load(column, rest, mask) for x in reads]
            for y, value in zip(writes, body(emitter, values), strict=True):
                y.store(value, column, rest, mask)

        def last_lanes() -> tuple[Value, Value, Value]:
            rest = n_columns - n_whole
            last = b.splat(b.cast("trunc", rest, i32), lanes)  # most elements have 32 bits, as masks then have
            return n_whole, rest, last > b.lanes(vector(i32, lanes), range(lanes))

        def twice() -> None:
            with b.loop(0, n_whole, lanes) as column:
                step(column, None, None)
            with b.if_(n_whole < n_columns):
                step(*last_lanes())

        def once() -> None:
            rows = [y.row for y in writes]
            for operand in made:
                operand.can_move()
            stop, has_moved, again = b.var(i64, n_whole), b.var(i1, 0), b.label("again")
            b.jump(again)
            b.start(again)
            for operand in made:
                operand.look()
            with b.loop(0, stop.value, lanes) as column:
                step(column, None, None)
            with b.if_(n_whole < n_columns):
                moved, there = b.if_else(has_moved.value)
                with moved:
                    last = last_lanes()
                    for y, row in zip(writes, rows, strict=True):
                        y.move_back(row, *last)
                with there:
                    last = last_lanes()
                    for x in reads:
                        x.move(x.raw(*last) if x.spread is None else None)
                    for y in writes:
                        y.move()
                    stop.set(lanes)
                    has_moved.set(1)
                    b.jump(again)

        with b.loop(0, n_rows) as row:
            for operand in made:
                operand.begin_row(row)
            if code.is_long:
                once()
            else:
                twice()
        b.ret(b.cast("zext", refused.value, i64))


class ProbedCode(NamedTuple):
    """What a function's code turned out to be, once it was written for LANES lanes."""

    n_lines: int
    may_refuse: bool  # whether an element can be an error
    calls: bool  # whether a function is called for each lane

    @property
    def is_long(self) -> bool:
        """Whether it is to be written once. Lanes that are made up must not be taken for errors."""
        return self.n_lines >= LONG and not self.may_refuse


def probed(body: Body, inputs: Sequence[dtype]) -> ProbedCode:
    """Write the code of a function, to see what it is."""
    module = IRModule()
    b = IRFunction(module, "probe", void, {f"x{i}": lanes_of(d, LANES) for i, d in enumerate(inputs)})
    emitter = Emitter(b, b.var(i1, 0), LANES)
    body(emitter, [b.arg(f"x{i}") for i in range(len(inputs))])
    return ProbedCode(b.n_lines, emitter.may_refuse, bool(module.imports))


def lanes_for(code: ProbedCode, operands: Sequence[dtype], kinds: str) -> int:
    """How many elements are done at once.

    Code of a hundred instructions that depend on each other fills the processor's window with one register's work: a
    chain of eight tanh takes 2.6 times as long as eight kernels of one, on four registers side by side 1.2 times.
    """
    wide = (in_memory(d).nbytes > 4 for d, kind in zip(operands, kinds, strict=True) if kind != "0")
    if code.calls or "s" in kinds or any(wide):
        return LANES
    return WIDEST if code.n_lines >= VERY_LONG else WIDE


def lanes_of(d: dtype, lanes: int) -> Type:
    """The type of an operand's lanes in registers."""
    return vector(i1 if in_memory(d) is i8 else in_memory(d), lanes)
