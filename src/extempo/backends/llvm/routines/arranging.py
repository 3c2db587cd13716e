"""Native code of ops that put elements elsewhere: padding, flip, roll, triangles. See `layout` for the copy itself."""

from __future__ import annotations

from ....core.strides import row_major_strides
from ....core.types import TensorType, count
from ..ir.builder import IRFunction, IRModule, Pointer, Type, Value, f32, f64, i32, i64
from .layout import BY_SIZE, MAX_NDIM, carrier, copy_run, copying, fill_zeros, numbers_from
from .routine import Attrs, Bound, Inputs, build, routine, routine_code

_REGISTERS: dict[str, Type] = {"float32": f32, "float64": f64, "int64": i64, "int32": i32}


@routine("constant_pad")
def bind_constant_pad(types: Inputs, attrs: Attrs) -> Bound | None:
    """Each dimension lengthened at both ends by one value."""
    x, value = types
    if not isinstance(x, TensorType) or x.dtype._name not in _REGISTERS or x.ndim > MAX_NDIM:
        return None
    if value not in (float, int, bool):
        return None
    floating = x.dtype.is_floating_point
    if not floating and value is float:
        return None
    widths = attrs["widths"]
    shape = tuple(n + before + after for n, (before, after) in zip(x.shape, widths, strict=True))
    to = row_major_strides(shape)
    start = sum(before * step for (before, _), step in zip(widths, to, strict=True))
    register = _REGISTERS[x.dtype._name]
    address = build(f"pad_{register.suffix}", _write_pad, register)
    reads = "sf" if floating else "si"
    return Bound(address, reads, (TensorType(shape, x.dtype),), (count(shape), start, x.ndim, *x.shape, *to))


def _write_pad(module: IRModule, name: str, register: Type) -> None:
    element = BY_SIZE[register.nbytes]
    copy = copying(module, element)
    with routine_code(module, name) as (b, buffers, head):
        n, start, ndim = (head[i] for i in range(3))
        shape, to, of, value = numbers_from(b, 3, ndim, ndim, ndim)
        given = Pointer(value.address, f64)[0] if register.kind == "f" else value[0]
        if register is f32:
            given = b.cast("fptrunc", given, f32)
        elif register is i32:
            given = b.cast("trunc", given, i32)
        _fill(b, Pointer(buffers[2], register), n, given)
        target = Pointer(buffers[2], element).at(start)
        b.call(copy, target, buffers[0], ndim, shape.address, to.address, of.address)
        b.ret(0)


def _fill(b: IRFunction, target: Pointer, n: Value, value: Value) -> None:
    """n neighbouring elements of one value."""
    lanes = 32 // target.element.nbytes
    whole = n - n % lanes
    spread = b.splat(value, lanes)
    with b.loop(0, whole, lanes) as i:
        target.set_vector(i, spread)
    with b.loop(whole, n) as i:
        target[i] = value


@routine("flip")
def bind_flip(types: Inputs, attrs: Attrs) -> Bound | None:
    """The order of elements reversed along dimensions."""
    (x,) = types
    if not isinstance(x, TensorType) or x.ndim > MAX_NDIM:
        return None
    element = carrier(x.dtype)
    address = build(f"flip_{element.suffix}", _write_flip, element)
    signs = [-1 if d in attrs["dims"] else 1 for d in range(x.ndim)]
    return Bound(address, "s", (x,), (x.ndim, *x.shape, *row_major_strides(x.shape), *signs))


def _write_flip(module: IRModule, name: str, element: Type) -> None:
    copy = copying(module, element)
    with routine_code(module, name) as (b, buffers, numbers):
        ndim = numbers[0]
        shape, to, signs, of = numbers_from(b, 1, ndim, ndim, ndim)
        strides, offset = b.array(i64, MAX_NDIM), b.var(i64, 0)
        with b.loop(0, ndim) as d:
            strides[d] = of[d] * signs[d]
            with b.if_((signs[d] < 0) & (shape[d] > 0)):
                offset.set(offset.value + of[d] * (shape[d] - 1))
        source = Pointer(buffers[0], element).at(offset.value)
        b.call(copy, buffers[1], source, ndim, shape.address, to.address, strides.address)
        b.ret(0)


@routine("roll")
def bind_roll(types: Inputs, attrs: Attrs) -> Bound | None:
    """Elements moved along one dimension, those pushed out coming in at the other end."""
    x = types[0]
    if not isinstance(x, TensorType) or x.ndim > MAX_NDIM or len(attrs["dims"]) != 1 or types[1] is not int:
        return None
    element = carrier(x.dtype)
    address = build(f"roll_{element.suffix}", _write_roll, element)
    sign = -1 if attrs["back"] else 1
    return Bound(address, "si", (x,), (x.ndim, attrs["dims"][0], sign, *x.shape, *row_major_strides(x.shape)))


def _write_roll(module: IRModule, name: str, element: Type) -> None:
    copy = copying(module, element)
    with routine_code(module, name) as (b, buffers, head):
        ndim, dim, sign = (head[i] for i in range(3))
        shape, to, of, given = numbers_from(b, 3, ndim, ndim, ndim)
        size = shape[dim]
        with b.if_(size == 0):
            b.ret(0)
        shift = (given[0] % size * sign + size) % size
        lengths = b.array(i64, MAX_NDIM)
        with b.loop(0, ndim) as d:
            lengths[d] = shape[d]
        target, source = Pointer(buffers[2], element), Pointer(buffers[0], element)
        for length, into, out_of in ((size - shift, shift, 0), (shift, 0, size - shift)):
            lengths[dim] = length
            b.call(
                copy,
                target.at(to[dim] * into),
                source.at(of[dim] * out_of),
                ndim,
                lengths.address,
                to.address,
                of.address,
            )
        b.ret(0)


def _bind_triangle(types: Inputs, lower: bool) -> Bound | None:
    x, diagonal = types
    if not isinstance(x, TensorType) or diagonal is not int:
        return None
    address = build("lower_triangle" if lower else "upper_triangle", _write_triangle, lower)
    *batch, n_rows, n_columns = x.shape
    return Bound(address, "ci", (x,), (count(batch), n_rows, n_columns, x.dtype.itemsize))


@routine("tril")
def bind_tril(types: Inputs, attrs: Attrs) -> Bound | None:
    """The lower triangle of matrices, zeros elsewhere."""
    return _bind_triangle(types, lower=True)


@routine("triu")
def bind_triu(types: Inputs, attrs: Attrs) -> Bound | None:
    """The upper triangle of matrices, zeros elsewhere."""
    return _bind_triangle(types, lower=False)


def _write_triangle(module: IRModule, name: str, lower: bool) -> None:
    with routine_code(module, name) as (b, buffers, numbers):
        n_matrices, n_rows, n_columns, itemsize, diagonal = (numbers[i] for i in range(5))
        row_bytes = n_columns * itemsize
        with b.loop(0, n_matrices) as matrix, b.loop(0, n_rows) as row:
            start = (matrix * n_rows + row) * row_bytes
            # The column at which the triangle ends, or begins.
            edge = diagonal + row + (1 if lower else 0)
            edge = b.select(edge < 0, 0, b.select(edge > n_columns, n_columns, edge)) * itemsize
            source, target = b.byte_offset(buffers[0], start), b.byte_offset(buffers[2], start)
            if lower:
                copy_run(b, target, source, edge)
                fill_zeros(b, b.byte_offset(target, edge), row_bytes - edge)
            else:
                fill_zeros(b, target, edge)
                copy_run(b, b.byte_offset(target, edge), b.byte_offset(source, edge), row_bytes - edge)
        b.ret(0)
