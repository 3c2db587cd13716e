"""The native inner loop of backward: made once, and the same gradients as the engine's own loop."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.autograd.engine import BackwardEngine
from extempo.autograd.native_engine import walker
from extempo.backends.selection import native
from extempo.nn import functional as F


def test_there_is_one_walker_for_the_process_or_none_without_native_code():
    assert walker() is walker()
    assert (walker() is None) == (native() is None)


@pytest.mark.skipif(native() is None, reason="needs native kernels")
def test_reach_finds_every_node_once_and_tells_of_freed_ones():
    x = ex.ones(3, requires_grad=True)
    y = (x.exp() * x).sum()
    found = walker().reach([y.grad_fn])
    assert len(found) == len({id(node) for node in found}) == 4
    y.backward()
    freed = walker().reach([y.grad_fn])
    assert type(freed) is type(y.grad_fn)
    assert freed.saved is None


def gradients() -> list[bytes]:
    rng = np.random.default_rng(3)
    a, b, c = (ex.tensor(rng.normal(size=shape), requires_grad=True) for shape in ((4, 3), (3, 5), (5,)))
    h = F.layer_norm((a @ b + c).tanh(), (5,))
    values, _ = h.max(1)
    (values.sum() + (h[1:] * h[:-1]).sum() + c.square().sum()).backward()
    return [t.grad.numpy().tobytes() for t in (a, b, c)]


def test_the_native_loop_has_the_bits_of_the_engines_own(monkeypatch):
    natively = gradients()
    monkeypatch.setattr(BackwardEngine, "natively", False)
    assert gradients() == natively
