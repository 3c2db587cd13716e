"""The curves of one run, in bounded memory: of very many steps every 2nd, 4th, 8th ... is kept, and the last one."""

from __future__ import annotations

import csv
import io
from typing import Any

MOST_RECORDS = 2000
MOST_EPOCHS = 2000
MOST_MARKS = 500

StepRecord = dict[str, Any]


class RunHistory:
    """Steps, epochs and marks of a run. Kept by the training thread, read by the server's under the session's lock."""

    def __init__(self, number: int, name: str, model: str) -> None:
        self.number = number
        self.name = name
        self.model = model
        self.status = "running"
        self.n_steps = 0
        self.every = 1  # of so many records that came, one is kept
        self.epochs: list[dict[str, Any]] = []
        self.marks: list[dict[str, Any]] = []
        self._records: list[StepRecord] = []
        self._n_came = 0
        self._last: StepRecord | None = None

    def add(self, record: StepRecord) -> None:
        """One more step. One that was looked into is kept in the place of its neighbour."""
        self._last = record
        if self._n_came % self.every == 0:
            self._records.append(record)
        elif record["phases"] is not None or record["captured"] is not None:
            self._records[-1] = record if len(self._records) > 1 else self._records[-1]
        self._n_came += 1
        if len(self._records) > MOST_RECORDS:
            self._records = self._records[::2]
            self.every *= 2

    def add_epoch(self, epoch: dict[str, Any]) -> None:
        self.epochs.append(epoch)
        del self.epochs[:-MOST_EPOCHS]

    def add_mark(self, mark: dict[str, Any]) -> None:
        self.marks.append(mark)
        del self.marks[:-MOST_MARKS]

    @property
    def records(self) -> list[StepRecord]:
        """Those that are kept, and the last one."""
        if self._last is None or self._records[-1] is self._last:
            return list(self._records)
        return [*self._records, self._last]

    def summary(self) -> dict[str, Any]:
        return {
            "id": self.number,
            "name": self.name,
            "status": self.status,
            "n_steps": self.n_steps,
            "model": self.model,
        }

    def message(self) -> dict[str, Any]:
        """All of it, for a page that has just come."""
        return {
            "type": "history",
            "run": self.number,
            "every": self.every,
            "records": self.records,
            "epochs": self.epochs,
            "marks": self.marks,
        }

    def csv(self) -> str:
        """The steps as a table: nested figures have columns of their own, such as `phases.kernels`."""
        rows = [_flat(record) for record in self.records]
        names = list(dict.fromkeys(name for row in rows for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()


def _flat(record: StepRecord) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": entry for inner, entry in value.items()}
        elif isinstance(value, list):
            flat |= {name if i == 0 else f"{name}.{i}": entry for i, entry in enumerate(value)}
        else:
            flat[name] = value
    return flat
