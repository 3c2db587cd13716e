"""Native convolution and transposed convolution: one function for both, driven by tables.

A transposed convolution with a stride falls into phases: results whose distance from the border leaves the same rest
modulo the stride see the same places of the kernel, one step of the source apart. Each phase is a plain convolution of
stride 1; a convolution is a single phase. For each phase the tables of rows (pixels of the result), of steps (channels
and places of the kernel) and the packed weights are made, and the images are shared out among threads.

Channels fall into units, each with a source of its own: a group, or as many groups as a tile has columns. A unit has
panels of as many result channels as a tile has columns.
"""

from __future__ import annotations

from ..ir.builder import IRFunction, IRModule, Pointer, Value, i1, i32, i64, ptr, vector, void
from ..ir.parallel import run_parts
from .conv_tiles import (
    COPY,
    PHASE,
    STORED_ROWS,
    TABLES,
    Shape,
    TileNumbers,
    offset,
    products,
    transposed,
    write_copy,
    write_tables,
)
from .layout import fill_zeros

# TileNumbers that the weight gradient has, too.
COMMON = (
    "n_images",
    "n_items",  # bands of images, or blocks of images whose rows share tiles
    "items_per_chunk",
    "n_chunks",
    "n_bands",
    "images_per_block",
    "band",  # results of each phase in a band
    "band_result",  # elements from one band to the next in the result
    "image_pitch",  # from one image to the next, in what is read
    "source_image",  # and in the source
    "source_unit",
    "copies",  # whether a copy is read
    "copy_bytes",
    *COPY,
    "channels",  # of a unit's source; of each group where columns are groups
    "n_units",
    "n_panels",
    "n_columns",  # in all panels of a unit, or in all units
    "columns_per_unit",  # by how many columns the units before a unit reduce that
    "columns_per_panel",
    "result_image",  # elements from one to the next in the result (in its gradient)
    "result_unit",
    "result_panel",
    "result_column",
    "weight_unit",  # and in the weight
    "weight_panel",
    "weight_column",
    "phases",  # address of the phases, and of the entries of their tables' axes
    "entries",
    *(f"{table}_at" for table in TABLES),  # offsets in the scratch memory, in bytes
    "panels_at",
    "copies_at",
)
META = (*COMMON, "n_phases", "contiguous", "has_bias", "bias_unit", "bias_panel", "bias_column")
CONTEXT = ("buffers", "meta", "phase")
PACKED_STEPS = 64  # at once: what all columns write stays in the nearest cache
SOURCE, WEIGHT, BIAS, RESULT, SCRATCH = range(5)


class TilePlace:
    """Where a function that got a context finds operands, numbers and tables."""

    def __init__(self, b: IRFunction, context: Value, shape: Shape, names: tuple[str, ...], n_operands: int) -> None:
        self.b = b
        self.shape = shape
        words = Pointer(context, ptr)
        self.meta = TileNumbers(b, words[1], names)
        self.phase = TileNumbers(b, words[2], PHASE)
        self._addresses = b.pointer(words[0], ptr)
        self._n_operands = n_operands

    def operand(self, index: int) -> Pointer:
        return Pointer(self._addresses[index], self.shape.element)

    def at(self, name: str) -> Value:
        """A part of the scratch memory, which follows the operands."""
        return self.b.byte_offset(self._addresses[self._n_operands], self.meta[name])

    def table(self, name: str) -> Pointer:
        return Pointer(self.at(f"{name}_at"), i32)

    def columns_left(self, unit: Value, panel: Value) -> Value:
        """How many columns a panel really has."""
        meta = self.meta
        left = meta["n_columns"] - unit * meta["columns_per_unit"] - panel * meta["columns_per_panel"]
        return self.b.smaller(left, self.shape.columns)

    def index(self, kind: str, unit: Value, panel: Value) -> Value:
        """The offset of a panel's first column in the weight, the bias or one image of the result."""
        return unit * self.meta[f"{kind}_unit"] + panel * self.meta[f"{kind}_panel"]

    def make_tables(self, context: Pointer, phase: Value) -> None:
        """Make the tables of a phase and enter it into the context."""
        b = self.b
        targets = b.array(ptr, len(TABLES))
        for i, table in enumerate(TABLES):
            targets[i] = self.at(f"{table}_at")
        entries = b.cast("inttoptr", self.meta["entries"], ptr)
        b.call(b.module.defined["tables"], entries, phase, targets.address)
        context[CONTEXT.index("phase")] = phase

    def run_chunks(self, context: Pointer) -> None:
        run_parts(self.b, "chunk", context.address, self.meta["n_chunks"])


