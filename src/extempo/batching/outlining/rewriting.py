"""A function's source rewritten: runs of statements that look as if they only computed become regions.

Statements stay in their order and at their lines. An expression in the middle of which something else happens, such as
`combine(node(left), node(right))` in a function that calls itself, is taken apart: what comes first goes into variables
of its own, in the order in which Python evaluates it, and the rest of the expression is a part of a region. Where a
function's name is read before such a call and used after it, the region runs only if the name still refers to the same
function.

A region is written as a call of its cell, with the variables that it reads; the statements themselves stand beside it,
for calls that the cell declines:

    result = call_cell(cell, (self, x), {})
    if result is NotImplemented:
        h = self.linear(x)
        y = ex.tanh(h)
    else:
        y = result
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from types import MethodType
from typing import Any, NamedTuple, TypeVar

from ..read_guards import MISSING
from .callees import FORK, Callees, Role

# Names in the rewritten function that are not the user's. A cell's name has its number behind.
RECORD, CELL, NOTHING, DECLINED, OUTLINED = "__record__", "__cell__", "__nothing__", "__declined__", "__outlined__"
_RESULT, _TEMPORARY = "__result__", "__value_"

_LEAST_WORK = 4  # ops of a region, as far as they can be counted: natively recorded, three cost about as much as a call
_LEAST_IN_FORKS = 3  # the same where branches ask for values: batches are small there, and each op is one more of them
_TENSOR_ATTRIBUTES = frozenset(("shape", "dtype", "device", "ndim", "T", "mT"))
_GROWING = frozenset(("append", "extend", "add", "insert"))  # methods whose lookup has no effect
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SHORT = (ast.IfExp, ast.BoolOp)  # of which parts may not be evaluated
_PLAIN = (ast.Constant, ast.Name, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Slice, ast.Starred, ast.keyword)
_OPERATORS = (ast.BinOp, ast.UnaryOp, ast.Compare)
_WORDS = frozenset(("locals", "vars", "eval", "exec", "breakpoint", "dir", "_getframe", "set_trace", "currentframe"))
_REFUSED = (
    *(ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith, ast.AsyncFunctionDef),
    *(ast.Global, ast.Nonlocal, ast.NamedExpr, ast.ClassDef),
)

Position = tuple[int, int, int, int]  # first line and column, last line and column
N = TypeVar("N", bound=ast.AST)


class Learned(NamedTuple):
    """What was found out about a function when its regions ran."""

    outside: frozenset[Position]  # expressions and statements that do more than compute
    varying: frozenset[str]  # variables that have another size or structure at almost every call


class OutlinedRegion(NamedTuple):
    """Statements that may become one call."""

    body: ast.FunctionDef  # of the variables that they read
    arguments: list[str]
    statements: list[Position]
    setters: list[Position]  # of each result the statement that sets it

    def culprit(self, where: Position) -> set[Position]:
        """What is to be left out if something at a place does more than compute: that expression, or statements."""
        values = [s.value for s in self.body.body if isinstance(s, ast.Assign | ast.AnnAssign | ast.Return) and s.value]
        for value in values:
            for e in _walk([value]):
                if isinstance(e, ast.expr) and not isinstance(e, _PLAIN) and position_of(e) == where:
                    return {where}
        return {p for p in self.statements if p[0] <= where[2] and where[0] <= p[2]} or set(self.statements)


class _Run(ast.stmt):
    """Stands for statements in a row that may become a region."""

    _fields = ("body",)

    def __init__(self, body: list[ast.stmt], work: int) -> None:
        super().__init__()
        self.body = body
        self.work = work


def position_of(node: Any) -> Position:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _name_at(e: Any) -> str:
    """The variable for the value of an expression."""
    return _TEMPORARY + "_".join(map(str, position_of(e)))


def refused(definition: ast.FunctionDef) -> bool:
    """Whether a function is left as it is: it is a generator, looks at its own variables, ..."""
    for node in ast.walk(definition):
        if isinstance(node, _REFUSED):
            return True
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if name in _WORDS or (name.startswith("__") and not name.endswith("__")):
            return True
    return False


def rewritten(
    definition: ast.FunctionDef, callees: Callees, learned: Learned
) -> tuple[ast.FunctionDef, list[OutlinedRegion], bool]:
    """The new definition, its regions, and whether it calls functions that may have regions of their own."""
    rewriter = _Rewriter(callees, learned)
    made = copy.copy(definition)
    made.body = rewriter.block(definition.body)
    if any(isinstance(node, ast.Try) and node.finalbody for node in _walk(definition.body)):
        rewriter.returns = False
    return made, *rewriter.finish(made)


def _walk(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes below, but not those inside of other functions."""
    for node in nodes:
        yield node
        if not isinstance(node, _SCOPES):
            yield from _walk(ast.iter_child_nodes(node))


