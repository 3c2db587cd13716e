"""Pools: the largest, the mean or a norm of each window, of all of an image, and what undoes MaxPool."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ... import ops
from ...core.tensor import Tensor
from ...core.types import float32
from ...errors import ShapeError, UnsupportedError
from ...nn import functional as F
from .arranging import index_grid
from .sizes import check_size
from .table import Ints, Results, operator
from .windows import WindowOptions, spatial, taps, windows_of

_MAX_POOLS = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_AVERAGE_POOLS = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def _check_dimensions(n: int) -> None:
    if n not in _MAX_POOLS:
        raise UnsupportedError(f"pools have 1 to 3 spatial dimensions here, this one has {n}; fold some into others")


def _counts(sizes: Sequence[int], at: WindowOptions, ceil_mode: int) -> tuple[list[int], list[int]]:
    """How many windows there are along each dimension, and what they reach beyond the padding."""
    counts, more = [], []
    for size, e, s, b, a in zip(sizes, at.extent, at.stride, at.before, at.after, strict=True):
        room = size + b + a - e
        if room < 0:
            raise ShapeError(f"a window that spans {e} does not fit the size {size} with padding {b} and {a}")
        n = (-(-room // s) if ceil_mode else room // s) + 1
        if ceil_mode and (n - 1) * s >= size + b:  # a window must begin in the input, or in what is before it
            n -= 1
        counts.append(max(n, 0))
        more.append(max(0, (n - 1) * s + e - (size + b + a)))
    return counts, more


@operator("MaxPool")
def max_pool(
    x: Tensor, *, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Ints | None = None, kernel_shape: Ints,
    pads: Ints | None = None, storage_order: int = 0, strides: Ints | None = None, n_outputs: int,
) -> Results:  # fmt: skip
    sizes = spatial(x)
    _check_dimensions(len(sizes))
    at = windows_of(sizes, kernel_shape, auto_pad, pads, strides, dilations)
    _, more = _counts(sizes, at, ceil_mode)
    own = x.dtype
    values = x if own.is_floating_point else x.to(float32)
    padded = at.padded(values, -math.inf, more)
    pool = _MAX_POOLS[len(sizes)]
    if n_outputs < 2:
        return pool(padded, at.kernel, at.stride, 0, at.dilation).to(own)
    y, indices = pool(padded, at.kernel, at.stride, 0, at.dilation, return_indices=True)
    return y.to(own), _in_whole_tensor(indices, list(padded.shape[2:]), at.before, x, storage_order)


def _in_whole_tensor(
    indices: Tensor, padded: Sequence[int], before: Sequence[int], x: Tensor, storage_order: int
) -> Tensor:
    """Indices into each padded image as the format counts them: through the whole input, last dimension fastest or,
    with a storage order of columns, the last two the other way round."""
    sizes = spatial(x)
    places = []
    for size, b in zip(reversed(padded), reversed(before), strict=True):
        places.append(indices % size - b)
        indices = indices // size
    places.reverse()
    order = list(range(len(sizes)))
    if storage_order:
        order.reverse()
    flat = ops.zeros_like(places[0])
    for d in order:
        flat = flat * sizes[d] + places[d]
    batch, channels = index_grid(x.shape[:2])
    image = (batch * x.shape[1] + channels) * math.prod(sizes)
    return flat + image.reshape(*x.shape[:2], *[1] * len(sizes))


@operator("AveragePool")
def average_pool(
    x: Tensor, *, auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0,
    dilations: Ints | None = None, kernel_shape: Ints, pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """A window's mean over what lies in the input, or in its padding too if the file says so."""
    sizes = spatial(x)
    _check_dimensions(len(sizes))
    at = windows_of(sizes, kernel_shape, auto_pad, pads, strides, dilations)
    counts, more = _counts(sizes, at, ceil_mode)
    padded = at.padded(x, 0.0, more)
    is_plain = max(at.dilation) == 1
    total = _AVERAGE_POOLS[len(sizes)](padded, at.kernel, at.stride) if is_plain else _sum_of(taps(padded, at, counts))
    widened = padded.shape != x.shape if not count_include_pad else any(more)
    if is_plain and not widened:
        return total
    ones = ops.ones(1, 1, *sizes, dtype=x.dtype)
    there = at._replace(before=[0] * len(sizes), after=[0] * len(sizes)).padded(
        at.padded(ones, 1.0 if count_include_pad else 0.0), 0.0, more
    )
    n_there = _sum_of(taps(there, at, counts))
    return total * math.prod(at.kernel) / n_there if is_plain else total / n_there


def _sum_of(parts: object) -> Tensor:
    return sum(parts)  # type: ignore[call-overload] # of tensors


@operator("LpPool")
def lp_pool(
    x: Tensor, *, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Ints | None = None, kernel_shape: Ints,
    p: int = 2, pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    sizes = spatial(x)
    at = windows_of(sizes, kernel_shape, auto_pad, pads, strides, dilations)
    counts, more = _counts(sizes, at, ceil_mode)
    powers = at.padded(x.abs() ** p, 0.0, more)
    return _sum_of(taps(powers, at, counts)) ** (1.0 / p)


@operator("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    return x.mean(list(range(2, x.ndim)), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    return x.amax(list(range(2, x.ndim)), keepdim=True)


@operator("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: int = 2) -> Tensor:
    return (x.abs() ** p).sum(list(range(2, x.ndim)), keepdim=True) ** (1.0 / p)


@operator("MaxUnpool")
def max_unpool(
    x: Tensor, indices: Tensor, output_shape: Ints | None = None, *, kernel_shape: Ints, pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """Values at the places that MaxPool took them from, which count through the whole tensor; zeros elsewhere."""
    sizes = spatial(x)
    at = windows_of(sizes, kernel_shape, "NOTSET", pads, strides, None)
    sides = zip(sizes, at.stride, at.kernel, at.before, at.after, strict=True)
    natural = [*x.shape[:2], *((n - 1) * s + k - b - a for n, s, k, b, a in sides)]
    check_size(natural, x.element_size())
    flat = ops.zeros(math.prod(natural), dtype=x.dtype).scatter(0, indices.reshape(-1), x.reshape(-1))
    y = flat.reshape(natural)
    if output_shape is None or list(output_shape) == natural:
        return y
    check_size(output_shape, x.element_size())
    for dim in range(2, len(natural)):
        y = F.pad(y, [0, 0] * (y.ndim - 1 - dim) + [0, output_shape[dim] - natural[dim]])
    return y
