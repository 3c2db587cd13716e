"""Functions of samples with their regions: made when they are needed, and made better by what their regions teach.

`outlined(fn)` gives what runs in place of a function inside of `ex.batch`: the same code at the same lines, with the
same globals and closure, but for regions, which are calls of automatic cells, and for calls of functions that may have
regions of their own, which come here again. Where the source is not to be had, or is not that of the code, it gives
the function itself.

A region that is found to do more than compute says where; one whose arguments are of another size or structure at
almost every call says which. The function is rewritten before the next run, without that.
"""

from __future__ import annotations
import __future__

import ast
import copy
import dis
import functools
import operator
import sys
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, FunctionType, MethodType
from typing import Any

from ...core.code_names import is_library
from ...core.context import CONTEXT
from ...core.weak import forgetting
from ...exporting.source import code_named, definition_of
from ...nn import module as nn_module
from ...nn.module import Module
from ..automatic_cells import LOOKED_AT, VARIED, Candidate, Culprit, unusual
from ..cells import CELLS_OF_MODULES, Cell, find, pass_over
from ..read_guards import MISSING
from ..read_search import attributes_of
from ..sample_tracer import SampleTracer
from ..signatures import take_apart
from .callees import Callees, writes_behind
from .forks import ForkingFunction
from .independence import Forking, forking
from .rewriting import CELL, DECLINED, NOTHING, OUTLINED, RECORD, Learned, OutlinedRegion, refused, rewritten

_MOST_VERSIONS = 8  # of one function; after that, regions that are none stay as they are
_MOST_KNOWN = 1_000  # functions and methods
_FUTURE = functools.reduce(operator.or_, [getattr(__future__, n).compiler_flag for n in __future__.all_feature_names])
_NUMBERS = ((int,), (float,))  # signatures of arguments
_FUNCTION, _MAKER = "__function__", "__maker__"


class RegionCandidate(Candidate):
    """What was counted of the calls of one region."""

    __slots__ = ("_marks", "_outline", "_region")

    least_ops = 3  # what a call of a cell costs around them

    def __init__(self, outline: Outline, region: OutlinedRegion) -> None:
        super().__init__()
        self._outline = outline
        self._region = region
        self._marks: list[set[tuple[Any, ...]]] = [set() for _ in region.arguments]

    def unusual(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        return unusual(args, kwargs, objects=True)

    def count(self, marks: tuple[Any, ...], args: tuple[Any, ...]) -> str | None:
        for known, x in zip(self._marks, args, strict=True):
            own: list[Any] = []
            take_apart(x, own, [], False)
            known.add(tuple(own))
        return super().count(marks, args)

    def give_up(self, module: Module | None, why: str, where: Culprit = None) -> None:
        super().give_up(module, why, where)
        region = self._region
        if isinstance(where, tuple):
            self._outline.learn(region.culprit(where), set())
        elif isinstance(where, int):  # of a region with one result it is a part of that
            self._outline.learn({region.setters[where if len(region.setters) > 1 else 0]}, set())
        elif varying := {
            name for name, known in zip(region.arguments, self._marks, strict=True) if _varies(known, why)
        }:
            self._outline.learn(set(), varying)
        else:
            self._outline.learn(set(region.statements), set())


def _varies(marks: set[tuple[Any, ...]], why: str) -> bool:
    """Whether an argument, of which these were seen, is why a region is none."""
    return (why == VARIED and len(marks) > 1) or (why == LOOKED_AT and not marks.isdisjoint(_NUMBERS))


class Outline:
    """One function, for one object whose method it is."""

    def __init__(self, fn: FunctionType, owner: Any) -> None:
        self._n_versions = 0
        self._learned = Learned(frozenset(), frozenset())
        self._cells: dict[CodeType, Cell] = {}  # of all versions, so that a region that stays keeps its traces
        self._code: CodeType | None = None  # of the function that runs
        self._current: list[Cell] = []
        self._forking: Forking | None = None
        self._rewrite(fn, owner)

    def learn(self, outside: set[Any], varying: set[str]) -> None:
        """Leave these expressions and statements, and what reads these variables, out of regions from now on."""
        before = self._learned
        self._learned = Learned(before.outside | outside, before.varying | varying)
        if self not in _TAUGHT and self._n_versions < _MOST_VERSIONS:
            _TAUGHT.append(self)

    def is_old(self) -> None:
        """It is to be rewritten before it runs again."""
        self._code = None

    def function(self, fn: FunctionType, owner: Any) -> FunctionType | ForkingFunction | None:
        """What runs in place of a function of this code; None: itself."""
        if self._code is None and self._n_versions < _MOST_VERSIONS:
            self._rewrite(fn, owner)
        code = self._code
        if code is None:
            return None
        known: dict[str, Any] = {RECORD: nn_module, NOTHING: {}, DECLINED: NotImplemented, OUTLINED: outlined}
        known |= {f"{CELL}{i}": cell for i, cell in enumerate(self._current)}
        closure = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
        cells = [closure[name] if name in closure else _cell_of(known[name]) for name in code.co_freevars]
        made = FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, tuple(cells))
        made.__kwdefaults__ = fn.__kwdefaults__
        made.__qualname__ = fn.__qualname__
        return made if self._forking is None else ForkingFunction(made, self._forking, fn)

    def _rewrite(self, fn: FunctionType, owner: Any) -> None:
        self._n_versions += 1
        code = fn.__code__
        found = _definition(code)
        if found is None or writes_behind(fn, owner):
            self._n_versions = _MOST_VERSIONS
            return
        self._forking = forking(found, fn, owner)
        if self._forking is not None:
            found = self._forking.rewritten()
        made, regions, calls_others = rewritten(found, Callees(fn, owner), self._learned)
        if not regions and not calls_others and self._forking is None:
            return
        self._current = [self._cell(region, fn) for region in regions]
        names = [RECORD, NOTHING, DECLINED, OUTLINED, *(f"{CELL}{i}" for i in range(len(regions)))]
        self._code = _compiled(made, code, names)

    def _cell(self, region: OutlinedRegion, fn: FunctionType) -> Cell:
        code = fn.__code__
        module = compile(_module([region.body]), code.co_filename, "exec", code.co_flags & _FUTURE, True)
        body = code_named(module, region.body.name).replace(co_name=code.co_name)
        known = self._cells.get(body)
        if known is None:
            made = FunctionType(body, fn.__globals__, fn.__name__)
            first, last = region.statements[0][0], region.statements[-1][2]
            lines = f"line {first}" if first == last else f"lines {first} to {last}"
            made.__qualname__ = f"{lines} of {fn.__qualname__.rpartition('<locals>.')[2]}"
            known = self._cells[body] = Cell(made, marked=False, candidate=RegionCandidate(self, region))
        return known


