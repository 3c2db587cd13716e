"""Hooks in one process; those of several ranks are in test_reducer.py."""

from __future__ import annotations

import pytest

import extempo as ex
from extempo import nn
from extempo.distributed import comm_hooks
from extempo.distributed.reducer import GradBucket
from extempo.errors import ArgumentError


@pytest.mark.usefixtures("alone")
def test_hooks_return_the_mean_of_a_bucket():
    layer = nn.Linear(3, 1)
    flat = ex.tensor([1.0, -4.0, 2.0, 0.5])
    bucket = GradBucket(0, flat, [layer.weight, layer.bias], True)
    assert [tuple(g.shape) for g in bucket.gradients()] == [(1, 3), (1,)]
    assert (bucket.index(), bucket.is_last(), len(bucket.parameters())) == (0, True, 2)
    assert comm_hooks.allreduce_hook(None, bucket).tolist() == flat.tolist()
    assert comm_hooks.bf16_compress_hook(None, bucket).tolist() == flat.tolist()
    bucket.set_buffer(flat * 2)
    assert bucket.buffer().tolist() == [2.0, -8.0, 4.0, 1.0]


@pytest.mark.usefixtures("alone")
def test_what_top_k_leaves_out_comes_later():
    state = comm_hooks.TopKState(0.5)
    flat = ex.tensor([1.5, -4.0, 2.0, 0.5])
    bucket = GradBucket(0, flat, [nn.Parameter(flat)], True)
    assert comm_hooks.top_k_hook(state, bucket).tolist() == [0.0, -4.0, 2.0, 0.0]
    assert state.residuals[0].tolist() == [1.5, 0.0, 0.0, 0.5]
    assert comm_hooks.top_k_hook(state, bucket).tolist() == [3.0, -4.0, 0.0, 0.0]
    with pytest.raises(ArgumentError, match="fraction"):
        comm_hooks.TopKState(0)
