"""Which of PyTorch's ops Extempo answers like PyTorch, as a summary, as docs/conformance.md and as known.txt.

    python tests/conformance/report.py                    all names, summary
    python tests/conformance/report.py --only add,mul -v  these, with every failing sample's arguments
    python tests/conformance/report.py --write --known    rewrite docs/conformance.md and known.txt

Exit status 1 if a name of known.txt does not pass.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))  # the package is `conformance` however this file was started, in children too

from conformance import excuses, harness  # noqa: E402 - found through the path above

KNOWN = Path(__file__).with_name("known.txt")
DOCUMENT = TESTS.parent / "docs" / "conformance.md"
REASON_WIDTH = 160


def main() -> int:
    """Run what the command line asks for; returns the exit status."""
    options = _command_line()
    names = sorted(harness.OPS) if options.only is None else options.only.split(",")
    unknown = [name for name in names if name not in harness.OPS]
    if unknown:
        print(f"report: op_db has no {', '.join(unknown)}; names are PyTorch's, such as linalg.inv", file=sys.stderr)
        return 2
    outcomes = sorted(run_all(names, jobs=options.jobs, verbose=options.verbose), key=lambda outcome: outcome.name)
    print(summary(outcomes, verbose=options.verbose, slowest=options.slowest))
    if options.only is None and options.known:
        write_known(outcomes)
    if options.only is None and options.write:
        DOCUMENT.parent.mkdir(exist_ok=True)
        DOCUMENT.write_text(document(outcomes), encoding="utf-8")
    lost = sorted(known_names().intersection(names) - {o.name for o in outcomes if o.status == "pass"})
    if lost:
        print(f"\n{len(lost)} names of known.txt do not pass any more: {', '.join(lost)}")
    return 1 if lost else 0


def _command_line() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="op_db names, separated by commas")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)")
    parser.add_argument("-v", "--verbose", action="store_true", help="every failing sample, with its arguments")
    parser.add_argument("--slowest", type=int, default=0, help="also name the slowest so many")
    parser.add_argument("--write", action="store_true", help="rewrite docs/conformance.md (not with --only)")
    parser.add_argument("--known", action="store_true", help="rewrite known.txt: what passes now (not with --only)")
    return parser.parse_args()


def run_all(names: list[str], *, jobs: int, verbose: bool) -> Iterator[harness.Outcome]:
    """The names' outcomes as they are done, from `jobs` processes."""
    one = partial(harness.run, every_failure=verbose)
    if jobs == 1 or len(names) < 4:
        yield from map(one, names)
        return
    # Spawned, not forked: PyTorch's thread pools do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(names)), mp_context=context) as pool:
        pending = [pool.submit(one, name) for name in names]
        for n_done, future in enumerate(as_completed(pending), start=1):
            if sys.stderr.isatty():
                print(f"\r{n_done} of {len(names)}", end="", file=sys.stderr, flush=True)
            yield future.result()
    if sys.stderr.isatty():
        print("\r", end="", file=sys.stderr)


def summary(outcomes: list[harness.Outcome], *, verbose: bool = False, slowest: int = 0) -> str:
    """The text that the command prints."""
    lines: list[str] = []
    for outcome in _of(outcomes, "fail"):
        lines.append(f"FAIL {outcome.name}: {_one_line(outcome.reason)}")
        if verbose:
            lines += [f"    {failure}" for failure in outcome.failures]
    lines += [f"NOT COVERED {outcome.name}: {_one_line(outcome.reason)}" for outcome in _of(outcomes, "not covered")]
    lines += [f"LEFT OUT {outcome.name}: {_one_line(outcome.reason)}" for outcome in _of(outcomes, "left out")]
    missing = [outcome.name for outcome in _of(outcomes, "missing")]
    if missing:
        lines.append(f"MISSING ({len(missing)}): " + ", ".join(missing))
    absent = absent_method_names(outcomes)
    if absent:
        lines.append(f"METHODS MISSING of ops that pass ({len(absent)}, not counted): " + ", ".join(absent))
    for outcome in sorted(outcomes, key=lambda outcome: -outcome.seconds)[:slowest]:
        lines.append(f"{outcome.seconds:7.2f} s  {outcome.n_compared:5d} samples  {outcome.name}")
    n_samples = sum(outcome.n_compared for outcome in outcomes)
    counts = ", ".join(
        f"{len(_of(outcomes, status))} {status}" for status in ("fail", "missing", "not covered", "left out")
    )
    lines.append(f"{len(_of(outcomes, 'pass'))} of {len(outcomes)} names pass ({counts}; {n_samples} samples compared)")
    return "\n".join(lines)


