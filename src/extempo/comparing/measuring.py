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
from typing import Any, NamedTuple, Protocol

from ..backends.selection import native
from ..compat.settings import get_num_threads
from ..inspect import memory
from .batches import batch_size, float_dtypes, same_values, sizes, structure, tensors_in
from .figures import Figures
from .leaks import Newcomers, grows, leak_of, lengths_of_containers, memory_leak
from .states import Snapshot, State
from .torch_memory import tensor_memory
from .variants import Runner, Variant, same_weights

clock = perf_counter

PROBES = 8  # batches on which the loss is taken after training
PARTS = 4  # of a pass, after each of which tensors are counted
PROFILED = 20  # steps of PyTorch, whose profiler is slow

FEWEST_STEPS, FEWEST_ROUNDS = 4, 3  # of a comparison that would take too long otherwise
PASSES = 6  # of each mode besides the rounds: warm-up, structures, memory, learning


class Done(Protocol):
    """Who is told what is going on: called after each step, never while a clock runs."""

    def __call__(self) -> None: ...
    def say(self, title: str, total: int | None = None) -> None: ...


class Rounds(NamedTuple):
    """How many rounds: at least so many, then more until they are enough, as long as neither limit is reached.

    `budget`: seconds that everything but further rounds may take; None: as many as it takes.
    """

    least: int
    most: int
    seconds: float
    enough: Callable[[list[Figures]], bool]
    budget: float | None = None

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
    """The figures of each runner. Everything that steps have changed is put back, also if one raises or is stopped."""
    variants = list({id(r.variant): r.variant for r in runners}.values())
    originals = [(v.state, v.state.take()) for v in variants]
    figures = [Figures(name, r.variant.name, r.mode) for name, r in zip(names, runners, strict=True)]
    columns = list(zip(runners, figures, strict=True))
    try:
        done.say("looking at the first steps")
        starts, seconds = _starts(variants, originals, columns)
        rounds = _affordable(runners, seconds, rounds)
        done.say("looking at the graphs", n_steps_of(runners, rounds, n_warm_up))
        for variant in variants:
            of_variant = [f for r, f in columns if r.variant is variant]
            own_batches = [] if _same_batches(variants[0], variant) else ["batches"]
            for column in of_variant:
                column.own += own_batches
            starts.put(variant)
            _describe(variant, starts, of_variant, done)
        _measure(columns, starts, rounds, n_warm_up, done)
    finally:
        try:
            _put_all(originals)
        except KeyboardInterrupt:  # impatience must not leave half of it
            _put_all(originals)
            raise
    return figures


def _put_all(originals: list[tuple[State, Snapshot]]) -> None:
    for state, kept in originals:
        state.put(kept)


def n_steps_of(runners: list[Runner], rounds: Rounds, n_warm_up: int | None) -> int:
    """How many steps `measure` takes, if static takes every batch and no rounds are added."""
    n_passes = rounds.least + 3  # memory, and learning twice
    total = sum({id(r.variant): r.variant.n_different for r in runners}.values())
    for runner in runners:
        n_steps = len(runner.variant.batches)
        total += n_passes * n_steps + (2 * n_steps if n_warm_up is None else n_warm_up)
        total += runner.variant.n_different if runner.mode == "static" else 0
    return total


def _starts(
    variants: list[Variant],
    originals: list[tuple[State, Snapshot]],
    columns: list[tuple[Runner, Figures]],
) -> tuple[Starts, dict[int, float]]:
    """Where the rounds of the variants begin, with the first one's weights, if they have its names; and how many
    seconds a step of each takes."""
    starts, seconds = Starts(), {}
    for variant in variants:
        _put_all(originals)  # two variants may train the same model
        own = [] if same_weights(variants[0], variant) else ["weights"]
        first = _first_step(variant)
        starts.keep(variant)
        seconds[id(variant)] = _step_seconds(variant, first)
        for runner, column in columns:
            if runner.variant is variant:
                column.own = list(own)
                if runner.mode in ("eager", "torch"):
                    column.first_seconds = first
    return starts, seconds