def _at(where: Any, node: N) -> N:
    """A new node, and those below it that have no place yet, at the place of another."""
    for part in ast.walk(node):
        if isinstance(part, ast.expr | ast.stmt) and not hasattr(part, "lineno"):
            ast.copy_location(part, where)
    return node


def _load(name: str, where: ast.AST) -> ast.Name:
    return _at(where, ast.Name(name, ast.Load()))


def _original(n: ast.AST) -> Any:
    """The function that a variable has, as it stands in the source, if it was looked up before something was called."""
    return getattr(n, "original", None)


def _is_method(node: ast.AST, field: str) -> bool:
    """Whether a field is the method that a call is of."""
    return isinstance(node, ast.Call) and field == "func" and isinstance(node.func, ast.Attribute)


_Child = tuple[str, int | None, Any]  # field, index in a list of that, and an expression or keyword


def _children(node: ast.AST) -> list[_Child]:
    """The parts of an expression in the order in which they are evaluated, with field and index."""
    if isinstance(node, ast.Dict):
        found: list[_Child] = []
        for i, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
            found += [("keys", i, key)] if key is not None else []
            found.append(("values", i, value))
        return found
    found = []
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.expr | ast.keyword):
            found.append((field, None, value))
        elif isinstance(value, list):
            found += [(field, i, part) for i, part in enumerate(value) if isinstance(part, ast.expr | ast.keyword)]
    return found


