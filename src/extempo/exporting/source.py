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
import linecache
import sys
import textwrap
import types
from collections.abc import Callable, Iterable
from typing import Any, cast

CONTROL = "__control__"
_LOOPS = (ast.For, ast.While)
_AROUND = (ast.With, ast.Try, ast.Match)  # statements with others inside that run once, or not at all
_JUMPS = (ast.Break, ast.Continue, ast.Return)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_CHANGING = frozenset(
    (
        "append",
        "extend",
        "insert",
        "pop",
        "remove",
        "clear",
        "update",
        "setdefault",
        "add",
        "discard",
        "reverse",
        "sort",
    )
)
_GATHERING = frozenset(("sum", "any", "all", "min", "max", "list", "tuple"))  # they take all of what a generator gives
_REFUSED: dict[type[ast.AST], str] = {
    ast.Yield: "yield", ast.YieldFrom: "yield from", ast.Await: "await", ast.Global: "global", ast.Nonlocal: "nonlocal",
    ast.AsyncFor: "async for", ast.AsyncWith: "async with",
}  # fmt: skip


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
    if isinstance(code, str):
        return fn
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    cells[CONTROL] = types.CellType(control)
    closure = tuple(cells[name] for name in code.co_freevars)
    made = types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, closure)
    made.__kwdefaults__ = fn.__kwdefaults__
    made.__qualname__ = fn.__qualname__
    return made


def why_not_converted(code: types.CodeType) -> str:
    """Why the control flow of a user's function is not kept; "" if it is."""
    found = _converted_code(code) if code.co_name not in ("<module>", "<listcomp>", "<genexpr>") else ""
    if isinstance(found, str) and found and not any(CONTROL in c for c in (code.co_freevars, code.co_cellvars)):
        return f" (the branches and loops of {code.co_name} are not kept: {found})"
    return ""


@functools.lru_cache(maxsize=1_000)
def _converted_code(code: types.CodeType) -> types.CodeType | str:
    """The code of the rewritten function, or the reason why there is none."""
    found = definition_of(code)
    if found is None:
        return "its source cannot be found"
    definition, first_line = found
    for node in ast.walk(definition):
        if type(node) in _REFUSED:
            line = getattr(node, "lineno", 1) + first_line - 1
            return f"it has `{_REFUSED[type(node)]}` in line {line}"
    try:
        made = _Converter(definition).run()
        name, made.name = made.name, "__function__"  # its own name is free for the function that calls itself
        names = [*code.co_freevars, CONTROL]
        maker = ast.parse(f"def __maker__({', '.join(names)}):\n    pass").body[0]
        assert isinstance(maker, ast.FunctionDef)
        maker.body = [made]
        module = ast.fix_missing_locations(ast.Module([maker], []))
        ast.increment_lineno(module, first_line - 1)
        compiled = compile(module, code.co_filename, "exec")
    except (SyntaxError, RecursionError) as error:
        return f"they cannot be rewritten ({error})"
    inner = code_named(code_named(compiled, "__maker__"), "__function__").replace(co_name=name)
    unknown = set(inner.co_freevars) - set(names)
    return f"it reads {sorted(unknown)[0]} from around it in an unusual way" if unknown else inner


def code_named(code: types.CodeType, name: str) -> types.CodeType:
    return next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name)


def definition_of(code: types.CodeType) -> tuple[ast.FunctionDef, int] | None:
    """The definition of a function as a tree whose lines count from `first_line`."""
    try:
        if code.co_name == "<lambda>":
            return _lambda_as_function(code)
        tree, first_line, indent = _tree_by_indent(code) or _tree_by_tokens(code)
    except (OSError, TypeError, SyntaxError, ValueError, IndentationError):
        return None
    found = next((n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == code.co_name), None)
    if found is None:
        return None
    found.decorator_list = []
    _shift(found, indent)
    return found, max(first_line, 1)


