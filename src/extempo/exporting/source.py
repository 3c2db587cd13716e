"""Control flow from source: the functions that a model runs, rewritten so that branches and loops can be traced.

The source of a function is parsed, and its `if`, `while`, `for`, `and`, `or`, `not`, conditional expressions, list
comprehensions and calls become calls of a `Control` (`source_control`), with what they do as functions of the variables
that they set. Where a decision is a plain bool these do what Python does; where it is a tensor without values they
trace both sides. Line numbers stay, so messages and nodes name the user's lines. Early returns move what follows into
the other branch; `break` and `continue` become flags.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import sys
import textwrap
import types
from collections.abc import Callable, Iterable
from typing import Any, cast

CONTROL = "__control__"
_LOOPS = (ast.For, ast.While)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_REFUSED = (ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.AsyncFor, ast.AsyncWith)


def is_users(fn: Any) -> bool:
    """Whether a function is the user's own: neither Extempo's, nor Python's, nor built in."""
    if not isinstance(fn, types.FunctionType):
        return False
    room = str(fn.__globals__.get("__name__", "")).partition(".")[0]
    demo = str(fn.__globals__.get("__name__", "")).startswith("extempo.cli")
    return demo or (room not in ("extempo", "numpy") and room not in sys.stdlib_module_names) or room == "__main__"


def converted(fn: types.FunctionType, control: Any) -> Callable[..., Any]:
    """The function with control flow that can be traced; itself where its source is not to be had."""
    code = _converted_code(fn.__code__)
    if code is None:
        return fn
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    cells[CONTROL] = types.CellType(control)
    try:
        closure = tuple(cells[name] for name in code.co_freevars)
    except KeyError:
        return fn
    made = types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, closure)
    made.__kwdefaults__ = fn.__kwdefaults__
    made.__qualname__ = fn.__qualname__
    return made


@functools.lru_cache(maxsize=1_000)
def _converted_code(code: types.CodeType) -> types.CodeType | None:
    found = _definition(code)
    if found is None:
        return None
    definition, first_line = found
    if any(isinstance(node, _REFUSED) for node in ast.walk(definition)):
        return None
    try:
        made = _Converter(definition).run()
        names = [*code.co_freevars, CONTROL]
        maker = ast.parse(f"def __maker__({', '.join(names)}):\n    pass").body[0]
        assert isinstance(maker, ast.FunctionDef)
        maker.body = [made]
        module = ast.fix_missing_locations(ast.Module([maker], []))
        ast.increment_lineno(module, first_line - 1)
        compiled = compile(module, code.co_filename, "exec")
    except (SyntaxError, RecursionError):
        return None
    return _code_named(_code_named(compiled, "__maker__"), made.name)


def _code_named(code: types.CodeType, name: str) -> types.CodeType:
    return next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name)


def _definition(code: types.CodeType) -> tuple[ast.FunctionDef, int] | None:
    """The definition of a function as a tree whose lines count from `first_line`."""
    try:
        lines, first_line = inspect.getsourcelines(code)
        tree = _parsed("".join(lines), code.co_name == "<lambda>")
    except (OSError, TypeError, SyntaxError, ValueError, IndentationError):
        return None
    if code.co_name != "<lambda>":
        found = next((n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == code.co_name), None)
        if found is None:
            return None
        found.decorator_list = []
        return found, max(first_line, 1)
    arguments = code.co_varnames[: code.co_argcount]
    fitting = [n for n in ast.walk(tree) if isinstance(n, ast.Lambda) and _names(n.args) == arguments]
    if len(fitting) != 1:
        return None
    body = ast.copy_location(ast.Return(fitting[0].body), fitting[0].body)
    made: ast.FunctionDef = ast.copy_location(_new_function("lambda_", fitting[0].args, [body]), fitting[0])
    return made, max(first_line, 1)


def _new_function(name: str, arguments: ast.arguments, body: list[ast.stmt]) -> ast.FunctionDef:
    """A definition with the fields that this version of Python has, at no line yet."""
    made = ast.parse("def f():\n    pass").body[0]
    assert isinstance(made, ast.FunctionDef)
    made.name, made.args, made.body = name, arguments, body
    for field in ("lineno", "end_lineno", "col_offset", "end_col_offset"):
        delattr(made, field)
    return made


def _names(arguments: ast.arguments) -> tuple[str, ...]:
    return tuple(a.arg for a in (*arguments.posonlyargs, *arguments.args))