class _Rewriter:
    """Rewrites one function."""

    def __init__(self, callees: Callees, learned: Learned) -> None:
        self._callees = callees
        self._learned = learned
        self.returns = True  # whether a region may return from the function
        self._calls_others = False
        self._out: list[ast.stmt] = []
        self._run: list[ast.stmt] = []
        self._work = 0  # of the run
        self._is_certain = True  # whether the run consists of Extempo's ops and layers
        self._computed: set[str] = set()  # variables that ops have set
        self._temporaries: list[str] = []  # of the statement that is rewritten

    # ---- statements

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        before = self._out, self._run, self._work
        self._out, self._run, self._work = [], [], 0
        for statement in body:
            self._statement(statement)
        self._close()
        made = self._out
        self._out, self._run, self._work = before
        return made

    def _statement(self, s: ast.stmt) -> None:
        self._temporaries = []
        if position_of(s) in self._learned.outside:
            self._emit(self._wrapped(s))
            return
        if isinstance(s, ast.Assign) and all(map(_is_simple_target, s.targets)):
            self._assignment(s, s.value, [name for target in s.targets for name in _target_names(target)])
        elif isinstance(s, ast.AnnAssign) and s.value is not None and isinstance(s.target, ast.Name):
            self._assignment(s, s.value, [s.target.id])
        elif isinstance(s, ast.Return) and s.value is not None:
            value, inside = self._pull(s.value, root=True)
            made = _at(s, ast.Return(value))
            if inside and self._has_work(value):
                self._compute(made)
                self._close()
            else:
                self._emit(made)
        elif isinstance(s, ast.Expr | ast.Assign) or (isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name)):
            value, _ = self._pull(s.value, root=True)
            self._emit(_replaced(s, value=value))
        elif isinstance(s, ast.If):
            value, _ = self._pull(s.test, root=True)
            used, self._temporaries = self._temporaries, []
            self._close()
            clear = _cleared(used, s)
            body, orelse = [*clear, *self.block(s.body)], [*clear, *self.block(s.orelse)]
            self._out.append(_replaced(s, test=value, body=body, orelse=orelse))
            self._temporaries = []
        elif isinstance(s, ast.For):
            value, _ = self._pull(s.iter, root=True)
            self._close()
            used, self._temporaries = self._temporaries, []
            self._computed.difference_update(_target_names(s.target))
            self._out.append(_replaced(s, iter=value, body=self.block(s.body), orelse=self.block(s.orelse)))
            self._temporaries = used
        else:
            self._other(s)
        if not isinstance(s, ast.Return):
            clear = _cleared(self._temporaries, s)
            if clear and self._run:
                self._run += clear
            else:
                self._out += clear

    def _other(self, s: ast.stmt) -> None:
        self._close()
        made = _replaced(s)
        for field in ("test", "items", "subject", "exc", "msg"):
            part = getattr(made, field, None)
            if isinstance(part, ast.AST):
                setattr(made, field, self._wrapped(part))
            elif isinstance(part, list):
                setattr(made, field, [self._wrapped(one) for one in part])
        if not isinstance(s, _SCOPES):
            for field in ("body", "orelse", "finalbody"):
                if isinstance(getattr(made, field, None), list) and getattr(made, field):
                    setattr(made, field, self.block(getattr(made, field)))
            for field in ("handlers", "cases"):
                if hasattr(made, field):
                    parts = [_replaced(part, body=self.block(part.body)) for part in getattr(made, field)]
                    setattr(made, field, parts)
        self._out.append(made)
        self._temporaries = []

    def _assignment(self, s: ast.Assign | ast.AnnAssign, value: ast.expr, names: list[str]) -> None:
        value, inside = self._pull(value, root=True)
        made = _replaced(s, value=value)
        if inside and self._has_work(value):
            self._compute(made)
            self._computed.update(names)
        else:
            self._emit(made)
            self._computed.difference_update(names)

    # ---- what is emitted

    def _compute(self, statement: ast.stmt) -> None:
        """Add a statement to the run."""
        if not self._run:
            self._is_certain = True
        self._run.append(statement)
        work, certain = self._weight(statement)
        self._work += work
        self._is_certain &= certain

    def _emit(self, statement: ast.stmt) -> None:
        self._close()
        self._out.append(statement)

    def _read(self, statement: ast.Assign) -> None:
        """Emit a look at something that Python has. It may come before ops, which it can neither see nor change."""
        set_here = {name for s in self._run for name in _set_by(s)}
        read = {n.id for n in ast.walk(statement.value) if isinstance(n, ast.Name)}
        if self._run and not (self._is_certain and set_here.isdisjoint(read)):
            self._close()
        self._out.append(statement)

    def _close(self) -> None:
        """End the run."""
        if self._run:
            run = _at(self._run[0], _Run(self._run, self._work))
            self._out.append(run)
        self._run, self._work = [], 0

    def _temporary(self, value: ast.expr) -> tuple[str, ast.Assign]:
        """A new variable for a value; known by its place, so that it has the same name when rewritten again."""
        name = _name_at(value)
        self._temporaries.append(name)
        return name, _at(value, ast.Assign([ast.Name(name, ast.Store())], value))

    # ---- expressions

    def _pull(self, e: ast.expr, root: bool = False) -> tuple[ast.expr, bool]:
        """What is left of an expression once everything that is no part of a region was emitted.

        Returns whether all of that may be a part of one; at the root it may be something else.
        """
        if not self._has_outside(e):
            return e, True
        inside = self._is_inside(e)
        if self._is_opaque(e):
            return self._outside(self._wrapped(e), e, root)
        children = _children(e)
        parts: list[Any] = [p.value if isinstance(p, ast.keyword | ast.Starred) else p for _, _, p in children]
        has_outside = [
            self._has_outside(part.value if _is_method(e, field) else part)
            for (field, _, _), part in zip(children, parts, strict=True)
        ]
        pulled = [has_outside[i] or (not inside and self._has_work(part)) for i, part in enumerate(parts)]
        if any(isinstance(part, ast.Starred) and any(pulled[i + 1 :]) for i, (_, _, part) in enumerate(children)):
            return self._outside(self._wrapped(e), e, root)
        made = _replaced(e)
        for i, (field, index, child) in enumerate(children):
            part = parts[i]
            later = any(pulled[i + 1 :])
            if _is_method(e, field):  # it is the object that something may happen in, not the look at its method
                part = self._method(part, later or not inside)
            elif has_outside[i]:
                part, _ = self._pull(part)
            if (later and not self._may_wait(part, made, field)) or (not inside and self._has_work(part)):
                part = self._kept(part, field == "func" and inside)
            if isinstance(child, ast.keyword | ast.Starred):
                part = _replaced(child, value=part)
            if index is None:
                setattr(made, field, part)
            else:
                getattr(made, field)[index] = part
        if inside:
            return made, True
        return self._outside(self._with_outlined(made) if isinstance(made, ast.Call) else made, e, root)

    def _outside(self, made: ast.expr, e: ast.expr, root: bool) -> tuple[ast.expr, bool]:
        if root:
            return made, False
        name, statement = self._temporary(made)
        if isinstance(e, ast.Attribute | ast.Subscript) and not any(isinstance(n, ast.Call) for n in ast.walk(made)):
            self._read(statement)
        else:
            self._emit(statement)
        return _load(name, e), True

    def _method(self, method: Any, kept: bool) -> Any:
        """The method of an object, which is evaluated now if it is to be kept."""
        owner, _ = self._pull(method.value) if self._has_outside(method.value) else (method.value, True)
        return _replaced(method, value=self._kept(owner) if kept and self._has_work(owner) else owner)

    def _kept(self, part: ast.expr, is_function: bool = False) -> ast.expr:
        """The same, evaluated now. is_function: of a call that is a part of a region."""
        name, statement = self._temporary(part)
        if self._has_work(part):
            self._compute(statement)
            self._computed.add(name)
            return _load(name, part)
        self._read(statement)
        if not is_function:
            return _load(name, part)
        delayed: Any = _load(name, part)
        delayed.original = part
        value = self._callees.value_of(part)
        delayed.is_method = isinstance(part, ast.Attribute) and (value is MISSING or type(value) is MethodType)
        found: ast.expr = delayed
        return found

    def _may_wait(self, part: ast.expr, parent: ast.expr, field: str) -> bool:
        """Whether it makes no difference if a part is evaluated after those that follow."""
        if isinstance(part, ast.Constant):
            return True
        if isinstance(part, ast.Name):
            return part.id in self._callees.locals or part.id.startswith(_TEMPORARY)
        is_method = isinstance(parent, ast.Call) and field == "func" and isinstance(part, ast.Attribute)
        return is_method and part.attr in _GROWING and isinstance(part.value, ast.Name)  # type: ignore[attr-defined] # of an attribute

    def _is_inside(self, e: ast.AST) -> bool:
        """Whether an expression may be a part of a region if its parts are."""
        if isinstance(e, ast.Name | ast.comprehension):
            return True
        if isinstance(e, ast.expr) and position_of(e) in self._learned.outside:
            return False
        varying = self._learned.varying
        if varying:
            for _, _, child in _children(e):
                part = child.value if isinstance(child, ast.keyword | ast.Starred) else child
                if (part.id if isinstance(part, ast.Name) else _name_at(part)) in varying:
                    return False
        if isinstance(e, ast.Call):
            return self._callees.role_of(e.func).computes
        if isinstance(e, ast.Attribute):
            return e.attr in _TENSOR_ATTRIBUTES or self._is_known(e.value)
        if isinstance(e, ast.Subscript):
            return self._is_known(e.value)
        return isinstance(e, (*_PLAIN, *_OPERATORS, *_SHORT, *_COMPREHENSIONS))

    def _is_known(self, e: ast.expr) -> bool:
        """Whether a look at a value is a part of a region: no element or attribute of a sample's own object."""
        while isinstance(e, ast.Attribute) and e.attr not in _TENSOR_ATTRIBUTES:
            e = e.value
        if not isinstance(e, ast.Name):
            return True
        if e.id == self._callees.owner_name or e.id in self._computed:
            return True
        return e.id not in self._callees.locals and not e.id.startswith(_TEMPORARY)

    def _has_outside(self, e: ast.AST) -> bool:
        if isinstance(e, ast.Call) and isinstance(e.func, ast.Attribute):  # a method is no attribute that is read
            if not self._is_inside(e):
                return True
            below: list[ast.AST] = [e.func.value, *e.args, *e.keywords]
        elif isinstance(e, ast.keyword | ast.comprehension | ast.expr_context | ast.operator | ast.unaryop | ast.cmpop):
            below = list(ast.iter_child_nodes(e))
        elif isinstance(e, ast.boolop):
            below = []
        elif isinstance(e, _COMPREHENSIONS):
            own = {n.id for g in e.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)} - self._computed
            self._computed |= own
            found = not self._is_inside(e) or any(map(self._has_outside, ast.iter_child_nodes(e)))
            self._computed -= own
            return found
        else:
            if not self._is_inside(e):
                return True
            below = list(ast.iter_child_nodes(e))
        return any(map(self._has_outside, below))

    def _is_opaque(self, e: ast.expr) -> bool:
        """Whether an expression that something else happens in is left as it is."""
        if isinstance(e, ast.Compare):
            return len(e.ops) > 1
        return not isinstance(e, (*_PLAIN, ast.BinOp, ast.UnaryOp, ast.Call, ast.Attribute, ast.Subscript))

    # ---- work

    def _weight(self, node: ast.AST) -> tuple[int, bool]:
        """How many ops there are, about, and whether all calls are of Extempo's ops and layers."""
        work, certain = 0, True
        for part in _walk([node]):
            if isinstance(part, ast.Call):
                func = _original(part.func) or part.func
                role = self._callees.role_of(func)
                work += 0 if role is Role.BUILTIN else 1 if role in (Role.OP, Role.CELL) else _LEAST_WORK
                certain &= role in (Role.OP, Role.BUILTIN)
            elif isinstance(part, ast.UnaryOp) and isinstance(part.operand, ast.Constant):
                pass  # -1
            elif isinstance(part, (*_OPERATORS, *_COMPREHENSIONS)):  # a slice is a view, which is no call
                work += 1
        return work, certain

    def _has_work(self, e: ast.AST) -> bool:
        return self._weight(e)[0] > 0

    # ---- calls of functions that may have regions

    def _with_outlined(self, call: ast.Call) -> ast.Call:
        if _original(call.func) is not None or self._callees.role_of(call.func) not in (Role.OUTLINED, Role.FUNCTION):
            return call
        self._calls_others = True
        return _replaced(call, func=_at(call.func, ast.Call(ast.Name(OUTLINED, ast.Load()), [call.func], [])))

    def _wrapped(self, node: N) -> N:
        """The same with calls of functions that may have regions of their own."""
        rewriter = self

        class Wrapper(ast.NodeTransformer):
            def visit_Call(self, call: ast.Call) -> ast.AST:
                self.generic_visit(call)
                return rewriter._with_outlined(call)

            def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
                return node

            visit_FunctionDef = visit_Lambda  # type: ignore[assignment]

        made: N = Wrapper().visit(copy.deepcopy(node))
        return made

    # ---- regions

    def finish(self, definition: ast.FunctionDef) -> tuple[list[OutlinedRegion], bool]:
        """Write regions where runs are worth it."""
        reads = _reads([definition])
        regions: list[OutlinedRegion] = []
        forks = any(argument.arg == FORK for argument in definition.args.kwonlyargs)
        least_work = min(_LEAST_WORK, _LEAST_IN_FORKS) if forks else _LEAST_WORK

        def expand(run: _Run) -> list[ast.stmt]:
            is_return = isinstance(run.body[-1], ast.Return)
            if run.work < least_work or (is_return and not self.returns):
                return run.body
            found = self._region(run, reads, definition.name)
            if found is None:
                return run.body
            regions.append(found)
            return _call_of(found, run, len(regions) - 1, _results(run, reads, self._variables(run)))

        _expand(definition, expand)
        return regions, self._calls_others

    def _variables(self, run: _Run) -> dict[str, ast.Name]:
        """The variables that statements read before they set them, with where that is first."""
        found: dict[str, ast.Name] = {}
        done: set[str] = set()
        for s in run.body:
            for n in _walk([_originals(s)]):
                if isinstance(n, ast.Name) and _is_load(n) and n.id not in done:
                    found.setdefault(n.id, n)
            done.update(_set_by(s))
        own = {
            n.id for s in run.body for c in ast.walk(s) if isinstance(c, ast.comprehension) for n in _names(c.target)
        }
        callees = self._callees
        return {
            name: where
            for name, where in found.items()
            if (name in callees.locals and name not in own) or name in callees.free or name.startswith(_TEMPORARY)
        }

    def _region(self, run: _Run, reads: Counter[str], name: str) -> OutlinedRegion | None:
        variables = self._variables(run)
        results = _results(run, reads, variables)
        statements = [s for s in run.body if not _is_clearing(s)]
        body: list[ast.stmt] = [_originals(s) for s in statements]
        is_return = isinstance(body[-1], ast.Return)
        if not is_return:
            if not results:
                return None
            loads: list[ast.expr] = [ast.Name(result, ast.Load()) for result in results]
            value = loads[0] if len(loads) == 1 else ast.Tuple(loads, ast.Load())
            body.append(_at(statements[-1], ast.Return(value)))
        made = ast.parse("def region():\n    pass").body[0]
        assert isinstance(made, ast.FunctionDef)
        made.name = name
        made.args.args = [ast.arg(variable) for variable in variables]
        made.body = body
        for node in (made, *made.args.args):
            ast.copy_location(node, statements[0])
        setters = [statements[-1]] if is_return else [_setter(statements, result) for result in results]
        return OutlinedRegion(
            made, list(variables), list(map(position_of, statements)), list(map(position_of, setters))
        )


