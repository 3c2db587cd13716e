"""Loops over long rows of numbers, eight lanes at a time: what reductions, softmaxes and norms are written with.

A row of n elements is n // 8 whole vectors and, where 8 does not divide n, a last one of which the mask says what
belongs to the row; nothing beyond it is touched.

A sum has one order, which follows from the number of its terms: every lane adds at most 16 terms into each of a few
accumulators, those are added as a tree, and the block totals are added with the rounding errors carried along. So an
error does not grow with the length, and is below that of a pairwise sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.builder import IRFunction, IRModule, Pointer, Type, Value, i32, i64, ptr, vector, void
from ..ir.parallel import run_parts

LANES = 8
MOST_PARTS = 4096  # more than threads could tell apart
IN_BLOCK = 16  # terms that go into one accumulator before its block is closed

# body(first element, mask or None for a whole vector)
Body = Callable[[Value, Value | None], None]
Term = Callable[[Value, Value | None], Sequence[Value]]
Combine = Callable[[Value, Value], Value]


class SweepRow:
    """The row of n elements while a function is written: how far whole vectors reach, and the mask of the rest.

    The mask is kept as integers as wide as an element, because lanes of one bit do not survive from block to block of
    the code without being repacked.
    """

    def __init__(self, b: IRFunction, element: Type, n: Value, lanes: int = LANES) -> None:
        self.b = b
        self.element = element
        self.lanes = lanes
        self.type = vector(element, lanes)
        self.n = n
        self.n_vectors = n >> (lanes.bit_length() - 1)
        self.n_whole = n & -lanes
        self.n_rest = n & (lanes - 1)
        word = i64 if element.bits == 64 else i32
        rest = self.n_rest if word is i64 else b.cast("trunc", self.n_rest, i32)
        inside = b.splat(rest, lanes) > b.lanes(vector(word, lanes), range(lanes))
        self._mask = b.cast("sext", inside, word)

    def mask(self) -> Value:
        """Which lanes of the last vector belong to the row."""
        return self._mask < 0

    def load(self, p: Pointer, i: Value, mask: Value | None, otherwise: float = 0.0) -> Value:
        """A vector of elements from the i-th on; `otherwise` in lanes beyond the end."""
        if mask is None:
            return p.vector(i, self.lanes)
        filled = self.b.const(vector(p.element, self.lanes), otherwise)
        if p.element.nbytes >= 4:
            return self.b.masked_load(p.at(i), mask, filled)
        lanes = self.b.array(p.element, self.lanes)
        lanes.set_vector(0, filled)
        with self.b.loop(0, self.n_rest) as lane:
            lanes[lane] = p[i + lane]
        return lanes.vector(0, self.lanes)

    def store(self, value: Value, p: Pointer, i: Value, mask: Value | None) -> None:
        if mask is None:
            p.set_vector(i, value)
        elif p.element.nbytes >= 4:
            self.b.masked_store(value, p.at(i), mask)
        else:
            lanes = self.b.array(p.element, self.lanes)
            lanes.set_vector(0, value)
            with self.b.loop(0, self.n_rest) as lane:
                p[i + lane] = lanes[lane]

    def each(self, body: Body) -> None:
        """Write `body` for every vector of the row."""
        with self.b.loop(0, self.n_whole, self.lanes) as i:
            body(i, None)
        self.rest(lambda mask: body(self.n_whole, mask))

    def rest(self, body: Callable[[Value], None]) -> None:
        """Write `body` for the last vector, if it is not whole."""
        with self.b.if_(self.n_rest != 0):
            body(self.mask())

    def constant(self, value: float) -> Value:
        return self.b.const(self.type, value)


class SweepFold:
    """Many vectors made into one by a combination that is the same in any order: a largest element, an `or`."""

    def __init__(self, b: IRFunction, type_: Type, identity: float, combine: Combine, unroll: int = 4) -> None:
        self.b = b
        self.identity = b.const(type_, identity)
        self.combine = combine
        self.unroll = unroll
        self.total = b.var(type_, self.identity)
        self.first = b.var(type_, self.identity)  # what the next block begins with
        self._slots = [b.var(type_) for _ in range(unroll)]

    def open(self) -> None:
        """Begin a block."""
        for slot in self._slots:
            slot.set(self.identity)
        self._slots[0].set(self.first.value)
        self.first.set(self.identity)

    def take(self, slot: int, value: Value) -> None:
        self._slots[slot].set(self.combine(self._slots[slot].value, value))

    def block(self) -> Value:
        """What the block has come to."""
        values = [slot.value for slot in self._slots]
        while len(values) > 1:
            values = [self.combine(a, c) for a, c in zip(values[::2], values[1::2], strict=True)]
        return values[0]

    def add(self, block: Value) -> None:
        self.total.set(self.combine(self.total.value, block))

    def lanes(self) -> Value:
        """The result of every lane."""
        return self.total.value

    def scalar(self) -> Value:
        """The result of all lanes."""
        return self.b.fold_lanes(self.lanes(), self.combine)


class SumSweep(SweepFold):
    """A floating sum. What rounding loses when a block is added is kept, and added at the end."""

    def __init__(self, b: IRFunction, type_: Type, unroll: int = 4) -> None:
        super().__init__(b, type_, 0.0, lambda x, y: x + y, unroll)
        self.lost = b.var(type_, self.identity)
        self.n_blocks = b.var(i64, 0)

    def add(self, block: Value) -> None:
        before = self.total.value
        after = before + block
        added = after - before
        self.lost.set(self.lost.value + ((before - (after - added)) + (block - added)))
        self.total.set(after)

    def lanes(self) -> Value:
        total, lost = self.total.value, self.lost.value
        # Once a total is infinite, what was lost is inf - inf.
        return self.b.select(lost == lost, total + lost, total)


def fold_together(folds: Sequence[SweepFold], n: Value, term: Callable[[Value], Sequence[Value]]) -> None:
    """Give term(0) to term(n - 1), a value for each fold, to the folds: all sums, or none of them."""
    b = folds[0].b
    if not isinstance(folds[0], SumSweep):
        _fold_block(folds, b.const(i64, 0), n, term)
        for fold in folds:
            fold.add(fold.block())
        return
    step, n_blocks = IN_BLOCK * folds[0].unroll, folds[0].n_blocks
    with b.loop(0, b.select(n > 0, n, 1), step) as start:  # one block at least, for what it begins with
        _fold_block(folds, start, b.smaller(start + step, n), term)
        blocks = [fold.block() for fold in folds]
        later, first = b.if_else(n_blocks.value > 0)
        with later:
            for fold, block in zip(folds, blocks, strict=True):
                fold.add(block)
        with first:
            for fold, block in zip(folds, blocks, strict=True):
                fold.total.set(block)
        n_blocks.set(n_blocks.value + 1)


def _fold_block(
    folds: Sequence[SweepFold], start: Value, stop: Value, term: Callable[[Value], Sequence[Value]]
) -> None:
    b, unroll = folds[0].b, folds[0].unroll
    for fold in folds:
        fold.open()
    wide = stop - ((stop - start) & (unroll - 1)) if unroll > 1 else stop
    with b.loop(start, wide, unroll) as k:
        for slot in range(unroll):
            for fold, value in zip(folds, term(k + slot), strict=True):
                fold.take(slot, value)
    if unroll > 1:
        with b.loop(wide, stop) as k:
            for fold, value in zip(folds, term(k), strict=True):
                fold.take(0, value)


def fold_row(folds: Sequence[SweepFold], row: SweepRow, term: Term) -> None:
    """Give every element of the row to the folds: term(first element, mask) -> a vector for each fold.

    The last vector goes first, if it is not whole; lanes beyond the end count as the fold's identity, whatever `term`
    has there.
    """
    b = row.b

    def begin(mask: Value) -> None:
        for fold, value in zip(folds, term(row.n_whole, mask), strict=True):
            fold.first.set(b.select(mask, value, fold.identity))

    row.rest(begin)
    fold_together(folds, row.n_vectors, lambda k: term(k * row.lanes, None))


def sum_row(row: SweepRow, term: Callable[[Value, Value | None], Value], unroll: int = 4) -> Value:
    """The sum of one function of the row's elements, as a number."""
    total = SumSweep(row.b, row.type, unroll)
    fold_row([total], row, lambda i, mask: [term(i, mask)])
    return total.scalar()


