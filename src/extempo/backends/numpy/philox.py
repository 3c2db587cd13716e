"""Random numbers as pure functions of (seed, draw, element): Philox4x32-10 and the distributions made from it.

Each random call of a program takes one draw number, whatever its size. Element i of a draw depends on nothing but seed,
draw and i, so the first k of n elements are the k-element draw, in any backend and in any order of evaluation.

The layout, which every backend follows:

- Block b of a draw is Philox4x32-10 of the counter (b low, b high, draw low, draw high) under the key (seed low, seed
  high): four 32-bit words.
- A 32-bit element i is word i % 4 of block i // 4. (Not word 0 of block i: that would throw three words of four away.)
- A 64-bit element i is two neighbouring words, low word first: words 2i and 2i + 1 of the same stream of words.
- What an element rejects and draws again (gamma, poisson) comes from blocks of its own: element i, attempt t reads
  block t * 2**48 + i.

Which of the two an element is made from depends on the distribution and the result's dtype only: 64 bits for float64,
for whole numbers and for keys, 32 bits for float32, float16, bfloat16 and bernoulli. Scheme: Salmon et al., "Parallel
random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]
LongWords = npt.NDArray[np.uint64]
Doubles = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Array = npt.NDArray[Any]
Shape = tuple[int, ...]

_LOW_32 = 0xFFFFFFFF
_N_ROUNDS = 10
_MULTIPLIER, _OTHER_MULTIPLIER = 0xD2511F53, 0xCD9E8D57
_STEP, _OTHER_STEP = 0x9E3779B9, 0xBB67AE85
_MULTIPLIERS = np.array([[_MULTIPLIER], [_OTHER_MULTIPLIER]], np.uint64)
_KEY_STEP = np.array([[_STEP], [_OTHER_STEP]], np.uint64)
_FEW = 8  # blocks
# Blocks computed at a time: their state (about 50 bytes a block) stays in the second-level cache.
_CHUNK = 8192
_ATTEMPT_STRIDE = 1 << 48
_LOW_HALF, _HIGH_HALF = (0, 1) if sys.byteorder == "little" else (1, 0)

# Uniform floats take as many bits as the significand holds, so every value is exact and none rounds up to 1.
_UNIFORM_BITS = {np.dtype(np.float32): 24, np.dtype(np.float16): 11, np.dtype(ml_dtypes.bfloat16): 8}
# (smallest normal number, largest number)
_RANGES = {
    np.dtype(np.float64): (2.0**-1022, sys.float_info.max),
    np.dtype(np.float32): (2.0**-126, (2 - 2.0**-23) * 2.0**127),
    np.dtype(np.float16): (2.0**-14, 65504.0),
    np.dtype(ml_dtypes.bfloat16): (2.0**-126, (2 - 2.0**-7) * 2.0**127),
}


def blocks(seed: int, draw: int, numbers: npt.ArrayLike) -> Words:
    """The blocks of these numbers, as rows of four words."""
    flat = np.asarray(numbers, np.uint64).reshape(-1)
    if flat.size <= _FEW:
        few = [_block(seed & (2**64 - 1), draw & (2**64 - 1), number) for number in flat.tolist()]
        return np.array(few, np.uint32).reshape(-1, 4)
    out = np.empty((flat.size, 4), np.uint32)
    for start in range(0, flat.size, _CHUNK):
        chunk = flat[start : start + _CHUNK]
        _encrypt(seed & (2**64 - 1), draw & (2**64 - 1), chunk, out[start : start + chunk.size])
    return out


def _block(seed: int, draw: int, number: int) -> tuple[int, int, int, int]:
    """One block, by Python's ints: for a few of them arrays cost more than what is computed."""
    a, b, c, d = number & _LOW_32, number >> 32, draw & _LOW_32, draw >> 32
    low, high = seed & _LOW_32, seed >> 32
    for _ in range(_N_ROUNDS):
        left, right = a * _MULTIPLIER, c * _OTHER_MULTIPLIER
        a, b, c, d = (right >> 32) ^ b ^ low, right & _LOW_32, (left >> 32) ^ d ^ high, left & _LOW_32
        low, high = (low + _STEP) & _LOW_32, (high + _OTHER_STEP) & _LOW_32
    return a, b, c, d


