"""Guards as generated Python: one function of plain comparisons, for arguments just like those of the recorded call.

It is the fast path, and only says whether all of them hold; `Arguments.take` knows all that may be otherwise and still
fits (a view, a lazy tensor), and what to say of what does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from ...core.graph import Node
from ...core.tensor import Tensor
from .guards import (
    IN_ORDER,
    Argument,
    Arguments,
    FixedArgument,
    MappingArgument,
    NumberArgument,
    SameArgument,
    SequenceArgument,
    Slots,
    TensorArgument,
)

Fits = Callable[[tuple[Any, ...], Mapping[str, Any], Slots], bool]


class _Unusual(Exception):
    """An argument that has to be looked at in any case."""


class _GuardWriter:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.globals: dict[str, Any] = {"Tensor": Tensor, "Node": Node, "object": object}
        self._names = (f"x{i}" for i in count())
        self.tensors: list[str] = []
        self.numbers: list[tuple[int, str]] = []  # slots, and what they get
        self._of_slot: dict[int, str] = {}

    def fails_if(self, condition: str) -> None:
        self.lines.append(f"if {condition}: return False")

    def name(self, value: Any) -> str:
        found = f"g{len(self.globals)}"
        self.globals[found] = value
        return found

    def sequence(self, source: str, items: list[Argument]) -> None:
        self.fails_if(f"len({source}) != {len(items)}")
        if items:
            names = [next(self._names) for _ in items]
            self.lines.append(f"{', '.join(names)}, = {source}")
            for name, item in zip(names, items, strict=True):
                self.argument(name, item)

    def mapping(self, source: str, items: dict[Any, Argument]) -> None:
        self.fails_if(f"len({source}) != {len(items)}")
        for key, item in items.items():
            name = next(self._names)
            self.lines.append(f"{name} = {source}.get({self.name(key)}, {source})")  # itself: like no argument
            self.argument(name, item)

    def argument(self, x: str, argument: Argument) -> None:
        if isinstance(argument, TensorArgument) and argument.strides is None:
            type_ = self.name(argument.type)
            self.fails_if(f"type({x}) is not Tensor or {x}._alias is not None")
            self.fails_if(f"{x}._source is not None and type({x}._source) is not object")
            self.fails_if(f"{x}._type is not {type_} and {x}._type != {type_}")
            if argument.tracked:
                self.fails_if(f"type({x}._history) is not Node")
            else:
                self.fails_if(f"{x}._history is not None and type({x}._history) is Node")
            self.fails_if(f"{x}._data.flags.num & {IN_ORDER} != {IN_ORDER}")
            self.tensors.append(x)
            self._of_slot[argument.slot] = x
        elif isinstance(argument, SameArgument):
            self.fails_if(f"{x} is not {self._of_slot[argument.first.slot]}")
        elif isinstance(argument, NumberArgument):
            self.fails_if(f"type({x}) is not {self.name(type(argument.value))}")
            self.numbers.append((argument.slot, x))
        elif isinstance(argument, FixedArgument):
            self.fails_if(f"{x} is not {self.name(argument.value)}")
        elif isinstance(argument, SequenceArgument):
            self.fails_if(f"type({x}) is not {self.name(argument.kind)}")
            self.sequence(x, argument.items)
        elif isinstance(argument, MappingArgument):
            self.fails_if(f"type({x}) is not {self.name(argument.kind)}")
            self.mapping(x, argument.items)
        else:
            raise _Unusual

    def memory(self, outside: frozenset[int]) -> None:
        if outside and self.tensors:
            ids = ", ".join(f"id({x})" for x in self.tensors)
            self.fails_if(f"not {self.name(outside)}.isdisjoint(({ids},))")
        if len(self.tensors) > 1:
            memories = ", ".join(f"{x}._memory" for x in self.tensors)
            self.fails_if(f"len({{{memories}}}) != {len(self.tensors)}")

    def made(self) -> Fits:
        for slot, x in (*self._of_slot.items(), *self.numbers):
            self.lines.append(f"s[{slot}] = {x}")
        text = "\n    ".join(["def fits(args, kwargs, s):", *self.lines, "return True"])
        exec(text, self.globals)
        found: Fits = self.globals["fits"]
        return found


def fits_of(arguments: Arguments) -> Fits:
    """What puts arguments into their slots, and says whether it did; if not, `arguments.take` has to."""
    writer = _GuardWriter()
    try:
        writer.sequence("args", arguments.positional)
        writer.mapping("kwargs", arguments.named)
        if arguments.shares_memory:
            raise _Unusual
        writer.memory(arguments.outside)
    except _Unusual:
        return lambda args, kwargs, slots: False
    return writer.made()