# ---- parts of regions


def _is_load(n: ast.Name) -> bool:
    return isinstance(n.ctx, ast.Load)


def _names(target: ast.AST) -> list[ast.Name]:
    return [n for n in ast.walk(target) if isinstance(n, ast.Name)]


def _is_simple_target(target: ast.expr) -> bool:
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    return all(isinstance(part, ast.Name) or (part is not target and _is_simple_target(part)) for part in parts)


def _set_by(s: ast.stmt) -> list[str]:
    """The variables that a statement of a run sets."""
    targets = s.targets if isinstance(s, ast.Assign) else [s.target] if isinstance(s, ast.AnnAssign) else []
    return [name for target in targets for name in _target_names(target)]


def _target_names(target: ast.expr) -> list[str]:
    return [n.id for n in _names(target)]


def _replaced(node: Any, **fields: Any) -> Any:
    """A copy with other fields; its lists are its own."""
    made = copy.copy(node)
    for field, value in ast.iter_fields(node):
        if isinstance(value, list):
            setattr(made, field, list(value))
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def _reads(nodes: Iterable[ast.AST]) -> Counter[str]:
    """How often each variable is read, or deleted, inside of other functions too."""
    found: Counter[str] = Counter()
    for node in nodes:
        for n in ast.walk(node):
            if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store):
                found[n.id] += 1
            elif isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name):
                found[n.target.id] += 1
    return found


