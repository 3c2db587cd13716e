"""What a tensor is asked about itself, and turning it into another dtype, layout or device."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.device import (
    CPU,
    channels_last,
    channels_last_3d,
    contiguous_format,
    get_default_device,
    layout,
    memory_format,
    memory_order,
    preserve_format,
    require_cpu,
    set_default_device,
    strided,
)
from ..core.device import device as Device
from ..core.storage import Array
from ..core.tensor import Tensor, TensorLike, from_array, layout_of, wrap
from ..core.tensor_methods import TensorMethods, method
from ..core.types import (
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
from ..dispatch.dispatcher import apply, as_input
from ..dispatch.inplace import write
from ..errors import AutogradError, DtypeError, IndexRangeError, ShapeError, UnsupportedError
from .arithmetic import Cast
from .creation import Arrange, Clone, Copy, allocate, as_tensor, fit_number, sizes
from .view import AliasOf, row_major

__all__ = [
    "can_cast",
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "get_default_device",
    "is_complex",
    "is_conj",
    "is_floating_point",
    "is_inference",
    "is_neg",
    "is_nonzero",
    "is_same_size",
    "is_signed",
    "is_tensor",
    "layout",
    "memory_format",
    "numel",
    "preserve_format",
    "promote_types",
    "result_type",
    "set_default_device",
    "strided",
]


# ---- dtype, device and order in memory


def _cast(x: Tensor, d: dtype) -> Tensor:
    return x if x._type.dtype is d else apply(Cast, (x,), {"dtype": d})


@method
def to(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The tensor in another dtype or order in memory; itself where nothing changes and `copy` is not asked for.

    `x.to(dtype, non_blocking, copy)`, `x.to(device, dtype, non_blocking, copy)` or `x.to(other, non_blocking, copy)`,
    each argument also by name, and `memory_format=`.
    """
    named = dict(zip(_to_names(args), args, strict=False))
    if len(args) > len(named):
        raise DtypeError(f"to: {len(args)} positional arguments are too many")
    twice = named.keys() & kwargs.keys()
    unknown = kwargs.keys() - {"other", "device", "dtype", "non_blocking", "copy", "memory_format"}
    if twice or unknown:
        raise DtypeError(f"to: {'repeated' if twice else 'unknown'} arguments {', '.join(sorted(twice or unknown))}")
    named |= kwargs
    require_cpu(named.get("device"), "to")
    wanted = named["other"].dtype if named.get("other") is not None else named.get("dtype")
    result = input if wanted is None else _cast(input, as_dtype(wanted))
    order = memory_order(named.get("memory_format"), input.ndim, "to")
    if order is not None and not _lies_in(result, order):
        return apply(Arrange, (result,), {"order": order})
    return apply(Clone, (input,)) if named.get("copy") and result is input else result


def _to_names(args: tuple[Any, ...]) -> tuple[str, ...]:
    """What the positional arguments of `to` mean: the first one tells."""
    first = args[0] if args else None
    if isinstance(first, Tensor | TensorLike):
        return "other", "non_blocking", "copy"
    if isinstance(first, dtype | np.dtype) or first in (float, int, bool):
        return "dtype", "non_blocking", "copy"
    if first is None or isinstance(first, str | Device):
        return "device", "dtype", "non_blocking", "copy"
    raise DtypeError(f"to: expected a dtype, a device or a tensor, got {first!r}")


def _lies_in(x: Tensor, order: tuple[int, ...]) -> bool:
    """Whether the elements lie in memory without gaps, in this order of dimensions."""
    if layout_of(x) is None and order == tuple(range(x.ndim)):
        return True
    return x._array is None or bool(x._array.transpose(order).flags.c_contiguous)


def _caster(name: str, d: dtype) -> None:
    def fn(self: Tensor, memory_format: Any = None) -> Tensor:
        return _cast(self, d) if memory_format is None else to(self, d, memory_format=memory_format)

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = f"The tensor as {d}; itself when it already is."
    method(fn)


for _name, _dtype in (
    ("float", float32), ("double", float64), ("half", float16), ("bfloat16", bfloat16), ("long", int64), ("int", int32),
    ("short", int16), ("char", int8), ("byte", uint8), ("bool", bool_),
):  # fmt: skip
    _caster(_name, _dtype)


@method
def type_as(input: Tensor, other: Tensor) -> Tensor:
    """The tensor in the dtype of `other`."""
    return _cast(input, other._type.dtype)


