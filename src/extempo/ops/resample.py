"""The same image on a regular grid of another size: interpolate and its older names.

Interpolation goes one dimension at a time, each output a weighted sum of a few inputs (`Taps`); a table maker per mode
gives positions and weights. Coordinates are computed in the precision PyTorch computes them in, because a nearest
neighbour may hang on the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import check_size, float64, is_sequence, uint8
from ..errors import DtypeError, ShapeError, UnsupportedError
from .pool import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from .taps import weighted_taps
from .windows import Ints, as_ints

Table = tuple[Array, Array]  # positions and weights, (outputs, taps) each

# ---- tables of taps, one maker per mode


def _scale(n_in: int, n_out: int, factor: float | None, align_corners: bool, real: Any) -> Any:
    """How far one step of the output goes in the input."""
    if align_corners:
        return real(n_in - 1) / real(n_out - 1) if n_out > 1 else real(0)
    return real(1.0 / factor) if factor is not None and factor > 0 else real(n_in) / real(n_out)


def _sources(n_in: int, n_out: int, factor: float | None, align_corners: bool, real: Any) -> Array:
    """Where each output lies in the coordinates of the input."""
    scale = _scale(n_in, n_out, factor, align_corners, real)
    i = np.arange(n_out).astype(real)
    return i * scale if align_corners else (i + real(0.5)) * scale - real(0.5)


def _nearest_table(n_in: int, n_out: int, factor: float | None, shift: float) -> Table:
    scale = _scale(n_in, n_out, factor, False, np.float32)
    source = np.floor((np.arange(n_out).astype(np.float32) + np.float32(shift)) * scale).astype(np.int64)
    if n_in == n_out and not shift:
        source = np.arange(n_out)
    return np.minimum(source, n_in - 1)[:, None], np.ones((n_out, 1))


def _linear_table(n_in: int, n_out: int, factor: float | None, align_corners: bool, real: Any) -> Table:
    source = np.maximum(_sources(n_in, n_out, factor, align_corners, real), 0)
    if n_in == n_out:
        source = np.arange(n_out).astype(real)
    first = np.minimum(source.astype(np.int64), n_in - 1)
    t = np.clip(source - first, 0, 1)
    return np.stack([first, np.minimum(first + 1, n_in - 1)], 1), np.stack([1 - t, t], 1).astype(np.float64)


def _cubic_table(n_in: int, n_out: int, factor: float | None, align_corners: bool, real: Any) -> Table:
    source = _sources(n_in, n_out, factor, align_corners, real)
    first = np.floor(source)
    weights = np.stack(cubic_weights(source - first, -0.75), 1).astype(np.float64)
    return np.clip(first.astype(np.int64)[:, None] + np.arange(-1, 3), 0, n_in - 1), weights


def _cubic_near(t: Any, a: float) -> Any:
    """The cubic convolution kernel (Keys 1981) at distance t up to 1."""
    return ((a + 2) * t - (a + 3)) * t * t + 1


def _cubic_far(t: Any, a: float) -> Any:
    """The cubic convolution kernel at distance t from 1 to 2."""
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a


def cubic_weights(t: Any, a: float) -> list[Any]:
    """Weights of the four neighbours of a place that lies t after the second of them."""
    return [_cubic_far(t + 1, a), _cubic_near(t, a), _cubic_near(1 - t, a), _cubic_far(2 - t, a)]


def _triangle(x: Array) -> Array:
    return np.maximum(0, 1 - np.abs(x))


def _smooth_cubic(x: Array) -> Array:
    x = np.abs(x)
    return np.where(x < 1, _cubic_near(x, -0.5), np.where(x < 2, _cubic_far(x, -0.5), 0))


def _lanczos(x: Array) -> Array:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)


# Filters for antialiasing, with the number of inputs they span when the image is not made smaller.
_FILTERS: dict[str, tuple[Callable[[Array], Array], int]] = {
    "bilinear": (_triangle, 2),
    "bicubic": (_smooth_cubic, 4),
    "lanczos": (_lanczos, 6),
}


def _antialiased_table(mode: str, n_in: int, n_out: int, factor: float | None, align_corners: bool, real: Any) -> Table:
    """A filter as wide as one step in the input: what PIL does."""
    kernel, span = _FILTERS[mode]
    scale = float(_scale(n_in, n_out, factor, align_corners, real))
    support = span * 0.5 * max(scale, 1.0)
    centers = scale * (np.arange(n_out) + 0.5)
    starts = np.maximum((centers - support + 0.5).astype(np.int64), 0)
    lengths = np.minimum((centers + support + 0.5).astype(np.int64), n_in) - starts
    offsets = np.arange(max(1, int(lengths.max(initial=1))))
    distance = (starts[:, None] + offsets - centers[:, None] + 0.5) / max(scale, 1.0)
    weights = np.where(offsets < lengths[:, None], kernel(distance), 0.0)
    total = weights.sum(1, keepdims=True)
    return np.minimum(starts[:, None] + offsets, n_in - 1), weights / np.where(total == 0, 1, total)


# ---- interpolate

_MODES = {"linear": 3, "bilinear": 4, "bicubic": 4, "lanczos": 4, "trilinear": 5}
_AREA = {3: adaptive_avg_pool1d, 4: adaptive_avg_pool2d, 5: adaptive_avg_pool3d}


def _table(
    mode: str, n_in: int, n_out: int, factor: float | None, align_corners: bool, antialias: bool, real: Any
) -> Table:
    if mode == "nearest":
        return _nearest_table(n_in, n_out, factor, 0.0)
    if mode == "nearest-exact":
        return _nearest_table(n_in, n_out, factor, 0.5)
    if antialias:
        return _antialiased_table(mode, n_in, n_out, factor, align_corners, real)
    make = _cubic_table if mode == "bicubic" else _linear_table
    return make(n_in, n_out, factor, align_corners, real)


def _target(
    input: Tensor, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """The spatial sizes of the result, and the factors that coordinates are scaled by (None: by the sizes)."""
    sizes = tuple(input.shape[2:])
    n = len(sizes)
    if (size is None) == (scale_factor is None):
        raise ShapeError("interpolate: give size or scale_factor, one of both")
    if size is not None:
        if recompute:
            raise ShapeError(
                "interpolate: recompute_scale_factor means nothing with an explicit size; drop one of them"
            )
        return as_ints(size, n, "interpolate", "size"), (None,) * n
    factors = tuple(scale_factor) if is_sequence(scale_factor) else (scale_factor,) * n
    if len(factors) != n:
        raise ShapeError(f"interpolate: scale_factor must be one number or {n}, got {scale_factor!r}")
    target = tuple(int(s * f) for s, f in zip(sizes, factors, strict=True))
    if any(t < 1 for t in target):
        raise ShapeError(f"interpolate: sizes {sizes} times scale_factor {factors} leave nothing: {target}")
    return target, (None,) * n if recompute else tuple(float(f) for f in factors)


def interpolate(
    input: Tensor,
    size: Ints | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resize images (batch, channel, *spatial) to `size` or by `scale_factor`.

    Modes: nearest, nearest-exact, area (any spatial dimensions up to 3); linear (1), bilinear (2), bicubic (2),
    trilinear (3), lanczos (2, antialias only).

    >>> F.interpolate(ex.tensor([[[1.0, 3.0]]]), scale_factor=2)
    tensor([[[1., 1., 3., 3.]]])
    >>> F.interpolate(ex.tensor([[[1.0, 3.0]]]), size=3, mode="linear", align_corners=True)
    tensor([[[1., 2., 3.]]])
    """
    if input.ndim not in (3, 4, 5):
        raise ShapeError(
            "interpolate: expected (batch, channel, *spatial) with 1 to 3 spatial dimensions, "
            f"got shape {tuple(input.shape)}; for one image use x.unsqueeze(0)"
        )
    if mode not in _MODES and mode not in ("nearest", "nearest-exact", "area"):
        raise UnsupportedError(
            f"interpolate: mode must be nearest, nearest-exact, area or {', '.join(_MODES)}, got {mode!r}"
        )
    if _MODES.get(mode, input.ndim) != input.ndim:
        fitting = [m for m, ndim in _MODES.items() if ndim == input.ndim]
        raise ShapeError(
            f"interpolate: mode {mode!r} needs {_MODES[mode]} dimensions, got shape {tuple(input.shape)}; "
            f"did you mean {fitting[0]!r}?"
        )
    if align_corners is not None and mode not in _MODES:
        raise ShapeError(f"interpolate: align_corners has no meaning in mode {mode!r}; leave it out")
    if antialias and mode not in _FILTERS:
        raise UnsupportedError(f"interpolate: antialias works with {', '.join(_FILTERS)} on images, got {mode!r}")
    if mode == "lanczos" and (align_corners or not antialias):
        raise UnsupportedError("interpolate: mode 'lanczos' needs antialias=True and align_corners=False")
    target, factors = _target(input, size, scale_factor, recompute_scale_factor)
    check_size("interpolate", target, 8)
    if mode == "area":
        return _AREA[input.ndim](input, target)
    return _resized(input, target, factors, mode, bool(align_corners), antialias)


