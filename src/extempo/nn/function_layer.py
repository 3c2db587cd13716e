"""FunctionLayer: a layer that is one call of a function, and `stores_arguments`, which writes what it needs.

Activations, pooling, dropout and losses keep what they were constructed with and pass it on. They are declared,

    @stores_arguments
    class LeakyReLU(OneInputLayer):
        negative_slope: float = 0.01
        inplace: bool = False
        _function = staticmethod(F.leaky_relu)

and get the constructor and the `forward` that one would write by hand.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar, dataclass_transform

from ..core.tensor import Tensor
from .layer_support import Shown
from .module import Module

_REQUIRED: Any = object()  # stands for the default of an argument that has none


class FunctionLayer(Shown):
    """Holds what it was constructed with; `forward` calls `_function` with its inputs and the attributes in `_options`.

    `_options` and `_shown` are the constructor's arguments unless a class says otherwise.
    """

    _function: ClassVar[Callable[..., Tensor]]
    _options: ClassVar[tuple[str, ...]] = ()
    _arguments: ClassVar[Mapping[str, tuple[str, Any]]] = {}  # of the constructor, with annotation and default
    _not_kept: ClassVar[tuple[str, ...]] = ()  # arguments that `_store` turns into others

    def _store(self, **arguments: Any) -> None:
        """Keep what the constructor was called with. A class that checks or completes it does so before."""
        Module.__init__(self)
        for name, value in arguments.items():
            setattr(self, name, value)


class OneInputLayer(FunctionLayer):
    """A layer of one input, which the options follow by position."""

    def forward(self, input: Tensor) -> Tensor:
        return self._function(input)


Layer = TypeVar("Layer", bound=FunctionLayer)


@dataclass_transform(eq_default=False)
def stores_arguments(cls: type[Layer]) -> type[Layer]:
    """Give a layer the constructor that its annotated attributes describe, those of its bases first.

    As with dataclasses it is compiled from text: Python, `help` and type checkers see an ordinary `__init__`, a wrong
    call is Python's own error, and a call costs what it costs by hand. Other than there the defaults do not stay class
    attributes. A layer of one input gets its `forward` in the same way.
    """
    own = {name: text for name, text in cls.__annotations__.items() if not text.startswith("ClassVar")}
    arguments = {**cls._arguments, **{name: (text, vars(cls).get(name, _REQUIRED)) for name, text in own.items()}}
    for name in own.keys() & vars(cls).keys():
        delattr(cls, name)
    kept = tuple(name for name in arguments if name not in cls._not_kept)
    cls._arguments = arguments
    cls._options = vars(cls).get("_options", kept)
    cls._shown = vars(cls).get("_shown", tuple(name for name in kept if name != "inplace"))
    _write_constructor(cls)
    if issubclass(cls, OneInputLayer) and "forward" not in vars(cls):
        _write_forward(cls)
    return cls


def _write_constructor(cls: type[FunctionLayer]) -> None:
    names = list(cls._arguments)
    passed = ", ".join(f"{name}={name}" for name in names)
    scope = vars(sys.modules[cls.__module__])
    made = _method(cls, "__init__", f"def __init__(self, {', '.join(names)}): self._store({passed})", scope)
    made.__annotations__ = {name: annotation for name, (annotation, _) in cls._arguments.items()} | {"return": "None"}
    made.__defaults__ = tuple(default for _, default in cls._arguments.values() if default is not _REQUIRED)


def _write_forward(cls: type[OneInputLayer]) -> None:
    inherited, is_cell = cls.forward, cls._is_cell
    options = "".join(f", self.{name}" for name in cls._options)
    text = f"def forward(self, input): return self._function(input{options})"
    _method(cls, "forward", text, inherited.__globals__).__annotations__ = inherited.__annotations__
    cls._is_cell = is_cell  # a class with a forward of its own says whether it is one


def _method(cls: type, name: str, text: str, scope: dict[str, Any]) -> Any:
    """Compile a method of a class in the scope of a module, where its annotations mean something."""
    file = f"<{cls.__module__}.{cls.__qualname__}.{name}>"
    linecache.cache[file] = len(text), None, [text], file  # for tracebacks and inspect.getsource
    defined: dict[str, Any] = {}
    exec(compile(text, file, "exec"), scope, defined)
    method = defined[name]
    method.__module__, method.__qualname__ = cls.__module__, f"{cls.__qualname__}.{name}"
    setattr(cls, name, method)
    return method
