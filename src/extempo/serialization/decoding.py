"""JSON back to containers, numbers and objects: what `structure` wrote, or an error; never code that a file names.

Entries are made in two steps, so that they can refer to each other in circles: first each as it is without its
contents, the last one first, since most refer to later ones; then their contents. What is made of its contents, such
as a tuple, is made when it is asked for.
"""

from __future__ import annotations

import base64
import functools
import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.device import device
from ..core.tensor import Tensor
from ..errors import ExtempoError, UnsupportedError
from ..nn.tables import TABLES
from ..ops import from_numpy
from ..ragged_tensors.rows import Rows
from ..ragged_tensors.tensor import RaggedTensor
from ..random import Generator
from .class_rule import MISSING, has_plain_hash, is_class, is_enum, is_loaded, is_vouched_for, look_up, why_not
from .files import FileFormatError
from .header import CODES
from .leaves import FACTORIES, NAMESPACES, NUMPY_DTYPES, TEXTS, TEXTS_BY_NAME, path_from
from .objects import blank, give_state, give_vouched_state, member, named_tuple, refused_name, vouched_result
from .structure import DTYPE_NAMES, MADE_OF_PARTS

_BY_NAME = {kind.__name__: parts for kind, parts in MADE_OF_PARTS.items()}
_DICTS: dict[str, Callable[[], Any]] = {"dict": dict, "OrderedDict": OrderedDict, "Counter": Counter}
_SCALARS = {d.name: d.type for d in CODES}
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def decode(tree: Any, objects: list[Any], entries: Any = ()) -> Any:
    """The value of a JSON tree. Raises FileFormatError where it is not one that `Encoder` makes."""
    try:
        return Decoder(objects, entries).run(tree)
    except (FileFormatError, UnsupportedError):
        raise
    except (TypeError, ValueError, KeyError, IndexError, OverflowError, RecursionError, AttributeError) as error:
        detail = f" ({error})" if type(error) is TypeError else ""
        raise FileFormatError(f"its structure is not one that ex.save writes{detail}") from None


def found_name(module: str, name: str) -> Any:
    """The class or function that a file names, if it may; an error that says why not, and what to do."""
    found = look_up(module, name)
    if found is MISSING:
        what = "which it does not have" if is_loaded(module) else "which is not imported, and loading imports nothing"
        raise UnsupportedError(
            f"load: the file needs {module}.{name}: it is looked for in the module {module}, {what}; import the module "
            "that has the class, under the name that it had when it was saved, before loading"
        )
    reason = why_not(found)
    if reason:
        raise refused_name(module, name, reason)
    return found


