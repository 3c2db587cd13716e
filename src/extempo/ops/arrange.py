"""Elements in another arrangement: flip, roll, repeat, triangles, diagonals, padding, shuffles. All make copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..core.device import require_cpu, require_strided
from ..core.op import Op, Rng, Routine, Sample
from ..core.storage import Array
from ..core.tensor import Tensor, TensorLike, from_array
from ..core.tensor_methods import method
from ..core.types import InputType, Number, TensorType, as_dtype, check_size, normalize_dim
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, IndexRangeError, ShapeError, UnsupportedError
from .creation import Copy, as_tensor
from .define import Operand, deliver, inplace_method, numpy_names
from .index import as_index, index_select
from .shaping import diagonal, diagonal_attributes
from .view import Embed, Slice, as_shape

__all__ = [
    "channel_shuffle",
    "constant_pad_nd",
    "diag",
    "diag_embed",
    "diagflat",
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
    "trace",
    "tril",
    "tril_indices",
    "triu",
    "triu_indices",
]


class Flip(Op):
    """The order of elements reversed along dimensions."""

    family = "arrange"
    quiet = True
    saves = ("",)
    lower = Routine("flip")
    ragged = "picking.flip"

    @staticmethod
    def infer(x: TensorType, *, dims: tuple[int, ...]) -> TensorType:
        return x

    @staticmethod
    def numpy(x: Array, *, dims: tuple[int, ...]) -> Array:
        return np.flip(x, dims).copy()

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, *, dims: tuple[int, ...]) -> tuple[Any, ...]:
        return (apply(Flip, (g,), {"dims": dims}),)

    @staticmethod
    def batch(size: int, x: Tensor, *, dims: tuple[int, ...]) -> Tensor:
        return apply(Flip, (x,), {"dims": tuple(d + 1 for d in dims)})

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3)), dims=(0, 1))
        yield Sample(rng.normal(size=(2, 3, 2)), dims=(1,))
        yield Sample(rng.normal(size=()), dims=())


class Roll(Op):
    """Elements moved along dimensions (`back`: the other way), those pushed out coming in at the other end."""

    family = "arrange"
    quiet = True
    saves = ("",)
    lower = Routine("roll")
    ragged = "picking.roll"

    @staticmethod
    def infer(x: TensorType, *shifts: InputType, dims: tuple[int, ...], back: bool) -> TensorType:
        return x

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


class _Triangle(Op, abstract=True):
    """A triangle of the last two dimensions, zeros elsewhere; the diagonal's place is a value."""

    family = "arrange"
    quiet = True
    saves = ("",)
    ragged = "picking.triangle"

    @classmethod
    def infer(cls, x: TensorType, diagonal: InputType) -> TensorType:
        if x.ndim < 2:
            raise ShapeError(f"{cls.name}: expected a matrix or a batch of them, got shape {x.shape}")
        return x

    @classmethod
    def vjp(cls, g: Tensor, y: Any, x: Any, diagonal: int) -> tuple[Any, ...]:
        return apply(cls, (g, diagonal)), None

    @classmethod
    def batch(cls, size: int, x: Tensor, diagonal: int) -> Tensor:
        return apply(cls, (x, diagonal))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 4)), 0)
        yield Sample(rng.normal(size=(2, 3, 3)), -1)
        yield Sample(rng.normal(size=(3, 2)), 1)


class Tril(_Triangle):
    """The lower triangle."""

    numpy = staticmethod(lambda x, diagonal: np.tril(x, diagonal))
    lower = Routine("tril")


class Triu(_Triangle):
    """The upper triangle."""

    numpy = staticmethod(lambda x, diagonal: np.triu(x, diagonal))
    lower = Routine("triu")


