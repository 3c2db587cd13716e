"""Tensors from nothing: of one value, with a given order in memory, and number sequences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from ..backends.selection import empty as empty_array
from ..core.context import CONTEXT
from ..core.device import memory_order
from ..core.storage import Array, Storage
from ..core.tensor import Tensor, from_array, wrap
from ..core.tensor_methods import method
from ..core.types import Number, TensorType, bool_, check_size, dtype, get_default_dtype, int64, normalize_dim
from ..dispatch.dispatcher import quietly
from ..errors import DtypeError, NumericalError, ShapeError
from ..symbolic.sym_int import SymInt, at_least_0, depends, kind_of
from .creation import (
    LikeOptions,
    NamedSize,
    Options,
    allocate,
    as_numpy_dtype,
    filled,
    finish,
    legacy_tensor,
    of_number,
    order_like,
    read_options,
    sizes,
    tensor,
)
from .define import deliver, in_rows
from .view import as_shape, strided

__all__ = [
    "arange",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "eye",
    "full",
    "full_like",
    "linspace",
    "logspace",
    "ones",
    "ones_like",
    "scalar_tensor",
    "zeros",
    "zeros_like",
]


# ---- of one value


def empty(*shape: Any, out: Tensor | None = None, memory_format: Any = None, **options: Unpack[NamedSize]) -> Tensor:
    """A tensor whose values are arbitrary.

    >>> ex.empty(2, 3).shape
    extempo.Size([2, 3])
    """
    wanted = sizes("empty", shape, options.pop("size", None))
    d = read_options("empty", options, None if out is None else out.dtype)
    return finish(allocate(wanted, d, memory_order(memory_format, len(wanted), "empty")), options, out)


def zeros(*shape: Any, out: Tensor | None = None, **options: Unpack[NamedSize]) -> Tensor:
    """A tensor of zeros.

    >>> ex.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    wanted = sizes("zeros", shape, options.pop("size", None))
    return finish(filled(wanted, 0, read_options("zeros", options, None if out is None else out.dtype)), options, out)


def ones(*shape: Any, out: Tensor | None = None, **options: Unpack[NamedSize]) -> Tensor:
    """A tensor of ones.

    >>> ex.ones(2, 3)
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """
    wanted = sizes("ones", shape, options.pop("size", None))
    return finish(filled(wanted, 1, read_options("ones", options, None if out is None else out.dtype)), options, out)


def full(size: Any, fill_value: Number | Tensor, *, out: Tensor | None = None, **options: Unpack[Options]) -> Tensor:
    """A tensor of one value; its dtype follows the value unless given.

    >>> ex.full((2, 2), 7)
    tensor([[7, 7],
            [7, 7]])
    """
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    is_whole = isinstance(value, int) or kind_of(value) is int  # or a symbol, of a static function or a program
    natural = bool_ if isinstance(value, bool) else int64 if is_whole else get_default_dtype()
    d = read_options("full", options, out.dtype if out is not None else natural)
    return finish(of_number(sizes("full", (size,), None), value, d, "full"), options, out)


def scalar_tensor(s: Any, **options: Unpack[Options]) -> Tensor:
    """A 0-dim tensor of the number, in the default dtype unless another is given.

    >>> ex.scalar_tensor(3)
    tensor(3.)
    """
    return full((), s, **({"dtype": get_default_dtype()} | options))


def _like(op: str, input: Tensor, options: Any) -> tuple[tuple[int, ...], dtype, tuple[int, ...] | None]:
    d = read_options(op, options, input._type.dtype)
    return input._type.shape, d, order_like(input, options.get("memory_format"), op)


def empty_like(input: Tensor, **options: Unpack[LikeOptions]) -> Tensor:
    """A tensor of arbitrary values in the shape, dtype and memory order of `input`.

    >>> ex.empty_like(ex.zeros(2, 3, dtype=ex.int32)).dtype
    extempo.int32
    """
    if input.is_nested:
        return in_rows(empty_like, input, **options)
    return finish(allocate(*_like("empty_like", input, options)), options)


def zeros_like(input: Tensor, *, out: Tensor | None = None, **options: Unpack[LikeOptions]) -> Tensor:
    """Zeros in the shape, dtype and memory order of `input`.

    >>> ex.zeros_like(ex.tensor([5, 6]))
    tensor([0, 0])
    """
    if input.is_nested:
        return deliver(in_rows(zeros_like, input, **options), out)
    shape, d, order = _like("zeros_like", input, options)
    return finish(filled(shape, 0, d, order), options, out)


def ones_like(input: Tensor, *, out: Tensor | None = None, **options: Unpack[LikeOptions]) -> Tensor:
    """Ones in the shape, dtype and memory order of `input`.

    >>> ex.ones_like(ex.tensor([5, 6]))
    tensor([1, 1])
    """
    if input.is_nested:
        return deliver(in_rows(ones_like, input, **options), out)
    shape, d, order = _like("ones_like", input, options)
    return finish(filled(shape, 1, d, order), options, out)


