"""Every public name of the library, asked of the library itself: much of it is made by declarations that no reader of
the source text alone would find. The reference and its test take their names from here.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import extempo as ex
from extempo.compat.refused import RefusedMethod
from extempo.ops import creation

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "extempo"

NAMESPACES = [
    "extempo",
    "extempo.amp",
    "extempo.autograd",
    "extempo.autograd.functional",
    "extempo.autograd.graph",
    "extempo.backends",
    "extempo.cpu",
    "extempo.data",
    "extempo.distributions",
    "extempo.distributions.constraints",
    "extempo.distributions.kl",
    "extempo.distributions.transforms",
    "extempo.distributions.utils",
    "extempo.errors",
    "extempo.exporting",
    "extempo.func",
    "extempo.inspect",
    "extempo.learn",
    "extempo.linalg",
    "extempo.masked",
    "extempo.memory",
    "extempo.metrics",
    "extempo.profiling",
    "extempo.nested",
    "extempo.nn",
    "extempo.nn.attention",
    "extempo.nn.functional",
    "extempo.nn.init",
    "extempo.nn.utils",
    "extempo.nn.utils.parametrizations",
    "extempo.nn.utils.parametrize",
    "extempo.nn.utils.rnn",
    "extempo.optim",
    "extempo.optim.lr_scheduler",
    "extempo.optim.swa_utils",
    "extempo.random",
    "extempo.serialization",
    "extempo.signal.windows",
    "extempo.special",
    "extempo.testing",
    "extempo.train",
    "extempo.utils.checkpoint",
]

# Public modules without a page, and why.
LEFT_OUT = {
    "extempo.autograd.function": "`autograd.Function` by PyTorch's module name",
    "extempo.cpu.amp": "`extempo.amp` by PyTorch's older name",
    "extempo.cuda": "there is no such device: is_available() is False, and what scripts call besides does nothing",
    "extempo.mps": "there is no such device: is_available() is False",
    "extempo.ops": "the functions are those of `extempo` itself",
    "extempo.signal": "has `extempo.signal.windows` and nothing else",
    "extempo.utils": "has `extempo.utils.data` and `extempo.utils.checkpoint` and nothing else",
    "extempo.utils.data": "is `extempo.data`",
    "extempo.utils.hooks": "handles of hooks by PyTorch's module name",
    "extempo.version": "constants that scripts ask for: which CUDA it was built with (None), and the like",
    "extempo.xpu": "there is no such device: is_available() is False",
    "extempo.nn.parameter": "`nn.Parameter` by PyTorch's module name",
}
# The public names of a package that also holds internals.
STATED = {"extempo.backends": ["stats"]}


class PublicName(NamedTuple):
    namespace: str
    name: str
    value: Any

    @property
    def path(self) -> str:
        return f"{self.namespace}.{self.name}"

    @property
    def is_callable(self) -> bool:
        return callable(self.value)


def names_of(namespace: str) -> list[PublicName]:
    """What `__all__` lists, or else what the module defines itself; modules and private names left out."""
    module = importlib.import_module(namespace)
    names = STATED.get(namespace) or getattr(module, "__all__", None)
    if names is None:
        names = [n for n, value in vars(module).items() if getattr(value, "__module__", None) == namespace]
    found = [PublicName(namespace, n, getattr(module, n)) for n in sorted(names, key=str.lower) if n[0] != "_"]
    return [n for n in found if not isinstance(n.value, types.ModuleType)]


@functools.cache
def namespaces() -> list[str]:
    """The listed ones, then public modules that the list does not know yet."""
    found: set[str] = set()
    waiting = ["extempo"]
    while waiting:
        module = importlib.import_module(waiting.pop())
        values = [getattr(module, name) for name in getattr(module, "__all__", ())]
        inner = {v.__name__ for v in values if isinstance(v, types.ModuleType)} - found
        waiting += inner
        found |= inner
    return [*NAMESPACES, *sorted(found - {*NAMESPACES, *LEFT_OUT})]


@functools.cache
def everything() -> list[PublicName]:
    return [found for namespace in namespaces() for found in names_of(namespace)]


def methods(cls: type) -> dict[str, Any]:
    """The public methods and properties of a class that no public class above it has, or has with other arguments."""
    public = [
        base for base in cls.__mro__[1:] if base in _public_classes() or not base.__module__.startswith("extempo")
    ]
    above = {base for known in public for base in known.__mro__}
    inherited = {name: value for base in above for name, value in vars(base).items()}
    own = [base for base in reversed(cls.__mro__) if base not in above]
    found = {name: value for base in own for name, value in vars(base).items()}
    if cls is not ex.Tensor:  # a ragged tensor has the same methods, and says so once
        found = {name: value for name, value in found.items() if value is not getattr(ex.Tensor, name, None)}
    return {
        n: found[n]
        for n in sorted(found)
        if n[0] != "_" and _is_method(found[n]) and (n not in inherited or _asks_for_more(found[n], inherited[n]))
    }


def _is_method(value: Any) -> bool:
    if isinstance(value, RefusedMethod):
        return False
    return isinstance(value, property | classmethod | staticmethod) or inspect.isroutine(value)


def text_of_method(cls: type, name: str) -> str:
    """Its docstring, or that of the method it overrides; a ragged tensor's methods mean what a tensor's mean."""
    is_layer = name == "forward" and cls is not ex.nn.Module
    for base in [*cls.__mro__, *(ex.Tensor.__mro__ if cls is ex.RaggedTensor else ())]:
        value = vars(base).get(name)
        text = getattr(getattr(value, "__func__", value), "__doc__", None)
        if value is not None and text and not (is_layer and base is ex.nn.Module):
            return inspect.cleandoc(text)
    return "What it is called with." if is_layer else ""


def _asks_for_more(method: Any, inherited: Any) -> bool:
    """Whether it has arguments that the method of the class above does not name: `forward` of attention has masks.

    One input alone is what every layer has.
    """
    if not inspect.isfunction(method) or not inspect.isfunction(inherited):
        return False
    own, above = (inspect.signature(each).parameters.keys() - {"args", "kwargs"} for each in (method, inherited))
    return len(own) > 2 and own > above


@functools.cache
def _public_classes() -> set[type]:
    return {found.value for found in everything() if inspect.isclass(found.value)}


# ---- signatures


def signature(value: Any) -> inspect.Signature | None:
    """How it is called, where Python knows."""
    if inspect.isclass(value) and issubclass(value, ex.nn.Module) and value.__init__ is ex.nn.Module.__init__:
        return inspect.Signature()  # a layer without settings
    try:
        return inspect.signature(value)
    except (TypeError, ValueError):  # exceptions take a message
        return None


def other_names(found: inspect.Signature) -> dict[str, str]:
    """Keywords that are other names of an argument, as `axis` is of `dim`: their default is that argument."""
    return {p.name: repr(p.default) for p in found.parameters.values() if repr(p.default) in found.parameters}


def call_of(name: str, value: Any, home: Any) -> inspect.Signature | None:
    """Its signature; that of `relu_` says the arguments of `relu`, which it has beside it."""
    found = signature(value)
    if found and name.endswith("_") and {"args", "kwargs"} <= found.parameters.keys():
        plain = signature(getattr(home, name[:-1], None))
        if plain:
            keep = [p for p in plain.parameters.values() if p.name not in ("inplace", "out")]
            return plain.replace(parameters=keep, return_annotation=found.return_annotation)
    return found


def arguments(name: str, value: Any, home: Any) -> list[inspect.Parameter]:
    """What a caller may give: no `self`, no second names or old forms, a dict of options as what it may hold."""
    found = call_of(name, value, home)
    if found is None:
        return []
    hidden = {*(("self", "cls") if inspect.isclass(home) else ()), *other_names(found)}
    return [p for p in _unpacked(found) if p.name not in hidden and not p.name.startswith("_")]


def _unpacked(found: inspect.Signature) -> Iterator[inspect.Parameter]:
    for p in found.parameters.values():
        options = re.fullmatch(r"Unpack\[(\w+)\]", str(p.annotation))
        if options:
            for key, annotation in getattr(creation, options[1]).__annotations__.items():
                if key not in found.parameters:
                    yield inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        else:
            yield p


# ---- where it stands


@functools.cache
def _index() -> dict[str, list[tuple[Path, int]]]:
    """Where each name is bound at the top level of a file."""
    found: dict[str, list[tuple[Path, int]]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            bound = re.match(r"(?:class|def|async def) (\w+)", line)
            names = [bound[1]] if bound else re.findall(r"(\w+)(?:: [^=]+)? = ", line) if line[:1].isalpha() else []
            for name in names:
                found.setdefault(name, []).append((path, number))
    return found


def _module(path: Path) -> Any:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return sys.modules.get(".".join(parts[:-1] if parts[-1] == "__init__" else parts))


def place(name: str, value: Any) -> tuple[Path, int] | None:
    """The file and line that define it."""
    for known in (getattr(value, "__name__", name), name):
        for path, line in _index().get(known, []):
            if getattr(_module(path), known, None) is value:
                return path, line
    code = getattr(inspect.unwrap(value) if callable(value) else value, "__code__", None)
    if code and Path(code.co_filename).is_relative_to(PACKAGE):
        return Path(code.co_filename), code.co_firstlineno
    return None


@functools.cache
def _ops_by_name() -> dict[str, str]:
    """For each public op the module that lists it: who defines it may be a declaration shared by many."""
    modules = [m for m in pkgutil.iter_modules(ex.ops.__path__) if m.name != "public"]
    loaded = [(m.name, importlib.import_module(f"extempo.ops.{m.name}")) for m in modules]
    return {n: f"ops.{name}" for name, module in loaded for n in getattr(module, "__all__", ()) if n in ex.ops.__all__}


def family(found: PublicName) -> str:
    """The module that defines it, from the package on: `ops.softmaxes`."""
    if found.namespace == "extempo" and found.name in _ops_by_name():
        return _ops_by_name()[found.name]
    where = place(found.name, found.value)
    return ".".join(where[0].relative_to(PACKAGE).with_suffix("").parts) if where else ""
