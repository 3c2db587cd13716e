"""`Comparison`: what was measured, as text of 80 columns, HTML and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ..core.files import write_text
from ..core.wording import counted
from ..inspect.style import fragment, page
from ..inspect.tables import Column, Printable, Table, bytes_text, seconds_text
from .changes import Changes, wrapped
from .figures import Figures, overhead, ratio
from .verdicts import Flag, Verdict, judge

_VERSION = 1
_MOST_COLUMNS = 4  # beside each other in 80 characters


class Comparison(Printable):
    """The result of `ex.compare`. Printed it is a table and a verdict; `save` and `against` are for later."""

    def __init__(self, columns: list[Figures], about: dict[str, Any]) -> None:
        self.columns = columns
        self.about = about  # steps, rounds, machine, versions
        self.verdict: Verdict
        self.flags: list[Flag]
        self.verdict, self.flags = judge(columns)

    def __getitem__(self, name: str) -> Figures:
        """A column by its name."""
        found = next((f for f in self.columns if f.name == name), None)
        if found is None:
            raise KeyError(f"no column {name!r}; there are {[f.name for f in self.columns]}")
        return found

    @property
    def _static(self) -> Figures | None:
        """The column that graph building is measured against."""
        return next((f for f in self.columns if f.mode == "static" and f.runs), None)

    # ---- for people

    def tables(self) -> list[Table]:
        """What the report shows; more than four columns make several tables."""
        parts = [self.columns[i : i + _MOST_COLUMNS] for i in range(0, len(self.columns), _MOST_COLUMNS)]
        return [self._table(part) for part in parts]

    def _table(self, columns: Sequence[Figures]) -> Table:
        static = self._static

        def row(title: str, text: Callable[[Figures], str]) -> list[str]:
            return [title, *(text(f) if f.runs else "-" for f in columns)]

        about = self.about
        rows = [
            ["Training time (s)", *(_training(f) for f in columns)],
            row("Memory (MB)", lambda f: f"{f.peak_bytes / 2**20:.2f}{'*' * (f.memory_of == 'process')}"),
            ["Flexibility", *(f"{f.flexibility}, {f.n_taken}/{len(f.taken)}" for f in columns)],
            ["", *("" for _ in columns)],
            row("iteration, median", lambda f: seconds_text(f.median_seconds)),
            row("iteration, p90", lambda f: seconds_text(f.p90_seconds)),
            row("graph building", lambda f: _building(f, static)),
            row("planning", lambda f: _per_step(f.planning_seconds, f)),
            row("peak memory", lambda f: bytes_text(f.peak_bytes)),
            row("retained after", lambda f: bytes_text(f.retained_bytes)),
            row("structures seen", lambda f: str(f.seen(f.structures)) if f.mode != "torch" else "-"),
            row("lengths seen", lambda f: str(f.seen(f.lengths))),
            ["changes survived", *(f"{f.changes_survived} of {len(f.changes)}" for f in columns)],
            row("first step", lambda f: seconds_text(f.first_seconds)),
            row(f"warm-up, {_warm_up_steps(self.columns)}", lambda f: seconds_text(f.warm_up_seconds)),
        ]
        if any(f.loss_at_start is not None for f in columns):
            rows += [
                row("loss at start", lambda f: _figure(f.loss_at_start)),
                row(f"loss, {counted(about['steps'], 'step')}", lambda f: _figure(f.loss_same_steps)),
                row("loss, same time", lambda f: _figure(f.loss_same_time)),
            ]
        if any(f.metric_same_steps is not None for f in columns):
            rows += [
                row(f"metric, {counted(about['steps'], 'step')}", lambda f: _figure(f.metric_same_steps)),
                row("metric, same time", lambda f: _figure(f.metric_same_time)),
            ]
        rows.append(row("steps in that time", lambda f: str(f.steps_same_time)))
        headings = [Column(f.name, right=True, may_shrink=True) for f in columns]
        return Table([Column(""), *headings], rows)

    def notes(self) -> list[str]:
        """Everything worth saying below the tables, without the verdict."""
        silent = {f.variant for f in self.columns if f.runs and all(x is None for row in f.losses for x in row)}
        notes = [
            *self._refused_batches(),
            *self._graph_building(),
            *self._flexibility(),
            *self._beside_torch(),
            *[f"{name} returns no loss, so nobody knows what it learns." for name in sorted(silent)],
        ]
        if any(f.memory_of == "process" for f in self.columns):
            notes.append(
                "* growth of the process in a pass, as tensors are not counted here; small ones fit what it holds "
                "already."
            )
        notes += self._leaks()
        notes += [f"{'Unfair' if flag.refuses else 'Note'}: {flag.text}." for flag in self.flags]
        return notes

    def _refused_batches(self) -> Iterator[str]:
        for f in self.columns:
            if not f.runs:
                yield f"{f.name} cannot run this step: {f.error}"
            elif not f.takes_all:
                yield f"{f.name} takes {f.n_taken} of {len(f.taken)} batches. The first that it refuses: {f.error}"

    def _graph_building(self) -> Iterator[str]:
        if self._static is not None:
            yield (
                "Graph building: time a step beyond static, which repeats compile's plans without Python; for eager "
                "that is also what fused kernels save."
            )
        elif any(f.planning_seconds is not None for f in self.columns):
            yield "Graph building is not known without static; planning is what ex.compile spent on new plans."

    def _flexibility(self) -> Iterator[str]:
        high = [f.name for f in self.columns if f.flexibility == "High"]
        if high:
            f = self[high[0]]
            met = f"{len(f.changes)} changes of structure or sizes survived" if f.changes else "which never change"
            yield f"Flexibility High ({', '.join(high)}): all {len(f.taken)} batches taken, {met}."
        for f in self.columns:
            if f.mode == "static" and f.takes_all:
                yield f"Flexibility Low ({f.name}): it repeats what it recorded, any change is an error."

    def _leaks(self) -> list[str]:
        leaking: dict[str, list[str]] = {}
        for f in self.columns:
            if f.leak is not None:
                leaking.setdefault(str(f.leak), []).append(f.name)
        return [f"Leak in {', '.join(names)}: {leak}." for leak, names in leaking.items()]

    def _beside_torch(self) -> Iterator[str]:
        for theirs in (f for f in self.columns if f.mode == "torch"):
            found = {f.name: ratio(theirs, f) for f in self.columns if f is not theirs and f.runs}
            times = [f"{times.middle:.3g} times as long as {name}" for name, times in found.items() if times]
            yield f"{theirs.name} takes {', '.join(times)}."

    @property
    def title(self) -> str:
        about = self.about
        f = self.columns[0]
        return (
            f"{about['name']}: {counted(about['rounds'], 'round')} of {counted(about['steps'], 'step')}, "
            f"{counted(f.n_parameters, 'parameter')}, {', '.join(f.dtypes) or 'no floats'}, "
            f"{counted(about['threads'], 'thread')}"
        )

    def __str__(self) -> str:
        lines = [*wrapped(self.title), ""]
        for table in self.tables():
            lines += [table.text(), ""]
        for note in self.notes():
            lines += wrapped(note)
        lines += ["", *wrapped(f"Verdict: {self.verdict}.")]
        if self.verdict.next:
            lines += wrapped(f"Next: {self.verdict.next}.")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return fragment(self._html())

    def html(self) -> str:
        """A page with the tables, the notes and the verdict."""
        return page(self.title, self._html())

    def _html(self) -> str:
        parts = [f"<h2>{escape(self.title)}</h2>", *(table.html() for table in self.tables())]
        parts += [f"<p>{escape(note)}</p>" for note in self.notes()]
        parts.append(f"<p><b>Verdict: {escape(self.verdict.word)}</b>: {escape(self.verdict.reason)}.</p>")
        if self.verdict.next:
            parts.append(f"<p>Next: {escape(self.verdict.next)}.</p>")
        return "".join(parts)

    # ---- for machines

    def as_dict(self) -> dict[str, Any]:
        """All figures as plain values."""
        return {
            "version": _VERSION,
            **self.about,
            "columns": [_as_dict(f, self._static) for f in self.columns],
            "verdict": self.verdict._asdict(),
            "flags": [flag._asdict() | {"columns": list(flag.columns)} for flag in self.flags],
        }

    def save(self, path: str | Path) -> Path:
        """Write the figures as JSON, for `against`."""
        path = Path(path)
        write_text(path, self.to_json() + "\n")
        return path

    def against(self, old: Comparison | dict[str, Any] | str | Path) -> Changes:
        """What has changed since an earlier comparison: a saved file, or the object."""
        return Changes(read(old), self.as_dict())


def read(old: Comparison | dict[str, Any] | str | Path) -> dict[str, Any]:
    """The figures of an earlier comparison."""
    if isinstance(old, Comparison):
        return old.as_dict()
    found = old if isinstance(old, dict) else json.loads(Path(old).read_text(encoding="utf-8"))
    if not isinstance(found, dict) or found.get("version") != _VERSION or "columns" not in found:
        raise ValueError(f"against: {old if not isinstance(old, dict) else 'this dict'} holds no saved comparison")
    return found


def _training(f: Figures) -> str:
    if not f.runs:
        return "cannot"
    part = "" if f.takes_all else f" ({f.n_taken}/{len(f.taken)})"
    return f"{f.training_seconds:.3g}{part}"


def _building(f: Figures, static: Figures | None) -> str:
    if f.mode == "static":
        return "none"
    seconds = _building_seconds(f, static)
    return "-" if seconds is None else seconds_text(seconds)


def _building_seconds(f: Figures, static: Figures | None) -> float | None:
    if static is None or not f.dynamic or f.variant != static.variant or not f.runs:
        return None
    return overhead(f, static)


def _per_step(seconds: float | None, f: Figures) -> str:
    n_steps = len(f.step_seconds)
    return "-" if seconds is None or not n_steps else seconds_text(seconds / n_steps)


def _warm_up_steps(columns: list[Figures]) -> str:
    return counted(max(f.warm_up_steps for f in columns), "step")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _as_dict(f: Figures, static: Figures | None) -> dict[str, Any]:
    return {
        "name": f.name,
        "variant": f.variant,
        "mode": f.mode,
        "training_seconds": f.training_seconds if f.runs else None,
        "round_seconds": f.round_seconds,
        "median_seconds": f.median_seconds if f.runs else None,
        "p90_seconds": f.p90_seconds if f.runs else None,
        "building_seconds": _building_seconds(f, static),
        "planning_seconds": f.planning_seconds,
        "first_seconds": f.first_seconds if f.runs else None,
        "warm_up_seconds": f.warm_up_seconds if f.runs else None,
        "warm_up_steps": f.warm_up_steps,
        "peak_bytes": f.peak_bytes if f.runs else None,
        "retained_bytes": f.retained_bytes if f.runs else None,
        "memory_of": f.memory_of,
        "leak": None if f.leak is None else f.leak._asdict(),
        "flexibility": f.flexibility,
        "batches_taken": f.n_taken,
        "error": f.error,
        "structures_seen": f.seen(f.structures),
        "lengths_seen": f.seen(f.lengths),
        "changes": len(f.changes),
        "changes_survived": f.changes_survived,
        "losses": f.losses[0] if f.losses else [],
        "loss_at_start": f.loss_at_start,
        "loss_same_steps": f.loss_same_steps,
        "loss_same_time": f.loss_same_time,
        "steps_same_time": f.steps_same_time,
        "metric_same_steps": f.metric_same_steps,
        "metric_same_time": f.metric_same_time,
        "parameters": f.n_parameters,
        "dtypes": f.dtypes,
        "threads": f.threads[-1] if f.threads else None,
    }
