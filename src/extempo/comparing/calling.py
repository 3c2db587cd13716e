"""`ex.compare`: arguments in, a `Comparison` out."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .._version import __version__
from ..backends.selection import stats
from ..compat.settings import get_num_threads
from ..train.progress import Bar
from .batches import batch_size
from .figures import Figures
from .measuring import Rounds, measure, n_steps_of
from .reports import Comparison
from .variants import MODES, Runner, Variant
from .verdicts import chosen, judge

ROUNDS, MOST_ROUNDS = 7, 35
PATIENCE = 8.0  # seconds after which there are no further rounds
BUDGET = 18.0  # seconds that all of it takes at most without them, where neither steps nor rounds are asked for


def compare(
    step: Callable[..., Any],
    data: Iterable[Any],
    *,
    modes: Sequence[str] | None = None,
    steps: int | None = None,
    warm_up: int | None = None,
    rounds: int | None = None,
    metric: Callable[[], float] | None = None,
    state: Iterable[Any] | None = None,
    other: Callable[..., Any] | None = None,
    other_data: Iterable[Any] | None = None,
    other_metric: Callable[[], float] | None = None,
    torch: Callable[..., Any] | None = None,
    torch_data: Iterable[Any] | None = None,
    progress: bool = True,
) -> Comparison:
    """Whether dynamic graphs pay: a training step run eagerly, under `ex.compile` and in the static mode, side by side.

    `step(*batch)` trains on one batch and returns its loss; `data` is a list of batches. All modes begin every round
    with the same weights, optimizer state and random streams and see the same batches in the same order; rounds are
    interleaved, warm-up is reported apart, and everything is put back at the end. What the step changes is found in
    its closure, globals and attributes, or given as `state=[model, optimizer]`.

    `steps` of a round: the batches, repeated up to 20 or cut at 200, if not said. `warm_up`: steps before the rounds.
    `rounds`: at least 7 and at most 35, until times allow a verdict, if not said. Where none of the three is said, all
    of it takes at most half a minute: a slow step is run on fewer batches, in fewer rounds.
    `metric()` is called after training, more is better. `other` is a second step, by default compared under
    `ex.compile` only. `torch` is the same step in PyTorch, which gets the batches as its tensors, and our weights where
    names and shapes are the same.

    The verdict is good (within 15% of static), watch (within 30%) or bad, or says why there is none.

    >>> model = ex.nn.Linear(4, 1)
    >>> optimizer = ex.optim.SGD(model.parameters(), lr=0.1)
    >>> def step(x):
    ...     loss = model(x).pow(2).mean()
    ...     loss.backward()
    ...     optimizer.step()
    ...     optimizer.zero_grad()
    ...     return loss
    >>> found = ex.compare(step, [ex.ones(2, 4), ex.ones(3, 4)], steps=4, warm_up=4, rounds=2)
    >>> [(f.name, f.flexibility, f.n_taken) for f in found.columns]
    [('eager', 'High', 4), ('compile', 'High', 4), ('static', 'Low', 2)]
    """
    if rounds is not None and rounds < 1:
        raise ValueError(f"compare: expected at least one round, got {rounds}")
    data = data if other is None and torch is None else list(data)
    variants = [Variant(_name(step), step, data, steps, state, metric)]
    if other is not None:
        name = _name(other)
        name = name if name != variants[0].name else f"{name} (2)"
        given = data if other_data is None else other_data
        variants.append(Variant(name, other, given, steps, None, other_metric))
    theirs = None
    if torch is not None:
        theirs = Variant("torch", torch, data if torch_data is None else torch_data, steps, is_torch=True)
    return compare_variants(variants, theirs, modes, warm_up, rounds, progress)


def compare_variants(
    variants: list[Variant],
    torch: Variant | None,
    modes: Sequence[str] | None,
    warm_up: int | None,
    rounds: int | None,
    progress: bool,
) -> Comparison:
    """Measure the variants in all modes; several are compared under `ex.compile`, if nothing is said."""
    several = len(variants) > 1
    asked = tuple(modes or (("compile",) if several else MODES))
    runners = [Runner(variant, mode) for variant in variants for mode in asked]
    names = [_heading(r, several, len(asked) > 1) for r in runners]
    if torch is not None:
        runners.append(Runner(torch, "torch"))
        names.append("torch")
    budget = BUDGET if rounds is None and warm_up is None else None
    planned = Rounds(rounds or ROUNDS, rounds or MOST_ROUNDS, PATIENCE, _conclusive, budget)
    batches = variants[0].batches
    n_samples = round(sum(batch_size(batch) or 1 for batch in batches) / len(batches))
    with Bar("comparing", n_steps_of(runners, planned, warm_up), progress) as bar:
        columns = measure(runners, names, planned, warm_up, _Watching(bar, n_samples))
    about = {
        "name": " and ".join(variant.name for variant in variants),
        "steps": len(variants[0].batches),
        "rounds": max(len(column.seconds) for column in columns),
        "threads": get_num_threads(),
        "machine": platform.machine(),
        "backend": str(stats().get("cpu", "numpy")),
        "extempo": __version__,
        "python": platform.python_version(),
    }
    return Comparison(columns, about)


class _Watching:
    """Hands what is going on to a bar."""

    def __init__(self, bar: Bar, n_samples: int) -> None:
        self._bar = bar
        self._n_samples = n_samples
        self.say = bar.say

    def __call__(self) -> None:
        self._bar.advance(self._n_samples)


def _conclusive(columns: list[Figures]) -> bool:
    return judge(columns)[0].word != "inconclusive" or chosen(columns) is None


def _name(step: Any) -> str:
    return str(getattr(step, "__name__", type(step).__name__))


def _heading(runner: Runner, several: bool, many_modes: bool) -> str:
    if not several:
        return runner.mode
    return f"{runner.variant.name} {runner.mode}" if many_modes else runner.variant.name
