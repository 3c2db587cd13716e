"""The pool: aligned, reused, and never handing out memory that somebody still sees."""

from __future__ import annotations

import gc

import numpy as np

import extempo as ex
from extempo.storage import ALIGNMENT, POOL
from extempo.types import TensorType, float32


def test_pooled_blocks_are_aligned():
    for n in (0, 1, 3, 17, 1000, 100_003):
        storage = POOL.allocate(TensorType((n,), float32))
        assert storage.address % ALIGNMENT == 0 or n == 0
        assert storage.array.shape == (n,)


def test_a_freed_block_is_used_again():
    POOL.clear()
    for _ in range(3):
        ex.zeros(1000)
    before = POOL.stats()["blocks_allocated"]
    for _ in range(50):
        ex.zeros(1000)
    assert POOL.stats()["blocks_allocated"] == before


def test_memory_seen_by_a_numpy_array_or_view_is_not_reused():
    t = ex.zeros(1000)
    array = t.numpy()
    part = ex.zeros(1000)[10:20]
    kept = part.numpy()
    del t, part
    gc.collect()
    others = [ex.full((1000,), 7.0) for _ in range(20)]
    assert not array.any()
    assert not kept.any()
    assert all(float(o[0]) == 7.0 for o in others)


def test_the_pool_is_bounded():
    POOL.clear()
    kept = [ex.zeros(1 << 20) for _ in range(100)]
    del kept
    gc.collect()
    assert POOL.stats()["free_bytes"] <= 1 << 28
    POOL.clear()
    assert POOL.stats()["free_bytes"] == 0


def test_address_and_array_are_two_faces_of_the_same_memory():
    t = ex.zeros(4)
    assert t.data_ptr() == t._storage.address
    t.numpy()[2] = 5
    np.testing.assert_array_equal(t.numpy(), [0, 0, 5, 0])
