"""What happened, epoch by epoch: figures, a curve, files, and a sentence about it that follows from the numbers."""

from __future__ import annotations

import csv
import io
import json
import math
import textwrap
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from ..core.files import write_text
from ..inspect.curves import curve, sparkline
from ..inspect.style import figure, fragment, page
from ..inspect.svg import Picture
from ..inspect.tables import Column, Table, bytes_text, plain, seconds_text
from ..metrics import Metric

_WIDTH = 80
_NOT_FIGURES = ("epoch", "seconds", "peak_bytes", "lr", "samples_per_second")


class History:
    """One record for each epoch: `epoch`, `train_loss`, `valid_loss`, metrics, `seconds`, `peak_bytes`, `lr`.

    `tables`: the metrics that are no numbers, such as `valid_confusion_matrix`, of the last epoch.

    >>> history = ex.train.History([{"epoch": 1, "train_loss": 0.5}, {"epoch": 2, "train_loss": 0.25}])
    >>> history["train_loss"], history.figures
    ([0.5, 0.25], ['train_loss'])
    >>> print(history.to_csv())
    epoch,train_loss
    1,0.5
    2,0.25
    <BLANKLINE>
    """

    def __init__(self, records: list[dict[str, Any]] | None = None) -> None:
        self.records = list(records or ())
        self.tables: dict[str, Metric] = {}

    def append(self, record: dict[str, Any]) -> None:
        """Add the figures of one more epoch."""
        self.records.append(record)

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.records)

    def __getitem__(self, key: str) -> list[float]:
        """All values of one figure."""
        known = {name for record in self.records for name in record}
        if key not in known:
            raise KeyError(f"no figure {key!r} in this history; there are {sorted(known)}")
        return [record.get(key, math.nan) for record in self.records]

    @property
    def figures(self) -> list[str]:
        """The names of the figures that were followed, losses first."""
        names = dict.fromkeys(name for record in self.records for name in record if name not in _NOT_FIGURES)
        return sorted(names, key=lambda name: not name.endswith("loss"))

    # ---- for people

    def _tables(self) -> list[Table]:
        """The figures, train and valid beside each other; as many tables as it takes to fit 80 columns."""
        ends = [Column("time", right=True), Column("memory", right=True)]
        columns, entries = [], []
        for title, names in _folded(self.figures).items():
            both = len(names) > 1
            columns.append(Column(f"{title} (valid)" if both else names[0].replace("_", " "), True, may_shrink=True))
            entries.append([_both([r.get(name) for name in names]) for r in self.records])
        width = [max(len(c.title), *map(len, e)) + 2 for c, e in zip(columns, entries, strict=True)]
        tables: list[Table] = []
        at = 0
        while at < len(columns) or not tables:
            room, to = _WIDTH - (7 if tables else 27), at
            while to < len(columns) and (to == at or width[to] <= room):
                room, to = room - width[to], to + 1
            rows = [
                [str(r.get("epoch", i + 1)), *(e[i] for e in entries[at:to]), *([] if tables else _cost(r))]
                for i, r in enumerate(self.records)
            ]
            tables.append(Table([Column("epoch", right=True), *columns[at:to], *([] if tables else ends)], rows))
            at = to
        return tables

    def __str__(self) -> str:
        if not self.records:
            return "no epochs yet"
        loss = "valid_loss" if "valid_loss" in self.figures else "train_loss"
        lines = [table.text(_WIDTH) for table in self._tables()]
        if loss in self.figures:
            lines.append(f"{loss.replace('_', ' ')}  {sparkline(self[loss])}")
        if self.tables:
            lines.append(self.tables_text())
        return "\n".join([*lines, *textwrap.wrap(self.observation(), _WIDTH)])

    def tables_text(self) -> str:
        """The metrics that are no numbers, each under its name."""
        titles = [f"{name.replace('_', ' ')}, epoch {len(self)}:" for name in self.tables]
        return "\n".join(f"{title}\n{table}" for title, table in zip(titles, self.tables.values(), strict=True))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self.records:
            return "no epochs yet"
        return fragment(self._html())

    def html(self) -> str:
        """A page with the figures of all epochs and their curves."""
        return page("Training", f"<h2>Training</h2>{self._html()}" if self.records else "no epochs yet")

    def _html(self) -> str:
        tables = "".join(table.html() for table in self._tables())
        others = f"<pre>{escape(self.tables_text())}</pre>" if self.tables else ""
        return f"{tables}{figure(self.plot())}{others}<p>{escape(self.observation())}</p>"

    def plot(self, *names: str, path: str | Path | None = None) -> Picture:
        """Curves of the figures, of the losses if none is named. `path`: also write them, as .svg or .png."""
        shown = names or tuple(n for n in self.figures if n.endswith("loss")) or tuple(self.figures)
        title = ", ".join(_folded(list(shown))).capitalize()
        picture = curve({name.replace("_", " "): self[name] for name in shown}, title)
        if path is not None:
            picture.save(path)
        return picture

    def observation(self) -> str:
        """One sentence about where training stands."""
        return observe(self.records)

    # ---- for machines

    def as_dict(self) -> dict[str, Any]:
        """The records, and the sentence about them."""
        return {"epochs": self.records, "observation": self.observation()}

    def to_json(self, path: str | Path | None = None) -> str:
        """A list with one object for each epoch; what is not finite is null."""
        text = json.dumps([{k: plain(v) for k, v in r.items()} for r in self.records], indent=2)
        if path is not None:
            write_text(path, text + "\n")
        return text

    def to_csv(self, path: str | Path | None = None) -> str:
        """One line for each epoch under a line of names."""
        names = list(dict.fromkeys(name for record in self.records for name in record))
        out = io.StringIO()
        writer = csv.DictWriter(out, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.records)
        if path is not None:
            write_text(path, out.getvalue())
        return out.getvalue()


