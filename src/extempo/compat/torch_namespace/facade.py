"""Modules named `torch...` that hand on to Extempo's."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from ...core.absent_names import RefusedType, did_you_mean, refused
from .layout import BELOW, is_module
from .missing import note_missing
from .refusals import reason_for


class TorchModule(ModuleType):
    """A module of PyTorch's whose contents are those of Extempo's modules, in order, and then what is refused.

    Functions and classes are kept when they were found once, so that `torch.tanh` costs what an attribute costs.
    Anything else is asked for each time, since it may change. What is assigned (`torch.backends.cudnn.benchmark =
    True`) goes to the module that has it.
    """

    def __init__(self, name: str, homes: Iterable[ModuleType], reason: str = "") -> None:
        super().__init__(name)
        self.__dict__.update(_homes=tuple(homes), _reason=reason, __path__=[])
        if self._homes:
            self.__dict__["__doc__"] = self._homes[0].__doc__
        for home in reversed(self._homes):  # for programs that look into `torch.optim.__dict__`
            contents = vars(home)
            known = ((public, contents.get(public)) for public in contents.get("__all__", ()))
            self.__dict__.update((public, value) for public, value in known if callable(value))

    _homes: tuple[ModuleType, ...]
    _reason: str

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return self._public()
        reason = self._reason
        for home in self._homes:
            try:
                found = getattr(home, name)
            except AttributeError:
                continue
            else:
                if isinstance(found, RefusedType):
                    reason = reason or found.reason
                    continue
                if isinstance(found, ModuleType) and found.__name__.startswith("extempo"):
                    if self._is_foreign(name):
                        continue
                    break  # a submodule: the import below makes the facade
                if callable(found):
                    self.__dict__[name] = found
                return found
        if name.startswith("__") and name.endswith("__") and name != "__config__":  # what Python itself asks
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)
        return self._not_there(name, reason)

    def _public(self) -> list[str]:
        """What `from torch import *` takes: no module of Extempo's that PyTorch has not."""
        public = dict.fromkeys(name for home in self._homes for name in getattr(home, "__all__", ()))
        return [name for name in public if not self._is_foreign(name)]

    def _is_foreign(self, name: str) -> bool:
        if is_module(f"{self.__name__}.{name}".removeprefix("torch.")):
            return False
        return any(_has_module(home, name) for home in self._homes)

    def _not_there(self, name: str, reason: str) -> Any:
        """A submodule that nobody has imported, what is refused when it is used, or an error."""
        path = f"{self.__name__}.{name}"
        if name in BELOW.get(self.__name__.removeprefix("torch").removeprefix("."), ()):
            return importlib.import_module(path)
        if not self._reason:
            if is_module(path.removeprefix("torch.")):
                return importlib.import_module(path)
            note_missing(path)
        reason = reason or reason_for(self.__name__, name)
        if reason:
            stands_for = self.__dict__[name] = refused(path, reason)
            return stands_for
        hint = did_you_mean(name, dir(self))
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}{hint}", name=name)

    def __setattr__(self, name: str, value: Any) -> None:
        home = None if isinstance(value, TorchModule) or name.startswith("__") else self._home_of(name)
        if home is None:
            self.__dict__[name] = value
        else:
            self.__dict__.pop(name, None)
            setattr(home, name, value)

    def _home_of(self, name: str) -> ModuleType | None:
        return next((home for home in self._homes if hasattr(home, name)), None)

    def __dir__(self) -> list[str]:
        return sorted(
            {*self.__dict__, *(name for home in self._homes for name in dir(home) if not self._is_foreign(name))}
        )


def _has_module(home: ModuleType, name: str) -> bool:
    """Whether the name is that of a module of Extempo's, loaded or not."""
    if name in vars(home):
        found = vars(home)[name]
        return isinstance(found, ModuleType) and found.__name__.startswith("extempo")
    return hasattr(home, "__path__") and importlib.util.find_spec(f"{home.__name__}.{name}") is not None
