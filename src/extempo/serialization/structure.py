"""Containers and numbers to JSON and back.

Lists, strings, finite numbers, booleans, None and dicts with string keys are themselves in JSON. Everything else is an
object with the key "$", which says what it is; tensors and arrays are numbers of a table beside the tree, and a ragged
tensor is its values and offsets there.
What comes back is of the type that went in, except a defaultdict, which comes back as a dict: what makes its values is
code. One container at two places comes back as two; one tensor at two places comes back as one.
"""

from __future__ import annotations

import base64
import dataclasses
import math
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.device import device
from ..core.tensor import Tensor
from ..core.types import DTYPES, NAMED_ONLY, Size, dtype
from ..errors import UnsupportedError
from ..ragged_tensors.rows import Rows
from ..ragged_tensors.tensor import RaggedTensor
from .files import FileFormatError
from .header import CODES

MAX_DEPTH = 64  # levels of containers; each takes at most three levels of JSON

_PLAIN = (type(None), bool, str)
_DTYPES = {repr(d).removeprefix("extempo."): d for d in (*DTYPES, *NAMED_ONLY.values())}
_SCALARS = {d.name: d.type for d in CODES}

# Types made of the values in a list: name -> (how to take them out, how to make one of them).
_Parts = tuple[Callable[[Any], Any], Callable[[list[Any]], Any]]
_MADE_OF_PARTS: dict[type, _Parts] = {
    tuple: (list, tuple),
    set: (list, set),
    frozenset: (list, frozenset),
    Size: (list, Size),
    complex: (lambda z: [z.real, z.imag], lambda parts: complex(*parts)),
    slice: (lambda s: [s.start, s.stop, s.step], lambda parts: slice(*parts)),
    range: (lambda r: [r.start, r.stop, r.step], lambda parts: range(*parts)),
}
_BY_NAME = {kind.__name__: parts for kind, parts in _MADE_OF_PARTS.items()}
_DICTS: dict[type, str] = {dict: "dict", defaultdict: "dict", OrderedDict: "OrderedDict", Counter: "Counter"}
_DICTS_BY_NAME: dict[str, type] = {"dict": dict, "OrderedDict": OrderedDict, "Counter": Counter}
# What can be a key of a dict or an element of a set and means the same after loading.
_KEYS = (*_PLAIN, int, float, complex, bytes, tuple, frozenset, Size, dtype, device)


# ---- encoding


def _encode_bytes(value: bytes | bytearray) -> Any:
    return {"$": type(value).__name__, "base64": base64.b64encode(value).decode()}


# Types whose values need nothing else to be written.
_ENCODERS: dict[type, Callable[[Any], Any]] = {
    int: lambda n: n if -(1 << 63) <= n < 1 << 63 else {"$": "int", "hex": hex(n)},
    float: lambda x: x if math.isfinite(x) else {"$": "float", "text": str(x)},
    bytes: _encode_bytes,
    bytearray: _encode_bytes,
    dtype: lambda d: {"$": "dtype", "name": repr(d).removeprefix("extempo.")},
    device: lambda d: {"$": "device", "name": str(d)},
}


class Encoder:
    """Makes the tree, and gathers the tensors and arrays that it refers to."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.paths: list[tuple[Any, ...]] = []
        self._numbers: dict[int, int] = {}
        self._open: set[int] = set()  # the containers around the current value

    def encode(self, value: Any, path: tuple[Any, ...] = ()) -> Any:
        """The JSON of a value that stands at `path`."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind in _ENCODERS:
            return _ENCODERS[kind](value)
        if isinstance(value, Tensor | np.ndarray):
            return {"$": "object", "number": self._number(value, path)}
        if kind is RaggedTensor:
            parts = {"values": value.values(), "offsets": value._rows.offsets}
            return {"$": "ragged", "dim": value._dim, **{k: self.encode(v, (*path, k)) for k, v in parts.items()}}
        if isinstance(value, np.generic) and value.dtype in CODES:
            return {"$": "scalar", "dtype": value.dtype.name, "value": self.encode(value.item(), path)}
        if kind is list or kind in _MADE_OF_PARTS or kind in _DICTS:
            return self._container(value, path)
        raise refusal(value, path)

    def _number(self, value: Any, path: tuple[Any, ...]) -> int:
        """The place of a tensor or array in the table."""
        known = self._numbers.get(id(value))
        if known is None:
            known = self._numbers[id(value)] = len(self.objects)
            self.objects.append(value)  # which also keeps it alive, so that its id stays its own
            self.paths.append(path)
        return known

    def _container(self, value: Any, path: tuple[Any, ...]) -> Any:
        if id(value) in self._open:
            raise UnsupportedError(f"save: {place(path)} contains itself; save a structure that ends")
        if len(self._open) >= MAX_DEPTH:
            raise UnsupportedError(f"save: {place(path)} is nested more than {MAX_DEPTH} levels deep; flatten it")
        self._open.add(id(value))
        try:
            kind = type(value)
            if kind in _DICTS:
                return self._dict(value, path)
            take_out, _ = _MADE_OF_PARTS.get(kind, (list, list))
            is_set = kind in (set, frozenset)
            parts = [
                self._key(v, path) if is_set else self.encode(v, (*path, i)) for i, v in enumerate(take_out(value))
            ]
            return parts if kind is list else {"$": kind.__name__, "items": parts}
        finally:
            self._open.remove(id(value))

    def _dict(self, value: dict[Any, Any], path: tuple[Any, ...]) -> Any:
        kind = _DICTS[type(value)]
        if kind == "dict" and "$" not in value and all(type(key) is str for key in value):
            return {key: self.encode(v, (*path, key)) for key, v in value.items()}
        pairs = [[self._key(key, path), self.encode(v, (*path, key))] for key, v in value.items()]
        node: dict[str, Any] = {"$": kind, "items": pairs}
        versions = getattr(value, "_metadata", None)  # the versions of modules, which state_dict() leaves there
        if kind == "OrderedDict" and versions is not None:
            node["metadata"] = self.encode(versions, (*path, "_metadata"))
        return node

    def _key(self, key: Any, path: tuple[Any, ...]) -> Any:
        if type(key) not in _KEYS:
            raise UnsupportedError(
                f"save: {place(path)} has a {type(key).__name__} as a key or element; "
                "use strings, numbers or tuples of them"
            )
        return self.encode(key, path)