def document(outcomes: list[harness.Outcome]) -> str:
    """docs/conformance.md. No time, host or date in it: it changes only when a result does."""
    passing = [outcome.name for outcome in _of(outcomes, "pass")]
    torch_version = harness.torch.__version__.split("+")[0]
    n_samples = sum(outcome.n_compared for outcome in _of(outcomes, "pass"))
    parts = [
        "# Conformance with PyTorch",
        _paragraph(
            f"**{len(passing)} of {len(outcomes)}** op names of PyTorch {torch_version}'s own test database (`op_db`) "
            "give the same results in Extempo, on all their float32, float64, int64 and bool samples "
            f"({n_samples} of them), forward and gradient."
        ),
        "Written by `python tests/conformance/report.py --write --known`; do not edit.",
        _paragraph(
            "A name passes only if every sample of every variant passes: structure and field names of the result, "
            "shapes, dtypes, `requires_grad`, values, and the gradients of all inputs for random cotangents. A sample "
            "does not count where a complex or sparse tensor is involved, which Extempo refuses by design, or where "
            "PyTorch raises; a name with no sample left is not a pass. All samples are run."
        ),
        "## Do not agree",
        _table(("name", "first difference"), ((o.name, _one_line(o.reason)) for o in _of(outcomes, "fail"))),
        "## Not in Extempo",
        _name_list(outcome.name for outcome in _of(outcomes, "missing")),
        "## Not covered by the comparison",
        _table(("name", "why"), ((o.name, _one_line(o.reason)) for o in _of(outcomes, "not covered"))),
        "## No sample counts",
        _table(("name", "why"), ((o.name, _one_line(o.reason)) for o in _of(outcomes, "left out"))),
        "## Held to something else than the same numbers",
        _paragraph(
            f"Elementwise results may differ by {_tolerance(excuses.ELEMENTWISE)}, all others by "
            f"{_tolerance(excuses.DEFAULT)} (relative, absolute). Beyond that:"
        ),
        _table(("name", "instead", "reason"), _excuse_rows({outcome.name for outcome in _of(outcomes, "pass")})),
        "## Pass",
        _name_list(passing),
    ]
    absent = absent_method_names(outcomes)
    if absent:
        parts += ["## Passing as functions, method or in-place form absent", _name_list(absent)]
    parts += [*_modules(), *_optimizers()]
    return "\n\n".join(part for part in parts if part) + "\n"


def _modules() -> list[str]:
    """Every layer and loss of torch.nn, by what `test_module_db.py` finds."""
    from conformance.module_harness import module_report

    rows = module_report()
    passing = [name for name, status in rows if status == "pass"]
    return [
        "## Modules",
        _paragraph(
            f"**{len(passing)} of {len(rows)}** layers and losses of `torch.nn` agree on `module_db`'s samples and our "
            "own: repr, state_dict keys, forward, gradients of inputs and parameters, buffers, in training and "
            "evaluation, and 20 steps of training from the same weights. The rest:"
        ),
        _table(("module", "status"), ((n, _one_line(s)) for n, s in rows if s != "pass")),
        _paragraph("They pass: " + ", ".join(f"`{name}`" for name in passing)),
    ]


def _optimizers() -> list[str]:
    """The optimizers of PyTorch's optim_db; `test_optim_db.py` compares those that we have."""
    from torch.testing._internal.common_optimizers import optim_db

    import extempo

    names = sorted({info.optim_cls.__name__ for info in optim_db})
    here = [name for name in names if hasattr(extempo.optim, name)]
    return [
        "## Optimizers",
        _paragraph(
            f"`test_optim_db.py` runs every CPU configuration of `optim_db` for 20 steps from the same weights for "
            f"{', '.join(f'`{name}`' for name in here)}. Not in Extempo: "
            f"{', '.join(f'`{name}`' for name in names if name not in here)}."
        ),
    ]


def write_known(outcomes: list[harness.Outcome]) -> None:
    """known.txt: the names that pass, one a line."""
    KNOWN.write_text("".join(f"{outcome.name}\n" for outcome in _of(outcomes, "pass")), encoding="utf-8")


def known_names() -> set[str]:
    """The names that must pass."""
    return set(KNOWN.read_text(encoding="utf-8").split()) if KNOWN.exists() else set()


def absent_method_names(outcomes: list[harness.Outcome]) -> list[str]:
    """Methods and in-place forms that PyTorch has of passing ops and Extempo has not."""
    return sorted({method for outcome in _of(outcomes, "pass") for method in outcome.absent_methods})


def _of(outcomes: list[harness.Outcome], status: str) -> list[harness.Outcome]:
    return [outcome for outcome in outcomes if outcome.status == status]


def _one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= REASON_WIDTH else text[: REASON_WIDTH - 3] + "..."


def _paragraph(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _name_list(names: Iterable[str]) -> str:
    return _paragraph(", ".join(f"`{name}`" for name in names)) or "None."


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    body = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    if not body:
        return "None."
    return "\n".join(["| " + " | ".join(header) + " |", "|" + "---|" * len(header), *body])


def _tolerance(row: excuses.Tolerance) -> str:
    return f"{row.float32} in float32 and {row.float64} in float64"


def _excuse_rows(passing: set[str]) -> list[tuple[str, str, str]]:
    tables: list[tuple[str, dict[str, Any]]] = [
        ("shape and dtype only", excuses.UNINITIALISED),
        ("properties where the seed matters", excuses.RANDOM),
        ("indices of equal elements may differ", excuses.TIES),
        ("what the factors determine", excuses.FACTORS),
    ]
    rows = [(name, instead, reason) for instead, table in tables for name, reason in table.items() if name in passing]
    rows += [(name, _tolerance(row), row.reason) for name, row in excuses.TOLERANCES.items() if name in passing]
    return rows


if __name__ == "__main__":
    sys.exit(main())
