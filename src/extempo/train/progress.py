"""A bar for anything that takes more than two seconds: on a terminal and in Jupyter, nothing when piped."""

from __future__ import annotations

import importlib
import sys
import time
from html import escape
from typing import Any

_PATIENCE = 2.0  # seconds before a bar appears
_REFRESH = 0.1  # seconds between two pictures of it in a notebook


def in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook, not merely beside one that was imported."""
    loaded = sys.modules.get("IPython")
    shell = loaded.get_ipython() if loaded is not None else None
    return getattr(shell, "kernel", None) is not None


class Bar:
    """How far something is, and its throughput, for as long as it is entered. `total`: of batches, None if unknown."""

    def __init__(self, title: str, total: int | None, shown: bool) -> None:
        self._title = title
        self._total = total
        self._shown = shown and (sys.stderr.isatty() or in_notebook())
        self._progress: Any = None
        self._task: Any = None
        self._n_batches, self._n_samples = 0, 0

    def __enter__(self) -> Bar:
        self._began = time.perf_counter()
        return self

    def __exit__(self, *raised: Any) -> None:
        if self._progress is not None:
            self._progress.stop()

    def say(self, title: str, total: int | None = None) -> None:
        """What is being done from here on, and of how many batches all of it is, if that has become known."""
        self._title, self._total = title, total or self._total
        if self._progress is not None:
            self._progress.update(self._task, description=title, total=self._total)

    def advance(self, n_samples: int) -> None:
        """One more batch is done."""
        if not self._shown:
            return
        self._n_batches += 1
        self._n_samples += n_samples
        elapsed = time.perf_counter() - self._began
        if self._progress is None:
            if elapsed < _PATIENCE:
                return
            self._start()
        rate = f"{self._n_samples / elapsed:,.0f} samples/s"
        self._progress.update(self._task, completed=self._n_batches, rate=rate)

    def _start(self) -> None:
        if in_notebook():
            self._progress = _InNotebook(self._title, self._total)
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
        )
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(self._title, total=self._total, rate="")
        self._progress.start()


class _InNotebook:
    """A line below the cell, replaced as work goes on and gone at the end; rich would need ipywidgets for that."""

    def __init__(self, title: str, total: int | None) -> None:
        self._display: Any = importlib.import_module("IPython.display")
        self._title, self._total = title, total
        self._handle = self._display.display(self._display.HTML(""), display_id=True)
        self._shown_at = 0.0

    def update(
        self, task: None, completed: int = 0, rate: str = "", description: str = "", total: int | None = None
    ) -> None:
        if description:
            self._title, self._total = description, total
            return
        now = time.perf_counter()
        if now - self._shown_at < _REFRESH:
            return
        self._shown_at = now
        of, place = (f"/{self._total}", f' value="{completed}" max="{self._total}"') if self._total else ("", "")
        bar = f"<progress{place}></progress> {completed}{of}"
        self._handle.update(self._display.HTML(f"{escape(self._title)} {bar} {rate}"))

    def stop(self) -> None:
        self._handle.update(self._display.HTML(""))
