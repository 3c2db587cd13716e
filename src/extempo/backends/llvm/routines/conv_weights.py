"""The native weight gradient of a convolution, and the bias's with it.

The same product over scattered rows as the convolution's, with places of the kernel as rows and pixels as steps; the
packed operand is the gradient of the result, some pixels at a time. Every chunk of images adds up its own sums, and the
chunks' sums are added in order, so the number of threads makes no difference.
"""

from __future__ import annotations

from ..ir.builder import IRModule, Pointer, Value, i1, i32, i64, ptr, vector, void
from .conv_apply import COMMON, Item, TilePlace, begin, write_read
from .conv_tiles import Shape, offset, products, transposed, write_copy, write_tables
from .layout import fill_zeros

META = (*COMMON, "contiguous", "bias_unit", "bias_panel", "bias_column", "sums_at", "sums_bytes", "panel_rows")
GRADIENT, WEIGHT, BIAS, SCRATCH = 1, 2, 3, 4
# Pixels that are packed at once: what the first-level cache holds beside a part of the source.
PIXELS = 256


def write_weight_grad(module: IRModule, name: str, shape: Shape) -> None:
    """`i64 name(buffers, meta)`."""
    write_tables(module)
    write_copy(module, shape, META)
    write_read(module, shape, META, SCRATCH)
    _write_pack(module, shape)
    _write_tile(module, shape)
    _write_panel(module, shape)
    _write_chunk(module, shape)
    _write_finish(module, shape)
    with module.function(name, i64, buffers=ptr, meta=ptr) as b:
        context, place = begin(b, shape, META, SCRATCH)
        phase = b.cast("inttoptr", place.meta["phases"], ptr)
        place.make_tables(context, phase)
        place.run_chunks(context)
        b.call(module.defined["finish"], context.address)
        b.ret(0)


def _write_pack(module: IRModule, shape: Shape) -> None:
    """Pack the gradient of the result: for each pixel a row of columns, zeros behind the last. Adds to `bias`."""
    lanes, n_columns = shape.lanes, shape.columns
    args = {"gradient": ptr, "pixels": ptr, "n": i64, "n_columns": i64, "column": i64, "target": ptr}
    with module.function("pack", void, internal=True, **args, bias=ptr, plain=i1) as b:
        gradient, target = (b.pointer(b.arg(name), shape.element) for name in ("gradient", "target"))
        pixels, n, column = b.pointer(b.arg("pixels"), i32), b.arg("n"), b.arg("column")
        fast, slow = b.if_else(b.arg("plain") & (n >= lanes) & (b.arg("n_columns") == n_columns))
        with fast:
            first, done = gradient + offset(pixels, 0), b.var(i64, 0)
            with b.while_(lambda: done.value < n):
                at = b.smaller(done.value, n - lanes)
                for v in range(0, n_columns, lanes):
                    block = [(first + column * (v + lane)).vector(at, lanes) for lane in range(lanes)]
                    for row, values in enumerate(transposed(b, block)):
                        (target + v).set_vector((at + row) * n_columns, values)
                done.set(done.value + lanes)
        with slow:
            fill_zeros(b, target.address, n * (n_columns * shape.element.nbytes))
            with b.loop(0, b.arg("n_columns")) as j:
                channel = gradient + column * j
                with b.loop(0, n) as i:
                    target[i * n_columns + j] = channel[offset(pixels, i)]
        bias = b.pointer(b.arg("bias"), shape.element)
        type_ = vector(shape.element, lanes)
        sums = [b.var(type_, 0.0) for _ in range(shape.vectors)]
        with b.loop(0, n) as i:
            for v, total in enumerate(sums):
                total.set(total.value + target.vector(i * n_columns + v * lanes, lanes))
        for v, total in enumerate(sums):
            bias.set_vector(v * lanes, bias.vector(v * lanes, lanes) + total.value)


def _write_tile(module: IRModule, shape: Shape) -> None:
    """Add one tile to the sums."""
    args = {"source": ptr, "places": ptr, "n_places": i64, "pixels": ptr, "n_pixels": i64, "panel": ptr, "sums": ptr}
    with module.function("tile", void, internal=True, **args) as b:
        source, panel, sums = (b.pointer(b.arg(n), shape.element) for n in ("source", "panel", "sums"))
        places, pixels = (b.pointer(b.arg(n), i32) for n in ("places", "pixels"))
        tile = products(b, shape, source, places, b.arg("n_places"), pixels, b.arg("n_pixels"), panel)
        for r, row in enumerate(tile):
            for v, total in enumerate(row):
                at = r * shape.columns + v * shape.lanes
                sums.set_vector(at, sums.vector(at, shape.lanes) + total)


