"""`track`: which op, module and line allocated the memory of tensors, what was alive at the peak, and a timeline.

Within the block every op runs by itself, as in eager mode, and the memory of its results is watched until it is free
(by weak references whose callback is C code). Memory that no op makes, such as gradients that are kept and the state of
optimizers, is known to the allocator only; it is told as "outside of ops", with the line that ran then.
"""

from __future__ import annotations

import json
import time
import weakref
from collections.abc import Iterable
from contextlib import ExitStack
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from ..autograd.observers import Observer
from ..backends.selection import native
from ..core.context import CONTEXT, end_trace, switch
from ..core.files import write_text
from ..core.graph import Node, Where, describe_where
from ..core.op import Op
from ..core.source_location import user_line
from ..core.storage import Storage
from ..core.tensor import Tensor, TensorLike
from ..errors import ArgumentError
from ..inspect.owners import forget_paths, running_path
from ..inspect.style import figure, fragment, page
from ..inspect.svg import Picture
from ..inspect.tables import Column, Printable, Table, bytes_text
from ..tracing.api import eager
from .pictures import timeline_picture

_WAYS = ("line", "op", "module", "dtype")
_MOST_ROWS = 20
OUTSIDE = "outside of ops"
_ROUNDING = 128  # bytes that the allocator may add to a block


class Allocation(NamedTuple):
    """Memory that one op has allocated for a result.

    >>> x = ex.ones(1000)
    >>> with ex.memory.track() as m:
    ...     y = x * 2
    >>> made = m.peak.alive[0]
    >>> made.op, made.n_bytes, made.shape
    ('mul', 4000, (1000,))
    """

    op: str
    module: str  # its path in the model, "" outside of modules
    line: str  # the user's, `train.py:12`
    n_bytes: int
    shape: tuple[int, ...]
    dtype: str
    number: int  # of the event that it was


class Peak(NamedTuple):
    """The moment at which most memory was alive.

    >>> x = ex.ones(1000)
    >>> with ex.memory.track() as m:
    ...     y = (x * 2).sum()
    >>> m.peak.n_bytes, m.peak.op
    (4004, 'sum')
    """

    n_bytes: int
    op: str  # that ran then
    module: str
    line: str
    alive: list[Allocation]  # the largest first


class _Event(NamedTuple):
    seconds: float
    place: int  # of the allocation
    is_new: bool
    total: int  # bytes that are alive after it


