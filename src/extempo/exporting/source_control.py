"""What rewritten source calls: Python's branches and loops, and their traced forms where a traced tensor decides.

Every method does what Python does for plain values. A branch on a traced tensor becomes a `cond` of the variables that
it sets, a loop over a tensor or range of symbolic length a `scan`, a `while` on a traced tensor a `while_loop`. A list
that every step of such a loop appends one tensor to becomes a `StackedList`. What cannot be kept is an ExportError.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from ..core.graph import Graph, Node, describe_where
from ..core.source_location import user_line
from ..core.tensor import Tensor
from ..core.types import bool_
from ..errors import ExportError
from ..func.tree import leaves
from ..nn.module import Module
from .builtin_calls import BuiltinCalls
from .loop_items import StackedList, SymbolicRange, tree_of
from .source import converted, is_users
from .traced_branches import Branches
from .traced_loops import Loops
from .traced_values import UNSET, Unset, Values
from .tracer import ProgramTracer, decision

MAX_RECURSION = 30  # calls of one function inside one another, and branches and loops around them
# What may fail, or cost or draw something: it runs only if what stands before it in an `and` or `or` lets it.
_CAREFUL = frozenset(("index", "control", "random", "segments", "linalg", "custom", "other"))

_AUGMENTED: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.iadd, "Sub": operator.isub, "Mult": operator.imul, "Div": operator.itruediv,
    "FloorDiv": operator.ifloordiv, "Mod": operator.imod, "Pow": operator.ipow, "MatMult": operator.imatmul,
    "BitAnd": operator.iand, "BitOr": operator.ior, "BitXor": operator.ixor, "LShift": operator.ilshift,
    "RShift": operator.irshift,
}  # fmt: skip


class Control:
    """The functions that rewritten source calls, for one trace."""

    def __init__(self, tracer: ProgramTracer) -> None:
        self._tracer = tracer
        self._branches = Branches(tracer)
        self._loops = Loops(tracer)
        self._builtins = BuiltinCalls(self._traced, self.list_of, tracer.joins_nothing)
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

    def augment(self, owner: Any, name: str, sign: str, value: Any) -> None:
        """`owner.name += value` and its like: a tensor is written in place, also inside a branch or loop."""
        before = getattr(owner, name)
        after = _AUGMENTED[sign](before, value)
        if after is not before:
            if self._tracer.n_scopes:
                self._refuse_attribute(name, "a branch or loop that values decide about")
            setattr(owner, name, after)

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
                return self._branches.cond(own, yes, no, ())
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
        return self._branches.cond(value, yes, no, ())

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
        return self._branches.cond(test, yes, no, ())

    def if_return(self, test: Any, yes: Callable[..., Any], no: Callable[..., Any], values: Values) -> Any:
        if not self._traced(test):
            return (yes if test else no)(*values)
        return self._branches.cond(test, yes, no, values)

    def if_(
        self, test: Any, yes: Callable[..., Any], no: Callable[..., Any], names: Values, values: Values, sets: str
    ) -> Values:
        if not self._traced(test):
            made: Values = (yes if test else no)(*values)
            return made
        self._refuse_attribute(sets, "an `if` on a value")
        result: Values = self._branches.cond(test, yes, no, values, names)
        return result

    def _refuse_attribute(self, sets: str, where: str) -> None:
        if sets:
            raise ExportError(
                f"{describe_where(user_line())}: {sets} is set inside {where}, which a program cannot do; set a "
                "variable there, and the attribute after it"
            )

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
                return self._loops.while_(test, step, names, values)
            if log.n_decided > n_decided and not sets:  # `while i < len(x)`: it stays a loop, if it can
                known, log.guards = log.guards, guards
                try:
                    return self._loops.while_(test, step, names, values)
                except ExportError:
                    log.guards = known
            if not going:
                return values
            values = step(*values)

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
            return self._loops.counted(items, step, names, values)
        return self._loops.over(tree, lists, step, names, values)

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


def _told(message: Callable[[], Any], source: str) -> str:
    """The text of a message or error, where it can be had without values; else its source."""
    try:
        return str(message())
    except ExportError:
        return source
    except Exception as error:  # the user's own, raised to have its text
        return f"{type(error).__name__}: {error}"


def listed(result: Any) -> Any:
    """A result in which no list is one of unknown length."""
    if any(isinstance(x, StackedList | Unset) for x in leaves(result)):
        raise ExportError(
            "program: the result has a list whose length is not known before the program runs, or a variable that is "
            "set in one branch only; return ex.stack(list), or set it in both"
        )
    return result
