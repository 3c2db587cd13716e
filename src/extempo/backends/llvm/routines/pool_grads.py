"""Native gradients of pooling: maxima send theirs to one place each, means a share to every place of their window.

Where max-pooling halved both sizes, each pair of rows is written at once, every element the gradient of its window or
zero; if an index turns out to name a place outside of its window, that plane is done again one element at a time.
"""

from __future__ import annotations

from ..ir.builder import IRFunction, IRModule, IRVariable, Pointer, Type, Value, i32, i64, ptr, vector, void
from ..ir.parallel import run_parts
from .conv_tiles import TileNumbers
from .layout import fill_zeros
from .pool_rows import LANES, META, PoolKind, PoolRow, each_border, write_main

MAX_META = (
    "n_chunks",
    "n_planes",
    "planes_per_chunk",
    "plane",  # elements of one plane of the result
    "width",
    "n_windows",
    "n_rows",  # of windows
    "n_columns",
    "halved",
)


def write_max_grad(module: IRModule, name: str, element: Type) -> None:
    """`i64 name(buffers, meta)`; buffers: gradient, indices, result. 1 where an index is outside."""
    _write_scatter(module, element)
    _write_halved(module, element)
    with module.function("chunk", void, context=ptr, chunk=i64) as b:
        words = Pointer(b.arg("context"), ptr)
        buffers, meta = b.pointer(words[0], ptr), TileNumbers(b, words[1], MAX_META)
        first = b.arg("chunk") * meta["planes_per_chunk"]
        end = b.smaller(first + meta["planes_per_chunk"], meta["n_planes"])
        gradient, result = (b.pointer(buffers[i], element) for i in (0, 2))
        chunk_end = result.at(end * meta["plane"])
        with b.loop(first, end) as p:
            done = b.var(i64, 0)
            seen = ((gradient + p * meta["n_windows"]).address, Pointer(buffers[1], i64).at(p * meta["n_windows"]))
            plane = result.at(p * meta["plane"])
            with b.if_(meta["halved"] != 0):
                done.set(b.call(module.defined["halved"], *seen, plane, words[1], chunk_end))
            with b.if_(done.value == 0):
                bad = b.call(module.defined["scatter"], *seen, plane, meta["n_windows"], meta["plane"])
                with b.if_(bad != 0):
                    Pointer(words[2], i64)[0] = 1
    with module.function(name, i64, buffers=ptr, meta=ptr) as b:
        context, status = b.array(ptr, 3), b.array(i64, 1)
        status[0] = 0
        for i, word in enumerate((b.arg("buffers"), b.arg("meta"), status.address)):
            context[i] = word
        run_parts(b, "chunk", context.address, TileNumbers(b, b.arg("meta"), MAX_META)["n_chunks"])
        b.ret(status[0])


_PLANE = {"gradient": ptr, "indices": ptr, "plane": ptr}


def _write_scatter(module: IRModule, element: Type) -> None:
    """Add each element where its index says. Returns whether an index is outside."""
    with module.function("scatter", i64, internal=True, **_PLANE, n=i64, size=i64) as b:
        gradient, plane = b.pointer(b.arg("gradient"), element), b.pointer(b.arg("plane"), element)
        indices, bad = b.pointer(b.arg("indices"), i64), b.var(i64, 0)
        fill_zeros(b, plane.address, b.arg("size") * element.nbytes)
        with b.loop(0, b.arg("n")) as i:
            index = indices[i]
            inside, outside = b.if_else(b.compare("<", index, b.arg("size"), unsigned=True))
            with inside:
                plane[index] = plane[index] + gradient[i]
            with outside:
                bad.set(1)
        b.ret(bad.value)


def _write_halved(module: IRModule, element: Type) -> None:
    """Write pairs of rows. Returns whether every index was in its own window of four."""
    with module.function("halved", i64, internal=True, **_PLANE, meta=ptr, end=ptr) as b:
        meta = TileNumbers(b, b.arg("meta"), MAX_META)
        width, n_columns = meta["width"], meta["n_columns"]
        plane, good = b.pointer(b.arg("plane"), element), b.var(vector(i32, LANES), -1)
        rest = meta["plane"] - 2 * meta["n_rows"] * width
        with b.loop(0, meta["n_rows"]) as r:
            gradient = b.pointer(b.arg("gradient"), element) + r * n_columns
            indices = b.pointer(b.arg("indices"), i64) + r * n_columns
            many, few = b.if_else(n_columns >= LANES)
            with many, b.loop(0, n_columns, LANES) as i:
                at = b.smaller(i, n_columns - LANES)
                first = r * width * 2 + at * 2
                chosen = gradient.vector(at, LANES), indices.vector(at, LANES)
                rows = _four_places(b, *chosen, first, width, good, None)
                for k, (low, high) in enumerate(rows):
                    (plane + first + width * k).set_vector(0, low)
                    (plane + first + width * k).set_vector(LANES, high)
            with few:
                mask = b.splat(n_columns, LANES) > b.lanes(vector(i64, LANES), range(LANES))
                first = r * width * 2
                values = b.masked_load(gradient.address, mask, b.const(vector(element, LANES), 0.0))
                places = b.masked_load(indices.address, mask, b.const(vector(i64, LANES), 0))
                for k, (low, high) in enumerate(_four_places(b, values, places, first, width, good, mask)):
                    _store_few(b, plane + first + width * k, low, high, n_columns * 2, b.arg("end"))
            with b.if_(n_columns * 2 < width):
                for last in (1, 2):
                    plane[(r * 2 + last) * width - 1] = 0.0
        fill_zeros(b, plane.at(meta["plane"] - rest), rest * element.nbytes)
        met = b.fold_lanes(good.value, lambda x, y: x & y)
        b.ret(b.cast("zext", met != 0, i64))