def epoch_line(record: dict[str, Any]) -> str:
    """One epoch in a line of at most 80 columns, or several, the later ones indented.

    >>> from extempo.train.history import epoch_line
    >>> epoch_line({"epoch": 2, "train_loss": 0.5, "valid_loss": 0.625, "seconds": 1.0})
    'epoch 2  loss 0.5000 (valid 0.6250)  1.0 s'
    """
    parts = [f"epoch {record.get('epoch', '?')}"]
    for title, names in _folded(History([record]).figures).items():
        values = [_number(record[name]) for name in names]
        parts.append(
            f"{title} {values[0]} (valid {values[1]})"
            if len(values) > 1
            else f"{names[0].replace('_', ' ').removeprefix('train ')} {values[0]}"
        )
    parts.append(seconds_text(record.get("seconds", 0.0)))
    lines = [""]
    for part in parts:
        if lines[-1] and len(lines[-1]) + 2 + len(part) > _WIDTH:
            lines.append("      ")
        lines[-1] += f"  {part}" if lines[-1] else part
    return "\n".join(lines)


def _folded(names: list[str]) -> dict[str, list[str]]:
    """Figures of training and validation under the name that they share."""
    found: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: not name.startswith("train_")):
        found.setdefault(name.removeprefix("train_").removeprefix("valid_").replace("_", " "), []).append(name)
    return dict(sorted(found.items(), key=lambda item: item[0] != "loss"))


def _number(value: float) -> str:
    return f"{value:.4f}" if 1e-3 <= abs(value) < 1e5 or value == 0 else f"{value:.3e}"


def _both(values: list[float | None]) -> str:
    first, *rest = ["" if value is None else _number(value) for value in values]
    return f"{first} ({rest[0]})" if rest else first


def _cost(record: dict[str, Any]) -> list[str]:
    memory = bytes_text(record["peak_bytes"]) if "peak_bytes" in record else ""
    return [seconds_text(record.get("seconds", 0.0)), memory]


_Seen = tuple[int, float, float]  # an epoch, the loss that is judged, the train loss


def observe(records: list[dict[str, Any]]) -> str:
    """A sentence about the last epochs: what moved, by how much, and what that means.

    >>> from extempo.train import observe
    >>> observe([{"train_loss": 2.0, "valid_loss": 2.0}, {"train_loss": 1.0, "valid_loss": 1.1}])
    'Valid loss fell from 2 to 1.1 (-45%) in the last epoch, and training goes on paying.'
    """
    name = "valid_loss" if records and "valid_loss" in records[-1] else "train_loss"
    seen = [(r.get("epoch", i), r[name], r.get("train_loss", math.nan)) for i, r in enumerate(records, 1) if name in r]
    if not seen:
        return "Nothing was trained yet."
    title = name.replace("_", " ").capitalize()
    last, train = seen[-1][1:]
    if not math.isfinite(last):
        return f"{title} is {last}: training has broken down; a lower learning rate or clipping would help."
    if len(seen) == 1:
        return f"{title} is {last:.4g} after the first epoch; one more says where it goes."
    lowest = min(seen, key=lambda each: each[1] if math.isfinite(each[1]) else math.inf)
    overfitting = _overfitting(title, lowest, seen[-2], seen[-1]) if name == "valid_loss" else ""
    return overfitting or _moved(title, records, seen[-2][1], last, train)


def _overfitting(title: str, lowest: _Seen, before: _Seen, now: _Seen) -> str:
    """A sentence where the valid loss has risen from its lowest while the train loss still falls; "" elsewhere."""
    epoch, best, _ = lowest
    if not (now[1] - best > 0.02 * abs(best) and now[2] < before[2]):
        return ""
    return (
        f"{title} was lowest ({best:.4g}) in epoch {epoch} and is {now[1]:.4g} now, while train loss still falls "
        f"({before[2]:.4g} to {now[2]:.4g}): it begins to learn the training data by heart."
    )


def _moved(title: str, records: list[dict[str, Any]], before: float, last: float, train: float) -> str:
    """A sentence on what the loss did in the last epoch."""
    which = title.partition(" ")[0].lower()
    change = (last - before) / abs(before) if before else math.copysign(math.inf, last) if last else 0.0
    share = f" ({change:+.0%})" if math.isfinite(change) else ""
    moved = f"from {before:.4g} to {last:.4g}{share} in the last epoch"
    if not change <= 0.02:
        return f"{title} rose {moved}: the learning rate may be too high."
    if change > -0.02:
        return f"{title} hardly moved, {moved}: it has reached a plateau."
    if which == "valid" and last > 1.5 * train > 0 and last - train > 0.1:
        return (
            f"{title} fell {moved}, but is {last / train:.1f} times the train loss ({train:.4g}): it fits what it has "
            "seen better than what it has not."
        )
    return f"{title} fell {moved}, and {_with_accuracy(records[-2], records[-1], which)}."


def _with_accuracy(before: dict[str, Any], now: dict[str, Any], which: str) -> str:
    """What accuracy did while the loss fell, if it is known."""
    name = f"{which}_accuracy"
    first, last = (each.get(name, math.nan) for each in (before, now))
    if not math.isfinite(last - first):
        return "training goes on paying"
    if f"{first:.0%}" == f"{last:.0%}":
        return f"accuracy stays at {last:.0%}: it decides as before, only surer"
    if last > first:
        return f"accuracy rose with it, from {first:.0%} to {last:.0%}"
    return f"yet accuracy fell, from {first:.0%} to {last:.0%}: it is surer of what it knows, and wrong more often"
