"""In which order calls run, so that batches are few and large.

Kinds of calls depend on one another: cells read what embeddings made, scores what cells made. Kinds that depend on each
other in a circle (a loop, a recursion) belong together; such families run one after the other, each when everything
that it reads has been made. A kind outside any circle then runs once, in one batch, however deep its calls lie: the
scores of sentences of any length. A circle of one kind runs level by level: all calls whose inputs are there. In a
circle of several kinds, an agenda (Neubig, Goldberg and Dyer 2017) decides between those that have calls ready: the
kind whose calls lie least deep on average is next, since the others may still gain calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.cache import Cache
from ..core.graph import describe_where
from .call_cache import recorder
from .kinds import CallKind

_FAMILIES: Cache[tuple[int, ...], list[list[int]]] = Cache("orders of kinds in batches", 1_000)
_BITS = 63  # of a word that has one for each kind


class Calls:
    """Calls of one kind that have been recorded and not run, in the order of recording."""

    __slots__ = ("firsts", "kind", "refs", "samples", "wheres")

    def __init__(self, kind: CallKind) -> None:
        self.kind = kind
        self.refs: list[int] = []  # of the inputs of all calls: a value, or -1 - a number
        self.firsts: list[int] = []  # of each call: the first of its results' values
        self.wheres: list[Any] = []
        self.samples: list[int] = []

    def blame(self, error: Exception, call: int) -> None:
        """Say on an error which call it belongs to."""
        where = self.wheres[call]
        at = f" at {describe_where(where)}" if where is not None else ""
        error.add_note(f"sample {self.samples[call]} of ex.batch: {self.kind.name} was recorded{at}")

    def inputs(self) -> Any:
        """The refs as an array: a row for each call."""
        return _as_array(self.refs).reshape(len(self.firsts), len(self.kind.inputs))


class Batches(NamedTuple):
    """Calls of one kind that run next: as one, or level by level where they wait for each other."""

    calls: Calls
    members: Any  # which of them, level after level
    refs: Any  # of their inputs
    firsts: Any  # of their results
    ends: list[int]  # of each level


class Component(NamedTuple):
    """Batches of kinds that depend on each other, and in which order they run: (whose turn it is, which level)."""

    batches: list[Batches]
    turns: list[tuple[int, int]]


def order(waiting: Sequence[Calls], first_value: int, n_values: int) -> Iterator[Component]:
    """All calls, in the order in which they can run. Values below `first_value` are there already."""
    size = n_values - first_value
    maker = np.full(size, -1, np.int64)  # by value: which of `waiting` makes it
    number = np.empty(size, np.int64)  # and which of its calls
    all_refs, all_firsts = [], []
    for k, calls in enumerate(waiting):
        all_firsts.append(_as_array(calls.firsts))
        all_refs.append(calls.inputs())
        _note_makers(all_firsts[k], len(calls.kind.results), k, maker, number, first_value)
        calls.refs, calls.firsts = [], []  # arrays have them now, and the notes keep the calls
    made = _sources(all_refs, maker, first_value)
    families = _FAMILIES.get(made)
    if families is None:
        families = _FAMILIES.put(made, _families(made))
    for family in families:
        (k, *others) = family
        if others:
            agenda = list(_agenda(family, all_refs, maker, number, first_value))
            batches, turns, n_levels = [], [], dict.fromkeys(family, 0)
            for k, _ in agenda:
                turns.append((family.index(k), n_levels[k]))
                n_levels[k] += 1
            for k in family:
                levels = [members for which, members in agenda if which == k]
                ranked, ends = np.concatenate(levels), np.cumsum([len(members) for members in levels]).tolist()
                batches.append(Batches(waiting[k], ranked, all_refs[k][ranked], all_firsts[k][ranked], ends))
            yield Component(batches, turns)
        elif made[k] >> k & 1:
            ranked, ends = _levels(k, all_refs[k], maker, number, first_value)
            batches = [Batches(waiting[k], ranked, all_refs[k][ranked], all_firsts[k][ranked], ends)]
            yield Component(batches, [(0, level) for level in range(len(ends))])
        else:
            n = len(all_firsts[k])
            yield Component([Batches(waiting[k], np.arange(n), all_refs[k], all_firsts[k], [n])], [(0, 0)])


def _note_makers(firsts: Any, n_results: int, k: int, maker: Any, number: Any, first_value: int) -> None:
    native = recorder()
    if native is not None:
        native.note_makers(firsts, n_results, k, maker, number, first_value)
        return
    for result in range(n_results):
        maker[firsts - first_value + result] = k
        number[firsts - first_value + result] = np.arange(len(firsts))


def _sources(all_refs: list[Any], maker: Any, first_value: int) -> tuple[int, ...]:
    """Of each kind, which kinds make inputs of its calls, as bits."""
    native = recorder()
    if native is not None and len(all_refs) <= _BITS:
        return tuple([native.sources(refs, maker, first_value) for refs in all_refs])
    found = [set(maker[refs[refs >= first_value] - first_value].tolist()) - {-1} for refs in all_refs]
    return tuple([sum(1 << k for k in sources) for sources in found])


def _families(sources: tuple[int, ...]) -> list[list[int]]:
    """Kinds that depend on each other, in the order in which they can run (Tarjan's strongly connected components)."""
    n = len(sources)
    made = [[k for k in range(n) if of_one >> k & 1] for of_one in sources]
    index, low, on_stack = [-1] * n, [0] * n, [False] * n
    stack: list[int] = []
    found: list[list[int]] = []
    counter = 0
    for root in range(n):
        if index[root] >= 0:
            continue
        work = [(root, iter(made[root]))]
        index[root] = low[root] = counter
        counter += 1
        stack.append(root)
        on_stack[root] = True
        while work:
            k, before = work[-1]
            for source in before:
                if index[source] < 0:
                    index[source] = low[source] = counter
                    counter += 1
                    stack.append(source)
                    on_stack[source] = True
                    work.append((source, iter(made[source])))
                    break
                if on_stack[source]:
                    low[k] = min(low[k], index[source])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[k])
                if low[k] == index[k]:
                    family = []
                    while True:
                        member = stack.pop()
                        on_stack[member] = False
                        family.append(member)
                        if member == k:
                            break
                    found.append(sorted(family))
    return found


