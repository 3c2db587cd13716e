"""Keys of every kind for x[key], of a tensor of shape (3, 4, 2), and what they are in NumPy."""

from __future__ import annotations

import numpy as np

import extempo as ex

MASK = np.array([[True, False, True, False], [False, False, True, True], [True, False, False, False]])


KEYS = {
    "int": 1,
    "negative int": -1,
    "ints": (1, 2, 0),
    "slice with step": slice(0, 3, 2),
    "empty slice": slice(2, 1),
    "slice beyond the end": slice(1, 99),
    "dots": (..., 1),
    "none": (None, 0, ..., None),
    "nothing": (),
    "list": [2, 0, 2],
    "nested list": [[0, 1], [2, 0]],
    "range": range(2),
    "empty list": [],
    "negative indices": [-1, -3],
    "two lists": ([0, 2], [1, 3]),
    "lists that broadcast": ([[0], [2]], [1, 3]),
    "list after a slice": (slice(None), [3, 0]),
    "lists apart": ([0, 2], slice(None), [1, 0]),
    "lists apart by none": ([0, 2], None, [1, 0]),
    "list and slice": ([2, 1], slice(1, 3)),
    "mask of one dim": np.array([True, False, True]),
    "mask of two dims": MASK,
    "mask later": (slice(None), np.array([True, False, False, True])),
    "mask and list": (np.array([True, False, True]), [1, 3]),
    "mask of nothing": np.zeros(3, bool),
    "True": True,
    "False": False,
    "array": np.array([[0, 1]]),
    "int32 array": np.array([0, 1], np.int32),
}


def as_ours(key):
    if isinstance(key, tuple):
        return tuple(as_ours(k) for k in key)
    return ex.tensor(key) if isinstance(key, np.ndarray) else key


def as_numpy(key):
    return list(key) if isinstance(key, range) else key