def write_row_of_sums(module: IRModule, name: str, element: Type) -> None:
    """`name(x, y, n_rows, n)`: y[j] is the sum of x[i][j] over at least one row, one after the other."""
    with module.function(name, void, internal=True, x=ptr, y=ptr, n_rows=i64, n=i64) as b:
        x, y, row = Pointer(b.arg("x"), element), Pointer(b.arg("y"), element), SweepRow(b, element, b.arg("n"))

        def column(i: Value, mask: Value | None) -> None:
            total = b.var(row.type, row.load(x, i, mask))
            with b.loop(1, b.arg("n_rows")) as k:
                total.set(total.value + row.load(x, k * row.n + i, mask))
            row.store(total.value, y, i, mask)

        row.each(column)


# ---- extremes


def larger(b: IRFunction) -> Combine:
    """The larger one; NaN wins. The accumulator comes first: it waits for one comparison only."""
    return lambda most, x: b.select(x != x, x, b.larger(x, most))


def smaller(b: IRFunction) -> Combine:
    """The smaller one; NaN wins."""
    return lambda least, x: b.select(x != x, x, b.smaller(x, least))


# ---- work in parts


def in_parts(b: IRFunction, part: str, n_parts: Value, *words: Value) -> None:
    """Call `void part(ptr context, i64 i)` for every i below n_parts, on the threads there are.

    The words are in the context, in order; `context_words` reads them.
    """
    context = b.array(i64, max(1, len(words)))
    for i, word in enumerate(words):
        if word.type is ptr:
            Pointer(context.address, ptr)[i] = word
        else:
            context[i] = word
    run_parts(b, part, context.address, n_parts)


