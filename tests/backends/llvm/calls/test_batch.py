"""Arrays for the agenda of a batch: the native functions and the Python that they stand for agree."""

import numpy as np
import pytest

pytest.importorskip("llvmlite")
pytest.importorskip("greenlet")

from extempo.backends.selection import native
from extempo.batching import agenda
from extempo.batching.call_cache import recorder

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


def calls(rng, n_kinds, n_calls, n_inputs=2, first_value=3):
    """Calls of several kinds that read what any of them made before: refs by kind, and who makes each value."""
    kinds = rng.integers(0, n_kinds, n_calls)
    refs = [[] for _ in range(n_kinds)]
    maker, number = np.full(n_calls, -1), np.zeros(n_calls, np.int64)
    for value, k in enumerate(kinds):
        maker[value], number[value] = k, len(refs[k])
        refs[k].append(rng.integers(-2, first_value + value, n_inputs) if value else np.full(n_inputs, -1))
    return [np.array(r, np.int64).reshape(-1, n_inputs) for r in refs], maker, number, first_value


def test_ints_become_an_array_and_other_things_do_not():
    as_array = recorder().as_array
    found = as_array([3, -1, 2**40])
    assert (found.dtype, found.tolist()) == (np.int64, [3, -1, 2**40])
    assert as_array([]).tolist() == []
    assert as_array([1, 2**70]) is None
    assert as_array([1, "two"]) is None


@pytest.mark.parametrize("seed", range(5))
def test_depths_are_those_of_python(seed):
    refs, maker, number, first = calls(np.random.default_rng(seed), 2, 40)
    for k in range(2):
        found = np.empty(len(refs[k]), np.int64)
        recorder().depths(refs[k], maker, number, k, first, found)
        own = refs[k] >= first
        if (own & (maker[np.where(own, refs[k] - first, 0)] == k)).any():
            np.testing.assert_array_equal(found, agenda._depths(k, refs[k], maker, number, first))
        else:
            assert not found.any()


@pytest.mark.parametrize("seed", range(10))
def test_the_agenda_is_that_of_python(seed):
    refs, maker, number, first = calls(np.random.default_rng(seed), 3, 60)
    expected = [(k, members.tolist()) for k, members in agenda._by_agenda([0, 1, 2], refs, maker, number, first)]
    found = [(k, members.tolist()) for k, members in agenda._agenda([0, 1, 2], refs, maker, number, first)]
    assert found == expected
    assert sum(len(members) for _, members in found) == 60


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
