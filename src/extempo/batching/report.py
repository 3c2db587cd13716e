"""What a run did, for `stats()` and `explain()`."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple, Protocol

from ..core import costs
from ..core.graph import Where, describe_where
from ..core.source_location import user_line
from ..core.types import TensorType
from ..core.types import count as n_elements
from ..core.wording import counted
from .agenda import Calls
from .kinds import CallKind
from .sizes.forms import SizedKind

# What to do about ops that run one by one at different sizes, where that is more than to be said of all of them.
_ADVICE = {
    "scaled_dot_product_attention": "leave out the mask, or pass is_causal=True instead of a causal one",
    "standardize": "normalize over features, or use ragged tensors (ex.ragged) before ex.batch",
}


class Line(NamedTuple):
    """What one line of the user's code made the run do."""

    where: str
    name: str  # of the op or cell
    calls: int
    batches: int
    mean_batch: float  # how many calls ran together with a call of this line, itself included
    why: str  # what kept batches from being larger; empty if nothing did
    advice: str


class LockstepRun(Protocol):
    """A program that ran in lockstep."""

    def rules(self) -> list[tuple[Where | None, str, bool]]:
        """Of each op its line, its name, and whether it ran for one sample after the other."""
        ...


class Explanation:
    """Lines, most batches first; `print` it for a table."""

    def __init__(self, lines: list[Line], head: str, ordinary: list[str]) -> None:
        self.lines = lines
        self.head = head
        self.ordinary = ordinary  # about cells whose calls were no calls: their ops ran as those of other functions do

    def __str__(self) -> str:
        text = [self.head, *self.ordinary]
        for line in self.lines:
            text.append(
                f"{line.where}: {line.name}, {counted(line.calls, 'call')} in "
                f"{counted(line.batches, 'batch', 'batches')}, "
                f"{line.mean_batch:.1f} calls together"
            )
            text += [f"    {part}" for part in (line.why, line.advice) if part]
        return "\n".join(text)

    __repr__ = __str__


class Notes:
    """Of one run."""

    def __init__(self) -> None:
        self.batches: list[tuple[Calls, Any, int]] = []  # with the numbers of the calls that ran as one, and the wave
        self.one_by_one: set[CallKind] = set()  # of calls at several sizes that had no way to run as one
        self.reads: list[Where | None] = []  # where samples waited for values
        self._ordinary: dict[tuple[str, str], Where | None] = {}  # cells that ran as functions, and why: first lines
        self.n_waves = 0
        self.n_samples = 0
        self.programs: list[tuple[LockstepRun, int]] = []  # that ran in lockstep, and for how many samples
        self.why_recorded = ""  # rather than run in lockstep, if that was tried
        self.is_warming_up = False  # a module was called that becomes a cell if it is called so again

    def ran_as_function(self, cell: str, why: str) -> None:
        """The ops of a cell were calls of their own."""
        if (cell, why) not in self._ordinary:
            self._ordinary[cell, why] = user_line()

    def _is_alone(self, kind: CallKind) -> bool:
        return kind.alone or kind in self.one_by_one

    def stats(self) -> dict[str, Any]:
        nodes = sum(len(members) for _, members, _ in self.batches)
        launches = sum(len(members) if self._is_alone(calls.kind) else 1 for calls, members, _ in self.batches)
        for program, n in self.programs:
            nodes += n * len(program.rules())
            launches += sum(n if is_each else 1 for _, _, is_each in program.rules())
        return {
            "samples": self.n_samples,
            "nodes": nodes,
            "launches": launches,
            "mean_batch": nodes / launches if launches else 0.0,
            "reads": len(self.reads),
            "waves": self.n_waves,
        }

    def costs(self) -> dict[tuple[Where | None, str], float]:
        """What the calls of each line and op or cell are estimated to have taken, in seconds."""
        found: dict[tuple[Where | None, str], float] = {}
        for calls, members, _ in self.batches:
            for call in members.tolist():
                key = calls.wheres[call], calls.kind.name
                kind = calls.kinds[call] if calls.kinds else calls.kind
                found[key] = found.get(key, 0.0) + _work_of(kind)
        for program, _ in self.programs:
            for where, name, _ in program.rules():
                found[where, name] = found.get((where, name), 0.0) + costs.TRACED_OP
        return found

    def explain(self, calls_aside: int = 0) -> Explanation:
        """`calls_aside`: how many of the next calls will be plain loops."""
        stats = self.stats()
        head = (
            f"{counted(stats['samples'], 'sample')}, {counted(stats['nodes'], 'call')} in "
            f"{counted(stats['launches'], 'batch', 'batches')} ({stats['mean_batch']:.1f} calls each), "
            f"{counted(stats['waves'], 'wave')}, {counted(stats['reads'], 'value')} waited for"
        )
        for program, n in self.programs:
            head += f"\n{counted(n, 'sample')} in lockstep: {counted(len(program.rules()), 'op')}, each for all at once"
        if self.why_recorded:
            head += f"\nrecorded sample by sample, rather than run in lockstep: {self.why_recorded}"
        if calls_aside:
            head += f"\nbatches were too small to pay: the next {counted(calls_aside, 'call')} run as a plain loop"
        found: dict[tuple[str, str], _OfLine] = {}
        for number, (calls, members, wave) in enumerate(self.batches):
            for call in members.tolist():
                where = describe_where(calls.wheres[call]) or "?"
                key = (where, calls.kind.name)
                if key not in found:
                    found[key] = _OfLine()
                found[key].add(calls.kind, number, len(members), wave, self._is_alone(calls.kind))
        reads = Counter(describe_where(where) or "?" for where in self.reads)
        lines = [one.line(where, name, reads) for (where, name), one in found.items()]
        lines += [line for program, n in self.programs for line in _lines_in_lockstep(program, n)]
        lines.sort(key=lambda line: -line.batches)
        ordinary = [
            f"{describe_where(where) or '?'}: {cell} ran as an ordinary function: {why}"
            for (cell, why), where in self._ordinary.items()
        ]
        return Explanation(lines, head, ordinary)


