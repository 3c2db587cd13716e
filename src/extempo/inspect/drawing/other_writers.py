"""A view in the languages of other tools: Graphviz's DOT and Mermaid."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .layout import lines_of, pill_text
from .model import ROOT, Group, shapes_text
from .view import View

_DOT_SHAPES = {"op": "box", "input": "oval", "error": "octagon"}
_COLOURS = {"added": "#2b8a3e", "removed": "#b3261e", "changed": "#b07900"}


def dot_of(view: View, title: str) -> str:
    """For `dot -Tsvg`."""
    lines = [
        "digraph {",
        f"  label={_dot(title or view.diagram.root.detail)}; labelloc=t; fontname=Helvetica; compound=true;",
        "  node [shape=box, style=rounded, fontname=Helvetica, fontsize=11];",
        "  edge [fontname=Helvetica, fontsize=9, color=gray40];",
        *_nested(view, ROOT, "  ", _dot_open, _dot_box),
    ]
    for edge in view.edges:
        label = shapes_text(view.diagram.item(edge.item).shapes)
        style = ", style=dashed, constraint=false" if edge.is_carried else ", style=dotted" if edge.is_cut else ""
        lines.append(f"  n{edge.source} -> n{edge.target} [label={_dot(label)}{style}];")
    return "\n".join([*lines, "}"]) + "\n"


def mermaid_of(view: View, title: str) -> str:
    """For a page or a README that knows Mermaid."""
    named = title or view.diagram.root.detail
    lines = ["---", f"title: {_yaml(named)}", "---"] if named else []
    lines += ["flowchart TD", *_nested(view, ROOT, "  ", _mermaid_open, _mermaid_box)]
    for edge in view.edges:
        label = _mermaid(shapes_text(view.diagram.item(edge.item).shapes))
        arrow = "-.->" if edge.is_carried or edge.is_cut else "-->"
        lines.append(
            f"  n{edge.source} {arrow}|{label}| n{edge.target}"
            if label != '""'
            else f"  n{edge.source} {arrow} n{edge.target}"
        )
    for item in view.diagram.items():
        colour = _COLOURS.get(item.status) or ("#b3261e" if item.kind == "error" else "")
        if colour and item.number in view.frame_of:
            lines.append(f"  style n{item.number} stroke:{colour},stroke-width:2px")
    return "\n".join(lines) + "\n"


def _nested(
    view: View, frame: int, indent: str, opening: Callable[[Group], tuple[str, str]], box: Callable[..., list[str]]
) -> Iterator[str]:
    for child in view.children(frame):
        element = view.diagram.elements[child]
        if isinstance(element, Group) and child in view.opened:
            first, last = opening(element)
            yield indent + first
            yield from _nested(view, child, indent + "  ", opening, box)
            yield indent + last
        else:
            yield from (indent + line for line in box(view, child))


def _dot(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _dot_open(group: Group) -> tuple[str, str]:
    return f"subgraph cluster_{group.number} {{ label={_dot(group.title)}; color=gray70; style=rounded;", "}"


def _dot_box(view: View, number: int) -> list[str]:
    element = view.diagram.elements[number]
    label = "\n".join(filter(None, lines_of(view, number)))
    if isinstance(element, Group):
        return [f"n{number} [label={_dot(label)}, peripheries=2];"]
    colour = _COLOURS.get(element.status) or ("#b3261e" if element.kind == "error" else "")
    more = f", color={_dot(colour)}" if colour else ", penwidth=2" if element.is_output else ""
    lines = [f"n{number} [label={_dot(label)}, shape={_DOT_SHAPES[element.kind]}{more}];"]
    for i, parameter in enumerate(element.parameters):
        text = _dot(pill_text(parameter.name, parameter.shape))
        lines.append(f'n{number}p{i} [label={text}, shape=oval, color="#1f6fb4", fontsize=9];')
        lines.append(f'n{number}p{i} -> n{number} [color="#1f6fb4"];')
    return lines


def _mermaid(text: str) -> str:
    escaped = text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
    return f'"{escaped}"'


def _yaml(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _mermaid_open(group: Group) -> tuple[str, str]:
    return f"subgraph g{group.number}[{_mermaid(group.title)}]", "end"


def _mermaid_box(view: View, number: int) -> list[str]:
    element = view.diagram.elements[number]
    label = _mermaid("\n".join(filter(None, lines_of(view, number)))).replace("\n", "<br>")
    if isinstance(element, Group):
        return [f"n{number}[[{label}]]"]
    if element.kind == "input":
        return [f"n{number}([{label}])"]
    lines = [f"n{number}[{label}]"]
    for i, parameter in enumerate(element.parameters):
        lines.append(f"n{number}p{i}([{_mermaid(pill_text(parameter.name, parameter.shape))}]) --> n{number}")
    return lines
