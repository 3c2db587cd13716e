"""Copies between memory layouts, and the ops that are nothing else: a contiguous copy, cat, stack.

Everything here moves elements of 1, 2, 4 or 8 bytes and knows no dtype. One function for each size does the work:

    void extempo_copy_i32(ptr target, ptr source, i64 ndim, ptr shape, ptr to, ptr of)

`to` and `of` are the strides of target and source in elements. It joins dimensions that are contiguous with one
another, then copies runs, transposes in blocks where the source runs along another dimension than the target, or goes
element by element. Target and source do not overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....core.strides import row_major_strides
from ....core.types import TensorType, count, dtype
from ..ir.builder import Callee, IRFunction, IRModule, Pointer, Type, Value, i8, i16, i32, i64, ptr, void
from ..ir.machine import machine
from .routine import Attrs, Bound, Inputs, build, routine, routine_code
from .sweeps import context_words, in_parts, part_range, parts_of, write_part

MAX_NDIM = 8
TRANSPOSED_TOGETHER = 64  # columns whose cache lines are used up before others come
BY_SIZE = {1: i8, 2: i16, 4: i32, 8: i64}
_COPY_ARGUMENTS = {"target": ptr, "source": ptr, "ndim": i64, "shape": ptr, "to": ptr, "of": ptr}


def carrier(d: dtype) -> Type:
    """The integer that carries elements of this dtype."""
    return BY_SIZE[d.itemsize]


# ---- pieces of functions


def odometer(
    b: IRFunction, ndim: Value, shape: Pointer, strides: Sequence[Pointer], body: Callable[[list[Value]], None]
) -> None:
    """Run `body` for every index below `shape`, in order, with the offset that each list of strides gives."""
    index = b.array(i64, MAX_NDIM)
    total = b.var(i64, 1)
    with b.loop(0, ndim) as d:
        index[d] = 0
        total.set(total.value * shape[d])
    offsets = [b.var(i64, 0) for _ in strides]
    last = b.var(i64)
    with b.loop(0, total.value):
        body([offset.value for offset in offsets])
        last.set(ndim - 1)
        with b.while_(lambda: last.value >= 0):
            d = last.value
            index[d] = index[d] + 1
            for offset, steps in zip(offsets, strides, strict=True):
                offset.set(offset.value + steps[d])
            with b.if_(index[d] < shape[d]):
                b.break_()
            for offset, steps in zip(offsets, strides, strict=True):
                offset.set(offset.value - steps[d] * shape[d])
            index[d] = 0
            last.set(d - 1)


def copy_run(b: IRFunction, target: Value, source: Value, nbytes: Value) -> None:
    """Copy neighbouring bytes."""
    b.call(b.module.declare("memcpy", ptr, [ptr, ptr, i64]), target, source, nbytes)


def fill_zeros(b: IRFunction, target: Value, nbytes: Value) -> None:
    """Set neighbouring bytes to zero."""
    b.call(b.module.declare("memset", ptr, [ptr, i32, i64]), target, 0, nbytes)


def numbers_from(b: IRFunction, start: Value | int, *lengths: Value | int) -> list[Pointer]:
    """Lists of bound numbers that follow one another in `meta`, and what comes after them."""
    at = b.pointer(b.arg("meta"), i64) + start
    lists = []
    for length in lengths:
        lists.append(at)
        at = at + length
    return [*lists, at]


def transposed(b: IRFunction, rows: list[Value]) -> list[Value]:
    """The columns of a square of lanes: quarters off the diagonal change places, then quarters of quarters."""
    n = len(rows)
    k = n // 2
    while k:
        for r in range(n):
            if r & k:
                continue
            upper, lower = rows[r], rows[r | k]
            rows[r] = b.shuffle(upper, lower, [n + i - k if i & k else i for i in range(n)])
            rows[r | k] = b.shuffle(upper, lower, [n + i if i & k else i + k for i in range(n)])
        k //= 2
    return rows


def copying(module: IRModule, element: Type) -> Callee:
    """The copy of elements of that size, to be called in the module: compiled once, for all of them."""
    name = _copy_name(element)
    machine().offer(name, copy_address(element))
    return module.declare(name, void, list(_COPY_ARGUMENTS.values()))


def copy_address(element: Type) -> int:
    """Where the copy of elements of that size is."""
    return build(_copy_name(element), _write_copy, element)


def _copy_name(element: Type) -> str:
    return f"extempo_copy_{element.suffix}"


def _write_copy(module: IRModule, name: str, element: Type) -> None:
    _write_runs(module, name + "_runs", element)
    _write_singles(module, name + "_singles", element)
    if element.nbytes >= 4:
        _write_transpose(module, name + "_turned", element)
    with module.function(name, void, internal=False, **_COPY_ARGUMENTS) as b:
        _write_choice(b, name, element)


def _write_choice(b: IRFunction, name: str, element: Type) -> None:
    """Join dimensions, then choose how to copy."""
    shape, to, of = (b.array(i64, MAX_NDIM + 1) for _ in range(3))
    n = _join(b, shape, to, of)
    target, source = b.arg("target"), b.arg("source")
    with b.if_(n < 0):  # empty
        b.ret()
    with b.if_(n == 0):
        Pointer(target, element)[0] = Pointer(source, element)[0]
        b.ret()
    defined = b.module.defined
    last = n - 1
    with b.if_((to[last] == 1) & (of[last] == 1)):
        b.call(defined[name + "_runs"], target, source, n, shape.address, to.address, of.address)
        b.ret()
    if element.nbytes >= 4:
        with b.if_((to[last] == 1) & (shape[last] > 1)), b.loop(0, last) as d, b.if_(of[d] == 1):
            # The dimension along which the source runs goes to the end, before the target's.
            for numbers in (shape, to, of):
                found = numbers[d]
                with b.loop(d, last - 1) as k:
                    numbers[k] = numbers[k + 1]
                numbers[last - 1] = found
            b.call(defined[name + "_turned"], target, source, n, shape.address, to.address, of.address)
            b.ret()
    b.call(defined[name + "_singles"], target, source, n, shape.address, to.address, of.address)


def _join(b: IRFunction, shape: Pointer, to: Pointer, of: Pointer) -> Value:
    """Fill the lists with dimensions longer than 1, neighbours joined where both strides allow. How many; -1: empty."""
    given = [b.pointer(b.arg(name), i64) for name in ("shape", "to", "of")]
    n = b.var(i64, 0)
    with b.loop(0, b.arg("ndim")) as d:
        size, step_to, step_of = (numbers[d] for numbers in given)
        with b.if_(size == 0):
            n.set(-1)
            b.break_()
        with b.if_(size == 1):
            b.continue_()
        joined = b.var(i64, 0)
        with b.if_(n.value > 0):
            before = n.value - 1
            fits = (to[before] == size * step_to) & (of[before] == size * step_of)
            joined.set(b.cast("zext", fits, i64))
        at = n.value - joined.value
        shape[at] = b.select(joined.value == 1, shape[at] * size, size)
        to[at] = step_to
        of[at] = step_of
        n.set(at + 1)
    return n.value


def _write_runs(module: IRModule, name: str, element: Type) -> None:
    """Both run along the last dimension."""
    with module.function(name, void, internal=True, **_COPY_ARGUMENTS) as b:
        shape, to, of = (b.pointer(b.arg(n), i64) for n in ("shape", "to", "of"))
        last = b.arg("ndim") - 1
        nbytes = shape[last] * element.nbytes
        target, source = b.pointer(b.arg("target"), element), b.pointer(b.arg("source"), element)

        def run(offsets: list[Value]) -> None:
            copy_run(b, target.at(offsets[0]), source.at(offsets[1]), nbytes)

        odometer(b, last, shape, (to, of), run)


def _write_singles(module: IRModule, name: str, element: Type) -> None:
    """Element by element."""
    with module.function(name, void, internal=True, **_COPY_ARGUMENTS) as b:
        shape, to, of = (b.pointer(b.arg(n), i64) for n in ("shape", "to", "of"))
        last = b.arg("ndim") - 1
        n, step_to, step_of = shape[last], to[last], of[last]
        target, source = b.pointer(b.arg("target"), element), b.pointer(b.arg("source"), element)

        def run(offsets: list[Value]) -> None:
            x, y = source + offsets[1], target + offsets[0]
            with b.loop(0, n) as i:
                y[i * step_to] = x[i * step_of]

        odometer(b, last, shape, (to, of), run)


def _write_transpose(module: IRModule, name: str, element: Type) -> None:
    """The target runs along the last dimension, the source along the one before it: squares of lanes are turned."""
    lanes = 32 // element.nbytes
    with module.function(name, void, internal=True, **_COPY_ARGUMENTS) as b:
        shape, to, of = (b.pointer(b.arg(n), i64) for n in ("shape", "to", "of"))
        last = b.arg("ndim") - 1
        n_rows, n_columns = shape[last - 1], shape[last]
        step_to, step_of = to[last - 1], of[last]
        target, source = b.pointer(b.arg("target"), element), b.pointer(b.arg("source"), element)
        whole_rows, whole_columns = (n - n % lanes for n in (n_rows, n_columns))

        def single(x: Pointer, y: Pointer, row: Value, column: Value) -> None:
            y[row * step_to + column] = x[row + column * step_of]

        def turn(offsets: list[Value]) -> None:
            x, y = source + offsets[1], target + offsets[0]
            with b.loop(0, whole_columns, TRANSPOSED_TOGETHER) as first, b.loop(0, whole_rows, lanes) as row:
                end = first + TRANSPOSED_TOGETHER
                end = b.smaller(end, whole_columns)
                with b.loop(first, end, lanes) as column:
                    taken = [x.vector(row + (column + i) * step_of, lanes) for i in range(lanes)]
                    for i, values in enumerate(transposed(b, taken)):
                        y.set_vector((row + i) * step_to + column, values)
            with b.loop(whole_rows, n_rows) as row, b.loop(0, whole_columns) as column:
                single(x, y, row, column)
            with b.loop(0, n_rows) as row, b.loop(whole_columns, n_columns) as column:
                single(x, y, row, column)

        odometer(b, last - 1, shape, (to, of), turn)


# ---- routines


PART_BYTES = 1 << 20  # that much is copied in some tens of microseconds


@routine("copy")
def bind_copy(types: Inputs, attrs: Attrs) -> Bound | None:
    """A contiguous copy of any layout."""
    (x,) = types
    if not isinstance(x, TensorType) or len(x.shape) > MAX_NDIM:
        return None
    element = carrier(x.dtype)
    shape = x.shape or (1,)
    n_parts, per_part = parts_of(shape[0], count(shape[1:]) * element.nbytes, PART_BYTES)
    address = build(f"contiguous_{element.suffix}", _write_contiguous, element)
    return Bound(address, "s", (x,), (n_parts, per_part, len(x.shape), *x.shape, *row_major_strides(x.shape)))


@routine("reshape")
def bind_reshape(types: Inputs, attrs: Attrs) -> Bound | None:
    """The elements in order under another shape, where a view is not possible."""
    bound = bind_copy(types, attrs)
    if bound is None or len(attrs["shape"]) > MAX_NDIM:
        return None
    return bound._replace(writes=(TensorType(attrs["shape"], bound.writes[0].dtype),))


@routine("arrange")
def bind_arrange(types: Inputs, attrs: Attrs) -> Bound | None:
    """A copy in row-major order; other orders are NumPy's."""
    order = attrs["order"]
    return bind_copy(types, attrs) if order == tuple(range(len(order))) else None