def _as_array(numbers: list[int]) -> Any:
    native = recorder()
    made = native.as_array(numbers) if native is not None and numbers else None
    return np.array(numbers, np.int64) if made is None else made


def _levels(k: int, refs: Any, maker: Any, number: Any, first_value: int) -> tuple[Any, list[int]]:
    """Calls of one kind in the order of how many of the same kind lie below them; where each level ends."""
    native = recorder()
    if native is None:
        by_depth = _depths(k, refs, maker, number, first_value)
    else:
        by_depth = np.empty(len(refs), np.int64)
        native.depths(refs, maker, number, k, first_value, by_depth)
    return np.argsort(by_depth, kind="stable"), np.cumsum(np.bincount(by_depth)).tolist()


def _depths(k: int, refs: Any, maker: Any, number: Any, first_value: int) -> Any:
    inside = refs >= first_value
    own = np.where(inside, refs - first_value, 0)
    sources = np.where(inside & (maker[own] == k), number[own], -1)
    columns = [column.tolist() for column in sources.T if (column >= 0).any()]
    depths: list[int] = []
    if len(columns) == 1:
        for source in columns[0]:
            depths.append(depths[source] + 1 if source >= 0 else 0)
    else:
        for several in zip(*columns, strict=True):
            depths.append(max([depths[source] + 1 if source >= 0 else 0 for source in several]))
    return np.array(depths)


