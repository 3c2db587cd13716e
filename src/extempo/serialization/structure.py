"""Containers, numbers and objects to JSON.

Lists, strings, finite numbers, booleans, None and dicts with string keys are themselves in JSON. Everything else is an
object with the key "$", which says what it is; tensors and arrays are numbers of a table beside the tree, and a ragged
tensor is its values and offsets there.

What is at several places, contains itself or is an object of a class stands in a second table, its entries, and the
tree has its number: so one object stays one, and no depth of objects is too deep. An object is the path of its class
and its attributes; nothing that is saved is code. What comes back is of the type that went in, except a defaultdict
whose values are made by a function, which comes back as a dict.
"""

from __future__ import annotations

import base64
import enum
import functools
import math
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.device import device
from ..core.tensor import Tensor
from ..core.types import DTYPES, NAMED_ONLY, Size, dtype
from ..errors import UnsupportedError
from ..nn.module import Module
from ..nn.tables import TABLES
from ..ragged_tensors.tensor import RaggedTensor
from ..random import Generator
from .class_rule import has_plain_hash, is_class, is_namedtuple, path_of, why_no_instance
from .header import CODES
from .leaves import NAMESPACES, NUMPY_DTYPES, TEXTS, factory_name, path_name
from .objects import OWN_HOOKS, State, call_of, class_to_save, is_new_object, state_of

MAX_DEPTH = 64  # levels of containers; each takes at most three levels of JSON

PLAIN = (type(None), bool, str)
DTYPE_NAMES = {repr(d).rpartition(".")[2]: d for d in (*DTYPES, *NAMED_ONLY.values())}

# Types made of the values in a list: name -> (how to take them out, how to make one of them).
_Parts = tuple[Callable[[Any], Any], Callable[[list[Any]], Any]]
MADE_OF_PARTS: dict[type, _Parts] = {
    tuple: (list, tuple),
    set: (list, set),
    frozenset: (list, frozenset),
    Size: (list, Size),
    complex: (lambda z: [z.real, z.imag], lambda parts: complex(*parts)),
    slice: (lambda s: [s.start, s.stop, s.step], lambda parts: slice(*parts)),
    range: (lambda r: [r.start, r.stop, r.step], lambda parts: range(*parts)),
}
_DICTS: dict[type, str] = {dict: "dict", defaultdict: "dict", OrderedDict: "OrderedDict", Counter: "Counter"}
_CONTAINERS = {list, deque, *MADE_OF_PARTS, *_DICTS} - {complex, slice, range, Size}
_FLAT = (*PLAIN, int, float)
# Names of what makes an object in place of its class: pickle's way, which says nothing of the class.
_NOT_NAMED = ("copyreg", "builtins")


def _encode_bytes(value: bytes | bytearray) -> Any:
    return {"$": type(value).__name__, "base64": base64.b64encode(value).decode()}


# Types whose values need nothing else to be written.
_ENCODERS: dict[type, Callable[[Any], Any]] = {
    int: lambda n: n if -(1 << 63) <= n < 1 << 63 else {"$": "int", "hex": hex(n)},
    float: lambda x: x if math.isfinite(x) else {"$": "float", "text": str(x)},
    bytes: _encode_bytes,
    bytearray: _encode_bytes,
    dtype: lambda d: {"$": "dtype", "name": repr(d).rpartition(".")[2]},
    device: lambda d: {"$": "device", "name": str(d)},
}


class Attribute(str):
    """A step of a path that is an attribute of an object, not a key."""

    __slots__ = ()