def _write_contiguous(module: IRModule, name: str, element: Type) -> None:
    copy = copying(module, element)

    def part(b: IRFunction) -> None:
        target, source, given = context_words(b, ptr, ptr, ptr)
        numbers = b.pointer(given, i64)
        ndim, shape = numbers[2], b.array(i64, MAX_NDIM)
        with b.loop(0, ndim) as d:
            shape[d] = (numbers + 3)[d]
        to, of = numbers + (ndim + 3), numbers + (ndim * 2 + 3)
        first, end = part_range(b, numbers[3], numbers[1])
        shape[0] = end - first
        b.call(
            copy,
            Pointer(target, element).at(first * to[0]),
            Pointer(source, element).at(first * of[0]),
            ndim,
            shape.address,
            to.address,
            of.address,
        )

    write_part(module, name + "_part", part)
    with routine_code(module, name) as (b, buffers, numbers):
        with b.if_(numbers[2] == 0):
            Pointer(buffers[1], element)[0] = Pointer(buffers[0], element)[0]
            b.ret(0)
        in_parts(b, name + "_part", numbers[0], buffers[1], buffers[0], numbers.address)
        b.ret(0)


def _same_dtype(types: Inputs) -> list[TensorType] | None:
    tensors = [t for t in types if isinstance(t, TensorType)]
    if len(tensors) < len(types) or any(t.dtype is not tensors[0].dtype or t.ndim > MAX_NDIM for t in tensors):
        return None
    return tensors


