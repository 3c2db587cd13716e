"""Reductions as native code: sums, means, products, extremes, norms and truth over any dimensions.

The shape is worked off in passes over (outer, reduced, inner), from the last reduced dimensions to the first:
dimensions 0 and 2 of three take one pass along rows ("r", where inner is 1) and one down the columns ("c") of what
that left. A pass along rows runs through them in vectors; a pass down columns adds rows, four at a time, to a row of
results. The code depends on the dtype and on the kinds of passes, never on sizes.

Long rows and columns are cut into pieces by their size alone, each with a result of its own in scratch memory; these
are reduced again. Pieces are what threads share, so a result is the same on any number of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ....core.types import TensorType, count, int64
from ..elementwise.loops import MEMORY
from ..ir.builder import IRFunction, IRModule, Pointer, Type, Value, f32, f64, i8, i32, i64, ptr, vector, void
from .routine import Attrs, Bound, Inputs, build, routine, routine_code
from .sweeps import (
    LANES,
    SumSweep,
    SweepFold,
    SweepRow,
    fold_row,
    in_parts,
    larger,
    part_range,
    parts_of,
    smaller,
    write_part,
)

PIECE = 1 << 17  # elements of a piece of a long row
ROWS_IN_PIECE = 64  # rows of a piece of long columns; 4 are added as a tree, so 16 additions in a line
COLUMNS_IN_STRIP = 2048  # so that the row of results stays in the first cache
NARROW = 32  # columns; fewer leave vectors half empty
PART_WORK = 1 << 18  # elements; memory gives about that many in 30 us

# The numbers in `meta`: how many results there are and from how many elements each, then those of every pass.
_N_RESULTS, _N_REDUCED, _FIRST_PASS = range(3)
_PASS = ("outer", "n", "inner", "pieces", "strips", "n_tasks", "per_part", "n_parts", "partial", "target")


class ReductionKind:
    """What a reduction does to the elements, in one dtype."""

    def __init__(
        self,
        name: str,
        source: Type,
        fold: Callable[[IRFunction, Type], SweepFold],
        outside: float = 0.0,
        result: Type | None = None,
        change: Callable[[IRFunction, Value], Value] | None = None,
        finish: Callable[[IRFunction, Value, Value], Value] | None = None,
    ) -> None:
        self.name = f"{name}_{source.suffix}"
        self.source = source
        self.result = result or source
        self.fold = fold
        self.outside = outside  # an element that changes no result
        self.change = change  # of every element before it is combined
        self.finish = finish  # (result, elements that each is made of) -> result


def _sum(b: IRFunction, type_: Type) -> SweepFold:
    return SumSweep(b, type_) if type_.kind == "f" else SweepFold(b, type_, 0, lambda x, y: x + y)


def _product(b: IRFunction, type_: Type) -> SweepFold:
    return SweepFold(b, type_, 1, lambda x, y: x * y)


def sum_of(element: Type) -> ReductionKind:
    """A floating sum."""
    return ReductionKind("sum", element, _sum)


def _most(b: IRFunction, type_: Type) -> SweepFold:
    return SweepFold(b, type_, float("-inf"), larger(b))


def _least(b: IRFunction, type_: Type) -> SweepFold:
    return SweepFold(b, type_, float("inf"), smaller(b))


def _some(b: IRFunction, type_: Type) -> SweepFold:
    return SweepFold(b, type_, 0, lambda x, y: x | y)


def _every(b: IRFunction, type_: Type) -> SweepFold:
    return SweepFold(b, type_, 1, lambda x, y: x & y)


def _absolute(b: IRFunction, x: Value) -> Value:
    return b.intrinsic("fabs", x)


def _divided(b: IRFunction, total: Value, n: Value) -> Value:
    return total / b.cast("sitofp", n, total.type.lane)


def _root(b: IRFunction, total: Value, n: Value) -> Value:
    return b.intrinsic("sqrt", total)


# ---- along rows


def _loader(kind: ReductionKind, row: SweepRow, changed: bool) -> Callable[[Pointer, Value, Value | None], Value]:
    def load(p: Pointer, i: Value, mask: Value | None) -> Value:
        x = row.load(p, i, mask, kind.outside)
        return kind.change(row.b, x) if changed and kind.change is not None else x

    return load


def write_rows(module: IRModule, name: str, kind: ReductionKind, changed: bool) -> None:
    """Results `first` to `last`: one for each piece of each row of n elements."""
    element = kind.source if changed else kind.result
    with module.function(name, void, True, x=ptr, y=ptr, n=i64, pieces=i64, first=i64, last=i64) as b:
        n, pieces, first = b.arg("n"), b.arg("pieces"), b.arg("first")
        at, piece = b.var(i64, first // pieces), b.var(i64, first % pieces)
        with b.loop(first, b.arg("last")) as i:
            start = piece.value * PIECE
            row = SweepRow(b, element, b.smaller(n - start, PIECE))
            x = Pointer(b.arg("x"), element) + (at.value * n + start)
            Pointer(b.arg("y"), kind.result)[i] = _folded(kind, row, x, changed)
            piece.set(piece.value + 1)
            with b.if_(piece.value == pieces):
                piece.set(0)
                at.set(at.value + 1)


def _folded(kind: ReductionKind, row: SweepRow, x: Pointer, changed: bool) -> Value:
    fold, load = kind.fold(row.b, vector(kind.result, LANES)), _loader(kind, row, changed)
    fold_row([fold], row, lambda i, mask: [load(x, i, mask)])
    return fold.scalar()


# ---- down columns


def write_strip(module: IRModule, name: str, kind: ReductionKind, changed: bool) -> None:
    """One row of results from `n_rows` rows, at least one, `stride` elements apart."""
    element = kind.source if changed else kind.result
    with module.function(name, void, True, x=ptr, y=ptr, n_rows=i64, stride=i64, n_columns=i64) as b:
        x, y, stride = Pointer(b.arg("x"), element), Pointer(b.arg("y"), kind.result), b.arg("stride")
        row = SweepRow(b, element, b.arg("n_columns"))
        load = _loader(kind, row, changed)
        combine = kind.fold(b, vector(kind.result, LANES)).combine

        def add(value: Value, i: Value, mask: Value | None) -> None:
            row.store(combine(row.load(y, i, mask), value), y, i, mask)

        row.each(lambda i, mask: row.store(load(x, i, mask), y, i, mask))
        wide = ((b.arg("n_rows") - 1) & -4) + 1
        with b.loop(1, wide, 4) as k:
            rows = [x + (k + j) * stride for j in range(4)]

            def four(i: Value, mask: Value | None) -> None:
                v = [load(r, i, mask) for r in rows]
                add(combine(combine(v[0], v[1]), combine(v[2], v[3])), i, mask)

            row.each(four)
        with b.loop(wide, b.arg("n_rows")) as k:
            one = x + k * stride
            row.each(lambda i, mask: add(load(one, i, mask), i, mask))


class _ReductionPass:
    """The numbers of one pass, read from `meta`."""

    def __init__(self, at: Pointer) -> None:
        self._at = at

    def __getitem__(self, name: str) -> Value:
        return self._at[_PASS.index(name)]


def _write_part_of_rows(module: IRModule, name: str, rows: str) -> None:
    def body(b: IRFunction) -> None:
        words = Pointer(b.arg("context"), ptr)
        p = _ReductionPass(Pointer(words[2], i64))
        first, last = part_range(b, p["n_tasks"], p["per_part"])
        b.call(module.defined[rows], words[0], words[1], p["n"], p["pieces"], first, last)

    write_part(module, name, body)


def _write_part_of_columns(module: IRModule, name: str, strip: str, kind: ReductionKind, changed: bool) -> None:
    """Tasks are (outer, piece of the rows, strip of the columns)."""

    def body(b: IRFunction) -> None:
        words = Pointer(b.arg("context"), ptr)
        x, y = Pointer(words[0], kind.source if changed else kind.result), Pointer(words[1], kind.result)
        p = _ReductionPass(Pointer(words[2], i64))
        n, inner, pieces, strips = p["n"], p["inner"], p["pieces"], p["strips"]
        first, last = part_range(b, p["n_tasks"], p["per_part"])
        with b.loop(first, last) as task:
            left, group = task % strips * COLUMNS_IN_STRIP, task // strips
            at, top = group // pieces, group % pieces * ROWS_IN_PIECE
            n_rows, n_columns = b.smaller(n - top, ROWS_IN_PIECE), b.smaller(inner - left, COLUMNS_IN_STRIP)
            begin = (x + ((at * n + top) * inner + left)).address
            b.call(module.defined[strip], begin, (y + (group * inner + left)).address, n_rows, inner, n_columns)

    write_part(module, name, body)


def write_join_columns(module: IRModule, name: str, strip: str, element: Type) -> None:
    """The results of all pieces become one row, for each of `outer`; in place, 64 at a time, while there are more."""
    with module.function(name, void, True, x=ptr, y=ptr, outer=i64, pieces=i64, inner=i64) as b:
        x, inner = Pointer(b.arg("x"), element), b.arg("inner")
        with b.loop(0, b.arg("outer")) as at:
            rows = x + at * b.arg("pieces") * inner
            left = b.var(i64, b.arg("pieces"))
            with b.while_(lambda: left.value > ROWS_IN_PIECE):
                groups = (left.value + (ROWS_IN_PIECE - 1)) // ROWS_IN_PIECE
                with b.loop(0, groups) as g:
                    top = g * ROWS_IN_PIECE
                    n_rows = b.smaller(left.value - top, ROWS_IN_PIECE)
                    # Row g has gone into a result before it is written.
                    begin, end = (rows + top * inner).address, (rows + g * inner).address
                    b.call(module.defined[strip], begin, end, n_rows, inner, inner)
                left.set(groups)
            y = Pointer(b.arg("y"), element) + at * inner
            b.call(module.defined[strip], rows.address, y.address, left.value, inner, inner)


# ---- the whole


def _write(module: IRModule, name: str, kind: ReductionKind, passes: str) -> None:
    """The routine: pass after pass, then what is done to every result."""
    same = kind.change is None and kind.source is kind.result
    for index, changed in enumerate([True] if same else [True, False]):
        letters = passes if index == 0 and same else passes[0] if changed else passes
        if "r" in letters:
            write_rows(module, f"rows{index}", kind, changed)
            _write_part_of_rows(module, f"part_of_rows{index}", f"rows{index}")
        if "c" in letters:
            write_strip(module, f"strip{index}", kind, changed)
            _write_part_of_columns(module, f"part_of_columns{index}", f"strip{index}", kind, changed)
    again = 0 if same else 1
    if "c" in passes:
        write_join_columns(module, "join_columns", f"strip{again}", kind.result)
    with routine_code(module, name) as (b, buffers, meta):
        source = buffers[0]
        for number, letter in enumerate(passes):
            fields = meta + (_FIRST_PASS + number * len(_PASS))
            is_last = number == len(passes) - 1
            target = buffers[1] if is_last else b.byte_offset(buffers[2], _ReductionPass(fields)["target"])
            _write_pass(b, letter, again if number else 0, again, source, target, fields)
            source = target
        _write_finish(b, kind, Pointer(buffers[1], kind.result), meta)
        b.ret(0)


def _write_pass(
    b: IRFunction, letter: str, now: int, again: int, source: Value, target: Value, fields: Pointer
) -> None:
    defined, p = b.module.defined, _ReductionPass(fields)
    buffers = Pointer(b.arg("buffers"), ptr)
    made = b.var(ptr, target)
    with b.if_(p["pieces"] > 1):
        made.set(b.byte_offset(buffers[2], p["partial"]))
    part = f"part_of_rows{now}" if letter == "r" else f"part_of_columns{now}"
    in_parts(b, part, p["n_parts"], source, made.value, fields.address)
    with b.if_(p["pieces"] > 1):
        if letter == "r":
            b.call(defined[f"rows{again}"], made.value, target, p["pieces"], 1, 0, p["outer"])
        else:
            b.call(defined["join_columns"], made.value, target, p["outer"], p["pieces"], p["inner"])


def _write_finish(b: IRFunction, kind: ReductionKind, y: Pointer, meta: Pointer) -> None:
    if kind.finish is None:
        return
    finish, row = kind.finish, SweepRow(b, kind.result, meta[_N_RESULTS])
    row.each(lambda i, mask: row.store(finish(b, row.load(y, i, mask), meta[_N_REDUCED]), y, i, mask))


# ---- binding to sizes


class Summed(NamedTuple):
    """A floating sum that takes one pass over (outer, n, inner), for plans that make its elements part by part."""

    element: Type
    outer: int
    n: int
    inner: int
    pieces: int  # if there are several, their results are in the scratch memory
    divided: bool  # by n, at the end


def grouped(shape: tuple[int, ...], dim: tuple[int, ...]) -> list[tuple[bool, int]]:
    """Neighbouring dimensions taken together: (whether it is reduced, size), none of size 1."""
    groups: list[tuple[bool, int]] = []
    for d, size in enumerate(shape):
        if size == 1:
            continue
        reduced = d in dim
        if groups and groups[-1][0] == reduced:
            groups[-1] = (reduced, groups[-1][1] * size)
        else:
            groups.append((reduced, size))
    return groups


def _pass_numbers(outer: int, n: int, inner: int) -> dict[str, int]:
    """The numbers of a pass, without places."""
    if inner == 1:
        pieces, strips, work = max(1, -(-n // PIECE)), 1, min(n, PIECE)
    else:
        pieces, strips = max(1, -(-n // ROWS_IN_PIECE)), -(-inner // COLUMNS_IN_STRIP)
        work = min(n, ROWS_IN_PIECE) * min(inner, COLUMNS_IN_STRIP)
    n_tasks = outer * pieces * strips
    n_parts, per_part = parts_of(n_tasks, work, PART_WORK)
    numbers = (outer, n, inner, pieces, strips, n_tasks, per_part, n_parts, 0, 0)
    return dict(zip(_PASS, numbers, strict=True))


def _rows_side_by_side(n: int, inner: int) -> int:
    """How many rows of a long narrow matrix are seen as one, so that vectors are filled: a pass is left over those."""
    if not 1 < inner < NARROW or n < 4 * ROWS_IN_PIECE:
        return 1
    return next((k for k in (64, 32, 16, 8, 4, 2) if n % k == 0 and inner * k <= 4 * NARROW), 1)


def _passes(shape: tuple[int, ...], dim: tuple[int, ...]) -> list[dict[str, int]]:
    """The numbers of every pass, in the order in which they run."""
    groups = grouped(shape, dim)
    plans = []
    while any(reduced for reduced, _ in groups):
        last = max(i for i, (reduced, _) in enumerate(groups) if reduced)
        outer, inner = count(s for _, s in groups[:last]), count(s for _, s in groups[last + 1 :])
        n = groups[last][1]
        together = _rows_side_by_side(n, inner)
        plans.append(_pass_numbers(outer, n // together, inner * together))
        groups = [*groups[:last], *([(True, together)] if together > 1 else []), *groups[last + 1 :]]
    return plans or [_pass_numbers(count(shape), 1, 1)]  # nothing but dimensions of 1 is reduced: a copy


def bind_reduction(kind: ReductionKind, x: TensorType, result: TensorType, dim: tuple[int, ...]) -> Bound | None:
    """The reduction of x over `dim`; None without elements."""
    if 0 in x.shape:
        return None
    plans = _passes(x.shape, dim)
    scratch = 0
    for number, plan in enumerate(plans):
        n_bytes = plan["outer"] * plan["inner"] * kind.result.nbytes
        if plan["pieces"] > 1:
            plan["partial"] = scratch
            scratch += n_bytes * plan["pieces"]
        if number < len(plans) - 1:
            plan["target"] = scratch
            scratch += n_bytes
    passes = "".join("r" if plan["inner"] == 1 else "c" for plan in plans)
    address = build(f"{kind.name}_{passes}", _write, kind, passes)
    meta = (result.numel(), count(x.shape[d] for d in dim), *(n for plan in plans for n in plan.values()))
    parts = None
    if len(plans) == 1 and kind.fold is _sum and kind.source.kind == "f" and kind.change is None:
        outer, n, inner, pieces = (plans[0][name] for name in ("outer", "n", "inner", "pieces"))
        parts = Summed(kind.source, outer, n, inner, pieces, kind.finish is _divided)
    return Bound(address, "c", (result,), meta, scratch, parts=parts, in_parts=True)


def _reduced(x: TensorType, dim: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    kept = (1 if d in dim else s for d, s in enumerate(x.shape) if keepdim or d not in dim)
    return tuple(kept)


def _to_long(b: IRFunction, x: Value) -> Value:
    return x if x.type.bits == 64 else b.cast("zext" if x.type.bits == 8 else "sext", x, i64)


_INF = float("inf")
# By the dtypes they take and by the op: (fold, an element that changes nothing, change, finish).
_OF_FLOATS: dict[str, tuple[Any, float, Any, Any]] = {
    "sum": (_sum, 0.0, None, None),
    "mean": (_sum, 0.0, None, _divided),
    "prod": (_product, 1.0, None, None),
    "amax": (_most, -_INF, None, None),
    "amin": (_least, _INF, None, None),
    "norm_2": (_sum, 0.0, lambda b, x: x * x, _root),
    "norm_1": (_sum, 0.0, _absolute, None),
    "norm_inf": (_most, 0.0, _absolute, None),
    "norm_-inf": (_least, _INF, _absolute, None),
}
_OF_INTEGERS = {"sum": (_sum, 0), "prod": (_product, 1)}
_OF_BOOLS = {"any": (_some, 0), "all": (_every, 1)}


def _kind(name: str, element: Type | None) -> ReductionKind | None:
    if element in (f32, f64) and name in _OF_FLOATS:
        fold, outside, change, finish = _OF_FLOATS[name]
        return ReductionKind(name, element, fold, outside, change=change, finish=finish)
    if element in (i8, i32, i64) and name in _OF_INTEGERS:  # truth is counted
        change = None if element is i64 else _to_long
        return ReductionKind(name, element, *_OF_INTEGERS[name], result=i64, change=change)
    if element is i8 and name in _OF_BOOLS:
        return ReductionKind(name, element, *_OF_BOOLS[name])
    return None


def _register(op: str, result: Callable[[TensorType], Any]) -> None:
    @routine(op)
    def bind(types: Inputs, attrs: Attrs) -> Bound | None:
        (x,) = types
        name = op if op != "vector_norm" else f"norm_{attrs['ord']:g}"
        kind = _kind(name, MEMORY.get(x.dtype._name))
        if kind is None:
            return None
        shape = _reduced(x, attrs["dim"], attrs["keepdim"])
        return bind_reduction(kind, x, TensorType(shape, result(x)), attrs["dim"])


for _op in _OF_INTEGERS:
    _register(_op, lambda x: x.dtype if x.dtype.is_floating_point else int64)
for _op in ("mean", "amax", "amin", "vector_norm", "any", "all"):
    _register(_op, lambda x: x.dtype)
