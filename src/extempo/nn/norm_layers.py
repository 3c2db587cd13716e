"""Normalisation layers.

Batch and instance norm keep running statistics as buffers under PyTorch's names; the dimensions differ by class
attributes only. `weight` starts at 1, `bias` at 0; either is None where it is switched off.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..core.types import int64
from ..core.wording import counted
from ..errors import ShapeError
from . import functional as F
from .function_layer import OneInputLayer, stores_arguments
from .layer_support import misfit
from .module import Module
from .parameter import Parameter

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d",
    "LayerNorm", "LocalResponseNorm", "RMSNorm",
]  # fmt: skip


class _Scaled(Module):
    """A layer that ends with x * weight + bias."""

    weight: Parameter | None
    bias: Parameter | None

    def _make_scale(self, shape: int | tuple[int, ...], weight: bool, bias: bool, device: Any, dtype: Any) -> None:
        for name, wanted in (("weight", weight), ("bias", bias)):
            made = Parameter(ops.empty(shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, made)

    def reset_parameters(self) -> None:
        """Set weight to 1 and bias to 0."""
        with no_grad():
            if self.weight is not None:
                self.weight.fill_(1.0)
            if self.bias is not None:
                self.bias.zero_()


# ---- with running statistics


class _NormBase(_Scaled):
    """Channels, scale and running statistics of batch and instance norm."""

    _n_dims: ClassVar[tuple[int, ...]]  # how many dimensions an input may have
    _axes: ClassVar[str]
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    _version = 2  # 1: states did not hold num_batches_tracked

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self._make_scale(num_features, affine, affine and bias, device, dtype)
        statistics: dict[str, Tensor | None] = {"running_mean": None, "running_var": None, "num_batches_tracked": None}
        if track_running_stats:
            statistics["running_mean"] = ops.zeros(num_features, device=device, dtype=dtype)
            statistics["running_var"] = ops.ones(num_features, device=device, dtype=dtype)
            statistics["num_batches_tracked"] = ops.zeros((), device=device, dtype=int64)
        for name, value in statistics.items():
            self.register_buffer(name, value)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget what was seen: mean 0, variance 1, no batch counted."""
        for value, start in ((self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)):
            if value is not None:
                value.fill_(start)

    def reset_parameters(self) -> None:
        """Forget the running statistics, and set weight to 1 and bias to 0."""
        self.reset_running_stats()
        super().reset_parameters()

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        key = f"{prefix}num_batches_tracked"
        if self.num_batches_tracked is not None and (local_metadata.get("version") or 1) < 2:
            state_dict.setdefault(key, self.num_batches_tracked.detach())
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self._n_dims:
            raise ShapeError(
                f"{type(self).__name__}: expected input {self._expected()}, got shape {tuple(input.shape)}"
            )

    def _expected(self) -> str:
        return self._axes.format(channels=f"num_features={self.num_features}")

    def extra_repr(self) -> str:
        switches = f"affine={self.affine}, bias={self.bias is not None}"
        numbers = f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"
        return f"{numbers}, {switches}, track_running_stats={self.track_running_stats}"


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        tracked = not self.training or self.track_running_stats
        n_seen = self.num_batches_tracked if self.training and self.track_running_stats else None
        momentum = self.momentum
        if momentum is None and n_seen is not None:
            momentum = 1.0 / (n_seen.item() + 1)
        try:
            result = F.batch_norm(
                input,
                self.running_mean if tracked else None,
                self.running_var if tracked else None,
                self.weight,
                self.bias,
                by_batch,
                momentum,
                self.eps,
            )
        except ShapeError as error:
            raise misfit(self, f"input {self._expected()}", error, input) from None
        if n_seen is not None:  # counted last: a batch that was refused does not count
            n_seen.add_(1)
        return result


class BatchNorm1d(_BatchNorm):
    """Each channel with zero mean and unit variance over (batch, num_features) or (batch, num_features, length).

    In training the running statistics move by `momentum` towards those of the batch (momentum None: their plain mean so
    far); after `eval()` they are what is normalised with.

    >>> nn.BatchNorm1d(1)(ex.tensor([[1.0], [3.0]])).detach()
    tensor([[-1.0000],
            [ 1.0000]])
    """

    _n_dims = (2, 3)
    _axes = "(batch, {channels}) or (batch, {channels}, length)"


class BatchNorm2d(_BatchNorm):
    """BatchNorm1d over (batch, num_features, height, width).

    >>> nn.BatchNorm2d(3)(ex.zeros(2, 3, 4, 4)).shape
    extempo.Size([2, 3, 4, 4])
    """

    _n_dims = (4,)
    _axes = "(batch, {channels}, height, width)"


class BatchNorm3d(_BatchNorm):
    """BatchNorm1d over (batch, num_features, depth, height, width).

    >>> nn.BatchNorm3d(3)(ex.zeros(2, 3, 4, 4, 4)).shape
    extempo.Size([2, 3, 4, 4, 4])
    """

    _n_dims = (5,)
    _axes = "(batch, {channels}, depth, height, width)"


