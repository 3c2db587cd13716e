"""A diagram of a Graph: of the history that tensors carry, or of an exported program.

Nodes of a history know their lines and nothing of modules. So ops of one line that follow one another fold into that
line, and a loop is what repeats, hands a value on and reads the same parameters in each turn. Graphs inside of nodes
(the body of a loop, the branches of a condition) are groups.
"""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from typing import Any

from ...core.graph import Graph, Leaf, Node, Pick, type_text
from ...core.types import TensorType
from ...nn import Parameter as LearnedTensor
from .model import ROOT, Diagram, Group, Item, Parameter, shape_text
from .rolling import hands_on, roll

LEAST_OF_LINE = 3  # ops that fold into their line


def diagram_of(
    graph: Graph,
    names: Mapping[Node, str],
    inputs: Mapping[Node, str],
    title: str = "",
    made: dict[Node, int] | None = None,
) -> Diagram:
    """`names`: of parameters, which stand beside their ops; `inputs`: of leaves that the graph is given.

    `made` is filled with the item of each node.
    """
    diagram = Diagram(title)
    reading = _Reading(diagram, names, inputs, {} if made is None else made)
    reading.graph(graph, ROOT)
    roll(diagram, lambda members, period: _is_loop(diagram, members, period))
    for group in list(diagram.groups()):
        _fold_lines(diagram, group)
    return diagram


class _Reading:
    def __init__(
        self, diagram: Diagram, names: Mapping[Node, str], inputs: Mapping[Node, str], items: dict[Node, int]
    ) -> None:
        self._diagram = diagram
        self._names = names
        self._inputs = inputs
        self._items = items
        self._pills: dict[Node, Parameter] = {}

    def graph(self, graph: Graph, parent: int) -> None:
        outputs = {picked(node) for node in graph.outputs}
        for node in graph:
            if node.op is Pick:
                self._items[node] = self._items[node.inputs[0]]
            elif node.op is Leaf:
                self._leaf(node, parent, node in outputs)
            else:
                self._op(node, parent, node in outputs and parent == ROOT)

    def _leaf(self, node: Node, parent: int, is_output: bool) -> None:
        is_parameter = node in self._names or isinstance(node.variable, LearnedTensor)
        is_input = node in self._inputs or (node.requires_grad and not is_parameter)
        name = self._inputs.get(node) or self._names.get(node) or ("parameter" if is_parameter else "input")
        if is_input or is_output:
            item = Item("leaf", "input", name, *_types(node.type), grad=node.requires_grad, is_output=is_output)
            self._items[node] = self._diagram.add(item, parent)
        else:
            shape = " ".join(_types(node.type)[0])
            label = name if is_parameter else "constant"
            self._pills[node] = Parameter(label, shape, node.requires_grad)

    def _op(self, node: Node, parent: int, is_output: bool) -> None:
        item = Item(node.op.name, "op", "", *_types(node.type), is_output=is_output)
        item.where, item.spot, item.grad = node.line, node.where, node.requires_grad
        graphs = {key: value for key, value in node.attrs.items() if isinstance(value, Graph)}
        others = []
        for value in node.inputs:
            if not isinstance(value, Node):
                others += [repr(value)] if value is not None else []
            elif value in self._pills:
                item.parameters.append(self._pills[value])
            else:
                item.inputs.append(self._items[value])
        others += [f"{key}={value!r}" for key, value in node.attrs.items() if key not in graphs]
        item.arguments = ", ".join(others)
        if graphs:
            parent = self._diagram.add(Group(node.op.name, "control", where=node.line), parent)
            item.inputs += self._inner(node, graphs, parent)
        self._items[node] = self._diagram.add(item, parent)

    def _inner(self, node: Node, graphs: dict[str, Graph], parent: int) -> list[int]:
        """The graphs of a loop or condition, each a group; what they give."""
        given = [i for i in node.inputs if isinstance(i, Node)]
        results = []
        for key, graph in graphs.items():
            inside = self._diagram.add(Group(key.removesuffix("_graph"), "control", where=node.line), parent)
            outer = given[len(given) - len(graph.inputs) :]
            for own, source in zip(graph.inputs, outer, strict=False):
                if source in self._pills:
                    self._pills[own] = self._pills[source]
                else:
                    self._items[own] = self._items[source]
            for inner in graph:
                if inner.op is Leaf and inner in self._pills.keys() | self._items.keys():
                    continue
                if inner.op is Pick:
                    self._items[inner] = self._items[inner.inputs[0]]
                elif inner.op is Leaf:
                    self._leaf(inner, inside, False)
                else:
                    self._op(inner, inside, False)
            results += [self._items[picked(o)] for o in graph.outputs if picked(o) in self._items]
        return results


def picked(node: Node) -> Node:
    """The node itself, or the one that it is a result of."""
    found: Node = node.inputs[0] if node.op is Pick else node
    return found


def _types(type_: Any) -> tuple[list[str], list[str]]:
    """Shapes, and types in words."""
    types = (type_,) if isinstance(type_, TensorType) or not isinstance(type_, tuple) else type_
    shapes = [shape_text(t.shape) if isinstance(t, TensorType) else type_text(t) for t in types]
    named = [
        f"{str(t.dtype).rpartition('.')[2]} {s}" if isinstance(t, TensorType) else s
        for t, s in zip(types, shapes, strict=True)
    ]
    return shapes, named


def _is_loop(diagram: Diagram, members: list[int], period: int) -> bool:
    """Whether each turn uses something of the one before, and all read the same parameters."""
    read = [_learned(diagram, members[i : i + period]) for i in range(0, len(members), period)]
    return hands_on(diagram, members, period) and all(one == read[0] for one in read)


def _learned(diagram: Diagram, turn: list[int]) -> list[int]:
    items = (item for member in turn for item in diagram.inside(member))
    return [id(p) for item in items for p in item.parameters if p.learns]


def _fold_lines(diagram: Diagram, group: Group) -> None:
    """Make groups of the ops of one line that follow one another."""
    lines = [element.where for element in map(diagram.elements.__getitem__, group.members)]
    if group.period and len(set(lines[: group.period])) == 1:
        group.name, group.kind = code_of(group.where) or group.name, "loop"
        return
    if group.period:
        return
    runs: list[list[int]] = []
    for place, member in enumerate(group.members):
        element = diagram.elements[member]
        is_same = bool(runs) and place > 0 and lines[place] == lines[place - 1] and isinstance(element, Item)
        if isinstance(element, Item) and element.kind == "op" and element.where:
            if (
                is_same
                and isinstance(diagram.elements[runs[-1][-1]], Item)
                and runs[-1][-1] == group.members[place - 1]
            ):
                runs[-1].append(member)
            else:
                runs.append([member])
    for run in runs:
        if LEAST_OF_LINE <= len(run) < len(group.members):
            where = diagram.elements[run[0]].where
            diagram.move_into(Group(code_of(where) or where, "line", where=where), run, 0)


def code_of(where: str) -> str:
    """The text of a line of code, "" if it cannot be read."""
    path, _, line = where.rpartition(":")
    return linecache.getline(path, int(line)).strip() if line.isdigit() else ""
