"""The NumPy backend: the interpreter of a Graph, and straight-line Python made from one.

Imported by nobody's name: the module is `backends.numpy`, the library stays `import numpy as np`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..graph import Graph, Leaf, Node, Pick
from ..op import Signature
from ..types import TensorType


def interpret(graph: Graph, values: Mapping[Node, Any]) -> list[Any]:
    """Run the graph node by node on arrays (numbers for weak leaves). The meaning every other way must agree with."""
    known: dict[Node, Any] = dict(values)
    with np.errstate(all="ignore"):
        for node in graph:
            if node.op is Leaf:
                if node not in known:
                    raise KeyError(f"interpret: no value given for leaf {node.number} of type {node.type}")
            elif node.op is Pick:
                known[node] = known[node.inputs[0]][node.attrs["index"]]
            else:
                known[node] = _run(node, [known[i] if isinstance(i, Node) else i for i in node.inputs])
    return [known[o] for o in graph.outputs]


def _run(node: Node, arrays: list[Any]) -> Any:
    from .._tensor import convert

    types = tuple(i.type if isinstance(i, Node) else type(i) for i in node.inputs)
    signature: Signature = node.op.signature(types, node.attrs)
    if signature.compute is not None:
        arrays = [convert(a, signature.compute) for a in arrays]
    out = node.op.numpy(*arrays, **node.attrs)
    if isinstance(node.type, TensorType):
        return np.asarray(out, node.type.dtype.numpy)
    return tuple(np.asarray(o, t.dtype.numpy) for o, t in zip(out, node.type, strict=True))


def straight_line(graph: Graph, arguments: Sequence[Node]) -> Callable[..., tuple[Any, ...]]:
    """A Python function that runs the graph's kernels one after another, with no lookup in between.

    Only for graphs whose kernels need no conversion of dtypes; the caller sees to that.
    """
    namespace: dict[str, Any] = {"inf": float("inf"), "nan": float("nan")}
    names = {node: f"a{i}" for i, node in enumerate(arguments)}
    lines = [f"def kernel({', '.join(names.values())}):"]
    weak = {node for node in arguments if not isinstance(node.type, TensorType)}
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
        # What is made of numbers alone stays a number: NumPy's scalars would count as float64 from here on.
        numbers_only = all(x in weak for x in node.inputs if isinstance(x, Node))
        if numbers_only:
            weak.add(node)
        lines.append(f"    t{i} = f{i}({', '.join(called)}){'.item()' if numbers_only else ''}")
    lines.append(f"    return ({', '.join(names[o] for o in graph.outputs)},)")
    exec("\n".join(lines), namespace)  # noqa: S102 - the text is made of our own names and number literals only
    return namespace["kernel"]
