"""From figures to words: what is unfair, what cannot be concluded, and the verdict with its reason. No clock, no model.

| verdict | says |
|---|---|
| good, watch, bad | within 15% of the reference, within 30%, beyond |
| overfitted to speed | the faster one learns worse or takes fewer inputs |
| dynamic only | the static mode cannot run the step |
| unfair | the columns do not do the same work |
| inconclusive | times vary too much from round to round |
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose, isfinite
from typing import NamedTuple

from .figures import Figures, Ratio, ratio

GOOD, WATCH = 1.15, 1.30
FASTER = 1.05  # from here on one is faster than another
NARROW = 0.05  # a range of ratios narrower than this is known well enough, wherever it lies
FIRST_TOLERANCE = 1e-4  # of losses of one step in several modes, at the first step
LATER_TOLERANCE = 0.05  # later on, where rounding has been amplified by training
LIBRARY_TOLERANCE = 1e-3  # at the first step, of another library
WORSE = 0.05  # of what the loss has fallen, by which another loss must be higher to be worse
METRIC_WORSE = 0.01
_REMEDIES = {
    "weights": "they are copied where parameters have the same names and shapes",
    "batches": "use one list for both, or the same seed",
}


class Verdict(NamedTuple):
    """The word, why, and the next thing to try."""

    word: str
    reason: str
    next: str

    def __str__(self) -> str:
        return f"{self.word}: {self.reason}"


class Flag(NamedTuple):
    """Something that makes figures doubtful. `refuses`: no verdict can be given on these two columns."""

    text: str
    columns: tuple[str, str]
    refuses: bool


def judge(figures: list[Figures]) -> tuple[Verdict, list[Flag]]:
    """The verdict on all columns, and everything that is doubtful."""
    flags = list(doubts(figures))
    verdict = _verdict(figures, flags)
    leaking = next((f for f in figures if f.leak is not None), None)
    if leaking is not None and verdict.word in ("good", "watch", "bad", "dynamic only"):
        verdict = verdict._replace(
            next=f"stop the leak in {leaking.name} first: keep numbers (loss.item()), not tensors"
        )
    return verdict, flags


def _verdict(figures: list[Figures], flags: list[Flag]) -> Verdict:
    pair = chosen(figures)
    if pair is None:
        return _without_reference(figures)
    judged, reference = pair
    refusing = [f for f in flags if f.refuses and set(f.columns) <= {judged.name, reference.name}]
    disagree = [f for f in refusing if judged.variant == reference.variant]
    if refusing and not disagree:
        return Verdict("unfair", refusing[0].text, "make both do the same work, then compare again")
    found = ratio(judged, reference)
    if found is None:
        return Verdict("inconclusive", f"{judged.name} and {reference.name} have no batch in common", "")
    overfitted = _overfitted(judged, reference, found)
    if overfitted is not None:
        return overfitted
    if disagree:
        reason = disagree[0].text
        return Verdict("unfair", reason, "find out which is right: results come before times")
    worse = learns_worse(judged, reference) if judged.variant != reference.variant else None
    if worse is not None:
        reason = f"{judged.name} learns worse than {reference.name} and is not faster: {worse}"
        return Verdict("bad", reason, f"use {reference.name}")
    return _by_time(judged, reference, found)


def chosen(figures: list[Figures]) -> tuple[Figures, Figures] | None:
    """(judged, reference): second step and first; dynamic and static; compiled and eager; ours and PyTorch's."""
    ours = [f for f in figures if f.mode != "torch" and f.runs]
    variants: dict[str, list[Figures]] = {}
    for f in ours:
        variants.setdefault(f.variant, []).append(f)
    if len(variants) > 1:
        first, second, *_ = variants.values()
        return _fastest(second), _fastest(first)
    return _chosen_modes(figures, ours)


