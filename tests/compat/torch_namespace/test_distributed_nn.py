"""Gradients through collectives; sums over several ranks are SyncBatchNorm's, in tests/distributed/test_reducer.py."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo.compat.torch_namespace import distributed_nn
from extempo.errors import UnsupportedError


def test_gradients_pass_through_collectives_of_one_process():
    x = ex.ones(2, requires_grad=True)
    (distributed_nn.all_reduce(x) * distributed_nn.all_gather(x)[0] * distributed_nn.broadcast(x)).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_what_has_no_gradient_between_processes_says_so(monkeypatch):
    monkeypatch.setattr(distributed_nn, "current_world", lambda: object())
    with pytest.raises(UnsupportedError, match="all_gather between processes"):
        distributed_nn.all_gather(ex.ones(2))
