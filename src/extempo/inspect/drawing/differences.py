"""`diff`: what changed from one graph to another: ops that came, went, have other shapes or stand on other lines."""

from __future__ import annotations

import os
from copy import copy
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple

from ..svg import Picture
from ..tables import Printable
from .api import draw
from .drawn import Drawing
from .layout import short
from .model import ROOT, Diagram, Group, Item

MOST_LINES = 40  # of the text


class Change(NamedTuple):
    """One op that is not the same."""

    kind: str  # added, removed, shape, line or arguments
    op: str
    module: str
    before: str
    after: str


class Difference(Printable):
    """What `diff` gives: `changes`, a text when printed, and a picture in which what changed has a colour.

    >>> a = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    >>> b = nn.Sequential(nn.Linear(2, 4), nn.Tanh())
    >>> x = ex.ones(1, 2)
    >>> print(ex.inspect.diff(ex.inspect.draw(a, x), ex.inspect.draw(b, x)))
    1 op added, 1 removed, 1 with other shapes
    ~ linear (0: Linear): (1, 3) is now (1, 4)
    - relu (1: ReLU) (1, 3)
    + tanh (1: Tanh) (1, 4)
    """

    def __init__(self, changes: list[Change], diagram: Diagram) -> None:
        self.changes = changes
        self._diagram = diagram

    def __bool__(self) -> bool:
        """Whether anything changed."""
        return bool(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    @property
    def drawing(self) -> Drawing:
        """Both graphs in one: added ops green, removed ones red, changed ones yellow; groups with changes are open."""
        return Drawing(self._diagram)

    def picture(self) -> Picture:
        """The drawing as a picture."""
        return self.drawing.picture()

    def save(self, path: str | Path) -> Path:
        """Write the drawing, as `Drawing.save` does."""
        return self.drawing.save(path)

    def _repr_svg_(self) -> str:
        return self.drawing.svg()

    def as_dict(self) -> dict[str, Any]:
        return {"changes": [change._asdict() for change in self.changes]}

    def __str__(self) -> str:
        if not self.changes:
            return "no difference"
        lines = [self._heading()]
        for change in self.changes[:MOST_LINES]:
            named = f"{change.op} ({change.module})" if change.module else change.op
            if change.kind in ("added", "removed"):
                lines.append(f"{'+' if change.kind == 'added' else '-'} {named} {change.after or change.before}")
            else:
                lines.append(f"~ {named}: {change.before} is now {change.after}")
        if len(self.changes) > MOST_LINES:
            lines.append(f"... and {len(self.changes) - MOST_LINES:,} more; .changes has all of them")
        return "\n".join(short(line.rstrip(), 100) for line in lines)

    def _heading(self) -> str:
        words = {
            "added": "added", "removed": "removed", "shape": "with other shapes", "line": "on other lines",
            "arguments": "with other arguments",
        }  # fmt: skip
        counts = {kind: sum(change.kind == kind for change in self.changes) for kind in words}
        parts = [f"{counts[kind]:,} {words[kind]}" for kind in words if counts[kind]]
        first, *rest = parts
        number, _, said = first.partition(" ")
        return ", ".join([f"{number} op{'s' * (number != '1')} {said}", *rest])


def diff(a: Any, b: Any) -> Difference:
    """What changed from one graph to another, of two iterations or two models.

    a: a tensor, Graph, Program, error or Drawing: what `draw` takes without inputs.
    b: another one; what is only here was added.

    >>> x = ex.ones(3, requires_grad=True)
    >>> print(ex.inspect.diff((x * 2).sum(), (x * 2).exp().sum()))
    1 op added
    + exp (3)
    """
    before, after = draw(a).diagram, draw(b).diagram
    return _Comparison(before, after).run()


def marked_differences(before: Diagram, after: Diagram) -> Difference:
    """The same for two diagrams; the items of `after` have afterwards a `status`: added, changed or "" for neither."""
    comparison = _Comparison(before, after)
    found = comparison.run()
    for item in after.items():
        item.status = comparison.status_of(item)
    return found


class _Comparison:
    def __init__(self, before: Diagram, after: Diagram) -> None:
        self._before = before
        self._after = after
        self._joined = Diagram(after.title or before.title)
        self._joined.root.detail = after.root.detail
        self._from_before: dict[int, int] = {}
        self._from_after: dict[int, int] = {}
        self._changes: list[Change] = []

    def run(self) -> Difference:
        old, new = list(self._before.items()), list(self._after.items())
        keys = [[_key(d, item) for item in items] for d, items in ((self._before, old), (self._after, new))]
        for tag, i0, i1, j0, j1 in SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
            if tag == "equal":
                for one, other in zip(old[i0:i1], new[j0:j1], strict=True):
                    self._same(one, other)
                continue
            for item in old[i0:i1]:
                self._only(item, "removed")
            for item in new[j0:j1]:
                self._only(item, "added")
        return Difference(self._changes, self._joined)

    def status_of(self, item: Item) -> str:
        """What became of an item of `after`."""
        return self._joined.item(self._from_after[item.number]).status

    def _same(self, one: Item, other: Item) -> None:
        item = self._put(other, self._after, self._from_after)
        self._from_before[one.number] = item.number
        found = []
        places = [os.path.basename(x.where) for x in (one, other)]
        for kind, was, now in (
            ("shape", " ".join(one.shapes), " ".join(other.shapes)),
            ("arguments", one.arguments, other.arguments),
            ("line", *places),
        ):
            if was != now:
                found.append(Change(kind, other.title, _module(self._after, other), was, now))
        if found:
            item.status = "changed"
            item.notes = [f"was {change.before}" for change in found if change.before]
        self._changes += found

    def _only(self, item: Item, status: str) -> None:
        diagram, numbers = (self._before, self._from_before) if status == "removed" else (self._after, self._from_after)
        put = self._put(item, diagram, numbers)
        put.status, put.is_output = status, item.is_output and status != "removed"
        shapes = " ".join(item.shapes)
        before, after = (shapes, "") if status == "removed" else ("", shapes)
        self._changes.append(Change(status, item.title, _module(diagram, item), before, after))

    def _put(self, item: Item, diagram: Diagram, numbers: dict[int, int]) -> Item:
        """A copy of an item in the joined diagram."""
        put = copy(item)
        put.inputs = [numbers[i] for i in item.inputs if i in numbers]
        put.notes = []
        numbers[item.number] = self._joined.add(put, self._parent(diagram, item))
        return put

    def _parent(self, diagram: Diagram, item: Item) -> int:
        """The group for it: the one that the last item went into, where names are the same."""
        parent = ROOT
        for number in diagram.ancestors(item.number)[1:]:
            group = diagram.group(number)
            if group.period:  # loops are not rolled up here, so that each turn can differ
                continue
            siblings = self._joined.group(parent).members
            last = self._joined.elements[siblings[-1]] if siblings else None
            if isinstance(last, Group) and last.name == group.name and last.detail == group.detail:
                parent = last.number
            else:
                made = Group(group.name, group.kind, group.detail, group.where, n_parameters=group.n_parameters)
                parent = self._joined.add(made, parent)
        return parent


def _key(diagram: Diagram, item: Item) -> tuple[str, ...]:
    names = [diagram.group(g).name for g in diagram.ancestors(item.number)[1:] if diagram.group(g).kind == "module"]
    return (item.op, item.name, *names)


def _module(diagram: Diagram, item: Item) -> str:
    groups = [diagram.group(g) for g in diagram.ancestors(item.number)[1:]]
    return next((g.title for g in reversed(groups) if g.kind == "module"), "")