def _chosen_modes(figures: list[Figures], ours: list[Figures]) -> tuple[Figures, Figures] | None:
    """Of one step in several modes."""
    static = [f for f in ours if f.mode == "static"]
    dynamic = [f for f in ours if f.dynamic]
    if static and dynamic:
        # On the batches that static takes, as these are what will be compared.
        return min(dynamic, key=lambda f: _time_beside(f, static[0])), static[0]
    if any(f.mode == "static" for f in figures):
        return None
    if len(dynamic) > 1:
        return dynamic[1], dynamic[0]
    theirs = [f for f in figures if f.mode == "torch"]
    return (ours[0], theirs[0]) if ours and theirs else None


def _fastest(columns: list[Figures]) -> Figures:
    return min(columns, key=lambda f: (not f.takes_all, f.training_seconds))


def _time_beside(f: Figures, reference: Figures) -> float:
    found = ratio(f, reference)
    return f.training_seconds if found is None else found.middle


def _without_reference(figures: list[Figures]) -> Verdict:
    static = next((f for f in figures if f.mode == "static"), None)
    dynamic = [f for f in figures if f.dynamic and f.runs]
    if static is None or not dynamic:
        return Verdict("inconclusive", "there is only one column, so nothing to compare with", "ask for another mode")
    best = _fastest(dynamic)
    took = f"{best.name} took all {len(best.taken)} batches ({_kinds(best)})"
    return Verdict("dynamic only", f"the static mode cannot run this step; {took}", _use(best, dynamic))


def _kinds(f: Figures) -> str:
    structures, lengths = f.seen(f.structures), f.seen(f.lengths)
    return f"{_count(structures, 'structure')}, {_count(lengths, 'length')}"


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def _use(best: Figures, dynamic: list[Figures]) -> str:
    others = [f for f in dynamic if f is not best]
    found = ratio(others[0], best) if others else None
    if found is None or found.middle < FASTER:
        return "nothing: both dynamic modes take about the same time" if others else "nothing"
    return f"use {best.name}: {others[0].name} takes {found.middle:.2f} times as long"


# ---- doubts


def doubts(figures: list[Figures]) -> Iterator[Flag]:
    """Everything that makes a comparison unfair or doubtful."""
    running = [f for f in figures if f.runs]
    for i, a in enumerate(running):
        for b in running[i + 1 :]:
            yield from _between(a, b)
    for f in {f.variant: f for f in reversed(running)}.values():
        wild = next((i for i, x in enumerate(f.losses[0]) if x is not None and not isfinite(x)), None)
        if wild is not None:
            text = f"the loss of {f.variant} is {f.losses[0][wild]} at step {wild + 1}: what it learns says nothing"
            yield Flag(text, (f.name, f.name), False)
        elif not f.trains:
            yield Flag(f"{f.variant} does not train: it changes no parameter", (f.name, f.name), False)
    for f in running:
        if len(set(f.threads)) > 1:
            yield Flag(
                f"{f.name} ran with {sorted(set(f.threads))} threads in different rounds", (f.name, f.name), True
            )
        if not _repeats(f):
            text = (
                f"{f.name} gave other losses in another round: something that the step changes is not put back; name "
                "it in state=[...]"
            )
            yield Flag(text, (f.name, f.name), False)


def _between(a: Figures, b: Figures) -> Iterator[Flag]:
    both = a.name, b.name
    if a.variant != b.variant:
        if a.parameter_shapes != b.parameter_shapes:
            if a.n_parameters == b.n_parameters:
                yield Flag(f"{a.name} and {b.name} have parameters of different shapes", both, True)
            else:
                yield Flag(f"{a.name} has {a.n_parameters:,} parameters, {b.name} {b.n_parameters:,}", both, True)
        if a.batch_sizes != b.batch_sizes:
            yield Flag(f"batch sizes differ: {a.name} has {_few(a)}, {b.name} {_few(b)}", both, True)
        if a.dtypes != b.dtypes:
            yield Flag(f"{a.name} computes in {_list(a.dtypes)}, {b.name} in {_list(b.dtypes)}", both, True)
    if a.threads and b.threads and a.threads[-1] != b.threads[-1]:
        yield Flag(f"{a.name} has {_count(a.threads[-1], 'thread')}, {b.name} {b.threads[-1]}", both, True)
    if a.variant != b.variant and a.parameter_shapes == b.parameter_shapes and a.batch_sizes == b.batch_sizes:
        # Only the second has been compared with the first, which owns nothing.
        for what in (*a.own, *b.own):
            yield Flag(f"{b.name} begins with other {what} than {a.name}: {_REMEDIES[what]}", both, False)
    differing = _first_difference(a, b)
    if differing is not None:
        step, ours, theirs = differing
        text = f"results do not agree: at step {step + 1} the loss is {ours:.6g} in {a.name}, {theirs:.6g} in {b.name}"
        yield Flag(text, both, a.variant == b.variant)


