"""Memory behind tensors: never handed out twice while somebody still sees it."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import extempo as ex
from extempo.backends.selection import native


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


def test_address_and_array_are_two_faces_of_the_same_memory():
    t = ex.zeros(4)
    assert t.data_ptr() == t._storage.address
    t.numpy()[2] = 5
    np.testing.assert_array_equal(t.numpy(), [0, 0, 5, 0])


@pytest.mark.skipif(native() is None, reason="without native code memory is NumPy's own")
def test_sizes_that_keep_changing_do_not_leave_blocks_behind_for_each():
    memory = native().memory
    memory.clear()
    memory.reset_peak()
    for n in range(1, 200):
        ex.zeros(n * 10_000)
    stats = memory.stats()
    assert stats["free_bytes"] + stats["bytes_in_use"] <= 2 * stats["peak_bytes_in_use"] + (1 << 18)
    allocated = stats["blocks_allocated"]
    for _ in range(10):
        kept = [ex.zeros(n * 10_000) for n in (1, 7, 30, 90, 199)]
        del kept
    assert memory.stats()["blocks_allocated"] <= allocated + 5