def _parsed(text: str, is_lambda: bool) -> ast.Module:
    text = textwrap.dedent(text)
    if not is_lambda:
        return ast.parse(text)
    for end in range(len(text), 0, -1):  # the line that a lambda stands in may be the beginning of a longer statement
        for start in (0, text.find("lambda")):
            try:
                return ast.parse(text[start:end].strip() if start else text[:end])
            except SyntaxError:
                continue
    raise SyntaxError("no lambda")


# ---- what statements do


def _walk(nodes: Iterable[ast.AST]) -> Iterable[ast.AST]:
    """All nodes below, but not those inside of other functions and classes."""
    for node in nodes:
        yield node
        if not isinstance(node, _SCOPES):
            yield from _walk(ast.iter_child_nodes(node))


def _assigned(nodes: Iterable[ast.AST]) -> list[str]:
    """The variables that statements set, write into, or append to."""
    found: dict[str, None] = {}
    for node in _walk(nodes):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = None
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = None
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            found[node.value.id] = None
        elif _appended(node):
            found[_appended(node)] = None
    return list(found)


def _appended(node: ast.AST) -> str:
    """The list that `name.append(...)` is about."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "append"
        and isinstance(node.func.value, ast.Name)
    ):
        return node.func.value.id
    return ""


def _attributes(nodes: Iterable[ast.AST]) -> str:
    """An attribute that statements set, as text."""
    for node in _walk(nodes):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            return ast.unparse(node)
    return ""


def _has(nodes: Iterable[ast.AST], *kinds: type[ast.AST]) -> bool:
    return any(isinstance(node, kinds) for node in _walk(nodes))


def _jumps(nodes: list[ast.stmt], *kinds: type[ast.AST]) -> bool:
    """Whether statements leave the loop that they stand in, by these."""
    for node in nodes:
        if isinstance(node, kinds):
            return True
        if isinstance(node, (*_SCOPES, *_LOOPS)):
            inside = [k for k in kinds if k is ast.Return]
            if inside and not isinstance(node, _SCOPES) and _has([node], *inside):
                return True
            continue
        parts = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
        if any(_jumps(part, *kinds) for part in parts if isinstance(part, list)):
            return True
    return False


def _ends(body: list[ast.stmt]) -> bool:
    """Whether control never comes past these statements."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.Return | ast.Raise):
        return True
    return isinstance(last, ast.If) and _ends(last.body) and _ends(last.orelse)


# ---- rewriting