def _step_seconds(variant: Variant, first: float) -> float:
    """About how long a step takes; the first one has made kernels as well, so others are tried, unless it was long."""
    if first > 1.0:
        return first
    runner = Runner(variant, "torch" if variant.is_torch else "eager")
    places = {0, variant.n_different // 2, variant.n_different - 1}
    with runner.inside():
        for i in places:  # again the first time that such sizes are met
            runner.run(i)
        began = clock()
        for i in places:
            runner.run(i)
        return (clock() - began) / len(places)


def _affordable(runners: list[Runner], seconds: dict[int, float], rounds: Rounds) -> Rounds:
    """The rounds; with fewer steps, and fewer of them, if all would take more than the budget."""
    longest = max(len(r.variant.batches) for r in runners)
    one_pass = sum(seconds[id(r.variant)] for r in runners)  # of one step each
    budget = rounds.budget
    if budget is None or not all(r.variant.may_shorten for r in runners) or not one_pass:
        return rounds
    n_steps = int(budget / (one_pass * (rounds.least + PASSES)))
    if n_steps >= longest:
        return rounds
    if n_steps < FEWEST_STEPS:
        rounds = rounds._replace(least=FEWEST_ROUNDS)
        n_steps = max(int(budget / (one_pass * (FEWEST_ROUNDS + PASSES))), FEWEST_STEPS)
    for variant in {id(r.variant): r.variant for r in runners}.values():
        if n_steps < len(variant.batches):
            variant.shorten(n_steps)
    return rounds


def _same_batches(a: Variant, b: Variant) -> bool:
    """False if batches have the same form and other values. Those of another form are different on purpose."""
    pairs = [pair for pair in zip(a.batches, b.batches, strict=False) if pair[0] is not pair[1]]
    return any(sizes(x) != sizes(y) for x, y in pairs) or all(same_values(x, y) for x, y in pairs)


def _measure(
    columns: list[tuple[Runner, Figures]], starts: Starts, rounds: Rounds, n_warm_up: int | None, done: Done
) -> None:
    figures = [f for _, f in columns]
    for runner, column in columns:
        done.say(f"warming up {column.name}")
        _survey(runner, column, starts, done)
        _warm_up(runner, column, starts, n_warm_up, done)
    running = [(r, f) for r, f in columns if f.runs]
    began, n_round = clock(), 0
    while n_round < rounds.least or rounds.more(figures, n_round, clock() - began):
        done.say(f"timing, round {n_round + 1} of {rounds.least if n_round < rounds.least else rounds.most}")
        shift = n_round % max(len(running), 1)
        for runner, column in running[shift:] + running[:shift]:
            _round(runner, column, starts)
            for _ in range(len(column.taken) if n_round < rounds.least else 0):
                done()
        n_round += 1
    for runner, column in running:
        done.say(f"measuring memory of {column.name}")
        _memory(runner, column, starts, done)
    done.say("training once more, for losses")
    _learning(running, starts, done)


def _first_step(variant: Variant) -> float:
    runner = Runner(variant, "torch" if variant.is_torch else "eager")
    with runner.inside():
        began = clock()
        runner.run(0)
        return clock() - began


def _describe(variant: Variant, starts: Starts, columns: list[Figures], done: Done) -> None:
    """What the batches and parameters are, and the structure of each batch's graph."""
    forms = [repr(sizes(batch)) for batch in variant.batches]
    structures: list[Any] = []
    weights = variant.state.values()
    for i in range(variant.n_different):
        call = partial(variant.step, *variant.arguments[i])
        if variant.is_torch:
            call()
            structures.append(0)  # not known
        else:
            structures.append(structure(call))
        done()
    trains = not all(map(same_values, weights, variant.state.values()))
    starts.put(variant)
    structures = list(islice(cycle(structures), len(variant.batches)))
    parameters = variant.state.parameters()
    dtypes = float_dtypes([*parameters, *(t for b in variant.batches for t in tensors_in(b))])
    for column in columns:
        column.structures, column.lengths = _numbered(structures), _numbered(forms)
        column.parameter_shapes = sorted(tuple(map(int, p.shape)) for p in parameters)
        column.dtypes = dtypes
        column.trains = trains
        column.batch_sizes = [batch_size(batch) for batch in variant.batches]


def _numbered(values: list[Any]) -> list[int]:
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]


