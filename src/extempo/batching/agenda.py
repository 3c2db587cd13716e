"""In which order calls run, so that batches are few and large: DyNet's agenda, within components of the graph of kinds.

Kinds of calls depend on one another: cells read what embeddings made, scores what cells made. Kinds that depend on each
other in a circle (a loop, a recursion) are a strongly connected component of that graph; components run one after the
other, each when everything that it reads has been made. A kind outside any circle then runs once, in one batch, however
deep its calls are: the scores of sentences of any length, which an agenda over all calls would run at several times.
A circle of one kind runs level by level: all calls whose inputs are there. In a circle of several kinds, an agenda
(Neubig, Goldberg and Dyer 2017) decides between those that have calls ready: the kind whose calls that have not run are
least deep on average is next, since the others may still gain calls.

Native code does the same, call by call; the Python here says what it means, and runs where there is none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from ..backends import entry_points
from ..core.cache import Cache
from ..core.graph import describe_where
from .call_cache import recorder
from .kinds import CallKind
from .parts import ROOT, VALUE

_COMPONENTS: Cache[tuple[int, ...], list[list[int]]] = Cache("orders of kinds in batches", 1_000)
_NOTHING: list[int] = []
_BITS = 63  # of a word that has one for each kind


class Calls:
    """Calls of one kind that have been recorded and not run, in the order of recording."""

    __slots__ = ("firsts", "kind", "kinds", "refs", "samples", "wheres")

    def __init__(self, kind: CallKind) -> None:
        self.kind = kind
        self.refs: list[int] = []  # of the inputs of all calls: a value id, or -1 - the position of a number
        self.firsts: list[int] = []  # of each call: the value id of its first result
        self.wheres: list[Any] = []
        self.samples: list[int] = []
        self.kinds: list[Any] = []  # of calls at several sizes, each one's own

    def blame(self, error: Exception, call: int) -> None:
        """Say on an error which call it belongs to."""
        where = self.wheres[call]
        at = f" at {describe_where(where)}" if where is not None else ""
        error.add_note(f"sample {self.samples[call]} of ex.batch: {self.kind.name} was recorded{at}")

    def inputs(self) -> Any:
        """The refs as an array: a row for each call, those of calls with fewer inputs filled up with -1."""
        refs, n_calls = _as_array(self.refs), len(self.firsts)
        n_each = len(self.kind.inputs)
        if not self.kinds:
            return refs.reshape(n_calls, n_each)
        n_inputs = np.array([len(kind.inputs) for kind in self.kinds])
        if (n_inputs == n_each).all():  # that they are so many on average is not enough
            return refs.reshape(n_calls, n_each)
        made = np.full((n_calls, n_inputs.max()), -1, np.int64)
        made[np.arange(made.shape[1]) < n_inputs[:, None]] = refs
        return made


class Batches(NamedTuple):
    """Calls of one kind that run next: as one, or level by level where they wait for each other."""

    calls: Calls
    members: Any  # which of them, level after level
    refs: Any  # of their inputs
    firsts: Any  # of their results
    ends: list[int]  # of each level
    parts: Any = None  # of results of all these calls, which get their places with them


class Component(NamedTuple):
    """Batches of kinds that depend on each other, and in which order they run: (which of the batches, which level)."""

    batches: list[Batches]
    schedule: list[tuple[int, int]]


def order(waiting: Sequence[Calls], first_value: int, n_values: int, parts: Any = None) -> Iterator[Component]:
    """All calls, in the order in which they can run. Values below `first_value` are there already.

    `parts`: of values that these calls make (`parts.py`).
    """
    makers = Makers(first_value, n_values)
    all_refs, all_firsts = [], []
    for k, calls in enumerate(waiting):
        all_firsts.append(_as_array(calls.firsts))
        all_refs.append(calls.inputs())
        makers.note(k, all_firsts[k], len(calls.kind.results))
        calls.refs = calls.firsts = _NOTHING  # arrays have them now, and the notes keep the calls

    parts_of = {} if parts is None else makers.note_parts(parts)

    def batches(k: int, members: Any, ends: list[int]) -> Batches:
        return Batches(waiting[k], members, all_refs[k][members], all_firsts[k][members], ends, parts_of.get(k))

    sources = makers.sources(all_refs)
    for kinds in components_of(sources):
        k = kinds[0]
        if len(kinds) > 1:
            by_kind, schedule = interleaved_batches(kinds, all_refs, makers)
            yield Component([batches(k, *by_kind[k]) for k in kinds], schedule)
        elif sources[k] >> k & 1:
            members, ends = levels_of(k, all_refs[k], makers)
            yield Component([batches(k, members, ends)], [(0, level) for level in range(len(ends))])
        else:
            n = len(all_firsts[k])
            only = Batches(waiting[k], np.arange(n), all_refs[k], all_firsts[k], [n], parts_of.get(k))
            yield Component([only], [(0, 0)])


class Makers:
    """Which call makes each value that is not there yet."""

    def __init__(self, first_value: int, n_values: int) -> None:
        self.first_value = first_value
        self.kinds = np.empty(n_values - first_value, np.int64)  # by value: which kind makes it, -1: none
        self.kinds.fill(-1)  # np.full takes three times as long
        self.calls = np.empty(n_values - first_value, np.int64)  # and which of its calls

    def note(self, k: int, firsts: Any, n_results: int) -> None:
        """The calls of a kind make these values, and as many behind each as they have results."""
        _note_makers(firsts, n_results, k, self.kinds, self.calls, self.first_value)

    def note_parts(self, parts: Any) -> dict[int, Any]:
        """Parts are made with what they are parts of; the parts by the kind that makes them."""
        values, roots = parts[:, VALUE] - self.first_value, parts[:, ROOT] - self.first_value
        self.kinds[values] = kinds = self.kinds[roots]
        self.calls[values] = self.calls[roots]
        return {k: parts[kinds == k] for k in np.unique(kinds).tolist()}

    def sources(self, all_refs: list[Any]) -> tuple[int, ...]:
        """Of each kind, which kinds make inputs of its calls, as bits."""
        sources_of = _sources_of if len(all_refs) <= _BITS else _sources_of_many
        return tuple([sources_of(refs, self.kinds, self.first_value) for refs in all_refs])


@entry_points.NOTE_MAKERS.function(lambda: recorder().note_makers)
def _note_makers(firsts: Any, n_results: int, k: int, kinds: Any, calls: Any, first_value: int) -> None:
    """By value, that kind `k` makes it, and which of its calls does."""
    for result in range(n_results):
        kinds[firsts - first_value + result] = k
        calls[firsts - first_value + result] = np.arange(len(firsts))


@entry_points.SOURCES.function(lambda: recorder().sources)
def _sources_of(refs: Any, kinds: Any, first_value: int) -> int:
    """Which kinds make inputs of one kind's calls, where there are no more kinds than native code has bits for."""
    return _sources_of_many(refs, kinds, first_value)


