"""`torch.distributed` is Extempo's; what PyTorch says of other engines answers that they are not there."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.compat.torch_namespace import distributed


@pytest.fixture(autouse=True)
def _no_group():
    yield
    distributed.destroy_process_group()


def test_it_is_the_same_as_extempos():
    assert distributed.all_reduce is ex.distributed.all_reduce
    assert distributed.DistError is ex.errors.DistributedError
    distributed.init_process_group("gloo", rank=0, world_size=1)
    assert ex.distributed.is_initialized()
    assert not distributed._rank_not_in_group(distributed._get_default_group())
    assert distributed._rank_not_in_group(distributed.group.NON_GROUP_MEMBER)
    assert isinstance(distributed.ReduceOp.SUM, distributed.ReduceOp.RedOpType)
    assert distributed.Backend(distributed.get_backend()) == distributed.Backend.GLOO


def test_other_engines_are_not_there():
    assert not distributed.is_nccl_available()
    assert not distributed.is_backend_available("nccl")
    assert not distributed.supports_complex(distributed.ReduceOp.SUM)
    assert distributed.get_default_backend_for_device("cpu") == "gloo"
    distributed.set_debug_level(distributed.get_debug_level())
    distributed.set_debug_level_from_env()
    assert issubclass(distributed.QueueEmptyError, distributed.DistError)
    with pytest.raises(ex.errors.UnsupportedError, match="no store"):
        distributed.TCPStore("localhost", 1)
    with pytest.raises(ex.errors.UnsupportedError, match="nccl"):
        distributed.init_process_group("nccl")