class Tracked(Printable):
    """What `track` saw. Printed it is the peak and a table by line; `timeline(path)` writes a picture.

    >>> x = ex.ones(1000)
    >>> with ex.memory.track() as m:
    ...     y = x * 2
    >>> m.by("op").rows[0][:2]
    ['mul', '3.9 KB']
    """

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self._events: list[_Event] = []
        self._wheres: list[Where | None] = []
        self._began = time.perf_counter()
        self.n_bytes_before = 0  # of tensors that were there before, as far as the allocator knows
        self.total = 0

    # ---- noting

    def _note(self, n_bytes: int, op: str, module: str, where: Where | None, shape: Any, dtype: str) -> int:
        place = len(self.allocations)
        self.allocations.append(Allocation(op, module, "", n_bytes, shape, dtype, len(self._events)))
        self._wheres.append(where)
        self.total += n_bytes
        self._events.append(_Event(time.perf_counter() - self._began, place, True, self.total))
        return place

    def _free(self, place: int) -> None:
        self.total -= self.allocations[place].n_bytes
        self._events.append(_Event(time.perf_counter() - self._began, place, False, self.total))

    def _finish(self) -> None:
        """Decode the lines, once each."""
        texts: dict[Any, str] = {}
        for i, where in enumerate(self._wheres):
            if where not in texts:
                texts[where] = describe_where(where)
            self.allocations[i] = self.allocations[i]._replace(line=texts[where])

    # ---- reading

    @property
    def peak(self) -> Peak:
        """When most was alive, and what that was."""
        if not self._events:
            return Peak(0, "", "", "", [])
        highest = max(range(len(self._events)), key=lambda i: self._events[i].total)
        event = self._events[highest]
        last = self.allocations[event.place]
        return Peak(event.total, last.op, last.module, last.line, self._alive_after(highest))

    @property
    def alive(self) -> list[Allocation]:
        """What is still there at the end of the block, the largest first."""
        return self._alive_after(len(self._events) - 1)

    def _alive_after(self, last: int) -> list[Allocation]:
        alive: dict[int, Allocation] = {}
        for event in self._events[: last + 1]:
            if event.is_new:
                alive[event.place] = self.allocations[event.place]
            else:
                alive.pop(event.place, None)
        return sorted(alive.values(), key=lambda a: -a.n_bytes)

    def by(self, what: str = "line", at: str = "peak") -> Table:
        """Bytes by "line", "op", "module" or "dtype": of what was alive at the "peak", at the "end", or of "all".

        what: how allocations are put together.
        at: which of them.
        """
        if what not in _WAYS:
            raise ArgumentError(f"by: what must be one of {', '.join(_WAYS)}, got {what!r}")
        chosen = {"peak": lambda: self.peak.alive, "end": lambda: self.alive, "all": lambda: self.allocations}
        if at not in chosen:
            raise ArgumentError(f"by: at must be one of {', '.join(chosen)}, got {at!r}")
        found = chosen[at]()
        sums: dict[str, list[Allocation]] = {}
        for a in found:
            sums.setdefault(getattr(a, what), []).append(a)
        total = sum(a.n_bytes for a in found)
        rows = sorted(((sum(a.n_bytes for a in group), key, group) for key, group in sums.items()), reverse=True)
        columns = [Column(what, may_shrink=True, least=16), *(Column(t, right=True) for t in ("bytes", "share", "n"))]
        columns.append(Column("of", may_shrink=True, least=12))
        return Table(
            columns,
            [
                [key or "(none)", bytes_text(n), f"{n / max(total, 1):.0%}", f"{len(group):,}", _others(group, what)]
                for n, key, group in rows[:_MOST_ROWS]
            ],
        )

    def _heading(self) -> str:
        peak = self.peak
        module = f" in {peak.module}" if peak.module else ""
        at = f", at {peak.op}{module} ({peak.line})" if peak.op else ""
        before = f", beside {bytes_text(self.n_bytes_before)} from before" if self.n_bytes_before else ""
        return f"peak {bytes_text(peak.n_bytes)}{at}; {bytes_text(self.total)} at the end{before}"

    def __str__(self) -> str:
        return f"{self._heading()}\nalive at the peak:\n{self.by('line').text()}"

    def as_dict(self) -> dict[str, Any]:
        peak = self.peak
        return {
            "peak_bytes": peak.n_bytes,
            "end_bytes": self.total,
            "bytes_before": self.n_bytes_before,
            "alive_at_peak": [a._asdict() for a in peak.alive],
            "timeline": [[e.seconds, e.total] for e in self._events],
            "allocations": [a._asdict() for a in self.allocations],
            "events": [[e.seconds, e.place, e.is_new] for e in self._events],
        }

    def _picture(self) -> Picture:
        changes = [(e.seconds, e.place, e.is_new) for e in self._events]
        return timeline_picture(changes, [(a.line or a.op, a.n_bytes) for a in self.allocations], self._heading())

    def html(self) -> str:
        """A page with the timeline and what was alive at the peak."""
        tables = "".join(f"<h2>By {what}</h2>{self.by(what).html()}" for what in ("line", "module", "op"))
        largest = [[a.op, a.module, a.line, str(a.shape), bytes_text(a.n_bytes)] for a in self.peak.alive[:_MOST_ROWS]]
        columns = [Column(t, right=t == "bytes") for t in ("op", "module", "line", "shape", "bytes")]
        body = (
            f"<h1>Memory</h1><p>{escape(self._heading())}</p>{figure(self._picture())}{tables}"
            f"<h2>Largest at the peak</h2>{Table(columns, largest).html()}"
        )
        return page("Memory", body)

    def _repr_html_(self) -> str:
        return fragment(f"<p>{escape(self._heading())}</p>{figure(self._picture())}{self.by('line').html()}")

    def timeline(self, path: str | Path) -> Path:
        """Write what was alive over time: a picture (.svg), a page (.html) or all numbers (.json).

        path: its ending says which.
        """
        path = Path(path)
        if path.suffix == ".svg":
            text = self._picture().svg()
        elif path.suffix == ".html":
            text = self.html()
        elif path.suffix == ".json":
            text = json.dumps(self.as_dict())
        else:
            raise ArgumentError(f"timeline: expected a path that ends in .svg, .html or .json, got {path}")
        write_text(path, text)
        return path


