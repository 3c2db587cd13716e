"""Runs the modes of steps in turn and fills in their figures. All looks at the clock are here.

Every round of every mode begins with the same weights, optimizer state and random streams, and sees the same batches
in the same order. In each round every mode runs once, and the order changes from round to round, so that a machine
that is slow for a while slows all alike. Memory and learning are measured in passes of their own, which are not timed.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from statistics import fmean
from time import perf_counter
from typing import Any, NamedTuple

from ..backends.choice import native
from ..inspect import memory
from ..settings import get_num_threads
from .batches import batch_size, float_dtypes, sizes, structure, tensors_in
from .figures import Figures
from .leaks import Newcomers, grows, leak_of
from .states import Snapshot, State
from .variants import Runner, Variant

clock = perf_counter

PROBES = 8  # batches on which the loss is taken after training
PARTS = 4  # of a pass, after each of which tensors are counted

Done = Callable[[], None]  # called after each pass
PASSES = 3  # of each column, besides its rounds


class Rounds(NamedTuple):
    """How many rounds: at least so many, then more until they are enough, as long as neither limit is reached."""

    least: int
    most: int
    seconds: float
    enough: Callable[[list[Figures]], bool]

    def more(self, figures: list[Figures], n_done: int, elapsed: float) -> bool:
        return n_done < self.most and elapsed < self.seconds and not self.enough(figures)


class Starts:
    """Where the rounds of each variant begin: after one eager step, by which optimizers have made their state."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[State, Snapshot]] = {}

    def keep(self, variant: Variant) -> None:
        self._kept[id(variant)] = variant.state, variant.state.take()

    def put(self, variant: Variant) -> None:
        state, kept = self._kept[id(variant)]
        state.put(kept)


def measure(
    runners: list[Runner], names: list[str], rounds: Rounds, n_warm_up: int | None, done: Done
) -> list[Figures]:
    """The figures of each runner. Everything that steps have changed is put back, also if one raises."""
    variants = list({id(r.variant): r.variant for r in runners}.values())
    originals = [(v.state, v.state.take()) for v in variants]
    try:
        return _measure(runners, variants, names, rounds, n_warm_up, done)
    finally:
        for state, kept in originals:
            state.put(kept)


def _measure(
    runners: list[Runner], variants: list[Variant], names: list[str], rounds: Rounds, n_warm_up: int | None, done: Done
) -> list[Figures]:
    figures = [Figures(name, r.variant.name, r.mode) for name, r in zip(names, runners, strict=True)]
    columns = list(zip(runners, figures, strict=True))
    starts = Starts()
    for variant in variants:
        first = _first_step(variant)
        for runner, column in columns:
            if runner.variant is variant and runner.mode in ("eager", "torch"):
                column.first_seconds = first
        starts.keep(variant)
        _describe(variant, starts, [f for r, f in columns if r.variant is variant])
    for runner, column in columns:
        _survey(runner, column, starts)
        _warm_up(runner, column, starts, n_warm_up)
        done()
    running = [(r, f) for r, f in columns if f.runs]
    began, n_round = clock(), 0
    while n_round < rounds.least or rounds.more(figures, n_round, clock() - began):
        shift = n_round % max(len(running), 1)
        for runner, column in running[shift:] + running[:shift]:
            _round(runner, column, starts)
            done()
        n_round += 1
    for runner, column in running:
        _memory(runner, column, starts)
        done()
    _learning(running, starts, done)
    return figures


def _first_step(variant: Variant) -> float:
    runner = Runner(variant, "torch" if variant.is_torch else "eager")
    with runner.inside():
        began = clock()
        runner.run(0)
        return clock() - began


def _describe(variant: Variant, starts: Starts, columns: list[Figures]) -> None:
    """What the batches and parameters are, and the structure of each batch's graph."""
    forms = [repr(sizes(batch)) for batch in variant.batches]
    structures: list[Any] = []
    for i in range(variant.n_different):
        if variant.is_torch:
            structures.append(0)
        else:
            structures.append(structure(partial(variant.step, *variant.arguments[i])))
    starts.put(variant)
    structures = list(islice(cycle(structures), len(variant.batches)))
    parameters = variant.state.parameters()
    dtypes = float_dtypes([*parameters, *(t for b in variant.batches for t in tensors_in(b))])
    for column in columns:
        column.structures, column.lengths = _numbered(structures), _numbered(forms)
        column.parameter_shapes = sorted(tuple(map(int, p.shape)) for p in parameters)
        column.dtypes = dtypes
        column.batch_sizes = [batch_size(batch) for batch in variant.batches]


def _numbered(values: list[Any]) -> list[int]:
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]


def _survey(runner: Runner, column: Figures, starts: Starts) -> None:
    """Which batches the mode takes. Only the static one may refuse any; elsewhere an error is the user's."""
    n_steps = len(runner.variant.batches)
    starts.put(runner.variant)
    if runner.mode != "static":
        column.taken = [True] * n_steps
        return
    answers: dict[int, bool] = {}
    for i in range(runner.variant.n_different):
        began = clock()
        try:
            runner.run(i)
            column.first_seconds = column.first_seconds or clock() - began
            answers[i] = True
        except Exception as error:
            answers[i] = False
            column.error = column.error or f"{type(error).__name__}: {error}"
            starts.put(runner.variant)
            if not any(answers.values()):  # it could not be recorded, whatever the batch
                break
    column.taken = [answers.get(i % runner.variant.n_different, False) for i in range(n_steps)]
    runner.begin()


