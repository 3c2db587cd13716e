"""Names that users vouch for: `safe_globals` and its fellows, with PyTorch's names and meanings.

A class or function in this list may be rebuilt or referred to by a file; everything else goes by the rule in
`class_rule`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import DtypeError

_listed: list[Any] = []


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Let files rebuild these classes, and refer to these functions, from here on.

    An element is a class or function, or a pair of it and the full name that files have for it. A file can then make
    objects of the class, and call its `__setstate__` or what its `__reduce__` names, with any arguments: list what is
    harmless whatever it is given.

    >>> ex.serialization.add_safe_globals([complex])
    >>> ex.serialization.get_safe_globals()
    [<class 'complex'>]
    >>> ex.serialization.clear_safe_globals()
    """
    _listed.extend(_checked(safe_globals))


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` was given, and the `safe_globals` blocks that are open.

    >>> with ex.serialization.safe_globals([complex]):
    ...     ex.serialization.get_safe_globals()
    [<class 'complex'>]
    """
    return list(_listed)


def clear_safe_globals() -> None:
    """Forget everything that `add_safe_globals` was given.

    >>> ex.serialization.clear_safe_globals()
    >>> ex.serialization.get_safe_globals()
    []
    """
    _listed.clear()


class safe_globals:  # PyTorch's name
    """A block in which files may rebuild these classes, and refer to these functions: see `add_safe_globals`.

    >>> import io
    >>> class Vocabulary:
    ...     words = ("a", "b")
    >>> with ex.serialization.safe_globals([Vocabulary]):
    ...     print(len(ex.serialization.get_safe_globals()))
    1
    """

    def __init__(self, safe_globals: Sequence[Any]) -> None:
        self._names = _checked(safe_globals)
        self._before: list[Any] = []

    def __enter__(self) -> None:
        self._before = list(_listed)
        _listed.extend(self._names)

    def __exit__(self, *exception: object) -> None:
        _listed[:] = self._before


def _checked(names: Any) -> list[Any]:
    if callable(names) or isinstance(names, str):
        raise DtypeError(f"safe_globals: expected a list of classes and functions, got {names!r}; write [{names!r}]")
    for name in names:
        pair = isinstance(name, tuple) and len(name) == 2 and callable(name[0]) and isinstance(name[1], str)
        if not (pair or (callable(name) and hasattr(name, "__qualname__"))):
            raise DtypeError(
                f"safe_globals: expected classes, functions or pairs such as (class, 'its.full.name'), got {name!r}"
            )
    return list(names)


def listed_by_name() -> dict[str, Any]:
    """What users vouch for, by its full name."""
    return dict(name[::-1] if isinstance(name, tuple) else (full_name(name), name) for name in _listed)


def full_name(found: Any) -> str:
    """`package.module.Class.Inner` of a class or function."""
    return f"{found.__module__}.{found.__qualname__}"