def _sources_of_many(refs: Any, kinds: Any, first_value: int) -> int:
    sources = set(kinds[refs[refs >= first_value] - first_value].tolist()) - {-1}
    return sum(1 << k for k in sources)


def components_of(sources: tuple[int, ...]) -> list[list[int]]:
    """Kinds that depend on each other, in the order in which they can run."""
    found = _COMPONENTS.get(sources)
    return _COMPONENTS.put(sources, _components(sources)) if found is None else found


def _components(sources: tuple[int, ...]) -> list[list[int]]:
    """Kinds that depend on each other, in the order in which they can run (Tarjan's strongly connected components)."""
    n = len(sources)
    index, low, on_stack = [-1] * n, [0] * n, [False] * n
    numbers = count()
    stack: list[int] = []
    path: list[tuple[int, Iterator[int]]] = []  # kinds that are being visited, with the sources that are left of each
    found: list[list[int]] = []

    def enter(k: int) -> None:
        index[k] = low[k] = next(numbers)
        stack.append(k)
        on_stack[k] = True
        path.append((k, iter([source for source in range(n) if sources[k] >> source & 1])))

    def leave(k: int) -> None:
        path.pop()
        if path:
            reader = path[-1][0]
            low[reader] = min(low[reader], low[k])
        if low[k] == index[k]:  # what was entered since then, and not left with a component, depends on k and k on it
            start = stack.index(k)
            found.append(sorted(stack[start:]))
            for member in stack[start:]:
                on_stack[member] = False
            del stack[start:]

    for root in range(n):
        if index[root] < 0:
            enter(root)
        while path:
            k, left = path[-1]
            for source in left:
                if index[source] < 0:
                    enter(source)
                    break
                if on_stack[source]:
                    low[k] = min(low[k], index[source])
            else:
                leave(k)
    return found


