"""Layers that multiply by a weight: Linear, Bilinear, and Identity, which does not."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from ..errors import ShapeError
from . import functional as F
from .layer_support import draw_by_fan_in, draw_within, misfit
from .module import Module
from .parameter import Parameter

__all__ = ["Bilinear", "Identity", "Linear"]


class Identity(Module):
    """Returns its input. It takes any arguments, so that it can stand in for any layer.

    >>> nn.Identity(54, unused=True)(ex.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """x @ weight.T + bias over the last dimension: (..., in_features) -> (..., out_features).

    Weight (out_features, in_features) and bias start uniform between -b and b, b = 1 / sqrt(in_features).

    >>> nn.Linear(5, 2)(ex.zeros(3, 5)).shape
    extempo.Size([3, 2])
    """

    _is_cell = True
    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(ops.empty((out_features, in_features), device=device, dtype=dtype))
        self.register_parameter(
            "bias", Parameter(ops.empty(out_features, device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        draw_by_fan_in(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        try:
            return F.linear(input, self.weight, self.bias)
        except ShapeError as error:
            raise misfit(self, f"input (..., in_features={self.in_features})", error, input) from None

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """y[..., k] = x1 @ weight[k] @ x2 + bias[k]: (..., in1_features) and (..., in2_features) -> (..., out_features).

    >>> nn.Bilinear(2, 3, 4)(ex.zeros(5, 2), ex.zeros(5, 3)).shape
    extempo.Size([5, 4])
    """

    _is_cell = True
    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ShapeError(f"Bilinear: in1_features must be at least 1, got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(ops.empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        self.register_parameter(
            "bias", Parameter(ops.empty(out_features, device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias uniformly between -b and b, b = 1 / sqrt(in1_features)."""
        draw_within(1 / math.sqrt(self.in1_features), self.weight, self.bias)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        try:
            return F.bilinear(input1, input2, self.weight, self.bias)
        except ShapeError as error:
            expected = f"inputs (..., in1_features={self.in1_features}) and (..., in2_features={self.in2_features})"
            raise misfit(self, expected, error, input1, input2) from None

    def extra_repr(self) -> str:
        sizes = f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}"
        return f"{sizes}, bias={self.bias is not None}"
