"""The same storage seen otherwise: the view ops, their adjoint, and writing through them.

Each view op V has one adjoint, `Embed`, which puts a gradient of V's shape into zeros of the base's shape, and whose
own gradient is V again; `WriteThrough` is the pure form of an in-place write to a view. The functions that users call
stand in `shaping`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..core.graph import Node
from ..core.op import GRADIENTS_ONLY, IN_GRADIENTS_ONLY, REGISTRY, Decomposed, Op, Refuse, Rng, Routine, Sample, View
from ..core.storage import Array
from ..core.tensor import Tensor
from ..core.types import InputType, TensorType, count, is_sequence
from ..dispatch.dispatcher import apply
from ..errors import DtypeError, ShapeError
from ..symbolic.sym_int import SIZES

__all__: list[str] = []

Steps = tuple[tuple[type[Op], tuple[Any, ...], dict[str, Any]], ...]


def strided(x: Array, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Array:
    """A view of the memory around x: strides in bytes, offset in bytes from x's first element.

    NumPy's as_strided puts an object of its own between the view and its memory, which hides that they are the same.
    """
    if not count(shape):
        return x.reshape(-1)[:0].reshape(shape)
    owner = x.base if type(x.base) is np.ndarray else x
    start = x.__array_interface__["data"][0] - owner.__array_interface__["data"][0] + offset
    try:
        out: Array = np.ndarray(shape, x.dtype, owner, start, strides)
    except (ValueError, TypeError):
        if offset:
            raise ShapeError(
                "as_strided: this memory came from elsewhere and has gaps; use x.contiguous() first"
            ) from None
        out = np.lib.stride_tricks.as_strided(x, shape, strides)
    if not x.flags.writeable or repeats(shape, strides):
        out.flags.writeable = False
    return out


def repeats(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether one element stands for a whole dimension, as after expand."""
    return any(step == 0 and size > 1 for size, step in zip(shape, strides, strict=True))


class Reshape(View):
    """The elements in the same order with another shape; a view where strides allow, a copy elsewhere."""

    lower = Routine("reshape")
    numpy = staticmethod(lambda x, *, shape: x.reshape(shape))
    ragged = "reshaping.reshape"
    infer = staticmethod(lambda x, *, shape: TensorType(shape, x.dtype))
    vjp = staticmethod(lambda g, y, x, *, shape: (apply(Reshape, (g,), {"shape": x.shape}),))
    batch = staticmethod(lambda size, x, *, shape: apply(Reshape, (x,), {"shape": (size, *shape)}))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 4)), shape=(2, 6))
        yield Sample(rng.normal(size=(4, 3)).T, shape=(12,))
        yield Sample(rng.normal(size=()), shape=(1, 1))
        yield Sample(np.empty((0, 3)), shape=(3, 0))

    onnx = staticmethod(lambda b, x, *, shape: b.reshape(x, shape))


class Permute(View):
    """The dimensions in another order."""

    numpy = staticmethod(lambda x, *, dims: x.transpose(dims))
    ragged = "reshaping.permute"
    infer = staticmethod(lambda x, *, dims: TensorType(tuple(x.shape[d] for d in dims), x.dtype))
    batch = staticmethod(lambda size, x, *, dims: apply(Permute, (x,), {"dims": (0, *(d + 1 for d in dims))}))

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, *, dims: tuple[int, ...]) -> tuple[Any, ...]:
        return (apply(Permute, (g,), {"dims": tuple(sorted(range(len(dims)), key=dims.__getitem__))}),)

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3, 4)), dims=(2, 0, 1))
        yield Sample(rng.normal(size=()), dims=())

    onnx = staticmethod(lambda b, x, *, dims: b.Transpose(x, perm=dims) if dims else x)


