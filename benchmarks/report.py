"""Results in, Markdown out: tables that say where and when they were measured, for docs/performance.md."""

from __future__ import annotations

import datetime
import os
import platform
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from interleave import COMPILED, Result
from worker import library_of
from workload import Workload

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
BASELINE, OURS = "torch", "extempo"
STATIC, MODULE = "extempo static", "extempo compiled module"
BATCH, BATCH_COMPILED = "extempo batch", "extempo batch compiled"
RAGGED, RAGGED_COMPILED = "extempo ragged", "extempo ragged compiled"
OWN = (OURS, COMPILED, STATIC, MODULE, BATCH, BATCH_COMPILED, RAGGED, RAGGED_COMPILED)

# What a compiled step may take, relative to others of Extempo's own ways to run it.
COMPILED_TO_EAGER, MODULE_TO_WHOLE, DYNAMIC_TO_STATIC = 1.05, 1.5, 1.05
LONG_STEP_MS, MICROSECONDS_PER_OP = 5.0, 1.0  # a shorter step may take static's time and so much per recorded op

SUMMARY_HEADER = (
    "workload",
    "torch ms",
    "eager ms",
    "compiled ms",
    "eager ratio",
    "floor",
    "compiled ratio",
    "floor",
    "module ratio",
    "floor",
    "compiled to eager",
    "to static",
    "note",
)
BATCH_SUMMARY_HEADER = (
    "workload, per sample",
    "torch ms",
    "loop ms",
    "batch ms",
    "compiled ms",
    "loop ratio",
    "batch ratio",
    "floor",
    "compiled ratio",
    "floor",
    "note",
)
DIFFERS = "LOSS DIFFERS"


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


