"""Philox against the published vectors, and every distribution against its own distribution function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from extempo.backends.numpy import philox

SEED = 0x0123456789ABCDEF
FLOATS = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]
N = 20_000

# Draws whose element i must not depend on how many there are.
ELEMENTWISE: dict[str, Callable[[int], Any]] = {
    "bits": lambda n: philox.bits(SEED, 3, n),
    "long_bits": lambda n: philox.long_bits(SEED, 3, n),
    **{f"uniform {np.dtype(t)}": lambda n, t=t: philox.uniform(SEED, 3, (n,), t) for t in FLOATS},
    **{f"normal {np.dtype(t)}": lambda n, t=t: philox.normal(SEED, 3, (n,), t) for t in FLOATS},
    **{f"exponential {np.dtype(t)}": lambda n, t=t: philox.exponential(SEED, 3, (n,), t) for t in FLOATS},
    **{f"cauchy {np.dtype(t)}": lambda n, t=t: philox.cauchy(SEED, 3, (n,), t) for t in FLOATS},
    "geometric": lambda n: philox.geometric(SEED, 3, 0.2, (n,)),
    "randint": lambda n: philox.randint(SEED, 3, -5, 1000, (n,)),
    "bernoulli": lambda n: philox.bernoulli(SEED, 3, 0.3, (n,)),
    "gamma": lambda n: philox.gamma(SEED, 3, np.linspace(0.1, 8, 64)[np.arange(n) % 64]),
    "poisson": lambda n: philox.poisson(SEED, 3, np.linspace(0, 80, 64)[np.arange(n) % 64]),
}


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_blocks_are_the_published_ones(counter: tuple[int, ...], key: tuple[int, ...], expected: str) -> None:
    number, draw, seed = (low | high << 32 for low, high in (counter[:2], counter[2:], key))
    words = philox.blocks(seed, draw, [number])[0]
    assert " ".join(f"{int(word):08x}" for word in words) == expected


def test_words_are_laid_out_as_the_contract_says() -> None:
    words = philox.bits(SEED, 5, 41)
    block = philox.blocks(SEED, 5, [7])[0]
    assert [int(words[28 + i]) for i in range(4)] == [int(word) for word in block]
    assert int(philox.long_bits(SEED, 5, 15)[14]) == int(words[28]) | int(words[29]) << 32


def test_blocks_do_not_depend_on_how_they_are_chunked() -> None:
    numbers = np.arange(20_000, dtype=np.uint64)
    together = philox.blocks(SEED, 1, numbers)
    assert np.array_equal(together[8190:8195], philox.blocks(SEED, 1, numbers[8190:8195]))
    assert np.array_equal(together[::-1], philox.blocks(SEED, 1, numbers[::-1]))


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_the_first_of_many_are_the_few(name: str) -> None:
    make = ELEMENTWISE[name]
    many = make(1001)
    for n in (0, 1, 2, 3, 7, 64, 1000):
        few = make(n)
        assert few.dtype == many.dtype
        assert np.array_equal(few, many[:n])


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_the_same_draw_gives_the_same_numbers(name: str) -> None:
    assert np.array_equal(ELEMENTWISE[name](100), ELEMENTWISE[name](100))


def test_seeds_and_draws_are_independent_streams() -> None:
    streams = [philox.bits(seed, draw, 1000) for seed in (0, 1, 1 << 32) for draw in (0, 1, 1 << 32)]
    for i, one in enumerate(streams):
        for other in streams[:i]:
            assert (one == other).sum() == 0


def test_negative_seeds_are_taken_modulo_64_bits() -> None:
    assert np.array_equal(philox.bits(-1, 0, 8), philox.bits(2**64 - 1, 0, 8))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3), (1, 1, 5)])
def test_results_have_the_shape_that_was_asked_for(shape: tuple[int, ...]) -> None:
    n = math.prod(shape)
    results = [
        philox.uniform(SEED, 0, shape),
        philox.normal(SEED, 0, shape, np.float64),
        philox.exponential(SEED, 0, shape),
        philox.cauchy(SEED, 0, shape),
        philox.geometric(SEED, 0, 0.5, shape),
        philox.geometric(SEED, 0, 1.0, shape),
        philox.randint(SEED, 0, 0, 10, shape),
        philox.bernoulli(SEED, 0, 0.5, shape),
        philox.bernoulli(SEED, 0, np.full(shape, 0.5), shape),
        philox.gamma(SEED, 0, np.full(shape, 0.5)),
        philox.poisson(SEED, 0, np.full(shape, 20.0)),
    ]
    assert all(result.shape == shape for result in results)
    assert np.array_equal(results[0].reshape(-1), philox.uniform(SEED, 0, (n,)))


def test_empty_permutations_and_rows_are_empty() -> None:
    assert philox.permutation(SEED, 0, 0).shape == (0,)
    assert philox.multinomial(SEED, 0, np.ones((0, 4)), 3, replacement=True).shape == (0, 3)
    assert philox.multinomial(SEED, 0, np.ones((2, 4)), 0, replacement=False).shape == (2, 0)


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniforms_reach_down_to_0_and_never_1(dtype: Any) -> None:
    n_bits = {np.dtype(np.float64): 53, np.dtype(np.float32): 24, np.dtype(np.float16): 11}.get(np.dtype(dtype), 8)
    drawn = philox.uniform(SEED, 9, (N,), dtype).astype(np.float64)
    assert drawn.min() >= 0
    assert drawn.max() <= 1 - 2.0**-n_bits
    assert np.array_equal(drawn * 2.0**n_bits, np.floor(drawn * 2.0**n_bits))
    if n_bits <= 11:  # few enough values that all of them appear
        assert (drawn.min(), drawn.max()) == (0.0, 1 - 2.0**-n_bits)


def test_the_largest_words_give_uniforms_below_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(philox, "blocks", lambda seed, draw, numbers: np.full((len(numbers), 4), 2**32 - 1, np.uint32))
    for dtype in FLOATS:
        assert (philox.uniform(0, 0, (8,), dtype).astype(np.float64) < 1).all()
        assert np.isfinite(philox.normal(0, 0, (8,), dtype).astype(np.float64)).all()
        assert (philox.exponential(0, 0, (8,), dtype).astype(np.float64) > 0).all()
        assert np.isfinite(philox.cauchy(0, 0, (8,), dtype).astype(np.float64)).all()
    assert philox.randint(0, 0, -3, 7, (4,)).max() == 6
    assert philox.bernoulli(0, 0, 1.0, (4,)).all()
    assert philox.bernoulli(0, 0, np.ones(4), (4,)).all()
    assert philox.multinomial(0, 0, np.array([[0.1, 0.7, 0.2, 0.0]]), 4, replacement=True).max() == 2


def test_the_smallest_words_give_finite_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(philox, "blocks", lambda seed, draw, numbers: np.zeros((len(numbers), 4), np.uint32))
    for dtype in FLOATS:
        assert np.isfinite(philox.normal(0, 0, (8,), dtype).astype(np.float64)).all()
        assert np.isfinite(philox.exponential(0, 0, (8,), dtype).astype(np.float64)).all()
        assert np.isfinite(philox.cauchy(0, 0, (8,), dtype).astype(np.float64)).all()
    assert not philox.bernoulli(0, 0, 0.0, (4,)).any()
    assert not philox.bernoulli(0, 0, np.zeros(4), (4,)).any()
    assert philox.geometric(0, 0, 0.5, (4,)).min() >= 1
    assert philox.multinomial(0, 0, np.array([[0.0, 0.7, 0.3]]), 4, replacement=True).min() == 1


def distance_from(distribution: Callable[[Any], Any], drawn: Any) -> float:
    """Kolmogorov and Smirnov's statistic times sqrt(n): above 1.95 once in a thousand right samples."""
    ordered = np.sort(np.asarray(drawn, np.float64).reshape(-1))
    below = np.array([distribution(value) for value in ordered])
    ranks = np.arange(ordered.size + 1) / ordered.size
    gap = max(np.max(ranks[1:] - below), np.max(below - ranks[:-1]))
    return float(gap * math.sqrt(ordered.size))


