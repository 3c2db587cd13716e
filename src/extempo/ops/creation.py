"""Tensors from data (Python, NumPy, other libraries), copies, and what all factories share: options and memory.

What a factory makes depends on its arguments alone, so there is nothing to trace: to a graph it is a constant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextvars import Context
from typing import Any, TypedDict, Unpack

import numpy as np

from ..backends.selection import empty as empty_array
from ..core import dlpack
from ..core.context import CONTEXT
from ..core.device import memory_order, require_cpu, require_strided
from ..core.op import Elementwise, Rng, Routine, Sample, Signature, samples_unary
from ..core.storage import Array
from ..core.strides import kept_order
from ..core.tensor import Tensor, TensorLike, from_array, layout_of, wrap
from ..core.tensor_methods import method
from ..core.types import (
    DTYPES,
    Size,
    TensorType,
    as_dtype,
    bool_,
    check_size,
    dtype,
    finfo,
    from_numpy_dtype,
    get_default_dtype,
    iinfo,
    int64,
    promote_types,
    type_of_array,
)
from ..dispatch.dispatcher import apply, quietly
from ..errors import DtypeError, ShapeError, UnsupportedError
from ..symbolic.sym_int import SymInt, depends
from .define import deliver
from .view import as_shape

__all__ = [
    "as_tensor",
    "asarray",
    "clone",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "tensor",
]


class Options(TypedDict, total=False):
    """What every factory takes besides sizes."""

    dtype: Any
    layout: Any
    device: Any
    requires_grad: bool
    pin_memory: bool


class NamedSize(Options, total=False):
    """Sizes can also be given by name."""

    size: Any


class LikeOptions(Options, total=False):
    """What a factory takes that follows another tensor, or that lays out memory."""

    memory_format: Any


def read_options(op: str, options: Any, default: dtype | None = None) -> dtype:
    """The dtype asked for, after a look at everything else that was asked for."""
    if not options:
        return default or get_default_dtype()
    unknown = options.keys() - LikeOptions.__annotations__.keys()  # includes those it inherits
    if unknown:
        raise DtypeError(f"{op}: unknown arguments {', '.join(sorted(unknown))}")
    require_cpu(options.get("device"), op)
    require_strided(options.get("layout"), op)
    wanted = options.get("dtype")
    return as_dtype(wanted) if wanted is not None else default or get_default_dtype()


def finish(made: Tensor, options: Any, out: Tensor | None = None) -> Tensor:
    """The new tensor as it was asked for: in `out`, requiring grad."""
    if out is not None:
        made = deliver(made, out)
    elif (note := getattr(CONTEXT.get().interceptor, "made", None)) is not None:
        note(made)
    return made.requires_grad_() if options.get("requires_grad") else made


_INT = {int}
_CERTAINLY_HELD = 1 << 40  # elements that an address can tell apart, whatever their size


def sizes(op: str, positional: tuple[Any, ...], size: Any) -> tuple[int, ...]:
    """A shape given as `f(2, 3)`, `f((2, 3))` or `f(size=(2, 3))`."""
    if size is None and positional and _INT.issuperset(map(type, positional)):
        if min(positional) > 0 and math.prod(positional) <= _CERTAINLY_HELD:  # most often, and nothing is to be said
            return positional
    elif size is not None:
        if positional:
            raise DtypeError(f"{op}: sizes are given twice, {positional} and size={size}")
        positional = (size,)
    elif not positional:
        raise DtypeError(f"{op}: expected a size, such as {op}(2, 3), or {op}(()) for a 0-dim tensor")
    shape = as_shape(positional, op)
    if any(s < 0 for s in shape):
        raise ShapeError(f"{op}: sizes must not be negative, got {shape}")
    check_size(op, shape, 8)
    return shape


# ---- copies


class Clone(Elementwise):
    """A copy with memory of its own."""

    quiet = True
    numpy = staticmethod(lambda x: np.array(x, copy=True))
    samples = staticmethod(samples_unary)
    vjp = staticmethod(lambda g, y, x: (g,))
    lower = staticmethod(lambda e, x: x)


class Copy(Elementwise):
    """The second input in the shape and dtype of the first, whose values are lost: what `copy_` and `fill_` write."""

    quiet = True
    numpy = staticmethod(lambda x, value: np.array(np.broadcast_to(value, x.shape), copy=True))
    lower = staticmethod(lambda e, x, value: e.number(value, x))

    @staticmethod
    def vjp(g: Tensor, y: Any, x: Any, value: Any) -> tuple[Any, ...]:
        from .arithmetic import zero

        return zero(g), g

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(3, 4)), rng.normal(size=(4,)))
        yield Sample(rng.normal(size=(3,)), 2.0)


class Arrange(Elementwise):
    """A contiguous copy with its dimensions in `order`, from the slowest to the fastest."""

    public_name = "contiguous or clone"
    quiet = True
    keeps_order = False
    own_order = True
    saves = ("",)
    ragged = "arrange"
    vjp = staticmethod(lambda g, y, x, *, order: (g,))

    @classmethod
    def infer(cls, *types: Any, order: tuple[int, ...]) -> TensorType:  # type: ignore[override] # its one attribute
        return types[0]

    @classmethod
    def signature(cls, types: tuple[Any, ...], attrs: dict[str, Any]) -> Signature:
        return Signature(types[0], None)

    @staticmethod
    def numpy(x: Array, *, order: tuple[int, ...]) -> Array:
        if order == tuple(range(x.ndim)):
            return x.copy(order="C")
        return x.transpose(order).copy(order="C").transpose(np.argsort(order))

    @staticmethod
    def batch(size: int, x: Any, *, order: tuple[int, ...]) -> Any:
        return apply(Arrange, (x,), {"order": (0, *(d + 1 for d in order))})

    @staticmethod
    def samples(rng: Rng) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3, 4)), order=(0, 1, 2))
        yield Sample(rng.normal(size=(2, 3, 4, 5)), order=(0, 2, 3, 1))
        yield Sample(rng.normal(size=()), order=())

    lower = Routine("arrange")
    onnx = staticmethod(lambda b, x, *, order: x)


@method
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with memory of its own, inside the graph.

    >>> x = ex.tensor([1.0, 2.0])
    >>> y = ex.clone(x)
    >>> y[0] = 9.0
    >>> x
    tensor([1., 2.])
    """
    order = memory_order(memory_format, input.ndim, "clone")
    return apply(Clone, (input,)) if order is None else apply(Arrange, (input,), {"order": order})


