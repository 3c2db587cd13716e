"""A branch on a traced value: both sides traced as graphs of the variables that they set, and merged into a `cond`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ops
from ..core.graph import Node, describe_where
from ..core.source_location import user_line
from ..core.tensor import Tensor
from ..errors import ExportError
from ..func.tree import leaves, rebuild
from ..ops.control_flow import Cond
from .loop_items import StackedList
from .traced_values import UNSET, Unset, Values, assign_all, equal, is_value, number, shown, with_writes
from .tracer import ProgramTracer, as_tensor, decision, merged, unify


class Branches:
    """Traces the two sides of a decision."""

    def __init__(self, tracer: ProgramTracer) -> None:
        self._tracer = tracer

    def cond(
        self, test: Tensor, yes: Callable[..., Any], no: Callable[..., Any], values: Values, names: Values = ()
    ) -> Any:
        """What a decision by `test` gives: the variables of these names, or the one value where there are none."""
        tracer, single = self._tracer, not names

        def run(bases: list[Tensor]) -> Any:
            if not bases:
                return self._branches(test, yes, no, values, names)
            given = (*values, *map(tracer.as_it_is, bases))
            sides = [tracer.writing(fn, bases, single) for fn in (yes, no)]
            every = (*(names or ("the value",)), *("what is written",) * len(bases))
            made = self._branches(test, sides[0], sides[1], given, every)
            assign_all(tracer, bases, made)
            return made[0] if single else made[: len(names)]

        return with_writes(run)

    def _branches(
        self, test: Tensor, yes: Callable[..., Any], no: Callable[..., Any], values: Values, names: Values = ()
    ) -> Any:
        """Both branches traced; results that both leave as they are, or give alike, need no tracing."""
        line, tracer = describe_where(user_line()), self._tracer
        pred = tracer.node_of(decision(test))
        sides = [tracer.traced_scope(fn, values) for fn in (yes, no)]
        results = [side.result for side in sides]
        single = not names
        columns = list(zip(*results, strict=True)) if names else [tuple(results)]
        outputs: list[tuple[list[Node], list[Node]]] = []
        picked: list[Any] = []
        for i, (a, b) in enumerate(columns):
            name = f"`{names[i]}`" if names else "the value"
            picked.append(self._merged(a, b, name, line, [s.nodes for s in sides], outputs))
        nodes = [[pair[side] for pair in (p for out in outputs for p in zip(*out, strict=True))] for side in (0, 1)]
        graphs, reads = [], []
        for side, made in zip(sides, nodes, strict=True):
            graph, outside = tracer.cut(side.scope, side.arguments, made)
            graphs.append(graph)
            reads.append(outside)
        operands = sides[0].operands
        unify(graphs[0], reads[0], graphs[1], reads[1], len(operands))
        if nodes[0]:
            inputs = [pred, *operands, *merged(*reads)]
            attrs = {"true_graph": graphs[0], "false_graph": graphs[1]}
            tensors = iter(tracer.control(Cond, inputs, attrs, [o.type for o in graphs[0].outputs]))
        else:
            tensors = iter(())
        final = tuple(p(tensors) for p in picked)
        return final[0] if single else final

    def _merged(
        self, a: Any, b: Any, name: str, line: str, nodes: list[dict[int, Node]], outputs: list[Any]
    ) -> Callable[[Any], Any]:
        """How a variable's value is made of what two branches gave; nodes to be computed go into `outputs`."""
        if isinstance(a, Unset) and isinstance(b, Unset):
            return lambda tensors: UNSET
        if isinstance(a, Unset) or isinstance(b, Unset):
            if not name.startswith("`__value_"):  # what a `return` inside a loop gives is read only if it is set
                why = f"{line}: {name} is set in one branch of this `if` only, and read after it; set it in both"
                return lambda tensors: Unset(why)
            given = b if isinstance(a, Unset) else a
            zeros = [self._zeros(x, nodes[isinstance(a, Unset)]) for x in leaves(given)]
            a, b = (rebuild(given, iter(zeros)) if isinstance(side, Unset) else side for side in (a, b))
        flat = leaves(a), leaves(b)
        if len(flat[0]) != len(flat[1]) or (a is not b and (isinstance(a, StackedList) or isinstance(b, StackedList))):
            raise ExportError(
                f"{line}: {name} has another structure in one branch than in the other, so its length would depend on "
                "values; give both the same, or keep all and multiply by a mask"
            )
        makers: list[Callable[[Any], Any]] = []
        for x, y in zip(*flat, strict=True):
            if not isinstance(x, Tensor) and not isinstance(y, Tensor) and (x is y or equal(x, y)):
                makers.append(lambda tensors, x=x: x)  # type: ignore[misc] # bound now
                continue
            if not is_value(x) or not is_value(y):
                raise ExportError(
                    f"{line}: `if` on a value was decided by the example: {name} is {shown(x)} in one branch and "
                    f"{shown(y)} in the other; give tensors in both, or mark what it depends on static"
                )
            p, q = nodes[0].get(id(x)), nodes[1].get(id(y))
            p, q = self._unified(p, q, x, y)
            if p.type != q.type:
                raise ExportError(
                    f"{line}: {name} is {p.type} in one branch and {q.type} in the other; both must "
                    "have one shape and dtype in a program, so convert or pad one of them"
                )
            outputs.append(([p], [q]))
            makers.append(lambda tensors: next(tensors))
        return lambda tensors: rebuild(a, iter([make(tensors) for make in makers]))

    def _zeros(self, x: Any, nodes: dict[int, Node]) -> Tensor:
        node = nodes.get(id(x)) or self._tracer.node_of(as_tensor(x))
        return ops.zeros(node.type.shape, dtype=node.type.dtype)

    def _unified(self, p: Node | None, q: Node | None, x: Any, y: Any) -> tuple[Node, Node]:
        """Nodes of two values; a number takes the dtype of the tensor on the other side."""
        other = p if p is not None else q
        dtype = None if other is None else other.type.dtype
        p = p if p is not None else self._tracer.node_of(number(x, dtype))
        q = q if q is not None else self._tracer.node_of(number(y, dtype))
        return p, q
