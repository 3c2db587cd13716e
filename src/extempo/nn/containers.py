"""Containers: modules and parameters in order or by key, registered so that their owner finds them.

Members can be added, replaced and removed at any time, also between two training steps; the next forward sees them.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, Self, SupportsIndex

from ..core.tensor import Tensor
from ..core.wording import counted
from ..errors import ArgumentError, DtypeError, IndexRangeError, UnsupportedError
from .module import Module
from .parameter import Parameter


def position_in(index: SupportsIndex, length: int, what: str) -> int:
    """A non-negative position for one that may count from the end."""
    position = operator.index(index)
    if not -length <= position < length:
        raise IndexRangeError(f"{what}: index {position} is out of range, there are {counted(length, 'member')}")
    return position % length


class _ModuleSequence(Module):
    """Modules in order; their names are their positions unless they were given."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def _name_at(self, index: SupportsIndex) -> str:
        return next(islice(self._modules, position_in(index, len(self), type(self).__name__), None))

    def _rename(self, modules: Iterable[Module]) -> None:
        """Put other members in place of all; they are named by position."""
        named = {str(i): module for i, module in enumerate(modules)}
        self._modules.clear()
        for name, module in named.items():
            self.add_module(name, module)

    def __setitem__(self, index: SupportsIndex, module: Module) -> None:
        setattr(self, self._name_at(index), _module(module, type(self).__name__))

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        names = list(self._modules)
        gone = names[index] if isinstance(index, slice) else [self._name_at(index)]
        for name in gone:
            del self._modules[name]
        if all(name.isdigit() for name in names):
            self._rename(list(self))

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), _module(module, "append"))
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        if not isinstance(modules, Iterable):
            raise DtypeError(
                f"extend: expected modules to go through, got {type(modules).__name__}; use append for one"
            )
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Put a module before position `index`; those behind it move on."""
        if not -len(self) <= index <= len(self):
            raise IndexRangeError(f"insert: index {index} is out of range, there are {counted(len(self), 'member')}")
        members = list(self)
        members.insert(index, _module(module, "insert"))
        self._rename(members)
        return self

    def pop(self, key: int | slice = -1) -> Any:
        """Take a member out and return it."""
        found = self[key]
        del self[key]
        return found

    def __getitem__(self, index: Any) -> Any:
        return self._modules[self._name_at(index)]

    def __iadd__(self, other: Iterable[Module]) -> Self:
        return self.extend(other)


def _module(value: Any, op: str) -> Any:
    """A member: a module, or None for a place that is empty."""
    if value is not None and not isinstance(value, Module):
        raise DtypeError(f"{op}: expected a Module, got {_described(value)}")
    return value


def _described(value: Any) -> str:
    """What is no module, and what was probably meant."""
    if isinstance(value, type) and issubclass(value, Module):
        return f"the class {value.__name__}; make one: {value.__name__}(...)"
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__}; give its members one by one: *layers"
    if callable(value) and hasattr(value, "__name__"):
        return f"the function {value.__name__}; functions of nn.functional have layers in nn, F.relu has nn.ReLU()"
    return type(value).__name__


class Sequential(_ModuleSequence):
    """Modules called one after the other, each with the result of the one before.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    >>> net(ex.ones(5, 2)).shape
    extempo.Size([5, 3])
    >>> named = nn.Sequential({"first": nn.Identity()})
    >>> named.first
    Identity()
    """

    _is_cell = _needs_proof = True

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for position, module in enumerate(args):
                self.add_module(str(position), _module(module, "Sequential"))

    def forward(self, input: Any) -> Any:
        """Pass `input` through all modules."""
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(dict(list(self._modules.items())[index]))
        return super().__getitem__(index)

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            return NotImplemented
        return Sequential(*self, *other)

    def __mul__(self, times: int) -> Sequential:
        return Sequential(*list(self) * _count(times))

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Self:
        return self.extend(list(self) * (_count(times) - 1))


def _count(times: Any) -> int:
    if not isinstance(times, int) or times < 1:
        raise ArgumentError(f"Sequential: it can be repeated a positive number of times, got {times!r}")
    return times


class ModuleList(_ModuleSequence):
    """A list of modules that its owner finds; call them as you like in `forward`.

    >>> layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    >>> layers
    ModuleList(
      (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)
    )
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return super().__getitem__(index)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(chain(self, other))

    def insert(self, index: int, module: Module) -> None:
        """Put a module before position `index`; those behind it move on."""
        super().insert(index, module)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """A list cannot be called: say in your own forward what its members do."""
        raise UnsupportedError(f"{type(self).__name__} has no forward; call its members, `for layer in layers: ...`")

    def __repr__(self) -> str:
        """Equal neighbours stand on one line."""
        runs: list[list[Any]] = []  # [first, last, text]
        for position, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1][1] = position
            else:
                runs.append([position, position, text])
        if not runs:
            return f"{self._get_name()}()"
        lines = []
        for first, last, text in runs:
            label = f"({first}): " if first == last else f"({first}-{last}): {last - first + 1} x "
            lines.append("  " + label + text.replace("\n", "\n  "))
        return f"{self._get_name()}(\n" + "\n".join(lines) + "\n)"


