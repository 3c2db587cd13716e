"""Triangular systems, Cholesky factors and symmetric matrices, where LAPACK's blocks do not pay, as native code.

Systems and factors are computed in float64 and rounded once, as in NumPy. A system is solved row by row, all right-hand
sides at once: an upper triangle is a lower one whose rows and columns are counted from the end. A factor is found pivot
by pivot; where a matrix is not positive definite the routine declines, so that the NumPy kernel says which.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....core.types import TensorType, count, int32
from ..ir.builder import IRFunction, IRModule, IRVariable, Pointer, Type, Value, f64, i64, ptr, vector
from .routine import Attrs, Bound, Inputs, build, element_of, rounded_up, routine
from .sweeps import LANES, SweepRow, context_words, in_parts, part_range, parts_of, write_in_parts, write_part

MOST_ROWS, FEW_COLUMNS = 512, 32  # of a system; a larger one only with few right-hand sides
MOST_FACTORED = 256
TOGETHER = 4  # vectors of right-hand sides whose sums wait for each other's turn
PART_WORK = 1 << 17  # products; about 30 us

_SYSTEMS, _PER_PART, _N_PARTS, _N, _K, _A_STEP, _B_STEP, _SIGN, _UNIT, _ROW, _COLUMN = range(11)


def _wide(b: IRFunction, x: Value) -> Value:
    return x if x.type.lane is f64 else b.cast("fpext", x, f64)


def _narrow(b: IRFunction, x: Value, element: Type) -> Value:
    return x if element is f64 else b.cast("fptrunc", x, element)


def _dot(b: IRFunction, x: Pointer, y: Pointer, n: Value) -> Value:
    """Of two rows that lie in one piece, in float64."""
    zero = b.const(vector(f64, LANES), 0.0)
    sums = [b.var(vector(f64, LANES), zero) for _ in range(TOGETHER)]

    def take(total: IRVariable, i: Value) -> None:
        total.set(b.fma(_wide(b, x.vector(i, LANES)), _wide(b, y.vector(i, LANES)), total.value))

    wide, whole = n & -(TOGETHER * LANES), n & -LANES
    with b.loop(0, wide, TOGETHER * LANES) as i:
        for v, total in enumerate(sums):
            take(total, i + v * LANES)
    with b.loop(wide, whole, LANES) as i:
        take(sums[0], i)
    lanes = (sums[0].value + sums[1].value) + (sums[2].value + sums[3].value)
    result = b.var(f64, b.fold_lanes(lanes, lambda p, q: p + q))
    with b.loop(whole, n) as i:
        result.set(b.fma(_wide(b, x[i]), _wide(b, y[i]), result.value))
    return result.value


class _System:
    """One system while its code is written: where its matrix, its right-hand sides and its unknowns are."""

    def __init__(self, b: IRFunction, element: Type, buffers: Pointer, meta: Pointer, number: Value) -> None:
        self.b, self.meta, self.n, self.k = b, meta, meta[_N], meta[_K]
        size = self.n * self.k
        self.a = Pointer(buffers[0], element) + number * meta[_A_STEP]
        self.right = Pointer(buffers[1], element) + number * meta[_B_STEP]
        self.y = Pointer(buffers[2], element) + number * size
        self.x = self.y if element is f64 else Pointer(buffers[3], f64) + number * size
        is_upper = meta[_SIGN] < 0
        self.last = b.select(is_upper, self.n - 1, 0)  # what is counted as the first row

    def at(self, i: Value) -> Value:
        """The number of a row that is counted from the end in an upper triangle."""
        return self.last + i * self.meta[_SIGN]

    def factor(self, i: Value, j: Value) -> Value:
        return _wide(self.b, self.a[self.at(i) * self.meta[_ROW] + self.at(j) * self.meta[_COLUMN]])

    def solve(self) -> None:
        is_vector = (self.k == 1) & (self.meta[_COLUMN] == 1)
        by_dots, by_columns = self.b.if_else(is_vector)
        with by_dots:
            self._solve_vector()
        with by_columns:
            self._solve_columns()

    def _solve_vector(self) -> None:
        """One right-hand side, rows of the matrix in one piece: dot products with the unknowns that are known."""
        b = self.b
        is_upper = self.meta[_SIGN] < 0
        with b.loop(0, self.n) as i:
            at = self.at(i)
            known = b.select(is_upper, at + 1, 0)
            total = b.var(f64, _wide(b, self.right[at]))
            total.set(total.value - _dot(b, self.a + (at * self.meta[_ROW] + known), self.x + known, i))
            with b.if_(self.meta[_UNIT] == 0):
                total.set(total.value / self.factor(i, i))
            self.x[at] = total.value
            if self.x is not self.y:
                self.y[at] = _narrow(b, total.value, self.y.element)

    def _solve_columns(self) -> None:
        columns = SweepRow(self.b, f64, self.k)
        with self.b.loop(0, self.n) as i:
            wide = columns.n_whole - columns.n_whole % (TOGETHER * LANES)
            with self.b.loop(0, wide, TOGETHER * LANES) as first:
                self._row(columns, i, [first + v * LANES for v in range(TOGETHER)], None)
            with self.b.loop(wide, columns.n_whole, LANES) as first:
                self._row(columns, i, [first], None)
            columns.rest(lambda mask: self._row(columns, i, [columns.n_whole], mask))

    def _row(self, columns: SweepRow, i: Value, firsts: Sequence[Value], mask: Value | None) -> None:
        """Some columns of unknown i: its right-hand sides less what the unknowns before it account for."""
        b, start = self.b, self.at(i) * self.k
        sums = [b.var(columns.type, _wide(b, columns.load(self.right, start + first, mask))) for first in firsts]
        with b.loop(0, i) as j:
            factor = b.splat(-self.factor(i, j), LANES)
            before = self.at(j) * self.k
            for total, first in zip(sums, firsts, strict=True):
                total.set(b.fma(factor, columns.load(self.x, before + first, mask), total.value))
        with b.if_(self.meta[_UNIT] == 0):
            pivot = b.splat(self.factor(i, i), LANES)
            for total in sums:
                total.set(total.value / pivot)
        for total, first in zip(sums, firsts, strict=True):
            columns.store(total.value, self.x, start + first, mask)
            if self.x is not self.y:
                columns.store(_narrow(b, total.value, self.y.element), self.y, start + first, mask)


def _write_solve(module: IRModule, name: str, element: Type) -> None:
    def body(b: IRFunction) -> None:
        words = context_words(b, ptr, ptr)
        buffers, meta = Pointer(words[0], ptr), Pointer(words[1], i64)
        first, end = part_range(b, meta[_SYSTEMS], meta[_PER_PART])
        with b.loop(first, end) as number:
            _System(b, element, buffers, meta, number).solve()

    write_in_parts(module, name, _N_PARTS, body)


@routine("solve_triangular")
def bind_solve_triangular(types: Inputs, attrs: Attrs) -> Bound | None:
    """X with A X = B. A matrix may lie in any order; batches are one after the other, or one matrix serves all."""
    a, right = types
    element = element_of(a)
    n, k = right.shape[-2:]
    lead, a_lead, b_lead = (a if a.ndim >= right.ndim else right).shape[:-2], a.shape[:-2], right.shape[:-2]
    if element is None or 0 in (*a.shape, *right.shape) or (n > MOST_ROWS and k > FEW_COLUMNS):
        return None
    if any(own not in ((), lead) for own in (a_lead, b_lead)):
        return None  # batches that broadcast against each other
    n_systems, steps = count(lead), (n * n if a_lead else 0, n * k if b_lead else 0)
    n_parts, per_part = parts_of(n_systems, n * n * k, PART_WORK)
    numbers = (n_systems, per_part, n_parts, n, k, *steps, -1 if attrs["upper"] else 1, int(attrs["unitriangular"]))
    address = build(f"solve_triangular_{element.suffix}", _write_solve, element)
    writes = (TensorType((*lead, n, k), a.dtype),)
    scratch = 0 if element is f64 else n_systems * n * k * f64.nbytes
    if a_lead:
        return Bound(address, "cc", writes, (*numbers, n, 1), scratch)
    return Bound(address, "sc", writes, numbers, scratch)


# ---- Cholesky

_F_MATRICES, _F_PER_PART, _F_N_PARTS, _F_N, _F_STEP = range(5)


def _factor(b: IRFunction, a: Pointer, upper: Pointer, step: Value, n: Value, broken: Pointer) -> None:
    """The upper factor of one matrix, pivot by pivot; `broken` is set where one is not positive.

    Rows are `step` apart, a multiple of the lanes; what stands left of the diagonal and beyond the end is not read.
    """
    with b.loop(0, n) as i, b.loop(i, n) as j:
        upper[i * step + j] = b.const(f64, 0.5) * (_wide(b, a[i * n + j]) + _wide(b, a[j * n + i]))
    with b.loop(0, n) as k:
        row = upper + k * step
        pivot = row[k]
        with b.if_(~(pivot > 0.0)):
            broken[0] = 1
        root = b.splat(b.intrinsic("sqrt", pivot), LANES)
        with b.loop(k & -LANES, step, LANES) as j:
            row.set_vector(j, row.vector(j, LANES) / root)
        with b.loop(k + 1, n) as i:
            below, factor = upper + i * step, b.splat(-row[i], LANES)
            with b.loop(i & -LANES, step, LANES) as j:
                below.set_vector(j, b.fma(factor, row.vector(j, LANES), below.vector(j, LANES)))


def _write_cholesky(module: IRModule, name: str, element: Type) -> None:
    def part(b: IRFunction) -> None:
        arrays, numbers, found = context_words(b, ptr, ptr, ptr)
        buffers, meta, broken = Pointer(arrays, ptr), Pointer(numbers, i64), Pointer(found, i64)
        n, step = meta[_F_N], meta[_F_STEP]
        first, end = part_range(b, meta[_F_MATRICES], meta[_F_PER_PART])
        with b.loop(first, end) as number:
            a, y = (Pointer(buffers[k], element) + number * (n * n) for k in range(2))
            upper = Pointer(buffers[3], f64) + number * (n * step)
            _factor(b, a, upper, step, n, broken)
            with b.loop(0, n) as i, b.loop(0, n) as j:
                y[i * n + j] = _narrow(b, b.select(j <= i, upper[j * step + i], 0.0), element)

    write_part(module, name + "_part", part)
    with module.function(name, i64, buffers=ptr, meta=ptr) as b:
        broken = b.array(i64, 1)
        broken[0] = 0
        n_parts = Pointer(b.arg("meta"), i64)[_F_N_PARTS]
        in_parts(b, name + "_part", n_parts, b.arg("buffers"), b.arg("meta"), broken.address)
        b.ret(broken[0])


@routine("cholesky")
def bind_cholesky(types: Inputs, attrs: Attrs) -> Bound | None:
    """L with L @ L.T = A, and info, which is 0: what has another one is left to NumPy."""
    (a,) = types
    element = element_of(a)
    n = a.shape[-1]
    if element is None or 0 in a.shape or n > MOST_FACTORED:
        return None
    n_matrices = count(a.shape[:-2])
    n_parts, per_part = parts_of(n_matrices, n * n * n // 6, PART_WORK)
    step = rounded_up(n, LANES)
    address = build(f"cholesky_{element.suffix}", _write_cholesky, element)
    writes = (a, TensorType(a.shape[:-2], int32))
    return Bound(
        address, "c", writes, (n_matrices, per_part, n_parts, n, step), n_matrices * n * step * f64.nbytes, zeroed=True
    )


# ---- symmetric matrices

_M_N, _M_ROWS, _M_PER_PART, _M_N_PARTS, _M_UPPER = range(5)


def _write_mirrored(module: IRModule, name: str, element: Type) -> None:
    def body(b: IRFunction) -> None:
        words = context_words(b, ptr, ptr)
        buffers, meta = Pointer(words[0], ptr), Pointer(words[1], i64)
        n, is_upper = meta[_M_N], meta[_M_UPPER] != 0
        first, end = part_range(b, meta[_M_ROWS], meta[_M_PER_PART])
        with b.loop(first, end) as row:
            i = row % n
            begin = (row - i) * n
            a, y = Pointer(buffers[0], element) + begin, Pointer(buffers[1], element) + begin
            with b.loop(0, n) as j:
                is_read = b.select(is_upper, j >= i, j <= i)
                y[i * n + j] = a[b.select(is_read, i * n + j, j * n + i)]

    write_in_parts(module, name, _M_N_PARTS, body)


@routine("mirrored")
def bind_mirrored(types: Inputs, attrs: Attrs) -> Bound | None:
    """The symmetric matrix that has one triangle of another."""
    (a,) = types
    element = element_of(a)
    if element is None or 0 in a.shape:
        return None
    n = a.shape[-1]
    n_parts, per_part = parts_of(count(a.shape[:-1]), n, PART_WORK)
    address = build(f"mirrored_{element.suffix}", _write_mirrored, element)
    return Bound(address, "c", (a,), (n, count(a.shape[:-1]), per_part, n_parts, int(attrs["upper"])))
