"""Routines of attention row by row, for rows stored one after the other: each row of each head is one attention.

The code of a row is that of `attention_code`. It finds all sizes and places in its meta and the operands through its
buffers, so a row gets copies of both, in which sizes are those of the row and addresses begin at its elements. Lengths
are known when the call runs, and scratch memory is laid out then, for the longest row there is: of what was set aside
for the longest there could be, only that is touched. Rows and heads are shared among threads in chunks that depend on
their numbers alone.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ....core.types import TensorType, count
from ..ir.builder import IRFunction, Pointer, Value, i64, ptr, void
from ..ir.parallel import run_shared
from .attention import STRIP_SLIVERS, Sizes, backward_parts, forward_parts, meta_of, numbers_of
from .attention_code import (
    N_INPUTS,
    NUMBERS,
    PLACES,
    AttentionWriter,
    SoftmaxState,
    rounded,
    write_backward,
    write_forward,
)
from .gemm import Gemm, gemm_of
from .gemm_plan import CHUNK_PRODUCTS
from .gemm_tiles import MAX_ROWS
from .products import usable
from .routine import FLOATS, Attrs, Bound, Inputs, build, routine

ALIGNMENT = 64
MOST_CHUNKS = 8  # each has scratch memory for the longest row there can be
# What meta has beside NUMBERS, after the places of strides: sizes, then the panels of 1 to MAX_ROWS rows, and a zero,
# then for each of PLACES the bytes that it takes, for each key and beside.
EXTRA = ("n_rows", "n_meta", "meta_bytes", "total_queries", "total_keys", "strip_columns")
_OF_QUERIES = ("query", "gradient")  # operands whose rows are those of queries; the others' are those of keys


class RowWriter(AttentionWriter):
    """Writes a routine that runs the parts of one head for each row of each head."""

    def write_routine(self, n_results: int, parts: Sequence[str]) -> None:
        module, chunk, n_own = self.module, self.name + "_chunk", len(self.names)
        with module.function(chunk, void, internal=True, context=ptr, chunk=i64) as b:
            s = SoftmaxState(b, self.gemm, self.names, self.state_array(b))
            context = Pointer(b.arg("context"), ptr)
            given, meta = Pointer(context[0], ptr), Pointer(context[1], i64)
            extra = meta + (meta[NUMBERS.index("operands_at")] + 2 * n_own)
            number = {name: extra[i] for i, name in enumerate(EXTRA)}
            layout = Pointer(context[2], i64)
            scratch = b.byte_offset(given[n_own + 3 + n_results], b.arg("chunk") * layout[len(PLACES)])
            own = Pointer(scratch, i64)
            with b.loop(0, number["n_meta"]) as at:
                own[at] = meta[at]
            for i, place in enumerate(PLACES):
                own[NUMBERS.index(place)] = layout[i]
            buffers = b.array(ptr, N_INPUTS + n_results)
            s["buffers"], s["meta"] = buffers.address, scratch
            s["scratch"] = b.byte_offset(scratch, number["meta_bytes"])
            pairs = meta[NUMBERS.index("chunk_heads")]
            first = b.arg("chunk") * pairs
            last = b.smaller(first + pairs, meta[NUMBERS.index("n_heads")])
            with b.loop(first, last) as pair:
                head, row = pair // number["n_rows"], pair % number["n_rows"]
                queries, keys = (_AttentionRow(given[n_own + i], row) for i in (0, 1))
                with b.if_((queries.length > 0) & (keys.length > 0)):
                    self._set_sizes(own, extra, number, queries.length, keys.length)
                    for i, name in enumerate(self.names):
                        start = queries.start if name in _OF_QUERIES else keys.start
                        stride = meta[meta[meta[NUMBERS.index("operands_at")] + 2 * i]]
                        buffers[i] = b.byte_offset(given[i], start * stride * self.t.size)
                    for i in range(n_results):
                        of, total = (queries, "total_queries") if i == 0 else (keys, "total_keys")
                        width = "n_values" if i == n_results - 1 else "n_features"
                        # The code counts the rows of a result over heads of the row's own length.
                        before = head * number[total] + of.start - head * of.length
                        bytes_before = before * meta[NUMBERS.index(width)] * self.t.size
                        buffers[N_INPUTS + i] = b.byte_offset(given[n_own + 3 + i], bytes_before)
                    s["head"] = head
                    for part in ("find", *parts):
                        self.call(s, part)
        self._write_call(chunk)

    def _set_sizes(
        self, own: Pointer, extra: Pointer, number: dict[str, Value], n_queries: Value, n_keys: Value
    ) -> None:
        """The numbers of NUMBERS that differ from row to row."""
        n_tiles = (n_queries + (MAX_ROWS - 1)) // MAX_ROWS
        height, n_taller = n_queries // n_tiles, n_queries % n_tiles
        panels = extra + (len(EXTRA) - 1)  # that of n rows is at n
        columns = number["strip_columns"]
        sizes = {
            "n_queries": n_queries,
            "n_keys": n_keys,
            "n_tiles": n_tiles,
            "tile_rows": height,
            "n_taller": n_taller,
            "panel": panels[height],
            "taller_panel": panels[height + 1],
            "strip_row": (n_keys + (columns - 1)) // columns * columns * self.t.size,
        }
        for name, value in sizes.items():
            own[NUMBERS.index(name)] = value

    def _write_call(self, chunk: str) -> None:
        """The routine: it declines offsets that do not rise from 0 to the number of elements, then runs the chunks."""
        module, n_own = self.module, len(self.names)
        with module.function(self.name, i64, buffers=ptr, meta=ptr) as b:
            given, meta = Pointer(b.arg("buffers"), ptr), Pointer(b.arg("meta"), i64)
            extra = meta + (meta[NUMBERS.index("operands_at")] + 2 * n_own)
            n_rows, wrong = extra[EXTRA.index("n_rows")], b.var(i64, 0)
            for i, total in enumerate(("total_queries", "total_keys")):
                offsets = Pointer(given[n_own + i], i64)
                outside = (offsets[0] != 0) | (offsets[n_rows] != extra[EXTRA.index(total)])
                wrong.set(wrong.value + b.select(outside, b.const(i64, 1), b.const(i64, 0)))
                with b.loop(0, n_rows) as row:
                    falls = offsets[row] > offsets[row + 1]
                    wrong.set(wrong.value + b.select(falls, b.const(i64, 1), b.const(i64, 0)))
            with b.if_(wrong.value == 0):
                context = b.array(ptr, 3)
                context[0], context[1] = b.arg("buffers"), b.arg("meta")
                context[2] = self._layout(b, extra, Pointer(given[n_own + 1], i64), n_rows)
                run_shared(b, chunk, context.address, meta[NUMBERS.index("n_chunks")])
            b.ret(wrong.value)

    def _layout(self, b: IRFunction, extra: Pointer, key_offsets: Pointer, n_rows: Value) -> Value:
        """Where the places are in a chunk's scratch memory, and how large that is, for the longest row."""
        longest = b.var(i64, 0)
        with b.loop(0, n_rows) as row:
            length = key_offsets[row + 1] - key_offsets[row]
            longest.set(b.larger(length, longest.value))
        n_keys = rounded(longest.value, self.t.columns * STRIP_SLIVERS)
        bytes_of = extra + (len(EXTRA) + MAX_ROWS + 1)
        layout, end = b.array(i64, len(PLACES) + 1), b.const(i64, 0)
        for i in range(len(PLACES)):
            layout[i] = end
            end = end + rounded(n_keys * bytes_of[2 * i] + bytes_of[2 * i + 1], ALIGNMENT)
        layout[len(PLACES)] = end + extra[EXTRA.index("meta_bytes")]
        return layout.address


