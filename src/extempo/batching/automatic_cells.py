"""What becomes a cell by itself, modules and regions of functions: when it pays, and the proof that it only computes.

A user's module is a candidate, and so is a region of a function (`outlining`). Three calls with one signature make it
worth a trace; a module whose arguments have another size or structure at almost every call stays an ordinary function,
whose ops run together with those of other sizes. What decides is counted, never timed. Before a trace `prove` runs the
forward on symbols, instruction by instruction (`checked_bytecode`): one that may do more than compute is an ordinary
function, and nothing has happened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..core.types import TensorType
from ..nn.module import Module
from ..nn.parameter import Buffer, Parameter
from .cell_tracer import CellTracer, Declined
from .checked_bytecode import CheckedRun
from .kinds import Input
from .pure_calls import Impure, is_tuple
from .purity_guards import PurityGuards
from .read_search import ReadSearch, attributes_of

_CALLS_BEFORE = 2  # of one signature, that run as their ops before one is traced
_MOST_SIZES = 3  # signatures that differ in sizes alone
_MOST_FORMS = 4  # signatures that differ in more
_MOST_OPS = 500  # of a cell; of a body with more, parts are cells
_MOST_PARTS = 64  # of the arguments of one call
_LEAVES = frozenset((Tensor, Parameter, Buffer, int, float, bool, str, type(None)))
_TAKEN_APART = (Tensor, list, tuple, dict, int, float, str, np.ndarray, np.generic)  # by signatures

LOOKED_AT = "it looks at numbers (compares them, computes with them) that are others at each call"
VARIED = "its arguments have another size or structure at almost every call"


Culprit = tuple[int, int, int, int] | int | None  # a place in the source, the number of a result, or nothing known


class Candidate:
    """What was counted of the calls of one module or region."""

    __slots__ = ("_calls", "_ordinary", "_sizes")

    least_ops = 0  # of the body, for a call of it to gain

    def __init__(self) -> None:
        self._calls: dict[tuple[Any, ...], int] = {}  # by signature
        self._sizes: dict[tuple[Any, ...], set[tuple[Any, ...]]] = {}  # by what signatures have in common
        self._ordinary: dict[bool, str] = {}  # why it is an ordinary function, by whether it is in training

    def why_ordinary(self, module: Module | None) -> str:
        """Why calls are to run as their ops, in the mode that the module is in; "" if they need not."""
        return self._ordinary.get(_is_training(module), "") if self._ordinary else ""

    def give_up(self, module: Module | None, why: str, where: Culprit = None) -> None:
        """In this mode; what was counted does not speak of the other one. where: what in the body it is about."""
        self._ordinary[_is_training(module)] = why
        self._calls.clear()
        self._sizes.clear()

    def unusual(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """What is among the arguments that a cell would see other than as it is; "" if nothing is."""
        return unusual(args, kwargs)

    def count(self, marks: tuple[Any, ...], args: tuple[Any, ...]) -> str | None:
        """Count a call. None: it is to be traced; "": it is too early; otherwise why it never will be."""
        form, sizes = _form_and_sizes(marks)
        known = self._sizes.setdefault(form, set())
        known.add(sizes)
        if len(known) > _MOST_SIZES or len(self._sizes) > _MOST_FORMS:
            return VARIED
        n_calls = self._calls[marks] = self._calls.get(marks, 0) + 1
        return None if n_calls > _CALLS_BEFORE else ""


def _is_training(module: Module | None) -> bool:
    return bool((attributes_of(module) or {}).get("training"))  # a property of the user's may count who asks


def _form_and_sizes(marks: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Of a signature; sizes without what is tracked, which has no bearing on them."""
    form: list[Any] = []
    sizes: list[Any] = []
    for i, mark in enumerate(marks):
        if isinstance(mark, TensorType):
            form.append((mark.dtype, len(mark.shape)))
            sizes.append(mark.shape)
        elif type(mark) is int and i and isinstance(marks[i - 1], type):  # the length of a container
            sizes.append(mark)
        elif type(mark) is not bool or (i and marks[i - 1] is bool):
            form.append(mark)
    return tuple(form), tuple(sizes)


def unusual(args: tuple[Any, ...], kwargs: dict[str, Any], objects: bool = False) -> str:
    """What is among the arguments that a cell would see other than as it is; "" if nothing is.

    objects: those of other classes may be among them, which are known by their identity.
    """
    left: list[Any] = [*args, *kwargs.values()]
    n = 0
    while left:
        x = left.pop()
        kind = type(x)
        n += 1
        if n > _MOST_PARTS:
            return VARIED
        if kind is list or is_tuple(kind):
            left.extend(x)
        elif kind is dict:
            if not all(type(key) is str for key in x):
                return "it gets a dict whose keys are no strings"
            left.extend(x.values())
        elif kind not in _LEAVES and not (objects and not issubclass(kind, _TAKEN_APART)):
            return f"it gets a {kind.__name__}"
    return ""


class Proof:
    """That a call only computes; and what is to be watched for it to stay so."""

    def __init__(self, name: str, types: list[Input], grad: bool, is_cell: bool = True) -> None:
        """is_cell: rather than the function of a sample, which may be as long as it likes."""
        self.tracer = CellTracer(name, types, PurityGuards(), grad, marked=False)
        self.tracer.only_checks = not is_cell
        self._run = CheckedRun(self.tracer, is_cell)
        self._is_cell = is_cell

    def check(self, body: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call of the body with these symbols returns; Declined if it does anything but compute."""
        try:
            result = self.tracer.run(self._run.run, (body, args, kwargs), {})
        except Declined as why:
            where = self._run.where
            raise Declined(f"{why}, at {where}" if where else str(why), self._run.position) from None
        except Impure as why:
            raise Declined(str(why), self._run.position) from None
        except Exception as error:  # whatever it is: the ordinary function shows it, if it is one
            raise Declined(f"on symbols it raises {type(error).__name__}: {error}", self._run.position) from None
        if self._is_cell and len(self.tracer.steps) > _MOST_OPS:
            raise Declined(f"it has more than {_MOST_OPS} ops")
        if not self.tracer.looked_at:
            try:
                self._check_result(result)
            except Declined as why:
                raise Declined(str(why), self._bad_part(result)) from None
        return result

    def _bad_part(self, result: Any) -> int:
        """Which part of a tuple of results it is that must not be one; 0 if the result is none."""
        for number, part in enumerate(result if type(result) is tuple else ()):
            try:
                self._check_result(part)
            except Declined:
                return number
        return 0

    def _check_result(self, result: Any) -> None:
        """What is returned must be new: a cell gives tensors and containers of its own."""
        left, found = [result], []
        while left:
            x = left.pop()
            kind = type(x)
            if isinstance(x, Tensor):
                found.append(x)
            elif kind is list or is_tuple(kind):
                left.extend(x)
            elif kind is dict:
                left.extend(x.values())
            elif kind not in _LEAVES:
                raise Declined(f"it returns a {kind.__name__}")
        if any(t._source is not self.tracer for t in found):
            raise Declined("it returns a tensor that it has not computed")
        self.tracer.check_own([t._value_id for t in found])

    def watch(self, search: ReadSearch) -> None:
        """Declined if something that was read is not what the search has found."""
        why = self._run.unwatched(search)
        if why:
            raise Declined(why)

    def looked_up(self) -> list[Tensor]:
        """Tensors from outside whose shape or dtype the body asks for."""
        found = list(self._run.outside.values())
        if any(t._source is not None for t in found):
            raise Declined("it reads a tensor of the sample that is not an argument")
        return found