def begin(b: IRFunction, shape: Shape, names: tuple[str, ...], n_operands: int) -> tuple[Pointer, TilePlace]:
    """The context of a call, and what is found through it."""
    context = b.array(ptr, len(CONTEXT))
    context[0] = b.arg("buffers")
    context[1] = b.arg("meta")
    context[2] = b.const(ptr, 0)
    return context, TilePlace(b, context.address, shape, names, n_operands)


def write_conv(module: IRModule, name: str, shape: Shape) -> None:
    """`i64 name(buffers, meta)`."""
    write_tables(module)
    write_copy(module, shape, META)
    write_read(module, shape, META, SCRATCH)
    _write_pack(module, shape)
    _write_tile(module, shape)
    _write_panel(module, shape)
    _write_chunk(module, shape)
    with module.function(name, i64, buffers=ptr, meta=ptr) as b:
        context, place = begin(b, shape, META, SCRATCH)
        phases = b.pointer(b.cast("inttoptr", place.meta["phases"], ptr), i64)
        with b.loop(0, place.meta["n_phases"]) as p:
            phase = TileNumbers(b, phases.at(p * len(PHASE)), PHASE)
            place.make_tables(context, phase.address)
            b.call(module.defined["pack"], context.address)
            place.run_chunks(context)
        b.ret(0)


def write_read(module: IRModule, shape: Shape, names: tuple[str, ...], n_operands: int) -> None:
    """`ptr read(context, copy, image, n_images, band, unit)`: a unit of some images or a band, copied if need be."""
    args = {"context": ptr, "copy": ptr, "image": i64, "n_images": i64, "band": i64, "unit": i64}
    with module.function("read", ptr, internal=True, **args) as b:
        place = TilePlace(b, b.arg("context"), shape, names, n_operands)
        meta, unit, band = place.meta, b.arg("unit"), b.arg("band")
        first = place.operand(SOURCE) + (b.arg("image") * meta["source_image"] + unit * meta["source_unit"])
        with b.if_(meta["copies"] == 0):
            b.ret(first.at(band * meta["band_step"] * meta["band_pitch"]))
        with b.if_(meta["n_bands"] > 1):  # the last band copied did not have the same border
            fill_zeros(b, b.arg("copy"), meta["copy_bytes"])
        n_lanes = place.columns_left(unit, b.const(i64, 0))
        with b.loop(0, b.arg("n_images")) as i:
            source = first.at(i * meta["source_image"])
            target = b.pointer(b.arg("copy"), shape.element).at(i * meta["image_pitch"])
            b.call(module.defined["copy"], source, target, meta["channels"], n_lanes, band, meta.address)
        b.ret(b.arg("copy"))


class Item:
    """One item of a chunk: which images and band, how many rows."""

    def __init__(self, place: TilePlace, item: Value) -> None:
        b, meta, phase = place.b, place.meta, place.phase
        self.band = item % meta["n_bands"]
        self.image = item // meta["n_bands"] * meta["images_per_block"]
        self.n_images = b.smaller(meta["n_images"] - self.image, meta["images_per_block"])
        along = b.smaller(phase["n_along"] - self.band * meta["band"], meta["band"])
        self.n_rows = self.n_images * along * phase["n_across"]  # none, or less, where a phase has fewer bands
        self.result = self.image * meta["result_image"] + self.band * meta["band_result"]

    @staticmethod
    def bounds(place: TilePlace, chunk: Value) -> tuple[Value, Value]:
        """The first item of a chunk, and the one after its last."""
        first = chunk * place.meta["items_per_chunk"]
        return first, place.b.smaller(first + place.meta["items_per_chunk"], place.meta["n_items"])


