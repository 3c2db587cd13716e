"""VjpTrace: an op's `vjp` run once on symbols, so that what it does is known as a graph.

Everything that knows a gradient before it is computed comes from here: the fused kernels of elementwise ops (`derive`),
the kernel calls of eager mode (`vjp_programs`), and the forms that plans are made of (`scheduling.vjp_templates`). One
trace, so the three run the same ops in the same order and have the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import Any

from ..core.context import switch
from ..core.graph import Graph, Node
from ..core.op import Op
from ..core.tensor import Tensor
from ..core.types import TensorType, bool_
from ..dispatch.graph_tracer import GraphTracer
from ..symbolic.sym_int import kind_of
from .unbroadcast import fit


class VjpTrace:
    """One run of a vjp on inputs of these kinds; sizes may be symbolic.

    `reads`: what it may look at of (y, *inputs), by position; -1 - i is result i of an op that has several. All else is
    a type to it, so a vjp that reads more than it says fails. `needed`: the inputs whose gradients are to be in their
    own types. `has_cotangent`: the results that received a gradient.
    """

    def __init__(
        self,
        op: type[Op],
        kinds: tuple[Any, ...],
        attrs: dict[str, Any],
        result: Any,
        reads: Sequence[int],
        needed: Sequence[int] = (),
        has_cotangent: tuple[bool, ...] = (True,),
    ) -> None:
        self._tracer = tracer = GraphTracer()
        self.reads = reads  # below: those of single results
        self.cotangents: tuple[int, ...] = (0,)
        self.zeros: tuple[int, ...] = ()  # results whose gradient it gets as zeros, because none came
        g: Any
        y: Any
        self._g: tuple[Any, ...]  # symbols
        self._y: tuple[Any, ...]  # symbols, or types of what is not read
        if type(result) is tuple:
            self._find_results(op, result, has_cotangent)
            came = {*self.cotangents, *self.zeros}
            g = self._g = tuple([tracer.leaf(t) if i in came else None for i, t in enumerate(result)])
            y = self._y = tuple([tracer.leaf(t) if -1 - i in self.reads else t for i, t in enumerate(result)])
        else:
            g, y = tracer.leaf(result), tracer.leaf(result) if 0 in reads else result
            self._g, self._y = (g,), (y,)
        self._inputs: list[Any] = []
        numbers = []
        for i, kind in enumerate(kinds):
            if isinstance(kind, TensorType):
                self._inputs.append(tracer.leaf(kind) if i + 1 in reads else kind)
            elif kind is NoneType:  # it has no value to be symbolic about
                self._inputs.append(None)
            else:  # a weak symbol, so that nothing depends on the number
                self._inputs.append(tracer.leaf(kind))
                numbers.append(i)
        self.numbers = tuple(numbers)
        self.gradients: list[tuple[int, Tensor]] = []  # of the needed inputs that have one
        with switch(interceptor=tracer, grad=False):
            self.contributions = op.vjp(g, y, *self._inputs, **attrs)
            for i in needed:
                value = self.contributions[i]
                if value is not None and not isinstance(value, Tensor):
                    value = value()  # it is computed where it is needed only
                if value is not None:
                    self.gradients.append((i, fit(value, kinds[i])))
        self.graph = Graph.reach([tracer._node_of(value) for _, value in self.gradients])

    def _find_results(self, op: type[Op], types: tuple[TensorType, ...], has_cotangent: tuple[bool, ...]) -> None:
        """Which of several results take part, with a gradient or with their values."""
        self.cotangents = tuple([i for i, there in enumerate(has_cotangent) if there])
        if op.materialize:
            missing = [i for i, there in enumerate(has_cotangent) if not there]
            self.zeros = tuple([i for i in missing if types[i].dtype.is_floating_point])
        all_results = range(-1, -1 - len(types), -1)
        self.reads = [p for position in self.reads for p in ((position,) if position else all_results)]

    @property
    def captured(self) -> dict[Node, Tensor]:
        """Tensors that the vjp made by itself, as leaves."""
        return self._tracer.captured

    def arguments(self, reads: Sequence[int]) -> list[Node]:
        """The leaves of the graph in the order in which values are handed in: cotangents, `reads`, numbers."""
        symbols = [self._g[i] for i in (*self.cotangents, *self.zeros)]
        symbols += [self._y[-1 - p] if p < 0 else self._inputs[p - 1] if p else self._y[0] for p in reads]
        symbols += [self._inputs[i] for i in self.numbers]
        return [symbol._node for symbol in symbols]


def input_kind(source: Any, weak: set[Node]) -> Any:
    """What an op of a graph has as an input, which decides its kernel; `weak`: the nodes that are numbers."""
    if not isinstance(source, Node):
        return kind_of(source)
    return float if source in weak and isinstance(source.type, TensorType) else source.type


def keeps_dtype(result: TensorType, kinds: Sequence[Any]) -> bool:
    """Whether one kernel may compute the gradient of a simple elementwise op, without rounding on the way.

    With other dtypes, and for halves, every op of the vjp rounds its result, and only there.
    """
    d = result.dtype
    converted = [k for k in kinds if isinstance(k, TensorType) and k.dtype is not d and k.dtype is not bool_]
    return d.itemsize > 2 and not converted
