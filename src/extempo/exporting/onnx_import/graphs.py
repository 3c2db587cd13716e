"""A graph of an ONNX file as steps in order: for each node the function of its operator, and where its arguments are.

Every value gets a key that is its own in the whole file, so that bodies of If, Loop and Scan read values from outside
by key, and functions that the file defines are put in place of their calls. What cannot run is refused here, before
anything runs, with the operator and the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.storage import Array
from ...core.tensor import Tensor, from_array
from ...core.types import dtype
from ...core.wording import counted, did_you_mean
from ...errors import ArgumentError, ExtempoError, UnsupportedError
from ...serialization.files import FileFormatError
from .host import RULES, on_host
from .operators import OPERATORS, REFUSED
from .reading import array_of, element_type
from .table import TENSOR_KINDS, Attribute, Operator

MAX_STEPS = 1_000_000  # functions that call functions twice each could grow without end
MAX_DEPTH = 50  # of graphs and functions inside others
DOMAINS = ("", "ai.onnx")
# What an attribute of each kind is called in the format, and its number there.
_ATTRIBUTES: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "float": (1, lambda a: float(a.f)),
    "int": (2, lambda a: int(a.i)),
    "Dtype": (2, lambda a: int(a.i)),
    "str": (3, lambda a: a.s.decode("utf-8", "replace")),
    "Array": (4, lambda a: a.t),
    "GraphBody": (5, lambda a: a.g),
    "Floats": (6, lambda a: [float(x) for x in a.floats]),
    "Ints": (7, lambda a: [int(x) for x in a.ints]),
    "Strings": (8, lambda a: [x.decode("utf-8", "replace") for x in a.strings]),
}


class Run(NamedTuple):
    """One call of the module: values by key, and whether it is in training mode."""

    values: dict[str, Any]  # tensors; arithmetic on sizes gives arrays
    training: bool


class NodeArgument(NamedTuple):
    """An input of a step: its kind, its key ("" where it is absent), and its value if the file has it."""

    kind: str
    key: str
    known: Any  # an array for a tensor that arithmetic on sizes may read, numbers for Ints and Floats


class GraphStep(NamedTuple):
    """One node: what to call with what, where results go, and which keys nobody reads after it."""

    operator: Operator
    label: str
    arguments: tuple[NodeArgument, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    opset: int
    drops: tuple[str, ...]


class GraphBody:
    """The steps of a graph, with the keys of its inputs and outputs and of what it reads from outside."""

    def __init__(self, name: str, inputs: Sequence[str], outputs: Sequence[str], steps: Sequence[GraphStep]) -> None:
        self.name = name
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.output_types: list[Any] = []  # as the file declares them
        made = {*inputs, *(key for step in steps for key in step.outputs)}
        read = {key for step in steps for key in keys_read(step)} | set(outputs)
        self.free = tuple(sorted(read - made))
        self.steps = _with_drops(steps, set(outputs))

    def run(self, outer: Run, given: Sequence[Any]) -> list[Any]:
        """The outputs for these inputs, inside the values of the graph around it."""
        values = {key: outer.values[key] for key in self.free}
        values.update(zip(self.inputs, given, strict=True))
        return [as_tensor(value) for value in self.run_steps(Run(values, outer.training))]

    def run_steps(self, run: Run) -> list[Any]:
        """Every step, on the values of this run."""
        values = run.values
        for step in self.steps:
            try:
                results = _results(step, run)
            except ExtempoError as error:
                raise _told(step, error) from error
            except MemoryError as error:
                raise MemoryError(f"from_onnx: {step.label}: {error}") from error
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, AssertionError) as error:
                message = f"from_onnx: {step.label}: its inputs or attributes do not fit together ({error})"
                raise ArgumentError(message) from error
            if len(results) < len(step.outputs):
                raise UnsupportedError(
                    f"from_onnx: {step.label} has {counted(len(step.outputs), 'output')}, of which only "
                    f"{len(results)} can be computed; export the model without the others"
                )
            for key, result in zip(step.outputs, results, strict=False):
                if key:
                    values[key] = result
            for key in step.drops:
                values.pop(key, None)
        return [values[key] for key in self.outputs]


def _told(step: GraphStep, error: ExtempoError) -> ExtempoError:
    """The same error with the node that it rose in; an inner node's own word stands."""
    text = str(error)
    if text.startswith("from_onnx: "):
        return error
    message = f"from_onnx: {step.label}: {text}"
    try:
        return type(error)(message)
    except TypeError:  # an error of a user's own, made in another way
        return ExtempoError(message)


