"""Where in the user's code something happened, kept cheaply and decoded for messages only."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

from .graph import Where

# Packages whose frames are Extempo's own, found once each; the command line's demo counts as a user.
PACKAGES: dict[str | None, bool] = {}
_user_globals: Any = None  # the module that called last: most often it is the same again


def _is_internal(package: str | None) -> bool:
    answer = package is not None and (package + ".").startswith("extempo.") and not package.startswith("extempo.cli")
    PACKAGES[package] = answer
    return answer


def is_internal(frame: FrameType) -> bool:
    """Whether a frame is of Extempo's own code."""
    package = frame.f_globals.get("__package__")
    known = PACKAGES.get(package)
    return _is_internal(package) if known is None else known


def user_line() -> Where | None:
    """The innermost line outside Extempo, as (code, instruction): frames are never kept, they would keep all locals."""
    global _user_globals
    try:
        frame = sys._getframe(2)
    except ValueError:  # an operator as the first frame of a thread or greenlet
        frame = sys._getframe(1)
    while frame is not None:
        found = frame.f_globals
        if found is _user_globals:
            return frame.f_code, frame.f_lasti
        package = found.get("__package__")
        internal = PACKAGES.get(package)
        if internal is None:
            internal = _is_internal(package)
        if not internal:
            _user_globals = found
            return frame.f_code, frame.f_lasti
        frame = frame.f_back  # type: ignore[assignment] # None ends the loop
    return None


def user_stacklevel() -> int:
    """The `stacklevel` with which `warnings.warn`, called by our caller, points at the user's line."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and is_internal(frame):
        level, frame = level + 1, frame.f_back
    return level


class _LastRead(threading.local):
    where: Where | None = None


_last_read = _LastRead()


def remember_value_read() -> None:
    """A value left the graph as a Python number here: the likely cut when a loss turns out not to require grad."""
    _last_read.where = user_line()


def last_value_read() -> Where | None:
    return _last_read.where
