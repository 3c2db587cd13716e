"""The opcodes of pickle, interpreted without importing or calling anything by name.

A pickle is a program for a small stack machine. This one knows the opcodes that build plain data and objects; `find`
says what a name means, `make` makes an object of a class that it found, and nothing else is ever called. Work and
memory stay in proportion to the length of the pickle: copies that its calls make are paid for from a budget, and keys
that would take long to hash are refused.
"""

from __future__ import annotations

import pickletools
import struct
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

from ..errors import ExtempoError, UnsupportedError
from .class_rule import has_plain_hash
from .files import FileFormatError

_MAX_KEY_PARTS = 1000  # a tuple of tuples of shared tuples would take exponential time to hash
_ALLOWANCE = 1024  # elements copied, beyond four per byte of the pickle


class Callee:
    """A name that a pickle may call, or hand to another call, but not keep."""

    def __init__(self, path: str, call: Callable[..., Any] | None = None) -> None:
        self.path = path
        self.call = call


class Machine:
    """Runs one pickle. `find(module, name)` gives names a meaning, `persistent(id)` outside objects."""

    def __init__(
        self,
        data: bytes,
        find: Callable[[str, str], Any],
        persistent: Callable[[Any], Any],
        build: Callable[[Any, Any], None],
        make: Callable[[Any, tuple[Any, ...], bool], Any] | None = None,
    ) -> None:
        self._data = data
        self._find = find
        self._persistent = persistent
        self._build = build
        self._make = make
        self._position = 0
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []  # the stacks under each open mark
        self._memo: dict[int, Any] = {}
        self._budget = _ALLOWANCE + 4 * len(data)

    def run(self) -> Any:
        """The object that the pickle describes."""
        try:
            while True:
                code = self._take(1)[0]
                if code == _STOP:
                    return self._stack.pop()
                step = _STEPS.get(code)
                if step is None:
                    raise UnsupportedError(
                        f"load: the pickle uses {_opcode_name(code)}, which plain data does not need"
                    )
                step(self)
        except ExtempoError:
            raise
        except (IndexError, KeyError, TypeError, ValueError, OverflowError, struct.error, AttributeError) as error:
            raise FileFormatError(f"its pickle breaks off or is wrong at byte {self._position} ({error})") from None

    # ---- bytes

    def _take(self, count: int) -> bytes:
        piece = self._data[self._position : self._position + count]
        if len(piece) < count:
            raise IndexError("it ends there")
        self._position += count
        return piece

    def _unsigned(self, width: int) -> int:
        return int.from_bytes(self._take(width), "little")

    def _line(self) -> str:
        end = self._data.index(b"\n", self._position)
        text = self._data[self._position : end].decode()
        self._position = end + 1
        return text

    # ---- the stack

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _mark(self) -> None:
        self._below.append(self._stack)
        self._stack = []

    def _pop_mark(self) -> list[Any]:
        items = self._stack
        self._stack = self._below.pop()
        return items

    def _pop(self) -> None:
        if self._stack:
            self._stack.pop()
        else:
            self._pop_mark()

    def _tuple(self, count: int) -> None:
        if len(self._stack) < count:
            raise IndexError("a tuple of more values than there are")
        self._stack[-count:] = [tuple(self._stack[-count:])]

    # ---- containers

    def _append(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) not in (list, deque):
            raise TypeError(f"values are appended to a {type(target).__name__}")
        target.extend(items)

    def _set_items(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) not in _DICTS or len(items) % 2:
            raise TypeError(f"keys and values are put into a {type(target).__name__}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[checked_key(key)] = value

    def _add_items(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not set:
            raise TypeError(f"elements are added to a {type(target).__name__}")
        target.update(map(checked_key, items))

    def _pop_value(self) -> Any:
        return self._stack.pop()

    def _pop_pair(self) -> list[Any]:
        value, key = self._stack.pop(), self._stack.pop()
        return [key, value]

    def _push_popped(self, make: Callable[[list[Any]], Any]) -> None:
        self._push(make(self._pop_mark()))

    # ---- names and calls

    def _global(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:
            raise TypeError("a name is not a string")
        self._push(self._find(module, name))

    def _stack_global(self) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        self._global(module, name)

    def _call(self, is_new: bool = False) -> None:
        """REDUCE, or with `is_new` NEWOBJ: `class.__new__(class, *args)`."""
        args, callee = self._stack.pop(), self._stack.pop()
        if type(args) is not tuple:
            raise TypeError("the arguments of a call are not a tuple")
        self._budget -= sum(len(a) for a in args if type(a) in _COPIED)
        if self._budget < 0:
            raise FileFormatError("its pickle copies far more data than it holds")
        if isinstance(callee, Callee) and callee.call is not None:
            self._push(callee.call(*args))
        elif self._make is not None and issubclass(type(callee), _NAMED):  # only `find` puts these on the stack
            self._push(self._make(callee, args, is_new))
        else:
            what = callee.path if isinstance(callee, Callee) else f"a {type(callee).__name__}"
            raise UnsupportedError(f"load: the pickle calls {what}, which is not part of plain data")

    def _build_state(self) -> None:
        state = self._stack.pop()
        self._build(self._stack[-1], state)

    def _persistent_id(self) -> None:
        self._push(self._persistent(self._stack.pop()))

    # ---- the memo

    def _memoize(self, number: int) -> None:
        self._memo[number] = self._stack[-1]

    def _recall(self, number: int) -> None:
        self._push(self._memo[number])


_COPIED = (str, bytes, bytearray, list, tuple, dict, OrderedDict, set, frozenset)
_DICTS = (dict, OrderedDict, Counter, defaultdict)
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType)


def checked_key(key: Any) -> Any:
    """A key or element, if it can be hashed in bounded time."""
    todo, seen = [key], 0
    while todo:
        part = todo.pop()
        seen += 1
        if seen > _MAX_KEY_PARTS:
            raise ValueError("a key of too many parts")
        if isinstance(part, tuple | frozenset):
            todo.extend(part)
    if not has_plain_hash(key):
        raise TypeError(f"a {type(key).__name__} as a key")
    return key


def _opcode_name(code: int) -> str:
    known = [op.name for op in pickletools.opcodes if op.code == chr(code)]
    return f"opcode {known[0]}" if known else f"the unknown opcode {code:#04x}"


Step = Callable[[Machine], None]
_STOP = ord(".")


def _sized(width: int, make: Callable[[bytes], Any]) -> Step:
    """An opcode followed by a length and as many bytes."""
    return lambda m: m._push(make(m._take(m._unsigned(width))))


def _number(text: str) -> Step:
    """An opcode followed by a number in that struct format."""
    width = struct.calcsize(text)
    return lambda m: m._push(struct.unpack(text, m._take(width))[0])


def _fresh(make: Callable[[], Any]) -> Step:
    """An opcode that pushes a new or constant object."""
    return lambda m: m._push(make())


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")


def _long(raw: bytes) -> int:
    return int.from_bytes(raw, "little", signed=True)


_STEPS: dict[int, Step] = {
    ord(code): step
    for code, step in {
        # bookkeeping
        "\x80": lambda m: m._take(1) and None,  # PROTO
        "\x95": lambda m: m._take(8) and None,  # FRAME
        "(": Machine._mark,
        "0": Machine._pop,
        "1": lambda m: m._pop_mark() and None,
        "2": lambda m: m._push(m._stack[-1]),  # DUP
        "q": lambda m: m._memoize(m._unsigned(1)),
        "r": lambda m: m._memoize(m._unsigned(4)),
        "\x94": lambda m: m._memoize(len(m._memo)),
        "h": lambda m: m._recall(m._unsigned(1)),
        "j": lambda m: m._recall(m._unsigned(4)),
        # constants, numbers, strings
        "N": _fresh(lambda: None),
        "\x88": _fresh(lambda: True),
        "\x89": _fresh(lambda: False),
        "J": _number("<i"),
        "K": _number("<B"),
        "M": _number("<H"),
        "G": _number(">d"),
        "\x8a": _sized(1, _long),
        "\x8b": _sized(4, _long),
        "\x8c": _sized(1, _text),
        "X": _sized(4, _text),
        "\x8d": _sized(8, _text),
        "C": _sized(1, bytes),
        "B": _sized(4, bytes),
        "\x8e": _sized(8, bytes),
        "\x96": _sized(8, bytearray),
        # containers
        ")": _fresh(tuple),
        "]": _fresh(list),
        "}": _fresh(dict),
        "\x8f": _fresh(set),
        "\x85": lambda m: m._tuple(1),
        "\x86": lambda m: m._tuple(2),
        "\x87": lambda m: m._tuple(3),
        "t": lambda m: m._push_popped(tuple),
        "l": lambda m: m._push_popped(list),
        "\x91": lambda m: m._push_popped(_frozen),
        "a": lambda m: m._append([m._pop_value()]),
        "e": lambda m: m._append(m._pop_mark()),
        "s": lambda m: m._set_items(m._pop_pair()),
        "u": lambda m: m._set_items(m._pop_mark()),
        "\x90": lambda m: m._add_items(m._pop_mark()),
        # names, calls, outside objects
        "c": lambda m: m._global(m._line(), m._line()),
        "\x93": Machine._stack_global,
        "R": Machine._call,
        "\x81": lambda m: m._call(is_new=True),
        "b": Machine._build_state,
        "Q": Machine._persistent_id,
    }.items()
}


def _frozen(items: list[Any]) -> frozenset[Any]:
    return frozenset(map(checked_key, items))