def _encrypt(seed: int, draw: int, numbers: LongWords, out: Words) -> None:
    n = numbers.size
    halves = np.ascontiguousarray(numbers).view(np.uint32).reshape(n, 2)
    # Words 0 and 2 of each block, which a round multiplies, and words 1 and 3, which it adds by exclusive or.
    multiplied = np.empty((2, n), np.uint32)
    added: Words = np.empty((2, n), np.uint32)
    multiplied[0], added[0] = halves[:, _LOW_HALF], halves[:, _HIGH_HALF]
    multiplied[1], added[1] = draw & _LOW_32, draw >> 32
    # Two buffers in turn: `added` is a view of the last round's products while this round's are written.
    products = [np.empty((2, n), np.uint64) for _ in range(2)]
    split = [product.view(np.uint32).reshape(2, n, 2)[::-1] for product in products]
    for number, key in enumerate(_round_keys(seed)):
        which = number % 2
        np.multiply(multiplied, _MULTIPLIERS, out=products[which])
        np.bitwise_xor(added, key, out=multiplied)
        np.bitwise_xor(multiplied, split[which][..., _HIGH_HALF], out=multiplied)
        added = split[which][..., _LOW_HALF]
    out[:, 0::2] = multiplied.T
    out[:, 1::2] = added.T


@functools.lru_cache(maxsize=64)
def _round_keys(seed: int) -> Words:
    halves = np.array([[seed & _LOW_32], [seed >> 32]], np.uint64)
    steps = np.arange(_N_ROUNDS, dtype=np.uint64)[:, None, None] * _KEY_STEP
    return (halves + steps).astype(np.uint32)  # modulo 2**32


