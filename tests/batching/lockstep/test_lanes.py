"""Sizes of samples side by side."""

from __future__ import annotations

import numpy as np
import pytest

from extempo.batching.lockstep.lanes import Lanes
from extempo.exporting.sizes import parse_size

from .loops_beside import check, ragged, weight

SIZES = {"a": np.array([4, 1, 0]), "b": np.array([2, 3, 5])}


@pytest.mark.parametrize(
    "text", ["a", "2 * a + 1", "a * b", "(a * b) // 4", "max(0, a - 1)", "(a + b) % 3", "a / b", "3"]
)
def test_expressions_are_those_of_each_sample(text):
    lanes = Lanes(3, SIZES)
    expression = parse_size(text)
    expected = [expression.evaluate(lanes.of(i)) for i in range(3)]
    assert lanes.numbers(expression).tolist() == pytest.approx(expected)


def test_rows_begin_where_those_before_end():
    lanes = Lanes(3, SIZES)
    assert lanes.rows(parse_size("a + 1")).offsets.tolist() == [0, 5, 7, 8]
    assert lanes.rows(parse_size("a + 1")) is lanes.rows(parse_size("a + 1"))


def test_some_and_the_first_samples_have_their_own_sizes():
    lanes = Lanes(3, SIZES)
    lanes.rows(parse_size("a"))
    assert lanes.some(np.array([2, 0])).of(1) == {"a": 4, "b": 2}
    assert lanes.some(np.array([True, False, True])).n == 2
    first = lanes.first(2)
    assert first.rows(parse_size("a")).offsets.tolist() == [0, 4, 5]
    assert first.of(1) == {"a": 1, "b": 3}


def test_arithmetic_with_sizes_gives_what_it_gives_in_the_loop():
    w = weight(3)

    def fn(x):
        n = len(x)
        scale = n**0.5 + n**2 + n // 3 + n % 4 + 7 // (n + 1) + n / 3 + (n & 1) + (n | 2) + (n << 1) + (n >> 1)
        return (x * w).sum() / scale

    check(fn, ragged(3), parameters=[w])