class ConstantPad(Op):
    """Each dimension lengthened at both ends by one value."""

    public_name = "pad"
    family = "arrange"
    quiet = True
    saves = ("",)
    lower = Routine("constant_pad")
    ragged = "picking.constant_pad"

    @staticmethod
    def infer(x: TensorType, value: InputType, *, widths: tuple[tuple[int, int], ...]) -> TensorType:
        return TensorType(
            tuple(s + before + after for s, (before, after) in zip(x.shape, widths, strict=True)), x.dtype
        )

    @staticmethod
    def numpy(x: Array, value: Any, *, widths: tuple[tuple[int, int], ...]) -> Array:
        out = np.full(tuple(s + a + b for s, (a, b) in zip(x.shape, widths, strict=True)), value, x.dtype)
        out[tuple(slice(a, a + s) for s, (a, _) in zip(x.shape, widths, strict=True))] = x
        return out

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, value: Any, *, widths: tuple[tuple[int, int], ...]) -> tuple[Any, ...]:
        starts = tuple(before for before, _ in widths)
        return apply(Slice, (g, *starts), {"spec": tuple((s, 1) for s in x.shape)}), None

    @staticmethod
    def batch(size: int, x: Tensor, value: Any, *, widths: tuple[tuple[int, int], ...]) -> Tensor:
        return apply(ConstantPad, (x, value), {"widths": ((0, 0), *widths)})

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3)), 1.5, widths=((0, 1), (2, 0)))
        yield Sample(rng.normal(size=(0,)), 0.0, widths=((1, 1),))


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
    steps = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    if dims is None or dims == ():
        if len(steps) != 1:
            raise ShapeError(f"roll: {len(steps)} shifts need as many dims")
        return apply(Roll, (input.reshape(-1), *steps), {"dims": (0,), "back": False}).reshape(input._type.shape)
    given = (dims,) if isinstance(dims, int) else tuple(dims)
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
    if not isinstance(k, int):
        raise DtypeError(f"rot90: k counts turns and must be an int, got {k!r}")
    plane = (dims,) if isinstance(dims, int) else tuple(dims)
    if len(plane) != 2 or input.ndim < 2:
        raise ShapeError(f"rot90: expected two different dimensions, got {plane} of a {input.ndim}-dim tensor")
    a, b = (normalize_dim(d, input.ndim, "rot90") for d in plane)
    if a == b:
        raise ShapeError(f"rot90: expected two different dimensions, got {plane} of a {input.ndim}-dim tensor")
    turns = k % 4
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


@method
@numpy_names
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
        counts = _counts(as_index(input, "repeat_interleave"))
        return from_array(np.repeat(np.arange(counts.size), counts))
    x = input.reshape(-1) if dim is None else input
    d = 0 if dim is None else normalize_dim(dim, input.ndim, "repeat_interleave")
    if not x.ndim:
        x = x.reshape(1)
    size = x._type.shape[d]
    if not isinstance(repeats, int):
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


# ---- triangles and diagonals


@method
def tril(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The lower triangle of a matrix or a batch of them, zeros above the diagonal.

    >>> ex.tril(ex.tensor([[1, 2], [3, 4]]))
    tensor([[1, 0],
            [3, 4]])
    """
    return deliver(apply(Tril, (input, diagonal)), out)


@method
def triu(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The upper triangle of a matrix or a batch of them, zeros below the diagonal.

    >>> ex.triu(ex.tensor([[1, 2], [3, 4]]))
    tensor([[1, 2],
            [0, 4]])
    """
    return deliver(apply(Triu, (input, diagonal)), out)


inplace_method("tril_", tril)
inplace_method("triu_", triu)


def _triangle_indices(find: Any, row: int, col: int, offset: int, dtype: Any) -> Tensor:
    op = find.__name__
    if row < 0 or col < 0:
        raise ShapeError(f"{op}: sizes must not be negative, got {row} and {col}")
    d = as_dtype("int64" if dtype is None else dtype)
    if d.category != 1:
        raise DtypeError(f"{op}: expected an integer dtype, got {d}")
    check_size(op, (row, col), 8)
    return from_array(np.stack(find(row, offset, col)).astype(d.numpy))


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None
) -> Tensor:
    """Row and column numbers of the lower triangle, as two rows.

    >>> ex.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    require_cpu(device, "tril_indices")
    require_strided(layout, "tril_indices")
    return _triangle_indices(np.tril_indices, row, col, offset, dtype)


def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None
) -> Tensor:
    """Row and column numbers of the upper triangle, as two rows.

    >>> ex.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    require_cpu(device, "triu_indices")
    require_strided(layout, "triu_indices")
    return _triangle_indices(np.triu_indices, row, col, offset, dtype)