def context_words(b: IRFunction, *types: Type) -> list[Value]:
    """The words of the context, in the function that runs one part."""
    return [Pointer(b.arg("context"), t)[i] for i, t in enumerate(types)]


def parts_of(n_units: int, unit_work: int, part_work: int) -> tuple[int, int]:
    """How many parts a job of equal units falls into, by its size alone, and how many units make one.

    Work is counted in elements; a part of `part_work` of them takes a few tens of microseconds.
    """
    n_parts = max(1, min(n_units, n_units * unit_work // part_work, MOST_PARTS))
    per_part = -(-n_units // n_parts)
    return max(1, -(-n_units // max(1, per_part))), max(1, per_part)


def part_range(b: IRFunction, n_units: Value, per_part: Value) -> tuple[Value, Value]:
    """The units of part `i`, an argument of the function: from, to."""
    first = b.arg("i") * per_part
    return first, b.smaller(first + per_part, n_units)


def write_part(module: IRModule, name: str, body: Callable[[IRFunction], None]) -> None:
    """A function that runs one part, for `in_parts`."""
    with module.function(name, void, internal=True, context=ptr, i=i64) as b:
        body(b)


def write_in_parts(module: IRModule, name: str, n_parts_at: int, part: Callable[[IRFunction], None]) -> None:
    """The routine `name` that only runs its parts: `meta` has their number, `buffers` and `meta` are their context."""
    write_part(module, "part", part)
    with module.function(name, i64, buffers=ptr, meta=ptr) as b:
        in_parts(b, "part", Pointer(b.arg("meta"), i64)[n_parts_at], b.arg("buffers"), b.arg("meta"))
        b.ret(0)
