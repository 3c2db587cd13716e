"""Python text becomes a function whose lines say that they are lines of other code: that of the user.

Errors, and nodes of the graph, then name the line that recorded an op though the text is run.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby, islice
from types import CodeType
from typing import Any

from ...core.graph import Where

_LINE_ONLY, _NO_LINE = 13, 15  # kinds of entries of CPython's location tables, see its Objects/locations.md
_MOST_UNITS = 8  # that one entry stands for


def line_of(where: Where) -> int:
    """The number of a line."""
    code, instruction = where
    return next(islice(code.co_positions(), instruction // 2, None))[0] or code.co_firstlineno


def function_of(
    statements: list[str], lines: list[int], like: CodeType | None, names: dict[str, Any]
) -> tuple[Callable[..., Any], CodeType]:
    """`def _(s, c)` of these statements, which are on these lines of the file of `like`; and its code as the text is.

    `names`: the globals. In the text itself a statement is on the line after that of its number.
    """
    text = "\n ".join(["def part(s, c):", *statements])
    file, name = ("<static function>", "part") if like is None else (like.co_filename, like.co_name)
    made: dict[str, Any] = {}
    exec(compile(text, file, "exec"), names, made)
    function, code = made["part"], made["part"].__code__
    function.__code__ = code.replace(
        co_firstlineno=lines[0], co_linetable=_table(code, [lines[0], lines[0], *lines]), co_name=name
    )
    return function, code


def _table(code: CodeType, lines: list[int]) -> bytes:
    """The location table of the code with other numbers in place of those of its lines."""
    table, at = bytearray(), lines[0]
    for line, units in groupby(position[0] for position in code.co_positions()):
        n_units = len(list(units))
        for first in range(0, n_units, _MOST_UNITS):
            kind = _NO_LINE if line is None else _LINE_ONLY
            table.append(0x80 | kind << 3 | min(_MOST_UNITS, n_units - first) - 1)
            if line is not None:
                table += _signed(lines[line] - at)
                at = lines[line]
    return bytes(table)


def _signed(value: int) -> bytes:
    """A whole number, six bits to a byte, the sign last of them."""
    rest, found = (-value << 1 | 1) if value < 0 else value << 1, bytearray()
    while rest >= 64:
        found.append(rest & 63 | 64)
        rest >>= 6
    return bytes([*found, rest])
