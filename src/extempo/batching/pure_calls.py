"""What the body of an automatic cell may read, call and change: a list of what is known to be free of effects.

`checked_bytecode` runs a module's forward instruction by instruction and asks here before each: on what does an
attribute, an operator, an iteration or a call land? Tensors, numbers, strings and containers of these are data, whose
operators only compute. Ops and layers of Extempo take data and report what else they do (draws, writes, values read) to
the tracer. Functions, methods and properties of the user are run instruction by instruction as well. Containers and
iterators may be changed if the body has made them. Everything else is refused, before it has happened.

What the body reads and has not made is noted: a cell may be made of it only if its guards watch all of that
(`unwatched`). The search for what to watch comes second, so that it never meets objects of a body that was refused.
"""

from __future__ import annotations

import abc
import builtins
import enum
import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator
from types import (
    BuiltinFunctionType,
    EllipsisType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    NoneType,
    NotImplementedType,
    SimpleNamespace,
    UnionType,
)
from typing import Any, NamedTuple, NoReturn

from ..core.code_names import is_library
from ..core.device import device
from ..core.tensor import Tensor
from ..core.types import Size, dtype
from ..nn.module import Module
from ..nn.parameter import Buffer, Parameter
from ..nn.tables import Table
from ..tracing.static.sym_numbers import FOLLOWED
from .cell_twins import CellOfFunction
from .read_guards import MISSING
from .read_search import ReadSearch, attributes_of

_TENSORS = frozenset((Tensor, Parameter, Buffer))
_PLAIN = frozenset(
    (int, float, str, bytes, bool, complex, NoneType, EllipsisType, NotImplementedType, range, slice, dtype, device)
)
_TYPES = frozenset((type, abc.ABCMeta, UnionType))
_MUTABLE = frozenset((list, dict, set))
_CONTAINERS = _MUTABLE | {tuple, frozenset, Size}
_VIEWS = frozenset((type({}.keys()), type({}.values()), type({}.items())))
_ITERABLE = _VIEWS | {str, range, bytes, Table}
_JOINS = frozenset((operator.add, operator.iadd, operator.mul, operator.imul))  # they do nothing to elements
_MOST_ELEMENTS = 1_000  # of a container: what is larger is not compared at every call
_MOST_CALLS = 4  # of one module with weights

# Methods of builtin classes by what they do to their object.
_READING = frozenset(("copy", "get", "keys", "values", "items", "numel", "bit_length", "is_integer", "indices"))
_COMPARING = frozenset(("index", "count", "remove"))  # with all elements
_ADDING = frozenset(("append", "insert", "extend", "reverse", "clear", "pop"))
_HASHING = frozenset(("add", "discard", "update", "setdefault", "pop"))
# What the base classes of modules have that only reads; layers' own methods report to the tracer like `forward`.
_MODULE_READS = frozenset(
    ("children", "modules", "buffers", "parameters", "get_submodule", "get_parameter", "keys", "values", "items")
)
_MODULE_PARTS = ("extempo.nn.module", "extempo.nn.hooks", "extempo.nn.state", "extempo.nn.containers")
_BOOKKEEPING = ("_call_hooks", "_state_hooks", "_non_persistent_buffers_set")  # attributes that no forward reads
_TENSOR_ATTRIBUTES = frozenset(("shape", "dtype", "device", "ndim", "requires_grad", "T", "mT", "itemsize", "nbytes"))
# Functions of Extempo's ops that do more than compute, or that give away where memory is.
_NO_OPS = frozenset(("apply_", "set_", "resize_", "resize_as_", "data_ptr", "is_set_to", "storage_offset", "_is_view"))
_PURE_LIBRARIES = ("extempo.ops.", "extempo.linalg", "extempo.special", "extempo.signal", "extempo.dispatch.fast_path")