def _as_array(numbers: list[int]) -> Any:
    made = _array_of_ints(numbers) if numbers else None
    return np.array(numbers, np.int64) if made is None else made


@entry_points.AS_ARRAY.function(lambda: recorder().as_array)
def _array_of_ints(numbers: list[int]) -> Any:
    """An int64 array of a list that is not empty; native code answers None where something is no int."""
    return np.array(numbers, np.int64)


# ---- a component of one kind: levels


def levels_of(k: int, refs: Any, makers: Makers) -> tuple[Any, list[int]]:
    """Calls of one kind in the order of their depths; where each level ends."""
    by_depth = np.empty(len(refs), np.int64)
    _depths(refs, makers.kinds, makers.calls, k, makers.first_value, by_depth)
    return np.argsort(by_depth, kind="stable"), np.cumsum(np.bincount(by_depth)).tolist()


@entry_points.DEPTHS.function(lambda: recorder().depths)
def _depths(refs: Any, kinds: Any, calls: Any, k: int, first_value: int, by_depth: Any) -> None:
    """How many calls of kind `k` are below each of its calls, at most. A call reads results of earlier ones only."""
    inside = refs >= first_value
    own = np.where(inside, refs - first_value, 0)
    sources = np.where(inside & (kinds[own] == k), calls[own], -1)
    found: list[int] = []
    for of_call in sources.tolist():
        found.append(max([found[source] + 1 if source >= 0 else 0 for source in of_call], default=0))
    by_depth[:] = found


# ---- a component of several kinds: the agenda


def interleaved_batches(
    kinds: list[int], all_refs: list[Any], makers: Makers
) -> tuple[dict[int, tuple[Any, list[int]]], list[tuple[int, int]]]:
    """Batches of a component as levels of each kind, their calls one after the other, and the order of all levels."""
    levels: dict[int, list[Any]] = {k: [] for k in kinds}
    schedule = []
    for k, members in agenda(kinds, all_refs, makers):
        schedule.append((kinds.index(k), len(levels[k])))
        levels[k].append(members)
    by_kind = {k: (np.concatenate(own), np.cumsum([len(m) for m in own]).tolist()) for k, own in levels.items()}
    return by_kind, schedule


def _agenda_natively(
    native: Callable[..., int], kinds: list[int], all_refs: list[Any], makers: Makers
) -> Iterator[tuple[int, Any]]:
    # Calls are numbered through, one kind after the other.
    begins = np.cumsum([0, *[len(all_refs[k]) for k in kinds]])
    sources, readers = _edges(kinds, begins, all_refs, makers)
    n, n_kinds = int(begins[-1]), len(kinds)
    kind_of_call = np.repeat(np.arange(n_kinds), np.diff(begins))
    ranked, ends, chosen = np.empty((3, n), np.int64)
    scratch = np.empty((n + 1) * 5 + (n_kinds + 1) * 4 + len(sources), np.int64)
    n_batches = native(sources, readers, kind_of_call, n_kinds, ranked, ends, chosen, scratch)
    start = 0
    for end, which in zip(ends[:n_batches].tolist(), chosen[:n_batches].tolist(), strict=True):
        members = ranked[start:end]
        members.sort()
        yield kinds[which], members - begins[which]
        start = end


