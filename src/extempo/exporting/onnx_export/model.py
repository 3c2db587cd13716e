"""program.to_onnx: a whole program as an ONNX model, checked by `onnx` and written to a file."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._version import __version__
from ...errors import ExportError
from .builder import Block, Builder, OnnxValue
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


def onnx_model(program: Program, opset_version: int) -> Any:
    """The program as an onnx.ModelProto, checked."""
    onnx = require_onnx()
    if opset_version not in OPSETS:
        raise ExportError(
            f"to_onnx: opset_version must be from {OPSETS[0]} to {OPSETS[-1]}, got {opset_version!r}; "
            f"leave it out for {OPSETS[-1]}"
        )
    outputs = [*program.outputs, *(f"{name}.new" for name in program.state)]
    b = Builder(onnx, opset_version, [*(spec.name for spec in program.inputs), *program.weights, *outputs])
    values: dict[Any, Any] = {}
    leaves = program.graph.inputs
    for leaf, spec in zip(leaves, program.inputs, strict=False):
        values[leaf] = b.add_input(spec.name, spec.type)
    for leaf, (name, weight) in zip(leaves[len(program.inputs) :], program.weights.items(), strict=True):
        if name in program.state:
            values[leaf] = b.add_input(name, leaf.type)
        else:
            values[leaf] = b.initializer(name, weight.detach().numpy())
    made = OnnxWalker(b, program.dims).walk(program.graph, values)
    for name, value, node in zip(outputs, made, program.graph.outputs, strict=True):
        b.main.nodes.append(onnx.helper.make_node("Identity", [value.name], [name], f"output_{name}"))
        b.main.outputs.append(OnnxValue(name, node.type.dtype, node.type.shape))
    return _finished(onnx, b, program, opset_version)


def _finished(onnx: Any, b: Builder, program: Program, opset_version: int) -> Any:
    b.main.nodes[:0] = b.head.nodes
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
    conditions = "; ".join(map(str, program.guards))
    if conditions:  # ONNX cannot refuse a size
        onnx.helper.set_model_props(model, {"sizes": conditions})
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


def write_onnx(program: Program, f: Any, opset_version: int) -> None:
    """Write the program to a path or a binary file."""
    write_model(onnx_model(program, opset_version), f)


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