_ARITHMETIC: set[Any] = {
    abs,
    round,
    divmod,
    pow,
    ord,
    chr,
    bin,
    hex,
    operator.index,
    operator.neg,
    operator.pos,
    operator.invert,
}
_ARITHMETIC |= {fn for fn in vars(math).values() if isinstance(fn, BuiltinFunctionType)}
_OPERATORS = frozenset(
    (
        *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow),
        *(operator.matmul, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift),
    )
)
_COMPARISONS = frozenset((operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge))
_OVER_ELEMENTS = frozenset((sum, min, max, all, any, sorted))
_ITERATORS = frozenset(
    (
        *(zip, enumerate, reversed, itertools.chain, itertools.product, itertools.islice, itertools.repeat),
        *(itertools.pairwise, itertools.zip_longest),
    )
)
_COLLECTIONS = frozenset((list, tuple, set, frozenset))
_NUMBERS = frozenset((int, float, complex, str, range, slice, device))


class Impure(Exception):
    """The body may do more than compute its result."""


class _Bound(NamedTuple):
    """A method that a class has, found without asking the object."""

    value: Any
    owner: type


class PureCalls:
    """The rules for one run of a body, which remember what it has made."""

    def __init__(self, tracer: Any, is_cell: bool = True) -> None:
        """is_cell: a body that calls one layer often is refused, because these calls run together otherwise."""
        self._tracer = tracer
        self._is_cell = is_cell
        self._made: dict[int, Any] = {}  # containers, iterators and functions, by id
        self._given: dict[int, Any] = {}  # containers that may be read, not changed
        self._read: dict[int, Any] = {}  # what is to be watched
        self._read_names: dict[tuple[int, str], dict[str, Any]] = {}  # global variables that are to be watched
        self._n_calls: dict[int, int] = {}  # of modules with weights, by id
        self.outside: dict[int, Tensor] = {}  # tensors from outside whose shape or dtype was asked for

    def unwatched(self, search: ReadSearch) -> str:
        """What the body reads that a search has not found; "" if it has found everything."""
        names = {(id(names), name) for names, name, _ in search.items}
        missing = [name for at, name in self._read_names if (at, name) not in names]
        missing += [type(x).__name__ for x in self._read.values() if id(x) not in search.visited]
        return f"it reads what cannot be watched: {', '.join(missing[:3])}" if missing else ""

    def refuse(self, what: str) -> NoReturn:
        raise Impure(what)

    def interpret(self, fn: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a function of the user's instruction by instruction."""
        raise NotImplementedError

    # ---- what is known of a value

    def made(self, x: Any) -> Any:
        """Note that the body has made this container, iterator or function."""
        self._made[id(x)] = x
        return x

    def has_made(self, x: Any) -> bool:
        return id(x) in self._made

    def given(self, x: Any) -> Any:
        """Note containers that may be read: those among the arguments, and what a library has returned."""
        if type(x) in _CONTAINERS or is_tuple(type(x)):
            self._given[id(x)] = x
            for part in x.values() if type(x) is dict else x:
                self.given(part)
        return x

    def note_read(self, x: Any) -> None:
        """What the body has not made is to be watched."""
        if id(x) not in self._made and id(x) not in self._given:
            if type(x) in _MUTABLE and len(x) > _MOST_ELEMENTS:
                self.refuse(f"it reads a large {type(x).__name__}")
            self._read[id(x)] = x

    def global_variable(self, names: dict[str, Any], name: str) -> Any:
        self._read_names[id(names), name] = names
        return names[name] if name in names else getattr(builtins, name)

    def _is_container(self, x: Any) -> bool:
        """Whether it is a builtin container; one that may change elsewhere must be watched."""
        kind = type(x)
        if kind in _MUTABLE:
            self.note_read(x)
        return kind in _CONTAINERS or is_tuple(kind)

    def is_data(self, x: Any) -> bool:
        """Whether it is made of tensors, plain values and containers alone."""
        left, n = [x], 0
        while left:
            one = left.pop()
            kind = type(one)
            n += 1
            if n > _MOST_ELEMENTS:
                return False
            if kind in _PLAIN or kind in _TENSORS or kind in FOLLOWED:
                continue
            if not self._is_container(one):
                return False
            left.extend([*one.keys(), *one.values()] if kind is dict else one)  # += would ask a Size
        return True

    def check_data(self, values: Any, what: str) -> None:
        for x in values:
            if not self.is_data(x):
                self.refuse(f"{what} gets a {type(x).__name__}")

    def _is_symbol(self, x: Any) -> bool:
        return type(x) in _TENSORS and x._source is self._tracer

    # ---- operators

    def operate(self, fn: Callable[..., Any], *operands: Any, in_place: bool = False) -> Any:
        if fn is operator.or_ and all(type(x) in _TYPES for x in operands):
            return fn(*operands)
        for x in operands:
            kind = type(x)
            if kind in _PLAIN or kind in _TENSORS or kind in FOLLOWED:
                continue
            joined = fn in _JOINS and not any(type(other) in _TENSORS for other in operands)
            if not self._is_container(x) or not (joined or self.is_data(x)):
                self.refuse(f"it computes with a {kind.__name__}")
        if in_place and type(operands[0]) in _MUTABLE:
            self._check_own(operands[0])
        result = fn(*operands)
        return self.made(result) if type(result) in _MUTABLE else result

    def _check_own(self, container: Any) -> None:
        if id(container) not in self._made:
            self.refuse(f"it changes a {type(container).__name__} that it has not made")

    def compare(self, fn: Callable[..., Any], a: Any, b: Any) -> Any:
        by_identity = all(_owner_of(type(x), "__eq__") is object for x in (a, b))
        if not by_identity or fn not in (operator.eq, operator.ne):
            self.check_data((a, b), "a comparison")
        return fn(a, b)

    def truth(self, x: Any) -> bool:
        kind = type(x)
        if kind in _PLAIN or kind in _TENSORS or kind in FOLLOWED or self._is_container(x):
            return bool(x)
        own = issubclass(type(x), Module) and _is_extempo(_owner_of(kind, "__len__"))
        if hasattr(kind, "__bool__") or (hasattr(kind, "__len__") and not own):
            self.refuse(f"it asks whether a {kind.__name__} is true")
        return bool(x)

    def same(self, a: Any, b: Any) -> bool:
        """`a is b`: not for what stands for an argument, which is another object than that."""
        if all(type(x) in _TENSORS or type(x) in FOLLOWED or type(x) in _CONTAINERS for x in (a, b)):
            self.refuse("it asks whether two arguments are the same object")
        return a is b

    def contains(self, container: Any, x: Any) -> bool:
        if issubclass(type(container), Module) and _is_extempo(_owner_of(type(container), "__contains__")):
            self.note_read(container)
            self.check_data((x,), "a container")
        else:
            elements = list(container) if type(container) in _VIEWS else container
            if not self.is_data(elements) or not self.is_data(x) or self._has_tensors((elements, x)):
                self.refuse(f"it looks for something in a {type(container).__name__}")
        return x in container

    def _has_tensors(self, parts: Any) -> bool:
        """Whether there are tensors, which are compared by identity first."""
        return any(
            type(x) in _TENSORS or (type(x) in _CONTAINERS and self._has_tensors(x.values() if type(x) is dict else x))
            for x in parts
        )

    # ---- iteration

    def iterate(self, x: Any) -> Iterator[Any]:
        kind = type(x)
        if id(x) in self._made and isinstance(x, Iterator):
            return x
        module = issubclass(type(x), Module) and _is_extempo(_owner_of(kind, "__iter__"))
        if module:
            self.note_read(x)
        elif not (kind in _TENSORS or kind in _ITERABLE or self._is_container(x)):
            self.refuse(f"it goes through a {kind.__name__}")
        made: Iterator[Any] = self.made(iter(x))
        return made

    def advance(self, iterator: Any) -> Any:
        if id(iterator) not in self._made:
            self.refuse(f"it takes the next of a {type(iterator).__name__} that it has not made")
        return next(iterator)

    def elements(self, x: Any) -> list[Any]:
        found: list[Any] = self.made(list(self.iterate(x)))
        return found

    # ---- elements

    def item(self, container: Any, key: Any) -> Any:
        kind = type(container)
        self.check_data((key,), "an index")
        if issubclass(type(container), Module) and _is_extempo(_owner_of(kind, "__getitem__")):
            self.note_read(container)
            if isinstance(key, slice) and not _is_extempo(kind):
                self.refuse(f"it takes a part of a {kind.__name__}")
            found = container[key]
            return self.made(found) if isinstance(key, slice) else found
        known = kind in _TENSORS or kind in (str, range, bytes) or kind is Table or self._is_container(container)
        if not known:
            self.refuse(f"it takes an element of a {kind.__name__}")
        found = container[key]
        return self.made(found) if kind is list and isinstance(key, slice) else found

    def set_item(self, container: Any, key: Any, value: Any) -> None:
        self.check_data((key,), "an index")
        if type(container) in _TENSORS:
            self.check_data((value,), "an assignment")
        else:
            self._check_own(container)
        container[key] = value

    def dict_to_unpack(self, x: Any) -> dict[str, Any]:
        if type(x) is not dict or not self._is_container(x):
            self.refuse(f"it unpacks a {type(x).__name__}")
        return x

    def delete_item(self, container: Any, key: Any) -> None:
        self._check_own(container)
        self.check_data((key,), "an index")
        del container[key]

    # ---- attributes

    def attribute(self, x: Any, name: str, dynamic: bool = False) -> Any:
        """`dynamic`: the name is not in the code, so classes are not watched for it."""
        kind = type(x)
        if kind in _TENSORS:
            return self._of_tensor(x, name)
        if kind is ModuleType:
            return self._of_python_module(x, name)
        if kind is super:
            return self._of_super(x, name)
        if kind in FOLLOWED:
            self.refuse(f"it asks a number for {name}")
        if issubclass(kind, type):
            return self._of_class(x, name)
        if kind in _PLAIN or kind in _CONTAINERS or kind in _VIEWS or kind is Table:
            return getattr(x, name)
        return self._of_object(x, name, dynamic)

    def _of_tensor(self, t: Tensor, name: str) -> Any:
        found = _found_in(type(t), name)
        if name in _TENSOR_ATTRIBUTES:
            if name == "requires_grad" and not self._is_cell and self._is_symbol(t):
                self.refuse("it asks whether a value is tracked")  # which may be so at one call and not at the next
            if not self._is_symbol(t):
                self.outside[id(t)] = t
            return getattr(t, name)
        method = None if found is None else found.value
        if method is not None and is_pure_function(method):
            return MethodType(method, t)
        return self.refuse(f"it asks a tensor for {name}")

    def _of_python_module(self, module: ModuleType, name: str) -> Any:
        names = vars(module)
        if is_library(module.__name__):
            return names[name] if name in names else getattr(module, name)
        if name not in names:
            self.refuse(f"it reads {module.__name__}.{name}, which is computed")
        self._read_names[id(names), name] = names
        return names[name]

    def _of_super(self, x: Any, name: str) -> Any:
        owner, order = x.__thisclass__, x.__self_class__.__mro__
        for base in order[order.index(owner) + 1 :]:
            if name in vars(base):
                value = vars(base)[name]
                if isinstance(value, FunctionType):
                    return MethodType(value, x.__self__)
                break
        return self.refuse(f"it reads super().{name}")

    def _of_class(self, cls: type, name: str) -> Any:
        if isinstance(cls, enum.EnumMeta):
            if name in cls.__members__:
                self.note_read(cls)
                return cls.__members__[name]
        elif type(cls) in (type, abc.ABCMeta):
            found = _found_in(cls, name)
            if found is None:
                raise AttributeError(name)
            if not is_library(cls.__module__):
                self.note_read(cls)
            value = found.value
            if isinstance(value, staticmethod):
                return value.__func__
            if isinstance(value, classmethod):
                return MethodType(value.__func__, cls)
            if isinstance(value, FunctionType) or not hasattr(type(value), "__get__"):
                return value
        return self.refuse(f"it reads {cls.__name__}.{name}")

    def _of_object(self, x: Any, name: str, dynamic: bool) -> Any:
        cls = type(x)
        if not _is_transparent(cls):
            self.refuse(f"it reads {cls.__name__}.{name}, and {cls.__name__} decides itself what that is")
        if not (issubclass(cls, (Module, SimpleNamespace)) or is_tuple(cls)) and is_library(cls.__module__):
            self.refuse(f"it reads {cls.__name__}.{name}, which nobody watches")
        if not is_tuple(cls):
            self.note_read(x)
        found = _found_in(cls, name)
        if found is not None and hasattr(type(found.value), "__set__"):
            return self._by_descriptor(x, name, found)
        attributes = attributes_of(x) or {}
        if name in attributes:
            value = attributes[name]
            if type(value) is Table:
                self._given[id(value)] = value
            return value
        if found is None:
            return self._missing(x, name)
        if dynamic:
            self.refuse(f"it reads {cls.__name__}.{name} by a name that is computed")
        return self._by_class(x, name, found)

    def _by_descriptor(self, x: Any, name: str, found: _Bound) -> Any:
        value = found.value
        if type(value) is property and value.fget is not None:
            return getattr(x, name) if _is_extempo(found.owner) else self.call(value.fget, (x,), {})
        if isinstance(value, MemberDescriptorType | GetSetDescriptorType) or _is_field(value):
            return getattr(x, name)
        return self.refuse(f"it reads {type(x).__name__}.{name}, which a {type(value).__name__} computes")

    def _by_class(self, x: Any, name: str, found: _Bound) -> Any:
        value = found.value
        if isinstance(value, FunctionType) or (isinstance(value, CellOfFunction) and callable(value)):
            return MethodType(value, x)
        if isinstance(value, staticmethod):
            return value.__func__
        if isinstance(value, classmethod):
            return MethodType(value.__func__, type(x))
        if isinstance(value, MethodDescriptorType):
            return getattr(x, name)
        if hasattr(type(value), "__get__"):
            self.refuse(f"it reads {type(x).__name__}.{name}, which a {type(value).__name__} computes")
        return value

    def _missing(self, x: Any, name: str) -> Any:
        computes = getattr(type(x), "__getattr__", None)
        if computes is None or (computes is Module.__getattr__ and x._parametrization(name) is None):
            raise AttributeError(name)
        return self.refuse(f"it reads {type(x).__name__}.{name}, which __getattr__ computes")

    # ---- calls

    def call(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        kind = type(fn)
        if kind is MethodType:
            return self._method(fn.__func__, fn.__self__, args, kwargs)
        if kind is FunctionType:
            return self._function(fn, args, kwargs)
        if kind is BuiltinFunctionType:
            return self._builtin(fn, args, kwargs)
        if kind is functools.partial:
            self.note_read(fn)
            return self.call(fn.func, (*fn.args, *args), {**fn.keywords, **kwargs})
        if issubclass(kind, CellOfFunction) and fn._fn is not None:
            return self.call(fn._fn, args, kwargs)
        if issubclass(kind, type):
            return self._class(fn, args, kwargs)
        if issubclass(type(fn), Module) and _found_in(kind, "__call__") == (vars(Module)["__call__"], Module):
            return self._module(fn, args, kwargs)
        found = _found_in(kind, "__call__")
        if found is not None and isinstance(found.value, FunctionType) and not is_library(kind.__module__):
            return self.call(found.value, (fn, *args), kwargs)
        return self.refuse(f"it calls {_name_of(fn)}")

    def _function(self, fn: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if is_pure_function(fn):
            self.check_data((*args, *kwargs.values()), fn.__name__)
            return self.given(fn(*args, **kwargs))
        module = fn.__globals__.get("__name__")
        if not is_library(module):
            self.note_read(fn)
        elif not is_layer_code(fn):
            self.refuse(f"it calls {_name_of(fn)}")
        return self.interpret(fn, args, kwargs)

    def _method(self, fn: Any, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if issubclass(type(owner), Module) and type(fn) is FunctionType and is_layer_code(fn):
            if fn.__name__ in _MODULE_READS:
                self.note_read(owner)
                found = fn(owner, *args, **kwargs)
                return found if isinstance(found, Module | Tensor) else self.made(iter(list(found)))
            if fn.__globals__["__name__"] in _MODULE_PARTS and fn.__name__ != "forward":
                self.refuse(f"it calls {type(owner).__name__}.{fn.__name__}")
            if self._is_own(owner):
                self.check_data((*args, *kwargs.values()), fn.__name__)
                return self.given(fn(owner, *args, **kwargs))
        return self.call(fn, (owner, *args), kwargs)

    def _module(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.note_read(module)
        if not _is_transparent(type(module)):
            self.refuse(f"it calls {type(module).__name__}, which decides itself what its attributes are")
        if module._call_hooks:
            self.refuse(f"{type(module).__name__} has hooks")
        self._count(module)
        if self._is_own(module):
            self.check_data((*args, *kwargs.values()), type(module).__name__)
            return self.given(module(*args, **kwargs))
        return self.call(self.attribute(module, "forward"), args, kwargs)

    def _count(self, module: Module) -> None:
        """One layer that a body calls often is better a cell itself: these calls, too, run together then."""
        n = self._n_calls[id(module)] = self._n_calls.get(id(module), 0) + 1
        if self._is_cell and n > _MOST_CALLS and any(part._parameters for part in Module.modules(module)):
            self.refuse(f"it calls {type(module).__name__} in a loop, and these calls run together")

    def _is_own(self, module: Module) -> bool:
        """Whether a call of a layer runs Extempo's code alone, which reports effects to the tracer."""
        for part in Module.modules(module):
            forward = _found_in(type(part), "forward")
            if not _is_extempo(type(part)) or forward is None or not is_layer_code(forward.value) or part._call_hooks:
                return False
            for name, value in vars(part).items():
                known = issubclass(type(value), (Module, Table)) or is_pure_function(value) or name in _BOOKKEEPING
                if not known and not self.is_data(value):
                    return False
        return True

    def _builtin(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        owner = fn.__self__
        if owner is not None and type(owner) is not ModuleType:
            return self._builtin_method(fn, owner, args, kwargs)
        special = _SPECIAL.get(fn)
        if special is not None:
            return special(self, *args, **kwargs)
        if fn in _OPERATORS:
            return self.operate(fn, *args)
        if fn in _COMPARISONS:
            return self.compare(fn, *args)
        if fn in _OVER_ELEMENTS and args:
            if len(args) == 1 or fn is sum:
                args = (self.elements(args[0]), *args[1:])
            self.check_data((*args, *kwargs.values()), fn.__name__)
            return self.given(fn(*args, **kwargs))
        if fn not in _ARITHMETIC:
            self.refuse(f"it calls {_name_of(fn)}")
        self.check_data((*args, *kwargs.values()), fn.__name__)
        return fn(*args, **kwargs)

    def _builtin_method(self, fn: Any, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        kind, name = type(owner), fn.__name__
        if kind in (str, bytes):
            self.check_data((*args, *kwargs.values()), name)
            return self.given(fn(*args, **kwargs))
        if name in _COMPARING:
            self.check_data((owner, *args), name)
        elif kind in (dict, set) and name in _HASHING:
            self.check_data((*args[:1], *kwargs.values()), name)
        elif kind is list and name == "extend":
            args = (self.elements(*args),)
        elif not (kind is list and name in _ADDING):
            if not (kind is Table or kind in _PLAIN or self._is_container(owner)) or name not in _READING:
                self.refuse(f"it calls {kind.__name__}.{name}")
            self.check_data(args[:1], name)
            found = fn(*args, **kwargs)
            return self.made(found) if name == "copy" else found
        if name not in ("index", "count"):
            self._check_own(owner)
        return fn(*args, **kwargs)

    def _class(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if cls in _COLLECTIONS and not kwargs:
            parts = self.elements(*args) if args else []
            if cls in (set, frozenset):
                self.check_data(parts, cls.__name__)
            return self.made(cls(parts))
        if cls is dict:
            return self.made(dict(*[self._pairs(x) for x in args], **kwargs))
        if cls in _ITERATORS:
            self.check_data(kwargs.values(), cls.__name__)
            n = 0 if cls is itertools.repeat else 1 if cls in (enumerate, reversed, itertools.islice) else len(args)
            through = [x if cls is reversed and self.iterate(x) else self.iterate(x) for x in args[:n]]
            if cls is not itertools.repeat:
                self.check_data(args[n:], cls.__name__)
            return self.made(cls(*through, *args[n:], **kwargs))
        if cls is map:
            columns = zip(*[self.iterate(x) for x in args[1:]], strict=False)
            return self.made(iter([self.call(args[0], row, {}) for row in columns]))
        if cls is bool and args:
            return self.truth(args[0])
        if cls in _NUMBERS:
            self.check_data((*args, *kwargs.values()), cls.__name__)
            return cls(*args, **kwargs)
        if cls is type and len(args) == 1 and type(args[0]) not in FOLLOWED and not self._is_symbol(args[0]):
            return type(args[0])
        if cls is super and len(args) == 2:
            return super(*args)
        if _is_named_tuple(cls):
            return cls(*args, **kwargs)
        if _is_plain_class(cls):
            return self._object(cls, args, kwargs)
        return self.refuse(f"it makes a {cls.__name__}")

    def _object(self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An object of the user's, which the body may change, since nobody else has it."""
        made = self.made(object.__new__(cls))
        init = _found_in(cls, "__init__")
        if init is not None and isinstance(init.value, FunctionType):
            self.call(init.value, (made, *args), kwargs)
        elif args or kwargs:
            self.refuse(f"it makes a {cls.__name__}")
        return made

    def set_attribute(self, x: Any, name: str, value: Any) -> None:
        """x.name = value, of an object that the body has made."""
        found = _found_in(type(x), name)
        computed = found is not None and hasattr(type(found.value), "__set__")
        if not self.has_made(x) or not _is_plain_class(type(x)) or computed:
            self.refuse(f"it sets the attribute {name}")
        object.__setattr__(x, name, value)

    def _pairs(self, x: Any) -> Any:
        """What a dict is made of."""
        if type(x) is dict or type(x) is Table:
            self.iterate(x)
            return x
        pairs = self.elements(x)
        if not all(type(pair) is tuple and len(pair) == 2 and self.is_data(pair[0]) for pair in pairs):
            self.refuse("it makes a dict of something that is no pairs of data and values")
        return pairs

    # ---- builtin functions that ask more of their arguments

    def _len(self, x: Any) -> int:
        kind = type(x)
        module = issubclass(type(x), Module) and _is_extempo(_owner_of(kind, "__len__"))
        if not (module or kind in _TENSORS or kind in _ITERABLE or self._is_container(x)):
            self.refuse(f"it asks for the length of a {kind.__name__}")
        return len(x)

    def _isinstance(self, x: Any, classes: Any) -> bool:
        if type(x) not in FOLLOWED and not _is_transparent(type(x)):
            self.refuse(f"it asks for the class of a {type(x).__name__}")
        asked = classes if type(classes) is tuple else classes.__args__ if type(classes) is UnionType else (classes,)
        for cls in asked:
            known = type(cls) in (type, enum.EnumMeta) or (type(cls) is abc.ABCMeta and is_library(cls.__module__))
            if not known and not _is_extempo(cls):
                self.refuse(f"it asks whether something is a {_name_of(cls)}")
            if self._is_symbol(x) and issubclass(cls, Tensor) and cls is not Tensor:
                self.refuse(f"it asks whether an argument is a {cls.__name__}")
        return isinstance(x, classes)

    def _getattr(self, x: Any, name: str, *default: Any) -> Any:
        try:
            return self.attribute(x, name, dynamic=True)
        except AttributeError:
            if not default:
                raise
            return default[0]

    def _hasattr(self, x: Any, name: str) -> bool:
        return self._getattr(x, name, MISSING) is not MISSING

    def _next(self, iterator: Any, *default: Any) -> Any:
        try:
            return self.advance(iterator)
        except StopIteration:
            if not default:
                raise
            return default[0]

    def _reduce(self, fn: Any, elements: Any, *first: Any) -> Any:
        left = iter([*first, *self.elements(elements)])
        result = next(left)
        for x in left:
            result = self.call(fn, (result, x), {})
        return result


_SPECIAL: dict[Any, Callable[..., Any]] = {
    len: PureCalls._len,
    isinstance: PureCalls._isinstance,
    getattr: PureCalls._getattr,
    hasattr: PureCalls._hasattr,
    iter: PureCalls.iterate,
    next: PureCalls._next,
    functools.reduce: PureCalls._reduce,
    operator.getitem: PureCalls.item,
    operator.contains: PureCalls.contains,
    operator.is_: PureCalls.same,
}


# ---- classes and functions


def _found_in(cls: type, name: str) -> _Bound | None:
    """What a class has by a name, as it stands there."""
    for base in cls.__mro__:
        if name in vars(base):
            return _Bound(vars(base)[name], base)
    return None


def _owner_of(cls: type, name: str) -> type | None:
    found = _found_in(cls, name)
    return None if found is None else found.owner


def _is_transparent(cls: type) -> bool:
    """Whether objects of a class show what they have: no code of the user's runs when an attribute is asked for."""
    owners = (_owner_of(cls, "__getattribute__"), _owner_of(cls, "__class__"))
    return all(owner is not None and is_library(owner.__module__) for owner in owners)


def _is_extempo(cls: Any) -> bool:
    module = getattr(cls, "__module__", None)
    return isinstance(module, str) and (module + ".").startswith("extempo.") and not module.startswith("extempo.cli")


def is_pure_function(fn: Any) -> bool:
    """Whether it is one of Extempo's functions that compute, and report to the tracer what else they do."""
    if type(fn) is not FunctionType:
        return False
    module = fn.__globals__.get("__name__", "")
    known = isinstance(module, str) and module.startswith(_PURE_LIBRARIES) and fn.__name__ not in _NO_OPS
    return known or fn is vars(Tensor)["detach"]


def is_layer_code(fn: Any) -> bool:
    """Whether it is a function or method of Extempo's layers."""
    fn = fn.__func__ if type(fn) is MethodType else fn
    return type(fn) is FunctionType and str(fn.__globals__.get("__name__")).startswith("extempo.nn.")


def is_tuple(kind: Any) -> bool:
    """Whether a class does what a tuple does, by the same code: a tuple or a named tuple."""
    return issubclass(kind, tuple) and (kind is tuple or _adds_nothing(kind))


@functools.lru_cache(1_000)
def _adds_nothing(kind: Any) -> bool:
    names = ("__iter__", "__getitem__", "__len__", "__eq__", "__contains__", "__add__", "__getattribute__")
    same = all(getattr(kind, name) is getattr(tuple, name) for name in names)
    return _is_extempo(kind) or (same and not hasattr(kind, "__bool__"))


def _is_named_tuple(cls: Any) -> bool:
    """Whether making one runs no code of the user's."""
    new = cls.__new__
    if not is_tuple(cls) or not hasattr(cls, "_fields") or not isinstance(new, FunctionType):
        return False
    return new.__globals__.get("__name__", "").startswith("namedtuple_") and cls.__init__ is object.__init__


_OWN_WAYS = frozenset(("__del__", "__setattr__", "__delattr__", "__getattribute__", "__getattr__", "__slots__"))


def _is_plain_class(cls: Any) -> bool:
    """Whether objects of a class of the user's are made, and have attributes, as objects do by themselves."""
    if type(cls) is not type or is_library(cls.__module__) or _owner_of(cls, "__new__") is not object:
        return False
    return not any(_OWN_WAYS & vars(base).keys() for base in cls.__mro__[:-1])


def _is_field(value: Any) -> bool:
    """Whether it is the descriptor of a named tuple's field."""
    return type(value) is type(vars(_Bound)["owner"])


def _name_of(x: Any) -> str:
    name = getattr(x, "__qualname__", None) or type(x).__name__
    module = getattr(x, "__module__", None)
    return name if module in (None, builtins.__name__) or not isinstance(module, str) else f"{module}.{name}"
