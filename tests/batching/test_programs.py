"""The programs of a kind: what a template says at a number of calls, and when there is none."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo import nn
from extempo.backends.selection import native
from extempo.batching.partition import Partition
from extempo.batching.programs import PRIMES, CapturedArray, Programs, _row_inputs
from extempo.batching.row_tracer import KindTrace
from extempo.scheduling.request import Unplannable

from .runners import F, kind_of, parameters, x

pytestmark = pytest.mark.skipif(native() is None, reason="plans need the native backend")


@pytest.mark.parametrize("n", [2, 5, 37, 211])
def test_a_template_says_what_planning_at_that_size_says(n):
    cell, tree = nn.LSTMCell(7, 11), nn.NaryTreeLSTMCell(7, 11, 2)
    kinds = [
        kind_of(lambda a, h, c: cell(a, (h, c)), [x(7), x(11), x(11)], parameters(cell)),
        kind_of(lambda a, b, c, d: tuple(tree((a, b), (c, d))), [x(11)] * 4, parameters(tree)),
        kind_of(lambda q, k, v: F.softmax(q @ k.mT, -1) @ v, [x(3, 4), x(7, 4), x(7, 6)]),
    ]
    for kind in kinds:
        shared = (False,) * len(kind.inputs)
        programs = Programs(kind, shared, ())
        split = Partition(KindTrace(kind, _row_inputs(kind, shared, (), n), n, 0), n, kind.tracked)
        back = programs._backwards[kind.tracked]
        for filled, part in ((back._backward, split.backward), (back._deferred, split.deferred)):
            if filled is None:
                assert part is None
                continue
            made, _ = filled.template._filled(n)
            assert made.program.types == part.program.types
            assert made.program.places == part.program.places
            assert made.program.roots == part.program.roots
            for a, b in zip(made.nodes, part.nodes, strict=True):
                assert a[2:] == b[2:]
                assert getattr(a[1], "meta", None) == getattr(b[1], "meta", None)
                assert getattr(a[1], "scratch", None) == getattr(b[1], "scratch", None)


def test_sizes_that_a_kind_has_of_its_own_are_no_numbers_of_calls():
    layer = nn.Linear(PRIMES[0], 3)
    programs = Programs(kind_of(layer, [x(PRIMES[0])], parameters(layer)), (False,), ())
    assert PRIMES[0] not in programs.sizes
    assert PRIMES[1] in programs.sizes


def test_what_depends_on_the_number_of_calls_has_no_programs():
    n_runs = []

    def other_each_time(a):
        n_runs.append(1)
        return a.exp() if len(n_runs) % 2 else a.sin()

    kind = kind_of(other_each_time, [x(3)])
    with pytest.raises(Unplannable, match="something else is done"):
        Programs(kind, (False,), ())


def test_programs_of_few_seeds_leave_what_they_defer_to_those_of_all():
    layer = nn.Linear(4, 2)
    programs = Programs(kind_of(lambda a: (layer(a), layer(a) * 2), [x(4)], parameters(layer)), (False,), ())
    assert programs.backward_for((True, True)).leader is programs.backward_for((True, True))
    assert programs.backward_for((True, False)) is programs.backward_for((True, False))


def test_a_captured_array_keeps_the_layout_that_was_traced():
    t = ex.randn(3, 4)
    captured = CapturedArray(t, None)
    assert captured.array() is t._data
    t.data = ex.randn(4, 3).T
    made = captured.array()
    assert made.flags.c_contiguous
    np.testing.assert_array_equal(made, t.numpy())
    t.data = ex.randn(5, 4)
    assert captured.array() is None
