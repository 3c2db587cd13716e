"""Extempo from scratch: the idea in one sitting, as a program that runs.

    python docs/from_scratch.py

We build a tiny define-by-run library in four steps, each checked by the lines that follow it. The names are those of
the real thing, and each step says where the real one lives.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# ---- 1. An Op: one operation, and all that is known of it (src/extempo/op.py)
#
# A kernel computes values. A vjp ("vector-Jacobian product") says how a gradient g of the result becomes gradients of
# the inputs. `saves` says which values the vjp reads: only those are kept.


@dataclass(frozen=True)
class Op:
    name: str
    kernel: Callable[..., Any]
    vjp: Callable[..., tuple[Any, ...]]
    saves: tuple[str, ...] = ()


ADD = Op("add", np.add, lambda g, saved: (g, g))
MUL = Op("mul", np.multiply, lambda g, saved: (g * saved["b"], g * saved["a"]), saves=("a", "b"))
TANH = Op("tanh", np.tanh, lambda g, saved: (g * (1 - saved["y"] ** 2),), saves=("y",))


# ---- 2. A Node: one use of an op (src/extempo/graph.py)
#
# Nodes refer to the nodes of their inputs. Nobody builds the graph: it is what is left behind when ops run. The number
# grows as nodes are made, so sorting by number is a topological order.

number = itertools.count()


@dataclass(eq=False)
class Node:
    op: Op | None  # None: a leaf
    inputs: tuple[Node, ...] = ()
    saved: dict[str, Any] = field(default_factory=dict)
    number: int = field(default_factory=lambda: next(number))
    grad: Any = None


# ---- 3. A Tensor and apply(): kernel, then node (src/extempo/_tensor.py, running.py)


class Tensor:
    def __init__(self, value: Any, node: Node | None = None) -> None:
        self.value = np.asarray(value, float)
        self.node = node or Node(None)

    def __add__(self, other: Tensor) -> Tensor:
        return apply(ADD, self, other)

    def __mul__(self, other: Tensor) -> Tensor:
        return apply(MUL, self, other)

    def tanh(self) -> Tensor:
        return apply(TANH, self)


def apply(op: Op, *inputs: Tensor) -> Tensor:
    y = op.kernel(*[x.value for x in inputs])
    values = dict(zip("ab", [x.value for x in inputs], strict=False)) | {"y": y}
    kept = {name: values[name] for name in op.saves}  # and nothing else: the rest is freed at once
    return Tensor(y, Node(op, tuple(x.node for x in inputs), kept))


x, w = Tensor(2.0), Tensor(3.0)
y = (x * w + x).tanh()
assert y.node.op is TANH
assert [n.op.name for n in y.node.inputs if n.op] == ["add"]
assert y.node.inputs[0].saved == {}  # add reads nothing


# ---- 4. Backward: decreasing number, adding up, freeing (src/extempo/autograd/engine.py)


def backward(root: Tensor) -> None:
    reached, stack = {root.node}, [root.node]
    while stack:
        for node in stack.pop().inputs:
            if node not in reached:
                reached.add(node)
                stack.append(node)
    gradients = {root.node: np.ones_like(root.value)}
    for node in sorted(reached, key=lambda n: -n.number):
        g = gradients.pop(node)
        if node.op is None:
            node.grad = g
            continue
        for source, contribution in zip(node.inputs, node.op.vjp(g, node.saved), strict=True):
            gradients[source] = gradients.get(source, 0.0) + contribution
        node.inputs, node.saved = (), {}  # passed, and so no longer needed


backward(y)
slope = 1 - np.tanh(2.0 * 3.0 + 2.0) ** 2
assert np.isclose(x.node.grad, slope * (3.0 + 1.0))  # x was used twice: both contributions are in
assert np.isclose(w.node.grad, slope * 2.0)
assert y.node.inputs == ()  # the graph is gone


# ---- What that buys: Python is the model
#
# The number of turns depends on a value that the model itself computes. No graph was declared; this run's graph is
# simply what this run did.

w = Tensor(1.5)
y, turns = Tensor(1.0), 0
while y.value < 10:
    y, turns = y * w, turns + 1
backward(y)
assert turns == 6
assert np.isclose(w.node.grad, turns * 1.5 ** (turns - 1))

# What the real one adds: shape rules that speak before a kernel runs, dtypes and broadcasting (once, in the engine),
# views and in-place writes with versions, several results per op, hooks, higher orders, and errors that name lines.
print("a library in four steps: all checks passed")
