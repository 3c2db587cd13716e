"""A tensor in another dtype, layout or device, and values and memory that are replaced in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, overload

import numpy as np

from ..core.device import (
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
from ..core.op import Elementwise, Rng, Sample, Signature
from ..core.public_names import shown_name
from ..core.storage import Array
from ..core.tensor import Tensor, TensorLike, from_array, layout_of, wrap
from ..core.tensor_methods import method
from ..core.types import (
    InputType,
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
    promote_types,
    uint8,
)
from ..dispatch.dispatcher import apply
from ..dispatch.inplace import write
from ..errors import AutogradError, DtypeError, ShapeError, UnsupportedError
from .creation import Arrange, Clone, Copy, allocate, as_tensor, fit_number, sizes
from .properties import has_order, storage_offset, stride
from .view import AliasOf

__all__ = [
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "get_default_device",
    "layout",
    "memory_format",
    "preserve_format",
    "promote_types",
    "set_default_device",
    "strided",
]

# ---- dtype, device and order in memory


class Cast(Elementwise):
    """The same values in another dtype."""

    public_name = "to"
    saves = ("",)
    numpy = staticmethod(lambda x, *, dtype: np.asarray(x).astype(dtype.numpy))
    lower = staticmethod(lambda e, x, *, dtype: e.cast(x, dtype))

    @classmethod
    def signature(cls, types: tuple[InputType, ...], attrs: dict[str, Any]) -> Signature:
        return Signature(cls.infer(*types, **attrs), None)

    @classmethod
    def infer(cls, *types: InputType, dtype: dtype) -> TensorType:  # type: ignore[override] # its one attribute
        (x,) = types
        return TensorType(x.shape if isinstance(x, TensorType) else (), dtype)

    @staticmethod
    def vjp(g: Tensor, y: Tensor, x: Any, *, dtype: dtype) -> tuple[Any, ...]:
        return (g,)  # the engine converts it back

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.integers(0, 5, size=(3, 4)), dtype=as_dtype("float64"))
        yield Sample(rng.normal(size=()), dtype=as_dtype("float64"))


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
    if order is not None and not has_order(result, order):
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


@overload
def _type(self: Tensor, dtype: None = None, non_blocking: bool = False) -> str: ...
@overload
def _type(self: Tensor, dtype: Any, non_blocking: bool = False) -> Tensor: ...
def _type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the tensor's type, or the tensor converted to `dtype` (a dtype or a name such as "FloatTensor")."""
    if dtype is None:
        return f"{shown_name()}." + next(name for name, d in TYPE_NAMES.items() if d is self._type.dtype)
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
def is_shared(input: Tensor) -> bool:
    """False: no tensor moves into memory that processes share."""
    return False


@method
def record_stream(input: Tensor, stream: Any) -> None:
    """Nothing to record: without a GPU no work is in flight when a line is done."""


@method
def contiguous(input: Tensor, memory_format: Any = contiguous_format) -> Tensor:
    """The tensor with its elements in row-major order (or in `memory_format`); a copy only where needed."""
    if memory_format is contiguous_format and layout_of(input) is None:
        return input
    order = memory_order(memory_format, input.ndim, "contiguous")
    if order is None:
        raise ShapeError("contiguous: preserve_format keeps what is there; pass ex.contiguous_format or nothing")
    return input if has_order(input, order) else apply(Arrange, (input,), {"order": order})


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
    return len(shape) <= len(target) and all(s in (t, 1) for s, t in pairs)


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


def _resize_(self: Tensor, *sizes_: Any, size: Any = None, memory_format: Any = None) -> Tensor:
    """Change the shape in place: the storage is read again, row by row, from the first element on.

    It grows where it is too small, and then shares memory with nobody; new elements are arbitrary.
    """
    shape = sizes("resize_", sizes_, size)
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


@method
def as_subclass(input: Tensor, cls: type[Tensor]) -> Tensor:
    """The tensor as one of a class of your own, in the same memory and graph. What ops make of it are plain tensors.

    >>> class Image(ex.Tensor):
    ...     pass
    >>> type(ex.zeros(3, 4, 4).as_subclass(Image)).__name__
    'Image'
    """
    made = alias(input)
    made.__class__ = cls
    return made
