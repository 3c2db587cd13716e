"""Normalisation: layer, batch, group, instance, root-mean-square and local response norm.

All but the last are one primitive, `Standardize`, over different dimensions of different views. Statistics of
half-precision inputs are float32. Running statistics are updated in place, outside the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ops
from ..core.context import no_grad
from ..core.tensor import Tensor
from ..core.types import as_int, as_kind, count, finfo, is_sequence, uint8
from ..core.wording import counted
from ..dispatch.dispatcher import apply
from ..dispatch.inline_cache import cached_by_types
from ..dispatch.inplace import write
from ..errors import DtypeError, ShapeError
from .conv import convolve
from .standardize import Standardize, statistics_dtype

__all__ = [
    "group_norm",
    "layer_norm",
    "native_batch_norm",
    "native_group_norm",
    "native_layer_norm",
    "rms_norm",
]


def _standardize(
    op: str,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    dims: tuple[int, ...],
    centred: bool = True,
) -> Any:
    if not x._type.dtype.is_floating_point:
        raise DtypeError(f"{op}: expected a floating input, got {x.dtype}; use x.float()")
    return apply(Standardize, (x, weight, bias, as_kind(float, eps)), {"dims": dims, "centred": centred})


# ---- over the last dimensions


def _last_dims(op: str, x: Tensor, normalized_shape: Any, **parameters: Tensor | None) -> tuple[int, ...]:
    wanted = tuple(normalized_shape) if is_sequence(normalized_shape) else (normalized_shape,)
    shape = x._type.shape
    if not wanted or shape[-len(wanted) :] != wanted:
        raise ShapeError(f"{op}: normalized_shape {wanted} must be the last sizes of the input, whose shape is {shape}")
    for name, t in parameters.items():
        if t is not None and t._type.shape != wanted:
            raise ShapeError(f"{op}: expected {name} of shape {wanted}, like normalized_shape, got {t._type.shape}")
    return tuple(range(len(shape) - len(wanted), len(shape)))


def layer_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """Each sample with zero mean and unit variance over its last dimensions, then scaled and shifted.

    >>> ex.layer_norm(ex.tensor([[1.0, 3.0], [10.0, 30.0]]), [2])
    tensor([[-1.0000,  1.0000],
            [-1.0000,  1.0000]])
    """
    shape = tuple(normalized_shape) if isinstance(normalized_shape, list | tuple) else normalized_shape
    return _layer_norm(input, shape, weight, bias, eps)


@cached_by_types
def _layer_norm(
    input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Any:
    dims = _last_dims("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    return _standardize("layer_norm", input, weight, bias, eps, dims)[0]


def native_layer_norm(
    input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """layer_norm, with the mean and 1 / standard deviation of each sample (outside the graph).

    >>> y, mean, scale = ex.native_layer_norm(ex.tensor([[1.0, 3.0]]), [2], None, None, 0.0)
    >>> y, mean, scale
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))
    """
    dims = _last_dims("native_layer_norm", input, normalized_shape, weight=weight, bias=bias)
    y, mean, variance = _standardize("native_layer_norm", input, weight, bias, eps, dims)
    return y, mean.detach(), ops.rsqrt(variance.detach() + eps)


def rms_norm(
    input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Each sample divided by the root of its mean square over its last dimensions, then scaled.

    eps: the smallest difference of the dtype that is computed in, unless given.

    >>> ex.rms_norm(ex.tensor([[3.0, 4.0]]), [2])
    tensor([[0.8485, 1.1314]])
    """
    dims = _last_dims("rms_norm", input, normalized_shape, weight=weight)
    if eps is None:
        eps = finfo(statistics_dtype(input.dtype)).eps if input.dtype.is_floating_point else 0.0
    return _standardize("rms_norm", input, weight, None, eps, dims, centred=False)[0]


# ---- per channel


def _channels(op: str, x: Tensor, **parameters: Tensor | None) -> int:
    """The number of channels, after every parameter was found to have one entry for each."""
    if x.ndim < 2:
        raise ShapeError(
            f"{op}: expected (batch, channel, ...), got shape {tuple(x.shape)}; did you mean x.unsqueeze(0)?"
        )
    if x.is_nested and not isinstance(x.shape[1], int):
        raise ShapeError(
            f"{op}: channels come second, where {tuple(x.shape)} is ragged; did you mean x.transpose(1, 2)?"
        )
    for name, t in parameters.items():
        if t is not None and tuple(t.shape) != (x.shape[1],):
            hint = "; channels come second here" if x.ndim > 2 and t.numel() == x.shape[-1] else ""
            raise ShapeError(
                f"{op}: input of shape {tuple(x.shape)} has {counted(x.shape[1], 'channel')}, "
                f"{name} has shape {tuple(t.shape)}{hint}"
            )
    return x.shape[1]


