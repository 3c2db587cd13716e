"""Caches: dicts with a limit, which are listed."""

from __future__ import annotations

import pytest

from extempo.core.cache import CACHES, Cache


@pytest.fixture
def cache():
    yield Cache("of this test", 8)
    del CACHES["of this test"]


def test_a_full_cache_forgets_its_oldest_quarter(cache):
    for k in range(9):
        assert cache.put(k, k * k) == k * k
    assert list(cache) == [2, 3, 4, 5, 6, 7, 8]
    assert cache.evicted == 2


def test_a_cache_of_one_keeps_the_last():
    cache = Cache("of one", 1)
    try:
        cache.put("a", 1)
        cache.put("b", 2)
        assert cache == {"b": 2}
        assert cache.evicted == 1
    finally:
        del CACHES["of one"]


def test_a_value_put_again_makes_room_only_where_it_must(cache):
    for k in range(7):
        cache.put(k, None)
    cache.put(0, "new")
    assert len(cache) == 7
    assert cache[0] == "new"
    assert cache.evicted == 0


def test_every_cache_is_listed_by_its_name(cache):
    assert CACHES["of this test"] is cache
    assert all(name == found.name and found.limit > 0 for name, found in CACHES.items())
