"""A whole graph as straight-line Python: the NumPy kernels of its nodes, called one after another.

Graph in, one kernel out. Numbers are weak: a kernel never sees one as an array of its own dtype.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.graph import Graph, Leaf, Node
from ...core.graph_interpreter import Kernel
from ...core.types import TensorType


def numbers_only(graph: Graph) -> set[Node]:
    """The nodes made of weak numbers alone. They stay Python numbers: arrays would bring a dtype of their own."""
    weak: set[Node] = set()
    for node in graph:
        inputs = [i for i in node.inputs if isinstance(i, Node)]
        if all(i in weak for i in inputs) if node.op is not Leaf else not isinstance(node.type, TensorType):
            weak.add(node)
    return weak


def straight_line(graph: Graph, arguments: Sequence[Node]) -> Kernel:
    """A Python function that runs the graph's kernels one after another, with no lookup in between.

    Only for graphs whose kernels need no conversion of dtypes; the caller sees to that.
    """
    namespace: dict[str, Any] = {"inf": float("inf"), "nan": float("nan")}
    names = {node: f"a{i}" for i, node in enumerate(arguments)}
    lines = [f"def kernel({', '.join(names.values())}):"]
    weak = numbers_only(graph)
    for i, node in enumerate(n for n in graph if n.op is not Leaf):
        namespace[f"f{i}"] = functools.partial(node.op.numpy, **node.attrs) if node.attrs else node.op.numpy
        names[node] = f"t{i}"
        called = []
        for j, x in enumerate(node.inputs):
            if isinstance(x, Node):
                called.append(names[x])
            elif isinstance(x, float) and node.type.dtype.is_floating_point:
                # NumPy takes twice as long over a Python float as over an array that already has the dtype.
                namespace[f"c{i}_{j}"] = np.array(x, node.type.dtype.numpy)
                called.append(f"c{i}_{j}")
            else:
                called.append(repr(x))
        lines.append(f"    t{i} = f{i}({', '.join(called)}){'.item()' if node in weak else ''}")
    lines.append(f"    return ({', '.join(names[o] for o in graph.outputs)},)")
    exec("\n".join(lines), namespace)
    return namespace["kernel"]
