"""Resize and Upsample: every axis on its own, by a matrix of weights or, for the nearest neighbour, by indices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ... import ops
from ...core.storage import Array
from ...core.tensor import Tensor, from_array
from ...core.types import float32
from ...errors import ArgumentError
from .sizes import axes_in, check_size, same_length
from .table import Floats, Ints, operator


class Scheme(NamedTuple):
    """How one axis is resized."""

    mode: str
    coordinates: str
    nearest: str
    cubic_a: float
    exclude_outside: bool
    extrapolation: float
    antialias: bool


@operator("Resize")
def resize(
    x: Tensor, roi: Floats | None = None, scales: Floats | None = None, sizes: Ints | None = None, *,
    antialias: int = 0, axes: Ints | None = None, coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75, exclude_outside: int = 0, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest", nearest_mode: str = "round_prefer_floor",
    opset: int,
) -> Tensor:  # fmt: skip
    if opset < 11:  # the second input was the scales, and coordinates were never shifted
        scales, roi = roi, None
        coordinate_transformation_mode, nearest_mode = "asymmetric", "floor"
    dims = list(range(x.ndim)) if axes is None else axes_in(axes, x.ndim)
    scheme = Scheme(
        mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(exclude_outside), extrapolation_value,
        bool(antialias),
    )  # fmt: skip
    have = [x.shape[d] for d in dims]
    if sizes:
        same_length("sizes", sizes, len(dims))
        wanted, factors = list(sizes), [n / h if h else 1.0 for n, h in zip(sizes, have, strict=True)]
        if keep_aspect_ratio_policy != "stretch":
            one = (min if keep_aspect_ratio_policy == "not_larger" else max)(factors)
            factors = [one] * len(dims)
            wanted = [math.floor(one * h + 0.5) for h in have]
    elif scales:
        same_length("scales", scales, len(dims))
        factors = list(scales)
        if not all(0 < f < math.inf for f in factors):
            raise ArgumentError(f"scales must be positive, got {factors}")
        wanted = [h if f == 1.0 else math.floor(h * f) for h, f in zip(have, factors, strict=True)]
    else:
        raise ArgumentError("Resize needs scales or sizes")
    whole = list(x.shape)
    for d, n in zip(dims, wanted, strict=True):
        whole[d] = n
    check_size(whole, x.element_size())
    if scheme.coordinates == "tf_crop_and_resize":
        same_length("roi", roi or [], 2 * len(dims))
    for i, dim in enumerate(dims):
        crop = (roi[i], roi[i + len(dims)]) if roi and scheme.coordinates == "tf_crop_and_resize" else None
        if wanted[i] != have[i] or factors[i] != 1.0 or crop:
            x = _resized(x, dim, wanted[i], factors[i], crop, scheme)
    return x


@operator("Upsample")
def upsample(
    x: Tensor, scales: Floats | None = None, *, mode: str = "nearest", scales_: Floats | None = None
) -> Tensor:
    """The older Resize, whose coordinates were never shifted."""
    return resize(
        x, None, scales or scales_, mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor",
        opset=11,
    )  # type: ignore[return-value] # one tensor # fmt: skip


def _resized(x: Tensor, dim: int, n: int, factor: float, crop: tuple[float, float] | None, by: Scheme) -> Tensor:
    size = x.shape[dim]
    places = _places(size, n, factor, crop, by.coordinates)
    outside = (places < 0) | (places > size - 1) if crop else None
    if by.mode == "nearest":
        y = x.index_select(dim, from_array(_nearest(places, size, by.nearest)))
    else:
        weights = _weights(places, size, factor, by).astype(np.float64 if x.dtype.itemsize == 8 else np.float32)
        own = x.dtype
        rows = (x if own.is_floating_point else x.to(float32)).movedim(dim, -1)
        y = ops.matmul(rows, from_array(weights).t().to(rows.dtype)).movedim(-1, dim)
        y = y if own.is_floating_point else ops.round(y).to(own)
    if outside is not None and outside.any():
        mask = from_array(outside).reshape([-1 if i == dim else 1 for i in range(x.ndim)])
        y = ops.where(mask, ops.full_like(y, by.extrapolation), y)
    return y


def _places(size: int, n: int, factor: float, crop: tuple[float, float] | None, mode: str) -> Array:
    """Where in the input each place of the result lies, in float32: so do others, and a half may go either way."""
    at, one = np.arange(n, dtype=np.float32), np.float32(factor)
    if mode == "half_pixel":
        return (at + 0.5) / one - 0.5
    if mode == "half_pixel_symmetric":
        exact = one * np.float32(size)
        return size / 2 * (1 - n / exact) + (at + 0.5) / one - 0.5
    if mode == "pytorch_half_pixel":
        return (at + 0.5) / one - 0.5 if n > 1 else np.zeros(n, np.float32)
    if mode == "align_corners":
        return at * (size - 1) / (one * np.float32(size) - 1) if n > 1 else np.zeros(n, np.float32)
    if mode == "asymmetric":
        return at / one
    if mode == "tf_half_pixel_for_nn":
        return (at + 0.5) / one
    if mode == "tf_crop_and_resize" and crop is not None:
        start, end = crop
        if n > 1:
            return start * (size - 1) + at * (end - start) * (size - 1) / (n - 1)
        return np.full(n, 0.5 * (start + end) * (size - 1), np.float32)
    raise ArgumentError(f"the coordinate_transformation_mode {mode!r} is not known")


def _nearest(places: Array, size: int, mode: str) -> Array:
    rounded: dict[str, Callable[[Array], Array]] = {
        "round_prefer_floor": lambda p: np.ceil(p - 0.5),
        "round_prefer_ceil": lambda p: np.floor(p + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    if mode not in rounded:
        raise ArgumentError(f"the nearest_mode {mode!r} is not known")
    return np.clip(rounded[mode](places), 0, size - 1).astype(np.int64)


def _weights(places: Array, size: int, factor: float, by: Scheme) -> Array:
    """What each place of the result takes from each place of the input, (result, input)."""
    if by.mode not in ("linear", "cubic"):
        raise ArgumentError(f"the mode {by.mode!r} is none of nearest, linear, cubic")
    # Shrinking with antialias widens the kernel by the factor, so that every place counts.
    stretch = min(factor, 1.0) if by.antialias else 1.0
    reach = (1 if by.mode == "linear" else 2) / stretch
    check_size((len(places), size))
    found = np.zeros((len(places), size))
    n_taps = 2 * math.ceil(reach) + 1
    check_size((len(places), n_taps))
    first = np.floor(places).astype(np.int64) - n_taps // 2
    rows = np.arange(len(places))
    for i in range(n_taps + 1):
        at = first + i
        weight = _kernel((at - places) * stretch, by)
        if by.exclude_outside:
            weight = np.where((at < 0) | (at >= size), 0.0, weight)
        np.add.at(found, (rows, np.clip(at, 0, size - 1)), weight)
    total = found.sum(1, keepdims=True)
    return found / np.where(total == 0, 1.0, total)


def _kernel(distance: Array, by: Scheme) -> Array:
    d = np.abs(distance)
    if by.mode == "linear":
        return np.maximum(0.0, 1.0 - d)
    a = by.cubic_a
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))
