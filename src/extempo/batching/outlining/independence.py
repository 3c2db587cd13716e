"""Which calls that a function makes of itself are independent of what follows them, so that both may go on at once.

A decoder that grows a tree from the top asks after each child whether there is another one, and meanwhile calls itself
for that child. If all it does is to compute, to ask for values and to append to lists that it never reads, nothing that
comes after such a call can tell whether the call has ended: the call may be a *fork* (`forks`), and one wave answers
what all branches of a sample ask. That is proven here from the source, for functions made of assignments to variables,
branches and loops; whatever is not known to be harmless (a draw, a write, a function of unknown code) is refused.
"""

from __future__ import annotations

import ast
import copy
import weakref
from types import FunctionType, MethodType
from typing import Any

from ...core.tensor import Tensor
from ...core.types import Size, dtype
from ...exporting.source import definition_of
from ...nn.module import Module
from ...nn.parameter import Parameter
from ..cell_twins import CellOfFunction
from ..pure_calls import is_layer_code, is_pure_function
from ..read_guards import MISSING
from .callees import FORK, Callees, Role, role_of

_DEEPEST = 3  # functions of the user's that call one another inside of one that forks
_NUMBERS = (int, float, bool, str, type(None))
_TENSORS = (Tensor, Parameter)
_CONSTANTS = (*_NUMBERS, *_TENSORS, dtype, Size)
_DRAWS = ("rand", "dropout", "bernoulli", "multinomial", "normal", "poisson", "gumbel", "exponential", "fractional")
_WRITES = frozenset(("out", "inplace", "generator"))  # arguments of ops that do more than compute
_READING = frozenset(("item", "tolist"))  # methods that ask for values
_LOOKING = frozenset(("get", "keys", "values", "items", "size", "dim", "numel"))
_TENSOR_ATTRIBUTES = frozenset(("shape", "dtype", "device", "ndim", "T", "mT"))
_CONVERSIONS = (float, int, bool)
_PARTS = (
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List, ast.Subscript, ast.Slice),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context, ast.Constant),
)
_BLOCKS = (ast.If, ast.For, ast.While)


class _Refused(Exception):
    """Something that is not known to be harmless."""


def is_plain(x: Any) -> bool:
    """Whether looking at a value, and at what is in it, runs no code of the user's and changes nothing."""
    kind = type(x)
    if kind is list or kind is tuple:
        return all(map(is_plain, x))
    if kind is dict:
        return all(map(is_plain, x)) and all(map(is_plain, x.values()))
    return kind in _CONSTANTS


def forking(definition: ast.FunctionDef, fn: FunctionType, owner: Any) -> Forking | None:
    """What is known of a function whose calls of itself are forks; None if they are not, or nothing is gained."""
    checked = Forking(definition, fn, owner)
    try:
        checked.check()
    except (_Refused, RecursionError):
        return None
    checked.forget()
    return checked if checked.forks and checked.asks else None


