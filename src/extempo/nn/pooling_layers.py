"""Pooling over one, two and three spatial dimensions, with or without a batch: (batch, channel, *spatial).

Every layer holds its arguments as they came; the function of its dimension is a class attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..core.tensor import Tensor
from ..errors import ShapeError
from . import functional as F
from .layer_support import Shown, Sizes, per_dimension

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d",
    "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d",
]  # fmt: skip


class _Pool(Shown):
    """Calls the function of its dimension with the attributes named in `_options`."""

    _function: ClassVar[Callable[..., Any]]
    _options: ClassVar[tuple[str, ...]]

    def forward(self, input: Tensor) -> Any:
        return self._function(input, **{name: getattr(self, name) for name in self._options})


# ---- the largest of each window


class _MaxPoolNd(_Pool):
    _options = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode


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


class _MaxUnpoolNd(Shown):
    _function: ClassVar[Callable[..., Tensor]]
    _n: ClassVar[int]
    _shown = ("kernel_size", "stride", "padding")

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        name = type(self).__name__
        self.kernel_size = per_dimension(name, "kernel_size", kernel_size, self._n)
        self.stride = per_dimension(name, "stride", kernel_size if stride is None else stride, self._n)
        self.padding = per_dimension(name, "padding", padding, self._n)

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


class _AvgPoolNd(_Pool):
    _options: ClassVar[tuple[str, ...]] = (
        "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override",
    )  # fmt: skip
    _shown = ("kernel_size", "stride", "padding")

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override


class AvgPool1d(_AvgPoolNd):
    """The mean of each window of (batch, channel, length) or (channel, length).

    >>> nn.AvgPool1d(2)(ex.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])
    """

    _function = staticmethod(F.avg_pool1d)
    _options = _AvgPoolNd._options[:-1]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        kernel = per_dimension("AvgPool1d", "kernel_size", kernel_size, 1)
        steps = kernel if stride is None else per_dimension("AvgPool1d", "stride", stride, 1)
        border = per_dimension("AvgPool1d", "padding", padding, 1)
        super().__init__(kernel, steps, border, ceil_mode, count_include_pad)


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


class _LPPoolNd(_Pool):
    _options = _shown = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode


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


class _AdaptivePoolNd(_Pool):
    _shown = ("output_size",)


class _AdaptiveAvgPoolNd(_AdaptivePoolNd):
    _options = ("output_size",)

    def __init__(self, output_size: int | Sequence[int | None] | None) -> None:
        super().__init__()
        self.output_size = output_size


class _AdaptiveMaxPoolNd(_AdaptivePoolNd):
    _options = ("output_size", "return_indices")

    def __init__(self, output_size: int | Sequence[int | None] | None, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices


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


class _FractionalMaxPoolNd(_Pool):
    _n: ClassVar[int]
    _options = ("kernel_size", "output_size", "output_ratio", "return_indices", "_random_samples")
    _shown = ()

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if (output_size is None) == (output_ratio is None):
            raise ShapeError(f"{name}: give output_size or output_ratio, one of both")
        self.kernel_size = per_dimension(name, "kernel_size", kernel_size, self._n)
        self.output_size = None if output_size is None else per_dimension(name, "output_size", output_size, self._n)
        ratios = (output_ratio,) * self._n if isinstance(output_ratio, float) else output_ratio
        self.output_ratio = None if ratios is None else tuple(ratios)
        if self.output_ratio and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ShapeError(f"{name}: output_ratio must lie between 0 and 1, got {output_ratio}")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)


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
