"""Every op and every layer beside PyTorch eager, at three sizes, in four dtypes and four layouts, forward and backward.

    python benchmarks/every_op.py                                   what is above 1.2 of PyTorch's time, worst first
    python benchmarks/every_op.py "cum*" --dtype float32 --size large --layout permuted
    python benchmarks/every_op.py --seconds 600 --write             and put that into docs/performance.md

Both libraries run in this process, in turn, on one thread. A row is the least of several blocks of calls; "backward"
is forward and backward together. Rows are measured from the usual (float32, contiguous) to the rare ones until the time
is up; the report says how many there were.
"""

from __future__ import annotations

import argparse
import fnmatch
import gc
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import report
from every_op_cases import SIZES, Case, Given, every_op
from every_op_layers import every_layer
from interleave import ONE_THREAD
from workload import extempo, torch

DTYPES = ("float32", "float64", "bfloat16", "int64")
LAYOUTS = ("contiguous", "permuted", "strided", "broadcast")
DIRECTIONS = ("forward", "backward")
LIMIT, WORST = 1.2, 2.0  # what is reported, and what no row may be above; ratios to PyTorch eager
SHARE = 0.03  # of rows that may be above LIMIT
BLOCK, N_BLOCKS = 1e-3, 5  # seconds of a block of calls, and blocks of each library
LONGEST = 0.25  # seconds of a call from which on it is not repeated in a block, and of which there are two blocks
WARM_UP = 4  # calls: the first compiles, the second is remembered
IN_PAGE = 60  # rows of the table in docs/performance.md


@dataclass(frozen=True)
class Row:
    """One case as it is called."""

    case: Case
    direction: str
    dtype: str
    size: str
    layout: str

    @property
    def name(self) -> str:
        return f"{self.case.name} {self.direction}, {self.dtype}, {self.size}, {self.layout}"


@dataclass
class Measured:
    """What a row came to: seconds of a call, and how often NumPy kernels ran in one of ours."""

    row: Row
    ours: float = 0.0
    theirs: float = 0.0
    kernels: dict[str, int] = field(default_factory=dict)
    error: str = ""  # of Extempo, where PyTorch has a result

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs if self.theirs else float("inf")


def rows(names: Sequence[str], dtypes: Sequence[str], sizes: Sequence[str], layouts: Sequence[str]) -> list[Row]:
    """The usual ones first."""
    chosen = [
        case for case in (*every_op(), *every_layer()) if not names or any(fnmatch.fnmatch(case.name, n) for n in names)
    ]
    return [
        Row(case, direction, dtype, size, layout)
        for layout in layouts
        for dtype in dtypes
        for size in sizes
        for case in chosen
        for direction in DIRECTIONS
        if direction == "forward" or dtype != "int64"
    ]


# ---- inputs


def values_of(given: Given, size: int, rng: np.random.RandomState) -> np.ndarray[Any, Any]:
    """The values of an input in float64, or of places and truths."""
    shape = given.shapes[size]
    if given.values == "index":
        return rng.randint(0, given.below[size], shape)
    if given.values == "mask":
        return rng.rand(*shape) < 0.5
    if given.values == "definite":
        x = rng.standard_normal(shape)
        return x @ np.swapaxes(x, -1, -2) + shape[-1] * np.eye(shape[-1])
    drawn = {
        "normal": lambda: rng.standard_normal(shape),
        "positive": lambda: rng.uniform(0.5, 3.0, shape),
        "unit": lambda: rng.uniform(0.05, 0.95, shape),
        "above_one": lambda: rng.uniform(1.1, 4.0, shape),
    }
    return np.asarray(drawn[given.values]())


def laid_out(library: Any, values: np.ndarray[Any, Any], dtype: str, layout: str) -> Any:
    """A tensor of that dtype whose memory lies like that."""
    if dtype == "int64":
        values = np.rint(values * 3 + 1)
    if layout == "permuted":
        x = library.from_numpy(np.ascontiguousarray(values.transpose())).to(getattr(library, dtype))
        return x.permute(*range(x.dim() - 1, -1, -1))
    if layout == "strided":
        x = library.from_numpy(np.repeat(values, 2, axis=-1)).to(getattr(library, dtype))
        return x[..., ::2]
    if layout == "broadcast":
        return library.from_numpy(values[:1].copy()).to(getattr(library, dtype)).expand(*values.shape)
    return library.from_numpy(values.copy()).to(getattr(library, dtype))


