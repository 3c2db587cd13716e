"""The reports of a profile: shares added up by line, module, op, kernel or phase, as rows and as tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..errors import ExtempoError
from ..inspect.tables import Column, Table, seconds_text
from . import sites
from .lines import Line
from .shares import Share

BY = ("line", "module", "op", "kernel", "phase")
MOST_ROWS = 12


class Row(NamedTuple):
    """One line, module, op, kernel or phase, and what it took.

    >>> with ex.profile() as prof:
    ...     y = ex.ones(10, 10) @ ex.ones(10, 10)
    >>> row = prof.by("op")["matmul"]
    >>> row.calls, row.share < 1
    (1, True)
    """

    name: str
    seconds: float
    share: float  # of the whole time
    calls: int
    native: float  # seconds of it in kernels
    backward: float  # seconds of it in backward
    parts: tuple[tuple[str, float], ...]  # what it is made of, by op, with shares of the whole time; the largest first
    is_estimate: bool  # a part of it is a fused kernel's, shared by estimated cost


class Rows(list[Row]):
    """Rows, those that took most first; also by name."""

    def __init__(self, rows: Sequence[Row], by: str) -> None:
        super().__init__(rows)
        self.by = by

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        for row in self:
            if row.name == key or row.name.split(" ")[0] == key:
                return row
        raise KeyError(f"no {self.by} {key!r}; there are {[row.name for row in self][:20]}")

    @property
    def table(self) -> Table:
        return table_of(self, len(self))

    def __str__(self) -> str:
        return self.table.text()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self.table.html()


def rows_by(by: str, shares: Sequence[Share], whole: float, names: dict[int, str]) -> Rows:
    """Shares added up; `names`: the paths of modules in their models, by id."""
    if by not in BY:
        raise ExtempoError(f"profile: by={by!r} is not known; use one of {', '.join(map(repr, BY))}")
    time: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    kernels: Counter[str] = Counter()
    backward: Counter[str] = Counter()
    parts: dict[str, Counter[str]] = defaultdict(Counter)
    estimates: set[str] = set()
    for share in shares:
        name = _name(by, share, names)
        if name is None:
            continue
        time[name] += share.nanoseconds  # type: ignore[assignment] # Counter's values need not be int
        calls[name] += share.calls if _counts(by, share) else 0
        kernels[name] += share.nanoseconds if share.is_native else 0  # type: ignore[assignment]
        backward[name] += share.nanoseconds if share.phase == sites.BACKWARD_PHASE else 0  # type: ignore[assignment]
        parts[name][share.op if by != "op" else share.phase] += share.nanoseconds  # type: ignore[assignment]
        if share.is_estimate or (by == "module" and share.has_guessed_module):
            estimates.add(name)
    if by == "phase":
        order = [name for name in sites.PHASES if time[name]]
    else:
        order = sorted((name for name in time if time[name]), key=lambda name: -time[name])
    made = []
    for name in order:
        of = tuple((part, t / whole) for part, t in parts[name].most_common() if t)
        seconds = (time[name] / 1e9, time[name] / whole)
        made.append(Row(name, *seconds, calls[name], kernels[name] / 1e9, backward[name] / 1e9, of, name in estimates))
    return Rows(made, by)


def _counts(by: str, share: Share) -> bool:
    """Whether the calls of a share are calls of the row."""
    kind = share.node.kind if share.node is not None else ""
    if by == "kernel":
        return True
    if by == "module":
        return kind == sites.MODULE
    return kind in (sites.OP, sites.NODE, sites.INSTRUCTION, sites.OPTIMIZER, sites.DATA, sites.LABEL)


def _name(by: str, share: Share, names: dict[int, str]) -> str | None:
    if by == "line":
        return _line_name(share.line)
    if by == "module":
        return "(no module)" if share.module is None else names.get(id(share.module), type(share.module).__name__)
    if by == "op":
        return share.op
    if by == "kernel":
        return share.kernel or None
    return share.phase


def _line_name(line: Line | None) -> str:
    return "(no line)" if line is None else str(line)


def table_of(rows: Sequence[Row], most: int) -> Table:
    """The first rows, and how much of the time the others have."""
    by = rows.by if isinstance(rows, Rows) else "line"
    columns = [
        Column("share", right=True),
        Column("time", right=True),
        Column("calls", right=True),
        Column(by, may_shrink=True, least=36),
        Column("of which", may_shrink=True, least=16),
    ]
    made = [
        [
            f"{'~' if row.is_estimate else ''}{row.share:.1%}",
            seconds_text(row.seconds),
            f"{row.calls:,}" if row.calls else "",
            row.name,
            _parts_text(row),
        ]
        for row in rows[:most]
    ]
    rest = rows[most:]
    if rest:
        left = sum(row.share for row in rest), sum(row.seconds for row in rest)
        made.append([f"{left[0]:.1%}", seconds_text(left[1]), "", f"({len(rest)} more)", ""])
    return Table(columns, made)


def _parts_text(row: Row) -> str:
    shown = [f"{share:.0%} {name}" for name, share in row.parts[:3] if share >= 0.005 and name != row.name]
    return ", ".join(shown)


def phases_text(rows: Rows) -> str:
    """`Python 12%, native run 40%, backward 30% (22% native), ...`"""
    texts = []
    for row in rows:
        native = (
            f" ({row.native / row.seconds * row.share:.0%} in kernels)" if row.native and row.name in _STAGES else ""
        )
        texts.append(f"{row.name} {row.share:.0%}{native}")
    return ", ".join(texts)


_STAGES = frozenset((sites.BACKWARD_PHASE, sites.OPTIMIZER_PHASE, sites.DATA_PHASE))
