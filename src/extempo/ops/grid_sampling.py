"""The same image on a grid of any shape: grid_sample and affine_grid, composites of gathers.

Coordinates are computed in the precision PyTorch computes them in, because a nearest neighbour may hang on the last
bit.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from .. import ops
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.wording import input_misfit
from ..errors import DtypeError, ShapeError, UnsupportedError
from .resample import cubic_weights

__all__ = ["affine_grid_generator", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d"]


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
        raise DtypeError(input_misfit(op, x.dtype, "grid", grid.dtype))
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
        weights = cubic_weights(place - first, -0.75)
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