def _survey(runner: Runner, column: Figures, starts: Starts, done: Done) -> None:
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
        done()
    column.taken = [answers.get(i % runner.variant.n_different, False) for i in range(n_steps)]
    runner.begin()


def _steps(column: Figures) -> list[int]:
    return [i for i, taken in enumerate(column.taken) if taken]


def _warm_up(runner: Runner, column: Figures, starts: Starts, n_steps: int | None, done: Done) -> None:
    places = _steps(column)
    if not places:
        return
    if n_steps is None:
        n_steps = 2 * len(column.taken)
    starts.put(runner.variant)
    with runner.inside():
        for n_done, i in enumerate(islice(cycle(places), n_steps)):
            began = clock()
            runner.run(i)
            seconds = clock() - began
            column.warm_up_seconds += seconds
            if not n_done and runner.mode == "compile":
                column.first_seconds = seconds
            done()
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


def _memory(runner: Runner, column: Figures, starts: Starts, done: Done) -> None:
    """Peak and growth over a pass, and what stays alive from step to step."""
    starts.put(runner.variant)
    places = _steps(column)
    backend = None if runner.variant.is_torch else native()
    part = max(len(places) // PARTS, 1)
    counts, held = [0], [0]
    lengths = lengths_of_containers(runner.variant.step)
    resident = memory.resident_bytes()
    memory.reset_peak()
    if backend is not None:
        backend.memory.reset_peak()
        held = [backend.memory.stats()["bytes_in_use"]]
    with Newcomers() as newcomers:
        with runner.inside():
            for n_done, i in enumerate(places, 1):
                runner.run(i)
                if n_done % part == 0:
                    counts.append(len(newcomers.alive()))
                    held.append(0 if backend is None else backend.memory.stats()["bytes_in_use"])
                done()
        new = newcomers.alive()
    if backend is not None:
        now = backend.memory.stats()
        column.peak_bytes, column.retained_bytes = now["peak_bytes_in_use"], max(now["bytes_in_use"] - held[0], 0)
    elif runner.variant.is_torch:
        starts.put(runner.variant)
        column.peak_bytes, column.retained_bytes = tensor_memory(lambda: _run_all(runner, places[:PROFILED]))
    else:
        column.peak_bytes = max(memory.peak_bytes() - resident, 0)
        column.retained_bytes = max(memory.resident_bytes() - resident, 0)
        column.memory_of = "process"
    if grows(counts) and len(counts) > PARTS:
        column.leak = leak_of(new, len(places))
    elif grows(held) and len(held) > PARTS:
        longer = lengths_of_containers(runner.variant.step)
        column.leak = memory_leak(held[-1] - held[0], len(places), lengths, longer)


def _run_all(runner: Runner, places: list[int]) -> None:
    for i in places:
        runner.run(i)


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
        column.loss_same_time, column.metric_same_time = _trained(runner, column, starts, column.steps_same_time, done)
        column.loss_same_steps, column.metric_same_steps = (
            (column.loss_same_time, column.metric_same_time)
            if column.steps_same_time == n_steps
            else _trained(runner, column, starts, n_steps, done)
        )


def _total(column: Figures) -> float:
    """Seconds of as many steps as a round has, also for a mode that does not take all batches."""
    times = column.planned_steps()
    return fmean(times) * len(column.taken) if times else 0.0


def _trained(
    runner: Runner, column: Figures, starts: Starts, n_steps: int, done: Done
) -> tuple[float | None, float | None]:
    """Train so many steps from the start; the loss on the probes then, and the metric."""
    starts.put(runner.variant)
    with runner.inside():
        for i in islice(cycle(_steps(column)), n_steps):
            runner.run(i)
            done()
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