# The names of tensor types, from the time when a dtype was a class.
TYPE_NAMES = {
    "FloatTensor": float32, "DoubleTensor": float64, "HalfTensor": float16, "BFloat16Tensor": bfloat16,
    "LongTensor": int64, "IntTensor": int32, "ShortTensor": int16, "CharTensor": int8, "ByteTensor": uint8,
    "BoolTensor": bool_,
}  # fmt: skip


def type_dtype(named: Any, op: str) -> dtype:
    """The dtype meant by `ex.float32`, `ex.FloatTensor` or a text such as "torch.FloatTensor"."""
    if isinstance(named, str):
        module, _, name = named.rpartition(".")
        if module.endswith("cuda"):
            raise UnsupportedError(f"{op}: {named} lies on a GPU, and Extempo runs on the CPU; use {name}")
        if name not in TYPE_NAMES:
            raise DtypeError(f"{op}: expected a dtype or one of {', '.join(TYPE_NAMES)}, got {named!r}")
        return TYPE_NAMES[name]
    return as_dtype(getattr(named, "dtype", named))


def _type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the tensor's type, or the tensor converted to `dtype` (a dtype or a name such as "FloatTensor")."""
    if dtype is None:
        return "extempo." + next(name for name, d in TYPE_NAMES.items() if d is self._type.dtype)
    return _cast(self, type_dtype(dtype, "type"))


method(_type, "type")


