"""Tensors from nothing, from Python, from NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._methods import method
from .._tensor import Tensor, apply, from_array, wrap
from ..errors import DtypeError, ShapeError, UnsupportedError
from ..op import Elementwise, Rng, Sample, samples_unary
from ..storage import POOL
from ..types import Number, TensorType, as_dtype, bool_, dtype, from_numpy_dtype, get_default_dtype, int64
from .define import deliver
from .view import as_shape

__all__ = ["as_tensor", "clone", "empty", "from_numpy", "full", "ones", "ones_like", "tensor", "zeros", "zeros_like"]


class Clone(Elementwise):
    """A copy with memory of its own."""

    quiet = True
    numpy = staticmethod(lambda x: np.array(x, copy=True))
    samples = staticmethod(samples_unary)

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any) -> tuple[Any, ...]:
        return (g,)


class Copy(Elementwise):
    """The second input in the shape and dtype of the first, whose values are lost: what `copy_` and `fill_` write."""

    quiet = True

    @staticmethod
    def numpy(x: Any, value: Any) -> Any:
        return np.array(np.broadcast_to(value, x.shape), copy=True)

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, value: Any) -> tuple[Any, ...]:
        from .arithmetic import zero

        return zero(g), g

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 4)), rng.normal(size=(4,)))
        yield Sample(rng.normal(size=(3,)), 2.0)


@method
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with memory of its own, inside the graph."""
    return apply(Clone, (input,))


def check_device(device: Any) -> None:
    """Accept what means the CPU; say why anything else is not there."""
    if device is None:
        return
    name = str(getattr(device, "type", device)).split(":")[0]
    if name not in ("cpu", "meta"):
        raise UnsupportedError(f"device {str(device)!r}: Extempo runs on the CPU; leave device out or use 'cpu'")


def legacy_tensor(data: tuple[Any, ...]) -> Tensor:
    """What `ex.Tensor(...)` means: sizes for ints, values for anything else, always the default dtype."""
    if len(data) == 1 and not isinstance(data[0], int):
        values = data[0]
        return values.to(get_default_dtype()) if isinstance(values, Tensor) else tensor(values, dtype=get_default_dtype())
    return empty(*data)


def _as_array(data: Any, d: dtype | None) -> Any:
    """An array of the right dtype from Python numbers, nested sequences, arrays, tensors among them."""
    if isinstance(data, np.ndarray | np.generic):
        array = np.asarray(data)
        return array if d is None else array.astype(d.numpy)
    flat = _first_leaf(data)
    if isinstance(flat, complex) and not isinstance(flat, float):
        raise UnsupportedError("tensor: complex numbers are not part of Extempo; keep real and imaginary parts in a last dimension")
    try:
        array = np.array(_plain(data))
    except ValueError:
        raise ShapeError("tensor: the nested lists have different lengths; pad them, or make one tensor per row") from None
    except OverflowError as error:
        raise DtypeError(f"tensor: {error}") from None
    if d is not None:
        return array.astype(d.numpy)
    if array.dtype.kind == "f" and not _holds_arrays(data):
        return array.astype(get_default_dtype().numpy)
    if array.size == 0 and array.dtype == np.float64:
        return array.astype(get_default_dtype().numpy)
    if array.dtype.kind in "OUSV":
        raise DtypeError(f"tensor: expected numbers, got {type(flat).__name__}")
    return array


def _first_leaf(data: Any) -> Any:
    while isinstance(data, list | tuple) and data:
        data = data[0]
    return data


def _holds_arrays(data: Any) -> bool:
    return isinstance(_first_leaf(data), np.ndarray | np.generic | Tensor)


def _plain(data: Any) -> Any:
    if isinstance(data, Tensor):
        return data.detach().numpy()
    if isinstance(data, list | tuple):
        return [_plain(x) for x in data]
    return data


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A new tensor with a copy of the data: numbers, nested lists, arrays.

    >>> ex.tensor([[1, 2], [3, 4]]).shape
    extempo.Size([2, 2])
    """
    check_device(device)
    d = None if dtype is None else as_dtype(dtype)
    if isinstance(data, Tensor):
        made = wrap(data.detach()._values().astype((d or data.dtype).numpy), TensorType(data._type.shape, d or data.dtype))
    else:
        made = from_array(np.array(_as_array(data, d), copy=True))
    return made.requires_grad_() if requires_grad else made


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """The data as a tensor, sharing memory where it can."""
    check_device(device)
    d = None if dtype is None else as_dtype(dtype)
    if isinstance(data, Tensor):
        return data if d is None or data.dtype is d else data.to(d)
    if isinstance(data, np.ndarray) and (d is None or from_numpy_dtype(data.dtype) is d):
        return from_array(data)
    return tensor(data, dtype=d)


def from_numpy(array: Any) -> Tensor:
    """A tensor that shares memory with the NumPy array: writing to one changes the other."""
    if not isinstance(array, np.ndarray):
        raise DtypeError(f"from_numpy: expected a NumPy array, got {type(array).__name__}; use ex.tensor(...)")
    return from_array(array)


def _new(shape: tuple[int, ...], d: dtype) -> Tensor:
    if any(s < 0 for s in shape):
        raise ShapeError(f"sizes must not be negative, got {shape}")
    type_ = TensorType(shape, d)
    storage = POOL.allocate(type_)
    made = wrap(storage.array, type_)
    made._storage = storage
    return made


def filled(shape: tuple[int, ...], value: Number, d: dtype, requires_grad: bool = False) -> Tensor:
    """A tensor of one value, on memory of the pool."""
    made = _new(shape, d)
    made._array.fill(value)
    return made.requires_grad_() if requires_grad else made


def _options(dtype: Any, device: Any) -> dtype:
    check_device(device)
    return get_default_dtype() if dtype is None else as_dtype(dtype)


def empty(
    *size: Any, out: Tensor | None = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, **ignored: Any
) -> Tensor:
    """A tensor whose values are arbitrary."""
    made = _new(as_shape(size, "empty"), _options(dtype, device))
    return deliver(made.requires_grad_() if requires_grad else made, out)


def zeros(
    *size: Any, out: Tensor | None = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, **ignored: Any
) -> Tensor:
    """A tensor of zeros."""
    return deliver(filled(as_shape(size, "zeros"), 0, _options(dtype, device), requires_grad), out)


def ones(
    *size: Any, out: Tensor | None = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, **ignored: Any
) -> Tensor:
    """A tensor of ones."""
    return deliver(filled(as_shape(size, "ones"), 1, _options(dtype, device), requires_grad), out)


def full(
    size: Any,
    fill_value: Number | Tensor,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **ignored: Any,
) -> Tensor:
    """A tensor of one value; its dtype follows the value unless given."""
    check_device(device)
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    kind = bool_ if isinstance(value, bool) else int64 if isinstance(value, int) else get_default_dtype()
    return deliver(filled(as_shape((size,), "full"), value, kind if dtype is None else as_dtype(dtype), requires_grad), out)


def zeros_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **ignored: Any) -> Tensor:
    """Zeros in the shape and dtype of `input`."""
    check_device(device)
    return filled(input._type.shape, 0, input.dtype if dtype is None else as_dtype(dtype), requires_grad)


def ones_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **ignored: Any) -> Tensor:
    """Ones in the shape and dtype of `input`."""
    check_device(device)
    return filled(input._type.shape, 1, input.dtype if dtype is None else as_dtype(dtype), requires_grad)
