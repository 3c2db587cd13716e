"""Convolutions: Conv, ConvTranspose, DeformConv, Col2Im."""

from __future__ import annotations

import itertools
import math

import numpy as np

from ... import ops
from ...core.tensor import Tensor, from_array
from ...errors import ShapeError, UnsupportedError
from ...nn import functional as F
from .arranging import pad_constant
from .sizes import check_size, same_length
from .table import Ints, operator
from .windows import spatial, windows_of

_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def _check_dimensions(n: int) -> None:
    if n not in _CONVOLUTIONS:
        raise UnsupportedError(
            f"convolutions have 1 to 3 spatial dimensions here, this one has {n}; fold some into others"
        )


@operator("Conv")
def conv(
    x: Tensor, w: Tensor, b: Tensor | None = None, *, auto_pad: str = "NOTSET", dilations: Ints | None = None,
    group: int = 1, kernel_shape: Ints | None = None, pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    sizes = spatial(x)
    _check_dimensions(len(sizes))
    at = windows_of(sizes, kernel_shape or list(w.shape[2:]), auto_pad, pads, strides, dilations)
    padding = at.before
    if at.before != at.after:
        x, padding = at.padded(x), [0] * len(sizes)
    return _CONVOLUTIONS[len(sizes)](x, w, b, at.stride, padding, at.dilation, group)


@operator("ConvTranspose")
def conv_transpose(
    x: Tensor, w: Tensor, b: Tensor | None = None, *, auto_pad: str = "NOTSET", dilations: Ints | None = None,
    group: int = 1, kernel_shape: Ints | None = None, output_padding: Ints | None = None,
    output_shape: Ints | None = None, pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """The whole result without padding, then cut at both ends, or widened, to what the file asks for."""
    sizes = spatial(x)
    n = len(sizes)
    _check_dimensions(n)
    at = windows_of(sizes, kernel_shape or list(w.shape[2:]), "VALID", None, strides, dilations)
    more = output_padding or [0] * n
    same_length("output_padding", more, n)
    whole = [(i - 1) * s + e + o for i, s, e, o in zip(sizes, at.stride, at.extent, more, strict=True)]
    check_size([x.shape[0], w.shape[1] * group, *whole], x.element_size())
    before, after = [0] * n, [0] * n
    if output_shape is not None or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        target = (output_shape or [i * s for i, s in zip(sizes, at.stride, strict=True)])[-n:]
        check_size([x.shape[0], w.shape[1] * group, *target], x.element_size())
        total = [m - t for m, t in zip(whole, target, strict=True)]
        less, rest = [t // 2 for t in total], [t - t // 2 for t in total]
        before, after = (rest, less) if auto_pad != "SAME_UPPER" else (less, rest)
    elif pads:
        same_length("pads", pads, 2 * n)
        before, after = pads[:n], pads[n:]
    y = _TRANSPOSED[n](x, w, b, at.stride, 0, 0, group, at.dilation)
    # Beyond the last window there is nothing but the bias.
    missing = {2 + i: (0, m) for i, m in enumerate(more) if m}
    if missing:
        inner = y if b is None else y - b.reshape(-1, *[1] * n)
        y = pad_constant(inner, missing)
        y = y if b is None else y + b.reshape(-1, *[1] * n)
    return pad_constant(y, {2 + i: (-p, -q) for i, (p, q) in enumerate(zip(before, after, strict=True))})


@operator("Col2Im")
def col2im(
    x: Tensor, image_shape: Ints, block_shape: Ints, *, dilations: Ints | None = None, pads: Ints | None = None,
    strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """The sum of blocks at the places that a convolution's windows would read."""
    n = len(image_shape)
    at = windows_of(image_shape, block_shape, "NOTSET", pads, strides, dilations)
    sides = zip(image_shape, at.before, at.after, strict=True)
    padded = [size + b + a for size, b, a in sides]
    check_size([x.shape[0], x.shape[1], *padded], x.element_size())
    counts = [(p - e) // s + 1 for p, e, s in zip(padded, at.extent, at.stride, strict=True)]
    n_taps = math.prod(block_shape)
    if x.ndim != 3 or x.shape[1] % n_taps or x.shape[2] != math.prod(counts):
        raise ShapeError(f"expected ({'batch'}, channels * {n_taps}, {math.prod(counts)}), got {tuple(x.shape)}")
    places = np.zeros((n_taps, math.prod(counts)), np.int64)
    for i, offsets in enumerate(itertools.product(*map(range, block_shape))):
        axes = [np.arange(c) * s + o * d for c, s, o, d in zip(counts, at.stride, offsets, at.dilation, strict=True)]
        places[i] = np.ravel_multi_index(np.meshgrid(*axes, indexing="ij"), padded).reshape(-1)
    channels = x.shape[1] // n_taps
    blocks = x.reshape(x.shape[0], channels, -1)
    image = ops.zeros(x.shape[0], channels, math.prod(padded), dtype=x.dtype)
    image = image.index_add(2, from_array(places.reshape(-1)), blocks).reshape(x.shape[0], channels, *padded)
    cut = zip(at.before, at.after, strict=True)
    return pad_constant(image, {2 + i: (-b, -a) for i, (b, a) in enumerate(cut)}) if n else image


@operator("DeformConv")
def deform_conv(
    x: Tensor, w: Tensor, offset: Tensor, b: Tensor | None = None, mask: Tensor | None = None, *,
    dilations: Ints | None = None, group: int = 1, kernel_shape: Ints | None = None, offset_group: int = 1,
    pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """Every tap of every window reads, bilinearly, at its place plus an offset that is an input."""
    sizes = spatial(x)
    if len(sizes) != 2:
        raise UnsupportedError(f"DeformConv has 2 spatial dimensions here, this one has {len(sizes)}")
    at = windows_of(sizes, kernel_shape or list(w.shape[2:]), "NOTSET", pads, strides, dilations)
    batch, channels, n_taps = x.shape[0], x.shape[1], math.prod(at.kernel)
    rows, columns = offset.shape[2:]
    moved = offset.reshape(batch, offset_group, n_taps, 2, rows, columns)
    per_group = channels // offset_group
    read = []
    for i, (u, v) in enumerate(itertools.product(*map(range, at.kernel))):
        y0 = (ops.arange(rows) * at.stride[0] - at.before[0] + u * at.dilation[0]).to(x.dtype)
        x0 = (ops.arange(columns) * at.stride[1] - at.before[1] + v * at.dilation[1]).to(x.dtype)
        ys, xs = moved[:, :, i, 0] + y0.unsqueeze(1), moved[:, :, i, 1] + x0
        # grid_sample counts from -1 to 1 over the centres of the corners.
        height, width = max(sizes[0] - 1, 1), max(sizes[1] - 1, 1)
        image = x.reshape(batch * offset_group, per_group, *sizes)
        if min(sizes) == 1:  # one row or column has no extent to count over
            image = pad_constant(image, {2: (0, 1), 3: (0, 1)})
            height, width = sizes[0], sizes[1]
        grid = ops.stack([2 * xs / width - 1, 2 * ys / height - 1], -1).reshape(batch * offset_group, rows, columns, 2)
        tap = F.grid_sample(image, grid, mode="bilinear", padding_mode="zeros", align_corners=True)
        tap = tap.reshape(batch, offset_group, per_group, rows, columns)
        if mask is not None:
            tap = tap * mask.reshape(batch, offset_group, n_taps, 1, rows, columns)[:, :, i]
        read.append(tap.reshape(batch, channels, rows, columns))
    taps = ops.stack(read, 2).reshape(batch, group, channels // group * n_taps, rows * columns)
    weight = w.reshape(group, w.shape[0] // group, channels // group * n_taps)
    y = ops.matmul(weight, taps).reshape(batch, w.shape[0], rows, columns)
    return y if b is None else y + b.reshape(-1, 1, 1)
