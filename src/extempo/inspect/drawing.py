"""`draw`: a graph as a plain picture, from leaves at the top to results at the bottom.

A node stands below all that it uses, right above its first use; a line runs down its source's column, which is kept
free for it.
"""

from __future__ import annotations

from typing import Any

from ..core.graph import Graph, Leaf, Node, Pick, type_text
from ..core.tensor import Tensor
from ..exporting.program import Program
from ..func.tree import leaves
from ..nn import Module
from ..ragged_tensors.tensor import RaggedTensor
from .svg import FAINT, INK, Picture

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 148, 34, 16, 30, 16
_LINE = "#a5a5a5"
MOST_OPS = 120


def draw(what: Any, title: str = "", model: Module | None = None) -> Picture:
    """A picture of a graph, a program, or the graph that tensors were made by. `.save("graph.svg")` writes it.

    Leaves that require grad have a blue frame, results a bold one; each op says its type, and its line when the mouse
    is over it. With `model`, its parameters stand there by their names. Of a graph with more than 120 ops the last ones
    are drawn, with a note; a dotted line comes from an op that is left out.

    >>> x = ex.tensor(3.0, requires_grad=True)
    >>> str(ex.inspect.draw(x * x)).startswith("<svg")
    True
    """
    program = what if isinstance(what, Program) else None
    graph = program.graph if program is not None else what if isinstance(what, Graph) else _graph(what)
    nodes, n_ops = _drawn(graph)
    if not nodes:
        return _nothing(title)
    cells = _grid(nodes)
    hides = n_ops > MOST_OPS
    heading = _heading(title, n_ops) if title or hides else ""
    top = _MARGIN + (24 if heading else 0) + (_GAP_Y / 2 if hides else 0)
    n_columns, n_layers = (max(numbers) + 1 for numbers in zip(*cells.values(), strict=True))
    picture = Picture(
        2 * _MARGIN + n_columns * (_WIDTH + _GAP_X) - _GAP_X,
        top + _MARGIN + n_layers * (_HEIGHT + _GAP_Y) - _GAP_Y,
        title or "Computation graph",
    )
    if heading:
        picture.text(_MARGIN, _MARGIN + 10, heading, size=14, font_weight=600)
    corners: dict[Node, tuple[float, float]] = {
        node: (_MARGIN + column * (_WIDTH + _GAP_X), top + layer * (_HEIGHT + _GAP_Y))
        for node, (column, layer) in cells.items()
    }
    for node in nodes:
        _draw_lines(picture, node, corners)
    outputs = {_picked(node) for node in graph.outputs}
    names = _names(model) if model is not None else program.leaf_names if program is not None else {}
    for node in nodes:
        _draw_box(picture, node, corners[node], node in outputs, names)
    return picture


def _heading(title: str, n_ops: int) -> str:
    left_out = f"the last {MOST_OPS} of {n_ops:,} ops" if n_ops > MOST_OPS else ""
    return f"{title} ({left_out})" if title and left_out else title or left_out


def _draw_lines(picture: Picture, node: Node, corners: dict[Node, tuple[float, float]]) -> None:
    """From the sources of a node to its box."""
    x, y = corners[node]
    end = (x + _WIDTH / 2, y)
    for source in _sources(node):
        if source in corners:
            from_x, from_y = corners[source]
            middle = from_x + _WIDTH / 2
            picture.path([(middle, from_y + _HEIGHT), (middle, y - _GAP_Y), end], stroke=_LINE, stroke_linejoin="round")
        else:
            picture.path([(x + _WIDTH / 2, y - _GAP_Y / 2), end], stroke=_LINE, stroke_dasharray="2 3")


