"""Random programs for one sample, in `ex.batch` beside a loop: do results differ, what can batching cost at worst.

    python benchmarks/adversary.py SEED --per-sample                            500 programs
    python benchmarks/adversary.py SEED --per-sample --first 17 --programs 1 --show
    python benchmarks/adversary.py SEED --per-sample --first 17 --programs 1 --shrink

Values, and the gradients of weights and inputs, must be those of a loop over the samples, to rounding, where every call
is batched (the policy `always`); a program that raises must raise what one of its samples raises alone. What differs
in float32 is tried again in float64: if it agrees there, it is rounding that was made large (a branch, an argmax, a
difference of large numbers), and is told apart. Sizes are of each sample's own, 0 and 1 among them.

Time is that of forward and backward, by the policy that users have, in turn with the loop; a call takes the least of
several runs, each with a function of its own, and the first calls do not count. Every program has its own process;
time in which another one had the core does not count.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from adversary import OURS, TIME_FLOOR, Answer, forked, library
from interleave import Result
from random_samples import SampleProgram, draw
from report import source, table, verdict
from worker import version_of

N_VALUES = 4  # calls whose results are compared
N_CALLS, N_FIRST_CALLS, N_RUNS = 20, 10, 3
N_LOADING, N_WORST = 10, 10
TOLERANCES = {False: 2e-3, True: 1e-7}  # by whether it is float64; relative to the largest of a tensor

Each = Callable[..., list[Any]]


def leaves(value: Any) -> list[Any]:
    """The tensors in nested lists and tuples."""
    if isinstance(value, list | tuple):
        return [leaf for one in value for leaf in leaves(one)]
    return [value] if hasattr(value, "requires_grad") else []


def forward_and_backward(each: Each, samples: Sequence[Any]) -> list[Any]:
    """The results, after the gradients of the sum of their squares."""
    results = leaves(each(*zip(*samples, strict=True)))
    tracked = [(t * t).sum() for t in results if t.requires_grad]
    if tracked:
        sum(tracked[1:], tracked[0]).backward()
    return results


def values(ex: Any, each: Each, state: Any, samples: Sequence[Any]) -> dict[str, Any]:
    """Results and gradients by name, as arrays; no gradient is one of zeros."""
    results = forward_and_backward(each, samples)
    found = {f"result {i}": t.detach().numpy() for i, t in enumerate(results)}
    inputs = [t for t in leaves(list(samples)) if t.requires_grad]
    for name, tensors in (("weight", state.weights), ("input", inputs)):
        for i, t in enumerate(tensors):
            found[f"gradient of {name} {i}"] = np.zeros(tuple(t.shape)) if t.grad is None else t.grad.numpy().copy()
            t.grad = None
    return found


def first_difference(ours: dict[str, Any], expected: dict[str, Any], tolerance: float) -> str:
    """What differs, in words; nothing if nothing does."""
    if len(ours) != len(expected):
        return f"{len(ours)} arrays, not {len(expected)}"
    for name, b in expected.items():
        a = ours[name]
        if a.shape != b.shape or (a.dtype != b.dtype and name.startswith("result")):
            return f"{name}: {a.dtype} {a.shape}, not {b.dtype} {b.shape}"
        scale = np.abs(b[np.isfinite(b)]).max(initial=1.0 if name.startswith("result") else 0.1)
        if not np.allclose(a, b, rtol=tolerance, atol=tolerance * float(scale), equal_nan=True):
            return f"{name} differs by {float(np.nanmax(np.abs(a - b))):.2g}, of {float(scale):.2g}"
    return ""


def attempt(run: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any] | None, BaseException | None]:
    try:
        return run(), None
    except Exception as error:
        return None, error


def errors_of_samples(ex: Any, function: Callable[..., Any], samples: Sequence[Any]) -> set[str]:
    """The kinds of errors that samples raise, each run alone: which of them comes first may change."""
    found = set()
    for sample in samples:
        _, error = attempt(partial(function, *sample))
        found.update([type(error).__name__] if error else [])
    return found


def compared(program: SampleProgram, n_calls: int = N_VALUES) -> Answer:
    """`differs`: what, if something does; `raises`: whether the loop raises in all calls."""
    ex = library(OURS)
    state = program.state(ex)
    function = program.function(ex, state)
    ways = [ex.batch(function, debug=True), ex.batch(function)]
    raised = 0
    for k in range(n_calls):
        found = []
        for each in ways:
            ex.manual_seed(k)
            samples = program.samples(ex, k)
            found.append(attempt(partial(values, ex, each, state, samples)))
            for weight in state.weights:
                weight.grad = None
        (expected, error), (ours, our_error) = found
        if error is not None or our_error is not None:
            kinds = errors_of_samples(ex, function, program.samples(ex, k))
            kinds.update([type(error).__name__] if error else [])
            if our_error is None or error is None or type(our_error).__name__ not in kinds:
                said = "nothing" if our_error is None else f"{type(our_error).__name__} ({str(our_error)[:120]})"
                return {"differs": f"in call {k}: raises {said}, the loop {' or '.join(sorted(kinds)) or 'nothing'}"}
            raised += 1
            continue
        assert ours is not None
        assert expected is not None
        differs = first_difference(ours, expected, TOLERANCES[program.double])
        if differs:
            return {"differs": f"in call {k}: {differs}"}
    return {"raises": raised == n_calls}


def always(work: Callable[[], Answer]) -> Answer:
    """In a process in which every call is batched."""

    def run() -> Answer:
        policy = import_module("extempo.tracing.policy")
        policy.choose(policy.AlwaysPlan)
        return work()

    return forked(run)


def difference(program: SampleProgram) -> Answer:
    """As `compared`; what differs in float32 only is `rounding`."""
    answer = always(partial(compared, program))
    if "differs" in answer and not program.double and "raises" not in answer["differs"]:
        again = always(partial(compared, program.in_double()))
        if "differs" not in again and "error" not in again:
            return {"raises": False, "rounding": answer["differs"]}
    return answer


def calls_that_return(ex: Any, program: SampleProgram, function: Callable[..., Any]) -> list[int]:
    """The first calls in which no sample raises; none if too many do, as where most samples have no rows."""
    found: list[int] = []
    for k in range(2 * N_CALLS):
        if len(found) < N_CALLS and not errors_of_samples(ex, function, program.samples(ex, k)):
            found.append(k)
    return found if len(found) == N_CALLS else []


def timed(program: SampleProgram) -> Answer:
    """Milliseconds of all calls but the first, in batches and as a loop."""
    ex = library(OURS)
    state = program.state(ex)
    numbers = calls_that_return(ex, program, program.function(ex, state))
    if not numbers:
        return {"untimed": True}
    least = {"loop": [float("inf")] * N_CALLS, "batch": [float("inf")] * N_CALLS}
    for _ in range(N_RUNS):
        function = program.function(ex, state)
        batched = ex.batch(function)
        ways: dict[str, Each] = {
            "loop": lambda *columns: [function(*sample) for sample in zip(*columns, strict=True)],  # noqa: B023
            "batch": batched,
        }
        gc.collect()
        for place, k in enumerate(numbers):
            for name in sorted(ways, reverse=bool(place % 2)):
                samples = program.samples(ex, k)
                ex.manual_seed(k)
                wall, cpu = time.perf_counter(), time.process_time()
                forward_and_backward(ways[name], samples)
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
                least[name][place] = min(least[name][place], wall, cpu)
                for weight in state.weights:
                    weight.grad = None
    sums = {name: 1e3 * sum(seconds[N_FIRST_CALLS:]) for name, seconds in least.items()}
    stats = batched.stats()
    return {**sums, "ratio": sums["batch"] / sums["loop"], "aside": bool(stats["aside"]), "mean": stats["mean_batch"]}


def shrunk(program: SampleProgram) -> SampleProgram:
    """The program with as few lines and samples as still differ: what is left out is tried one by one."""

    def still(smaller: SampleProgram) -> bool:
        try:
            compile(smaller.text, "", "exec")
        except SyntaxError:
            return False
        return "differs" in always(partial(compared, smaller))

    def depth(line: str) -> int:
        return len(line) - len(line.lstrip())

    changed = True
    while changed:
        changed = False
        candidates = [replace(program, n_samples=n) for n in (1, 2, 4) if n < program.n_samples]
        lines = program.text.splitlines()
        for i in reversed(range(1, len(lines))):
            end = i + 1  # a loop or a branch goes with what it holds
            while end < len(lines) and depth(lines[end]) > depth(lines[i]):
                end += 1
            candidates.append(replace(program, text="\n".join([*lines[:i], *lines[end:]]) + "\n"))
        last = lines[-1].strip()
        if last.startswith("return [") and "," in last:
            for name in last[len("return [") : -1].split(", "):
                candidates.append(replace(program, text="\n".join([*lines[:-1], f"    return [{name}]"]) + "\n"))
        for candidate in candidates:
            if still(candidate):
                program, changed = candidate, True
                break
    return program


def load(seed: int) -> None:
    """Some other programs are run, so that forked processes find loaded what the library loads on first use."""
    for number in range(N_LOADING):
        program = draw(seed, -1 - number)
        compared(replace(program, smallest=max(1, program.smallest)), n_calls=1)
    gc.collect()
    gc.freeze()


def measure(seed: int, numbers: range, time_them: bool) -> list[Answer]:
    """An answer per program; what goes wrong is told at once."""
    load(seed)
    answers = []
    for number in numbers:
        program = draw(seed, number)
        answer = {"program": program, **difference(program)}
        if time_them and answer.get("raises") is False:
            answer.update(forked(partial(timed, program)))
        answers.append(answer)
        trouble = answer.get("error") or answer.get("differs") or answer.get("rounding")
        if trouble:
            what = "in float32 only, " if "rounding" in answer else ""
            print(f"program {number} ({program.about}): {what}{trouble}", file=sys.stderr, flush=True)
    return answers


def slowest(answers: list[Answer]) -> str:
    worst = sorted((a for a in answers if "ratio" in a), key=lambda a: -a["ratio"])[:N_WORST]
    rows = [
        [
            str(a["program"].number),
            f"{a['ratio']:.2f}",
            f"{a['loop']:.2f}",
            f"{a['batch']:.2f}",
            f"{a['mean']:.1f}",
            "yes" if a["aside"] else "no",
            a["program"].about,
        ]
        for a in worst
    ]
    return table(["program", "ratio", "loop ms", "batch ms", "mean batch", "ran as a loop", "what it is"], rows)


def conclusions(answers: list[Answer]) -> list[str]:
    """The counts that floors are on, each a sentence."""
    said = []
    for text, key in (
        ("differ from the loop", "differs"),
        ("differ in float32 only", "rounding"),
        ("could not be measured", "error"),
    ):
        group = [str(a["program"].number) for a in answers if key in a]
        said.append(f"{text}: {len(group)}" + (f" (programs {', '.join(group)})" if group else ""))
    said.append(f"raise an error in every call, as the loop does: {sum(bool(a.get('raises')) for a in answers)}")
    said.append(f"raise so often that they are not timed: {sum('untimed' in a for a in answers)}")
    ratios = sorted(a["ratio"] for a in answers if "ratio" in a)
    if ratios:
        slow = sum(ratio > TIME_FLOOR for ratio in ratios)
        said.append(
            f"time ratio above {TIME_FLOOR}: {slow} of {len(ratios)}, the worst {ratios[-1]:.2f} "
            f"({verdict(ratios[-1], TIME_FLOOR)})"
        )
        tenths = [ratios[min(len(ratios) - 1, len(ratios) * k // 10)] for k in range(1, 10)]
        said.append(f"tenths of the time ratios: {', '.join(f'{ratio:.2f}' for ratio in tenths)}")
    return said


def report(seed: int, numbers: range, time_them: bool = True) -> tuple[str, bool]:
    """The tables, and whether the floors hold."""
    answers = measure(seed, numbers, time_them)
    said = "\n".join(f"- {sentence}" for sentence in conclusions(answers))
    title, _, about = __doc__.strip().partition("\n\n")
    about = about.partition("\n\n")[2]
    how = f"{len(answers)} programs of seed {seed}, from {numbers.start} on, the least of {N_RUNS} runs"
    where = source([Result(OURS, version_of(OURS))], how)
    holds = all("raises" in a and a.get("ratio", 0.0) <= TIME_FLOOR for a in answers)
    paragraphs = [f"### adversary, per sample\n\n{title}", about, said, slowest(answers) if time_them else "", where]
    return "\n\n".join(filter(None, paragraphs)), holds
