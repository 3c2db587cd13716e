"""Rolling up loops: turns that follow one another and do the same become one, with how often.

Two turns are alike if the same ops ran, called from the same instructions, in the same modules. Modules of one list
that differ in nothing but their number (`blocks.0`, `blocks.1`, ...) are rolled up, too, from four on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from .model import Diagram, Group, Item

MOST_PERIOD = 200  # members of a turn
LEAST_OWN = 3  # turns of a loop of ops
LEAST_ALIKE = 4  # modules of a list
Accepts = Callable[[list[int], int], bool]


def roll(diagram: Diagram, accepts: Accepts | None = None) -> None:
    """Make loops of what repeats, in every group, inner ones first.

    `accepts(members, period)`: whether a repetition is a loop, where instructions do not say it (on the tape). Then the
    longest one counts, as a shorter one within a turn would be chance.
    """
    _Rolling(diagram, accepts or partial(_is_loop, diagram), takes_longest=accepts is not None).run(diagram.root)
    for group in list(diagram.groups()):
        if group.period:
            for i, member in enumerate(group.members[group.period :]):
                _pair(diagram, group.number, member, group.members[i % group.period])


def hands_on(diagram: Diagram, members: list[int], period: int) -> bool:
    """Whether each turn uses something that the one before it made."""
    turns = [members[i : i + period] for i in range(0, len(members), period)]
    for before, turn in pairwise(turns):
        earlier = {item.number for member in before for item in diagram.inside(member)}
        items = (item for member in turn for item in diagram.inside(member))
        if not any(number in earlier for item in items for number in item.inputs):
            return False
    return True


def _is_loop(diagram: Diagram, members: list[int], period: int) -> bool:
    """Calls of modules are one if they repeat; ops must hand something on, or be written in the user's own loop.

    Two turns of ops may be chance: one function that runs an op twice.
    """
    turn = [diagram.elements[member] for member in members[:period]]
    if any(isinstance(element, Group) for element in turn):
        return True
    is_own = all(isinstance(e, Item) and isinstance(e.spot, tuple) and len(e.spot) == 1 for e in turn)
    return len(members) // period >= LEAST_OWN and (is_own or hands_on(diagram, members, period))


class Repetition(NamedTuple):
    """Where turns begin, how many members each has, and how many there are."""

    at: int
    period: int
    turns: int


class _Rolling:
    def __init__(self, diagram: Diagram, accepts: Accepts, takes_longest: bool) -> None:
        self._diagram = diagram
        self._takes_longest = takes_longest
        self._accepts = accepts
        self._numbers: dict[object, int] = {}  # of what is alike
        self._alike: dict[int, int] = {}  # of elements
        self._exact: dict[int, int] = {}

    def run(self, group: Group) -> None:
        for member in list(group.members):
            element = self._diagram.elements[member]
            if isinstance(element, Group):
                self.run(element)
        for signature, least in ((self._exact_signature, 2), (self._alike_signature, LEAST_ALIKE)):
            while self._roll(group, signature, least):
                pass  # what was rolled up may itself be part of a turn

    def _roll(self, group: Group, signature: Callable[[int], int], least: int) -> bool:
        """Make loops of what repeats among the members of a group; whether there was any."""
        signatures = [signature(member) for member in group.members]
        periods = range(1, min(MOST_PERIOD, len(signatures) // 2) + 1)
        repetitions = sorted(
            (found for period in periods for found in _repetitions(signatures, period) if found.turns >= least),
            key=lambda found: (-found.period * found.turns if self._takes_longest else found.period, found.at),
        )
        accepted: list[tuple[list[int], int]] = []
        taken: set[int] = set()
        for at, period, turns in repetitions:
            if accepted and (period != accepted[0][1] or self._takes_longest):
                break  # others may look different once these are rolled up
            members = group.members[at : at + period * turns]
            if taken.isdisjoint(members) and self._accepts(members, period):
                accepted.append((members, period))
                taken.update(members)
        for members, period in accepted:
            first = [self._diagram.elements[member] for member in members[:period]]
            loop = Group(_name(first, least == LEAST_ALIKE), "loop", where=first[0].where)
            loop.n_parameters = sum(e.n_parameters for e in first if isinstance(e, Group))
            self._diagram.move_into(loop, members, period)
        return bool(accepted)

    def _exact_signature(self, number: int) -> int:
        if number not in self._exact:
            element = self._diagram.elements[number]
            if isinstance(element, Item):
                key: object = (element.op, element.kind, element.spot, len(element.shapes))
            else:
                turn = element.members[: element.period] if element.period else element.members
                inside = tuple(map(self._exact_signature, turn))
                key = (element.kind, element.name, element.detail, inside)
            self._exact[number] = self._numbers.setdefault(key, len(self._numbers))
        return self._exact[number]

    def _alike_signature(self, number: int) -> int:
        """The same for modules of a list: what they do and the shapes matter, their number does not."""
        element = self._diagram.elements[number]
        if isinstance(element, Group) and element.kind == "module" and element.name.rpartition(".")[2].isdigit():
            inside = tuple(map(self._contents, element.members))
            key = (element.name.rpartition(".")[0], element.detail, inside)
            return self._numbers.setdefault(key, len(self._numbers))
        return self._exact_signature(number)

    def _contents(self, number: int) -> object:
        element = self._diagram.elements[number]
        if isinstance(element, Item):
            return (element.op, element.kind, tuple(element.shapes), len(element.parameters))
        return (element.name, element.turns, tuple(map(self._contents, element.members)))


def _repetitions(signatures: list[int], period: int) -> Iterator[Repetition]:
    """The stretches in which each element is like the one a period before it, as far as they are whole turns."""
    at, n = 0, len(signatures)
    while at + 2 * period <= n:
        end = at
        while end + period < n and signatures[end] == signatures[end + period]:
            end += 1
        turns = (end - at) // period + 1
        if turns > 1:
            yield Repetition(at, period, turns)
        at = max(end, at) + 1


def _name(turn: list[Item | Group], is_alike: bool) -> str:
    """`embed, cell`; of modules that are alike without their numbers: `blocks: Block`."""
    names = [_own_name(element, is_alike) for element in turn]
    names = list(dict.fromkeys(names))
    return ", ".join(names) if len(names) <= 3 else f"{names[0]}, …, {names[-1]}"


def _own_name(element: Item | Group, is_alike: bool) -> str:
    if isinstance(element, Item):
        return element.title
    around = element.name.rpartition(".")[0] if is_alike else element.name
    return f"{around}: {element.detail}" if is_alike and around else around or element.detail


def _pair(diagram: Diagram, loop: int, later: int, first: int) -> None:
    """Say of a later element, and of all in it, which one stands for it while the loop is rolled up."""
    diagram.twins.setdefault(later, {})[loop] = first
    a, b = diagram.elements[later], diagram.elements[first]
    if isinstance(a, Group) and isinstance(b, Group):
        for i, member in enumerate(a.members):
            twin = b.members[i] if i < len(b.members) else b.members[i % b.period if b.period else -1]
            _pair(diagram, loop, member, twin)
