"""Layers without numbers of their own: reshaping, patches, resizing and padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..core.tensor import Tensor
from ..errors import DtypeError
from . import functional as F
from .function_layer import OneInputLayer, stores_arguments
from .layer_support import Shown, Sizes, per_dimension
from .module import Module

__all__ = [
    "ChannelShuffle", "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d",
    "ConstantPad3d", "Flatten", "Fold", "PixelShuffle", "PixelUnshuffle", "ReflectionPad1d", "ReflectionPad2d",
    "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "Unflatten", "Unfold", "Upsample",
    "UpsamplingBilinear2d", "UpsamplingNearest2d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


@stores_arguments
class Flatten(OneInputLayer):
    """The dimensions from start_dim to end_dim as one; the first, the batch, is left as it is.

    >>> nn.Flatten()(ex.zeros(2, 3, 4)).shape
    extempo.Size([2, 12])
    """

    start_dim: int = 1
    end_dim: int = -1

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)


class Unflatten(Shown):
    """The dimension `dim` as several, of the sizes `unflattened_size`; one of them may be -1.

    >>> nn.Unflatten(1, (3, -1))(ex.zeros(2, 12)).shape
    extempo.Size([2, 3, 4])
    """

    _shown = ("dim", "unflattened_size")

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        sizes = list(unflattened_size)
        if not isinstance(dim, int) or not all(isinstance(size, int) for size in sizes):
            names = "dimensions have numbers and sizes here, not names"
            raise DtypeError(f"Unflatten: expected an int and ints, got {dim!r} and {unflattened_size!r}; {names}")
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)


# ---- patches and pixels


@stores_arguments
class Unfold(OneInputLayer):
    """Every window of an image as a column: (batch, channel, height, width) -> (batch, channel * places, windows).

    >>> nn.Unfold(2)(ex.zeros(1, 3, 4, 5)).shape
    extempo.Size([1, 12, 12])
    """

    kernel_size: Sizes
    dilation: Sizes = 1
    padding: Sizes = 0
    stride: Sizes = 1
    _function = staticmethod(F.unfold)


@stores_arguments
class Fold(OneInputLayer):
    """The columns of Unfold, (batch, channel * places, windows), added up at their places in images of `output_size`.

    >>> nn.Fold(output_size=(4, 5), kernel_size=2)(ex.zeros(1, 12, 12)).shape
    extempo.Size([1, 3, 4, 5])
    """

    output_size: Sizes
    kernel_size: Sizes
    dilation: Sizes = 1
    padding: Sizes = 0
    stride: Sizes = 1
    _function = staticmethod(F.fold)


@stores_arguments
class PixelShuffle(OneInputLayer):
    """(..., channels * r * r, height, width) -> (..., channels, height * r, width * r).

    >>> nn.PixelShuffle(2)(ex.zeros(1, 8, 3, 3)).shape
    extempo.Size([1, 2, 6, 6])
    """

    upscale_factor: int
    _function = staticmethod(F.pixel_shuffle)


@stores_arguments
class PixelUnshuffle(OneInputLayer):
    """(..., channels, height * r, width * r) -> (..., channels * r * r, height, width).

    >>> nn.PixelUnshuffle(2)(ex.zeros(1, 2, 6, 6)).shape
    extempo.Size([1, 8, 3, 3])
    """

    downscale_factor: int
    _function = staticmethod(F.pixel_unshuffle)


@stores_arguments
class ChannelShuffle(OneInputLayer):
    """The channels of (batch, channel, ...) dealt out over `groups`.

    >>> nn.ChannelShuffle(2)(ex.arange(4.0).reshape(1, 4, 1, 1)).flatten()
    tensor([0., 2., 1., 3.])
    """

    groups: int
    _function = staticmethod(F.channel_shuffle)


# ---- resizing


@stores_arguments
class Upsample(OneInputLayer):
    """(batch, channel, *spatial) resized to `size`, or by `scale_factor`; see F.interpolate for the modes.

    >>> nn.Upsample(scale_factor=2)(ex.tensor([[[1.0, 2.0]]]))
    tensor([[[1., 1., 2., 2.]]])
    """

    size: Sizes | None = None
    scale_factor: float | Sequence[float] | None = None
    mode: str = "nearest"
    align_corners: bool | None = None
    recompute_scale_factor: bool | None = None
    _function = staticmethod(F.interpolate)

    def _store(self, **arguments: Any) -> None:
        factor = arguments["scale_factor"]
        several = isinstance(factor, Sequence)
        arguments["scale_factor"] = tuple(map(float, factor)) if several else float(factor) if factor else None
        super()._store(name=type(self).__name__, **arguments)

    def extra_repr(self) -> str:
        target = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{target}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample with mode="nearest".

    >>> nn.UpsamplingNearest2d(size=4)(ex.zeros(1, 1, 2, 2)).shape
    extempo.Size([1, 1, 4, 4])
    """

    def __init__(self, size: Sizes | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample with mode="bilinear" and align_corners=True.

    >>> nn.UpsamplingBilinear2d(scale_factor=1.5)(ex.tensor([[[[0.0, 1.0], [0.0, 1.0]]]]))[0, 0, 0]
    tensor([0.0000, 0.5000, 1.0000])
    """

    def __init__(self, size: Sizes | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


# ---- padding


class _PadNd(Module):
    """Pads the last n dimensions; `padding` is one number, or before and after from the last dimension on."""

    _n: ClassVar[int]
    _mode: ClassVar[str]
    value: float | None = None

    def __init__(self, padding: Sizes) -> None:
        super().__init__()
        self.padding = per_dimension(type(self).__name__, "padding", padding, 2 * self._n)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode, self.value)

    def extra_repr(self) -> str:
        return str(self.padding)


class _ConstantPadNd(_PadNd):
    _mode = "constant"

    def __init__(self, padding: Sizes, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """`value` before and after the last dimension.

    >>> nn.ConstantPad1d((1, 2), 7.0)(ex.zeros(1))
    tensor([7., 0., 7., 7.])
    """

    _n = 1


class ConstantPad2d(_ConstantPadNd):
    """`value` around the last two dimensions: (left, right, top, bottom) of it.

    >>> nn.ConstantPad2d(1, 7.0)(ex.zeros(1, 1))
    tensor([[7., 7., 7.],
            [7., 0., 7.],
            [7., 7., 7.]])
    """

    _n = 2


class ConstantPad3d(_ConstantPadNd):
    """`value` around the last three dimensions: (left, right, top, bottom, front, back) of it.

    >>> nn.ConstantPad3d((0, 1, 0, 2, 0, 3), 7.0)(ex.zeros(1, 1, 1)).shape
    extempo.Size([4, 3, 2])
    """

    _n = 3


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding: Sizes) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return str(self.padding)


class ZeroPad1d(_ZeroPadNd, ConstantPad1d):
    """0 before and after the last dimension.

    >>> nn.ZeroPad1d((1, 2))(ex.ones(1))
    tensor([0., 1., 0., 0.])
    """


class ZeroPad2d(_ZeroPadNd, ConstantPad2d):
    """0 around the last two dimensions.

    >>> nn.ZeroPad2d(1)(ex.ones(1, 1))
    tensor([[0., 0., 0.],
            [0., 1., 0.],
            [0., 0., 0.]])
    """


class ZeroPad3d(_ZeroPadNd, ConstantPad3d):
    """0 around the last three dimensions.

    >>> nn.ZeroPad3d(1)(ex.ones(1, 1, 1)).sum()
    tensor(1.)
    """


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """(channel, ...) mirrored at the borders of the last dimension; with or without a batch.

    >>> nn.ReflectionPad1d(1)(ex.tensor([[1.0, 2.0]]))
    tensor([[2., 1., 2., 1.]])
    """

    _n = 1


class ReflectionPad2d(_ReflectionPadNd):
    """(channel, ...) mirrored at the borders of the last two dimensions; with or without a batch.

    >>> nn.ReflectionPad2d(1)(ex.zeros(1, 2, 2)).shape
    extempo.Size([1, 4, 4])
    """

    _n = 2


class ReflectionPad3d(_ReflectionPadNd):
    """(channel, ...) mirrored at the borders of the last three dimensions; with or without a batch.

    >>> nn.ReflectionPad3d(1)(ex.zeros(1, 2, 2, 2)).shape
    extempo.Size([1, 4, 4, 4])
    """

    _n = 3


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """(channel, ...) continued with the outermost elements of the last dimension; with or without a batch.

    >>> nn.ReplicationPad1d(1)(ex.tensor([[1.0, 2.0]]))
    tensor([[1., 1., 2., 2.]])
    """

    _n = 1


class ReplicationPad2d(_ReplicationPadNd):
    """(channel, ...) continued with the outermost elements of the last two dimensions; with or without a batch.

    >>> nn.ReplicationPad2d(1)(ex.zeros(1, 2, 2)).shape
    extempo.Size([1, 4, 4])
    """

    _n = 2


class ReplicationPad3d(_ReplicationPadNd):
    """(channel, ...) continued with the outermost elements of the last three dimensions; with or without a batch.

    >>> nn.ReplicationPad3d(1)(ex.zeros(1, 2, 2, 2)).shape
    extempo.Size([1, 4, 4, 4])
    """

    _n = 3


class _CircularPadNd(_PadNd):
    _mode = "circular"


class CircularPad1d(_CircularPadNd):
    """(channel, ...) continued from the other end along the last dimension; with or without a batch.

    >>> nn.CircularPad1d(1)(ex.tensor([[1.0, 2.0]]))
    tensor([[2., 1., 2., 1.]])
    """

    _n = 1


class CircularPad2d(_CircularPadNd):
    """(channel, ...) continued from the other end along the last two dimensions; with or without a batch.

    >>> nn.CircularPad2d(1)(ex.zeros(1, 2, 2)).shape
    extempo.Size([1, 4, 4])
    """

    _n = 2


class CircularPad3d(_CircularPadNd):
    """(channel, ...) continued from the other end along the last three dimensions; with or without a batch.

    >>> nn.CircularPad3d(1)(ex.zeros(1, 2, 2, 2)).shape
    extempo.Size([1, 4, 4, 4])
    """

    _n = 3
