"""Elements in another arrangement: flip, roll, repeat, shuffles. All make copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..core.op import Decomposed, Op, Rng, Routine, Sample
from ..core.storage import Array
from ..core.tensor import Tensor, TensorLike, from_array
from ..core.tensor_methods import method
from ..core.types import as_int, is_sequence, normalize_dim
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, IndexRangeError, ShapeError
from .creation import Copy, as_tensor
from .define import Operand, numpy_method
from .found_sizes import repeated_places, tracer_of
from .index import as_index, index_select
from .view import as_shape

__all__ = [
    "channel_shuffle",
    "fill",
    "flip",
    "fliplr",
    "flipud",
    "native_channel_shuffle",
    "pixel_shuffle",
    "pixel_unshuffle",
    "repeat_interleave",
    "roll",
    "rot90",
    "tile",
]


class Flip(Op):
    """The order of elements reversed along dimensions."""

    family = "arrange"
    quiet = True
    saves = ("",)
    lower = Routine("flip")
    ragged = "picking.flip"
    infer = staticmethod(lambda x, *, dims: x)
    numpy = staticmethod(lambda x, *, dims: np.flip(x, dims).copy())
    vjp = staticmethod(lambda g, y, x, *, dims: (apply(Flip, (g,), {"dims": dims}),))
    batch = staticmethod(lambda size, x, *, dims: apply(Flip, (x,), {"dims": tuple(d + 1 for d in dims)}))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3)), dims=(0, 1))
        yield Sample(rng.normal(size=(2, 3, 2)), dims=(1,))
        yield Sample(rng.normal(size=()), dims=())

    @staticmethod
    def onnx(b: Any, x: Any, *, dims: tuple[int, ...]) -> Any:
        return b.Slice(x, [-1] * len(dims), [-(2**62)] * len(dims), dims, [-1] * len(dims)) if dims else x


class Roll(Op):
    """Elements moved along dimensions (`back`: the other way), those pushed out coming in at the other end."""

    family = "arrange"
    quiet = True
    saves = ("",)
    lower = Routine("roll")
    ragged = "picking.roll"
    infer = staticmethod(lambda x, *shifts, dims, back: x)

    @staticmethod
    def numpy(x: Array, *shifts: int, dims: tuple[int, ...], back: bool) -> Array:
        return np.roll(x, [-s for s in shifts] if back else shifts, dims)

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, *shifts: int, dims: tuple[int, ...], back: bool) -> tuple[Any, ...]:
        # Not with negative shifts: a plan takes numbers as they come, and computes none.
        return (apply(Roll, (g, *shifts), {"dims": dims, "back": not back}), *(None for _ in shifts))

    @staticmethod
    def batch(size: int, x: Tensor, *shifts: int, dims: tuple[int, ...], back: bool) -> Tensor:
        return apply(Roll, (x, *shifts), {"dims": tuple(d + 1 for d in dims), "back": back})

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 4)), 1, -2, dims=(0, 1), back=False)
        yield Sample(rng.normal(size=(5,)), 7, dims=(0,), back=False)
        yield Sample(rng.normal(size=(5, 3)), 2, dims=(0,), back=True)
        yield Sample(rng.normal(size=(0, 2)), 1, dims=(0,), back=False)

    @Decomposed
    def onnx(x: Tensor, *shifts: int, dims: tuple[int, ...], back: bool) -> Tensor:
        for shift, d in zip(shifts, dims, strict=True):
            size = x._type.shape[d]
            places = ops.arange(size) + (shift if back else -shift)
            whole = (ops.tensor(0) + size).clamp(min=1)  # onnxruntime divides by a size of 0 though there is nothing to
            x = x.index_select(d, ops.remainder(places, whole))
        return x


# ---- order


@method
def flip(input: Tensor, *order: Any, dims: int | Sequence[int] | None = None) -> Tensor:
    """A copy with the order of elements reversed along dimensions.

    >>> ex.flip(ex.tensor([[1, 2], [3, 4]]), (0, 1))
    tensor([[4, 3],
            [2, 1]])
    """
    wanted = as_shape(order if dims is None else (dims,), "flip")
    at = [normalize_dim(d, input.ndim, "flip") for d in wanted]
    if len(set(at)) != len(at):
        raise ShapeError(f"flip: dims {wanted} name a dimension twice")
    return apply(Flip, (input,), {"dims": tuple(sorted(at)) if input.ndim else ()})


@method
def fliplr(input: Tensor) -> Tensor:
    """Columns in reverse order.

    >>> ex.fliplr(ex.tensor([[1, 2], [3, 4]]))
    tensor([[2, 1],
            [4, 3]])
    """
    if input.ndim < 2:
        raise ShapeError(f"fliplr: expected at least 2 dimensions, got shape {tuple(input.shape)}")
    return flip(input, 1)


@method
def flipud(input: Tensor) -> Tensor:
    """Rows in reverse order.

    >>> ex.flipud(ex.tensor([[1, 2], [3, 4]]))
    tensor([[3, 4],
            [1, 2]])
    """
    if input.ndim < 1:
        raise ShapeError("flipud: a 0-dim tensor has no rows")
    return flip(input, 0)


@method
def roll(input: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """Elements moved by `shifts` along `dims`, those pushed out coming in at the other end; without dims, flattened.

    >>> ex.roll(ex.tensor([1, 2, 3, 4]), 1)
    tensor([4, 1, 2, 3])
    """
    steps = as_shape((shifts,), "roll")
    if dims is None or (is_sequence(dims) and not len(dims)):
        if len(steps) != 1:
            raise ShapeError(f"roll: {len(steps)} shifts need as many dims")
        return apply(Roll, (input.reshape(-1), *steps), {"dims": (0,), "back": False}).reshape(input._type.shape)
    given = as_shape((dims,), "roll")
    if len(steps) != len(given):
        raise ShapeError(f"roll: shifts {steps} and dims {given} must be equally many")
    if not input.ndim:
        raise IndexRangeError(f"roll: a 0-dim tensor has no dimension {given[0]}; leave dims out")
    places = tuple(normalize_dim(d, input.ndim, "roll") for d in given)
    return apply(Roll, (input, *steps), {"dims": places, "back": False})


@method
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Rotated k times by 90 degrees in the plane of two dimensions, from the first towards the second.

    >>> ex.rot90(ex.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    try:
        turns = k.__index__() % 4
    except AttributeError:
        raise DtypeError(f"rot90: k counts turns and must be an int, got {k!r}") from None
    plane = as_shape((dims,), "rot90")
    if len(plane) != 2 or input.ndim < 2:
        raise ShapeError(f"rot90: expected two different dimensions, got {plane} of a {input.ndim}-dim tensor")
    a, b = (normalize_dim(d, input.ndim, "rot90") for d in plane)
    if a == b:
        raise ShapeError(f"rot90: expected two different dimensions, got {plane} of a {input.ndim}-dim tensor")
    if turns == 0:
        return input.clone()
    if turns == 2:
        return flip(input, (a, b))
    return flip(input, b).transpose(a, b) if turns == 1 else flip(input, a).transpose(a, b)


# ---- repetition


def _repeat(self: Tensor, *sizes: Any, repeats: Sequence[int] | None = None) -> Tensor:
    """Copies of the tensor side by side: so many along each dimension, new ones in front."""
    times = as_shape(sizes if repeats is None else (repeats,), "repeat")
    extra = len(times) - self.ndim
    if extra < 0:
        raise ShapeError(f"repeat: {times} must have a number for each of the {self.ndim} dimensions")
    if any(n < 0 for n in times):
        raise ShapeError(f"repeat: numbers of copies must not be negative, got {times}")
    if self.is_nested:
        from ..ragged_tensors.reshaping import repeated

        return repeated(self, times)
    shape = (1,) * extra + self._type.shape
    if all(n == 1 for n in times):
        return self.clone().reshape(shape)
    apart = self.reshape([n for size in shape for n in (1, size)])
    spread = apart.expand([n for pair in zip(times, shape, strict=True) for n in pair])
    # A dimension of stride 0 is never contiguous, so this is always a copy: repeat is no view.
    return spread.contiguous().reshape([n * size for n, size in zip(times, shape, strict=True)])


method(_repeat, "repeat")


@method
def tile(input: Tensor, *sizes: Any, dims: Sequence[int] | None = None) -> Tensor:
    """Copies side by side; missing leading numbers are 1.

    >>> ex.tile(ex.tensor([1, 2]), (2, 2))
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    times = as_shape(sizes if dims is None else (dims,), "tile")
    return _repeat(input, (1,) * (input.ndim - len(times)) + times)