class _InstanceNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        is_batch = input.ndim == max(self._n_dims)
        n_channels = input.shape[1 if is_batch else 0]
        if n_channels != self.num_features and not self.affine and not self.track_running_stats:
            warnings.warn(
                f"{type(self).__name__}: num_features={self.num_features}, but the input has "
                f"{counted(n_channels, 'channel')}; "
                "without weight and statistics this changes nothing",
                stacklevel=2,
            )
        try:
            result = F.instance_norm(
                input if is_batch else input.unsqueeze(0),
                self.running_mean,
                self.running_var,
                self.weight,
                self.bias,
                self.training or not self.track_running_stats,
                self.momentum,
                self.eps,
            )
        except ShapeError as error:
            raise misfit(self, f"input {self._expected()}", error, input) from None
        return result if is_batch else result.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    """Each channel of each sample with zero mean and unit variance: (batch, num_features, length), or without batch.

    >>> nn.InstanceNorm1d(1)(ex.tensor([[1.0, 3.0]]))
    tensor([[-1.0000,  1.0000]])
    """

    _n_dims = (2, 3)
    _axes = "(batch, {channels}, length) or ({channels}, length)"


class InstanceNorm2d(_InstanceNorm):
    """InstanceNorm1d over (batch, num_features, height, width), or without batch.

    >>> nn.InstanceNorm2d(3, affine=True)(ex.zeros(3, 4, 4)).shape
    extempo.Size([3, 4, 4])
    """

    _n_dims = (3, 4)
    _axes = "(batch, {channels}, height, width) or ({channels}, height, width)"


class InstanceNorm3d(_InstanceNorm):
    """InstanceNorm1d over (batch, num_features, depth, height, width), or without batch.

    >>> nn.InstanceNorm3d(3)(ex.zeros(2, 3, 4, 4, 4)).shape
    extempo.Size([2, 3, 4, 4, 4])
    """

    _n_dims = (4, 5)
    _axes = "(batch, {channels}, depth, height, width) or without batch"


# ---- within one sample


class _LastDims(_Scaled):
    """A norm over the last dimensions, whose sizes are `normalized_shape`."""

    def __init__(self, normalized_shape: int | Sequence[int], eps: float | None, elementwise_affine: bool) -> None:
        super().__init__()
        sizes = [normalized_shape] if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape = tuple(sizes)
        self.eps = eps
        self.elementwise_affine = elementwise_affine

    def _misfit(self, error: ShapeError, input: Tensor) -> ShapeError:
        sizes = ", ".join(map(str, self.normalized_shape))
        return misfit(self, f"input (..., {sizes}) for normalized_shape={self.normalized_shape}", error, input)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LayerNorm(_LastDims):
    """Zero mean and unit variance over the last dimensions, whose sizes are `normalized_shape`.

    >>> nn.LayerNorm(2)(ex.tensor([1.0, 3.0])).detach()
    tensor([-1.0000,  1.0000])
    """

    _is_cell = True
    eps: float

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine)
        self._make_scale(self.normalized_shape, elementwise_affine, elementwise_affine and bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        try:
            return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)
        except ShapeError as error:
            raise self._misfit(error, input) from None

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, bias={self.bias is not None}"


class RMSNorm(_LastDims):
    """Root mean square 1 over the last dimensions; the mean stays (Zhang and Sennrich 2019).

    eps: the smallest difference of the dtype that is computed in, unless given.

    >>> nn.RMSNorm(2)(ex.tensor([3.0, 3.0])).detach()
    tensor([1., 1.])
    """

    _is_cell = True

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine)
        made = Parameter(ops.empty(self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set weight to 1."""
        if self.weight is not None:
            with no_grad():
                self.weight.fill_(1.0)

    def forward(self, x: Tensor) -> Tensor:
        try:
            return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)
        except ShapeError as error:
            raise self._misfit(error, x) from None


class GroupNorm(_Scaled):
    """Zero mean and unit variance over each of `num_groups` groups of channels of each sample.

    >>> nn.GroupNorm(2, 4)(ex.zeros(3, 4, 5, 5)).shape
    extempo.Size([3, 4, 5, 5])
    """

    _is_cell = True

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ShapeError(
                f"GroupNorm: num_channels={num_channels} do not fall into num_groups={num_groups} equal groups"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._make_scale(num_channels, affine, affine and bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        try:
            return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)
        except ShapeError as error:
            raise misfit(self, f"input (batch, num_channels={self.num_channels}, ...)", error, input) from None

    def extra_repr(self) -> str:
        sizes = f"{self.num_groups}, {self.num_channels}"
        return f"{sizes}, eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"


@stores_arguments
class LocalResponseNorm(OneInputLayer):
    """Each element divided by (k + alpha * the mean square of `size` neighbouring channels) ** beta.

    >>> nn.LocalResponseNorm(2)(ex.zeros(1, 4, 5)).shape
    extempo.Size([1, 4, 5])
    """

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0
    _is_cell = True
    _function = staticmethod(F.local_response_norm)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
