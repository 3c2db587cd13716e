"""How often iterations are looked into follows from what that costs."""

from __future__ import annotations

import pytest

from extempo.studio_server.pacing import SHARES, LookPacing


def simulated(step, capture, profile, n_steps):
    """Seconds with and without looks, and how many captures there were."""
    pacing, total, looks = LookPacing(), 0.0, []
    kind = None
    for _ in range(n_steps):
        extra = {"capture": capture, "profile": profile, None: 0.0}[kind]
        total += step + extra
        if kind is None:
            pacing.stepped(step)
        else:
            pacing.looked(kind, step + extra / 2, extra / 2)
        kind = pacing.next_look()
        looks.append(kind)
    return total / (n_steps * step), looks.count("capture"), pacing


@pytest.mark.parametrize(
    ("step", "capture", "profile"), [(0.001, 0.05, 0.01), (0.1, 0.2, 0.12), (0.0001, 0.002, 0.01), (0.01, 0.001, 0.001)]
)
def test_looks_take_no_more_than_their_share_whatever_they_cost(step, capture, profile):
    ratio, n_captures, pacing = simulated(step, capture, profile, 100_000)
    assert 1.0 < ratio < 1.0 + sum(SHARES.values()) + 0.01
    assert n_captures > 10
    assert pacing.share == pytest.approx(ratio - 1.0, abs=0.01)


def test_the_first_look_comes_at_once():
    pacing = LookPacing()
    pacing.stepped(0.01)
    assert pacing.next_look() == "capture"


def test_a_look_that_was_dear_makes_the_next_ones_wait():
    pacing = LookPacing()
    pacing.stepped(0.01)
    assert pacing.next_look() == "capture"
    pacing.looked("capture", 1.0, 0.0)
    n_steps = 0
    while pacing.next_look() != "capture":
        pacing.stepped(0.01)
        n_steps += 1
    assert n_steps > 1000


def test_every_iteration_is_captured_where_that_was_asked_for():
    pacing = LookPacing(every=1)
    for _ in range(5):
        assert pacing.next_look() == "capture"
        pacing.looked("capture", 10.0, 10.0)


def test_one_in_three_is_captured_where_that_was_asked_for():
    pacing = LookPacing(every=3)
    found = []
    for _ in range(12):
        found.append(pacing.next_look())
        pacing.stepped(1.0)
    assert found.count("capture") == 4


def test_notes_that_take_long_are_taken_less_often():
    pacing = LookPacing()
    pacing.beside(0.001)
    slow = pacing.between_notes
    pacing.beside(0.00001)
    assert pacing.between_notes < slow
