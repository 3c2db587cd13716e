"""What families of layers share: sizes per dimension, the usual initialisation, texts of errors and reprs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ..core.context import no_grad
from ..core.tensor import Tensor
from ..core.types import count
from ..errors import ArgumentError, ShapeError
from .module import Module

Sizes = int | Sequence[int]


class Shown(Module):
    """A layer whose repr shows the attributes named in `_shown`."""

    _shown: ClassVar[tuple[str, ...]] = ()

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)


def per_dimension(layer: str, name: str, value: Sizes, n: int) -> tuple[int, ...]:
    """The value for each of n dimensions: one number stands for all of them."""
    if isinstance(value, int):
        return (value,) * n
    sizes = tuple(value)
    if len(sizes) != n:
        raise ArgumentError(f"{layer}: {name} must be one int or {n} of them, got {value!r}")
    return sizes


def draw_by_fan_in(weight: Tensor, bias: Tensor | None) -> None:
    """Fill both from the uniform distribution between -b and b, where b is 1 / sqrt(inputs of one output).

    This is `init.kaiming_uniform_(weight, a=math.sqrt(5))`, and PyTorch's default of linear and convolution layers.
    """
    fan_in = count(weight.shape[1:])
    bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
    draw_within(bound, weight, bias)


def draw_within(bound: float, *parameters: Tensor | None) -> None:
    """Fill each parameter from the uniform distribution between -bound and bound."""
    with no_grad():
        for parameter in parameters:
            if parameter is not None:
                parameter.uniform_(-bound, bound)


def misfit(layer: Module, expected: str, error: ShapeError, *inputs: Tensor) -> ShapeError:
    """The error of an op, with the layer's name, what it expected and what came in front."""
    came = " and ".join(str(tuple(x.shape)) for x in inputs)
    return ShapeError(f"{type(layer).__name__}: expected {expected}, got shape {came} ({error})")


def changed(layer: Module, defaults: Mapping[str, Any]) -> str:
    """`, name=value` for each attribute that is not at its default."""
    values = {name: getattr(layer, name) for name in defaults}
    return "".join(f", {name}={value!r}" for name, value in values.items() if value != defaults[name])
