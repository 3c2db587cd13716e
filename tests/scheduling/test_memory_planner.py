"""Slices of an arena that are in use never overlap, and gaps are used again."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

from extempo.scheduling.memory_planner import _BestFit, _Classes


@pytest.mark.parametrize("kind", [_BestFit, _Classes])
@pytest.mark.parametrize("seed", range(5))
def test_slices_do_not_overlap(kind, seed):
    rng = random.Random(seed)
    arena, used = kind(), []
    for _ in range(600):
        if used and rng.random() < 0.5:
            arena.give_back(*used.pop(rng.randrange(len(used))))
        else:
            size = 64 * rng.randint(1, 40)
            offset = arena.take(size)
            assert offset >= 0
            assert offset + size <= arena.nbytes
            assert all(offset + size <= o or o + s <= offset for o, s in used)
            used.append((offset, size))


def test_gaps_side_by_side_become_one():
    arena = _BestFit()
    slices = [(arena.take(64), 64) for _ in range(8)]
    for s in (*slices[::2], *slices[1::2]):
        arena.give_back(*s)
    assert arena.take(8 * 64) == 0
    assert arena.nbytes == 8 * 64


def test_a_gap_at_the_end_grows():
    arena = _BestFit()
    first = arena.take(64)
    arena.give_back(arena.take(128), 128)
    assert (first, arena.take(640), arena.nbytes) == (0, 64, 704)