def _lambda_as_function(code: types.CodeType) -> tuple[ast.FunctionDef, int] | None:
    """A lambda as a definition: the smallest one that has all the places that its instructions come from."""
    linecache.checkcache(code.co_filename)
    tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    places = [p for p in code.co_positions() if None not in p and p[2] != p[3]]  # the first is where a function begins
    fitting = [n for n in ast.walk(tree) if isinstance(n, ast.Lambda) and places and _has_places(n.body, places)]
    if not fitting:
        return None
    found = fitting[-1]  # `walk` goes from the outside inwards
    body = ast.copy_location(ast.Return(found.body), found.body)
    return ast.copy_location(_new_function("lambda_", found.args, [body]), found), 1


def _has_places(body: ast.expr, places: list[Any]) -> bool:
    first, last = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
    return all(first <= (line, column) and (end, end_column) <= last for line, end, column, end_column in places)


def _tree_by_indent(code: types.CodeType) -> tuple[ast.Module, int, int] | None:
    """The lines from `def` to the next one that is not further in, parsed, the first of them, and how far in it stands.

    None where that is not the whole of it.

    It takes a hundredth of what `inspect` takes, which resolves the paths of all modules.
    """
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :]
    start = next((i for i, line in enumerate(lines) if not line.lstrip().startswith("@")), 0)
    if not lines or not lines[start].lstrip().startswith("def "):
        return None
    depth = _indent(lines[start])
    rest = enumerate(lines[start + 1 :], start + 1)
    end = next((i for i, line in rest if line.strip() and _indent(line) <= depth), len(lines))
    try:
        return ast.parse(textwrap.dedent("".join(lines[:end]))), code.co_firstlineno, _indent(lines[0])
    except SyntaxError:  # a string or a bracket goes on further out
        return None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _tree_by_tokens(code: types.CodeType) -> tuple[ast.Module, int, int]:
    lines, first_line = inspect.getsourcelines(code)
    return ast.parse(textwrap.dedent("".join(lines))), first_line, _indent(lines[0])


def _shift(definition: ast.FunctionDef, n: int) -> None:
    """Count columns from the beginning of the file's lines, so that tracebacks underline what they mean."""
    for node in ast.walk(definition):
        if isinstance(node, ast.expr | ast.stmt):
            node.col_offset += n
            node.end_col_offset = (node.end_col_offset or 0) + n


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


# ---- what statements do


def _walk(nodes: Iterable[ast.AST]) -> Iterable[ast.AST]:
    """All nodes below, but not those inside of other functions and classes."""
    for node in nodes:
        yield node
        if not isinstance(node, _SCOPES):
            yield from _walk(ast.iter_child_nodes(node))


def _assigned(nodes: Iterable[ast.AST]) -> list[str]:
    """The variables that statements set, write into, or change by a method."""
    found: dict[str, None] = {}
    for node in _walk(nodes):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = None
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = None
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            found[node.value.id] = None
        elif isinstance(_changed_by_method(node), ast.Name):
            found[_changed_by_method(node).id] = None
    return list(found)


def _changed_by_method(node: ast.AST) -> Any:
    """What `owner.append(...)`, `owner.add_(...)` and their like are about; None if it is no such call."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    name = node.func.attr
    changes = name in _CHANGING or (name.endswith("_") and not name.endswith("__") and not name.startswith("_"))
    return node.func.value if changes else None


def _grown(nodes: Iterable[ast.AST]) -> list[str]:
    """The lists that statements append to, by `append`, `extend` or `+=`."""
    found: set[str] = set()
    for node in _walk(nodes):
        owner = _changed_by_method(node)
        if isinstance(owner, ast.Name) and isinstance(node, ast.Call) and node.func.attr in ("append", "extend"):  # type: ignore[attr-defined] # of an attribute
            found.add(owner.id)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and isinstance(node.value, ast.List):
            found.add(node.target.id)
    return sorted(found)


def _attributes(nodes: Iterable[ast.AST]) -> str:
    """An attribute that statements set, or whose list or dict they change, as text."""
    own: ast.AST | None = None
    for node in _walk(nodes):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):  # it may write in place
            own = node.target
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node is not own:
            return ast.unparse(node)
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Attribute)
        ):
            return ast.unparse(node.value)
        owner = _changed_by_method(node)
        if isinstance(owner, ast.Attribute) and isinstance(node, ast.Call) and node.func.attr in _CHANGING:  # type: ignore[attr-defined] # of an attribute
            return ast.unparse(owner)
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
        if any(_jumps(part, *kinds) for part in _blocks(node)):
            return True
    return False


def _blocks(statement: ast.AST) -> list[list[ast.stmt]]:
    """The lists of statements inside one."""
    found = [getattr(statement, name, None) for name in ("body", "orelse", "finalbody")]
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        found.append(part.body)
    return [block for block in found if isinstance(block, list)]


def _with_blocks(statement: ast.AST, change: Callable[[list[ast.stmt]], list[ast.stmt]]) -> None:
    """Change all lists of statements inside one."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if isinstance(block, list) and block:
            setattr(statement, name, change(block))
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        part.body = change(part.body)