# ---- memory


def allocate(shape: tuple[int, ...], d: dtype, order: tuple[int, ...] | None = None) -> Tensor:
    """A tensor with arbitrary values, its dimensions in memory in the order given."""
    if depends(shape):
        return _traced(shape, 0, d)
    if order is None:
        type_ = TensorType(shape, d)
        return wrap(empty_array(type_), type_)
    array = empty_array(TensorType(tuple(shape[i] for i in order), d))
    return wrap(array.transpose(np.argsort(order)), TensorType(shape, d))


def _traced(shape: tuple[Any, ...], value: Any, d: dtype) -> Tensor:
    """A tensor of one value whose sizes are known when the traced program runs."""
    tracer: Any = CONTEXT.get().interceptor
    made: Tensor = (tracer.filled if hasattr(tracer, "filled") else _at_these_sizes)(shape, value, d)
    return made


def _at_these_sizes(shape: tuple[Any, ...], value: Any, d: dtype) -> Tensor:
    return filled(tuple(map(int, shape)), float(value) if d.is_floating_point else int(value), d)


def filled(shape: tuple[int, ...], value: Any, d: dtype, order: tuple[int, ...] | None = None) -> Tensor:
    """A tensor of one value."""
    if depends(shape) or type(value) is SymInt:
        return _traced(shape, value, d)
    made = allocate(shape, d, order)
    made._array.fill(value)
    return made


def of_number(shape: tuple[int, ...], value: Any, d: dtype, op: str, order: tuple[int, ...] | None = None) -> Tensor:
    """The same for a number that somebody passed to `op`: one that does not fit is an error."""
    return filled(shape, fit_number(value, d, op), d, order)


def order_like(input: Tensor, memory_format: Any, op: str) -> tuple[int, ...] | None:
    """The order of dimensions in memory that a `_like` factory follows; None is row-major."""
    wanted, strides, shape = memory_order(memory_format, input.ndim, op), layout_of(input), input._type.shape
    return wanted if wanted is not None or strides is None else kept_order(shape, [(shape, strides)])