class Expand(View):
    """Dimensions of size 1 repeated without copying."""

    ragged = "reshaping.expand"
    infer = staticmethod(lambda x, *, shape: TensorType(shape, x.dtype))

    @staticmethod
    def numpy(x: Array, *, shape: tuple[int, ...]) -> Array:
        out = np.broadcast_to(x, shape)
        if out.size == x.size and x.flags.writeable:
            out.flags.writeable = True  # nothing repeats, so it may be written like any view
        return out

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

    onnx = staticmethod(lambda b, x, *, shape: b.Expand(x, shape))


def _embedded(
    op: type[View], g: Tensor, x: TensorType, numbers: tuple[Any, ...], attrs: dict[str, Any]
) -> tuple[Any, ...]:
    embed = {"op": op.name, "shape": x.shape, "attrs": tuple(attrs.items())}
    return (apply(Embed, (g, *numbers), embed), *(None for _ in numbers))


class Slice(View):
    """Basic indexing: integers, slices with steps, None. Where each starts is a value, not part of the structure.

    `spec` has one entry per dimension, the last ones may be missing: ":" all of it, "i" one index (a number input),
    (length, step) a slice (its start is a number input), None a new dimension.
    """

    embeds = True
    ragged = "reshaping.slice_"
    vjp = staticmethod(lambda g, y, x, *starts, spec: _embedded(Slice, g, x, starts, {"spec": spec}))
    batch = staticmethod(lambda size, x, *starts, spec: apply(Slice, (x, *starts), {"spec": (":", *spec)}))

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
        out = x[(*index, ...)]  # the ellipsis keeps a single element a 0-dim view
        if not out.flags.writeable and not repeats(out.shape, out.strides):
            with contextlib.suppress(ValueError):  # raised where the memory itself is read-only
                out.flags.writeable = True  # one copy out of an expanded tensor can be written again
        return out

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(4, 5)), 1, 2, spec=("i", (2, 1)))
        yield Sample(rng.normal(size=(4, 5)), 0, spec=(None, (2, 2), ":"))
        yield Sample(rng.normal(size=(3,)), 0, spec=((0, 1),))
        yield Sample(rng.normal(size=(3,)), 2, spec=("i",))

    @staticmethod
    def onnx(b: Any, x: Any, *starts: Any, spec: tuple[Any, ...]) -> Any:
        first = iter(starts)
        cuts: list[tuple[Any, Any, int, int]] = []  # start, end, dimension, step
        dropped, added = [], []
        dim = out_dim = 0
        for entry in spec:
            if entry is None:
                added.append(out_dim)
            elif entry == "i":
                start = next(first)
                # An end of 0 would be before the last element, which -1 means.
                cuts.append((start, 2**62 if start == -1 else b.plus(start, 1), dim, 1))
                dropped.append(dim)
            elif entry != ":":
                start, (length, step) = next(first), entry
                end = b.plus(start, b.times(length, step))
                # Backwards from some element to the first, the end lies before it.
                cuts.append((start, b.at_least(end, -(2**62), step), dim, step))
            dim += entry is not None
            out_dim += entry != "i"
        if cuts:
            begins, ends, dims, steps = zip(*cuts, strict=True)
            x = b.Slice(x, begins, ends, dims, steps)
        x = b.Squeeze(x, dropped) if dropped else x
        return b.Unsqueeze(x, added) if added else x


class Diagonal(View):
    """The diagonal of two dimensions, as a new last one."""

    embeds = True
    ragged = "reshaping.diagonal"

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

    @staticmethod
    def onnx(b: Any, x: Any, *, offset: int, dim1: int, dim2: int) -> Any:
        rows, columns = x.shape[dim1], x.shape[dim2]
        ends = (rows, b.plus(columns, -offset)) if offset >= 0 else (b.plus(rows, offset), columns)
        length = b.Max(b.Min(*map(b.size, ends)), 0)
        rest = [d for d in range(x.ndim) if d not in (dim1, dim2)]
        flat = b.reshape(
            b.Transpose(x, perm=(*rest, dim1, dim2)), (*(x.shape[d] for d in rest), b.times(rows, columns))
        )
        first = offset if offset >= 0 else b.times(-offset, columns)
        places = b.Add(b.Mul(b.range(length), b.size(b.plus(columns, 1))), b.size(first))
        return b.Gather(flat, places, axis=len(rest))


