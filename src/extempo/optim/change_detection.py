"""What a step worked with, so that the next one sees at once whether anything was changed since.

Groups and state are plain dicts and lists that everyone may change. Most steps find the very objects of the last one:
compared one by one, by identity, natively where there is native code.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..backends import entry_points
from ..dispatch.fused_update import native_stepping

SAME_CONTENTS, SAME_OPTIONS = 1, 2  # bits, as native code knows them

_FIXED = (float, int, bool, str, type(None))  # nobody can change them
_LISTS = ("params", "param_names")  # that no rule reads


class Seen:
    """Everything that the last step worked with, as flat lists.

    `contents`: parameters and their state, which layouts refer to. `options`: what rules are made of.
    """

    __slots__ = ("contents", "options")

    def __init__(self) -> None:
        self.contents = unknown()
        self.options = unknown()

    def same(self, groups: list[dict[str, Any]], state: Mapping[Any, Any]) -> int:
        """Of SAME_CONTENTS and SAME_OPTIONS those that hold."""
        return same(self.contents, self.options, groups, state)


def unknown() -> list[Any]:
    """A list that is the same as no other."""
    return [object()]


@entry_points.SAME.function(lambda: native_stepping().same)
def same(contents: list[Any], options: list[Any], groups: list[dict[str, Any]], state: Mapping[Any, Any]) -> int:
    """Which of two lists still hold what groups and state hold: of SAME_CONTENTS and SAME_OPTIONS."""
    answer = SAME_CONTENTS if _same(contents, contents_of(groups, state)) else 0
    return answer | (SAME_OPTIONS if _same(options, options_of(groups)) else 0)


def _same(before: list[Any], now: list[Any]) -> bool:
    return len(before) == len(now) and all(map(operator.is_, before, now))


def contents_of(groups: list[dict[str, Any]], state: Mapping[Any, Any]) -> list[Any]:
    """Every object that a layout refers to; unknown for a state of another form than usual."""
    found: list[Any] = []
    for group in groups:
        found += group["params"]
    try:
        for entry in state.values():
            found.append(entry)
            found += entry.values()
    except AttributeError:
        return unknown()
    return found


def options_of(groups: list[dict[str, Any]]) -> list[Any]:
    """The groups with all their options; unknown if one of those can change while it stays the same object."""
    found: list[Any] = []
    for group in groups:
        found.append(group)
        for key, value in group.items():
            if key not in _LISTS and not _is_fixed(value):
                return unknown()
            found += (key, value)
    return found


def _is_fixed(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_fixed, value))
    return type(value) in _FIXED or isinstance(value, np.generic)