def _write_pack_panel(module: IRModule, shape: Shape) -> None:
    """For each step the weights of the columns."""
    args = {"panel": ptr, "weight": ptr, "steps": ptr, "n_steps": i64, "column": i64, "n_columns": i64}
    lanes = shape.lanes
    with module.function("pack_panel", void, internal=True, **args) as b:
        panel, weight = (b.pointer(b.arg(name), shape.element) for name in ("panel", "weight"))
        steps, n_steps, column = b.pointer(b.arg("steps"), i32), b.arg("n_steps"), b.arg("column")
        n_in_order = b.var(i64, 0)
        with b.loop(0, n_steps) as k:
            n_in_order.set(n_in_order.value + b.cast("zext", offset(steps, k) == offset(steps, 0) + k, i64))
        is_in_order = (n_in_order.value == n_steps) & (b.arg("n_columns") == shape.columns)
        n_whole = b.select(is_in_order, n_steps & -lanes, 0)
        first = weight + offset(steps, 0)
        with b.loop(0, n_whole, lanes) as k:
            for v in range(0, shape.columns, lanes):
                block = [(first + column * (v + lane)).vector(k, lanes) for lane in range(lanes)]
                for row, values in enumerate(transposed(b, block)):
                    (panel + v).set_vector((k + row) * shape.columns, values)
        with b.loop(n_whole, n_steps, PACKED_STEPS) as start, b.loop(0, b.arg("n_columns")) as j:
            own, target = weight + j * column, panel + j
            with b.loop(start, b.smaller(start + PACKED_STEPS, n_steps)) as k:
                target[k * shape.columns] = own[offset(steps, k)]


def _write_pack(module: IRModule, shape: Shape) -> None:
    """Panels of weights: a row of biases, then for each step the weights of the columns; zeros where columns end."""
    _write_pack_panel(module, shape)
    with module.function("pack", void, internal=True, context=ptr) as b:
        place = TilePlace(b, b.arg("context"), shape, META, SCRATCH)
        meta, n_steps, steps = place.meta, place.phase["n_steps"], place.table("weight_steps").address
        panel = b.var(ptr, place.at("panels_at"))
        with b.loop(0, meta["n_units"]) as u, b.loop(0, meta["n_panels"]) as p:
            n = place.columns_left(u, p)
            n_bytes = (n_steps + 1) * (shape.columns * shape.element.nbytes)
            n_cleared = b.select(n == shape.columns, shape.columns * shape.element.nbytes, n_bytes)
            fill_zeros(b, panel.value, n_cleared)
            biases = b.pointer(panel.value, shape.element)
            with b.if_(meta["has_bias"] != 0):
                bias = place.operand(BIAS) + place.index("bias", u, p)
                with b.loop(0, n) as j:
                    biases[j] = bias[j * meta["bias_column"]]
            weight = (place.operand(WEIGHT) + place.index("weight", u, p)).address
            weights = (biases + shape.columns).address
            b.call(module.defined["pack_panel"], weights, weight, steps, n_steps, meta["weight_column"], n)
            panel.set(b.byte_offset(panel.value, n_bytes))


_TILE = {
    "source": ptr,
    "rows": ptr,
    "steps": ptr,
    "n_steps": i64,
    "panel": ptr,
    "target": ptr,  # the result's first channel of the panel
    "results": ptr,
    "n_rows": i64,
    "n_columns": i64,
    "column": i64,
    "whole": i1,  # results are neighbours, and so many of them follow that a store may run over
}


