"""Public classes say where they are public: `Tensor.__module__` is "extempo", wherever the class is defined.

Messages, documentation and files name a class by that, and may rely on it: public paths stay, rooms may change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_shown = ["extempo"]


def shown_name() -> str:
    """What dtypes, sizes and types of tensors call the package when they are printed."""
    return _shown[0]


def show_as(name: str) -> None:
    """Print another name: programs that were told that Extempo is `torch` compare texts such as "torch.float32"."""
    _shown[0] = name


def publish(package: str, names: Iterable[str], values: Mapping[str, Any]) -> None:
    """Classes of Extempo among these values, by name, are those of a public package."""
    for name in names:
        value = values.get(name)
        if isinstance(value, type) and value.__module__.startswith("extempo."):
            value.__module__ = package
