"""Layers that find their input's size at the first call, or from the state that they load, and then are plain layers.

Until then their parameters have no elements. The parameters stay the same objects, so an optimizer may hold them
before; dtype and training mode may be set before too.
"""

from __future__ import annotations

from typing import Any, ClassVar

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..errors import ShapeError
from .conv_layers import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .layer_support import Sizes
from .linear_layers import Linear
from .module import Module
from .norm_layers import BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from .parameter import Parameter, UninitializedParameter

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d",
    "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d", "LazyLinear",
]  # fmt: skip


class _Lazy(Module):
    """A layer made for size 0, which becomes its plain class `cls_to_become` once `_size_of(input)` is known."""

    cls_to_become: ClassVar[type[Module]]
    _size_name: ClassVar[str]
    _per_group = False  # whether weights hold the size divided by `groups`

    def forward(self, input: Tensor, *args: Any, **kwargs: Any) -> Any:
        self._become(self._size_of(input))
        return self.forward(input, *args, **kwargs)  # by now the plain class's

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        if param is not None and 0 in param.shape:
            param.__class__ = UninitializedParameter
        super().register_parameter(name, param)

    def has_uninitialized_params(self) -> bool:
        """Whether the size is still unknown."""
        return True

    def _waiting(self) -> dict[str, Tensor]:
        """Parameters and buffers that have no elements yet."""
        own = {**self._parameters, **self._buffers}
        return {name: tensor for name, tensor in own.items() if tensor is not None and 0 in tensor.shape}

    def _become(self, size: int) -> None:
        groups = getattr(self, "groups", 1)
        if size % groups:
            raise ShapeError(f"{type(self).__name__}: {size} channels do not fall into groups={groups} equal groups")
        within = size // groups if self._per_group else size
        with no_grad():
            for tensor in self._waiting().values():
                shape = [n or within for n in tensor.shape]
                if isinstance(tensor, UninitializedParameter):
                    tensor.materialize(shape)
                else:
                    tensor.data = ops.empty(shape, dtype=tensor.dtype)
        setattr(self, self._size_name, size)
        self.__class__ = self.cls_to_become  # type: ignore[assignment] # a plain layer from here on
        self.reset_parameters()

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        for name, tensor in self._waiting().items():
            given: Any = state_dict.get(prefix + name)
            if len(getattr(given, "shape", ())) == tensor.ndim:
                size = int(given.shape[tuple(tensor.shape).index(0)])
                self._become(size * getattr(self, "groups", 1) if self._per_group else size)
                return self._load_from_state_dict(state_dict, prefix, local_metadata, *rest)  # by now the plain class's
        return super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class LazyLinear(_Lazy, Linear):
    """Linear whose in_features is the last size of the first input.

    >>> layer = nn.LazyLinear(2)
    >>> _ = layer(ex.zeros(3, 5))
    >>> layer
    Linear(in_features=5, out_features=2, bias=True)
    """

    cls_to_become = Linear
    _size_name = "in_features"

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, out_features, bias, device, dtype)

    def _size_of(self, input: Tensor) -> int:
        return input.shape[-1]


# ---- convolutions


class _LazyConvNd(_Lazy):
    _n: ClassVar[int]
    _size_name = "in_channels"

    def _size_of(self, input: Tensor) -> int:
        if input.ndim not in (self._n + 1, self._n + 2):
            spatial = f"{self._n} spatial dimensions"
            shape = tuple(input.shape)
            raise ShapeError(f"{type(self).__name__}: expected channels and {spatial}, or a batch of them, got {shape}")
        return input.shape[-self._n - 1]


