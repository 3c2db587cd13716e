"""In which order calls run: components of kinds, levels, the agenda, in Python and in native code."""

from __future__ import annotations

import itertools
from contextlib import nullcontext

import numpy as np
import pytest

import extempo as ex
from extempo.backends.entry_points import python_defaults
from extempo.backends.selection import native
from extempo.batching import agenda as agenda_module
from extempo.batching.agenda import Calls, Makers, PythonAgenda, _components, order
from extempo.batching.call_cache import recorder
from extempo.batching.kinds import CallKind, Input
from extempo.core.types import TensorType

needs_native = pytest.mark.skipif(native() is None, reason="needs native code")
ROW = TensorType((2,), ex.float32)


def recorded(program, n_outside=0):
    """Calls by kind, from (kind, value ids of the inputs), each with one result."""
    waiting = {}
    for value, (name, refs) in enumerate(program, start=n_outside):
        if name not in waiting:
            kind = CallKind(name, tuple, (Input(ROW, False),) * len(refs), (ROW,), (False,), ())
            waiting[name] = Calls(kind)
        calls = waiting[name]
        calls.refs += refs
        calls.firsts.append(value)
        calls.samples.append(0)
        calls.wheres.append(None)
    return list(waiting.values())


def batches_of(program, n_outside=0):
    """(kind, results) of each batch, in the order in which they run."""
    found = []
    for batches, schedule in order(recorded(program, n_outside), n_outside, n_outside + len(program)):
        for which, level in schedule:
            start = batches[which].ends[level - 1] if level else 0
            firsts = batches[which].firsts[start : batches[which].ends[level]].tolist()
            found.append((batches[which].calls.kind.name, firsts))
    return found


def test_kinds_outside_any_circle_run_once_however_deep_their_calls_are():
    # Two sentences, of one and of two words: embed, a recurrent cell, a score of each state.
    program = [("embed", [0]), ("cell", [1, 0]), ("score", [2])]
    program += [("embed", [0]), ("cell", [4, 0]), ("score", [5]), ("embed", [0]), ("cell", [7, 5]), ("score", [8])]
    expected = [("embed", [1, 4, 7]), ("cell", [2, 5]), ("cell", [8]), ("score", [3, 6, 9])]
    assert batches_of(program, n_outside=1) == expected


def test_kinds_that_call_each_other_are_interleaved():
    program = [("a", [0]), ("b", [1]), ("a", [2]), ("b", [3]), ("a", [0]), ("b", [5])]
    assert batches_of(program, n_outside=1) == [("a", [1, 5]), ("b", [2, 6]), ("a", [3]), ("b", [4])]


def test_nothing_recorded_is_no_batch():
    assert batches_of([]) == []


def test_components_come_in_the_order_in_which_they_can_run():
    # 0 reads 1 and 2; 1 and 2 read each other; 3 reads nothing; 2 reads 3, too.
    assert _components((0b0110, 0b0100, 0b1010, 0)) == [[3], [1, 2], [0]]
    assert _components(()) == []
    chain = tuple(1 << (k + 1) if k < 4_999 else 0 for k in range(5_000))
    assert _components(chain) == [[k] for k in range(4_999, -1, -1)]  # deeper than Python's stack


@pytest.mark.parametrize("seed", range(20))
def test_components_are_kinds_that_reach_each_other(seed):
    rng = np.random.default_rng(seed)
    n = 9
    reads = rng.random((n, n)) < 0.15
    reaches = reads | np.eye(n, dtype=bool)
    for k in range(n):
        reaches |= reaches[:, k : k + 1] & reaches[k : k + 1]
    found = _components(tuple(sum(1 << k for k in np.flatnonzero(row).tolist()) for row in reads))
    assert sorted(itertools.chain(*found)) == list(range(n))
    for position, component in enumerate(found):
        both = np.flatnonzero(reaches[component[0]] & reaches[:, component[0]]).tolist()
        assert component == both
        later = [*itertools.chain(*found[position + 1 :])]
        assert not reaches[np.ix_(component, later)].any()


def random_calls(seed):
    rng = np.random.default_rng(seed)
    n_kinds = int(rng.integers(2, 6))
    n, first = int(rng.integers(n_kinds, 120)), int(rng.integers(0, 10))
    makers = Makers(first, first + n)
    makers.kinds[:] = np.concatenate([np.arange(n_kinds), rng.integers(0, n_kinds, n - n_kinds)])
    n_inputs = rng.integers(1, 4, n_kinds)
    refs = [[] for _ in range(n_kinds)]
    for value, kind in enumerate(makers.kinds):
        makers.calls[value] = len(refs[kind])
        refs[kind].append(rng.integers(-3, max(first + value, 1), n_inputs[kind]))
    kinds = sorted(rng.choice(n_kinds, int(rng.integers(2, n_kinds + 1)), replace=False).tolist())
    return kinds, [np.array(r, np.int64) for r in refs], makers


@needs_native
@pytest.mark.parametrize("seed", range(30))
def test_the_native_agenda_decides_as_the_one_in_python(seed):
    given = random_calls(seed)
    expected = [(k, members.tolist()) for k, members in PythonAgenda(*given).batches()]
    assert [(k, members.tolist()) for k, members in agenda_module.agenda(*given)] == expected


@pytest.mark.parametrize("n_inputs", [0, 1, 3])
def test_depths_count_the_calls_of_the_kind_below(n_inputs):
    rng = np.random.default_rng(0)
    n, first = 200, 7
    makers = Makers(first, first + n)
    makers.kinds[:] = rng.integers(-1, 3, n)
    makers.calls[:] = 0
    own = np.flatnonzero(makers.kinds == 1)
    makers.calls[own] = np.arange(len(own))
    refs = np.array([rng.integers(-3, first + v, n_inputs) for v in own], np.int64)
    wanted = []
    for row in refs:
        inside = [r - first for r in row if r >= first and makers.kinds[r - first] == 1]
        wanted.append(max([wanted[makers.calls[value]] + 1 for value in inside], default=0))
    for standing in (nullcontext, python_defaults):  # native code, where there is some, and the Python that it mirrors
        found = np.empty(len(own), np.int64)
        with standing():
            agenda_module._depths(refs, makers.kinds, makers.calls, 1, first, found)
        assert found.tolist() == wanted


@needs_native
def test_native_code_makes_arrays_of_ints_only():
    assert recorder().as_array([3, -1, 1 << 40]).tolist() == [3, -1, 1 << 40]
    assert recorder().as_array([1 << 70]) is None
    assert recorder().as_array(["no"]) is None


def test_calls_with_as_many_inputs_on_average_as_their_kind_are_told_apart():
    def kind(n):
        return CallKind("join", tuple, (Input(ROW, False),) * n, (ROW,), (False,), ())

    calls = Calls(kind(3))
    calls.kinds = [kind(3), kind(2), kind(4)]
    calls.refs, calls.firsts = list(range(9)), [9, 10, 11]
    assert calls.inputs().tolist() == [[0, 1, 2, -1], [3, 4, -1, -1], [5, 6, 7, 8]]
