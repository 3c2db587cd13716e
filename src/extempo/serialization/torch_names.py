"""What the names in a pickle of PyTorch mean here. These tables and `class_rule` are all that a `.pt` file can use.

Tensors and parameters come back as such; attributes that were set on them are dropped. Modules, data sets and
optimizers of PyTorch come back as Extempo's of the same name, objects of other classes by the rule in `class_rule`.
Everything else is refused by name.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import pathlib
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.device import device, strided
from ..core.tensor import Tensor
from ..core.types import DTYPES, Size, bool_, count, dtype
from ..errors import UnsupportedError
from ..nn.parameter import Parameter
from .class_rule import MISSING, is_class, is_dataclass, is_enum, is_namedtuple, is_vouched_for, look_up
from .decoding import found_name
from .files import FileFormatError
from .leaves import FACTORIES, NAMESPACES, PICKLED_DATES
from .memory import Booleans, Window, fits, tensor_at
from .objects import blank, give_state, give_vouched_state, member_of_value, named_tuple, vouched_result
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
_DTYPES = {repr(d).rpartition(".")[2]: d for d in DTYPES}
_NUMPY_KINDS = "biuf"  # booleans and numbers

_STATE_DICT = "save model.state_dict() in PyTorch, and load that into a module of extempo.nn"
# (how the name starts, what to do); the first that fits speaks.
_ADVICE = (
    ("torch._utils._rebuild_sparse", "it is a sparse tensor; save x.to_dense() in PyTorch"),
    ("torch._utils._rebuild_qtensor", "it is a quantised tensor; save x.dequantize() in PyTorch"),
    ("torch._utils._rebuild_nested", "it is a nested tensor; save x.unbind() in PyTorch"),
    ("torch._utils._rebuild_meta", "it is a tensor without values; move it to the CPU in PyTorch before saving"),
    ("torch.Complex", "it is a complex tensor; save torch.view_as_real(x) in PyTorch"),
    ("torch.complex", "it is a complex dtype, and Extempo computes with real numbers only"),
    ("torch.nn.parameter.Uninitialized", "it is a lazy layer that was never called; call it once in PyTorch"),
    ("torch.nn.", f"Extempo has no such module; {_STATE_DICT}"),
    ("torch.optim.", "Extempo has no such optimizer; save optimizer.state_dict() in PyTorch"),
    ("torch.", "Extempo has no such thing; save tensors of its ten dtypes in PyTorch"),
)
_LAZY = "torch.nn.parameter.Uninitialized"  # names that exist here as well, and of which a file can make nothing


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
        self._blanks: dict[int, Any] = {}  # the objects made, by id
        self.states: list[Any] = []  # what they were given
        self._calls: dict[str, Callable[..., Any]] = {
            **_CALLS,
            "torch._utils._rebuild_tensor": self._tensor,
            "torch._utils._rebuild_tensor_v2": self._tensor,
            "torch._utils._rebuild_tensor_v3": self._tensor_of_dtype,
            "torch._utils._rebuild_parameter": _parameter,
            "torch._utils._rebuild_parameter_with_state": _parameter,
            "torch._tensor._rebuild_from_type_v2": _of_type,
            "copyreg._reconstructor": self._reconstructed,
            "builtins.getattr": _function_of_torch,
        }

    def find(self, module: str, name: str) -> Any:
        """The meaning of a name: a dtype, or something to call; an error for the rest."""
        name = _RENAMED.get((module, name), name)
        path = f"{_MODULES.get(module, module)}.{name}"
        if path.startswith(_LAZY):
            raise UnsupportedError(f"load: the file needs {path}, which is refused: {dict(_ADVICE)[_LAZY]}")
        call = self._calls.get(path)
        if call is not None or path in _ARGUMENTS:
            return Callee(path, call)
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        if module in ("torch", "torch.storage") and name in _STORAGES:
            return StorageType(path, _DTYPES[_STORAGES[name]])
        advice = next((text for start, text in _ADVICE if path.startswith(start)), None)
        found = look_up(module, name)
        if advice is not None and (found is MISSING or isinstance(found, dtype)):  # a dtype that exists by name only
            raise UnsupportedError(f"load: the file needs {path}, which is refused: {advice}")
        return found_name(_MODULES.get(module, module), name)

    def make(self, found: Any, args: tuple[Any, ...], is_new: bool) -> Any:
        """An object of a class that `find` gave: without attributes yet, a namedtuple, or a member of an enum."""
        if is_vouched_for(found):
            call = found.__new__ if is_new else found
            return vouched_result(found.__name__, lambda: call(found, *args) if is_new else call(*args))
        if is_class(found) and is_enum(found) and len(args) == 1 and not is_new:
            return member_of_value(found, args[0])
        if is_class(found) and is_new and is_namedtuple(found):
            return named_tuple(found, args)
        if not is_class(found) or args or not is_new:
            raise UnsupportedError(
                f"load: the pickle calls {found.__module__}.{found.__qualname__}; objects are rebuilt from their "
                "attributes and nothing is called, unless it is listed by extempo.serialization.safe_globals"
            )
        made = blank(found)
        self._blanks[id(made)] = made
        return made

    def _reconstructed(self, cls: Any, base: Any, state: Any = None) -> Any:
        """How objects are made in pickles of the first protocols."""
        if not is_class(cls) or not isinstance(base, Callee) or base.path != "builtins.object" or state is not None:
            raise UnsupportedError("load: the pickle makes an object in a way that is not plain; save with protocol 2")
        return self.make(cls, (), True)

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
        """Give an object its state: its attributes, the versions on a state_dict, the values of an array."""
        if is_vouched_for(type(target)):
            vouched_result(type(target).__name__, lambda: give_vouched_state(target, state))
        elif self._blanks.get(id(target)) is target:
            self.states.append(state)
            _give_attributes(target, state)
        elif type(target) in NAMESPACES.values():
            self.states.append(state)
            give_state(target, state)
        elif type(target) is functools.partial:
            _fill_partial(target, state)
        elif isinstance(target, OrderedDict):
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


def _give_attributes(target: Any, state: Any) -> None:
    """Attributes as pickle has them: a dict, a pair of it and slots, or the values of a dataclass with slots."""
    if type(state) is list and is_dataclass(type(target)):
        give_state(target, None, dict(zip([f.name for f in dataclasses.fields(target)], state, strict=True)))
    elif type(state) is tuple and len(state) == 2:
        give_state(target, *state)
    else:
        give_state(target, state)


def _function_of_torch(owner: Any, name: Any) -> Any:
    """How `torch.tanh` stands in a pickle."""
    if not isinstance(owner, Callee) or owner.path not in _OWNERS_OF_FUNCTIONS or type(name) is not str:
        raise UnsupportedError("load: the file needs builtins.getattr, which is refused: it could reach anything")
    return found_name("torch", name)


def _partial(function: Any) -> Any:
    if not isinstance(function, types.FunctionType | type):
        raise TypeError("a partial of something else than a function")
    return functools.partial(function)


def _fill_partial(target: Any, state: Any) -> None:
    function, args, keywords, attributes = state
    if function is not target.func or type(args) is not tuple or type(keywords) is not dict or attributes:
        raise TypeError("a partial is described wrongly")
    target.__setstate__((function, args, keywords, None))


def _path(*parts: Any) -> Any:
    if not all(type(part) is str for part in parts):
        raise TypeError("a path of something else than text")
    return pathlib.Path(*parts)


def _deque(items: Any = (), limit: Any = None) -> deque[Any]:
    if not isinstance(items, list | tuple) or not (limit is None or _is_size(limit)):
        raise TypeError("a deque is described wrongly")
    return deque(items, limit)


def _ordered(pairs: Any = ()) -> OrderedDict[Any, Any]:
    return OrderedDict((checked_key(key), value) for key, value in pairs)


def _counter(counts: Any = None) -> Counter[Any]:
    if counts is not None and type(counts) is not dict:
        raise TypeError("a Counter is made of something else than a dict")
    return Counter(counts or {})


def _default_dict(factory: Any = None, *rest: Any) -> dict[Any, Any]:
    """With what made its values where that is a type of plain data, else a dict."""
    if rest:
        raise TypeError("a defaultdict with values in its call")
    kind = FACTORIES.get(factory.path.rpartition(".")[2]) if isinstance(factory, Callee) else None
    return {} if kind is None else defaultdict(kind)


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
    "collections.deque": _deque,
    "functools.partial": _partial,
    "argparse.Namespace": argparse.Namespace,
    "types.SimpleNamespace": types.SimpleNamespace,
    "pathlib.PosixPath": _path,
    "pathlib.WindowsPath": _path,
    "pathlib._local.PosixPath": _path,
    "pathlib._local.WindowsPath": _path,
    **PICKLED_DATES,
    "torch.Size": _size,
    "torch.device": _device,
    "torch.serialization._get_layout": _layout,
    "torch.torch_version.TorchVersion": _version,
    "numpy.dtype": _numpy_dtype,
    "numpy._core.multiarray.scalar": _numpy_scalar,
    "numpy._core.multiarray._reconstruct": _empty_array,
    "numpy._core.numeric._frombuffer": _array_on_buffer,
}
_OWNERS_OF_FUNCTIONS = ("torch._C._VariableFunctionsClass", "torch._C._VariableFunctions")
# Names that stand only as arguments of the calls above: what a defaultdict makes, the type of an array or tensor.
_ARGUMENTS = {
    "builtins.object",
    *_OWNERS_OF_FUNCTIONS,
    "numpy.ndarray",
    "torch.Tensor",
    "torch.nn.parameter.Parameter",
    *(f"builtins.{name}" for name in ("bool", "dict", "float", "int", "list", "long", "str", "tuple")),
}
_RENAMED = {
    ("torch.nn.modules.linear", "NonDynamicallyQuantizableLinear"): "Linear",  # which attention layers have
    ("__builtin__", "unicode"): "str",
}
# The same module under the names of other versions.
_MODULES = {
    "__builtin__": "builtins",
    "copy_reg": "copyreg",
    "numpy.core.multiarray": "numpy._core.multiarray",
    "numpy.core.numeric": "numpy._core.numeric",
}
