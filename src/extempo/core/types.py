"""What a tensor is, apart from its values: dtype, shape, and the rules by which they combine.

Imports nothing but `errors` and `cache`. Promotion and broadcasting follow PyTorch: Python numbers are weak, 0-dim
tensors stand below dimensioned ones, and the higher category (bool < integer < floating) wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, NamedTuple, Self, TypeGuard

import ml_dtypes
import numpy as np

from ..errors import DtypeError, IndexRangeError, ShapeError, UnsupportedError
from .cache import Cache
from .public_names import shown_name

Number = bool | int | float


class dtype:
    """The type of a tensor's elements, such as `ex.float32`. Compare with `is` or `==`.

    Ten of them can be computed with. The others, such as `ex.complex64`, answer what programs ask of a dtype, and a
    tensor of them is refused.

    >>> ex.zeros(2).dtype is ex.float32, ex.float32.itemsize
    (True, 4)
    >>> ex.complex64.is_complex, ex.complex64.to_real()
    (True, extempo.float32)
    """

    __slots__ = ("_name", "category", "is_floating_point", "is_signed", "itemsize", "numpy", "refusal")

    def __init__(self, name: str, numpy_dtype: Any, category: int, signed: bool = True) -> None:
        self._name = name
        self.numpy: np.dtype[Any] = np.dtype(numpy_dtype)
        self.itemsize = self.numpy.itemsize
        self.category = category  # 0 bool, 1 integer, 2 floating, 3 complex: the first thing promotion looks at
        self.is_floating_point = category == 2
        self.is_signed = signed
        self.refusal = ""

    @classmethod
    def by_name_only(cls, name: str, itemsize: int, category: int, signed: bool, refusal: str) -> dtype:
        """A dtype that no tensor has: `refusal` says what to use instead."""
        d = cls.__new__(cls)
        d._name, d.itemsize, d.category, d.is_signed, d.refusal = name, itemsize, category, signed, refusal
        d.is_floating_point = category == 2
        return d

    def __getattr__(self, name: str) -> Any:
        if name == "numpy":  # not set: whoever asks is about to compute
            raise self.refused()
        raise AttributeError(f"a dtype has no attribute {name!r}", name=name, obj=self)

    @property
    def is_complex(self) -> bool:
        """Whether it is a type of complex numbers; such types exist by name, and no tensor has one."""
        return self.category == 3

    @property
    def short_name(self) -> str:
        """`f32`, `i64`, `bool`: as graphs print it."""
        return {"bfloat16": "bf16", "bool": "bool"}.get(self._name) or self._name[0] + str(8 * self.itemsize)

    def __repr__(self) -> str:
        return f"{shown_name()}.{self._name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _named, (self._name,)  # the one object of that name, so `is` keeps working

    def refused(self) -> UnsupportedError:
        """What to raise where a tensor of this dtype is asked for."""
        return UnsupportedError(f"{self}: no tensor can have this dtype: {self.refusal}")

    def to_real(self) -> dtype:
        """The dtype of the real part; of a dtype that is not complex, itself."""
        return next((real for real, wide in _COMPLEX_OF.items() if wide is self and real is not bfloat16), self)

    def to_complex(self) -> dtype:
        """The complex dtype whose parts can hold such numbers."""
        if self.is_complex:
            return self
        if self not in _COMPLEX_OF:
            raise DtypeError(f"to_complex: there is no complex dtype for {self}; use ex.float32.to_complex()")
        return _COMPLEX_OF[self]


bool_ = dtype("bool", np.bool_, 0, signed=False)
uint8 = dtype("uint8", np.uint8, 1, signed=False)
int8 = dtype("int8", np.int8, 1)
int16 = dtype("int16", np.int16, 1)
int32 = dtype("int32", np.int32, 1)
int64 = dtype("int64", np.int64, 1)
float16 = dtype("float16", np.float16, 2)
bfloat16 = dtype("bfloat16", ml_dtypes.bfloat16, 2)
float32 = dtype("float32", np.float32, 2)
float64 = dtype("float64", np.float64, 2)

DTYPES: tuple[dtype, ...] = (bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64)
_BY_NUMPY: dict[np.dtype[Any], dtype] = {d.numpy: d for d in DTYPES}
_BY_NAME: dict[str, dtype] = {d._name: d for d in DTYPES} | {d.short_name: d for d in DTYPES}
_BY_PYTHON: dict[type, dtype] = {bool: bool_, int: int64, float: float64}


_NOT_COMPLEX = "complex numbers are not part of Extempo; keep real and imaginary parts in a last dimension of 2"
_NOT_UNSIGNED = "Extempo has uint8 and signed integers; use ex.int32 or ex.int64"
_NOT_SMALL = "Extempo has no floats of 8 bits or less; use ex.bfloat16 or ex.float16"
_NOT_QUANTISED = "quantised tensors are not part of Extempo; use float16 or bfloat16 to save memory"
_NOT_BITS = "Extempo has no integers of less than 8 bits; use ex.int8 or ex.uint8"

complex32 = dtype.by_name_only("complex32", 4, 3, True, _NOT_COMPLEX)
complex64 = dtype.by_name_only("complex64", 8, 3, True, _NOT_COMPLEX)
complex128 = dtype.by_name_only("complex128", 16, 3, True, _NOT_COMPLEX)
_COMPLEX_OF = {float16: complex32, bfloat16: complex64, float32: complex64, float64: complex128}

# The dtypes of PyTorch that no tensor has here, by name.
NAMED_ONLY: dict[str, dtype] = {d._name: d for d in (complex32, complex64, complex128)}
for _names, _itemsize, _category, _refusal in (
    ("uint16", 2, 1, _NOT_UNSIGNED),
    ("uint32", 4, 1, _NOT_UNSIGNED),
    ("uint64", 8, 1, _NOT_UNSIGNED),
    ("float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2", 1, 2, _NOT_SMALL),
    ("qint8 quint8 quint4x2 quint2x4", 1, 1, _NOT_QUANTISED),
    ("qint32", 4, 1, _NOT_QUANTISED),
    ("int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7", 1, 1, _NOT_BITS),
):
    for _name in _names.split():
        _signed = not _name.startswith(("u", "qu")) and _name != "float8_e8m0fnu"
        NAMED_ONLY[_name] = dtype.by_name_only(_name, _itemsize, _category, _signed, _refusal)

_default = float32
DEFAULT_DTYPE_LISTENERS: list[Callable[[], None]] = []  # called when the default changes what shape rules say


def get_default_dtype() -> dtype:
    """The floating dtype that `ex.tensor([1.5])`, `ex.zeros(3)` and integer division produce.

    >>> ex.get_default_dtype(), ex.tensor([1.5]).dtype
    (extempo.float32, extempo.float32)
    """
    return _default


def set_default_dtype(d: dtype) -> None:
    """Make `d` the dtype of new floating tensors. It must be a floating dtype.

    >>> ex.set_default_dtype(ex.float64)
    >>> ex.tensor([1.5]).dtype
    extempo.float64
    >>> ex.set_default_dtype(ex.float32)
    """
    global _default
    if not isinstance(d, dtype) or not d.is_floating_point:
        raise DtypeError(f"set_default_dtype: expected a floating dtype such as ex.float64, got {d!r}")
    _default = as_dtype(d)
    for listener in DEFAULT_DTYPE_LISTENERS:
        listener()


def as_kind(kind: Any, value: Any) -> Any:
    """kind(value) of a number; one that stands for others (an argument of a static function) stays one."""
    follow = getattr(value, "_as_kind", None)
    return kind(value) if follow is None else follow(kind)


def as_dtype(value: Any) -> dtype:
    """The dtype meant by an `ex.dtype`, a NumPy dtype, `float`/`int`/`bool`, or a name; one that tensors can have."""
    if isinstance(value, dtype):
        if value.refusal:
            raise value.refused()
        return value
    if isinstance(value, type) and value in _BY_PYTHON:
        return _BY_PYTHON[value]
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    try:
        return from_numpy_dtype(np.dtype(value))
    except (TypeError, ValueError):
        raise DtypeError(f"expected a dtype such as ex.float32, got {value!r}") from None


def _named(name: str) -> dtype:
    return NAMED_ONLY.get(name) or _BY_NAME[name]


def from_numpy_dtype(d: np.dtype[Any]) -> dtype:
    """The Extempo dtype of a NumPy dtype, or an error that names the nearest one."""
    found = _BY_NUMPY.get(d)
    if found is not None:
        return found
    if d.kind == "c":
        raise DtypeError(
            f"NumPy dtype {d} is complex, which Extempo does not have; pass np.stack([a.real, a.imag], -1)"
        )
    if d.kind == "u":
        raise DtypeError(f"NumPy dtype {d} has no tensor dtype; convert with .astype(np.int64)")
    raise DtypeError(f"NumPy dtype {d} cannot be a tensor; convert the array to numbers first (got kind {d.kind!r})")


class Size(tuple[int, ...]):
    """A shape: a tuple of ints that can also count elements.

    >>> size = ex.zeros(2, 3).shape
    >>> size, size.numel(), size[0]
    (extempo.Size([2, 3]), 6, 2)
    """

    __slots__ = ()

    def numel(self) -> int:
        """The product of the sizes."""
        return count(self)

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return Size(found) if isinstance(key, slice) else found

    def __add__(self, other: Any) -> Any:
        return Size(super().__add__(tuple(other)))

    def __radd__(self, other: Any) -> Any:
        return Size(tuple(other) + tuple(self))

    def __mul__(self, times: Any) -> Any:
        return Size(super().__mul__(times))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"{shown_name()}.Size({list(self)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (tuple(self),)


class WeakNumber:
    """The base of what stands for a Python number in arithmetic with tensors, such as a symbolic size."""

    __slots__ = ()


class TensorType(NamedTuple):
    """Shape and dtype: all that shape rules see, and all that a gradient sees of a value it does not read."""

    shape: tuple[int, ...]
    dtype: dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return count(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype.short_name}[{', '.join(map(str, self.shape))}]"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The inverse of `str`: `f32[3, 4]`."""
        name, _, rest = text.strip().partition("[")
        return cls(tuple(int(s) for s in rest.rstrip("]").split(",") if s.strip()), _BY_NAME[name])


