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

from ..core.graph import Constant, Graph, Leaf, Node, Pick, node_lines, type_text
from ..core.graph_text import GraphReader, split_arguments
from ..core.tensor import Tensor
from ..core.types import DTYPES, TensorType, dtype
from ..errors import ExportError
from ..ops.control_flow import Require, SizedOp
from ..serialization.files import FileFormatError
from .calls import Dim, ProgramInput, tensor_places
from .program import Program
from .sized_runs import is_in_order
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
    lines += node_lines(program.graph, names, "", value_text, _short)
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


def value_text(value: Any) -> str:
    if isinstance(value, SizeExpr | dtype) or value is None or type(value) in (bool, int, float, str):
        return repr(value)
    if type(value) is tuple:
        return f"({', '.join(map(value_text, value))}{',' if len(value) == 1 else ''})"
    if type(value) is list:
        return f"[{', '.join(map(value_text, value))}]"
    if type(value) is dict:
        return "{" + ", ".join(f"{value_text(k)}: {value_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, TensorType):
        return value_text(str(value))
    raise ExportError(f"save: a node has an attribute of type {type(value).__name__}, which has no text")


# ---- reading


class _ProgramReader(GraphReader):
    """Reads a program from a file of unknown origin: what is wrong with it is a FileFormatError with its line."""

    max_depth = MAX_DEPTH

    def __init__(self, text: str) -> None:
        super().__init__("")
        self._lines = text.split("\n")

    def wrong(self, why: str) -> FileFormatError:
        return FileFormatError(f"load_program: line {self.number} of the program: {why}")

    def ended(self) -> FileFormatError:
        return self.wrong("the text ends too early")

    def next(self) -> str:
        line = super().next()
        if len(self._lines[self.number - 1]) > MAX_LINE:
            raise self.wrong("the line is too long")
        return line

    def literal(self, text: str) -> Any:
        return _literal(text)

    def type(self, text: str) -> Any:
        return parse_type(text)

    def new_leaf(self, type_: Any) -> Node:
        return Constant(Leaf, (), {}, type_, (), None)

    def new_node(self, op: Any, inputs: tuple[Any, ...], attrs: dict[str, Any], type_: Any) -> Node:
        node = Constant(op, inputs, attrs, type_, (), None)
        if op is Pick:
            source, index = node.inputs[0], attrs["index"]
            if type(source.type) is not tuple or type(index) is not int or not 0 <= index < len(source.type):
                raise self.wrong("a result is picked that there is not")
        if op.family == "control":
            _check_control(node, self)
        return node


def parse_program(text: str, weights: Mapping[str, Tensor]) -> Program:
    """The inverse of `program_text`, with the values of the weights."""
    lines = _ProgramReader(text)
    try:
        return _parse(lines, weights)
    except FileFormatError:
        raise
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, MemoryError) as error:
        raise lines.wrong(f"it cannot be read ({type(error).__name__}: {str(error)[:100]})") from None
    except ExportError as error:
        raise lines.wrong(str(error)[:200]) from None


def _parse(lines: _ProgramReader, weights: Mapping[str, Tensor]) -> Program:
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
    nodes, outputs = lines.nodes(named)
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


def _leaf_line(rest: str, lines: _ProgramReader) -> tuple[str, str, TensorType, bool, str]:
    reference, _, named = rest.partition(" ")
    name, end = _read_name(named)
    found = re.fullmatch(r": (\w+\[.*?\])( trainable)?(?: stored (int8|float16))?", end)
    if found is None or not re.fullmatch(r"%\d+", reference):
        raise lines.wrong("an input or weight should be `%0 name: f32[3]`")
    type_ = parse_type(found[1])
    if not isinstance(type_, TensorType):
        raise lines.wrong("an input or weight is a tensor")
    return reference, name, type_, found[2] is not None, found[3] or ""


def _after(lines: _ProgramReader, beginning: str) -> str:
    line = lines.next()
    if not line.startswith(beginning):
        raise lines.wrong(f"expected a line that begins with {beginning.strip()!r}")
    return line[len(beginning) :]


def _is_text(value: Any) -> bool:
    return type(value) is str


def _check_control(node: Node, lines: _ProgramReader) -> None:
    """The graphs of a control node take what it is given, and give what it gives."""
    if node.op is Require:
        messages = node.attrs.get("messages")
        if type(messages) is not tuple or len(messages) != len(node.inputs) - 1 or not all(map(_is_text, messages)):
            raise lines.wrong("a condition has no message")
        return
    if issubclass(node.op, SizedOp):
        shape = node.type.shape if isinstance(node.type, TensorType) else ()
        if len(node.inputs) != 1 or set(node.attrs) != {"size"} or shape[:1] != (node.attrs["size"],):
            raise lines.wrong("a size that values decide does not fit its node")
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


def _checked_nesting(nesting: Any, lines: _ProgramReader, depth: int = 0) -> Any:
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


def _check(program: Program, lines: _ProgramReader) -> None:
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
    used |= {n for guard in program.guards for n in guard.names() - program._found}
    used |= set(program._runner._names)
    if not bound.isdisjoint(program._found) or not is_in_order(program.graph):
        raise lines.wrong("a size that values decide is used before it is known, or is another one's")
    if not used <= bound or not bound <= set(program.dims):
        raise lines.wrong("a size is used that no input has")
