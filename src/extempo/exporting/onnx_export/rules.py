"""The `onnx` aspects that are a word: how the node of such an op becomes ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...core.graph import Node
from .builder import Builder
from .emitter import Emitter
from .kernels import traced_kernel


def elementwise(b: Builder, node: Node, inputs: list[Any]) -> Any:
    """By what `lower` says of single elements."""
    return node.op.lower(Emitter(b), *inputs, **node.attrs)


def kernel(b: Builder, node: Node, inputs: list[Any]) -> Any:
    """By running the NumPy kernel on symbols."""
    return traced_kernel(b, node.op.numpy, inputs, node.attrs)


RULES: Mapping[str, Callable[[Builder, Node, list[Any]], Any]] = {"elementwise": elementwise, "kernel": kernel}
