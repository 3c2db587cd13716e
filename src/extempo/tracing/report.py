"""What `ex.compile.stats()` returns: a dict of counts in, words out; and which functions there are, and were.

Knows nothing of what is counted.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from ..core import locks
from ..core.wording import counted

TOTALS = ("plans", "resized", "runs", "replays", "steps_recorded", "new_steps", "planning_seconds")

F = TypeVar("F")


class _KnownFunction(weakref.ref[F]):
    """A function, and of what it counted all that outlives it."""

    __slots__ = ("counters", "policy")

    policy: Any
    counters: Any


class CompiledFunctions(Generic[F]):
    """Every compiled function that exists, and the totals of those that no longer do.

    When one is gone no Python runs, which Ctrl-C could interrupt with nobody there to hear of it: it is noted that it
    is, and its counts are added up when the next one is made or somebody asks.
    """

    def __init__(self) -> None:
        self._known: set[_KnownFunction[F]] = set()
        self._ended: deque[Any] = deque()
        self._totals: dict[str, Any] = dict.fromkeys(("functions", "static", "calls", *TOTALS), 0)
        # Again by one thread: a finalizer may compile something. A child that is forked meanwhile may miss a function.
        self._lock = locks.renewed()

    def add(self, function: F) -> None:
        self._add_up()
        known = _KnownFunction(function, self._ended.append)
        known.policy, known.counters = getattr(function, "policy", None), getattr(function, "counters", None)
        self._known.add(known)

    def __iter__(self) -> Iterator[F]:
        return iter([f for known in list(self._known) if (f := known()) is not None])

    def gone(self) -> dict[str, Any]:
        """The totals of those that no longer exist; `calls` are without those of the `static` ones among them."""
        with self._lock:
            self._add_up()
            return dict(self._totals)

    def _add_up(self) -> None:
        with self._lock:
            while self._ended:
                known = self._ended.popleft()
                self._known.discard(known)
                counts, totals = known.counters.stats(), dict(self._totals)
                totals["functions"] += 1
                totals["static"] += known.policy is None
                totals["calls"] += 0 if known.policy is None else known.policy.calls
                for name in TOTALS:
                    totals[name] += counts[name]
                self._totals = totals


class Stats(dict[str, Any]):
    """Statistics that print as a text."""

    def __str__(self) -> str:
        lines = [
            f"{counted(self['runs'], 'run')} of plans, {self['replays']:,} op by op; "
            f"planning took {self['planning_seconds']:.2f} s, LLVM {self['compile_seconds']:.2f} s"
        ]
        if self["switched_off"]:
            lines.append("  EXTEMPO_EAGER is set: every function runs as it is written, and its calls are not counted")
        elif not self["native"]:
            lines.append("  plans need the native backend, so everything runs eagerly: ex.backends.stats() says more")
        for function in self["functions"]:
            lines += _of_function(function)
        if self["gone"]["functions"]:
            lines.append(_of_gone(self["gone"]))
        kept, limit, evicted = self["caches"]["plans"]
        others = [cache for name, cache in self["caches"].items() if name != "plans"]
        begun = f", {self['plans_begun']:,} more begun" if self["plans_begun"] else ""
        resized = f"; {self['resized']:,} more followed from those of other sizes" if self["resized"] else ""
        lines += [
            f"  plans: {self['plans']:,} made, {kept - self['plans_begun']:,} kept (at most {limit:,}), "
            f"{evicted:,} evicted{begun}{resized}",
            f"  {counted(len(others), 'other cache')}, all bounded: "
            f"{counted(sum(c[0] for c in others), 'entry', 'entries')}, {sum(c[2] for c in others):,} evicted",
        ]
        return "\n".join(lines)


def _of_gone(gone: dict[str, Any]) -> str:
    others = " (those of static ones are not known)" if gone["static"] else ""
    return f"  functions that no longer exist: {counted(gone['calls'], 'call')}{others}, {_ran(gone)}"


def _ran(counts: dict[str, Any]) -> str:
    return (
        f"{counted(counts['plans'], 'plan')} made, {counted(counts['runs'], 'run')} of plans, "
        f"{counts['replays']:,} op by op"
    )


def _of_function(f: dict[str, Any]) -> Iterator[str]:
    name = f"{f['name']} (static)" if f["static"] else f["name"]
    if not f["calls"] and not f["steps_recorded"]:
        yield f"  {name}: no calls"
        return
    while_compiling = f", {f['waiting_calls']:,} of these while LLVM made kernels" if f["waiting_calls"] else ""
    eager = "" if f["static"] else f" ({f['eager_calls']:,} eager{while_compiling})"
    yield f"  {name}: {counted(f['calls'], 'call')}{eager}, {_ran(f)}"
    if f["aside"]:
        again = "" if f["static"] else f"; it is tried again {_when(f)}"
        yield f"    runs eagerly now: {f['why']}{again}"
    if f["static"]:  # later calls have traces, too, which they fill without tracing anything
        yield f"    ops: {f['new_steps']:,} recorded in its first calls; {f['fused']:,} fused into others in its plans"
    elif f["steps_recorded"] or f["new_steps"]:
        yield (
            f"    ops: {f['steps_recorded']:,} recorded, {f['new_steps']:,} of them for the first time; "
            f"{f['fused']:,} fused into others in its plans"
        )
    if f["failed_runs"]:
        yield f"    {counted(f['failed_runs'], 'plan')} failed and ran again op by op, which raises the error"
    if f["steps_evicted"]:
        yield (
            f"    {f['steps_evicted']:,} recorded ops evicted, as they did not come up again; "
            f"{f['steps_known']:,} are known"
        )
    for why, n in f["closed"].items():
        yield f"    recording ended early {counted(n, 'time')}: {why}"
    for why, n in f["unplannable"].items():
        yield f"    no plan {counted(n, 'time')}: {why}"


def _when(f: dict[str, Any]) -> str:
    """That is tried again which runs eagerly now."""
    if f["waits_for_kernels"]:
        return "when LLVM has made its kernels"
    if not f["rests"]:
        return "at the next call at the earliest"
    return f"after {counted(f['rests'], 'more call')} at the earliest"