class Decoder:
    """One file's tree and entries."""

    def __init__(self, objects: list[Any], entries: Any) -> None:
        if not isinstance(entries, list | tuple):
            raise TypeError("entries that are no list")
        self._objects = objects
        self._entries = entries
        self._made: list[Any] = [MISSING] * len(entries)
        self._filled = [False] * len(entries)
        self._under_way: set[int] = set()  # entries that are being made of their contents

    def run(self, tree: Any) -> Any:
        """The value of the tree, every entry made and filled."""
        for number in reversed(range(len(self._entries))):
            self._value(number)
        for number in reversed(range(len(self._entries))):
            self._fill(number)
        return self._decode(tree)

    # ---- entries

    def _value(self, number: int) -> Any:
        """An entry, perhaps without its contents yet."""
        if self._made[number] is MISSING:
            if number in self._under_way:
                raise TypeError("an entry that is made of itself")
            self._under_way.add(number)
            self._made[number] = self._begin(self._entries[number])
            self._under_way.remove(number)
        return self._made[number]

    def _begin(self, node: Any) -> Any:
        if type(node) is list:
            return []
        kind = node.get("$")
        if kind is None:
            return {}
        if type(kind) is not str:
            raise TypeError("a kind that is not text")
        start = _STARTS.get(kind)
        return self._decode(node) if start is None else start(self, node)

    def _fill(self, number: int) -> None:
        """Give an entry its contents."""
        if self._filled[number]:
            return
        self._filled[number] = True
        node, made = self._entries[number], self._made[number]
        if type(node) is list:
            made.extend(map(self._decode, node))
        elif "$" not in node:
            made.update({key: self._decode(value) for key, value in node.items()})
        elif node["$"] in _FILLS:
            _FILLS[node["$"]](self, made, node)

    def _completed(self, node: Any) -> Any:
        """The value of a tree whose entries have all their contents: arguments of a call."""
        for number in _entries_in(node):
            self._value(number)
            self._fill(number)
        return self._decode(node)

    # ---- the tree

    def _decode(self, node: Any) -> Any:
        if type(node) is list:
            return list(map(self._decode, node))
        if type(node) is not dict:
            return node
        if "$" not in node:
            return {key: self._decode(value) for key, value in node.items()}
        kind = node["$"]
        if kind in _BY_NAME:
            parts = list(map(self._decode, node["items"]))
            if kind in ("set", "frozenset"):
                parts = list(map(_key, parts))
            return _BY_NAME[kind][1](parts)
        if kind in _FILLS:
            made = _STARTS[kind](self, node)
            _FILLS[kind](self, made, node)
            return made
        return _DECODERS[kind](self, node)

    def _entry(self, node: Any) -> Any:
        number = node["number"]
        if type(number) is not int or not 0 <= number < len(self._entries):
            raise IndexError
        return self._value(number)

    def _object(self, node: Any) -> Any:
        number = node["number"]
        if type(number) is not int or number < 0:
            raise IndexError
        return self._objects[number]

    def _ragged(self, node: Any) -> RaggedTensor:
        values, offsets = self._decode(node["values"]), self._decode(node["offsets"])
        if not isinstance(values, Tensor) or type(offsets) is not np.ndarray or type(node["dim"]) is not int:
            raise TypeError
        if offsets.dtype != np.int64:
            raise TypeError
        return RaggedTensor(values, Rows(offsets), node["dim"])

    def _scalar(self, node: Any) -> Any:
        value = node["value"]
        if type(value) is dict:
            value = self._decode({"$": value["$"], **{k: v for k, v in value.items() if k in ("hex", "text")}})
        if type(value) not in (int, float, bool):
            raise TypeError
        return _SCALARS[node["dtype"]](value)

    def _partial(self, node: Any) -> Any:
        function, keywords = self._decode(node["function"]), self._decode(node["keywords"])
        if not callable(function) or type(keywords) is not dict:
            raise TypeError("a partial of something else than a function")
        return functools.partial(function, *self._decode(node["args"]), **keywords)

    def _member(self, node: Any) -> Any:
        found = self._class(node)
        if not is_enum(found):
            raise TypeError("a member of something else than an enum")
        return member(found, node["name"])

    def _class(self, node: Any) -> Any:
        module, _, name = node["class"].partition(":")
        found = found_name(module, name)
        if not is_class(found):
            raise refused_name(module, name, "it is no class")
        return found

    def _name(self, node: Any) -> Any:
        module, _, name = node["name"].partition(":")
        return found_name(module, name)

    # ---- containers

    def _fill_pairs(self, made: Any, node: Any) -> None:
        for key, value in node["items"]:
            made[_key(self._decode(key))] = self._decode(value)
        if "metadata" in node and isinstance(made, OrderedDict):
            made._metadata = self._decode(node["metadata"])  # type: ignore[attr-defined] # as state_dict() leaves it

    def _fill_sequence(self, made: Any, node: Any) -> None:
        made.extend(map(self._decode, node["items"]))

    def _fill_set(self, made: Any, node: Any) -> None:
        made.update(_key(self._decode(part)) for part in node["items"])

    def _new_deque(self, node: Any) -> Any:
        limit = node["maxlen"]
        if limit is not None and (type(limit) is not int or limit < 0):
            raise TypeError("a deque of an odd length")
        return deque(maxlen=limit)

    # ---- objects

    def _pairs(self, pairs: Any) -> dict[str, Any]:
        made = {}
        for name, value in pairs:
            if type(name) is not str:
                raise TypeError("an attribute whose name is not text")
            made[name] = self._decode(value)
        return made

    def _fill_namespace(self, made: Any, node: Any) -> None:
        made.__dict__.update(self._pairs(node["attributes"]))

    def _fill_instance(self, made: Any, node: Any) -> None:
        state = self._pairs(node["state"])
        for name, entries in node.get("tables", {}).items():
            if name not in TABLES:
                raise TypeError("a table of an odd name")
            state[name] = self._pairs(entries)
        give_state(made, state, self._pairs(node.get("slots", ())))

    def _new_call(self, node: Any) -> Any:
        """An object that pickle would make by a call, of a class that the user vouches for."""
        module, _, name = node["name"].partition(":")
        found = found_name(module, name)
        if not is_vouched_for(found):
            raise refused_name(module, name, "making one of these is a call, which only a name on that list may do")
        args = self._completed(node["args"])
        return vouched_result(name, (lambda: found.__new__(found, *args)) if node["new"] else (lambda: found(*args)))

    def _fill_call(self, made: Any, node: Any) -> None:
        def fill() -> None:
            if "state" in node:
                give_vouched_state(made, self._completed(node["state"]))
            for item in self._completed(node["items"]):
                made.append(item)
            for key, value in self._completed(node["pairs"]):
                made[key] = value

        vouched_result(type(made).__name__, fill)


