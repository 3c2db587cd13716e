"""A body run instruction by instruction, to see whether it does anything but compute its result.

`CheckedRun` is a small interpreter of CPython's bytecode: a stack, local variables and closures as CPython has them,
and before each instruction that may have an effect a question to `pure_calls`. What is not known to be free of effects
is refused, with the line, before anything has happened; so is every instruction that is not known here. The arguments
are symbols, so that nothing is computed either. Since all that is left are watched reads and arithmetic, a later run of
the same body by CPython goes the same way: that run is what becomes a cell (`cell_tracer`).

Names of instructions are those of Python 3.11 to 3.14; where a version does without one, nobody asks for it.
"""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
import operator
import sys
from collections.abc import Callable
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, NoReturn, TypeVar

from ..core.code_names import is_library
from ..core.graph import describe_where
from .pure_calls import Impure, PureCalls

_NULL: Any = type("_Null", (), {})()  # stands where CPython has no object
_MOST_STEPS = 20_000  # instructions; a body that takes more is not worth it
_DEEPEST = 40  # calls in calls
_POPS_AFTER_LOOP = ("POP_TOP", "POP_ITER") if sys.version_info >= (3, 13) else ()
_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_CLOSURE, _ANNOTATIONS, _NAMED, _DEFAULTS = 8, 4, 2, 1  # parts of a new function

_BINARY = {
    "+": (operator.add, operator.iadd),
    "-": (operator.sub, operator.isub),
    "*": (operator.mul, operator.imul),
    "/": (operator.truediv, operator.itruediv),
    "//": (operator.floordiv, operator.ifloordiv),
    "%": (operator.mod, operator.imod),
    "**": (operator.pow, operator.ipow),
    "@": (operator.matmul, operator.imatmul),
    "&": (operator.and_, operator.iand),
    "|": (operator.or_, operator.ior),
    "^": (operator.xor, operator.ixor),
    "<<": (operator.lshift, operator.ilshift),
    ">>": (operator.rshift, operator.irshift),
}
_COMPARED = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}
_UNARY: dict[str, Callable[..., Any]] = {
    "UNARY_NEGATIVE": operator.neg,
    "UNARY_POSITIVE": operator.pos,
    "UNARY_INVERT": operator.invert,
}
_REFUSED = {
    "DELETE_ATTR": "it deletes the attribute {}",
    "STORE_GLOBAL": "it sets the global variable {}",
    "DELETE_GLOBAL": "it deletes the global variable {}",
    "IMPORT_NAME": "it imports {}",
    "RAISE_VARARGS": "it raises an error",
    "BEFORE_WITH": "it has a with block",
    "LOAD_SPECIAL": "it has a with block",
    "LOAD_BUILD_CLASS": "it defines a class",
}


class _Frame:
    """A call of a function that is under way."""

    def __init__(self, fn: FunctionType, variables: dict[str, Any]) -> None:
        self.fn = fn
        self.code = fn.__code__
        self.steps, self.index_of = _instructions(fn.__code__)
        self.variables = variables
        self.cells: dict[str, CellType] = {}  # variables that functions inside share
        self.stack: list[Any] = []
        self.next = 0
        self.keywords: tuple[str, ...] = ()
        self.yielded: list[Any] = []
        self.result: Any = _NULL

    def pop_several(self, n: int) -> list[Any]:
        if n == 0:
            return []
        taken = self.stack[-n:]
        del self.stack[-n:]
        return taken

    def jump(self, step: dis.Instruction) -> None:
        self.next = self.index_of[step.argval]

    def push(self, value: Any, to_call: bool = False) -> None:
        """`to_call`: with what CALL expects beside a function that gets no first argument."""
        if to_call:
            self.stack.append(_NULL)
        self.stack.append(value)


_Handler = Callable[[Any, _Frame, dis.Instruction], None]
_H = TypeVar("_H", bound=_Handler)
_HANDLERS: dict[str, _Handler] = {}