@routine("cat")
def bind_cat(types: Inputs, attrs: Attrs) -> Bound | None:
    """Tensors one after the other along a dimension."""
    xs, dim = _same_dtype(types), attrs["dim"]
    if xs is None:
        return None
    shape = list(xs[0].shape)
    sizes = [x.shape[dim] for x in xs]
    shape[dim] = sum(sizes)
    to = row_major_strides(shape)
    return _joined(xs, TensorType(tuple(shape), xs[0].dtype), to[dim], dim, to, shape, sizes)


@routine("stack")
def bind_stack(types: Inputs, attrs: Attrs) -> Bound | None:
    """Tensors of one shape along a new dimension."""
    xs, dim = _same_dtype(types), attrs["dim"]
    if xs is None:
        return None
    shape = xs[0].shape
    out = (*shape[:dim], len(xs), *shape[dim:])
    to = list(row_major_strides(out))
    step = to.pop(dim)
    return _joined(xs, TensorType(out, xs[0].dtype), step, MAX_NDIM, to, shape, [1] * len(xs))


def _joined(
    xs: Sequence[TensorType],
    out: TensorType,
    step: int,
    dim: int,
    to: Sequence[int],
    shape: Sequence[int],
    sizes: Sequence[int],
) -> Bound:
    """Inputs copied into one result: each `step` times the sizes before it from the start, `sizes` long along `dim`."""
    element = carrier(out.dtype)
    address = build(f"join_{element.suffix}", _write_join, element)
    return Bound(address, "s" * len(xs), (out,), (len(xs), xs[0].ndim, step, dim, *to, *shape, *sizes))


def _write_join(module: IRModule, name: str, element: Type) -> None:
    copy = copying(module, element)
    with routine_code(module, name) as (b, buffers, head):
        n_inputs, ndim, step, dim = (head[i] for i in range(4))
        to, shape, sizes, of = numbers_from(b, 4, ndim, ndim, n_inputs)
        lengths = b.array(i64, MAX_NDIM + 1)  # one more than dimensions: a new one has no length to set
        with b.loop(0, ndim) as d:
            lengths[d] = shape[d]
        target = b.var(ptr, buffers[n_inputs])
        with b.loop(0, n_inputs) as i:
            lengths[dim] = sizes[i]
            strides = of + ndim * i
            b.call(copy, target.value, buffers[i], ndim, lengths.address, to.address, strides.address)
            target.set(Pointer(target.value, element).at(sizes[i] * step))
        b.ret(0)
