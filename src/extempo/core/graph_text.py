"""Reading the text of graphs back: the one parser, of `Graph.parse` and of programs in files.

    graph(
      %0: f32[3] requires_grad
    ) {
      %1 = exp(%0) : f32[3]  # train.py:12
      return %1
    }

A graph inside of a node, the body of a loop or a branch, stands indented below it. `exporting/text.py` reads programs
by the same reader with other literals, sizes that have names, and limits for files of unknown origin.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from ..errors import GraphError
from .graph import Graph, Leaf, Node, leaf
from .op import REGISTRY, Op
from .types import TensorType, as_dtype

OpClass = type[Op]


class GraphReader:
    """The lines of a text, one after another, and the nodes that they say."""

    max_depth = 100  # of graphs inside graphs

    def __init__(self, text: str) -> None:
        self._lines = text.strip().split("\n")
        self.number = 0  # of the line that was read last

    # ---- what programs do otherwise

    def wrong(self, why: str) -> Exception:
        """The error for the line that was read last."""
        return GraphError(f"parse: line {self.number}: {why}")

    def literal(self, text: str) -> Any:
        """A number, text, tuple or dtype."""
        if match := re.fullmatch(r"extempo\.(\w+)", text):
            return as_dtype(match[1])
        if text in ("inf", "-inf", "nan"):
            return float(text)
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            raise self.wrong(
                f"{text!r} is no literal; only numbers, strings, tuples and dtypes can be read back"
            ) from None

    def type(self, text: str) -> Any:
        """The type of a node."""
        try:
            return parse_type(text)
        except (ValueError, KeyError):
            raise self.wrong(
                f"the type {text!r} is none of a tensor or number; sizes with names are those of a program, which "
                "Program.parse reads"
            ) from None

    def new_leaf(self, type_: Any) -> Node:
        return leaf(type_)

    def new_node(self, op: OpClass, inputs: tuple[Any, ...], attrs: dict[str, Any], type_: Any) -> Node:
        return Node(op, inputs, attrs, type_, (), None)

    # ---- lines

    def next(self) -> str:
        if self.number >= len(self._lines):
            raise self.ended()
        line = self._lines[self.number]
        self.number += 1
        return without_comment(line).strip()

    def ended(self) -> Exception:
        return GraphError(f"parse: the text ends in line {self.number}, before the graph does")

    def peek(self) -> str:
        return without_comment(self._lines[self.number]).strip() if self.number < len(self._lines) else ""

    # ---- graphs

    def graph(self) -> Graph:
        """A whole graph, as `str(graph)` writes it."""
        named: dict[str, Node] = {}
        while (line := self.next()) != ") {":
            if match := re.fullmatch(r"(%\d+): (\S.*?)( requires_grad)?", line):
                named[match[1]] = leaf(self.type(match[2]), match[3] is not None)
            elif line not in ("graph(", ""):
                raise self.wrong(f"it is neither a leaf, a node nor a return: {line!r}")
        leaves = list(named.values())
        nodes, outputs = self.nodes(named)
        self.end()
        graph = Graph([*leaves, *nodes], outputs)
        graph.verify()
        return graph

    def end(self) -> None:
        if self.next() != "}":
            raise self.wrong("expected the end of a graph, `}`")

    def nodes(self, named: dict[str, Node], depth: int = 0) -> tuple[list[Node], list[Node]]:
        """Nodes up to the `return` of their graph, and what it returns."""
        if depth > self.max_depth:
            raise self.wrong("graphs are nested too deep")
        nodes: list[Node] = []
        while True:
            line = self.next()
            if line == "return" or line.startswith("return "):
                return nodes, [self.named(named, name.strip()) for name in line[7:].split(",") if name.strip()]
            found = re.fullmatch(r"(%\d+) = (\w+)\((.*)\) : (.*)", line)
            if found is None:
                raise self.wrong(f"expected a node, `%2 = op(%0, %1) : f32[3]`, or `return`, got {line[:80]!r}")
            named[found[1]] = node = self._node(found[2], found[3], found[4], named, depth)
            nodes.append(node)

    def named(self, named: dict[str, Node], name: str) -> Node:
        if name not in named:
            raise self.wrong(f"{name[:40]} is used, and no line above defines it")
        return named[name]

    def _node(self, op_name: str, arguments: str, type_: str, named: dict[str, Node], depth: int) -> Node:
        op = REGISTRY.get(op_name)
        if op is None or op is Leaf:
            raise self.wrong(
                f"there is no op {op_name!r}: it is not registered; was the text written by a newer Extempo?"
            )
        inputs, attrs = self._arguments(arguments, named)
        while found := re.fullmatch(r"(\w+)\((.*)\) \{", self.peek()):
            self.next()
            own: dict[str, Node] = {}
            for part in split_arguments(found[2]):
                name, _, argument_type = part.partition(": ")
                own[name] = self.new_leaf(self.type(argument_type))
            given = list(own.values())
            inner, outputs = self.nodes(own, depth + 1)
            self.end()
            attrs[found[1]] = Graph([*given, *inner], outputs)
        return self.new_node(op, tuple(inputs), attrs, self.type(type_))

    def _arguments(self, text: str, named: dict[str, Node]) -> tuple[list[Any], dict[str, Any]]:
        inputs: list[Any] = []
        attrs: dict[str, Any] = {}
        for part in split_arguments(text):
            key = re.match(r"([A-Za-z_]\w*)=(?!=)", part)
            if part.startswith("%"):
                inputs.append(self.named(named, part))
            elif key:
                attrs[key[1]] = self.literal(part[key.end() :])
            else:
                inputs.append(self.literal(part))
        return inputs, attrs


def _outside_quotes(text: str) -> Iterator[tuple[int, str]]:
    """The characters that are no part of a text in quotes, with their places."""
    quote, escaped = "", False
    for i, c in enumerate(text):
        if quote:
            if c == quote and not escaped:
                quote = ""
            escaped = c == "\\" and not escaped
        elif c in "'\"":
            quote = c
        else:
            yield i, c


def split_arguments(text: str) -> list[str]:
    """Split at commas outside brackets and quotes."""
    parts, depth, start = [], 0, 0
    for i, c in _outside_quotes(text):
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [p for p in [*parts, text[start:].strip()] if p]


def without_comment(line: str) -> str:
    """A line up to the two spaces and the `#` that stand before a comment."""
    if "  # " not in line:
        return line
    return next((line[:i] for i, c in _outside_quotes(line) if c == " " and line.startswith("  # ", i)), line)


def parse_type(text: str) -> Any:
    """The inverse of `type_text`."""
    text = text.strip()
    if text.startswith("("):
        return tuple(parse_type(part) for part in split_arguments(text[1:-1]))
    numbers: dict[str, type] = {"float": float, "int": int, "bool": bool}
    return numbers[text] if text in numbers else TensorType.parse(text)
