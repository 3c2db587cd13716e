"""PyTorch's classes of sizes that are not known yet, and its functions of them.

`isinstance(n, torch.SymInt)` is False here: a size is an int, and the functions are those of Python's numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NoReturn

from ..errors import UnsupportedError

__all__ = [
    "SymBool",
    "SymFloat",
    "SymInt",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sqrt",
    "sym_sum",
]


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


def sym_int(a: Any) -> int:
    """int(a): the number without its fraction.

    >>> ex.sym_int(2.7), ex.sym_int(-2.7)
    (2, -2)
    """
    return int(a)


def sym_float(a: Any) -> float:
    """float(a).

    >>> ex.sym_float(2)
    2.0
    """
    return float(a)


def sym_not(a: Any) -> bool:
    """not a.

    >>> ex.sym_not(True)
    False
    """
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The larger number, a float if one of them is.

    >>> ex.sym_max(2, 3), ex.sym_max(3, 2.0)
    (3, 3.0)
    """
    return _of_common_kind(max, a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number, a float if one of them is.

    >>> ex.sym_min(2, 3), ex.sym_min(2, 3.0)
    (2, 2.0)
    """
    return _of_common_kind(min, a, b)


def _of_common_kind(choose: Any, a: Any, b: Any) -> Any:
    return float(choose(a, b)) if isinstance(a, float) or isinstance(b, float) else choose(a, b)


def sym_sqrt(a: Any) -> float:
    """The square root.

    >>> ex.sym_sqrt(9)
    3.0
    """
    return math.sqrt(a)


def sym_sum(args: Iterable[Any]) -> Any:
    """The sum of several numbers.

    >>> ex.sym_sum([1, 2, 3])
    6
    """
    return sum(args)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """t if b is true, else f.

    >>> ex.sym_ite(False, 1, 2)
    2
    """
    return t if b else f
