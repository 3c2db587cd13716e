"""Results in, Markdown out: tables that say where and when they were measured, for docs/performance.md."""

from __future__ import annotations

import datetime
import os
import platform
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from interleave import Result
from worker import library_of
from workload import Workload

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
BASELINE, OURS = "torch", "extempo"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with columns of even width, readable as it is; the first column is text, the others numbers."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = [
        " | ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in [header, *rows]
    ]
    rule = " | ".join("-" * (width - 1) + ":" if i else "-" * width for i, width in enumerate(widths))
    return "\n".join(f"| {line} |" for line in [lines[0], rule, *lines[1:]])


def machine() -> str:
    """CPU, cores, system, load, Python and date, in one line."""
    name = platform.processor() or platform.machine()
    if sys.platform == "linux":
        found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
        name = found[1].strip() if found else name
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    today = datetime.date.today().isoformat()
    return f"{name}, {os.cpu_count()} cores{load}, {platform.system()}, Python {platform.python_version()}, {today}"


def source(results: Sequence[Result], how: str) -> str:
    """Where a table comes from: machine and date, versions, and how often it was measured."""
    found = {library_of(r.peer): r.version for r in results if r.version}
    return f"{machine()}; {', '.join(f'{name} {version}' for name, version in found.items())}; {how}"


def verdict(ratio: float, floor: float) -> str:
    return f"{floor:.2f} {'pass' if ratio <= floor else 'FAIL'}"


def _numpy_kernels(result: Result) -> str:
    """How many NumPy kernels a step ran, and of which ops; "all" where no native backend was in use."""
    if result.backend != "native":
        return "all"
    most = sorted(result.fallbacks.items(), key=lambda item: -item[1])[:4]
    names = ", ".join(f"{name} {count:.3g}" for name, count in most)
    return f"{sum(result.fallbacks.values()):.3g}" + (f" ({names})" if names else "")


HEADER = (
    "peer",
    "minimum ms",
    "median ms",
    "ratio of minima",
    "of medians",
    "floor",
    "warm-up s",
    "NumPy kernels per step",
    "note",
)


def _row(result: Result, base: Result | None, workload: Workload) -> list[str]:
    if result.error:
        return [result.peer, *[""] * 7, result.error]
    warm_up = max(0.0, result.first_block - result.median * workload.block) / 1e3
    row = [result.peer, f"{result.minimum:.3f}", f"{result.median:.3f}", "-", "-", "", f"{warm_up:.1f}", "", ""]
    if base:
        ratio = result.minimum / base.minimum
        row[3:5] = f"{ratio:.2f}", f"{result.median / base.median:.2f}"
        if result.peer == OURS and workload.floor is not None:
            row[5] = verdict(ratio, workload.floor)
        if not result.agrees_with(base):
            row[8] = "LOSS DIFFERS"
    if result.peer == OURS:
        row[7] = _numpy_kernels(result)
    return row


def _base(results: Sequence[Result]) -> Result | None:
    return next((r for r in results if r.peer == BASELINE and not r.error), None)


def section(workload: Workload, results: Sequence[Result], rounds: int) -> str:
    """The workload's title, what it is, its table, and where that comes from."""
    rows = [_row(result, _base(results), workload) for result in results]
    where = source(results, f"{rounds} rounds of {workload.block} steps")
    return f"### {workload.name}\n\n{workload.about}\n\n{table(HEADER, rows)}\n\n{where}"


def summary(timed: Sequence[tuple[Workload, Sequence[Result]]]) -> str:
    """One row per workload: Extempo eager beside PyTorch eager, from the rows of the workloads' own tables."""
    rows = []
    for workload, results in timed:
        by_peer = {result.peer: _row(result, _base(results), workload) for result in results}
        ours, theirs = by_peer[OURS], by_peer[BASELINE]
        rows.append([workload.name, ours[1], theirs[1], *ours[3:6], *ours[7:]])
    header = ["workload", "extempo ms", "torch ms", *HEADER[3:6], *HEADER[7:]]
    return f"### summary\n\n{table(header, rows)}\n\n{machine()}"


def write(name: str, text: str, page: Path = PAGE) -> None:
    """Put the text between the page's markers of that name."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.S)
    old = page.read_text()
    if not pattern.search(old):
        raise SystemExit(
            f"{page} has no place for {name}: add <!-- {name} --> and <!-- end of {name} --> where it belongs"
        )
    page.write_text(pattern.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", old))