def normal_distribution(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


CONTINUOUS: dict[str, tuple[Callable[[], Any], Callable[[float], float]]] = {
    "uniform float32": (lambda: philox.uniform(SEED, 11, (N,), np.float32), lambda x: x),
    "uniform float64": (lambda: philox.uniform(SEED, 11, (N,), np.float64), lambda x: x),
    "normal float32": (lambda: philox.normal(SEED, 12, (N,), np.float32), normal_distribution),
    "normal float64": (lambda: philox.normal(SEED, 12, (N,), np.float64), normal_distribution),
    "exponential": (lambda: philox.exponential(SEED, 13, (N,)), lambda x: -math.expm1(-x)),
    "cauchy": (lambda: philox.cauchy(SEED, 14, (N,)), lambda x: 0.5 + math.atan(x) / math.pi),
    "gamma 0.5": (lambda: philox.gamma(SEED, 15, np.full(N, 0.5)), lambda x: math.erf(math.sqrt(x))),
    "gamma 1": (lambda: philox.gamma(SEED, 16, np.full(N, 1.0)), lambda x: -math.expm1(-x)),
    "gamma 2": (lambda: philox.gamma(SEED, 17, np.full(N, 2.0)), lambda x: 1 - (1 + x) * math.exp(-x)),
    "gamma 3 float32": (
        lambda: philox.gamma(SEED, 18, np.full(N, 3.0, np.float32)),
        lambda x: 1 - (1 + x + x * x / 2) * math.exp(-x),
    ),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_draws_follow_their_distribution_function(name: str) -> None:
    make, distribution = CONTINUOUS[name]
    assert distance_from(distribution, make()) < 1.95


def test_the_distance_notices_a_wrong_distribution() -> None:
    drawn = philox.normal(SEED, 12, (N,), np.float64)
    assert distance_from(normal_distribution, drawn * 1.05) > 1.95
    assert distance_from(normal_distribution, drawn + 0.03) > 1.95


@pytest.mark.parametrize("dtype", FLOATS)
def test_normals_have_the_moments_of_a_normal(dtype: Any) -> None:
    drawn = philox.normal(SEED, 21, (200_000,), dtype).astype(np.float64)
    assert np.isfinite(drawn).all()
    for power, moment in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)):
        spread = math.sqrt(math.prod(range(1, 4 * power, 2)[:power]) / drawn.size)
        rounding = 0.01 if np.dtype(dtype) == np.dtype(ml_dtypes.bfloat16) else 0.001
        assert abs((drawn**power).mean() - moment) < 5 * spread + rounding


