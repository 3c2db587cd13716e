"""Where the functions of `ops` become methods of Tensor.

At run time the class below is empty and filled by `method()`; the methods' types stand in `tensor_methods.pyi`, written
by `scripts/make_stubs.py` from the functions themselves, so that editors and mypy know `x.sin()`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class TensorMethods:
    """The methods that ops give to tensors."""

    __slots__ = ()


def method(fn: F, name: str | None = None) -> F:
    """Make a public function also a method of Tensor; its first argument is the tensor."""
    setattr(TensorMethods, name or fn.__name__, fn)
    return fn