def full_like(input: Tensor, fill_value: Number | Tensor, **options: Unpack[LikeOptions]) -> Tensor:
    """One value in the shape, dtype and memory order of `input`.

    >>> ex.full_like(ex.tensor([1.0, 2.0]), 7)
    tensor([7., 7.])
    """
    if input.is_nested:
        return in_rows(full_like, input, fill_value, **options)
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    shape, d, order = _like("full_like", input, options)
    return finish(of_number(shape, value, d, "full_like", order), options)


def _with_own_dtype(input: Tensor, options: Any) -> Any:
    return options if options.get("dtype") is not None else {**options, "dtype": input._type.dtype}


@method
def new_empty(input: Tensor, *shape: Any, **options: Unpack[NamedSize]) -> Tensor:
    """A tensor of arbitrary values in the dtype of this one."""
    return empty(*shape, **_with_own_dtype(input, options))


@method
def new_zeros(input: Tensor, *shape: Any, **options: Unpack[NamedSize]) -> Tensor:
    """Zeros in the dtype of this tensor."""
    return zeros(*shape, **_with_own_dtype(input, options))


@method
def new_ones(input: Tensor, *shape: Any, **options: Unpack[NamedSize]) -> Tensor:
    """Ones in the dtype of this tensor."""
    return ones(*shape, **_with_own_dtype(input, options))


@method
def new_full(input: Tensor, size: Any, fill_value: Number | Tensor, **options: Unpack[Options]) -> Tensor:
    """One value in the dtype of this tensor."""
    return full(size, fill_value, **_with_own_dtype(input, options))


@method
def new_tensor(input: Tensor, data: Any, **options: Unpack[Options]) -> Tensor:
    """A copy of the data in the dtype of this tensor."""
    return tensor(data, **_with_own_dtype(input, options))


@method
def new_empty_strided(input: Tensor, size: Any, stride: Any, **options: Unpack[Options]) -> Tensor:
    """A tensor of arbitrary values with these strides in the dtype of this one."""
    return empty_strided(size, stride, **_with_own_dtype(input, options))


def _new_of_type(input: Tensor, *data: Any) -> Tensor:
    """`ex.Tensor(...)` in the dtype of this tensor."""
    return legacy_tensor(data, input._type.dtype)


method(_new_of_type, "new")


# ---- of a given order in memory


