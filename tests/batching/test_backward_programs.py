"""Backward programs for gradients of some results, and what they defer."""

from __future__ import annotations

import numpy as np
import pytest

from extempo import nn
from extempo.backends.selection import native
from extempo.batching.backward_programs import rounded
from extempo.batching.native_runner import NativeRunner
from extempo.batching.vmap_runner import VmapRunner

from .runners import close, kind_of, parameters, x

pytestmark = pytest.mark.skipif(native() is None, reason="plans need the native backend")


def test_what_is_deferred_is_done_once_whichever_results_have_gradients():
    cell, rng = nn.LSTMCell(7, 11), np.random.default_rng(0)
    kind = kind_of(lambda a, h, c: cell(a, (h, c)), [x(7), x(11), x(11)], parameters(cell))
    runners = [NativeRunner.make(kind, (False,) * 3), VmapRunner(kind, (False,) * 3)]
    found = []
    for runner in runners:
        rng, deferred = np.random.default_rng(0), []
        for n, given in ((4, (True, False)), (3, (True, True)), (2, (False, True))):
            rows = [rng.standard_normal((n, size)).astype(np.float32) for size in (7, 11, 11)]
            _, saved = runner.forward(rows, n)
            g = [rng.standard_normal((n, 11)).astype(np.float32) for _ in given]
            deferred.append(
                runner.backward(saved, [one if is_there else None for one, is_there in zip(g, given, strict=True)])[1]
            )
        found.append({id(t): g for t, g in runner.finish(deferred)})
    assert found[0].keys() == found[1].keys() == {id(t) for t in parameters(cell)}
    for t in parameters(cell):
        close(found[0][id(t)], found[1][id(t)], "a weight")
    backs = runners[0]._programs[()]._backwards
    assert backs[True, False] is not backs[True, True]
    assert backs[True, False].leader is backs[True, True]


def test_backwards_that_defer_other_things_are_kept_apart():
    first, second = nn.Linear(5, 5), nn.Linear(5, 5)
    captured = (*parameters(first), *parameters(second))
    kind = kind_of(lambda a: (first(a), second(a)), [x(5)], captured)
    made = NativeRunner.make(kind, (False,))
    programs = made._programs[()]
    backs = [programs.backward_for(given) for given in ((True, True), (True, False), (False, True))]
    assert len({id(back.leader) for back in backs}) == 3


def test_numbers_of_rows_are_rounded_up_by_little():
    assert rounded(1) == rounded(16) == 16
    assert rounded(17) == 32
    for n in (100, 1_000, 5_000, 123_456):
        assert n <= rounded(n) <= n * 1.07 + 16
        assert rounded(rounded(n)) == rounded(n)
