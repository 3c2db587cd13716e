"""`torch.onnx`: what libraries do with it while they load, and ask while they run. Nothing is exported here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_F = TypeVar("_F")


def is_in_onnx_export() -> bool:
    """No export is on its way."""
    return False


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int, **kwargs: Any) -> None:
    """How an op would be written in ONNX: nobody asks."""


unregister_custom_op_symbolic = register_custom_op_symbolic


def parse_args(*arg_descriptors: str) -> Callable[[_F], _F]:
    """A decorator of such functions, which hands them back."""
    return lambda function: function