def _others(group: Iterable[Allocation], what: str) -> str:
    """What else there is to say of a row: ops of a line, lines of an op."""
    other = "line" if what == "op" else "op"
    sizes: dict[str, int] = {}
    for a in group:
        sizes[getattr(a, other)] = sizes.get(getattr(a, other), 0) + a.n_bytes
    names = sorted(sizes, key=lambda name: -sizes[name])
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


class _Watching(Observer):
    """Notes the memory of every result, and when it is free."""

    def __init__(self, tracked: Tracked) -> None:
        super().__init__()
        self._tracked = tracked
        self._places: dict[weakref.ref[Storage], int] = {}
        self._gone: list[weakref.ref[Storage]] = []
        self._known: dict[int, weakref.ref[Storage]] = {}
        backend = native()
        self._pool = None if backend is None else backend.memory
        self._outside: int | None = None  # the allocation that stands for what no op has made
        self._at_start = self._in_use()

    def _in_use(self) -> int:
        return 0 if self._pool is None else self._pool.bytes_in_use

    def ran(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any], node: Node | None) -> None:
        """Looked at in `apply`."""

    def apply(self, op: type[Op], inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        self.settle()
        result = super().apply(op, inputs, attrs)
        for out in result if isinstance(result, tuple) else (result,):
            t = out._flat if isinstance(out, TensorLike) else out
            if isinstance(t, Tensor):
                self._look(op.name, t)
        return result

    def made(self, t: Any) -> None:
        """A tensor that no op has made: zeros, random numbers, data."""
        if isinstance(t, Tensor):
            self._look("creation", t)

    def _look(self, op: str, t: Tensor) -> None:
        storage = t._storage
        known = self._known.get(id(storage))
        if storage is None or t._alias is not None or (known is not None and known() is storage):
            return
        dtype = str(t.dtype).rpartition(".")[2]
        place = self._tracked._note(storage.nbytes, op, running_path(), user_line(), tuple(t.shape), dtype)
        found = weakref.ref(storage, self._gone.append)
        self._known[id(storage)] = found
        self._places[found] = place

    def settle(self) -> None:
        """Note what has become free, and what no op has made, since the last op."""
        while self._gone:
            self._tracked._free(self._places.pop(self._gone.pop()))
        if self._pool is None:
            return
        if self._outside is not None:
            self._tracked.total -= self._tracked.allocations[self._outside].n_bytes
        beside = self._in_use() - self._at_start - self._tracked.total
        if beside <= _ROUNDING * (len(self._places) + 8):  # and what caches take by the way
            beside = 0
        if self._outside is not None:
            self._tracked.total += self._tracked.allocations[self._outside].n_bytes
            if beside == self._tracked.allocations[self._outside].n_bytes:
                return
            self._tracked._free(self._outside)
            self._outside = None
        if beside:
            self._outside = self._tracked._note(beside, OUTSIDE, "", user_line(), (), "")


class track:
    """Within the block, note which op, module and line allocates the memory of tensors, and when it is free again.

    Ops run one by one there, also those of compiled functions, so the figures are those of eager mode.

    >>> model, x = nn.Sequential(nn.Linear(100, 200)), ex.ones(50, 100)
    >>> with ex.memory.track() as m:
    ...     loss = model(x).relu().sum()
    >>> [(a.op, a.module, a.n_bytes) for a in m.peak.alive][:2]
    [('linear', '0', 40000), ('relu', '', 40000)]
    """

    def __init__(self) -> None:
        self._blocks = ExitStack()

    def __enter__(self) -> Tracked:
        end_trace(CONTEXT.get())
        self._tracked = Tracked()
        self._watching = _Watching(self._tracked)
        self._tracked.n_bytes_before = self._watching._at_start
        self._blocks.enter_context(eager())
        self._blocks.enter_context(switch(interceptor=self._watching))
        return self._tracked

    def __exit__(self, *raised: Any) -> None:
        self._blocks.close()
        self._watching.settle()
        self._tracked._finish()
        forget_paths()
