"""Memory behind tensors: never handed out twice while somebody still sees it."""

from __future__ import annotations

import gc

import numpy as np

import extempo as ex


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
