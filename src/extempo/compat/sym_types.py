"""PyTorch's classes of sizes that are not known yet. `isinstance(n, torch.SymInt)` is False here: a size is an int."""

from __future__ import annotations

from typing import Any, NoReturn

from ..errors import UnsupportedError

__all__ = ["SymBool", "SymFloat", "SymInt"]


class _NeverMade:
    def __new__(cls, node: Any) -> NoReturn:
        raise UnsupportedError(f"{cls.__name__}: sizes and numbers are Python's own in Extempo; use int, float or bool")


class SymInt(_NeverMade):
    """An int that a compiler does not know yet; there is none here.

    >>> isinstance(ex.zeros(3).shape[0], ex.SymInt)
    False
    """


class SymFloat(_NeverMade):
    """A float that a compiler does not know yet; there is none here.

    >>> isinstance(0.5, ex.SymFloat)
    False
    """


class SymBool(_NeverMade):
    """A bool that a compiler does not know yet; there is none here.

    >>> isinstance(True, ex.SymBool)
    False
    """
