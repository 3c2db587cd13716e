"""Operators that arrange elements anew or make tensors of given sizes: shapes, joins, padding, blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import ops
from ...core.storage import Array
from ...core.tensor import Tensor, from_array
from ...core.types import int64
from ...errors import ArgumentError, ShapeError
from ...nn import functional as F
from .host import shape_of
from .sizes import axes_in, axis_in, check_size, same_length
from .table import Dtype, Fixed, Ints, Results, operator


@operator("Shape")
def shape(x: Tensor, *, start: int = 0, end: int | None = None) -> Any:
    """An array, so that arithmetic on sizes stays outside of tensors: see `host`."""
    return shape_of(x, start, end)


@operator("Size")
def size(x: Tensor) -> Tensor:
    return ops.tensor(math.prod(x.shape), dtype=int64)


@operator("Reshape")
def reshape(x: Tensor, shape: Ints | None = None, *, shape_: Ints | None = None, allowzero: int = 0) -> Tensor:
    """A 0 stands for the size that is there, unless the file says that it is a 0."""
    sizes = list(shape if shape is not None else shape_ or ())
    if not allowzero:
        for i, n in enumerate(sizes):
            if type(n) is int and n == 0:
                if i >= x.ndim:
                    raise ShapeError(f"0 in the shape {sizes} copies a size, but dimension {i} is not there")
                sizes[i] = x.shape[i]
    return x.reshape(sizes)


@operator("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    at = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:at]), math.prod(x.shape[at:]))


@operator("Transpose")
def transpose(x: Tensor, *, perm: Ints | None = None) -> Tensor:
    return x.permute(list(range(x.ndim))[::-1] if perm is None else perm)


@operator("Squeeze")
def squeeze(x: Tensor, axes: Ints | None = None, *, axes_: Ints | None = None) -> Tensor:
    named = axes if axes is not None else axes_
    if named is None:
        return x.squeeze()
    dims = axes_in(named, x.ndim)
    wrong = next((d for d in dims if x.shape[d] != 1), None)
    if wrong is not None:
        raise ShapeError(f"axis {wrong} of a tensor of shape {tuple(x.shape)} cannot be squeezed: its size is not 1")
    return x.squeeze(dims) if dims else x


@operator("Unsqueeze")
def unsqueeze(x: Tensor, axes: Ints | None = None, *, axes_: Ints | None = None) -> Tensor:
    named = list(axes if axes is not None else axes_ or ())
    for dim in sorted(axes_in(named, x.ndim + len(named))):
        x = x.unsqueeze(dim)
    return x


@operator("Expand")
def expand(x: Tensor, shape: Ints) -> Tensor:
    """Both shapes are broadcast: a 1 in either stands for the size of the other."""
    sizes = list(check_size(shape))
    own = list(x.shape)
    for i in range(1, min(len(own), len(sizes)) + 1):
        if type(sizes[-i]) is int and sizes[-i] == 1:
            sizes[-i] = own[-i]
    return x.expand(own[: max(0, len(own) - len(sizes))] + sizes)


@operator("Tile")
def tile(x: Tensor, repeats: Ints) -> Tensor:
    same_length("repeats", repeats, x.ndim)
    check_size([n * r for n, r in zip(x.shape, repeats, strict=True)], x.element_size())
    return x.repeat(*repeats) if x.ndim else x


@operator("Concat")
def concat(*inputs: Tensor, axis: int = 1) -> Tensor:
    return ops.cat(inputs, axis)


@operator("Split")
def split(
    x: Tensor, split: Ints | None = None, *, split_: Ints | None = None, axis: int = 0, num_outputs: int | None = None,
    n_outputs: int,
) -> Results:  # fmt: skip
    dim = axis_in(axis, x.ndim)
    sizes = split if split is not None else split_
    if sizes is None:
        if num_outputs not in (None, n_outputs):
            raise ArgumentError(f"num_outputs is {num_outputs}, but the node has {n_outputs} outputs")
        each = -(-x.shape[dim] // n_outputs)
        sizes = [min(each, max(0, x.shape[dim] - i * each)) for i in range(n_outputs)]
    return tuple(ops.split(x, sizes, dim))


@operator("Slice")
def slice_(
    x: Tensor, starts: Ints | None = None, ends: Ints | None = None, axes: Ints | None = None,
    steps: Ints | None = None, *, starts_: Ints | None = None, ends_: Ints | None = None, axes_: Ints | None = None,
) -> Tensor:  # fmt: skip
    first, last = starts if starts is not None else starts_, ends if ends is not None else ends_
    if first is None or last is None:
        raise ArgumentError("Slice needs starts and ends")
    dims = axes_in(axes or axes_ or range(len(first)), x.ndim)
    same_length("ends", last, len(first))
    same_length("axes", dims, len(first))
    strides = steps or [1] * len(first)
    same_length("steps", strides, len(first))
    for dim, start, stop, step in zip(dims, first, last, strides, strict=True):
        x = _sliced(x, dim, start, stop, step)
    return x


def _sliced(x: Tensor, dim: int, start: int, stop: int, step: int) -> Tensor:
    """Python's slice of one dimension; one that goes backwards is the reverse of one that goes forwards."""
    if step > 0:
        return x[(slice(None),) * dim + (slice(start, stop, step),)]
    taken = range(*slice(start, max(stop, -x.shape[dim] - 1), step).indices(x.shape[dim]))
    if not taken:
        return x.narrow(dim, 0, 0)
    return x[(slice(None),) * dim + (slice(taken[-1], taken[0] + 1, -step),)].flip(dim)