class Unfold(View):
    """Windows of `size` taken every `step` along a dimension, as a new last one."""

    name = "unfold"
    ragged = "reshaping.unfold"

    @staticmethod
    def infer(x: TensorType, *, dimension: int, size: int, step: int) -> TensorType:
        return TensorType(Unfold._windows(x.shape, dimension, size, step) if x.shape else (size,), x.dtype)

    @staticmethod
    def _windows(shape: tuple[int, ...], dimension: int, size: int, step: int) -> tuple[int, ...]:
        n_windows = (shape[dimension] - size) // step + 1
        return (*shape[:dimension], n_windows, *shape[dimension + 1 :], size)

    @staticmethod
    def numpy(x: Array, *, dimension: int, size: int, step: int) -> Array:
        if not x.ndim:
            return strided(x, (size,), (x.itemsize,))
        stride = x.strides[dimension]
        shape = Unfold._windows(x.shape, dimension, size, step)
        return strided(x, shape, (*x.strides[:dimension], stride * step, *x.strides[dimension + 1 :], stride))

    @staticmethod
    def embed(out: Array, g: Array, *, dimension: int, size: int, step: int) -> None:
        # Windows overlap, but their k-th elements do not.
        windows = Unfold.numpy(out, dimension=dimension, size=size, step=step)
        for k in range(size):
            windows[..., k] += g[..., k]

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

    @Decomposed
    def onnx(x: Tensor, *, dimension: int, size: int, step: int) -> Tensor:
        if not x.ndim:
            return x.reshape(1).expand(size)
        n_windows = Unfold._windows(x._type.shape, dimension, size, step)[dimension]
        places = (ops.arange(n_windows) * step).unsqueeze(1) + ops.arange(size)
        picked = x.index_select(dimension, places.flatten())
        return picked.unflatten(dimension, (n_windows, size)).movedim(dimension + 1, -1)


