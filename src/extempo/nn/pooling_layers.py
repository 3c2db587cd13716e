"""Pooling over one, two and three spatial dimensions, with or without a batch: (batch, channel, *spatial).

Every layer keeps its arguments as they came; the function of its dimension is a class attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..core.tensor import Tensor
from ..errors import ArgumentError
from . import functional as F
from .function_layer import FunctionLayer, OneInputLayer, stores_arguments
from .layer_support import Sizes, per_dimension

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d",
    "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d",
]  # fmt: skip


class _Pool(OneInputLayer):
    """A layer whose result may be a pair: with indices."""

    _function: ClassVar[Callable[..., Any]]

    def forward(self, input: Tensor) -> Any:
        return self._function(input)


class _Windows(FunctionLayer):
    """A layer whose windows are adjacent unless it is given a stride."""

    _n: ClassVar[int | None] = None  # of how many dimensions sizes are kept for each; else as they came

    def _store(self, **arguments: Any) -> None:
        if arguments["stride"] is None:
            arguments["stride"] = arguments["kernel_size"]
        if self._n is not None:
            for name in ("kernel_size", "stride", "padding"):
                arguments[name] = per_dimension(type(self).__name__, name, arguments[name], self._n)
        super()._store(**arguments)


# ---- the largest of each window


@stores_arguments
class _MaxPoolNd(_Windows, _Pool):
    kernel_size: Sizes
    stride: Sizes | None = None
    padding: Sizes = 0
    dilation: Sizes = 1
    return_indices: bool = False
    ceil_mode: bool = False
    _options = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")


class MaxPool1d(_MaxPoolNd):
    """The largest of each window; with return_indices also where it was, for MaxUnpool1d.

    >>> nn.MaxPool1d(2)(ex.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[3., 2.]])
    """

    _function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """The largest of each window of (batch, channel, height, width), or without batch.

    >>> nn.MaxPool2d(3, stride=2, padding=1)(ex.zeros(2, 3, 8, 8)).shape
    extempo.Size([2, 3, 4, 4])
    """

    _function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """The largest of each window of (batch, channel, depth, height, width), or without batch.

    >>> nn.MaxPool3d((1, 2, 2))(ex.zeros(3, 4, 4, 4)).shape
    extempo.Size([3, 4, 2, 2])
    """

    _function = staticmethod(F.max_pool3d)


@stores_arguments
class _MaxUnpoolNd(_Windows):
    kernel_size: Sizes
    stride: Sizes | None = None
    padding: Sizes = 0

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return self._function(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpoolNd):
    """What MaxPool1d with return_indices took, put back where it was, with 0 elsewhere.

    >>> largest, places = nn.MaxPool1d(2, return_indices=True)(ex.tensor([[1.0, 3.0, 2.0, 0.0]]))
    >>> nn.MaxUnpool1d(2)(largest, places)
    tensor([[0., 3., 2., 0.]])
    """

    _n = 1
    _function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpoolNd):
    """What MaxPool2d with return_indices took, put back where it was, with 0 elsewhere.

    >>> largest, places = nn.MaxPool2d(2, return_indices=True)(ex.tensor([[[1.0, 3.0], [2.0, 0.0]]]))
    >>> nn.MaxUnpool2d(2)(largest, places)
    tensor([[[0., 3.],
             [0., 0.]]])
    """

    _n = 2
    _function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpoolNd):
    """What MaxPool3d with return_indices took, put back where it was, with 0 elsewhere.

    >>> largest, places = nn.MaxPool3d(2, return_indices=True)(ex.ones(1, 4, 4, 4))
    >>> nn.MaxUnpool3d(2)(largest, places).sum()
    tensor(8.)
    """

    _n = 3
    _function = staticmethod(F.max_unpool3d)


# ---- the mean of each window


@stores_arguments
class _AvgPoolNd(_Windows, _Pool):
    kernel_size: Sizes
    stride: Sizes | None = None
    padding: Sizes = 0
    ceil_mode: bool = False
    count_include_pad: bool = True
    divisor_override: int | None = None
    _shown = ("kernel_size", "stride", "padding")


@stores_arguments
class AvgPool1d(_Windows, _Pool):
    """The mean of each window of (batch, channel, length) or (channel, length).

    >>> nn.AvgPool1d(2)(ex.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])
    """

    kernel_size: Sizes
    stride: Sizes | None = None
    padding: Sizes = 0
    ceil_mode: bool = False
    count_include_pad: bool = True
    _n = 1
    _function = staticmethod(F.avg_pool1d)
    _shown = ("kernel_size", "stride", "padding")


class AvgPool2d(_AvgPoolNd):
    """The mean of each window of (batch, channel, height, width), or without batch.

    >>> nn.AvgPool2d(2)(ex.tensor([[[1.0, 3.0], [2.0, 0.0]]]))
    tensor([[[1.5000]]])
    """

    _function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPoolNd):
    """The mean of each window of (batch, channel, depth, height, width), or without batch.

    >>> nn.AvgPool3d(2, stride=1)(ex.zeros(1, 3, 4, 5)).shape
    extempo.Size([1, 2, 3, 4])
    """

    _function = staticmethod(F.avg_pool3d)


# ---- the p-norm of each window


@stores_arguments
class _LPPoolNd(_Pool):
    norm_type: float
    kernel_size: Sizes
    stride: Sizes | None = None
    ceil_mode: bool = False


class LPPool1d(_LPPoolNd):
    """The norm_type-norm of each window of (batch, channel, length) or (channel, length).

    >>> nn.LPPool1d(2, kernel_size=2)(ex.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """

    _function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """The norm_type-norm of each window of (batch, channel, height, width), or without batch.

    >>> nn.LPPool2d(1, kernel_size=2)(ex.ones(1, 2, 4))
    tensor([[[4., 4.]]])
    """

    _function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """The norm_type-norm of each window of (batch, channel, depth, height, width), or without batch.

    >>> nn.LPPool3d(1, kernel_size=2)(ex.ones(1, 2, 2, 2))
    tensor([[[[8.]]]])
    """

    _function = staticmethod(F.lp_pool3d)


# ---- windows that follow from the size of the result


@stores_arguments
class _AdaptiveAvgPoolNd(_Pool):
    output_size: int | Sequence[int | None] | None


@stores_arguments
class _AdaptiveMaxPoolNd(_Pool):
    output_size: int | Sequence[int | None] | None
    return_indices: bool = False
    _shown = ("output_size",)


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means of as many windows as the result has places, whatever the length of the input.

    >>> nn.AdaptiveAvgPool1d(2)(ex.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])
    """

    _function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means of windows of images of any size; None in output_size keeps that size.

    >>> nn.AdaptiveAvgPool2d((1, None))(ex.zeros(2, 3, 5, 7)).shape
    extempo.Size([2, 3, 1, 7])
    """

    _function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Means of windows of volumes of any size; None in output_size keeps that size.

    >>> nn.AdaptiveAvgPool3d(2)(ex.zeros(1, 3, 5, 7)).shape
    extempo.Size([1, 2, 2, 2])
    """

    _function = staticmethod(F.adaptive_avg_pool3d)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The largest of as many windows as the result has places, whatever the length of the input.

    >>> nn.AdaptiveMaxPool1d(2)(ex.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[3., 2.]])
    """

    _function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The largest of windows of images of any size; None in output_size keeps that size.

    >>> nn.AdaptiveMaxPool2d(1)(ex.zeros(2, 3, 5, 7)).shape
    extempo.Size([2, 3, 1, 1])
    """

    _function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The largest of windows of volumes of any size; None in output_size keeps that size.

    >>> nn.AdaptiveMaxPool3d((None, 1, 1))(ex.zeros(1, 3, 5, 7)).shape
    extempo.Size([1, 3, 1, 1])
    """

    _function = staticmethod(F.adaptive_max_pool3d)


# ---- windows drawn at random


@stores_arguments
class _FractionalMaxPoolNd(_Pool):
    kernel_size: Sizes
    output_size: Sizes | None = None
    output_ratio: float | Sequence[float] | None = None
    return_indices: bool = False
    _random_samples: Tensor | None = None
    _n: ClassVar[int]
    _shown = ()

    def _store(self, **arguments: Any) -> None:
        name = type(self).__name__
        output_size, output_ratio = arguments["output_size"], arguments["output_ratio"]
        if (output_size is None) == (output_ratio is None):
            raise ArgumentError(f"{name}: give output_size or output_ratio, one of both")
        for key in ("kernel_size", "output_size"):
            if arguments[key] is not None:
                arguments[key] = per_dimension(name, key, arguments[key], self._n)
        if output_ratio is not None:
            ratios = (output_ratio,) * self._n if isinstance(output_ratio, float) else tuple(output_ratio)
            if not all(0 < ratio < 1 for ratio in ratios):
                raise ArgumentError(f"{name}: output_ratio must lie between 0 and 1, got {output_ratio}")
            arguments["output_ratio"] = ratios
        samples = arguments.pop("_random_samples")
        super()._store(**arguments)
        self.register_buffer("_random_samples", samples)


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """The largest of windows whose steps are drawn at random, to shrink images by a fraction (Graham 2014).

    >>> nn.FractionalMaxPool2d(2, output_ratio=0.7)(ex.zeros(3, 10, 20)).shape
    extempo.Size([3, 7, 14])
    """

    _n = 2
    _function = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """The largest of windows whose steps are drawn at random, to shrink volumes by a fraction.

    >>> nn.FractionalMaxPool3d(2, output_size=(3, 4, 5))(ex.zeros(1, 6, 7, 8)).shape
    extempo.Size([1, 3, 4, 5])
    """

    _n = 3
    _function = staticmethod(F.fractional_max_pool3d)
