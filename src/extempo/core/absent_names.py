"""Names that are not there: what a module says when it is asked for a name that it does not have.

A misspelt name gets the nearest one suggested. A name of PyTorch that Extempo refuses can be imported, asked about and
subclassed, and says why when it is called or looked into; so `from extempo import fft` and `extempo.fft` behave alike.
"""

from __future__ import annotations

import difflib
import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from types import CodeType
from typing import Any, NoReturn, Self

from ..errors import UnsupportedError

__all__ = [
    "KeywordSuggestions", "RefusedName", "RefusedType", "check_keywords", "did_you_mean", "explain_absent",
    "module_getattr", "nearest", "refused",
]  # fmt: skip


# ---- misspelt


def nearest(name: str, candidates: Iterable[str], n: int = 1) -> list[str]:
    """The `n` candidates that look most like `name`, in its case if any do; none if nothing looks like it.

    Letters that changed places are the likeliest mistake, so a name of the same letters comes first.
    """
    names = list(candidates)
    by_lower = {candidate.lower(): candidate for candidate in names}
    near = difflib.get_close_matches(name, names, n + 4) or [
        by_lower[found] for found in difflib.get_close_matches(name.lower(), by_lower, n + 4)
    ]
    letters = sorted(name.lower())
    return sorted(near, key=lambda candidate: sorted(candidate.lower()) != letters)[:n]


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """`; did you mean 'softmax'?`, to end a message with, or nothing."""
    found = nearest(name, candidates)
    return f"; did you mean {found[0]!r}?" if found else ""


def check_keywords(cls: type, keywords: Iterable[str]) -> None:
    """Refuse keywords that a class's `__init__` does not have, suggesting the nearest of those it has.

    Called before `__init__`, which would refuse them too, by a message that only names the wrong one.
    """
    code: CodeType | None = getattr(cls.__init__, "__code__", None)  # type: ignore[misc] # it is only looked at
    if code is None or code.co_flags & 0x08:  # written in C, or it takes any keyword
        return
    known = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
    for keyword in keywords:
        if keyword not in known:
            own = [name for name in known if name != "self"]
            raise TypeError(
                f"{cls.__name__}: there is no argument {keyword!r}{did_you_mean(keyword, own)} "
                f"({cls.__name__} takes {', '.join(own) or 'none'})"
            )


class KeywordSuggestions:
    """A base of classes whose misspelt keywords get the nearest one suggested.

    It is the last base, so that `inspect.signature` and `help` find `__init__` of the class itself before `__new__`.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if kwargs:
            check_keywords(cls, kwargs)
        make = super().__new__  # object's, unless a class beside this one has its own
        return make(cls) if make is object.__new__ else make(cls, *args, **kwargs)


# ---- refused


class RefusedName(UnsupportedError, AttributeError):
    """A name of PyTorch that Extempo does not have on purpose. The message names the nearest thing that works."""

    def __init__(self, message: str, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name or ""


class RefusedType(type):
    """The class of classes that refuse: `isinstance` and subclassing work, since libraries do both while they load."""

    reason: str
    refusal: str

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise RefusedName(cls.refusal, cls.__name__)

    def __getitem__(cls, arguments: Any) -> RefusedType:
        """In annotations, such as `Future[int]`."""
        return cls

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}", name=name, obj=cls)
        raise RefusedName(cls.refusal, name)

    def __repr__(cls) -> str:
        return f"<refused: {cls.refusal}>"


@functools.cache
def refused(path: str, reason: str) -> RefusedType:
    """Stands for the function, class or module `path` of PyTorch, the same one each time."""
    module, _, name = path.rpartition(".")
    contents = {"__module__": module, "__doc__": reason, "reason": reason, "refusal": f"{path}: {reason}"}
    return RefusedType(name, (), contents)


def module_getattr(module: str, table: Mapping[str, str] = {}) -> Callable[[str], Any]:
    """A module's `__getattr__`: names in the table refuse when they are used, others get the nearest one suggested."""

    def __getattr__(name: str) -> Any:
        if name in table:
            return refused(f"{module}.{name}", table[name])
        hint = "" if name.startswith("_") else did_you_mean(name, _public_names(module))
        raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}", name=name)

    return __getattr__


def explain_absent(module: str, table: Mapping[str, str] = {}) -> None:
    """Give a module that is being loaded such a `__getattr__`, where type checkers do not see it.

    One that they saw would make every misspelt name an Any to them.
    """
    vars(sys.modules[module])["__getattr__"] = module_getattr(module, table)


def _public_names(module: str) -> list[str]:
    contents = vars(sys.modules[module])
    return contents.get("__all__") or [name for name in contents if not name.startswith("_")]
