"""Loops of unknown length: a step traced as a graph of the variables that it changes, for a `scan` or a `while_loop`.

What a loop carries is found by trying steps. A list that every step appends to becomes the stacked results of a scan.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import ops
from ..core.graph import describe_where
from ..core.source_location import user_line
from ..core.tensor import Tensor
from ..core.types import TensorType
from ..errors import ExportError
from ..func.tree import leaves, mapped, rebuild
from ..ops.control_flow import Scan, WhileLoop
from .loop_items import StackedList, SymbolicRange
from .traced_values import Unset, Values, assign_all, equal, is_value, number, shown, with_writes
from .tracer import ProgramTracer, as_tensor, decision, merged, unify


class NothingToStartFrom(ExportError):
    """A variable that a loop carries is None before it: the first step has to be taken by itself."""


class Carried(NamedTuple):
    """The variables of a loop before its first step, and which of them it carries or sets for itself only."""

    values: Values
    carried: list[int]
    local: list[int]


class Loops:
    """Traces loops."""

    def __init__(self, tracer: ProgramTracer) -> None:
        self._tracer = tracer

    def over(self, tree: Any, lists: Values, step: Callable[..., Values], names: Values, values: Values) -> Values:
        """A loop over the slices of the tensors in a tree. lists: the variables that it appends to."""
        return self._loop(functools.partial(self._for, tree, lists), step, names, values)

    def while_(self, test: Callable[..., Any], step: Callable[..., Values], names: Values, values: Values) -> Values:
        """A loop for as long as `test` of the variables holds."""
        return self._loop(self._while_loop, step, names, values, test)

    def _while_loop(
        self, step: Callable[..., Values], names: Values, values: Values, test: Callable[..., Any]
    ) -> Values:
        tracer, line = self._tracer, describe_where(user_line())
        start = self._carried(step, (), names, values, line, "while")
        body = tracer.traced_scope(step, start.values, self._after(start, names, line))
        check = tracer.traced_scope(lambda *given: decision(test(*given)), start.values)
        if check.result._data is not None:
            raise ExportError(f"{line}: this `while` is decided by sizes that no step changes")
        graph, reads = tracer.cut(body.scope, body.arguments, body.ordered)
        tested, test_reads = tracer.cut(check.scope, check.arguments, check.ordered)
        unify(graph, reads, tested, test_reads, len(body.operands))
        inputs = [*body.operands, *merged(reads, test_reads)]
        attrs = {"cond_graph": tested, "body_graph": graph, "n_carried": len(body.operands)}
        results = tracer.control(WhileLoop, inputs, attrs, [n.type for n in body.operands])
        return self._delivered(start, iter(results), names, line)

    def counted(self, items: SymbolicRange, step: Callable[..., Values], names: Values, values: Values) -> Values:
        """A loop over a range that values bound: a `while` with a number of its own."""
        if type(items.step) is not int or not items.step:
            raise ExportError(f"{describe_where(user_line())}: the step of this range must be a number, and not 0")

        def going(i: Any, *given: Any) -> Any:
            return i < items.stop if items.step > 0 else i > items.stop

        def stepped(i: Any, *given: Any) -> Values:
            return (i + items.step, *step(i, *given))

        return self.while_(going, stepped, ("the number", *names), (as_tensor(items.start), *values))[1:]

    def _loop(
        self, run: Callable[..., Values], step: Callable[..., Values], names: Values, values: Values, *fns: Any
    ) -> Values:
        """A loop by `run(step, names, values, *fns)`; what it writes into from outside are more variables of it.

        fns: other functions of the variables, which have no use for those.
        """

        def with_bases(bases: list[Tensor]) -> Values:
            if not bases:
                return run(step, names, values, *fns)
            n = len(bases)
            more = (*names, *("what is written",) * n)
            others = [lambda *given, fn=fn: fn(*given[:-n]) for fn in fns]
            given = (*values, *map(self._tracer.as_it_is, bases))
            made = run(self._tracer.writing(step, bases, False), more, given, *others)
            assign_all(self._tracer, bases, made)
            return made[:-n]

        return with_writes(with_bases)

    def _for(self, tree: Any, lists: Values, step: Callable[..., Values], names: Values, values: Values) -> Values:
        tracer, line = self._tracer, describe_where(user_line())
        rows = leaves(tree)
        slices = [tracer.argument(TensorType(r._type.shape[1:], r._type.dtype)) for r in rows]
        n_rows = len(rows)

        def stepped(*given: Any) -> Values:
            return step(rebuild(tree, iter(given[:n_rows])), *given[n_rows:])

        held = {n: v for n, v in zip(names, values, strict=True) if n in lists and type(v) in (list, StackedList)}
        inner = tuple([] if n in held else v for n, v in zip(names, values, strict=True))
        try:
            start = self._carried(stepped, tuple(slices), names, inner, line, "for", tuple(held))
        except NothingToStartFrom:
            if not rows[0]._type.shape[0] >= 1:  # a condition of the program
                raise
            first = step(rebuild(tree, iter([r[0] for r in rows])), *values)
            return self._for(mapped(lambda r: r[1:], tree), lists, step, names, first)
        grown: list[Any] = []  # what a step appends to each list
        body = tracer.traced_scope(
            stepped, (*slices, *start.values), self._after(start, names, line, tuple(held), grown)
        )
        graph, reads = tracer.cut(body.scope, body.arguments, body.ordered)
        # Arguments of the graph are slices and then carried values; a scan has the carried values first.
        n_carried = len(body.operands) - n_rows
        arguments = graph.nodes[: len(body.operands)]
        graph.nodes[: len(body.operands)] = [*arguments[n_rows:], *arguments[:n_rows]]
        inputs = [*body.operands[n_rows:], *map(tracer.node_of, rows), *reads]
        attrs = {"body_graph": graph, "n_carried": n_carried, "n_xs": n_rows, "reverse": False}
        length = rows[0]._type.shape[0]
        stacked = [TensorType((length, *o.type.shape), o.type.dtype) for o in graph.outputs[n_carried:]]
        types_ = [*(o.type for o in graph.outputs[:n_carried]), *stacked]
        results = tracer.control(Scan, inputs, attrs, types_)
        out = list(self._delivered(start, iter(results[:n_carried]), names, line))
        columns = iter(results[n_carried:])
        for (name, before), (item, n_items) in zip(held.items(), grown, strict=True):
            ys = [next(columns) for _ in leaves(item)]
            ys = ys if n_items == 1 else [y.reshape(length * n_items, *y.shape[2:]) for y in ys]
            out[names.index(name)] = StackedList(before, rebuild(item, iter(ys)))
        return tuple(out)

    def _carried(
        self,
        step: Callable[..., Values],
        items: Values,
        names: Values,
        values: Values,
        line: str,
        kind: str,
        lists: Values = (),
    ) -> Carried:
        """What a loop carries, as tensors of the type that they keep: the variables that a step changes.

        Steps are tried until no more are found, since one that is carried may decide about others.
        """
        start, carried = list(values), dict[int, None]()
        while True:
            trial = self._tracer.traced_scope(step, (*items, *start))
            local: list[int] = []
            more: dict[int, Any] = {}
            for i, (name, before, after) in enumerate(zip(names, start, trial.result, strict=True)):
                if name in lists or i in carried:
                    continue
                if isinstance(before, Unset):
                    if name.startswith("__value_") and is_value(after):  # what a `return` inside the loop gives
                        node = trial.nodes.get(id(after)) or self._tracer.node_of(as_tensor(after))
                        more[i] = ops.zeros(node.type.shape, dtype=node.type.dtype)
                    else:
                        local.append(i)
                elif not _unchanged(before, after, trial):
                    self._check_carried(name, before, after, line, kind)
                    more[i] = self._started(before, after, trial)
            if not more:
                return Carried(tuple(start), sorted(carried), local)
            for i, value in more.items():
                start[i] = value
                carried[i] = None

    def _check_carried(self, name: str, before: Any, after: Any, line: str, kind: str) -> None:
        if isinstance(before, list | dict | StackedList) and len(leaves(before)) != len(leaves(after)):
            raise ExportError(
                f"{line}: the {type(before).__name__} `{name}` grows in this `{kind}` loop in a way that a program "
                "cannot keep; append tensors at every step of a `for` loop, or write into a tensor of fixed size"
            )
        for x, y in zip(leaves(before), leaves(after), strict=False):
            if not (is_value(x) and is_value(y)):
                raise (NothingToStartFrom if x is None and is_value(y) else ExportError)(
                    f"{line}: `{name}` is {shown(x)} before this `{kind}` loop and {shown(y)} after a step; a "
                    "loop of a program carries tensors and numbers, so give it a tensor to start from"
                )

    def _started(self, before: Any, after: Any, trial: Any) -> Any:
        """The starting value as tensors; a number takes the dtype that the loop makes of it."""
        made = []
        for x, y in zip(leaves(before), leaves(after), strict=True):
            node = trial.nodes.get(id(y))
            if isinstance(x, Tensor):
                made.append(x)
            elif node is not None and not node.type.shape:
                made.append(number(x, node.type.dtype))
            elif isinstance(x, int) and type(x) is not bool and isinstance(y, float):
                made.append(ops.tensor(float(x)))
            else:
                made.append(as_tensor(x))
        return rebuild(before, iter(made))

    def _after(
        self, start: Carried, names: Values, line: str, lists: Values = (), grown: list[Any] | None = None
    ) -> Callable[[Values], list[Any]]:
        """From the variables after a step to the tensors that the loop's graph gives: carried ones, then appended.

        grown: gets, for each list, the structure of what a step appends, and how many of them.
        """

        def outputs(after: Values) -> list[Any]:
            found: list[Any] = []
            for i in start.carried:
                for x, y in zip(leaves(start.values[i]), leaves(after[i]), strict=True):
                    made = number(y, x._type.dtype) if not isinstance(y, Tensor) else y
                    if made._type != x._type:
                        raise ExportError(
                            f"{line}: `{names[i]}` is {x._type} before this loop and {made._type} after a step; "
                            "every step must keep shape and dtype, so start with the type that it ends with"
                        )
                    found.append(made)
            for name in lists:
                item, n_items = self._appended(after[names.index(name)], name, line)
                found += leaves(item)
                if grown is not None:
                    grown.append((item, n_items))
            return found

        return outputs

    def _appended(self, items: list[Any], name: str, line: str) -> tuple[Any, int]:
        """What a step appends to a list: one tree of tensors, with a dimension in front if there are several."""
        columns = [[as_tensor(x) for x in leaves(item)] for item in items]
        alike = columns and all([x._type for x in c] == [x._type for x in columns[0]] for c in columns)
        if not alike or not columns[0]:
            raise ExportError(
                f"{line}: `{name}` must get as many tensors at every step of this loop, of one shape and dtype, so "
                f"that a program can stack them; it got {len(items)}"
            )
        if len(items) == 1:
            return rebuild(items[0], iter(columns[0])), 1
        return rebuild(items[0], iter([ops.stack(c) for c in zip(*columns, strict=True)])), len(items)

    def _delivered(self, start: Carried, results: Any, names: Values, line: str) -> Values:
        out = list(start.values)
        for i in start.carried:
            out[i] = rebuild(start.values[i], iter([next(results) for _ in leaves(start.values[i])]))
        for i in start.local:
            out[i] = Unset(f"{line}: `{names[i]}` is set inside this loop, which may take no step; set it before, too")
        return tuple(out)


def _unchanged(before: Any, after: Any, trial: Any) -> bool:
    """Whether a step leaves a variable as it was, the very tensors included."""
    a, b = leaves(before), leaves(after)
    if len(a) != len(b):
        return False
    return all(trial.is_same(x, y) or (not isinstance(x, Tensor) and equal(x, y)) for x, y in zip(a, b, strict=True))