def place(path: tuple[Any, ...]) -> str:
    """`obj["model"][0]`, as one would write it."""
    return "obj" + "".join(f'["{key}"]' if type(key) is str else f"[{key!r}]" for key in path)


def tensor_name(path: tuple[Any, ...]) -> str:
    """The name of a tensor in the file: the keys that lead to it, joined by dots as in a state_dict."""
    name = ".".join(map(str, path)).encode("utf-8", "replace").decode()
    return name if name and name != "__metadata__" else name + "tensor"


def refusal(value: Any, path: tuple[Any, ...]) -> UnsupportedError:
    """Why this object is not saved, where it stands and what to do."""
    kind = type(value)
    if not isinstance(value, type) and callable(getattr(value, "state_dict", None)):
        what = "this" if not path else place(path)
        return UnsupportedError(
            f"save: {what} is a whole {kind.__name__}, which is code as well as values; save its values with "
            "ex.save(x.state_dict(), path), and bring them back with x.load_state_dict(ex.load(path))"
        )
    return UnsupportedError(f"save: {place(path)} is of type {kind.__name__}; {_advice(value, kind)}")


def _advice(value: Any, kind: type) -> str:
    if kind.__module__.partition(".")[0] == "torch":
        return "convert tensors of PyTorch with ex.from_dlpack(x)"
    if isinstance(value, type) or callable(value):
        return "code cannot be saved: leave it out, or save its name and look it up after loading"
    if isinstance(value, np.generic | np.ndarray):
        return f"its dtype {value.dtype} has no place in the file: convert it to numbers"
    if isinstance(value, Tensor):
        return "save x.detach(), which is a plain tensor"
    if hasattr(value, "_asdict"):
        return "save x._asdict(), or tuple(x)"
    if dataclasses.is_dataclass(value):
        return "save dataclasses.asdict(x)"
    for plain in (dict, list, tuple, str, int, float, set):
        if isinstance(value, plain):
            return f"only the built-in type comes back as what it was: save {plain.__name__}(x)"
    if hasattr(value, "__fspath__"):
        return "save str(x)"
    if hasattr(value, "__dict__"):
        return "save vars(x), or what you need of it as a dict"
    return "save it as tensors, numbers, strings, lists and dicts"


# ---- decoding


def decode(node: Any, objects: list[Any]) -> Any:
    """The value of a JSON tree. Raises FileFormatError where it is not one that `Encoder` makes."""
    try:
        return _decode(node, objects)
    except FileFormatError:
        raise
    except (TypeError, ValueError, KeyError, IndexError, OverflowError, RecursionError):
        raise FileFormatError("its structure is not one that ex.save writes") from None


def _decode(node: Any, objects: list[Any]) -> Any:
    if type(node) is list:
        return [_decode(v, objects) for v in node]
    if type(node) is not dict:
        return node
    if "$" not in node:
        return {key: _decode(v, objects) for key, v in node.items()}
    kind = node["$"]
    if kind in _DICTS_BY_NAME:
        return _decode_dict(_DICTS_BY_NAME[kind](), node, objects)
    if kind in _BY_NAME:
        return _BY_NAME[kind][1]([_decode(v, objects) for v in node["items"]])
    return _DECODERS[kind](node, objects)


def _decode_dict(made: Any, node: Any, objects: list[Any]) -> Any:
    for key, value in node["items"]:
        made[_decode(key, objects)] = _decode(value, objects)
    if "metadata" in node:
        made._metadata = _decode(node["metadata"], objects)
    return made


def _decode_object(node: Any, objects: list[Any]) -> Any:
    number = node["number"]
    if type(number) is not int or number < 0:
        raise IndexError
    return objects[number]


def _decode_ragged(node: Any, objects: list[Any]) -> RaggedTensor:
    values, offsets = _decode(node["values"], objects), _decode(node["offsets"], objects)
    if not isinstance(values, Tensor) or type(offsets) is not np.ndarray or type(node["dim"]) is not int:
        raise TypeError
    if offsets.dtype != np.int64:
        raise TypeError
    return RaggedTensor(values, Rows(offsets), node["dim"])


_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_DECODERS: dict[str, Callable[[Any, list[Any]], Any]] = {
    "object": _decode_object,
    "ragged": _decode_ragged,
    "int": lambda node, _: int(node["hex"], 16),
    "float": lambda node, _: _FLOATS[node["text"]],
    "bytes": lambda node, _: base64.b64decode(node["base64"], validate=True),
    "bytearray": lambda node, _: bytearray(base64.b64decode(node["base64"], validate=True)),
    "dtype": lambda node, _: _DTYPES[node["name"]],
    "device": lambda node, _: device(node["name"]),
    "scalar": lambda node, _: _SCALARS[node["dtype"]](_decode(node["value"], [])),
}