def _memory_places(shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Array:
    """The offset of each element of a tensor in its memory, in elements."""
    at = np.full((1,) * len(shape), offset)
    for d, (size, step) in enumerate(zip(shape, strides, strict=True)):
        at = at + (np.arange(size) * step).reshape(-1, *(1,) * (len(shape) - d - 1))
    return at.reshape(shape)


class AsStrided(View):
    """Any window on the memory: sizes and strides, from `offset` elements after the source's first one.

    It sees memory, not the source's elements, so its meaning depends on the source's own strides, `source_stride`. A
    source with other strides (a gradient, a copy) stands for the memory that its elements would have with those.
    """

    ragged = Refuse("strides are those of one tensor in memory")
    infer = staticmethod(lambda x, offset, *, size, stride, source_stride: TensorType(size, x.dtype))

    @staticmethod
    def numpy(x: Array, offset: int, *, size: Any, stride: Any, source_stride: Any) -> Array:
        unit = x.itemsize
        if all(n < 2 or a == b * unit for n, a, b in zip(x.shape, x.strides, source_stride, strict=True)):
            return strided(x, size, tuple(s * unit for s in stride), offset * unit)
        source, seen, low = AsStrided._places(x.shape, offset, size, stride, source_stride)
        memory = np.zeros(max(source.max(initial=0), seen.max(initial=0)) - low + 1, x.dtype)
        if x.dtype.kind in "biu":
            memory[source - low] = x
        else:  # elements that share a place stand for it in equal parts, as in the gradient
            np.add.at(memory, source - low, (x / AsStrided._shares(source - low)).astype(x.dtype))
        return memory[seen - low]

    @staticmethod
    def embed(out: Array, g: Array, offset: int, *, size: Any, stride: Any, source_stride: Any) -> None:
        source, seen, low = AsStrided._places(out.shape, offset, size, stride, source_stride)
        memory = np.zeros(max(source.max(initial=0), seen.max(initial=0)) - low + 1, g.dtype)
        np.add.at(memory, seen - low, g)
        out[...] = memory[source - low] / AsStrided._shares(source - low)

    @staticmethod
    def _places(shape: Any, offset: int, size: Any, stride: Any, source_stride: Any) -> tuple[Array, Array, int]:
        source, seen = _memory_places(shape, source_stride), _memory_places(size, stride, offset)
        return source, seen, min(0, int(seen.min(initial=0)))

    @staticmethod
    def _shares(places: Array) -> Array:
        """How many elements of the source have the same offset as each of them."""
        return np.bincount(places.reshape(-1))[places] if places.size else places

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, offset: Any, *, size: Any, stride: Any, source_stride: Any) -> tuple[Any, ...]:
        return _embedded(AsStrided, g, x, (offset,), {"size": size, "stride": stride, "source_stride": source_stride})

    batch = Refuse("looped over samples: the batch dimension would be part of the memory that it looks at")

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 4)), 1, size=(2, 3), stride=(4, 2), source_stride=(4, 1))
        yield Sample(rng.normal(size=(6,)), 0, size=(4, 3), stride=(1, 1), source_stride=(1,))
        yield Sample(rng.normal(size=(2, 2)), 0, size=(2, 2), stride=(1, 1), source_stride=(1, 2))

    @staticmethod
    def onnx(b: Any, x: Any, offset: Any, *, size: Any, stride: Any, source_stride: Any) -> Any:
        numbers = (*x.shape, offset, *size, *stride, *source_stride)
        if not all(isinstance(n, int) for n in numbers):
            b.refuse("its sizes and strides are those of memory, and must be numbers; reshape or slice instead")
        source, seen, low = AsStrided._places(x.shape, offset, size, stride, source_stride)
        memory = np.full(max(source.max(initial=0), seen.max(initial=0)) - low + 1, -1)
        memory[(source - low).reshape(-1)] = np.arange(source.size)
        if len(np.unique(source)) < source.size:
            b.refuse("elements of its input share memory; make them distinct with contiguous()")
        found = memory[seen - low]
        picked = b.Gather(b.reshape(x, (source.size,)), np.maximum(found, 0), axis=0)
        return picked if (found >= 0).all() else b.Where(found >= 0, picked, b.constant(0, x.dtype))


class AliasOf(View):
    """The tensor itself, as a new view of it."""

    name = "alias"
    numpy = staticmethod(lambda x: x.view())
    infer = staticmethod(lambda x: x)
    batch = staticmethod(lambda size, x: apply(AliasOf, (x,)))
    ragged = "elementwise"
    vjp = staticmethod(lambda g, y, x: (g,))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3,)))

    onnx = staticmethod(lambda b, x: x)


class Detach(View):
    """The tensor outside the graph."""

    numpy = staticmethod(lambda x: x.view())
    infer = staticmethod(lambda x: x)
    batch = staticmethod(lambda size, x: x.detach())
    ragged = "elementwise"
    vjp = staticmethod(lambda g, y, x: (None,))
    samples = Refuse("it stands for Tensor.detach inside other modes, and has no gradient to test")
    onnx = staticmethod(lambda b, x: x)


# ---- the adjoint of a view, and writing through one


def _look(array: Array, steps: Sequence[tuple[str, int, tuple[tuple[str, Any], ...]]], numbers: Sequence[Any]) -> Array:
    """Follow view steps on an array."""
    used = 0
    for name, n_numbers, attrs in steps:
        array = REGISTRY[name].numpy(array, *numbers[used : used + n_numbers], **dict(attrs))
        used += n_numbers
    return array


