"""The gradient of a node as a list of kernel calls on arrays, from tracing its op's `vjp` once for these types.

The same kernels that the vjp's ops would run, in the same order, without a Tensor in between: the same bits. What
cannot be traced (a vjp that reads values, or writes in place) is left to the vjp itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np

from .._tensor import Tensor
from ..backends.choice import native
from ..backends.numpy import numbers_only
from ..errors import ExtempoError
from ..graph import Graph, Leaf, Node, Pick
from ..kernel import Cache
from ..modes import MODE, switch
from ..op import Op, Signature
from ..recorder import Recorder
from ..running import SIGNATURES, native_kernel, numpy_kernel
from ..types import TensorType
from .derive import Gradient


class GradientPlan(Gradient):
    """`kernel(g, *saved values, *numbers)`: one gradient, of the input's type, for each input in `needed`."""

    __slots__ = ("fresh", "kernel", "needed", "numbers", "reads")

    def __init__(self, trace: _Trace) -> None:
        self.reads = trace.reads
        self.numbers = trace.numbers
        self.needed = trace.needed
        outputs = trace.graph.outputs
        # Memory that nobody else sees, so that it may be added to: not a view, not handed out twice.
        self.fresh = tuple(o.op is not Leaf and not o.op.aliases_input and outputs.count(o) == 1 for o in outputs)
        self.kernel = _straight_line(trace.graph, trace.arguments)
        self.native: Any = None
        backend = native()
        if backend is not None:
            places = [
                (index, place, fresh) for place, (index, fresh) in enumerate(zip(self.needed, self.fresh, strict=True))
            ]
            self.native = backend.gradient(self.kernel, len(self.reads), self.numbers, places)


class _Trace:
    """One run of a vjp on symbols."""

    def __init__(self, node: Node, reads: tuple[int, ...], needed: tuple[int, ...]) -> None:
        from .engine import fit

        op, recorder = node.op, Recorder()
        g = recorder.leaf(node.type)
        y: Any = recorder.leaf(node.type) if 0 in reads else node.type
        inputs: list[Any] = []
        for i, source in enumerate(node.inputs):
            if isinstance(source, Node):
                inputs.append(recorder.leaf(source.type) if i + 1 in reads else source.type)
            else:
                inputs.append(None if source is None else recorder.leaf(type(source)))
        with switch(interceptor=recorder, grad=False):
            contributions = op.vjp(g, y, *inputs, **node.attrs)
            values: list[Any] = []
            for i in needed:
                value = contributions[i]
                if value is not None and not isinstance(value, Tensor):
                    value = value()
                values.append(None if value is None else fit(value, node.inputs[i].type))
        self.reads = reads
        self.numbers = tuple(i for i, s in enumerate(node.inputs) if s is not None and not isinstance(s, Node))
        self.needed = tuple(i for i, value in zip(needed, values, strict=True) if value is not None)
        self.graph = Graph.reach([recorder._node_of(v) for v in values if v is not None])
        self.traceable = not recorder.captured
        symbols = (y, *inputs)
        self.arguments = [g._node, *(symbols[p]._node for p in reads), *(inputs[i]._node for i in self.numbers)]


_plans: Cache[Any, GradientPlan | None] = Cache("gradients as lists of kernels", 10_000)
_UNSEEN: Any = object()


def plan_of(node: Node) -> GradientPlan | None:
    """The plan of a node with one result, for all its inputs that require grad; None if its vjp cannot be traced."""
    if not node.op.traceable:
        return None
    types = tuple(i.type if isinstance(i, Node) else type(i) for i in node.inputs)
    reads = tuple(entry[0] for entry in node.saved)
    needed = tuple(i for i, source in enumerate(node.inputs) if type(source) is Node)
    key: Any = (node.op, types, *chain.from_iterable(node.attrs.items()))
    try:
        found = _plans.get((key, reads, needed), _UNSEEN)
    except TypeError:  # an attribute that cannot be hashed
        return None
    if found is _UNSEEN:
        found = _plans.put((key, reads, needed), _made(node, reads, needed))
        signature = SIGNATURES.get(key)
        if signature is not None:
            signature.plans[sum(1 << i for i in needed)] = (reads, found)
    return found


def _made(node: Node, reads: tuple[int, ...], needed: tuple[int, ...]) -> GradientPlan | None:
    if any(p < 0 for p in reads):
        return None
    try:
        trace = _Trace(node, reads, needed)
    except (ExtempoError, TypeError, AttributeError, ValueError):
        return None  # the vjp itself will say what is wrong, if anything is
    return GradientPlan(trace) if trace.traceable and trace.needed else None


def _straight_line(graph: Graph, arguments: list[Node]) -> Callable[..., tuple[Any, ...]]:
    """A Python function that calls the graph's kernels one after another."""
    namespace: dict[str, Any] = {}
    names = {node: f"a{i}" for i, node in enumerate(arguments)}
    lines = [f"def gradient({', '.join(names.values())}):"]
    weak = numbers_only(graph)
    for i, node in enumerate(n for n in graph if n.op is not Leaf):
        names[node] = f"t{i}"
        if node.op is Pick:
            lines.append(f"    t{i} = {names[node.inputs[0]]}[{node.attrs['index']}]")
            continue
        namespace[f"f{i}"] = _kernel(node, weak)
        called = []
        for j, x in enumerate(node.inputs):
            if not isinstance(x, Node):
                namespace[f"c{i}_{j}"] = x
            called.append(names[x] if isinstance(x, Node) else f"c{i}_{j}")
        lines.append(f"    t{i} = f{i}({', '.join(called)}){'.item()' if node in weak else ''}")
    lines.append(f"    return ({', '.join(names[o] for o in graph.outputs)},)")
    exec("\n".join(lines), namespace)
    return namespace["gradient"]


def _kernel(node: Node, weak: set[Node]) -> Callable[..., Any]:
    """What runs one node on arrays."""
    op, attrs = node.op, node.attrs
    if op.aliases_input or node in weak:
        plain = functools.partial(op.numpy, **attrs) if attrs else op.numpy
        backend = native()
        if node in weak or backend is None or type(node.type) is tuple:
            return plain
        types = tuple(_input_type(i, weak) for i in node.inputs)
        # A reshape may need a copy, which NumPy's own takes several times as long for.
        copy = native_kernel(op, types, attrs, op.signature(types, attrs))
        return backend.view_call(op, types, attrs, copy or plain)
    return kernel_call(op, tuple(_input_type(i, weak) for i in node.inputs), attrs)


def kernel_call(op: type[Op], types: tuple[Any, ...], attrs: dict[str, Any]) -> Callable[..., Any]:
    """A function of arrays: the op's native kernel for these types, or its NumPy kernel."""
    signature = op.signature(types, attrs)
    return native_kernel(op, types, attrs, signature) or _numpy_call(op, attrs, signature)


def _input_type(source: Any, weak: set[Node]) -> Any:
    if not isinstance(source, Node):
        return type(source)
    return float if source in weak and isinstance(source.type, TensorType) else source.type


def _numpy_call(op: type[Op], attrs: dict[str, Any], signature: Signature) -> Callable[..., Any]:
    several = type(signature.type) is tuple
    dtypes = [t.dtype.numpy for t in (signature.type if several else (signature.type,))]

    def call(*arrays: Any) -> Any:
        out = numpy_kernel(op, list(arrays), attrs, signature, MODE.get())
        made = tuple(np.asarray(o, d) for o, d in zip(out if several else (out,), dtypes, strict=True))
        return made if several else made[0]

    return call
