"""What rewritten source calls: Python's branches and loops, and their traced forms where a traced tensor decides.

Every method does what Python does for plain values. A branch on a traced tensor becomes a `cond` of the variables that
it sets, a loop over a tensor or range of symbolic length a `scan`, a `while` on a traced tensor a `while_loop`. A list
that every step of such a loop appends one tensor to becomes a `StackedList`. What cannot be kept is an ExportError.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import ops
from ..core.graph import Graph, Node, describe_where
from ..core.source_location import user_line
from ..core.tensor import Tensor
from ..core.types import TensorType, bool_
from ..errors import ExportError
from ..func.tree import leaves, mapped, rebuild
from ..nn.module import Module
from ..ops.control_flow import Cond, Scan, WhileLoop
from ..symbolic.sym_int import SymInt
from .builtin_calls import BuiltinCalls
from .loop_items import StackedList, SymbolicRange, tree_of
from .source import converted, is_users
from .tracer import OutsideWrite, ProgramTracer, as_tensor, decision, merged, unify

Values = tuple[Any, ...]
MAX_RECURSION = 30  # calls of one function inside one another, and branches and loops around them
# What may fail, or cost or draw something: it runs only if what stands before it in an `and` or `or` lets it.
_CAREFUL = frozenset(("index", "control", "random", "segments", "linalg", "custom", "other"))


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


class Control:
    """The functions that rewritten source calls, for one trace."""

    def __init__(self, tracer: ProgramTracer) -> None:
        self._tracer = tracer
        self._builtins = BuiltinCalls(self._traced, self.list_of)
        self._depths: dict[types.CodeType, int] = {}  # of the calls that are being traced, by their code
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
        """Whether it has no values yet, or some that may change: those of weights and states."""
        if not isinstance(value, Tensor):
            return False
        return self._tracer.is_tracked(value) if value._data is not None else value._source is self._tracer

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
            return self._users(fn, args, kwargs)
        if isinstance(fn, types.MethodType) and is_users(fn.__func__):
            return self._users(fn.__func__, (fn.__self__, *args), kwargs)
        if isinstance(fn, Module):
            self.rewrite(fn)
            return fn(*args, **kwargs)
        if isinstance(fn, functools.partial):
            return self.call(fn.func, *fn.args, *args, **{**fn.keywords, **kwargs})
        wrapped = getattr(fn, "__wrapped__", None)
        if is_users(wrapped) and not is_users(fn):  # by ex.no_grad() and its like, which make no difference here
            return self._users(wrapped, args, kwargs)
        own = vars(type(fn)).get("__call__")
        if is_users(own) and not isinstance(fn, type):
            return self._users(own, (fn, *args), kwargs)
        init = getattr(fn, "__init__", None)
        if type(fn) is type and is_users(init) and getattr(fn, "__new__", None) is object.__new__:
            made: Any = object.__new__(fn)
            self._users(init, (made, *args), kwargs)
            return made
        stand_in = self._builtins.find(fn)
        return fn(*args, **kwargs) if stand_in is None else stand_in(fn, *args, **kwargs)

    def _users(self, fn: Any, args: Values, kwargs: dict[str, Any]) -> Any:
        """A call of the user's own; one that calls itself for as long as values say so would never end here."""
        depth = self._depths.get(fn.__code__, 0)
        if depth > MAX_RECURSION and self._tracer.n_scopes > MAX_RECURSION:
            raise ExportError(
                f"{describe_where(user_line())}: {fn.__qualname__} calls itself in a branch that a value decides, so "
                "nothing but values ends it, and a program has no stack; write it as a `while` loop, or let a number "
                "or the nesting of an argument end it"
            )
        self._depths[fn.__code__] = depth + 1
        try:
            return converted(fn, self)(*args, **kwargs)
        finally:
            self._depths[fn.__code__] = depth

    def subscript(self, value: Any, index: Any) -> Any:
        """`value[index]` of a Python container; which entry it is must not depend on a value, but among tensors."""
        if not self._traced(index) or not isinstance(value, list | tuple | dict):
            return value[index]
        types_ = {v._type if isinstance(v, Tensor) else None for v in value}
        if not isinstance(value, dict) and len(types_) == 1 and None not in types_:
            return ops.stack(list(value))[index]
        raise ExportError(
            f"{describe_where(user_line())}: an entry of a {type(value).__name__} is chosen by a value, and it would "
            "be frozen as it is in the example; choose by `if`, ex.cond or ex.where, or index ex.stack of tensors of "
            "one type"
        )

    # ---- decisions

    def not_(self, value: Any) -> Any:
        return ~decision(value) if self._traced(value) else not value

    def and_(self, *thunks: Callable[[], Any]) -> Any:
        """`and` where only the truth of the result matters."""
        return self._truth(thunks, False)

    def or_(self, *thunks: Callable[[], Any]) -> Any:
        return self._truth(thunks, True)

    def _truth(self, thunks: Sequence[Callable[[], Any]], ends_with: bool) -> Any:
        """The first value that decides; a traced one is joined with what follows, which runs only if it is needed."""
        value: Any = not ends_with
        for i, thunk in enumerate(thunks):
            value = thunk()
            if not self._traced(value):
                if bool(value) is ends_with:
                    return value
                continue
            if i + 1 == len(thunks):
                return value
            own, rest = decision(value), functools.partial(self._decided, thunks[i + 1 :], ends_with)
            scope = self._tracer.traced_scope(rest, ())
            follows = scope.result
            if not self._traced(follows):
                return follows if bool(follows) is ends_with else own
            if self._is_careful(scope.ordered, scope.scope.start):
                yes, no = ((lambda: True), rest) if ends_with else (rest, (lambda: False))
                return self._cond(own, yes, no, ())
            return own | follows if ends_with else own & follows
        return value

    def _decided(self, thunks: Sequence[Callable[[], Any]], ends_with: bool) -> Any:
        value = self._truth(thunks, ends_with)
        return decision(value) if self._traced(value) else value

    def _is_careful(self, outputs: list[Node], start: float) -> bool:
        return any(n.number >= start and n.op.family in _CAREFUL for n in Graph.reach(outputs))

    def and_value(self, *thunks: Callable[[], Any]) -> Any:
        """`and` whose result is used: one of its values."""
        return self._value(thunks, False)

    def or_value(self, *thunks: Callable[[], Any]) -> Any:
        return self._value(thunks, True)

    def _value(self, thunks: Sequence[Callable[[], Any]], ends_with: bool) -> Any:
        first, *rest = thunks
        value = first()
        if not rest:
            return value
        if not self._traced(value):
            return value if bool(value) is ends_with else self._value(rest, ends_with)
        if value.dtype is bool_ and not value.ndim:
            follows = self._tracer.traced_scope(lambda: self._value(rest, ends_with), ()).result
            if isinstance(follows, bool) or (isinstance(follows, Tensor) and follows.dtype is bool_):
                return self._truth([lambda: value, *rest], ends_with)
        following = functools.partial(self._value, rest, ends_with)
        yes, no = ((lambda: value), following) if ends_with else (following, (lambda: value))
        return self._cond(value, yes, no, ())

    # ---- conditions that must hold

    def assert_(self, test: Any, message: Callable[[], Any], source: str) -> None:
        """`assert test, message`, and `if not test: raise message`."""
        if self._traced(test):
            self._tracer.require(decision(test), _told(message, source))
        elif not test:
            raise AssertionError(message())

    def raise_if(self, test: Any, error: Callable[[], Any], source: str) -> None:
        if self._traced(test):
            self._tracer.require(~decision(test), _told(error, source))
        elif test:
            error()

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
        tracer, single = self._tracer, not names

        def run(bases: list[Tensor]) -> Any:
            if not bases:
                return self._branches(test, yes, no, values, names)
            given = (*values, *map(tracer.as_it_is, bases))
            sides = [tracer.writing(fn, bases, single) for fn in (yes, no)]
            every = (*(names or ("the value",)), *("what is written",) * len(bases))
            made = self._branches(test, sides[0], sides[1], given, every)
            self._assign(bases, made)
            return made[0] if single else made[: len(names)]

        return _with_writes(run)

    def _assign(self, bases: list[Tensor], made: Values) -> None:
        for base, value in zip(bases, made[len(made) - len(bases) :], strict=True):
            self._tracer.assign(base, value)

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
            self._assign(bases, made)
            return made[:-n]

        return _with_writes(with_bases)

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
        log = self._tracer.log
        while True:
            guards, n_decided = dict(log.guards), log.n_decided
            going = test(*values)
            if self._traced(going):
                self._refuse_attribute(sets, "a `while` on a value")
                return self._while(test, step, names, values)
            if log.n_decided > n_decided and not sets:  # `while i < len(x)`: it stays a loop, if it can
                known, log.guards = log.guards, guards
                try:
                    return self._while(test, step, names, values)
                except ExportError:
                    log.guards = known
            if not going:
                return values
            values = step(*values)

    def _while(self, test: Callable[..., Any], step: Callable[..., Values], names: Values, values: Values) -> Values:
        return self._loop(self._while_loop, step, names, values, test)

    def _while_loop(
        self, step: Callable[..., Values], names: Values, values: Values, test: Callable[..., Any]
    ) -> Values:
        tracer, line = self._tracer, describe_where(user_line())
        start = self._carried(step, (), names, values, line, "while")
        body = tracer.traced_scope(step, start.values, self._after(start, names, line))
        check = tracer.traced_scope(lambda *given: decision(test(*given)), start.values)
        if not self._traced(check.result):
            raise ExportError(f"{line}: this `while` is decided by sizes that no step changes")
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
        counted = isinstance(items, SymbolicRange) and items.is_counted
        tree = None if counted else tree_of(items)
        if tree is None and not counted:
            for item in items:
                values = step(item, *values)
            return values
        self._refuse_attribute(sets, "a loop of unknown length")
        if counted:
            return self._counted(items, step, names, values)
        return self._loop(functools.partial(self._for, tree, lists), step, names, values)

    def _counted(self, items: SymbolicRange, step: Callable[..., Values], names: Values, values: Values) -> Values:
        """A loop over a range that values bound: a `while` with a number of its own."""
        if type(items.step) is not int or not items.step:
            raise ExportError(f"{describe_where(user_line())}: the step of this range must be a number, and not 0")

        def going(i: Any, *given: Any) -> Any:
            return i < items.stop if items.step > 0 else i > items.stop

        def stepped(i: Any, *given: Any) -> Values:
            return (i + items.step, *step(i, *given))

        return self._while(going, stepped, ("the number", *names), (as_tensor(items.start), *values))[1:]

    def list_of(self, fn: Callable[[Any], Any], items: Any) -> Any:
        tree = tree_of(items)
        if tree is None and not isinstance(items, SymbolicRange):
            return [fn(item) for item in items]

        def step(item: Any, found: list[Any]) -> Values:
            found.append(fn(item))
            return (found,)

        (made,) = self.for_(items, step, ("list",), ([],), ("list",), "")
        return made

    def filtered(self, value: Any) -> Any:
        """The condition of a comprehension: one on a value would decide how many entries there are."""
        if self._traced(value):
            raise ExportError(
                f"{describe_where(user_line())}: this comprehension keeps as many entries as values decide, and a "
                "program has tensors of sizes that its inputs have; keep all, and multiply by a mask or use ex.where"
            )
        return value

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
                    if name.startswith("__value_") and _is_value(after):  # what a `return` inside the loop gives
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
            if not (_is_value(x) and _is_value(y)):
                raise (NothingToStartFrom if x is None and _is_value(y) else ExportError)(
                    f"{line}: `{name}` is {_shown(x)} before this `{kind}` loop and {_shown(y)} after a step; a "
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
                made.append(_number(x, node.type.dtype))
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
                    made = _number(y, x._type.dtype) if not isinstance(y, Tensor) else y
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


def _with_writes(run: Callable[[list[Tensor]], Any]) -> Any:
    """`run` with the tensors from outside that it turns out to write into."""
    bases: list[Tensor] = []
    while True:
        try:
            return run(bases)
        except OutsideWrite as error:
            if any(error.base is base for base in bases):
                raise
            bases.append(error.base)


class NothingToStartFrom(ExportError):
    """A variable that a loop carries is None before it: the first step has to be taken by itself."""


class Carried(NamedTuple):
    """The variables of a loop before its first step, and which of them it carries or sets for itself only."""

    values: Values
    carried: list[int]
    local: list[int]


def _told(message: Callable[[], Any], source: str) -> str:
    """The text of a message or error, where it can be had without values; else its source."""
    try:
        return str(message())
    except ExportError:
        return source
    except Exception as error:  # the user's own, raised to have its text
        return f"{type(error).__name__}: {error}"


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
