"""Random numbers natively: Philox4x32-10 and the distributions that training uses.

The layout of a draw is that of `backends.philox`: words, uniforms, whole numbers and truths have the same bits there
and here. Normals are made by the same steps and differ by what the two logarithms, sines and cosines round
differently: a few units in the last place of the radius.

Eight blocks at a time, one in each lane: 32 elements of 32 bits or 16 of 64 bits make a group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ....core.types import TensorType, count, dtype
from ..ir.builder import IRFunction, IRModule, Pointer, Type, Value, f32, f64, i8, i32, i64, ptr, vector, void
from ..lanes.vector_math import library, log, polynomial
from .layout import copy_run
from .routine import Attrs, Bound, Inputs, build, routine
from .sweeps import context_words, in_parts, part_range, parts_of, write_part

LANES = 8
PART_WORK = 1 << 15  # elements; about 40 us
_N_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_MEMORY: dict[str, Type] = {"float32": f32, "float64": f64, "int64": i64, "int32": i32, "bool": i8}

# sin(r) = r + r^3 S(r^2) and cos(r) = 1 - r^2 / 2 + r^4 C(r^2), for r up to pi / 4; to 2e-11.
_SINE = (-0.16666666663846835, 0.008333331871154094, -0.00019840084727224596, 2.7249657937470446e-06)
_COSINE = (0.04166666666431382, -0.0013888887668951373, 2.4800598658969304e-05, -2.7300731080570496e-07)

# Numbers(function, where they stand) -> what the elements need, computed once; Body(function, that, words) -> elements.
Numbers = Callable[[IRFunction, Pointer], Sequence[Value]]
Body = Callable[[IRFunction, Sequence[Value], list[Value]], list[Value]]


# ---- Philox


def philox_words(b: IRFunction, group: Value, seed: Value, draw: Value) -> list[Value]:
    """The four words of blocks 8 * group to 8 * group + 7, one block in each lane."""
    wide = vector(i64, LANES)
    number = b.splat(group * LANES, LANES) + b.lanes(wide, range(LANES))
    counter = [
        b.cast("trunc", number, i32),
        b.cast("trunc", b.binary("lshr", number, 32), i32),
        *(b.splat(half, LANES) for half in _halves(b, draw)),
    ]
    keys = list(_halves(b, seed))
    for _ in range(_N_ROUNDS):
        products = [
            b.cast("zext", counter[2 * k], i64) * b.const(wide, multiplier) for k, multiplier in enumerate(_MULTIPLIERS)
        ]
        low = [b.cast("trunc", p, i32) for p in products]
        high = [b.cast("trunc", b.binary("lshr", p, 32), i32) for p in products]
        counter = [
            high[1] ^ counter[1] ^ b.splat(keys[0], LANES),
            low[1],
            high[0] ^ counter[3] ^ b.splat(keys[1], LANES),
            low[0],
        ]
        keys = [key + (step - 2**32) for key, step in zip(keys, _KEY_STEPS, strict=True)]
    return counter


def _halves(b: IRFunction, word: Value) -> tuple[Value, Value]:
    return b.cast("trunc", word, i32), b.cast("trunc", b.binary("lshr", word, 32), i32)


def _long_words(b: IRFunction, words: list[Value]) -> list[Value]:
    """Two 64-bit elements of each block, low word first."""
    wide = [b.cast("zext", word, i64) for word in words]
    return [wide[0] | (wide[1] << 32), wide[2] | (wide[3] << 32)]


def in_draw_order(b: IRFunction, parts: list[Value]) -> list[Value]:
    """Elements of eight blocks, `parts[k]` holding the k-th of each, in the order in which they stand in a draw."""
    zipped = [
        b.shuffle(x, y, [i // 2 + LANES * (i % 2) for i in range(2 * LANES)])
        for x, y in zip(parts[::2], parts[1::2], strict=True)
    ]
    if len(zipped) == 1:
        return [b.shuffle(zipped[0], zipped[0], range(k, k + LANES)) for k in (0, LANES)]
    ordered = []
    for first in range(0, 2 * LANES, 4):
        pairs = [first, first + 1, first + 2 * LANES, first + 2 * LANES + 1]
        ordered.append(b.shuffle(zipped[0], zipped[1], [*pairs, *(i + 2 for i in pairs)]))
    return ordered


# ---- from bits to numbers


def _as_unsigned(b: IRFunction, words: Value, to: Type) -> Value:
    return b.cast("uitofp", words, to)


def _uniform(b: IRFunction, words: list[Value], to: Type) -> list[Value]:
    """Uniform in [0, 1): 24 bits for float32, 53 for float64."""
    if to is f64:
        return [_as_unsigned(b, b.binary("lshr", w, 11), f64) * 2.0**-53 for w in _long_words(b, words)]
    # 24 bits fit a signed word, whose conversion is one instruction.
    return [b.cast("sitofp", b.binary("lshr", w, 8), f32) * 2.0**-24 for w in words]


def _box_muller(b: IRFunction, words: list[Value], to: Type) -> list[Value]:
    """Standard normal: pairs of words are a radius and an angle."""
    if to is f64:
        long = _long_words(b, words)
        level = (_as_unsigned(b, b.binary("lshr", long[0], 12), f64) + 0.5) * 2.0**-52
        angle = _as_unsigned(b, b.binary("lshr", long[1], 11), f64) * (2 * math.pi * 2.0**-53)
        radius = b.intrinsic("sqrt", library(b, "log", level) * -2.0)
        return [radius * library(b, "cos", angle), radius * library(b, "sin", angle)]
    made = []
    for first, second in (words[:2], words[2:]):
        level = _as_unsigned(b, first, f32) * 2.0**-32 + 2.0**-33
        radius = b.intrinsic("sqrt", log(b, level) * -2.0)
        sine, cosine = _sine_and_cosine(b, _as_unsigned(b, second, f32) * (2 * math.pi * 2.0**-32))
        made += [radius * cosine, radius * sine]
    return made


def _sine_and_cosine(b: IRFunction, angle: Value) -> tuple[Value, Value]:
    """Of float32 angles from 0 to 2 pi: the rest after whole quarters of a turn, by polynomials."""
    quarters = b.intrinsic("rint", angle * (2 / math.pi))
    high = float.fromhex("0x1.921fb6p+0")  # pi / 2 in float32, and what is missing
    rest = b.fma(quarters, -high, angle)
    rest = b.fma(quarters, high - math.pi / 2, rest)
    square = rest * rest
    sine = b.fma(square * rest, polynomial(b, _SINE, square), rest)
    cosine = b.fma(square * square, polynomial(b, _COSINE, square), b.fma(square, -0.5, 1.0))
    turn = b.cast("fptosi", quarters, i32)
    swapped = (turn & 1) != 0
    signs = [((t & 2) << 30) for t in (turn, turn + 1)]
    values = [b.select(swapped, cosine, sine), b.select(swapped, sine, cosine)]
    flipped = [b.bitcast(b.bitcast(v, s.type) ^ s, v.type) for v, s in zip(values, signs, strict=True)]
    return flipped[0], flipped[1]


def _high_product(b: IRFunction, words: Value, factor: Value) -> Value:
    """The upper 64 bits of words * factor."""
    mask = 0xFFFFFFFF
    low, high = words & mask, b.binary("lshr", words, 32)
    factor_low, factor_high = factor & mask, b.binary("lshr", factor, 32)
    middle = high * factor_low + b.binary("lshr", low * factor_low, 32)
    cross = low * factor_high + (middle & mask)
    return high * factor_high + b.binary("lshr", middle, 32) + b.binary("lshr", cross, 32)


# ---- the loops


def _bind(
    name: str, attrs: dict[str, Any], kinds: str, wide: bool, numbers: Numbers, body: Body, element: Type
) -> Bound:
    """`kinds`: how the numbers after seed and draw are read; `wide`: 64 bits to an element."""
    shape, d = attrs["shape"], attrs["dtype"]
    n, per_group = count(shape), 2 * LANES if wide else 4 * LANES
    n_parts, groups_per_part = parts_of(-(-n // per_group), per_group, PART_WORK)
    address = build(f"draw_{name}_{element.suffix}", _write, element, per_group, len(kinds), numbers, body)
    return Bound(address, "ii" + kinds, (TensorType(shape, d),), (n_parts, groups_per_part, n))


_HEAD = 3  # bound numbers before those of the call


def _write(
    module: IRModule, name: str, element: Type, per_group: int, n_given: int, numbers: Numbers, body: Body
) -> None:
    _write_groups(module, name + "_groups", element, per_group, numbers, body)

    def part(b: IRFunction) -> None:
        """Whole groups in place, the last one, where it is cut off, by way of the stack."""
        target, meta = context_words(b, ptr, ptr)
        given = b.pointer(meta, i64)
        n = given[2]
        n_whole = n // per_group
        first, end = part_range(b, n_whole + b.select(n % per_group > 0, b.const(i64, 1), 0), given[1])
        out = b.pointer(target, element)
        write = module.defined[name + "_groups"]
        stop = b.smaller(end, n_whole)
        b.call(write, out.at(first * per_group), meta, first, stop)
        with b.if_(stop < end):
            held = b.array(element, per_group)
            b.call(write, held.address, meta, stop, end)
            copy_run(b, out.at(stop * per_group), held.address, (n - stop * per_group) * element.nbytes)

    write_part(module, name + "_part", part)
    with module.function(name, i64, buffers=ptr, meta=ptr) as b:
        given = b.pointer(b.arg("meta"), i64)
        with b.if_(given[2] > 0):
            target = b.pointer(b.arg("buffers"), ptr)[2 + n_given]
            in_parts(b, name + "_part", given[0], target, b.arg("meta"))
        b.ret(0)


def _write_groups(module: IRModule, name: str, element: Type, per_group: int, numbers: Numbers, body: Body) -> None:
    """Groups `first` to `end`, written one after the other from `target` on."""
    with module.function(name, void, internal=True, target=ptr, meta=ptr, first=i64, end=i64) as b:
        given = b.pointer(b.arg("meta"), i64) + _HEAD
        seed, draw = given[0], given[1]
        prepared = numbers(b, given + 2)
        target = b.pointer(b.arg("target"), element)
        with b.loop(b.arg("first"), b.arg("end")) as group:
            elements = body(b, prepared, philox_words(b, group, seed, draw))
            place = target + (group - b.arg("first")) * per_group
            for k, values in enumerate(in_draw_order(b, elements)):
                place.set_vector(k * LANES, values)


def _memory(d: dtype, *names: str) -> Type | None:
    return _MEMORY[d._name] if d._name in names else None


def _nothing(b: IRFunction, given: Pointer) -> Sequence[Value]:
    return ()


def _double(given: Pointer, i: int) -> Value:
    return Pointer(given.address, f64)[i]


def _rounded(b: IRFunction, x: Value, to: Type) -> Value:
    return x if to is f64 else b.cast("fptrunc", x, to)


# ---- distributions


def _are_numbers(types: Inputs) -> bool:
    return all(t in (int, float, bool) for t in types)


@routine("random_uniform")
def bind_uniform(types: Inputs, attrs: Attrs) -> Bound | None:
    """Uniform numbers with low <= number < high."""
    element = _memory(attrs["dtype"], "float32", "float64")
    if element is None or not _are_numbers(types):
        return None

    def numbers(b: IRFunction, given: Pointer) -> Sequence[Value]:
        low, high = _double(given, 0), _double(given, 1)
        ends = [_rounded(b, x, element) for x in (high - low, low, high)]
        return [b.splat(x, LANES) for x in (*ends, _last_below(b, ends[2], ends[1]))]

    def body(b: IRFunction, prepared: Sequence[Value], words: list[Value]) -> list[Value]:
        width, low, high, last = prepared
        made = [u * width + low for u in _uniform(b, words, element)]
        return [b.select(x >= high, last, x) for x in made]  # rounding may reach the end that is not included

    return _bind("uniform", attrs, "ff", element is f64, numbers, body, element)


def _last_below(b: IRFunction, high: Value, low: Value) -> Value:
    """The largest number below `high`, or `low` where the interval is empty."""
    integer = i64 if high.type is f64 else i32
    bits = b.bitcast(high, integer)
    below_zero = b.const(integer, 1 - (1 << (integer.bits - 1)))  # minus the smallest number
    step = b.select(bits < 0, bits + 1, bits - 1)
    below = b.bitcast(b.select(high == 0.0, below_zero, step), high.type)
    return b.larger(below, low)


@routine("random_normal")
def bind_normal(types: Inputs, attrs: Attrs) -> Bound | None:
    """Standard normal numbers."""
    element = _memory(attrs["dtype"], "float32", "float64")
    if element is None:
        return None

    def body(b: IRFunction, prepared: Sequence[Value], words: list[Value]) -> list[Value]:
        return _box_muller(b, words, element)

    return _bind("normal", attrs, "", element is f64, _nothing, body, element)


@routine("random_integer")
def bind_integer(types: Inputs, attrs: Attrs) -> Bound | None:
    """Whole numbers with low <= number < high, both modulo 2**64."""
    element = _memory(attrs["dtype"], "int64", "int32")
    if element is None or types[2:] != (int, int):
        return None

    def numbers(b: IRFunction, given: Pointer) -> Sequence[Value]:
        return [b.splat(x, LANES) for x in (given[0], given[1] - given[0])]

    def body(b: IRFunction, prepared: Sequence[Value], words: list[Value]) -> list[Value]:
        low, n_values = prepared
        made = []
        for word in _long_words(b, words):
            whole = low + b.select(n_values == 0, word, _high_product(b, word, n_values))  # 0 stands for 2**64
            made.append(whole if element is i64 else b.cast("trunc", whole, i32))
        return made

    return _bind("integer", attrs, "ii", True, numbers, body, element)


@routine("random_coin")
def bind_coin(types: Inputs, attrs: Attrs) -> Bound | None:
    """1 with probability p, else 0."""
    element = _memory(attrs["dtype"], "float32", "float64", "int64", "int32", "bool")
    if element is None or not _are_numbers(types):
        return None

    def numbers(b: IRFunction, given: Pointer) -> Sequence[Value]:
        threshold = b.intrinsic("ceil", _double(given, 0) * 2.0**32)
        # Words below the threshold count; from 2**32 on all of them do, and none below 1.
        threshold = b.larger(threshold, 0.0)
        always = threshold >= 2.0**32
        word = b.cast("trunc", b.cast("fptosi", threshold, i64), i32)
        return [b.splat(word, LANES), b.splat(always, LANES)]

    def body(b: IRFunction, prepared: Sequence[Value], words: list[Value]) -> list[Value]:
        threshold, always = prepared
        truths = [b.compare("<", w, threshold, unsigned=True) | always for w in words]
        if element.kind == "f":
            return [b.cast("uitofp", t, element) for t in truths]
        return [b.cast("zext", t, element) for t in truths]

    return _bind("coin", attrs, "f", False, numbers, body, element)


@routine("random_keep")
def bind_keep(types: Inputs, attrs: Attrs) -> Bound | None:
    """`scale` with probability 1 - p, else 0."""
    element = _memory(attrs["dtype"], "float32", "float64")
    if element is None or not _are_numbers(types):
        return None

    def numbers(b: IRFunction, given: Pointer) -> Sequence[Value]:
        p, scale = _rounded(b, _double(given, 0), f32), _rounded(b, _double(given, 1), element)
        return [b.splat(p, LANES), b.splat(scale, LANES)]

    def body(b: IRFunction, prepared: Sequence[Value], words: list[Value]) -> list[Value]:
        p, scale = prepared
        return [b.select(u >= p, scale, 0.0) for u in _uniform(b, words, f32)]

    return _bind("keep", attrs, "ff", False, numbers, body, element)
