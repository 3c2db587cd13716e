"""The same storage seen otherwise: reshape, permute, expand, slice, diagonal, unfold; and writing through such views.

Each view op V has one adjoint, `Embed`, which puts a gradient of V's shape into zeros of the base's shape, and whose own
gradient is V again; `WriteThrough` is the pure form of an in-place write to a view.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import ops
from .._methods import TensorMethods, method
from .._tensor import Tensor, apply
from ..errors import DtypeError, IndexRangeError, ShapeError
from ..graph import Node
from ..op import REGISTRY, Op, Refuse, Rng, Sample, View
from ..storage import Array
from ..types import InputType, TensorType, count, normalize_dim

__all__ = [
    "diagonal",
    "expand_as",
    "narrow",
    "permute",
    "reshape",
    "select",
    "squeeze",
    "swapaxes",
    "swapdims",
    "t",
    "transpose",
    "unsqueeze",
]

Steps = tuple[tuple[type[Op], tuple[Any, ...], dict[str, Any]], ...]


class Reshape(View):
    """The elements in the same order with another shape; a view where strides allow, a copy elsewhere."""

    numpy = staticmethod(lambda x, *, shape: x.reshape(shape))

    @staticmethod
    def infer(x: TensorType, *, shape: tuple[int, ...]) -> TensorType:
        return TensorType(shape, x.dtype)

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, *, shape: tuple[int, ...]) -> tuple[Any, ...]:
        return (apply(Reshape, (g,), {"shape": x.shape}),)

    @staticmethod
    def batch(size: int, x: Any, *, shape: tuple[int, ...]) -> Any:
        return apply(Reshape, (x,), {"shape": (size, *shape)})

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 4)), shape=(2, 6))
        yield Sample(rng.normal(size=(4, 3)).T, shape=(12,))
        yield Sample(rng.normal(size=()), shape=(1, 1))
        yield Sample(np.empty((0, 3)), shape=(3, 0))


class Permute(View):
    """The dimensions in another order."""

    numpy = staticmethod(lambda x, *, dims: x.transpose(dims))

    @staticmethod
    def infer(x: TensorType, *, dims: tuple[int, ...]) -> TensorType:
        return TensorType(tuple(x.shape[d] for d in dims), x.dtype)

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, *, dims: tuple[int, ...]) -> tuple[Any, ...]:
        return (apply(Permute, (g,), {"dims": tuple(sorted(range(len(dims)), key=dims.__getitem__))}),)

    @staticmethod
    def batch(size: int, x: Any, *, dims: tuple[int, ...]) -> Any:
        return apply(Permute, (x,), {"dims": (0, *(d + 1 for d in dims))})

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3, 4)), dims=(2, 0, 1))
        yield Sample(rng.normal(size=()), dims=())


class Expand(View):
    """Dimensions of size 1 repeated without copying."""

    numpy = staticmethod(lambda x, *, shape: np.broadcast_to(x, shape))

    @staticmethod
    def infer(x: TensorType, *, shape: tuple[int, ...]) -> TensorType:
        return TensorType(shape, x.dtype)

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, *, shape: tuple[int, ...]) -> tuple[Any, ...]:
        return (g,)  # the engine sums it back

    @staticmethod
    def batch(size: int, x: Any, *, shape: tuple[int, ...]) -> Any:
        inner = x._type.shape[1:]
        x = x.reshape(size, *(1,) * (len(shape) - len(inner)), *inner)
        return apply(Expand, (x,), {"shape": (size, *shape)})

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 1)), shape=(2, 3, 4))
        yield Sample(rng.normal(size=()), shape=(2,))
        yield Sample(rng.normal(size=(1, 2)), shape=(0, 2))


def _embedded(op: type[View], g: Tensor, x: TensorType, numbers: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[Any, ...]:
    embed = {"op": op.name, "shape": x.shape, "attrs": tuple(attrs.items())}
    return (apply(Embed, (g, *numbers), embed), *(None for _ in numbers))


class Slice(View):
    """Basic indexing: integers, slices with steps, None. Where each starts is a value, not part of the structure.

    `spec` has one entry per dimension, the last ones may be missing: ":" all of it, "i" one index (a number input),
    (length, step) a slice (its start is a number input), None a new dimension.
    """

    @staticmethod
    def infer(x: TensorType, *starts: InputType, spec: tuple[Any, ...]) -> TensorType:
        shape: list[int] = []
        dim = 0
        for entry in spec:
            if entry is None:
                shape.append(1)
                continue
            if entry == ":":
                shape.append(x.shape[dim])
            elif entry != "i":
                shape.append(entry[0])
            dim += 1
        return TensorType((*shape, *x.shape[dim:]), x.dtype)

    @staticmethod
    def numpy(x: Array, *starts: int, spec: tuple[Any, ...]) -> Array:
        index: list[Any] = []
        start = iter(starts)
        for entry in spec:
            if entry is None or entry == ":":
                index.append(entry if entry is None else slice(None))
            elif entry == "i":
                index.append(next(start))
            else:
                first = next(start)
                index.append(slice(first, first + entry[0] * entry[1], entry[1]))
        return x[(*index, ...)]  # the ellipsis keeps a single element a 0-dim view

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, *starts: Any, spec: tuple[Any, ...]) -> tuple[Any, ...]:
        return _embedded(Slice, g, x, starts, {"spec": spec})

    @staticmethod
    def batch(size: int, x: Any, *starts: Any, spec: tuple[Any, ...]) -> Any:
        return apply(Slice, (x, *starts), {"spec": (":", *spec)})

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(4, 5)), 1, 2, spec=("i", (2, 1)))
        yield Sample(rng.normal(size=(4, 5)), 0, spec=(None, (2, 2), ":"))
        yield Sample(rng.normal(size=(3,)), 0, spec=((0, 1),))
        yield Sample(rng.normal(size=(3,)), 2, spec=("i",))


class Diagonal(View):
    """The diagonal of two dimensions, as a new last one."""

    @staticmethod
    def infer(x: TensorType, *, offset: int, dim1: int, dim2: int) -> TensorType:
        rows, columns = x.shape[dim1], x.shape[dim2]
        length = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
        rest = tuple(s for d, s in enumerate(x.shape) if d not in (dim1, dim2))
        return TensorType((*rest, length), x.dtype)

    @staticmethod
    def numpy(x: Array, *, offset: int, dim1: int, dim2: int) -> Array:
        out = np.diagonal(x, offset, dim1, dim2)
        if x.flags.writeable:
            out.flags.writeable = True  # NumPy hands it out read-only by convention
        return out

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, *, offset: int, dim1: int, dim2: int) -> tuple[Any, ...]:
        return _embedded(Diagonal, g, x, (), {"offset": offset, "dim1": dim1, "dim2": dim2})

    @staticmethod
    def batch(size: int, x: Any, *, offset: int, dim1: int, dim2: int) -> Any:
        return apply(Diagonal, (x,), {"offset": offset, "dim1": dim1 + 1, "dim2": dim2 + 1})

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 4)), offset=0, dim1=0, dim2=1)
        yield Sample(rng.normal(size=(2, 3, 4)), offset=-1, dim1=2, dim2=0)
        yield Sample(rng.normal(size=(2, 2)), offset=5, dim1=0, dim2=1)


class Unfold(View):
    """Windows of `size` taken every `step` along a dimension, as a new last one."""

    name = "unfold"

    @staticmethod
    def infer(x: TensorType, *, dimension: int, size: int, step: int) -> TensorType:
        if not x.shape:
            return TensorType((size,), x.dtype)
        windows = (x.shape[dimension] - size) // step + 1
        return TensorType((*x.shape[:dimension], windows, *x.shape[dimension + 1 :], size), x.dtype)

    @staticmethod
    def numpy(x: Array, *, dimension: int, size: int, step: int) -> Array:
        if not x.ndim:
            return np.lib.stride_tricks.as_strided(x, (size,), (0,), writeable=x.flags.writeable)
        windows = np.lib.stride_tricks.sliding_window_view(x, size, dimension, writeable=x.flags.writeable)
        return windows[(slice(None),) * dimension + (slice(None, None, step),)]

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, *, dimension: int, size: int, step: int) -> tuple[Any, ...]:
        return _embedded(Unfold, g, x, (), {"dimension": dimension, "size": size, "step": step})

    @staticmethod
    def batch(batch_size: int, x: Any, *, dimension: int, size: int, step: int) -> Any:
        return apply(Unfold, (x,), {"dimension": dimension + 1, "size": size, "step": step})

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(6, 2)), dimension=0, size=3, step=2)
        yield Sample(rng.normal(size=(2, 5)), dimension=1, size=2, step=1)


class AliasOf(View):
    """The tensor itself, as a new view of it."""

    name = "alias"
    numpy = staticmethod(lambda x: x.view())
    infer = staticmethod(lambda x: x)
    batch = staticmethod(lambda size, x: apply(AliasOf, (x,)))

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any) -> tuple[Any, ...]:
        return (g,)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3,)))


class Detach(View):
    """The tensor outside the graph."""

    numpy = staticmethod(lambda x: x.view())
    infer = staticmethod(lambda x: x)
    batch = staticmethod(lambda size, x: x.detach())

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any) -> tuple[Any, ...]:
        return (None,)

    samples = Refuse("it stands for Tensor.detach inside other modes, and has no gradient to test")


# ---- the adjoint of a view, and writing through one


def _look(array: Array, steps: Sequence[tuple[str, int, tuple[tuple[str, Any], ...]]], numbers: Sequence[Any]) -> Array:
    """Follow view steps on an array."""
    used = 0
    for name, n_numbers, attrs in steps:
        array = REGISTRY[name].numpy(array, *numbers[used : used + n_numbers], **dict(attrs))
        used += n_numbers
    return array


def _positions(shape: tuple[int, ...], steps: Any, numbers: Sequence[Any]) -> Array:
    """Where each element of the view lies in the flat base; right for every view, also overlapping or copied ones."""
    return _look(np.arange(count(shape)).reshape(shape), steps, numbers)


_OVERLAPPING = ("unfold", "expand", "as_strided")


class Embed(Op):
    """Zeros of the base's shape with the input put (added, where elements overlap) where a view would look."""

    family = "view"
    saves = ("",)
    batch = Refuse("looped over samples: it only occurs in gradients of views, which have rules")

    @staticmethod
    def infer(g: TensorType, *numbers: InputType, op: str, shape: tuple[int, ...], attrs: tuple[Any, ...]) -> TensorType:
        return TensorType(shape, g.dtype)

    @staticmethod
    def numpy(g: Array, *numbers: Any, op: str, shape: tuple[int, ...], attrs: tuple[Any, ...]) -> Array:
        out = np.zeros(shape, g.dtype)
        step = ((op, len(numbers), attrs),)
        if op in _OVERLAPPING:
            np.add.at(out.reshape(-1), _positions(shape, step, numbers), g)
        else:
            _look(out, step, numbers)[...] = g
        return out

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, *numbers: Any, op: str, shape: Any, attrs: Any) -> tuple[Any, ...]:
        return (apply(REGISTRY[op], (g, *numbers), dict(attrs)), *(None for _ in numbers))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2,)), 1, op="slice", shape=(4,), attrs=(("spec", ((2, 1),)),))
        yield Sample(rng.normal(size=(4, 3)), op="unfold", shape=(6,), attrs=(("dimension", 0), ("size", 3), ("step", 1)))