def _few(f: Figures) -> str:
    return _list([str(n) for n in dict.fromkeys(f.batch_sizes)][:4])


def _list(names: list[str]) -> str:
    return ", ".join(names) or "none"


def _first_difference(a: Figures, b: Figures) -> tuple[int, float, float] | None:
    """The first step at which losses differ by more than rounding explains."""
    if not a.losses or not b.losses:
        return None
    same_inputs = a.taken == b.taken
    for i, (x, y) in enumerate(zip(a.losses[0], b.losses[0], strict=False)):
        if x is None or y is None:
            if same_inputs:
                continue
            return None  # from here on they have not seen the same batches
        tolerance = LATER_TOLERANCE if i else FIRST_TOLERANCE if a.variant == b.variant else LIBRARY_TOLERANCE
        if isfinite(x) != isfinite(y) or (isfinite(x) and not isclose(x, y, rel_tol=tolerance, abs_tol=1e-6)):
            return i, x, y
    return None


def _repeats(f: Figures) -> bool:
    for row in f.losses[1:]:
        for x, y in zip(f.losses[0], row, strict=True):
            if x is not None and y is not None and isfinite(x) and not isclose(x, y, rel_tol=1e-3, abs_tol=1e-6):
                return False
    return True


# ---- verdicts


def _overfitted(judged: Figures, reference: Figures, found: Ratio) -> Verdict | None:
    """Whether the faster of two is faster by doing less."""
    if found.middle < 1 / FASTER and found.high < 1:
        fast, slow, times = judged, reference, 1 / found.middle
    elif found.middle > FASTER and found.low > 1:
        fast, slow, times = reference, judged, found.middle
    else:
        return None
    gain = f"{fast.name} is {times:.2f} times as fast as {slow.name}"
    if fast.n_taken < slow.n_taken:
        reason = f"{gain} but takes {fast.n_taken} of {len(fast.taken)} batches, {slow.name} {slow.n_taken}"
        return Verdict("overfitted to speed", reason, f"use {slow.name}, or {fast.name} where inputs never change")
    why = learns_worse(fast, slow)
    if why is None:
        return None
    return Verdict("overfitted to speed", f"{gain} but learns worse: {why}", f"use {slow.name}; {fast.name} skips work")


def learns_worse(fast: Figures, slow: Figures) -> str | None:
    """How one is worse after as many steps, with nothing won in the same time. None if it is not.

    More steps in the same time may raise a loss that diverges, so what happens after the same time alone says nothing.
    """
    for name, same_steps, same_time in (
        ("loss", _loss_gap(fast, slow, True), _loss_gap(fast, slow, False)),
        ("metric", _metric_gap(fast, slow, True), _metric_gap(fast, slow, False)),
    ):
        if same_steps is not None and same_steps > 0 and not (same_time is not None and same_time < 0):
            return f"after as many steps its {name} is {_pair(fast, slow, name)}"
    return None


def _pair(fast: Figures, slow: Figures, name: str) -> str:
    return f"{getattr(fast, f'{name}_same_steps'):.4g}, of {slow.name} {getattr(slow, f'{name}_same_steps'):.4g}"


