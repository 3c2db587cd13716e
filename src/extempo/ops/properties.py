"""What a tensor is asked about itself: sizes, strides, dtype, and what is the same for every tensor."""

from __future__ import annotations

from typing import Any, overload

from ..core.device import CPU, contiguous_format, memory_order, strided
from ..core.strides import is_k_ordered, row_major_strides
from ..core.tensor import Tensor, layout_of
from ..core.tensor_methods import TensorMethods, method
from ..core.types import Size, dtype, normalize_dim, result_dtype
from ..dispatch.dispatcher import as_input
from ..errors import IndexRangeError

__all__ = [
    "can_cast",
    "is_complex",
    "is_conj",
    "is_floating_point",
    "is_inference",
    "is_neg",
    "is_nonzero",
    "is_same_size",
    "is_signed",
    "is_tensor",
    "numel",
    "result_type",
]


def has_order(x: Tensor, order: tuple[int, ...]) -> bool:
    """Whether the tensor is contiguous in this order of dimensions, from the slowest to the fastest."""
    if layout_of(x) is None and order == tuple(range(x.ndim)):
        return True
    return x._array is None or is_k_ordered(x._array, order)


# ---- questions


@method
def is_contiguous(input: Tensor, memory_format: Any = contiguous_format) -> bool:
    """Whether the tensor is contiguous, in row-major order or in that of `memory_format`."""
    if memory_format is not contiguous_format and input.ndim not in (4, 5):
        return False
    order = memory_order(memory_format, input.ndim, "is_contiguous")
    return has_order(input, order or tuple(range(input.ndim)))


@overload
def stride(input: Tensor, dim: None = None) -> tuple[int, ...]: ...
@overload
def stride(input: Tensor, dim: int) -> int: ...
@method
def stride(input: Tensor, dim: int | None = None) -> Any:
    """The stride of each dimension, or of one: how many elements apart its neighbours are in memory."""
    # NumPy's own strides of empty and single dimensions are arbitrary.
    found, shape, itemsize = layout_of(input), input._type.shape, input._type.dtype.itemsize
    strides = row_major_strides(shape) if found is None else tuple(s // itemsize for s in found)
    return strides if dim is None else strides[_existing(dim, input, "stride")]


@method
def storage_offset(input: Tensor) -> int:
    """The offset of the first element in the storage, in elements."""
    array = input._values()
    return (array.__array_interface__["data"][0] - input._storage.address) // array.itemsize


@method
def data_ptr(input: Tensor) -> int:
    """The address of the first element."""
    return int(input._handed_out().__array_interface__["data"][0])


@overload
def size(input: Tensor, dim: None = None) -> Size: ...
@overload
def size(input: Tensor, dim: int) -> int: ...
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


# ---- properties that are the same for every tensor, or follow from its type


def _constant(name: str, value: Any, text: str) -> None:
    setattr(TensorMethods, name, property(lambda self: value, doc=text))


_constant("device", CPU, "Where the elements lie: always the CPU.")
_constant("layout", strided, "How the elements lie: `ex.strided`, or `ex.jagged` for a ragged tensor.")
_constant("is_cpu", True, "True: the CPU is the one device there is.")
_constant("name", None, "None: tensors have no names; a module's named_parameters have.")
for _name in (
    *("is_cuda", "is_ipu", "is_maia", "is_mkldnn", "is_mps", "is_mtia", "is_vulkan", "is_xla", "is_xpu"),
    *("is_meta", "is_nested", "is_quantized", "is_sparse", "is_sparse_csr"),
):
    # Many ops ask, and this answers without running Python.
    setattr(TensorMethods, _name, property([].__contains__, doc="False: there are no such tensors."))


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