def test_the_two_normals_of_a_pair_are_uncorrelated_in_value_and_size() -> None:
    pairs = philox.normal(SEED, 22, (100_000, 2), np.float64)
    for function in (np.asarray, np.square, np.abs):
        correlation = np.corrcoef(function(pairs[:, 0]), function(pairs[:, 1]))[0, 1]
        assert abs(correlation) < 4 / math.sqrt(len(pairs))


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 4), (10, 17), (2**40, 2**40 + 5), (-(2**63), -(2**63) + 7)])
def test_whole_numbers_of_a_small_range_are_equally_frequent(low: int, high: int) -> None:
    drawn = philox.randint(SEED, 23, low, high, (70_000,))
    counts = np.array([(drawn == value).sum() for value in range(low, high)])
    assert counts.sum() == drawn.size
    expected = drawn.size / (high - low)
    assert (np.abs(counts - expected) < 5 * math.sqrt(expected)).all()


@pytest.mark.parametrize(("low", "high"), [(-(2**63), 2**63), (-(2**62), 2**62 + 12345), (0, 2**63), (-7, 2**33)])
def test_whole_numbers_of_a_large_range_are_spread_over_it(low: int, high: int) -> None:
    drawn = philox.randint(SEED, 24, low, high, (N,))
    assert drawn.dtype == np.int64
    scaled = (drawn.astype(np.float64) - low) / (high - low)
    assert scaled.min() >= 0
    assert scaled.max() <= 1
    assert distance_from(lambda x: x, scaled) < 1.95


def test_large_ranges_take_the_upper_half_of_the_product() -> None:
    words = philox.long_bits(SEED, 25, 50)
    for n_values in (3, 2**32 - 1, 2**32, 2**32 + 1, 2**63 + 11):
        exact = [int(word) * n_values >> 64 for word in words]
        assert philox.randint(SEED, 25, 0, n_values, (50,)).view(np.uint64).tolist() == exact


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32, ml_dtypes.bfloat16])
def test_whole_numbers_come_in_the_dtype_asked_for(dtype: Any) -> None:
    drawn = philox.randint(SEED, 26, 0, 100, (200,), dtype)
    assert drawn.dtype == np.dtype(dtype)
    assert np.array_equal(drawn.astype(np.int64), philox.randint(SEED, 26, 0, 100, (200,)))


def test_coins_fall_with_their_probability() -> None:
    for probability in (0.0, 1e-3, 0.3, 0.5, 0.999, 1.0):
        drawn = philox.bernoulli(SEED, 27, probability, (100_000,))
        spread = math.sqrt(probability * (1 - probability) / drawn.size)
        assert abs(drawn.mean() - probability) <= 5 * spread


def test_a_coin_for_each_element_equals_the_common_coin() -> None:
    each = philox.bernoulli(SEED, 28, np.full((50, 20), 0.3), (50, 20))
    assert np.array_equal(each, philox.bernoulli(SEED, 28, 0.3, (50, 20)))


