"""`torch.ops`: the inner names of PyTorch's ops. `torch.ops.aten.add.Tensor` can be named, and refuses to be called."""

from __future__ import annotations

from typing import Any, NoReturn

from ...core.absent_names import RefusedName
from ...errors import UnsupportedError
from .library import OPS, CustomOp


class OpName:
    """An op of PyTorch, or one of its overloads, by name: libraries keep tables of them."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> OpName:
        if name.startswith("__"):
            raise AttributeError(f"{self._path} has no attribute {name!r}", name=name, obj=self)
        named = OpName(f"{self._path}.{name}")
        setattr(self, name, named)  # so that it is the same one the next time
        return named

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RefusedName(f"{self._path}: ops by their inner names are not there; call the public function", self._path)

    def __repr__(self) -> str:
        return f"<refused: {self._path}>"


class OpNamespace:
    """The ops that were made by `torch.library.custom_op("<name>::...")`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> CustomOp:
        found = OPS.get(f"{self._name}::{name}")
        if found is not None:
            return found
        raise AttributeError(f"torch.ops.{self._name} has no op {name!r}: torch is Extempo here", name=name, obj=self)


aten, prim, prims = (OpName(f"torch.ops.{name}") for name in ("aten", "prim", "prims"))


class NativeLibraryRefused(UnsupportedError, OSError):
    """An OSError as well: libraries that can do without their native ops expect one."""


def load_library(path: str) -> NoReturn:
    """Native ops of PyTorch's cannot be loaded."""
    raise NativeLibraryRefused(
        f"torch.ops.load_library: {path} needs PyTorch's own machinery, which Extempo does not have"
    )


def __getattr__(name: str) -> OpNamespace:
    if name.startswith("__"):
        raise AttributeError(f"module 'torch.ops' has no attribute {name!r}", name=name)
    return OpNamespace(name)