@numpy_method
def repeat_interleave(
    input: Tensor, repeats: int | Tensor | None = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element repeated in its place, or each slice along `dim`; with one tensor of counts, the indices of that.

    >>> ex.repeat_interleave(ex.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])
    >>> ex.repeat_interleave(ex.tensor([1, 2]), ex.tensor([1, 3]))
    tensor([1, 2, 2, 2])
    """
    if repeats is None:
        tracer = tracer_of(input)
        if tracer is not None:
            return repeated_places(tracer, input, input._type.shape[0])
        counts = _counts(as_index(input, "repeat_interleave"))
        return from_array(np.repeat(np.arange(counts.size), counts))
    x = input.reshape(-1) if dim is None else input
    d = 0 if dim is None else normalize_dim(dim, input.ndim, "repeat_interleave")
    if not x.ndim:
        x = x.reshape(1)
    size = x._type.shape[d]
    if not isinstance(repeats, int):
        tracer = tracer_of(repeats) if isinstance(repeats, Tensor) else None
        if tracer is not None:
            return index_select(x, d, repeated_places(tracer, repeats, size))
        counts = _counts(as_index(repeats, "repeat_interleave"))
        if counts.size != 1 and counts.size != size:
            raise ShapeError(
                f"repeat_interleave: {counts.size} repeats for dimension {d} of size {size}; give 1 or {size}"
            )
        return index_select(x, d, from_array(np.repeat(np.arange(size), counts)))
    if repeats < 0:
        raise ShapeError(f"repeat_interleave: repeats must not be negative, got {repeats}")
    before, after = x._type.shape[:d], x._type.shape[d + 1 :]
    spread = x.unsqueeze(d + 1).expand(*before, size, repeats, *after)
    return spread.clone().reshape(*before, size * repeats, *after)


def _counts(repeats: Tensor) -> Array:
    counts = repeats._values_for_size().reshape(-1)
    if counts.size and counts.min() < 0:
        raise ShapeError(f"repeat_interleave: repeats must not be negative, got {counts.min()}")
    return counts


@method
def fill(input: Tensor, value: Operand) -> Tensor:
    """A tensor of one value in the shape and dtype of `input`.

    >>> ex.fill(ex.tensor([1.0, 2.0]), 7)
    tensor([7., 7.])
    """
    if isinstance(value, Tensor | TensorLike):
        if value.ndim:
            raise ShapeError(f"fill: expected a number or a 0-dim tensor, got shape {tuple(value.shape)}")
        return apply(Copy, (input, value.to(input.dtype)))
    return apply(Copy, (input, as_tensor(value, dtype=input.dtype)))


# ---- shuffles of channels and pixels


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(..., channels * r * r, height, width) -> (..., channels, height * r, width * r).

    >>> ex.pixel_shuffle(ex.arange(4).view(4, 1, 1), 2)[0]
    tensor([[0, 1],
            [2, 3]])
    """
    r = as_int(upscale_factor, "pixel_shuffle", "upscale_factor")
    if input.ndim < 3 or r <= 0 or input._type.shape[-3] % (r * r):
        raise ShapeError(f"pixel_shuffle: shape {tuple(input.shape)} needs channels divisible by {r} * {r} in dim -3")
    *batch, channels, height, width = input._type.shape
    n = len(batch)
    apart = input.reshape(*batch, channels // (r * r), r, r, height, width)
    mixed = apart.permute(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return mixed.reshape(*batch, channels // (r * r), height * r, width * r)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(..., channels, height * r, width * r) -> (..., channels * r * r, height, width).

    >>> ex.pixel_unshuffle(ex.zeros(1, 4, 6), 2).shape
    extempo.Size([4, 2, 3])
    """
    r = as_int(downscale_factor, "pixel_unshuffle", "downscale_factor")
    if input.ndim < 3 or r <= 0 or input._type.shape[-2] % r or input._type.shape[-1] % r:
        raise ShapeError(f"pixel_unshuffle: shape {tuple(input.shape)} needs height and width divisible by {r}")
    *batch, channels, height, width = input._type.shape
    n = len(batch)
    apart = input.reshape(*batch, channels, height // r, r, width // r, r)
    mixed = apart.permute(*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return mixed.reshape(*batch, channels * r * r, height // r, width // r)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels, which stand in `groups` blocks, dealt out in turn.

    >>> ex.channel_shuffle(ex.arange(4).view(1, 4, 1), 2).flatten()
    tensor([0, 2, 1, 3])
    """
    groups = as_int(groups, "channel_shuffle", "groups")
    if input.ndim < 3 or groups <= 0 or input._type.shape[1] % groups:
        raise ShapeError(
            f"channel_shuffle: shape {tuple(input.shape)} needs channels (dim 1) divisible by {groups} groups"
        )
    batch, channels, *rest = input._type.shape
    apart = input.reshape(batch, groups, channels // groups, *rest)
    return apart.transpose(1, 2).reshape(input._type.shape).contiguous()


native_channel_shuffle = channel_shuffle
