"""Convolutions and their transposes over one, two and three spatial dimensions, with or without a batch.

The dimensions differ by class attributes only. Weights are (out, in / groups, *kernel), those of transposed ones
(in, out / groups, *kernel); weight and bias start uniform between -b and b, b = 1 / sqrt(size of one weight[0]).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from .. import ops
from ..core.tensor import Tensor
from ..errors import ArgumentError, ShapeError
from . import functional as F
from .layer_support import Sizes, draw_by_fan_in, misfit, per_dimension
from .module import Module
from .parameter import Parameter

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")
_AXES = {1: "length", 2: "height, width", 3: "depth, height, width"}


class _ConvNd(Module):
    """Arguments, parameters and repr of all convolutions."""

    _n: ClassVar[int]
    _function: ClassVar[Callable[..., Tensor]]
    transposed = False
    bias: Parameter | None
    padding: tuple[int, ...] | str

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if groups < 1 or in_channels % groups or out_channels % groups:
            channels = f"in_channels={in_channels} and out_channels={out_channels}"
            raise ShapeError(f"{name}: {channels} do not fall into groups={groups} equal groups")
        if padding_mode not in _PADDING_MODES:
            raise ArgumentError(f"{name}: padding_mode must be one of {_PADDING_MODES}, got {padding_mode!r}")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = per_dimension(name, "kernel_size", kernel_size, self._n)
        self.stride = per_dimension(name, "stride", stride, self._n)
        self.dilation = per_dimension(name, "dilation", dilation, self._n)
        self.output_padding = (0,) * self._n
        self.padding = padding if isinstance(padding, str) else per_dimension(name, "padding", padding, self._n)
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._border()
        outer, inner = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (outer, inner // groups, *self.kernel_size)
        self.weight = Parameter(ops.empty(shape, device=device, dtype=dtype))
        self.register_parameter(
            "bias", Parameter(ops.empty(out_channels, device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def _border(self) -> list[int]:
        """The padding as F.pad takes it: before and after, from the last dimension to the first."""
        if not isinstance(self.padding, str):
            return [p for p in reversed(self.padding) for _ in range(2)]
        if self.padding not in ("same", "valid"):
            name = type(self).__name__
            raise ArgumentError(f"{name}: padding must be ints, 'same' or 'valid', got {self.padding!r}")
        if self.padding == "valid":
            return [0] * (2 * self._n)
        if any(s != 1 for s in self.stride):
            raise ArgumentError(f"{type(self).__name__}: padding='same' needs stride 1, got {self.stride}")
        totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
        return [side for total in reversed(totals) for side in (total // 2, total - total // 2)]

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        draw_by_fan_in(self.weight, self.bias)

    def _misfit(self, error: ShapeError, input: Tensor) -> ShapeError:
        inner = f"in_channels={self.in_channels}, {_AXES[self._n]}"
        return misfit(self, f"input (batch, {inner}) or ({inner})", error, input)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        zeros, ones = (0,) * self._n, (1,) * self._n
        usual = {"padding": zeros, "dilation": ones, "output_padding": zeros, "groups": 1}
        text += "".join(f", {name}={getattr(self, name)}" for name in usual if getattr(self, name) != usual[name])
        text += ", bias=False" if self.bias is None else ""
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode}"


class _Conv(_ConvNd):
    _is_cell = True

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution with this weight; layers that change the weight before its use call it."""
        try:
            if self.padding_mode == "zeros":
                return self._function(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
            padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            return self._function(padded, weight, bias, self.stride, 0, self.dilation, self.groups)
        except ShapeError as error:
            raise self._misfit(error, input) from None


class Conv1d(_Conv):
    """Convolution over (batch, in_channels, length) or (in_channels, length).

    `padding` is numbers, "same" or "valid"; `padding_mode` says what is beyond the border: zeros, reflect, replicate or
    circular.

    >>> nn.Conv1d(3, 8, kernel_size=5, padding="same")(ex.zeros(2, 3, 10)).shape
    extempo.Size([2, 8, 10])
    """

    _n = 1
    _function = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """Convolution over (batch, in_channels, height, width) or (in_channels, height, width); see Conv1d.

    >>> nn.Conv2d(3, 8, kernel_size=3, stride=2, padding=1)(ex.zeros(3, 32, 32)).shape
    extempo.Size([8, 16, 16])
    """

    _n = 2
    _function = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """Convolution over (batch, in_channels, depth, height, width), or without batch; see Conv1d.

    >>> nn.Conv3d(1, 2, kernel_size=(1, 2, 3))(ex.zeros(1, 1, 4, 4, 4)).shape
    extempo.Size([1, 2, 4, 3, 2])
    """

    _n = 3
    _function = staticmethod(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        name = type(self).__name__
        if padding_mode != "zeros":
            raise ArgumentError(f"{name}: only padding_mode='zeros' has a transpose, got {padding_mode!r}")
        if isinstance(padding, str):
            raise ArgumentError(f"{name}: padding must be ints, got {padding!r}; only convolutions forward have 'same'")
        sizes = (kernel_size, stride, padding, dilation)
        super().__init__(in_channels, out_channels, *sizes, groups, bias, padding_mode, device, dtype)
        self.output_padding = per_dimension(name, "output_padding", output_padding, self._n)

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        extra = self.output_padding if output_size is None else self._extra_for(input, output_size)
        try:
            return self._function(
                input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
            )
        except ShapeError as error:
            raise self._misfit(error, input) from None

    def _extra_for(self, input: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        """The output_padding that gives this size: one of the `stride` sizes that a convolution maps to the input's."""
        wanted = tuple(output_size)
        if len(wanted) == input.ndim and len(wanted) > self._n:
            wanted = wanted[-self._n :]
        if len(wanted) != self._n:
            name = type(self).__name__
            raise ShapeError(f"{name}: output_size must have {self._n} or {input.ndim} sizes, got {wanted}")
        assert not isinstance(self.padding, str)
        least = tuple(
            (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1
            for size, stride, padding, dilation, kernel in zip(
                input.shape[-self._n :], self.stride, self.padding, self.dilation, self.kernel_size, strict=True
            )
        )
        extra = tuple(w - low for w, low in zip(wanted, least, strict=True))
        if any(not 0 <= e < stride for e, stride in zip(extra, self.stride, strict=True)):
            most = tuple(low + stride - 1 for low, stride in zip(least, self.stride, strict=True))
            raise ShapeError(
                f"{type(self).__name__}: output_size {wanted} cannot come from input of shape {tuple(input.shape)}; "
                f"it must be between {least} and {most}"
            )
        return extra


class ConvTranspose1d(_ConvTransposeNd):
    """The transpose of Conv1d, which makes sequences longer; the call may ask for an `output_size`.

    >>> up = nn.ConvTranspose1d(4, 2, kernel_size=3, stride=2)
    >>> up(ex.zeros(1, 4, 5)).shape, up(ex.zeros(1, 4, 5), output_size=[12]).shape
    (extempo.Size([1, 2, 11]), extempo.Size([1, 2, 12]))
    """

    _n = 1
    _function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """The transpose of Conv2d, which makes images larger; see ConvTranspose1d.

    >>> nn.ConvTranspose2d(4, 2, kernel_size=2, stride=2)(ex.zeros(4, 8, 8)).shape
    extempo.Size([2, 16, 16])
    """

    _n = 2
    _function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """The transpose of Conv3d, which makes volumes larger; see ConvTranspose1d.

    >>> nn.ConvTranspose3d(2, 1, kernel_size=2)(ex.zeros(2, 3, 3, 3)).shape
    extempo.Size([1, 4, 4, 4])
    """

    _n = 3
    _function = staticmethod(F.conv_transpose3d)
