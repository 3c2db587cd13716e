"""The same image on another grid: interpolate, grid_sample and affine_grid; and images cut into patches: unfold, fold.

Interpolation goes one dimension at a time, each output a weighted sum of a few inputs (`Taps`); a table maker per mode
gives positions and weights. grid_sample is a composite of gathers. Coordinates are computed in the precision PyTorch
computes them in, because a nearest neighbour may hang on the last bit.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from .. import ops
from ..core.op import Op, Refuse, Rng, Sample
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import TensorType, check_size, float64, uint8
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, ShapeError, UnsupportedError
from .pool import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from .taps import weighted_taps
from .windows import Ints, as_ints, n_windows, padded, per_sample, places, windows

__all__ = ["affine_grid_generator", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d"]


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
    weights = np.stack(_cubic_weights(source - first, -0.75), 1).astype(np.float64)
    return np.clip(first.astype(np.int64)[:, None] + np.arange(-1, 3), 0, n_in - 1), weights


def _cubic_near(t: Any, a: float) -> Any:
    """The cubic convolution kernel (Keys 1981) at distance t up to 1."""
    return ((a + 2) * t - (a + 3)) * t * t + 1


def _cubic_far(t: Any, a: float) -> Any:
    """The cubic convolution kernel at distance t from 1 to 2."""
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a


def _cubic_weights(t: Any, a: float) -> list[Any]:
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
    factors = tuple(scale_factor) if hasattr(scale_factor, "__iter__") else (scale_factor,) * n
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


# ---- grid_sample

_SAMPLING = ("bilinear", "nearest", "bicubic")
_PADDING = ("zeros", "border", "reflection")


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """The input looked up at the places in `grid`, whose coordinates run from -1 to 1 and are (x, y) or (x, y, z).

    input: (batch, channel, height, width), grid: (batch, out_height, out_width, 2), or with a depth and 3.

    >>> image = ex.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> corner_and_middle = ex.tensor([[[[-1.0, -1.0], [0.0, 0.0]]]])
    >>> F.grid_sample(image, corner_and_middle, align_corners=True).flatten()
    tensor([1.0000, 2.5000])
    """
    if mode not in _SAMPLING or padding_mode not in _PADDING:
        raise UnsupportedError(
            f"grid_sample: mode must be one of {_SAMPLING} and padding_mode of {_PADDING}, "
            f"got {mode!r} and {padding_mode!r}"
        )
    if align_corners is None:
        warnings.warn("grid_sample: align_corners is not given and taken as False, as in PyTorch", stacklevel=2)
    return _sampled("grid_sample", input, grid, mode, padding_mode, bool(align_corners))


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """grid_sample with its modes as numbers: bilinear, nearest, bicubic; zeros, border, reflection.

    >>> image = ex.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> middle = ex.zeros(1, 1, 1, 2)
    >>> ex.grid_sampler(image, middle, 0, 0, False).item()
    2.5
    """
    return _sampled("grid_sampler", input, grid, _SAMPLING[interpolation_mode], _PADDING[padding_mode], align_corners)


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """grid_sampler of images.

    >>> image = ex.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> middle = ex.zeros(1, 1, 1, 2)
    >>> ex.grid_sampler_2d(image, middle, 0, 0, False).item()
    2.5
    """
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """grid_sampler of volumes.

    >>> volume = ex.tensor([[[[[1.0, 2.0], [3.0, 4.0]]]]])
    >>> middle = ex.zeros(1, 1, 1, 1, 3)
    >>> ex.grid_sampler_3d(volume, middle, 0, 0, False).item()
    2.5
    """
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def _sampled(op: str, x: Tensor, grid: Tensor, mode: str, padding_mode: str, align_corners: bool) -> Tensor:
    _check_grid(op, x, grid, mode)
    n = x.ndim - 2
    sizes = tuple(x.shape[2:])
    # Per spatial dimension, the neighbours that take part: (index as a float, weight).
    taps = [
        _dimension_taps(grid.select(-1, n - 1 - d), size, mode, padding_mode, align_corners)
        for d, size in enumerate(sizes)
    ]
    n_batch, channels, out = x.shape[0], x.shape[1], tuple(grid.shape[1:-1])
    n_out = math.prod(out)
    flat = x.reshape(n_batch, channels, math.prod(sizes))
    y: Any = None
    for combination in product(*taps):
        index, inside, weight = _flat_tap(combination, sizes)
        seen = ops.gather(flat, 2, index.reshape(n_batch, 1, n_out).expand(n_batch, channels, n_out))
        seen = seen.reshape(n_batch, channels, *out)
        part = seen * ops.where(inside, weight, 0.0).unsqueeze(1)
        y = part if y is None else y + part
    return y


def _check_grid(op: str, x: Tensor, grid: Tensor, mode: str) -> None:
    n = x.ndim - 2
    if n not in (2, 3) or grid.ndim != x.ndim or grid.shape[-1] != n or grid.shape[0] != x.shape[0]:
        raise ShapeError(
            f"{op}: expected input (batch, channel, *spatial) with 2 or 3 spatial dimensions and grid "
            f"(batch, *out, 2 or 3), got {tuple(x.shape)} and {tuple(grid.shape)}"
        )
    if x.dtype is not grid.dtype:
        raise DtypeError(f"{op}: input is {x.dtype} but grid is {grid.dtype}; convert one with .to(...)")
    if 0 in x.shape[2:]:
        raise ShapeError(
            f"{op}: input of shape {tuple(x.shape)} has no elements to look up; only the batch may be empty"
        )
    if mode == "bicubic" and n != 2:
        raise UnsupportedError(f"{op}: mode 'bicubic' works on images, got shape {tuple(x.shape)}; use 'bilinear'")


def _dimension_taps(
    coordinate: Tensor, size: int, mode: str, padding_mode: str, align_corners: bool
) -> list[tuple[Tensor, Tensor]]:
    """The neighbours of each place along one dimension, and their weights."""
    place = (coordinate + 1) * ((size - 1) / 2) if align_corners else ((coordinate + 1) * size - 1) / 2
    if mode == "bicubic":
        first = ops.floor(place)
        weights = _cubic_weights(place - first, -0.75)
        return [(_kept_inside(first + (i - 1), size, padding_mode, align_corners), w) for i, w in enumerate(weights)]
    place = _kept_inside(place, size, padding_mode, align_corners)
    if mode == "nearest":
        # The weight 1 stays part of the graph: the grid has a gradient, which is 0.
        return [(ops.round(place), 1 - ops.zero(place))]
    first = ops.floor(place)
    t = place - first
    return [(first, 1 - t), (first + 1, t)]


def _kept_inside(place: Tensor, size: int, padding_mode: str, align_corners: bool) -> Tensor:
    """Places outside moved to the border, or reflected at it."""
    if padding_mode == "zeros":
        return place
    if padding_mode == "reflection":
        low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        if span == 0:
            return ops.zero(place)
        beyond = ops.abs(place - low)
        rest = ops.fmod(beyond, span)
        odd = ops.eq(ops.fmod(ops.floor(beyond / span), 2.0), 1.0)
        place = ops.where(odd, span - rest, rest) + low
    return ops.clamp(place, 0.0, size - 1.0)


def _flat_tap(combination: tuple[tuple[Tensor, Tensor], ...], sizes: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """One neighbour per dimension put together: flat index (0 where outside), whether it is inside, its weight."""
    index: Any = 0
    inside: Any = None
    weight: Any = None
    for (position, w), size in zip(combination, sizes, strict=True):
        within = ops.logical_and(ops.ge(position, 0.0), ops.lt(position, float(size)))
        inside = within if inside is None else ops.logical_and(inside, within)
        index = index * size + ops.where(within, position, 0.0).detach().long()
        weight = w if weight is None else weight * w
    return index, inside, weight


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """A grid for grid_sample: the places of an image of `size` (batch, channel, *spatial) moved by affine maps.

    theta: (batch, 2, 3) for images, (batch, 3, 4) for volumes.

    >>> turn = ex.tensor([[[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]]])
    >>> F.affine_grid(turn, (1, 1, 1, 2), align_corners=False)[0, 0]
    tensor([[ 0.0000,  0.5000],
            [ 0.0000, -0.5000]])
    """
    if align_corners is None:
        warnings.warn("affine_grid: align_corners is not given and taken as False, as in PyTorch", stacklevel=2)
    return affine_grid_generator(theta, size, bool(align_corners))


def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """affine_grid with all its arguments.

    >>> theta = ex.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> ex.affine_grid_generator(theta, (1, 1, 1, 2), False)[0, 0]
    tensor([[-0.5000,  0.0000],
            [ 0.5000,  0.0000]])
    """
    n = len(size) - 2
    if n not in (2, 3) or tuple(theta.shape) != (size[0], n, n + 1):
        raise ShapeError(
            f"affine_grid: expected size (batch, channel, *2 or 3 spatial) and theta (batch, n, n + 1), "
            f"got {tuple(size)} and {tuple(theta.shape)}"
        )
    if not theta.dtype.is_floating_point:
        raise DtypeError(f"affine_grid: expected a floating theta, got {theta.dtype}; use theta.float()")
    if any(s < 1 for s in size):
        raise ShapeError(f"affine_grid: sizes must be at least 1, got {tuple(size)}")
    axes = [_grid_axis(s, align_corners) for s in size[2:]]
    mesh = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(tuple(size[2:]))], -1)
    base = ops.from_numpy(mesh.reshape(-1, n + 1)).to(theta.dtype)
    return ops.matmul(base, theta.mT).reshape(size[0], *size[2:], n)


def _grid_axis(size: int, align_corners: bool) -> Array:
    if size == 1:
        return np.zeros(1)
    axis = np.linspace(-1, 1, size)
    return axis if align_corners else axis * ((size - 1) / size)


# ---- patches


class Patches(Op):
    """Every window of the last dimensions, (*lead, *size) -> (*lead, *kernel, *counts)."""

    public_name = "unfold"
    family = "index"
    quiet = True
    saves = ("",)
    ragged = Refuse("its function takes the windows of each row, or runs row by row")

    @staticmethod
    def infer(x: TensorType, *, size: tuple[int, ...], **attrs: Any) -> TensorType:
        return TensorType((*x.shape[: x.ndim - len(size)], *attrs["kernel"], *_patch_counts(size, **attrs)), x.dtype)

    @staticmethod
    def numpy(
        x: Array,
        *,
        size: tuple[int, ...],
        kernel: tuple[int, ...],
        dilation: tuple[int, ...],
        padding: tuple[int, ...],
        stride: tuple[int, ...],
    ) -> Array:
        counts = _patch_counts(size, kernel, dilation, padding, stride)
        return np.array(windows(padded(x, tuple((p, p) for p in padding)), kernel, stride, dilation, counts), order="C")

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, **attrs: Any) -> tuple[Any, ...]:
        return (apply(PatchSum, (g,), attrs),)

    @staticmethod
    def batch(n_samples: int, x: Tensor, **attrs: Any) -> Tensor:
        return apply(Patches, (x,), attrs)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(
            rng.normal(size=(2, 5, 6)), size=(5, 6), kernel=(2, 3), dilation=(2, 1), padding=(1, 0), stride=(1, 2)
        )
        yield Sample(rng.normal(size=(2, 5)), size=(5,), kernel=(2,), dilation=(1,), padding=(0,), stride=(1,))


class PatchSum(Op):
    """The adjoint of Patches: each window added where it came from, (*lead, *kernel, *counts) -> (*lead, *size)."""

    public_name = "fold"
    family = "index"
    saves = ("",)
    ragged = Refuse("its function takes the windows of each row, or runs row by row")

    @staticmethod
    def infer(x: TensorType, *, size: tuple[int, ...], **attrs: Any) -> TensorType:
        return TensorType((*x.shape[: x.ndim - 2 * len(size)], *size), x.dtype)

    @staticmethod
    def numpy(
        x: Array,
        *,
        size: tuple[int, ...],
        kernel: tuple[int, ...],
        dilation: tuple[int, ...],
        padding: tuple[int, ...],
        stride: tuple[int, ...],
    ) -> Array:
        n = len(size)
        lead = x.shape[: x.ndim - 2 * n]
        wide: Any = np.float32 if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x.dtype
        canvas = np.zeros((*lead, *(s + 2 * p for s, p in zip(size, padding, strict=True))), wide)
        for k, selected in places(kernel, stride, dilation, x.shape[x.ndim - n :]):
            canvas[selected] += x[(slice(None),) * len(lead) + k]
        inner: Any = (..., *(slice(p, p + s) for s, p in zip(size, padding, strict=True)))
        return np.array(canvas[inner], x.dtype, order="C")

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, **attrs: Any) -> tuple[Any, ...]:
        return (apply(Patches, (g,), attrs),)

    @staticmethod
    def batch(n_samples: int, x: Tensor, **attrs: Any) -> Tensor:
        return apply(PatchSum, (x,), attrs)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        x = rng.normal(size=(2, 2, 3, 5, 2))
        yield Sample(x, size=(5, 6), kernel=(2, 3), dilation=(2, 1), padding=(1, 0), stride=(1, 2))
        yield Sample(rng.normal(size=(2, 4)), size=(5,), kernel=(2,), dilation=(1,), padding=(0,), stride=(1,))


def _patch_counts(
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    dilation: tuple[int, ...],
    padding: tuple[int, ...],
    stride: tuple[int, ...],
) -> tuple[int, ...]:
    return tuple(
        n_windows(s + 2 * p, k, step, d)
        for s, p, k, step, d in zip(size, padding, kernel, stride, dilation, strict=True)
    )


def _patch_attrs(
    op: str, size: tuple[int, ...], kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> dict[str, Any]:
    attrs = {
        "size": size,
        "kernel": as_ints(kernel_size, 2, op, "kernel_size"),
        "dilation": as_ints(dilation, 2, op, "dilation"),
        "padding": as_ints(padding, 2, op, "padding", 0),
        "stride": as_ints(stride, 2, op, "stride"),
    }
    if 0 in _patch_counts(**attrs):
        raise ShapeError(
            f"{op}: no window fits: size {size}, kernel {attrs['kernel']}, dilation {attrs['dilation']}, "
            f"padding {attrs['padding']}"
        )
    return attrs


def unfold(input: Tensor, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1) -> Tensor:
    """Every window of an image as a column: (batch, channel, height, width) -> (batch, channel * places, windows).

    >>> F.unfold(ex.arange(4.0).view(1, 1, 1, 4), (1, 2))[0]
    tensor([[0., 1., 2.],
            [1., 2., 3.]])
    """

    def columns(x: Tensor) -> Tensor:
        attrs = _patch_attrs("unfold", tuple(x.shape[2:]), kernel_size, dilation, padding, stride)
        patches = apply(Patches, (x,), attrs)
        return patches.reshape(x.shape[0], x.shape[1] * math.prod(attrs["kernel"]), math.prod(patches.shape[4:]))

    return per_sample(columns, input, 2, "unfold")


def fold(
    input: Tensor, output_size: Ints, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1
) -> Tensor:
    """The adjoint of unfold: columns (batch, channel * places, windows) added up into images of `output_size`.

    >>> F.fold(ex.ones(1, 2, 2), output_size=(1, 3), kernel_size=(1, 2))[0, 0]
    tensor([[1., 2., 1.]])
    """
    size = as_ints(output_size, 2, "fold", "output_size")
    attrs = _patch_attrs("fold", size, kernel_size, dilation, padding, stride)
    counts, kernel = _patch_counts(**attrs), attrs["kernel"]

    def images(x: Tensor) -> Tensor:
        n_places = math.prod(kernel)
        if x.shape[1] % n_places or x.shape[2] != math.prod(counts):
            raise ShapeError(
                f"fold: expected (batch, a multiple of {n_places}, {math.prod(counts)}) for size {size} and "
                f"kernel {kernel}, got shape {tuple(x.shape)}"
            )
        return apply(PatchSum, (x.reshape(x.shape[0], x.shape[1] // n_places, *kernel, *counts),), attrs)

    return per_sample(images, input, 1, "fold")
