"""`torch.distributions.utils`: its inner names, which distributions of other libraries are made of."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...core.tensor import Tensor
from ...core.types import dtype
from ...distributions.utils import sum_rightmost as _sum_rightmost
from ...nn.functional import softplus as softplus

__all__ = ["_standard_normal", "_sum_rightmost"]


def _standard_normal(shape: Any, dtype: dtype, device: Any) -> Tensor:
    """Draws of mean 0 and variance 1."""
    return ops.randn(tuple(shape), dtype=dtype)