@operator("Pad")
def pad(
    x: Tensor, pads: Ints | None = None, value: Fixed | None = None, axes: Ints | None = None, *,
    mode: str = "constant", pads_: Ints | None = None, value_: float = 0.0,
) -> Tensor:  # fmt: skip
    widths = pads if pads is not None else pads_ or []
    dims = list(range(x.ndim)) if axes is None else axes_in(axes, x.ndim)
    same_length("pads", widths, 2 * len(dims))
    before, after = widths[: len(dims)], widths[len(dims) :]
    whole = list(x.shape)
    for d, b, a in zip(dims, before, after, strict=True):
        whole[d] += b + a
    check_size(whole, x.element_size())
    if mode == "constant":
        sides = dict(zip(dims, zip(before, after, strict=True), strict=True))
        return pad_constant(x, sides, value_ if value is None else value.item())
    for dim, b, a in zip(dims, before, after, strict=True):
        if b or a:
            x = x.index_select(dim, from_array(_padded_indices(mode, x.shape[dim], b, a)))
    return x


def pad_constant(x: Tensor, widths: dict[int, tuple[int, int]], value: Any = 0) -> Tensor:
    """Dimensions widened by (before, after) with one value; negative widths cut."""
    if not any(b or a for b, a in widths.values()):
        return x
    flat: list[int] = []
    for dim in reversed(range(min(widths), x.ndim)):
        flat += widths.get(dim, (0, 0))
    return F.pad(x, flat, value=value)


def _padded_indices(mode: str, n: int, before: int, after: int) -> Array:
    """Which element stands at each place of a padded dimension."""
    places = np.arange(-before, n + after)
    if mode == "edge":
        return np.clip(places, 0, n - 1)
    if mode == "wrap":
        return places % n
    if mode != "reflect":
        raise ArgumentError(f"the mode {mode!r} is none of constant, reflect, edge, wrap")
    if n == 1:
        return np.zeros_like(places)
    around = places % (2 * (n - 1))
    return np.where(around < n, around, 2 * (n - 1) - around)


@operator("CenterCropPad")
def center_crop_pad(x: Tensor, shape: Ints, *, axes: Ints | None = None) -> Tensor:
    dims = list(range(x.ndim)) if axes is None else axes_in(axes, x.ndim)
    same_length("shape", shape, len(dims))
    whole = list(x.shape)
    for dim, n in zip(dims, shape, strict=True):
        whole[dim] = n
    check_size(whole, x.element_size())
    widths = {}
    for dim, n in zip(dims, shape, strict=True):
        have = x.shape[dim]
        if n < have:
            x = x.narrow(dim, (have - n) // 2, n)
        elif n > have:
            widths[dim] = ((n - have) // 2, n - have - (n - have) // 2)
    return pad_constant(x, widths)


# ---- blocks


@operator("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.shape
    b = blocksize
    if mode == "DCR":
        x = x.reshape(n, b, b, c // (b * b), h, w).permute(0, 3, 4, 1, 5, 2)
    else:
        x = x.reshape(n, c // (b * b), b, b, h, w).permute(0, 1, 4, 2, 5, 3)
    return x.reshape(n, c // (b * b), h * b, w * b)


@operator("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.shape
    b = blocksize
    x = x.reshape(n, c, h // b, b, w // b, b)
    x = x.permute(0, 3, 5, 1, 2, 4) if mode == "DCR" else x.permute(0, 1, 3, 5, 2, 4)
    return x.reshape(n, c * b * b, h // b, w // b)


@operator("Trilu")
def trilu(x: Tensor, k: Ints | None = None, *, upper: int = 1) -> Tensor:
    diagonal = k[0] if k else 0
    rows, columns = ops.arange(x.shape[-2]).unsqueeze(1), ops.arange(x.shape[-1])
    kept = columns - rows >= diagonal if upper else columns - rows <= diagonal
    return ops.where(kept, x, ops.zeros_like(x))


@operator("ReverseSequence")
def reverse_sequence(x: Tensor, sequence_lens: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    """The first steps of each sequence, as many as it has, from back to front."""
    rows = x.movedim((batch_axis, time_axis), (0, 1))
    steps = ops.arange(rows.shape[1]).unsqueeze(0)
    lengths = sequence_lens.to(int64).unsqueeze(1)
    order = ops.where(steps < lengths, lengths - 1 - steps, steps)
    picked = rows[ops.arange(rows.shape[0]).unsqueeze(1), order]
    return picked.movedim((0, 1), (batch_axis, time_axis))


# ---- tensors of given sizes


@operator("ConstantOfShape")
def constant_of_shape(shape: Ints, *, value: Array | None = None) -> Tensor:
    filled = from_array(np.zeros(1, np.float32) if value is None else value.reshape(1))
    check_size(shape, filled.element_size())
    return ops.full(shape, filled.item(), dtype=filled.dtype)


@operator("EyeLike")
def eye_like(x: Tensor, *, dtype: Dtype | None = None, k: int = 0) -> Tensor:
    rows, columns = ops.arange(x.shape[0]).unsqueeze(1), ops.arange(x.shape[1])
    return (columns - rows == k).to(dtype or x.dtype)


@operator("Range")
def range_(start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    first, last, step = (t.item() for t in (start, limit, delta))
    if step == 0:
        raise ArgumentError("delta must not be 0")
    n = max(math.ceil((last - first) / step), 0)
    check_size((n,), start.element_size())
    return (ops.arange(n, dtype=start.dtype if start.dtype.is_floating_point else int64) * step + first).to(start.dtype)


def index_grid(sizes: Sequence[int]) -> list[Tensor]:
    """For each dimension its own places, in a shape that broadcasts against the others'."""
    n = len(sizes)
    return [ops.arange(s).reshape([-1 if i == d else 1 for i in range(n)]) for d, s in enumerate(sizes)]