def _steps(column: Figures) -> list[int]:
    return [i for i, taken in enumerate(column.taken) if taken]


def _warm_up(runner: Runner, column: Figures, starts: Starts, n_steps: int | None) -> None:
    places = _steps(column)
    if not places:
        return
    if n_steps is None:
        n_steps = 2 * len(column.taken)
    starts.put(runner.variant)
    with runner.inside():
        began = clock()
        for n_done, i in enumerate(islice(cycle(places), n_steps)):
            runner.run(i)
            if not n_done and runner.mode == "compile":
                column.first_seconds = clock() - began
        column.warm_up_seconds = clock() - began
    column.warm_up_steps = n_steps


def _round(runner: Runner, column: Figures, starts: Starts) -> None:
    """One timed pass."""
    starts.put(runner.variant)
    n_steps = len(column.taken)
    times: list[float | None] = [None] * n_steps
    losses: list[float | None] = [None] * n_steps
    compiled = runner.compiled
    planning = compiled.counters.planning_seconds if compiled is not None else 0.0
    collects = gc.isenabled()
    gc.disable()  # a collection would be charged to whoever runs at that moment
    try:
        with runner.inside():
            for i in _steps(column):
                began = clock()
                loss = runner.run(i)
                times[i] = clock() - began
                losses[i] = loss
    finally:
        if collects:
            gc.enable()
    column.seconds.append(times)
    column.losses.append(losses)
    column.threads.append(_threads(runner.variant))
    if compiled is not None:
        spent = compiled.counters.planning_seconds - planning
        column.planning_seconds = (column.planning_seconds or 0.0) + spent
        column.compile_stats = compiled.stats()


def _threads(variant: Variant) -> int:
    if variant.is_torch:
        import torch

        return int(torch.get_num_threads())
    return int(get_num_threads())


def _memory(runner: Runner, column: Figures, starts: Starts) -> None:
    """Peak and growth over a pass, and what stays alive from step to step."""
    starts.put(runner.variant)
    places = _steps(column)
    backend = None if runner.variant.is_torch else native()
    part = max(len(places) // PARTS, 1)
    counts = [0]
    resident = memory.resident_bytes()
    memory.reset_peak()
    if backend is not None:
        backend.memory.reset_peak()
        held = backend.memory.stats()["bytes_in_use"]
    with Newcomers() as newcomers:
        with runner.inside():
            for n_done, i in enumerate(places, 1):
                runner.run(i)
                if n_done % part == 0:
                    counts.append(len(newcomers.alive()))
        new = newcomers.alive()
    if backend is not None:
        now = backend.memory.stats()
        column.peak_bytes, column.retained_bytes = now["peak_bytes_in_use"], max(now["bytes_in_use"] - held, 0)
    else:
        column.peak_bytes = max(memory.peak_bytes() - resident, 0)
        column.retained_bytes = max(memory.resident_bytes() - resident, 0)
        column.memory_of = "process"
    if grows(counts) and len(counts) > PARTS:
        column.leak = leak_of(new, len(places))


def _learning(columns: list[tuple[Runner, Figures]], starts: Starts, done: Done) -> None:
    """Loss and metric after as many steps, and after as much time as the fastest needs for these."""
    if not columns:
        return
    totals = {id(f): _total(f) for _, f in columns}
    shortest = min(totals.values())
    for runner, column in columns:
        starts.put(runner.variant)
        column.loss_at_start = _probed(runner.variant)
        n_steps = len(column.taken)
        per_step = totals[id(column)] / n_steps
        # The fastest finishes by definition, whatever rounding makes of the division.
        within = n_steps if totals[id(column)] <= shortest or not per_step else int(shortest / per_step)
        column.steps_same_time = max(min(within, n_steps), 1)
        column.loss_same_time, column.metric_same_time = _trained(runner, column, starts, column.steps_same_time)
        column.loss_same_steps, column.metric_same_steps = (
            (column.loss_same_time, column.metric_same_time)
            if column.steps_same_time == n_steps
            else _trained(runner, column, starts, n_steps)
        )
        done()


def _total(column: Figures) -> float:
    """Seconds of as many steps as a round has, also for a mode that does not take all batches."""
    times = column.planned_steps()
    return fmean(times) * len(column.taken) if times else 0.0


def _trained(runner: Runner, column: Figures, starts: Starts, n_steps: int) -> tuple[float | None, float | None]:
    """Train so many steps from the start; the loss on the probes then, and the metric."""
    starts.put(runner.variant)
    with runner.inside():
        for i in islice(cycle(_steps(column)), n_steps):
            runner.run(i)
    metric = runner.variant.metric
    value = None if metric is None else float(metric())
    return _probed(runner.variant), value


def _probed(variant: Variant) -> float | None:
    """The mean loss of batches from all over the data, each with the weights as they are now."""
    kept = variant.state.take()
    n_probes = min(PROBES, variant.n_different)
    runner = Runner(variant, "torch" if variant.is_torch else "eager")
    losses = []
    with runner.inside():
        for k in range(n_probes):
            losses.append(runner.run(k * variant.n_different // n_probes))
            variant.state.put(kept)
    known = [loss for loss in losses if loss is not None]
    return fmean(known) if known else None