def _work_of(kind: CallKind) -> float:
    """Seconds of arithmetic of one call: its weights are multiplied once, the rest is read or written."""
    types = [i.type for i in kind.inputs if isinstance(i.type, TensorType)]
    moved = sum(n_elements(t.shape) * t.dtype.itemsize for t in (*types, *kind.results))
    weights = sum(n_elements(t._type.shape) for t in kind.captured if len(t._type.shape) > 1)
    return costs.BYTE * moved + costs.MULTIPLICATION * weights


def _lines_in_lockstep(program: LockstepRun, n: int) -> list[Line]:
    lines: dict[tuple[str, str, bool], int] = {}
    for where, name, is_each in program.rules():
        key = describe_where(where) or "?", name, is_each
        lines[key] = lines.get(key, 0) + 1
    found = []
    for (line, name, is_each), count in lines.items():
        why, advice = _no_way(name) if is_each else ("", "")
        found.append(Line(line, name, n * count, (n if is_each else 1) * count, 1.0 if is_each else n, why, advice))
    return found


def _no_way(name: str) -> tuple[str, str]:
    return (
        f"calls of different sizes, which {name} has no way to run as one: they ran one after the other",
        _ADVICE.get(name, "use ragged tensors (ex.ragged) before ex.batch, pad within a sample, or work on rows"),
    )


class _OfLine:
    """Calls of one line."""

    def __init__(self) -> None:
        self._n = 0
        self._together = 0
        self._batches: dict[int, int] = {}  # number of a batch: its wave
        self._kinds: dict[CallKind, None] = {}
        self._is_alone = False  # whether some of them ran by themselves

    def add(self, kind: CallKind, batch: int, size: int, wave: int, alone: bool) -> None:
        self._n += 1
        self._together += 1 if alone else size
        self._is_alone |= alone
        self._batches[batch] = wave
        self._kinds[kind] = None

    def line(self, where: str, name: str, reads: Counter[str]) -> Line:
        n_batches = len(self._batches)
        if self._is_alone:
            n_batches = self._n
        why, advice = ("", "") if n_batches == 1 else self._reason(self._is_alone, reads)
        return Line(where, name, self._n, n_batches, self._together / self._n, why, advice)

    def _reason(self, alone: bool, reads: Counter[str]) -> tuple[str, str]:
        """The largest of what kept the calls apart."""
        if alone and any(isinstance(kind, SizedKind) for kind in self._kinds):
            return _no_way(next(iter(self._kinds)).name)
        if alone:
            return "random draws belong to each sample and are made one by one", "draw before the loop, for all steps"
        waves = Counter(self._batches.values())
        n_kinds, n_waves, n_levels = len(self._kinds), len(waves), max(waves.values())
        if n_waves >= n_kinds and n_waves > 1 and reads:
            line, count = reads.most_common(1)[0]
            return (
                f"values were waited for {counted(n_waves, 'time')}; {count} of them at {line}",
                "read values less often, or all at once: decide by tensor ops, or read one tensor of several values",
            )
        if n_kinds > 1:
            types = [", ".join(str(i.type) for i in kind.inputs) for kind in list(self._kinds)[:3]]
            if len(set(types)) == 1:
                return f"{n_kinds} kinds of calls: with other weights, or other settings", ""
            return (
                f"{n_kinds} kinds of calls, of different types: {'; '.join(types)}",
                "calls of one dtype, and of one op or cell, can run together",
            )
        if n_levels > 1:
            is_op = all(not kind.cell for kind in self._kinds)
            return (
                f"each call needs results of others: {n_levels} levels",
                "a module, or @ex.cell, around the body of the loop makes one call of these ops" if is_op else "",
            )
        return "", ""