_TYPES: Cache[Any, TensorType] = Cache("types of arrays", 10_000)


def type_of_array(array: np.ndarray[Any, Any]) -> TensorType:
    """The type of a tensor on this array: the same object for all of its shape and dtype."""
    key = (array.shape, array.dtype)
    found = _TYPES.get(key)
    return _TYPES.put(key, TensorType(array.shape, from_numpy_dtype(array.dtype))) if found is None else found


# What stands for one input in a shape rule: the type of a tensor, the Python type of a number (weak), or None.
InputType = TensorType | type[Any]


count: Callable[[Iterable[int]], int] = prod  # the number of elements of a shape


_LARGEST = 2**63 - 1  # bytes that an address can tell apart


def check_size(op: str, shape: Sequence[int], itemsize: int = 1) -> None:
    """Raise if no memory could ever hold such a tensor."""
    if any(isinstance(size, WeakNumber) for size in shape):  # symbolic: sizes are checked when they are known
        return
    if count(size for size in shape if size) * itemsize > _LARGEST:  # NumPy counts empty ones as if they were not
        raise ShapeError(
            f"{op}: a tensor of shape {tuple(shape)} would have more elements than memory has addresses; "
            "check the sizes, or compute in smaller pieces"
        )


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that all the shapes broadcast to, by NumPy's and PyTorch's rule."""
    ndim = max(map(len, shapes), default=0)
    out = [1] * ndim
    for shape in shapes:
        start = ndim - len(shape)
        for i, size in enumerate(shape, start):
            if size == out[i] or size == 1:
                continue
            if out[i] != 1:
                raise ShapeError(_broadcast_message(shapes))
            out[i] = size
    return tuple(out)


def _broadcast_message(shapes: Sequence[Sequence[int]]) -> str:
    text = f"shapes {' and '.join(str(tuple(s)) for s in shapes)} do not broadcast"
    if len(shapes) == 2:
        a, b = (tuple(s) for s in shapes)
        if len(a) == 2 and a[::-1] == b:
            return f"{text}; did you mean x.T for one of them?"
        if len(a) == len(b) + 1 and a[: len(b)] == b:
            return f"{text}; did you mean {b}.unsqueeze(-1)?"
        if len(b) == len(a) + 1 and b[: len(a)] == a:
            return f"{text}; did you mean {a}.unsqueeze(-1)?"
    return f"{text}: sizes are compared from the last, and must be equal or 1"


_ORDER = {d: i for i, d in enumerate((bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64))}


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype that both can be converted to, as in PyTorch.

    >>> ex.promote_types(ex.int32, ex.float16)
    extempo.float16
    """
    a, b = type1, type2
    if a is b:
        return a
    if a.refusal or b.refusal:
        return _promote_named(a, b)
    if a.category != b.category:
        return a if a.category > b.category else b
    if {a, b} == {uint8, int8}:
        return int16
    if {a, b} == {float16, bfloat16}:
        return float32
    return a if _ORDER[a] > _ORDER[b] else b


