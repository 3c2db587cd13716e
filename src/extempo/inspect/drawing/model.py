"""The picture model: items (ops and leaves), groups (modules, loops, lines) and what flows between them.

Everything that can be drawn becomes one `Diagram`; every format is written from one. Elements, items and groups alike,
have the numbers of their places in `Diagram.elements`, and items stand in the order in which they ran, so that an
item's inputs have smaller places than itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

ROOT = 0


@dataclass
class Parameter:
    """A parameter, buffer or constant that an op reads: it stands beside its op, not in the flow."""

    name: str
    shape: str
    learns: bool  # gradients flow to it


@dataclass
class Item:
    """One op that ran, or a value from outside (`kind` is op, input or error)."""

    op: str
    kind: str = "op"
    name: str = ""  # of an input
    shapes: list[str] = field(default_factory=list)  # of its results, such as "(4, 3)"
    types: list[str] = field(default_factory=list)  # the same with the dtype, such as "float32 (4, 3)"
    inputs: list[int] = field(default_factory=list)
    arguments: str = ""  # attributes and numbers, such as "dim=1"
    parameters: list[Parameter] = field(default_factory=list)
    where: str = ""  # "train.py:12"
    spot: object = None  # where in the code, precisely enough to know the next turn of a loop by it
    values: str = ""  # a summary of its result
    grad: bool = False  # gradients flow through
    is_output: bool = False
    message: str = ""  # of the error that it raised, or what a diff says of it
    status: str = ""  # in a diff: added, removed or changed
    notes: list[str] = field(default_factory=list)  # what a plan or a batch made of it
    number: int = -1
    parent: int = ROOT

    @property
    def title(self) -> str:
        return self.name or self.op


@dataclass
class Group:
    """Elements that fold into one: a module's call, a loop, the ops of one line (`kind`: root, module, loop, line)."""

    name: str
    kind: str
    detail: str = ""  # the class of a module, the code of a line
    where: str = ""
    members: list[int] = field(default_factory=list)
    period: int = 0  # of a loop: how many members a turn has
    n_parameters: int = 0
    notes: list[str] = field(default_factory=list)  # what a batch made of it
    number: int = -1
    parent: int = ROOT

    @property
    def turns(self) -> int:
        return len(self.members) // self.period if self.period else 1

    @property
    def title(self) -> str:
        named = f"{self.name}: {self.detail}" if self.kind == "module" and self.name and self.detail else ""
        title = named or self.name or self.detail
        return f"{title} x {self.turns}" if self.period else title


Element = Item | Group


class Diagram:
    """What there is to draw. `twins`: of an element in a later turn of a loop, by the loop, the one in the first."""

    def __init__(self, title: str = "", detail: str = "") -> None:
        self.title = title
        self.elements: list[Element] = [Group(title, "root", detail, number=ROOT)]
        self.twins: dict[int, dict[int, int]] = {}
        self.notes: list[str] = []  # about the whole, shown below the title
        self.error = ""  # what the program raised

    def add(self, element: Element, parent: int) -> int:
        """Put it at the end of a group; its number."""
        element.number = len(self.elements)
        element.parent = parent
        self.elements.append(element)
        self.group(parent).members.append(element.number)
        return element.number

    def group(self, number: int) -> Group:
        found = self.elements[number]
        assert isinstance(found, Group)
        return found

    def item(self, number: int) -> Item:
        found = self.elements[number]
        assert isinstance(found, Item)
        return found

    @property
    def root(self) -> Group:
        return self.group(ROOT)

    def items(self) -> Iterator[Item]:
        """In the order in which they ran."""
        return (e for e in self.elements if isinstance(e, Item))

    def groups(self) -> Iterator[Group]:
        return (e for e in self.elements if isinstance(e, Group))

    def ops(self) -> Iterator[Item]:
        return (item for item in self.items() if item.kind in ("op", "error"))

    def ancestors(self, number: int) -> list[int]:
        """The groups around an element, the root first."""
        found: list[int] = []
        while number != ROOT:
            number = self.elements[number].parent
            found.append(number)
        return found[::-1]

    def inside(self, number: int) -> Iterator[Item]:
        """All items below an element."""
        element = self.elements[number]
        if isinstance(element, Item):
            yield element
        else:
            for member in element.members:
                yield from self.inside(member)

    def move_into(self, group: Group, members: Sequence[int], period: int) -> int:
        """Make a group of members that stand side by side in theirs."""
        parent = self.elements[members[0]].parent
        siblings = self.group(parent).members
        at = siblings.index(members[0])
        group.number, group.parent, group.members, group.period = len(self.elements), parent, list(members), period
        self.elements.append(group)
        siblings[at : at + len(members)] = [group.number]
        for member in members:
            self.elements[member].parent = group.number
        return group.number


def shape_text(shape: Sequence[object]) -> str:
    return f"({', '.join(map(str, shape))})"


def shapes_text(shapes: Sequence[str]) -> str:
    """Of the results of an op, the first of many.

    >>> shapes_text(["(2, 3)"]), shapes_text(["(2, 3)", "(2)", "(2)"])
    ('(2, 3)', '(2, 3) +2')
    """
    return f"{shapes[0]} +{len(shapes) - 1}" if len(shapes) > 1 else "".join(shapes)