def keys_read(step: GraphStep) -> Iterable[str]:
    """The keys that a step reads, those of its bodies included."""
    yield from (a.key for a in step.arguments if a.key and (a.known is None or a.kind in TENSOR_KINDS))
    for value in step.attributes.values():
        if isinstance(value, GraphBody):
            yield from value.free


def _with_drops(steps: Sequence[GraphStep], kept: set[str]) -> list[GraphStep]:
    later = set(kept)
    found: list[GraphStep] = []
    for step in reversed(steps):
        used = {*keys_read(step), *(key for key in step.outputs if key)}
        found.append(step._replace(drops=tuple(sorted(used - later))))
        later |= used
    return found[::-1]


# ---- running a step


def as_tensor(value: Any) -> Any:
    """A value as a tensor, if it is an array of sizes."""
    if type(value) is not np.ndarray:
        return value
    return from_array(value if value.dtype == bool else value.astype(np.int64))


def _results(step: GraphStep, run: Run) -> tuple[Any, ...]:
    values, op = run.values, step.operator
    if op.name in RULES:
        found = on_host(RULES[op.name], [_array(a, values) for a in step.arguments], step.attributes)
        if found is not None:
            return (found,)
    arguments = [_argument(a, values) for a in step.arguments]
    attributes = step.attributes
    if op.from_run:
        wanted = {"opset": step.opset, "n_outputs": len(step.outputs), "training": run.training, "scope": run}
        attributes = {**attributes, **{name: wanted[name] for name in op.from_run}}
    results: Any = op.function(*arguments, **attributes)
    return results if isinstance(results, tuple) else (results,)


def _array(argument: NodeArgument, values: Mapping[str, Any]) -> Any:
    """An input as an array, if it is one or known to be one."""
    if argument.known is None:
        return values.get(argument.key)
    return argument.known if argument.kind in TENSOR_KINDS else np.array(argument.known, np.int64)


def _argument(argument: NodeArgument, values: Mapping[str, Any]) -> Any:
    kind, key, known = argument
    if not key:
        return None
    if kind in TENSOR_KINDS:
        return values[key] if kind == "Value" else as_tensor(values[key])
    return numbers(values[key], kind) if known is None else known


def numbers(value: Any, kind: str) -> list[Any]:
    """A value as a flat list of Python numbers."""
    flat = (value.detach() if isinstance(value, Tensor) else value).reshape(-1).tolist()
    if kind == "Ints":
        return [x if type(x) is not float else int(x) for x in flat]
    return [float(x) for x in flat]


# ---- building


class Names:
    """The values that a graph or function can name, with their keys; "" for an input that is absent."""

    def __init__(self, outer: Names | None, opsets: Mapping[str, int], attributes: Mapping[str, Any]) -> None:
        self.outer = outer
        self.opsets = opsets
        self.attributes = attributes  # of the function around, by name
        self.keys: dict[str, str] = {}

    def find(self, name: str) -> str | None:
        names: Names | None = self
        while names is not None:
            if name in names.keys:
                return names.keys[name]
            names = names.outer
        return None


