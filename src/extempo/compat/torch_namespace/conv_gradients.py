"""`torch.nn.grad`: the gradients of convolutions as functions, for libraries that write their own backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import autograd, ops
from ...core.tensor import Tensor
from ...nn import functional as F

Sizes = int | Sequence[int]


def _pair(convolution: Callable[..., Tensor]) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """The gradients of one convolution in its input and in its weight."""

    def conv_input(
        input_size: Sequence[int],
        weight: Tensor,
        grad_output: Tensor,
        stride: Sizes = 1,
        padding: Any = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Tensor:
        """The gradient in an input of this size, for a gradient of the result."""
        input = ops.zeros(tuple(input_size), dtype=weight.dtype).requires_grad_()
        with autograd.enable_grad():
            result = convolution(input, weight.detach(), None, stride, padding, dilation, groups)
        return autograd.grad(result, input, grad_output)[0]

    def conv_weight(
        input: Tensor,
        weight_size: Sequence[int],
        grad_output: Tensor,
        stride: Sizes = 1,
        padding: Any = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Tensor:
        """The gradient in a weight of this size, for a gradient of the result."""
        weight = ops.zeros(tuple(weight_size), dtype=input.dtype).requires_grad_()
        with autograd.enable_grad():
            result = convolution(input.detach(), weight, None, stride, padding, dilation, groups)
        return autograd.grad(result, weight, grad_output)[0]

    return conv_input, conv_weight


conv1d_input, conv1d_weight = _pair(F.conv1d)
conv2d_input, conv2d_weight = _pair(F.conv2d)
conv3d_input, conv3d_weight = _pair(F.conv3d)
