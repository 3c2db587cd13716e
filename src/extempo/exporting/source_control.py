"""What rewritten source calls: Python's branches and loops, and their traced forms where a traced tensor decides.

Every method does what Python does for plain values. A branch on a traced tensor becomes a `cond` of the variables that
it sets, a loop over a tensor or range of symbolic length a `scan`, a `while` on a traced tensor a `while_loop`. A list
that every step of such a loop appends one tensor to becomes a `StackedList`. What cannot be kept is an ExportError.
"""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import ops
from ..core.graph import Node, describe_where
from ..core.source_location import user_line
from ..core.tensor import Tensor
from ..core.types import TensorType, int64
from ..errors import ExportError
from ..func.tree import leaves, rebuild
from ..nn.module import Module
from ..ops.control_flow import Cond, Scan, WhileLoop
from ..symbolic.sym_int import SymInt, depends
from .source import converted, is_users
from .tracer import ProgramTracer, as_tensor, decision, merged, unify

Values = tuple[Any, ...]


class Unset:
    """The value of a variable that is not set, or only on one of the ways that a call may take; its use is an error."""

    def __init__(self, why: str = "") -> None:
        self._why = why

    def _refuse(self, *args: Any) -> Any:
        raise ExportError(self._why or f"{describe_where(user_line())}: a variable is used before it is set")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse()


for _operator in ("add", "sub", "mul", "truediv", "matmul", "pow", "floordiv", "mod", "and", "or", "xor"):
    setattr(Unset, f"__{_operator}__", Unset._refuse)
    setattr(Unset, f"__r{_operator}__", Unset._refuse)
for _operator in ("neg", "lt", "le", "gt", "ge", "bool", "call", "getitem", "iter", "len", "index", "float", "int"):
    setattr(Unset, f"__{_operator}__", Unset._refuse)

UNSET = Unset()


class SymbolicRange:
    """`range` with a symbolic bound."""

    def __init__(self, start: Any, stop: Any, step: Any) -> None:
        self.start = start
        self.stop = stop
        self.step = step

    def tensor(self) -> Tensor:
        return ops.arange(self.start, self.stop, self.step)


class StackedList:
    """A list that a traced loop appended to: what was in it before, and the rest as one tensor along its first dim."""

    def __init__(self, before: list[Any], stacked: Tensor) -> None:
        self._before = before
        self._stacked = stacked

    def stacked(self) -> Tensor:
        if not self._before:
            return self._stacked
        return ops.cat([ops.stack(self._before), self._stacked])

    def joined(self, dim: int) -> Tensor:
        """What `cat` gives: the dimension of the list goes into another one."""
        whole = self.stacked()
        d = dim % (whole.ndim - 1)
        moved = whole.movedim(0, d)
        return moved.reshape(*moved.shape[:d], moved.shape[d] * moved.shape[d + 1], *moved.shape[d + 2 :])

    def __getitem__(self, index: Any) -> Tensor:
        return self.stacked()[index]

    def __iter__(self) -> Any:
        raise ExportError(
            f"{describe_where(user_line())}: a list that a loop of unknown length appended to is gone through here; "
            "use ex.stack(list), and loop over that"
        )


