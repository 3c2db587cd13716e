"""Paces: what is quicker is found out by trying, looked at again now and then, and one slow run changes nothing."""

from __future__ import annotations

from extempo.serving.paces import LOOK_AGAIN, TRIES, Paces


def served(paces, n_waiting, alone, together, n_samples):
    """Serve so many samples, always so many waiting, each way at its seconds a sample: how many ran alone."""
    n_alone = n_done = 0
    while n_done < n_samples:
        n = 1 if paces.is_next_alone(n_waiting) else n_waiting
        paces.note(n, alone if n == 1 else n * together)
        n_alone += n == 1
        n_done += n
    return n_alone


def test_a_model_that_is_quicker_in_batches_runs_in_batches():
    paces = Paces()
    served(paces, 32, alone=5.0, together=3.0, n_samples=32 * (TRIES + 1))
    n_alone = served(paces, 32, alone=5.0, together=3.0, n_samples=32 * LOOK_AGAIN)
    assert paces.may_gain
    assert 1 <= n_alone <= 32 + TRIES  # one of LOOK_AGAIN, to see whether it still holds


def test_a_model_that_is_quicker_alone_runs_alone_and_nobody_waits():
    paces = Paces()
    assert paces.may_gain  # nothing is known
    served(paces, 8, alone=0.4, together=0.6, n_samples=8 * TRIES + TRIES)
    assert not paces.may_gain
    n_samples = 8 * LOOK_AGAIN * 4
    assert served(paces, 8, alone=0.4, together=0.6, n_samples=n_samples) >= n_samples - 8 * 5


def test_what_changes_is_noticed():
    paces = Paces()
    served(paces, 16, alone=1.0, together=2.0, n_samples=200)
    assert paces.is_next_alone(16)
    served(paces, 16, alone=1.0, together=0.2, n_samples=16 * LOOK_AGAIN * 12)
    assert not paces.is_next_alone(16)


def test_one_run_that_compiles_or_loses_its_core_changes_nothing():
    paces = Paces()
    served(paces, 16, alone=1.0, together=0.7, n_samples=300)
    paces.note(16, 16 * 1000.0)
    assert not paces.is_next_alone(16)


def test_sizes_are_judged_by_themselves():
    paces = Paces()
    served(paces, 2, alone=1.0, together=1.5, n_samples=100)
    served(paces, 32, alone=1.0, together=0.3, n_samples=500)
    assert paces.is_next_alone(1)
    assert paces.is_next_alone(2)
    assert not paces.is_next_alone(32)
    assert paces.may_gain