class Forking:
    """The proof for one function, which holds while the names in it refer to what they did."""

    def __init__(self, definition: ast.FunctionDef, fn: FunctionType, owner: Any, depth: int = 0) -> None:
        self._definition = definition
        self._fn = fn
        self._owner = owner
        self._depth = depth
        self._callees = Callees(fn, owner)
        self.is_method = owner is not None
        self._met: list[tuple[ast.expr, Any]] = []  # names, and what they referred to
        self._helpers: list[
            tuple[Any, Any, Forking]
        ] = []  # weak references to a function and its object, and its proof
        self._tensors: set[str] = set()  # variables that ops have set
        self._own_lists = _own_lists(definition) - self._callees.parameters
        self.forks: set[int] = set()  # by id: statements that are a call of the function itself
        self.grown: set[str] = set()  # variables with lists that are appended to, and nothing else
        self.asks = False  # whether it asks for values

    def check(self) -> None:
        arguments = self._definition.args
        if arguments.vararg or arguments.kwarg or arguments.posonlyargs:
            raise _Refused
        self.grown = {name for name in map(_grown_by, ast.walk(self._definition)) if name} - self._own_lists
        if self.grown & _assigned(self._definition) or (self._depth and self.grown):
            raise _Refused
        self._block(self._definition.body)

    def holds(self, fn: Any, owner: Any) -> bool:
        """Whether the proof is good for a function of the same code: names refer to what they did."""
        callees = Callees(fn, owner)
        if not all(callees.value_of(node) is value for node, value in self._met):
            return False
        for function, of, helper in self._helpers:
            fn, owner = function(), of and of()
            if fn is None or (of and owner is None) or not helper.holds(fn, owner):
                return False
        return True

    def forget(self) -> None:
        """What was needed for the proof goes: the object whose method it is lives no longer for it."""
        del self._fn, self._owner, self._callees

    # ---- statements

    def _block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, s: ast.stmt) -> None:
        if isinstance(s, ast.Expr):
            self._effect(s)
        elif isinstance(s, ast.Assign) and all(isinstance(n, ast.Name | ast.Tuple) for n in s.targets):
            self._assignment(s.targets, s.value)
        elif isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name) and s.value is not None:
            self._assignment([s.target], s.value)
        elif isinstance(s, ast.Return):
            if s.value is not None and not self._depth:
                raise _Refused
            if s.value is not None:
                self._expression(s.value)
        elif isinstance(s, _BLOCKS):
            if isinstance(s, ast.For):
                self._target(s.target)
                self._expression(s.iter)
            else:
                self._expression(s.test)
                self.asks |= self._is_tensor(s.test)
            self._block(s.body)
            self._block(s.orelse)
        elif not isinstance(s, ast.Pass | ast.Break | ast.Continue):
            raise _Refused

    def _effect(self, s: ast.Expr) -> None:
        value = s.value
        if isinstance(value, ast.Call):
            if self._is_itself(value.func):
                for argument in (*value.args, *[k.value for k in value.keywords]):
                    if not (isinstance(argument, ast.Name) and argument.id in self.grown):
                        self._expression(argument)
                    if isinstance(argument, ast.Name) and argument.id in self._own_lists:
                        raise _Refused
                self.forks.add(id(s))
                return
            if _grown_by(value):
                self._expression(value.args[0])
                return
        self._expression(value)

    def _assignment(self, targets: list[ast.expr], value: ast.expr) -> None:
        self._expression(value)
        for target in targets:
            self._target(target)
            if isinstance(target, ast.Name) and self._is_tensor(value):
                self._tensors.add(target.id)

    def _target(self, target: ast.expr) -> None:
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        if not all(isinstance(part, ast.Name) for part in parts):
            raise _Refused

    # ---- expressions

    def _expression(self, e: ast.AST) -> None:
        if isinstance(e, ast.Call):
            self._call(e)
        elif isinstance(e, ast.Name):
            if e.id in self.grown:
                raise _Refused
            if e.id not in self._callees.locals:
                self._constant(e)
        elif isinstance(e, ast.Attribute):
            if e.attr in _TENSOR_ATTRIBUTES and self._callees.value_of(e) is MISSING:
                self._expression(e.value)
            else:
                self._constant(e)
        elif isinstance(e, _PARTS):
            for part in ast.iter_child_nodes(e):
                self._expression(part)
        else:
            raise _Refused

    def _constant(self, e: ast.expr) -> None:
        if type(self._value_of(e)) not in _CONSTANTS:
            raise _Refused

    def _value_of(self, e: ast.expr) -> Any:
        value = self._callees.value_of(e)
        if type(value) is not MethodType and value is not MISSING:  # a method is made anew at each look
            self._met.append((e, value))
        return value

    def _is_itself(self, callee: ast.expr) -> bool:
        value = self._callees.value_of(callee)
        if type(value) is MethodType:
            return value.__func__ is self._fn and value.__self__ is self._owner
        return value is self._fn and self._owner is None

    def _is_tensor(self, e: ast.expr) -> bool:
        """Whether an expression certainly is a tensor."""
        if isinstance(e, ast.Name):
            return e.id in self._tensors
        if isinstance(e, ast.Compare):
            return any(map(self._is_tensor, (e.left, *e.comparators)))
        if isinstance(e, ast.BinOp):
            return self._is_tensor(e.left) or self._is_tensor(e.right)
        if isinstance(e, ast.UnaryOp):
            return self._is_tensor(e.operand)
        if isinstance(e, ast.BoolOp):
            return any(map(self._is_tensor, e.values))
        return isinstance(e, ast.Call) and self._callees.role_of(e.func) in (Role.OP, Role.CELL)

    def _call(self, e: ast.Call) -> None:
        if any(isinstance(x, ast.Starred) for x in e.args) or any(
            k.arg is None or k.arg in _WRITES for k in e.keywords
        ):
            raise _Refused
        for argument in (*e.args, *[k.value for k in e.keywords]):
            self._expression(argument)
        if self._is_itself(e.func):
            raise _Refused
        value = self._value_of(e.func)
        if value is not MISSING:
            self._known_call(value)
        elif isinstance(e.func, ast.Attribute):
            self._method(e.func)
        else:
            raise _Refused

    def _known_call(self, value: Any) -> None:
        role = role_of(value)
        if any(value is one for one in _CONVERSIONS):
            self.asks = True
        elif issubclass(type(value), Module):
            self._module(value)
        elif (role is Role.BUILTIN and value not in (getattr, hasattr)) or issubclass(type(value), CellOfFunction):
            pass
        elif is_pure_function(value) or is_layer_code(value):
            _no_draw(value.__name__)
        elif type(value) is FunctionType:
            self._helper(value, None)
        elif type(value) is MethodType and type(value.__func__) is FunctionType:
            self._helper(value.__func__, value.__self__)
        else:
            raise _Refused

    def _method(self, method: ast.Attribute) -> None:
        """A method of a value that is plain: of a tensor or of a container."""
        self._expression(method.value)
        name = method.attr
        if name in _READING:
            self.asks = True
        elif name not in _LOOKING:
            if not is_pure_function(getattr(Tensor, name, None)) or name.endswith("_") or name == "sort":
                raise _Refused
            _no_draw(name)

    def _module(self, module: Module) -> None:
        for one in module.modules():
            cls = type(one)
            if one._call_hooks or getattr(one, "max_norm", None) is not None or getattr(one, "inplace", False):
                raise _Refused
            if getattr(one, "dropout", 0) != 0:
                raise _Refused
            _no_draw(cls.__name__.lower())
            if not cls.__module__.startswith("extempo."):
                if cls.__call__ is not Module.__call__ or "forward" in vars(one):
                    raise _Refused
                if one is module:
                    self._helper(cls.forward, one)
            elif not cls._is_cell and cls.__name__ not in ("Sequential", "ModuleList", "ModuleDict", "Identity"):
                raise _Refused

    def _helper(self, fn: Any, owner: Any) -> None:
        """A function of the user's that has to be harmless as well."""
        found = definition_of(fn.__code__) if type(fn) is FunctionType and self._depth < _DEEPEST else None
        if found is None or fn is self._fn:
            raise _Refused
        inner = Forking(found[0], fn, owner, self._depth + 1)
        inner.check()
        if inner.forks:
            raise _Refused
        inner.forget()
        self.asks |= inner.asks
        self._helpers.append((weakref.ref(fn), owner if owner is None else weakref.ref(owner), inner))

    # ---- the function that forks

    def rewritten(self) -> ast.FunctionDef:
        """The definition with its forks, which takes the fork that a call of it is as one more argument."""
        return _Forked(self).made(self._definition)


