"""What `ex.compile.stats()` returns: a dict of counts in, words out. Knows nothing of what is counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Stats(dict[str, Any]):
    """Statistics that print as a text."""

    def __str__(self) -> str:
        lines = [
            f"{_count(self['runs'], 'run')} of {_count(self['plans'], 'plan')}, {self['replays']:,} op by op; "
            f"planning took {self['planning_seconds']:.2f} s, LLVM {self['compile_seconds']:.2f} s"
        ]
        if self["switched_off"]:
            lines.append("  EXTEMPO_EAGER is set: every function runs as it is written, and its calls are not counted")
        elif not self["native"]:
            lines.append("  plans need the native backend, so everything runs eagerly: ex.backends.stats() says more")
        for function in self["functions"]:
            lines += _of_function(function)
        size, limit, evicted = self["caches"]["plans"]
        others = [cache for name, cache in self["caches"].items() if name != "plans"]
        lines.append(
            f"  kept: {size:,} of at most {limit:,} plans, {evicted:,} evicted; {sum(c[0] for c in others):,} entries "
            f"of {len(others)} other bounded caches, {sum(c[2] for c in others):,} evicted"
        )
        return "\n".join(lines)


def _of_function(f: dict[str, Any]) -> Iterator[str]:
    name = f"{f['name']} (static)" if f["static"] else f["name"]
    if not f["calls"] and not f["steps_recorded"]:
        yield f"  {name}: no calls"
        return
    while_compiling = f", {f['waiting_calls']:,} of these while LLVM made kernels" if f["waiting_calls"] else ""
    yield (
        f"  {name}: {_count(f['calls'], 'call')} ({f['eager_calls']:,} eager{while_compiling}), "
        f"{_count(f['runs'], 'run')} of {_count(f['plans'], 'plan')}, {f['replays']:,} op by op"
        + (f"; runs eagerly now: {f['why']}" if f["aside"] else "")
    )
    if f["steps_recorded"] or f["new_steps"]:
        yield (
            f"    ops: {f['steps_recorded']:,} recorded, {f['new_steps']:,} of them for the first time; "
            f"{f['fused']:,} fused into others in its plans"
        )
    if f["failed_runs"]:
        yield f"    {_count(f['failed_runs'], 'plan')} failed and ran again op by op, which raises the error"
    if f["steps_evicted"]:
        yield (
            f"    {f['steps_evicted']:,} recorded ops evicted, as they did not come up again; "
            f"{f['steps_known']:,} are known"
        )
    for why, n in f["closed"].items():
        yield f"    recording ended early {_count(n, 'time')}: {why}"
    for why, n in f["unplannable"].items():
        yield f"    no plan {_count(n, 'time')}: {why}"


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"
