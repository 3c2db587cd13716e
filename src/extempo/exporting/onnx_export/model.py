"""program.to_onnx: a whole program as an ONNX model, checked by `onnx` and written to a file."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._version import __version__
from ...core.types import TensorType
from ...errors import ExportError
from ..calls import ragged_inputs
from ..onnx_import.reading import BUFFERS
from .builder import Block, Builder, OnnxValue
from .padded_rows import add_padded_input, check_form, padded_output
from .walker import OnnxWalker

if TYPE_CHECKING:
    from ..program import Program

OPSETS = range(17, 22)
IR_VERSION = 10
_IN_ONE_FILE = 2**31 - 2**20  # protobuf writes no message beyond 2 GB


def require_onnx() -> Any:
    """The package `onnx`, or an error that says how to get it."""
    try:
        return importlib.import_module("onnx")
    except ImportError:
        raise ExportError(
            'to_onnx: the package onnx is missing; install it with the extra: pip install "extempo[onnx]"'
        ) from None


def onnx_model(program: Program, opset_version: int, ragged: str = "offsets") -> Any:
    """The program as an onnx.ModelProto, checked."""
    onnx = require_onnx()
    check_form(ragged)
    if opset_version not in OPSETS:
        raise ExportError(
            f"to_onnx: opset_version must be from {OPSETS[0]} to {OPSETS[-1]}, got {opset_version!r}; "
            f"leave it out for {OPSETS[-1]}"
        )
    names = [*program.outputs, *(f"{name}.new" for name in program.state)]
    b = Builder(onnx, opset_version, [*(spec.name for spec in program.inputs), *program.weights, *names])
    leaves = program.graph.inputs
    values: dict[Any, Any] = dict(zip(leaves, _inputs(b, program, ragged), strict=False))
    for leaf, (name, weight) in zip(leaves[len(program.inputs) :], program.weights.items(), strict=True):
        if name in program.state:
            values[leaf] = b.add_input(name, leaf.type)
        else:
            hold = b.named_constant if program._is_constant(name) else b.initializer
            values[leaf] = hold(name, weight.detach().numpy())
    made = OnnxWalker(b, [*program.dims, *sorted(program._found)]).walk(program.graph, values)
    for name, value, type_ in _outputs(b, program, names, made, ragged):
        b.main.nodes.append(onnx.helper.make_node("Identity", [value.name], [name], f"output_{name}"))
        b.main.outputs.append(OnnxValue(name, type_.dtype, type_.shape))
    return _finished(onnx, b, program, opset_version)


def _inputs(b: Builder, program: Program, form: str) -> list[OnnxValue]:
    """The values of the program's inputs, those of ragged ones in the form that is asked for."""
    specs = program.inputs
    ragged = ragged_inputs(program.arguments.values(), [spec.name for spec in specs]) if form == "padded" else ()
    of_values = {r.values: r for r in ragged}
    made: dict[int, OnnxValue] = {}
    for i, spec in enumerate(specs):
        if i in of_values:
            made |= add_padded_input(b, of_values[i], spec.type, specs[of_values[i].offsets].type)
        elif i not in made:
            made[i] = b.add_input(spec.name, spec.type)
    return [made[i] for i in range(len(specs))]


def _outputs(
    b: Builder, program: Program, names: list[str], values: Sequence[OnnxValue], form: str
) -> Iterator[tuple[str, OnnxValue, TensorType]]:
    """Name, value and type of each output of the model."""
    types = [node.type for node in program.graph.outputs]
    ragged = ragged_inputs([program.results], names) if form == "padded" else ()
    of_values = {r.values: r for r in ragged}
    offsets = {r.offsets for r in of_values.values()}
    for i, name in enumerate(names):
        if i in of_values:
            at = of_values[i].offsets
            yield from padded_output(b, of_values[i], values[i], values[at], (types[i], types[at]))
        elif i not in offsets:
            yield name, values[i], types[i]


def _finished(onnx: Any, b: Builder, program: Program, opset_version: int) -> Any:
    b.main.nodes[:0] = [*b.constants.nodes, *b.head.nodes]
    used = _without_unused(b.main)
    graph = b.graph(b.main, "program")
    graph.initializer.extend(i for i in b.initializers if i.name in used)
    model = onnx.helper.make_model(
        graph,
        opset_imports=[onnx.helper.make_opsetid("", opset_version)],
        ir_version=IR_VERSION,
        producer_name="extempo",
        producer_version=__version__,
    )
    fixed = [name for name in program.weights if name in used and name not in program.trainable]
    said = {
        "sizes": "; ".join(map(str, program.guards)),
        "conditions": "; ".join(b.conditions),
        BUFFERS: json.dumps([name for name in fixed if not program._is_constant(name)]) if fixed else "",
    }
    said = {key: text for key, text in said.items() if text}
    if said:  # ONNX can refuse neither a size nor a value
        onnx.helper.set_model_props(model, said)
    if model.ByteSize() < _IN_ONE_FILE:
        onnx.checker.check_model(model, full_check=True)
    return model


def _without_unused(block: Block) -> set[str]:
    """Leave out nodes whose results nobody reads; the names that are read."""
    used = {value.name for value in block.outputs}
    kept = []
    for node in reversed(block.nodes):
        if used.isdisjoint(node.output):
            continue
        kept.append(node)
        used.update(_names_read(node))
    block.nodes = kept[::-1]
    return used


def _names_read(node: Any) -> Iterator[str]:
    """The inputs of a node, and what its inner graphs read."""
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _names_read(inner)
        yield from (value.name for value in attribute.g.output)


def write_onnx(program: Program, f: Any, opset_version: int, ragged: str) -> None:
    """Write the program to a path or a binary file."""
    write_model(onnx_model(program, opset_version, ragged), f)


def write_model(model: Any, f: Any) -> None:
    """Write a model to a path or a binary file; weights beyond 2 GB go into a file beside it."""
    if not isinstance(f, str | os.PathLike):
        f.write(model.SerializeToString())
        return
    path = Path(f)
    if model.ByteSize() < _IN_ONE_FILE:
        path.write_bytes(model.SerializeToString())
        return
    require_onnx().save_model(model, os.fspath(path), save_as_external_data=True, location=path.name + ".data")
