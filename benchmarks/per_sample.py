"""Models for one sample whose size is its own: `ex.batch` beside loops and beside PyTorch batched by hand.

    python benchmarks/per_sample.py                             every row, with 4, 32 and 128 samples a step
    python benchmarks/per_sample.py gnn deep_sets --samples 32 --rounds 5
    python benchmarks/per_sample.py gnn --style all             the same model written in other ways
    python benchmarks/per_sample.py --list                      the rows, their styles, and what they are

The rows are the modules of per_sample_models: code as PyTorch users write it, the same text for PyTorch's loop and for
Extempo's three ways to run it. Every step has samples that no earlier step had. Before anything is timed, gradients
must be those of PyTorch's loop. Where DyNet can say the model and is there (`pip install dyNET38`, or
EXTEMPO_BENCH_PYTHON_DYNET names an interpreter that has it), its automatic batching stands beside. `ex.batch` may take
1.0 of hand-batched PyTorch, where there is such a thing, 0.15 of PyTorch's loop elsewhere, and 1.05 of Extempo's own
loop everywhere, with 4 samples, too.

The second table has what a batch costs beside a steady step, for 32 samples: bytes of live tensors at their peak in
forward and backward (1.1 of hand-batched PyTorch, or of its loop), the first 20 calls beside 20 of the loop in fresh
processes with a warm disk cache (1.05), the tenth call relative to steady ones (2), and the dearest of the first 20
relative to the loop's call of that number (3). Of these calls, time of Python's collector does not count.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import product

from interleave import ONE_THREAD, PeerProcess, Result, interpreter_of, measure, started
from per_sample_models.row import AUTOBATCH, BY_HAND, MODULE, N_STEPS, Row
from report import BASELINE, BATCH, BATCH_COMPILED, DIFFERS, OURS, shown, source, table, verdict
from workload import Workload

MODULES = [
    "embed_then_loop",
    "lstm_per_sentence",
    "gnn",
    "encoder_per_sentence",
    "deep_sets",
    "seq2seq",
    "pointer_network",
    "stack_rnn",
    "nested_rnn",
    "tree_decoder",
    "mv_rnn",
    "early_exit_encoder",
    "tree_lstm_styles",
]
ROWS: dict[str, Row] = {
    row.name: row for module in MODULES for row in import_module(f"per_sample_models.{module}").ROWS
}
SIZES = (4, 32, 128)
MEASURED_SIZE = 32  # that of the second table
TO_HAND, TO_TORCH, TO_LOOP = 1.0, 0.15, 1.05
LIVE, FIRST_CALLS, TENTH_CALL, TRACING_CALL = 1.1, 1.05, 2.0, 3.0
N_FIRST, N_STEADY, N_REPEATS = 20, 10, 2
GRADIENT_TOLERANCE = 1e-3  # of each parameter's gradient, relative to its norm and the largest of all

PEERS = (BASELINE, OURS, BATCH, BATCH_COMPILED, BY_HAND, AUTOBATCH)
OWN_PEERS = (OURS, BATCH)  # with few samples


def workloads(sizes: Sequence[int] = SIZES) -> list[Workload]:
    """Every row in every style, for the workers."""
    return [row.workload(n, style) for row in ROWS.values() for style in (MODULE, *row.styles) for n in sizes]


WORKLOADS = workloads()


@dataclass
class Measurement:
    """What is known of one row, style and number of samples; the first table has one line for each."""

    row: Row
    style: str
    n_samples: int
    results: list[Result]
    live: dict[str, int] = field(default_factory=dict)  # bytes by peer
    calls: dict[str, list[float]] = field(default_factory=dict)  # ms of the first calls, by peer
    steady: float = 0.0  # ms of a batched call after these

    @property
    def name(self) -> str:
        return self.row.name if self.style == MODULE else f"{self.row.name}, {self.style}"

    def minimum(self, peer: str) -> float | None:
        return next((r.minimum for r in self.results if r.peer == peer and r.times and not r.error), None)

    def ratio(self, peer: str, to: str) -> float | None:
        one, other = self.minimum(peer), self.minimum(to)
        return one / other if one and other else None

    @property
    def trouble(self) -> str:
        errors = [f"{r.peer}: {r.error}" for r in self.results if r.error]
        base = next((r for r in self.results if not r.error), None)
        differ = [f"{r.peer}: {DIFFERS}" for r in self.results if base and not r.error and not r.agrees_with(base)]
        return "; ".join(errors + differ)


def differ(ours: list[list[float]], expected: list[list[float]]) -> bool:
    """Whether the gradients of some parameter are not the same."""
    largest = max(norm for norm, _ in expected)
    return any(
        abs(a - b) > GRADIENT_TOLERANCE * (norms[0] + 0.01 * largest)
        for mine, norms in zip(ours, expected, strict=True)
        for a, b in zip(mine, norms, strict=True)
    )


def compare_gradients(workload: Workload, processes: list[PeerProcess]) -> None:
    """A peer whose gradients are not those of the first one gets that as its error, and is not timed."""
    expected: dict[int, list[list[float]]] = {}
    for process in processes:
        process.ask(build=workload.name)
        for i in (0, 1, 0):  # seen again, a structure may run in another way
            found = process.ask(gradients=i).get("gradients")
            if found and differ(found, expected.setdefault(i, found)):
                process.error = "GRADIENTS DIFFER"


def is_there(peer: str) -> bool:
    """Whether a library that is no part of the project's own environment can be asked for."""
    own_interpreter = interpreter_of(peer) != sys.executable
    return peer != AUTOBATCH or own_interpreter or importlib.util.find_spec("dynet") is not None


