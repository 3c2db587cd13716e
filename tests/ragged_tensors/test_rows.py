"""Rows: offsets and lengths."""

from __future__ import annotations

import numpy as np

import extempo as ex


def test_offsets_of_the_caller_are_not_touched():
    offsets = np.array([0, 1, 3])
    x = ex.ragged_from_values(ex.arange(3), offsets=offsets)
    offsets[1] = 2
    assert x.tolist() == [[0], [1, 2]]
    assert offsets.flags.writeable


def test_offsets_and_lengths_are_copies():
    x = ex.ragged([[1], [2, 3]])
    x.lengths().zero_()
    x.offsets().zero_()
    assert x.tolist() == [[1], [2, 3]]
