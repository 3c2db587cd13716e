"""Arguments and results of cells: taken apart into inputs (tensors and numbers), and put together again.

The signature of a call is a list of marks: what there is to know of its arguments but for values. A tensor counts by
its type and by whether it is tracked, a float or int by its type, a bool, string or None as it is, another object by
its id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core.graph import Node
from ..core.tensor import Tensor, from_array
from ..core.types import TensorType

_PLAIN = (bool, str, bytes, type(None))
_SEQUENCES = (tuple, list)  # a tuple of classes: isinstance() takes three times as long for a union


def take_apart(x: Any, marks: list[Any], inputs: list[Any], grad: bool) -> None:
    """Add what one argument says to the signature and to the inputs."""
    kind = type(x)
    if kind is int or kind is float:
        marks.append(kind)
        inputs.append(x)
    elif isinstance(x, _SEQUENCES):
        marks += (kind, len(x))
        for part in x:
            if type(part) is Tensor and part._alias is None:
                marks += (part._type, grad and type(part._history) is Node)
                inputs.append(part)
            else:
                take_apart(part, marks, inputs, grad)
    elif isinstance(x, Tensor):
        marks += (x._type, grad and x.requires_grad)
        inputs.append(x)
    elif isinstance(x, dict):
        marks += (kind, len(x))
        for key, part in x.items():
            marks.append(key)
            take_apart(part, marks, inputs, grad)
    elif isinstance(x, np.ndarray):
        take_apart(from_array(x), marks, inputs, grad)
    elif isinstance(x, np.generic):
        take_apart(x.item(), marks, inputs, grad)
    else:
        marks += (kind, x if kind in _PLAIN else id(x))


def without_sizes(marks: Iterable[Any]) -> tuple[Any, ...]:
    """What signatures that differ in the sizes of tensors have in common."""
    return tuple([(len(mark.shape), mark.dtype) if isinstance(mark, TensorType) else mark for mark in marks])


def filled(x: Any, values: Iterator[Any]) -> Any:
    """The arguments with others in place of the inputs."""
    if isinstance(x, Tensor | np.ndarray) or type(x) in (int, float):
        return next(values)
    if isinstance(x, np.generic):
        item = x.item()
        return next(values) if type(item) in (int, float) else item
    if isinstance(x, dict):
        named = {key: filled(part, values) for key, part in x.items()}
        return named if type(x) is dict else type(x)(named)
    return _sequence_like(x, [filled(part, values) for part in x]) if isinstance(x, _SEQUENCES) else x


def _sequence_like(x: Any, parts: list[Any]) -> Any:
    """A tuple, named tuple or list of the class of `x`."""
    return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)


def objects(x: Any) -> list[Any]:
    """What is no input and no plain constant, among arguments."""
    if isinstance(x, Tensor | np.ndarray | np.generic) or type(x) in (int, float, *_PLAIN):
        return []
    if isinstance(x, (dict, *_SEQUENCES)):
        return [o for part in (x.values() if isinstance(x, dict) else x) for o in objects(part)]
    return [x]


def type_of(x: Any, grad: bool) -> tuple[Any, bool]:
    return (x._type, grad and x.requires_grad) if isinstance(x, Tensor) else (type(x), False)


class _Result:
    """Stands for a tensor in a structure."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position


def structure_of(x: Any, results: list[Tensor]) -> Any:
    """What a cell returned, without its tensors, which go to `results`: each once, so that it is one again."""
    if isinstance(x, Tensor):
        for position, known in enumerate(results):
            if known is x:
                return _Result(position)
        results.append(x)
        return _Result(len(results) - 1)
    if isinstance(x, dict):
        return {key: structure_of(part, results) for key, part in x.items()}
    return _sequence_like(x, [structure_of(part, results) for part in x]) if isinstance(x, _SEQUENCES) else x


def rebuilder(structure: Any) -> Callable[[list[Tensor]], Any]:
    """A function that puts results where a structure had them."""
    if type(structure) is _Result:
        return lambda results: results[0]
    if isinstance(structure, _SEQUENCES) and all(
        type(part) is _Result and part.position == i for i, part in enumerate(structure)
    ):
        kind = type(structure)
        return kind._make if hasattr(kind, "_make") else kind
    return lambda results: _put(structure, results)


def _put(structure: Any, results: Sequence[Tensor]) -> Any:
    if type(structure) is _Result:
        return results[structure.position]
    if isinstance(structure, dict):
        return {key: _put(part, results) for key, part in structure.items()}
    if isinstance(structure, _SEQUENCES):
        return _sequence_like(structure, [_put(part, results) for part in structure])
    return structure
