"""Equal work for all ranks."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.distributed.cost_sampler import CostSampler, n_nodes, n_tokens
from extempo.errors import ArgumentError

LENGTHS = np.random.default_rng(0).lognormal(3.0, 1.0, 10_000).astype(int) + 1


@pytest.mark.parametrize(("n_ranks", "batch_size"), [(2, 16), (4, 32), (8, 8)])
def test_ten_thousand_lengths_are_divided_to_within_two_percent(n_ranks, batch_size):
    parts = [list(CostSampler(LENGTHS, batch_size, LENGTHS, n_ranks, rank)) for rank in range(n_ranks)]
    costs = [LENGTHS[part].sum() for part in parts]
    assert max(costs) / min(costs) < 1.02
    assert len({len(part) for part in parts}) == 1
    assert sorted(i for part in parts for i in part) == list(range(10_000))


def test_each_step_is_far_more_even_than_by_chance():
    n_ranks, size = 4, 32
    parts = np.array([list(CostSampler(LENGTHS, size, LENGTHS, n_ranks, rank)) for rank in range(n_ranks)])
    steps = LENGTHS[parts[:, : 10_000 // n_ranks // size * size]].reshape(n_ranks, -1, size).sum(axis=2)
    spread = (steps.max(axis=0) / steps.mean(axis=0)).mean()
    order = np.random.default_rng(1).permutation(10_000)[: steps.size * size]
    chance = LENGTHS[order].reshape(n_ranks, -1, size).sum(axis=2)
    assert spread - 1 < 0.1 * ((chance.max(axis=0) / chance.mean(axis=0)).mean() - 1)


def test_the_order_follows_from_seed_and_epoch_and_goes_on_in_the_middle():
    sampler, again = (CostSampler(LENGTHS[:100], 4, LENGTHS[:100], 2, 1, seed=3) for _ in range(2))
    assert list(sampler) == list(again)
    sampler.set_epoch(1)
    assert list(sampler) != list(again)
    whole = list(sampler)
    begun = iter(sampler)
    first = [next(begun) for _ in range(12)]
    again.load_state_dict(sampler.state_dict())
    assert first + list(again) == whole
    assert list(again) == whole


def test_costs_come_from_lengths_trees_functions_or_numbers():
    assert n_tokens((ex.zeros(5, 2), 1)) == 5
    assert n_tokens("abc") == 3
    assert n_nodes(((1, 2), 3)) == 5
    data = [(ex.zeros(n), n) for n in (5, 1, 1, 3)]
    parts = [[data[i][1] for i in CostSampler(data, 2, num_replicas=2, rank=r)] for r in range(2)]
    assert sorted(map(sum, parts)) == [4, 6]
    squares = CostSampler(data, 2, lambda sample: sample[1] ** 2, 2, 0)
    assert len(squares) == 2
    assert len(CostSampler(data, 3, num_replicas=2, rank=0, drop_last=True)) == 0


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ArgumentError, match="each of 3 samples"):
        CostSampler("abc", cost=[1, 2])
    with pytest.raises(ArgumentError, match="'tokens'"):
        CostSampler("abc", cost="words")
    with pytest.raises(ArgumentError, match="batch_size"):
        CostSampler("abc", 0)