def inputs_of(library: Any, row: Row) -> list[Any]:
    rng = np.random.RandomState(0)
    made = []
    last = max((i for i, given in enumerate(row.case.inputs) if given.is_data), default=-1)
    for i, given in enumerate(row.case.inputs):
        values = values_of(given, SIZES.index(row.size), rng)
        if not given.is_data:
            made.append(library.from_numpy(values))
            continue
        # Of several tensors, the last one is the one that is repeated.
        layout = "contiguous" if row.layout == "broadcast" and i != last else row.layout
        made.append(laid_out(library, values, row.dtype, layout))
    return made


# ---- calls


def first_tensor(result: Any) -> Any:
    """Of several results the first that has a gradient, or the first."""
    if not isinstance(result, tuple | list):
        return result
    tensors = [first_tensor(r) for r in result]
    return next((t for t in tensors if getattr(t, "requires_grad", False)), tensors[0])


def call_of(library: Any, row: Row) -> Callable[[], Any]:
    """What is timed, in one library. None of its results is kept."""
    function = row.case.prepare(library, SIZES.index(row.size))
    if hasattr(function, "to") and row.dtype != "float32":
        function = function.to(getattr(library, row.dtype))
    inputs = inputs_of(library, row)
    if row.direction == "forward":

        def forward() -> Any:
            with library.no_grad():
                return function(*inputs)

        return forward
    leaves = [x.detach().requires_grad_() if x.is_floating_point() else x for x in inputs]
    weights = list(function.parameters()) if hasattr(function, "parameters") else []
    result = first_tensor(function(*leaves))
    if not result.requires_grad:
        raise NoGradient
    gradient = library.ones_like(result)

    def backward() -> None:
        first_tensor(function(*leaves)).backward(gradient)
        for x in (*leaves, *weights):
            x.grad = None

    return backward


class NoGradient(Exception):
    """The result has none."""


def seconds_of(call: Callable[[], Any], n_calls: int) -> float:
    began = time.perf_counter()
    for _ in range(n_calls):
        call()
    return (time.perf_counter() - began) / n_calls


def measure(row: Row, ours: Any, theirs: Any) -> Measured | None:
    """None where PyTorch has no result to compare with."""
    try:
        their_call = call_of(theirs, row)
        their_call()
    except Exception:  # a dtype that it does not take, a gradient that it does not have
        return None
    found = Measured(row)
    try:
        our_call = call_of(ours, row)
        our_call()
    except Exception as error:
        found.error = f"{type(error).__name__}: {str(error).splitlines()[0][:60] if str(error) else ''}"
        return found
    fallbacks = Counter(ours.backends.stats()["fallbacks"])
    our_call()
    found.kernels = dict(Counter(ours.backends.stats()["fallbacks"]) - fallbacks)
    time_both(found, our_call, their_call)
    return found


def time_both(found: Measured, our_call: Callable[[], Any], their_call: Callable[[], Any]) -> None:
    calls = (our_call, their_call)
    once = [seconds_of(call, 1) for call in calls]
    if max(once) < LONGEST:
        once = [min(once[k], seconds_of(call, WARM_UP - 1)) for k, call in enumerate(calls)]
    n_calls = [max(1, int(BLOCK / max(seconds, 1e-7))) for seconds in once]
    best = list(once)
    for _ in range(N_BLOCKS if max(once) < LONGEST else 1):
        for k, call in enumerate(calls):
            best[k] = min(best[k], seconds_of(call, n_calls[k]))
    found.ours, found.theirs = best


def sweep(chosen: Sequence[Row], seconds: float) -> Iterator[Measured | None]:
    """As many rows as the time allows."""
    ours, theirs = extempo(), torch()
    end = time.monotonic() + seconds
    gc.disable()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for number, row in enumerate(chosen):
            if time.monotonic() > end:
                return
            if number % 64 == 0:
                gc.collect()
            yield measure(row, ours, theirs)


# ---- the report


HEADER = ("row", "torch us", "extempo us", "ratio", "NumPy kernels per call")


def worst_first(found: Sequence[Measured]) -> list[Measured]:
    """What is above the limit."""
    return sorted((m for m in found if not m.error and m.ratio > LIMIT), key=lambda m: -m.ratio)