def _promote_named(a: dtype, b: dtype) -> dtype:
    """Of two different dtypes, one of them without tensors: what PyTorch answers, or the reason why there is none."""
    low, high = (a, b) if a.category <= b.category else (b, a)
    if high.is_complex and (low.is_complex or not low.refusal):
        wide = low.to_complex() if low.category > 1 else high
        return wide if wide.itemsize > high.itemsize else high
    if high.is_floating_point and not high.refusal and low.refusal in (_NOT_UNSIGNED, _NOT_BITS) and not low.is_signed:
        return high
    raise UnsupportedError(f"promote_types: there is no dtype for {a} and {b}; convert one of them first")


def result_dtype(types: Iterable[InputType]) -> dtype:
    """PyTorch's promotion over tensor types and the Python types of numbers."""
    dimensioned: dtype | None = None
    zero_dim: dtype | None = None
    number: dtype | None = None
    for t in types:
        if isinstance(t, TensorType):
            if t.shape:
                dimensioned = t.dtype if dimensioned is None else promote_types(dimensioned, t.dtype)
            else:
                zero_dim = t.dtype if zero_dim is None else promote_types(zero_dim, t.dtype)
        elif t is float or t is int or t is bool:
            weak = _default if t is float else _BY_PYTHON[t]
            number = weak if number is None else promote_types(number, weak)
        elif t is not type(None):
            raise DtypeError(f"expected a tensor or a number, got {t.__name__}")
    result = dimensioned
    for weaker in (zero_dim, number):
        if weaker is None:
            continue
        if result is None or weaker.category > result.category:
            result = weaker
    if result is None:
        raise DtypeError("expected at least one tensor or number")
    return result


