"""Arithmetic on sizes, as exporters write it: Shape, Gather, Concat, ... on NumPy arrays instead of tensors.

No tensor is read for it, so a size never waits for values, and in a program sizes stay symbols (arrays of objects). A
rule gets the inputs of a step, and answers None where one of them is a tensor: then the operator itself runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.storage import Array
from .reading import NUMBERS

if TYPE_CHECKING:
    from ...core.tensor import Tensor
    from .graphs import Step

Rule = Callable[[Sequence[Any], "Step"], Array | None]


def sizes_array(sizes: Sequence[Any]) -> Array:
    """Sizes as an array; of objects if some are symbols."""
    return np.array(sizes, np.int64 if all(type(n) is int for n in sizes) else object)


def _all_arrays(rule: Callable[[list[Array], dict[str, Any]], Array]) -> Rule:
    def run(inputs: Sequence[Any], step: Step) -> Array | None:
        if not all(type(x) is np.ndarray for x in inputs):
            return None
        found = rule(list(inputs), step.attributes)
        return found if type(found) is np.ndarray else np.asarray(found)

    return run


def shape_of(x: Tensor, start: int = 0, end: int | None = None) -> Array:
    """The sizes of a tensor, or some of them."""
    return sizes_array(tuple(x.shape)[slice(start, end)])


def _shape(inputs: Sequence[Any], step: Step) -> Array | None:
    return shape_of(inputs[0], **step.attributes)


def _gather(inputs: list[Array], attributes: dict[str, Any]) -> Array:
    return np.take(inputs[0], inputs[1], axis=attributes.get("axis", 0))


def _concat(inputs: list[Array], attributes: dict[str, Any]) -> Array:
    return np.concatenate(inputs, axis=attributes.get("axis", 0))


def _slice(inputs: Sequence[Any], step: Step) -> Array | None:
    x = inputs[0]
    known = [a.known for a in step.arguments[1:]]
    if type(x) is not np.ndarray or x.ndim != 1 or any(k is None or len(k) != 1 for k in known) or len(known) < 2:
        return None
    if len(known) > 2 and known[2][0] not in (0, -1):
        return None
    return x[slice(known[0][0], known[1][0], known[3][0] if len(known) > 3 else None)]


def _reshaped(inputs: Sequence[Any], step: Step) -> Array | None:
    """Squeeze, Unsqueeze and Reshape between a number and a row of one."""
    x = inputs[0]
    if type(x) is not np.ndarray or x.size != 1 or len(step.arguments) != 2:
        return None
    known = step.arguments[1].known
    if step.operator.name == "Reshape":
        return x.reshape(1) if known in ([1], [-1]) else None
    if step.operator.name == "Unsqueeze":
        return x.reshape(1) if x.ndim == 0 and known in ([0], [-1]) else None
    return x.reshape(()) if x.ndim == 1 and known in ([0], [-1]) else None


def _cast(inputs: Sequence[Any], step: Step) -> Array | None:
    x = inputs[0]
    return x if type(x) is np.ndarray and step.attributes["to"] == DTYPE_INT64 else None


def _divided(inputs: list[Array], attributes: dict[str, Any]) -> Array:
    x, y = inputs
    if not np.all(y != 0):
        raise ZeroDivisionError("division of a size by 0")
    quotient = x // y
    return np.where((quotient < 0) & (quotient * y != x), quotient + 1, quotient) if x.dtype != object else quotient


DTYPE_INT64 = next(number for d, number in NUMBERS.items() if d.numpy == np.int64)

HOST: dict[str, Rule] = {
    "Shape": _shape,
    "Gather": _all_arrays(_gather),
    "Concat": _all_arrays(_concat),
    "Slice": _slice,
    "Unsqueeze": _reshaped,
    "Squeeze": _reshaped,
    "Reshape": _reshaped,
    "Cast": _cast,
    "Add": _all_arrays(lambda inputs, attributes: inputs[0] + inputs[1]),
    "Sub": _all_arrays(lambda inputs, attributes: inputs[0] - inputs[1]),
    "Mul": _all_arrays(lambda inputs, attributes: inputs[0] * inputs[1]),
    "Div": _all_arrays(_divided),
}
