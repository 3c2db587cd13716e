"""Durations and sizes as people write them, and limits that make sense."""

from __future__ import annotations

import pytest

from extempo.errors import ArgumentError
from extempo.serving.settings import Limits, n_bytes, seconds


@pytest.mark.parametrize(
    ("text", "value"), [("2ms", 0.002), ("0.5s", 0.5), ("1min", 60), ("3", 3), ("250us", 0.00025), (" 2 ms ", 0.002)]
)
def test_durations_have_units(text, value):
    assert seconds(text) == pytest.approx(value)


@pytest.mark.parametrize(("text", "value"), [("16MiB", 2**24), ("512kB", 512_000), ("7", 7), ("1GB", 10**9)])
def test_sizes_have_units(text, value):
    assert n_bytes(text) == value


@pytest.mark.parametrize("text", ["", "ms", "-1s", "2 weeks", "1e3s", "nan"])
def test_what_is_no_duration_is_refused_with_an_example(text):
    with pytest.raises(ArgumentError, match="a duration such as 2ms"):
        seconds(text)


def test_limits_below_one_are_refused():
    for name in ("max_batch", "max_queue", "max_body", "max_requests", "timeout", "body_timeout"):
        with pytest.raises(ArgumentError, match=name):
            Limits(**{name: 0})
    with pytest.raises(ArgumentError, match="max_wait"):
        Limits(max_wait=-1.0)
