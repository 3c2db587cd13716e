"""One peer in one process, on a core for each thread: builds workloads and times blocks of their steps, when asked.

    python benchmarks/worker.py MODULE PEER

Requests and answers are lines of JSON on standard input and output; whatever a library prints goes to standard error.
{"build": name} -> {"version"}; {"run": [first, count]} -> {"ms", "apart", "losses"};
{"kernels": true} -> {"backend", "fallbacks"} of Extempo, {} of others;
{"call": i} -> {"ms", "collector", "llvm", "planning"}, of one step, those of Python's garbage collector among them, and
seconds in Extempo's compilers so far;
{"clock": count} -> {"at"}, when each of the first `count` steps was done, by time.monotonic();
{"caches": true} -> {"caches"} of Extempo by name: [size, limit, evicted];
{"recorded": true} -> {"ops"}, how many ex.compile recorded in one step of the workload, built anew;
{"memory": count} -> {"built", "peak", "drift"} in MiB;
{"gradients": i} -> {"gradients"} of a step that knows them, as its own method gives them;
{"live": i} -> {"bytes"} of tensors at their peak, beyond those before, in forward and backward of such a step;
a failure -> {"error"}.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from workload import Step, Workload, n_threads


def library_of(peer: str) -> str:
    """The library behind a peer: torch of "torch.compile cell"."""
    found = re.match("[a-z]+", peer)
    return found[0] if found else peer


def stay_on_one_core() -> None:
    """All peers share one core, the last one allowed: interrupts prefer the first."""
    if sys.platform == "linux":
        core = os.environ.get("EXTEMPO_BENCH_CORE", str(max(os.sched_getaffinity(0))))
        os.sched_setaffinity(0, {int(core)})


def stay_on_cores() -> None:
    """As many cores as there are threads, the same for all peers."""
    if n_threads() == 1:
        stay_on_one_core()
    elif sys.platform == "linux":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-n_threads() :])


def version_of(library: str) -> str:
    return str(getattr(importlib.import_module(library), "__version__", "of unknown version"))


def kernels() -> dict[str, Any]:
    """Extempo's backend, and how often each op ran its NumPy kernel so far."""
    if "extempo" not in sys.modules:
        return {}
    found = importlib.import_module("extempo.backends").stats()
    return {"backend": found["backend"], "fallbacks": dict(found["fallbacks"])}


def recorded_ops(factory: Callable[[], Step]) -> dict[str, int]:
    """Of the first step of a new function, since what is recorded again may not count as recorded."""
    stats = importlib.import_module("extempo").compile.stats
    step = factory()
    before = stats()["steps_recorded"]
    step(0)
    return {"ops": stats()["steps_recorded"] - before}


def cpu_seconds() -> float:
    """CPU time of this process and of the compilers that it waited for."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def time_block(step: Step, first: int, count: int) -> dict[str, Any]:
    """Milliseconds per step, and those that a step wants to have counted apart, which are not in them.

    Time in which another process had the core does not count.
    """
    if first:
        step(first - 1)  # not timed: another peer has just used the caches
    losses = []
    seconds_apart = getattr(step, "seconds_apart", lambda: 0.0)
    wall, cpu, apart = time.perf_counter(), cpu_seconds(), seconds_apart()
    for i in range(first, first + count):
        losses.append(step(i))
    cpu, wall, apart = cpu_seconds() - cpu, time.perf_counter() - wall, seconds_apart() - apart
    ms = min(wall, cpu) / count * 1e3
    return {"ms": ms * (1 - apart / wall), "apart": ms * apart / wall, "losses": losses}


@contextmanager
def collector_seconds() -> Iterator[list[float]]:
    """Makes a list of how long each run of Python's cyclic garbage collector takes."""
    runs: list[float] = []

    def note(phase: str, info: dict[str, int]) -> None:
        now = time.thread_time()
        if phase == "start":
            runs.append(-now)
        elif runs:
            runs[-1] += now

    gc.callbacks.append(note)
    try:
        yield runs
    finally:
        gc.callbacks.remove(note)