@entry_points.AGENDA.function(lambda: functools.partial(_agenda_natively, recorder().agenda))
def agenda(kinds: list[int], all_refs: list[Any], makers: Makers) -> Iterator[tuple[int, Any]]:
    """The batches of a component of several kinds: (kind, which of its calls)."""
    return PythonAgenda(kinds, all_refs, makers).batches()


def _edges(kinds: list[int], begins: Any, all_refs: list[Any], makers: Makers) -> tuple[Any, Any]:
    """(source, reader) for each input of a call that another call of the component makes."""
    offsets = np.full(len(all_refs) + 1, -1)  # of the calls of each kind; the last is for values that no kind makes
    offsets[kinds] = begins[:-1]
    sources, readers = [], []
    for begin, k in zip(begins[:-1].tolist(), kinds, strict=True):
        refs = all_refs[k]
        at = np.flatnonzero(refs.reshape(-1) >= makers.first_value)
        made = refs.reshape(-1)[at] - makers.first_value
        inside = np.flatnonzero(offsets[makers.kinds[made]] >= 0)
        made = made[inside]
        sources.append(offsets[makers.kinds[made]] + makers.calls[made])
        readers.append(at[inside] // refs.shape[1] + begin)
    return np.concatenate(sources), np.concatenate(readers)


class PythonAgenda:
    """What native code's agenda decides. A call is (kind, number)."""

    def __init__(self, kinds: list[int], all_refs: list[Any], makers: Makers) -> None:
        self._kinds = kinds
        self._readers: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._n_missing: dict[tuple[int, int], int] = {}  # how many calls whose results a call reads have not run
        members = set(kinds)
        for k in kinds:
            for number, refs in enumerate(all_refs[k].tolist()):
                made = [ref - makers.first_value for ref in refs if ref >= makers.first_value]
                sources = {(int(makers.kinds[value]), int(makers.calls[value])) for value in made}
                sources = {source for source in sources if source[0] in members}
                self._n_missing[k, number] = len(sources)
                for source in sources:
                    self._readers.setdefault(source, []).append((k, number))

    def batches(self) -> Iterator[tuple[int, Any]]:
        """All ready calls of the kind whose calls that have not run are least deep on average; then again."""
        depth = self._depths()
        missing = dict(self._n_missing)
        ready: dict[int, list[int]] = {k: [] for k in self._kinds}
        sums, counts = dict.fromkeys(self._kinds, 0), dict.fromkeys(self._kinds, 0)  # of calls that have not run
        for (k, number), n in missing.items():
            sums[k] += depth[k, number]
            counts[k] += 1
            if not n:
                ready[k].append(number)
        while any(ready.values()):
            k = min([k for k in self._kinds if ready[k]], key=lambda k: sums[k] / counts[k])
            batch, ready[k] = ready[k], []
            sums[k] -= sum(depth[k, number] for number in batch)
            counts[k] -= len(batch)
            yield k, np.array(sorted(batch), np.int64)
            for number in batch:
                for reader in self._satisfied(missing, (k, number)):
                    ready[reader[0]].append(reader[1])

    def _satisfied(self, missing: dict[tuple[int, int], int], source: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """The calls that have all their inputs once `source` has run."""
        for reader in self._readers.get(source, ()):
            missing[reader] -= 1
            if not missing[reader]:
                yield reader

    def _depths(self) -> dict[tuple[int, int], int]:
        """How many calls of the component are below each, at most."""
        missing = dict(self._n_missing)
        depth = dict.fromkeys(missing, 0)
        done = [call for call, n in missing.items() if not n]
        while done:
            call = done.pop()
            for reader in self._readers.get(call, ()):
                depth[reader] = max(depth[reader], depth[call] + 1)
            done += self._satisfied(missing, call)
        return depth
