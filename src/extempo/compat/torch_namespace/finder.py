"""Answers imports of `torch` and of what is below it, and questions about the version that is installed."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from os import PathLike
from types import ModuleType
from typing import Any

from ...core.public_names import show_as
from ...core.tensor import Tensor
from ...errors import UnsupportedError
from .facade import TorchModule
from .layout import Home, homes_of, is_module
from .missing import note_missing
from .torch_version import TorchVersion

VERSION = TorchVersion("2.13.0")  # whose names and meanings Extempo has


_ANY = importlib.metadata.DistributionFinder.Context()


class TorchDistribution(importlib.metadata.Distribution):
    """What `importlib.metadata` finds of PyTorch."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\nSummary: Extempo under PyTorch's name\n"

    def locate_file(self, path: str | PathLike[str]) -> Any:
        raise FileNotFoundError(f"torch is Extempo here and has no file {path}")


class TorchFinder(importlib.metadata.DistributionFinder, Loader):
    """On `sys.meta_path`, before all others."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in ("torch", "functorch") and not fullname.startswith("torch."):
            return None
        if not is_module(_path_of(fullname)):
            note_missing(fullname)
            raise ModuleNotFoundError(f"No module named {fullname!r}: torch is Extempo here", name=fullname)
        return ModuleSpec(fullname, self, origin="extempo", is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        homes = homes_of(_path_of(spec.name))
        reason = next((home.reason for home in homes if home.module is None), "")
        module = TorchModule(spec.name, _modules(homes), reason)
        if spec.name in ("torch", "torch.version"):
            module.__dict__["__version__"] = VERSION
        if spec.name == "torch":
            module.__dict__["torch"] = module  # PyTorch's package imports itself
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: names are looked up when they are asked for."""

    def find_distributions(
        self, context: importlib.metadata.DistributionFinder.Context = _ANY
    ) -> Iterable[importlib.metadata.Distribution]:
        return [TorchDistribution()] if context.name in (None, "torch") else []

    def invalidate_caches(self) -> None:
        """There is none."""


def _path_of(fullname: str) -> str:
    """Where a module is below `torch`; functorch is PyTorch's older name of `torch.func`."""
    return "func" if fullname == "functorch" else fullname[6:]


def _modules(homes: list[Home]) -> list[ModuleType]:
    """Those that exist."""
    return [module for home in homes if home.module and (module := _import(home.module)) is not None]


def _import(name: str) -> ModuleType | None:
    """A module, or what a package offers by that name; None if there is none."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
    package, _, last = name.rpartition(".")
    found = getattr(sys.modules.get(package), last, None)
    return found if isinstance(found, ModuleType) else None


_FINDER = TorchFinder()


def install() -> None:
    """From here on `import torch` means Extempo, in this process. Does nothing the second time."""
    if _FINDER in sys.meta_path:
        return
    if "torch" in sys.modules:
        raise UnsupportedError(
            "extempo.as_torch: PyTorch itself is loaded already, so that `import torch` cannot mean Extempo any more; "
            "put `import extempo.as_torch` on the first line of the program, or run it by `extempo run`"
        )
    sys.meta_path.insert(0, _FINDER)
    show_as("torch")
    Tensor.__module__ = "torch"  # libraries for several frameworks look there for the name of the framework
