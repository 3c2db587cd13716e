"""Gather and scatter along one dimension: the index has as many dimensions as the data, and says where along one.

Elements are worked off in the order of the index, so the last write to a place stays and sums have one order. An index
out of range makes the routine decline before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable

from ....core.strides import row_major_strides
from ....core.types import InputType, TensorType, count
from ..ir.builder import IRFunction, IRModule, Pointer, Type, Value, f32, f64, i64
from .gathering import decline_outside, index_type, read_index
from .layout import BY_SIZE, MAX_NDIM, carrier, copying, fill_zeros, numbers_from, odometer
from .routine import Attrs, Bound, Inputs, build, element_of, routine, routine_code

# (function, old element, new element) -> element
_COMBINE: dict[str, Callable[[IRFunction, Value, Value], Value]] = {
    "write": lambda b, old, new: new,
    "add": lambda b, old, new: old + new,
    "prod": lambda b, old, new: old * new,
    "amax": lambda b, old, new: b.intrinsic("maximum", old, new),
    "amin": lambda b, old, new: b.intrinsic("minimum", old, new),
}
_IDENTITY = {"prod": 1.0, "amax": float("-inf"), "amin": float("inf")}


class _ScatterWalk:
    """The loop over an index while a function is written: where each of its elements points in other memory."""

    def __init__(
        self, b: IRFunction, index: Pointer, ndim: Value, dim: Value, shape: Pointer, strides: Pointer
    ) -> None:
        self.b = b
        self.index = index
        self.last = ndim - 1
        self.shape = shape
        self.along = strides[dim]
        self.steps = b.array(i64, MAX_NDIM)  # strides of the other dimensions
        with b.loop(0, ndim) as d:
            self.steps[d] = b.select(d == dim, 0, strides[d])

    def each(self, body: Callable[[Value, Value], None]) -> None:
        """Run body(number of the index element, offset that it points to) in order."""
        b = self.b
        done = b.var(i64, 0)
        n, step = self.shape[self.last], self.steps[self.last]

        def row(offsets: list[Value]) -> None:
            first = done.value
            with b.loop(0, n) as i:
                at = read_index(b, self.index, first + i)
                body(first + i, offsets[0] + i * step + at * self.along)
            done.set(first + n)

        odometer(b, self.last, self.shape, (self.steps,), row)


def _fits(x: InputType, index: InputType) -> bool:
    return (
        isinstance(x, TensorType)
        and isinstance(index, TensorType)
        and index_type(index) is not None
        and x.ndim == index.ndim
        and 0 < x.ndim <= MAX_NDIM
    )


@routine("gather")
def bind_gather(types: Inputs, attrs: Attrs) -> Bound | None:
    """result[i][j] = x[index[i][j]][j], for dim 0 of two."""
    x, at = types
    index = index_type(at)
    if not _fits(x, at) or index is None:
        return None
    element, dim = carrier(x.dtype), attrs["dim"]
    address = build(f"gather_{element.suffix}_{index.suffix}", _write_gather, element, index)
    meta = (x.ndim, dim, x.shape[dim], at.numel(), *at.shape)
    return Bound(address, "sc", (TensorType(at.shape, x.dtype),), meta)


def _write_gather(module: IRModule, name: str, element: Type, index: Type) -> None:
    with routine_code(module, name) as (b, buffers, numbers):
        ndim, dim, size, n = (numbers[i] for i in range(4))
        shape, strides = numbers_from(b, 4, ndim)
        at = b.pointer(buffers[1], index)
        decline_outside(b, at, n, 0, size)
        source, target = b.pointer(buffers[0], element), b.pointer(buffers[2], element)

        def move(i: Value, place: Value) -> None:
            target[i] = source[place]

        _ScatterWalk(b, at, ndim, dim, shape, strides).each(move)
        b.ret(0)


@routine("gather_embed")
def bind_gather_embed(types: Inputs, attrs: Attrs) -> Bound | None:
    """Zeros with the input added where the index points along one dimension."""
    g, at = types
    index, element = index_type(at), element_of(g)
    if not _fits(g, at) or index is None or element is None:
        return None
    dim, shape = attrs["dim"], attrs["shape"]
    if len(shape) != g.ndim:
        return None
    address = build(f"gather_embed_{element.suffix}_{index.suffix}", _write_embed, element, index)
    meta = (g.ndim, dim, shape[dim], g.numel(), count(shape) * element.nbytes, *g.shape, *row_major_strides(shape))
    return Bound(address, "cc", (TensorType(shape, g.dtype),), meta)


def _write_embed(module: IRModule, name: str, element: Type, index: Type) -> None:
    with routine_code(module, name) as (b, buffers, numbers):
        ndim, dim, size, n, nbytes = (numbers[i] for i in range(5))
        shape, strides, _ = numbers_from(b, 5, ndim, ndim)
        at = b.pointer(buffers[1], index)
        decline_outside(b, at, n, 0, size)
        source, target = b.pointer(buffers[0], element), b.pointer(buffers[2], element)
        fill_zeros(b, target.address, nbytes)

        def add(i: Value, place: Value) -> None:
            target[place] = target[place] + source[i]

        _ScatterWalk(b, at, ndim, dim, shape, strides).each(add)
        b.ret(0)


@routine("scatter")
def bind_scatter(types: Inputs, attrs: Attrs) -> Bound | None:
    """x with src written (or added) to where the index points along one dimension."""
    return _bind(types, attrs["dim"], "add" if attrs["accumulate"] else "write", include_self=True)


@routine("scatter_reduce")
def bind_scatter_reduce(types: Inputs, attrs: Attrs) -> Bound | None:
    """Elements of src combined, by product or extreme, where the index points."""
    return _bind(types, attrs["dim"], attrs["reduce"], attrs["include_self"])


def _bind(types: Inputs, dim: int, reduce: str, include_self: bool) -> Bound | None:
    x, at, src = types
    index = index_type(at)
    if not _fits(x, at) or index is None:
        return None
    element = carrier(x.dtype) if reduce == "write" else element_of(x)
    is_number = not isinstance(src, TensorType)
    if is_number and (reduce != "write" or src not in (float, int, bool) or x.dtype._name in ("float16", "bfloat16")):
        return None
    if element is None or (isinstance(src, TensorType) and (src.shape != at.shape or src.dtype is not x.dtype)):
        return None
    floating = element_of(x) if is_number else None  # how a number given as src is written
    kind = f"_{floating.suffix}" if floating else "_number" if is_number else ""
    name = f"scatter_{reduce}{'' if include_self else '_fresh'}_{element.suffix}_{index.suffix}{kind}"
    address = build(name, _write_scatter, element, index, reduce, include_self, floating)
    reads = "sc" + ("c" if not is_number else "f" if floating else "i")
    meta = (x.ndim, dim, x.shape[dim], at.numel(), *at.shape, *x.shape, *row_major_strides(x.shape))
    return Bound(address, reads, (x,), meta)


def _write_scatter(
    module: IRModule, name: str, element: Type, index: Type, reduce: str, include_self: bool, floating: Type | None
) -> None:
    copy = copying(module, BY_SIZE[element.nbytes])
    with routine_code(module, name) as (b, buffers, numbers):
        ndim, dim, size, n = (numbers[i] for i in range(4))
        index_shape, shape, strides, given, after = numbers_from(b, 4, ndim, ndim, ndim, ndim)
        at = b.pointer(buffers[1], index)
        decline_outside(b, at, n, 0, size)
        target = b.pointer(buffers[3], element)
        b.call(copy, target.address, buffers[0], ndim, shape.address, strides.address, given.address)
        walk = _ScatterWalk(b, at, ndim, dim, index_shape, strides)
        if not include_self:

            def clear(i: Value, place: Value) -> None:
                target[place] = _IDENTITY[reduce]

            walk.each(clear)
        # A single value is read again and again: from the stack, where its step is 0.
        single = b.array(element, 1)
        if reduce == "write":
            with b.if_(buffers[2] == 0):
                single[0] = _number(b, after, element, floating)
        source = b.pointer(b.select(buffers[2] == 0, single.address, buffers[2]), element)
        step = b.select(buffers[2] == 0, b.const(i64, 0), 1)

        def put(i: Value, place: Value) -> None:
            target[place] = _COMBINE[reduce](b, target[place], source[i * step])

        walk.each(put)
        b.ret(0)


def _number(b: IRFunction, given: Pointer, element: Type, floating: Type | None) -> Value:
    """A number among the bound ones, as an element: its bits for a floating dtype."""
    if floating is None:
        return given[0] if element is i64 else b.cast("trunc", given[0], element)
    value = Pointer(given.address, f64)[0]
    return b.bitcast(b.cast("fptrunc", value, f32), element) if floating is f32 else b.bitcast(value, element)
