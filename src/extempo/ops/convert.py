"""What a tensor is asked about itself, and turning it into another dtype, layout or device."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._methods import TensorMethods, method
from .._tensor import Tensor, apply, write
from ..errors import DtypeError, ShapeError, UnsupportedError
from ..placement import CPU, require_cpu
from ..placement import device as Device
from ..storage import Storage
from ..types import (
    TensorType,
    as_dtype,
    bfloat16,
    bool_,
    count,
    dtype,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    normalize_dim,
    promote_types,
    result_dtype,
    uint8,
)
from .arithmetic import Cast
from .creation import Arrange, Clone, Copy
check_device = lambda d: None
from .view import AliasOf, as_shape

__all__ = ["can_cast", "is_floating_point", "is_nonzero", "is_tensor", "numel", "promote_types", "result_type"]


def _cast(x: Tensor, d: dtype) -> Tensor:
    return x if x._type.dtype is d else apply(Cast, (x,), {"dtype": d})


@method
def to(input: Tensor, *args: Any, copy: bool = False, **kwargs: Any) -> Tensor:
    """The tensor in another dtype, as in `x.to(ex.float64)`, `x.to("cpu")`, `x.to(other)`."""
    d: dtype | None = kwargs.pop("dtype", None)
    require_cpu(kwargs.pop("device", None), "to")
    other = kwargs.pop("other", None)
    for ignored in ("non_blocking", "memory_format"):
        kwargs.pop(ignored, None)
    if kwargs:
        raise DtypeError(f"to: unknown arguments {sorted(kwargs)}")
    for a in (*args, other):
        if isinstance(a, Tensor):
            d = a.dtype
        elif isinstance(a, dtype) or (isinstance(a, type) and a in (float, int, bool)):
            d = as_dtype(a)
        elif isinstance(a, str | Device):
            require_cpu(a, "to")
        elif a is not None and not isinstance(a, bool):
            raise DtypeError(f"to: expected a dtype, a device or a tensor, got {a!r}")
    result = input if d is None else _cast(input, as_dtype(d))
    return apply(Clone, (input,)) if copy and result is input else result


def _caster(name: str, d: dtype) -> None:
    def fn(self: Tensor, memory_format: Any = None) -> Tensor:
        return _cast(self, d)

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = f"The tensor as {d}; itself when it already is."
    method(fn)


for _name, _dtype in (
    ("float", float32), ("double", float64), ("half", float16), ("bfloat16", bfloat16), ("long", int64), ("int", int32),
    ("short", int16), ("char", int8), ("byte", uint8), ("bool", bool_),
):
    _caster(_name, _dtype)


@method
def type_as(input: Tensor, other: Tensor) -> Tensor:
    """The tensor in the dtype of `other`."""
    return _cast(input, other.dtype)


_TYPE_NAMES = {
    "FloatTensor": float32, "DoubleTensor": float64, "HalfTensor": float16, "BFloat16Tensor": bfloat16, "LongTensor": int64,
    "IntTensor": int32, "ShortTensor": int16, "CharTensor": int8, "ByteTensor": uint8, "BoolTensor": bool_,
}


def _type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the tensor's type, or the tensor converted to `dtype` (a dtype or a name such as "FloatTensor")."""
    if dtype is None:
        return "extempo." + next(name for name, d in _TYPE_NAMES.items() if d is self.dtype)
    if isinstance(dtype, str):
        dtype = _TYPE_NAMES.get(dtype.rsplit(".", 1)[-1], dtype)
    return _cast(self, as_dtype(getattr(dtype, "tensor_dtype", dtype)))


method(_type, "type")


