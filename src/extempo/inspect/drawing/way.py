"""The way to a chosen node: all that its value was made from."""

from __future__ import annotations

from .model import Diagram, Item


def chosen(diagram: Diagram, to: str | int) -> list[int]:
    """The items that a choice means: a module's or op's name, an input's, a line (`model.py:12`) or a number."""
    if isinstance(to, int):
        return [item.number for item in diagram.inside(to)] if 0 <= to < len(diagram.elements) else []
    found: list[int] = []
    for element in diagram.elements:
        is_there = element.where and element.where.endswith(to) and ":" in to
        names = (element.title, element.name, element.op if isinstance(element, Item) else element.detail)
        if to in names or is_there:
            found += [item.number for item in diagram.inside(element.number)]
    if not found:
        known = sorted({e.title for e in diagram.elements if e.title})
        shown = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
        raise KeyError(f"draw: nothing here is called {to!r}; there are {shown}")
    return found


def way_to(diagram: Diagram, to: str | int) -> set[int]:
    """The chosen items and everything that they depend on."""
    stack = chosen(diagram, to)
    found = set(stack)
    while stack:
        for number in diagram.item(stack.pop()).inputs:
            if number not in found:
                found.add(number)
                stack.append(number)
    return found
