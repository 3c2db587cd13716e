"""A program as text, and back: one line for each input, weight and node, graphs of control flow indented below theirs.

    extempo program 1
    size batch 0 .. 64
    argument x ["tensor", 0]
    input %0 x: f32[batch, 4]
    weight %1 layer.weight: f32[3, 4] trainable
    %2 = linear(%0, %1, None) : f32[batch, 3]  # model.py:12
    return %2
    result ["tensor", 0]
    output output

Reading makes nodes and nothing else: values are numbers, texts, tuples, dtypes and sizes. What cannot be read is a
FileFormatError with its line.
"""

from __future__ import annotations

import ast
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..core.graph import Constant, Graph, Leaf, Node, Pick, node_lines, split_arguments, type_text, without_comment
from ..core.op import REGISTRY
from ..core.tensor import Tensor
from ..core.types import DTYPES, TensorType, dtype
from ..errors import ExportError
from ..ops.control_flow import Require
from ..serialization.files import FileFormatError
from .calls import Dim, ProgramInput, tensor_places
from .program import Program
from .sizes import Guard, SizeExpr, parse_guard, parse_size, size_from
from .storage import restored

VERSION = 1
MAX_LINE = 1_000_000
MAX_DEPTH = 40  # of graphs inside graphs
_SHORT = {d.short_name: d for d in DTYPES}


# ---- writing


def program_text(program: Program) -> str:
    """The text of a program, without the values of its weights."""
    lines = [f"extempo program {VERSION}"]
    for dim in program.dims.values():
        lines.append(f"size {dim.__name__} {dim.min} .. {'' if math.isinf(dim.max) else dim.max}".rstrip())
    for guard in program.guards:
        lines.append(f"guard {guard}  # {_short(guard.line)}")
    lines += [f"argument {_name_text(name)} {json.dumps(nesting)}" for name, nesting in program.arguments.items()]
    names = {node: f"%{i}" for i, node in enumerate(program.graph)}
    n_inputs = len(program.inputs)
    for i, (node, name) in enumerate(program.leaf_names.items()):
        kind, end = ("input", "") if i < n_inputs else ("weight", " trainable" if name in program.trainable else "")
        end += f" stored {program.storage[name]}" if i >= n_inputs and name in program.storage else ""
        lines.append(f"{kind} {names[node]} {_name_text(name)}: {type_text(node.type)}{end}")
    lines += node_lines(program.graph, names, "", _value_text, _short)
    lines.append(f"result {json.dumps(program.results)}")
    lines += [f"output {_name_text(name)}" for name in program.outputs]
    lines += [f"state {_name_text(name)}" for name in program.state]
    return "\n".join(lines) + "\n"


def _name_text(name: str) -> str:
    """A name as it is; one with signs that lines have a meaning for, in quotes."""
    return name if re.fullmatch(r"[\w.\-]+", name) else json.dumps(name)


def _read_name(text: str) -> tuple[str, str]:
    """The name at the beginning of a text, and what follows."""
    if not text.startswith('"'):
        found = re.match(r"[^\s:]+", text)
        name = found[0] if found else ""
        return name, text[len(name) :]
    name, end = json.JSONDecoder().raw_decode(text)
    return str(name), text[end:]


def _short(line: str) -> str:
    """`model.py:12`: where a file lies is nobody's business."""
    return os.path.basename(line)


