"""Arithmetic on sizes, as exporters write it: Shape, Gather, Concat, ... on NumPy arrays instead of tensors.

No tensor is read for it, so a size never waits for values, and in a program sizes stay symbols (arrays of objects). A
rule gets the inputs of a node as arrays, and its attributes; where one input is a tensor, or a rule answers None, the
operator itself runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.storage import Array

if TYPE_CHECKING:
    from ...core.tensor import Tensor

MAX_SIZES = 64  # what has more elements than a tensor dimensions is no shape
INT64 = 7  # in the format

Rule = Callable[[Sequence[Array], Mapping[str, Any]], Array | None]


def sizes_array(sizes: Sequence[Any]) -> Array:
    """Sizes as an array; of objects if some are symbols."""
    return np.array(sizes, np.int64 if all(type(n) is int for n in sizes) else object)


def shape_of(x: Tensor | Array, start: int = 0, end: int | None = None) -> Array:
    """The sizes of a tensor, or some of them."""
    return sizes_array(tuple(x.shape)[slice(start, end)])


def on_host(rule: Rule, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Array | None:
    """The result of a rule, if all inputs are arrays and it has one."""
    for x in inputs:
        if type(x) is not np.ndarray or x.size > MAX_SIZES:
            return None
    found = rule(inputs, attributes)
    return None if found is None else np.asarray(found)


def _gather(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    return np.take(inputs[0], inputs[1], axis=attributes.get("axis", 0))


def _concat(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    return np.concatenate(inputs, axis=attributes.get("axis", 0))


def _slice(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    x, *bounds = inputs
    if x.ndim != 1 or len(bounds) < 2 or any(b.size != 1 for b in bounds):
        return None
    start, stop, *rest = (b.item() for b in bounds)
    if rest and rest[0] not in (0, -1):
        return None
    return x[slice(start, stop, rest[1] if len(rest) > 1 else None)]


def _squeeze(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    return inputs[0].reshape(()) if len(inputs) == 2 and inputs[0].shape == (1,) and inputs[1].size == 1 else None


def _unsqueeze(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    return inputs[0].reshape(1) if len(inputs) == 2 and inputs[0].shape == () and inputs[1].size == 1 else None


def _reshape(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    return inputs[0].reshape(inputs[1].tolist()) if len(inputs) == 2 and np.all(inputs[1] != 0) else None


def _cast(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    return inputs[0] if attributes["to"] == INT64 and inputs[0].dtype != bool else None


def _div(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    x, y = inputs
    if not np.all(y != 0):
        raise ZeroDivisionError("division of a size by 0")
    quotient = x // y
    if quotient.dtype == object:  # symbols are sizes, and not negative
        return quotient
    return np.where((quotient < 0) & (quotient * y != x), quotient + 1, quotient)  # the format rounds towards 0


def _mod(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    return None if attributes.get("fmod") or not np.all(inputs[1] != 0) else inputs[0] % inputs[1]


def _constant_of_shape(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    value = attributes.get("value")
    (shape,) = inputs
    if value is None or value.dtype != np.int64 or shape.shape != (1,) or type(shape[0]) is not np.int64:
        return None
    return np.full(shape, value.reshape(())) if 0 <= shape[0] <= MAX_SIZES else None


RULES: dict[str, Rule] = {
    "Gather": _gather,
    "Concat": _concat,
    "Slice": _slice,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "Cast": _cast,
    "Add": lambda inputs, attributes: inputs[0] + inputs[1],
    "Sub": lambda inputs, attributes: inputs[0] - inputs[1],
    "Mul": lambda inputs, attributes: inputs[0] * inputs[1],
    "Div": _div,
    "Mod": _mod,
    "ConstantOfShape": _constant_of_shape,
    "Equal": lambda inputs, attributes: np.asarray(inputs[0] == inputs[1]).astype(bool),
    "Greater": lambda inputs, attributes: np.asarray(inputs[0] > inputs[1]).astype(bool),
    "Less": lambda inputs, attributes: np.asarray(inputs[0] < inputs[1]).astype(bool),
    "Where": lambda inputs, attributes: np.where(*inputs),
}