def _ends(body: list[ast.stmt]) -> bool:
    """Whether control never comes past these statements."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.Return | ast.Raise):
        return True
    return isinstance(last, ast.If) and _ends(last.body) and _ends(last.orelse)


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether the last of these statements leaves a loop."""
    return bool(body) and isinstance(body[-1], _JUMPS)


def _falls_through(statement: ast.stmt, rest: list[ast.stmt], *jumps: type[ast.AST]) -> bool:
    """Whether both branches of an `if` may come to what follows, and that may jump, too: it would double each time."""
    if not isinstance(statement, ast.If) or _ends(statement.body) or _ends(statement.orelse):
        return False
    if _leaves(statement.body) or _leaves(statement.orelse):
        return False
    return any(isinstance(s, (ast.If, *_AROUND)) and _has([s], *jumps) for s in rest)


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
            around = isinstance(statement, _AROUND) or _falls_through(statement, body[i + 1 :], ast.Return)
            if around and _has([statement], ast.Return):
                return [*out, *self._single_exit([*self._returns_flagged(statement), *body[i + 1 :]])]
            if isinstance(statement, ast.If) and _has([statement], ast.Return):
                return [*out, self._with_rest(statement, body[i + 1 :], _ends, self._ending)]
            out.append(statement)
        return out

    def _ending(self, body: list[ast.stmt]) -> list[ast.stmt]:
        made = self._single_exit(body)
        return made if _ends(made) else [*made, ast.Return(ast.Constant(None))]

    def _with_rest(
        self,
        statement: ast.If,
        rest: list[ast.stmt],
        leaves: Callable[[list[ast.stmt]], bool],
        change: Callable[[list[ast.stmt]], list[ast.stmt]],
    ) -> ast.stmt:
        """An `if` with what follows it in those of its branches that come there."""
        branches = []
        for branch in (statement.body, statement.orelse):
            own = list(branch) if leaves(branch) else [*branch, *copy.deepcopy(rest)]
            branches.append(change(own) or [ast.Pass()])
        return cast(ast.stmt, _at(statement, ast.If(statement.test, branches[0], branches[1])))

    def _returns_flagged(self, statement: ast.stmt) -> list[ast.stmt]:
        """A `with`, `try` or `match` that returns: it sets a flag, and the return stands after it."""
        stop, skip, value = self._flags()
        _with_blocks(statement, lambda block: self._without_jumps(block, stop, skip, value))
        return [_set(statement, stop, 0), _set(statement, skip, False), statement, _return_if(statement, stop, value)]

    def _flags(self) -> tuple[str, str, str]:
        """Variables that tell how a block was left, whether it was, and what it returned."""
        number = self._number()
        return f"__stop_{number}", f"__skip_{number}", f"__value_{number}"

    # -- break, continue and return inside loops

    def _loops_flagged(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for statement in body:
            if not isinstance(statement, _SCOPES):
                _with_blocks(statement, self._loops_flagged)
            if isinstance(statement, _LOOPS) and _jumps(statement.body, ast.Break, ast.Continue, ast.Return):
                out += self._flagged(statement)
            elif isinstance(statement, _LOOPS) and statement.orelse:  # without a `break` it always comes to its `else`
                out += [statement, *statement.orelse]
                statement.orelse = []
            else:
                out.append(statement)
        return out

    def _flagged(self, loop: ast.For | ast.While) -> list[ast.stmt]:
        stop, skip, value = self._flags()
        after = [_return_if(loop, stop, value)] if _has(loop.body, ast.Return) else []
        body = [_set(loop, skip, False), *self._without_jumps(loop.body, stop, skip, value)]
        going = _is(loop, stop, 0)
        if isinstance(loop, ast.While):
            loop.test = _at(loop, ast.BoolOp(ast.And(), [going, loop.test]))
            loop.body = body
        else:
            loop.body = [_at(loop, ast.If(going, body, []))]
        if loop.orelse:
            after.append(_at(loop, ast.If(_is(loop, stop, 0), loop.orelse, [])))
            loop.orelse = []
        return [_set(loop, stop, 0), loop, *after]

    def _without_jumps(self, body: list[ast.stmt], stop: str, skip: str, value: str) -> list[ast.stmt]:
        """Statements that set flags where they left a loop, and run nothing after that."""
        without = functools.partial(self._without_jumps, stop=stop, skip=skip, value=value)
        out: list[ast.stmt] = []
        for i, statement in enumerate(body):
            if isinstance(statement, _JUMPS):
                if isinstance(statement, ast.Return):
                    out.append(_at(statement, ast.Assign([_store(value)], statement.value or ast.Constant(None))))
                if not isinstance(statement, ast.Continue):
                    out.append(_set(statement, stop, 2 if isinstance(statement, ast.Return) else 1))
                return [*out, _set(statement, skip, True)]
            rest = body[i + 1 :]
            if not isinstance(statement, (ast.If, *_AROUND)) or not _jumps([statement], *_JUMPS):
                out.append(statement)
            elif isinstance(statement, ast.If) and not _falls_through(statement, rest, *_JUMPS):
                return [*out, self._with_rest(statement, rest, _leaves, without)]
            else:
                _with_blocks(statement, without)
                going = _at(statement, ast.UnaryOp(ast.Not(), _load(skip)))
                return [*out, statement, *([_at(statement, ast.If(going, without(rest), []))] if rest else [])]
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
        if len(node.body) == 1 and isinstance(node.body[0], ast.Raise) and not node.orelse:
            return self._raising(node)
        number = self._number()
        yes, no = f"__if_{number}", f"__else_{number}"
        test = self._test(node.test)
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
        spelled = _texts(names, node)
        call = _call("if_", [test, _load(yes), _load(no), spelled, self._values(names, node), sets], node)
        return [*functions, self._setting(names, call, node)]

    def _raising(self, node: ast.If) -> list[ast.stmt]:
        """`if test: raise error`, a condition that the program keeps."""
        name = f"__raise_{self._number()}"
        raised = ast.unparse(node.body[0]).removeprefix("raise ")
        function = self._function(name, [], [self.generic_visit(node.body[0])], node)  # type: ignore[list-item] # a statement
        call = _call("raise_if", [self._test(node.test), _load(name), ast.Constant(raised)], node)
        return [function, _at(node, ast.Expr(call))]

    def visit_Assert(self, node: ast.Assert) -> Any:
        told = ast.unparse(node.msg or node.test)
        message = ast.Constant(told) if node.msg is None else self.visit(node.msg)
        call = _call("assert_", [self._test(node.test), _thunk(_at(node, message)), ast.Constant(told)], node)
        return _at(node, ast.Expr(call))

    def _test(self, node: ast.expr) -> Any:
        """An expression of which only the truth matters."""
        if isinstance(node, ast.BoolOp):
            name = "and_" if isinstance(node.op, ast.And) else "or_"
            return _call(name, [_thunk(self._test(v)) for v in node.values], node)
        return self.visit(node)

    def visit_While(self, node: ast.While) -> Any:
        if node.orelse or _jumps(node.body, ast.Break, ast.Continue, ast.Return):
            return self.generic_visit(node)
        number = self._number()
        test, step = f"__test_{number}", f"__step_{number}"
        names = _assigned([node.test, *node.body])
        functions = [
            self._function(test, names, [_at(node, ast.Return(self._test(copy.deepcopy(node.test))))], node),
            self._function(step, names, [*self._statements(node.body), self._giving(names, node)], node),
        ]
        spelled = _texts(names, node)
        sets = ast.Constant(_attributes(node.body))
        call = _call("while_", [_load(test), _load(step), spelled, self._values(names, node), sets], node)
        return [*functions, self._setting(names, call, node)]

    def visit_For(self, node: ast.For) -> Any:
        if node.orelse or _jumps(node.body, ast.Break, ast.Continue, ast.Return):
            return self.generic_visit(node)
        number = self._number()
        step, item = f"__step_{number}", f"__item_{number}"
        names, appended = _assigned([node.target, *node.body]), _grown(node.body)
        sets = ast.Constant(_attributes(node.body))
        target = _at(node, ast.Assign([node.target], _load(item)))
        body = [target, *self._statements(node.body), self._giving(names, node)]
        function = self._function(step, [item, *names], body, node)
        spelled = _texts(names, node)
        lists = _texts(appended, node)
        arguments = [self.visit(node.iter), _load(step), spelled, self._values(names, node), lists, sets]
        return [function, self._setting(names, _call("for_", arguments, node), node)]

    # -- expressions

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Attribute):
            return node
        name, sign = ast.Constant(node.target.attr), ast.Constant(type(node.op).__name__)
        return _at(node, ast.Expr(_call("augment", [node.target.value, name, sign, node.value], node)))

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
        branches = [_thunk(self.visit(node.body)), _thunk(self.visit(node.orelse))]
        return _call("if_expression", [self._test(node.test), *branches], node)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        self.generic_visit(node)
        name = "and_value" if isinstance(node.op, ast.And) else "or_value"
        return _call(name, [_thunk(v) for v in node.values], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            return _call("not_", [self._test(node.operand)], node)
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load) or not isinstance(node.slice, ast.Name | ast.Call | ast.Attribute):
            return node
        return _call("subscript", [node.value, node.slice], node)

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
        return self._list_of(node)

    def _list_of(self, node: ast.ListComp | ast.GeneratorExp) -> Any:
        """A comprehension over one thing, whose parts are visited, as a call; conditions are those of Python alone."""
        (first, *others) = node.generators
        if others or first.is_async or any(isinstance(n, ast.NamedExpr) for n in ast.walk(node)):
            return node
        if first.ifs:
            first.ifs = [_call("filtered", [test], node) for test in first.ifs]
            return node
        item = f"__item_{self._number()}"
        spec = ast.arguments([], [ast.arg(item)], None, [], [], None, [])
        one = ast.comprehension(first.target, ast.Tuple([_load(item)], ast.Load()), [], 0)
        unpacked = ast.Subscript(ast.ListComp(node.elt, [one]), ast.Constant(0), ast.Load())
        return _call("list_of", [_at(node, ast.Lambda(spec, unpacked)), first.iter], node)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        gathers = isinstance(node.func, ast.Name) and node.func.id in _GATHERING and len(node.args) == 1
        if gathers and isinstance(node.args[0], ast.GeneratorExp):
            node.args[0] = self._list_of(node.args[0])
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


def _set(at: ast.AST, name: str, value: Any) -> ast.stmt:
    return cast(ast.stmt, _at(at, ast.Assign([_store(name)], ast.Constant(value))))


def _is(at: ast.AST, name: str, value: Any) -> ast.expr:
    return cast(ast.expr, _at(at, ast.Compare(_load(name), [ast.Eq()], [ast.Constant(value)])))


def _return_if(at: ast.AST, stop: str, value: str) -> ast.stmt:
    """Return what a block did, if it did."""
    return cast(ast.stmt, _at(at, ast.If(_is(at, stop, 2), [ast.Return(_load(value))], [])))


def _texts(texts: list[str], at: ast.AST) -> ast.expr:
    return cast(ast.expr, _at(at, ast.Tuple([ast.Constant(t) for t in texts], ast.Load())))


def _thunk(value: ast.expr) -> ast.expr:
    return _at(value, ast.Lambda(ast.arguments([], [], None, [], [], None, []), value))


def _call(name: str, arguments: list[ast.expr], at: ast.AST) -> Any:
    return _at(at, ast.Call(ast.Attribute(_load(CONTROL), name, ast.Load()), arguments, []))
