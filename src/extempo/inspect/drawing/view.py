"""View: what is to be seen of a diagram while some groups are folded and loops are rolled up.

`viewer.js` does the same in a browser, where groups fold and unfold; `tests/inspect/drawing/test_viewer.py` compares.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from .model import ROOT, Diagram, Group

MOST_BOXES = 16  # that a picture has unless it is asked for more


@dataclass
class Edge:
    """Values that go from one box to another."""

    source: int
    target: int
    item: int  # whose result it carries
    is_carried: bool = False  # from one turn of a loop to the next
    is_cut: bool = False  # gradients come to its end and not beyond: detach(), no_grad, an op that has none


class View:
    """Boxes (items and folded groups) inside frames (open groups), and the edges between boxes."""

    def __init__(self, diagram: Diagram, opened: Collection[int], unrolled: Collection[int] = ()) -> None:
        self.diagram = diagram
        self.opened = {ROOT, *opened}
        self.unrolled = set(unrolled)
        self.frames: list[int] = []  # open groups, outer ones first
        self.boxes: list[int] = []  # in the order in which they ran
        self.frame_of: dict[int, int] = {}  # of boxes and frames, the frame around them
        self._box_of: dict[int, int] | None = None
        self._edges: list[Edge] | None = None
        self._collect(ROOT)

    def is_rolled(self, group: Group) -> bool:
        return bool(group.period) and group.number not in self.unrolled

    def children(self, number: int) -> list[int]:
        """What stands in an open group. A loop of one module shows what is in the module, without a second frame."""
        group = self.diagram.group(number)
        if not self.is_rolled(group):
            return group.members
        turn = group.members[: group.period]
        only = self.diagram.elements[turn[0]] if len(turn) == 1 else None
        return self.children(only.number) if isinstance(only, Group) else turn

    def _collect(self, number: int) -> None:
        self.frames.append(number)
        for child in self.children(number):
            self.frame_of[child] = number
            if isinstance(self.diagram.elements[child], Group) and child in self.opened:
                self._collect(child)
            else:
                self.boxes.append(child)

    def resolve(self, number: int) -> int:
        """The element that stands for this one while loops are rolled up."""
        while twins := self.diagram.twins.get(number):
            rolled = [loop for loop in self.diagram.ancestors(number) if loop in twins and loop not in self.unrolled]
            if not rolled:
                break
            number = twins[rolled[0]]
        return number

    def box(self, number: int) -> int:
        """The box that an item is in, or is."""
        found = self.resolve(number)
        for around in self.diagram.ancestors(found):
            if around in self.frame_of and around not in self.opened:
                return around
        return found

    @property
    def box_of(self) -> dict[int, int]:
        """Of every item."""
        if self._box_of is None:
            self._box_of = {item.number: self.box(item.number) for item in self.diagram.items()}
        return self._box_of

    @property
    def edges(self) -> list[Edge]:
        """Those between boxes, each once."""
        if self._edges is None:
            self._edges = self._find_edges()
        return self._edges

    def _find_edges(self) -> list[Edge]:
        found: dict[tuple[int, int, bool], Edge] = {}
        order = {box: place for place, box in enumerate(self.boxes)}
        for item in self.diagram.items():
            target = self.box_of[item.number]
            for number in item.inputs:
                source = self.box_of[number]
                if source == target and not self._is_handed_on(number, item.number, source):
                    continue
                is_carried = order[source] >= order[target]
                is_cut = self.diagram.item(number).grad and not item.grad and item.kind == "op"
                edge = found.setdefault((source, target, is_carried), Edge(source, target, number, is_carried, is_cut))
                edge.is_cut &= is_cut
        return list(found.values())

    def _is_handed_on(self, source: int, target: int, box: int) -> bool:
        """Whether a value within one box goes from one turn of a rolled loop to the next."""
        for around in (*self.diagram.ancestors(box), box):
            group = self.diagram.elements[around]
            is_rolled = isinstance(group, Group) and self.is_rolled(group)
            if is_rolled and self._turn(around, source) != self._turn(around, target):
                return True
        return False

    def _turn(self, loop: int, number: int) -> int:
        """The turn of a loop that an element is in, or -1."""
        chain = [*self.diagram.ancestors(number), number]
        if loop not in chain:
            return -1
        group = self.diagram.group(loop)
        return group.members.index(chain[chain.index(loop) + 1]) // group.period


def opened_to(diagram: Diagram, depth: int | None, unrolled: Collection[int] = (), most: int = MOST_BOXES) -> set[int]:
    """The groups to open: down to a depth, or the outer ones first as far as there are at most so many boxes."""
    opened, level, reached = {ROOT}, [ROOT], 0
    if depth is None:  # what failed or changed is never hidden
        marked = (item for item in diagram.ops() if item.kind == "error" or item.status)
        opened |= {group for item in marked for group in diagram.ancestors(item.number)}
    while level and (depth is None or reached < depth):
        view = View(diagram, opened, unrolled)
        inner = [c for group in level for c in view.children(group) if isinstance(diagram.elements[c], Group)]
        level = []
        for group in inner:
            is_worth_it = len(view.children(group)) > 1  # a frame around one op says no more than its box
            if (
                depth is not None
                or group in opened
                or (is_worth_it and len(View(diagram, opened | {group}, unrolled).boxes) <= most)
            ):
                opened.add(group)
                level.append(group)
        reached += 1
    return opened