@method
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The last dimension as the diagonal of two new ones, zeros elsewhere.

    >>> ex.diag_embed(ex.tensor([1, 2]), offset=1)
    tensor([[0, 1, 0],
            [0, 0, 2],
            [0, 0, 0]])
    """
    if not input.ndim:
        raise ShapeError("diag_embed: a 0-dim tensor has no dimension to put on a diagonal")
    attrs = diagonal_attributes(input.ndim + 1, offset, dim1, dim2, "diag_embed")
    size = input._type.shape[-1] + abs(offset)
    shape = list(input._type.shape[:-1])
    for d in sorted((attrs["dim1"], attrs["dim2"])):
        shape.insert(d, size)
    return apply(Embed, (input,), {"op": "diagonal", "shape": tuple(shape), "attrs": tuple(attrs.items())})


@method
def diag(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """A vector as the diagonal of a matrix, or a copy of the diagonal of a matrix.

    >>> ex.diag(ex.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    >>> ex.diag(ex.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    if input.ndim not in (1, 2):
        raise ShapeError(
            f"diag: expected a vector or a matrix, got shape {tuple(input.shape)}; diag_embed takes batches"
        )
    made = diag_embed(input, diagonal) if input.ndim == 1 else ops.diagonal(input, diagonal).clone()
    return deliver(made, out)


@method
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """All elements as the diagonal of a matrix.

    >>> ex.diagflat(ex.tensor([[1], [2]]))
    tensor([[1, 0],
            [0, 2]])
    """
    return diag_embed(input.reshape(-1), offset)


@method
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix.

    >>> ex.trace(ex.tensor([[1, 2], [3, 4]]))
    tensor(5)
    """
    if input.ndim != 2:
        raise ShapeError(
            f"trace: expected a matrix, got shape {tuple(input.shape)}; use diagonal(dim1=-2, dim2=-1).sum(-1)"
        )
    return diagonal(input).sum()


def _fill_diagonal_(self: Tensor, fill_value: Number, wrap: bool = False) -> Tensor:
    """Set the main diagonal to one value; with `wrap`, again below it in tall matrices."""
    if self.ndim < 2:
        raise ShapeError(f"fill_diagonal_: expected at least 2 dimensions, got shape {tuple(self.shape)}")
    if self.ndim > 2 and len(set(self._type.shape)) > 1:
        raise ShapeError(f"fill_diagonal_: more than 2 dimensions must be of equal size, got shape {tuple(self.shape)}")
    place = np.arange(min(self._type.shape))
    rows, columns = self._type.shape[0], self._type.shape[1]
    if wrap and self.ndim == 2 and rows > columns:
        flat = np.arange(0, rows * columns, columns + 1)
        self[from_array(flat // columns), from_array(flat % columns)] = fill_value
        return self
    self[(from_array(place),) * self.ndim] = fill_value
    return self


method(_fill_diagonal_, "fill_diagonal_")


# ---- padding


def _widths(x: Tensor, pad: Sequence[int], op: str) -> list[tuple[int, int]]:
    """(before, after) for every dimension, from PyTorch's list that begins with the last one."""
    given = [int(p) for p in pad]
    if len(given) % 2 or len(given) > 2 * x.ndim:
        raise ShapeError(f"{op}: expected 2 numbers for each of at most {x.ndim} dimensions, got {tuple(given)}")
    pairs = list(zip(given[::2], given[1::2], strict=True))
    widths = [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]
    for d, (size, (before, after)) in enumerate(zip(x._type.shape, widths, strict=True)):
        if before + after < 0 and size + before + after < 0:
            raise ShapeError(f"{op}: pad {before}, {after} leaves nothing of dimension {d} of size {size}")
    return widths


def constant_pad_nd(input: Tensor, pad: Sequence[int], value: Number = 0) -> Tensor:
    """Dimensions lengthened by one value, the last dimension's two numbers first; negative numbers cut off.

    >>> ex.constant_pad_nd(ex.tensor([1, 2]), (1, 2), value=9)
    tensor([9, 1, 2, 9, 9])
    """
    widths = _widths(input, pad, "constant_pad_nd")
    if any(n < 0 for pair in widths for n in pair):
        starts = [max(0, -before) for before, _ in widths]
        lengths = [max(0, s + min(0, b) + min(0, a)) for s, (b, a) in zip(input._type.shape, widths, strict=True)]
        input = apply(Slice, (input, *starts), {"spec": tuple((n, 1) for n in lengths)})
        widths = [(max(0, before), max(0, after)) for before, after in widths]
    return apply(ConstantPad, (input, value), {"widths": tuple(widths)})


def _source_places(size: int, before: int, after: int, mode: str) -> Array:
    """For every place of a padded dimension, which element it repeats."""
    if mode == "circular":  # what is cut off is not repeated either
        kept = np.arange(max(0, -before), size - max(0, -after))
        return kept[np.arange(-max(0, before), kept.size + max(0, after)) % kept.size]
    places = np.arange(-before, size + after)
    return places.clip(0, size - 1) if mode == "replicate" else size - 1 - abs(size - 1 - abs(places))


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """`nn.functional.pad`: dimensions lengthened by a value, or by "reflect", "replicate" or "circular" repetition.

    >>> F.pad(ex.tensor([[1, 2, 3]]), (1, 1)), F.pad(ex.tensor([[1, 2, 3]]), (1, 1), mode="reflect")
    (tensor([[0, 1, 2, 3, 0]]), tensor([[2, 1, 2, 3, 2]]))
    """
    if mode == "constant":
        return constant_pad_nd(input, pad, 0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise ShapeError(f"pad: mode must be constant, reflect, replicate or circular, got {mode!r}")
    if value is not None and value != 0:
        raise ShapeError(f"pad: mode {mode!r} takes no value, got {value}")
    n_padded = len(pad) // 2
    if input.ndim not in (n_padded + 1, n_padded + 2):
        raise UnsupportedError(
            f"pad: {mode!r} padding of {n_padded} dimensions takes {n_padded + 1} or {n_padded + 2} of them, got "
            f"shape {tuple(input.shape)}"
        )
    for d, (before, after) in enumerate(_widths(input, pad, "pad")):
        if before or after:
            size = input._type.shape[d]
            limit = {"reflect": size - 1, "circular": size}.get(mode, size and max(before, after))
            if max(before, after) > limit:
                raise ShapeError(
                    f"pad: {mode!r} lengthens dimension {d} of size {size} by {limit} at most, not {before}, {after}"
                )
            input = index_select(input, d, from_array(_source_places(size, before, after, mode)))
    return input


# ---- shuffles of channels and pixels


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(..., channels * r * r, height, width) -> (..., channels, height * r, width * r).

    >>> ex.pixel_shuffle(ex.arange(4).view(4, 1, 1), 2)[0]
    tensor([[0, 1],
            [2, 3]])
    """
    r = upscale_factor
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
    r = downscale_factor
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
    if input.ndim < 3 or groups <= 0 or input._type.shape[1] % groups:
        raise ShapeError(
            f"channel_shuffle: shape {tuple(input.shape)} needs channels (dim 1) divisible by {groups} groups"
        )
    batch, channels, *rest = input._type.shape
    apart = input.reshape(batch, groups, channels // groups, *rest)
    return apart.transpose(1, 2).reshape(input._type.shape).contiguous()


native_channel_shuffle = channel_shuffle
