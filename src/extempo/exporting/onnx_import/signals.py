"""Signals: DFT and STFT by matrices of cosines and sines (a complex number is a last dimension of 2), and windows."""

from __future__ import annotations

import math

import numpy as np

from ... import ops
from ...core.storage import Array
from ...core.tensor import Tensor, from_array
from ...core.types import float32, float64
from ...errors import ArgumentError, ShapeError
from .arranging import pad_constant
from .sizes import axis_in, check_size
from .table import Dtype, Fixed, Floats, Ints, operator


def _waves(n: int, n_bins: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines (n, bins) of a transform of length n."""
    check_size((n, n_bins))
    # The product is taken modulo n in whole numbers, so that large angles lose nothing.
    angles = 2 * math.pi * (np.outer(np.arange(n), np.arange(n_bins)) % n) / n
    return from_array(np.cos(angles)), from_array(np.sin(angles))


def _transformed(x: Tensor, n_bins: int, inverse: bool) -> Tensor:
    """The transform of (..., n, 1 or 2) along its last dimension but one, (..., bins, 2)."""
    n = x.shape[-2]
    cosines, sines = _waves(n, n_bins)
    own, x = x.dtype, x.to(float64)  # a sum over all steps, where a fast transform has few: float32 would lose more
    sines = -sines if inverse else sines
    real = x[..., 0]
    a, b = ops.matmul(real, cosines), -ops.matmul(real, sines)
    if x.shape[-1] == 2:
        imaginary = x[..., 1]
        a, b = a + ops.matmul(imaginary, sines), b + ops.matmul(imaginary, cosines)
    y = ops.stack([a, b], -1)
    return (y / n if inverse else y).to(own)


@operator("DFT")
def dft(
    x: Tensor, dft_length: Ints | None = None, axis: Ints | None = None, *, axis_: int = 1, inverse: int = 0,
    onesided: int = 0, opset: int,
) -> Tensor:  # fmt: skip
    """Opset 20 made the axis an input, with another default."""
    if x.shape[-1] not in (1, 2):
        raise ShapeError(f"expected (..., 1) or (..., 2), real or complex numbers, got shape {tuple(x.shape)}")
    named = axis[0] if axis else -2 if opset >= 20 else axis_
    dim = axis_in(named, x.ndim)
    if dim == x.ndim - 1:
        raise ArgumentError("the last dimension holds the parts of a number, and cannot be transformed")
    rows = x.movedim(dim, -2)
    if onesided and inverse:  # half of a spectrum whose other half is its mirror image, to real numbers
        n = dft_length[0] if dft_length else 2 * (rows.shape[-2] - 1)
        rows = _whole_spectrum(_of_length(rows, n // 2 + 1), n)
        return _transformed(rows, n, True)[..., :1].movedim(-2, dim)
    rows = _of_length(rows, dft_length[0] if dft_length else rows.shape[-2])
    n = rows.shape[-2]
    return _transformed(rows, n // 2 + 1 if onesided else n, bool(inverse)).movedim(-2, dim)


def _of_length(rows: Tensor, n: int) -> Tensor:
    """Cut, or widened by zeros."""
    if n < 1:
        raise ArgumentError(f"dft_length must be positive, got {n}")
    check_size((*rows.shape[:-2], n, rows.shape[-1]), rows.element_size())
    return pad_constant(rows, {rows.ndim - 2: (0, n - rows.shape[-2])})


def _whole_spectrum(half: Tensor, n: int) -> Tensor:
    mirrored = half[..., 1 : (n + 1) // 2, :].flip(-2)
    if half.shape[-1] == 2:
        mirrored = mirrored * ops.tensor([1.0, -1.0], dtype=half.dtype)
    return ops.cat([half, mirrored], -2)


@operator("STFT")
def stft(
    signal: Tensor, frame_step: Ints, window: Fixed | None = None, frame_length: Ints | None = None, *,
    onesided: int = 1,
) -> Tensor:  # fmt: skip
    if signal.ndim == 2:
        signal = signal.unsqueeze(-1)
    n = frame_length[0] if frame_length else window.shape[0] if window is not None else signal.shape[1]
    if n < 1 or frame_step[0] < 1 or n > signal.shape[1]:
        raise ArgumentError(f"frames of {n} every {frame_step[0]} do not fit a signal of length {signal.shape[1]}")
    frames = signal.unfold(1, n, frame_step[0]).movedim(-1, 2)  # (batch, frames, n, 1 or 2)
    if window is not None:
        frames = frames * window.reshape(-1, 1)
    return _transformed(frames, n // 2 + 1 if onesided else n, False)


def _window(size: Ints, periodic: int, output_datatype: Dtype, *terms: float) -> Tensor:
    n = size[0]
    check_size((n,))
    angles = 2 * math.pi * np.arange(n) / max(n if periodic else n - 1, 1)
    made: Array = sum((t * np.cos(i * angles) for i, t in enumerate(terms)), np.zeros(n))
    return from_array(made).to(output_datatype)


@operator("HannWindow")
def hann_window(size: Ints, *, output_datatype: Dtype = float32, periodic: int = 1) -> Tensor:
    return _window(size, periodic, output_datatype, 0.5, -0.5)


@operator("HammingWindow")
def hamming_window(size: Ints, *, output_datatype: Dtype = float32, periodic: int = 1) -> Tensor:
    return _window(size, periodic, output_datatype, 25 / 46, -21 / 46)


@operator("BlackmanWindow")
def blackman_window(size: Ints, *, output_datatype: Dtype = float32, periodic: int = 1) -> Tensor:
    return _window(size, periodic, output_datatype, 0.42, -0.5, 0.08)


@operator("MelWeightMatrix")
def mel_weight_matrix(
    num_mel_bins: Ints, dft_length: Ints, sample_rate: Ints, lower_edge_hertz: Floats, upper_edge_hertz: Floats, *,
    output_datatype: Dtype = float32,
) -> Tensor:  # fmt: skip
    """Triangles (spectrum bins, mel bins) between places that are evenly spaced in mel."""
    n_mels, n_bins = num_mel_bins[0], dft_length[0] // 2 + 1
    check_size((n_bins, n_mels))
    low, high = (2595 * math.log10(1 + hertz[0] / 700) for hertz in (lower_edge_hertz, upper_edge_hertz))
    mels = low + np.arange(n_mels + 2) * (high - low) / (n_mels + 2)
    edges = ((dft_length[0] + 1) * 700 * (10 ** (mels / 2595) - 1) // sample_rate[0]).astype(np.int64)
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    bins = np.arange(n_bins)[:, None]
    rising = np.where(centre > left, (bins - left) / np.maximum(centre - left, 1), 1.0 * (bins == centre))
    falling = (right - bins) / np.maximum(right - centre, 1)
    made = np.where((bins >= left) & (bins <= centre), rising, np.where((bins > centre) & (bins < right), falling, 0.0))
    return from_array(made).to(output_datatype)