def _agenda(
    family: list[int], all_refs: list[Any], maker: Any, number: Any, first_value: int
) -> Iterator[tuple[int, Any]]:
    """The batches of a family of several kinds: (kind, which of its calls)."""
    native = recorder()
    if native is None:
        yield from _by_agenda(family, all_refs, maker, number, first_value)
        return
    begins = np.cumsum([0, *[len(all_refs[k]) for k in family]])
    offsets = np.full(len(all_refs) + 1, -1)  # of the calls of each kind; the last is for values that no kind makes
    offsets[family] = begins[:-1]
    sources, readers = [], []
    for begin, k in zip(begins[:-1].tolist(), family, strict=True):
        refs = all_refs[k]
        at = np.flatnonzero(refs.reshape(-1) >= first_value)
        made = refs.reshape(-1)[at] - first_value
        inside = np.flatnonzero(offsets[maker[made]] >= 0)
        made = made[inside]
        sources.append(offsets[maker[made]] + number[made])
        readers.append(at[inside] // refs.shape[1] + begin)
    n, n_kinds = int(begins[-1]), len(family)
    edges = np.concatenate(sources), np.concatenate(readers)
    kinds = np.repeat(np.arange(n_kinds), np.diff(begins))
    ranked, ends, chosen = np.empty((3, n), np.int64)
    room = np.empty((n + 1) * 5 + (n_kinds + 1) * 4 + len(edges[0]), np.int64)
    n_batches = native.agenda(*edges, kinds, n_kinds, ranked, ends, chosen, room)
    start = 0
    for end, which in zip(ends[:n_batches].tolist(), chosen[:n_batches].tolist(), strict=True):
        members = ranked[start:end]
        members.sort()
        yield family[which], members - begins[which]
        start = end


def _by_agenda(
    family: list[int], all_refs: list[Any], maker: Any, number: Any, first_value: int
) -> Iterator[tuple[int, Any]]:
    missing: dict[int, list[int]] = {}  # by kind, for each call: how many of its inputs are not there
    depths: dict[int, list[int]] = {k: [0] * len(all_refs[k]) for k in family}
    readers: dict[tuple[int, int], list[tuple[int, int]]] = {}
    members = set(family)
    for k in family:
        counts = []
        for call, refs in enumerate(all_refs[k].tolist()):
            sources = {
                (int(maker[ref - first_value]), int(number[ref - first_value])) for ref in refs if ref >= first_value
            }
            sources = {source for source in sources if source[0] in members}
            for source in sources:
                readers.setdefault(source, []).append((k, call))
            counts.append(len(sources))
        missing[k] = counts
    ready = {k: [call for call, count in enumerate(missing[k]) if not count] for k in family}
    _note_depths(ready, readers, missing, depths)
    left = {k: (sum(depths[k]), len(depths[k])) for k in family}
    while True:
        choices = [k for k in family if ready[k]]
        if not choices:
            return
        k = min(choices, key=lambda k: left[k][0] / left[k][1])
        batch, ready[k] = ready[k], []
        left[k] = (left[k][0] - sum(depths[k][call] for call in batch), left[k][1] - len(batch))
        yield k, np.array(sorted(batch), np.int64)
        for call in batch:
            for reader, other in readers.get((k, call), ()):
                missing[reader][other] -= 1
                if not missing[reader][other]:
                    ready[reader].append(other)


def _note_depths(
    ready: dict[int, list[int]],
    readers: dict[tuple[int, int], list[tuple[int, int]]],
    missing: dict[int, list[int]],
    depths: dict[int, list[int]],
) -> None:
    """How many calls of the family lie below each, at most."""
    counts = {k: list(missing[k]) for k in missing}
    todo = [(k, call) for k in ready for call in ready[k]]
    while todo:
        k, call = todo.pop()
        for reader, other in readers.get((k, call), ()):
            depths[reader][other] = max(depths[reader][other], depths[k][call] + 1)
            counts[reader][other] -= 1
            if not counts[reader][other]:
                todo.append((reader, other))