def _four_places(
    b: IRFunction, gradient: Value, indices: Value, first: Value, width: Value, good: IRVariable, mask: Value | None
) -> list[tuple[Value, Value]]:
    """For each of two rows, both halves of what is written there."""
    order = b.lanes(vector(i32, LANES), [2 * i for i in range(LANES)])
    distance = b.cast("trunc", indices, i32) - (b.splat(b.cast("trunc", first, i32), LANES) + order)
    found: Value | None = mask if mask is None else ~mask
    rows = []
    for row in (b.const(i64, 0), width):
        parts = []
        for column in range(2):
            here = distance == b.splat(b.cast("trunc", row + column, i32), LANES)
            found = here if found is None else found | here
            parts.append(b.select(here, gradient, 0.0))
        # Elements of both columns interleaved, the first four lanes and the last four.
        low, high = ([i // 2 + half * 4 + i % 2 * LANES for i in range(LANES)] for half in range(2))
        rows.append((b.shuffle(parts[0], parts[1], low), b.shuffle(parts[0], parts[1], high)))
    assert found is not None
    good.set(good.value & b.cast("sext", found, i32))
    return rows


def _store_few(b: IRFunction, row: Pointer, low: Value, high: Value, n: Value, end: Value) -> None:
    """The first `n` of two vectors; more where what follows is written later."""
    over, exact = b.if_else(b.compare("<=", row.at(2 * LANES), end))
    with over:
        row.set_vector(0, low)
        row.set_vector(LANES, high)
    with exact:
        kept = b.array(row.element, 2 * LANES)
        kept.set_vector(0, low)
        kept.set_vector(LANES, high)
        with b.loop(0, n) as i:
            row[i] = kept[i]


def write_avg_grad(module: IRModule, name: str, element: Type) -> None:
    """`i64 name(buffers, meta)`; buffers: gradient, (the divisor), result, scratch with a row of windows per chunk."""
    _write_shares(module, element)
    _write_spread(module, element)
    with module.function("chunk", void, context=ptr, chunk=i64) as b:
        words = Pointer(b.arg("context"), ptr)
        buffers, meta = b.pointer(words[0], ptr), TileNumbers(b, words[1], META)
        first = b.arg("chunk") * meta["planes_per_chunk"]
        end = b.smaller(first + meta["planes_per_chunk"], meta["n_planes"])
        n_rows, n_columns = meta["n_rows"], meta["n_columns"]
        size = meta["height"] * meta["width"]
        gradient, result, scratch = (b.pointer(buffers[i], element) for i in (0, 2, 3))
        shares = (scratch + b.arg("chunk") * n_columns).address
        with b.loop(first, end) as p:
            plane = result.at(p * size)
            fill_zeros(b, plane, size * element.nbytes)
            with b.loop(0, n_rows) as r:
                row = gradient.at((p * n_rows + r) * n_columns)
                b.call(module.defined["shares"], row, shares, plane, r, words[1])
                b.call(module.defined["spread"], row, shares, plane, r, words[1])
    write_main(module, name)


# `indices` and `whole` are there for PoolRow, which has them in the forward.
_SPREAD = {"indices": ptr, "values": ptr, "plane": ptr, "row": i64, "meta": ptr}


def _write_shares(module: IRModule, element: Type) -> None:
    """What each element of a window of this row gets."""
    with module.function("shares", void, internal=True, **_SPREAD) as b:
        row = PoolRow(b, PoolKind(element, False, 0))
        gradient, meta = b.pointer(b.arg("indices"), element), row.meta
        first, end, n = meta["first_inner"], meta["end_inner"], meta["n_columns"]
        divisor = row.divisor(meta["kernel_width"])
        with b.loop(first, end) as c:
            row.values[c] = gradient[c] / divisor

        def border(c: Value) -> None:
            row.values[c] = gradient[c] / row.divisor_at(c)

        each_border(b, border, first, end, n)


def _write_spread(module: IRModule, element: Type) -> None:
    """Add the shares of a row of windows to all that they see."""
    with module.function("spread", void, internal=True, **_SPREAD) as b:
        row = PoolRow(b, PoolKind(element, False, 0))
        meta, stride, n = row.meta, row.stride, row.meta["n_columns"]
        with b.loop(row.begin, row.end) as i, b.loop(0, meta["kernel_width"]) as j:
            shift = j - row.left
            first = b.select(shift < 0, (stride - 1 - shift) // stride, 0)
            inside = (row.width - shift + stride - 1) // stride
            end = b.select(shift < row.width, b.smaller(inside, n), 0)
            target = row.plane + ((row.top + i) * row.width + shift)
            near, far = b.if_else(stride == 1)
            with near:
                n_whole = first + b.select(end > first, end - first, 0) // LANES * LANES
                with b.loop(first, n_whole, LANES) as c:
                    target.set_vector(c, target.vector(c, LANES) + row.values.vector(c, LANES))
                with b.loop(n_whole, end) as c:
                    target[c] = target[c] + row.values[c]
            with far, b.loop(first, end) as c:
                at = c * stride
                target[at] = target[at] + row.values[c]