def timed(row: Row, style: str, n_samples: int, rounds: int, peers: Sequence[str]) -> Measurement:
    workload = row.workload(n_samples, style)
    with started("per_sample", [peer for peer in peers if peer in workload.peers and is_there(peer)]) as processes:
        compare_gradients(workload, processes)
        found = Measurement(row, style, n_samples, measure(workload, processes, rounds))
        for process in processes:
            found.live[process.peer] = process.ask(live=N_STEPS - 1).get("bytes", 0)
    return found


def first_calls(workload: Workload) -> tuple[dict[str, list[float]], float]:
    """Milliseconds of the first calls of loop and batch, and of a steady one batched: the least of some processes.

    The compilers' files are there, made by a process before.
    """
    least: dict[str, list[float]] = {}
    steady = []
    with tempfile.TemporaryDirectory() as cache:
        for repeat in range(N_REPEATS + 1):
            with started("per_sample", list(OWN_PEERS), cache) as processes:
                for process in processes:
                    process.ask(build=workload.name)
                calls = [[process.ask(call=i) for process in processes] for i in range(N_FIRST + N_STEADY)]
            if repeat and not any("error" in one for both in calls for one in both):
                times = [[one["ms"] - one["collector"] for one in both] for both in calls]
                steady.append(statistics.median(batched for _, batched in times[N_FIRST:]))
                for peer, found in zip(OWN_PEERS, zip(*times[:N_FIRST], strict=True), strict=True):
                    least[peer] = list(map(min, found, least.get(peer, found)))
    return least, min(steady, default=0.0)


def judged(ratio: float | None, floor: float | None) -> str:
    """A ratio, if it is known, and whether it holds its floor, if it has one."""
    if ratio is None:
        return ""
    return shown(ratio) if floor is None else f"{shown(ratio)} ({verdict(ratio, floor)})"


def timing_line(found: Measurement) -> list[str]:
    times = ["" if (ms := found.minimum(peer)) is None else f"{ms:.2f}" for peer in PEERS]
    peers = (BATCH, BATCH_COMPILED)
    to_hand = [judged(found.ratio(peer, BY_HAND), TO_HAND) for peer in peers]
    to_torch = [judged(found.ratio(peer, BASELINE), None if found.row.by_hand else TO_TORCH) for peer in peers]
    to_loop = [judged(found.ratio(peer, OURS), TO_LOOP) for peer in peers]
    return [found.name, str(found.n_samples), *times, *to_hand, *to_torch, *to_loop, found.trouble]