_LARGEST = {d: finfo(d).max if d.is_floating_point else iinfo(d).max for d in DTYPES if d.category}


def fit_number(value: Any, d: dtype, op: str) -> Any:
    """A number as an element of dtype `d`; an error where it does not fit, as infinity for an integer."""
    if isinstance(value, complex):
        raise UnsupportedError(f"{op}: complex numbers are not part of Extempo; keep real and imaginary parts apart")
    if isinstance(value, np.number | np.bool):
        value = value.item()
    if type(value) is SymInt:
        return value
    if not isinstance(value, bool | int | float):
        raise DtypeError(f"{op}: expected a number, got {type(value).__name__}")
    if d.category == 0:
        return bool(value)
    largest = _LARGEST[d]
    if d.is_floating_point:
        fits = not math.isfinite(value) or abs(value) <= largest
    else:  # what is negative wraps around in an unsigned type, as far as its size would fit
        fits = math.isfinite(value) and -largest - d.is_signed <= int(value) <= largest
    if not fits:
        raise DtypeError(f"{op}: {value} does not fit into {d}, whose largest value is {largest}; choose a wider dtype")
    return float(value) if d.is_floating_point else np.asarray(int(value)).astype(d.numpy)


_quiet = Context()
_quiet.run(np.seterr, all="ignore")


def as_numpy_dtype(array: Array, d: dtype) -> Array:
    """The array in another dtype, without NumPy's warnings about what does not fit."""
    if array.dtype is d.numpy:
        return array
    try:
        return _quiet.run(array.astype, d.numpy)
    except RuntimeError:  # another thread is inside this context
        return quietly(array.astype, d.numpy)


# ---- from Python, NumPy and other libraries


def tensor(data: Any, **options: Unpack[Options]) -> Tensor:
    """A new tensor with a copy of the data: numbers, nested lists, arrays.

    >>> ex.tensor([[1, 2], [3, 4]]).shape
    extempo.Size([2, 2])
    """
    d = None
    if options:
        d = None if options.get("dtype") is None else as_dtype(options["dtype"])
        read_options("tensor", options)
    if isinstance(data, Tensor):
        array = data._values()
        array = np.array(array) if d is None or d is data.dtype else as_numpy_dtype(array, d)
        return finish(wrap(array, type_of_array(array)), options)
    return finish(of_data(data, d, True), options)


def of_data(data: Any, d: dtype | None, copies: bool) -> Tensor:
    """A tensor of numbers, nested sequences or arrays; `copies`: with memory of its own."""
    if isinstance(data, _SEQUENCES):
        array = _from_python(data, d)  # memory of its own
        return wrap(array, type_of_array(array)) if copies else from_array(array)
    array = as_array(data, d)
    if not copies:
        return from_array(array)
    if array is data or array.base is not None or not array.flags.writeable:
        array = np.array(array)
    return wrap(array, type_of_array(array))


def as_array(data: Any, d: dtype | None) -> Array:
    """An array of a dtype that tensors have, from Python numbers, nested sequences, arrays, and tensors among them."""
    if isinstance(data, _OF_PYTHON) and not isinstance(data, np.generic):
        return _from_python(data, d)
    if isinstance(data, complex):
        raise UnsupportedError("tensor: complex numbers are not part of Extempo; keep real and imaginary parts apart")
    if not isinstance(data, np.ndarray):
        if isinstance(data, str | bytes) or not (hasattr(data, "__array__") or hasattr(data, "__array_interface__")):
            if isinstance(data, Sequence) and not isinstance(data, str | bytes):
                return _from_python(list(data), d)
            raise DtypeError(f"tensor: expected numbers, nested lists or an array, got {type(data).__name__}")
        data = np.asarray(data)
    if not data.dtype.isnative:
        data = data.astype(data.dtype.newbyteorder("="))
    if d is None:
        from_numpy_dtype(data.dtype)
        return data
    if data.dtype.kind in "OUSVcMm":
        from_numpy_dtype(data.dtype)
    return as_numpy_dtype(data, d)