def _on(*names: str) -> Callable[[_H], _H]:
    def register(handler: _H) -> _H:
        _HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return register


class CheckedRun(PureCalls):
    """One run of a body."""

    def __init__(self, tracer: Any, is_cell: bool = True) -> None:
        super().__init__(tracer, is_cell)
        self._n_steps = 0
        self._frames: list[_Frame] = []

    def run(self, body: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a function or method; Impure if it may do more than compute it."""
        for x in (*args, *kwargs.values()):
            self.given(x)
        fn, first = (body.__func__, (body.__self__,)) if isinstance(body, MethodType) else (body, ())
        if not isinstance(fn, FunctionType):
            self.refuse(f"it is a {type(fn).__name__}")
        return self._function(fn, (*first, *args), kwargs)

    @property
    def where(self) -> str:
        """The user's line that the run has come to."""
        for frame in reversed(self._frames):
            if not is_library(frame.fn.__globals__.get("__name__")):
                return describe_where((frame.code, frame.steps[max(frame.next - 1, 0)].offset))
        return ""

    @property
    def position(self) -> tuple[int, int, int, int] | None:
        """The expression of the body itself that the run has come to: first line and column, last line and column."""
        if not self._frames:
            return None
        frame = self._frames[0]
        at = frame.steps[max(frame.next - 1, 0)].positions
        if at is None or at.lineno is None or at.end_lineno is None:
            return None
        return at.lineno, at.col_offset or 0, at.end_lineno, at.end_col_offset or 0

    def refuse(self, what: str) -> NoReturn:
        raise Impure(f"{what}, at {self.where}" if self._frames else what)

    def interpret(self, fn: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        code = fn.__code__
        if code.co_flags & _GENERATORS and code.co_name != "<genexpr>":
            self.refuse(f"{fn.__qualname__} is a generator")
        if len(self._frames) >= _DEEPEST:
            self.refuse("it calls functions in functions too deep")
        variables = _bound(fn, args, kwargs)
        if code.co_flags & inspect.CO_VARKEYWORDS:  # a dict of its own
            self.made(variables[code.co_varnames[len(_names(code)) + bool(code.co_flags & inspect.CO_VARARGS)]])
        frame = _Frame(fn, variables)
        self._frames.append(frame)
        while frame.result is _NULL:
            self._step(frame)
        self._frames.pop()
        return self.made(iter(frame.yielded)) if code.co_flags & _GENERATORS else frame.result

    def _step(self, frame: _Frame) -> None:
        step = frame.steps[frame.next]
        frame.next += 1
        self._n_steps += 1
        if self._n_steps > _MOST_STEPS:
            self.refuse("it takes too many instructions")
        handler = _HANDLERS.get(step.opname)
        if handler is None:
            self.refuse(
                _REFUSED.get(step.opname, f"it does what is not known to be pure ({step.opname})").format(step.argval)
            )
        handler(self, frame, step)

    # ---- variables and constants

    @_on("RESUME", "NOP", "CACHE", "PRECALL", "EXTENDED_ARG", "NOT_TAKEN", "END_FOR")
    def _nothing(self, frame: _Frame, step: dis.Instruction) -> None:
        pass

    @_on("LOAD_CONST", "LOAD_SMALL_INT")
    def _constant(self, frame: _Frame, step: dis.Instruction) -> None:
        frame.push(step.argval)

    @_on("LOAD_COMMON_CONSTANT")
    def _common_constant(self, frame: _Frame, step: dis.Instruction) -> None:
        frame.push((AssertionError, NotImplementedError, tuple, all, any)[step.arg or 0])

    @_on("LOAD_ASSERTION_ERROR")
    def _assertion_error(self, frame: _Frame, step: dis.Instruction) -> None:
        frame.push(AssertionError)

    @_on("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_CLOSURE")
    def _load(self, frame: _Frame, step: dis.Instruction) -> None:
        frame.push(_variable(frame, step.argval))

    @_on("LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW")
    def _load_two(self, frame: _Frame, step: dis.Instruction) -> None:
        for name in step.argval:
            frame.push(_variable(frame, name))

    @_on("LOAD_FAST_AND_CLEAR")
    def _load_and_clear(self, frame: _Frame, step: dis.Instruction) -> None:
        name = step.argval
        frame.push(frame.cells.pop(name) if name in frame.cells else frame.variables.pop(name, _NULL))

    @_on("STORE_FAST", "STORE_FAST_MAYBE_NULL")
    def _store(self, frame: _Frame, step: dis.Instruction) -> None:
        _assign(frame, step.argval, frame.stack.pop())

    @_on("STORE_FAST_STORE_FAST")
    def _store_two(self, frame: _Frame, step: dis.Instruction) -> None:
        for name in step.argval:
            _assign(frame, name, frame.stack.pop())

    @_on("STORE_FAST_LOAD_FAST")
    def _store_and_load(self, frame: _Frame, step: dis.Instruction) -> None:
        _assign(frame, step.argval[0], frame.stack.pop())
        frame.push(_variable(frame, step.argval[1]))

    @_on("DELETE_FAST")
    def _delete(self, frame: _Frame, step: dis.Instruction) -> None:
        del frame.variables[step.argval]

    @_on("MAKE_CELL")
    def _make_cell(self, frame: _Frame, step: dis.Instruction) -> None:
        name = step.argval
        cell = CellType(frame.variables.pop(name)) if name in frame.variables else CellType()
        frame.cells[name] = self.made(cell)

    @_on("COPY_FREE_VARS")
    def _copy_free_variables(self, frame: _Frame, step: dis.Instruction) -> None:
        frame.cells.update(zip(frame.code.co_freevars, frame.fn.__closure__ or (), strict=True))

    @_on("LOAD_DEREF")
    def _load_from_cell(self, frame: _Frame, step: dis.Instruction) -> None:
        frame.push(frame.cells[step.argval].cell_contents)

    @_on("STORE_DEREF")
    def _store_in_cell(self, frame: _Frame, step: dis.Instruction) -> None:
        cell = frame.cells[step.argval]
        if not self.has_made(cell):
            self.refuse(f"it sets {step.argval}, a variable of the function around it")
        cell.cell_contents = frame.stack.pop()

    @_on("LOAD_GLOBAL")
    def _load_global(self, frame: _Frame, step: dis.Instruction) -> None:
        names = frame.fn.__globals__
        if not is_library(names.get("__name__")):
            value = self.global_variable(names, step.argval)
        else:
            value = names[step.argval] if step.argval in names else getattr(builtins, step.argval)
        frame.push(value, to_call=bool((step.arg or 0) & 1))

    # ---- the stack

    @_on("POP_TOP", "POP_ITER")
    def _pop(self, frame: _Frame, step: dis.Instruction) -> None:
        frame.stack.pop()

    @_on("PUSH_NULL")
    def _push_null(self, frame: _Frame, step: dis.Instruction) -> None:
        frame.push(_NULL)

    @_on("COPY")
    def _copy(self, frame: _Frame, step: dis.Instruction) -> None:
        frame.push(frame.stack[-(step.arg or 0)])

    @_on("SWAP")
    def _swap(self, frame: _Frame, step: dis.Instruction) -> None:
        i, stack = -(step.arg or 0), frame.stack
        stack[i], stack[-1] = stack[-1], stack[i]

    # ---- operators

    @_on(*_UNARY)
    def _unary(self, frame: _Frame, step: dis.Instruction) -> None:
        frame.push(self.operate(_UNARY[step.opname], frame.stack.pop()))

    @_on("UNARY_NOT")
    def _not(self, frame: _Frame, step: dis.Instruction) -> None:
        frame.push(not self.truth(frame.stack.pop()))

    @_on("TO_BOOL")
    def _to_bool(self, frame: _Frame, step: dis.Instruction) -> None:
        frame.push(self.truth(frame.stack.pop()))

    @_on("CALL_INTRINSIC_1")
    def _intrinsic(self, frame: _Frame, step: dis.Instruction) -> None:
        if step.argrepr == "INTRINSIC_UNARY_POSITIVE":
            frame.push(self.operate(operator.pos, frame.stack.pop()))
        elif step.argrepr == "INTRINSIC_LIST_TO_TUPLE":
            frame.push(tuple(frame.stack.pop()))
        else:
            self.refuse(f"it does what is not known to be pure ({step.argrepr})")

    @_on("LIST_TO_TUPLE")
    def _list_to_tuple(self, frame: _Frame, step: dis.Instruction) -> None:
        frame.push(tuple(frame.stack.pop()))

    @_on("BINARY_OP")
    def _binary(self, frame: _Frame, step: dis.Instruction) -> None:
        a, b = frame.pop_several(2)
        sign = step.argrepr.removesuffix("=")
        in_place = sign != step.argrepr
        if sign == "[]":
            frame.push(self.item(a, b))
        else:
            frame.push(self.operate(_BINARY[sign][in_place], a, b, in_place=in_place))

    @_on("COMPARE_OP")
    def _compare(self, frame: _Frame, step: dis.Instruction) -> None:
        a, b = frame.pop_several(2)
        result = self.compare(_COMPARED[step.argval], a, b)
        as_bool = sys.version_info >= (3, 13) and (step.arg or 0) & 16
        frame.push(self.truth(result) if as_bool else result)

    @_on("IS_OP")
    def _is(self, frame: _Frame, step: dis.Instruction) -> None:
        a, b = frame.pop_several(2)
        frame.push(self.same(a, b) is not bool(step.arg))

    @_on("CONTAINS_OP")
    def _contains(self, frame: _Frame, step: dis.Instruction) -> None:
        x, container = frame.pop_several(2)
        frame.push(self.contains(container, x) is not bool(step.arg))

    @_on("BINARY_SUBSCR")
    def _subscript(self, frame: _Frame, step: dis.Instruction) -> None:
        container, key = frame.pop_several(2)
        frame.push(self.item(container, key))

    @_on("BINARY_SLICE")
    def _slice(self, frame: _Frame, step: dis.Instruction) -> None:
        container, start, stop = frame.pop_several(3)
        frame.push(self.item(container, slice(start, stop)))

    @_on("STORE_SUBSCR")
    def _store_subscript(self, frame: _Frame, step: dis.Instruction) -> None:
        value, container, key = frame.pop_several(3)
        self.set_item(container, key, value)

    @_on("STORE_SLICE")
    def _store_slice(self, frame: _Frame, step: dis.Instruction) -> None:
        value, container, start, stop = frame.pop_several(4)
        self.set_item(container, slice(start, stop), value)

    @_on("DELETE_SUBSCR")
    def _delete_subscript(self, frame: _Frame, step: dis.Instruction) -> None:
        container, key = frame.pop_several(2)
        self.delete_item(container, key)

    # ---- containers and text

    @_on("BUILD_TUPLE", "BUILD_LIST")
    def _build(self, frame: _Frame, step: dis.Instruction) -> None:
        parts = frame.pop_several(step.arg or 0)
        frame.push(self.made(tuple(parts) if step.opname == "BUILD_TUPLE" else parts))

    @_on("BUILD_SET")
    def _build_set(self, frame: _Frame, step: dis.Instruction) -> None:
        parts = frame.pop_several(step.arg or 0)
        self.check_data(parts, "a set")
        frame.push(self.made(set(parts)))

    @_on("BUILD_STRING")
    def _build_string(self, frame: _Frame, step: dis.Instruction) -> None:
        frame.push("".join(frame.pop_several(step.arg or 0)))

    @_on("BUILD_MAP")
    def _build_map(self, frame: _Frame, step: dis.Instruction) -> None:
        parts = frame.pop_several(2 * (step.arg or 0))
        self.check_data(parts[::2], "a dict")
        frame.push(self.made(dict(zip(parts[::2], parts[1::2], strict=True))))

    @_on("BUILD_CONST_KEY_MAP")
    def _build_map_of_names(self, frame: _Frame, step: dis.Instruction) -> None:
        names = frame.stack.pop()
        frame.push(self.made(dict(zip(names, frame.pop_several(step.arg or 0), strict=True))))

    @_on("BUILD_SLICE")
    def _build_slice(self, frame: _Frame, step: dis.Instruction) -> None:
        frame.push(slice(*frame.pop_several(step.arg or 0)))

    @_on("LIST_APPEND")
    def _append(self, frame: _Frame, step: dis.Instruction) -> None:
        value = frame.stack.pop()
        frame.stack[-(step.arg or 0)].append(value)

    @_on("SET_ADD")
    def _set_add(self, frame: _Frame, step: dis.Instruction) -> None:
        value = frame.stack.pop()
        self.check_data((value,), "a set")
        frame.stack[-(step.arg or 0)].add(value)

    @_on("MAP_ADD")
    def _map_add(self, frame: _Frame, step: dis.Instruction) -> None:
        key, value = frame.pop_several(2)
        self.check_data((key,), "a dict")
        frame.stack[-(step.arg or 0)][key] = value

    @_on("LIST_EXTEND")
    def _extend(self, frame: _Frame, step: dis.Instruction) -> None:
        values = self.elements(frame.stack.pop())
        frame.stack[-(step.arg or 0)].extend(values)

    @_on("SET_UPDATE")
    def _set_update(self, frame: _Frame, step: dis.Instruction) -> None:
        values = self.elements(frame.stack.pop())
        self.check_data(values, "a set")
        frame.stack[-(step.arg or 0)].update(values)

    @_on("DICT_UPDATE", "DICT_MERGE")
    def _dict_update(self, frame: _Frame, step: dis.Instruction) -> None:
        other = self.dict_to_unpack(frame.stack.pop())
        frame.stack[-(step.arg or 0)].update(other)

    @_on("UNPACK_SEQUENCE")
    def _unpack(self, frame: _Frame, step: dis.Instruction) -> None:
        parts = self.elements(frame.stack.pop())
        if len(parts) != step.arg:
            raise ValueError("a wrong number of values to unpack")
        frame.stack += parts[::-1]

    @_on("UNPACK_EX")
    def _unpack_starred(self, frame: _Frame, step: dis.Instruction) -> None:
        before, after = (step.arg or 0) & 0xFF, (step.arg or 0) >> 8
        parts = self.elements(frame.stack.pop())
        if len(parts) < before + after:
            raise ValueError("too few values to unpack")
        middle = len(parts) - after
        frame.stack += [*parts[middle:][::-1], self.made(parts[before:middle]), *parts[:before][::-1]]

    @_on("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE")
    def _format(self, frame: _Frame, step: dis.Instruction) -> None:
        flags = step.arg or 0
        with_spec = step.opname == "FORMAT_WITH_SPEC" or (step.opname == "FORMAT_VALUE" and flags & 4)
        spec = frame.stack.pop() if with_spec else ""
        value = frame.stack.pop()
        self.check_data((value,), "a format")
        convert = {"FORMAT_VALUE": flags & 3, "CONVERT_VALUE": flags}.get(step.opname, 0)
        value = (str, repr, ascii)[convert - 1](value) if convert else value
        frame.push(value if step.opname == "CONVERT_VALUE" else format(value, spec))

    # ---- jumps and loops

    @_on("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
    def _jump(self, frame: _Frame, step: dis.Instruction) -> None:
        frame.jump(step)

    @_on(*(f"POP_JUMP_{way}IF_{what}" for way in ("", "FORWARD_", "BACKWARD_") for what in ("TRUE", "FALSE")))
    def _jump_if(self, frame: _Frame, step: dis.Instruction) -> None:
        if self.truth(frame.stack.pop()) is step.opname.endswith("TRUE"):
            frame.jump(step)

    @_on(*(f"POP_JUMP_{way}IF_{what}" for way in ("", "FORWARD_", "BACKWARD_") for what in ("NONE", "NOT_NONE")))
    def _jump_if_none(self, frame: _Frame, step: dis.Instruction) -> None:
        if (frame.stack.pop() is None) is not step.opname.endswith("NOT_NONE"):
            frame.jump(step)

    @_on("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP")
    def _jump_or_pop(self, frame: _Frame, step: dis.Instruction) -> None:
        if self.truth(frame.stack[-1]) is step.opname.startswith("JUMP_IF_TRUE"):
            frame.jump(step)
        else:
            frame.stack.pop()

    @_on("GET_ITER")
    def _get_iterator(self, frame: _Frame, step: dis.Instruction) -> None:
        frame.push(self.iterate(frame.stack.pop()))

    @_on("FOR_ITER")
    def _for(self, frame: _Frame, step: dis.Instruction) -> None:
        try:
            frame.push(self.advance(frame.stack[-1]))
        except StopIteration:
            frame.stack.pop()
            frame.jump(step)
            # From Python 3.12 on, instructions follow that would take the iterator off the stack once more.
            if frame.steps[frame.next].opname == "END_FOR":
                frame.next += 1
                if frame.steps[frame.next].opname in _POPS_AFTER_LOOP:
                    frame.next += 1

    @_on("RETURN_GENERATOR")
    def _return_generator(self, frame: _Frame, step: dis.Instruction) -> None:
        frame.push(None)

    @_on("YIELD_VALUE")
    def _yield(self, frame: _Frame, step: dis.Instruction) -> None:
        """A generator expression gives all it has at once: nothing in it depends on when that is."""
        frame.yielded.append(frame.stack.pop())
        frame.push(None)

    @_on("RETURN_VALUE")
    def _return(self, frame: _Frame, step: dis.Instruction) -> None:
        frame.result = frame.stack.pop()

    @_on("RETURN_CONST")
    def _return_constant(self, frame: _Frame, step: dis.Instruction) -> None:
        frame.result = step.argval

    # ---- attributes, functions, calls

    @_on("LOAD_ATTR", "LOAD_METHOD")
    def _load_attribute(self, frame: _Frame, step: dis.Instruction) -> None:
        value = self.attribute(frame.stack.pop(), step.argval)
        to_call = step.opname == "LOAD_METHOD" or (sys.version_info >= (3, 12) and bool((step.arg or 0) & 1))
        frame.push(value, to_call)

    @_on("STORE_ATTR")
    def _store_attribute(self, frame: _Frame, step: dis.Instruction) -> None:
        value, owner = frame.pop_several(2)
        self.set_attribute(owner, step.argval, value)

    @_on("LOAD_SUPER_ATTR")
    def _load_super_attribute(self, frame: _Frame, step: dis.Instruction) -> None:
        _, cls, owner = frame.pop_several(3)
        frame.push(self.attribute(super(cls, owner), step.argval), to_call=bool((step.arg or 0) & 1))

    @_on("MAKE_FUNCTION")
    def _make_function(self, frame: _Frame, step: dis.Instruction) -> None:
        flags = (step.arg or 0) if sys.version_info < (3, 13) else 0
        code = frame.stack.pop()
        parts = {flag: frame.stack.pop() for flag in (_CLOSURE, _ANNOTATIONS, _NAMED, _DEFAULTS) if flags & flag}
        frame.push(self._new_function(frame, code, parts))

    @_on("SET_FUNCTION_ATTRIBUTE")
    def _set_function_attribute(self, frame: _Frame, step: dis.Instruction) -> None:
        value, fn = frame.pop_several(2)
        parts = {_CLOSURE: fn.__closure__, _NAMED: fn.__kwdefaults__, _DEFAULTS: fn.__defaults__, step.arg: value}
        frame.push(self._new_function(frame, fn.__code__, parts))

    def _new_function(self, frame: _Frame, code: CodeType, parts: dict[Any, Any]) -> FunctionType:
        # Where the closure is set by an instruction of its own there are cells to be replaced until then.
        closure = parts.get(_CLOSURE) or tuple([CellType() for _ in code.co_freevars])
        made = FunctionType(code, frame.fn.__globals__, code.co_name, parts.get(_DEFAULTS), closure)
        made.__kwdefaults__ = parts.get(_NAMED)
        self.made(made)
        return made

    @_on("KW_NAMES")
    def _keyword_names(self, frame: _Frame, step: dis.Instruction) -> None:
        frame.keywords = frame.code.co_consts[step.arg or 0]

    @_on("CALL", "CALL_KW")
    def _call(self, frame: _Frame, step: dis.Instruction) -> None:
        names = frame.stack.pop() if step.opname == "CALL_KW" else frame.keywords
        frame.keywords = ()
        values = frame.pop_several(step.arg or 0)
        n = len(values) - len(names)
        self._call_below(frame, values[:n], dict(zip(names, values[n:], strict=True)))

    @_on("CALL_FUNCTION_EX")
    def _call_with_packed(self, frame: _Frame, step: dis.Instruction) -> None:
        named = frame.stack.pop() if (step.arg or 0) & 1 or sys.version_info >= (3, 14) else _NULL
        values = self.elements(frame.stack.pop())
        self._call_below(frame, values, {} if named is _NULL else dict(self.dict_to_unpack(named)))

    def _call_below(self, frame: _Frame, args: list[Any], kwargs: dict[str, Any]) -> None:
        """Call what is on the stack: a function beside nothing, or one and its first argument."""
        a, b = frame.pop_several(2)
        fn, first = (b, []) if a is _NULL else (a, [] if b is _NULL else [b])
        if fn is super and not args and not first:
            owner = _variable(frame, frame.code.co_varnames[0])
            frame.push(super(frame.cells["__class__"].cell_contents, owner))
        else:
            frame.push(self.call(fn, (*first, *args), kwargs))


def _variable(frame: _Frame, name: str) -> Any:
    """The value of a variable; of one that functions inside share the cell, which becomes a part of a closure."""
    return frame.variables[name] if name in frame.variables else frame.cells[name]


def _assign(frame: _Frame, name: str, value: Any) -> None:
    if value is _NULL:
        frame.variables.pop(name, None)
        frame.cells.pop(name, None)
    elif isinstance(value, CellType):
        frame.cells[name] = value
    else:
        frame.variables[name] = value


@functools.lru_cache(200)
def _instructions(code: CodeType) -> tuple[list[dis.Instruction], dict[int, int]]:
    """With the positions of those at an offset."""
    steps = list(dis.get_instructions(code))
    return steps, {step.offset: i for i, step in enumerate(steps)}


def _names(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _bound(fn: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The variables of a function that is called so."""
    code = fn.__code__
    n, names = code.co_argcount, _names(code)
    variables: dict[str, Any] = dict(zip(names[:n], args, strict=False))
    left = dict(kwargs)
    for name in names[code.co_posonlyargcount :]:
        if name in left:
            if name in variables:
                raise TypeError(f"{name} is given twice")
            variables[name] = left.pop(name)
    defaults = fn.__defaults__ or ()
    defaults_by_name = {**dict(zip(names[n - len(defaults) : n], defaults, strict=True)), **(fn.__kwdefaults__ or {})}
    variables = {**defaults_by_name, **variables}
    more = len(names)
    if code.co_flags & inspect.CO_VARARGS:
        variables[code.co_varnames[more]] = args[n:]
        more += 1
    elif len(args) > n:
        raise TypeError("too many arguments")
    if code.co_flags & inspect.CO_VARKEYWORDS:
        variables[code.co_varnames[more]] = left
    elif left:
        raise TypeError("unknown arguments")
    if any(name not in variables for name in names):
        raise TypeError("missing arguments")
    return variables