def _resized(
    x: Tensor,
    target: tuple[int, ...],
    factors: tuple[float | None, ...],
    mode: str,
    align_corners: bool,
    antialias: bool = False,
) -> Tensor:
    if 0 in x.shape[1:]:
        raise ShapeError(
            f"interpolate: shape {tuple(x.shape)} has no elements to interpolate; only the batch may be empty"
        )
    if not x.dtype.is_floating_point and not mode.startswith("nearest"):
        if x.dtype is not uint8:
            raise DtypeError(f"interpolate: mode {mode!r} needs floating or uint8 images, got {x.dtype}; use x.float()")
        smooth = _resized(x.float(), target, factors, mode, align_corners, antialias)
        return ops.round(smooth).clamp(0, 255).to(uint8)
    real = np.float64 if x.dtype is float64 else np.float32
    for dim, (n_out, factor) in enumerate(zip(target, factors, strict=True), 2):
        table = _table(mode, x.shape[dim], n_out, factor, align_corners, antialias, real)
        x = weighted_taps(x, dim, *table)
    return x


def upsample(
    input: Tensor,
    size: Ints | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """The old name of interpolate.

    >>> F.upsample(ex.tensor([[[1.0, 3.0]]]), scale_factor=2)
    tensor([[[1., 1., 3., 3.]]])
    """
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Ints | None = None, scale_factor: float | None = None) -> Tensor:
    """interpolate with mode="nearest".

    >>> F.upsample_nearest(ex.tensor([[[1.0, 3.0]]]), size=4)
    tensor([[[1., 1., 3., 3.]]])
    """
    return interpolate(input, size, scale_factor)


def upsample_bilinear(
    input: Tensor, size: Ints | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """interpolate with mode="bilinear" and align_corners=True.

    >>> F.upsample_bilinear(ex.tensor([[[[1.0, 3.0]]]]), size=(1, 3))[0]
    tensor([[[1., 2., 3.]]])
    """
    return interpolate(input, size, scale_factor, "bilinear", True)


def _upsample_bilinear2d_aa(
    input: Tensor,
    output_size: Sequence[int] | None,
    align_corners: bool,
    scale_factors: Sequence[float] | None = None,
    *,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Tensor:
    """Antialiased bilinear resizing, where a size and factors may be given at once."""
    if output_size is None:
        target, factors = _target(input, None, scale_factors, None)
    else:
        target, factors = as_ints(output_size, 2, "_upsample_bilinear2d_aa", "output_size"), (scales_h, scales_w)
    return _resized(input, target, factors, "bilinear", align_corners, antialias=True)
