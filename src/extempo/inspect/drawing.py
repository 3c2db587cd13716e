"""`draw`: a graph as a plain picture, from leaves at the top to results at the bottom.

A node stands below all that it uses; a line runs down its source's column, which is kept free for it.
"""

from __future__ import annotations

from typing import Any

from ..graph import Graph, Leaf, Node, Pick, type_text
from ..nn import Module
from ..svg import FAINT, GRID, INK, Picture

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 148, 34, 16, 30, 16
MOST_NODES = 400


def draw(what: Any, title: str = "", model: Module | None = None) -> Picture:
    """A picture of a graph, or of the graph that a tensor was made by. `.save("graph.svg")` writes it.

    Leaves that require grad have a blue frame, results a bold one; each op says its type, and its line when the mouse
    is over it. With `model`, its parameters stand there by their names.

    >>> x = ex.tensor(3.0, requires_grad=True)
    >>> str(ex.inspect.draw(x * x)).startswith("<svg")
    True
    """
    graph = what if isinstance(what, Graph) else Graph.of(what)
    names = _names(model) if model is not None else {}
    nodes = [node for node in graph.nodes if node.op is not Pick]
    hidden = max(0, len(nodes) - MOST_NODES)
    nodes = nodes[-MOST_NODES:] if hidden else nodes
    places = _places(nodes)
    n_columns = max((column for column, _ in places.values()), default=0) + 1
    n_layers = max((layer for _, layer in places.values()), default=0) + 1
    top = _MARGIN + (24 if title or hidden else 0)
    picture = Picture(
        2 * _MARGIN + n_columns * (_WIDTH + _GAP_X) - _GAP_X,
        top + _MARGIN + n_layers * (_HEIGHT + _GAP_Y) - _GAP_Y,
        title or "Computation graph",
    )
    said = title + (f" (the last {MOST_NODES} of {MOST_NODES + hidden} nodes)" if hidden else "")
    if said:
        picture.text(_MARGIN, _MARGIN + 10, said, size=14, font_weight=600)

    def corner(node: Node) -> tuple[float, float]:
        column, layer = places[node]
        return _MARGIN + column * (_WIDTH + _GAP_X), top + layer * (_HEIGHT + _GAP_Y)

    for node in nodes:
        x, y = corner(node)
        for source in _sources(node):
            if source in places:
                from_x, from_y = corner(source)
                middle = from_x + _WIDTH / 2
                way = [(middle, from_y + _HEIGHT), (middle, y - _GAP_Y), (x + _WIDTH / 2, y)]
                picture.path(way, stroke="#b5b5b5", stroke_linejoin="round")
    outputs = {_picked(node) for node in graph.outputs}
    for node in nodes:
        x, y = corner(node)
        learned = node.op is Leaf and node.requires_grad
        frame = "#1f6fb4" if learned else (INK if node in outputs else GRID)
        where = node.line if node.where else ""
        fill = "#eef4fa" if node.op is Leaf else "#ffffff"
        thick = 1.5 if learned or node in outputs else 1
        picture.rect(
            x, y, _WIDTH, _HEIGHT, rx=4, fill=fill, stroke=frame, stroke_width=thick, title=where or node.op.name
        )
        name = names.get(node, "parameter" if learned else "input") if node.op is Leaf else node.op.name
        picture.text(x + _WIDTH / 2, y + 14, _short(name, 22), anchor="middle", size=12)
        picture.text(x + _WIDTH / 2, y + 27, _short(type_text(node.type), 26), anchor="middle", size=9.5, fill=FAINT)
    return picture


def _names(model: Module) -> dict[Node, str]:
    return {node: name for name, parameter in model.named_parameters() for node in Graph.of(parameter).outputs}


def _picked(node: Node) -> Node:
    return node.inputs[0] if node.op is Pick else node


def _sources(node: Node) -> list[Node]:
    return [_picked(i) for i in node.inputs if isinstance(i, Node)]


def _places(nodes: list[Node]) -> dict[Node, tuple[int, int]]:
    """(column, layer) of each node: below all that it uses, leaves right above their first use, near their fellows."""
    layer: dict[Node, int] = {}
    for node in nodes:
        if node.op is not Leaf:
            above = [layer[s] for s in _sources(node) if s in layer]
            layer[node] = max(above, default=0) + 1
    for node in reversed(nodes):
        for source in _sources(node):
            if source.op is Leaf:
                layer[source] = min(layer.get(source, layer[node] - 1), layer[node] - 1)
    for node in nodes:
        layer.setdefault(node, 0)
    last_use = dict(layer)
    for node in nodes:
        for source in _sources(node):
            if source in last_use:
                last_use[source] = max(last_use[source], layer[node])
    first = min(layer.values(), default=0)
    taken: set[tuple[int, int]] = set()
    places: dict[Node, tuple[int, int]] = {}
    for node in sorted(nodes, key=lambda n: (layer[n], n.op is Leaf, n.number)):
        # Its column stays free down to its last use, so that no line passes behind a box.
        span = range(layer[node], max(last_use[node], layer[node] + 1))
        wanted = next((places[s][0] for s in _sources(node) if s in places), 0)
        nearest = sorted(range(wanted + len(nodes) + 1), key=lambda c: (abs(c - wanted), c))
        column = next(c for c in nearest if not any((c, at) in taken for at in span))
        taken |= {(column, at) for at in span}
        places[node] = (column, layer[node] - first)
    return places


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
