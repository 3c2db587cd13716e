"""Coins whose probability is that of each element: bernoulli, with the bits of `backends.numpy.philox`.

A probability outside of 0 to 1 is declined, so that the NumPy kernel words the error.
"""

from __future__ import annotations

from ....core.types import count
from ..ir.builder import IRFunction, IRModule, Pointer, Type, Value, f64, i64, ptr, vector
from ..lanes.vector_math import any_lane
from .draws import LANES, PART_WORK, in_draw_order, philox_words
from .layout import copy_run, fill_zeros
from .routine import Attrs, Bound, Inputs, build, element_of, routine
from .sweeps import context_words, in_parts, part_range, parts_of, write_part

GROUP = 4 * LANES  # elements of eight blocks of four words
_N_PARTS, _PER_PART, _N, _SEED, _DRAW = range(5)


def _write_group(b: IRFunction, words: list[Value], source: Pointer, target: Pointer, refused: Pointer) -> None:
    """The coins of one group: 1 where a word is below its probability of 2**32."""
    for k, word in enumerate(words):
        p = source.vector(k * LANES, LANES)
        with b.if_(any_lane(b, ~((p >= 0.0) & (p <= 1.0)))):
            refused[0] = 1
        wide = p if p.type.lane is f64 else b.cast("fpext", p, f64)
        threshold = b.intrinsic("ceil", wide * 2.0**32)
        truth = b.cast("uitofp", word, f64) < threshold
        target.set_vector(k * LANES, b.select(truth, b.const(vector(source.element, LANES), 1.0), 0.0))


def _write(module: IRModule, name: str, element: Type) -> None:
    def part(b: IRFunction) -> None:
        arrays, numbers, found = context_words(b, ptr, ptr, ptr)
        buffers, meta, refused = Pointer(arrays, ptr), Pointer(numbers, i64), Pointer(found, i64)
        x, y, n = Pointer(buffers[0], element), Pointer(buffers[3], element), meta[_N]
        first, end = part_range(b, (n + (GROUP - 1)) // GROUP, meta[_PER_PART])
        with b.loop(first, end) as group:
            start = group * GROUP
            words = in_draw_order(b, philox_words(b, group, meta[_SEED], meta[_DRAW]))
            whole, last = b.if_else(start + GROUP <= n)
            with whole:
                _write_group(b, words, x + start, y + start, refused)
            with last:  # cut off, so by way of the stack
                held, nbytes = b.array(element, GROUP), (n - start) * element.nbytes
                fill_zeros(b, held.address, b.const(i64, GROUP * element.nbytes))
                copy_run(b, held.address, x.at(start), nbytes)
                _write_group(b, words, held, held, refused)
                copy_run(b, y.at(start), held.address, nbytes)

    write_part(module, name + "_part", part)
    with module.function(name, i64, buffers=ptr, meta=ptr) as b:
        refused = b.array(i64, 1)
        refused[0] = 0
        n_parts = Pointer(b.arg("meta"), i64)[_N_PARTS]
        in_parts(b, name + "_part", n_parts, b.arg("buffers"), b.arg("meta"), refused.address)
        b.ret(refused[0])


@routine("bernoulli")
def bind_bernoulli(types: Inputs, attrs: Attrs) -> Bound | None:
    """1 with the probability that each element is, else 0."""
    x, element = types[0], element_of(types[0])
    if element is None or 0 in x.shape:
        return None
    n = count(x.shape)
    n_parts, per_part = parts_of(-(-n // GROUP), GROUP, PART_WORK)
    address = build(f"bernoulli_{element.suffix}", _write, element)
    return Bound(address, "cii", (x,), (n_parts, per_part, n))