class _Converter(ast.NodeTransformer):
    """Rewrites one function."""

    def __init__(self, definition: ast.FunctionDef) -> None:
        self._definition = definition
        self._first = (_names(definition.args) or ("",))[0]
        self._n = 0

    def run(self) -> ast.FunctionDef:
        made = self._definition
        made.body = self._loops_flagged(made.body)
        made.body = self._single_exit(made.body)
        made.body = self._statements(made.body)
        return made

    def _number(self) -> int:
        self._n += 1
        return self._n

    # -- early returns: what follows an `if` that may return goes into its branches

    def _single_exit(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for i, statement in enumerate(body):
            if isinstance(statement, ast.If) and _has([statement], ast.Return):
                rest = body[i + 1 :]
                branches = []
                for branch in (statement.body, statement.orelse):
                    own = list(branch) if _ends(branch) else [*branch, *copy.deepcopy(rest)]
                    own = self._single_exit(own)
                    if not _ends(own):
                        own.append(ast.copy_location(ast.Return(ast.Constant(None)), statement))
                    branches.append(own)
                made = ast.If(statement.test, branches[0], branches[1])
                return [*out, ast.copy_location(made, statement)]
            out.append(statement)
        return out

    # -- break, continue and return inside loops

    def _loops_flagged(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for statement in body:
            for name in ("body", "orelse", "finalbody"):
                part = getattr(statement, name, None)
                if isinstance(part, list) and not isinstance(statement, _SCOPES):
                    setattr(statement, name, self._loops_flagged(part))
            if isinstance(statement, _LOOPS) and _jumps(statement.body, ast.Break, ast.Continue, ast.Return):
                out += self._flagged(statement)
            else:
                out.append(statement)
        return out

    def _flagged(self, loop: ast.For | ast.While) -> list[ast.stmt]:
        number = self._number()
        stop, skip, value = f"__stop_{number}", f"__skip_{number}", f"__value_{number}"
        returns = _has(loop.body, ast.Return)
        body = self._without_jumps(loop.body, stop, skip, value)
        after: list[ast.stmt] = []
        before = [_at(loop, ast.Assign([_store(stop)], ast.Constant(0)))]
        body = [_at(loop, ast.Assign([_store(skip)], ast.Constant(False))), *body]
        going = _at(loop, ast.Compare(_load(stop), [ast.Eq()], [ast.Constant(0)]))
        if isinstance(loop, ast.While):
            loop.test = _at(loop, ast.BoolOp(ast.And(), [going, loop.test]))
            loop.body = body
        else:
            loop.body = [_at(loop, ast.If(going, body, []))]
        if returns:
            done = ast.Compare(_load(stop), [ast.Eq()], [ast.Constant(2)])
            after = [_at(loop, ast.If(done, [_at(loop, ast.Return(_load(value)))], []))]
        return [*before, loop, *after]

    def _without_jumps(self, body: list[ast.stmt], stop: str, skip: str, value: str) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for i, statement in enumerate(body):
            if isinstance(statement, ast.Break | ast.Continue | ast.Return):
                if isinstance(statement, ast.Return):
                    out.append(_at(statement, ast.Assign([_store(value)], statement.value or ast.Constant(None))))
                if not isinstance(statement, ast.Continue):
                    kind = 2 if isinstance(statement, ast.Return) else 1
                    out.append(_at(statement, ast.Assign([_store(stop)], ast.Constant(kind))))
                out.append(_at(statement, ast.Assign([_store(skip)], ast.Constant(True))))
                return out
            jumps = isinstance(statement, ast.If) and _jumps([statement], ast.Break, ast.Continue, ast.Return)
            if jumps and isinstance(statement, ast.If):
                rest = body[i + 1 :]
                branches = []
                for branch in (statement.body, statement.orelse):
                    leaves = bool(branch) and isinstance(branch[-1], ast.Break | ast.Continue | ast.Return)
                    own = list(branch) if leaves else [*branch, *copy.deepcopy(rest)]
                    branches.append(self._without_jumps(own, stop, skip, value) or [_at(statement, ast.Pass())])
                out.append(_at(statement, ast.If(statement.test, branches[0], branches[1])))
                return out
            out.append(statement)
        return out

    # -- statements

    def _statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for statement in body:
            made = self.visit(statement)
            out += made if isinstance(made, list) else [made]
        return out

    def _function(self, name: str, arguments: list[str], body: list[ast.stmt], at: ast.AST) -> ast.stmt:
        spec = ast.arguments([], [ast.arg(a) for a in arguments], None, [], [], None, [])
        return cast(ast.stmt, _at(at, _new_function(name, spec, body or [_at(at, ast.Pass())])))

    def _values(self, names: list[str], at: ast.AST) -> ast.expr:
        """The values of variables, some of which may not be set yet."""
        none = ast.arguments([], [], None, [], [], None, [])
        return _at(at, ast.Tuple([_call("maybe", [ast.Lambda(none, _load(n))], at) for n in names], ast.Load()))

    def _setting(self, names: list[str], call: ast.expr, at: ast.AST) -> ast.stmt:
        if not names:
            return _at(at, ast.Expr(call))
        return _at(at, ast.Assign([ast.Tuple([_store(n) for n in names], ast.Store())], call))

    def _giving(self, names: list[str], at: ast.AST) -> ast.stmt:
        return _at(at, ast.Return(self._values(names, at)))

    def visit_If(self, node: ast.If) -> Any:
        number = self._number()
        yes, no = f"__if_{number}", f"__else_{number}"
        test = self.visit(node.test)
        body, orelse = self._statements(copy.deepcopy(node.body)), self._statements(copy.deepcopy(node.orelse))
        if _has(node.body, ast.Return) and _ends(node.body) and _ends(node.orelse):
            names = _assigned([*node.body, *node.orelse])
            functions = [self._function(yes, names, body, node), self._function(no, names, orelse, node)]
            call = _call("if_return", [test, _load(yes), _load(no), self._values(names, node)], node)
            return [*functions, _at(node, ast.Return(call))]
        if _has([*node.body, *node.orelse], ast.Return, ast.Break, ast.Continue):
            return self.generic_visit(node)
        names = _assigned([*node.body, *node.orelse])
        functions = [
            self._function(yes, names, [*body, self._giving(names, node)], node),
            self._function(no, names, [*orelse, self._giving(names, node)], node),
        ]
        sets = ast.Constant(_attributes([*node.body, *node.orelse]))
        spelled = _at(node, ast.Tuple([ast.Constant(n) for n in names], ast.Load()))
        call = _call("if_", [test, _load(yes), _load(no), spelled, self._values(names, node), sets], node)
        return [*functions, self._setting(names, call, node)]

    def visit_While(self, node: ast.While) -> Any:
        if node.orelse or _jumps(node.body, ast.Break, ast.Continue, ast.Return):
            return self.generic_visit(node)
        number = self._number()
        test, step = f"__test_{number}", f"__step_{number}"
        names = _assigned([node.test, *node.body])
        functions = [
            self._function(test, names, [_at(node, ast.Return(self.visit(copy.deepcopy(node.test))))], node),
            self._function(step, names, [*self._statements(node.body), self._giving(names, node)], node),
        ]
        spelled = _at(node, ast.Tuple([ast.Constant(n) for n in names], ast.Load()))
        sets = ast.Constant(_attributes(node.body))
        call = _call("while_", [_load(test), _load(step), spelled, self._values(names, node), sets], node)
        return [*functions, self._setting(names, call, node)]

    def visit_For(self, node: ast.For) -> Any:
        if node.orelse or _jumps(node.body, ast.Break, ast.Continue, ast.Return):
            return self.generic_visit(node)
        number = self._number()
        step, item = f"__step_{number}", f"__item_{number}"
        names = _assigned([node.target, *node.body])
        appended = sorted({_appended(n) for n in _walk(node.body)} - {""})
        sets = ast.Constant(_attributes(node.body))
        target = _at(node, ast.Assign([node.target], _load(item)))
        body = [target, *self._statements(node.body), self._giving(names, node)]
        function = self._function(step, [item, *names], body, node)
        spelled = _at(node, ast.Tuple([ast.Constant(n) for n in names], ast.Load()))
        lists = _at(node, ast.Tuple([ast.Constant(n) for n in appended], ast.Load()))
        arguments = [self.visit(node.iter), _load(step), spelled, self._values(names, node), lists, sets]
        return [function, self._setting(names, _call("for_", arguments, node), node)]

    # -- expressions

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        inner = _Converter(node)
        inner._n = self._n = self._n + 1000
        return inner.run()

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        node.body = self.visit(node.body)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        self.generic_visit(node)
        return _call("if_expression", [node.test, _thunk(node.body), _thunk(node.orelse)], node)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        self.generic_visit(node)
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        return _call(name, [_thunk(v) for v in node.values], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        return _call("not_", [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        lefts = [node.left, *node.comparators]
        pairs = [
            _at(node, ast.Compare(copy.deepcopy(a), [op], [copy.deepcopy(b)]))
            for a, op, b in zip(lefts, node.ops, node.comparators, strict=False)
        ]
        return _call("and_", [_thunk(p) for p in pairs], node)

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        self.generic_visit(node)
        (first, *others) = node.generators
        if others or first.ifs or first.is_async or not isinstance(first.target, ast.Name):
            return node
        spec = ast.arguments([], [ast.arg(first.target.id)], None, [], [], None, [])
        return _call("list_of", [_at(node, ast.Lambda(spec, node.elt)), first.iter], node)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            return _at(node, ast.Call(node.func, [_load("__class__"), _load(self._first)], []))
        if isinstance(node.func, ast.Name) and node.func.id in ("locals", "vars", "super", "globals"):
            return node
        if (
            isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == CONTROL
        ):
            return node
        function = _at(node, ast.Attribute(_load(CONTROL), "call", ast.Load()))
        return _at(node, ast.Call(function, [node.func, *node.args], node.keywords))


def _at(place: ast.AST, made: Any) -> Any:
    """A new node, and what is new below it, at the line of another one."""
    for node in ast.walk(made):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            ast.copy_location(node, place)
            own = vars(node)  # a call of a method has the line where the method's name ends
            own.update(end_lineno=own["lineno"], end_col_offset=own["col_offset"])
    return made


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _store(name: str) -> ast.expr:
    return ast.Name(name, ast.Store())


def _thunk(value: ast.expr) -> ast.expr:
    return _at(value, ast.Lambda(ast.arguments([], [], None, [], [], None, []), value))


def _call(name: str, arguments: list[ast.expr], at: ast.AST) -> Any:
    return _at(at, ast.Call(ast.Attribute(_load(CONTROL), name, ast.Load()), arguments, []))
