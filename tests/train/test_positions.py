"""Where training is: sums of the epoch so far, and all random streams."""

from __future__ import annotations

import random

import numpy as np

import extempo as ex
from extempo.data import DataLoader, RandomSampler
from extempo.train.positions import Position, random_state, restore_random_state


def draws():
    return [ex.rand(2).tolist(), random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn()]


def test_all_streams_go_on_from_where_they_were():
    random.gauss(0, 1)  # which keeps a second draw for later
    state = random_state()
    expected = draws()
    draws()
    restore_random_state(state)
    assert draws() == expected


def test_the_generators_of_loaders_and_their_samplers_are_part_of_it():
    own = ex.Generator().manual_seed(1)
    of_sampler = ex.Generator().manual_seed(2)
    plain = DataLoader(range(8), shuffle=True, generator=own)
    sampled = DataLoader(range(8), sampler=RandomSampler(range(8), generator=of_sampler))
    state = random_state(plain, sampled, None)
    assert len(state["loaders"]) == 2
    expected = [list(map(int, plain)), list(map(int, sampled))]
    assert [list(map(int, plain)), list(map(int, sampled))] != expected
    restore_random_state(state, plain, sampled, None)
    assert [list(map(int, plain)), list(map(int, sampled))] == expected


def test_a_position_counts_samples_and_their_losses():
    position = Position()
    position.add(2.0, 3)
    position.add(1.0, 1)
    assert (position.n_batches, position.n_seen, position.total) == (2, 4, 7.0)
    other = Position()
    other.load_state_dict(position.state_dict())
    assert vars(other) == vars(position)