def _results(run: _Run, reads: Counter[str], variables: Collection[str]) -> list[str]:
    """The variables that statements set and that others read, or they themselves when they run again."""
    if isinstance(run.body[-1], ast.Return):
        return []
    own = _reads(run.body)
    found: dict[str, None] = {}
    for s in run.body:
        if not _is_clearing(s):
            found.update({name: None for name in _set_by(s) if reads[name] > own[name] or name in variables})
    return list(found)


def _setter(statements: list[ast.stmt], name: str) -> ast.stmt:
    """The last statement that sets a variable."""
    return [s for s in statements if name in _set_by(s)][-1]


def _originals(s: ast.stmt) -> ast.stmt:
    """A copy in which functions are looked up where they are called."""

    class Restore(ast.NodeTransformer):
        def visit_Name(self, n: ast.Name) -> Any:
            return _original(n) or n

    made: ast.stmt = Restore().visit(copy.deepcopy(s))
    return made


def _cleared(temporaries: list[str], where: ast.stmt) -> list[ast.stmt]:
    """So that values do not live longer than the user's own variables."""
    if not temporaries:
        return []
    made = _at(where, ast.Assign([ast.Name(name, ast.Store()) for name in temporaries], ast.Constant(None)))
    made.clears = True  # type: ignore[attr-defined] # noted here
    return [made]