@pytest.mark.parametrize("probability", [0.05, 0.5, 0.9])
def test_trials_up_to_success_are_as_frequent_as_they_should_be(probability: float) -> None:
    drawn = philox.geometric(SEED, 29, probability, (100_000,))
    for count in range(1, 6):
        expected = drawn.size * probability * (1 - probability) ** (count - 1)
        assert abs((drawn == count).sum() - expected) < 5 * math.sqrt(expected) + 1


def test_permutations_hold_every_number_once_and_first_places_are_fair() -> None:
    firsts = np.zeros(6)
    for draw in range(1200):
        order = philox.permutation(SEED, draw, 6)
        assert sorted(order.tolist()) == list(range(6))
        firsts[order[0]] += 1
    assert (np.abs(firsts - 200) < 5 * math.sqrt(200)).all()


def test_equal_keys_keep_the_order_of_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(philox, "long_bits", lambda seed, draw, n: np.zeros(n, np.uint64))
    assert philox.permutation(0, 0, 5).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("concentration", [1e-3, 0.2, 0.999, 1.0, 7.5, 400.0])
def test_gammas_have_the_mean_and_variance_of_a_gamma(concentration: float) -> None:
    drawn = philox.gamma(SEED, 30, np.full(100_000, concentration))
    assert (drawn > 0).all()
    assert abs(drawn.mean() - concentration) < 5 * math.sqrt(concentration / drawn.size)
    fourth = 3 * concentration**2 + 6 * concentration
    assert abs(drawn.var() - concentration) < 5 * math.sqrt(fourth / drawn.size)


def test_gammas_of_no_valid_concentration_are_nan() -> None:
    drawn = philox.gamma(SEED, 31, np.array([1.0, 0.0, -1.0, np.nan, np.inf, 0.5]))
    assert np.isnan(drawn).tolist() == [False, True, True, True, True, False]


@pytest.mark.parametrize("rate", [0.0, 0.3, 4.0, 9.99, 10.0, 30.0, 1000.0])
def test_poisson_counts_are_as_frequent_as_they_should_be(rate: float) -> None:
    drawn = philox.poisson(SEED, 32, np.full(100_000, rate))
    assert np.array_equal(drawn, np.floor(drawn))
    assert abs(drawn.mean() - rate) <= 5 * math.sqrt(rate / drawn.size)
    assert abs(drawn.var() - rate) <= 5 * math.sqrt((2 * rate * rate + rate) / drawn.size)
    spread = math.sqrt(rate)
    for count in {int(rate), int(rate + spread), int(max(rate - spread, 0)), int(rate + 3 * spread)}:
        log_probability = count * math.log(rate) - rate - math.lgamma(count + 1) if rate else 0.0
        expected = drawn.size * math.exp(log_probability)
        assert abs((drawn == count).sum() - expected) <= 5 * math.sqrt(expected)


def test_poisson_of_no_valid_rate_is_nan() -> None:
    drawn = philox.poisson(SEED, 33, np.array([1.0, -1.0, np.nan, np.inf, 1e12]))
    assert np.isnan(drawn).tolist() == [False, True, True, True, False]
    assert abs(drawn[4] - 1e12) < 1e8


def test_poisson_keeps_the_dtype_of_its_rates() -> None:
    assert philox.poisson(SEED, 34, np.full(3, 2.0, np.float32)).dtype == np.float32


@pytest.mark.parametrize("replacement", [True, False])
def test_indices_are_drawn_in_proportion_to_their_weights(replacement: bool) -> None:
    weights = np.array([0.0, 1.0, 2.0, 0.0, 5.0])
    drawn = philox.multinomial(SEED, 35, np.tile(weights, (30_000, 1)), 2, replacement=replacement)
    share = weights / weights.sum()
    firsts = np.bincount(drawn[:, 0], minlength=5) / len(drawn)
    assert (np.abs(firsts - share) <= 5 * np.sqrt(share * (1 - share) / len(drawn))).all()
    if replacement:
        second = share
    else:
        assert (drawn[:, 0] != drawn[:, 1]).all()
        rest = [share[i] * share / (1 - share[i]) * (np.arange(5) != i) for i in range(5)]
        second = np.sum(rest, axis=0)
    seconds = np.bincount(drawn[:, 1], minlength=5) / len(drawn)
    assert (np.abs(seconds - second) <= 5 * np.sqrt(second * (1 - second) / len(drawn))).all()


def test_drawing_all_without_replacement_names_every_index_once() -> None:
    drawn = philox.multinomial(SEED, 36, np.random.default_rng(0).random((50, 7)) + 0.01, 7, replacement=False)
    assert np.array_equal(np.sort(drawn, axis=1), np.tile(np.arange(7), (50, 1)))