def as_int(value: Any, op: str, name: str) -> int:
    """An argument that is to be an int, from an int of NumPy's or a tensor of one too; symbolic ones stay."""
    if isinstance(value, int | WeakNumber):
        return value  # type: ignore[return-value] # it computes like one
    try:
        number: int = value.__index__()
    except AttributeError:
        raise DtypeError(f"{op}: {name} must be an int, got {type(value).__name__}") from None
    return number


def normalize_dim(dim: int, ndim: int, op: str) -> int:
    """`dim` as a number from 0 to ndim - 1. A 0-dim tensor has dims 0 and -1, as in PyTorch."""
    span = ndim or 1
    try:
        d = dim if type(dim) is int else dim.__index__()
    except AttributeError:
        raise DtypeError(f"{op}: dim must be an int, got {type(dim).__name__}") from None
    if not -span <= d < span:
        raise IndexRangeError(f"{op}: dim {d} is out of range for a {ndim}-dim tensor; expected {-span} to {span - 1}")
    return d % span


def is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    """Whether it holds several arguments: 0-dim tensors and arrays can be asked for an iterator, and are one."""
    return hasattr(value, "__iter__") and getattr(value, "ndim", 1) != 0


def normalize_dims(dim: int | Sequence[int] | None, ndim: int, op: str) -> tuple[int, ...]:
    """Every reduced dim as sorted, distinct numbers; None and () mean all of them."""
    if dim is None:
        return tuple(range(ndim))
    if isinstance(dim, int) or not is_sequence(dim):  # NumPy's integers are none of Python's
        one = normalize_dim(dim, ndim, op)  # type: ignore[arg-type] # a Sequence went the other way
        return (one,) if ndim else ()
    dims = sorted(normalize_dim(d, ndim, op) for d in dim)
    if len(set(dims)) != len(dims):
        raise ShapeError(f"{op}: dim {tuple(dim)} names a dimension twice")
    if not dims:
        return tuple(range(ndim))
    return tuple(dims) if ndim else ()


class finfo:
    """Limits of a floating dtype: bits, eps, max, min, tiny, resolution.

    >>> ex.finfo(ex.float32).eps, ex.finfo(ex.float16).max
    (1.1920928955078125e-07, 65504.0)
    """

    def __init__(self, type: dtype | None = None) -> None:
        d = _default if type is None else type
        if not isinstance(d, dtype) or d.category < 2:
            raise DtypeError(f"finfo: expected a floating dtype, got {d}; use iinfo")
        d = d.to_real()
        if d._name == "float4_e2m1fn_x2":
            raise UnsupportedError("finfo: an element of float4_e2m1fn_x2 is two numbers, and has no limits of its own")
        info: Any = ml_dtypes.finfo(d._name)  # type: ignore[no-untyped-call] # ml_dtypes leaves it untyped
        self.dtype = d._name
        self.bits = 8 * d.itemsize
        self.eps, self.max, self.min = float(info.eps), float(info.max), float(info.min)
        self.tiny = self.smallest_normal = float(info.tiny)
        self.resolution = 1.0 if d.itemsize == 1 else 10.0**-info.precision  # 8 bits hold no decimal digit

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        return f"finfo({', '.join(f'{n}={getattr(self, n):g}' for n in names)}, dtype={self.dtype})"


class iinfo:
    """Limits of an integer dtype: bits, max, min.

    >>> ex.iinfo(ex.int8).min, ex.iinfo(ex.int8).max
    (-128, 127)
    """

    def __init__(self, type: dtype) -> None:
        if not isinstance(type, dtype) or type.category != 1 or type.refusal not in ("", _NOT_UNSIGNED):
            raise DtypeError(f"iinfo: expected an integer dtype, got {type}; use finfo for floating ones")
        info = np.iinfo(type._name)
        self.dtype, self.bits, self.max, self.min = type._name, info.bits, int(info.max), int(info.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