class WriteThrough(Op):
    """The base with what a view of it sees replaced by the value."""

    family = "view"
    saves = ("", "")
    batch = Refuse("looped over samples: in-place writes inside vmap are rare")

    @staticmethod
    def infer(base: TensorType, value: TensorType, *numbers: InputType, steps: tuple[Any, ...]) -> TensorType:
        return base

    @staticmethod
    def numpy(base: Array, value: Array, *numbers: Any, steps: tuple[Any, ...]) -> Array:
        out = np.array(base, order="C")
        out.reshape(-1)[_positions(base.shape, steps, numbers)] = value
        return out

    @staticmethod
    def vjp(g: Tensor, y: Any, base: Any, value: Any, *numbers: Any, steps: tuple[Any, ...]) -> tuple[Any, ...]:
        def into_base() -> Tensor:
            nothing = ops.zeros(value.shape, dtype=g.dtype)
            return apply(WriteThrough, (g, nothing, *numbers), {"steps": steps})

        def into_value() -> Tensor:
            seen, used = g, 0
            for name, n_numbers, attrs in steps:
                seen = apply(REGISTRY[name], (seen, *numbers[used : used + n_numbers]), dict(attrs))
                used += n_numbers
            return seen

        return into_base, into_value, *(None for _ in numbers)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        steps = (("slice", 1, (("spec", ("i",)),)), ("reshape", 0, (("shape", (3, 1)),)))
        yield Sample(rng.normal(size=(2, 3)), rng.normal(size=(3, 1)), 1, steps=steps)