def _put(out: Array, value: Any, steps: Any, numbers: Sequence[Any]) -> None:
    """Write `value` where a chain of view steps looks into `out`, a row-major array."""
    seen = _look(out, steps, numbers)
    if seen.base is out and seen.flags.writeable:
        seen[...] = value
        return
    # Some step copied: then each element is known by its number, counted from 1, so that 0 is a place outside of `out`.
    places = _look(np.arange(1, out.size + 1).reshape(out.shape), steps, numbers) - 1
    inside = places >= 0
    out.reshape(-1)[places[inside]] = np.broadcast_to(value, places.shape)[inside]


class Embed(Op):
    """Zeros of the base's shape with the input put (added, where elements overlap) where a view would look."""

    family = "view"
    saves = ("",)
    batch = Refuse("looped over samples: it only occurs in gradients of views, which have rules")
    ragged = IN_GRADIENTS_ONLY
    infer = staticmethod(lambda g, *numbers, op, shape, attrs: TensorType(shape, g.dtype))

    @staticmethod
    def numpy(g: Array, *numbers: Any, op: str, shape: tuple[int, ...], attrs: tuple[Any, ...]) -> Array:
        out = np.zeros(shape, g.dtype)
        view = REGISTRY[op]
        if hasattr(view, "embed"):  # its elements overlap
            view.embed(out, g, *numbers, **dict(attrs))
        else:
            view.numpy(out, *numbers, **dict(attrs))[...] = g
        return out

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, *numbers: Any, op: str, shape: Any, attrs: Any) -> tuple[Any, ...]:
        return (apply(REGISTRY[op], (g, *numbers), dict(attrs)), *(None for _ in numbers))

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2,)), 1, op="slice", shape=(4,), attrs=(("spec", ((2, 1),)),))
        yield Sample(
            rng.normal(size=(4, 3)), op="unfold", shape=(6,), attrs=(("dimension", 0), ("size", 3), ("step", 1))
        )

    onnx = GRADIENTS_ONLY


class WriteThrough(Op):
    """The base with what a view of it sees replaced by the value."""

    family = "view"
    saves = ("", "")
    batch = Refuse("looped over samples: in-place writes inside vmap are rare")
    ragged = Refuse("a write to a view of values is a write to the values")
    infer = staticmethod(lambda base, value, *numbers, steps: base)

    @staticmethod
    def numpy(base: Array, value: Array, *numbers: Any, steps: tuple[Any, ...]) -> Array:
        out = np.array(base, order="C")
        _put(out, value, steps, numbers)
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

    @Decomposed
    def onnx(base: Tensor, value: Tensor, *numbers: Any, steps: tuple[Any, ...]) -> Tensor:
        n = count(base._type.shape)
        places, used = ops.arange(n).reshape(base._type.shape), 0
        for name, n_numbers, attrs in steps:
            places = apply(REGISTRY[name], (places, *numbers[used : used + n_numbers]), dict(attrs))
            used += n_numbers
        values = value.expand(places._type.shape).reshape(count(places._type.shape))
        return base.reshape(n).scatter(0, places.flatten(), values).reshape(base._type.shape)


def write_through(base: Tensor, value: Node, steps: Steps) -> Node:
    """The node of a base after `value` was written through a view of it."""
    named = tuple((op.name, len(numbers), tuple(attrs.items())) for op, numbers, attrs in steps)
    numbers = tuple(n for _, ns, _ in steps for n in ns)
    return Node(WriteThrough, (base._own_node(), value, *numbers), {"steps": named}, base._type, (), value.where)


def as_shape(args: tuple[Any, ...], op: str) -> tuple[int, ...]:
    """Sizes given as `f(2, 3)` or `f((2, 3))`."""
    if len(args) == 1 and not isinstance(args[0], int) and is_sequence(args[0]):
        args = tuple(args[0])
    if SIZES.issuperset(map(type, args)):
        return args
    try:
        return tuple(a.__index__() for a in args)
    except AttributeError:
        raise DtypeError(f"{op}: sizes must be ints, got {args!r}") from None
