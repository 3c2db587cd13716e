"""Where the largest or smallest elements are: argmax, argmin, and max and min with indices, along one dimension.

The first of equal elements wins, and the first NaN wins over everything. Along a last dimension the extreme is found
first and then the first element that equals it; along others, eight neighbouring columns are walked down together.
"""

from __future__ import annotations

from ....core.types import TensorType, count, int64
from ..ir.builder import IRFunction, IRModule, Pointer, Type, Value, f32, i1, i8, i32, i64, ptr, vector
from .routine import Attrs, Bound, Inputs, build, element_of, routine
from .sweeps import LANES, SweepFold, SweepRow, fold_row, larger, part_range, parts_of, smaller, write_in_parts

PART_WORK = 1 << 16  # elements; about 30 us

_OUTER, _N, _INNER, _PER_PART, _N_PARTS = range(5)


class _ExtremeSearch:
    """What is looked for, in one dtype, and where the answers go."""

    def __init__(self, b: IRFunction, element: Type, most: bool, with_values: bool) -> None:
        words = Pointer(b.arg("context"), ptr)
        buffers, self.meta = Pointer(words[0], ptr), Pointer(words[1], i64)
        self.element = element
        self.most = most
        self.x = Pointer(buffers[0], element)
        self.values = Pointer(buffers[1], element) if with_values else None
        self.indices = Pointer(buffers[2 if with_values else 1], i64)
        self.first, self.last = part_range(b, self.meta[_OUTER], self.meta[_PER_PART])


def _write_rows(b: IRFunction, search: _ExtremeSearch) -> None:
    n = search.meta[_N]
    row = SweepRow(b, search.element, n)
    worst = float("-inf") if search.most else float("inf")
    with b.loop(search.first, search.last) as at:
        x = search.x + at * n
        best = SweepFold(b, row.type, worst, larger(b) if search.most else smaller(b))
        fold_row([best], row, lambda i, mask: [row.load(x, i, mask)])
        value = best.scalar()
        if search.values is not None:
            search.values[at] = value
        search.indices[at] = _first_place(b, row, x, value)


def _first_place(b: IRFunction, row: SweepRow, x: Pointer, value: Value) -> Value:
    """The first element that is `value` or NaN; there is one. Lanes beyond the end come after all others."""
    i = b.var(i64, 0)
    hit = b.var(i8, 0)

    def look(mask: Value | None) -> None:
        v = row.load(x, i.value, mask)
        hit.set(b.bitcast((v == value) | (v != v), i8))

    with b.while_(lambda: i.value < row.n_whole) as again:
        look(None)
        with b.if_(hit.value != 0):
            b.break_()
        again()
        i.set(i.value + LANES)
    with b.if_((i.value == row.n_whole) & (row.n_rest != 0)):
        look(row.mask())
    lane = b.call(b.module.declare("llvm.cttz.i8", i8, [i8, i1]), hit.value, 0)
    return i.value + b.cast("zext", lane, i64)


def _write_columns(b: IRFunction, search: _ExtremeSearch) -> None:
    n, inner = search.meta[_N], search.meta[_INNER]
    row = SweepRow(b, search.element, inner)
    index = vector(i32 if search.element is f32 else i64, LANES)
    with b.loop(search.first, search.last) as at:
        x = search.x + at * n * inner
        out = at * inner

        def columns(i: Value, mask: Value | None) -> None:
            best, place = b.var(row.type, row.load(x, i, mask)), b.var(index, 0)
            with b.loop(1, n) as k:
                v, so_far = row.load(x, k * inner + i, mask), best.value
                better = v > so_far if search.most else v < so_far
                better = (better | (v != v)) & (so_far == so_far)
                best.set(b.select(better, v, so_far))
                number = k if index.lane is i64 else b.cast("trunc", k, i32)
                place.set(b.select(better, b.splat(number, LANES), place.value))
            if search.values is not None:
                row.store(best.value, search.values, out + i, mask)
            found = place.value if index.lane is i64 else b.cast("sext", place.value, i64)
            row.store(found, search.indices, out + i, mask)

        row.each(columns)


def _write(module: IRModule, name: str, element: Type, most: bool, with_values: bool, in_rows: bool) -> None:
    def body(b: IRFunction) -> None:
        (_write_rows if in_rows else _write_columns)(b, _ExtremeSearch(b, element, most, with_values))

    write_in_parts(module, name, _N_PARTS, body)


def _register(op: str, most: bool, with_values: bool) -> None:
    @routine(op)
    def bind(types: Inputs, attrs: Attrs) -> Bound | None:
        (x,), dim = types, attrs["dim"]
        element = element_of(x)
        if element is None or 0 in x.shape:
            return None
        d = dim[0] if dim else 0
        outer, n, inner = count(x.shape[:d]), count(x.shape[d : d + 1]), count(x.shape[d + 1 :])
        if n >= 1 << 31:
            return None
        name = f"{op}_{element.suffix}_{'rows' if inner == 1 else 'columns'}"
        address = build(name, _write, element, most, with_values, inner == 1)
        shape = tuple(1 if k in dim else s for k, s in enumerate(x.shape) if attrs["keepdim"] or k not in dim)
        n_parts, per_part = parts_of(outer, n * inner, PART_WORK)
        indices, values = TensorType(shape, int64), TensorType(shape, x.dtype)
        writes = (values, indices) if with_values else (indices,)
        return Bound(address, "c", writes, (outer, n, inner, per_part, n_parts), in_parts=True)


for _op, _most in (("argmax", True), ("argmin", False)):
    _register(_op, _most, with_values=False)
for _op, _most in (("max_with_index", True), ("min_with_index", False)):
    _register(_op, _most, with_values=True)
