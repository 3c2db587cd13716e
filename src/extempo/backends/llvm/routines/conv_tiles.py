"""What native convolutions are made of: a product over scattered rows, transposed blocks, copies with a border.

A tile is a few rows and columns of a matrix product whose left operand is never laid out as a matrix: its element
(r, k) is `source[rows[r] + steps[k]]`. With pixels as rows and the kernel's places as steps that is a
convolution, with places as rows and pixels as steps its weight gradient. The right operand is packed, a row of columns
for each step.

Columns are output channels, and the left element is the same for all of them. Where groups are many and narrow,
columns are groups instead: each has its own left element, and the source is copied so that these are neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..ir.builder import IRFunction, IRModule, Pointer, Type, Value, i32, i64, ptr, vector, void

# Rows that are stored at once: of 6, the store runs over by 2.
STORED_ROWS = 8


class Shape(NamedTuple):
    """The form of a tile: "wide" or "narrow" in output channels, or "grouped" with groups as columns.

    12 sums and what they are made of fill 16 vector registers.
    """

    element: Type
    form: str

    @property
    def by_group(self) -> bool:
        return self.form == "grouped"

    @property
    def lanes(self) -> int:
        return 32 // self.element.nbytes

    @property
    def rows(self) -> int:
        return 6 if self.form == "wide" else 8

    @property
    def vectors(self) -> int:
        return 2 if self.form == "wide" else 1

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes

    @property
    def name(self) -> str:
        return f"{self.element.suffix}_{self.form}"


class TileNumbers:
    """Named int64 values in memory, loaded where they are used."""

    def __init__(self, b: IRFunction, address: Value, names: Sequence[str]) -> None:
        self.address = address
        self._at = b.pointer(address, i64)
        self._names = names

    def __getitem__(self, name: str) -> Value:
        return self._at[self._names.index(name)]

    def __setitem__(self, name: str, value: Value | int) -> None:
        self._at[self._names.index(name)] = value


def offset(table: Pointer, index: Value | int) -> Value:
    """An entry of a table of int32, as an index."""
    return table.address.b.cast("sext", table[index], i64)


def products(
    b: IRFunction,
    shape: Shape,
    source: Pointer,
    rows: Pointer,
    n_rows: Value,
    steps: Pointer,
    n_steps: Value,
    panel: Pointer,
) -> list[list[Value]]:
    """The sums of one tile: for each row its vectors.

    Of the last tile, rows behind `n_rows` are not kept and repeat its last one: what the table has next may lie behind
    the end of the source, where images of a block or results of a band are fewer.
    """
    lanes = shape.lanes
    starts = [source + offset(rows, b.smaller(n_rows - 1, r)) for r in range(shape.rows)]
    zero = vector(shape.element, lanes)
    sums = [[b.var(zero, 0.0) for _ in range(shape.vectors)] for _ in starts]
    with b.loop(0, n_steps) as k:
        step = offset(steps, k)
        right = [panel.vector(k * shape.columns + v * lanes, lanes) for v in range(shape.vectors)]
        for start, row in zip(starts, sums, strict=True):
            left = start.vector(step, lanes) if shape.by_group else b.splat(start[step], lanes)
            for total, factor in zip(row, right, strict=True):
                total.set(b.fma(left, factor, total.value))
    return [[total.value for total in row] for row in sums]


def transposed(b: IRFunction, block: Sequence[Value]) -> list[Value]:
    """A square block of vectors with rows and columns exchanged; only the last shuffles cross 128 bits."""
    if len(block) == 4:
        pairs = _shuffled(b, block, 1, [0, 4, 2, 6], [1, 5, 3, 7])
        return _shuffled(b, pairs, 2, [0, 1, 4, 5], [2, 3, 6, 7])
    pairs = _shuffled(b, block, 1, [0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15])
    fours = _shuffled(b, pairs, 2, [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15])
    in_order = [fours[i] for i in (0, 2, 1, 3, 4, 6, 5, 7)]
    return _shuffled(b, in_order, 4, [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15])


def _shuffled(b: IRFunction, block: Sequence[Value], distance: int, low: list[int], high: list[int]) -> list[Value]:
    """Rows i and i + distance combined, in place: the low half of what they become, then the high half."""
    out = list(block)
    for i in range(len(block)):
        if not i & distance:
            out[i] = b.shuffle(block[i], block[i + distance], low)
            out[i + distance] = b.shuffle(block[i], block[i + distance], high)
    return out


# ---- tables


TABLES = ("steps", "weight_steps", "rows", "results")
N_AXES = 4
# A phase of a convolution: for each table and each axis where the axis's entries begin, and how many there are.
PHASE = (
    "n_steps",
    "n_along",  # results along the axis that bands are cut from, and of all others together
    "n_across",
    *(f"{table}_{what}{axis}" for table in TABLES for axis in range(4) for what in ("at", "n")),
)


def write_tables(module: IRModule) -> None:
    """`tables(entries, phase, targets)`: each table is the sum of the entries of its axes, the first one fastest."""
    _write_expand(module)
    with module.function("tables", void, internal=True, entries=ptr, phase=ptr, targets=ptr) as b:
        entries, phase = b.pointer(b.arg("entries"), i32), b.pointer(b.arg("phase"), i64) + PHASE.index("steps_at0")
        targets = b.pointer(b.arg("targets"), ptr)
        with b.loop(0, len(TABLES)) as t:
            target, n = targets[t], b.var(i64, 1)
            Pointer(target, i32)[0] = 0
            with b.loop(0, N_AXES) as axis:
                word = phase + (t * N_AXES + axis) * 2
                b.call(module.defined["expand"], target, n.value, (entries + word[0]).address, word[1])
                n.set(n.value * word[1])


def _write_expand(module: IRModule) -> None:
    """Repeat the table so far for each entry of one more axis."""
    with module.function("expand", void, internal=True, table=ptr, n=i64, entries=ptr, n_entries=i64) as b:
        n, entries = b.arg("n"), b.pointer(b.arg("entries"), i32)
        target = b.pointer(b.arg("table"), i32)
        with b.loop(0, b.arg("n_entries")) as i:
            # From the last entry to the first, which is written where the table so far stands.
            at = b.arg("n_entries") - 1 - i
            entry, part = entries[at], target + at * n
            with b.loop(0, n) as j:
                part[j] = target[j] + entry


# ---- copies


COPY = (
    "source_start",  # of the part that is copied, in a plane of the source
    "copy_start",
    "copied_depths",
    "copied_rows",
    "copied_columns",
    "source_depth",  # elements from one depth to the next
    "source_row",
    "copy_depth",
    "copy_row",
    "source_plane",
    "copy_plane",
    "source_lane",  # from one column of a tile to the next, where columns are groups
    "band_axis",  # bands are cut from depths, rows or columns
    "band_first",  # where the first band begins along its axis, how far it is from there to the next, and its extent
    "band_step",
    "band_extent",
    "band_size",  # of the source along that axis
    "band_pitch",  # elements from one position to the next
    "band_copy_pitch",
)


def write_copy(module: IRModule, shape: Shape, names: Sequence[str]) -> None:
    """`copy(source, target, n_planes, n_lanes, band, numbers)`: planes of one band; the border around them stays."""
    _write_copy_row(module, shape)
    args = {"source": ptr, "target": ptr, "n_planes": i64, "n_lanes": i64, "band": i64, "numbers": ptr}
    with module.function("copy", void, internal=True, **args) as b:
        numbers = TileNumbers(b, b.arg("numbers"), names)
        begin = numbers["band_first"] + b.arg("band") * numbers["band_step"]
        first = b.select(begin < 0, 0, begin)
        length = b.smaller(begin + numbers["band_extent"], numbers["band_size"]) - first
        copied = [numbers[name] for name in ("copied_depths", "copied_rows", "copied_columns")]
        sizes = [b.select(numbers["band_axis"] == axis, length, n) for axis, n in enumerate(copied)]
        starts = numbers["source_start"] + first * numbers["band_pitch"]
        goes_to = numbers["copy_start"] + (first - begin) * numbers["band_copy_pitch"]
        source = b.pointer(b.arg("source"), shape.element) + starts
        target = b.pointer(b.arg("target"), shape.element) + goes_to
        with b.loop(0, b.arg("n_planes")) as c, b.loop(0, sizes[0]) as d:
            row_in = b.var(ptr, (source + (c * numbers["source_plane"] + d * numbers["source_depth"])).address)
            row_out = b.var(ptr, (target + (c * numbers["copy_plane"] + d * numbers["copy_depth"])).address)
            with b.loop(0, sizes[1]):
                lanes = (b.arg("n_lanes"), numbers["source_lane"]) if shape.by_group else ()
                b.call(module.defined["copy_row"], row_in.value, row_out.value, sizes[2], *lanes)
                row_in.set(Pointer(row_in.value, shape.element).at(numbers["source_row"]))
                row_out.set(Pointer(row_out.value, shape.element).at(numbers["copy_row"]))


def _write_copy_row(module: IRModule, shape: Shape) -> None:
    """One row, or one of each group with those of all groups interleaved."""
    lanes = shape.lanes
    args = {"source": ptr, "target": ptr, "n": i64} | ({"n_lanes": i64, "lane": i64} if shape.by_group else {})
    with module.function("copy_row", void, internal=True, **args) as b:
        source, target, n = (
            b.pointer(b.arg("source"), shape.element),
            b.pointer(b.arg("target"), shape.element),
            b.arg("n"),
        )
        plain = n >= lanes
        if shape.by_group:
            plain = plain & (b.arg("n_lanes") == lanes)
        long, short = b.if_else(plain)
        with long:
            done = b.var(i64, 0)
            with b.while_(lambda: done.value < n):
                # The last vectors may go over elements that are copied already.
                at = b.smaller(done.value, n - lanes)
                if shape.by_group:
                    block = [(source + b.arg("lane") * lane).vector(at, lanes) for lane in range(lanes)]
                    for i, column in enumerate(transposed(b, block)):
                        target.set_vector((at + i) * lanes, column)
                else:
                    target.set_vector(at, source.vector(at, lanes))
                done.set(done.value + lanes)
        with short:
            if shape.by_group:
                with b.loop(0, b.arg("n_lanes")) as lane, b.loop(0, n) as j:
                    target[j * lanes + lane] = source[b.arg("lane") * lane + j]
            else:
                with b.loop(0, n) as j:
                    target[j] = source[j]