@method
def cpu(input: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor itself: it is on the CPU already."""
    return input


@method
def cuda(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Not there: Extempo runs on the CPU."""
    raise UnsupportedError("cuda: Extempo runs on the CPU, where small and changing models are fastest; drop .cuda()")


@method
def pin_memory(input: Tensor, device: Any = None) -> Tensor:
    """The tensor itself: without a GPU there is nothing to pin for."""
    return input


@method
def contiguous(input: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor with its elements in row-major order; a copy only where needed."""
    if input._array is None or input._array.flags.c_contiguous:
        return input
    return apply(Arrange, (input,), {"order": tuple(range(input.ndim))})


@method
def is_contiguous(input: Tensor, memory_format: Any = None) -> bool:
    """Whether the elements lie in row-major order without gaps."""
    return bool(input._values().flags.c_contiguous)


@method
def stride(input: Tensor, dim: int | None = None) -> Any:
    """How many elements lie between neighbours along each dimension."""
    array = input._values()
    if array.size == 0:  # NumPy's strides of empty arrays are arbitrary; PyTorch's are those of sizes >= 1
        steps, total = [], 1
        for size in reversed(array.shape):
            steps.append(total)
            total *= max(size, 1)
        strides = tuple(reversed(steps))
    else:
        strides = tuple(s // array.itemsize for s in array.strides)
    return strides if dim is None else strides[normalize_dim(dim, input.ndim, "stride")]


@method
def storage_offset(input: Tensor) -> int:
    """Where the first element lies in the storage, in elements."""
    array = input._values()
    return (array.__array_interface__["data"][0] - input._storage.address) // array.itemsize


@method
def data_ptr(input: Tensor) -> int:
    """The address of the first element."""
    return int(input._values().__array_interface__["data"][0])


@method
def size(input: Tensor, dim: int | None = None) -> Any:
    """The shape, or one size of it."""
    return input.shape if dim is None else input._type.shape[_existing(dim, input, "size")]


def _existing(dim: int, x: Tensor, op: str) -> int:
    if not x.ndim:
        raise ShapeError(f"{op}: a 0-dim tensor has no dimensions")
    return normalize_dim(dim, x.ndim, op)


@method
def dim(input: Tensor) -> int:
    """The number of dimensions."""
    return input.ndim


method(dim, "ndimension")


@method
def numel(input: Tensor) -> int:
    """The number of elements."""
    return input._type.numel()


method(numel, "nelement")


@method
def element_size(input: Tensor) -> int:
    """Bytes per element."""
    return input.dtype.itemsize


@method
def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a floating one."""
    return input._type.dtype.is_floating_point


@method
def is_signed(input: Tensor) -> bool:
    """Whether the dtype has a sign."""
    return input.dtype.is_signed


@method
def is_complex(input: Tensor) -> bool:
    """False: Extempo has no complex tensors."""
    return False


def is_tensor(obj: Any) -> bool:
    """Whether obj is a Tensor."""
    return isinstance(obj, Tensor)


@method
def is_nonzero(input: Tensor) -> bool:
    """Whether a tensor with one element is not zero."""
    return bool(input)


@method
def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made under `inference_mode`."""
    return input._cut is not None and input._cut[0] == "inference_mode()"


@method
def get_device(input: Tensor) -> int:
    """-1, PyTorch's number for the CPU."""
    return -1


def _copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Take over the values of `src`, broadcast and converted."""
    from .creation import as_tensor

    src = as_tensor(src)
    value = src if src.dtype is self.dtype else _cast(src, self.dtype)
    if broadcastable(value._type.shape, self._type.shape):
        return write(self, apply(Copy, (self, value)), "copy_")
    raise ShapeError(f"copy_: shape {tuple(src.shape)} does not broadcast to {tuple(self.shape)}")


def broadcastable(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether `shape` expands to `target`."""
    return len(shape) <= len(target) and all(
        s in (1, t) for s, t in zip(reversed(shape), reversed(target), strict=False)
    )


method(_copy_, "copy_")


def _fill_(self: Tensor, value: Any) -> Tensor:
    """Set every element to `value`."""
    if isinstance(value, Tensor):
        if value.ndim:
            raise ShapeError(f"fill_: expected a number or a 0-dim tensor, got shape {tuple(value.shape)}; use copy_")
        value = _cast(value, self.dtype)
    else:
        value = self.dtype.numpy.type(value).item() if self.dtype.category < 2 else float(value)
    return write(self, apply(Copy, (self, value)), "fill_")


method(_fill_, "fill_")
method(lambda self: _fill_(self, 0), "zero_")


def _resize_(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Change the shape in place; new elements are arbitrary."""
    shape = as_shape(sizes, "resize_")
    if self.requires_grad:
        raise DtypeError("resize_: this tensor requires grad and cannot be resized; use reshape or slicing")
    old = np.ascontiguousarray(self._values()).reshape(-1)
    wanted = count(shape)
    array = old[:wanted] if wanted <= old.size else np.concatenate([old, np.zeros(wanted - old.size, old.dtype)])
    self._array = array.reshape(shape)
    self._type = TensorType(shape, self.dtype)
    self._storage = Storage(self._array)
    self._alias = self._node = None
    return self


method(_resize_, "resize_")
method(lambda self, other, memory_format=None: _resize_(self, other.shape), "resize_as_")


def _set_(self: Tensor, source: Tensor) -> Tensor:
    """Share the memory of `source` from now on."""
    self._array, self._storage, self._type, self._alias = source._array, source._storage, source._type, source._alias
    return self


method(_set_, "set_")


def alias(input: Tensor) -> Tensor:
    """A new view of the whole tensor."""
    return apply(AliasOf, (input,))


def result_type(a: Any, b: Any) -> dtype:
    """The dtype that an operation on both would give."""
    return result_dtype([x._type if isinstance(x, Tensor) else type(x) for x in (a, b)])


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether PyTorch's rules allow the conversion without asking: never to a lower category."""
    return from_.category <= to.category


for _property, _value in (
    ("device", CPU), ("is_cuda", False), ("is_sparse", False), ("is_quantized", False), ("is_meta", False), ("is_mps", False),
    ("is_nested", False), ("layout", "strided"), ("names", None), ("is_cpu", True),
):
    setattr(TensorMethods, _property, property(lambda self, value=_value: value))

setattr(TensorMethods, "itemsize", property(lambda self: self.dtype.itemsize))
setattr(TensorMethods, "nbytes", property(lambda self: self.numel() * self.dtype.itemsize))
setattr(TensorMethods, "_version", property(lambda self: self._storage.version))
setattr(TensorMethods, "_is_view", lambda self: self._alias is not None)
setattr(TensorMethods, "_base", property(lambda self: self._alias.base if self._alias is not None else None))
