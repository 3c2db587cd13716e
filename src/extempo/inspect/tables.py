"""Tables as text of a given width, as HTML and as records: the one form of every report."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Sequence
from html import escape
from itertools import zip_longest
from typing import Any, NamedTuple

from .style import fragment

WIDTH = 80
NO_BREAK = "\u00a0"
_GAP = "  "


class Printable:
    """A report: people print it (`__str__`), programs read what it says as JSON (`as_dict`)."""

    def as_dict(self) -> dict[str, Any]:
        """All that it says, as plain values."""
        raise NotImplementedError

    def to_json(self) -> str:
        """The same as JSON; what is not finite is null."""
        return json.dumps(plain(self.as_dict()), indent=2)

    def __repr__(self) -> str:
        return str(self)


class Column(NamedTuple):
    """A column: its heading, whether its entries stand at the right, and what is done with those that do not fit.

    >>> name = ex.inspect.Column("name", may_shrink=True, least=4)
    >>> print(ex.inspect.Table([name, ex.inspect.Column("size", right=True)], [["embedding", "12"]]).text(width=12))
    name    size
    embed…    12
    """

    title: str
    right: bool = False
    may_shrink: bool = False  # they are cut, down to `least` characters
    least: int = 8
    wraps: bool = False  # they go on in the next line, between words; a no-break space does not part words


class Table:
    """Rows of text under headings.

    >>> columns = [ex.inspect.Column("layer", may_shrink=True), ex.inspect.Column("parameters", right=True)]
    >>> print(ex.inspect.Table(columns, [["fc", "12"]]))
    layer  parameters
    fc             12
    """

    def __init__(self, columns: Sequence[Column], rows: Iterable[Sequence[str]], title: str = "") -> None:
        self.columns = list(columns)
        self.rows = [list(row) for row in rows]
        self.title = title

    def text(self, width: int = WIDTH) -> str:
        """Lines of at most `width` characters.

        Columns that wrap are made narrower, then those that may shrink, the widest first; those that still find no
        place stand in a block below, again behind the first column.
        """
        lines = textwrap.wrap(self.title, width)
        widths = self._widths(width)
        for block in self._blocks(widths, width):
            for entries in ([c.title for c in self.columns], *self.rows):
                lines += self._lines(entries, widths, block)
        return "\n".join(lines)

    def _widths(self, width: int) -> list[int]:
        widths = [
            min(max(len(column.title), 1, *(len(row[i]) for row in self.rows)), width)
            for i, column in enumerate(self.columns)
        ]
        least = [self._least(i, natural) for i, natural in enumerate(widths)]
        for _ in range(sum(widths) + len(_GAP) * (len(widths) - 1) - width):
            shrinkable = [i for i, w in enumerate(widths) if w > least[i]]
            if not shrinkable:
                break
            widths[max(shrinkable, key=lambda i: (self.columns[i].wraps, widths[i]))] -= 1
        return widths

    def _least(self, i: int, natural: int) -> int:
        """How narrow a column may become."""
        column = self.columns[i]
        if column.wraps:
            words = (word for entry in (column.title, *(row[i] for row in self.rows)) for word in entry.split(" "))
            return max(1, *map(len, words))
        return column.least if column.may_shrink else natural

    def _blocks(self, widths: list[int], width: int) -> list[list[int]]:
        """The places of the columns that stand side by side, block by block."""
        blocks: list[list[int]] = [[]]
        for i in range(len(widths)):
            block = blocks[-1]
            if block and sum(widths[k] + len(_GAP) for k in block) + widths[i] > width:
                first_fits = len(blocks[0]) > 1 and widths[0] + len(_GAP) + widths[i] <= width
                blocks.append([0] if first_fits else [])
            blocks[-1].append(i)
        return blocks

    def _lines(self, entries: Sequence[str], widths: list[int], block: list[int]) -> list[str]:
        """A row, which takes as many lines as the longest of its wrapped entries."""
        stacks = []
        for i in block:
            fits = len(entries[i]) <= widths[i]
            if self.columns[i].wraps and not fits:
                stacks.append(textwrap.wrap(entries[i], widths[i], break_on_hyphens=False))
            else:
                stacks.append([entries[i] if fits else entries[i][: widths[i] - 1] + "…"])
        lines = []
        for parts in zip_longest(*stacks, fillvalue=""):
            aligned = [
                part.rjust(widths[i]) if self.columns[i].right else part.ljust(widths[i])
                for i, part in zip(block, parts, strict=True)
            ]
            lines.append(_GAP.join(aligned).replace(NO_BREAK, " ").rstrip())
        return lines

    __str__ = text
    __repr__ = text

    def html(self) -> str:
        """A table for a page of `inspect.style`; shown by itself, in a notebook, it brings the style along."""

        def opened(tag: str, column: Column) -> str:
            return f'<{tag} class="number">' if column.right else f"<{tag}>"

        head = "".join(f"{opened('th', c)}{escape(c.title)}</th>" for c in self.columns)
        body = "".join(
            "<tr>"
            + "".join(f"{opened('td', c)}{escape(entry)}</td>" for c, entry in zip(self.columns, row, strict=True))
            + "</tr>"
            for row in self.rows
        )
        title = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _repr_html_(self) -> str:
        return fragment(self.html())

    def records(self) -> list[dict[str, Any]]:
        """One dict for each row."""
        return [dict(zip([c.title for c in self.columns], row, strict=True)) for row in self.rows]


def bytes_text(n: float) -> str:
    """A number of bytes for people.

    >>> bytes_text(0), bytes_text(1536), bytes_text(5_300_000)
    ('0 B', '1.5 KB', '5.1 MB')
    """
    for unit in ("B", "KB", "MB", "GB"):
        if abs(n) < 1024 or unit == "GB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    return ""


def seconds_text(seconds: float) -> str:
    """A duration for people.

    >>> seconds_text(0.0000123), seconds_text(0.25), seconds_text(75)
    ('12 us', '250 ms', '75.0 s')
    """
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.1f} s"


def plain(value: Any) -> Any:
    """A value as JSON can have it, also inside of dicts and lists: it has no nan and no infinity.

    >>> plain({"loss": float("nan"), "steps": (1, 2.5)})
    {'loss': None, 'steps': [1, 2.5]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: plain(x) for key, x in value.items()}
    return [plain(x) for x in value] if isinstance(value, list | tuple) else value