class ModuleDict(Module):
    """A dict of modules that its owner finds.

    >>> heads = nn.ModuleDict({"mean": nn.Linear(2, 1)})
    >>> heads["scale"] = nn.Linear(2, 1)
    >>> list(heads)
    ['mean', 'scale']
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, _module(module, "ModuleDict"))

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Take all members out."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Take a member out and return it."""
        return self._modules.pop(key)

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """(name, module) pairs."""
        return self._modules.items()

    def values(self) -> Iterable[Any]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add or replace members from a dict, or from (name, module) pairs."""
        for key, module in _pairs(modules, "ModuleDict.update"):
            self[key] = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """A dict cannot be called: say in your own forward what its members do."""
        raise UnsupportedError(f"{type(self).__name__} has no forward; call its members, heads['name'](x)")


def _pairs(entries: Any, op: str) -> list[tuple[Any, Any]]:
    """The entries of a dict, of anything with `items()`, or of an iterable of pairs."""
    if hasattr(entries, "items"):
        return list(entries.items())
    if not isinstance(entries, Iterable):
        raise DtypeError(f"{op}: expected a dict or (key, value) pairs, got {type(entries).__name__}")
    pairs = [tuple(pair) for pair in entries]
    for pair in pairs:
        if len(pair) != 2:
            raise ArgumentError(f"{op}: expected pairs of a key and a value, got {len(pair)} things in one entry")
    return pairs


def _as_parameter(value: Any) -> Any:
    """Tensors become parameters; other objects stay what they are."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _member_text(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{kind} containing: [{value.dtype} of size {'x'.join(map(str, value.shape))}]"


class ParameterList(Module):
    """A list of parameters that its owner finds. Tensors put into it become parameters.

    >>> weights = nn.ParameterList([ex.ones(2), ex.zeros(3)])
    >>> len(weights), weights[1].requires_grad
    (2, True)
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self.__dict__[str(i)] for i in range(self._size)])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self.__dict__[str(position_in(index, self._size, "ParameterList"))]

    def __setitem__(self, index: SupportsIndex, value: Any) -> None:
        setattr(self, str(position_in(index, self._size, "ParameterList")), _as_parameter(value))

    def append(self, value: Any) -> Self:
        """Add a value at the end."""
        setattr(self, str(self._size), _as_parameter(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add values at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise DtypeError(f"extend: expected a list of tensors, got {type(values).__name__}; use append for one")
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def extra_repr(self) -> str:
        """One line for each member."""
        return "\n".join(f"({i}): {_member_text(value)}" for i, value in enumerate(self))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """A list cannot be called."""
        raise UnsupportedError("ParameterList has no forward; use its members in that of its owner")


class ParameterDict(Module):
    """A dict of parameters that its owner finds. Tensors put into it become parameters.

    >>> table = nn.ParameterDict({"left": ex.ones(2)})
    >>> table["right"] = ex.zeros(2)
    >>> list(table), sum(p.numel() for p in table.parameters())
    (['left', 'right'], 4)
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return self.__dict__[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise DtypeError(f"ParameterDict: a key is a str, got {type(key).__name__}")
        if key not in self._keys and hasattr(self, key):
            raise KeyError(f"ParameterDict: {key!r} is the name of an attribute; choose another key")
        setattr(self, key, _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        if key not in self._keys:
            raise KeyError(key)
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def keys(self) -> Iterable[str]:
        """The keys."""
        return self._keys.keys()

    def values(self) -> Iterable[Any]:
        """The values, in the order of their keys."""
        return [self[key] for key in self._keys]

    def items(self) -> Iterable[tuple[str, Any]]:
        """(key, value) pairs."""
        return [(key, self[key]) for key in self._keys]

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or the default."""
        return self[key] if key in self._keys else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a key, after putting the default there if there was none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Take a value out and return it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Take out the pair that was added last."""
        key = next(reversed(self._keys), None)
        if key is None:
            raise KeyError("popitem: the ParameterDict is empty")
        return key, self.pop(key)

    def clear(self) -> None:
        """Take everything out."""
        for key in list(self._keys):
            del self[key]

    def copy(self) -> ParameterDict:
        """A new dict with the same members."""
        return ParameterDict(self)

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new dict that has the default under every key."""
        return ParameterDict([(key, default) for key in keys])

    def update(self, parameters: Any) -> None:
        """Add or replace values from a dict, or from (key, value) pairs."""
        for key, value in _pairs(parameters, "ParameterDict.update"):
            self[key] = value

    def __or__(self, other: Any) -> ParameterDict:
        joined = self.copy()
        joined.update(other)
        return joined

    def __ror__(self, other: Any) -> ParameterDict:
        joined = ParameterDict(other)
        joined.update(self)
        return joined

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        """One line for each member."""
        return "\n".join(f"({key}): {_member_text(value)}" for key, value in self.items())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """A dict cannot be called."""
        raise UnsupportedError("ParameterDict has no forward; use its members in that of its owner")
