"""Small modules, and the bound of initial weights, that several test files of nn use."""

from __future__ import annotations

import math

import extempo as ex
from extempo import nn


class Scale(nn.Module):
    def __init__(self, size: int = 2) -> None:
        super().__init__()
        self.weight = nn.Parameter(ex.full((size,), 2.0))
        self.register_buffer("seen", ex.zeros(1))
        self.register_buffer("scratch", ex.zeros(1), persistent=False)

    def forward(self, x: ex.Tensor, times: int = 1) -> ex.Tensor:
        return x * self.weight * times


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Scale()
        self.second = Scale()
        self.shared = self.first

    def forward(self, x: ex.Tensor) -> ex.Tensor:
        return self.second(self.first(x))


def fan_in_bound(weight: ex.Tensor) -> float:
    return 1 / math.sqrt(math.prod(weight.shape[1:]))
