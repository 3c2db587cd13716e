"""The `onnx` aspects that are a word: how the node of such an op becomes ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...core.graph import Node
from . import control
from .emitter import OnnxEmitter
from .kernels import traced_kernel

if TYPE_CHECKING:
    from .walker import OnnxWalker

Rule = Callable[["OnnxWalker", Node, list[Any]], Any]


def elementwise(walker: OnnxWalker, node: Node, inputs: list[Any]) -> Any:
    """By what `lower` says of single elements."""
    return node.op.lower(OnnxEmitter(walker.b), *inputs, **node.attrs)


def kernel(walker: OnnxWalker, node: Node, inputs: list[Any]) -> Any:
    """By running the NumPy kernel on symbols."""
    return traced_kernel(walker.b, node.op.numpy, inputs, node.attrs)


RULES: Mapping[str, Rule] = {"elementwise": elementwise, "kernel": kernel, "control": control.converted}
