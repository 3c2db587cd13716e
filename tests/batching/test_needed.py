"""Calls that no value waited for needs stay until more of them have been recorded, and results do not change."""

from __future__ import annotations

import numpy as np

import extempo as ex
from extempo import nn
from extempo.batching.agenda import Calls
from extempo.batching.kinds import CallKind
from extempo.batching.needed import WaitingValues

from .agreement import check


def kind(n_results=1, alone=False):
    t = ex.zeros(2)._type
    return CallKind("k", lambda *xs: xs, (), (t,) * n_results, (False,) * n_results, (), alone=alone)


def calls_of(a_kind, *calls):
    """(first result, inputs) of each."""
    made = Calls(a_kind)
    for first, refs in calls:
        made.firsts.append(first)
        made.refs += refs
    return made


def test_what_leads_to_a_value_is_needed_and_nothing_else():
    values = WaitingValues()
    first, second = calls_of(kind(2), (10, [0]), (12, [1])), calls_of(kind(), (14, [11]))
    aside, behind = calls_of(kind(), (15, [14])), calls_of(kind(), (16, [15]))
    values.note([first, second, aside, behind], None)
    assert values.needed([14], []) == {first, second}
    assert values.needed([], [calls_of(kind(), (17, [15]))]) == {first, second, aside}
    assert values.needed([3], []) == set()
    values.run([first, second], None)
    assert values.needed([14], []) == set()
    assert values.needed([16], []) == {aside, behind}


def test_new_calls_of_a_kind_that_waits_are_noted_beside_the_old_ones():
    values = WaitingValues()
    calls = calls_of(kind(), (5, [1, 2]))
    assert values.note([calls], None) == {calls: [1, 2]}
    calls.firsts.append(8)
    calls.refs += [3, 4]
    assert values.note([calls], None) == {calls: [3, 4]}
    assert values.needed([5], []) == values.needed([8], []) == {calls}


def test_a_part_is_made_with_what_it_is_part_of():
    values = WaitingValues()
    calls = calls_of(kind(), (5, []))
    values.note([calls], np.array([[6, 5, 0, 4], [7, 2, 0, 4]]))
    assert values.needed([6], []) == {calls}
    assert values.needed([7], []) == set()
    values.run([calls], np.array([[6, 5, 0, 4]]))
    assert not values.makes(5)
    assert not values.makes(6)


def test_a_kind_that_is_needed_again_and_again_is_not_looked_at():
    values, always = WaitingValues(), calls_of(kind(), (0, []))
    assert values.may_wait(always)
    always.kind.n_waited = -3
    assert not values.may_wait(always)
    assert not values.may_wait(calls_of(kind(alone=True), (0, [])))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.more, self.out = nn.GRUCell(4, 4), nn.Linear(4, 1), nn.Linear(4, 3)

    def forward(self, code, limits, wanted):
        h, nodes = code, []
        for limit in limits:
            h = self.cell(code, h)
            nodes.append(self.out(h)[:2])
            if ex.sigmoid(self.more(h)).item() < limit:
                break
        return ((ex.stack(nodes) - wanted) ** 2).mean()


def draw(n, seed=0):
    rng = np.random.RandomState(seed)
    codes = [ex.tensor(rng.randn(4).astype("f4")) for _ in range(n)]
    limits = [[0.0] * k + [1.0] for k in range(1, n + 1)]
    return codes, limits, [ex.tensor(rng.randn(2).astype("f4")) for _ in range(n)]


def test_what_a_decoder_makes_of_its_states_runs_once_at_the_end():
    model = Decoder()
    samples = draw(6)
    for _ in range(2):
        batched = check(model, *samples, parameters=model.parameters())
    n_batches = {line.name: line.batches for line in batched.explain().lines}
    assert batched.stats()["waves"] > 6
    assert n_batches["stack"] == n_batches["mean"] == 1
    waves_of_out = {wave for calls, _, wave in batched._notes.batches if calls.kind.results[0].shape == (3,)}
    assert len(waves_of_out) == 1


def test_a_waiting_call_keeps_the_values_of_memory_that_is_filled_anew():
    weight = nn.Linear(3, 2)

    def run(start):
        seen, buffer = [], np.zeros(3, "f4")
        for step in range(4):
            buffer[:] = start + step  # as a simulator fills the array of its observations
            x = ex.from_numpy(buffer)
            seen.append(weight(x))  # nobody asks for it before the end
            (x * 1.0).sum().item()
        return ex.stack(seen).sum()

    with ex.no_grad():
        expected = [float(run(start)) for start in range(3)]
        assert np.allclose([float(y) for y in ex.batch(run)([0, 1, 2])], expected, atol=1e-5)


def test_values_that_wait_can_be_read_later_and_kept():
    w = nn.Parameter(ex.randn(3))

    def run(x, n):
        kept = []
        for _ in range(n):
            kept.append((x * w).tanh())
            x = x * 0.5
            x.sum().item()
        total = kept[0].sum().item()  # one that has waited
        return ex.stack(kept).sum() * total + kept[-1][1]

    check(run, [ex.randn(3) for _ in range(3)], [2, 5, 3], parameters=[w])
