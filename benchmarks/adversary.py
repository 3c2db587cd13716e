"""Random programs, compiled beside eager: do results differ, what can compiling cost at worst, how much memory is used.

    python benchmarks/adversary.py SEED                             500 programs
    python benchmarks/adversary.py SEED --first 17 --programs 1 --show
    python benchmarks/adversary.py SEED --per-sample                programs for one sample (sample_adversary.py)

A program is called 60 times, eager and compiled in turn, from the same state; results of every call and the state at
the end must have the same bits. Every program has a process of its own, forked from one in which Extempo is loaded, and
is run several times there, each time compiled anew: what a call takes is the least of these times. So planning counts,
where it falls after the first calls; LLVM does not, since the kernels of a program are made in the first run. The time
of a program is the sum over its calls, without the first 10.

Memory is what the calls of a program add to the anonymous memory of a process with the library loaded (with all that
its first compiled functions load), at its highest, plans and tapes included; what is below 1 MiB counts as 1 MiB.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from interleave import ONE_THREAD, Result, interpreter_of
from random_programs import N_CALLS, Program, draw
from report import BASELINE, OURS, source, table, verdict
from worker import resident, stay_on_one_core, version_of

N_PROGRAMS, N_RUNS, N_FIRST_CALLS, N_WORST = 500, 5, 10, 10
TIME_FLOOR = 1.2
SECONDS_PER_PROGRAM = 120
LEAST_MIB = 1.0
N_LOADING = 20

Answer = dict[str, Any]


def library(name: str) -> Any:
    lib = import_module(name)
    lib.set_num_threads(1)
    return lib


def call(lib: Any, function: Callable[..., Any], program: Program, state: Any, k: int) -> tuple[float, list[Any]]:
    """Seconds until the results of call k can be read, and the results."""
    x, index = (lib.from_numpy(array) for array in program.inputs(k))
    lib.manual_seed(k)
    start = time.perf_counter()
    arrays = [t.detach().numpy() for t in function(lib, state, x, index, k)]
    return time.perf_counter() - start, arrays


def same(ours: list[Any], expected: list[Any]) -> bool:
    return all(
        a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
        for a, b in zip(ours, expected, strict=True)
    )


def contents(state: Any) -> list[Any]:
    return [t.detach().numpy() for t in [*state.weights, state.buffer, *state.kept]]


def timed(program: Program) -> Answer:
    """The program eager and compiled, in turn, `N_RUNS` times."""
    ex = library(OURS)
    eager = program.compiled_text()
    least = {"eager": [float("inf")] * N_CALLS, "compiled": [float("inf")] * N_CALLS}
    for _ in range(N_RUNS):
        functions = {"eager": eager, "compiled": ex.compile(eager)}
        states = {name: program.state(ex) for name in functions}
        gc.collect()
        for k in range(N_CALLS):
            found = {}
            for name in sorted(functions, reverse=bool(k % 2)):
                seconds, found[name] = call(ex, functions[name], program, states[name], k)
                least[name][k] = min(least[name][k], seconds)
            seen = {repr(state.seen) for state in states.values()}  # as text, in which nan is the same as nan
            if len(seen) > 1 or not same(found["compiled"], found["eager"]):
                return {"differs": f"in call {k}"}
        if not same(contents(states["compiled"]), contents(states["eager"])):
            return {"differs": "in its state after the last call"}
    gc.collect()  # of the functions of all runs only the last is left
    (stats,) = ex.compile.stats()["functions"]
    sums = {name: 1e3 * sum(seconds[N_FIRST_CALLS:]) for name, seconds in least.items()}
    aside = stats["eager_calls"] * 2 > stats["calls"]  # a few are run eagerly in any case, to compare
    return {
        **sums,
        "ratio": sums["compiled"] / sums["eager"],
        "aside": aside,
        "planning": 1e3 * stats["planning_seconds"],
    }


def peak(program: Program, name: str) -> Answer:
    """MiB that the calls add at the highest, compiled where the library is ours."""
    lib = library(name)
    function = program.compiled_text()
    if name == OURS:
        function = lib.compile(function)
    state = program.state(lib)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the highest so far is forgotten
    before = resident("RssAnon")
    for k in range(N_CALLS):
        call(lib, function, program, state, k)
    # Files that a library loads stay loaded, so without them the highest is that of anonymous memory.
    return {"MiB": max(LEAST_MIB, resident("VmHWM") - resident("RssFile") - before)}


def forked(work: Callable[[], Answer]) -> Answer:
    """What `work` answers in a process of its own, or how that ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(SECONDS_PER_PROGRAM)
        with contextlib.suppress(BaseException):  # nothing of the parent may go on in the child
            answer: Answer
            try:
                answer = work()
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                answer = {"error": f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"}
            os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if text else {"error": f"the process ended with status {os.waitstatus_to_exitcode(status)}"}


def load(name: str, seed: int, compiled: bool = False) -> None:
    """Have the library do what it does on first use, so that forked processes need not: some other programs are run.

    `compiled`: as the programs will be measured; what was recorded and planned is then forgotten.
    """
    lib = library(name)
    for number in range(N_LOADING):
        program = draw(seed, -1 - number)
        state, function = program.state(lib), program.compiled_text()
        if compiled:
            function = lib.compile(function)
        for k in range(3):
            call(lib, function, program, state, k)
    if compiled:
        lib.compile.clear()
    gc.collect()
    gc.freeze()
    with contextlib.suppress(AttributeError):  # of a C library that has no such function
        ctypes.CDLL(None).malloc_trim(0)  # what these programs left free must not serve those that are measured


def serve_peaks(name: str, seed: int) -> None:
    """Numbers of programs on standard input, peaks of memory on standard output."""
    load(name, seed, compiled=name == OURS)
    print(version_of(name), flush=True)
    for line in sys.stdin:
        number = int(line)
        print(json.dumps(forked(lambda: peak(draw(seed, number), name))), flush=True)  # noqa: B023 # called at once


@contextlib.contextmanager
def peaks_of(name: str, seed: int) -> Iterator[tuple[str, Callable[[int], Answer]]]:
    """The version of a library, and a function from program to peak, answered by a process of that library."""
    command = [interpreter_of(name), __file__, str(seed), "--peaks", name]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        version = process.stdout.readline().strip()

        def ask(number: int) -> Answer:
            if not version:
                return {"error": f"{name} is not installed"}
            process.stdin.write(f"{number}\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            return json.loads(process.stdout.readline())  # type: ignore[union-attr]

        yield version, ask
        process.stdin.close()


def measure(seed: int, numbers: range) -> tuple[list[Answer], list[Result]]:
    """An answer per program, and the versions measured; what goes wrong is told at once."""
    load(OURS, seed)
    answers = []
    with peaks_of(OURS, seed) as (version, ours), peaks_of(BASELINE, seed) as (their_version, theirs):
        for number in numbers:
            program = draw(seed, number)
            answer = {"program": program, **forked(lambda: timed(program))}  # noqa: B023 # called at once
            memory = [ours(number), theirs(number)]
            if all("MiB" in one for one in memory):
                answer["memory"] = [one["MiB"] for one in memory]
            answers.append(answer)
            trouble = answer.get("error") or answer.get("differs")
            if trouble:
                print(f"program {number} ({program.about}): {trouble}", file=sys.stderr, flush=True)
    return answers, [Result(OURS, version), Result(BASELINE, their_version)]


def slowest(answers: list[Answer]) -> str:
    worst = sorted((a for a in answers if "ratio" in a), key=lambda a: -a["ratio"])[:N_WORST]
    rows = [
        [
            str(a["program"].number),
            f"{a['ratio']:.2f}",
            f"{a['eager']:.2f}",
            f"{a['compiled']:.2f}",
            f"{a['planning']:.2f}",
            "yes" if a["aside"] else "no",
            a["program"].about,
        ]
        for a in worst
    ]
    return table(["program", "ratio", "eager ms", "compiled ms", "planning ms", "ran eagerly", "what it is"], rows)


def largest(answers: list[Answer]) -> str:
    measured = [a for a in answers if "memory" in a]
    worst = sorted(measured, key=lambda a: -a["memory"][0] / a["memory"][1])[:N_WORST]
    rows = []
    for a in worst:
        ours, theirs = a["memory"]
        rows.append(
            [str(a["program"].number), f"{ours / theirs:.2f}", f"{ours:.1f}", f"{theirs:.1f}", a["program"].about]
        )
    return table(["program", "ratio", "compiled MiB", "torch MiB", "what it is"], rows)


def conclusions(answers: list[Answer]) -> list[str]:
    """The counts that floors are on, each a sentence."""
    differ = [a for a in answers if "differs" in a]
    failed = [a for a in answers if "error" in a]
    ratios = sorted(a["ratio"] for a in answers if "ratio" in a)
    strange = [a for a in answers if "ratio" in a and not a["program"].repeats]
    said = []
    for text, group in (("results differ from eager", differ), ("could not be measured", failed)):
        which = f" (programs {', '.join(str(a['program'].number) for a in group)})" if group else ""
        said.append(f"{text}: {len(group)}{which}")
    if ratios:
        slow = sum(ratio > TIME_FLOOR for ratio in ratios)
        said.append(
            f"time ratio above {TIME_FLOOR}: {slow}, the worst {ratios[-1]:.2f} ({verdict(ratios[-1], TIME_FLOOR)})"
        )
        said.append(f"median time ratio: {ratios[len(ratios) // 2]:.2f}")
    noticed = sum(a["aside"] for a in strange)
    said.append(f"programs whose structures never repeat: {len(strange)}, noticed and run eagerly: {noticed}")
    return said


def report(seed: int, numbers: range) -> tuple[str, bool]:
    """The tables, and whether the floors hold."""
    answers, versions = measure(seed, numbers)
    said = "\n".join(f"- {sentence}" for sentence in conclusions(answers))
    about = __doc__.strip().partition("\n\n")[2].partition("\n\n")[2]
    where = source(
        versions, f"{len(answers)} programs of seed {seed}, from {numbers.start} on, the least of {N_RUNS} runs"
    )
    title = __doc__.partition("\n")[0]
    text = f"### adversary\n\n{title}\n\n{about}\n\n{said}\n\n{slowest(answers)}\n\n{largest(answers)}\n\n{where}"
    return text, all("ratio" in a and a["ratio"] <= TIME_FLOOR for a in answers)


def section(wanted: str | None, rounds: int) -> str:
    """The programs of seed 0, in a process of their own."""
    command = [sys.executable, __file__, "0"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=int)
    parser.add_argument("--programs", type=int, default=N_PROGRAMS, help=f"how many, {N_PROGRAMS} otherwise")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--show", action="store_true", help="print the programs and measure nothing")
    parser.add_argument("--per-sample", action="store_true", help="programs for one sample, in ex.batch beside a loop")
    parser.add_argument("--no-times", action="store_true", help="compare results alone, of programs for one sample")
    parser.add_argument("--shrink", action="store_true", help="print programs for one sample as short as still differ")
    parser.add_argument("--peaks", help=argparse.SUPPRESS)
    given = parser.parse_args()
    numbers = range(given.first, given.first + given.programs)
    samples = import_module("sample_adversary") if given.per_sample or given.shrink else None
    drawn = samples.draw if samples else draw
    if given.show:
        for number in numbers:
            program = drawn(given.seed, number)
            print(f"# program {number}: {program.about}\n{program.text}")
        return
    os.environ.update(ONE_THREAD)
    stay_on_one_core()
    if given.peaks:
        serve_peaks(given.peaks, given.seed)
        return
    if given.shrink:
        samples.load(given.seed)
        for number in numbers:
            program = samples.shrunk(drawn(given.seed, number))
            found = samples.always(lambda: samples.compared(program))  # noqa: B023 # called at once
            print(f"# program {number}, shrunk: {program.about}\n# {found}\n{program.text}", flush=True)
        return
    text, holds = samples.report(given.seed, numbers, not given.no_times) if samples else report(given.seed, numbers)
    print(text)
    sys.exit(not holds)


if __name__ == "__main__":
    main()
