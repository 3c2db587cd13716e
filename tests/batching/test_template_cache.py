"""Templates at numbers of rows: small ones are remembered for good, large ones are forgotten first."""

from __future__ import annotations

from extempo.batching import template_cache
from extempo.batching.template_cache import SMALL, ByRows


def test_large_numbers_of_rows_are_forgotten_first(monkeypatch):
    monkeypatch.setattr(template_cache, "MOST_FILLED", 4)
    known = ByRows()
    for n in (3, SMALL + 1, 5, SMALL + 9, SMALL + 2):
        assert known.put(n, f"run {n}") == f"run {n}"
    assert list(known) == [3, 5, SMALL + 9, SMALL + 2]


def test_a_value_may_be_none():
    known = ByRows()
    assert known.put(7, None) is None
    assert known.get(7, "missing") is None
