"""Slices of an arena that are in use never overlap, and gaps are used again."""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="plans are native code")

from extempo.backends.selection import native
from extempo.core.trace_tree import LeafKind
from extempo.scheduling import interleaving
from extempo.scheduling.fusion import Cluster, ScheduleUnits
from extempo.scheduling.memory_planner import MemoryPlan, _BestFit, _Classes, size_of
from extempo.scheduling.pipeline import Planner
from extempo.scheduling.request import BackwardRequest, Request

from .programs import program
from .taping import base_of, draw, record

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


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


def units_of(seed):
    """The units of a random program with its gradients."""
    rng = np.random.default_rng(seed)
    fn, arguments = program(rng, int(rng.integers(5, 25)))
    tape, (y, *_) = record(fn, arguments)
    tape.leaves.append(LeafKind(y._type, None, False))
    backward = BackwardRequest(tape.place(y), -len(tape.leaves)) if tape.steps[-1].tracked else None
    planner = Planner(Request(tape.steps, 0, tape.leaves, frozenset(), (base_of(tape, tape.place(y)),), backward))
    outputs, nodes = planner.needed(planner.all_nodes())
    return ScheduleUnits(planner.program, nodes, outputs), outputs


@pytest.mark.parametrize("seed", range(20))
def test_what_is_live_at_once_is_apart_in_memory(seed, monkeypatch):
    monkeypatch.setattr(interleaving, "LEAST_SUMMED", 1)
    monkeypatch.setattr(interleaving, "LEAST_MADE", 1)
    units, outputs = units_of(seed)
    plan = MemoryPlan(units, {*outputs})
    types, first = units.program.types, {}
    for position, unit in enumerate(units.units):
        for result in unit.writes if type(unit) is Cluster else unit[3]:
            first.setdefault(units.program.roots[result], units.ends.get(position, position))
    assert set(plan.offsets) <= set(first)
    slices = [(first[root], units.last[root], offset, size_of(types[root])) for root, offset in plan.offsets.items()]
    for i, (begin, last, offset, size) in enumerate(slices):
        assert 0 <= offset <= offset + size <= plan.nbytes
        for other_begin, other_last, other, other_size in slices[:i]:
            if begin < other_last and other_begin < last:  # else one may take over the other's memory
                assert offset + size <= other or other + other_size <= offset


def test_a_result_takes_over_the_memory_of_what_is_read_for_the_last_time():
    tape, (y,) = record(lambda x, w: ((x @ w).exp() @ w).exp(), [draw(6, 6), draw(6, 6, seed=1)])
    planner = Planner(Request(tape.steps, 0, tape.leaves, frozenset(), (tape.place(y),)))
    outputs, nodes = planner.needed(planner.all_nodes())
    units = ScheduleUnits(planner.program, nodes, outputs)
    first_product, first_exp, second_product, _ = (unit for unit in units.units)
    plan = MemoryPlan(units, {*outputs})
    assert plan.offsets[first_exp.writes[0]] == plan.offsets[first_product[3][0]]
    assert (
        plan.offsets[second_product[3][0]] != plan.offsets[first_exp.writes[0]]
    )  # a product reads rows again and again


def test_outputs_have_no_place_in_the_arena():
    units, outputs = units_of(3)
    assert not set(outputs) & set(MemoryPlan(units, {*outputs}).offsets)
