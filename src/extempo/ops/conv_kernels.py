"""NumPy kernels of convolutions: one road for all, through arrays with a group dimension in front.

    y[b, g, o, p] = sum over c, k of w[g, o, c, k] * x[g, b, c, p * stride - low + k * dilation]

where x may be spread out by `input_dilation` first, and what lies outside x counts as zero. `lows` is the padding in
front; how much is needed behind follows from `counts`, the number of windows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.storage import Array
from .windows import dilated, dilated_size, padded, places, windows

Sizes = tuple[int, ...]

# Elements of the matrix that windows are copied into. With one product per sample, what the second-level cache holds
# next to the operands; with one product for many, rows enough to keep it busy (measured: half the time of 2^18).
_WORKSPACE = {True: 1 << 18, False: 1 << 22}
# Kernels with more places than this go through one matrix product, never through a loop over places.
_MOST_PLACES = 64


def grouped(
    x: Array, w: Array, *, stride: Sizes, lows: Sizes, dilation: Sizes, input_dilation: Sizes, counts: Sizes
) -> Array:
    """x: (group, batch, channel, *spatial), w: (group, output, channel, *kernel) -> (batch, group, output, *counts)."""
    few_places = math.prod(w.shape[3:]) <= _MOST_PLACES
    # Adding products up also beats copying windows where there are far more channels than outputs.
    if few_places and max(stride) == 1 and (max(input_dilation) > 1 or w.shape[2] >= 4 * w.shape[1]):
        return _scattered(x, w, lows, dilation, input_dilation, counts)
    x = dilated(x, input_dilation)
    ends = [(n - 1) * s + dilated_size(k, d) for n, s, k, d in zip(counts, stride, w.shape[3:], dilation, strict=True)]
    x = padded(x, tuple((low, e - low - size) for low, e, size in zip(lows, ends, x.shape[3:], strict=True)))
    y = np.empty((x.shape[1], x.shape[0], w.shape[1], *counts), x.dtype)
    if not y.size:
        return y
    if w.shape[1] == w.shape[2] == 1 and few_places:
        _multiplied(x, w, y.swapaxes(0, 1), stride, dilation, counts)
    else:
        _contracted(x, w, y.swapaxes(0, 1), stride, dilation, counts)
    return y


def _contracted(x: Array, w: Array, y: Array, stride: Sizes, dilation: Sizes, counts: Sizes) -> None:
    """Copy the windows of a few samples into a matrix, multiply, go on: the matrix stays in cache."""
    groups, n_batch, n_channels = x.shape[:3]
    kernel = w.shape[3:]
    rank = len(kernel)
    n_places, n_counts = math.prod(kernel), math.prod(counts)
    seen = windows(x, kernel, stride, dilation, counts)
    w = w.reshape(groups, w.shape[1], n_channels * n_places)
    # The longer of the two goes last in the matrix, so that copies run over long rows.
    windows_last = n_counts >= n_places
    chunk = max(1, _WORKSPACE[windows_last] // max(1, groups * n_channels * n_places * n_counts))
    if not windows_last:
        seen = seen.transpose(0, 1, *range(3 + rank, 3 + 2 * rank), *range(2, 3 + rank))
    for first in range(0, n_batch, chunk):
        part = seen[:, first : first + chunk]
        n = part.shape[1]
        if windows_last:
            out = y[:, first : first + n].reshape(groups, n, y.shape[2], n_counts)
            np.matmul(w[:, None], part.reshape(groups, n, n_channels * n_places, n_counts), out=out)
        else:
            matrix = part.reshape(groups, n * n_counts, n_channels * n_places)
            product = np.matmul(matrix, w.swapaxes(1, 2)).reshape(groups, n, *counts, y.shape[2])
            y[:, first : first + n] = np.moveaxis(product, -1, 2)


def _multiplied(x: Array, w: Array, y: Array, stride: Sizes, dilation: Sizes, counts: Sizes) -> None:
    """One channel in, one out per group: a multiplication for each place of the kernel beats thin matrix products."""
    y.fill(0)
    for k, selected in places(w.shape[3:], stride, dilation, counts):
        y += x[selected] * _factor(w, k, x.ndim)


def _factor(w: Array, k: Sizes, ndim: int) -> Array:
    """The weights of one channel at one place, (group, 1, output, 1, ...)."""
    return w[(slice(None), None, slice(None), 0, *k)].reshape(w.shape[0], 1, w.shape[1], *(1,) * (ndim - 3))


def _scattered(x: Array, w: Array, lows: Sizes, dilation: Sizes, input_dilation: Sizes, counts: Sizes) -> Array:
    """Stride 1 over a spread-out input: multiply what is there, then add each product where it belongs."""
    groups, n_batch, n_channels, *sizes = x.shape
    n_outputs, kernel = w.shape[1], w.shape[3:]
    # Element j at place k goes to y[j * spread + low - k * dilation]; the canvas begins where the smallest of these is.
    first = [min(0, low - (k - 1) * d) for low, k, d in zip(lows, kernel, dilation, strict=True)]
    last = [
        max(n, dilated_size(s, spread) + low)
        for n, s, spread, low in zip(counts, sizes, input_dilation, lows, strict=True)
    ]
    canvas = np.zeros((n_batch, groups, n_outputs, *(b - a for a, b in zip(first, last, strict=True))), x.dtype)
    view = canvas.swapaxes(0, 1)
    products: Array | None = None
    if n_channels > 1:
        flat = w.swapaxes(1, 2).reshape(groups, 1, n_channels, n_outputs * math.prod(kernel)).swapaxes(2, 3)
        products = np.matmul(flat, x.reshape(groups, n_batch, n_channels, math.prod(sizes)))
        products = products.reshape(groups, n_batch, n_outputs, *kernel, *sizes)
    for k in np.ndindex(*kernel):
        starts = [low - a - i * d for low, a, i, d in zip(lows, first, k, dilation, strict=True)]
        spans = zip(starts, sizes, input_dilation, strict=True)
        where: Any = (..., *(slice(start, start + s * spread, spread) for start, s, spread in spans))
        part = x * _factor(w, k, x.ndim) if products is None else products[(slice(None),) * 3 + k]
        view[where] += part
    crop: Any = (..., *(slice(-a, n - a) for a, n in zip(first, counts, strict=True)))
    return np.ascontiguousarray(canvas[crop])