def empty_strided(size: Any, stride: Any, **options: Unpack[Options]) -> Tensor:
    """A tensor of arbitrary values with these strides (in elements).

    >>> ex.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    shape, steps = sizes("empty_strided", (size,), None), as_shape((stride,), "empty_strided")
    if len(shape) != len(steps):
        raise ShapeError(f"empty_strided: expected one stride for each size, got sizes {shape} and strides {steps}")
    if any(step < 0 for step in steps):
        raise ShapeError(f"empty_strided: strides must not be negative, got {steps}")
    d = read_options("empty_strided", options)
    n_elements = 1 + sum((n - 1) * step for n, step in zip(shape, steps, strict=True)) if 0 not in shape else 0
    memory = empty_array(TensorType((n_elements,), d))
    made = wrap(strided(memory, shape, tuple(step * d.itemsize for step in steps)), TensorType(shape, d))
    made._storage = Storage(memory)
    return finish(made, options)


def empty_permuted(size: Any, physical_layout: Sequence[int], **options: Unpack[Options]) -> Tensor:
    """A contiguous tensor of arbitrary values with its dimensions in this order, from the slowest to the fastest.

    >>> ex.empty_permuted((2, 3), (1, 0)).stride()
    (1, 2)
    """
    shape = sizes("empty_permuted", (size,), None)
    order = tuple(normalize_dim(d, len(shape), "empty_permuted") for d in physical_layout)
    if sorted(order) != list(range(len(shape))):
        raise ShapeError(f"empty_permuted: {tuple(physical_layout)} does not name each of {len(shape)} dimensions once")
    return finish(allocate(shape, read_options("empty_permuted", options), order), options)


# ---- number sequences


def as_bound(value: Any, op: str) -> Any:
    """A start, end or step: a number, or a 0-dim tensor of one."""
    if isinstance(value, Tensor):
        if value.ndim:
            raise ShapeError(f"{op}: expected a number or a 0-dim tensor, got shape {tuple(value.shape)}")
        return value.item()
    if isinstance(value, np.number | np.bool):
        return value.item()
    if not isinstance(value, int | float | SymInt):
        raise DtypeError(f"{op}: expected a number, got {type(value).__name__}")
    return value


_MISSING: Any = object()


def arange(
    start: Any = 0, end: Any = _MISSING, step: Any = 1, *, out: Tensor | None = None, **options: Unpack[Options]
) -> Tensor:
    """start, start + step, ... up to but without `end`; `arange(end)` starts at 0.

    >>> ex.arange(2, 10, 3)
    tensor([2, 5, 8])
    """
    if end is _MISSING:
        start, end = 0, start
    first, last, stride = (as_bound(v, "arange") for v in (start, end, step))
    all_whole = all(kind_of(v) in (int, bool) for v in (first, last, stride))
    d = read_options("arange", options, out.dtype if out is not None else int64 if all_whole else get_default_dtype())
    if d is bool_:
        raise DtypeError("arange: a range has no bools; use ex.arange(...).bool()")
    tracer: Any = CONTEXT.get().interceptor
    if tracer is not None and all_whole and depends((first, last, stride)) and hasattr(tracer, "counted"):
        counted: Tensor = tracer.counted(at_least_0(-((first - last) // stride)), first, stride, d)
        return finish(counted, options, out)
    if not (math.isfinite(first) and math.isfinite(last)):
        raise ShapeError(f"arange: expected finite bounds, got {first} and {last}")
    if (last - first) * stride < 0:
        raise ShapeError(f"arange: no step of {stride} leads from {first} to {last}; is the sign of step right?")
    if d is int64:
        first, last, stride = int(first), int(last), int(stride)
    if stride == 0:
        raise ShapeError("arange: step must not be 0")
    whole = isinstance(last, int) and isinstance(first, int) and isinstance(stride, int)
    n_elements = -((first - last) // stride) if whole else math.ceil((last - first) / stride)
    check_size("arange", (n_elements,), 8)
    if d.category == 1:
        _check_range("arange", first, last)
        # As in PyTorch: how many there are follows from the numbers given, and then only their whole parts count.
        values = np.arange(n_elements, dtype=np.int64)
        if (first, stride) != (0, 1):
            values = values * int(stride) + int(first)
    else:
        values = np.arange(n_elements) * float(stride) + float(first)
    return finish(from_array(as_numpy_dtype(values, d)), options, out)


def _check_range(op: str, *bounds: Any) -> None:
    for number in bounds:
        if not -(2**63) <= number <= 2**63:
            raise NumericalError(f"{op}: {number} lies outside of int64, from -2**63 to 2**63 - 1; use floats")


def linspace(start: Any, end: Any, steps: Any, *, out: Tensor | None = None, **options: Unpack[Options]) -> Tensor:
    """`steps` numbers from `start` to `end`, both included, at equal distances.

    >>> ex.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    d = read_options("linspace", options, None if out is None else out.dtype)
    values = _even_steps(as_bound(start, "linspace"), as_bound(end, "linspace"), steps, d, "linspace")
    return finish(from_array(as_numpy_dtype(values, d)), options, out)


def logspace(
    start: Any, end: Any, steps: Any, base: float = 10.0, *, out: Tensor | None = None, **options: Unpack[Options]
) -> Tensor:
    """`base` to the powers of `linspace(start, end, steps)`.

    >>> ex.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    d = read_options("logspace", options, None if out is None else out.dtype)
    first, last = as_bound(start, "logspace"), as_bound(end, "logspace")
    # One power alone is that of `start` as given, also where the results are integers.
    powers = np.array([float(first)]) if steps == 1 else _even_steps(first, last, steps, d, "logspace")
    return finish(from_array(quietly(lambda: np.power(float(base), powers).astype(d.numpy))), options, out)


def _even_steps(start: Any, end: Any, steps: Any, d: dtype, op: str) -> Array:
    """The steps in float64, from both ends towards the middle, so that both ends are exact."""
    n_steps = as_shape((steps,), op)[0]
    if n_steps < 0:
        raise ShapeError(f"{op}: the number of steps must not be negative, got {n_steps}")
    check_size(op, (n_steps,), 8)
    if d.category == 1:
        start, end = int(start), int(end)
    at = np.arange(n_steps, dtype=np.float64)
    step = (end - start) / (n_steps - 1) if n_steps > 1 else 0.0
    return np.where(at < n_steps // 2 + n_steps % 2, start + step * at, end - step * (n_steps - 1 - at))


def eye(n: int, m: int | None = None, *, out: Tensor | None = None, **options: Unpack[Options]) -> Tensor:
    """The n x m matrix (n x n without m) with ones on its diagonal and zeros elsewhere.

    >>> ex.eye(2, 3)
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    shape = sizes("eye", (n, n if m is None else m), None)
    made = filled(shape, 0, read_options("eye", options, None if out is None else out.dtype))
    if depends(shape):
        return finish((arange(shape[0]).unsqueeze(1) == arange(shape[1])).to(made.dtype), options, out)
    np.fill_diagonal(made._array, 1)
    return finish(made, options, out)