TIMING_HEADER = (
    "row",
    "samples",
    "torch loop ms",
    "loop ms",
    "batch ms",
    "compiled ms",
    "by hand ms",
    "dynet ms",
    "batch to hand",
    "compiled to hand",
    "batch to torch loop",
    "compiled",
    "batch to own loop",
    "compiled",
    "note",
)


def cost_line(found: Measurement) -> list[str]:
    base = BY_HAND if found.row.by_hand else BASELINE
    ours, theirs = found.live.get(BATCH, 0), found.live.get(base, 0)
    memory = [f"{ours / 2**20:.2f}", f"{theirs / 2**20:.2f}", judged(ours / theirs if theirs and ours else None, LIVE)]
    if not found.calls:
        return [found.name, *memory, *[""] * 4]
    loop, batch = found.calls[OURS], found.calls[BATCH]
    ratios = [b / a for a, b in zip(loop, batch, strict=True)]
    dearest = max(range(len(ratios)), key=ratios.__getitem__)
    return [
        found.name,
        *memory,
        judged(sum(batch) / sum(loop), FIRST_CALLS),
        judged(batch[9] / found.steady, TENTH_CALL),
        judged(ratios[dearest], TRACING_CALL),
        str(dearest + 1),
    ]


COST_HEADER = (
    "row",
    "live MB",
    "by hand MB",
    "ratio",
    "first 20 calls to loop",
    "tenth to steady",
    "dearest call to loop",
    "which",
)


def report(rows: Sequence[Row], styles: Sequence[str] | None, sizes: Sequence[int], rounds: int, costs: bool) -> str:
    """Both tables. `styles` are those asked for, None all; a row has those of them that it has."""
    found = []
    for row, n_samples in product(rows, sizes):
        for style in (MODULE, *row.styles):
            if styles is None or style in styles:
                one = timed(row, style, n_samples, rounds, OWN_PEERS if n_samples == min(SIZES) else PEERS)
                if costs and n_samples == MEASURED_SIZE:
                    one.calls, one.steady = first_calls(row.workload(n_samples, style))
                found.append(one)
                said = [*timing_line(one)[1:], *(cost_line(one)[1:] if one.calls else [])]
                print(f"{one.name}: {' | '.join(said)}", file=sys.stderr, flush=True)
    title, _, about = __doc__.strip().partition("\n\n")
    paragraphs = [
        "### per_sample",
        title,
        about.partition("\n\n")[2],
        table(TIMING_HEADER, list(map(timing_line, found))),
    ]
    no_hand = {one.row.name: one.row.no_hand for one in found if not one.row.by_hand}
    paragraphs += [f"Not batched by hand: {name}: {why}" for name, why in no_hand.items()]
    measured = [cost_line(one) for one in found if one.n_samples == MEASURED_SIZE]
    if costs and measured:
        paragraphs.append(table(COST_HEADER, measured))
    paragraphs.append(source([r for one in found for r in one.results], f"{rounds} rounds, minima"))
    return "\n\n".join(paragraphs)


def section(wanted: str | None, rounds: int) -> str:
    return report(list(ROWS.values()), [MODULE], SIZES, rounds, costs=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", nargs="*", help=f"{', '.join(ROWS)}; without any, all of them")
    parser.add_argument("--style", action="append", help=f'how the model is written: {MODULE} unless told, or "all"')
    parser.add_argument("--samples", type=int, action="append", choices=SIZES, help="in a step; all of them otherwise")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--no-costs", action="store_true", help="leave out what is measured in processes of its own")
    parser.add_argument("--list", action="store_true", help="print the rows and measure nothing")
    given = parser.parse_args()
    unknown = [name for name in given.row if name not in ROWS]
    if unknown:
        parser.error(f"there is no row {unknown[0]}; choose from {', '.join(ROWS)}")
    rows = [ROWS[name] for name in given.row or ROWS]
    if given.list:
        for row in rows:
            print(f"{row.name}: {', '.join((MODULE, *row.styles))}\n    {row.about.strip()}")
        return
    styles = None if given.style and "all" in given.style else given.style or [MODULE]
    os.environ.update(ONE_THREAD)
    print(report(rows, styles, given.samples or SIZES, given.rounds, not given.no_costs))


if __name__ == "__main__":
    main()