def _from_python(data: Any, d: dtype | None) -> Array:
    kinds = _leaf_types(data)
    try:
        if d is None and kinds == _FLOATS:
            return _made_quietly(data, get_default_dtype())
        if not kinds <= _PLAIN:
            data = _plain(data)
        array = np.array(data)
    except ValueError:
        raise ShapeError(
            "tensor: the nested lists have different lengths; ex.ragged(...) takes them as they are, or pad them"
        ) from None
    if array.dtype.kind == "O" or array.dtype == np.uint64:
        if all(issubclass(k, _NUMERIC) for k in kinds):
            raise DtypeError("tensor: an integer does not fit into int64; pass a float, or dtype=ex.float64")
        if any(issubclass(k, list | tuple) for k in kinds):
            raise ShapeError("tensor: the nested lists have different depths; bring all numbers to one depth")
    if array.dtype.kind in "OUSVc":
        strange = next((k for k in kinds if not issubclass(k, (*_NUMERIC, np.ndarray, Tensor))), object)
        if array.dtype.kind == "c":
            raise UnsupportedError(
                "tensor: complex numbers are not part of Extempo; keep real and imaginary parts apart"
            )
        raise DtypeError(f"tensor: expected numbers, got {strange.__name__}")
    if d is not None:
        _require_fit(array, d)
        return as_numpy_dtype(array, d)
    if kinds <= _PLAIN:  # also of nothing at all, which counts as floating
        return as_numpy_dtype(array, get_default_dtype()) if array.dtype.kind == "f" else array
    return as_numpy_dtype(array, _promoted(data))


def _made_quietly(data: Any, d: dtype) -> Array:
    """An array of floats, without NumPy's warnings about what does not fit."""
    try:
        return _quiet.run(np.array, data, d.numpy)
    except RuntimeError:  # another thread is inside this context
        return quietly(np.array, data, d.numpy)


_PLAIN = {bool, int, float}
_FLOATS = {float}
_SEQUENCES = (list, tuple)  # a tuple of classes: a union is made anew, and takes isinstance() three times as long
_OF_PYTHON = (*_SEQUENCES, bool, int, float, range)
_NUMERIC = (bool, int, float, np.number, np.bool)


def _leaf_types(data: Any) -> set[type]:
    """The types of all that is not a list or tuple."""
    if not isinstance(data, _SEQUENCES):
        return {type(data)}
    kinds = set(map(type, data))
    return kinds if kinds <= _PLAIN else set().union(*map(_leaf_types, data))


def _plain(data: Any) -> Any:
    """Tensors and ranges among the data as what NumPy knows."""
    if isinstance(data, Tensor):
        return data._values()
    if isinstance(data, range):
        return list(data)
    return [_plain(x) for x in data] if isinstance(data, list | tuple) else data


def _promoted(data: Any) -> dtype:
    """The dtype of a mixture of Python numbers, NumPy scalars and tensors: the default stands for Python's floats."""
    if not isinstance(data, list | tuple):
        weak = {bool: bool_, int: int64, float: get_default_dtype()}.get(type(data))
        return weak or from_numpy_dtype(np.asarray(data).dtype)
    found = bool_
    for x in data:
        found = promote_types(found, _promoted(x))
    return found