def _cell_of(value: Any) -> Any:
    return (lambda: value).__closure__[0]  # type: ignore[index] # it has one


# ---- code


def _module(body: list[Any]) -> ast.Module:
    return ast.fix_missing_locations(ast.Module(body, []))


def _compiled(definition: ast.FunctionDef, code: CodeType, names: list[str]) -> CodeType:
    """The code of a definition that stands where the function of some code does, and reads these names as well."""
    made = copy.copy(definition)
    made.name = _FUNCTION  # its own name is free for the function that calls itself
    maker = ast.parse(f"def {_MAKER}({', '.join([*code.co_freevars, *names])}):\n    pass").body[0]
    assert isinstance(maker, ast.FunctionDef)
    maker.body = [made]
    compiled = compile(_module([maker]), code.co_filename, "exec", code.co_flags & _FUTURE, True)
    inner = code_named(code_named(compiled, _MAKER), _FUNCTION)
    return _named(inner.replace(co_name=code.co_name), inner.co_qualname, code.co_qualname)


def _named(code: CodeType, old: str, new: str) -> CodeType:
    """The same code, functions inside included, under another name."""
    constants = tuple([_named(c, old, new) if isinstance(c, CodeType) else c for c in code.co_consts])
    return code.replace(co_qualname=new + code.co_qualname.removeprefix(old), co_consts=constants)


def _definition(code: CodeType) -> ast.FunctionDef | None:
    """The definition of a function, at its lines; None if it is not to be had, or is not to be rewritten."""
    if code.co_name in ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"):
        return None
    found = definition_of(code)
    if found is None or refused(found[0]):
        return None
    definition, first_line = found
    ast.increment_lineno(definition, first_line - 1)
    return definition if _is_same(_compiled(definition, code, []), code) else None


def _is_same(a: CodeType, b: CodeType) -> bool:
    """Whether the source is that of the code: the file may have changed, and tools rewrite what they import."""
    names = ("co_varnames", "co_freevars", "co_cellvars", "co_argcount", "co_kwonlyargcount")
    return all(getattr(a, name) == getattr(b, name) for name in names) and _instructions(a) == _instructions(b)


def _instructions(code: CodeType) -> list[Any]:
    """What code does, but for how it calls what an import at the top of the file gave a name to."""
    found: list[Any] = []
    for step in dis.get_instructions(code):
        if isinstance(step.argval, CodeType):
            found.append((step.argval.co_name, _instructions(step.argval)))
        elif step.opname not in ("PUSH_NULL", "PRECALL", "CACHE"):
            argument = None if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs else repr(step.argval)
            found.append((step.opname.replace("LOAD_METHOD", "LOAD_ATTR"), argument))
    return found


# ---- which functions have one


class _RewrittenFunction:
    """What runs in place of a function."""

    __slots__ = ("code", "defaults", "function", "named", "references", "training")

    def __init__(self, fn: FunctionType, training: Any, function: Any, references: list[Any]) -> None:
        self.code, self.defaults, self.named = fn.__code__, fn.__defaults__, fn.__kwdefaults__
        self.training = training
        self.function = function
        self.references = references  # weak; with what one is to, the entry goes