class _AttentionRow:
    """A row's first element and its length."""

    def __init__(self, offsets: Value, row: Value) -> None:
        ends = Pointer(offsets, i64)
        self.start = ends[row]
        self.length = ends[row + 1] - self.start


def _bound(types: Inputs, attrs: Attrs, is_gradient: bool) -> Bound | None:
    *operands, query_offsets, _, scale = types
    tensors = [t for t in operands if isinstance(t, TensorType)]
    query, key, value = tensors[-3:]
    n_rows, lead = query_offsets.shape[0] - 1, query.shape[:-2]
    s = Sizes(lead, query.shape[-2], key.shape[-2], query.shape[-1], value.shape[-1])
    known = query.dtype._name in FLOATS and all(t.dtype is query.dtype for t in tensors)
    if not known or not usable() or n_rows < 1 or 0 in (*lead, *s[1:]) or isinstance(scale, TensorType):
        return None
    gemm = gemm_of(FLOATS[query.dtype._name])
    strip_columns = gemm.t.columns * (STRIP_SLIVERS if is_gradient else 1)
    parts_of = backward_parts if is_gradient else forward_parts
    unit = gemm.t.columns * STRIP_SLIVERS
    most = parts_of(s._replace(n_keys=-(-s.n_keys // unit) * unit), gemm.t.columns)
    numbers = numbers_of(s, attrs["is_causal"], gemm, most, strip_columns, 1)
    # As if all rows were of the mean length.
    n_products = count(lead) * s.n_queries * s.n_keys // n_rows * (s.n_features + s.n_values)
    numbers |= _shares(count(lead) * n_rows, n_products * (3 if is_gradient else 1))
    n_strides = sum(t.ndim for t in tensors)
    one, two = (parts_of(s._replace(n_keys=n * unit), gemm.t.columns) for n in (1, 2))
    places = [
        size * gemm.t.size
        for place in PLACES
        for growth in [(two.get(place, 0) - one.get(place, 0)) // unit]
        for size in (growth, one.get(place, 0) - growth * unit)
    ]
    n_bound = len(NUMBERS) + len(lead) * (len(tensors) + 1) + 1 + 2 * len(tensors) + n_strides + 1
    extra = _extra(gemm, s, n_rows, strip_columns, n_bound, places)
    numbers["scratch"] += extra[EXTRA.index("meta_bytes")]
    meta = meta_of(numbers, s, tensors, extra)
    name = gemm.symbol("row_attention_gradient" if is_gradient else "row_attention")
    write = write_backward if is_gradient else write_forward
    address = build(name, write, gemm, RowWriter)
    shapes = [t.shape for t in (query, key, value)] if is_gradient else [(*query.shape[:-1], s.n_values)]
    results = tuple(TensorType(shape, query.dtype) for shape in shapes)
    reads = "m" * len(tensors) + "ccf"
    return Bound(address, reads, results, meta, numbers["scratch"] * numbers["n_chunks"], zeroed=True)


def _shares(n_pairs: int, n_products: int) -> dict[str, int]:
    """Rows of heads ("heads" to the code of one) in chunks."""
    n_chunks = max(1, min(n_pairs, MOST_CHUNKS, n_products // CHUNK_PRODUCTS))
    each = -(-n_pairs // n_chunks)
    return {"n_heads": n_pairs, "n_chunks": -(-n_pairs // each), "chunk_heads": each}


def _extra(gemm: Gemm, s: Sizes, n_rows: int, strip_columns: int, n_bound: int, places: list[int]) -> tuple[int, ...]:
    """EXTRA, the panels and the sizes of places. n_bound: how many numbers meta has beside."""
    panels = [gemm.panel(n) for n in range(1, MAX_ROWS + 1)]
    n_meta = n_bound + len(EXTRA) + len(panels) + 1 + len(places)
    meta_bytes = -(-8 * n_meta // ALIGNMENT) * ALIGNMENT
    return n_rows, n_meta, meta_bytes, s.n_queries, s.n_keys, strip_columns, *panels, 0, *places


routine("row_attention")(functools.partial(_bound, is_gradient=False))
routine("row_attention_gradient")(functools.partial(_bound, is_gradient=True))
