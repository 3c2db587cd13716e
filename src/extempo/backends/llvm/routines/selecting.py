"""The few best elements of every row as native code: topk for a small k.

A row is read once, with the best elements so far kept in order beside it: most elements are worse than all of those,
which is one comparison. Of equal elements the first ones are taken; a NaN is larger than every number.
"""

from __future__ import annotations

from ....core.types import TensorType, count, int64
from ..elementwise.loops import MEMORY
from ..ir.builder import IRFunction, IRModule, Pointer, Type, Value, i64, ptr
from .routine import Attrs, Bound, Inputs, build, routine
from .sweeps import part_range, parts_of, write_in_parts

MOST = 32  # kept elements; a row in order from the worst to the best moves all of them for every element
PART_WORK = 1 << 15  # elements; about 30 us

_N_ROWS, _N, _INNER, _K, _PER_PART, _N_PARTS = range(6)


def _is_better(b: IRFunction, x: Value, y: Value, largest: bool) -> Value:
    if x.type.kind != "f":
        return x > y if largest else x < y
    if largest:
        return (x > y) | ((x != x) & (y == y))
    return (x < y) | ((y != y) & (x == x))


def _write_row(b: IRFunction, x: Pointer, step: Value, n: Value, k: Value, out: Pointer, largest: bool) -> None:
    """Where the k best of n elements that lie `step` apart are, best first, to places as far apart."""
    best, places = b.array(x.element, MOST), b.array(i64, MOST)
    n_kept = b.var(i64, 0)
    worst = b.var(x.element, x[0])
    with b.loop(0, n) as i:
        value = x[i * step]
        with b.if_((n_kept.value < k) | _is_better(b, value, worst.value, largest)):
            at = b.var(i64, b.smaller(n_kept.value, k - 1))

            def is_before() -> Value:
                last = b.larger(at.value - 1, 0)
                return (at.value > 0) & _is_better(b, value, best[last], largest)

            with b.while_(is_before):
                best[at.value] = best[at.value - 1]
                places[at.value] = places[at.value - 1]
                at.set(at.value - 1)
            best[at.value] = value
            places[at.value] = i
            n_kept.set(b.smaller(n_kept.value + 1, k))
            worst.set(best[n_kept.value - 1])
    with b.loop(0, k) as i:
        out[i * step] = places[i]


def _write(module: IRModule, name: str, element: Type, largest: bool) -> None:
    def body(b: IRFunction) -> None:
        words = Pointer(b.arg("context"), ptr)
        buffers, meta = Pointer(words[0], ptr), Pointer(words[1], i64)
        n, inner, k = meta[_N], meta[_INNER], meta[_K]
        first, last = part_range(b, meta[_N_ROWS], meta[_PER_PART])
        with b.loop(first, last) as row:
            outer, column = row // inner, row % inner
            x = Pointer(buffers[0], element) + (outer * n * inner + column)
            out = Pointer(buffers[1], i64) + (outer * k * inner + column)
            _write_row(b, x, inner, n, k, out, largest)

    write_in_parts(module, name, _N_PARTS, body)


@routine("topk")
def bind_topk(types: Inputs, attrs: Attrs) -> Bound | None:
    (x,), dim, k = types, attrs["dim"], attrs["k"]
    element = MEMORY.get(x.dtype._name)
    if element is None or not 0 < k <= MOST or 0 in x.shape:
        return None
    shape = x.shape or (1,)
    outer, n, inner = count(shape[:dim]), shape[dim], count(shape[dim + 1 :])
    address = build(
        f"topk_{element.suffix}_{'most' if attrs['largest'] else 'least'}", _write, element, attrs["largest"]
    )
    n_parts, per_part = parts_of(outer * inner, n, PART_WORK)
    out = TensorType((*x.shape[:dim], k, *x.shape[dim + 1 :]), int64)
    return Bound(address, "c", (out,), (outer * inner, n, inner, k, per_part, n_parts))