def _is_clearing(s: ast.stmt) -> bool:
    return hasattr(s, "clears")


def _call_of(region: OutlinedRegion, run: _Run, number: int, results: list[str]) -> list[ast.stmt]:
    """The call of a region's cell, and beside it the statements that it is made of."""
    first = run.body[0]
    wheres = {
        n.id: n for s in reversed(run.body) for n in reversed(list(_walk([_originals(s)]))) if isinstance(n, ast.Name)
    }
    values: list[ast.expr] = [_load(name, wheres[name]) for name in region.arguments]
    call: ast.expr = ast.Call(
        ast.Attribute(ast.Name(RECORD, ast.Load()), "call_cell", ast.Load()),
        [ast.Name(f"{CELL}{number}", ast.Load()), ast.Tuple(values, ast.Load()), ast.Name(NOTHING, ast.Load())],
        [],
    )
    delayed: list[Any] = [n for s in run.body for n in _walk([s]) if _original(n) is not None]
    if delayed:
        same: list[ast.expr] = [
            _at(n, ast.Compare(_load(n.id, n), [ast.Eq() if n.is_method else ast.Is()], [copy.deepcopy(n.original)]))
            for n in delayed
        ]
        test = same[0] if len(same) == 1 else ast.BoolOp(ast.And(), same)
        call = ast.IfExp(test, call, ast.Name(DECLINED, ast.Load()))
    store = _at(first, ast.Assign([ast.Name(_RESULT, ast.Store())], call))

    def asked(sign: ast.cmpop) -> ast.expr:
        return ast.Compare(ast.Name(_RESULT, ast.Load()), [sign], [ast.Name(DECLINED, ast.Load())])

    if isinstance(run.body[-1], ast.Return):
        done = ast.If(asked(ast.IsNot()), [ast.Return(ast.Name(_RESULT, ast.Load()))], [])
        return [store, _at(run.body[-1], done), *run.body]
    targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in results]
    target = targets[0] if len(targets) == 1 else ast.Tuple(targets, ast.Store())
    clear: ast.stmt = ast.Assign([ast.Name(_RESULT, ast.Store())], ast.Constant(None))
    take: ast.stmt = ast.Assign([target], ast.Name(_RESULT, ast.Load()))
    cleared = [s for s in run.body if _is_clearing(s)]
    return [store, _at(first, ast.If(asked(ast.Is()), run.body, [take, clear, *cleared]))]


def _expand(node: ast.AST, expand: Callable[[_Run], list[ast.stmt]]) -> None:
    """Replace runs in all lists of statements below."""
    for _, value in ast.iter_fields(node):
        if isinstance(value, list):
            made: list[Any] = []
            for part in value:
                if isinstance(part, _Run):
                    made += expand(part)
                else:
                    made.append(part)
                    if isinstance(part, ast.stmt | ast.ExceptHandler | ast.match_case):
                        _expand(part, expand)
            value[:] = made
