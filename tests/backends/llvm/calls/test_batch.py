"""Arrays for the agenda of a batch. What is decided by them is compared with Python's in batching/test_agenda.py."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")
pytest.importorskip("greenlet")

from extempo.backends.selection import native
from extempo.batching.call_cache import recorder

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def test_ints_become_an_array_and_other_things_do_not():
    as_array = recorder().as_array
    found = as_array([3, -1, 2**40])
    assert (found.dtype, found.tolist()) == (np.int64, [3, -1, 2**40])
    assert as_array([]).tolist() == []
    assert as_array([1, 2**70]) is None
    assert as_array([1, "two"]) is None


def test_makers_are_noted_by_value():
    maker, number = np.full(8, -1), np.zeros(8, np.int64)
    recorder().note_makers(np.array([10, 14]), 2, 5, maker, number, 10)
    assert maker.tolist() == [5, 5, -1, -1, 5, 5, -1, -1]
    assert number.tolist() == [0, 0, 0, 0, 1, 1, 0, 0]


def test_sources_are_bits_of_the_kinds_that_make_inputs():
    maker = np.array([0, 2, -1, 62])
    sources = recorder().sources
    assert sources(np.array([[10, 11], [3, -1]]), maker, 10) == 0b101
    assert sources(np.array([[12, 13]]), maker, 10) == 1 << 62
    assert sources(np.empty((0, 2), np.int64), maker, 10) == 0