class Encoder:
    """Makes the tree, and gathers the tensors and arrays that it refers to. `repeated`: ids of what has an entry."""

    def __init__(self, repeated: frozenset[int] = frozenset()) -> None:
        self.objects: list[Any] = []
        self.paths: list[tuple[Any, ...]] = []
        self.entries: list[Any] = []
        self.repeated = repeated
        self._numbers: dict[int, int] = {}
        self._entry_numbers: dict[int, int] = {}
        self._waiting: deque[tuple[int, Any, tuple[Any, ...]]] = deque()  # entries that have a number and no node yet
        self._met: dict[int, Any] = {}  # which also keeps them alive, so that an id stays its own
        self._open: set[int] = set()  # the containers around the current value
        self._root = "obj"

    def run(self, obj: Any) -> Any:
        """The tree of what is saved; `entries` and `objects` belong to it."""
        self._root = "model" if isinstance(obj, Module) else "obj"
        tree = self.encode(obj)
        while self._waiting:
            number, value, path = self._waiting.popleft()
            self.entries[number] = self._entry(value, path)
        return tree

    def encode(self, value: Any, path: tuple[Any, ...] = ()) -> Any:
        """The JSON of a value that stands at `path`."""
        kind = type(value)
        if kind in PLAIN:
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
        if kind in _CONTAINERS or (issubclass(kind, tuple) and is_namedtuple(kind) and not why_no_instance(kind)):
            return self._shareable(value, path)
        if kind in MADE_OF_PARTS:
            return self._container(value, path)
        return self._leaf(value, path) or self._reference(value, path)

    def _number(self, value: Any, path: tuple[Any, ...]) -> int:
        """The place of a tensor or array in the table."""
        known = self._numbers.get(id(value))
        if known is None:
            known = self._numbers[id(value)] = len(self.objects)
            self.objects.append(value)  # which also keeps it alive, so that its id stays its own
            self.paths.append(path)
        return known

    def refuse(self, value: Any, path: tuple[Any, ...]) -> UnsupportedError:
        """Why this object is not saved, where it stands and what to do."""
        return UnsupportedError(f"save: {place(path, self._root)} {_reason(value)}")

    # ---- entries

    def _reference(self, value: Any, path: tuple[Any, ...]) -> Any:
        """The number of an entry, a new one for a value that has none."""
        known = self._entry_numbers.get(id(value))
        if known is None:
            known = self._entry_numbers[id(value)] = len(self.entries)
            self._met[id(value)] = value
            self.entries.append(None)
            self._waiting.append((known, value, path))
        return {"$": "entry", "number": known}

    def _shareable(self, value: Any, path: tuple[Any, ...]) -> Any:
        """A container: where it stands, or as an entry if it was met at several places in an earlier run."""
        if type(value) is tuple and all(type(part) in _FLAT for part in value):
            return self._container(value, path)  # nobody can tell one of them from another
        if id(value) in self.repeated:
            return self._reference(value, path)
        if id(value) in self._met:
            self.repeated |= {id(value)}  # the run is to be done again
            return None
        self._met[id(value)] = value
        return self._container(value, path)

    def _entry(self, value: Any, path: tuple[Any, ...]) -> Any:
        kind = type(value)
        if kind in _CONTAINERS or issubclass(kind, tuple):
            return self._container(value, path)
        if kind is Generator:
            return {"$": "Generator", "state": value.get_state().numpy().tobytes().hex()}
        if kind in NAMESPACES.values():
            return {"$": kind.__name__, "attributes": self._attributes(vars(value), path)}
        if kind is functools.partial:
            parts = {"function": value.func, "args": list(value.args), "keywords": dict(value.keywords)}
            return {"$": "partial", **{name: self.encode(v, (*path, Attribute(name))) for name, v in parts.items()}}
        if kind.__module__.partition(".")[0] == "torch" or isinstance(value, np.generic):
            raise self.refuse(value, path)
        return self._object(value, path)

    def _object(self, value: Any, path: tuple[Any, ...]) -> Any:
        """An object of a class: its attributes if a file may rebuild it, else what pickle would do."""
        cls = class_to_save(value)
        name = path_of(cls)
        if name is None:
            raise self.refuse(value, path)
        if why_no_instance(cls):
            return self._call(value, path)
        state = state_of(value)
        if state is None:
            raise self.refuse(value, path)
        hooked = [name for name in OWN_HOOKS if state.attributes.get(name) is not None]
        if isinstance(value, Module) and hooked:
            raise UnsupportedError(
                f"save: {place(path, self._root)} has hooks, which are code; remove them before saving, or save "
                f"{place(path, self._root)}.state_dict()"
            )
        return {"$": "instance", "class": name, **self._state(value, state, path)}

    def _state(self, value: Any, state: State, path: tuple[Any, ...]) -> dict[str, Any]:
        attributes = state.attributes
        node = {"state": self._attributes({k: v for k, v in attributes.items() if k not in TABLES}, path)}
        if isinstance(value, Module):
            # Their names are the module's own, so that tensors have the names of a state_dict in the file.
            node["tables"] = {name: self._attributes(attributes[name], path) for name in TABLES}
        elif any(name in attributes for name in TABLES):
            node["state"] = self._attributes(attributes, path)
        if state.slots:
            node["slots"] = self._attributes(state.slots, path)
        return node

    def _attributes(self, attributes: Any, path: tuple[Any, ...]) -> Any:
        # Pairs, as a name may be one that JSON needs for itself.
        return [[str(name), self.encode(value, (*path, Attribute(name)))] for name, value in attributes.items()]

    def _call(self, value: Any, path: tuple[Any, ...]) -> Any:
        """What pickle would do to make an object; to be read by those who vouch for its class only."""
        made = call_of(value)
        if made is None:
            raise self.refuse(value, path)
        maker, args, state, items, pairs = made
        is_new = is_new_object(maker)
        name = path_of(args[0] if is_new else maker)
        if name is None or (not is_new and name.partition(":")[0] in _NOT_NAMED):
            raise self.refuse(value, path)
        node = {"$": "call", "name": name, "new": is_new, "args": self.encode(list(args[is_new:]), path)}
        if state is not None:
            attributes = state if type(state) is dict else {}
            node["state"] = (
                {"$": "attributes", "pairs": self._attributes(attributes, path)}
                if attributes and all(type(key) is str for key in attributes)
                else self.encode(state, path)
            )
        node["items"] = self.encode(list(items or ()), path)
        node["pairs"] = self.encode([list(pair) for pair in pairs or ()], path)
        return node

    # ---- containers

    def _container(self, value: Any, path: tuple[Any, ...]) -> Any:
        where = place(path, self._root)
        if id(value) in self._open:
            raise UnsupportedError(f"save: {where} contains itself; save a structure that ends")
        if len(self._open) >= MAX_DEPTH:
            raise UnsupportedError(f"save: {where} is nested more than {MAX_DEPTH} levels deep; flatten it")
        self._open.add(id(value))
        try:
            return self._dict(value, path) if isinstance(value, dict) else self._sequence(value, path)
        finally:
            self._open.remove(id(value))

    def _sequence(self, value: Any, path: tuple[Any, ...]) -> Any:
        kind = type(value)
        take_out, _ = MADE_OF_PARTS.get(kind, (list, list))
        is_set = kind in (set, frozenset)
        parts = [self._key(v, path) if is_set else self.encode(v, (*path, i)) for i, v in enumerate(take_out(value))]
        if kind is list:
            return parts
        if kind is deque:
            return {"$": "deque", "items": parts, "maxlen": value.maxlen}
        if kind in MADE_OF_PARTS:
            return {"$": kind.__name__, "items": parts}
        name = path_of(kind)
        if name is None:
            raise self.refuse(value, path)
        return {"$": "namedtuple", "class": name, "items": parts}

    def _dict(self, value: dict[Any, Any], path: tuple[Any, ...]) -> Any:
        kind = _DICTS[type(value)]
        factory = factory_name(value.default_factory) if isinstance(value, defaultdict) else None
        if kind == "dict" and factory is None and "$" not in value and all(type(key) is str for key in value):
            return {key: self.encode(v, (*path, key)) for key, v in value.items()}
        pairs = [
            [self._key(key, path), self.encode(v, (*path, key if type(key) in _FLAT else i))]
            for i, (key, v) in enumerate(value.items())
        ]
        node: dict[str, Any] = {"$": kind, "items": pairs}
        if factory is not None:
            node.update({"$": "defaultdict", "factory": factory})
        versions = getattr(value, "_metadata", None)  # the versions of modules, which state_dict() leaves there
        if kind == "OrderedDict" and versions is not None:
            node["metadata"] = self.encode(versions, (*path, "_metadata"))
        return node

    def _key(self, key: Any, path: tuple[Any, ...]) -> Any:
        if not has_plain_hash(key):
            raise UnsupportedError(
                f"save: {place(path, self._root)} has a {type(key).__name__} as a key or element; "
                "use strings, numbers or tuples of them"
            )
        return self.encode(key, path)

    # ---- values without parts

    def _leaf(self, value: Any, path: tuple[Any, ...]) -> Any:
        """The node of a value that needs nothing else to be written; None for other values."""
        kind = type(value)
        if kind in TEXTS:
            return {"$": "text", "type": kind.__name__, "text": TEXTS[kind][0](value)}
        if path_name(value) is not None:
            return {"$": "path", "type": path_name(value), "text": str(value)}
        if isinstance(value, np.dtype) and NUMPY_DTYPES.get(value.name) == value:
            return {"$": "numpy.dtype", "name": value.name}
        if isinstance(value, enum.Enum):
            name = path_of(kind)
            if name is None or value.name not in kind.__members__:
                raise self.refuse(value, path)
            return {"$": "member", "class": name, "name": value.name}
        if is_class(value) or isinstance(value, _FUNCTIONS):
            name = path_of(value)
            if name is None:
                raise self.refuse(value, path)
            return {"$": "name", "name": name}
        return None


