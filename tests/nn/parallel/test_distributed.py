"""DistributedDataParallel in one process; several ranks are in tests/distributed/test_reducer.py."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.autograd import waiting
from extempo.errors import ArgumentError
from extempo.nn.parallel import DistributedDataParallel as DDP


def test_one_process_trains_as_if_it_were_not_there():
    layer, x = nn.Linear(3, 2), ex.randn(4, 3)
    layer(x).square().mean().backward()
    expected = layer.weight.grad.tolist()
    layer.zero_grad()
    wrapped = DDP(layer, device_ids=None)
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]
    with wrapped.join(), wrapped.no_sync():
        wrapped(x).square().mean().backward()
    assert layer.weight.grad.tolist() == expected
    assert not waiting.WAITING


def test_what_cannot_be_wrapped_is_refused():
    with pytest.raises(ArgumentError, match="requires grad"):
        DDP(nn.ReLU())
    with pytest.raises(ArgumentError, match="hook must be"):
        DDP(nn.Linear(1, 1)).register_comm_hook(None, 3)