class ModuleBuilder:
    """Makes the steps of a model, and gathers what its values are known to be."""

    def __init__(self, model: Any, directory: str | None) -> None:
        self._directory = directory
        self._functions = {(f.domain, f.name): f for f in model.functions}
        self._taken: set[str] = set()
        self._n_steps = 0
        self._depth = 0
        self.initial: dict[str, Array] = {}  # initializers
        self.constants: dict[str, Array] = {}  # values of Constant nodes
        self.uses: dict[str, set[str]] = {}  # kinds of inputs that read a key
        opsets = {entry.domain: entry.version for entry in model.opset_import}
        self.body = self.graph(model.graph, Names(None, opsets, {}))

    def graph(self, graph: Any, names: Names) -> GraphBody:
        """The body of a graph whose names are to be put into `names`."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise FileFormatError(f"from_onnx: graphs or functions are nested deeper than {MAX_DEPTH}")
        if graph.sparse_initializer:
            raise UnsupportedError("from_onnx: sparse initializers are not supported; save the model with dense ones")
        held = {tensor.name: tensor for tensor in graph.initializer}
        for name, tensor in held.items():
            self.initial[self._define(names, name)] = array_of(tensor, self._directory)
        inputs = [self._define(names, i.name) for i in graph.input if i.name not in held]
        steps: list[GraphStep] = []
        self._nodes(graph.node, names, steps)
        outputs = [self._read(names, o.name, f"the graph {graph.name!r}", "Tensor") for o in graph.output]
        body = GraphBody(graph.name, inputs, outputs, steps)
        body.output_types = [o.type for o in graph.output]
        self._depth -= 1
        return body

    def _define(self, names: Names, name: str) -> str:
        if not name or name in names.keys:
            raise FileFormatError(f"from_onnx: the value {name!r} is computed twice, or has no name")
        key = name
        while key in self._taken:
            key += "_"
        self._taken.add(key)
        names.keys[name] = key
        return key

    def _read(self, names: Names, name: str, reader: str, kind: str) -> str:
        key = names.find(name)
        if key is None:
            raise FileFormatError(
                f"from_onnx: {reader} reads {name!r}, which no input, initializer or earlier node gives; "
                "onnx.checker.check_model tells what else is wrong with the file"
            )
        self.uses.setdefault(key, set()).add(kind)
        return key

    def _nodes(self, nodes: Iterable[Any], names: Names, steps: list[GraphStep]) -> None:
        for node in nodes:
            function = self._functions.get((node.domain, node.op_type))
            if function is not None:
                self._inline(node, function, names, steps)
                continue
            self._n_steps += 1
            if self._n_steps > MAX_STEPS:
                raise FileFormatError(
                    f"from_onnx: the model has more than {MAX_STEPS:,} nodes, those of functions included"
                )
            if node.op_type == "Constant" and node.domain in DOMAINS:
                self._constant(node, names)
            else:
                steps.append(self._step(node, names))

    def _inline(self, node: Any, function: Any, names: Names, steps: list[GraphStep]) -> None:
        """The nodes of a function that the file defines, in place of a call of it."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise FileFormatError(f"from_onnx: functions call each other deeper than {MAX_DEPTH}: {function.name}")
        attributes = {a.name: a for a in function.attribute_proto}
        attributes.update((a.name, a) for a in _attributes_of(node, names))
        inner = Names(None, {entry.domain: entry.version for entry in function.opset_import}, attributes)
        for i, name in enumerate(function.input):
            given = node.input[i] if i < len(node.input) else ""
            inner.keys[name] = self._read(names, given, _label(node), "Tensor") if given else ""
        self._nodes(function.node, inner, steps)
        for name, own in zip(node.output, function.output, strict=False):
            if name:
                if name in names.keys:
                    raise FileFormatError(f"from_onnx: the value {name!r} is computed twice")
                names.keys[name] = self._read(inner, own, f"the function {function.name!r}", "Tensor")
        self._depth -= 1

    def _constant(self, node: Any, names: Names) -> None:
        """A Constant: its value stands in the file, so it is no step."""
        found = {a.name: a for a in _attributes_of(node, names)}
        if len(node.output) != 1 or len(found) != 1:
            raise FileFormatError(f"from_onnx: {_label(node)} must have one value and one output")
        ((name, a),) = found.items()
        kinds: dict[str, tuple[str, type]] = {"value_int": ("int", np.int64), "value_ints": ("Ints", np.int64)}
        kinds |= {"value_float": ("float", np.float32), "value_floats": ("Floats", np.float32)}
        if name == "value":
            array = array_of(_value(node, Attribute(name, "Array", True), a), self._directory)
        elif name in kinds:
            kind, stored = kinds[name]
            array = np.array(_value(node, Attribute(name, kind, True), a), stored)
        else:
            raise UnsupportedError(
                f"from_onnx: {_label(node)}: the attribute {name!r} (strings, sparse tensors) is not supported; "
                "save the model with dense numbers"
            )
        self.constants[self._define(names, node.output[0])] = array

    def _step(self, node: Any, names: Names) -> GraphStep:
        op = _operator(node)
        label = _label(node)
        opset = names.opsets.get("", names.opsets.get("ai.onnx", 0))
        if not 1 <= opset < 2**31:
            raise FileFormatError(
                f"from_onnx: {label} is of ai.onnx, but the file names no version of that operator set"
            )
        given = list(node.input)
        while given and not given[-1]:
            given.pop()
        kinds = [*op.inputs, *[op.further] * (len(given) - len(op.inputs))]
        if len(given) < op.n_required or (not op.further and len(given) > len(op.inputs)):
            n = len(op.inputs)
            expected = f"at least {op.n_required}" if op.further else f"{op.n_required} to {n}"
            raise FileFormatError(f"from_onnx: {label} takes {expected} inputs, the file gives it {len(given)}")
        arguments = []
        for i, name in enumerate(given):
            kind = kinds[i]
            key = self._read(names, name, label, kind) if name else ""
            if not key and i < op.n_required:
                raise FileFormatError(f"from_onnx: {label}: its input {i} may not be left out")
            arguments.append(NodeArgument(kind, key, self._known(key, kind)))
        attributes = self._attributes(node, op, names, label)
        outputs = tuple(self._define(names, name) if name else "" for name in node.output)
        return GraphStep(op, label, tuple(arguments), outputs, attributes, opset, ())

    def _known(self, key: str, kind: str) -> Any:
        """What the file says the value is: for numbers always, for tensors only of int64, which may be sizes."""
        array = self.constants.get(key)
        if array is None:
            array = self.initial.get(key)
        if array is None:
            return None
        if kind in ("Ints", "Floats"):
            return numbers(array, kind)
        return array if array.dtype == np.int64 else None

    def _attributes(self, node: Any, op: Operator, names: Names, label: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for a in _attributes_of(node, names):
            spec = op.attributes.get(a.name)
            if spec is None:
                near = did_you_mean(a.name, op.attributes)
                raise UnsupportedError(
                    f"from_onnx: {label}: the attribute {a.name!r} is not supported{near}; "
                    "convert the file with onnx.version_converter.convert_version(model, 21)"
                )
            value = _value(node, spec, a)
            if spec.kind == "GraphBody":
                value = self.graph(value, Names(names, names.opsets, names.attributes))
            elif spec.kind == "Array":
                value = array_of(value, self._directory)
            elif spec.kind == "Dtype":
                value = _dtype(label, value)
            found[spec.keyword] = value
        missing = [name for name, spec in op.attributes.items() if spec.is_required and spec.keyword not in found]
        if missing:
            raise FileFormatError(f"from_onnx: {label} must have the attribute {missing[0]!r}")
        return found


def _operator(node: Any) -> Operator:
    label = _label(node)
    if node.domain not in DOMAINS:
        raise UnsupportedError(
            f"from_onnx: {label} is of the domain {node.domain!r}; only operators of ai.onnx and functions that the "
            "file itself defines are known, export the model without this one"
        )
    found = OPERATORS.get(node.op_type)
    if found is None:
        reason = REFUSED.get(node.op_type)
        if reason is None:
            near = did_you_mean(node.op_type, OPERATORS)
            reason = f"it is not known{near}; export the model with opset 21, or without this operator"
        raise UnsupportedError(f"from_onnx: the operator {label} is not supported: {reason}")
    return found


def _label(node: Any) -> str:
    """The operator of a node, and its name or that of its first output."""
    name = node.name or next((name for name in node.output if name), "")
    return f"{node.op_type} ({name!r})" if name else node.op_type


def _attributes_of(node: Any, names: Names) -> list[Any]:
    """The attributes of a node; those that refer to ones of the function around are replaced by them."""
    found = []
    for a in node.attribute:
        if not a.ref_attr_name:
            found.append(a)
        elif a.ref_attr_name in names.attributes:
            given = type(a)()
            given.CopyFrom(names.attributes[a.ref_attr_name])
            given.name = a.name
            found.append(given)
    return found


def _dtype(label: str, number: int) -> dtype | None:
    """The dtype of an element type; 0 stands for none."""
    try:
        return element_type(number) if number else None
    except UnsupportedError as error:
        raise UnsupportedError(f"from_onnx: {label}: {error}") from None


def _value(node: Any, spec: Attribute, a: Any) -> Any:
    number, read = _ATTRIBUTES[spec.kind]
    if a.type != number:
        raise FileFormatError(f"from_onnx: {_label(node)}: the attribute {a.name!r} must be of type {spec.kind}")
    return read(a)