def cells(m: Measured) -> list[str]:
    kernels = ", ".join(f"{name} {n}" for name, n in m.kernels.items())
    return [m.row.name, f"{1e6 * m.theirs:.1f}", f"{1e6 * m.ours:.1f}", f"{m.ratio:.2f}", kernels]


def shares(found: Sequence[Measured]) -> str:
    """For each dtype and layout: rows, how many are above the limits, and how many ran NumPy kernels."""
    timed = [m for m in found if not m.error]
    groups = {"all": timed}
    for what in (DTYPES, LAYOUTS, SIZES, DIRECTIONS):
        for name in what:
            groups[name] = [m for m in timed if name in (m.row.dtype, m.row.layout, m.row.size, m.row.direction)]
    lines = []
    for name, members in groups.items():
        if members:
            above, far, slow = (
                sum(test(m) for m in members)
                for test in (lambda m: m.ratio > LIMIT, lambda m: m.ratio > WORST, lambda m: bool(m.kernels))
            )
            ratios = sorted(m.ratio for m in members)
            lines.append(
                [name, str(len(members)), f"{ratios[len(ratios) // 2]:.2f}"]
                + [f"{n} ({100 * n / len(members):.0f}%)" for n in (above, far, slow)]
            )
    return report.table(("rows", "n", "median ratio", f"above {LIMIT}", f"above {WORST}", "with NumPy kernels"), lines)


def section_of(results: Sequence[Measured | None], n_rows: int, most: int | None = None) -> str:
    """The shares, the worst rows, what Extempo refuses, and where it was measured."""
    found = [m for m in results if m is not None]
    above = worst_first(found)
    timed = [m for m in found if not m.error]
    passes = len(above) <= SHARE * len(timed) and all(m.ratio <= WORST for m in above)
    refused = sorted({f"{m.row.case.name} {m.row.dtype}" for m in found if m.error})
    shown = above if most is None else above[:most]
    verdict = f"At most {SHARE:.0%} of rows above {LIMIT}, none above {WORST}: {'pass' if passes else 'FAIL'}."
    parts = ["### every_op", shares(found), verdict]
    if shown:
        rest = f" ({len(above) - len(shown)} more rows are above {LIMIT})" if len(shown) < len(above) else ""
        parts += [f"Worst first{rest}:", report.table(HEADER, [cells(m) for m in shown])]
    if refused:
        parts.append(f"Without a result in Extempo, with one in PyTorch: {', '.join(refused)}.")
    skipped = sum(m is None for m in results)
    measured = f"{len(results)} of {n_rows} rows, {skipped} of them without a result in PyTorch"
    parts.append(f"{report.machine()}; extempo {extempo().__version__}, torch {torch().__version__}; {measured}")
    return "\n\n".join(parts)


def section(wanted: str | None, rounds: int) -> str:
    """What `run.py` prints: as many rows as ten minutes allow."""
    chosen = rows((), DTYPES, SIZES, LAYOUTS)
    return section_of(list(sweep(chosen, 600.0)), len(chosen), IN_PAGE)


def _some(text: str, known: Sequence[str]) -> list[str]:
    chosen = text.split(",")
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
    return chosen


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*", help='patterns of names, as "cum*"; all without any')
    for option, known in (("dtype", DTYPES), ("size", SIZES), ("layout", LAYOUTS), ("direction", DIRECTIONS)):
        text = f"comma-separated: {', '.join(known)}"
        parser.add_argument(f"--{option}", type=lambda t, k=known: _some(t, k), default=list(known), help=text)
    parser.add_argument("--seconds", type=float, default=3600.0, help="when to stop, whatever is left")
    parser.add_argument("--all", action="store_true", help="print every row, not only those above the limit")
    parser.add_argument("--write", action="store_true", help="replace the section in docs/performance.md, too")
    given = parser.parse_args(arguments)
    os.environ.update(ONE_THREAD)
    chosen = [
        row for row in rows(given.name, given.dtype, given.size, given.layout) if row.direction in given.direction
    ]
    if not chosen:
        parser.error(f"no case is called {' or '.join(given.name)}")
    results = []
    for found in sweep(chosen, given.seconds):
        results.append(found)
        if given.all and found is not None:
            print(*(cells(found) if not found.error else (found.row.name, found.error)), sep="  ", flush=True)
    print(section_of(results, len(chosen)))
    if given.write:
        report.write("every_op", section_of(results, len(chosen), IN_PAGE))


if __name__ == "__main__":
    main()