def write_through(base: Tensor, value: Node, steps: Steps) -> Node:
    """The node of a base after `value` was written through a view of it."""
    named = tuple((op.name, len(numbers), tuple(attrs.items())) for op, numbers, attrs in steps)
    numbers = tuple(n for _, ns, _ in steps for n in ns)
    return Node(WriteThrough, (base._own_node(), value, *numbers), {"steps": named}, base._type, (), value.where)


# ---- functions


def as_shape(args: tuple[Any, ...], op: str) -> tuple[int, ...]:
    """Sizes given as `f(2, 3)` or `f((2, 3))`."""
    if len(args) == 1 and not isinstance(args[0], int) and hasattr(args[0], "__iter__"):
        args = tuple(args[0])
    try:
        return tuple(a.__index__() for a in args)
    except AttributeError:
        raise DtypeError(f"{op}: sizes must be ints, got {args!r}") from None


def _fill_in(shape: tuple[int, ...], x: TensorType, op: str) -> tuple[int, ...]:
    """Replace a -1 by what the number of elements leaves for it."""
    total = x.numel()
    known = count(s for s in shape if s != -1)
    if shape.count(-1) > 1:
        raise ShapeError(f"{op}: only one size can be -1, got {shape}")
    if any(s < -1 for s in shape):
        raise ShapeError(f"{op}: sizes must not be negative, got {shape}")
    if -1 in shape:
        if known == 0:
            raise ShapeError(f"{op}: -1 is ambiguous in {shape}, because the other sizes multiply to 0; give it as a number")
        if total % known:
            raise ShapeError(f"{op}: shape {x.shape} has {total} elements, which {shape} does not divide evenly")
        return tuple(total // known if s == -1 else s for s in shape)
    if known != total:
        raise ShapeError(f"{op}: shape {x.shape} has {total} elements, {shape} has {known}")
    return shape


@method
def reshape(input: Tensor, *shape: Any) -> Tensor:
    """The same elements with another shape; one size may be -1. A view where possible, a copy elsewhere."""
    return apply(Reshape, (input,), {"shape": _fill_in(as_shape(shape, "reshape"), input._type, "reshape")})


def _view(self: Tensor, *shape: Any, dtype: Any = None) -> Tensor:
    """The same memory with another shape (never a copy), or with `view(dtype)` another element type."""
    if dtype is not None or (len(shape) == 1 and isinstance(shape[0], ops.types.dtype)):
        return ops.view_dtype(self, dtype or shape[0])
    result: Tensor = apply(Reshape, (self,), {"shape": _fill_in(as_shape(shape, "view"), self._type, "view")})
    if self._array is not None and result._storage is not self._storage and self._type.numel():
        raise ShapeError(
            f"view: a tensor of shape {tuple(self.shape)} with strides {self.stride()} cannot be seen as {tuple(result.shape)} "
            "without copying; use reshape(...), or contiguous() first"
        )
    return result


method(_view, "view")


@method
def permute(input: Tensor, *dims: Any) -> Tensor:
    """The dimensions in the order given."""
    wanted = as_shape(dims, "permute")
    order = tuple(normalize_dim(d, input.ndim, "permute") for d in wanted) if input.ndim else ()
    if len(order) != input.ndim or len(set(order)) != len(order):
        raise ShapeError(f"permute: dims {wanted} must name each of the {input.ndim} dimensions once")
    return apply(Permute, (input,), {"dims": order})


@method
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged."""
    if not input.ndim:
        normalize_dim(dim0, 0, "transpose")
        normalize_dim(dim1, 0, "transpose")
        return apply(AliasOf, (input,))
    a, b = normalize_dim(dim0, input.ndim, "transpose"), normalize_dim(dim1, input.ndim, "transpose")
    order = list(range(input.ndim))
    order[a], order[b] = order[b], order[a]
    return apply(Permute, (input,), {"dims": tuple(order)})


swapaxes = swapdims = method(transpose, "swapaxes")
method(transpose, "swapdims")


@method
def t(input: Tensor) -> Tensor:
    """A matrix transposed; tensors with fewer dimensions as they are."""
    if input.ndim > 2:
        raise ShapeError(f"t: expected at most 2 dimensions, got shape {tuple(input.shape)}; use transpose(-2, -1) or mT")
    return apply(Permute, (input,), {"dims": tuple(reversed(range(input.ndim)))})


def _T(self: Tensor) -> Tensor:
    """All dimensions reversed."""
    return apply(Permute, (self,), {"dims": tuple(reversed(range(self.ndim)))})


def _mT(self: Tensor) -> Tensor:
    """The last two dimensions exchanged."""
    if self.ndim < 2:
        raise ShapeError(f"mT: expected at least 2 dimensions, got shape {tuple(self.shape)}")
    return transpose(self, -2, -1)


TensorMethods.T = property(_T)  # type: ignore[attr-defined] # declared in the stub
TensorMethods.mT = property(_mT)  # type: ignore[attr-defined] # declared in the stub
TensorMethods.H = property(_mT)  # type: ignore[attr-defined] # real tensors: the adjoint is the transpose
TensorMethods.mH = property(_mT)  # type: ignore[attr-defined] # real tensors: the adjoint is the transpose


@method
def expand(input: Tensor, *sizes: Any) -> Tensor:
    """Dimensions of size 1 repeated without copying; -1 keeps a size."""
    wanted = as_shape(sizes, "expand")
    extra = len(wanted) - input.ndim
    if extra < 0:
        raise ShapeError(f"expand: {wanted} has fewer dimensions than the tensor's shape {tuple(input.shape)}")
    shape = []
    for i, size in enumerate(wanted):
        own = input._type.shape[i - extra] if i >= extra else 1
        if size == -1 and i < extra:
            raise ShapeError(f"expand: -1 cannot stand for a new leading dimension in {wanted}")
        if size not in (-1, own) and own != 1:
            raise ShapeError(f"expand: shape {tuple(input.shape)} does not expand to {wanted}; only sizes of 1 can grow")
        shape.append(own if size == -1 else size)
    return apply(Expand, (input,), {"shape": tuple(shape)})


@method
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """Expand to the shape of `other`."""
    return expand(input, other.shape)


@method
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A new dimension of size 1 at `dim`."""
    d = normalize_dim(dim, input.ndim + 1, "unsqueeze")
    shape = input._type.shape
    return apply(Reshape, (input,), {"shape": (*shape[:d], 1, *shape[d:])})


@method
def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Dimensions of size 1 dropped: all of them, or those in `dim`."""
    if dim is None:
        dims = set(range(input.ndim))
    else:
        dims = {normalize_dim(d, input.ndim, "squeeze") for d in ((dim,) if isinstance(dim, int) else dim)}
    shape = tuple(s for d, s in enumerate(input._type.shape) if d not in dims or s != 1)
    return apply(Reshape, (input,), {"shape": shape})


@method
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """One index of a dimension, which disappears."""
    if not input.ndim:
        raise IndexRangeError("select: a 0-dim tensor has no dimension to select from")
    d = normalize_dim(dim, input.ndim, "select")
    size = input._type.shape[d]
    i = index.__index__()
    if not -size <= i < size:
        raise IndexRangeError(f"select: index {i} is out of range for dimension {d} of size {size}")
    return apply(Slice, (input, i % size), {"spec": (":",) * d + ("i",)})


@method
def narrow(input: Tensor, dim: int, start: int | Tensor, length: int) -> Tensor:
    """`length` elements of a dimension, from `start` on."""
    if not input.ndim:
        raise IndexRangeError("narrow: a 0-dim tensor has no dimension to narrow")
    d = normalize_dim(dim, input.ndim, "narrow")
    size = input._type.shape[d]
    first = start.__index__()
    if not -size <= first <= size or length < 0 or (first % size if first < 0 else first) + length > size:
        raise IndexRangeError(f"narrow: start {first} and length {length} exceed dimension {d} of size {size}")
    first = first + size if first < 0 else first
    return apply(Slice, (input, first), {"spec": (":",) * d + ((length, 1),)})


@method
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two dimensions as a new last one, sharing memory."""
    a, b = normalize_dim(dim1, input.ndim, "diagonal"), normalize_dim(dim2, input.ndim, "diagonal")
    if input.ndim < 2 or a == b:
        raise ShapeError(f"diagonal: expected two different dimensions of a matrix or more, got shape {tuple(input.shape)}")
    return apply(Diagonal, (input,), {"offset": offset, "dim1": a, "dim2": b})


def _unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size` taken every `step` along a dimension, as a new last one, sharing memory."""
    d = normalize_dim(dimension, self.ndim, "unfold")
    limit = self._type.shape[d] if self.ndim else 1
    if not 0 <= size <= limit or step <= 0:
        raise ShapeError(f"unfold: size {size} and step {step} do not fit dimension {d} of size {limit}")
    return apply(Unfold, (self,), {"dimension": d, "size": size, "step": step})


method(_unfold, "unfold")
