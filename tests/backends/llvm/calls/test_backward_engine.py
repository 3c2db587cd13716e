"""The native loop of backward: the gradients of Python's engine, and nothing half done where memory ends."""

import operator

import numpy as np
import pytest

pytest.importorskip("llvmlite")


import extempo as ex
from extempo.autograd.native_engine import walker
from extempo.backends.selection import native

from .no_memory import N_MOMENTS, draw, fails

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)


# ---- backward


@pytest.fixture
def graph():
    """What makes a graph, with parts of a tensor, gradients that are added up, and ones that are summed."""
    w, v = draw(4, 4), draw(4, seed=1)

    def result():
        w.grad = v.grad = None
        y = w * v + w[0] * w[1]
        return y + y.tanh() * w + w[2] * v

    def make():
        return result().grad_fn

    for _ in range(3):
        result().backward(ex.ones(4, 4))  # native code takes nodes whose gradients are known

    def gradients():
        return [x.grad.numpy().tobytes() for x in (w, v)]

    return make, gradients


def test_finding_the_nodes_without_memory(graph):
    root, reach = graph[0](), walker().reach
    expected = set(reach([root]))
    found = [fails(k, False, reach, [root]) for k in range(N_MOMENTS)]
    assert None in found
    assert all(set(nodes) == expected for nodes in found if nodes is not None)


@pytest.mark.parametrize("has_gradients", [False, True])
def test_handing_gradients_on_without_memory(graph, has_gradients):
    make, gradients = graph
    leaves = set()

    def walk(k):
        root = make()
        order = sorted(walker().reach([root]), key=operator.attrgetter("number"))
        leaves.update(node for node in order if node.op.name == "leaf")
        for leaf in leaves if has_gradients else ():
            leaf.extra.grad = ex.zeros(*leaf.type.shape)
            leaf.extra.grad._memory.version = 1_000  # the next is no small number, either
        given = {root: np.ones((4, 4), np.float32)}
        return fails(k, False, walker().walk, order, len(order), given, set(), False)

    for _ in range(3):
        assert walk(1_000_000) == 0
    expected, n_failed = gradients(), 0
    for k in range(100):
        left = walk(k)
        n_failed += left is None
        if left == 0:  # more than that: a view could not be made, and Python would make it
            assert gradients() == expected
    assert n_failed > 10


@pytest.mark.parametrize("yes", [1, np.True_, "yes"])
def test_flags_of_backward_may_be_anything_true(yes):
    x = ex.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x * x).sum()
    y.backward(retain_graph=yes)
    y.backward(create_graph=yes)
    assert x.grad.requires_grad
    assert ex.autograd.grad(y, x, create_graph=yes)[0].requires_grad


def test_a_backward_that_a_hooks_backward_has_overtaken_says_that_the_graph_was_freed():
    for _ in range(3):
        x = ex.ones(3, requires_grad=True)
        y = x.exp()
        other = y.sum()
        z = y.exp()
        z.register_hook(lambda g, other=other: other.backward())
        with pytest.raises(ex.errors.GraphFreedError, match="exp"):
            (z * 2.0).sum().backward()
