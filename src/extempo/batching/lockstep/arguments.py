"""The arguments of samples: which of them are inputs of a program, and what the function gets in their place.

Tensors are inputs; of nested tuples, lists and dicts that are alike in all samples, those in them. An int that is not
negative is a number of each sample's own, which is traced as sizes are. Other values are part of the program if they
are the same in all samples. What is left is `Unread`: a function that does anything with it is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.storage import Array
from ...core.tensor import Tensor
from ...func.tree import is_leaf

_PLAIN = (int, float, bool, str, bytes, type(None))
_CONTAINERS = (tuple, list, dict)


class Unread:
    """Stands for an argument that is no input."""


class _Input:
    """The place of a tensor among the arguments."""

    def __init__(self, number: int) -> None:
        self.number = number


class _Number:
    """The place of an int of each sample's own."""

    def __init__(self, number: int) -> None:
        self.number = number


def holds_tensors(sample: tuple[Any, ...]) -> bool:
    """Whether there is a tensor among the arguments of a sample: without one there are no inputs."""
    left: list[Any] = [sample]
    seen: set[int] = set()
    while left:
        values = left.pop()
        if id(values) in seen:  # a list that is in itself
            continue
        seen.add(id(values))
        values = values.values() if type(values) is dict else values
        kinds = set(map(type, values))
        if Tensor in kinds:
            return True
        if not kinds.isdisjoint(_CONTAINERS):
            left += [x for x in values if type(x) in _CONTAINERS]
    return False


class SampleArguments:
    """Those of all samples of a call, taken apart."""

    def __init__(self, samples: Sequence[tuple[Any, ...]]) -> None:
        self.columns: list[Sequence[Tensor]] = []  # of each input, those of all samples
        self.shapes: list[list[tuple[int, ...]]] = []  # of each input, those of all samples
        self.numbers: list[Array] = []  # of each number
        self._places = tuple([self._place(column) for column in zip(*samples, strict=True)])
        self.key = (_key(self._places), tuple([column[0]._type.dtype for column in self.columns]))

    def _place(self, column: Sequence[Any]) -> Any:
        first = column[0]
        kind = type(first)
        if kind is Tensor:
            shapes = _shapes_of(column)
            if shapes is not None:
                self.columns.append(column)
                self.shapes.append(shapes)
                return _Input(len(self.columns) - 1)
        elif kind in _PLAIN:
            if all(type(x) is kind and x == first for x in column):
                return first
            if kind is int and all(type(x) is int and 0 <= x < 2**31 for x in column):
                self.numbers.append(np.array(column, np.int64))
                return _Number(len(self.numbers) - 1)
        elif kind in _CONTAINERS:
            return self._nested(column, kind)
        return Unread()

    def _nested(self, column: Sequence[Any], kind: Any) -> Any:
        first: Any = column[0]
        if any(type(x) is not kind or len(x) != len(first) for x in column):
            return Unread()
        if kind is dict:
            if any(list(x) != list(first) for x in column):
                return Unread()
            return {key: self._place([x[key] for x in column]) for key in first}
        return kind([self._place([x[i] for x in column]) for i in range(len(first))])

    def filled(self, inputs: Sequence[Any], numbers: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments of one call with these in place of inputs and numbers."""
        return tuple([_filled(place, inputs, numbers) for place in self._places])


def _filled(place: Any, inputs: Sequence[Any], numbers: Sequence[Any]) -> Any:
    kind = type(place)
    if kind is _Input:
        return inputs[place.number]
    if kind is _Number:
        return numbers[place.number]
    if kind is dict:
        return {key: _filled(part, inputs, numbers) for key, part in place.items()}
    return kind([_filled(part, inputs, numbers) for part in place]) if kind in (tuple, list) else place


def _key(place: Any) -> Any:
    """What programs that take such arguments have in common; it can be hashed."""
    if is_leaf(place):
        is_plain = type(place) in _PLAIN
        return (type(place), place) if is_plain else type(place)
    keys = tuple(place) if type(place) is dict else len(place)
    return (type(place), keys, *[_key(part) for part in (place.values() if type(place) is dict else place)])


def _shapes_of(column: Sequence[Any]) -> list[tuple[int, ...]] | None:
    """The shapes of tensors; None if not all are tensors with values, of one dtype and number of dimensions."""
    if {*map(type, column)} != {Tensor} or True in [x._data is None for x in column]:
        return None
    types = [x._type for x in column]
    shapes = [t.shape for t in types]
    return shapes if len({t.dtype for t in types}) == 1 and len({*map(len, shapes)}) == 1 else None