def _loss_gap(fast: Figures, slow: Figures, steps: bool) -> int | None:
    """1 if the fast one's loss is higher by more than a trifle of what was learnt, -1 if lower, else 0."""
    ours = fast.loss_same_steps if steps else fast.loss_same_time
    theirs = slow.loss_same_steps if steps else slow.loss_same_time
    start = slow.loss_at_start
    if ours is None or theirs is None or start is None:
        return None
    if not isfinite(ours):
        return 1 if isfinite(theirs) else 0
    least = max(WORSE * abs(start - theirs), 1e-3 * abs(start), 1e-9)
    return (ours - theirs > least) - (theirs - ours > least)


def _metric_gap(fast: Figures, slow: Figures, steps: bool) -> int | None:
    """The same for a metric, of which more is better."""
    ours = fast.metric_same_steps if steps else fast.metric_same_time
    theirs = slow.metric_same_steps if steps else slow.metric_same_time
    if ours is None or theirs is None:
        return None
    least = METRIC_WORSE * max(abs(theirs), 1e-9)
    return (theirs - ours > least) - (ours - theirs > least)


def word_of(times: float) -> str:
    return "good" if times <= GOOD else "watch" if times <= WATCH else "bad"


def _by_time(judged: Figures, reference: Figures, found: Ratio) -> Verdict:
    if word_of(found.low) != word_of(found.high) and found.high - found.low > NARROW:
        reason = (
            f"times vary too much: {judged.name} takes {found.low:.2f} to {found.high:.2f} times as long as "
            f"{reference.name}, from round to round"
        )
        return Verdict("inconclusive", reason, "close other programs and use more rounds, or more steps a round")
    word = word_of(found.middle)
    on = "" if found.n_steps == len(judged.taken) else f" on the {found.n_steps} batches that both take"
    reason = (
        f"{judged.name} takes {found.middle:.2f} times as long as {reference.name}{on} "
        f"({found.low:.2f} to {found.high:.2f} over the rounds)"
    )
    if judged.n_taken > reference.n_taken:
        reason += f", and takes {judged.n_taken} batches where {reference.name} takes {reference.n_taken}"
    if judged.variant != reference.variant and judged.mode == reference.mode:
        return Verdict(word, reason, _choice(judged, reference, found))
    return Verdict(word, reason, _advice(judged, reference, word, found.middle))


def _choice(second: Figures, first: Figures, found: Ratio) -> str:
    """Which of two steps of the user's to take."""
    if found.middle > FASTER:
        return f"use {first.name}"
    either = f"use {second.name}" if found.middle < 1 / FASTER else "either: they take about the same time"
    unknown = first.metric_same_steps is None and _first_difference(first, second) is not None
    return f"{either}; a function metric() would tell whether both learn as well" if unknown else either


def _advice(judged: Figures, reference: Figures, word: str, times: float) -> str:
    """The next thing to try, from what was counted."""
    if word == "good":
        if reference.mode != "static":
            return "nothing"
        cost = "are faster here" if times < 1 / FASTER else "cost this model next to nothing"
        return f"nothing: dynamic graphs {cost}"
    stats = judged.compile_stats
    closed, unplannable = stats.get("closed") or {}, stats.get("unplannable") or {}
    if judged.mode == "eager":
        return "put the whole step (forward, backward, optimizer) into ex.compile; if it is there, see compile.stats()"
    if stats.get("aside"):
        return f"{stats['why']}; write the model for one sample and call it by ex.batch, or sort batches by length"
    why, n = max(closed.items(), key=lambda item: item[1], default=("", 0))
    if n and 2 * n >= stats.get("calls", 0):  # the first calls of any function may end early
        return f"the recording ended {n:,} times early: {why}; keep that out of the step"
    if unplannable:
        why, n = max(unplannable.items(), key=lambda item: item[1])
        return f"{n:,} parts had no plan: {why}"
    if judged.takes_all and reference.mode == "static" and reference.takes_all:
        return "the structure never changed: static=True fits, or give each step more work (larger batches)"
    return "give each step more work: larger batches, or ex.batch over samples"
