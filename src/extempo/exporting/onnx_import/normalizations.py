"""Normalizations: of batches, instances, groups, layers and windows of channels."""

from __future__ import annotations

from ... import ops
from ...core.tensor import Tensor
from ...core.types import bfloat16, float16, float32
from ...errors import ArgumentError, ShapeError
from ...nn import functional as F
from .sizes import axis_in, check_size
from .table import Fixed, Ints, Results, operator


def _by_channel(v: Tensor, ndim: int) -> Tensor:
    return v.reshape(-1, *[1] * (ndim - 2))


@operator("BatchNormalization")
def batch_normalization(
    x: Tensor, scale: Tensor, b: Tensor, mean: Fixed, var: Fixed, *, epsilon: float = 1e-5, momentum: float = 0.9,
    training_mode: int = 0, spatial: int = 1, training: bool, n_outputs: int,
) -> Results:  # fmt: skip
    """In training mode by the batch's own statistics; the running ones, moved towards them, are results."""
    if not spatial:
        raise ShapeError("statistics of every place (spatial = 0) are not supported; export with opset 9 or later")
    own = x.dtype
    values, mean, var = (t.to(float32) if own in (float16, bfloat16) else t for t in (x, mean, var))
    moved: tuple[Tensor, ...] = ()
    if training_mode and training:
        dims = [d for d in range(x.ndim) if d != 1]
        now_mean, now_var = values.mean(dims), values.var(dims, correction=0)
        moved = tuple(
            (before * momentum + now * (1 - momentum)).detach().to(own)
            for before, now in ((mean, now_mean), (var, now_var))
        )
        mean, var = now_mean, now_var
    elif n_outputs > 1:
        moved = (mean, var)
    n = max(x.ndim, 2)
    factor = _by_channel(scale * ops.rsqrt(var + epsilon), n)
    y = (values - _by_channel(mean, n)) * factor + _by_channel(b, n)
    return (y.to(own), *moved)


@operator("InstanceNormalization")
def instance_normalization(x: Tensor, scale: Tensor, b: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    dims = list(range(2, x.ndim))
    centred = x - x.mean(dims, keepdim=True)
    y = centred * ops.rsqrt((centred * centred).mean(dims, keepdim=True) + epsilon)
    return y * _by_channel(scale, x.ndim) + _by_channel(b, x.ndim)


@operator("GroupNormalization")
def group_normalization(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1
) -> Tensor:
    """Scale and bias are by channel; before opset 21 they were by group."""
    channels = x.shape[1]
    if num_groups < 1 or channels % num_groups:
        raise ShapeError(f"{channels} channels cannot be split into {num_groups} groups")
    if scale.shape[0] != channels:
        scale, bias = (v.repeat_interleave(channels // num_groups) for v in (scale, bias))
    return F.group_norm(x, num_groups, scale, bias, epsilon)


@operator("LayerNormalization")
def layer_normalization(
    x: Tensor, scale: Tensor, b: Tensor | None = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1,
    n_outputs: int,
) -> Results:  # fmt: skip
    first = axis_in(axis, x.ndim)
    own = x.dtype
    if n_outputs == 1 and own is not float16 and own is not bfloat16 and scale.shape == x.shape[first:]:
        return F.layer_norm(x, list(x.shape[first:]), scale, b, epsilon)
    values = x.to(float32) if own in (float16, bfloat16) and stash_type == 1 else x
    dims = list(range(first, x.ndim))
    mean = values.mean(dims, keepdim=True)
    centred = values - mean
    inverse = ops.rsqrt((centred * centred).mean(dims, keepdim=True) + epsilon)
    y = (centred * inverse).to(own) * scale
    return (y if b is None else y + b), mean, inverse


@operator("RMSNormalization")
def rms_normalization(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    dims = list(range(axis_in(axis, x.ndim), x.ndim))
    values = x.to(float32) if x.dtype in (float16, bfloat16) and stash_type == 1 else x
    return (values * ops.rsqrt((values * values).mean(dims, keepdim=True) + epsilon)).to(x.dtype) * scale


@operator("LRN")
def lrn(x: Tensor, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int) -> Tensor:
    """Each channel divided by a power of the squares of its neighbours; more of them after it where `size` is even."""
    if size < 1:
        raise ArgumentError(f"size must be positive, got {size}")
    check_size([x.shape[0], x.shape[1] + size, *x.shape[2:]])
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    squares = (x * x).movedim(1, -1)
    padded = F.pad(squares, [before, after])
    total = padded.unfold(-1, size, 1).sum(-1).movedim(-1, 1)
    return x / (bias + alpha / size * total) ** beta


@operator("LpNormalization")
def lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    norm = x.abs().sum(axis, keepdim=True) if p == 1 else (x * x).sum(axis, keepdim=True).sqrt()
    return ops.where(norm == 0, ops.zeros_like(x), x / norm)


@operator("MeanVarianceNormalization")
def mean_variance_normalization(x: Tensor, *, axes: Ints | None = None) -> Tensor:
    dims = axes if axes is not None else [0, 2, 3]
    centred = x - x.mean(dims, keepdim=True)
    return centred / ((centred * centred).mean(dims, keepdim=True).sqrt() + 1e-9)
