"""Optimizer state in shares."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn, optim
from extempo.distributed.zero import ZeroRedundancyOptimizer


def trained(make, steps=3):
    ex.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = make(model.parameters())
    for i in range(steps):
        optimizer.zero_grad()
        model(ex.ones(2, 3) * i).square().mean().backward()
        optimizer.step()
    return model, optimizer


def test_in_one_process_it_is_the_optimizer_itself():
    plain, adam = trained(lambda p: optim.Adam(p, lr=0.1))
    model, zero = trained(lambda p: ZeroRedundancyOptimizer(p, optim.Adam, lr=0.1))
    assert [p.tolist() for p in model.parameters()] == [p.tolist() for p in plain.parameters()]
    state, expected = zero.state_dict(), adam.state_dict()
    assert list(state["state"]) == list(expected["state"])
    _, other = trained(lambda p: ZeroRedundancyOptimizer(p, optim.Adam, lr=0.5), 1)
    other.load_state_dict(expected)
    assert other.param_groups[0]["lr"] == 0.1
    assert other.state_dict()["state"][0]["step"] == 3


RANKS = """
    import extempo as ex
    from extempo import nn, optim, distributed as dist
    from extempo.nn.parallel import DistributedDataParallel as DDP
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    found = []
    for make in (lambda p: optim.Adam(p, lr=0.1), lambda p: dist.ZeroRedundancyOptimizer(p, optim.Adam, lr=0.1)):
        ex.manual_seed(0)
        model = DDP(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))
        optimizer = make(model.parameters())
        for i in range(4):
            optimizer.zero_grad()
            model(ex.ones(2, 3) * (i + rank)).square().mean().backward()
            optimizer.step()
        found.append([p.tolist() for p in model.parameters()])
    print(found[0] == found[1], len(optimizer.optim.state) < 4)
    optimizer.consolidate_state_dict(0)
    if rank == 0:
        print(sorted(optimizer.state_dict()["state"]))
    else:
        try:
            optimizer.state_dict()
        except ex.errors.DistributedError:
            print("only where it was gathered")
"""


@pytest.mark.slow
def test_ranks_with_shares_have_the_weights_of_ranks_with_everything(run_ranks):
    status, printed, errors = run_ranks(RANKS, 2)
    assert status == 0, errors
    assert printed == [["True True", "[0, 1, 2, 3]"], ["True True", "only where it was gathered"]]
