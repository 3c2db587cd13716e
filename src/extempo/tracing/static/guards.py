"""Guards of a static function: what the arguments of a call must have in common with those of the recorded one.

The arguments of the recorded call become a tree of `Argument`s. Each takes its part of a later call's arguments, puts
tensors and numbers into the slots where the actions of the script find them, and says what differs if it does not fit.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...core.graph import Node
from ...core.layout import is_contiguous
from ...core.tensor import LazySource, Tensor, TensorLike
from ...core.types import TensorType
from ...core.types import dtype as Dtype
from ...core.wording import counted
from ...errors import DtypeError, GraphError, ShapeError
from .sym_numbers import NumberGuards, follow

Slots = list[Any]
NewSlot = Callable[[], int]
IN_ORDER = 0x101  # NumPy's flags of an array that is aligned and whose elements lie in order
_ADVICE = "a static function takes what it was recorded with; compile another one for this, or leave static=True out"
_COMPARED = (str, bytes, bool, int, float, complex, type(None), range, slice, Dtype, np.generic)


def tensor_parts(x: Any) -> tuple[TensorType, bool, tuple[int, ...] | None]:
    """(type, tracked, strides or None for elements in order) of a tensor that has values."""
    array = x._data
    return x._type, type(x._history) is Node, None if array.flags.num & IN_ORDER == IN_ORDER else array.strides


def has_strides(x: Tensor, strides: tuple[int, ...] | None) -> bool:
    """Whether a tensor lies in memory with these strides; None: its elements are in order."""
    array = x._data
    if not array.flags.aligned:
        return False
    if strides is None:
        return bool(array.flags.c_contiguous) or is_contiguous(x._type, array.strides)
    return bool(array.strides == strides)


class Argument:
    """A part of the arguments; `path` is its name for messages."""

    def __init__(self, path: str) -> None:
        self.path = path

    def take(self, value: Any, slots: Slots) -> None:
        """Put what came into its slots, or raise."""
        raise NotImplementedError

    def misfit(self, error: type[Exception], got: str, expected: str, advice: str = _ADVICE) -> Exception:
        return error(f"{self.path} is {got}, when the function was recorded it was {expected}; {advice}")


class TensorArgument(Argument):
    def __init__(self, path: str, x: Tensor, slot: int) -> None:
        super().__init__(path)
        self.slot = slot
        self.type, self.tracked, self.strides = tensor_parts(settled(x))

    def take(self, value: Any, slots: Slots) -> None:
        if not isinstance(value, Tensor):
            advice = "pass ex.from_numpy(x)" if isinstance(value, np.ndarray) else _ADVICE
            raise self.misfit(DtypeError, _kind(value), f"a tensor of {self.type}", advice)
        if value._alias is not None or isinstance(value._source, LazySource):
            settled(value)
        type_ = value._type
        if (
            (type_ is not self.type and type_ != self.type)
            or (type(value._history) is Node) is not self.tracked
            or self.strides is not None
            or value._data.flags.num & IN_ORDER != IN_ORDER
        ):
            self._compare(value)
        slots[self.slot] = value

    def _compare(self, value: Tensor) -> None:
        type_, tracked, _ = tensor_parts(value)
        if type_.dtype is not self.type.dtype:
            raise self.misfit(DtypeError, f"a tensor of {type_.dtype}", str(self.type.dtype), "convert it first")
        if type_.shape != self.type.shape:
            raise self.misfit(ShapeError, f"of shape {tuple(type_.shape)}", str(tuple(self.type.shape)))
        if tracked is not self.tracked:
            words = {True: "a tensor that requires grad", False: "one that does not require grad"}
            raise self.misfit(GraphError, words[tracked], words[self.tracked])
        if not has_strides(value, self.strides):
            got, advice = f"in memory with strides {value.stride()}", "pass x.contiguous()"
            if self.strides is None:
                raise self.misfit(GraphError, got, "in order", advice)
            expected = tuple(n // self.type.dtype.itemsize for n in self.strides)
            raise self.misfit(GraphError, got, f"with strides {expected}", f"{advice} at every call, the first one too")


def settled(x: Tensor) -> Tensor:
    """A tensor that has its values and its node."""
    if isinstance(x._source, LazySource):
        x._source.release(x, "its result went into a static function")
    if x._alias is not None:
        x._catch_up()
    return x


class SameArgument(Argument):
    """A tensor that came in twice."""

    def __init__(self, path: str, first: TensorArgument) -> None:
        super().__init__(path)
        self.first = first

    def take(self, value: Any, slots: Slots) -> None:
        if value is not slots[self.first.slot]:
            raise self.misfit(GraphError, "another tensor", f"the same as argument {_short(self.first.path)}")


class LikeArgument(Argument):
    """A ragged tensor: other values in the same rows."""

    def __init__(self, path: str, x: TensorLike, inner: Argument) -> None:
        super().__init__(path)
        self.kind, self.shape, self.described = type(x), x.shape, x._described()
        self.inner = inner

    def take(self, value: Any, slots: Slots) -> None:
        if type(value) is not self.kind:
            raise self.misfit(DtypeError, _kind(value), self.described)
        if value.shape != self.shape:
            raise self.misfit(ShapeError, value._described(), self.described)
        self.inner.take(value._flat, slots)


class NumberArgument(Argument):
    """A float or int: new at each call. What Python went by is a condition of `NumberGuards`."""

    def __init__(self, path: str, value: float | int, slot: int) -> None:
        super().__init__(path)
        self.value = value
        self.slot = slot

    def take(self, value: Any, slots: Slots) -> None:
        if type(value) is not type(self.value):
            raise self.misfit(DtypeError, _kind(value), _kind(self.value))
        slots[self.slot] = value


class FixedArgument(Argument):
    def __init__(self, path: str, value: Any) -> None:
        super().__init__(path)
        self.value = value

    def take(self, value: Any, slots: Slots) -> None:
        if value is self.value:
            return
        if isinstance(self.value, _COMPARED):
            if type(value) is type(self.value) and value == self.value:
                return
            raise self.misfit(GraphError, _words(value), repr(self.value))
        advice = "only tensors, numbers and lists, tuples and dicts of them may be others at each call"
        raise self.misfit(GraphError, f"another {type(value).__name__}", f"a {type(self.value).__name__}", advice)


class SequenceArgument(Argument):
    def __init__(self, path: str, kind: Any, items: list[Argument]) -> None:
        super().__init__(path)
        self.kind = kind
        self.items = items

    def take(self, value: Any, slots: Slots) -> None:
        if type(value) is not self.kind or len(value) != len(self.items):
            raise self.misfit(GraphError, _kind(value), f"a {self.kind.__name__} of {len(self.items)}")
        for item, x in zip(self.items, value, strict=True):
            item.take(x, slots)


class MappingArgument(Argument):
    def __init__(self, path: str, kind: Any, items: dict[Any, Argument]) -> None:
        super().__init__(path)
        self.kind = kind
        self.items = items

    def take(self, value: Any, slots: Slots) -> None:
        if type(value) is not self.kind or value.keys() != self.items.keys():
            raise self.misfit(GraphError, _kind(value), f"a {self.kind.__name__} with the keys {list(self.items)}")
        for key, item in self.items.items():
            item.take(value[key], slots)


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of {value._type}"
    if isinstance(value, TensorLike):
        return value._described()
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, dict):
        return f"a {type(value).__name__} with the keys {list(value)}"
    if isinstance(value, np.ndarray):
        return f"a NumPy array of {value.dtype} {value.shape}"
    if isinstance(value, _COMPARED) and value is not None:
        return f"a value of type {type(value).__name__} ({value!r})"
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _words(value: Any) -> str:
    return repr(value) if isinstance(value, _COMPARED) else _kind(value)


def _short(path: str) -> str:
    """Of "f: argument x[0]" the last word."""
    return path.partition(": argument ")[2]


class _GuardBuilder:
    """Makes the arguments of a recorded call."""

    def __init__(self, new_slot: NewSlot, numbers: NumberGuards) -> None:
        self._new_slot = new_slot
        self._numbers = numbers
        self.seen: dict[int, tuple[Tensor, TensorArgument]] = {}

    def take(self, path: str, value: Any) -> tuple[Argument, Any]:
        """The argument, and what the recorded body gets for it: symbolic numbers in place of numbers."""
        if isinstance(value, Tensor):
            first = self.seen.get(id(value))
            if first is not None:
                return SameArgument(path, first[1]), value
            made = TensorArgument(path, value, self._new_slot())
            self.seen[id(value)] = value, made
            return made, value
        if isinstance(value, TensorLike):
            inner, _ = self.take(path, value._flat)
            return LikeArgument(path, value, inner), value
        if type(value) in (float, int):
            number = NumberArgument(path, value, self._new_slot())
            return number, follow(value, number.slot, self._numbers, _short(path))
        if isinstance(value, np.ndarray):
            raise DtypeError(f"{path} is a NumPy array; a static function takes tensors, pass ex.from_numpy(x)")
        if type(value) in (list, tuple) or is_named_tuple(value):
            parts = [self.take(f"{path}[{i}]", x) for i, x in enumerate(value)]
            symbolic = [x for _, x in parts]
            same = all(x is y for x, y in zip(symbolic, value, strict=True))
            items = [argument for argument, _ in parts]
            return SequenceArgument(path, type(value), items), value if same else rebuilt(type(value), symbolic)
        if type(value) is dict:
            found = {k: self.take(f"{path}[{k!r}]", x) for k, x in value.items()}
            same = all(x is value[k] for k, (_, x) in found.items())
            mapped = MappingArgument(path, dict, {k: argument for k, (argument, _) in found.items()})
            return mapped, value if same else {k: x for k, (_, x) in found.items()}
        return FixedArgument(path, value), value


class Arguments:
    """All arguments of a call."""

    def __init__(self, fn: Callable[..., Any], name: str) -> None:
        self._fn = fn
        self._name = name
        self.positional: list[Argument] = []
        self.named: dict[str, Argument] = {}
        self._tensors: list[TensorArgument] = []
        self._sharing: list[int] = []  # for each tensor, the first one on the same memory
        self._n_memories = 0
        self.outside: frozenset[int] = frozenset()  # the tensors that the body has from elsewhere, by id

    def record(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], new_slot: NewSlot, numbers: NumberGuards
    ) -> tuple[list[Any], dict[str, Any], list[tuple[Tensor, int]]]:
        """Remember the arguments. Returned: what the body gets, with followed numbers, and the slots of tensors."""
        taker = _GuardBuilder(new_slot, numbers)
        given, named = [], {}
        for value, name in zip(args, self._names(len(args)), strict=True):
            argument, symbolic = taker.take(f"{self._name}: argument {name}", value)
            self.positional.append(argument)
            given.append(symbolic)
        for key, value in kwargs.items():
            self.named[key], named[key] = taker.take(f"{self._name}: argument {key}", value)
        found = list(taker.seen.values())
        self._tensors = [argument for _, argument in found]
        self._sharing = _firsts([id(x._memory) for x, _ in found])
        self._n_memories = len(set(self._sharing))
        return given, named, [(x, argument.slot) for x, argument in found]

    def _names(self, n_args: int) -> list[str]:
        numbered = [str(i) for i in range(n_args)]
        try:
            parameters = list(inspect.signature(self._fn).parameters.values())
        except (TypeError, ValueError):
            return numbered
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        return [*names[:n_args], *numbered[len(names) :]]

    @property
    def shares_memory(self) -> bool:
        """Whether some of the tensors lay in the same memory."""
        return self._n_memories != len(self._tensors)

    def take(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], slots: Slots) -> None:
        """Put the arguments of a call into their slots, or raise."""
        if len(args) != len(self.positional) or kwargs.keys() != self.named.keys():
            raise GraphError(
                f"{self._name}: called with {_count(args, kwargs)}, when the function was recorded it was "
                f"{_count(self.positional, self.named)}; {_ADVICE}"
            )
        for argument, value in zip(self.positional, args, strict=True):
            argument.take(value, slots)
        if kwargs:
            for key, argument in self.named.items():
                argument.take(kwargs[key], slots)
        given = [slots[tensor.slot] for tensor in self._tensors]
        if not self.outside.isdisjoint(map(id, given)):
            path = next(t.path for t, x in zip(self._tensors, given, strict=True) if id(x) in self.outside)
            raise GraphError(
                f"{path} is a tensor that the function has from elsewhere, too, when it was recorded it was not; "
                f"{_ADVICE}"
            )
        memories = [id(x._memory) for x in given]
        if len(set(memories)) != self._n_memories or (self._n_memories != len(memories) and self._differ(memories)):
            raise GraphError(
                f"{self._name}: the arguments share memory in another way than when the function was recorded; pass "
                f"x.clone(), or leave static=True out"
            )

    def _differ(self, memories: list[int]) -> bool:
        return _firsts(memories) != self._sharing


def _firsts(values: list[int]) -> list[int]:
    first: dict[int, int] = {}
    return [first.setdefault(value, i) for i, value in enumerate(values)]


def _count(args: Any, kwargs: Any) -> str:
    names = f" and {', '.join(kwargs)} by name" if kwargs else ""
    return f"{counted(len(args), 'argument')}{names}"


def is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(type(value), "_fields")


def rebuilt(kind: type, items: list[Any]) -> Any:
    """A list, tuple or named tuple of these items."""
    return kind(*items) if hasattr(kind, "_fields") else kind(items)
