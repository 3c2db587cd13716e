"""`Changes`: two comparisons, an earlier one and a later one, beside each other."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from html import escape
from statistics import median
from typing import Any

from ..inspect.style import fragment
from ..inspect.tables import WIDTH, Column, Printable, Table, bytes_text, seconds_text

_COMPARED = (  # name in the JSON, in words, and how it is written
    ("training_seconds", "training time", seconds_text),
    ("median_seconds", "iteration, median", seconds_text),
    ("p90_seconds", "iteration, p90", seconds_text),
    ("building_seconds", "graph building", seconds_text),
    ("first_seconds", "first step", seconds_text),
    ("warm_up_seconds", "warm-up", seconds_text),
    ("peak_bytes", "peak memory", bytes_text),
    ("retained_bytes", "retained", bytes_text),
    ("loss_same_steps", "loss, same steps", lambda x: f"{x:.4g}"),
    ("metric_same_steps", "metric, same steps", lambda x: f"{x:.4g}"),
)
_ALWAYS = ("training_seconds", "peak_bytes")  # shown even if unchanged
_NOTABLE = 0.05


class Changes(Printable):
    """Two comparisons beside each other."""

    def __init__(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        self.old = old
        self.new = new

    def rows(self) -> list[dict[str, Any]]:
        """One for each figure that both have: column, figure, old, new, and new relative to old."""
        rows = []
        for past, column in self._pairs():
            for key, _, _ in _COMPARED:
                old, new = past.get(key), column.get(key)
                if old is None or new is None or (not old and not new):
                    continue
                rows.append(
                    {
                        "column": column["name"],
                        "figure": key,
                        "old": old,
                        "new": new,
                        "ratio": new / old if old else None,
                        "certain": key != "training_seconds" or not _overlap(past, column),
                    }
                )
        return rows

    def _pairs(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Columns that both have, old and new."""
        before = {column["name"]: column for column in self.old["columns"]}
        return [(before[column["name"]], column) for column in self.new["columns"] if column["name"] in before]

    def notes(self) -> list[str]:
        """What makes the two hard to compare, columns that only one has, and the verdicts."""
        names = [[column["name"] for column in side["columns"]] for side in (self.old, self.new)]
        words = self.old["verdict"]["word"], self.new["verdict"]["word"]
        return [
            *self._unfair(),
            *[f"{name} was not there before." for name in names[1] if name not in names[0]],
            *[f"{name} is not there any more." for name in names[0] if name not in names[1]],
            f"The verdict was {words[0]}, is {words[1]}." if words[0] != words[1] else f"Still {words[1]}.",
        ]

    def _unfair(self) -> Iterator[str]:
        for key in ("name", "machine", "threads", "backend", "steps"):
            if self.old.get(key) != self.new.get(key):
                yield f"Unfair: {key} was {self.old.get(key)}, is {self.new.get(key)}."
        for past, column in self._pairs():
            for key in ("parameters", "dtypes"):
                if past.get(key) != column.get(key):
                    yield f"Unfair: {column['name']}: {key} was {past.get(key)}, is {column.get(key)}."
        if any(_overlap(past, column) for past, column in self._pairs()):
            yield "? the times of old and new rounds overlap: this may be chance."

    @property
    def table(self) -> Table:
        texts = {key: (title, text) for key, title, text in _COMPARED}
        rows = []
        for row in self.rows():
            if row["figure"] not in _ALWAYS and row["ratio"] is not None and abs(row["ratio"] - 1) < _NOTABLE:
                continue
            title, text = texts[row["figure"]]
            change = "" if row["ratio"] is None else f"{row['ratio'] - 1:+.0%}{'' if row['certain'] else '?'}"
            rows.append([row["column"], title, text(row["old"]), text(row["new"]), change])
        columns = [Column("column", may_shrink=True), Column("figure"), Column("old", right=True)]
        return Table([*columns, Column("new", right=True), Column("change", right=True)], rows)

    def __str__(self) -> str:
        lines = [f"What changed (figures that moved by less than {_NOTABLE:.0%} are left out)", self.table.text(), ""]
        for note in self.notes():
            lines += wrapped(note)
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        return {"changes": self.rows(), "notes": self.notes()}

    def _repr_html_(self) -> str:
        return fragment(self.table.html() + "".join(f"<p>{escape(note)}</p>" for note in self.notes()))


def _overlap(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether the median of one side's rounds lies among the other's times."""
    sides = [sorted(column.get("round_seconds") or ()) for column in (old, new)]
    if not all(sides):
        return False
    return any(a[0] <= median(b) <= a[-1] for a, b in (sides, sides[::-1])) and median(sides[0]) != median(sides[1])


def wrapped(text: str) -> list[str]:
    """Lines of at most 80 characters, the later ones indented."""
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
