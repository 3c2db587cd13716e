"""Observers: they see every op and its node, change nothing, and can take away what nodes keep and bring it back."""

from __future__ import annotations

import extempo as ex
from extempo.autograd.observers import Observer, Refill, listener, new_node, refill_of, take_away
from extempo.core.context import CONTEXT, ExecutionContext, Swap
from extempo.core.op import REGISTRY


class Noting(Observer):
    def __init__(self):
        super().__init__()
        self.noted = []

    def ran(self, op, inputs, attrs, node):
        self.noted.append((op.name, node))


def observed(observer):
    now = CONTEXT.get()
    return Swap(ExecutionContext(now.grad, now.inference, observer, now.quiet))


def test_an_observer_is_shown_every_op_with_its_node_and_changes_nothing():
    x = ex.tensor([1.0, 2.0], requires_grad=True)
    observer = Noting()
    with observed(observer):
        y = (x * 3.0).exp()
        constant = ex.ones(2) + 1.0
    (name, node), (last, _), (unrecorded, none) = observer.noted
    assert (name, last, unrecorded, none) == ("mul", "exp", "add", None)
    assert y.grad_fn.inputs[0] is node
    assert constant.tolist() == [2.0, 2.0]
    y.sum().backward()
    assert x.grad.tolist() == (3.0 * y.detach()).tolist()


def test_writes_pass_through_and_are_no_ops():
    observer = Noting()
    x = ex.zeros(2)
    with observed(observer):
        x.fill_(4.0)
    assert x.tolist() == [4.0, 4.0]


def test_the_node_of_several_results_is_the_one_behind_their_picks():
    x = ex.tensor([[1.0, 3.0]], requires_grad=True)
    result = x.max(1)
    node = new_node(REGISTRY["max_with_index"], tuple(result))
    assert node is result[0].grad_fn.inputs[0]
    assert new_node(REGISTRY["mul"], x) is None  # a leaf: nothing was recorded


def test_what_was_taken_away_is_brought_back_when_a_gradient_arrives():
    x = ex.tensor([2.0], requires_grad=True)
    y = x.exp()
    node = y.grad_fn

    class Keeper:
        calls = 0

        def refill(self, node):
            self.calls += 1
            node.saved = kept

    keeper = Keeper()
    kept = take_away(node, keeper)
    assert kept
    assert not node.saved
    assert isinstance(refill_of(node), Refill)
    y.backward()
    assert keeper.calls == 1
    assert refill_of(node) is None
    assert x.grad.tolist() == y.tolist()


def test_only_interceptors_that_say_so_listen_to_backward():
    assert listener(CONTEXT.get()) is None
    with observed(Noting()):
        assert listener(CONTEXT.get()) is None
    listening = Noting()
    listening.heard = print
    with observed(listening):
        assert listener(CONTEXT.get()) is print
