"""`extempo ops`: what the registry knows of each op, as plain rows and then as text or JSON. Reads, never runs, an op.

An aspect of an op is there, or refused for good (the reason is a fact about the op), or not yet there (the reason
says "not yet").
"""

import inspect
import json
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from extempo.cli.showing import two_columns
from extempo.core.absent_names import nearest
from extempo.core.op import ASPECTS, REGISTRY, Op, Refuse

# In the overview a letter stands for each aspect: nine columns of words would not fit.
LETTERS = dict(zip(ASPECTS, "invslbrox", strict=True))
NOT_YET = "not yet"


@dataclass(frozen=True)
class Aspect:
    """One aspect of one op: what there is of it, or the reason it is refused for."""

    present: bool
    text: str

    @property
    def not_yet(self) -> bool:
        return not self.present and self.text.startswith(NOT_YET)


@dataclass(frozen=True)
class OpRow:
    """All that is known of one op, without its code."""

    name: str
    family: str
    doc: str
    defined: str  # module and class
    aspects: dict[str, Aspect]

    @property
    def headline(self) -> str:
        return self.doc.partition("\n")[0]


@dataclass(frozen=True)
class Gap:
    """An aspect that several ops lack for the same reason."""

    aspect: str
    why: str
    ops: list[str]
    summary: str  # the ops in few words


def describe(name: str | None = None) -> list[OpRow]:
    """The rows of all ops in the order of their families and names, or of the one called `name`."""
    if name is not None and name not in REGISTRY:
        close = nearest(name, REGISTRY, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "`extempo ops` lists them all."
        raise KeyError(f"no registered op is called {name!r}; {hint}")
    chosen = REGISTRY.values() if name is None else [REGISTRY[name]]
    return sorted((_describe_one(op) for op in chosen), key=lambda row: (row.family, row.name))


def _describe_one(op: type[Op]) -> OpRow:
    aspects = {aspect: _describe_aspect(getattr(op, aspect)) for aspect in ASPECTS}
    return OpRow(op.name, op.family, inspect.getdoc(op) or "", f"{op.__module__}.{op.__qualname__}", aspects)


def _describe_aspect(value: Any) -> Aspect:
    if isinstance(value, Refuse):
        return Aspect(False, value.why)
    if value is None:
        return Aspect(True, "derived")
    if isinstance(value, np.ufunc):
        return Aspect(True, f"numpy.{value.__name__}")
    if not callable(value):
        return Aspect(True, repr(value))
    try:
        signature = inspect.signature(value)
    except ValueError:  # a function written in C that does not tell
        return Aspect(True, repr(value))
    names_only = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return Aspect(True, str(inspect.Signature(names_only)))


def find_gaps(rows: list[OpRow]) -> list[Gap]:
    """The aspects refused with "not yet", grouped by aspect and reason."""
    groups: dict[tuple[str, str], list[OpRow]] = defaultdict(list)
    for aspect in ASPECTS:
        for row in rows:
            if row.aspects[aspect].not_yet:
                groups[aspect, row.aspects[aspect].text].append(row)
    return [
        Gap(aspect, why, [row.name for row in lacking], _summarise(lacking))
        for (aspect, why), lacking in groups.items()
    ]


def _summarise(lacking: list[OpRow]) -> str:
    """The ops in few words: families that lack it as a whole first, by name and size, then the others op by op."""
    by_family: dict[str, list[str]] = defaultdict(list)
    for row in lacking:
        by_family[row.family].append(row.name)
    sizes = Counter(op.family for op in REGISTRY.values())
    whole = [f"{family} ({len(names)})" for family, names in by_family.items() if len(names) == sizes[family]]
    parts = [f"all of {', '.join(whole)}"] if whole else []
    parts += [f"{family}: {', '.join(names)}" for family, names in by_family.items() if len(names) < sizes[family]]
    return "; ".join(parts)


def as_table(rows: list[OpRow]) -> RenderableType:
    """One line per op."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("op", max_width=24, overflow="fold")  # a few names are long; the others should not pay for them
    for heading in ("family", "aspects"):
        table.add_column(heading, no_wrap=True)
    table.add_column("what it does")  # not no_wrap: only then rich takes the missing width from this column
    for row in rows:
        table.add_row(
            Text(row.name, "cyan"), row.family, _letters(row), Text(row.headline, no_wrap=True, overflow="ellipsis")
        )
    legend = ", ".join(f"{letter} {aspect}" for aspect, letter in LETTERS.items())
    return Group(
        table,
        Text(f"\n{len(rows)} ops. Aspects: {legend}; - refused, . not yet. `extempo ops NAME` tells why."),
    )


def _letters(row: OpRow) -> str:
    marks = []
    for aspect, state in row.aspects.items():
        if state.present:
            marks.append(LETTERS[aspect])
        else:
            marks.append("." if state.not_yet else "-")
    return "".join(marks)


def as_page(row: OpRow) -> RenderableType:
    """Everything known of one op."""
    aspects = two_columns()
    for aspect, state in row.aspects.items():
        aspects.add_row(aspect, Text(state.text if state.present else f"refused: {state.text}"))
    return Group(
        Text.assemble((row.name, "bold"), f"  family {row.family}, {row.defined}\n"),
        Padding(Text(row.doc), (0, 0, 1, 2)),
        Padding(aspects, (0, 0, 0, 2)),
    )


def gaps_as_text(gaps: list[Gap]) -> RenderableType:
    """One entry per aspect and reason."""
    if not gaps:
        return Text('No aspect is refused with "not yet".')
    lines: list[RenderableType] = []
    for gap in gaps:
        lines.append(Text.assemble((gap.aspect, "cyan"), f": {gap.why} ({len(gap.ops)})"))
        lines.append(Padding(Text(gap.summary), (0, 0, 0, 2)))
    return Group(*lines)


def as_json(rows: OpRow | list[OpRow]) -> str:
    """One row as a JSON object, or several as a list of them."""
    return json.dumps([asdict(row) for row in rows] if isinstance(rows, list) else asdict(rows), indent=2)


def gaps_as_json(gaps: list[Gap]) -> str:
    """The gaps as JSON, every op named."""
    return json.dumps([{"aspect": gap.aspect, "why": gap.why, "ops": gap.ops} for gap in gaps], indent=2)
