"""Values of the standard library that are plain data: paths, dates, namespaces, what makes a defaultdict's values."""

from __future__ import annotations

import argparse
import collections
import datetime
import pathlib
import types
from collections.abc import Callable
from typing import Any

import numpy as np

# Types that text describes: how to write a value, and how to read it.
TEXTS: dict[type, tuple[Callable[[Any], str], Callable[[str], Any]]] = {
    datetime.datetime: (datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    datetime.date: (datetime.date.isoformat, datetime.date.fromisoformat),
    datetime.time: (datetime.time.isoformat, datetime.time.fromisoformat),
    datetime.timedelta: (
        lambda d: f"{d.days} {d.seconds} {d.microseconds}",
        lambda text: datetime.timedelta(*map(int, text.split(" "))),
    ),
}
TEXTS_BY_NAME = {kind.__name__: kind for kind in TEXTS}
NUMPY_DTYPES = {np.dtype(code).name: np.dtype(code) for code in "?bhilqBHILQefdFD"}
# A path is one of the machine that loads; pure paths keep their kind.
_PATHS: dict[str, type[pathlib.PurePath]] = {
    "Path": pathlib.Path,
    "PurePosixPath": pathlib.PurePosixPath,
    "PureWindowsPath": pathlib.PureWindowsPath,
}
# What may make the values of a defaultdict.
FACTORIES: dict[str, Callable[[], Any]] = {
    kind.__name__: kind
    for kind in (list, dict, set, tuple, int, float, str, bool, bytes, collections.OrderedDict, collections.Counter)
}
# Objects of the standard library that are nothing but attributes.
NAMESPACES = {"Namespace": argparse.Namespace, "SimpleNamespace": types.SimpleNamespace}


def path_name(value: Any) -> str | None:
    """The name by which files call a kind of path; None if it is no path of pathlib itself."""
    kind = type(value)
    if isinstance(value, pathlib.Path) and kind.__module__.startswith("pathlib"):
        return "Path"
    return kind.__name__ if kind in _PATHS.values() else None


def path_from(name: str, text: Any) -> pathlib.PurePath:
    """A path of a kind that `path_name` gave."""
    if type(text) is not str:
        raise TypeError("a path that is not text")
    return _PATHS[name](text)


def factory_name(factory: Any) -> str | None:
    """The name of what makes a defaultdict's values, if it is one of those that files may have."""
    return next((name for name, kind in FACTORIES.items() if kind is factory), None)


def _date(kind: Any, size: int) -> Callable[..., Any]:
    """Dates and times are a few bytes, text in old pickles; a time zone is not plain."""

    def make(raw: Any) -> Any:
        raw = raw.encode("latin-1") if type(raw) is str else raw
        if type(raw) is not bytes or len(raw) != size:
            raise TypeError("a date is described wrongly")
        return kind(raw)

    return make


def _duration(*parts: Any) -> datetime.timedelta:
    if not all(type(part) is int for part in parts):
        raise TypeError("a duration is described wrongly")
    return datetime.timedelta(*parts)


# How dates stand in pickles.
PICKLED_DATES: dict[str, Callable[..., Any]] = {
    "datetime.datetime": _date(datetime.datetime, 10),
    "datetime.date": _date(datetime.date, 4),
    "datetime.time": _date(datetime.time, 6),
    "datetime.timedelta": _duration,
}
