"""What a node keeps for its gradient: no more than that reads, and no longer than it is needed."""

from __future__ import annotations

import weakref

import pytest

import extempo as ex
from extempo.nn import functional as F


def saved_bytes(t: ex.Tensor) -> int:
    return sum(entry[1].nbytes for node in ex.Graph.of(t) for entry in node.saved or ())


def test_only_what_a_gradient_reads_is_kept():
    x = ex.ones(1000, requires_grad=True)
    constant = ex.ones(1000)
    assert saved_bytes(x + constant) == 0
    assert saved_bytes(x * constant) == 4000  # the constant; x itself has no one to read it
    assert saved_bytes(x * 2.0) == 0
    assert saved_bytes(x.sum()) == 0
    assert saved_bytes(x.tanh()) == 4000


def test_an_intermediate_value_nobody_needs_is_freed_at_once():
    x = ex.ones(10, requires_grad=True)
    h = x + 1
    array = weakref.ref(h._storage)
    y = h + 1
    del h
    assert array() is None
    y.sum().backward()


def test_saved_values_are_freed_as_backward_passes():
    x = ex.ones(10, requires_grad=True)
    h = x.exp()
    storage = weakref.ref(h._storage)
    loss = h.sum()
    del h
    assert storage() is not None
    loss.backward()
    assert storage() is None


@pytest.mark.parametrize(
    "fn", [lambda y: F.mish(y, inplace=True), lambda y: y.logit_(1e-3), lambda y: F.hardswish(y, inplace=True)]
)
def test_in_place_forms_keep_what_their_gradient_needs(fn):
    x = ex.tensor([0.2, 0.7], requires_grad=True)
    fn(x * 1.0).sum().backward()
    assert x.grad.isfinite().all()


def test_norms_keep_no_more_than_their_input_and_statistics():
    x = ex.ones(64, 64, requires_grad=True)
    y = F.layer_norm(x, (64,))
    kept = sum(entry[1].nbytes for node in ex.Graph.of(y) for entry in node.saved or ())
    assert kept <= x.nbytes + 4 * 64 * 4