_KNOWN: dict[Any, _RewrittenFunction] = {}  # by the ids of function and owner, or of function and class
_OUTLINES: dict[Any, tuple[Any, Outline]] = {}  # by code, and by module and whether it is in training, or by class
_TAUGHT: list[Outline] = []  # those that are to be rewritten
_MET: dict[CodeType, None] = {}  # of functions that were called for many samples before


def outlined(fn: Any) -> Any:
    """What a sample is to call in place of a function, method or module."""
    kind = type(fn)
    owner: Any
    if kind is FunctionType:
        func, owner, key = fn, None, (id(fn), 0)
    elif kind is MethodType and type(fn.__func__) is FunctionType:
        func, owner = fn.__func__, fn.__self__
        key = id(func), id(owner) if issubclass(type(owner), Module) else id(type(owner))
    elif issubclass(kind, Module):
        forward = _forward_of(fn) if _is_ordinary(fn) else None
        found = None if forward is None else outlined(forward)
        return fn if found is forward else found
    else:
        return fn
    known = _KNOWN.get(key)
    if (
        known is None
        or known.code is not func.__code__
        or known.defaults is not func.__defaults__
        or known.named is not func.__kwdefaults__
        or (known.training is not None and known.training is not _training(owner))
    ):
        known = _learn(func, owner, key)
    function = known.function
    if function is None:
        return fn
    return function if owner is None else MethodType(function, owner)


def _learn(func: FunctionType, owner: Any, key: Any) -> _RewrittenFunction:
    is_module = issubclass(type(owner), Module)
    training = _training(owner) if is_module else None
    function = None
    if not is_library(func.__globals__.get("__name__")):
        outline_key = (func.__code__, *((id(owner), training) if is_module else (type(owner),)))
        with suppress(Exception):  # whatever it is, the function itself does what it does
            entry = _OUTLINES.get(outline_key)
            if entry is None:
                if len(_OUTLINES) >= _MOST_KNOWN:
                    _OUTLINES.clear()
                reference = forgetting(owner, _OUTLINES, outline_key) if is_module else None
                entry = _OUTLINES[outline_key] = (reference, Outline(func, owner))
            function = entry[1].function(func, owner)
    if len(_KNOWN) >= _MOST_KNOWN:
        _KNOWN.clear()
    references: list[Any] = [forgetting(func, _KNOWN, key)]
    if owner is not None:
        with suppress(TypeError):
            references.append(forgetting(owner if is_module else type(owner), _KNOWN, key))
    made = _KNOWN[key] = _RewrittenFunction(func, training, function, references)
    return made


def _is_ordinary(module: Module) -> bool:
    """Whether a sample calls a module as an ordinary function; the report is told."""
    cell = CELLS_OF_MODULES.get(id(module), MISSING)
    if cell is None:
        return True
    sample = CONTEXT.get().interceptor
    if cell is MISSING or type(sample) is not SampleTracer or not cell.why_ordinary():
        return False
    sample.ran_as_function(cell, module)
    return True


def _training(module: Module) -> Any:
    return (attributes_of(module) or {}).get("training")  # a property of the user's may count who asks


def _forward_of(module: Module) -> MethodType | None:
    """The forward that calling a module is, if it is no more than that."""
    cls = type(module)
    forward = getattr(cls, "forward", None)
    plain = cls.__call__ is Module.__call__ and cls.__getattribute__ is object.__getattribute__
    if not plain or module._call_hooks or "forward" in vars(module) or type(forward) is not FunctionType:
        return None
    return MethodType(forward, module)


def for_samples(fn: Any, is_ordinary: Callable[[str, str], None]) -> Any:
    """What is called for each sample in place of a function; from its second run on.

    is_ordinary: gets the name of a module that is no cell, and why.
    """
    if is_watched():
        return fn
    while _TAUGHT:
        _TAUGHT.pop().is_old()
        _KNOWN.clear()
    if type(fn) is functools.partial:
        found = for_samples(fn.func, is_ordinary)
        return fn if found is fn.func else functools.partial(found, *fn.args, **fn.keywords)
    if issubclass(type(fn), Module):
        cell = find(fn)
        why = "" if cell is None else cell.why_ordinary()
        forward = _forward_of(fn) if why else None
        if cell is None or forward is None:
            return fn
        is_ordinary(f"module {cell.name}", why)
        pass_over(fn)
        found = outlined(forward)
        return fn if found is forward else found
    code = getattr(getattr(fn, "__func__", fn), "__code__", None)
    if code is None:
        return fn
    if code not in _MET:
        if len(_MET) >= _MOST_KNOWN:
            _MET.clear()
        _MET[code] = None
        return fn
    return outlined(fn)


def is_watched() -> bool:
    """Whether a debugger, or a tool that counts lines, wants to see every line."""
    if sys.gettrace() is not None:
        return True
    if sys.version_info < (3, 12):
        return False
    tools = (sys.monitoring.DEBUGGER_ID, sys.monitoring.COVERAGE_ID)
    return any(sys.monitoring.get_tool(tool) is not None for tool in tools)