def time_call(step: Step, i: int) -> dict[str, float]:
    """A single step, and what Extempo's compilers have taken so far. Time that another process had does not count."""
    with collector_seconds() as runs:
        wall, cpu = time.perf_counter(), cpu_seconds()
        step(i)
        cpu, wall = cpu_seconds() - cpu, time.perf_counter() - wall
    stats = importlib.import_module("extempo").compile.stats()
    compilers = {"llvm": stats["compile_seconds"], "planning": stats["planning_seconds"]}
    return {"ms": min(wall, cpu) * 1e3, "collector": sum(runs) * 1e3, **compilers}


def clock(step: Step, count: int) -> dict[str, list[float]]:
    at = []
    for i in range(count):
        step(i)
        at.append(time.monotonic())
    return {"at": at}


def resident(field: str) -> float:
    """MiB of this process: VmRSS now, VmHWM at its highest."""
    with open("/proc/self/status") as status:
        (line,) = (line for line in status if line.startswith(field))
    return int(line.split()[1]) / 1024


def peak_memory(step: Step, count: int) -> dict[str, float]:
    """Memory before the first of `count` steps, at the highest, and what the second half of them added."""
    if sys.platform != "linux":
        raise NotImplementedError("memory is read from /proc, which only Linux has")
    gc.collect()
    with open("/proc/self/clear_refs", "w") as reset:
        reset.write("5")  # the highest so far is forgotten
    built = resident("VmRSS")
    for i in range(count // 2):
        step(i)
    halfway = resident("VmRSS")
    for i in range(count // 2, count):
        step(i)
    return {"built": built, "peak": resident("VmHWM"), "drift": resident("VmRSS") - halfway}


def live_bytes(step: Any, i: int) -> dict[str, int]:
    """The peak of what the tensors of a step's forward and backward hold, beyond what there was before."""
    gc.collect()
    if "extempo" in sys.modules:
        memory = importlib.import_module("extempo.backends.selection").native().memory
        memory.reset_peak()
        before = memory.stats()["bytes_in_use"]
        step.forward_and_backward(i)
        return {"bytes": memory.stats()["peak_bytes_in_use"] - before}
    tensor_memory = importlib.import_module("extempo.comparing.torch_memory").tensor_memory
    before = tensor_memory(lambda: None)[0]
    return {"bytes": tensor_memory(lambda: step.forward_and_backward(i))[0] - before}


def answers(workloads: dict[str, Workload], peer: str) -> Any:
    """A function from request to answer."""
    steps: list[Step] = []
    factories: list[Callable[[], Step]] = []

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if "run" in request:
            return time_block(steps[-1], *request["run"])
        if "call" in request:
            return time_call(steps[-1], request["call"])
        if "clock" in request:
            return clock(steps[-1], request["clock"])
        if "caches" in request:
            return {"caches": importlib.import_module("extempo").compile.stats()["caches"]}
        if "kernels" in request:
            return kernels()
        if "memory" in request:
            return peak_memory(steps[-1], request["memory"])
        if "gradients" in request:
            return {"gradients": steps[-1].gradients(request["gradients"])}  # type: ignore[attr-defined]
        if "live" in request:
            return live_bytes(steps[-1], request["live"])
        if "recorded" in request:
            return recorded_ops(factories[-1])
        factories[:] = [workloads[request["build"]].peers[peer]]
        steps[:] = [factories[-1]()]
        return {"version": version_of(library_of(peer))}

    return answer


def main() -> None:
    module, peer = sys.argv[1:]
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    stay_on_cores()
    answer = answers({workload.name: workload for workload in importlib.import_module(module).WORKLOADS}, peer)
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except ModuleNotFoundError as error:
            missing = error.name == library_of(peer)
            reply = {"error": "not installed" if missing else str(error)}
        except Exception as error:  # whatever a peer raises becomes its row in the table, and the others go on
            text = str(error).strip().splitlines() or [""]
            kind = type(error).__name__
            what = "not there yet" if kind == "UnsupportedError" else f"failed: {kind}"
            reply = {"error": f"{what}: {text[0][:100]}"}
        replies.write(json.dumps(reply) + "\n")


if __name__ == "__main__":
    main()
