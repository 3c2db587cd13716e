"""Groups: one process without a launcher, and several that must agree."""

from __future__ import annotations

import pytest

from extempo import distributed as dist
from extempo.errors import ArgumentError, DistributedError


@pytest.fixture(autouse=True)
def _no_group():
    yield
    dist.destroy_process_group()


def test_one_process_is_rank_0_of_1_before_and_after_init():
    assert not dist.is_initialized()
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
    dist.init_process_group("gloo", rank=0, world_size=1)
    assert dist.is_initialized()
    assert (dist.get_rank(), dist.get_world_size(), dist.get_pg_count()) == (0, 1, 1)
    with pytest.raises(DistributedError, match="called before"):
        dist.init_process_group()


def test_numbers_that_the_launcher_does_not_know_are_refused(monkeypatch):
    with pytest.raises(DistributedError, match=r"world_size=2.*extempo launch -n 2"):
        dist.init_process_group(world_size=2)
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(DistributedError, match="WORLD_SIZE=4"):
        dist.init_process_group("gloo")
    assert not dist.is_initialized()


def test_groups_of_one_process():
    dist.init_process_group()
    group = dist.new_group()
    assert (group.rank(), group.size(), dist.get_process_group_ranks(group)) == (0, 1, [0])
    assert dist.get_global_rank(group, 0) == dist.get_group_rank(group, 0) == dist.get_node_local_rank() == 0
    own, groups = dist.new_subgroups()
    assert groups == [own]
    with pytest.raises(ArgumentError, match="from 0 to 0"):
        dist.new_group([1])
    with pytest.raises(DistributedError, match="rank 3 is not in"):
        dist.get_group_rank(group, 3)
    with pytest.raises(DistributedError, match="not in the group"):
        dist.barrier(dist.GroupMember.NON_GROUP_MEMBER)


DISAGREEING = """
    import time
    from datetime import timedelta
    import extempo as ex
    from extempo import distributed as dist
    dist.init_process_group(timeout=timedelta(seconds=5))
    rank = dist.get_rank()
    try:
        dist.barrier() if rank else dist.broadcast(ex.ones(2), 0)
    except ex.errors.DistributedError as error:
        print(error)
    try:
        if rank != 1:
            dist.barrier()
            print("passed")
        else:
            time.sleep(9)
    except ex.errors.DistributedError as error:
        print(error)
    import os; os._exit(0)
"""


@pytest.mark.alone
def test_ranks_that_differ_get_the_same_error_and_those_that_wait_learn_for_whom(run_ranks):
    _, printed, errors = run_ranks(DISAGREEING, 3)
    first = [lines[0] for lines in printed]
    assert first[0] == first[1] == first[2], errors
    assert "broadcast(float32, 2 values, 0) on rank 0; barrier on ranks 1, 2" in first[0]
    assert "barrier: rank 1 did not come within 5 s" in printed[0][1]
    assert "barrier: rank 1 did not come within 5 s" in printed[2][1]