def _across(t: Any, ndim: int) -> Any:
    """One number per channel, shaped to broadcast against (batch, channel, ...)."""
    return t if t is None else t.reshape(-1, *(1,) * (ndim - 2))


def _update(running: Tensor | None, batch: Tensor, momentum: float) -> None:
    """running = (1 - momentum) * running + momentum * batch."""
    if running is not None:
        batch = batch.reshape(running.shape)
        write(running, ops.lerp(running, batch, momentum).to(running.dtype), "running statistics")


def _by_running_statistics(op: str, x: Tensor, mean: Any, variance: Any, weight: Any, bias: Any, eps: float) -> Tensor:
    if mean is None or variance is None:
        raise ShapeError(f"{op}: evaluation needs running_mean and running_var; pass them, or training=True")
    scale = ops.rsqrt(variance + eps)
    scale = scale if weight is None else scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    return (x * _across(scale, x.ndim) + _across(shift, x.ndim)).to(x.dtype)


def _batch_norm(
    op: str,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float | None,
    eps: float,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """y, and the mean and variance of the batch where they were used."""
    channels = _channels(op, x, weight=weight, bias=bias, running_mean=running_mean, running_var=running_var)
    if not training:
        return _by_running_statistics(op, x, running_mean, running_var, weight, bias, eps), None, None
    n = x.numel() // max(channels, 1)
    dims = (0, *range(2, x.ndim))
    y, mean, variance = _standardize(op, x, _across(weight, x.ndim), _across(bias, x.ndim), eps, dims)
    if n > 0 and momentum:
        _update(running_mean, mean.detach(), momentum)
        _update(running_var, variance.detach() * (n / max(n - 1, 1)), momentum)
    return y, mean.reshape(channels), variance.reshape(channels)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float | None = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel with zero mean and unit variance over the batch, or (evaluation) by the running statistics.

    In training, running_mean and running_var move by `momentum` towards the statistics of the batch; None or 0 leaves
    them as they are.

    >>> F.batch_norm(ex.tensor([[1.0, 10.0], [3.0, 30.0]]), None, None, training=True)
    tensor([[-1.0000, -1.0000],
            [ 1.0000,  1.0000]])
    """
    if eps < 0 or (training and eps == 0):
        raise ShapeError(f"batch_norm: eps must be positive, got {eps}")
    if not input.numel() and input.ndim < 2:
        return input.clone()
    if training and input.ndim > 1 and _is_one_per_channel(input):
        raise ShapeError(
            f"batch_norm: one value per channel in shape {tuple(input.shape)} has no variance to train with; "
            "use a larger batch (DataLoader: drop_last=True), or model.eval()"
        )
    return _batch_norm("batch_norm", input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


def _is_one_per_channel(x: Tensor) -> bool:
    return x.numel() == x.shape[1] if x.is_nested else x.shape[0] * count(x.shape[2:]) == 1


def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    *,
    out: Any = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """batch_norm, with the mean and 1 / standard deviation of the batch (outside the graph; empty in evaluation).

    >>> y, mean, scale = ex.native_batch_norm(ex.tensor([[0.0], [2.0]]), None, None, None, None, True, 0.1, 1e-5)
    >>> y.flatten(), mean, scale
    (tensor([-1.0000,  1.0000]), tensor([1.]), tensor([1.0000]))
    """
    args = (input, weight, bias, running_mean, running_var, training, momentum, eps)
    y, mean, variance = _batch_norm("native_batch_norm", *args)
    if mean is None or variance is None:
        none = ops.empty(0, dtype=statistics_dtype(input.dtype))
        return ops.deliver_each((y, none, none.clone()), out)
    return ops.deliver_each((y, mean.detach(), ops.rsqrt(variance.detach() + eps)), out)


def _native_batch_norm_legit(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """native_batch_norm, where the running statistics may be left out.

    >>> y, mean, scale = ex._native_batch_norm_legit(ex.tensor([[0.0], [2.0]]), None, None, True, 0.1, 1e-5)
    >>> y.flatten(), mean, scale
    (tensor([-1.0000,  1.0000]), tensor([1.]), tensor([1.0000]))
    """
    if len(rest) == 3:
        rest = (None, None, *rest)
    return native_batch_norm(input, weight, bias, *rest)


def _batch_norm_with_update(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """native_batch_norm in training, and an empty tensor where other devices keep notes."""
    args = (input, weight, bias, running_mean, running_var, True, momentum, eps)
    return *native_batch_norm(*args), ops.empty(0, dtype=uint8)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float | None = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel of each sample with zero mean and unit variance over space, then scaled and shifted.

    >>> F.instance_norm(ex.tensor([[[1.0, 3.0], [10.0, 30.0]]]))[0]
    tensor([[-1.0000,  1.0000],
            [-1.0000,  1.0000]])
    """
    op = "instance_norm"
    _channels(op, input, weight=weight, bias=bias, running_mean=running_mean, running_var=running_var)
    if not use_input_stats:
        return _by_running_statistics(op, input, running_mean, running_var, weight, bias, eps)
    if input.is_nested:
        from ..ragged_tensors import layers

        running = (running_mean, running_var) if momentum else (None, None)
        return layers.instance_norm(input, running, weight, bias, eps)
    n = count(input.shape[2:])
    if n == 1:
        raise ShapeError(
            f"{op}: one spatial element in shape {tuple(input.shape)} has no variance; use batch_norm or layer_norm"
        )
    dims = tuple(range(2, input.ndim))
    y, mean, variance = _standardize(op, input, _across(weight, input.ndim), _across(bias, input.ndim), eps, dims)
    if input.numel() and momentum:
        with no_grad():
            _update(running_mean, mean.mean(0), momentum)
            _update(running_var, variance.mean(0) * (n / (n - 1)), momentum)
    return y


def _grouped(
    op: str, x: Tensor, num_groups: int, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    channels = _channels(op, x, weight=weight, bias=bias)
    if num_groups < 1 or channels % num_groups:
        raise ShapeError(
            f"{op}: {channels} channels of shape {tuple(x.shape)} do not fall into {num_groups} equal groups"
        )
    inner = (num_groups, channels // num_groups)
    seen = x.reshape(x.shape[0], *inner, count(x.shape[2:]))
    scaled, shifted = (t if t is None else t.reshape(*inner, 1) for t in (weight, bias))
    y, mean, variance = _standardize(op, seen, scaled, shifted, eps, (2, 3))
    return y.reshape(x.shape), mean.reshape(x.shape[0], num_groups), variance.reshape(x.shape[0], num_groups)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Each group of channels of each sample with zero mean and unit variance, then scaled and shifted per channel.

    >>> ex.group_norm(ex.tensor([[1.0, 3.0, 10.0, 30.0]]), num_groups=2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    if input.is_nested:
        from ..ragged_tensors import layers

        return layers.group_norm(input, num_groups, weight, bias, eps)
    if input.ndim >= 2 and num_groups >= 1 and input.numel() == num_groups == input.shape[1]:
        raise ShapeError(
            f"group_norm: one value per group in shape {tuple(input.shape)} has no variance; use fewer groups"
        )
    return _grouped("group_norm", input, num_groups, weight, bias, eps)[0]


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """group_norm, with the mean and 1 / standard deviation of each group.

    >>> y, mean, scale = ex.native_group_norm(ex.tensor([[1.0, 3.0]]), None, None, N=1, C=2, HxW=1, group=1, eps=0.0)
    >>> y, mean, scale
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))
    """
    if N * C * HxW != input.numel():
        raise ShapeError(
            f"native_group_norm: N, C, HxW = {N}, {C}, {HxW} do not multiply to the size of shape {tuple(input.shape)}"
        )
    y, mean, variance = _grouped("native_group_norm", input, group, weight, bias, eps)
    return y, mean, ops.rsqrt(variance + eps)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Each element divided by (k + alpha * the mean square of `size` neighbouring channels) ** beta.

    >>> F.local_response_norm(ex.tensor([[[1.0], [2.0]]]), size=2, alpha=1.0).flatten()
    tensor([0.7378, 0.7816])
    """
    if input.ndim < 3:
        raise ShapeError(
            f"local_response_norm: expected (batch, channel, spatial, ...), got shape {tuple(input.shape)}"
        )
    if input.is_nested:
        from ..ragged_tensors import layers

        return layers.local_response_norm(input, size, alpha, beta, k)
    if not input.numel():
        return input
    n_batch, channels = input.shape[:2]
    size = as_int(size, "local_response_norm", "size")
    if size < 1:
        raise ShapeError(f"local_response_norm: size must be at least 1, got {size}")
    planes = (input * input).reshape(n_batch, 1, channels, count(input.shape[2:]))
    ones = ops.ones((1, 1, size, 1), dtype=input.dtype)
    total = convolve(planes, ones, stride=(1, 1), padding=((size // 2, (size - 1) // 2), (0, 0)))
    return input / (total.reshape(input.shape) / size * alpha + k).pow(beta)