def _draw_box(
    picture: Picture, node: Node, corner: tuple[float, float], is_output: bool, names: dict[Node, str]
) -> None:
    x, y = corner
    is_leaf = node.op is Leaf
    learned = is_leaf and node.requires_grad
    frame = "#1f6fb4" if learned else (INK if is_output else _LINE)
    fill = "#eef4fa" if is_leaf else "#ffffff"
    thick = 1.5 if learned or is_output else 1
    hover = (node.line if node.where else "") or node.op.name
    picture.rect(x, y, _WIDTH, _HEIGHT, rx=4, fill=fill, stroke=frame, stroke_width=thick, title=hover)
    name = names.get(node, "parameter" if learned else "input") if is_leaf else node.op.name
    picture.text(x + _WIDTH / 2, y + 14, _short(name, 22), anchor="middle", size=12)
    picture.text(x + _WIDTH / 2, y + 27, _short(type_text(node.type), 26), anchor="middle", size=9.5, fill=FAINT)


def _graph(what: Any) -> Graph:
    """Of a tensor, ragged or not, or of all in a tuple, list or dict."""
    found = [leaf.values() if isinstance(leaf, RaggedTensor) else leaf for leaf in leaves(what)]
    strange = next((type(leaf).__name__ for leaf in found if not isinstance(leaf, Tensor)), None)
    if strange is not None:
        hint = "; draw what it gives: draw(model(x), model=model)" if isinstance(what, Module) else ""
        raise TypeError(f"draw: expected a tensor or a Graph, got {strange}{hint}")
    return Graph.of(*found)


def _nothing(title: str) -> Picture:
    picture = Picture(440, 64, title or "Computation graph")
    picture.text(_MARGIN, _MARGIN + 10, title or "Computation graph", size=14, font_weight=600)
    why = "nothing was recorded: nothing requires grad, or the graph is freed"
    picture.text(_MARGIN, _MARGIN + 32, why, fill=FAINT)
    return picture


def _names(model: Module) -> dict[Node, str]:
    return {node: name for name, parameter in model.named_parameters() for node in Graph.of(parameter).outputs}


def _drawn(graph: Graph) -> tuple[list[Node], int]:
    """The last ops with the leaves that they use, and how many ops there are in all."""
    ops = [node for node in graph.nodes if node.op is not Pick and node.op is not Leaf]
    if len(ops) <= MOST_OPS:
        return [node for node in graph.nodes if node.op is not Pick], len(ops)
    shown = set(ops[-MOST_OPS:])
    shown |= {source for node in shown for source in _sources(node) if source.op is Leaf}
    return [node for node in graph.nodes if node in shown], len(ops)


def _picked(node: Node) -> Node:
    return node.inputs[0] if node.op is Pick else node


def _sources(node: Node) -> list[Node]:
    return [_picked(i) for i in node.inputs if isinstance(i, Node)]


def _grid(nodes: list[Node]) -> dict[Node, tuple[int, int]]:
    """(column, layer) of each node: below all that it uses, right above its first use, near its fellows."""
    users: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node in nodes:
        for source in _sources(node):
            if source in users:
                users[source].append(node)
    layer = _layers(nodes, users)
    first = min(layer.values())
    taken: set[tuple[int, int]] = set()
    cells: dict[Node, tuple[int, int]] = {}
    for node in sorted(nodes, key=lambda n: (layer[n], n.op is Leaf, n.number)):
        # Its column stays free down to its last use, so that no line passes behind a box.
        last_use = max((layer[user] for user in users[node]), default=layer[node])
        span = range(layer[node], max(last_use, layer[node] + 1))
        fellows = _sources(node) or [s for user in users[node][:1] for s in _sources(user)]
        wanted = next((cells[s][0] for s in fellows if s in cells), 0)
        nearest = sorted(range(wanted + len(nodes) + 1), key=lambda c: (abs(c - wanted), c))
        column = next(c for c in nearest if not any((c, at) in taken for at in span))
        taken |= {(column, at) for at in span}
        cells[node] = (column, layer[node] - first)
    return cells


def _layers(nodes: list[Node], users: dict[Node, list[Node]]) -> dict[Node, int]:
    """As high as what it uses allows, then as low as its users allow."""
    layer: dict[Node, int] = {}
    for node in nodes:
        layer[node] = max((layer[source] + 1 for source in _sources(node) if source in users), default=0)
    for node in reversed(nodes):
        layer[node] = min((layer[user] - 1 for user in users[node]), default=layer[node])
    return layer


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