def _entries_in(node: Any) -> list[int]:
    """The numbers of the entries that a tree refers to."""
    todo, found = [node], []
    while todo:
        part = todo.pop()
        if type(part) is list:
            todo.extend(part)
        elif type(part) is dict:
            if part.get("$") == "entry" and type(part["number"]) is int and part["number"] >= 0:
                found.append(part["number"])
            todo.extend(part.values())
    return found


def _key(key: Any) -> Any:
    if not has_plain_hash(key):
        raise TypeError(f"a {type(key).__name__} as a key")
    return key


def _empty(kind: Callable[[], Any]) -> Callable[[Decoder, Any], Any]:
    return lambda _, node: kind()


def _generator(_: Decoder, node: Any) -> Generator:
    made = Generator()
    try:
        made.set_state(from_numpy(np.frombuffer(bytearray.fromhex(node["state"]), np.uint8)))
    except ExtempoError:
        raise TypeError("the state of a generator is not one") from None
    return made


def _text(_: Decoder, node: Any) -> Any:
    return TEXTS[TEXTS_BY_NAME[node["type"]]][1](node["text"])


# Values that are made of their contents, or have none.
_DECODERS: dict[str, Callable[[Decoder, Any], Any]] = {
    "entry": Decoder._entry,
    "object": Decoder._object,
    "ragged": Decoder._ragged,
    "scalar": Decoder._scalar,
    "partial": Decoder._partial,
    "member": Decoder._member,
    "name": Decoder._name,
    "namedtuple": lambda d, node: named_tuple(d._class(node), list(map(d._decode, node["items"]))),
    "attributes": lambda d, node: d._pairs(node["pairs"]),
    "Generator": _generator,
    "text": _text,
    "path": lambda _, node: path_from(node["type"], node["text"]),
    "numpy.dtype": lambda _, node: NUMPY_DTYPES[node["name"]],
    "int": lambda _, node: int(node["hex"], 16),
    "float": lambda _, node: _FLOATS[node["text"]],
    "bytes": lambda _, node: base64.b64decode(node["base64"], validate=True),
    "bytearray": lambda _, node: bytearray(base64.b64decode(node["base64"], validate=True)),
    "dtype": lambda _, node: DTYPE_NAMES[node["name"]],
    "device": lambda _, node: device(node["name"]),
}
# Values that can be made first and get their contents later: how they begin, and how they are filled.
_STARTS: dict[str, Callable[[Decoder, Any], Any]] = {
    **{name: _empty(kind) for name, kind in (*_DICTS.items(), *NAMESPACES.items())},
    "defaultdict": lambda _, node: defaultdict(FACTORIES[node["factory"]]),
    "deque": Decoder._new_deque,
    "set": lambda _, node: set(),
    "instance": lambda d, node: blank(d._class(node)),
    "call": Decoder._new_call,
}
_FILLS: dict[str, Callable[[Decoder, Any, Any], None]] = {
    **dict.fromkeys((*_DICTS, "defaultdict"), Decoder._fill_pairs),
    **dict.fromkeys(NAMESPACES, Decoder._fill_namespace),
    "deque": Decoder._fill_sequence,
    "set": Decoder._fill_set,
    "instance": Decoder._fill_instance,
    "call": Decoder._fill_call,
}
