"""A tape that is closed becomes the nodes that eager mode would have linked."""

from __future__ import annotations

import numpy as np
import pytest

import extempo as ex
from extempo.autograd.derive import Gradient
from extempo.backends.selection import native
from extempo.core.graph import Node

if native() is None:
    pytest.skip("the native backend does not run here", allow_module_level=True)

F = ex.nn.functional


pytestmark = pytest.mark.usefixtures("never_planned")


def draw(*shape, dtype=np.float32):
    return ex.tensor(np.random.default_rng([3, *shape]).normal(size=shape).astype(dtype), requires_grad=True)


def below(root):
    """Every node that can be reached, in the order of their numbers."""
    found, stack = {root}, [root]
    while stack:
        for i in stack.pop().inputs:
            if type(i) is Node and i not in found:
                found.add(i)
                stack.append(i)
    return sorted(found, key=lambda node: node.number)


def gates(x, w, b):
    i, f, g, o = (x @ w + b).chunk(4, 1)
    return (f.sigmoid() * i + o.tanh() * g.clamp(min=-0.5)).mean()


def sums(x, w, b):
    return (F.softmax(x @ w, -1) * b + 0.5).sum() / 3


def views(x, w, b):
    return (x.T[1:].reshape(-1)[::2] ** 2).sum() + w[0, 1] * b[2]


def described(derived):
    """Which gradient it is: other objects may mean the same, once a cache has forgotten one of them."""
    if isinstance(derived, Gradient):
        return type(derived), derived.needed, derived.reads, derived.numbers
    return derived  # the layout of a view


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fn", [gates, sums, views])
def test_nodes_have_the_gradients_that_native_code_runs(fn, dtype):
    arguments = [draw(3, 4, dtype=dtype), draw(4, 8, dtype=dtype), draw(8, dtype=dtype)]
    compiled = ex.compile(lambda *given: fn(*given))
    for _ in range(2):  # the first time is when eager mode finds out
        fn(*arguments).backward()
    eager, linked = below(fn(*arguments).grad_fn), below(compiled(*arguments).grad_fn)
    assert [node.op for node in linked] == [node.op for node in eager]
    for ours, expected in zip(linked, eager, strict=True):
        assert expected.derived is None or described(ours.derived) == described(expected.derived)
    assert sum(node.derived is not None for node in eager) > 1