def _require_fit(array: Array, d: dtype) -> None:
    """PyTorch refuses Python numbers that an integer dtype cannot hold; floats become infinite quietly."""
    if d.category == 1 and array.size and array.dtype.kind != "b":
        fit_number(array.min().item(), d, "tensor")
        fit_number(array.max().item(), d, "tensor")


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """The data as a tensor, sharing memory where it can.

    >>> array = np.zeros(2)
    >>> ex.as_tensor(array)[0] = 5.0
    >>> array
    array([5., 0.])
    """
    require_cpu(device, "as_tensor")
    d = None if dtype is None else as_dtype(dtype)
    if isinstance(data, Tensor):
        return data if d is None or data.dtype is d else data.to(d)
    if isinstance(data, TensorLike):
        return data if d is None else data.to(d)  # type: ignore[return-value] # ops take it as a tensor
    return of_data(data, d, False)


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool | None = None
) -> Tensor:
    """The object as a tensor: `copy=None` copies where it must, True always, False never (an error where it must).

    A tensor keeps its history, unless `requires_grad` is False.

    >>> ex.asarray([1.0, 2.0])
    tensor([1., 2.])
    >>> array = np.zeros(2)
    >>> ex.asarray(array, copy=True)[0] = 5.0
    >>> array
    array([0., 0.])
    """
    require_cpu(device, "asarray")
    source = obj
    if not isinstance(obj, Tensor | np.ndarray) and hasattr(obj, "__dlpack__"):
        source = from_dlpack(obj)
    made = as_tensor(source, dtype)
    if isinstance(source, Tensor):
        made = made if requires_grad is None or requires_grad is made.requires_grad else made.detach()
        shared = made._array is source._array
    else:
        shared = isinstance(source, np.ndarray) and np.may_share_memory(made._array, source)
    if copy is False and not shared:
        raise ShapeError(
            f"asarray: {type(obj).__name__} cannot become this tensor without a copy; leave copy=False out"
        )
    if copy and shared:
        made = made.clone()
    return made.requires_grad_() if requires_grad else made


def from_numpy(ndarray: Any) -> Tensor:
    """A tensor that shares memory with the NumPy array: writing to one changes the other.

    >>> array = np.array([1.0, 2.0])
    >>> x = ex.from_numpy(array)
    >>> x[0] = 9.0
    >>> array
    array([9., 2.])
    """
    if not isinstance(ndarray, np.ndarray):
        raise DtypeError(f"from_numpy: expected a NumPy array, got {type(ndarray).__name__}; use ex.tensor(...)")
    if not ndarray.dtype.isnative:
        raise DtypeError(
            f"from_numpy: {ndarray.dtype} has the bytes of its elements in foreign order; use ex.tensor(...)"
        )
    return from_array(ndarray)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of another library's tensor (PyTorch, JAX, NumPy, ...), through DLPack.

    >>> ex.from_dlpack(np.array([1.0, 2.0]))
    tensor([1., 2.], dtype=extempo.float64)
    """
    require_cpu(device, "from_dlpack")
    return from_array(dlpack.take(ext_tensor, copy))


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A 1-dim tensor on the memory of anything with a buffer: bytes (read-only), bytearray, mmap, array.

    >>> ex.frombuffer(bytearray([1, 0, 2, 0]), dtype=ex.int16)
    tensor([1, 2], dtype=extempo.int16)
    """
    d = as_dtype(dtype)
    size = memoryview(buffer).nbytes
    if not 0 <= offset < size:
        raise ShapeError(f"frombuffer: offset {offset} lies outside of the buffer of {size} bytes")
    if count == 0 or count < -1:
        raise ShapeError(f"frombuffer: count must be positive, or -1 for all that is there, got {count}")
    if count < 0 and (size - offset) % d.itemsize:
        raise ShapeError(
            f"frombuffer: {size - offset} bytes are no whole number of {d} elements of {d.itemsize} bytes; pass count"
        )
    if count > 0 and offset + count * d.itemsize > size:
        raise ShapeError(f"frombuffer: {count} {d} elements from byte {offset} on exceed the buffer of {size} bytes")
    made = from_array(np.frombuffer(buffer, d.numpy, count, offset))
    return made.requires_grad_() if requires_grad else made


def legacy_tensor(data: tuple[Any, ...], d: dtype | None = None) -> Tensor:
    """What `ex.Tensor(...)` and `ex.LongTensor(...)` mean: sizes for ints, values for a sequence."""
    if len(data) == 1 and isinstance(data[0], Tensor):
        if d is not None and data[0].dtype is not d:
            raise DtypeError(f"Tensor: expected a tensor of {d}, got {data[0].dtype}; use x.to(...)")
        return data[0].detach()
    d = d or get_default_dtype()
    if not data:
        return allocate((0,), d)
    if len(data) > 1 or isinstance(data[0], int | Size):
        return allocate(sizes("Tensor", data, None), d)
    (values,) = data
    if isinstance(values, float | str) or not (isinstance(values, Sequence) or hasattr(values, "__array__")):
        raise DtypeError(f"Tensor: expected sizes or a sequence of values, got {values!r}; use ex.tensor(...)")
    return tensor(values, dtype=d)