def _write_tile(module: IRModule, shape: Shape) -> None:
    """One tile of results, stored channel by channel."""
    lanes = shape.lanes
    starts = range(0, STORED_ROWS, lanes)
    with module.function("tile", void, internal=True, **_TILE) as b:
        source, panel, target = (b.pointer(b.arg(n), shape.element) for n in ("source", "panel", "target"))
        rows, steps, results = (b.pointer(b.arg(n), i32) for n in ("rows", "steps", "results"))
        sums = products(b, shape, source, rows, b.arg("n_rows"), steps, b.arg("n_steps"), panel + shape.columns)
        kept = b.array(shape.element, shape.columns * STORED_ROWS)
        first = target + offset(results, 0)
        columns: list[list[Value]] = []  # for each column its rows, in vectors
        for v in range(shape.vectors):
            added = [row[v] + panel.vector(v * lanes, lanes) for row in sums]
            added += [b.undefined(vector(shape.element, lanes))] * (STORED_ROWS - shape.rows)
            blocks = [transposed(b, added[start : start + lanes]) for start in starts]
            columns += [list(column) for column in zip(*blocks, strict=True)]
        fast, slow = b.if_else(b.arg("whole") & (b.arg("n_columns") == shape.columns))
        with fast:
            channel = first
            for column in columns:
                for start, part in zip(starts, column, strict=True):
                    channel.set_vector(start, part)
                channel = channel + b.arg("column")
        with slow:
            for j, column in enumerate(columns):
                for start, part in zip(starts, column, strict=True):
                    kept.set_vector(j * STORED_ROWS + start, part)
            with b.loop(0, b.arg("n_columns")) as column_index:
                values, distance = kept + column_index * STORED_ROWS, b.arg("column") * column_index
                whole, scattered = b.if_else(b.arg("whole"))
                with whole:
                    for start in starts:
                        (first + distance).set_vector(start, values.vector(start, lanes))
                with scattered, b.loop(0, b.arg("n_rows")) as r:
                    (target + distance)[offset(results, r)] = values[r]


def _write_panel(module: IRModule, shape: Shape) -> None:
    """The results of some images in the channels of one panel."""
    args = {"context": ptr, "source": ptr, "panel": ptr, "target": ptr, "n_rows": i64, "n_columns": i64}
    with module.function("panel", void, internal=True, **args) as b:
        place = TilePlace(b, b.arg("context"), shape, META, SCRATCH)
        rows, steps, results = (place.table(n) for n in ("rows", "steps", "results"))
        n_rows, n_steps, column = b.arg("n_rows"), place.phase["n_steps"], place.meta["result_column"]
        is_plain = place.meta["contiguous"] != 0
        with b.loop(0, n_rows, shape.rows) as r:
            left = n_rows - r
            b.call(
                module.defined["tile"],
                b.arg("source"),
                (rows + r).address,
                steps.address,
                n_steps,
                b.arg("panel"),
                b.arg("target"),
                (results + r).address,
                b.smaller(left, shape.rows),
                b.arg("n_columns"),
                column,
                is_plain & (left >= STORED_ROWS),
            )


def _write_chunk(module: IRModule, shape: Shape) -> None:
    """The items of one chunk, unit by unit."""
    with module.function("chunk", void, context=ptr, chunk=i64) as b:
        place = TilePlace(b, b.arg("context"), shape, META, SCRATCH)
        meta, context = place.meta, b.arg("context")
        copy = b.byte_offset(place.at("copies_at"), b.arg("chunk") * meta["copy_bytes"])
        fill_zeros(b, copy, meta["copy_bytes"])
        panel_size = (place.phase["n_steps"] + 1) * shape.columns
        with b.loop(*Item.bounds(place, b.arg("chunk"))) as i:
            item = Item(place, i)
            panel = b.var(ptr, place.at("panels_at"))
            with b.loop(0, meta["n_units"]) as u:
                part = (item.image, item.n_images, item.band, u)
                source = b.call(module.defined["read"], context, copy, *part)
                with b.loop(0, meta["n_panels"]) as p:
                    target = place.operand(RESULT).at(item.result + place.index("result", u, p))
                    n_columns = place.columns_left(u, p)
                    b.call(module.defined["panel"], context, source, panel.value, target, item.n_rows, n_columns)
                    panel.set(Pointer(panel.value, shape.element).at(panel_size))