_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)


def encoded(obj: Any) -> tuple[Any, Encoder]:
    """The tree of what is saved, and who made it. A second run gives entries to what the first met several times."""
    first = Encoder()
    tree = first.run(obj)
    if not first.repeated:
        return tree, first
    second = Encoder(frozenset(first.repeated))
    return second.run(obj), second


def place(path: tuple[Any, ...], root: str = "obj") -> str:
    """`obj["model"][0].weight`, as one would write it."""
    return root + "".join(map(_step, path))


def _step(key: Any) -> str:
    if type(key) is Attribute:
        return f".{key}" if key.isidentifier() else f"[{key}]"
    return f'["{key}"]' if type(key) is str else f"[{key!r}]"


def tensor_name(path: tuple[Any, ...]) -> str:
    """The name of a tensor in the file: the keys that lead to it, joined by dots as in a state_dict."""
    name = ".".join(map(str, path)).encode("utf-8", "replace").decode()
    return name if name and name != "__metadata__" else name + "tensor"


def _reason(value: Any) -> str:
    """What a value is that cannot be saved, and what to do."""
    kind = type(value)
    if isinstance(value, types.FunctionType) and value.__name__ == "<lambda>":
        return "is a lambda, which is code without a name; use a function of extempo.nn.functional, or a module"
    if isinstance(value, types.MethodType):
        return f"is the method {value.__qualname__} of an object; call it where it is needed in place of keeping it"
    if (isinstance(value, types.FunctionType) or is_class(value)) and "<locals>" in value.__qualname__:
        return f"is {value.__qualname__}, which is defined inside a function; define it at the top of a module"
    if "<locals>" in kind.__qualname__:
        return (
            f"is of type {kind.__name__}, which is defined inside a function and so not found again; define the class "
            "at the top of a module, or save its state_dict or values"
        )
    return f"is of type {kind.__name__}; {_advice(value, kind)}"


def _advice(value: Any, kind: type) -> str:
    if kind.__module__.partition(".")[0] == "torch":
        return "convert tensors of PyTorch with ex.from_dlpack(x)"
    if is_class(value) or isinstance(value, _FUNCTIONS):
        return "it is not found again by its name: leave it out, or save its name and look it up after loading"
    if isinstance(value, np.generic | np.ndarray):
        return f"its dtype {value.dtype} has no place in the file: convert it to numbers"
    if isinstance(value, Tensor):
        return "save x.detach(), which is a plain tensor"
    if isinstance(value, enum.Enum):
        return "it is no single member of its class; save x.value"
    return "save it as tensors, numbers, strings, lists and dicts"
