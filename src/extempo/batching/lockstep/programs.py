"""Which functions run in lockstep: their programs, found again by code and by what it reads, and why others have none.

A function is traced when it is first called, which takes less than the first recording. Its program goes with its
weights, so nothing outlives a model. Samples that take another way than the one that was traced, by their sizes, get a
program of their own, or are left to be recorded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import FunctionType, MethodType
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from ...core.locks import awaited
from ...core.storage import Array
from ...core.types import get_default_dtype
from ...core.weak import WeakTable
from ...errors import ExtempoError
from ...nn.module import Module
from ..cell_tracer import Declined
from ..op_kinds import kinds_of_weight
from .arguments import SampleArguments, holds_tensors
from .estimates import seconds
from .lanes import Lanes
from .rules import NoRule, NotNow
from .run import Columns, run_program
from .trace import SampleProgram, SampleSizes, number_name

_MOST_PROGRAMS = 4  # of one function: sizes that decide which way it takes, inputs of other types
_MOST_FUNCTIONS = 4  # of one code, that are known at a time
_MOST_FAILURES = 3  # of one code, after which it is not tried again
_MOST_TRACES, _CALLS_PER_TRACE = 8, 4  # beyond so many, a trace must serve so many calls on the average
_SHAPES_KEPT = 64  # of samples, from which it is known which sizes are each sample's own
Prefers = Callable[[float, float], bool]
_PLAIN = (int, float, bool, str, bytes, type(None))
_FAILURES = (
    *(Declined, NoRule, ExtempoError, NotImplementedError, ArithmeticError, ValueError, TypeError, LookupError),
)

_TRACING = awaited()  # modules have another forward while they are traced, which a second trace would meet


class OfCode:
    """What is known of the functions of one code."""

    def __init__(self) -> None:
        self.n_calls = 0
        self.n_traces = 0
        self.n_failures = 0
        self.why = ""  # it is recorded, for good if it failed so often
        self.functions: list[ref[OfFunction]] = []
        self.kept: list[OfFunction] = []  # those that have no weight to go with

    def has_programs(self) -> bool:
        """Whether some function may run in lockstep, whatever else has failed."""
        return any((function := r()) is not None and function.programs for r in self.functions)

    def failed(self, error: Exception) -> None:
        """Note why a call, or some samples of it, are recorded."""
        if isinstance(error, Declined):
            self.why, self.n_failures = str(error), _MOST_FAILURES
        else:
            self.why = f"{type(error).__name__}: {error}"  # recording shows whether it is the function's own
        self.n_failures += 1


class OfFunction:
    """The programs of one function: code, and what its closure, its object and its keyword arguments are."""

    def __init__(self, identity: Sequence[Any]) -> None:
        self.identity = identity
        self.programs: list[SampleProgram] = []
        self.shapes: dict[Any, list[Any]] = {}  # of the inputs of samples so far, by what programs are known by

    def is_of(self, identity: Sequence[Any]) -> bool:
        return len(identity) == len(self.identity) and all(map(_same, identity, self.identity))


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and type(a) in _PLAIN and a == b)


_BY_CODE: WeakTable[Any, OfCode] = WeakTable()


def forget() -> None:
    """Begin anew, as if nothing had been called."""
    _BY_CODE.clear()


class Outcome:
    """Results of samples that ran in lockstep, by number, and those that are left."""

    loops = False  # a plain loop is better: none has run

    def __init__(self, n: int) -> None:
        self.results: list[Any] = [None] * n
        self.left = np.arange(n)
        self.n_left = n
        self.programs: list[tuple[SampleProgram, int]] = []  # that ran, for how many samples


def in_lockstep(
    fn: Callable[..., Any],
    kwargs: dict[str, Any],
    samples: Sequence[tuple[Any, ...]],
    prefers: Prefers,
    prepare: Callable[[], None],
) -> Outcome | None:
    """Run what can be run so; None if nothing can. Whether a loop is better says prefers(seconds together, of a loop).

    prepare: called before it is tried, but not for functions that are known to be recorded.
    """
    code = _code_of(fn)
    if code is None or len(samples) < 2:
        return None
    known = _known(code)
    known.n_calls += 1
    if known.n_failures >= _MOST_FAILURES and not known.has_programs():
        return None
    if not holds_tensors(samples[0]):
        return None
    arguments = SampleArguments(samples)
    if not arguments.columns:
        return None
    prepare()
    try:
        return _ran(known, fn, kwargs, arguments, prefers)
    except NotNow as why:
        known.why = str(why)
        return None
    except _FAILURES as error:
        known.failed(error)
        return None


def why_recorded(fn: Callable[..., Any]) -> str:
    """Why calls of a function do not run in lockstep, if one was tried."""
    code = _code_of(fn)
    found = None if code is None else _BY_CODE.get(code)
    return "" if found is None else found.why


def _known(code: Any) -> OfCode:
    found = _BY_CODE.get(code)
    return _BY_CODE.setdefault(code, OfCode()) if found is None else found


def _code_of(fn: Any) -> Any:
    while True:
        if isinstance(fn, Module):
            cls: Any = type(fn)
            is_plain = cls.__getattribute__ is object.__getattribute__ and isinstance(cls.forward, FunctionType)
            return cls.forward.__code__ if is_plain and cls._is_cell is not False else None
        if isinstance(fn, MethodType):
            fn = fn.__func__
        else:
            return fn.__code__ if isinstance(fn, FunctionType) else None


def _identity(fn: Any, kwargs: dict[str, Any]) -> list[Any]:
    """What makes a function another one of the same code."""
    found: list[Any] = [*kwargs, *kwargs.values()]
    if isinstance(fn, Module):
        return [*found, fn]
    if isinstance(fn, MethodType):
        found.append(fn.__self__)
        fn = fn.__func__
    try:
        cells = [cell.cell_contents for cell in fn.__closure__ or ()]
    except ValueError:
        raise Declined("a variable of the function around it is not set") from None
    return [*found, *cells, *(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()]


def _ran(
    known: OfCode, fn: Callable[..., Any], kwargs: dict[str, Any], arguments: SampleArguments, prefers: Prefers
) -> Outcome | None:
    function = _function(known, _identity(fn, kwargs))
    columns = arguments.columns
    outcome = Outcome(len(columns[0]))
    flags = [{t.requires_grad for t in column} for column in columns]
    if any(len(of_column) > 1 for of_column in flags):
        raise NotNow("some samples are tracked and others are not")
    tracked = tuple([True in of_column for of_column in flags])
    key = (arguments.key, tracked, get_default_dtype())
    given = Given(arguments, tracked)
    for program in list(function.programs):
        if program.key == key and not program.same():
            function.programs.remove(program)
    for program in function.programs:
        if program.key == key:
            if not _run_some(program, given, outcome, prefers):
                return _not_in_lockstep(program, outcome)
            if not outcome.n_left:
                return outcome
    while outcome.n_left and len(function.programs) < _MOST_PROGRAMS and known.n_failures < _MOST_FAILURES:
        n_left = outcome.n_left
        is_first = all(program.key != key for program in function.programs)
        try:
            program = _new_program(known, function, fn, kwargs, key, given, outcome.left)
            if not _run_some(program, given, outcome, prefers):
                return _not_in_lockstep(program, outcome)
        except _FAILURES as error:
            if not outcome.programs:
                raise
            known.failed(error)  # the samples that are left are recorded
            break
        if outcome.n_left == n_left and not is_first:  # the first one decides by sizes that no sample may have
            break
    return outcome if outcome.n_left < len(columns[0]) else None


def _not_in_lockstep(program: SampleProgram, outcome: Outcome) -> Outcome | None:
    """A loop is better than a program. Recording may be better than both where ops run for one sample after the other.

    It has ways for some of them.
    """
    if any(is_each for _, _, is_each in program.rules()):
        return None
    outcome.loops = True
    return outcome


class Given(NamedTuple):
    """What samples are given."""

    arguments: SampleArguments
    tracked: tuple[bool, ...]

    @property
    def shapes(self) -> list[list[tuple[int, ...]]]:
        """Of each input, those of all samples."""
        return self.arguments.shapes

    def extent(self, i: int) -> int:
        """All sizes and numbers of a sample together."""
        return sum(sum(column[i]) for column in self.shapes) + sum(int(values[i]) for values in self.arguments.numbers)


def _function(known: OfCode, identity: list[Any]) -> OfFunction:
    for found in [f for r in known.functions if (f := r()) is not None]:
        if found.is_of(identity):
            return found
    return OfFunction(identity)


def _fitting(program: SampleProgram, given: Given, left: Array) -> tuple[Lanes | None, Array]:
    """The samples among those left that a program holds for: their sizes, and their numbers."""
    shapes, numbers = given.shapes, given.arguments.numbers
    if len(left) < len(shapes[0]):
        shapes = [[column[i] for i in left.tolist()] for column in shapes]
        numbers = [values[left] for values in numbers]
    sizes = program.sizes.of(shapes)
    if sizes is None:
        return None, left[:0]
    lanes = Lanes(len(left), sizes | {number_name(i): values for i, values in enumerate(numbers)})
    holds = program.holds(lanes)
    return (lanes, left) if holds.all() else (lanes.some(holds), left[holds])


def _new_program(
    known: OfCode, function: OfFunction, fn: Any, kwargs: dict[str, Any], key: Any, given: Given, left: Array
) -> SampleProgram:
    """A program that holds for the largest of the samples that are left; an empty one may have no way of its own."""
    known.n_traces += 1
    if known.n_traces > _MOST_TRACES and known.n_traces * _CALLS_PER_TRACE > known.n_calls:
        raise Declined("what it reads from outside, or its keyword arguments, are others at almost every call")
    before = function.shapes.get(key, [])
    shapes = function.shapes[key] = [*before, *zip(*given.shapes, strict=True)][-_SHAPES_KEPT:]
    sizes = SampleSizes(list(zip(*shapes, strict=True)))
    others = [program for program in function.programs if program.key == key]
    largest = max(left.tolist(), key=given.extent)
    own = sizes.of([[column[largest]] for column in given.shapes])
    at = None
    if own is not None:
        at = {name: int(values[0]) for name, values in own.items()}
        at |= {number_name(i): int(values[largest]) for i, values in enumerate(given.arguments.numbers)}
    call = functools.partial(fn, **kwargs) if kwargs else fn
    make = functools.partial(SampleProgram, call, fn, given.arguments, given.tracked, sizes, key)
    with _TRACING:
        try:
            program = make(at if others else None)
        except _FAILURES:
            if others or at is None:
                raise
            program = make(at)  # a number may be an index, which sizes of no sample have no element for
    for other in others:
        if other.is_like(program):
            other.join(program)
    function.programs.append(program)
    _keep(known, function, program)
    return program


def _keep(known: OfCode, function: OfFunction, program: SampleProgram) -> None:
    """The programs of a function go with its weights, the oldest ones when others of the same code are known."""
    known.functions = [r for r in known.functions if r() is not None and r() is not function][-_MOST_FUNCTIONS + 1 :]
    known.functions.append(ref(function))
    kept = known.kept
    for weight in program.weights:
        if weight.requires_grad and weight._history is not None:
            kept = kinds_of_weight(weight).setdefault(("lockstep", id(known)), [])
            break
    kept[:] = [*[other for other in kept if other is not function][-_MOST_FUNCTIONS + 1 :], function]


def _run_some(program: SampleProgram, given: Given, outcome: Outcome, prefers: Prefers) -> bool:
    """Run the samples that a program holds for; False if a loop is better."""
    lanes, numbers = _fitting(program, given, outcome.left)
    if lanes is None or not numbers.size:
        return True
    if not prefers(*seconds(program, lanes)):
        return False
    columns: Columns = given.arguments.columns
    if numbers.size < len(columns[0]):
        which = numbers.tolist()
        columns = [[column[i] for i in which] for column in columns]
    results = run_program(program, columns, lanes)
    outcome.programs.append((program, numbers.size))
    outcome.n_left -= numbers.size
    if numbers.size == len(outcome.results):
        outcome.results, outcome.left = results, numbers[:0]
        return True
    for number, result in zip(numbers.tolist(), results, strict=True):
        outcome.results[number] = result
    outcome.left = np.setdiff1d(outcome.left, numbers)
    return True