def _value_text(value: Any) -> str:
    if isinstance(value, SizeExpr | dtype) or value is None or type(value) in (bool, int, float, str):
        return repr(value)
    if type(value) is tuple:
        return f"({', '.join(map(_value_text, value))}{',' if len(value) == 1 else ''})"
    if type(value) is list:
        return f"[{', '.join(map(_value_text, value))}]"
    if type(value) is dict:
        return "{" + ", ".join(f"{_value_text(k)}: {_value_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, TensorType):
        return _value_text(str(value))
    raise ExportError(f"save: a node has an attribute of type {type(value).__name__}, which has no text")


# ---- reading


class _ProgramLines:
    """The lines of a text, one after another, with their numbers for messages."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._at = 0

    def next(self) -> str:
        if self._at >= len(self._lines):
            raise self.wrong("the text ends too early")
        line = self._lines[self._at]
        self._at += 1
        if len(line) > MAX_LINE:
            raise self.wrong("the line is too long")
        return without_comment(line).strip()

    def peek(self) -> str:
        return without_comment(self._lines[self._at]).strip() if self._at < len(self._lines) else ""

    def wrong(self, why: str) -> FileFormatError:
        return FileFormatError(f"load_program: line {self._at} of the program: {why}")


def parse_program(text: str, weights: Mapping[str, Tensor]) -> Program:
    """The inverse of `program_text`, with the values of the weights."""
    lines = _ProgramLines(text)
    try:
        return _parse(lines, weights)
    except FileFormatError:
        raise
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, MemoryError) as error:
        raise lines.wrong(f"it cannot be read ({type(error).__name__}: {str(error)[:100]})") from None
    except ExportError as error:
        raise lines.wrong(str(error)[:200]) from None


def _parse(lines: _ProgramLines, weights: Mapping[str, Tensor]) -> Program:
    first = re.fullmatch(r"extempo program (\d{1,6})", lines.next())
    if first is None:
        raise lines.wrong("it should begin with `extempo program` and a version")
    if int(first[1]) > VERSION:
        raise lines.wrong(f"it has version {first[1]}, this Extempo reads up to {VERSION}; update Extempo")
    dims: dict[str, Dim] = {}
    guards: list[Guard] = []
    arguments: dict[str, Any] = {}
    inputs: list[ProgramInput] = []
    given: dict[str, Tensor] = {}
    trainable: list[str] = []
    storage: dict[str, str] = {}
    named: dict[str, Node] = {}
    leaves: list[Node] = []
    while lines.peek().split(" ")[0] in ("size", "guard", "argument", "input", "weight"):
        word, _, rest = lines.next().partition(" ")
        if word == "size":
            name, low, _, *high = rest.split(" ")
            dims[name] = Dim(name, min=int(low), max=int(high[0]) if high else None)
        elif word == "guard":
            guards.append(parse_guard(rest, "the exported code"))
        elif word == "argument":
            name, nesting = _read_name(rest)
            arguments[name] = _checked_nesting(json.loads(nesting), lines)
        else:
            reference, name, type_, is_trainable, kind = _leaf_line(rest, lines)
            named[reference] = Constant(Leaf, (), {}, type_, (), None)
            leaves.append(named[reference])
            if word == "input":
                inputs.append(ProgramInput(name, type_))
                continue
            weight = restored(name, type_, kind, weights)
            if weight is None or weight._type != type_:
                raise lines.wrong(f"the file has no weight {name!r} of type {type_text(type_)}")
            given[name] = weight
            trainable += [name] if is_trainable else []
            storage.update({name: kind} if kind else {})
    nodes, outputs = _nodes(lines, named, 0)
    results = _checked_nesting(json.loads(_after(lines, "result ")), lines)
    names: dict[str, list[str]] = {"output": [], "state": []}
    while lines.peek():
        word, _, name = lines.next().partition(" ")
        names[word].append(_read_name(name)[0])
    program = Program(
        Graph([*leaves, *nodes], outputs), arguments, inputs, given, results, names["output"], names["state"], dims,
        guards, trainable,
    )  # fmt: skip
    program.storage = storage
    _check(program, lines)
    return program


def _leaf_line(rest: str, lines: _ProgramLines) -> tuple[str, str, TensorType, bool, str]:
    reference, _, named = rest.partition(" ")
    name, end = _read_name(named)
    found = re.fullmatch(r": (\w+\[.*?\])( trainable)?(?: stored (int8|float16))?", end)
    if found is None or not re.fullmatch(r"%\d+", reference):
        raise lines.wrong("an input or weight should be `%0 name: f32[3]`")
    type_ = parse_type(found[1])
    if not isinstance(type_, TensorType):
        raise lines.wrong("an input or weight is a tensor")
    return reference, name, type_, found[2] is not None, found[3] or ""


def _after(lines: _ProgramLines, beginning: str) -> str:
    line = lines.next()
    if not line.startswith(beginning):
        raise lines.wrong(f"expected a line that begins with {beginning.strip()!r}")
    return line[len(beginning) :]


def _nodes(lines: _ProgramLines, named: dict[str, Node], depth: int) -> tuple[list[Node], list[Node]]:
    """Nodes up to the `return` of their graph, and what it returns."""
    if depth > MAX_DEPTH:
        raise lines.wrong("graphs are nested too deep")
    nodes: list[Node] = []
    while True:
        line = lines.next()
        if line == "return" or line.startswith("return "):
            return nodes, [_named(named, name, lines) for name in line[7:].split(", ") if name]
        found = re.fullmatch(r"(%\d+) = (\w+)\((.*)\) : (.*)", line)
        if found is None:
            raise lines.wrong("expected a node, `%2 = op(%0, %1) : f32[3]`, or `return`")
        node = _node(found[2], found[3], found[4], named, lines, depth)
        named[found[1]] = node
        nodes.append(node)


def _node(op_name: str, text: str, type_: str, named: dict[str, Node], lines: _ProgramLines, depth: int) -> Node:
    op = REGISTRY.get(op_name)
    if op is None or op is Leaf:
        raise lines.wrong(f"there is no op {op_name!r}; was the file written by a newer Extempo?")
    inputs, attrs = _arguments(text, named, lines)
    while found := re.fullmatch(r"(\w+)\((.*)\) \{", lines.peek()):
        lines.next()
        own: dict[str, Node] = {}
        for part in split_arguments(found[2]):
            reference, _, argument_type = part.partition(": ")
            own[reference] = Constant(Leaf, (), {}, parse_type(argument_type), (), None)
        arguments = list(own.values())
        inner, outputs = _nodes(lines, own, depth + 1)
        if lines.next() != "}":
            raise lines.wrong("expected the end of a graph, `}`")
        attrs[found[1]] = Graph([*arguments, *inner], outputs)
    node = Constant(op, tuple(inputs), attrs, parse_type(type_), (), None)
    if op is Pick:
        source, index = node.inputs[0], attrs["index"]
        if type(source.type) is not tuple or type(index) is not int or not 0 <= index < len(source.type):
            raise lines.wrong("a result is picked that there is not")
    if op.family == "control":
        _check_control(node, lines)
    return node


def _is_text(value: Any) -> bool:
    return type(value) is str


def _check_control(node: Node, lines: _ProgramLines) -> None:
    """The graphs of a control node take what it is given, and give what it gives."""
    if node.op is Require:
        messages = node.attrs.get("messages")
        if type(messages) is not tuple or len(messages) != len(node.inputs) - 1 or not all(map(_is_text, messages)):
            raise lines.wrong("a condition has no message")
        return
    graphs = {k: v for k, v in node.attrs.items() if isinstance(v, Graph)}
    wanted = {"cond": {"true_graph", "false_graph"}, "while_loop": {"cond_graph", "body_graph"}}
    n_inputs, n_results = len(node.inputs) - (node.op.name == "cond"), len(node.type)
    fits = set(graphs) == wanted.get(node.op.name, {"body_graph"}) and all(isinstance(i, Node) for i in node.inputs)
    for key, graph in graphs.items():
        n_outputs = 1 if key == "cond_graph" else n_results
        fits = fits and len(graph.inputs) == n_inputs and len(graph.outputs) == n_outputs
    counts = [node.attrs.get(k, 0) for k in ("n_carried", "n_xs")]
    fits = fits and all(type(n) is int and n >= 0 for n in counts) and sum(counts) <= n_inputs
    if node.op.name in ("scan", "map"):
        fits = fits and counts[1] >= 1 and counts[0] <= n_results and type(node.attrs.get("reverse")) is bool
    if node.op.name == "while_loop":
        fits = fits and counts[0] == n_results
    if not fits:
        raise lines.wrong(f"the graphs of {node.op.name} do not fit its inputs and results")


def _named(named: dict[str, Node], name: str, lines: _ProgramLines) -> Node:
    if name not in named:
        raise lines.wrong(f"{name[:40]} is used, and no line above defines it")
    return named[name]


def _arguments(text: str, named: dict[str, Node], lines: _ProgramLines) -> tuple[list[Any], dict[str, Any]]:
    inputs: list[Any] = []
    attrs: dict[str, Any] = {}
    for part in split_arguments(text):
        key = re.match(r"([A-Za-z_]\w*)=(?!=)", part)
        if part.startswith("%"):
            inputs.append(_named(named, part, lines))
        elif key:
            attrs[key[1]] = _literal(part[key.end() :])
        else:
            inputs.append(_literal(part))
    return inputs, attrs


def _literal(text: str) -> Any:
    try:
        return _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError, ArithmeticError):
        raise FileFormatError(f"load_program: {text[:80]!r} is no value of a program") from None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) in (bool, int, float, str, type(None)):
        return node.value
    if isinstance(node, ast.Tuple):
        return tuple(map(_value, node.elts))
    if isinstance(node, ast.List):
        return list(map(_value, node.elts))
    if isinstance(node, ast.Dict) and None not in node.keys:
        return {_value(k): _value(v) for k, v in zip(node.keys, node.values, strict=True) if k is not None}
    if isinstance(node, ast.Name) and node.id in ("inf", "nan"):
        return float(node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "extempo":
        return next(d for d in DTYPES if repr(d) == f"extempo.{node.attr}")
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _value(node.operand)
        return -number if type(number) in (int, float) else size_from(node)
    return size_from(node)


def parse_type(text: str) -> Any:
    """The inverse of `type_text`, with expressions of sizes."""
    text = text.strip()
    if text.startswith("("):
        if not text.endswith(")"):
            raise ValueError("a type without its end")
        return tuple(parse_type(part) for part in split_arguments(text[1:-1]))
    found = re.fullmatch(r"(\w+)\[(.*)\]", text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is no type")
    sizes = [parse_size(part) for part in split_arguments(found[2])]
    shape: tuple[Any, ...] = tuple(s if s.constant is None else s.constant for s in sizes)
    return TensorType(shape, _SHORT[found[1]])


_NESTINGS = {"tensor": int, "size": str, "tuple": list, "list": list, "dict": list, "ragged": list}


_RAGGED = ["tensor", "tensor", "value"]  # values, offsets and the ragged dimension


def _checked_nesting(nesting: Any, lines: _ProgramLines, depth: int = 0) -> Any:
    """A nesting in the form that `calls.nest` makes."""
    if type(nesting) is not list or len(nesting) != 2 or depth > MAX_DEPTH:
        raise lines.wrong("the nesting of an argument or result is not in the right form")
    kind, content = nesting
    if kind == "value" and (content is None or type(content) in (bool, int, float, str)):
        return nesting
    if type(kind) is not str or kind not in _NESTINGS or type(content) is not _NESTINGS[kind]:
        raise lines.wrong("the nesting of an argument or result is not in the right form")
    if kind == "size":
        parse_size(str(content))
    parts: list[Any] = content if type(content) is list else []
    for part in parts:
        if kind == "dict" and (type(part) is not list or len(part) != 2 or type(part[0]) not in (str, int)):
            raise lines.wrong("the nesting of a dict is not in the right form")
        _checked_nesting(part[1] if kind == "dict" else part, lines, depth + 1)
    if kind == "ragged" and ([part[0] for part in parts] != _RAGGED or type(parts[2][1]) is not int):
        raise lines.wrong("the nesting of a ragged tensor is not in the right form")
    return nesting


def _names_of(type_: Any) -> Iterable[str]:
    for size in type_.shape:
        if isinstance(size, SizeExpr):
            yield from size.names()


def _is_input_size(size: Any) -> bool:
    """A number, a name, or a name and a number that is added."""
    if not isinstance(size, SizeExpr):
        return True
    (factors, coefficient), *rest = size.terms
    is_name = len(factors) == 1 and isinstance(factors[0], str) and coefficient == 1
    return is_name and (not rest or (len(rest) == 1 and not rest[0][0] and type(rest[0][1]) is int))


def _check(program: Program, lines: _ProgramLines) -> None:
    """Parts of a program that refer to one another fit together."""
    taken = sorted(i for nesting in program.arguments.values() for i in tensor_places(nesting))
    given = sorted(tensor_places(program.results))
    n_results = len(program.graph.outputs) - len(program.state)
    if (
        taken != list(range(len(program.inputs)))
        or given != list(range(n_results))
        or n_results != len(program.outputs)
    ):
        raise lines.wrong("inputs, outputs and their names are not as many")
    if not all(_is_input_size(s) for spec in program.inputs for s in spec.type.shape):
        raise lines.wrong("a size of an input is more than a name and a number")
    bound = {n for spec in program.inputs for n in _names_of(spec.type)}
    used = {n for node in program.graph.inputs for n in _names_of(node.type)}
    used |= {n for guard in program.guards for side in (guard.left, guard.right) for n in side.names()}
    used |= set(program._runner._names)
    if not used <= bound or not bound <= set(program.dims):
        raise lines.wrong("a size is used that no input has")