def shown(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 0.095 else f"{ratio:.3f}"


def verdict(ratio: float, floor: float) -> str:
    return f"{shown(floor)} {'pass' if ratio <= floor else 'FAIL'}"


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


def _named(results: Sequence[Result], peer: str) -> Result | None:
    return next((r for r in results if r.peer == peer and not r.error and r.times), None)


def _ratio(results: Sequence[Result], peer: str, to: str) -> float | None:
    """Of minima; None unless both were measured."""
    one, other = _named(results, peer), _named(results, to)
    return one.minimum / other.minimum if one and other else None


def _floor(peer: str, workload: Workload, results: Sequence[Result]) -> float | None:
    """What a peer may take, relative to PyTorch eager."""
    whole_step = _ratio(results, COMPILED, BASELINE)
    if peer == MODULE:
        return MODULE_TO_WHOLE * whole_step if whole_step else None
    batch = dict.fromkeys((BATCH, BATCH_COMPILED), workload.batch_floor)
    ragged = dict.fromkeys((RAGGED, RAGGED_COMPILED), workload.ragged_floor)
    return {OURS: workload.floor, COMPILED: workload.compiled_floor, **batch, **ragged}.get(peer)


def _row(result: Result, workload: Workload, results: Sequence[Result]) -> list[str]:
    if result.error:
        return [result.peer, *[""] * 7, result.error]
    warm_up = max(0.0, result.first_block - result.median * workload.block) / 1e3
    row = [result.peer, f"{result.minimum:.3f}", f"{result.median:.3f}", "-", "-", "", f"{warm_up:.1f}", "", ""]
    if any(result.apart):
        row[8] = f"apart: {min(result.apart):.3f} ms"
    base = _named(results, BASELINE)
    if base:
        ratio, floor = result.minimum / base.minimum, _floor(result.peer, workload, results)
        row[3:5] = shown(ratio), shown(result.median / base.median)
        if floor is not None:
            row[5] = verdict(ratio, floor)
        if not result.agrees_with(base):
            row[8] = ", ".join(filter(None, [row[8], DIFFERS]))
    if result.peer in OWN:
        row[7] = _numpy_kernels(result)
    return row


def _against_eager(results: Sequence[Result]) -> str:
    ratio = _ratio(results, COMPILED, OURS)
    return "" if ratio is None else f"{ratio:.2f} ({verdict(ratio, COMPILED_TO_EAGER)})"


def _against_static(results: Sequence[Result]) -> str:
    """A ratio where a step is long, otherwise microseconds beyond static per recorded op."""
    dynamic, fixed = _named(results, COMPILED), _named(results, STATIC)
    if not dynamic or not fixed:
        return ""
    if fixed.minimum > LONG_STEP_MS:
        ratio = dynamic.minimum / fixed.minimum
        return f"{ratio:.2f} ({verdict(ratio, DYNAMIC_TO_STATIC)})"
    if not dynamic.n_recorded:
        return f"{1e3 * (dynamic.minimum - fixed.minimum):+.1f} us, recorded ops not counted"
    beyond = 1e3 * (dynamic.minimum - fixed.minimum) / dynamic.n_recorded
    return f"{beyond:+.2f} us/op ({verdict(beyond, MICROSECONDS_PER_OP)})"


def section(workload: Workload, results: Sequence[Result], rounds: int) -> str:
    """The workload's title, what it is, its table, compiled beside eager and static, and where that comes from."""
    rows = [_row(result, workload, results) for result in results]
    own = {"eager": _against_eager(results), "static": _against_static(results)}
    compared = "; ".join(f"relative to {name}: {found}" for name, found in own.items() if found)
    paragraphs = [f"### {workload.name}", workload.about or "", table(HEADER, rows)]
    if compared:
        paragraphs.append(f"Compiled {compared}.")
    paragraphs.append(source(results, f"{rounds} rounds of {workload.block} steps"))
    return "\n\n".join(paragraphs)


def summary(timed: Sequence[tuple[Workload, Sequence[Result]]]) -> str:
    """One row per workload: Extempo's ways to run it beside PyTorch eager, from the workloads' own tables."""
    per_sample = [one for one in timed if one[0].batch_floor is not None]
    others = [one for one in timed if one[0].batch_floor is None]
    tables = [
        table(header, rows_of(chosen))
        for header, rows_of, chosen in (
            (SUMMARY_HEADER, _summary_rows, others),
            (BATCH_SUMMARY_HEADER, _batch_summary_rows, per_sample),
        )
        if chosen
    ]
    return "\n\n".join(["### summary", *tables, machine()])


def _summary_rows(timed: Sequence[tuple[Workload, Sequence[Result]]]) -> list[list[str]]:
    rows = []
    for workload, results in timed:
        found = {result.peer: _row(result, workload, results) for result in results}
        cells = [cell for peer in (OURS, COMPILED, MODULE) for cell in found.get(peer, [""] * len(HEADER))[3:6:2]]
        notes = {found[peer][8] for peer in OWN if peer in found and found[peer][8]}
        times = [found[peer][1] if peer in found else "" for peer in (BASELINE, OURS, COMPILED)]
        own = [_against_eager(results), _against_static(results)]
        rows.append([workload.name, *times, *cells, *own, ", ".join(sorted(notes))])
    return rows


def _batch_summary_rows(timed: Sequence[tuple[Workload, Sequence[Result]]]) -> list[list[str]]:
    rows = []
    for workload, results in timed:
        found = {result.peer: _row(result, workload, results) for result in results}
        absent = [""] * len(HEADER)
        times = [found.get(peer, absent)[1] for peer in (BASELINE, OURS, BATCH, BATCH_COMPILED)]
        cells = [cell for peer in (BATCH, BATCH_COMPILED) for cell in found.get(peer, absent)[3:6:2]]
        notes = {row[8] for peer, row in found.items() if peer in OWN and (not row[1] or DIFFERS in row[8])}
        rows.append([workload.name, *times, found.get(OURS, absent)[3], *cells, "; ".join(sorted(notes))])
    return rows


def write(name: str, text: str, page: Path = PAGE) -> None:
    """Put the text between the page's markers of that name."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.S)
    old = page.read_text()
    if not pattern.search(old):
        raise SystemExit(
            f"{page} has no place for {name}: add <!-- {name} --> and <!-- end of {name} --> where it belongs"
        )
    page.write_text(pattern.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", old))