def _write_panel(module: IRModule, shape: Shape) -> None:
    """Add what a unit of some images contributes to one panel."""
    args = {"context": ptr, "source": ptr, "gradient": ptr, "n": i64, "n_columns": i64, "sums": ptr}
    with module.function("panel", void, internal=True, **args, packed=ptr) as b:
        place = TilePlace(b, b.arg("context"), shape, META, SCRATCH)
        places, pixels, results = (place.table(name) for name in ("steps", "rows", "results"))
        sums = b.pointer(b.arg("sums"), shape.element)
        n_places, column = place.phase["n_steps"], place.meta["result_column"]
        plain = place.meta["contiguous"] != 0
        with b.loop(0, b.arg("n"), PIXELS) as first:
            n = b.smaller(b.arg("n") - first, PIXELS)
            seen = (results + first).address
            packed = (seen, n, b.arg("n_columns"), column, b.arg("packed"), sums.address, plain)
            b.call(module.defined["pack"], b.arg("gradient"), *packed)
            with b.loop(0, n_places, shape.rows) as r:
                target = (sums + (r + 1) * shape.columns).address
                tile_places = ((places + r).address, b.smaller(n_places - r, shape.rows))
                operands = (*tile_places, (pixels + first).address, n, b.arg("packed"), target)
                b.call(module.defined["tile"], b.arg("source"), *operands)


def _write_chunk(module: IRModule, shape: Shape) -> None:
    """The sums of the items of one chunk: for each panel a row for the bias, then one for each place."""
    with module.function("chunk", void, context=ptr, chunk=i64) as b:
        place = TilePlace(b, b.arg("context"), shape, META, SCRATCH)
        meta, context, chunk = place.meta, b.arg("context"), b.arg("chunk")
        copy = b.byte_offset(place.at("copies_at"), chunk * meta["copy_bytes"])
        packed = b.byte_offset(place.at("panels_at"), chunk * (PIXELS * shape.columns * shape.element.nbytes))
        sums = b.byte_offset(place.at("sums_at"), chunk * meta["sums_bytes"])
        fill_zeros(b, copy, meta["copy_bytes"])
        fill_zeros(b, sums, meta["sums_bytes"])
        with b.loop(*Item.bounds(place, chunk)) as i:
            item = Item(place, i)
            target = b.var(ptr, sums)
            with b.loop(0, meta["n_units"]) as u:
                part = (item.image, item.n_images, item.band, u)
                source = b.call(module.defined["read"], context, copy, *part)
                with b.loop(0, meta["n_panels"]) as p:
                    gradient = place.operand(GRADIENT).at(item.result + place.index("result", u, p))
                    sizes = (item.n_rows, place.columns_left(u, p))
                    b.call(module.defined["panel"], context, source, gradient, *sizes, target.value, packed)
                    target.set(_next_panel(place, target.value))


def _next_panel(place: TilePlace, sums: Value) -> Value:
    return Pointer(sums, place.shape.element).at(place.meta["panel_rows"] * place.shape.columns)


def _write_finish(module: IRModule, shape: Shape) -> None:
    """Add the sums of all chunks, in order, and put them where they belong in the weight and the bias."""
    with module.function("add_chunks", void, internal=True, sums=ptr, n_bytes=i64, n_chunks=i64) as b:
        n_bytes, type_ = b.arg("n_bytes"), vector(shape.element, shape.lanes)
        with b.loop(0, n_bytes, shape.lanes * shape.element.nbytes) as at:
            first = b.byte_offset(b.arg("sums"), at)
            total = b.var(type_, b.load(type_, first))
            with b.loop(1, b.arg("n_chunks")) as chunk:
                total.set(total.value + b.load(type_, b.byte_offset(first, chunk * n_bytes)))
            b.store(total.value, first)
    with module.function("finish", void, internal=True, context=ptr) as b:
        place = TilePlace(b, b.arg("context"), shape, META, SCRATCH)
        meta = place.meta
        b.call(module.defined["add_chunks"], place.at("sums_at"), meta["sums_bytes"], meta["n_chunks"])
        steps, n_steps = place.table("weight_steps"), place.phase["n_steps"]
        panel = b.var(ptr, place.at("sums_at"))
        with b.loop(0, meta["n_units"]) as u, b.loop(0, meta["n_panels"]) as p:
            weight = place.operand(WEIGHT) + place.index("weight", u, p)
            bias = place.operand(BIAS) + place.index("bias", u, p)
            with b.loop(0, place.columns_left(u, p)) as j:
                column = b.pointer(panel.value, shape.element) + j
                bias[j * meta["bias_column"]] = column[0]
                row = weight + j * meta["weight_column"]
                with b.loop(0, n_steps) as k:
                    row[offset(steps, k)] = column[(k + 1) * shape.columns]
            panel.set(_next_panel(place, panel.value))
