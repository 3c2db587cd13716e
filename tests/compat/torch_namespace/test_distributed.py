"""One process is a group of its own."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.compat.torch_namespace import distributed, distributed_nn


@pytest.fixture(autouse=True)
def _no_group():
    yield
    distributed.destroy_process_group()


def test_a_group_of_one_begins_and_ends():
    assert distributed.is_available()
    assert not distributed.is_initialized()
    distributed.init_process_group("gloo", rank=0, world_size=1)
    assert distributed.is_initialized()
    assert (distributed.get_rank(), distributed.get_world_size()) == (0, 1)
    distributed.destroy_process_group()
    assert not distributed.is_initialized()


def test_more_processes_are_refused(monkeypatch):
    with pytest.raises(ex.errors.UnsupportedError, match="world_size=2"):
        distributed.init_process_group(world_size=2)
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(ex.errors.UnsupportedError, match="world_size=4"):
        distributed.init_process_group("gloo")
    assert not distributed.is_initialized()


def test_collectives_find_everything_where_it_belongs():
    x = ex.arange(3.0)
    distributed.all_reduce(x).wait()
    distributed.broadcast(x, src=0)
    assert x.tolist() == [0.0, 1.0, 2.0]
    gathered, out = [ex.zeros(3)], ex.zeros(3)
    distributed.all_gather(gathered, x)
    distributed.scatter(out, [x])
    assert gathered[0].tolist() == out.tolist() == x.tolist()
    distributed.gather(x, gathered)
    objects = [None]
    distributed.all_gather_object(objects, {"a": 1})
    assert objects == [{"a": 1}]
    distributed.gather_object("b", objects)
    assert objects == ["b"]
    distributed.scatter_object_list(objects, ["c"])
    assert objects == ["c"]
    distributed.reduce_scatter(out, [2 * x])
    assert out.tolist() == [0.0, 2.0, 4.0]
    distributed.all_gather_into_tensor(out, x)
    distributed.all_to_all(gathered, [out])
    assert gathered[0].tolist() == x.tolist()


def test_the_group_is_that_of_one_process():
    group = distributed.new_group()
    assert (group.rank(), group.size(), distributed.get_process_group_ranks(group)) == (0, 1, [0])
    assert distributed.get_global_rank(group, 0) == distributed.get_node_local_rank() == 0
    assert not distributed.is_nccl_available()
    assert not distributed._rank_not_in_group(distributed._get_default_group())
    assert isinstance(distributed.ReduceOp.SUM, distributed.ReduceOp.RedOpType)
    assert distributed.Backend(distributed.get_backend()) == distributed.Backend.GLOO
    with pytest.raises(ex.errors.UnsupportedError, match="no other process"):
        distributed.send(ex.ones(1), 1)


def test_gradients_pass_through_collectives():
    x = ex.ones(2, requires_grad=True)
    (distributed_nn.all_reduce(x) * distributed_nn.all_gather(x)[0]).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_one_process_is_every_subgroup():
    own, groups = distributed.new_subgroups()
    assert groups == [own]
    assert distributed.all_reduce_coalesced([ex.ones(1)]).wait()
    assert not distributed.is_backend_available("nccl")
    assert distributed.get_pg_count() == int(distributed.is_initialized())
    assert distributed.get_default_backend_for_device("cpu") == "gloo"
    distributed.set_debug_level(distributed.get_debug_level())
    distributed.set_debug_level_from_env()
    assert issubclass(distributed.QueueEmptyError, distributed.DistError)