class _Forked(ast.NodeTransformer):
    def __init__(self, forking: Forking) -> None:
        self._forking = forking

    def made(self, definition: ast.FunctionDef) -> ast.FunctionDef:
        made = copy.copy(definition)
        made.args = copy.copy(definition.args)
        argument = ast.copy_location(ast.arg(FORK), definition)
        made.args.kwonlyargs = [*definition.args.kwonlyargs, argument]
        made.args.kw_defaults = [*definition.args.kw_defaults, None]
        made.body = [self._statement(s) for s in definition.body]
        return made

    def _statement(self, s: Any) -> Any:
        if isinstance(s, _BLOCKS):
            made = copy.copy(s)
            made.body, made.orelse = [self._statement(x) for x in s.body], [self._statement(x) for x in s.orelse]
            return made
        if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call):
            call = s.value
            if id(s) in self._forking.forks:
                return ast.copy_location(ast.Expr(_told("start", call.args, call.keywords, call)), s)
            name = _grown_by(call)
            if name in self._forking.grown:
                assert isinstance(call.func, ast.Attribute)
                return ast.copy_location(ast.Expr(_told("append", [call.func.value, *call.args], [], call)), s)
        return s


def _told(name: str, args: list[ast.expr], keywords: list[ast.keyword], where: ast.expr) -> ast.Call:
    """A call of a method of the fork."""
    fork = ast.copy_location(ast.Name(FORK, ast.Load()), where)
    method = ast.copy_location(ast.Attribute(fork, name, ast.Load()), where)
    return ast.copy_location(ast.Call(method, list(args), list(keywords)), where)


def _grown_by(node: ast.AST) -> str:
    """The variable whose list a call appends to; empty if it is no such call."""
    if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords or isinstance(node.args[0], ast.Starred):
        return ""
    func = node.func
    is_append = isinstance(func, ast.Attribute) and func.attr == "append" and isinstance(func.value, ast.Name)
    return func.value.id if is_append else ""  # type: ignore[attr-defined] # it is a name


def _assigned(definition: ast.FunctionDef) -> set[str]:
    return {n.id for n in ast.walk(definition) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}


def _own_lists(definition: ast.FunctionDef) -> set[str]:
    """Variables that have nothing but lists which the function makes."""
    made: set[str] = set()
    other: set[str] = set()
    values: set[int] = set()
    for s in ast.walk(definition):
        target = s.targets[0] if isinstance(s, ast.Assign) else s.target if isinstance(s, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and isinstance(s.value, ast.List):  # type: ignore[attr-defined] # an assignment
            made.add(target.id)
            values.add(id(target))
    other = {
        n.id
        for n in ast.walk(definition)
        if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load) and id(n) not in values
    }
    return made - other


def _no_draw(name: str) -> None:
    if any(word in name for word in _DRAWS):
        raise _Refused