def bits(seed: int, draw: int, n: int) -> Words:
    """The first n 32-bit elements of a draw."""
    return blocks(seed, draw, np.arange(-(-n // 4), dtype=np.uint64)).reshape(-1)[:n]


def long_bits(seed: int, draw: int, n: int) -> LongWords:
    """The first n 64-bit elements of a draw."""
    return _pair_up(bits(seed, draw, 2 * n))


def _pair_up(words: Words) -> LongWords:
    pairs = words.reshape(-1, 2)
    if sys.byteorder == "little":
        return np.ascontiguousarray(pairs).view(np.uint64).reshape(-1)
    return pairs[:, 0] | (pairs[:, 1].astype(np.uint64) << np.uint64(32))


def uniform(seed: int, draw: int, shape: Shape, dtype: npt.DTypeLike = np.float32) -> Array:
    """Uniform in [0, 1): multiples of 2**-24 (float32), 2**-53 (float64), 2**-11 (float16), 2**-8 (bfloat16)."""
    dtype, n = np.dtype(dtype), math.prod(shape)
    if dtype == np.float64:
        drawn: Array = (long_bits(seed, draw, n) >> np.uint64(11)) * 2.0**-53
    else:
        n_bits = _UNIFORM_BITS[dtype]
        drawn = (bits(seed, draw, n) >> np.uint32(32 - n_bits)).astype(np.float32) * np.float32(2.0**-n_bits)
    return drawn.astype(dtype, copy=False).reshape(shape)


def _open_uniform(seed: int, draw: int, n: int, dtype: np.dtype[Any]) -> Doubles:
    """Uniform in (0, 1), never 0 or 1, in float64: 32 bits an element, 52 for float64 results."""
    if dtype == np.float64:
        return _inside(long_bits(seed, draw, n))
    return (bits(seed, draw, n).astype(np.float64) + 0.5) * 2.0**-32


def _inside(words: LongWords) -> Doubles:
    # 52 bits and a half: one bit more and the largest would round to 1.
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def normal(seed: int, draw: int, shape: Shape, dtype: npt.DTypeLike = np.float32) -> Array:
    """Standard normal, always finite (at most 6.8 in float32, 8.6 in float64).

    Box and Muller: elements 2j and 2j + 1 are the two coordinates made from uniforms 2j and 2j + 1, in float64 for
    float64 and in float32 for all narrower types.
    """
    dtype, n = np.dtype(dtype), math.prod(shape)
    n_even = n + n % 2
    drawn: Array
    if dtype == np.float64:
        words = long_bits(seed, draw, n_even).reshape(-1, 2)
        drawn = _box_muller(_inside(words[:, 0]), (words[:, 1] >> np.uint64(11)) * (2 * math.pi * 2.0**-53))
    else:
        pairs = bits(seed, draw, n_even).reshape(-1, 2).astype(np.float32)
        # Half a step up, so never 0. It may round to 1, where the radius is 0.
        radius_uniform = pairs[:, 0] * np.float32(2.0**-32) + np.float32(2.0**-33)
        drawn = _box_muller(radius_uniform, pairs[:, 1] * np.float32(2 * math.pi * 2.0**-32))
    return drawn.reshape(-1)[:n].astype(dtype, copy=False).reshape(shape)


def _box_muller(radius_uniform: Array, angle: Array) -> Array:
    radius = np.sqrt(-2 * np.log(radius_uniform))
    coordinates = np.empty((radius.size, 2), radius.dtype)
    np.multiply(radius, np.cos(angle), out=coordinates[:, 0])
    np.multiply(radius, np.sin(angle), out=coordinates[:, 1])
    return coordinates


def randint(seed: int, draw: int, low: int, high: int, shape: Shape, dtype: npt.DTypeLike = np.int64) -> Array:
    """Whole numbers with low <= draw < high, high - low from 1 to 2**64; no value is favoured by more than 2**-32."""
    n_values = high - low
    words = long_bits(seed, draw, math.prod(shape))
    offsets = words if n_values == 2**64 else _high_product(words, n_values)
    # Added modulo 2**64, then read as signed: right for every low, also where low + offset passes 2**63.
    return (offsets + np.uint64(low % 2**64)).view(np.int64).astype(dtype, copy=False).reshape(shape)


def _high_product(words: LongWords, factor: int) -> LongWords:
    """The upper 64 bits of words * factor."""
    shift, low_mask = np.uint64(32), np.uint64(_LOW_32)
    word_low, word_high = words & low_mask, words >> shift
    factor_low, factor_high = np.uint64(factor & _LOW_32), np.uint64(factor >> 32)
    middle = word_high * factor_low + (word_low * factor_low >> shift)
    if not factor_high:
        return middle >> shift
    cross = word_low * factor_high + (middle & low_mask)
    high: LongWords = word_high * factor_high + (middle >> shift) + (cross >> shift)
    return high


def bernoulli(seed: int, draw: int, probability: npt.ArrayLike, shape: Shape) -> npt.NDArray[np.bool_]:
    """True with the given probability (a number or an array of `shape`), to 2**-32; exact for 0 and 1."""
    words = bits(seed, draw, math.prod(shape)).reshape(shape)
    threshold = np.ceil(np.asarray(probability, np.float64) * 2.0**32)
    if threshold.ndim == 0:  # one comparison of 32-bit words, where the general one converts them
        if threshold >= 2.0**32:
            return np.ones(shape, np.bool_)
        return words < np.uint32(max(float(threshold), 0.0))
    return words < threshold


def exponential(seed: int, draw: int, shape: Shape, dtype: npt.DTypeLike = np.float32) -> Array:
    """Exponential of rate 1, always above 0 and finite."""
    dtype = np.dtype(dtype)
    return _above_zero(-np.log(_open_uniform(seed, draw, math.prod(shape), dtype)), dtype).reshape(shape)


def _above_zero(values: Doubles, dtype: np.dtype[Any]) -> Array:
    return np.maximum(values, _RANGES[dtype][0]).astype(dtype)


def cauchy(seed: int, draw: int, shape: Shape, dtype: npt.DTypeLike = np.float32) -> Array:
    """Standard Cauchy, always finite: what exceeds the dtype's range is its largest number."""
    dtype = np.dtype(dtype)
    largest = _RANGES[dtype][1]
    drawn = np.tan(math.pi * (_open_uniform(seed, draw, math.prod(shape), dtype) - 0.5))
    return np.clip(drawn, -largest, largest).astype(dtype).reshape(shape)


def geometric(seed: int, draw: int, probability: float, shape: Shape, dtype: npt.DTypeLike = np.float32) -> Array:
    """How many trials up to the first success, from 1; probability in (0, 1]."""
    if probability == 1.0:
        return np.ones(shape, dtype)
    drawn = np.ceil(
        np.log(_open_uniform(seed, draw, math.prod(shape), np.dtype(np.float64))) / math.log1p(-probability)
    )
    return np.maximum(drawn, 1.0).astype(dtype).reshape(shape)


def permutation(seed: int, draw: int, n: int) -> Indices:
    """0 .. n - 1 in random order: sorted by 64-bit keys, equal keys in order of their number."""
    return np.argsort(long_bits(seed, draw, n), kind="stable").astype(np.int64, copy=False)


def multinomial(seed: int, draw: int, weights: Array, n_samples: int, *, replacement: bool) -> Indices:
    """For each row of weights (rows, categories), `n_samples` indices drawn in proportion to the weights.

    Weights are finite and not negative, and each row has a positive one (without replacement: `n_samples` of them). An
    index of weight 0 is never drawn.
    """
    rows = np.asarray(weights, np.float64)
    if not replacement:
        # The smallest of independent exponentials of rates w is at i with probability w[i] / sum(w), and so on.
        with np.errstate(divide="ignore"):
            arrival = exponential(seed, draw, rows.shape, np.float64) / rows
        return np.argsort(arrival, axis=-1, kind="stable")[:, :n_samples].astype(np.int64, copy=False)
    levels = uniform(seed, draw, (len(rows), n_samples), np.float64)
    drawn = np.empty((len(rows), n_samples), np.int64)
    for row, level, indices in zip(rows, levels, drawn, strict=True):
        cumulative = np.cumsum(row)
        # To the right of equal sums, which skips weights of 0; a level that rounds to the total takes the last one.
        last = np.flatnonzero(row)[-1]
        np.minimum(np.searchsorted(cumulative, level * cumulative[-1], side="right"), last, out=indices)
    return drawn


def gamma(seed: int, draw: int, concentration: Array, dtype: npt.DTypeLike | None = None) -> Array:
    """Gamma of scale 1 for each concentration, always above 0; nan where the concentration is not above 0 and finite.

    Scheme: Marsaglia and Tsang (2000).
    """
    dtype = concentration.dtype if dtype is None else np.dtype(dtype)
    shape = np.asarray(concentration, np.float64).reshape(-1)
    # Below 1 the scheme does not hold: there gamma(a) is gamma(a + 1) * u ** (1 / a), with u from attempt 0.
    d = np.where(shape < 1, shape + 1, shape) - 1 / 3
    drawn = np.full(shape.size, np.nan)
    _until_accepted(seed, draw, drawn, _indices((shape > 0) & np.isfinite(shape)), functools.partial(_try_gamma, d), 1)
    small = _indices((shape > 0) & (shape < 1))
    boost = _inside(_pair_up(blocks(seed, draw, small)[:, :2]))
    drawn[small] *= np.exp(np.log(boost) / shape[small])
    return _above_zero(drawn, dtype).reshape(concentration.shape)


def _try_gamma(d: Doubles, chosen: Indices, words: Words) -> tuple[Doubles, npt.NDArray[np.bool_]]:
    d = d[chosen]
    x = _box_muller((words[:, 0] + 0.5) * 2.0**-32, words[:, 1] * (2 * math.pi * 2.0**-32))[:, 0]
    v = (1 + x / np.sqrt(9 * d)) ** 3
    u = _inside(_pair_up(words[:, 2:]))
    with np.errstate(invalid="ignore", divide="ignore"):  # log of v <= 0, which is refused
        accepted = (v > 0) & (np.log(u) < 0.5 * x * x + d * (1 - v + np.log(v)))
    return d * v, accepted


def poisson(seed: int, draw: int, rate: Array, dtype: npt.DTypeLike | None = None) -> Array:
    """Poisson counts for each rate; nan where the rate is negative or not finite.

    By inversion for rates below 10, by Hörmann's transformed rejection (PTRS, 1993) from there on.
    """
    dtype = rate.dtype if dtype is None else np.dtype(dtype)
    rates = np.asarray(rate, np.float64).reshape(-1)
    drawn = np.full(rates.size, np.nan)
    small = _indices((rates >= 0) & (rates < 10))
    drawn[small] = _invert_poisson(_inside(_pair_up(blocks(seed, draw, small)[:, :2])), rates[small])
    large = _indices((rates >= 10) & np.isfinite(rates))
    _until_accepted(seed, draw, drawn, large, functools.partial(_try_poisson, rates), 0)
    return drawn.astype(dtype).reshape(rate.shape)


def _invert_poisson(levels: Doubles, rates: Doubles) -> Doubles:
    counts = np.zeros(rates.size)
    probability = np.exp(-rates)
    remaining = levels - probability
    # 80 is 22 standard deviations above the largest rate here: no level in (0, 1) reaches it.
    for count in range(1, 81):
        above = remaining > 0
        if not above.any():
            break
        counts[above] += 1
        probability = probability * rates / count
        remaining = np.where(above, remaining - probability, remaining)
    return counts


def _try_poisson(rates: Doubles, chosen: Indices, words: Words) -> tuple[Doubles, npt.NDArray[np.bool_]]:
    rate = rates[chosen]
    b = 0.931 + 2.53 * np.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    quick = 0.9277 - 3.6224 / (b - 2)
    u = _inside(_pair_up(words[:, :2])) - 0.5
    v = _inside(_pair_up(words[:, 2:]))
    distance = 0.5 - np.abs(u)
    count = np.floor((2 * a / distance + b) * u + rate + 0.43)
    inside = (count >= 0) & ~((distance < 0.013) & (v > distance))
    density = count * np.log(rate) - rate - _log_factorial(np.maximum(count, 0.0))
    exact = np.log(v) + np.log(inverse_alpha) - np.log(a / (distance * distance) + b) <= density
    return count, ((distance >= 0.07) & (v <= quick)) | (inside & exact)


_LOG_FACTORIALS = np.array([math.lgamma(k + 1) for k in range(16)])


def _log_factorial(counts: Doubles) -> Doubles:
    """log(k!): a table below 16, Stirling's series above, where three terms leave less than 1e-12."""
    k = np.maximum(counts, 16.0)
    series = (
        (k + 0.5) * np.log(k) - k + 0.5 * math.log(2 * math.pi) + (1 - (1 - 2 / (7 * k * k)) / (30 * k * k)) / (12 * k)
    )
    return np.where(counts < 16, _LOG_FACTORIALS[np.minimum(counts, 15).astype(np.int64)], series)


def _until_accepted(
    seed: int,
    draw: int,
    out: Doubles,
    waiting: Indices,
    attempt: Callable[[Indices, Words], tuple[Doubles, npt.NDArray[np.bool_]]],
    first_number: int,
) -> None:
    """Fill `out` at the waiting indices: attempts for those not yet accepted, each with blocks of its own."""
    for number in itertools.count(first_number):
        if not waiting.size:
            return
        values, accepted = attempt(waiting, blocks(seed, draw, waiting + number * _ATTEMPT_STRIDE))
        out[waiting[accepted]] = values[accepted]
        waiting = waiting[~accepted]


def _indices(condition: npt.NDArray[np.bool_]) -> Indices:
    return np.flatnonzero(condition).astype(np.int64, copy=False)
