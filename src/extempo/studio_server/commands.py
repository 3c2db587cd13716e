"""Commands from the page: text in, a checked command out. Nothing of a text is ever run; what is not listed is refused.

Each command is a table of fields, and each field says which values it takes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..errors import ExtempoError

LONGEST = 64 * 1024  # characters of a message
LONGEST_ID = 40
LONGEST_PATH = 500
MOST_UNITS = 65536
MOST_DEPTH = 4  # of lists and objects in a message: the deepest that there is has two


class RefusedCommand(ExtempoError):
    """A message from the page that is no command, or one that cannot be done. The page shows the reason."""


class PageCommand(NamedTuple):
    """One command, checked."""

    kind: str
    id: str
    fields: dict[str, Any]


def _text(most: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and len(value) <= most


def _whole(least: int, most: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _number(least: float, most: float) -> Callable[[Any], bool]:
    def fits(value: Any) -> bool:
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        return is_number and least <= value <= most

    return fits


def _or_null(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or fits(value)


class _Field(NamedTuple):
    fits: Callable[[Any], bool]
    wanted: str  # in words
    default: Any = ...  # there is none


_PATH = _Field(_text(LONGEST_PATH), "the path of a module, such as 'body.0'")
_LAYER = _Field(lambda value: isinstance(value, dict), "an object with the kind of a layer")
_STEPS = _Field(_or_null(_whole(1, 10**6)), "a whole number from 1 on, or null")

COMMANDS: dict[str, dict[str, _Field]] = {
    "pause": {},
    "resume": {},
    "step": {},
    "every": {"every": _STEPS},
    "lr": {
        "lr": _Field(_number(0.0, 1e6), "a number from 0 to 1000000"),
        "group": _Field(_or_null(_whole(0, 10**6)), "the number of a parameter group, or null", None),
    },
    "insert": {
        "container": _PATH,
        "position": _Field(_whole(0, 10**6), "a whole number from 0 on"),
        "layer": _LAYER,
        "identity": _Field(lambda value: isinstance(value, bool), "true or false", True),
    },
    "remove": {"path": _PATH},
    "widen": {"path": _PATH, "units": _Field(_whole(1, MOST_UNITS), f"a whole number from 1 to {MOST_UNITS}")},
    "freeze": {"path": _PATH},
    "unfreeze": {"path": _PATH},
    "replace": {"path": _PATH, "layer": _LAYER},
    "node": {
        "capture": _Field(_whole(-1, 2**53), "the number of a capture"),
        "node": _Field(_whole(0, 10**7), "the number of a node"),
    },
    "predict": {"sequence": _Field(_text(20000), "a text of numbers, of at most 20000 characters")},
    "pipeline": {},
    "metrics": {
        "threshold": _Field(_or_null(_number(0.0, 1.0)), "a number from 0 to 1, or null", None),
        "positive": _Field(_or_null(_whole(0, 10**6)), "the number of a class, or null", None),
        "refresh": _Field(lambda value: isinstance(value, bool), "true or false", False),
    },
    "compare": {},
    "learn": {
        "lesson": _Field(_whole(1, 1000), "the number of a lesson"),
        "step": _Field(_whole(0, 1000), "the number of a step"),
        "choice": _Field(_or_null(_whole(0, 100)), "the number of a choice, or null", None),
    },
    "history": {"run": _Field(_whole(1, 10**9), "the number of a run")},
}
CHANGES = frozenset(("lr", "insert", "remove", "widen", "freeze", "unfreeze", "replace"))


def parse_command(text: str) -> PageCommand:
    """The command in a message.

    >>> from extempo.studio_server.commands import parse_command
    >>> parse_command('{"type": "lr", "id": "c1", "lr": 0.01}').fields
    {'lr': 0.01, 'group': None}
    """
    if len(text) > LONGEST:
        raise RefusedCommand(f"a message has at most {LONGEST} characters, this one has {len(text)}")
    try:
        message = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_without_twins)
    except RecursionError:
        raise RefusedCommand("the message is nested too deeply") from None
    except ValueError as error:
        raise RefusedCommand(f"the message is no JSON: {error}") from None
    if not isinstance(message, dict):
        raise RefusedCommand(f"expected an object with a type, got {type(message).__name__}")
    if _depth(message) > MOST_DEPTH:
        raise RefusedCommand("the message is nested too deeply")
    return _checked(message)


def id_of(text: str) -> str:
    """The id of a message, if it can be told: an answer that refuses it carries it."""
    try:
        message = json.loads(text) if len(text) <= LONGEST else {}
    except (ValueError, RecursionError):
        return ""
    found = message.get("id") if isinstance(message, dict) else None
    return found[:LONGEST_ID] if isinstance(found, str) else ""


def _checked(message: Mapping[str, Any]) -> PageCommand:
    kind = message.get("type")
    if not isinstance(kind, str) or kind not in COMMANDS:
        raise RefusedCommand(f"there is no command {str(kind)[:40]!r}; there are {', '.join(COMMANDS)}")
    name = message.get("id", "")
    if not isinstance(name, str) or len(name) > LONGEST_ID:
        raise RefusedCommand(f"{kind}: id is a text of at most {LONGEST_ID} characters")
    known = COMMANDS[kind]
    strange = [key for key in message if key not in ("type", "id") and key not in known]
    if strange:
        raise RefusedCommand(f"{kind}: there is no field {strange[0][:40]!r}")
    fields: dict[str, Any] = {}
    for field, rule in known.items():
        value = message.get(field, rule.default)
        if value is ...:
            raise RefusedCommand(f"{kind}: the field {field} is missing: {rule.wanted}")
        if field in message and not rule.fits(value):
            raise RefusedCommand(f"{kind}: {field} must be {rule.wanted}, got {repr(value)[:60]}")
        fields[field] = value
    return PageCommand(kind, name, fields)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name stands in an object twice")
    return made


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0