class _LazyConv(_LazyConvNd):
    _per_group = True

    def __init__(
        self,
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
        sizes: Any = (kernel_size, stride, padding, dilation)
        make_plain: Any = super().__init__  # of the plain class, which comes next
        make_plain(0, out_channels, *sizes, groups, bias, padding_mode, device, dtype)


class _LazyConvTranspose(_LazyConvNd):
    def __init__(
        self,
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
        sizes: Any = (kernel_size, stride, padding, output_padding)
        make_plain: Any = super().__init__  # of the plain class, which comes next
        make_plain(0, out_channels, *sizes, groups, bias, dilation, padding_mode, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    """Conv1d whose in_channels is that of the first input.

    >>> nn.LazyConv1d(2, kernel_size=2)(ex.zeros(1, 3, 4)).shape
    extempo.Size([1, 2, 3])
    """

    cls_to_become = Conv1d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """ConvTranspose1d whose in_channels is that of the first input.

    >>> nn.LazyConvTranspose1d(2, kernel_size=2)(ex.zeros(1, 3, 4)).shape
    extempo.Size([1, 2, 5])
    """

    cls_to_become = ConvTranspose1d


class LazyConv2d(_LazyConv, Conv2d):
    """Conv2d whose in_channels is that of the first input.

    >>> nn.LazyConv2d(2, kernel_size=2)(ex.zeros(1, 3, 4, 4)).shape
    extempo.Size([1, 2, 3, 3])
    """

    cls_to_become = Conv2d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """ConvTranspose2d whose in_channels is that of the first input.

    >>> nn.LazyConvTranspose2d(2, kernel_size=2)(ex.zeros(1, 3, 4, 4)).shape
    extempo.Size([1, 2, 5, 5])
    """

    cls_to_become = ConvTranspose2d


class LazyConv3d(_LazyConv, Conv3d):
    """Conv3d whose in_channels is that of the first input.

    >>> nn.LazyConv3d(2, kernel_size=2)(ex.zeros(1, 3, 4, 4, 4)).shape
    extempo.Size([1, 2, 3, 3, 3])
    """

    cls_to_become = Conv3d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """ConvTranspose3d whose in_channels is that of the first input.

    >>> nn.LazyConvTranspose3d(2, kernel_size=2)(ex.zeros(1, 3, 4, 4, 4)).shape
    extempo.Size([1, 2, 5, 5, 5])
    """

    cls_to_become = ConvTranspose3d


# ---- norms


class _LazyNorm(_Lazy):
    _size_name = "num_features"

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        make_plain: Any = super().__init__  # of the plain class, which comes next
        make_plain(0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _size_of(self, input: Tensor) -> int:
        self._check_input_dim(input)
        return input.shape[1]


class _LazyInstanceNorm(_LazyNorm):
    def _size_of(self, input: Tensor) -> int:
        self._check_input_dim(input)
        return input.shape[1 if input.ndim == max(self._n_dims) else 0]


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """BatchNorm1d whose num_features is the number of channels of the first input.

    >>> layer = nn.LazyBatchNorm1d()
    >>> _ = layer(ex.zeros(2, 3, 4))
    >>> layer.num_features
    3
    """

    cls_to_become = BatchNorm1d


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    """InstanceNorm1d whose num_features is the number of channels of the first input.

    >>> layer = nn.LazyInstanceNorm1d()
    >>> _ = layer(ex.zeros(2, 3, 4))
    >>> layer.num_features
    3
    """

    cls_to_become = InstanceNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """BatchNorm2d whose num_features is the number of channels of the first input.

    >>> layer = nn.LazyBatchNorm2d()
    >>> _ = layer(ex.zeros(2, 3, 4, 4))
    >>> layer.num_features
    3
    """

    cls_to_become = BatchNorm2d


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    """InstanceNorm2d whose num_features is the number of channels of the first input.

    >>> layer = nn.LazyInstanceNorm2d()
    >>> _ = layer(ex.zeros(2, 3, 4, 4))
    >>> layer.num_features
    3
    """

    cls_to_become = InstanceNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """BatchNorm3d whose num_features is the number of channels of the first input.

    >>> layer = nn.LazyBatchNorm3d()
    >>> _ = layer(ex.zeros(2, 3, 4, 4, 4))
    >>> layer.num_features
    3
    """

    cls_to_become = BatchNorm3d


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    """InstanceNorm3d whose num_features is the number of channels of the first input.

    >>> layer = nn.LazyInstanceNorm3d()
    >>> _ = layer(ex.zeros(2, 3, 4, 4, 4))
    >>> layer.num_features
    3
    """

    cls_to_become = InstanceNorm3d
