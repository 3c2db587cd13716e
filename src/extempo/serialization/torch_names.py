"""What the names in a pickle of PyTorch mean here. This table is all that a `.pt` file can make happen.

Tensors and parameters come back as such; attributes that were set on them are dropped. A defaultdict comes back as a
dict. Everything else is refused by name.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.device import device, strided
from ..core.tensor import Tensor
from ..core.types import DTYPES, Size, bool_, count, dtype
from ..errors import UnsupportedError
from ..nn.parameter import Parameter
from .files import FileFormatError
from .memory import Booleans, Window, fits, tensor_at
from .pickle_machine import Callee, checked_key

_STORAGES = {
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "UntypedStorage": "uint8",
}
_DTYPES = {repr(d).removeprefix("extempo."): d for d in DTYPES}
_NUMPY_KINDS = "biuf"  # booleans and numbers

_STATE_DICT = "save model.state_dict() in PyTorch, and load that into a module of extempo.nn"
# (how the name starts, what to do); the first that fits speaks.
_ADVICE = (
    ("torch._utils._rebuild_sparse", "it is a sparse tensor; save x.to_dense() in PyTorch"),
    ("torch._utils._rebuild_qtensor", "it is a quantised tensor; save x.dequantize() in PyTorch"),
    ("torch._utils._rebuild_nested", "it is a nested tensor; save x.unbind() in PyTorch"),
    ("torch._utils._rebuild_meta", "it is a tensor without values; move it to the CPU in PyTorch before saving"),
    ("torch.Complex", "it is a complex tensor; save torch.view_as_real(x) in PyTorch"),
    ("torch.complex", "it is a complex dtype, which Extempo does not have"),
    ("torch.nn.", f"the file holds a whole module; {_STATE_DICT}"),
    ("torch.optim.", "the file holds a whole optimizer; save optimizer.state_dict() in PyTorch"),
    ("torch.", "Extempo has no such thing; save tensors of its ten dtypes in PyTorch"),
    ("argparse.Namespace", "save vars(args) in PyTorch"),
    ("pathlib.", "save str(path) in PyTorch"),
    ("", f"only tensors, containers and numbers are read, and nothing is executed; {_STATE_DICT}"),
)


class StorageOfFile(NamedTuple):
    """A storage that the pickle refers to: its key in the archive and the dtype of its elements."""

    key: str
    dtype: dtype


class StorageType(Callee):
    """The class of a storage: the dtype of its elements."""

    def __init__(self, path: str, d: dtype) -> None:
        super().__init__(path)
        self.dtype = d


class TorchNames:
    """`find`, `persistent` and `build` for the pickle machine. `memory(key, nbytes)` gives the bytes of a storage."""

    def __init__(self, memory: Callable[[str, int], Tensor]) -> None:
        self._memory = memory
        self._booleans = Booleans()
        self._calls: dict[str, Callable[..., Any]] = {
            **_CALLS,
            "torch._utils._rebuild_tensor": self._tensor,
            "torch._utils._rebuild_tensor_v2": self._tensor,
            "torch._utils._rebuild_tensor_v3": self._tensor_of_dtype,
            "torch._utils._rebuild_parameter": _parameter,
            "torch._utils._rebuild_parameter_with_state": _parameter,
            "torch._tensor._rebuild_from_type_v2": _of_type,
        }

    def find(self, module: str, name: str) -> Any:
        """The meaning of a name: a dtype, or something to call; an error for the rest."""
        path = f"{_MODULES.get(module, module)}.{name}"
        call = self._calls.get(path)
        if call is not None or path in _ARGUMENTS:
            return Callee(path, call)
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        if module in ("torch", "torch.storage") and name in _STORAGES:
            return StorageType(path, _DTYPES[_STORAGES[name]])
        advice = next(text for start, text in _ADVICE if path.startswith(start))
        raise UnsupportedError(f"load: the file needs {path}, which is refused: {advice}")

    def persistent(self, reference: Any) -> StorageOfFile:
        """('storage', type, key, location, number of elements)."""
        if type(reference) is not tuple or len(reference) != 5 or reference[0] != "storage":
            raise UnsupportedError("load: the file refers to an outside object that is not a storage")
        _, kind, key, _, n_elements = reference
        if not isinstance(kind, StorageType) or type(key) is not str or not _is_size(n_elements):
            raise TypeError("a storage is described wrongly")
        self._memory(key, n_elements * kind.dtype.itemsize)
        return StorageOfFile(key, kind.dtype)

    def build(self, target: Any, state: Any) -> None:
        """Give an object its state: the versions on a state_dict, the values of an array."""
        if isinstance(target, OrderedDict):
            if type(state) is not dict or state.keys() - {"_metadata"}:
                raise UnsupportedError("load: an OrderedDict in the file has attributes; save it without them")
            target._metadata = state.get("_metadata")  # type: ignore[attr-defined] # as torch's state_dict() leaves it
        elif isinstance(target, np.ndarray):
            _fill_array(target, state)
        elif isinstance(target, np.dtype):
            if type(state) is not tuple or len(state) < 2 or state[1] not in ("<", "|", "="):
                raise UnsupportedError("load: an array in the file has big-endian or compound elements; save numbers")
        else:
            raise UnsupportedError(f"load: the file gives state to a {type(target).__name__}, which is not plain data")

    def _tensor(
        self,
        storage: Any,
        offset: Any,
        size: Any,
        stride: Any,
        requires_grad: Any = False,
        backward_hooks: Any = None,
        metadata: Any = None,
    ) -> Tensor:
        if type(storage) is not StorageOfFile:
            raise TypeError("a tensor is made of something else than a storage")
        d = storage.dtype
        return self._tensor_of_dtype(storage, offset, size, stride, requires_grad, backward_hooks, d, metadata)

    def _tensor_of_dtype(
        self,
        storage: Any,
        offset: Any,
        size: Any,
        stride: Any,
        requires_grad: Any,
        backward_hooks: Any,
        d: Any,
        metadata: Any = None,
    ) -> Tensor:
        if metadata:
            raise UnsupportedError("load: a tensor in the file is a lazy negative; save x.resolve_neg() in PyTorch")
        memory = self._memory(storage.key, 0)
        if not isinstance(d, dtype) or not isinstance(size, tuple) or not isinstance(stride, tuple):
            raise TypeError("a tensor is described wrongly")
        if len(size) > 64 or not all(map(_is_size, (offset, *size, *stride))):
            raise TypeError("a tensor has sizes that are no sizes")
        window = Window(offset * d.itemsize, tuple(size), tuple(s * d.itemsize for s in stride))
        if not fits(window, d.itemsize, memory.numel()):
            raise FileFormatError(f"a tensor of shape {tuple(size)} lies outside of its storage {storage.key!r}")
        made = tensor_at(memory, d, window)
        if d is bool_ and not self._booleans.has(made, memory):
            raise FileFormatError("a boolean tensor holds other bytes than 0 and 1")
        return made.requires_grad_() if requires_grad is True and d.is_floating_point else made


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 56


# ---- calls that need nothing of the file


def _parameter(data: Any, requires_grad: Any, backward_hooks: Any = None, state: Any = None) -> Parameter:
    if not isinstance(data, Tensor):
        raise TypeError("a parameter is made of something else than a tensor")
    return Parameter(data.detach(), requires_grad is True and data.dtype.is_floating_point)


def _of_type(rebuild: Any, kind: Any, args: Any, state: Any) -> Any:
    """A tensor that attributes were set on."""
    if not isinstance(rebuild, Callee) or rebuild.call is None or not rebuild.path.startswith("torch._utils._rebuild"):
        raise TypeError("a tensor is rebuilt by something else than a function for it")
    if not isinstance(kind, Callee) or kind.path not in _ARGUMENTS or type(args) is not tuple:
        raise TypeError("a tensor of an unknown type")
    return rebuild.call(*args)


def _ordered(pairs: Any = ()) -> OrderedDict[Any, Any]:
    return OrderedDict((checked_key(key), value) for key, value in pairs)


def _counter(counts: Any = None) -> Counter[Any]:
    if counts is not None and type(counts) is not dict:
        raise TypeError("a Counter is made of something else than a dict")
    return Counter(counts or {})


def _default_dict(factory: Any = None, *rest: Any) -> dict[Any, Any]:
    if rest:
        raise TypeError("a defaultdict with values in its call")
    return {}


def _set(kind: Callable[[Any], Any]) -> Callable[..., Any]:
    def make(items: Any = ()) -> Any:
        if not isinstance(items, list | tuple | set | frozenset):
            raise TypeError("a set is made of something else than a list")
        return kind(map(checked_key, items))

    return make


def _bytes(kind: Callable[[Any], Any]) -> Callable[..., Any]:
    def make(value: Any = b"", encoding: Any = "latin1") -> Any:
        if type(value) is str and encoding in ("latin1", "latin-1"):
            value = value.encode("latin-1")
        if not isinstance(value, bytes | bytearray):  # a number would ask for that many bytes
            raise TypeError("bytes are made of something else than bytes")
        return kind(value)

    return make


def _of_ints(kind: Callable[..., Any]) -> Callable[..., Any]:
    """slice and range: up to three ints or None."""

    def make(*args: Any) -> Any:
        if not all(a is None or type(a) is int for a in args):
            raise TypeError("a slice or range of something else than ints")
        return kind(*args)

    return make


def _complex(real: Any, imaginary: Any) -> complex:
    if type(real) is not float or type(imaginary) is not float:
        raise TypeError("a complex number of something else than floats")
    return complex(real, imaginary)


def _size(sizes: Any) -> Size:
    if type(sizes) is not tuple or not all(map(_is_size, sizes)):
        raise TypeError("a size of something else than ints")
    return Size(sizes)


def _device(name: Any, index: Any = None) -> device:
    return device(name, index)


def _layout(name: Any) -> Any:
    if name != "torch.strided":
        raise UnsupportedError(f"load: the file has the layout {name!r}; Extempo has strided tensors only")
    return strided


def _version(text: Any) -> str:
    if type(text) is not str:
        raise TypeError("a version of something else than text")
    return text


# ---- NumPy


def _numpy_dtype(text: Any, align: Any = False, copy: Any = True) -> np.dtype[Any]:
    if type(text) is not str or text[:1] not in _NUMPY_KINDS or not text[1:].isdecimal() or len(text) > 2:
        raise UnsupportedError(f"load: an array in the file has the dtype {text!r}; save numbers")
    return np.dtype(text)


def _numpy_scalar(d: Any, raw: Any = b"") -> Any:
    if not isinstance(d, np.dtype) or type(raw) is not bytes or len(raw) != d.itemsize:
        raise TypeError("a NumPy number is described wrongly")
    return np.frombuffer(raw, d)[0]


def _empty_array(kind: Any, shape: Any, code: Any) -> Any:
    """What NumPy fills in later."""
    if not isinstance(kind, Callee) or kind.path != "numpy.ndarray":
        raise TypeError("an array of an unknown type")
    return np.empty(0, np.int8)


def _fill_array(target: Any, state: Any) -> None:
    _, shape, d, is_fortran, raw = state
    _check_array(shape, d, raw)
    target.__setstate__((1, shape, d, is_fortran is True, bytes(raw)))


def _array_on_buffer(raw: Any, d: Any, shape: Any, order: Any) -> Any:
    """How arrays stand in pickles of protocol 5."""
    _check_array(shape, d, raw)
    if order not in ("C", "F"):
        raise TypeError("an array of an unknown order")
    return np.frombuffer(bytearray(raw), d).reshape(shape, order=order)


def _check_array(shape: Any, d: Any, raw: Any) -> None:
    if type(shape) is not tuple or not all(map(_is_size, shape)) or not isinstance(d, np.dtype):
        raise TypeError("an array is described wrongly")
    if not isinstance(raw, bytes | bytearray) or count(shape) * d.itemsize != len(raw):
        raise TypeError("an array whose values are not as many as its shape says")


_CALLS: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": _ordered,
    "collections.Counter": _counter,
    "collections.defaultdict": _default_dict,
    "builtins.set": _set(set),
    "builtins.frozenset": _set(frozenset),
    "builtins.slice": _of_ints(slice),
    "builtins.range": _of_ints(range),
    "builtins.xrange": _of_ints(range),
    "builtins.complex": _complex,
    "builtins.bytes": _bytes(bytes),
    "builtins.bytearray": _bytes(bytearray),
    "_codecs.encode": _bytes(bytes),
    "torch.Size": _size,
    "torch.device": _device,
    "torch.serialization._get_layout": _layout,
    "torch.torch_version.TorchVersion": _version,
    "numpy.dtype": _numpy_dtype,
    "numpy._core.multiarray.scalar": _numpy_scalar,
    "numpy._core.multiarray._reconstruct": _empty_array,
    "numpy._core.numeric._frombuffer": _array_on_buffer,
}
# Names that stand only as arguments of the calls above: what a defaultdict makes, the type of an array or tensor.
_ARGUMENTS = {
    "numpy.ndarray",
    "torch.Tensor",
    "torch.nn.parameter.Parameter",
    *(f"builtins.{name}" for name in ("bool", "dict", "float", "int", "list", "long", "str", "tuple")),
}
# The same module under the names of other versions.
_MODULES = {
    "__builtin__": "builtins",
    "numpy.core.multiarray": "numpy._core.multiarray",
    "numpy.core.numeric": "numpy._core.numeric",
}