@method
def cpu(input: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor itself: it is on the CPU already."""
    return input if memory_format is None else to(input, memory_format=memory_format)


@method
def cuda(input: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """Not there: Extempo runs on the CPU."""
    raise UnsupportedError("cuda: Extempo runs on the CPU, where small and changing models are fastest; drop .cuda()")


@method
def pin_memory(input: Tensor, device: Any = None) -> Tensor:
    """The tensor itself: without a GPU there is nothing to pin for."""
    return input


@method
def is_pinned(input: Tensor, device: Any = None) -> bool:
    """False: without a GPU there is nothing to pin for."""
    return False


@method
def contiguous(input: Tensor, memory_format: Any = contiguous_format) -> Tensor:
    """The tensor with its elements in row-major order (or in `memory_format`); a copy only where needed."""
    if memory_format is contiguous_format and layout_of(input) is None:
        return input
    order = memory_order(memory_format, input.ndim, "contiguous")
    if order is None:
        raise ShapeError("contiguous: preserve_format keeps what is there; pass ex.contiguous_format or nothing")
    return input if _lies_in(input, order) else apply(Arrange, (input,), {"order": order})


# ---- questions


@method
def is_contiguous(input: Tensor, memory_format: Any = contiguous_format) -> bool:
    """Whether the elements lie in row-major order (or in `memory_format`) without gaps."""
    if memory_format is not contiguous_format and input.ndim not in (4, 5):
        return False
    order = memory_order(memory_format, input.ndim, "is_contiguous")
    return _lies_in(input, order or tuple(range(input.ndim)))


@method
def stride(input: Tensor, dim: int | None = None) -> Any:
    """How many elements lie between neighbours along each dimension."""
    # NumPy's own strides of empty and single dimensions are arbitrary.
    found, shape, itemsize = layout_of(input), input._type.shape, input._type.dtype.itemsize
    strides = row_major(shape) if found is None else tuple(s // itemsize for s in found)
    return strides if dim is None else strides[_existing(dim, input, "stride")]


@method
def storage_offset(input: Tensor) -> int:
    """Where the first element lies in the storage, in elements."""
    array = input._values()
    return (array.__array_interface__["data"][0] - input._storage.address) // array.itemsize


@method
def data_ptr(input: Tensor) -> int:
    """The address of the first element."""
    return int(input._handed_out().__array_interface__["data"][0])


@method
def size(input: Tensor, dim: int | None = None) -> Any:
    """The shape, or one size of it."""
    return input.shape if dim is None else input._type.shape[_existing(dim, input, "size")]


def _existing(dim: int, x: Tensor, op: str) -> int:
    if not x.ndim:
        raise IndexRangeError(f"{op}: a 0-dim tensor has no dimension {dim}")
    return normalize_dim(dim, x.ndim, op)


@method
def dim(input: Tensor) -> int:
    """The number of dimensions."""
    return input.ndim


method(dim, "ndimension")


@method
def numel(input: Tensor) -> int:
    """The number of elements.

    >>> ex.numel(ex.zeros(2, 3))
    6
    """
    return input.numel() if input.is_nested else input._type.numel()


method(numel, "nelement")


@method
def element_size(input: Tensor) -> int:
    """Bytes per element."""
    return input._type.dtype.itemsize


@method
def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a floating one.

    >>> ex.is_floating_point(ex.tensor([1.0])), ex.is_floating_point(ex.tensor([1]))
    (True, False)
    """
    return input._type.dtype.is_floating_point


@method
def is_signed(input: Tensor) -> bool:
    """Whether the dtype has a sign.

    >>> ex.is_signed(ex.zeros(2, dtype=ex.int8)), ex.is_signed(ex.zeros(2, dtype=ex.uint8))
    (True, False)
    """
    return input._type.dtype.is_signed


@method
def is_complex(input: Tensor) -> bool:
    """False: Extempo has no complex tensors.

    >>> ex.is_complex(ex.tensor([1.0]))
    False
    """
    return False


def is_tensor(obj: Any) -> bool:
    """Whether obj is a Tensor.

    >>> ex.is_tensor(ex.zeros(2)), ex.is_tensor([0.0, 0.0])
    (True, False)
    """
    return isinstance(obj, Tensor)


@method
def is_nonzero(input: Tensor) -> bool:
    """Whether a tensor with one element is not zero.

    >>> ex.is_nonzero(ex.tensor([3.0])), ex.is_nonzero(ex.tensor([0]))
    (True, False)
    """
    return bool(input)


@method
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape.

    >>> ex.is_same_size(ex.zeros(2, 3), ex.ones(2, 3)), ex.is_same_size(ex.zeros(2), ex.zeros(3))
    (True, False)
    """
    return input._type.shape == other._type.shape


@method
def is_inference(input: Tensor) -> bool:
    """Whether the tensor was computed under `inference_mode` from one that requires grad.

    >>> x = ex.tensor([1.0, 2.0], requires_grad=True)
    >>> with ex.inference_mode():
    ...     y = x * 2
    >>> ex.is_inference(y), ex.is_inference(x)
    (True, False)
    """
    return input._grad_barrier is not None and input._grad_barrier[0] == "inference_mode()"


@method
def is_conj(input: Tensor) -> bool:
    """False: real numbers are never waiting to be conjugated.

    >>> ex.is_conj(ex.tensor([1.0]))
    False
    """
    return False


@method
def is_neg(input: Tensor) -> bool:
    """False: no tensor is waiting to be negated.

    >>> ex.is_neg(-ex.tensor([1.0]))
    False
    """
    return False


@method
def is_set_to(input: Tensor, tensor: Tensor) -> bool:
    """Whether both look at the same memory in the same way."""
    a, b = input._values(), tensor._values()
    return a.dtype == b.dtype and a.__array_interface__ == b.__array_interface__ and a.strides == b.strides


@method
def get_device(input: Tensor) -> int:
    """-1, PyTorch's number for the CPU."""
    return -1


def result_type(tensor1: Any, tensor2: Any) -> dtype:
    """The dtype that an operation on both would give.

    >>> ex.result_type(ex.tensor([1, 2]), 1.5)
    extempo.float32
    """
    inputs = (as_input(tensor1), as_input(tensor2))
    return result_dtype([x._type if isinstance(x, Tensor) else type(x) for x in inputs])


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether PyTorch's rules allow the conversion without asking: never to a lower category.

    >>> ex.can_cast(ex.int32, ex.float32), ex.can_cast(ex.float32, ex.int32)
    (True, False)
    """
    return from_.category <= to.category


# ---- values and memory, replaced in place


def _copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Take over the values of `src`, broadcast and converted."""
    value = _cast(as_tensor(src), self._type.dtype)
    if not broadcastable(value._type.shape, self._type.shape):
        raise ShapeError(f"copy_: shape {tuple(value.shape)} does not broadcast to {tuple(self.shape)}")
    if value._type.shape == self._type.shape and not (value.requires_grad or self.requires_grad):
        return write(self, value, "copy_")
    return write(self, apply(Copy, (self, value)), "copy_")


method(_copy_, "copy_")


def broadcastable(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether `shape` expands to `target`."""
    pairs = zip(reversed(shape), reversed(target), strict=False)
    return len(shape) <= len(target) and all(s in (1, t) for s, t in pairs)


def _fill_(self: Tensor, value: Any) -> Tensor:
    """Set every element to `value`."""
    if not isinstance(value, Tensor):
        return _fill_with_number(self, fit_number(value, self._type.dtype, "fill_"), "fill_")
    if value.ndim:
        raise ShapeError(f"fill_: expected a number or a 0-dim tensor, got shape {tuple(value.shape)}; use copy_")
    return write(self, apply(Copy, (self, _cast(value, self._type.dtype))), "fill_")


def _zero_(self: Tensor) -> Tensor:
    """Set every element to 0."""
    return _fill_with_number(self, 0, "zero_")


def _fill_with_number(x: Tensor, number: Any, op: str) -> Tensor:
    one = np.asarray(number, x._type.dtype.numpy)
    if x.requires_grad:
        return write(x, apply(Copy, (x, from_array(one))), op)
    repeated: Array = np.ndarray(x._type.shape, one.dtype, one, 0, (0,) * x.ndim)
    return write(x, wrap(repeated, x._type), op)


method(_fill_, "fill_")
method(_zero_, "zero_")


@method
def apply_(input: Tensor, callable: Any) -> Tensor:
    """Replace every element by `callable(element)`: slow, and without a gradient."""
    array = input._values()
    values = [callable(v) for v in array.reshape(-1).tolist()]
    return write(input, from_array(np.array(values).astype(array.dtype).reshape(array.shape)), "apply_")


@method
def dim_order(input: Tensor) -> tuple[int, ...]:
    """The dimensions from the slowest to the fastest in memory."""
    steps = stride(input)
    return tuple(sorted(range(input.ndim), key=lambda d: -steps[d]))


@method
def to_dense(input: Tensor, dtype: Any = None) -> Tensor:
    """The tensor itself: every tensor is dense."""
    return input if dtype is None else _cast(input, as_dtype(dtype))


def _resize_(self: Tensor, *sizes_: Any, memory_format: Any = None) -> Tensor:
    """Change the shape in place: the storage is read again, row by row, from the first element on.

    It grows where it is too small, and then shares memory with nobody; new elements are arbitrary.
    """
    shape = sizes("resize_", sizes_, None)
    if self.requires_grad:
        raise AutogradError("resize_: this tensor requires grad and cannot be resized; use reshape or slicing")
    array, wanted = self._values(), count(shape)
    memory = self._storage.array if self._storage.array.flags.c_contiguous else np.ascontiguousarray(array)
    offset = storage_offset(self) if memory is self._storage.array else 0
    there = memory.reshape(-1)[offset : offset + wanted]
    order = memory_order(memory_format, len(shape), "resize_")
    if there.size < wanted or memory is not self._storage.array or order is not None:
        grown = allocate(shape, self._type.dtype, order)
        grown._array.transpose(order or range(len(shape))).reshape(-1)[: there.size] = there
        self._array, self._storage = grown._array, grown._storage
    else:
        self._array = there.reshape(shape)
    self._type = TensorType(shape, self._type.dtype)
    self._alias = self._node = None
    return self


def _resize_as_(self: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """Change the shape in place to that of another tensor."""
    return _resize_(self, the_template.shape, memory_format=memory_format)


method(_resize_, "resize_")
method(_resize_as_, "resize_as_")


def _set_(self: Tensor, source: Tensor | None = None) -> Tensor:
    """Share the memory of `source` from now on; without a source, hold no elements."""
    source = allocate((0,), self._type.dtype) if source is None else source
    if source._type.dtype is not self._type.dtype:
        raise DtypeError(f"set_: the source is {source.dtype} and this tensor {self.dtype}; convert it first")
    self._array, self._storage, self._type, self._alias = source._array, source._storage, source._type, source._alias
    return self


method(_set_, "set_")


def alias(input: Tensor) -> Tensor:
    """A new view of the whole tensor."""
    return apply(AliasOf, (input,))


# ---- properties that are the same for every tensor, or follow from its type


def _constant(name: str, value: Any) -> None:
    setattr(TensorMethods, name, property(lambda self: value))


_constant("device", CPU)
_constant("layout", strided)
_constant("is_cpu", True)
for _name in ("is_cuda", "is_mps", "is_xpu", "is_sparse", "is_quantized", "is_meta", "is_nested", "is_mkldnn"):
    setattr(TensorMethods, _name, property([].__contains__))  # always False: many ops ask, and this runs no Python


def _property(fn: Any) -> Any:
    setattr(TensorMethods, fn.__name__, property(fn))
    return fn


@_property
def itemsize(self: Tensor) -> int:
    """Bytes per element."""
    return self._type.dtype.itemsize


@_property
def nbytes(self: Tensor) -> int:
    """Bytes of all elements."""
    return self._type.numel() * self._type.dtype.itemsize


@_property
def _version(self: Tensor) -> int:
    """How often the memory was written."""
    return self._storage.version


@_property
def _base(self: Tensor) -> Tensor | None:
    """The tensor that this one is a view of."""
    alias = self._settled_alias()
    return alias.base if alias is not None else None


@method
def _is_view(self: Tensor) -> bool:
    """Whether this tensor looks into the memory of another."""
    return self._settled_alias() is not None