class Control:
    """The functions that rewritten source calls, for one trace."""

    def __init__(self, tracer: ProgramTracer) -> None:
        self._tracer = tracer
        self._rewritten: list[Module] = []

    def rewrite(self, module: Module) -> None:
        """Give the user's own modules, from this one down, a forward with rewritten control flow."""
        for part in module.modules():
            if is_users(type(part).forward) and "forward" not in vars(part):
                vars(part)["forward"] = types.MethodType(converted(type(part).forward, self), part)  # type: ignore[arg-type] # is_users says
                self._rewritten.append(part)

    def restore(self) -> None:
        """Take them away again."""
        for part in self._rewritten:
            vars(part).pop("forward", None)

    def _traced(self, value: Any) -> bool:
        """Whether it has no values yet."""
        return isinstance(value, Tensor) and value._data is None and value._source is self._tracer

    def maybe(self, value: Callable[[], Any]) -> Any:
        """The value of a variable, if it is set."""
        try:
            return value()
        except NameError:
            return UNSET

    # ---- calls

    def call(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a function; the user's own with its control flow rewritten."""
        if is_users(fn):
            return converted(fn, self)(*args, **kwargs)
        if isinstance(fn, types.MethodType) and is_users(fn.__func__):
            return converted(fn.__func__, self)(fn.__self__, *args, **kwargs)  # type: ignore[arg-type] # is_users says
        if isinstance(fn, Module):
            self.rewrite(fn)
            return fn(*args, **kwargs)
        stand_in = getattr(self, f"_{getattr(fn, '__name__', '')}", None)
        if stand_in is not None and (getattr(builtins, fn.__name__, None) is fn or fn in (ops.stack, ops.cat)):
            return stand_in(fn, *args, **kwargs)
        owner: Any = getattr(fn, "__self__", None)
        if self._traced(owner) and fn.__name__ == "item":
            return owner.reshape(())
        return fn(*args, **kwargs)

    def _range(self, fn: Any, *bounds: Any) -> Any:
        bounds = tuple(b if type(b) is SymInt else int(b) for b in bounds)
        if not any(type(b) is SymInt for b in bounds):
            return range(*bounds)
        start, stop, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
        return SymbolicRange(start, stop, step)

    def _len(self, fn: Any, value: Any) -> Any:
        if isinstance(value, Tensor) and value.ndim:
            return value.shape[0]
        if isinstance(value, StackedList):
            return value.stacked().shape[0]
        return fn(value)

    def _enumerate(self, fn: Any, value: Any, start: Any = 0) -> Any:
        rows = self._rows(value)
        return (ops.arange(rows[0].shape[0]) + start, *rows) if rows else fn(value, start)

    def _zip(self, fn: Any, *values: Any, **options: Any) -> Any:
        rows = [self._rows(v) for v in values]
        if not any(rows) or not all(len(r) == 1 for r in rows):
            return fn(*values, **options)
        return tuple(r[0] for r in rows)

    def _reversed(self, fn: Any, value: Any) -> Any:
        rows = self._rows(value)
        return rows[0].flip(0) if len(rows) == 1 else fn(value)

    def _int(self, fn: Any, *args: Any) -> Any:
        if args and type(args[0]) is SymInt:
            return args[0]
        return args[0].reshape(()).to(int64) if args and self._traced(args[0]) else fn(*args)

    def _float(self, fn: Any, *args: Any) -> Any:
        return args[0].reshape(()).float() if args and self._traced(args[0]) else fn(*args)

    def _bool(self, fn: Any, *args: Any) -> Any:
        return decision(args[0]) if args and self._traced(args[0]) else fn(*args)

    def _stack(self, fn: Any, tensors: Any, dim: int = 0, **options: Any) -> Any:
        if not isinstance(tensors, StackedList):
            return fn(tensors, dim, **options)
        whole = tensors.stacked()
        return whole if dim == 0 else whole.movedim(0, dim)

    def _cat(self, fn: Any, tensors: Any, dim: int = 0, **options: Any) -> Any:
        return tensors.joined(dim) if isinstance(tensors, StackedList) else fn(tensors, dim, **options)

    # ---- decisions

    def not_(self, value: Any) -> Any:
        return ~decision(value) if self._traced(value) else not value

    def and_(self, *thunks: Callable[[], Any]) -> Any:
        return self._joined(thunks, False)

    def or_(self, *thunks: Callable[[], Any]) -> Any:
        return self._joined(thunks, True)

    def _joined(self, thunks: Sequence[Callable[[], Any]], ends_with: bool) -> Any:
        """`and` and `or`: the first value that decides; with traced ones, all that are not decided before."""
        traced: Tensor | None = None
        value: Any = not ends_with
        for thunk in thunks:
            value = thunk()
            if self._traced(value):
                own = decision(value)
                traced = own if traced is None else (traced | own if ends_with else traced & own)
            elif bool(value) is ends_with:
                return value
        return value if traced is None else traced

    def if_expression(self, test: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        if not self._traced(test):
            return yes() if test else no()
        return self._cond(test, yes, no, ())

    def if_return(self, test: Any, yes: Callable[..., Any], no: Callable[..., Any], values: Values) -> Any:
        if not self._traced(test):
            return (yes if test else no)(*values)
        return self._cond(test, yes, no, values)

    def if_(
        self, test: Any, yes: Callable[..., Any], no: Callable[..., Any], names: Values, values: Values, sets: str
    ) -> Values:
        if not self._traced(test):
            made: Values = (yes if test else no)(*values)
            return made
        self._refuse_attribute(sets, "an `if` on a value")
        result: Values = self._cond(test, yes, no, values, names)
        return result

    def _refuse_attribute(self, sets: str, where: str) -> None:
        if sets:
            raise ExportError(
                f"{describe_where(user_line())}: {sets} is set inside {where}, which a program cannot do; set a "
                "variable there, and the attribute after it"
            )

    def _cond(
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
        if len(flat[0]) != len(flat[1]) or isinstance(a, StackedList) or isinstance(b, StackedList):
            raise ExportError(f"{line}: {name} has another structure in one branch than in the other")
        makers: list[Callable[[Any], Any]] = []
        for x, y in zip(*flat, strict=True):
            if not isinstance(x, Tensor) and not isinstance(y, Tensor) and (x is y or _equal(x, y)):
                makers.append(lambda tensors, x=x: x)  # type: ignore[misc] # bound now
                continue
            if not _is_value(x) or not _is_value(y):
                raise ExportError(
                    f"{line}: `if` on a value was decided by the example: {name} is {_shown(x)} in one branch and "
                    f"{_shown(y)} in the other; give tensors in both, or mark what it depends on static"
                )
            p, q = nodes[0].get(id(x)), nodes[1].get(id(y))
            p, q = self._unified(p, q, x, y)
            if p.type != q.type:
                raise ExportError(
                    f"{line}: {name} is {_shown_type(p)} in one branch and {_shown_type(q)} in the other; both must "
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
        p = p if p is not None else self._tracer.node_of(_number(x, dtype))
        q = q if q is not None else self._tracer.node_of(_number(y, dtype))
        return p, q

    # ---- loops

    def while_(
        self, test: Callable[..., Any], step: Callable[..., Values], names: Values, values: Values, sets: str
    ) -> Values:
        while True:
            going = test(*values)
            if self._traced(going):
                self._refuse_attribute(sets, "a `while` on a value")
                return self._while(test, step, names, values)
            if not going:
                return values
            values = step(*values)

    def _while(self, test: Callable[..., Any], step: Callable[..., Values], names: Values, values: Values) -> Values:
        tracer, line = self._tracer, describe_where(user_line())
        start = self._carried(step, (), names, values, line, "while")
        body = tracer.traced_scope(step, start.values, self._after(start, names, line))
        check = tracer.traced_scope(lambda *given: decision(test(*given)), start.values)
        graph, reads = tracer.cut(body.scope, body.arguments, body.ordered)
        tested, test_reads = tracer.cut(check.scope, check.arguments, check.ordered)
        unify(graph, reads, tested, test_reads, len(body.operands))
        inputs = [*body.operands, *merged(reads, test_reads)]
        attrs = {"cond_graph": tested, "body_graph": graph, "n_carried": len(body.operands)}
        results = tracer.control(WhileLoop, inputs, attrs, [n.type for n in body.operands])
        return self._delivered(start, iter(results), names, line)

    def for_(
        self, items: Any, step: Callable[..., Values], names: Values, values: Values, lists: Values, sets: str
    ) -> Values:
        rows = self._rows(items)
        if not rows:
            for item in items:
                values = step(item, *values)
            return values
        self._refuse_attribute(sets, "a loop of unknown length")
        return self._for(rows, isinstance(items, tuple), step, names, values, lists)

    def list_of(self, fn: Callable[[Any], Any], items: Any) -> Any:
        rows = self._rows(items)
        if not rows:
            return [fn(item) for item in items]
        many = isinstance(items, tuple)

        def step(item: Any, found: list[Any]) -> Values:
            found.append(fn(item))
            return (found,)

        (made,) = self._for(rows, many, step, ("list",), ([],), ("list",))
        return made

    def _rows(self, items: Any) -> list[Tensor]:
        """The tensors whose slices a loop goes along, if their number is symbolic."""
        if isinstance(items, SymbolicRange):
            return [items.tensor()]
        if isinstance(items, StackedList):
            return [items.stacked()]
        candidates = list(items) if type(items) is tuple else [items]
        tensors = [x for x in candidates if isinstance(x, Tensor) and x.ndim]
        symbolic = [x for x in tensors if depends(x._type.shape[:1])]
        return tensors if symbolic and len(tensors) == len(candidates) else []

    def _for(
        self, rows: list[Tensor], many: bool, step: Callable[..., Values], names: Values, values: Values, lists: Values
    ) -> Values:
        tracer, line = self._tracer, describe_where(user_line())
        slices = [tracer.argument(TensorType(r._type.shape[1:], r._type.dtype)) for r in rows]

        def stepped(*given: Any) -> Values:
            items, carried = given[: len(rows)], given[len(rows) :]
            return step(tuple(items) if many else items[0], *carried)

        held = {n: v for n, v in zip(names, values, strict=True) if n in lists and type(v) is list}
        inner = tuple([] if n in held else v for n, v in zip(names, values, strict=True))
        start = self._carried(stepped, tuple(slices), names, inner, line, "for", tuple(held))
        body = tracer.traced_scope(stepped, (*slices, *start.values), self._after(start, names, line, tuple(held)))
        n_rows = len(rows)
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
        for name, ys in zip(held, results[n_carried:], strict=True):
            out[names.index(name)] = StackedList(held[name], ys)
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
        """What a loop carries, found by a trial step: variables that it changes, as tensors of the type they keep."""
        trial = self._tracer.traced_scope(step, (*items, *values))
        start = list(values)
        carried: list[int] = []
        local: list[int] = []
        for i, (name, before, after) in enumerate(zip(names, values, trial.result, strict=True)):
            if name in lists:
                continue
            if isinstance(before, list) and isinstance(after, list) and len(before) != len(after):
                raise ExportError(
                    f"{line}: the list `{name}` grows in this `{kind}` loop in a way that a program cannot keep; "
                    "append one tensor at every step of a `for` loop, or write into a tensor of fixed size"
                )
            if isinstance(before, Unset):
                if name.startswith("__value_") and _is_value(after):  # what a `return` inside the loop gives
                    node = trial.nodes.get(id(after)) or self._tracer.node_of(as_tensor(after))
                    start[i] = ops.zeros(node.type.shape, dtype=node.type.dtype)
                    carried.append(i)
                else:
                    local.append(i)
                continue
            if _unchanged(before, after, trial):
                continue
            for x, y in zip(leaves(before), leaves(after), strict=False):
                if not (_is_value(x) and _is_value(y)):
                    raise ExportError(
                        f"{line}: `{name}` is {_shown(x)} before this `{kind}` loop and {_shown(y)} after a step; a "
                        "loop of a program carries tensors and numbers, so give it a tensor to start from"
                    )
            start[i] = self._started(before, after, trial)
            carried.append(i)
        return Carried(tuple(start), carried, local)

    def _started(self, before: Any, after: Any, trial: Any) -> Any:
        """The starting value as tensors; a number takes the dtype that the loop makes of it."""
        made = []
        for x, y in zip(leaves(before), leaves(after), strict=True):
            node = trial.nodes.get(id(y))
            if isinstance(x, Tensor):
                made.append(x)
            elif node is not None and not node.type.shape:
                made.append(_number(x, node.type.dtype))
            elif isinstance(x, int) and type(x) is not bool and isinstance(y, float):
                made.append(ops.tensor(float(x)))
            else:
                made.append(as_tensor(x))
        return rebuild(before, iter(made))

    def _after(self, start: Carried, names: Values, line: str, lists: Values = ()) -> Callable[[Values], list[Any]]:
        """From the variables after a step to the tensors that the loop's graph gives: carried ones, then appended."""

        def outputs(after: Values) -> list[Any]:
            found: list[Any] = []
            for i in start.carried:
                for x, y in zip(leaves(start.values[i]), leaves(after[i]), strict=True):
                    made = _number(y, x._type.dtype) if not isinstance(y, Tensor) else y
                    if made._type != x._type:
                        raise ExportError(
                            f"{line}: `{names[i]}` is {x._type} before this loop and {made._type} after a step; "
                            "every step must keep shape and dtype, so start with the type that it ends with"
                        )
                    found.append(made)
            for name in lists:
                appended = after[names.index(name)]
                if len(appended) != 1 or not isinstance(appended[0], Tensor):
                    raise ExportError(
                        f"{line}: `{name}` must get exactly one tensor at every step of this loop, so that a program "
                        f"can stack them; it got {len(appended)} {'' if len(appended) != 1 else 'that is no tensor'}"
                    )
                found.append(appended[0])
            return found

        return outputs

    def _delivered(self, start: Carried, results: Any, names: Values, line: str) -> Values:
        out = list(start.values)
        for i in start.carried:
            out[i] = rebuild(start.values[i], iter([next(results) for _ in leaves(start.values[i])]))
        for i in start.local:
            out[i] = Unset(f"{line}: `{names[i]}` is set inside this loop, which may take no step; set it before, too")
        return tuple(out)


class Carried(NamedTuple):
    """The variables of a loop before its first step, and which of them it carries or sets for itself only."""

    values: Values
    carried: list[int]
    local: list[int]


def _is_value(x: Any) -> bool:
    return isinstance(x, Tensor | SymInt | bool | int | float)


def _equal(x: Any, y: Any) -> bool:
    return type(x) is type(y) and type(x) in (bool, int, float, str, type(None)) and bool(x == y)


def _unchanged(before: Any, after: Any, trial: Any) -> bool:
    """Whether a step leaves a variable as it was, the very tensors included."""
    a, b = leaves(before), leaves(after)
    if len(a) != len(b):
        return False
    return all(trial.is_same(x, y) or (not isinstance(x, Tensor) and _equal(x, y)) for x, y in zip(a, b, strict=True))


def _number(x: Any, dtype: Any) -> Tensor:
    made = as_tensor(x)
    return made if isinstance(x, Tensor) or dtype is None or made.dtype is dtype else made.to(dtype)


def _shown(x: Any) -> str:
    return str(x._type) if isinstance(x, Tensor) else repr(x)


def _shown_type(node: Node) -> str:
    return str(node.type)


def listed(result: Any) -> Any:
    """A result in which no list is one of unknown length."""
    if any(isinstance(x, StackedList | Unset) for x in leaves(result)):
        raise ExportError(
            "program: the result has a list whose length is not known before the program runs, or a variable that is "
            "set in one branch only; return ex.stack(list), or set it in both"
        )
    return result
